"""TextHasher against its twin and against scikit-learn."""

from __future__ import annotations

import unicodedata

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import make_pipeline

from labelprism import _reference
from labelprism.features import HellingerMap, TextHasher

TEXTS = ["A Seated Old Man", "old man, OLD woman; a_b c3", "", "İstanbul ǅ straße", "日本語のテキスト", "naïve café"]


def rows_of(X: object) -> list[dict[int, float]]:
    return [
        dict(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))  # type: ignore[attr-defined]
        for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)  # type: ignore[attr-defined]
    ]


def folded(text: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


# Characters of Unicode 3.2: every Python since has them, with hardly a change of class.
OLD_CHARACTERS = st.characters(exclude_categories=["Cs"]).filter(
    lambda c: unicodedata.ucd_3_2_0.category(c) not in ("Cn", "Co") and unicodedata.category(c) != "Cn"
)
TEXT = st.text(st.one_of(st.sampled_from("aB1 _-.\t\u00ad\u0301あ日ß"), OLD_CHARACTERS), max_size=30)


@given(
    texts=st.lists(TEXT, max_size=4),
    analyzer=st.sampled_from(["word", "char", "char_wb"]),
    shortest=st.integers(1, 4),
    more=st.integers(0, 3),
    bits=st.sampled_from([1, 3, 10, 20, 30]),
    n_hashes=st.sampled_from([1, 2]),
    signed=st.booleans(),
    min_word_length=st.integers(1, 3),
)
def test_equal_to_the_twin(
    texts: list[str],
    analyzer: str,
    shortest: int,
    more: int,
    bits: int,
    n_hashes: int,
    signed: bool,
    min_word_length: int,
) -> None:
    ngram_range = (shortest, shortest + more)
    hasher = TextHasher(
        bits,
        analyzer=analyzer,  # type: ignore[arg-type]
        ngram_range=ngram_range,
        n_hashes=n_hashes,  # type: ignore[arg-type]
        signed=signed,
        min_word_length=min_word_length,
    )
    expected = [
        _reference.hash_text(
            _reference.ngrams(folded(text), analyzer, ngram_range, min_word_length), bits, n_hashes, signed
        )
        for text in texts
    ]
    assert rows_of(hasher.fit_transform(texts)) == expected


@pytest.mark.parametrize("analyzer", ["word", "char_wb"])
def test_every_character_of_the_basic_plane(analyzer: str, long_run: bool) -> None:
    """A character means the same whether its text is folded natively or, because of another one, by Python."""
    characters = [chr(code) for code in range(0x80, 0xD800)] + [chr(code) for code in range(0xE000, 0x10000)]
    known = [c for c in characters if unicodedata.ucd_3_2_0.category(c) not in ("Cn", "Co")]
    texts = [f"a{c}B {c}" for c in (known if long_run else known[::7])]
    forced = [f"{text} cafe\u0301" for text in texts]  # a decomposed accent is never folded natively
    for batch in (texts, forced):
        X = TextHasher(30, analyzer=analyzer, ngram_range=(1, 1)).fit_transform(batch)  # type: ignore[arg-type]
        for text, row in zip(batch, rows_of(X), strict=True):
            grams = _reference.ngrams(folded(text), analyzer, (1, 1), 1)
            assert row == _reference.hash_text(grams, 30, 1, False), (text, hex(ord(text[1])))


def test_counts_like_scikit_learn() -> None:
    """Other hash, same words: the multiset of counts of each row agrees on ASCII text."""
    texts = ["the cat and the dog and the bird", "one two one", "x y z"] * 5
    ours = TextHasher(20, min_word_length=2).fit_transform(texts)
    theirs = HashingVectorizer(norm=None, alternate_sign=False, ngram_range=(1, 2)).transform(texts)
    assert [sorted(row.values()) for row in rows_of(ours)] == [sorted(row.values()) for row in rows_of(theirs)]


def words(text: str, **options: object) -> set[str]:
    hasher = TextHasher(24, ngram_range=(1, 1), keep_tokens=True, **options).fit([text])  # type: ignore[arg-type]
    return set(hasher.tokens_.values())


def test_unicode_words() -> None:
    assert words("Żółć ΣΊΣΥΦΟΣ Straße ﬁsh") == {"żółć", "σίσυφοσ", "strasse", "fish"}
    assert words("हिन्दी भाषा") == {"हिन्दी", "भाषा"}  # vowel signs belong to their word
    assert words("co\u00adoperate") == {"cooperate"}
    assert words("foo\u200bbar") == {"foo", "bar"}  # the zero width space splits words
    assert words("ab Ⓐcd") == {"ab", "acd"}
    assert words("wait…what Straße ½") == {"wait", "what", "strasse", "1", "2"}
    assert words("日本x") == {"日", "本", "x"}
    assert words("カタカナ 한국어") == {"カタカナ", "한국어"}
    assert words("don't stop_it 3.5") == {"don", "t", "stop_it", "3", "5"}
    assert words("Ab C", lowercase=False) == {"Ab", "C"}
    assert words("a bc 日", min_word_length=2) == {"bc", "日"}


def test_composed_and_decomposed_characters_are_the_same() -> None:
    X = TextHasher(20).fit_transform(["café", "cafe\u0301", "ＣＡＦÉ"])
    rows = rows_of(X)
    assert rows[0] == rows[1] == rows[2]
    assert len(rows[0]) == 1


def test_hashes_do_not_change_between_releases() -> None:
    """Models keep the columns; a change of the hash would silently ruin them."""
    X = TextHasher(20).fit_transform(["a seated old man"])
    assert X.indices.tolist() == [44884, 182878, 187327, 198238, 381944, 684720, 1023049]


def test_two_signed_hashes() -> None:
    one = TextHasher(20, signed=True).fit_transform(TEXTS)
    two = TextHasher(20, signed=True, n_hashes=2).fit_transform(TEXTS)
    assert two.nnz == 2 * one.nnz
    assert {-1.0, 1.0} <= set(two.data.tolist())


def test_many_texts_give_the_same_rows_with_any_number_of_threads() -> None:
    texts = [f"{TEXTS[i % 6]} number {i} of {i % 977}" for i in range(40_000)]
    one = TextHasher(18, n_jobs=1).fit_transform(texts)
    two = TextHasher(18, n_jobs=2).fit_transform(texts)
    assert (one != two).nnz == 0
    assert rows_of(one[39_990:]) == rows_of(TextHasher(18).fit_transform(texts[39_990:]))


def test_most_frequent_token_of_each_feature() -> None:
    texts = ["cat cat dog", "cat bird"]
    hasher = TextHasher(1, ngram_range=(1, 1), keep_tokens=True).fit(texts)
    counts = {"cat": 3, "dog": 1, "bird": 1}
    expected = {}
    for bucket in (0, 1):
        members = [w for w in counts if _reference.hash_ngram(w) % 2 == bucket]
        if members:
            expected[bucket] = min(members, key=lambda w: (-counts[w], w))
    assert hasher.tokens_ == expected
    assert hasher.token_of([0, 1]) == [expected.get(0), expected.get(1)]
    names = hasher.get_feature_names_out()
    assert names.shape == (2,)
    assert all(name == f"{expected[i]} #{i}" for i, name in enumerate(names) if i in expected)


def test_tokens_of_two_hashes_name_both_features() -> None:
    hasher = TextHasher(20, n_hashes=2, signed=True, ngram_range=(2, 2), keep_tokens=True)
    X = hasher.fit_transform(["old man"])
    assert hasher.token_of(X.indices) == ["old man", "old man"]


def test_pandas_and_polars_columns() -> None:
    expected = rows_of(TextHasher(12).fit_transform(TEXTS))
    inputs = [
        pd.Series(TEXTS, index=range(10, 16)),
        pd.Series(TEXTS, dtype="string"),
        pd.DataFrame({"text": TEXTS}),
        pl.Series(TEXTS),
        pl.DataFrame({"text": TEXTS}),
        np.array(TEXTS),
        np.array(TEXTS, dtype=object)[:, None],
        tuple(TEXTS),
        (text for text in TEXTS),
        [text.encode() for text in TEXTS],
    ]
    for texts in inputs:
        assert rows_of(TextHasher(12).fit_transform(texts)) == expected


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("a single text", "put it into a list"),
        (["a", None], "text 1 is None"),
        (pd.Series(["a", np.nan]), "text 1 is nan"),
        (pl.Series(["a", None]), "text 1 is None"),
        (["a", 3], "text 1 is 3"),
        ([b"\xff"], "text 0 is bytes that are not UTF-8"),
        (["ok", "\ud800"], "text 1 holds half of a surrogate pair"),
        (pd.DataFrame({"a": ["x"], "b": ["y"]}), "got 2; choose one"),
    ],
)
def test_bad_texts(texts: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TextHasher(8).fit_transform(texts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "parameters",
    [
        *({"n_bits": value} for value in (0, 31, 20.0, "a", None, True)),
        *({"ngram_range": value} for value in ((2, 1), (0, 1), 3, (1, 2.0), (1, 2, 3), "ab", None, (1, 2**40))),
        *({"min_word_length": value} for value in (0, -1, 1.5, "a", None, 2**40)),
        *({"n_hashes": value} for value in (3, 1.0, True)),
        {"analyzer": "letter"},
        {"n_jobs": 0},
    ],
)
def test_bad_parameters(parameters: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(parameters))):
        TextHasher(**parameters).fit_transform(["a"])  # type: ignore[arg-type]


def test_parameters_of_numpy() -> None:
    hasher = TextHasher(np.int64(12), ngram_range=np.array([1, 2]), min_word_length=np.uint8(1))  # type: ignore[arg-type]
    assert rows_of(hasher.fit_transform(TEXTS)) == rows_of(TextHasher(12).fit_transform(TEXTS))


def test_no_texts_and_empty_texts() -> None:
    assert TextHasher(8).fit_transform([]).shape == (0, 256)
    assert TextHasher(8).fit_transform(["", " ", "!?"]).nnz == 0


def test_clone_and_pipeline() -> None:
    pipeline = make_pipeline(clone(TextHasher(10, signed=True)), HellingerMap())
    X = pipeline.fit_transform(TEXTS)
    norms = np.sqrt(X.multiply(X).sum(axis=1))
    np.testing.assert_allclose(norms[[0, 1, 3, 4, 5]], 1, rtol=1e-6)
    assert norms[2] == 0


def test_tokens_must_be_asked_for() -> None:
    with pytest.raises(ValueError, match="keep_tokens=True"):
        TextHasher(8).fit(["a"]).token_of([0])
