"""The OpenAPI document: true, complete, and no request that it allows breaks the server."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable


def test_document_and_page(client: Any) -> None:
    document = client.get("/openapi.json").json()
    paths = document["paths"]
    assert {"/v1/models/{name}/predict", "/v2/models/{name}/infer", "/v1/projects/{project_id}/suggest"} <= set(paths)
    answers = paths["/v1/models/{name}/predict"]["post"]["responses"]
    assert {"200", "400", "401", "404", "413", "415", "422", "429", "503"} <= set(answers)
    page = client.get("/docs")
    assert "https://" not in page.text  # nothing from elsewhere
    for path in paths:
        assert path in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_schemathesis_finds_no_server_error(server: Any, long_run: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        schemathesis = pytest.importorskip("schemathesis", reason="pip install schemathesis for this test")
        schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
        operations = [result.ok() for result in schema.get_all_operations()]
    checks = [
        schemathesis.checks.not_a_server_error,
        schemathesis.checks.status_code_conformance,
        schemathesis.checks.content_type_conformance,
        schemathesis.checks.response_schema_conformance,
    ]
    assert len(operations) >= 15
    for operation in operations:
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
            check_operation(operation, mode, checks, 200 if long_run else 8)
    with server.client() as client:
        assert client.post("/v1/models/texts/predict", json={"text": "boat"}).status_code == 200
    assert not any("unexpected error" in line for line in server.log)


def check_operation(operation: Any, mode: Any, checks: list[Any], n_examples: int) -> None:
    """Ask what the document allows (or, in the other mode, just does not), mostly of a model that is there."""

    @settings(max_examples=n_examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy(generation_mode=mode), st.integers(0, 4))
    def ask(case: Any, draw: int) -> None:
        for part in ("name", "project_id"):
            if draw and part in (case.path_parameters or {}):
                case.path_parameters[part] = "texts"
        case.validate_response(case.call(), checks=checks)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(Unsatisfiable):  # there is nothing wrong that could be sent to a route without parameters
            ask()
