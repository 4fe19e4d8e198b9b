"""Every kernel of the native core once more, in a few lines of NumPy, SciPy and plain Python.

These are the oracles of the tests: slow, obvious, and in float64 where that makes a difference. They have the names of
their native twins in `labelprism._core` where they do the same work, and `_row` or `_text` where they do one of many.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtr

from labelprism._arrays import Float32, Int32

# ------------------------------------------------------------------------------------------------- products and top-k


def csr_times_block(X: sp.csr_array, block: Float32) -> Any:
    """X B: X (n, d), block (d, width), result (n, width) in float64."""
    return X.astype(np.float64) @ block.astype(np.float64)


def csr_transposed_times_block(X: sp.csr_array, block: Float32) -> Any:
    """X' B: X (n, d), block (n, width), result (d, width) in float64."""
    return X.astype(np.float64).T @ block.astype(np.float64)


def class_sums(Y: sp.csr_array, example_weight: Float32, block: Float32) -> Any:
    """Y'D B: the weighted sum of the rows of `block` (n, width) over the examples of every label."""
    return Y.astype(np.float64).T @ (example_weight.astype(np.float64)[:, None] * block)


def top_k_row(columns: Int32, scores: Float32, k: int) -> tuple[list[int], list[float]]:
    """Return the k best columns of one row, ties by column; -inf and NaN are never chosen."""
    order = sorted((-score, column) for score, column in zip(scores, columns, strict=True) if score > -np.inf)[:k]
    missing = k - len(order)
    return [int(c) for _, c in order] + [-1] * missing, [float(-s) for s, _ in order] + [-np.inf] * missing


def largest_places(values: Float32, wanted: int) -> list[int]:
    """Return the places of the largest of the values above 0, ascending; of equals the first ones."""
    return sorted(place for _, place in sorted((-v, i) for i, v in enumerate(values.tolist()) if v > 0)[:wanted])


def add_halves(labels: Int32, halves: Any, value: float, sums: Float32) -> Any:
    """Return the sums after value * half was added at each label; the last one stands for labels out of range."""
    result = sums.copy()
    last = result.size - 1
    added = np.float32(value) * halves.view(np.float16).astype(np.float32)
    for label, number in zip(labels, added, strict=True):
        result[label if 0 <= label < last else last] += number
    return result


# ---------------------------------------------------------------------------------------- centroids and their lists


def label_sums(X: sp.csr_array, Y: sp.csr_array, weight: Float32) -> Any:
    """Y'D X: the weighted sum of the rows of every label, dense, one row after the other in float32."""
    sums = np.zeros((Y.shape[1], X.shape[1]), np.float32)
    for row in range(X.shape[0]):
        labels = Y.indices[Y.indptr[row] : Y.indptr[row + 1]]
        part = slice(X.indptr[row], X.indptr[row + 1])
        sums[labels[:, None], X.indices[part]] += weight[row] * X.data[part]
    return sums


def cut_centroid_row(sums: Float32, norm: float, n_features: int) -> Any:
    """Return a dense row of sums, 0 but for its largest values, divided by the norm and rounded to float16."""
    kept, _ = top_k_row(np.flatnonzero(sums).astype(np.int32), sums[np.flatnonzero(sums)], n_features)
    columns = [column for column in kept if column >= 0]
    row = np.zeros_like(sums)
    row[columns] = (sums[columns] / max(norm, 1e-12)).astype(np.float32).astype(np.float16)
    return row


def mean_rows(matrix: Any, n_rows: int, shares: Float32, drop: float) -> Any:
    """Return the sums of n_rows rows times their shares, and the rows after them, dense in float64."""
    matrix, end = np.asarray(matrix, np.float64), n_rows * len(shares)
    sums = np.einsum("krd,k->rd", matrix[:end].reshape(len(shares), n_rows, matrix.shape[1]), shares.astype(np.float64))
    return np.concatenate([np.where(np.abs(sums) >= drop, sums, 0), matrix[end:]])


def strongest_labels(column: Float32, longest: int) -> tuple[list[int], list[float]]:
    """Return the labels of largest weight of one feature, ascending, and their weights; 0 is no weight."""
    labels = np.flatnonzero(column).astype(np.int32)
    kept = sorted(label for label in top_k_row(labels, column[labels], longest)[0] if label >= 0)
    return kept, [float(column[label]) for label in kept]


# ------------------------------------------------------------------------------------------------------------- a tree


