"""`train` with little memory, and `train` that is stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from labelprism import PrismClassifier
from labelprism.cli import main
from labelprism.data import Dataset, load, write_directory
from labelprism.persistence import load_arrays


@pytest.fixture(scope="module")
def directory(corpus: Path) -> str:
    path = corpus / "train.ds"
    assert main(["convert", str(corpus / "X_trn.npz"), str(path), "-q"]) == 0
    return str(path)


def assert_same_models(one: Path, other: Path) -> None:
    (meta, arrays), (other_meta, other_arrays) = load_arrays(one), load_arrays(other)
    assert meta == other_meta
    assert arrays.keys() == other_arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, other_arrays[name], err_msg=name)


def test_a_limit_decides_where_arrays_lie(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng, n = np.random.default_rng(0), 150_000
    label = rng.integers(0, 60, n)
    X = sp.csr_array((np.ones(2 * n), (np.tile(np.arange(n), 2), np.concatenate([label, 60 + label % 7]))))
    Y = sp.csr_array((np.ones(n), label, np.arange(n + 1)))
    write_directory(Dataset(X=X, Y=Y), tmp_path / "rows.ds")
    told = {}
    for limit, name in (("8G", "large"), ("140M", "small")):
        flags = ["--preset", "fast", "--memory-limit", limit, "--scratch", str(tmp_path), "-v"]
        assert main(["train", str(tmp_path / "rows.ds"), "--out", str(tmp_path / name), *flags]) == 0
        told[name] = capsys.readouterr().err
    assert "this training takes about" in told["large"]
    assert "files" not in told["large"]
    assert f"with large arrays in files, which go to {tmp_path}" in told["small"]
    assert_same_models(tmp_path / "large", tmp_path / "small")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--memory-limit", "10M"], "which is the least"),
        (["--memory-limit", "much"], "write it as 4G"),
        (["--memory-limit", "4G", "--preset", "paper"], "all presets but paper"),
    ],
)
def test_limits_that_cannot_be_kept(
    directory: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    assert main(["train", directory, "--out", str(tmp_path / "model"), *flags]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


def test_tells_to_convert_data_that_were_read_into_memory(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(corpus / "X_trn.npz")
    assert main(["train", data, "--out", str(tmp_path / "model"), "--memory-limit", "1M"]) == 2
    assert "convert the data first" in capsys.readouterr().err
    assert main(["train", str(corpus / "train.tsv"), "--out", str(tmp_path / "model"), "--memory-limit", "1G"]) == 2
    assert "labelprism convert --features" in capsys.readouterr().err


def test_scratch_goes_with_texts_too(corpus: Path, tmp_path: Path) -> None:
    for name, flags in (("memory", []), ("files", ["--scratch", str(tmp_path)])):
        assert main(["train", str(corpus / "train.tsv"), "--out", str(tmp_path / name), "-q", *flags]) == 0
    assert_same_models(tmp_path / "memory", tmp_path / "files")
    missing = str(tmp_path / "missing")
    assert main(["train", str(corpus / "train.tsv"), "--out", str(tmp_path / "none"), "--scratch", missing]) == 5


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_same_command_goes_on(corpus: Path, tmp_path: Path, how: signal.Signals) -> None:
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "model"
    data = str(corpus / "train.tsv")
    arguments = ["train", data, "--out", str(out), "--checkpoint", str(checkpoint), "-q"]
    process = subprocess.Popen([sys.executable, "-m", "labelprism", *arguments], stderr=subprocess.DEVNULL)
    while not (checkpoint / "training").exists() and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(how)
    process.wait(60)
    if process.returncode != 0:  # it may have been quicker than the signal
        assert not out.exists()
        assert (checkpoint / "training").exists()
        assert main(arguments) == 0
    assert not checkpoint.exists()
    assert main(["train", data, "--out", str(tmp_path / "undisturbed"), "-q"]) == 0
    assert_same_models(out, tmp_path / "undisturbed")


def test_a_checkpoint_of_another_training_is_refused(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = tmp_path / "checkpoint"
    PrismClassifier(random_state=0).fit(load(corpus / "X_trn.npz"), checkpoint=checkpoint)
    command = ["train", str(corpus / "X_trn.npz"), "--out", str(tmp_path / "model"), "--checkpoint", str(checkpoint)]
    assert main([*command, "--random-state", "1"]) == 4
    assert "random_state was" in capsys.readouterr().err
    assert main(command) == 0
