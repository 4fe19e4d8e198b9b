"""Temporary: the estimator as it will be, on top of the one that is here. To be removed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from labelprism import estimator
from labelprism.features import TextFeatures


class PrismClassifier(estimator.PrismClassifier):
    def __init__(
        self, filter: Any = None, head: Any = None, *, preset: Any = "default", objective: Any = "precision",
        normalize: bool = True, features: Any = None, filter_features: Any = None, head_features: Any = None,
        n_jobs: int | None = None, random_state: Any = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(
            filter, head, preset=preset, objective=objective, normalize=normalize, n_jobs=n_jobs,
            random_state=random_state,
        )  # fmt: skip
        self.features, self.filter_features, self.head_features = features, filter_features, head_features
        self.verbose = verbose

    def fit(self, X: Any, Y: Any = None) -> PrismClassifier:
        names = X.label_names
        X, Y = (X.texts if isinstance(self.features, TextFeatures) else X.X), X.Y
        X = X if self.features is None else self.features.fit_transform(X)
        super().fit(X, Y)
        self.classes_ = np.array(names if names is not None else np.arange(Y.shape[1]))
        return self

    def predict_topk(self, X: Any, k: int = 5) -> Any:
        return super().predict_topk(X if self.features is None else self.features.transform(X), k)

    def save(self, path: Any) -> None:
        super().save(path)
        meta = {"classes": self.classes_.tolist()}
        if isinstance(self.features, TextFeatures):
            meta["features"] = self.features.meta()
            np.savez(Path(path) / "features.npz", **self.features.arrays())  # type: ignore[arg-type]
        (Path(path) / "extra.json").write_text(json.dumps(meta))

    @classmethod
    def load(cls, path: Any, verify: bool | None = None) -> PrismClassifier:
        model = super().load(path, verify)
        meta = json.loads((Path(path) / "extra.json").read_text())
        model.classes_ = np.array(meta["classes"])
        if "features" in meta:
            with np.load(Path(path) / "features.npz") as arrays:
                model.features = TextFeatures.from_arrays(meta["features"], dict(arrays))
        return model
