"""`LowRankHead`: logistic regression over the candidates on a shared embedding, as in the paper's ALOI model."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import Float32, Int32, check_whole, csr_parts, is_sparse
from labelprism._threads import thread_count
from labelprism.heads.logistic import linear_scorer
from labelprism.heads.preparation import Preconditioner
from labelprism.heads.sgd import Question, SGDHead, Task, Visits


class LowRankHead(SGDHead):
    """Logistic regression of a given rank: a linear hidden layer of r units that all labels share, then outputs.

    The score of label l in leaf f is b_l + b_fl + u_l . V'x and what `task` adds to it; the paper's rank-50 logistic
    regression has `task="weights"`, where outputs belong to leaves. Both layers are trained together.

    Parameters
    ----------
    rank : int, default=50
        r.
    passes, loss, task, routes, learning_rate, momentum, decay, batch_size, group_rows, precondition : see LogisticHead
        `task` is about the outputs; "hash" crosses the features before they are embedded. Here `learning_rate` is 0.5
        and `batch_size` 32.
    n_hashed_features, n_hashes, n_codes, group_penalty, n_jobs, random_state : see LogisticHead
        The embedding has a row for each feature, hashed or not.

    Attributes
    ----------
    embedding_ : float32 array of shape (d, width)
        V for the features as given; width is r filled up to a multiple of 8. With `task="hash"`, or when features are
        hashed, for the hashed and rescaled features.
    coef_ : float32 array of shape (c, width), or (n_slots, width) with `task="weights"`
        u.
    slot_bias_, codes_, slot_coef_, scale_, loss_, loss_path_ : see LogisticHead
    """

    def __init__(
        self,
        rank: int = 50,
        passes: int = 20,
        *,
        loss: Literal["auto", "softmax", "logistic"] = "auto",
        task: Task = "bias",
        routes: Literal["sampled", "decided"] = "sampled",
        learning_rate: float = 0.5,
        momentum: float = 0.9,
        decay: float | Literal["auto"] = "auto",
        batch_size: int = 32,
        group_rows: int = 256,
        precondition: Literal["auto"] | Preconditioner = "auto",
        n_hashed_features: int | None = None,
        n_hashes: int = 1,
        n_codes: int = 4,
        group_penalty: float = 0.001,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            passes,
            loss=loss,
            task=task,
            routes=routes,
            learning_rate=learning_rate,
            momentum=momentum,
            decay=decay,
            batch_size=batch_size,
            group_rows=group_rows,
            precondition=precondition,
            n_hashed_features=n_hashed_features,
            n_hashes=n_hashes,
            n_codes=n_codes,
            group_penalty=group_penalty,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.rank = rank

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_whole("rank", self.rank, 1, 2**16)

    def _prepared(self, X: Any) -> Any:
        rows = super()._prepared(X)
        return rows if is_sparse(rows) else sp.csr_array(rows)

    def _make_trainer(self, rng: np.random.Generator) -> None:
        terms, parts = self._terms(), csr_parts(self.candidates_)
        width = -(-self.rank // 8) * 8
        self._trainer = _core.DenseTrainer(
            parts.indptr, parts.indices, self.candidates_.shape[1], width, self.loss_, **terms._asdict()
        )
        # Rows have a mean squared norm of 1, and so shall their embeddings.
        initial = np.zeros((self._width, width), np.float32)
        initial[:, : self.rank] = rng.standard_normal((self._width, self.rank), np.float32) / np.sqrt(self.rank)
        self._trainer.set_embedding(initial)

    def _train(self, rows: Any, Y: sp.csr_array, visits: Visits, rate: float) -> float:
        labels = csr_parts(Y[visits.rows])
        tail = (labels.indptr, labels.indices, visits.offsets, visits.leaves, *self._step(rate))
        return float(self._trainer.train_embedded(*csr_parts(rows), *tail))

    def _weights(self) -> tuple[Any, Any]:
        embedding, scale = self._trainer.embedding(), self.scale_
        if not self._is_hashed and self.task != "hash":  # fold the scale in: there is nothing else to do to features
            embedding = scale @ embedding if scale.ndim == 2 else scale[:, None] * embedding
        self.embedding_: Float32 = np.ascontiguousarray(embedding, np.float32)
        return self._trainer.weights(), self._trainer.slot_weights()

    # ------------------------------------------------------------------------------------------------------------ use

    def embed(self, X: Any, leaves: Int32) -> Float32:
        """Return V'x for every row.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, d)
        leaves : int32 array of shape (n,)
            Of interest with `task="hash"` only.

        Returns
        -------
        float32 array of shape (n, width)
        """
        X = self._checked(X)
        n_threads = thread_count(self.n_jobs)
        if self._is_hashed or self.task == "hash":
            X = self._crossed(self._prepared(X), leaves)
        if is_sparse(X):
            return _core.csr_times_block(*csr_parts(X), self.embedding_, n_threads)
        return _core.dense_times_block(np.ascontiguousarray(X), self.embedding_, n_threads)

    def _scored(
        self,
        scorer: _core.LinearHead,
        X: Any,
        leaves: Int32,
        places: Int32,
        what: Question,
        *more: int,
    ) -> Any:
        return getattr(scorer, f"{what}_dense")(self.embed(X, leaves), places, *more, thread_count(self.n_jobs))

    def _make_scorer(self, head: SGDHead) -> _core.LinearHead:
        return linear_scorer(head, self.embedding_.shape[1])
