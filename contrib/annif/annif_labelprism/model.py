"""From analysed texts to a model, and from a model to Annif's arrays of suggestions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from annif_labelprism.parameters import Parameters
from labelprism import PrismClassifier
from labelprism.data import Dataset
from labelprism.features import TextFeatures

_STEP = 1e-6  # between neighbours of the same probability; of float32, which Annif has, a step is 6e-8


def fitted(data: Dataset, parameters: Parameters, n_jobs: int) -> PrismClassifier:
    """Train a model.

    Parameters
    ----------
    data : Dataset
        n texts, of words with blanks between, and Y of shape (n, subjects of the vocabulary).
    parameters : Parameters
    n_jobs : int
        Threads, -1 for all processors.
    """
    features = TextFeatures(parameters.bits, words=(1, parameters.ngram), weighting=parameters.weighting, n_jobs=n_jobs)
    model = PrismClassifier(
        preset=parameters.preset,
        objective=parameters.objective,
        features=features,
        n_jobs=n_jobs,
        random_state=parameters.random_state,
    )
    return model.fit(data.texts, data.Y)


def use_threads(model: PrismClassifier, n_jobs: int) -> None:
    """Set the number of threads of a fitted model.

    Parameters
    ----------
    model : PrismClassifier
    n_jobs : int
    """
    model.n_jobs = n_jobs
    model.features_.use_threads(n_jobs)


def label_matrix(labels: Sequence[Sequence[int]], n_labels: int) -> sp.csr_array:
    """Return lists of label numbers as a matrix of ones, (n, n_labels).

    Parameters
    ----------
    labels : sequence of n sequences of int
    n_labels : int
    """
    columns = np.array([label for row in labels for label in row], np.int32)
    ends = np.concatenate([[0], np.cumsum([len(row) for row in labels])])
    return sp.csr_array((np.ones(columns.size, np.float32), columns, ends), shape=(len(labels), n_labels))


def suggestions(model: PrismClassifier, texts: list[str], limit: int, is_active: npt.NDArray[np.bool_]) -> sp.csr_array:
    """Return the probabilities of the best subjects of each text.

    Parameters
    ----------
    model : PrismClassifier
    texts : list of n str
        Analysed; an empty one has no suggestions.
    limit : int
        The most of each text.
    is_active : bool array of shape (c,)
        The subjects that the vocabulary still has.

    Returns
    -------
    csr_array of shape (n, c), float32
        Annif ranks by these numbers alone, so that they fall from rank to rank, be it a little.
    """
    shape = len(texts), is_active.size
    if not texts:
        return sp.csr_array(shape, dtype=np.float32)
    labels, likely = _probable(model, texts)
    labels, likely = labels[:, :limit], likely[:, :limit]
    scores = np.minimum.accumulate(likely, axis=1) * (1 - _STEP * np.arange(likely.shape[1]))
    is_kept = (scores > 0) & (labels >= 0) & is_active[labels] & np.array([bool(text) for text in texts])[:, None]
    rows, _ = np.nonzero(is_kept)
    return sp.csr_array((scores[is_kept].astype(np.float32), (rows, labels[is_kept])), shape=shape)


def _probable(model: PrismClassifier, texts: list[str]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """Return the candidates of each text, best first, and their probabilities, (n, k) both; labels of -1 have 0.

    `predict_topk_proba` would do, but it looks for the candidates twice: for the best ones, and for all, whose scores
    the probabilities depend on. A batch of Annif is small enough for all.
    """
    recipe = model.recipe_
    labels, scores = model.predict_topk(texts, recipe.most_candidates)
    is_found = labels >= 0
    ends = np.concatenate([[0], np.cumsum(is_found.sum(axis=1))])
    candidates = sp.csr_array((scores[is_found], labels[is_found], ends), shape=(len(texts), model.n_labels_))
    likely = np.zeros(labels.shape)
    likely[is_found] = recipe.probabilities(candidates)
    return labels, likely
