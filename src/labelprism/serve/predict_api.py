"""The server's own protocol: `/v1/models`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Path
from starlette.requests import Request
from starlette.responses import Response

from labelprism.serve.errors import RequestError, invalid
from labelprism.serve.nodes import node_report
from labelprism.serve.routes import add_route, json_response
from labelprism.serve.schemas import ModelInfo, ModelList, NodeReport, PredictRequest, PredictResponse
from labelprism.serve.served_model import Ranking, Rows, ServedModel
from labelprism.serve.service import Service

Name = Annotated[str, Path(description="The name of a model.", examples=["model"])]

_MOST_EXPLAINED = 16  # rows of a request; each takes milliseconds


def labels_of(ranking: Ranking, names: list[str], threshold: float | None) -> list[list[dict[str, Any]]]:
    """Return the labels of each row, without padding and what scores too low.

    Parameters
    ----------
    ranking : Ranking
        Arrays of shape (n, k).
    names : list of c str
    threshold : float or None
    """
    found = [
        [
            {"label": label, "name": names[label], "score": score}
            for label, score in zip(*row, strict=True)
            if label >= 0
        ]
        for row in zip(ranking.labels.tolist(), ranking.scores.tolist(), strict=True)
    ]
    if threshold is None:
        return found
    return [[label for label in labels if label["score"] >= threshold] for labels in found]


def add_predict_api(app: FastAPI, service: Service) -> None:
    """Add the routes of the server's own protocol."""

    async def predict(request: Request, name: Name, body: PredictRequest) -> Response:
        """Suggest labels for one or several texts or rows."""
        model = service.models[name]
        rows = _rows(service, model, body)
        n_rows = len(rows) if isinstance(rows, list) else rows.n_rows
        request.scope["labelprism.note"] = {"model": name, "rows": n_rows}
        service.check_count(n_rows, "texts" if isinstance(rows, list) else "rows")
        service.check_k(body.k)
        if isinstance(rows, list) and not model.takes_texts:
            model.features_of(rows)  # says what is wrong
        if body.explain and n_rows > _MOST_EXPLAINED:
            raise invalid(f"{n_rows} rows, at most {_MOST_EXPLAINED} are explained at once", "explain")
        if body.explain or body.candidates:
            return json_response(await service.slowly(_at_length, model, rows, body))
        ranking, model = await service.rank(name, rows, body.k, body.probabilities)
        labels = labels_of(ranking, model.names, body.threshold)
        return json_response(
            {"model": name, "version": model.version, "predictions": [{"labels": each} for each in labels]}
        )

    async def list_models(request: Request) -> Response:
        """List the models."""
        return json_response({"models": [model.overview() for model in service.models]})

    async def show_model(request: Request, name: Name) -> Response:
        """Tell about a model."""
        return json_response(service.models[name].overview())

    async def show_node(
        request: Request, name: Name, node: Annotated[int, Path(ge=0, le=2**31 - 1, description="Its number.")]
    ) -> Response:
        """Tell what is below a node of a tree, and how it divides examples."""
        model = service.models[name]
        number = str(node)
        if not (number.isascii() and number.isdigit() and len(number) <= 10):
            raise RequestError(404, "unknown_node", "nodes are whole numbers from 0")
        return json_response(await service.slowly(node_report, model, int(number)))

    common: dict[str, Any] = {"tags": ["predict"]}
    add_route(app, "POST", "/v1/models/{name}/predict", predict, PredictResponse, **common)
    add_route(app, "GET", "/v1/models", list_models, ModelList, **common)
    add_route(app, "GET", "/v1/models/{name}", show_model, ModelInfo, **common)
    add_route(app, "GET", "/v1/models/{name}/nodes/{node}", show_node, NodeReport, **common)


def _rows(service: Service, model: ServedModel, body: PredictRequest) -> Rows:
    if body.text is not None:
        return [body.text]
    if body.texts is not None:
        return body.texts
    if body.row is not None:
        return service.matrix(model, [(body.row.indices, body.row.values)], "row")
    rows = body.rows or []
    service.check_count(len(rows), "rows")
    return service.matrix(model, [(row.indices, row.values) for row in rows])


def _at_length(model: ServedModel, rows: Rows, body: PredictRequest) -> dict[str, Any]:
    """Return a full answer: labels, and on request candidates and explanations."""
    ranking = model.rank(rows, body.k, body.probabilities)
    predictions: list[dict[str, Any]] = [
        {"labels": labels} for labels in labels_of(ranking, model.names, body.threshold)
    ]
    if body.candidates:
        for prediction, found in zip(predictions, model.candidates(rows), strict=True):
            prediction["candidates"] = found
    if body.explain:
        for position, prediction in enumerate(predictions):
            prediction["explanation"] = model.explanation(rows, position, body.k)
    return {"model": model.name, "version": model.version, "predictions": predictions}
