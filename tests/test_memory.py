"""What a training takes of memory is what was foretold, within a fifth, in memory and in files."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from labelprism._memory import memory_needs, parsed_bytes
from labelprism.data import Dataset, write_directory
from labelprism.recipe_settings import PRESETS

N, D, C, OWN, OTHER = 60_000, 10_000, 4_000, 20, 15


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    label = (rng.zipf(1.3, N) - 1) % C
    features = rng.integers(0, D, (C, OWN), dtype=np.int32)[label]
    features = np.concatenate([features, rng.integers(0, D, (N, OTHER), dtype=np.int32)], axis=1)
    X = sp.csr_array((np.ones(features.size), features.ravel(), np.arange(N + 1) * (OWN + OTHER)), shape=(N, D))
    X.sum_duplicates()
    Y = sp.csr_array((np.ones(N), label, np.arange(N + 1)), shape=(N, C))
    path = tmp_path_factory.mktemp("memory") / "data.ds"
    write_directory(Dataset(X=X, Y=Y), path)
    return path


def most_memory(directory: Path, scratch: str, preset: str) -> int:
    """Return the most memory of its own that a process has had that trained on the data.

    It is looked at from outside: a thread of its own would wait wherever Python does, as when large arrays are joined.
    """
    code = """
        import sys
        from labelprism import PrismClassifier
        from labelprism.data import Dataset
        model = PrismClassifier(preset=sys.argv[3], n_jobs=2, random_state=0)
        model.fit(Dataset.open(sys.argv[1]), scratch=sys.argv[2] or None)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(directory), scratch, preset]
    most = 0
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as training:
        status = Path(f"/proc/{training.pid}/status")
        while training.poll() is None:
            found = re.search(r"RssAnon:\s+(\d+)", status.read_text())  # a process that has just ended has none
            most = max(most, int(found[1]) << 10 if found else 0)
            time.sleep(0.002)
        _, errors = training.communicate()
    assert training.returncode == 0, errors
    return most


def most_of_three(directory: Path, scratch: str, preset: str, wanted: int) -> int:
    """Return the most memory of up to three trainings: on a busy machine a peak may fall between two looks at it."""
    most = 0
    for _ in range(3):
        most = max(most, most_memory(directory, scratch, preset))
        if most > wanted / 1.2:
            break
    return most


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("preset", ["default", "accurate", "fast"])
def test_foretells_the_memory_of_a_training(directory: Path, tmp_path: Path, preset: str, long_run: bool) -> None:
    if preset == "accurate" and not long_run:
        pytest.skip("takes a minute: make test-long")
    data = Dataset.open(directory)
    needs = memory_needs(data.X, data.Y, PRESETS[preset], 2)  # type: ignore[arg-type]
    places = {"": needs.in_memory, str(tmp_path): needs.with_scratch}
    in_memory, with_scratch = (most_of_three(directory, scratch, preset, wanted) for scratch, wanted in places.items())
    assert needs.in_memory == pytest.approx(in_memory, rel=0.2)
    assert needs.with_scratch == pytest.approx(with_scratch, rel=0.2)
    assert with_scratch < in_memory


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [("4G", 4 << 30), ("512M", 512 << 20), ("1.5GiB", 3 << 29), ("100", 100), (" 2 kb ", 2048), ("1T", 1 << 40)],
)
def test_reads_amounts_of_memory(text: str, n_bytes: int) -> None:
    assert parsed_bytes(text) == n_bytes


@pytest.mark.parametrize("text", ["", "G", "-4G", "4 X", "0", "4G4", "nan"])
def test_refuses_what_is_no_amount(text: str) -> None:
    with pytest.raises(ValueError, match="write it as 4G"):
        parsed_bytes(text)


def test_files_never_take_more_than_memory() -> None:
    small = memory_needs(sp.csr_array((10, 5)), sp.csr_array((10, 3)), PRESETS["fast"], 2)
    assert small.with_scratch <= small.in_memory
