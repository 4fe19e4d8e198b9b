"""Arrays in files: the same results, less memory, and clear errors."""

from __future__ import annotations

import errno
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from labelprism import PrismClassifier, _core
from labelprism._scratch import scratch_files

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="arrays lie in files on Linux only")

LARGE = 3 << 20


def test_large_arrays_lie_in_files_and_small_ones_do_not(tmp_path: Path) -> None:
    before = _core.scratch_bytes()
    with scratch_files(tmp_path):
        small, large = np.zeros(1000), np.zeros(LARGE, np.uint8)
        assert _core.scratch_bytes() - before == LARGE
        large[-1] = 7
        larger = np.concatenate([large, large])
        assert _core.scratch_bytes() - before == 3 * LARGE
        assert not large[:-1].any()  # as zeros ought to be
    assert small.sum() == 0
    assert larger[LARGE - 1] == larger[-1] == 7  # arrays outlive the block
    del larger, large
    assert _core.scratch_bytes() == before
    assert not list(tmp_path.iterdir())
    after = np.zeros(LARGE, np.uint8)
    assert _core.scratch_bytes() == before
    assert after.size == LARGE


def test_arrays_grow_from_memory_into_files_and_shrink_again(tmp_path: Path) -> None:
    array = np.arange(1000, dtype=np.int64)
    with scratch_files(tmp_path):
        inside = np.arange(1000, dtype=np.int64)
        for size in (200_000, 2_000_000, 300_000, 10):
            inside.resize(size, refcheck=False)
            n = min(size, 1000)
            np.testing.assert_array_equal(inside[:n], np.arange(n))
        array.resize(400_000, refcheck=False)  # made before, by another memory
    np.testing.assert_array_equal(array[:1000], np.arange(1000))
    assert not array[1000:].any()


def test_training_gives_the_same_bits(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n, d, c = 12_000, 3_000, 300
    label = rng.integers(0, c, n)
    centre = sp.random_array((c, d), density=0.005, format="csr", dtype=np.float32, rng=rng)
    X = sp.csr_array(centre[label] + sp.random_array((n, d), density=0.005, format="csr", dtype=np.float32, rng=rng))
    models = [
        PrismClassifier(preset="fast", n_jobs=2, random_state=0).fit(X, label, scratch=folder)
        for folder in (None, tmp_path)
    ]
    for name, array in models[0].recipe_.arrays.items():
        np.testing.assert_array_equal(array, models[1].recipe_.arrays[name], err_msg=name)
    assert not list(tmp_path.iterdir())


def in_child(code: str, *arguments: Any) -> str:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_full_disk_is_an_error_of_the_system(tmp_path: Path) -> None:
    code = """
        import resource, sys, numpy as np
        from labelprism._scratch import scratch_files
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20))  # larger files fail, as on a full disk
        try:
            with scratch_files(sys.argv[1]):
                np.zeros(3 << 20, np.uint8)
        except OSError as error:
            print(error.errno, error.filename, "no room" in str(error))
        print(np.zeros(5).sum())  # and all is as before
    """
    assert in_child(code, tmp_path).splitlines() == [f"{errno.EFBIG} {tmp_path} True", "0.0"]


def test_memory_that_is_not_there_is_a_memory_error_as_ever(tmp_path: Path) -> None:
    with pytest.raises(MemoryError), scratch_files(tmp_path):
        np.zeros(1 << 62, np.uint8)


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(OSError, match=path.name), scratch_files(path):
            pass
    with scratch_files(None):
        assert np.zeros(LARGE).size == LARGE


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a file system in memory")
def test_refuses_files_that_lie_in_memory() -> None:
    kind = {line.split(" - ")[1].split()[0] for line in Path("/proc/self/mountinfo").read_text().splitlines()
            if line.split()[4] == "/dev/shm"}  # fmt: skip
    if kind != {"tmpfs"}:
        pytest.skip("/dev/shm lies on a disk")
    with pytest.raises(ValueError, match="choose a folder on a disk"), scratch_files("/dev/shm"):
        pass


def test_memory_stays_low(tmp_path: Path) -> None:
    code = """
        import re, sys, numpy as np
        from pathlib import Path
        from labelprism._scratch import scratch_files
        def own():
            return int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10
        before = own()
        with scratch_files(sys.argv[1]):
            a = np.ones(25_000_000)
            b = np.sort(a) + a
            print(own() - before)
    """
    assert int(in_child(code, tmp_path)) < 20_000_000  # of 600 million


def test_arrays_do_not_hold_files_open(tmp_path: Path) -> None:
    code = """
        import resource, sys, numpy as np
        from labelprism._scratch import scratch_files
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
        with scratch_files(sys.argv[1]):
            print(len([np.ones(1 << 20, np.uint8) for _ in range(100)]))
    """
    assert in_child(code, tmp_path) == "100"


def test_other_systems_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ValueError, match="on Linux only; train without scratch"), scratch_files(tmp_path):
        pass