def node_matrix(X: Any, Y: Any, example_weight: Any) -> Any:
    """Return X'D Xh with 1'DX projected out of both sides, dense and in float64: its top eigenvector is the router.

    Xh = Y (Y'DY)^+ Y'D X, with a pseudo-inverse, for labels that depend on others or have no example.
    """
    X, Y, D = (np.asarray(array, np.float64) for array in (X, Y, example_weight))
    class_sums = Y.T @ (D[:, None] * X)
    inverse = np.linalg.pinv(Y.T @ (D[:, None] * Y), rcond=1e-10, hermitian=True)
    constraint = X.T @ D
    length = np.linalg.norm(constraint)
    projection = np.eye(X.shape[1]) - (np.outer(constraint, constraint) / length**2 if length > 0 else 0)
    return projection @ class_sums.T @ inverse @ class_sums @ projection


def solve_node(X: Any, Y: Any, example_weight: Any) -> tuple[float, Any, float]:
    """Return the top eigenvalue, the router and what splits its margins at their weighted median."""
    values, vectors = np.linalg.eigh(node_matrix(X, Y, example_weight))
    weight = vectors[:, -1] * np.sign(vectors[np.argmax(np.abs(vectors[:, -1])), -1])
    return float(values[-1]), weight, median_split(np.asarray(X, np.float64) @ weight, example_weight)


def weighted_median(values: Any, weights: Any) -> float:
    """Return the smallest value at which the weights of all values up to it reach half of the total."""
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(np.asarray(weights, np.float64)[order])
    return float(np.asarray(values)[order][np.searchsorted(sums, sums[-1] / 2)])


def median_split(values: Any, weights: Any) -> float:
    """Return a number midway between the weighted median and the next value above or below: the more even split."""
    values, weights = np.asarray(values), np.asarray(weights, np.float64)
    median = weighted_median(values, weights)
    lower, upper = weights[values < median].sum(), weights[values > median].sum()
    above, below = values[values > median], values[values < median]
    if lower < upper or (not below.size and above.size):
        return float((np.float64(median) + above.min()) / 2)
    return float((np.float64(median) + below.max()) / 2) if below.size else median


def label_counts(Y: sp.csr_array, rows: Int32, weight: Float32, offsets: Any) -> Any:
    """Return the weighted label counts of each group of rows, dense and in float64."""
    groups = itertools.pairwise(offsets)
    return np.array([Y[rows[a:b]].astype(np.float64).T @ weight[a:b].astype(np.float64) for a, b in groups])


def router_margins(X: Any, routers: sp.csr_array, rows: Int32, offsets: Any, nodes: Any) -> Any:
    """Return the margin of each row at the router of its group, in float64."""
    node_of_row = np.repeat(nodes, np.diff(offsets))
    dense = X.toarray() if sp.issparse(X) else X
    return (dense[rows].astype(np.float64) * routers[node_of_row].toarray()).sum(axis=1)


# ----------------------------------------------------------------------------------------------------------- a forest


_ROUTER_BIAS_SQUARE, _HEAD_BIAS_SQUARE = 0.1, 0.3  # kBiasSquare of router_refinement.cpp and of one_vs_rest.cpp


def hinge_classifier(X: Any, target: Any, cost: Any, passes: int, state: tuple[Any, Any, Any]) -> None:
    """Dual coordinate descent for the squared hinge loss; `state` is (w, alpha, the targets before), in place.

    The last weight is that of a feature of value sqrt(0.1) that all rows have.
    """
    w, alpha, before = state
    X = np.hstack([X, np.full((X.shape[0], 1), np.sqrt(_ROUTER_BIAS_SQUARE))])
    gone = (alpha > 0) & ((target != before) | (cost <= 1e-9))
    w -= X[gone].T @ (alpha * before)[gone]
    alpha[gone] = 0
    before[:] = target
    for _ in range(passes):
        largest = 0.0
        for i in np.flatnonzero(cost > 1e-9):
            gradient = target[i] * (X[i] @ w) - 1 + alpha[i] / (2 * cost[i])
            if alpha[i] == 0 and gradient > 0:
                continue
            largest = max(largest, abs(gradient))
            step = max(alpha[i] - gradient / (X[i] @ X[i] + 1 / (2 * cost[i])), 0.0) - alpha[i]
            alpha[i] += step
            w += step * target[i] * X[i]
        if largest < 0.1:
            break


