"""The sparse text parser and writer: what is read, what is refused and where, and a differential fuzz test."""

from __future__ import annotations

import gzip
import itertools
import random
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, example, given
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from labelprism import _core, _reference
from labelprism.data import (
    DataFormatError,
    Dataset,
    files,
    load,
    read_svmlight,
    read_xc,
    write_svmlight,
    write_xc,
)

CORPUS = Path(__file__).resolve().parents[1] / "corpus" / "sparse_text"


def rows_of(matrix: sp.csr_array) -> list[dict[int, float]]:
    return [
        dict(zip(matrix.indices[a:b].tolist(), matrix.data[a:b].tolist(), strict=True))
        for a, b in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
    ]


def labels_of(data: Dataset) -> list[list[int]]:
    return [sorted(row) for row in rows_of(data.Y)]


def write(folder: Path, text: str | bytes, name: str = "data.txt") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# ------------------------------------------------------------------------------------------------------------ reading


def test_xc_file(tmp_path: Path) -> None:
    data = read_xc(write(tmp_path, "4 6 5\n0,4 0:1.5 5:-2e-3\n 3:1\n2\n\n"))
    assert data.X is not None
    assert (data.X.shape, data.Y.shape) == ((4, 6), (4, 5))
    assert rows_of(data.X) == [{0: 1.5, 5: float(np.float32(-2e-3))}, {3: 1.0}, {}, {}]
    assert labels_of(data) == [[0, 4], [], [2], []]


def test_svmlight_file_like_scikit_learn(tmp_path: Path) -> None:
    path = write(tmp_path, "# a comment\n3,1 1:0.5 7:2 # more\r\n\n0\t2:1e2\n1:4\n")
    data = read_svmlight(path)
    X, labels = load_svmlight_file(str(write(tmp_path, "3,1 1:0.5 7:2\n0 2:1e2\n 1:4\n", "their.txt")), multilabel=True)
    assert data.X is not None
    assert (X.astype(np.float32) != data.X).nnz == 0
    assert labels_of(data) == [sorted(map(int, row)) for row in labels]


def test_features_numbered_from_one(tmp_path: Path) -> None:
    path = write(tmp_path, "0 1:1 3:3\n")
    for zero_based, expected in (("auto", {0: 1, 2: 3}), (False, {0: 1, 2: 3}), (True, {1: 1, 3: 3})):
        data = read_svmlight(path, zero_based=zero_based)  # type: ignore[arg-type]
        assert data.X is not None
        assert rows_of(data.X) == [expected]
        assert data.n_features == max(expected) + 1
    with_header = read_svmlight(write(tmp_path, "1 4 1\n0 1:1 3:3\n", "header.txt"))
    assert with_header.n_features == 4
    with pytest.raises(ValueError, match="zero_based must be True or False"):
        read_svmlight(path, n_features=9)
    assert read_svmlight(path, n_features=9, n_labels=7, zero_based=False).Y.shape == (1, 7)
    assert read_svmlight(path, n_features=9, zero_based=False).n_features == 9


def test_booleans_and_counts_of_numpy(tmp_path: Path) -> None:
    path = write(tmp_path, "0 1:1 3:3\n")
    for zero_based, expected in ((np.False_, {0: 1, 2: 3}), (np.True_, {1: 1, 3: 3})):
        data = read_svmlight(path, zero_based=zero_based, n_features=np.int64(6), n_labels=np.uint8(2))  # type: ignore[arg-type]
        assert data.X is not None
        assert rows_of(data.X) == [expected]
        assert (data.n_features, data.n_labels) == (6, 2)
    largest = read_svmlight(path, zero_based=True, n_features=2**31 - 1, n_labels=2**31 - 1)
    assert (largest.n_features, largest.n_labels) == (2**31 - 1, 2**31 - 1)


@pytest.mark.parametrize("zero_based", [0, 1, "foo", None, "True", 1.0, np.array([True, False])])
def test_other_numberings_are_refused(tmp_path: Path, zero_based: object) -> None:
    with pytest.raises(ValueError, match='zero_based must be True, False or "auto"'):
        read_svmlight(write(tmp_path, "0 1:1\n"), zero_based=zero_based)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [2.5, 3.0, 2**31, 2**63, -1, -3, "9", True, np.nan])
@pytest.mark.parametrize("name", ["n_features", "n_labels"])
def test_other_counts_are_refused(tmp_path: Path, name: str, count: object) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a whole number from 0 to 2147483647"):
        read_svmlight(write(tmp_path, "0 1:1\n"), zero_based=True, **{name: count})  # type: ignore[arg-type]


