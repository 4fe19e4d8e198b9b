"""What requests and answers look like; the OpenAPI document is made from these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Index = Annotated[int, Field(ge=0, le=2**31 - 2)]
Value = Annotated[float, Field(allow_inf_nan=False, ge=-3.4028234663852886e38, le=3.4028234663852886e38)]


class _Request(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class SparseRow(_Request):
    """A row of numbers: the features that are not 0."""

    indices: list[Index] = Field(description="Numbers of features, from 0; each at most once, in any order.")
    values: list[Value] = Field(description="As many finite numbers.")


class PredictRequest(_Request):
    """One of text, texts, row and rows, and what is wanted."""

    text: str | None = Field(None, description="One text.", examples=["a ship in a storm off the coast"])
    texts: list[str] | None = Field(None, min_length=1, description="Several texts.")
    row: SparseRow | None = Field(None, description="One row of numbers.")
    rows: list[SparseRow] | None = Field(None, min_length=1, description="Several rows of numbers.")
    k: int = Field(5, ge=1, description="How many labels, best first.")
    threshold: Value | None = Field(None, description="Leave out labels with a lower score.")
    probabilities: bool = Field(False, description="Make scores probabilities, from 0 to 1.")
    candidates: bool = Field(False, description="Also return the labels that the filter F found.")
    explain: bool = Field(False, description="Also return why each label was suggested.")

    @model_validator(mode="after")
    def _one_input(self) -> PredictRequest:
        inputs = self.text, self.texts, self.row, self.rows
        if inputs.count(None) != len(inputs) - 1:
            given = [name for name in ("text", "texts", "row", "rows") if getattr(self, name) is not None]
            raise ValueError(f"exactly one of text, texts, row and rows is needed, got {' and '.join(given) or 'none'}")
        return self


class ExplainRequest(_Request):
    """What the explorer asks."""

    text: str


class Label(BaseModel):
    """A suggested label."""

    label: int = Field(description="Its number.")
    name: str
    score: float


class CandidateLabel(BaseModel):
    """A label that F found, with its log-probability there."""

    label: int
    name: str
    log_probability: float | None


class Prediction(BaseModel):
    """The labels of one text or row."""

    labels: list[Label]
    candidates: list[CandidateLabel] | None = None
    explanation: dict[str, Any] | None = Field(
        None, description="The way through each tree, and the parts and features that make up each score."
    )


class PredictResponse(BaseModel):
    """Predictions in the order of the request."""

    model: str
    version: str
    predictions: list[Prediction]


class ModelInfo(BaseModel):
    """A model that is served."""

    name: str
    version: str = Field(description="Changes when the model is replaced.")
    labels: int
    features: int
    input: Literal["texts", "rows"]
    loaded_at: str


class ModelList(BaseModel):
    """All models."""

    models: list[ModelInfo]


class NodeLabel(BaseModel):
    """A label below a node, and its share of the label mass there."""

    label: int
    name: str
    share: float


class NodeFeature(BaseModel):
    """A feature of a node's router; above 0 it sends examples right."""

    feature: int
    name: str | None
    weight: float


class NodeReport(BaseModel):
    """A node of a tree."""

    node: int
    tree: int
    depth: int
    parent: int | None
    left: int | None
    right: int | None
    leaves: int = Field(description="The number of leaves below it.")
    n_labels: int = Field(description="The number of labels below it.")
    labels: list[NodeLabel]
    features: list[NodeFeature]


class ErrorResponse(BaseModel):
    """What was wrong, and what to do."""

    error: str
    code: str
    details: list[dict[str, str]]


# -------------------------------------------------------------------------------------------- Open Inference Protocol


class Tensor(BaseModel):
    """A tensor; `data` may be nested as its shape is, or flat."""

    model_config = ConfigDict(extra="ignore")

    name: str
    shape: list[Annotated[int, Field(ge=0, le=2**31 - 1)]]
    datatype: str
    parameters: dict[str, Any] | None = None
    data: list[Any] | None = None


class RequestedOutput(BaseModel):
    """An output that is wanted."""

    name: str
    parameters: dict[str, Any] | None = None


class InferRequest(BaseModel):
    """A request of the Open Inference Protocol, version 2."""

    id: str | None = None
    parameters: dict[str, Any] | None = Field(None, description="k, threshold and probabilities, as in predict.")
    inputs: list[Tensor] = Field(min_length=1)
    outputs: list[RequestedOutput] | None = None


class InferResponse(BaseModel):
    """The answer: names, labels and scores, of shape (n, k)."""

    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[Tensor]


class ServerMetadata(BaseModel):
    """What the server is."""

    name: str
    version: str
    extensions: list[str]


class TensorMetadata(BaseModel):
    """A tensor that a model takes or returns; -1 in a shape is any extent."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(BaseModel):
    """What a model takes and returns."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class Alive(BaseModel):
    """The server runs."""

    live: bool


class Ready(BaseModel):
    """The server, or a model, answers requests."""

    ready: bool


class ModelReady(BaseModel):
    """A model answers requests."""

    name: str
    ready: bool


# -------------------------------------------------------------------------------------------------------------- Annif


class AnnifBackend(BaseModel):
    """The kind of a project."""

    backend_id: str


class AnnifProject(BaseModel):
    """A model as Annif lists its projects."""

    project_id: str
    name: str
    language: str
    backend: AnnifBackend
    vocab: dict[str, Any] | None
    vocab_language: str | None
    is_trained: bool
    modification_time: str


class AnnifProjects(BaseModel):
    """All models as Annif lists its projects."""

    projects: list[AnnifProject]


class AnnifSuggestion(BaseModel):
    """A subject."""

    uri: str
    label: str
    notation: str | None
    score: float


class AnnifSuggestions(BaseModel):
    """Subjects, best first."""

    results: list[AnnifSuggestion]