def refined_router(X: Any, Y: Any, weight: Any, margins: Any, rounds: int, passes: int, cost: float) -> Any:
    """Labels take sides, examples follow their labels, a classifier learns it; w, and the bias after it."""
    X, Y, weight, margins = (np.asarray(array, np.float64) for array in (X, Y, weight, margins))
    mass = np.maximum(Y.T @ weight, 1e-9)
    strength = 1 / np.sqrt(mass)
    w, alpha, before = np.zeros(X.shape[1] + 1), np.zeros(X.shape[0]), np.zeros(X.shape[0])
    for _ in range(rounds):
        centred = margins - margins.mean()
        side = Y.T @ (weight * np.clip(centred / (np.abs(centred).mean() + 1e-9), -3, 3)) / mass
        vote = Y @ (np.sign(side - weighted_median(side, mass)) * strength)
        clear = np.abs(vote) / np.maximum(Y @ strength, 1e-30)
        target = np.where(vote >= 0, 1.0, -1.0)
        hinge_classifier(X, target, cost * weight * clear, passes, (w, alpha, before))
        offset = np.sqrt(_ROUTER_BIAS_SQUARE) * w[-1]
        margins = X @ w[:-1] + offset
    return np.append(w[:-1], -offset)


def forest_row(forest: Any, x: Any, smallest: float) -> Any:
    """Return p(label | x) of a fitted forest for one dense row, (c,): the mean over trees of all leaves reached."""
    scores = np.zeros(forest.leaf_candidates_.shape[1])
    routers, leaves = forest.routers_, forest.leaf_candidates_

    def follow(node: int, probability: float, is_main: bool) -> None:
        child = forest.children_[node]
        if child < 0:
            leaf = int(np.searchsorted(forest.leaf_nodes_, node))
            entries = slice(leaves.indptr[leaf], leaves.indptr[leaf + 1])
            scores[leaves.indices[entries]] += probability * np.exp(leaves.data[entries]) / forest.n_trees
            return
        distance = float((routers[[node]].toarray()[0] * x).sum() - forest.bias_[node])
        right = ndtr(distance / forest.noise_[node]) if forest.noise_[node] > 0 else float(distance > 0)
        for q, side in ((1 - right, 0), (right, 1)):
            main = is_main and (side == 1) == (right >= 0.5)
            if probability * q > smallest or main:
                follow(child + side, probability * q, main)

    for root in range(forest.n_trees):
        follow(root, 1.0, True)
    return scores


# -------------------------------------------------------------------------------------------------------- sparse text

_LARGEST_INDEX = 2**31 - 2
_HEADER = re.compile(rb"[ \t\r]*([0-9]+)[ \t\r]+([0-9]+)[ \t\r]+([0-9]+)[ \t\r]*")
_NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class MalformedError(Exception):
    """A malformed line; `args` holds its number."""


def parse_float(text: bytes) -> Any:
    """Return the float32 nearest to a decimal number, ties to even; infinity when it is beyond float32."""
    if text[:1] in (b"-", b"+"):
        size = parse_float(text[1:])
        return np.float32(-size) if text[:1] == b"-" else size
    digits, _, exponent = text.lower().partition(b"e")
    if abs(int(exponent or b"0")) > 500:  # Fraction would build a number of that many digits
        return np.float32(np.inf if b"-" not in exponent and digits.strip(b"0.") else 0)
    exact = Fraction(text.decode())
    largest = np.finfo(np.float32).max
    if exact >= Fraction(2) ** 128 - Fraction(2) ** 103:  # halfway from the largest float32 to what would follow it
        return np.float32(np.inf)
    near = np.float32(min(float(exact), float(largest)))
    candidates = [near, np.nextafter(near, np.float32(0)), min(np.nextafter(near, largest), largest)]
    return min(candidates, key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(np.int32)) & 1))


@dataclass
class SparseText:
    """What a sparse text file holds."""

    labels: list[list[int]] = field(default_factory=list)
    features: list[dict[int, np.float32]] = field(default_factory=list)
    shape: tuple[int, int, int] | None = None


def _index(text: bytes, limit: int | None) -> int:
    if not re.fullmatch(rb"[0-9]+", text) or int(text) > _LARGEST_INDEX or (limit is not None and int(text) >= limit):
        raise ValueError(text)
    return int(text)


def _example(line: bytes, shape: tuple[int, int, int] | None) -> tuple[list[int], dict[int, np.float32]]:
    tokens = re.split(rb"[ \t\r]+", line.split(b"#")[0].strip(b" \t\r"))
    labels: list[int] = []
    if tokens[0] and not re.match(rb"[0-9]+:", tokens[0]):
        labels = [_index(t, shape[2] if shape else None) for t in tokens.pop(0).split(b",")]
    features: dict[int, np.float32] = {}
    for token in filter(None, tokens):
        name, colon, number = token.partition(b":")
        feature = _index(name, shape[1] if shape else None)
        if not colon or not _NUMBER.fullmatch(number) or feature in features:
            raise ValueError(token)
        features[feature] = parse_float(number)
        if not np.isfinite(features[feature]):
            raise ValueError(token)
    if len(set(labels)) < len(labels):
        raise ValueError(labels)
    return sorted(labels), dict(sorted(features.items()))


