"""A loaded model as the server asks it."""

from __future__ import annotations

import hashlib
import math
import time
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from labelprism import PrismClassifier, _core
from labelprism._arrays import Int32, csr_parts
from labelprism._weights import Float64
from labelprism.errors import ModelFormatError
from labelprism.features import TextFeatures
from labelprism.serve.errors import invalid
from labelprism.serve.sparse_rows import SparseRows
from labelprism.serve.text_rows import TextRows

Rows: TypeAlias = list[str] | SparseRows
_SIX_DECIMALS = np.float64(1e6)
_ALL_ALLOWED = np.zeros(0, np.uint8)


class Ranking(NamedTuple):
    """The best labels of n rows, best first; labels of -1, with scores of -inf, fill up rows that have fewer.

    Scores have six decimals: they are of the order of 1, and float32 has seven digits.
    """

    labels: Int32
    scores: Float64


class ServedModel:
    """A model, its version and its label names.

    Parameters
    ----------
    name : str
        What requests call it.
    path : str
        Its folder.
    n_threads : int
        Threads of the native code.
    """

    def __init__(self, name: str, path: str, n_threads: int) -> None:
        self.name, self.path = name, path
        self.identity = identity(path)
        content = (Path(path) / "meta.json").read_bytes()
        self.classifier: Any = PrismClassifier.load(path)
        self.classifier.set_params(n_jobs=n_threads)
        self.version = hashlib.sha256(content).hexdigest()[:12]
        self.loaded_at = time.time()
        self.names = [str(label) for label in self.classifier.classes_.tolist()]
        self.n_labels, self.n_features = len(self.names), int(self.classifier.n_features_in_)
        features = self.classifier.__dict__.get("features_")
        self.takes_texts = isinstance(features, TextFeatures)
        self._n_threads = n_threads
        self._model = self.classifier._model()
        self._recipe = self.classifier.__dict__.get("recipe_")
        if self.takes_texts:
            features.use_threads(n_threads)
            self._texts = TextRows(features, n_threads)

    def features_of(self, rows: Rows) -> SparseRows:
        """Return rows as the model takes them."""
        if not isinstance(rows, list):
            return rows
        if not self.takes_texts:
            raise invalid(
                f"the model {self.name} takes rows of {self.n_features} features, not texts; "
                "send rows with indices and values"
            )
        return self._texts.transform(rows)

    def rank(self, rows: Rows, k: int, likely: bool = False) -> Ranking:
        """Return the k best labels of each row.

        Parameters
        ----------
        rows : list of n str, or n SparseRows
        k : int
        likely : bool
            Whether scores are to be probabilities.

        Returns
        -------
        Ranking
            Arrays of shape (n, k), or fewer columns if there are fewer labels.
        """
        k = min(k, self.n_labels)
        if likely:
            return self._likely(self.features_of(rows).matrix(self.n_features), k)
        if self._recipe is None:
            return _rounded(*self._model.predict_topk(self.features_of(rows).matrix(self.n_features), k))
        # As `DefaultRecipe.predict_topk`, less the checks of what was checked when the request came.
        native, smallest = self._recipe._predictor, self._recipe._smallest
        if isinstance(rows, list) and self.takes_texts and self._texts.weigher is not None:
            found = native.predict_texts(self._texts.weigher, rows, k, smallest, self._n_threads)
            if found is not None:
                return _rounded(*found)
        return _rounded(*native.predict(*self.features_of(rows), k, smallest, _ALL_ALLOWED, self._n_threads))

    def _likely(self, X: sp.csr_array, k: int) -> Ranking:
        """Return the k best labels with their probabilities, which need the scores of all candidates of a row."""
        exclusive = self.classifier._target_format.is_exclusive
        blocks = []
        for _, scores in self._model.score_blocks(X):
            labels, best = _core.top_k_csr(*csr_parts(scores), k, self._n_threads)
            row_of = np.repeat(np.arange(labels.shape[0]), np.diff(scores.indptr))
            entry_of = sp.csr_array((np.arange(scores.nnz), (row_of, scores.indices)), shape=scores.shape)
            at = labels >= 0
            best[at] = self._model.probabilities(scores, exclusive)[entry_of[np.nonzero(at)[0], labels[at]]]
            blocks.append((labels, best))
        return _rounded(*(np.concatenate(part) for part in zip(*blocks, strict=True)))

    def candidates(self, rows: Rows) -> list[list[dict[str, Any]]]:
        """Return the candidates of each row with the filter's log-probabilities, the most probable first."""
        found = self._model.candidates(self.features_of(rows).matrix(self.n_features))
        lists = []
        for begin, end in zip(found.indptr[:-1], found.indptr[1:], strict=True):
            labels, values = found.indices[begin:end], found.data[begin:end]
            order = np.lexsort((labels, -values))
            pairs = zip(labels[order].tolist(), values[order].tolist(), strict=True)
            lists.append([{"label": a, "name": self.names[a], "log_probability": finite(b)} for a, b in pairs])
        return lists

    def explanation(self, rows: Rows, position: int, k: int) -> dict[str, Any]:
        """Return why one of the rows gets its labels, fit for JSON."""
        if self.takes_texts and not isinstance(rows, list):  # features of its own making, which it would make anew
            raise invalid("explain goes with texts where the model takes texts; send text or texts")
        row: Any = [rows[position]] if isinstance(rows, list) else rows.row(position).matrix(self.n_features)
        found = self.classifier.explain(row, min(k, self.n_labels))
        return {
            "paths": [
                [
                    {"node": step.node, "margin": finite(step.margin), "probability": finite(step.probability)}
                    for step in path
                ]
                for path in found.paths
            ],
            "labels": [
                {
                    "label": each.label,
                    "name": str(each.name),
                    "score": finite(each.score),
                    "parts": {part: finite(value) for part, value in each.parts.items()},
                    "log_probability": finite(each.log_probability),
                    "bias": finite(each.bias),
                    "features": [
                        {"feature": share.feature, "name": share.name, "value": finite(share.value)}
                        for share in each.features or ()
                    ],
                }
                for each in found.labels
            ],
        }

    def overview(self) -> dict[str, Any]:
        """Return what `GET /v1/models/NAME` tells."""
        return {
            "name": self.name,
            "version": self.version,
            "labels": self.n_labels,
            "features": self.n_features,
            "input": "texts" if self.takes_texts else "rows",
            "loaded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.loaded_at)),
        }


def _rounded(labels: Int32, scores: Any) -> Ranking:
    rounded = scores * _SIX_DECIMALS  # as np.round does it, which takes longer for a row than its ranking to JSON
    np.rint(rounded, out=rounded)
    rounded /= _SIX_DECIMALS
    return Ranking(labels, rounded)


def identity(path: str) -> tuple[int, int, int]:
    """Return what changes when a model folder is replaced."""
    file = Path(path) / "meta.json"
    try:
        status = file.stat()
    except FileNotFoundError as error:
        raise ModelFormatError("there is no model here: the file is missing", file) from error
    return status.st_ino, status.st_mtime_ns, status.st_size


def finite(value: float | None) -> float | None:
    """Return a number with the six digits that mean something; None for what JSON has no word for."""
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None
