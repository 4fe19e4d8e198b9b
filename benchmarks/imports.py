"""Import time of the package beyond scipy's.

python benchmarks/imports.py
"""

from __future__ import annotations

import subprocess
import sys

from timing import machine

CODE = "import time, scipy, scipy.sparse; s = time.perf_counter(); import {}; print(time.perf_counter() - s)"


def main() -> None:
    print(machine())
    for module in ("labelprism", "labelprism.data", "labelprism.metrics", "labelprism.features"):
        runs = [
            float(subprocess.run([sys.executable, "-c", CODE.format(module)], capture_output=True, check=True).stdout)
            for _ in range(5)
        ]
        print(f"import {module:22}{min(runs):8.3f} s more than scipy")


if __name__ == "__main__":
    main()