def parse_sparse_text(text: bytes) -> SparseText:
    """Read sparse text with features numbered from 0; a header is recognised. Raises `MalformedError(line)`."""
    result = SparseText()
    lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        header = _HEADER.fullmatch(line) if number == 1 else None
        if header:
            n, d, c = map(int, header.groups())
            result.shape = (n, d, c)
            if max(d, c) > _LARGEST_INDEX + 1:
                raise MalformedError(number)
            continue
        blank = not line.strip(b" \t\r")
        full = result.shape is not None and len(result.labels) == result.shape[0]
        if line.lstrip(b" \t\r").startswith(b"#") or (blank and (result.shape is None or full)):
            continue
        try:
            if full:
                raise ValueError(line)
            labels, features = _example(line, result.shape)
        except ValueError:
            raise MalformedError(number) from None
        result.labels.append(labels)
        result.features.append(features)
    if result.shape is not None and len(result.labels) != result.shape[0]:
        raise MalformedError(len(lines))
    return result


# ------------------------------------------------------------------------------------------------------- text hashing

_MASK = 2**64 - 1


def _is_ideograph(char: str) -> bool:
    name = unicodedata.name(char, "")
    return name.startswith(("CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH", "HIRAGANA LETTER"))


def split_words(text: str, min_word_length: int) -> list[str]:
    """Letters, numbers and connectors, the marks that follow them; ideographs one by one."""
    words: list[str] = []
    word, length, ideograph = "", 0, False

    def end_word() -> None:
        nonlocal word, length, ideograph
        if length and (ideograph or length >= min_word_length):
            words.append(word)
        word, length, ideograph = "", 0, False

    for char in text:
        category = unicodedata.category(char)
        if (category == "Cf" and char != "\u200b") or (category[0] == "M" and not length):
            continue
        if category[0] == "M":
            word += char
            continue
        if not (category[0] in "LN" or category == "Pc"):
            end_word()
            continue
        if ideograph or _is_ideograph(char):
            end_word()
        word, length, ideograph = word + char, length + 1, _is_ideograph(char)
    end_word()
    return words


def ngrams(text: str, analyzer: str, ngram_range: tuple[int, int], min_word_length: int) -> Iterator[str]:
    """Return the spellings of all n-grams of a text whose case is folded already."""

    def grams(units: Sequence[str], gap: str) -> Iterator[str]:
        for start in range(len(units)):
            for size in range(ngram_range[0], min(ngram_range[1], len(units) - start) + 1):
                yield gap.join(units[start : start + size])

    if analyzer == "word":
        yield from grams(split_words(text, min_word_length), " ")
        return
    text = text.replace("\u200b", " ")  # a format character that splits words
    visible = "".join(c for c in text if unicodedata.category(c) != "Cf")
    if analyzer == "char":
        yield from grams(" ".join(visible.split()), "")
        return
    for word in visible.split():
        padded = f" {word} "
        yield from grams(padded, "")
        if len(padded) < ngram_range[0]:
            yield padded


def _spread(value: int) -> int:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = ((value ^ (value >> 33)) * factor) & _MASK
    return value ^ (value >> 33)


def hash_ngram(spelling: str) -> int:
    """Eight bytes of UTF-8 at a time, little-endian, the last ones filled up with zeros."""
    utf8 = spelling.encode()
    *pieces, last = [int.from_bytes(utf8[i : i + 8], "little") for i in range(0, len(utf8), 8)] or [0]
    value = len(utf8)
    for piece in pieces:
        value = ((value ^ piece) * 0x9FB21C651E98DF25) & _MASK
        value ^= value >> 32
    return _spread(((value ^ last) * 0x9FB21C651E98DF25) & _MASK)


def hash_text(grams: Iterator[str], bits: int, n_hashes: int, is_signed: bool) -> dict[int, float]:
    """Signed counts of the n-grams by feature; those that cancel are left out."""
    counts: Counter[int] = Counter()
    for gram in grams:
        first = hash_ngram(gram)
        for value in (first, _spread((first + 0x9E3779B97F4A7C15) & _MASK))[:n_hashes]:
            counts[value % 2**bits] += -1 if is_signed and value >> 63 else 1
    return {feature: float(count) for feature, count in sorted(counts.items()) if count}


