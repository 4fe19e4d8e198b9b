"""Annif's commands with our backend, each in a process of its own, as a user runs them."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from conftest import SUBJECTS, Workshop, uri

PROGRAMS = Path(sys.executable).parent


@pytest.fixture(scope="module")
def commanded(make_workshop) -> Workshop:
    """A workshop where the vocabulary was loaded and a project trained by commands."""
    workshop = make_workshop()
    workshop.annif("load-vocab", "things", "--language", "en", workshop.vocabulary)
    workshop.annif("train", "plain", workshop.train)
    return workshop


def test_suggest_prints_subjects_best_first(commanded):
    said = commanded.annif("suggest", "plain", "--limit", 2, stdin="Two horses on a bridge")
    lines = [line.split("\t") for line in said.splitlines() if line.startswith("<")]
    assert {line[0] for line in lines} == {f"<{uri('horse')}>", f"<{uri('bridge')}>"}
    scores = [float(line[2]) for line in lines]
    assert 1 >= scores[0] >= scores[1] > 0.2


def test_eval_measures_in_one_process_and_in_two(commanded):
    """Forked processes use the model that was mapped before."""
    found = []
    for jobs in (1, 2):
        said = commanded.annif("eval", "plain", commanded.test, "-m", "F1@5", "-m", "NDCG", "--jobs", jobs)
        found.append(dict(re.findall(r"^(.+):\s+([\d.]+)$", said, re.MULTILINE)))
    assert found[0] == found[1]
    assert float(found[0]["NDCG"]) > 0.9


def test_learn_then_suggest_what_was_learned(make_workshop):
    workshop = make_workshop()
    workshop.annif("load-vocab", "things", "--language", "en", workshop.vocabulary)
    workshop.annif("train", "plain", workshop.train, "--jobs", 1)
    assert uri("lighthouse") not in workshop.annif("suggest", "plain", stdin="lighthouses")
    workshop.annif("learn", "plain", workshop.new)
    assert uri("lighthouse") in workshop.annif("suggest", "plain", "--limit", 3, stdin="lighthouses")


def test_hyperopt_gives_lines_for_the_configuration(commanded, tmp_path):
    said = commanded.annif(
        *("hyperopt", "plain", commanded.test, "--trials", 2, "--metric", "F1@5", "--results-file", tmp_path / "t.tsv")
    )
    assert re.search(r"Got best F1@5 score [01]\.\d+ with:\n---\nngram=\d\nweighting=\w+\nobjective=\w+\n---", said)
    header, *trials = (tmp_path / "t.tsv").read_text().splitlines()
    assert header == "trial\tvalue\tngram\tweighting\tobjective"
    assert len(trials) == 2


def test_hyperopt_in_two_processes(commanded):
    said = commanded.annif("hyperopt", "plain", commanded.test, "--trials", 2, "--jobs", 2)
    assert re.search(r"Got best NDCG score [01]\.\d{4} with:\n---\nngram=", said)


def test_train_again_from_cached_data_with_another_parameter(commanded):
    said = commanded.annif("train", "--cached", "plain", "-b", "labelprism.preset=fast")
    assert "reusing cached training data" in said
    assert uri("horse") in commanded.annif("suggest", "plain", "--limit", 1, stdin="horses")


def test_ensemble_suggests_what_its_sources_do(commanded):
    commanded.annif("train", "tfidf", commanded.train)
    said = commanded.annif("suggest", "both", "--limit", 1, stdin="castles")
    assert uri("castle") in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("suggest", "untrained"), "Project is not trained"),
        (("learn", "untrained", "new.tsv"), "Couldn't initialize backend 'labelprism': model"),
        (("train", "untrained", "empty.tsv"), "training backend labelprism with no documents"),
        (("train", "--cached", "untrained"), "train data file"),
        (("train", "wrong", "train.tsv"), "preset must be one of default, accurate, fast, got 'slow'"),
        (("hyperopt", "plain", "test.tsv", "--metric", "Beauty"), "there is no metric 'Beauty'"),
    ],
)
def test_errors_are_one_line_and_say_what_to_do(commanded, arguments, message):
    paths = [commanded.folder / name if name.endswith(".tsv") else name for name in arguments]
    said = commanded.annif(*paths, stdin="horses", code=1)
    assert message in said
    assert "Traceback" not in said


def test_the_program_annif_labelprism_needs_no_variable(commanded):
    result = subprocess.run(
        [PROGRAMS / "annif-labelprism", "list-projects"],
        env=commanded.environment(),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert re.search(r"^plain .* True ", result.stdout, re.MULTILINE)
    assert re.search(r"^untrained .* False ", result.stdout, re.MULTILINE)


def test_annif_alone_does_not_know_the_backend(commanded):
    """If it did, Annif would have plug-ins, and half of our installation guide could go."""
    result = subprocess.run(
        [PROGRAMS / "annif", "show-project", "plain"],
        env=commanded.environment(),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert "Could not create backend labelprism" in result.stdout + result.stderr


def test_help_is_not_slowed_down(commanded):
    """Neither the backend nor what it imports is loaded before a project asks for it."""
    heavy = "{'labelprism', 'sklearn', 'optuna'}"
    code = f"import annif_labelprism.config, annif.cli, sys; print({heavy} & set(sys.modules))"
    said = subprocess.run(
        [sys.executable, "-c", code], env=commanded.environment(), capture_output=True, encoding="utf-8", check=True
    )
    assert said.stdout == "set()\n"


def test_application_for_a_server_of_ones_own(commanded):
    """Under gunicorn and uvicorn Annif loads all projects as it starts."""
    code = (
        "import annif; app = annif.create_app().app; project = app.annif_registry.get_project('plain'); "
        "print(app.config['INITIALIZE_PROJECTS'], project.backend._model.n_labels_)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        env=commanded.environment(ANNIF_CONFIG="annif_labelprism.config.Config"),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert said.stdout.splitlines()[-1] == f"True {len(SUBJECTS) + 1}"


def test_web_service(commanded):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [PROGRAMS / "annif", "run", "--port", str(port)],
        env=commanded.environment(ANNIF_CONFIG="annif_labelprism.config.Config"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        body = urllib.parse.urlencode({"text": "a river in a valley", "limit": 2}).encode()
        answer = _ask(f"http://127.0.0.1:{port}/v1/projects/plain/suggest", body)
        assert {result["uri"] for result in answer["results"]} == {uri("river"), uri("valley")}
        assert _ask(f"http://127.0.0.1:{port}/v1/projects/plain")["is_trained"] is True
    finally:
        server.terminate()
        server.wait(30)


def _ask(address: str, body: bytes | None = None) -> dict:
    """Ask the web service, which may still be starting."""
    for _ in range(600):
        try:
            with urllib.request.urlopen(address, body, timeout=60) as answer:
                return json.load(answer)
        except ConnectionError:
            pass
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionError):
                raise
        time.sleep(0.2)
    raise AssertionError(f"no answer from {address}")
