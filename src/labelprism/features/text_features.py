"""Texts to weighted features in one transformer: hashing, then weights; what a model that takes texts keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from labelprism._arrays import Int64, check_whole
from labelprism.features.text import TextHasher, as_texts
from labelprism.features.weighting import HellingerMap, Tfidf

Arrays = dict[str, npt.NDArray[Any]]
Lengths = tuple[int, int]

_MOST_BITS = 30
_LONGEST = 16  # n-grams; a forged model must not ask for all the pieces of a long text
_MOST_THREADS = 1024
_TEXTS_NAMED = 200_000
_WEIGHTINGS = ("tfidf", "hellinger", "none")


class TextFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Hash the words and the pieces of words of texts, and weight them: `TextHasher`, then `Tfidf`.

    `PrismClassifier(features=TextFeatures())` takes texts and keeps these features in the model.

    Parameters
    ----------
    n_bits : int, default=18
        Words are hashed to 2**n_bits features, and so are characters beside them; 1 to 30.
    words : (int, int) or None, default=(1, 1)
        The smallest and the largest number of words in a feature; None for no words.
    characters : (int, int) or None, default=None
        The same of the characters in a piece of a word; None for no pieces.
    weighting : {"tfidf", "hellinger", "none"}, default="tfidf"
        Tf-idf with unit rows, the Hellinger map, or plain counts.
    keep_names : bool, default=False
        Whether `fit` keeps the most frequent n-gram of each feature, so that features can be named; of more than
        200,000 texts, so many are looked at.
    n_jobs : int, optional
        Threads, as in scikit-learn. The result does not depend on it.

    Attributes
    ----------
    n_features_out_ : int
        The number of features: 2**n_bits for words, 2**n_bits for characters.
    n_texts_ : int
        The number of texts in `fit`.

    Examples
    --------
    >>> from labelprism.features import TextFeatures
    >>> X = TextFeatures(n_bits=10).fit_transform(["a seated old man", "an old seat"])
    >>> X.shape, X.nnz
    ((2, 1024), 7)
    """

    def __init__(
        self,
        n_bits: int = 18,
        *,
        words: Lengths | None = (1, 1),
        characters: Lengths | None = None,
        weighting: Literal["tfidf", "hellinger", "none"] = "tfidf",
        keep_names: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.words = words
        self.characters = characters
        self.weighting = weighting
        self.keep_names = keep_names
        self.n_jobs = n_jobs

    def fit(self, X: Iterable[str], y: object = None) -> TextFeatures:
        """Learn the weights, and with `keep_names=True` the names.

        Parameters
        ----------
        X : iterable of str, or a pandas or polars column
            n texts.
        y : ignored
        """
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Iterable[str], y: object = None) -> sp.csr_array:
        """Fit to the texts, then transform them, which are hashed only once.

        Parameters
        ----------
        X : iterable of str, or a pandas or polars column
            n texts.
        y : ignored

        Returns
        -------
        csr_array of shape (n, n_features_out_), float32
        """
        texts = as_texts(X)  # an iterator can be read only once
        if not texts:
            raise ValueError("there are no texts to learn features from; at least one is needed")
        # Names from a sample: n-grams of many millions of texts would not fit into memory, and the frequent ones recur.
        named = texts[:: -(-len(texts) // _TEXTS_NAMED)]
        hashers = [hasher.fit(named) for hasher in self._hashers()]
        counts = _counted(hashers, texts)
        weights = self._weights()
        weighted = counts if weights is None else sp.csr_array(weights.fit_transform(counts))
        self._set_fitted(hashers, weights, len(texts))
        return weighted

    def transform(self, X: Iterable[str]) -> sp.csr_array:
        """Return the features of texts.

        Parameters
        ----------
        X : iterable of str, or a pandas or polars column
            n texts.

        Returns
        -------
        csr_array of shape (n, n_features_out_), float32
            Rows are sorted; a text without any n-gram is an empty row.
        """
        check_is_fitted(self, "hashers_")
        counts = _counted(self.hashers_, as_texts(X))
        if self.weights_ is None or counts.shape[0] == 0:
            return counts
        # What was hashed a moment ago need not be copied, sorted or searched for NaN once more.
        return sp.csr_array(self.weights_.transform(counts, **({"copy": False} if self.weighting == "tfidf" else {})))

    def token_of(self, features: npt.ArrayLike) -> list[str | None]:
        """Return the most frequent n-gram of each feature; None for those that did not occur in `fit`.

        Parameters
        ----------
        features : array-like of int
            Columns of the transformed matrix.
        """
        self._require_names()
        width = 2**self.n_bits
        columns = [int(column) for column in np.asarray(features).ravel()]
        for column in columns:
            if not 0 <= column < self.n_features_out_:
                raise ValueError(f"there is no feature {column}; features go from 0 to {self.n_features_out_ - 1}")
        return [self.hashers_[column // width].tokens_.get(column % width) for column in columns]

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return a name for every feature: its most frequent n-gram and its number, as in "old man #4711".

        Parameters
        ----------
        input_features : ignored
            Here because scikit-learn passes it.
        """
        self._require_names()
        names = [f"#{column}" for column in range(self.n_features_out_)]
        for block, hasher in enumerate(self.hashers_):
            for feature, token in hasher.tokens_.items():
                column = block * 2**self.n_bits + feature
                names[column] = f"{token} #{column}"
        return np.array(names, dtype=object)

    def use_threads(self, n_jobs: int | None) -> None:
        """Set `n_jobs` of fitted features, which are left as they are otherwise.

        Parameters
        ----------
        n_jobs : int, optional
        """
        check_is_fitted(self, "hashers_")
        self.set_params(n_jobs=n_jobs)
        for hasher in self.hashers_:
            hasher.set_params(n_jobs=n_jobs)

    # --------------------------------------------------------------------------------------- for the model directory

    def meta(self) -> dict[str, Any]:
        """Return what `from_arrays` needs beside the arrays, fit for JSON."""
        check_is_fitted(self, "hashers_")
        return {
            "n_bits": int(self.n_bits),
            "words": _as_list(self.words),
            "characters": _as_list(self.characters),
            "weighting": self.weighting,
            "keep_names": bool(self.keep_names),
            "n_jobs": None if self.n_jobs is None else int(self.n_jobs),
            "n_texts": self.n_texts_,
        }

    def arrays(self) -> Arrays:
        """Return all that was learned as flat arrays."""
        check_is_fitted(self, "hashers_")
        arrays: Arrays = {}
        if isinstance(self.weights_, Tfidf):
            arrays["idf"] = np.asarray(self.weights_.idf_, np.float32)
        if self.keep_names:
            arrays |= _packed_names([hasher.tokens_ for hasher in self.hashers_], 2**self.n_bits)
        return arrays

    @classmethod
    def from_arrays(cls, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> TextFeatures:
        """Make features of what `meta` and `arrays` returned; nothing in them is believed before it is checked.

        Parameters
        ----------
        meta : dict
        arrays : dict of str to array

        Raises
        ------
        ValueError
            If they are not what `meta` and `arrays` return.
        """
        expected = {"n_bits", "words", "characters", "weighting", "keep_names", "n_jobs", "n_texts"}
        if not isinstance(meta, Mapping) or set(meta) != expected:
            raise ValueError(
                f"the description of the text features must have the keys {sorted(expected)}; it has other"
            )
        features = cls(
            meta["n_bits"],
            words=_as_lengths(meta["words"]),
            characters=_as_lengths(meta["characters"]),
            weighting=meta["weighting"],
            keep_names=meta["keep_names"],
            n_jobs=meta["n_jobs"],
        )
        if features.n_jobs is not None:
            check_whole("n_jobs", abs(features.n_jobs) if type(features.n_jobs) is int else None, 1, _MOST_THREADS)
        check_whole("n_texts", meta["n_texts"], 1, 2**63 - 1)
        hashers = [hasher.fit([]) for hasher in features._hashers()]
        n_features = len(hashers) * 2**features.n_bits
        if features.keep_names:
            names = _unpacked_names(arrays, len(hashers), 2**features.n_bits)
            for hasher, tokens in zip(hashers, names, strict=True):
                hasher.tokens_ = tokens
        weights = features._weights()
        if isinstance(weights, Tfidf):
            weights.idf_ = _checked_idf(arrays, n_features)
        if weights is not None:
            weights.n_features_in_ = n_features
        features._set_fitted(hashers, weights, meta["n_texts"])
        return features

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags

    def _set_fitted(self, hashers: list[TextHasher], weights: Tfidf | HellingerMap | None, n_texts: int) -> None:
        self.hashers_, self.weights_, self.n_texts_ = hashers, weights, n_texts
        self.n_features_out_ = len(hashers) * 2**self.n_bits

    def _require_names(self) -> None:
        check_is_fitted(self, "hashers_")
        if not self.keep_names:
            raise ValueError("features have no names; fit with keep_names=True")

    def _hashers(self) -> list[TextHasher]:
        """Check the parameters, and return the hashers of words and of characters, those that are wanted."""
        check_whole("n_bits", self.n_bits, 1, _MOST_BITS)
        if self.weighting not in _WEIGHTINGS:
            raise ValueError(f"weighting must be one of {', '.join(_WEIGHTINGS)}, got {self.weighting!r}")
        if not isinstance(self.keep_names, (bool, np.bool_)):
            raise ValueError(f"keep_names must be True or False, got {self.keep_names!r}")
        if self.words is None and self.characters is None:
            raise ValueError("words and characters are both None; one of them is needed")
        analyzers: tuple[Literal["word", "char_wb"], ...] = ("word", "char_wb")
        return [
            TextHasher(
                self.n_bits,
                analyzer=analyzer,
                ngram_range=_checked_lengths(name, lengths),
                keep_tokens=bool(self.keep_names),
                n_jobs=self.n_jobs,
            )
            for name, analyzer, lengths in zip(
                ("words", "characters"), analyzers, (self.words, self.characters), strict=True
            )
            if lengths is not None
        ]

    def _weights(self) -> Tfidf | HellingerMap | None:
        if self.weighting == "tfidf":
            return Tfidf()
        return HellingerMap() if self.weighting == "hellinger" else None


def _counted(hashers: list[TextHasher], texts: list[str]) -> sp.csr_array:
    """Return the counts of all hashers side by side."""
    counts = [hasher.transform(texts) for hasher in hashers]
    return counts[0] if len(counts) == 1 else sp.csr_array(sp.hstack(counts, format="csr"))


def _checked_lengths(name: str, lengths: Any) -> Lengths:
    try:
        shortest, longest = lengths
        check_whole("n", shortest, 1, _LONGEST)
        check_whole("m", longest, shortest, _LONGEST)
    except (TypeError, ValueError) as error:
        message = f"{name} must be None or (n, m) with whole numbers 1 <= n <= m <= {_LONGEST}, got {lengths!r}"
        raise ValueError(message) from error
    return int(shortest), int(longest)


# ------------------------------------------------------------------------------------------- from and to flat arrays


def _as_list(lengths: Lengths | None) -> list[int] | None:
    return None if lengths is None else [int(length) for length in lengths]


def _as_lengths(lengths: Any) -> Any:
    """Return a list of JSON as the tuple it was; what is no list is left for the check to name."""
    return tuple(lengths) if isinstance(lengths, list) else lengths


def _checked_idf(arrays: Mapping[str, npt.NDArray[Any]], n_features: int) -> npt.NDArray[np.float32]:
    idf = _array(arrays, "idf", np.dtype(np.float32))
    if idf.size != n_features:
        raise ValueError(f"idf of the text features has {idf.size} values; {n_features} are expected")
    if not (np.isfinite(idf) & (idf > 0)).all():
        raise ValueError("idf of the text features must hold positive, finite values")
    return idf


def _packed_names(tokens_of_block: list[dict[int, str]], width: int) -> Arrays:
    """Return names as one run of UTF-8, with the length of each and the feature that it names."""
    named = sorted(
        (block * width + feature, token)
        for block, tokens in enumerate(tokens_of_block)
        for feature, token in tokens.items()
    )
    encoded = [token.encode() for _, token in named]
    return {
        "names_features": np.array([feature for feature, _ in named], np.int64),
        "names_lengths": np.fromiter(map(len, encoded), np.int64, len(encoded)),
        "names_utf8": np.frombuffer(b"".join(encoded), np.uint8),
    }


def _unpacked_names(arrays: Mapping[str, npt.NDArray[Any]], n_blocks: int, width: int) -> list[dict[int, str]]:
    features: Int64 = _array(arrays, "names_features", np.dtype(np.int64))
    lengths: Int64 = _array(arrays, "names_lengths", np.dtype(np.int64))
    utf8 = _array(arrays, "names_utf8", np.dtype(np.uint8)).tobytes()
    damaged = "the names of the text features are damaged:"
    if features.size != lengths.size:
        raise ValueError(f"{damaged} {features.size} features have {lengths.size} lengths")
    if features.size and not (features[0] >= 0 and features[-1] < n_blocks * width and (np.diff(features) > 0).all()):
        raise ValueError(f"{damaged} features must ascend, from 0 to {n_blocks * width - 1}")
    if ((lengths < 0) | (lengths > len(utf8))).any() or sum(lengths.tolist()) != len(utf8):
        raise ValueError(f"{damaged} lengths must be positive and add up to {len(utf8)}")
    ends = np.cumsum(lengths).tolist()
    names: list[dict[int, str]] = [{} for _ in range(n_blocks)]
    try:
        for feature, begin, end in zip(features.tolist(), [0, *ends], ends, strict=False):
            names[feature // width][feature % width] = utf8[begin:end].decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{damaged} {error}") from error
    return names


def _array(arrays: Mapping[str, npt.NDArray[Any]], name: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    array = arrays.get(name)
    if array is None or array.ndim != 1 or array.dtype != dtype:
        raise ValueError(f"the text features need an array {name!r} of one dimension and type {dtype}")
    return np.ascontiguousarray(array)
