"""Whatever is sent, the answer is JSON with a status of 4xx that says what to fix."""

from __future__ import annotations

import json
from typing import Any

import pytest

PREDICT = "/v1/models/texts/predict"
ROWS = "/v1/models/rows/predict"
JSON = {"Content-Type": "application/json"}


def check(answer: Any, status: int, told: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()
    assert set(error) == {"error", "code", "details"}
    assert told in error["error"]
    assert len(answer.content) < 5000


@pytest.mark.parametrize(
    ("path", "body", "status", "told"),
    [
        (PREDICT, b"", 400, "not JSON"),
        (PREDICT, b"{", 400, "not JSON"),
        (PREDICT, b'{"text": "a"} x', 400, "not JSON"),
        (PREDICT, b'{"text": "\xff"}', 400, "not JSON"),
        (PREDICT, b'{"text": "\\ud800"}', 400, "not JSON"),
        (PREDICT, b"[" * 5000, 400, "not JSON"),
        (PREDICT, b"[]", 422, "object"),
        (PREDICT, b"{}", 422, "exactly one of text, texts, row and rows"),
        (PREDICT, b'{"text": "a", "texts": ["b"]}', 422, "got text and texts"),
        (PREDICT, b'{"text": 5}', 422, "valid string"),
        (PREDICT, b'{"texts": []}', 422, "at least 1"),
        (PREDICT, b'{"texts": ["a", null]}', 422, "at texts.1"),
        (PREDICT, b'{"text": "a", "k": 0}', 422, "at k"),
        (PREDICT, b'{"text": "a", "k": "5"}', 422, "at k"),
        (PREDICT, b'{"text": "a", "k": 51}', 422, "--max-k"),
        (PREDICT, b'{"text": "a", "k": 1e400}', 422, "at k"),
        (PREDICT, b'{"text": "a", "threshold": NaN}', 422, "at threshold"),
        (PREDICT, b'{"text": "a", "limit": 5}', 422, "at limit"),
        (PREDICT, json.dumps({"texts": ["a"] * 101}).encode(), 422, "--max-rows"),
        (PREDICT, json.dumps({"texts": ["a"] * 17, "explain": True}).encode(), 422, "at most 16"),
        (PREDICT, b'{"row": {"indices": [1], "values": [1]}, "explain": true}', 422, "send text or texts"),
        (ROWS, b'{"text": "a"}', 422, "takes rows of 256 features, not texts"),
        (ROWS, b'{"row": {"indices": [1, 2], "values": [1]}}', 422, "as many"),
        (ROWS, b'{"row": {"indices": [256], "values": [1]}}', 422, "features go from 0 to 255"),
        (ROWS, b'{"row": {"indices": [-1], "values": [1]}}', 422, "at row.indices.0"),
        (ROWS, b'{"row": {"indices": [9999999999999], "values": [1]}}', 422, "at row.indices.0"),
        (ROWS, b'{"row": {"indices": [1.5], "values": [1]}}', 422, "at row.indices.0"),
        (ROWS, b'{"rows": [{"indices": [3, 3], "values": [1, 1]}]}', 422, "index 3 twice"),
        (ROWS, b'{"row": {"indices": [1], "values": [NaN]}}', 422, "at row.values.0"),
        (ROWS, b'{"row": {"indices": [1], "values": [1e39]}}', 422, "at row.values.0"),
        (ROWS, b'{"row": {"indices": [1], "values": [-Infinity]}}', 422, "at row.values.0"),
        (ROWS, b'{"row": {"indices": [1], "values": ["1"]}}', 422, "at row.values.0"),
        (ROWS, json.dumps({"row": {"indices": list(range(61)), "values": [1] * 61}}).encode(), 422, "--max-features"),
        ("/v1/models/none/predict", b'{"text": "a"}', 404, "here are: texts, rows, paper"),
        ("/v1/models/" + "x" * 3000 + "/predict", b'{"text": "a"}', 404, "there is no model"),
        ("/v2/models/texts/infer", b"{}", 422, "at inputs"),
        ("/v2/models/texts/versions/1/infer", b"{}", 404, "served in version"),
    ],
)  # fmt: skip
def test_bad_bodies(client: Any, path: str, body: bytes, status: int, told: str) -> None:
    check(client.post(path, content=body, headers=JSON), status, told)


def tensor(name: str, datatype: str, shape: list[int], data: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": shape, "data": data, **more}


@pytest.mark.parametrize(
    ("path", "inputs", "told"),
    [
        ("texts", [tensor("text", "BYTES", [2], ["a"])], "not the shape"),
        ("texts", [tensor("text", "INT32", [1], [1])], "must be of datatype BYTES"),
        ("texts", [tensor("text", "BYTES", [1], [1])], "hold strings"),
        ("texts", [tensor("text", "TEXT", [1], ["a"])], "is unknown"),
        ("texts", [tensor("text", "BYTES", [0], [])], "no row"),
        ("texts", [tensor("words", "BYTES", [1], ["a"])], "made of numbers"),
        ("rows", [tensor("text", "BYTES", [1], ["a"])], "takes rows of 256"),
        ("rows", [tensor("rows", "FP32", [1, 3], [1, 2, 3])], "shape (n, 256)"),
        ("rows", [tensor("rows", "FP32", [1, 256], [1e39] * 256)], "no finite number"),
        ("rows", [tensor("rows", "FP32", [1, 256], [[[[1]]]])], "nested"),
        ("rows", [tensor("indptr", "INT64", [2], [0, 5]), tensor("indices", "INT32", [1], [1]),
                  tensor("values", "FP32", [1], [1])], "indptr must ascend"),
        ("rows", [tensor("indptr", "INT64", [2], [0, 1]), tensor("indices", "INT32", [1], [2**40]),
                  tensor("values", "FP32", [1], [1])], "beyond INT32"),
        ("rows", [tensor("indptr", "FP32", [2], [0, 1]), tensor("indices", "INT32", [1], [1]),
                  tensor("values", "FP32", [1], [1])], "whole numbers"),
    ],
)  # fmt: skip
def test_bad_tensors(client: Any, path: str, inputs: list[Any], told: str) -> None:
    check(client.post(f"/v2/models/{path}/infer", json={"inputs": inputs}), 422, told)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"limit": "5"}, "text is missing"),
        ({"text": "a", "limit": "0"}, "limit"),
        ({"text": "a", "limit": "x"}, "limit"),
        ({"text": "a", "limit": "51"}, "--max-k"),
        ({"text": "a", "threshold": "nan"}, "threshold"),
        ({f"field{i}": "" for i in range(200)}, "cannot be read"),
    ],
)
def test_bad_forms(client: Any, fields: dict[str, str], told: str) -> None:
    check(client.post("/v1/projects/texts/suggest", data=fields), 422, told)