class RecordedBar:
    """Stands for a progress bar and keeps what it was told."""

    made: list[RecordedBar]

    def __init__(self, total: int | None, *_: object) -> None:
        self.total, self.done = total, 0
        self.made.append(self)

    def advance(self, amount: int = 1) -> None:
        self.done += amount

    def __enter__(self) -> RecordedBar:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_progress_ends_at_the_size_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    path = tmp_path / f"data.txt{suffix}"
    values = np.random.default_rng(0).random((3000, 50))
    write_svmlight(Dataset(X=values, Y=np.ones((3000, 1))), path)
    RecordedBar.made = []
    monkeypatch.setattr(files, "ProgressBar", RecordedBar)
    assert read_svmlight(path).n_rows == 3000
    assert [(bar.total, bar.done) for bar in RecordedBar.made] == [(path.stat().st_size, path.stat().st_size)]


def test_rows_come_out_sorted(tmp_path: Path) -> None:
    data = read_svmlight(write(tmp_path, "5,2,9 8:8 0:0.5 3:3\n"))
    assert data.X is not None
    assert (data.Y.indices.tolist(), data.X.indices.tolist()) == ([2, 5, 9], [0, 3, 8])
    assert data.X.data.tolist() == [0.5, 3.0, 8.0]


def test_byte_order_mark_crlf_and_missing_last_newline(tmp_path: Path) -> None:
    data = read_xc(write(tmp_path, b"\xef\xbb\xbf1 3 2\r\n1 2:0.25"))
    assert data.X is not None
    assert (rows_of(data.X), labels_of(data)) == ([{2: 0.25}], [[1]])


def test_blank_lines_after_the_last_row_are_no_rows(tmp_path: Path) -> None:
    assert read_xc(write(tmp_path, "1 3 2\n0 1:1\n\n \n# end\n")).n_rows == 1


MALFORMED = [
    ("0 1:1\n1 x:2\n", 2, "x:2", "whole number before"),
    ("0 1:1\n1 2:abc\n", 2, "2:abc", "not a finite decimal"),
    ("0 1:\n", 1, "1:", "not a finite decimal"),
    ("0 1:nan\n", 1, "1:nan", "not a finite decimal"),
    ("0 1:-inf\n", 1, "1:-inf", "not a finite decimal"),
    ("0 1:0x10\n", 1, "1:0x10", "not a finite decimal"),
    ("0 1:1e39\n", 1, "1:1e39", "too large for float32"),
    ("0 1:1e999999999999\n", 1, "1:1e999999999999", "too large for float32"),
    ("0 -3:1\n", 1, "-3:1", "negative"),
    ("0 2147483647:1\n", 1, "2147483647:1", "over 2147483646"),
    ("0 99999999999999999999999999:1\n", 1, "99999999999999999999999999:1", "over 2147483646"),
    ("0 1:1 1:2\n", 1, "1", "a feature twice"),
    ("0 3:1 1:2 3:1\n", 1, "3", "a feature twice"),
    ("0 3 1:2\n", 1, "3", "whole number before"),
    ("4,4 1:2\n", 1, "4", "a label twice"),
    ("-1 1:2\n", 1, "-1", "negative"),
    ("1.5 1:2\n", 1, "1.5", "not a whole number"),
    ("1,,2 1:2\n", 1, "1,,2", "expected a label"),
    ("1, 1:2\n", 1, "1,", "expected a label"),
    ("2147483647 1:2\n", 1, "2147483647", "over 2147483646"),
    ("cat 1:2\n", 1, "cat", "expected a label"),
    ("0 qid:3 1:2\n", 1, "qid:3", "whole number before"),
    ("3 2 2\n0 1:1\n", 2, None, "header says 3 rows, but the file holds 1"),
    ("1 2 2\n0 1:1\n1 0:1\n", 3, "1", "header says 1 rows, but here is one more"),
    ("1 2 2\n0 2:1\n", 2, "2:1", "feature 2 is out of range: expected 0 to 1; are the features"),
    ("1 2 2\n0 9:1\n", 2, "9:1", "feature 9 is out of range: expected 0 to 1$"),
    ("1 2 2\n2 1:1\n", 2, "2", "label 2 is out of range: there are 2"),
    ("1 9999999999 2\n2 1:1\n", 1, "1 9999999999 2", "more than 2147483647"),
]


