"""The real program: started as a process, with pipes, full disks and signals."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labelprism.cli import main

COMMANDS = ("train", "predict", "evaluate", "compare", "tune", "inspect", "convert", "demo", "completion")
PROGRAM = [sys.executable, "-m", "labelprism"]


def program(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *arguments], check=False, capture_output=True, text=True, timeout=120, **options)


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys, contextlib, io\n"
        "from labelprism.cli import main\n"
        f"for command in ([], *([name] for name in {COMMANDS!r})):\n"
        "    with contextlib.redirect_stdout(io.StringIO()) as shown:\n"
        "        assert main([*command, '--help']) == 0\n"
        "    assert 'exit codes' in shown.getvalue()\n"
        "heavy = ('numpy', 'scipy', 'sklearn', 'tqdm', 'shtab', 'matplotlib', 'tomllib')\n"
        "print([name for name in heavy if name in sys.modules], len(sys.modules) < 200)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[] True"


def test_the_console_script_is_installed() -> None:
    from importlib.metadata import entry_points

    (script,) = entry_points(group="console_scripts", name="labelprism")
    assert script.value == "labelprism.cli:run"
    assert program("--version").stdout.startswith("labelprism ")


def test_from_text_to_suggestions_to_metrics(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, test = str(tmp_path / "model"), str(corpus / "test.tsv")
    trained = program("train", str(corpus / "train.tsv"), "--out", model, "--n-bits", "10", "--json", "-q")
    assert trained.returncode == 0, trained.stderr
    assert json.loads(trained.stdout)["rows"] == 200
    texts = "".join(line.split("\t")[0] + "\n" for line in (corpus / "test.tsv").read_text().splitlines())
    predicted = program("predict", model, input=texts)
    assert predicted.returncode == 0
    assert len(predicted.stdout.splitlines()) == 40
    assert "suggested labels for 40 rows" in predicted.stderr
    (tmp_path / "predicted.jsonl").write_text(predicted.stdout)
    assert main(["evaluate", model, test, "--json", "-q"]) == 0
    of_model = json.loads(capsys.readouterr().out)
    of_file = ["--predictions", str(tmp_path / "predicted.jsonl"), "--train", str(corpus / "train.tsv")]
    assert main(["evaluate", test, *of_file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == of_model
    assert of_model["metrics"]["P@1"]["value"] > 0.9


def test_from_matrices_on_standard_input(corpus: Path, matrix_model: str, capsys: pytest.CaptureFixture[str]) -> None:
    piped = program("predict", matrix_model, "-", input=(corpus / "test.txt").read_text())
    assert piped.returncode == 0
    assert len(piped.stdout.splitlines()) == 40
    for name in ("test.txt", "X_tst.npz"):
        assert main(["predict", matrix_model, str(corpus / name)]) == 0
        assert capsys.readouterr().out == piped.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk(corpus: Path, text_model: str) -> None:
    with Path("/dev/full").open("w") as full:
        found = subprocess.run(
            [*PROGRAM, "predict", text_model, str(corpus / "test.tsv"), "-q"],
            check=False, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120,
        )  # fmt: skip
    assert found.returncode == 5
    assert found.stderr == "labelprism: No space left on device\n"


def test_a_reader_that_has_read_enough(corpus: Path, text_model: str, tmp_path: Path) -> None:
    long = tmp_path / "long.txt"
    long.write_text("boat sail\n" * 20000)
    process = subprocess.Popen(
        [*PROGRAM, "predict", text_model, str(long), "-q"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith(b'{"row": 1, ')
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=120) == 0


# ------------------------------------------------------------------------------------------------------------- signals


def test_an_interrupt_during_training_stops_it_at_once(tmp_path: Path) -> None:
    draw = random.Random(0)
    words = [f"w{n}" for n in range(3000)]
    with (tmp_path / "large.tsv").open("w") as file:
        for _ in range(20000):
            file.write(f"{' '.join(draw.choices(words, k=40))}\t{','.join(draw.sample(words, 5))}\n")
    process = subprocess.Popen(
        [*PROGRAM, "train", "large.tsv", "--out", "model", "--n-jobs", "1", "--set", "features__n_bits=14"],
        cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if "training on" in line:
            break
    time.sleep(1.0)  # it is deep inside a native call now, which takes many seconds
    process.send_signal(signal.SIGINT)
    out, rest = process.communicate(timeout=60)
    assert process.returncode == 130
    assert rest.endswith("labelprism: interrupted\n")
    assert out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["large.tsv"]


@pytest.mark.parametrize(("number", "code", "word"), [(2, 130, "interrupted"), (15, 143, "terminated")])
def test_a_signal_while_a_file_is_written_leaves_none(
    text_model: str, tmp_path: Path, number: int, code: int, word: str
) -> None:
    (tmp_path / "out.jsonl").write_text("old")
    process = subprocess.Popen(
        [*PROGRAM, "predict", text_model, "-", "--output", "out.jsonl"],
        cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    for _ in range(5000):
        process.stdin.write("boat sail\n")
    process.stdin.flush()
    wait_for(lambda: len(list(tmp_path.iterdir())) == 2)  # the temporary file is there
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert said.endswith(f"labelprism: {word}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]
    assert (tmp_path / "out.jsonl").read_text() == "old"


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# ---------------------------------------------------------------------------------------------- exit codes and messages


def said(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    """Run a command that fails, and return what it says, which is one line."""
    assert main(list(arguments)) == code
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("labelprism")]
    return lines[-1]


def test_mistakes_have_their_codes(
    capsys: pytest.CaptureFixture[str], corpus: Path, text_model: str, matrix_model: str, tmp_path: Path
) -> None:
    train, test = str(corpus / "train.tsv"), str(corpus / "test.tsv")
    bad = tmp_path / "bad.tsv"
    bad.write_text("a\tb\nno label here\n")
    assert "the following arguments are required" in said(capsys, 2, "predict")
    assert "invalid choice" in said(capsys, 2, "train", train, "--preset", "best")
    assert "filter__max_depth must be" in said(
        capsys, 2, "train", str(bad), "--out", str(tmp_path / "m"), "--filter", "tree", "--set", "filter__max_depth=-3"
    )  # which comes before the data is read
    assert "filter_features needs a filter" in said(
        capsys, 2, "train", train, "--out", str(tmp_path / "m"), "--filter-features", "0:3"
    )
    assert "train needs the data and --out" in said(capsys, 2, "train", train)
    assert "something is there that is no model" in said(capsys, 2, "train", train, "--out", str(tmp_path))
    assert "bad.tsv, line 2: one TAB" in said(capsys, 3, "train", str(bad), "--out", str(tmp_path / "m"))
    assert "there is no model here" in said(capsys, 4, "predict", str(tmp_path), test)
    assert "nothing.tsv: No such file" in said(capsys, 5, "predict", text_model, str(tmp_path / "nothing.tsv"))
    assert "takes rows of numbers, but here are texts" in said(capsys, 3, "predict", matrix_model, test)
    assert "takes texts, but here are rows" in said(capsys, 3, "evaluate", text_model, str(corpus / "X_tst.npz"))
    assert "a model or --predictions" in said(capsys, 2, "evaluate", test)
    assert "must be a file or a share" in said(
        capsys, 2, "train", train, "--out", str(tmp_path / "m"), "--validation", "1.5"
    )
    assert not (tmp_path / "m").exists()


def test_folders_that_cannot_be_written_are_found_before_training(
    capsys: pytest.CaptureFixture[str], corpus: Path, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    message = said(capsys, 5, "train", str(corpus / "nothing.tsv"), "--out", str(file / "model"))
    assert "cannot be written into" in message  # and not that nothing.tsv is missing, which comes later


def test_debug_shows_where(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["inspect", str(tmp_path), "--debug"]) == 4
    assert "Traceback" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path)]) == 4
    assert "Traceback" not in capsys.readouterr().err


def test_the_unexpected_is_one_line_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from labelprism.cli import completion

    for error, code, message in (
        (ZeroDivisionError("one\ntwo"), 1, "unexpected ZeroDivisionError: one two; --debug shows where"),
        (MemoryError(), 1, "out of memory"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(28, "No space left on device", "x"), 5, "x: No space left on device"),
    ):
        monkeypatch.setattr(completion, "run", lambda arguments, error=error: (_ for _ in ()).throw(error))
        assert message in said(capsys, code, "completion", "bash")


def test_logging_is_put_back(text_model: str, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import logging

    logger = logging.getLogger("labelprism")
    before = logger.handlers[:], logger.level, logger.propagate
    assert main(["predict", text_model, str(corpus / "test.tsv"), "-v"]) == 0
    assert (logger.handlers[:], logger.level, logger.propagate) == before
    assert " INFO suggested labels for 40 rows" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in (*COMMANDS, "dump-config", "objective", "propensity"):
        assert word in script
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
