"""The Open Inference Protocol, version 2: `/v2`."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Path
from pydantic import ValidationError
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from labelprism import __version__
from labelprism.serve import schemas
from labelprism.serve.bodies import BodyHeaders
from labelprism.serve.errors import RequestError, invalid, unreadable
from labelprism.serve.predict_api import Name
from labelprism.serve.routes import add_route, json_response
from labelprism.serve.served_model import Ranking, Rows, ServedModel
from labelprism.serve.service import Service, checked_matrix
from labelprism.serve.tensors import HEADER_LENGTH, packed, split_body, values_of

Version = Annotated[str, Path(description="The version of the model that is served.")]

_LOWEST = float(np.finfo(np.float32).min)
_TEXTS = [{"name": "text", "datatype": "BYTES", "shape": [-1]}]
_SPARSE = [
    {"name": "indptr", "datatype": "INT64", "shape": [-1]},
    {"name": "indices", "datatype": "INT32", "shape": [-1]},
    {"name": "values", "datatype": "FP32", "shape": [-1]},
]
_OUTPUTS = [
    {"name": "name", "datatype": "BYTES", "shape": [-1, -1]},
    {"name": "label", "datatype": "INT32", "shape": [-1, -1]},
    {"name": "score", "datatype": "FP32", "shape": [-1, -1]},
]


def add_inference_protocol(app: FastAPI, service: Service) -> None:
    """Add the routes of the protocol."""

    async def server(request: Request) -> Response:
        """Tell what the server is."""
        return json_response({"name": "labelprism", "version": __version__, "extensions": ["binary_tensor_data"]})

    async def live(request: Request) -> Response:
        """Tell that the server runs."""
        return json_response({"live": True})

    async def ready(request: Request) -> Response:
        """Tell that the server answers requests; all its models are loaded before it listens."""
        return json_response({"ready": True})

    async def model_ready(request: Request, name: Name) -> Response:
        """Tell that a model answers requests."""
        return json_response({"name": service.models[name].name, "ready": True})

    async def version_ready(request: Request, name: Name, version: Version) -> Response:
        """Tell that a version of a model answers requests."""
        return json_response({"name": _model(service, name, version).name, "ready": True})

    async def metadata(request: Request, name: Name) -> Response:
        """Tell what a model takes and returns."""
        return json_response(_metadata(service.models[name]))

    async def version_metadata(request: Request, name: Name, version: Version) -> Response:
        """Tell what a version of a model takes and returns."""
        return json_response(_metadata(_model(service, name, version)))

    async def infer(request: Request, name: Name) -> Response:
        """Suggest labels for texts, or for rows as a sparse or dense matrix."""
        return await _infer(service, service.models[name], request)

    async def version_infer(request: Request, name: Name, version: Version) -> Response:
        """Suggest labels by a version of a model, as long as that is the one that is served."""
        return await _infer(service, _model(service, name, version), request)

    common: dict[str, Any] = {"tags": ["Open Inference Protocol"]}
    body = {"content": {"application/json": {"schema": schemas.InferRequest.model_json_schema()}}, "required": True}
    posted: dict[str, Any] = {**common, "openapi_extra": {"requestBody": body}}
    of_model, of_version = "/v2/models/{name}", "/v2/models/{name}/versions/{version}"
    add_route(app, "GET", "/v2", server, schemas.ServerMetadata, **common)
    add_route(app, "GET", "/v2/health/live", live, schemas.Alive, **common)
    add_route(app, "GET", "/v2/health/ready", ready, schemas.Ready, **common)
    add_route(app, "GET", of_model, metadata, schemas.ModelMetadata, **common)
    add_route(app, "GET", of_version, version_metadata, schemas.ModelMetadata, **common)
    add_route(app, "GET", f"{of_model}/ready", model_ready, schemas.ModelReady, **common)
    add_route(app, "GET", f"{of_version}/ready", version_ready, schemas.ModelReady, **common)
    add_route(app, "POST", f"{of_model}/infer", infer, schemas.InferResponse, **posted)
    add_route(app, "POST", f"{of_version}/infer", version_infer, schemas.InferResponse, **posted)


def _model(service: Service, name: str, version: str) -> ServedModel:
    model = service.models[name]
    if version != model.version:
        raise RequestError(404, "unknown_version", f"the model {name} is served in version {model.version} only")
    return model


def _metadata(model: ServedModel) -> dict[str, Any]:
    rows = {"name": "rows", "datatype": "FP32", "shape": [-1, model.n_features]}
    return {
        "name": model.name,
        "versions": [model.version],
        "platform": "labelprism",
        "inputs": [*(_TEXTS if model.takes_texts else []), *_SPARSE, rows],
        "outputs": _OUTPUTS,
    }


async def _infer(service: Service, model: ServedModel, request: Request) -> Response:
    headers = BodyHeaders.of(request)
    with service.bodies.held(headers):
        content, blobs = split_body(request.headers.get(HEADER_LENGTH), await service.bodies.read(request, headers))
        try:
            body = schemas.InferRequest.model_validate_json(content)
        except ValidationError as error:
            raise unreadable(error) from None
        return await _answer(service, model, body, blobs, request)


async def _answer(
    service: Service, model: ServedModel, body: schemas.InferRequest, blobs: bytes, request: Request
) -> Response:
    parameters = body.parameters or {}
    k, threshold, likely = (parameters.get(name) for name in ("k", "threshold", "probabilities"))
    k = 5 if k is None else k
    if type(k) is not int or k < 1:
        raise invalid("the parameter k must be a whole number from 1", "parameters.k")
    if threshold is not None and type(threshold) not in (int, float):
        raise invalid("the parameter threshold must be a number", "parameters.threshold")
    if likely not in (None, True, False):
        raise invalid("the parameter probabilities must be true or false", "parameters.probabilities")
    service.check_k(k)
    rows = _rows(service, model, values_of(body.inputs, blobs))
    n_rows = len(rows) if isinstance(rows, list) else rows.n_rows
    request.scope["labelprism.note"] = {"model": model.name, "rows": n_rows}
    service.check_count(n_rows, "inputs")
    if n_rows == 0:
        raise invalid("there is no row in the inputs; send one at least", "inputs")
    ranking, model = await service.rank(model.name, rows, k, bool(likely))
    return _packed(model, body, _outputs(model, ranking, threshold))


def _rows(service: Service, model: ServedModel, inputs: dict[str, Any]) -> Rows:
    """Return the rows in the inputs of a request."""
    given = set(inputs)
    if given == {"text"}:
        texts = inputs["text"]
        if texts.dtype != object:
            raise invalid("the input text must be of datatype BYTES", "inputs")
        if not model.takes_texts:
            model.features_of([])  # says what is wrong
        try:
            return [text.decode() if isinstance(text, bytes) else text for text in texts.ravel().tolist()]
        except UnicodeDecodeError as error:
            raise invalid(f"a text is not UTF-8: {error.reason} at byte {error.start}", "inputs") from None
    if any(values.dtype == object for values in inputs.values()):
        raise invalid("rows are made of numbers; datatype BYTES is for the input text only", "inputs")
    if given == {"rows"} and inputs["rows"].ndim == 2 and inputs["rows"].shape[1] == model.n_features:
        dense = np.asarray(inputs["rows"], np.float64)
        row_of, columns = np.nonzero(dense)
        indptr = np.searchsorted(row_of, np.arange(dense.shape[0] + 1)).astype(np.int64)
        return checked_matrix(model, indptr, columns, dense[row_of, columns], "inputs")
    if given == {"indptr", "indices", "values"}:
        return _sparse(service, model, inputs)
    wanted = "text, or " if model.takes_texts else ""
    raise invalid(
        f"the inputs must be {wanted}indptr, indices and values, or rows of shape (n, {model.n_features}); "
        f"got {', '.join(sorted(given))[:200]}",
        "inputs",
    )


def _sparse(service: Service, model: ServedModel, inputs: dict[str, Any]) -> Rows:
    indptr, indices, values = (inputs[name].ravel() for name in ("indptr", "indices", "values"))
    if indptr.dtype.kind not in "iu" or indices.dtype.kind not in "iu":
        raise invalid("indptr and indices must be of whole numbers", "inputs")
    indptr, indices = indptr.astype(np.int64), indices.astype(np.int64)
    ascends = indptr.size and indptr[0] == 0 and indptr[-1] == indices.size and (np.diff(indptr) >= 0).all()
    if not ascends or indices.size != values.size:
        raise invalid("indptr must ascend from 0 to the number of indices, and values be as many", "inputs")
    if np.diff(indptr).max(initial=0) > service.settings.max_features:
        raise invalid(f"a row has more than {service.settings.max_features} entries (--max-features)", "inputs")
    return checked_matrix(model, indptr, indices, values.astype(np.float64), "inputs")


def _outputs(model: ServedModel, ranking: Ranking, threshold: float | None) -> dict[str, Any]:
    """Return the outputs, of shape (n, k); the ends of rows that have fewer are "", -1 and the lowest number."""
    labels, scores = ranking.labels.copy(), ranking.scores.astype(np.float32)
    if threshold is not None:
        labels[scores < threshold] = -1
    scores[labels < 0] = _LOWEST
    names = np.array([model.names[label] if label >= 0 else "" for label in labels.ravel().tolist()], object)
    return {"name": names.reshape(labels.shape), "label": labels, "score": scores}


def _packed(model: ServedModel, body: schemas.InferRequest, found: dict[str, Any]) -> Response:
    datatypes = {str(output["name"]): str(output["datatype"]) for output in _OUTPUTS}
    wanted = body.outputs or [schemas.RequestedOutput(name=name) for name in datatypes]
    all_binary = (body.parameters or {}).get("binary_data_output") is True
    outputs, blobs = [], []
    for output in wanted:
        if output.name not in found:
            raise invalid(f"there is no output {output.name[:100]!r}; here are {', '.join(datatypes)}", "outputs")
        is_binary = (output.parameters or {}).get("binary_data", all_binary) is True
        entry, blob = packed(output.name, datatypes[output.name], found[output.name], is_binary)
        outputs.append(entry)
        blobs.append(blob)
    answer: dict[str, Any] = {"model_name": model.name, "model_version": model.version, "outputs": outputs}
    if body.id is not None:
        answer["id"] = body.id
    head = to_json(answer)
    if not any(blobs):
        return Response(head, media_type="application/json")
    return Response(
        head + b"".join(blobs), headers={HEADER_LENGTH: str(len(head))}, media_type="application/octet-stream"
    )