@pytest.mark.parametrize(("text", "line", "token", "message"), MALFORMED)
def test_malformed_lines(tmp_path: Path, text: str, line: int, token: str | None, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(DataFormatError) as caught:
        read_svmlight(path)
    assert (caught.value.path, caught.value.line, caught.value.token) == (str(path), line, token)
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    with pytest.raises(DataFormatError, match=message):
        raise DataFormatError(caught.value.message)


def test_arguments_that_disagree_with_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "1 3 2\n0 1:1\n")
    with pytest.raises(DataFormatError, match="header says 3 features, but 4 were asked for"):
        read_svmlight(path, n_features=4, zero_based=True)
    with pytest.raises(DataFormatError, match="feature 0 in a file whose features are numbered from 1"):
        read_svmlight(write(tmp_path, "0 0:1\n"), zero_based=False)
    with pytest.raises(DataFormatError, match="label 5 is out of range"):
        read_svmlight(write(tmp_path, "5 0:1\n"), n_labels=5)


def test_a_missing_header(tmp_path: Path) -> None:
    with pytest.raises(DataFormatError, match="line 1: expected a header"):
        read_xc(write(tmp_path, "0 1:1\n"))
    with pytest.raises(DataFormatError, match="the file is empty; expected a header"):
        read_xc(write(tmp_path, ""))


def test_an_empty_file_is_no_data_set(tmp_path: Path) -> None:
    with pytest.raises(DataFormatError, match="no rows"):
        read_svmlight(write(tmp_path, "# nothing\n\n"))


def test_wrong_encodings(tmp_path: Path) -> None:
    for encoding in ("utf-16", "utf-32"):
        with pytest.raises(DataFormatError, match=r"line 1.*not ASCII or UTF-8"):
            read_svmlight(write(tmp_path, "0 1:1\n".encode(encoding)))
    assert read_svmlight(write(tmp_path, "0 1:1 # Käse\n".encode("latin-1"))).n_rows == 1


