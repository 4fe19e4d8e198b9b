"""The backend: training, learning, suggestions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import annif.util
import numpy as np
from annif.backend import backend, hyperopt
from annif.exception import NotInitializedException, NotSupportedException, OperationFailedException
from annif.suggestion import SuggestionBatch

from annif_labelprism.model import fitted, label_matrix, suggestions, use_threads
from annif_labelprism.parameters import DEFAULTS, Parameters, unknown_names
from annif_labelprism.tuning import Optimizer
from labelprism import PrismClassifier
from labelprism.data import Dataset, read_tsv

if TYPE_CHECKING:
    from annif.corpus import Document, DocumentCorpus

ALL_PROCESSORS = -1


class LabelprismBackend(hyperopt.AnnifHyperoptBackend, backend.AnnifLearningBackend):  # type: ignore[misc]
    """labelprism for Annif. Subjects are known to the model by their numbers in the vocabulary."""

    name = "labelprism"
    DEFAULT_PARAMETERS = DEFAULTS
    MODEL_FILE = "labelprism-model"
    TRAIN_FILE = "labelprism-train.tsv"  # Annif knows by "-train" that a file is no model

    _model: PrismClassifier | None = None
    _is_active: np.ndarray | None = None

    # ------------------------------------------------------------------------------------------------------- the model

    def initialize(self, parallel: bool = False) -> None:
        """Map the model into memory; processes that are forked from this one share it.

        Parameters
        ----------
        parallel : bool
            Whether it will be used by several processes, which changes nothing here.
        """
        if self._model is not None:
            return
        path = self._path(self.MODEL_FILE)
        self.debug(f"loading model from {path}")
        if not path.exists():
            raise NotInitializedException(f"model {path} not found", backend_id=self.backend_id)
        try:
            model = PrismClassifier.load(path)
        except (OSError, ValueError) as error:
            raise OperationFailedException(
                f"model {path} cannot be loaded: {error}. Please retrain the project.", backend_id=self.backend_id
            ) from error
        subjects = self.project.subjects
        if model.n_labels_ > len(subjects):
            raise OperationFailedException(
                f"the model knows {model.n_labels_} subjects, but the vocabulary has {len(subjects)}: it was replaced "
                "after the training. Please retrain the project.",
                backend_id=self.backend_id,
            )
        use_threads(model, self._parameters(self.params).n_jobs or 1)
        self._is_active = np.zeros(len(subjects), bool)
        self._is_active[[number for number, _ in subjects.active]] = True
        self._model = model

    def _save(self, model: PrismClassifier) -> None:
        """Replace the model on the disk in one step, and use the new one from there."""
        self.info("saving model")
        model.save(self._path(self.MODEL_FILE))
        self._model = None
        self.initialize()

    def _path(self, name: str) -> Path:
        return Path(self.datadir) / name

    def _parameters(self, params: dict[str, Any]) -> Parameters:
        return Parameters.checked(params, self.project.project_id)

    # --------------------------------------------------------------------------------------------------------- training

    def _train(self, corpus: DocumentCorpus, params: dict[str, Any], jobs: int = 0) -> None:
        parameters = self._parameters(params)
        for name in unknown_names(params):
            self.warning(f"there is no parameter {name!r}; it is ignored")
        if corpus == "cached":
            self.info("reusing cached training data from previous run")
        else:
            self._write_train_file(corpus)
        data = self.train_data()
        self.info(f"training on {data.Y.shape[0]} documents")
        try:
            model = fitted(data, parameters, jobs or parameters.n_jobs or ALL_PROCESSORS)
        except ValueError as error:
            raise OperationFailedException(f"training failed: {error}", backend_id=self.backend_id) from error
        self._save(model)

    def _write_train_file(self, corpus: DocumentCorpus) -> None:
        if corpus.is_empty():
            raise NotSupportedException(f"training backend {self.backend_id} with no documents")
        self.info("preparing training data")

        def write(corpus: DocumentCorpus, path: str) -> None:
            n_documents = 0
            with Path(path).open("w", encoding="utf-8", newline="\n") as file:
                for text, subjects in self._examples(corpus):
                    file.write(f"{text}\t{','.join(map(str, subjects))}\n")
                    n_documents += 1
            if not n_documents:
                Path(path).unlink()
                raise NotSupportedException(
                    f"training backend {self.backend_id} with no documents that have words and subjects"
                )

        annif.util.atomic_save(corpus, self.datadir, self.TRAIN_FILE, method=write)

    def train_data(self) -> Dataset:
        """Return the analysed texts of the last training, with the numbers of their subjects.

        Raises
        ------
        NotInitializedException
            If there was none.
        """
        path = self._path(self.TRAIN_FILE)
        if not path.exists():
            raise NotInitializedException(f"train data file {path} not found", backend_id=self.backend_id)
        try:
            return read_tsv(path, label_sep=",", label_kind="id", n_labels=len(self.project.subjects))
        except ValueError as error:
            raise OperationFailedException(
                f"the train data cannot be used with this vocabulary: {error}", backend_id=self.backend_id
            ) from error

    def _examples(self, corpus: DocumentCorpus) -> Iterator[tuple[str, list[int]]]:
        """Yield the analysed text and the subjects of all documents that have both."""
        for document in corpus.documents:
            text = self.analysed(document.text) if document.subject_set else ""
            if text:
                yield text, sorted(document.subject_set)

    def analysed(self, text: str) -> str:
        """Return the words of a text as the project's analyzer makes them, with blanks between; one line.

        A project may have no analyzer; then labelprism finds the words itself.

        Parameters
        ----------
        text : str
        """
        if self.project.analyzer_spec:
            text = " ".join(self.project.analyzer.tokenize_words(text))
        # NUL and halves of surrogate pairs, which JSON can hold, are no text; blanks of all kinds become one.
        return " ".join(text.replace("\0", " ").encode("utf-8", "ignore").decode().split())

    # --------------------------------------------------------------------------------------------------------- learning

    def _learn(self, corpus: DocumentCorpus, params: dict[str, Any]) -> None:
        if corpus == "cached":
            raise NotSupportedException("learning from cached training data", backend_id=self.backend_id)
        self.initialize()
        assert self._model is not None
        examples = list(self._examples(corpus))
        if not examples:
            raise NotSupportedException("learning with no documents that have words and subjects")
        texts, labels = zip(*examples, strict=True)
        self.info(f"learning from {len(texts)} documents")
        use_threads(self._model, self._parameters(params).n_jobs or ALL_PROCESSORS)
        Y = label_matrix(labels, len(self.project.subjects))
        self._save(self._model.partial_fit(list(texts), Y))

    # ------------------------------------------------------------------------------------------------------ suggestions

    def _suggest_batch(self, documents: list[Document], params: dict[str, Any]) -> SuggestionBatch:
        texts = [self.analysed(document.text) for document in documents]
        return SuggestionBatch(suggestions(self._model, texts, self._parameters(params).limit, self._is_active))

    def get_hp_optimizer(self, corpus: DocumentCorpus, metric: str) -> Optimizer:
        """Return what looks for the best parameters.

        Parameters
        ----------
        corpus : DocumentCorpus
            Documents to measure with, other than those of the training.
        metric : str
            One of those of `annif eval`.
        """
        return Optimizer(self, corpus, metric)
