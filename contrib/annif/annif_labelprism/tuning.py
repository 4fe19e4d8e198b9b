"""Hyper-parameter hints: `annif hyperopt`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from annif.backend import hyperopt
from annif.eval import EvaluationBatch
from annif.exception import NotSupportedException, OperationFailedException
from annif.suggestion import SuggestionBatch

from annif_labelprism.model import fitted, suggestions
from annif_labelprism.parameters import Parameters

if TYPE_CHECKING:
    from annif.corpus import DocumentCorpus
    from optuna.study import Study
    from optuna.trial import Trial

    from annif_labelprism.backend import LabelprismBackend

SEARCHED: dict[str, tuple[Any, ...]] = {
    "ngram": (1, 2, 3),
    "weighting": ("tfidf", "hellinger"),
    "objective": ("precision", "propensity"),
}


class Objective(hyperopt.HPObjective):  # type: ignore[misc]
    """Train with the parameters of a trial, and measure on the documents that were put aside."""

    @classmethod
    def objective(cls, trial: Trial, args: dict[str, Any]) -> float:
        """Return the metric of a trial.

        Parameters
        ----------
        trial : Trial
        args : dict
            What `Optimizer._prepare` returned.
        """
        chosen = {name: trial.suggest_categorical(name, values) for name, values in SEARCHED.items()}
        measured: dict[tuple[Any, ...], float] = args["measured"]  # with few combinations, some come again
        key = tuple(chosen.values())
        if key not in measured:
            parameters = replace(args["parameters"], **chosen)
            model = fitted(args["train_data"], parameters, args["n_jobs"])
            found = suggestions(model, args["texts"], parameters.limit, args["is_active"])
            measured[key] = _metric(args["metric"], found, args["subject_sets"], args["subjects"])
        return measured[key]


class Optimizer(hyperopt.HyperparameterOptimizer):  # type: ignore[misc]
    """Looks for the best of the parameters in `SEARCHED`, on the training data of the last training.

    Parameters
    ----------
    backend : LabelprismBackend
    corpus : DocumentCorpus
        The documents to measure with.
    metric : str
    """

    def __init__(self, backend: LabelprismBackend, corpus: DocumentCorpus, metric: str) -> None:
        super().__init__(backend, corpus, metric, Objective)

    def _prepare(self, n_jobs: int = 1) -> dict[str, Any]:
        backend = self._backend
        backend.initialize()
        documents = list(self._corpus.documents)
        if not documents:
            raise NotSupportedException("optimizing hyperparameters with no documents")
        subjects = backend.project.subjects
        try:
            _metric(self._metric, suggestions(backend._model, [""], 1, backend._is_active), [[]], subjects)
        except KeyError:
            raise NotSupportedException(f"there is no metric {self._metric!r}; annif eval prints them all") from None
        return {
            "train_data": backend.train_data(),
            "texts": [backend.analysed(document.text) for document in documents],
            "subject_sets": [document.subject_set for document in documents],
            "subjects": subjects,
            "is_active": backend._is_active,
            "parameters": Parameters.checked(backend.params, backend.project.project_id),
            "metric": self._metric,
            "n_jobs": -1 if n_jobs == 1 else 1,
            "measured": {},
        }

    def _postprocess(self, study: Study) -> hyperopt.HPRecommendation:
        if not any(trial.value is not None for trial in study.trials):
            raise OperationFailedException("no trial came to an end", backend_id=self._backend.backend_id)
        lines = [f"{name}={value}" for name, value in study.best_params.items()]
        return hyperopt.HPRecommendation(lines=lines, score=study.best_value)


def _metric(name: str, found: Any, subject_sets: list[Any], subjects: Any) -> float:
    batch = EvaluationBatch(subjects)
    batch.evaluate_many(SuggestionBatch(found), subject_sets)
    return float(batch.results(metrics=[name])[name])
