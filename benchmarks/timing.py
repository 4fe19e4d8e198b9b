"""What the benchmarks share: repeated timing, and a line about the machine."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from datetime import date

import numpy as np
import scipy
import sklearn

import labelprism


def best_of(function: Callable[[], object], repeat: int = 5) -> float:
    """Return the least seconds of several runs: what the machine can do when nobody disturbs it."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def machine() -> str:
    """Return the processor, versions and date of a run."""
    model = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):  # noqa: PTH110
        with open("/proc/cpuinfo") as lines:  # noqa: PTH123
            model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    return (
        f"{model}, {os.cpu_count()} cores; Python {platform.python_version()}, numpy {np.__version__}, "
        f"scipy {scipy.__version__}, scikit-learn {sklearn.__version__}, labelprism {labelprism.__version__}; "
        f"{date.today().isoformat()}"
    )
