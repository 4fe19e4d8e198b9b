"""Texts to hashed n-gram counts."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from labelprism import _core
from labelprism._arrays import Int64, check_whole
from labelprism._progress import ProgressBar
from labelprism._threads import thread_count

_TEXTS_PER_BATCH = 16_384
_MAX_BITS = 30
_MAX_INT = 2**31 - 1


class TextHasher(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Count word or character n-grams, hashed to 2**n_bits features.

    There is no vocabulary, so memory and the number of features are fixed beforehand, and texts can be transformed
    without a pass over the training set. Non-ASCII text is brought to Unicode's compatibility form (NFKC), so that
    different encodings of the same characters give the same features.

    A word is a run of letters, numbers, connectors such as "_" and the accents and vowel signs that follow them, in
    any script; Han and Hiragana characters, which are written without blanks, are a word each. Invisible format
    characters such as the soft hyphen are ignored.

    Parameters
    ----------
    n_bits : int, default=20
        There are 2**n_bits features, as in the paper; 1 to 30.
    analyzer : {"word", "char", "char_wb"}, default="word"
        Whether n-grams are made of words, of characters, or of characters inside words with a blank on both sides.
    ngram_range : (int, int), default=(1, 2)
        The smallest and the largest n.
    n_hashes : {1, 2}, default=1
        How many features an n-gram counts for. With two, and signs, a collision seldom hides an n-gram altogether.
    signed : bool, default=False
        Whether a bit of the hash decides if an n-gram counts +1 or -1, so that collisions cancel on average.
    lowercase : bool, default=True
        Whether case is folded, by Unicode's full case folding.
    min_word_length : int, default=1
        Shorter words are left out, in characters; ideographs never are. For `analyzer="word"`.
    keep_tokens : bool, default=False
        Whether `fit` counts the n-grams of its texts and keeps the most frequent one of every feature, so that
        `token_of` and `get_feature_names_out` can name features.
    n_jobs : int, optional
        Threads, as in scikit-learn. The result does not depend on it.

    Attributes
    ----------
    n_features_out_ : int
        2**n_bits.
    tokens_ : dict of int to str
        The most frequent n-gram of each feature that occurred in `fit`; with `keep_tokens=True` only.

    Examples
    --------
    >>> from labelprism.features import TextHasher
    >>> X = TextHasher(n_bits=10).fit_transform(["a seated old man", "an old seat"])
    >>> X.shape, X.nnz
    ((2, 1024), 11)
    """

    def __init__(
        self,
        n_bits: int = 20,
        *,
        analyzer: Literal["word", "char", "char_wb"] = "word",
        ngram_range: tuple[int, int] = (1, 2),
        n_hashes: Literal[1, 2] = 1,
        signed: bool = False,
        lowercase: bool = True,
        min_word_length: int = 1,
        keep_tokens: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.analyzer = analyzer
        self.ngram_range = ngram_range
        self.n_hashes = n_hashes
        self.signed = signed
        self.lowercase = lowercase
        self.min_word_length = min_word_length
        self.keep_tokens = keep_tokens
        self.n_jobs = n_jobs

    def fit(self, X: Iterable[str], y: object = None) -> TextHasher:
        """Check the parameters and, with `keep_tokens=True`, count the n-grams of the texts.

        Parameters
        ----------
        X : iterable of str, or a pandas or polars column
            The texts.
        y : ignored
        """
        options = self._options()
        texts = as_texts(X)
        if self.keep_tokens:
            table = _core.TokenTable()
            for utf8, offsets in self._batches(texts, "counting n-grams"):
                table.add(utf8, offsets, options)
            self.tokens_ = dict(table.names(options))
        self.n_features_out_ = 2**self.n_bits
        return self

    def transform(self, X: Iterable[str]) -> sp.csr_array:
        """Count the n-grams of every text.

        Parameters
        ----------
        X : iterable of str, or a pandas or polars column
            n texts.

        Returns
        -------
        csr_array of shape (n, 2**n_bits), float32
            Rows are sorted; a text without any n-gram is an empty row.
        """
        check_is_fitted(self)
        options, n_threads = self._options(), thread_count(self.n_jobs)
        parts = [
            sp.csr_array((data, indices, indptr), shape=(indptr.size - 1, 2**self.n_bits))
            for indptr, indices, data in (
                _core.hash_texts(utf8, offsets, options, n_threads)
                for utf8, offsets in self._batches(as_texts(X), "hashing texts")
            )
        ]
        if not parts:
            return sp.csr_array((0, 2**self.n_bits), dtype=np.float32)
        return parts[0] if len(parts) == 1 else sp.vstack(parts, format="csr")

    def fit_transform(self, X: Iterable[str], y: object = None) -> sp.csr_array:
        """Fit to the texts, then transform them; see `fit` and `transform`.

        Parameters
        ----------
        X : iterable of str, or a pandas or polars column
            n texts.
        y : ignored
        """
        texts = as_texts(X)  # an iterator can be read only once
        return self.fit(texts).transform(texts)

    def token_of(self, features: npt.ArrayLike) -> list[str | None]:
        """Return the most frequent n-gram of each feature; None for those that did not occur in `fit`.

        Parameters
        ----------
        features : array-like of int
            Columns of the transformed matrix.
        """
        self._require_tokens()
        return [self.tokens_.get(int(feature)) for feature in np.asarray(features).ravel()]

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return a name for every feature: its most frequent n-gram and its number, as in "old man #4711".

        Parameters
        ----------
        input_features : ignored
            Here because scikit-learn passes it.
        """
        check_is_fitted(self)
        tokens: dict[int, str] = getattr(self, "tokens_", {})
        names = (f"{tokens[i]} #{i}" if i in tokens else f"#{i}" for i in range(2**self.n_bits))
        return np.fromiter(names, dtype=object, count=2**self.n_bits)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = True
        return tags

    def _require_tokens(self) -> None:
        check_is_fitted(self)
        if not hasattr(self, "tokens_"):
            raise ValueError("features have no tokens; fit with keep_tokens=True")

    def _options(self) -> _core.HashOptions:
        """Check the parameters and return them as the native core takes them."""
        check_whole("n_bits", self.n_bits, 1, _MAX_BITS)
        if self.analyzer not in ("word", "char", "char_wb"):
            raise ValueError(f"analyzer must be 'word', 'char' or 'char_wb', got {self.analyzer!r}")
        check_whole("n_hashes", self.n_hashes, 1, 2)
        check_whole("min_word_length", self.min_word_length, 1, _MAX_INT)
        return _core.HashOptions(
            self.analyzer,
            _checked_range(self.ngram_range),
            self.n_bits,
            self.n_hashes,
            bool(self.signed),
            bool(self.lowercase),
            self.min_word_length,
        )

    def _batches(self, texts: list[str], description: str) -> Iterator[tuple[bytes, Int64]]:
        """Yield the texts as runs of UTF-8 with the offset of each text, ready for the native core."""
        with ProgressBar(len(texts), description, "texts") as bar:
            for begin in range(0, len(texts), _TEXTS_PER_BATCH):
                batch = texts[begin : begin + _TEXTS_PER_BATCH]
                encoded = _encoded(batch, begin)
                if self.lowercase:  # the native core folds characters one by one, which is enough for most texts
                    rows = _core.texts_to_fold(*_joined(encoded))
                else:
                    rows = [row for row, text in enumerate(batch) if not text.isascii()]
                for row in rows:
                    encoded[row] = _normalised(batch[row], self.lowercase).encode()
                yield _joined(encoded)
                bar.advance(len(batch))


def _checked_range(ngram_range: Any) -> tuple[int, int]:
    try:
        shortest, longest = ngram_range
        check_whole("n", shortest, 1, _MAX_INT)
        check_whole("m", longest, shortest, _MAX_INT)
    except (TypeError, ValueError) as error:
        message = f"ngram_range must be (n, m) with whole numbers 1 <= n <= m, got {ngram_range!r}"
        raise ValueError(message) from error
    return shortest, longest


def _encoded(batch: list[str], first_row: int) -> list[bytes]:
    try:
        return [text.encode() for text in batch]
    except UnicodeEncodeError as error:
        row = first_row + next(i for i, text in enumerate(batch) if text == error.object)
        raise ValueError(f"text {row} holds half of a surrogate pair and is no valid Unicode: {error}") from error


def _joined(encoded: list[bytes]) -> tuple[bytes, Int64]:
    """One run of bytes, and where each text begins and ends in it."""
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=offsets[1:])
    return b"".join(encoded), offsets


def _normalised(text: str, lowercase: bool) -> str:
    text = unicodedata.normalize("NFKC", text)
    return unicodedata.normalize("NFKC", text.casefold()) if lowercase else text


def as_texts(X: Any) -> list[str]:
    """Return texts as a list of str.

    Parameters
    ----------
    X : iterable of str or UTF-8 bytes, a pandas or polars column, or a data frame or array of one column
        A missing text (None, NaN) is an error: "" says that there is none.
    """
    if isinstance(X, (str, bytes)):
        raise ValueError("expected several texts, got a single string; put it into a list")
    if getattr(X, "ndim", 1) == 2 or (hasattr(X, "columns") and hasattr(X, "shape")):
        if X.shape[1] != 1:
            raise ValueError(f"expected one column of texts, got {X.shape[1]}; choose one, as in frame['text']")
        X = X.to_numpy()[:, 0] if hasattr(X, "to_numpy") else np.asarray(X)[:, 0]
    texts = X.to_list() if hasattr(X, "to_list") else list(X)
    for row, text in enumerate(texts):
        if type(text) is not str:
            texts[row] = _as_str(text, row)
    return texts


def _as_str(text: Any, row: int) -> str:
    if isinstance(text, str):  # numpy.str_ and other subclasses
        return str(text)
    if isinstance(text, bytes):
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"text {row} is bytes that are not UTF-8: {error}") from error
    raise ValueError(f"text {row} is {text!r}, not a string; fill in missing texts with ''")
