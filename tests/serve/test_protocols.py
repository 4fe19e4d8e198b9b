"""Clients that others wrote: Triton's for the Open Inference Protocol, and Annif's own backend."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from serve_corpus import corpus

from labelprism import PrismClassifier
from labelprism.features import TextFeatures

TEXTS, _ = corpus(6, 7)


def test_inference_in_plain_json(client: Any, models: dict[str, Path]) -> None:
    assert client.get("/v2").json()["name"] == "labelprism"
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True}
    metadata = client.get("/v2/models/texts").json()
    version = metadata["versions"][0]
    assert client.get(f"/v2/models/texts/versions/{version}/ready").json() == {"name": "texts", "ready": True}
    body = {
        "id": "42",
        "inputs": [{"name": "text", "shape": [len(TEXTS), 1], "datatype": "BYTES", "data": [[text] for text in TEXTS]}],
        "parameters": {"k": 3},
        "outputs": [{"name": "label"}, {"name": "name"}],
    }
    answer = client.post(f"/v2/models/texts/versions/{version}/infer", json=body).json()
    labels, _ = PrismClassifier.load(models["texts"]).predict_topk(TEXTS, 3)
    assert (answer["id"], answer["model_name"], answer["model_version"]) == ("42", "texts", version)
    label, name = answer["outputs"]
    assert (label["datatype"], label["shape"], label["data"]) == ("INT32", [len(TEXTS), 3], labels.ravel().tolist())
    assert name["data"][0] == PrismClassifier.load(models["texts"]).classes_[labels[0, 0]]
    none = client.post("/v2/models/texts/infer", json={**body, "parameters": {"threshold": 1e9}}).json()
    assert set(none["outputs"][0]["data"]) == {-1}
    assert set(none["outputs"][1]["data"]) == {""}


@pytest.mark.parametrize("is_binary", [True, False])
def test_official_inference_client(server: Any, models: dict[str, Path], is_binary: bool) -> None:
    triton = pytest.importorskip("tritonclient.http", reason="pip install 'tritonclient[http]' for this test")
    client = triton.InferenceServerClient(urlsplit(server.url).netloc)
    try:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("texts")
        assert not client.is_model_ready("none")
        assert client.get_model_metadata("rows")["inputs"][0]["name"] == "indptr"
        wanted = [triton.InferRequestedOutput(name, binary_data=is_binary) for name in ("name", "label", "score")]
        text = triton.InferInput("text", [len(TEXTS)], "BYTES")
        text.set_data_from_numpy(np.array([text.encode() for text in TEXTS], object), binary_data=is_binary)
        found = client.infer("texts", [text], outputs=wanted, parameters={"k": 2})
        model = PrismClassifier.load(models["texts"])
        labels, scores = model.predict_topk(TEXTS, 2)
        np.testing.assert_array_equal(found.as_numpy("label"), labels)
        np.testing.assert_allclose(found.as_numpy("score"), scores, atol=1e-6)
        names = [name.decode() if isinstance(name, bytes) else name for name in found.as_numpy("name")[:, 0]]
        assert names == model.classes_[labels[:, 0]].tolist()
        X = TextFeatures(n_bits=8).fit(corpus(1000, 0)[0]).transform(TEXTS)
        sparse = [("indptr", X.indptr, "INT64"), ("indices", X.indices, "INT32"), ("values", X.data, "FP32")]
        dense = [("rows", X.toarray(), "FP32")]
        expected, _ = PrismClassifier.load(models["rows"]).predict_topk(X, 5)
        for parts in (sparse, dense):
            inputs = []
            for name, values, datatype in parts:
                given = triton.InferInput(name, list(values.shape), datatype)
                given.set_data_from_numpy(values.astype(triton.triton_to_np_dtype(datatype)), binary_data=is_binary)
                inputs.append(given)
            np.testing.assert_array_equal(client.infer("rows", inputs, outputs=wanted).as_numpy("label"), expected)
        with pytest.raises(triton.InferenceServerException, match="k must be a whole number"):
            client.infer("texts", [text], parameters={"k": 0})
    finally:
        client.close()


def test_binary_tensors_that_do_not_fit(client: Any) -> None:
    tensor = b'{"name": "text", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": %d}}'
    length = "Inference-Header-Content-Length"
    for size, blob in ((9, b"\x05\0\0\0ab"), (6, b"\x05\0\0\0ab"), (2, b"\x05\0"), (5, b"\x01\0\0\0\xff")):
        content = b'{"inputs": [' + tensor % size + b"]}"
        headers = {length: str(len(content))}
        answer = client.post("/v2/models/texts/infer", content=content + blob, headers=headers)
        assert answer.status_code == 422, answer.text
    assert client.post("/v2/models/texts/infer", content=b"{}", headers={length: "9"}).status_code == 400


# -------------------------------------------------------------------------------------------------------------- Annif


def test_annif_shape(client: Any) -> None:
    projects = client.get("/v1/projects").json()["projects"]
    assert [project["project_id"] for project in projects] == ["texts", "rows", "paper"]
    assert client.get("/v1/projects/texts").json() == projects[0]
    assert projects[0]["is_trained"] is True
    answer = client.post("/v1/projects/texts/suggest", data={"text": "boat sail mast straße weg", "limit": "2"}).json()
    assert len(answer["results"]) == 2
    found = {each["label"]: each for each in answer["results"]}
    assert found["straße"]["uri"] == "urn:labelprism:stra%C3%9Fe"
    assert set(found["ship"]) == {"uri", "label", "notation", "score"}
    assert all(0 < each["score"] <= 1 for each in answer["results"])


def annif_python() -> str:
    """Return the Python of an environment with Annif: this one, or that of the variable ANNIF_PYTHON."""
    if importlib.util.find_spec("annif") is not None:
        return sys.executable
    python = os.environ.get("ANNIF_PYTHON")
    if python is None or shutil.which(python) is None:
        pytest.skip("Annif is not here; install it into an environment and set ANNIF_PYTHON to its Python")
    return python


def test_annif_asks_the_server(tmp_path: Path, start: Any) -> None:
    """Annif's own `http` backend, with a vocabulary whose URIs are the names of the labels."""
    python = annif_python()
    texts, labels = corpus(1000, 0)
    uris = {"ship": "http://example.org/ship", "sea": "http://example.org/sea", "dog": "http://example.org/dog"}
    kept = [(text, [uris[label] for label in row if label in uris]) for text, row in zip(texts, labels, strict=True)]
    model = PrismClassifier(features=TextFeatures(n_bits=10), n_jobs=1, random_state=0)
    model.fit([text for text, _ in kept], [tuple(row) for _, row in kept]).save(tmp_path / "subjects")
    (tmp_path / "vocab.tsv").write_text("".join(f"<{uri}>\t{label}\n" for label, uri in uris.items()))
    with start(str(tmp_path / "subjects")) as server:
        (tmp_path / "projects.cfg").write_text(
            "[remote]\nname=Remote\nlanguage=en\nbackend=http\nvocab=tiny\nlimit=3\n"
            f"endpoint={server.url}/v1/projects/subjects/suggest\n"
        )

        def annif(*arguments: str, given: str = "") -> str:
            done = subprocess.run(
                [python, "-c", "from annif.cli import cli; cli()", *arguments],
                cwd=tmp_path, input=given, capture_output=True, text=True, timeout=300, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            return done.stdout

        annif("load-vocab", "tiny", "--language", "en", "vocab.tsv")
        suggested = annif("suggest", "remote", given="a boat with a sail and a tall mast in the harbour")
        shown = annif("show-project", "remote")
    first = suggested.splitlines()[0].split("\t")
    assert first[:2] == ["<http://example.org/ship>", "ship"]
    assert float(first[2]) > 0.3
    assert "True" in shown  # is_trained, which it asks the server for
