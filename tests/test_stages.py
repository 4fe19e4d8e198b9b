"""Training that stops at any moment goes on from its checkpoint, and ends with the bits of an undisturbed one."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from labelprism import PrismClassifier
from labelprism._stages import Checkpoint, digest
from labelprism.errors import CheckpointError
from labelprism.heads import one_vs_rest
from labelprism.recipe_settings import PRESETS

N, D, C = 1500, 200, 150


@pytest.fixture(scope="module")
def data() -> tuple[sp.csr_array, sp.csr_array]:
    rng = np.random.default_rng(3)
    label = rng.integers(0, C, N)
    centre = sp.random_array((C, D), density=0.1, format="csr", dtype=np.float32, rng=rng)
    noise = sp.random_array((N, D), density=0.05, format="csr", dtype=np.float32, rng=rng)
    other = rng.integers(0, C, N)
    Y = sp.csr_array((np.ones(2 * N), (np.tile(np.arange(N), 2), np.concatenate([label, other]))), shape=(N, C))
    return sp.csr_array(centre[label] + noise), Y


@pytest.fixture(autouse=True)
def many_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_vs_rest, "_CANDIDATES_PER_SHARD", 5000)


@pytest.fixture(scope="module")
def undisturbed(data: Any) -> PrismClassifier:
    return model().fit(*data)


def model(**parameters: Any) -> PrismClassifier:
    return PrismClassifier(**{"n_jobs": 2, "random_state": 5, **parameters})


def assert_same(one: PrismClassifier, other: PrismClassifier) -> None:
    assert one.recipe_.meta == other.recipe_.meta
    assert one.recipe_.arrays.keys() == other.recipe_.arrays.keys()
    for name, array in one.recipe_.arrays.items():
        np.testing.assert_array_equal(array, other.recipe_.arrays[name], err_msg=name)


def stages(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_keeps_every_stage_and_changes_nothing(data: Any, undisturbed: Any, tmp_path: Path) -> None:
    assert_same(undisturbed, model().fit(*data, checkpoint=tmp_path / "c"))
    found = stages(tmp_path / "c")
    assert {"training", "forest", "candidates", "head_0"} < found
    assert sum(name.startswith("head_") for name in found) > 3
    assert_same(undisturbed, model(n_jobs=1).fit(*data, checkpoint=tmp_path / "c"))


@pytest.mark.parametrize("lost", [("forest",), ("candidates",), ("head_0",), ("forest", "candidates", "head_0"), ()])
def test_takes_what_is_there_and_makes_the_rest(data: Any, undisturbed: Any, tmp_path: Path, lost: Any) -> None:
    model().fit(*data, checkpoint=tmp_path / "c")
    for name in lost:
        shutil.rmtree(tmp_path / "c" / name)
    kept = {name: (tmp_path / "c" / name).stat().st_ino for name in stages(tmp_path / "c")}
    assert_same(undisturbed, model().fit(*data, checkpoint=tmp_path / "c"))
    for name, inode in kept.items():  # and does not make again what is there
        assert (tmp_path / "c" / name).stat().st_ino == inode


@pytest.mark.parametrize("mined_from_rows", [100_000, 0])
def test_candidates_that_a_space_has_sieved_come_out_the_same(
    data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mined_from_rows: int
) -> None:
    sieve = {"space_from_labels": 0, "kept_candidates": 10, "sieve_loss": 1.0, "mined_from_rows": mined_from_rows}
    monkeypatch.setitem(PRESETS, "default", replace(PRESETS["default"], **sieve))
    whole = model().fit(*data)
    assert "space_lists" in whole.recipe_.arrays
    model().fit(*data, checkpoint=tmp_path / "c")
    assert {"candidates", "space"} < stages(tmp_path / "c")
    for lost in ("space", "candidates", "head_0"):
        shutil.rmtree(tmp_path / "c" / lost)
        assert_same(whole, model(n_jobs=1).fit(*data, checkpoint=tmp_path / "c"))


def test_classifiers_of_clusters_are_kept_too(data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced = replace(PRESETS["accurate"], cluster_gain=-1e9)
    monkeypatch.setitem(PRESETS, "accurate", forced)
    whole = model(preset="accurate").fit(*data)
    assert "cluster_of" in whole.recipe_.arrays
    assert_same(whole, model(preset="accurate").fit(*data, checkpoint=tmp_path / "c"))
    shards = sorted(name for name in stages(tmp_path / "c") if name.startswith("head_"))
    for name in shards[::2]:
        shutil.rmtree(tmp_path / "c" / name)
    assert_same(whole, model(preset="accurate").fit(*data, checkpoint=tmp_path / "c"))


def killed_after(seconds: float, folder: Path, data: Any, how: int) -> bool:
    """Train in a process that is killed after some time, unless it ends before; return whether it ended."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        try:
            model().fit(*data, checkpoint=folder)
            os._exit(0)
        finally:  # an error must not let the child go on with the tests
            os._exit(3)
    time.sleep(seconds)
    os.kill(child, how)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -how)
    return code == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_goes_on_after_being_killed(data: Any, undisturbed: Any, tmp_path: Path, long_run: bool, how: int) -> None:
    rng, n_killed, n_stages = np.random.default_rng(how), 0, set()
    begin = time.perf_counter()
    model().fit(*data, checkpoint=tmp_path / "timed")
    whole = time.perf_counter() - begin
    wanted = (100 if how == signal.SIGKILL else 30) if long_run else (12 if how == signal.SIGKILL else 3)
    while n_killed < wanted or (len(n_stages) == 1 and n_killed < 60):  # chance may meet one stage several times
        ended = killed_after(rng.uniform(0, 0.7) * whole, tmp_path / "c", data, how)
        n_killed += not ended
        n_stages.add(len(stages(tmp_path / "c")) if (tmp_path / "c").exists() else 0)
        if ended:
            assert_same(undisturbed, model().fit(*data, checkpoint=tmp_path / "c"))
            shutil.rmtree(tmp_path / "c")
    assert_same(undisturbed, model().fit(*data, checkpoint=tmp_path / "c"))
    assert len(n_stages) > 1  # it was stopped at different stages
    assert not [name for name in stages(tmp_path / "c") if name.startswith(".")]  # and nothing half-written stays