def test_truncated_compressed_file(tmp_path: Path) -> None:
    text = "".join(f"{i % 7} {i}:{i / 7}\n" for i in range(20_000)).encode()
    packed = gzip.compress(text)
    with pytest.raises(DataFormatError, match="truncated") as caught:
        read_svmlight(write(tmp_path, packed[: len(packed) // 2], "data.txt.gz"))
    assert caught.value.line is not None
    assert caught.value.line > 1000


def test_lines_longer_than_a_piece(tmp_path: Path) -> None:
    text = "1 " + " ".join(f"{i}:{i % 9 + 0.5}" for i in range(300_000)) + "\n0 0:1\n"
    assert len(text) > 2 << 20
    data = read_svmlight(write(tmp_path, text))
    assert data.X is not None
    np.testing.assert_array_equal(np.diff(data.X.indptr), [300_000, 1])
    np.testing.assert_array_equal(data.X.data[:300_000], np.arange(300_000) % 9 + 0.5)


def test_a_parser_whose_arrays_were_taken_takes_no_more() -> None:
    parser = _core.SparseTextParser()
    line = np.frombuffer(b"0 1:1\n", np.uint8)
    assert parser.feed(line)
    assert parser.finish()
    parser.take()
    assert not parser.feed(line)
    assert not parser.finish()
    assert parser.error is not None


# ------------------------------------------------------------------------------------------------------------ writing

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    n, d, c = draw(st.integers(1, 6)), draw(st.integers(1, 9)), draw(st.integers(1, 7))
    features = [draw(st.dictionaries(st.integers(0, d - 1), FLOATS)) for _ in range(n)]
    labels = [draw(st.sets(st.integers(0, c - 1))) for _ in range(n)]
    X, Y = sp.lil_array((n, d), dtype=np.float32), sp.lil_array((n, c), dtype=np.float32)
    for i in range(n):
        for j, value in features[i].items():
            X[i, j] = value
        for j in labels[i]:
            Y[i, j] = 1
    return Dataset(X=X.tocsr(), Y=Y.tocsr())


@given(data=datasets(), suffix=st.sampled_from(["", ".gz", ".xz", ".zst"]))
def test_xc_round_trip(tmp_path_factory: pytest.TempPathFactory, data: Dataset, suffix: str) -> None:
    path = tmp_path_factory.mktemp("xc") / f"data.txt{suffix}"
    write_xc(data, path)
    back = read_xc(path)
    assert (back.X.shape, back.Y.shape) == (data.X.shape, data.Y.shape)  # type: ignore[union-attr]
    for one, other in ((back.X, data.X), (back.Y, data.Y)):
        assert rows_of(one) == rows_of(other)


@given(data=datasets(), zero_based=st.booleans())
def test_svmlight_round_trip(tmp_path_factory: pytest.TempPathFactory, data: Dataset, zero_based: bool) -> None:
    path = tmp_path_factory.mktemp("svmlight") / "data.txt"
    assert data.X is not None
    if ((np.diff(data.X.indptr) == 0) & (np.diff(data.Y.indptr) == 0)).any():
        with pytest.raises(ValueError, match="neither labels nor features"):
            write_svmlight(data, path, zero_based=zero_based)
        assert not path.exists()
        return
    write_svmlight(data, path, zero_based=zero_based)
    back = read_svmlight(path, n_features=data.n_features, n_labels=data.n_labels, zero_based=zero_based)
    assert back.X is not None
    assert rows_of(back.X) == rows_of(data.X)
    assert rows_of(back.Y) == rows_of(data.Y)


@given(data=datasets(), header=st.booleans(), suffix=st.sampled_from(["", ".gz"]))
@example(data=Dataset(X=sp.csr_array([[0.0, 0.0, 2.0]]), Y=[[1]]), header=False, suffix="")
def test_load_gives_columns_back(
    tmp_path_factory: pytest.TempPathFactory, data: Dataset, header: bool, suffix: str
) -> None:
    """Nothing need be said to find every column where it was, whichever features happen to occur."""
    assert data.X is not None
    assume(header or not ((np.diff(data.X.indptr) == 0) & (np.diff(data.Y.indptr) == 0)).any())
    path = tmp_path_factory.mktemp("svmlight") / f"data.txt{suffix}"
    write_svmlight(data, path, header=header)
    back = load(path)
    assert back.X is not None
    assert (rows_of(back.X), rows_of(back.Y)) == (rows_of(data.X), rows_of(data.Y))
    assert (back.n_features == data.n_features) if header else (back.n_features <= data.n_features)  # type: ignore[operator]


def test_numbering_of_what_is_written(tmp_path: Path) -> None:
    data, path = Dataset(X=[[0.0, 2.0]], Y=[[1]]), tmp_path / "data.txt"
    for zero_based, header, expected in (
        (None, False, "0 2:2\n"),
        (False, False, "0 2:2\n"),
        (np.False_, False, "0 2:2\n"),
        (True, False, "0 1:2\n"),
        (None, True, "1 2 1\n0 1:2\n"),
        (True, True, "1 2 1\n0 1:2\n"),
    ):
        write_svmlight(data, path, zero_based=zero_based, header=header)  # type: ignore[arg-type]
        assert path.read_text() == expected
    for wrong in (False, np.False_):
        with pytest.raises(ValueError, match="zero_based=False does not go with header=True"):
            write_svmlight(data, path, zero_based=wrong, header=True)  # type: ignore[arg-type]
    for unknown in (0, 1, "auto", "foo"):
        with pytest.raises(ValueError, match="zero_based must be True, False or None"):
            write_svmlight(data, path, zero_based=unknown)  # type: ignore[arg-type]


def test_writing_needs_features(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no X"):
        write_xc(Dataset(Y=np.ones((1, 1)), texts=["a"]), tmp_path / "data.txt")


# --------------------------------------------------------------------------------------------------- against the twin


def native(text: bytes, cuts: list[int]) -> _reference.SparseText | int:
    """Parse with the native parser, fed in pieces; the number of the malformed line if there is one."""
    parser = _core.SparseTextParser()
    bytes_ = np.frombuffer(text, np.uint8)
    for piece in np.split(bytes_, sorted(min(cut, len(text)) for cut in cuts)):
        parser.feed(piece)
    if not parser.finish():
        assert parser.error is not None
        return parser.error[0]
    n_features, n_labels, had_header = parser.n_features, parser.n_labels, parser.had_header
    indptr, features, values, label_indptr, labels = parser.take()
    n = indptr.size - 1
    return _reference.SparseText(
        [labels[label_indptr[i] : label_indptr[i + 1]].tolist() for i in range(n)],
        [dict(zip(features[a:b].tolist(), values[a:b], strict=True)) for a, b in itertools.pairwise(indptr)],
        (n, n_features, n_labels) if had_header else None,
    )


def reference(text: bytes) -> _reference.SparseText | int:
    try:
        return _reference.parse_sparse_text(text)
    except _reference.MalformedError as malformed:
        return int(malformed.args[0])


def agree(text: bytes, cuts: list[int]) -> None:
    one, other = native(text, cuts), reference(text)
    assert one == other, (text, one, other)
    if isinstance(one, _reference.SparseText):  # -0.0 and 0.0 are equal but not the same
        for a, b in zip(one.features, other.features, strict=True):  # type: ignore[union-attr]
            assert list(a) == list(b)
            assert all(np.signbit(a[key]) == np.signbit(b[key]) for key in a)


PIECES = (
    *b"0123456789",
    *(b" ", b"\t", b"\n", b"\r\n", b":", b",", b".", b"-", b"+", b"e", b"E", b"#", b"\0", b"\xff", b"\xef\xbb\xbf"),
    *(b"1:1", b" 2:0.5", b"0,3", b"nan", b"inf", b"1e38", b"3.4028235e38", b"3.4028236e38", b"1e-46", b"1e400"),
    *(b"2147483646", b"2147483647", b"18446744073709551616", b"2 3 4\n", b"1 5 5\n", b"0.1000000014901161193847656251"),
)
SEEDS = [case[0].encode() for case in MALFORMED] + [
    b"3 6 5\n0,4 0:1.5 5:-2e-3\n 3:1\n2\n",
    b"1,2 3:4 5:6\n7 8:9 # x\n\n1:1\n",
    b"2 9 9\n\n 1:.5 2:5. 3:+1\n",
]


def mutate(text: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        at, kind = rng.randrange(len(text) + 1), rng.random()
        piece = rng.choice(PIECES)
        insert = bytes([piece]) if isinstance(piece, int) else piece
        if kind < 0.45:
            text = text[:at] + insert + text[at:]
        elif kind < 0.7:
            text = text[:at] + text[at + rng.choice((1, 1, 2, 5)) :]
        elif kind < 0.9:
            text = text[:at] + insert + text[at + len(insert) :]
        else:
            other = rng.randrange(len(text) + 1)
            text = text[:at] + text[min(at, other) : max(at, other)] + text[at:]
    return text[:400]


def test_fuzz_against_the_twin(long_run: bool) -> None:
    """Mutated files: never a crash, never another answer or another line than the twin's."""
    rng = random.Random(20)
    pool = list(SEEDS)
    accepted = 0
    n_inputs = 1_000_000 if long_run else 4_000
    for _ in range(n_inputs):
        text = mutate(rng.choice(pool), rng)
        agree(text, [rng.randrange(len(text) + 1) for _ in range(rng.choice((0, 1, 3)))])
        if not isinstance(reference(text), int):
            accepted += 1
            if len(pool) < 400 and rng.random() < 0.2:
                pool.append(text)  # valid files are the better ground for further mutations
    assert accepted > n_inputs / 50


@given(text=st.lists(st.sampled_from([bytes([p]) if isinstance(p, int) else p for p in PIECES])).map(b"".join))
def test_random_pieces_against_the_twin(text: bytes) -> None:
    agree(text, [len(text) // 2])


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*")), ids=lambda path: path.name)
def test_corpus(path: Path) -> None:
    """Inputs that once made a difference; `bad-N-*` is malformed at line N, `good-*` is not."""
    text = path.read_bytes()
    for cuts in ([], list(range(len(text)))):
        agree(text, cuts)
    kind, _, rest = path.name.partition("-")
    assert reference(text) == int(rest.split("-")[0]) if kind == "bad" else not isinstance(reference(text), int)


NUMBERS = st.one_of(
    FLOATS.map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"[+-]?([0-9]{1,25}\.?[0-9]{0,25}|\.[0-9]{1,50})([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    # just halfway between two neighbouring floats, and a little beside it
    st.integers(2**23, 2**24 - 1).flatmap(lambda m: st.sampled_from([f"{m}.5", f"{m}.49999999999", f"{m}.500000001"])),
)


@given(text=NUMBERS)
def test_numbers_are_rounded_once(text: str) -> None:
    parser = _core.SparseTextParser()
    parser.feed(np.frombuffer(f"0 0:{text}\n".encode(), np.uint8))
    expected = _reference.parse_float(text.encode())
    assert parser.finish() == bool(np.isfinite(expected))
    if np.isfinite(expected):
        assert parser.take()[2][0].tobytes() == expected.tobytes()