# ---------------------------------------------------------------------------------------- one-vs-rest and the predictor


def one_vs_rest_label(X: Any, target: Any, cost: Any, passes: int = 2000) -> tuple[Any, float]:
    """Return weights and bias that minimise (|w|^2 + (b + 1)^2 / 0.3) / 2 + sum of cost max(0, 1 - y (w.x + b))^2.

    Plain dual coordinate descent without shrinking, in float64: X (n, d) dense, target (n,) of +1 and -1, cost (n,).
    """
    X, target, cost = (np.asarray(array, np.float64) for array in (X, target, cost))
    weight, bias, alpha = np.zeros(X.shape[1]), -1.0, np.zeros(len(target))
    for _ in range(passes):
        for i in range(len(target)):
            gradient = target[i] * (X[i] @ weight + bias) - 1 + alpha[i] / (2 * cost[i])
            new = max(alpha[i] - gradient / (X[i] @ X[i] + _HEAD_BIAS_SQUARE + 1 / (2 * cost[i])), 0.0)
            weight += (new - alpha[i]) * target[i] * X[i]
            bias += _HEAD_BIAS_SQUARE * (new - alpha[i]) * target[i]
            alpha[i] = new
    return weight, float(bias)


def one_vs_rest_costs(target: Any, cost: float, positive_weight: float, rare_examples: float) -> Any:
    """Return what the errors of the examples of one label cost: target (n,) of +1 and -1."""
    rarity = rare_examples / max(int((np.asarray(target) > 0).sum()), 1)
    return np.where(np.asarray(target) > 0, 1 + positive_weight * rarity, 1.0) * cost * (1 + rarity)


def blended_row(
    x: Any,
    log_forest: dict[int, float],
    near: Sequence[int],
    centroids: Any,
    head: Any,
    bias: Any,
    prior: Any,
    blend: Any,
) -> dict[int, float]:
    """Return the blended score of every candidate of one row; x (d,), centroids and head (c, d) dense.

    `log_forest` holds the candidates of the forest, `near` those of the centroids, `blend` the weights of head, forest
    and centroids, and what is added for labels that the forest did not reach.
    """
    scores = {}
    for label in {*log_forest, *near}:
        log_head = max(-(max(0.0, 1 - float(head[label] @ x + bias[label])) ** 2), -13.69)
        reached = log_forest.get(label, float(np.log(1e-4)))
        cosine = float(centroids[label] @ x)
        unreached = 0.0 if label in log_forest else blend[3]
        scores[label] = blend[0] * log_head + blend[1] * reached + blend[2] * cosine + unreached + float(prior[label])
    return scores


# -------------------------------------------------------------------------------------------------------- near examples


def strongest_examples(X: sp.csr_array, longest: int) -> list[dict[int, float]]:
    """Return for each feature the rows of its `longest` values of largest size, of equals the first, and the values."""
    columns = X.tocsc()
    lists = []
    for feature in range(X.shape[1]):
        part = slice(columns.indptr[feature], columns.indptr[feature + 1])
        entries = zip(columns.indices[part].tolist(), columns.data[part].tolist(), strict=True)
        lists.append(dict(sorted(entries, key=lambda entry: (-abs(entry[1]), entry[0]))[:longest]))
    return lists


def example_votes(
    x: dict[int, float], lists: Sequence[dict[int, float]], labels: Sequence[Sequence[int]], weight: Sequence[float]
) -> dict[int, float]:
    """Return the share of the votes of near examples for labels; those without votes are left out.

    `x` is a unit row by feature, `lists` are as from `strongest_examples`, `labels` and `weight` those of each example.
    """
    least = sorted((abs(value) for value in x.values()), reverse=True)[:6][-1] if x else 0.0
    cosine: dict[int, np.float32] = {}
    for feature, value in sorted(x.items()):  # in float32, so that equals are equal there and here
        for example, other in sorted(lists[feature].items()) if abs(value) >= least else ():
            added = np.float32(value) * np.float32(np.float16(other))
            cosine[example] = cosine.get(example, np.float32(0)) + added
    near = {example: float(value) for example, value in cosine.items() if value > 0}
    if not near:
        return {}
    nearest = sorted(near.values(), reverse=True)[:100]
    voters = [example for example, value in near.items() if value >= nearest[-1]][:200]
    votes: Counter[int] = Counter()
    total = 0.0
    for example in voters:
        vote = (near[example] / nearest[0]) ** 4 * weight[example]
        total += vote
        for label in labels[example]:
            votes[label] += vote  # type: ignore[assignment]
    return {label: vote / total for label, vote in votes.items()}
