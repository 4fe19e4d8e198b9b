"""Speed and memory of the conversion of sparse text to a directory of arrays, against reading it.

python benchmarks/directory.py [--megabytes 1000] [--folder .]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from timing import machine

# Does one of the steps in a process of its own, and prints seconds and by how much its own memory grew.
STEP = """
import sys, threading, time
from labelprism.data import Dataset, convert_to_directory, read_svmlight
def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1e3 for line in status if line.startswith("RssAnon"))
steps = {
    "read": lambda: read_svmlight(sys.argv[2]),
    "convert": lambda: convert_to_directory(*sys.argv[2:]),
    "open": lambda: Dataset.open(sys.argv[3], verify=False),
    "verify": lambda: Dataset.open(sys.argv[3], verify=True),
}
before, most, ended = anonymous(), 0.0, threading.Event()
def watch():
    global most
    while not ended.wait(0.002):
        most = max(most, anonymous())
watcher = threading.Thread(target=watch)
watcher.start()
start = time.perf_counter()
steps[sys.argv[1]]()
seconds = time.perf_counter() - start
ended.set()
watcher.join()
print(seconds, max(most - before, 0))
"""


def write_lines(path: Path, n_bytes: int) -> None:
    """Write 2,000 rows of 60 features and 3 labels, again and again."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(2000):
        features = np.sort(rng.choice(100_000, 60, replace=False)) + 1
        labels = ",".join(map(str, np.sort(rng.choice(10_000, 3, replace=False))))
        lines.append(f"{labels} {' '.join(f'{feature}:0.{feature % 97}1' for feature in features)}\n")
    block = "".join(lines).encode()
    with path.open("wb") as file:
        file.writelines(block for _ in range(n_bytes // len(block)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--folder", help="where the files go for the time of the run; several times as large")
    arguments = parser.parse_args()
    print(machine())
    print(f"{'step':10}{'seconds':>10}{'MB/s':>8}{'memory MB':>12}")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        source, target = Path(folder) / "data.txt", Path(folder) / "data.ds"
        write_lines(source, arguments.megabytes * 10**6)
        size = source.stat().st_size / 1e6
        for step in ("read", "convert", "open", "verify"):
            command = [sys.executable, "-c", STEP, step, str(source), str(target)]
            result = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds, memory = map(float, result.stdout.split())
            print(f"{step:10}{seconds:10.3f}{size / seconds:8.0f}{memory:12.0f}")
        print(f"text {size:.0f} MB, directory {sum(file.stat().st_size for file in target.iterdir()) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
