"""The thread pool: after fork, from several Python threads, and in both at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

from labelprism import _core
from labelprism._arrays import as_csr, csr_parts

NEEDS_FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
# The allocator of AddressSanitizer (GCC 12) does not take its locks around fork: a child made while another thread
# allocates waits for them forever.
NOT_SANITIZED = pytest.mark.skipif(
    "asan" in os.environ.get("LD_PRELOAD", ""),
    reason="AddressSanitizer cannot fork beside threads",
)


def work(n_threads: int) -> bytes:
    rng = np.random.default_rng(0)
    X = as_csr(sp.random_array((30_000, 50), density=0.2, rng=rng, dtype=np.float32))
    indptr, indices, data = csr_parts(X)
    out = _core.csr_times_block(indptr, indices, data, np.ones((50, 8), np.float32), n_threads)
    back = _core.csr_transposed_times_block(indptr, indices, data, 50, out, n_threads)
    return bytes(back.tobytes())


def in_forked_child(expected: bytes, n_threads: int) -> int:
    """Exit status of a forked child that uses the pool; a child that hangs is killed by an alarm."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        os._exit(0 if work(n_threads) == expected else 1)
    return os.waitpid(pid, 0)[1]


@NEEDS_FORK
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_fork_after_use(long_run: bool) -> None:
    expected = work(2)
    for _ in range(200 if long_run else 10):
        assert in_forked_child(expected, 2) == 0
        assert work(2) == expected


@NEEDS_FORK
@NOT_SANITIZED
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_fork_while_other_threads_use_the_pool(long_run: bool) -> None:
    expected = work(2)
    with ThreadPoolExecutor(2) as executor:
        busy = [executor.submit(work, 2) for _ in range(200 if long_run else 16)]
        for _ in range(50 if long_run else 5):
            assert in_forked_child(expected, 3) == 0
        assert all(future.result() == expected for future in busy)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_multiprocessing_pool() -> None:
    expected = work(2)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(work, [1, 2, 3, 4]) == [expected] * 4
    assert work(2) == expected


FORK_DURING_FIRST_USE = """
import os, signal, threading
import numpy as np
from labelprism import _core
options = _core.HashOptions("word", (1, 1), 10, 1, False, True, 1)
work = lambda: _core.hash_texts(b"old man", np.array([0, 7]), options)
thread = threading.Thread(target=work)
thread.start()
pid = os.fork()
if pid == 0:
    signal.alarm(20)
    work()
    os._exit(0)
thread.join()
raise SystemExit(os.waitpid(pid, 0)[1] != 0)
"""


@NEEDS_FORK
@NOT_SANITIZED
def test_fork_while_tables_are_made(long_run: bool) -> None:
    """A child of a process that was just making its Unicode tables must not wait for them."""
    for _ in range(30 if long_run else 3):
        command = [sys.executable, "-W", "ignore", "-c", FORK_DURING_FIRST_USE]
        assert subprocess.run(command, check=False).returncode == 0


def test_calls_from_several_threads() -> None:
    expected = work(1)
    with ThreadPoolExecutor(8) as executor:
        assert set(executor.map(work, [1, 2, 3, 4] * 8)) == {expected}


def test_more_threads_than_tasks_or_none_asked_for() -> None:
    assert work(1000) == work(0) == work(-3) == work(1)