def test_other_kinds_paths_and_methods(client: Any) -> None:
    check(client.post(PREDICT, content=b'{"text": "a"}'), 415, "none was sent")
    check(client.post(PREDICT, data={"text": "a"}), 415, "application/json")
    check(client.post(PREDICT, content=b"x", headers={**JSON, "Content-Encoding": "gzip"}), 415, "gzip")
    usual = {"Content-Type": "Application/JSON ; charset=utf-8", "Content-Encoding": "Identity"}
    assert client.post(PREDICT, content=b'{"text": "a"}', headers=usual).status_code == 200
    check(client.get(PREDICT), 405, "GET is not possible here")
    check(client.get("/v1/nothing"), 404, "/docs")
    check(client.get("/v1/models/texts/nodes/x"), 404, "whole numbers")
    check(client.get("/page/secret"), 404, "nothing here")


def test_ten_megabytes_are_refused_and_the_server_goes_on(client: Any) -> None:
    long = "wave " * 2_000_000
    check(client.post(PREDICT, json={"text": long}), 413, "--max-body")
    chunks = (b'{"text": "' if i == 0 else b"x" * 65536 for i in range(20))
    check(client.post(PREDICT, content=chunks, headers=JSON), 413, "--max-body")
    check(client.post(PREDICT, json={"k": "y" * 150_000, "text": "a"}), 422, "at k")
    assert client.post(PREDICT, json={"text": "wave"}).status_code == 200
