"""Temporary: the estimator as it will be, on top of the one that is here. To be removed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from labelprism import estimator
from labelprism.features import TextFeatures


class PrismClassifier(estimator.PrismClassifier):
    def __init__(
        self, filter: Any = None, head: Any = None, *, preset: Any = "default", objective: Any = "precision",
        normalize: bool = True, features: Any = None, filter_features: Any = None, head_features: Any = None,
        threshold: float = 0.5, n_jobs: int | None = None, random_state: Any = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(
            filter, head, preset=preset, objective=objective, normalize=normalize, n_jobs=n_jobs,
            random_state=random_state,
        )  # fmt: skip
        self.features, self.filter_features, self.head_features = features, filter_features, head_features
        self.verbose, self.threshold = verbose, threshold

    def fit(self, X: Any, Y: Any = None) -> PrismClassifier:
        names = X.label_names
        X, Y = (X.texts if isinstance(self.features, TextFeatures) else X.X), X.Y
        if self.features is not None:
            self.features_ = clone(self.features)
            X = self.features_.fit_transform(X)
        super().fit(X, Y)
        self.classes_ = np.array(names if names is not None else np.arange(Y.shape[1]))
        return self

    def predict_topk(self, X: Any, k: int = 5, *, allowed: Any = None) -> Any:
        X = self.features_.transform(X) if hasattr(self, "features_") else X
        if allowed is None:
            return super().predict_topk(X, k)
        labels, scores = super().predict_topk(X, len(self.classes_))
        keep = np.isin(self.classes_[labels], list(allowed)) & (labels >= 0)
        order = np.argsort(~keep, axis=1, kind="stable")[:, :k]
        labels, scores = np.where(keep, labels, -1), np.where(keep, scores, -np.inf).astype(np.float32)
        return np.take_along_axis(labels, order, 1), np.take_along_axis(scores, order, 1)

    def save(self, path: Any) -> None:
        super().save(path)
        meta = {"classes": self.classes_.tolist()}
        if hasattr(self, "features_"):
            meta["features"] = self.features_.meta()
            np.savez(Path(path) / "features.npz", **self.features_.arrays())
        (Path(path) / "extra.json").write_text(json.dumps(meta))

    @classmethod
    def load(cls, path: Any, verify: bool | None = None) -> PrismClassifier:
        model = super().load(path, verify)
        meta = json.loads((Path(path) / "extra.json").read_text())
        model.classes_ = np.array(meta["classes"])
        if "features" in meta:
            with np.load(Path(path) / "features.npz") as arrays:
                model.features_ = TextFeatures.from_arrays(meta["features"], dict(arrays))
        return model
