"""The data of the paper's tables: the original files where the user has them, folders of matrices, or synthetic data.

A source is one of

- a folder with X_trn.npz, Y_trn.npz, X_tst.npz and Y_tst.npz, scipy's sparse matrices;
- a folder with train.txt and test.txt (or others whose names end in train, trn, test or tst), in the format of the
  Extreme Classification Repository, such as WikiLSHTC-325K; compressed or not;
- a file in LIBSVM's format, such as `aloi` or `aloi.scale`, which has no split of its own: 90% of its rows, drawn with
  a fixed seed, are for training;
- `synthetic:aloi`, `synthetic:odp` or `synthetic:lshtc`: the shapes of `synthetic.py`, nine tenths for training.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.preprocessing import normalize
from synthetic import SHAPES, dense_data, sparse_data

from labelprism._arrays import as_label_matrix, is_sparse
from labelprism.data import read_svmlight, read_xc
from labelprism.data.dataset import as_features
from labelprism.features import HellingerMap

SYNTHETIC = "synthetic:"
SPLIT_SEED = 0
_TRAIN_SHARE = 0.9
_DENSE_SHARE = 0.4  # a sparse file with at least this share of non-zeros is held as a dense array
_TRAIN_NAME = re.compile(r"(^|[_.-])(train|trn)\.txt(\.(gz|xz|zst))?$")
_TEST_NAME = re.compile(r"(^|[_.-])(test|tst)\.txt(\.(gz|xz|zst))?$")


@dataclass(frozen=True)
class Split:
    """Examples to learn from and examples to test with; X (n, d) sparse or dense, Y (n, c) sparse."""

    name: str
    X: Any
    Y: sp.csr_array
    X_test: Any
    Y_test: sp.csr_array

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.X.shape[0]:,} + {self.X_test.shape[0]:,} examples, {self.X.shape[1]:,} features, "
            f"{self.Y.shape[1]:,} labels, {self.Y.nnz / self.Y.shape[0]:.2f} a row"
        )


def load_split(source: str) -> Split:
    """Return the data of a source, as it is there; see the top of this file."""
    if source.startswith(SYNTHETIC):
        return _synthetic(source)
    path = Path(source)
    if path.is_file():
        return _svmlight_file(path)
    if (path / "X_trn.npz").is_file():
        return _npz_folder(path)
    if path.is_dir():
        return _xc_folder(path)
    raise ValueError(f"there is no file or folder {source}; see benchmarks/paper_data.py for what a source can be")


def _synthetic(source: str) -> Split:
    name = source.removeprefix(SYNTHETIC)
    if name not in SHAPES:
        raise ValueError(f"there is no synthetic data called {name}; there are {', '.join(SHAPES)}")
    X, Y = dense_data(SHAPES[name]) if name == "aloi" else sparse_data(SHAPES[name])
    return _split_at_random(f"{name} (synthetic)", X, Y)


def _svmlight_file(path: Path) -> Split:
    data = read_svmlight(path)
    X: Any = data.X
    if X.nnz >= _DENSE_SHARE * X.shape[0] * X.shape[1]:
        X = X.toarray()
    return _split_at_random(path.name, X, data.Y)


def _split_at_random(name: str, X: Any, Y: sp.csr_array) -> Split:
    """Return nine tenths of the rows for training and the others for testing, always the same."""
    n = Y.shape[0]
    if n < 2:
        raise ValueError(f"{name} has {n} rows, which cannot be split into training and test rows")
    order = np.random.default_rng(SPLIT_SEED).permutation(n)
    n_train = min(n - 1, round(_TRAIN_SHARE * n))
    train, test = np.sort(order[:n_train]), np.sort(order[n_train:])
    return Split(name, X[train], Y[train], X[test], Y[test])


def _npz_folder(folder: Path) -> Split:
    X, Y, X_test, Y_test = (sp.load_npz(folder / f"{part}.npz") for part in ("X_trn", "Y_trn", "X_tst", "Y_tst"))
    return Split(folder.name, as_features(X), as_label_matrix(Y), as_features(X_test), as_label_matrix(Y_test))


def _xc_folder(folder: Path) -> Split:
    train, test = (read_xc(_only_file(folder, name)) for name in (_TRAIN_NAME, _TEST_NAME))
    if (train.n_features, train.n_labels) != (test.n_features, test.n_labels):
        raise ValueError(
            f"the headers of the files in {folder} disagree: {train.n_features} features and {train.n_labels} labels "
            f"for training, {test.n_features} and {test.n_labels} for testing"
        )
    return Split(folder.name, train.X, train.Y, test.X, test.Y)


def _only_file(folder: Path, pattern: re.Pattern[str]) -> Path:
    found = sorted(path for path in folder.iterdir() if pattern.search(path.name))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        wanted = "train.txt" if pattern is _TRAIN_NAME else "test.txt"
        raise ValueError(f"{folder} must hold X_trn.npz and its kin, or one file like {wanted}; found {names}")
    return found[0]


# ------------------------------------------------------------------------------------------------------- preparation


def first_labels(Y: sp.csr_array) -> sp.csr_array:
    """Return the label matrix with the first label of each row only; rows without labels stay empty."""
    Y = as_label_matrix(Y)
    has_label = np.diff(Y.indptr) > 0
    columns = Y.indices[Y.indptr[:-1][has_label]]
    indptr = np.concatenate([[0], np.cumsum(has_label)])
    return sp.csr_array((np.ones(columns.size, np.float32), columns, indptr), shape=Y.shape)


def one_label_a_row(split: Split) -> Split:
    """Reduce rows with several labels to their first, and leave rows without labels out: the multiclass tables."""
    kept, kept_test = (np.flatnonzero(np.diff(Y.indptr)) for Y in (split.Y, split.Y_test))
    return replace(
        split,
        X=_rows(split.X, kept),
        Y=first_labels(split.Y[kept]),
        X_test=_rows(split.X_test, kept_test),
        Y_test=first_labels(split.Y_test[kept_test]),
    )


def subsampled(split: Split, n_rows: int | None) -> Split:
    """Return at most so many training rows and as many test rows, drawn with a fixed seed."""
    if n_rows is None:
        return split
    rng = np.random.default_rng(SPLIT_SEED)
    train, test = (np.sort(rng.permutation(Y.shape[0])[:n_rows]) for Y in (split.Y, split.Y_test))
    return replace(split, X=split.X[train], Y=split.Y[train], X_test=split.X_test[test], Y_test=split.Y_test[test])


def of_frequent_labels(split: Split, n_labels: int | None) -> Split:
    """Return the rows that have any of the labels that most training rows have, with these labels alone."""
    if n_labels is None or n_labels >= split.Y.shape[1]:
        return split
    counts = np.bincount(split.Y.indices, minlength=split.Y.shape[1])
    kept = np.sort(np.argsort(-counts, kind="stable")[:n_labels])
    Y, Y_test = split.Y[:, kept], split.Y_test[:, kept]
    rows, test_rows = (np.flatnonzero(np.diff(labels.indptr)) for labels in (Y, Y_test))
    X, X_test = _rows(split.X, rows), _rows(split.X_test, test_rows)
    return replace(split, X=X, Y=Y[rows], X_test=X_test, Y_test=Y_test[test_rows])


def unit_rows(split: Split, hellinger: bool = False) -> Split:
    """Make the rows of sparse data unit, as the noise of the paper's trees wants them; dense data keep their norms.

    Parameters
    ----------
    split : Split
    hellinger : bool
        Whether values are counts, to be mapped as the paper maps token frequencies: square roots of their shares.
    """
    if not is_sparse(split.X):
        return split
    mapped = (HellingerMap().fit_transform(X) if hellinger else normalize(X) for X in (split.X, split.X_test))
    X, X_test = (as_features(X) for X in mapped)
    return replace(split, X=X, X_test=X_test)


def _rows(X: Any, rows: npt.NDArray[np.int64]) -> Any:
    return X if rows.size == X.shape[0] else X[rows]
