"""Inputs of predictions, piece by piece: the same rows as the readers of whole files give."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from labelprism.data import (
    DataFormatError,
    Dataset,
    read_svmlight,
    read_xc,
    stream_matrix,
    stream_sparse_text,
    stream_texts,
    write_npz,
    write_svmlight,
    write_xc,
)


def written(folder: Path, content: str) -> Path:
    path = folder / "input"
    path.write_bytes(content.encode())
    return path


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("a ship\nthe sea\n", ["a ship", "the sea"]),
        ("\na ship\n\n", ["", "a ship", ""]),
        ("a ship\tship,sea\nthe sea\tsea\n", ["a ship", "the sea"]),
        ('{"text": "a ship", "labels": []}\n\n{"text": "the sea"}', ["a ship", "the sea"]),
        ("{a text in braces\n", ["{a text in braces"]),
        ("", []),
    ],
)
def test_the_first_line_tells_what_texts_are_in(tmp_path: Path, content: str, texts: list[str]) -> None:
    assert list(stream_texts(written(tmp_path, content))) == texts


def test_a_named_format_is_believed(tmp_path: Path) -> None:
    path = written(tmp_path, '{"text": "a\\tb"}\tx\n')
    assert list(stream_texts(path, "text")) == ['{"text": "a\\tb"}\tx']
    assert list(stream_texts(path, "tsv")) == ['{"text": "a\\tb"}']
    with pytest.raises(DataFormatError, match=r"input, line 1: invalid JSON"):
        list(stream_texts(path, "jsonl"))


def test_texts_under_another_key_and_compressed(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(gzip.compress(b'{"title": "a ship"}\n{"name": "x"}\n'))
    texts = stream_texts(path, text_key="title")
    assert next(texts) == "a ship"
    with pytest.raises(DataFormatError, match="line 2: the key 'title'"):
        next(texts)


def dense(pieces: Iterator[Any]) -> np.ndarray:
    return np.concatenate([piece.toarray() if sp.issparse(piece) else piece for piece in pieces])


@given(seed=st.integers(0, 10**6), rows_per_piece=st.integers(1, 8))
def test_pieces_are_the_rows_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, seed: int, rows_per_piece: int
) -> None:
    folder = tmp_path_factory.mktemp("stream")
    rng = np.random.default_rng(seed)
    X = sp.random_array((7, 5), density=0.3, rng=rng, dtype=np.float32, format="csr")
    Y = sp.csr_array(rng.random((7, 3)) < 0.4)
    dataset = Dataset(X=X, Y=Y)
    write_xc(dataset, folder / "xc.txt")
    write_npz(dataset, folder / "X.npz")
    np.testing.assert_array_equal(dense(stream_sparse_text(folder / "xc.txt", 5, rows_per_piece)), X.toarray())
    np.testing.assert_array_equal(dense(stream_matrix(folder / "X.npz", 5, rows_per_piece)), X.toarray())
    kept = Dataset(X=X[Y.sum(1) > 0], Y=Y[Y.sum(1) > 0])
    for zero_based in (False, True):
        path = folder / f"{zero_based}.svm"
        write_svmlight(kept, path, zero_based=zero_based)
        if kept.n_rows:
            found = dense(stream_sparse_text(path, 5, rows_per_piece, zero_based))
            np.testing.assert_array_equal(found, kept.X.toarray())  # type: ignore[union-attr]


def test_comments_blank_lines_and_rows_without_features(tmp_path: Path) -> None:
    path = written(tmp_path, "3 2 2\n# a comment\n0 1:2\n\n1 0:3 # another\n\n\n")
    for rows_per_piece in (1, 2, 10):
        np.testing.assert_array_equal(
            dense(stream_sparse_text(path, 2, rows_per_piece)),
            read_xc(path).X.toarray(),  # type: ignore[union-attr]
        )
    path = written(tmp_path, "# a comment\n\n0 1:2\n1 2:3\n")
    expected = read_svmlight(path, zero_based=False).X.toarray()  # type: ignore[union-attr]
    np.testing.assert_array_equal(dense(stream_sparse_text(path, 2, 1, zero_based=False)), expected)


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("2 3 2\n0 1:1\n0 7:1\n", 3, "feature 7 is out of range"),
        ("0 1:1\n0 1:1\n0 1:x\n", 3, "value"),
        ("0 1:1\n0 0:1\n", 2, "numbered from 1"),
        ("2 4 2\n0 1:1\n0 1:1\n", 1, "4 features, but 3"),
        ("3 3 2\n0 1:1\n0 1:1\n", 1, "3 rows, but there are 2"),
        ("1 3 2\n0 1:1\n0 1:1\n", 3, "fewer rows"),
    ],
)
def test_faults_have_their_line(tmp_path: Path, content: str, line: int, message: str) -> None:
    path = written(tmp_path, content)
    for rows_per_piece in (1, 5):
        with pytest.raises(DataFormatError, match=message) as caught:
            list(stream_sparse_text(path, 3, rows_per_piece, zero_based=False))
        assert caught.value.line == line


def test_numbering_must_be_known(tmp_path: Path) -> None:
    with pytest.raises(DataFormatError, match="zero_based must say"):
        list(stream_sparse_text(written(tmp_path, "0 1:1\n"), 3, 5))
    write_npz(Dataset(X=np.eye(2), Y=np.eye(2)), tmp_path / "X.npy")
    with pytest.raises(DataFormatError, match="2 features, but 3"):
        list(stream_matrix(tmp_path / "X.npy", 3, 5))