def test_a_full_disk_is_an_error_and_loses_nothing(data: Any, undisturbed: Any, tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))  # writes of more fail, as on a full disk
        try:
            model().fit(*data, checkpoint=tmp_path / "c")
        except OSError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert stages(tmp_path / "c") <= {"training", "forest"}  # whole ones
    assert_same(undisturbed, model().fit(*data, checkpoint=tmp_path / "c"))


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ({"random_state": 6}, ["random_state was"]),
        ({"objective": "propensity"}, ["objective was 'precision' and is 'propensity'"]),
        ({"preset": "fast"}, ["forest was", "vote_candidates was 20 and is 10"]),
        ({"normalize": False}, ["unit_rows was True and is False"]),
    ],
)
def test_refuses_other_parameters_by_name(data: Any, tmp_path: Path, parameters: Any, names: list[str]) -> None:
    model().fit(*data, checkpoint=tmp_path / "c")
    with pytest.raises(CheckpointError, match="another training") as error:
        model(**parameters).fit(*data, checkpoint=tmp_path / "c")
    assert all(name in str(error.value) for name in names)
    assert str(tmp_path / "c") in str(error.value)


def test_refuses_other_data_by_name(data: Any, tmp_path: Path) -> None:
    X, Y = data
    model().fit(X, Y, checkpoint=tmp_path / "c")
    moved = X.copy()
    moved.data[-1] += 1
    for rows, labels, more, name in (
        (moved, Y, {}, "X is not the same"),
        (X, Y[::-1], {}, "y is not the same"),
        (X, Y, {"sample_weight": np.arange(1, N + 1)}, "sample_weight is not the same"),
        (X, Y, {"validation": (X[:99], Y[:99])}, "validation is not the same"),
    ):
        with pytest.raises(CheckpointError, match=name):
            model().fit(rows, labels, checkpoint=tmp_path / "c", **more)


def test_without_a_seed_the_one_that_was_drawn_goes_on(data: Any, tmp_path: Path) -> None:
    first = model(random_state=None).fit(*data, checkpoint=tmp_path / "c")
    shutil.rmtree(tmp_path / "c" / "head_0")
    assert_same(first, model(random_state=None).fit(*data, checkpoint=tmp_path / "c"))


def test_refuses_a_folder_of_something_else(data: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep me")
    with pytest.raises(CheckpointError, match="no checkpoint"):
        model().fit(*data, checkpoint=tmp_path)
    assert stages(tmp_path) == {"mine.txt"}


def test_takes_a_folder_whose_training_was_killed_as_it_began(data: Any, undisturbed: Any, tmp_path: Path) -> None:
    (tmp_path / ".training.0123456789ab.new").mkdir()
    assert_same(undisturbed, model().fit(*data, checkpoint=tmp_path))
    (tmp_path / ".forest.0123456789ab.new").mkdir()
    assert_same(undisturbed, model().fit(*data, checkpoint=tmp_path))
    assert not [name for name in stages(tmp_path) if name.startswith(".")]


def test_refuses_a_checkpoint_in_use(data: Any, tmp_path: Path) -> None:
    other = Checkpoint(tmp_path / "c")
    with pytest.raises(CheckpointError, match="another training uses"):
        model().fit(*data, checkpoint=tmp_path / "c")
    other.close()
    model().fit(*data, checkpoint=tmp_path / "c")


@pytest.mark.parametrize("file", ["training/meta.json", "forest/meta.json", "forest/child.npy", "head_0/bias.npy"])
def test_refuses_a_damaged_stage(data: Any, tmp_path: Path, file: str) -> None:
    model().fit(*data, checkpoint=tmp_path / "c")
    path = tmp_path / "c" / file
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(CheckpointError, match=file.split("/")[0]):
        model().fit(*data, checkpoint=tmp_path / "c")


def test_goes_with_the_recipe_only(data: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="checkpoint"):
        model(preset="paper").fit(*data, checkpoint=tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_digest_tells_arrays_apart() -> None:
    a = np.arange(6, dtype=np.int32)
    sums = {
        digest(a),
        digest(a.astype(np.int64)),
        digest(a.reshape(2, 3)),
        digest(a[:3], a[3:]),
        digest(None),
        digest(),
    }
    assert len(sums) == 6
    assert digest(a) == digest(a.copy())


def test_a_removed_checkpoint_is_gone(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "c")
    checkpoint.begin({"random_state": 1}, {})
    checkpoint.remove()
    assert not (tmp_path / "c").exists()


def test_importing_the_library_does_not_import_it() -> None:
    code = "import sys, labelprism; sys.exit('labelprism._stages' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
