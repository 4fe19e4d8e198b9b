"""How much memory of its own a training takes, with arrays in memory and in files, against what was foretold.

    python benchmarks/memory.py [DIRECTORY.ds ...]      # data that `labelprism convert` wrote
    python benchmarks/memory.py --rows 2000000          # synthetic ones

Without data of its own it makes some. Linux: memory (RssAnon) is read from /proc, every 10 ms.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from labelprism._memory import memory_needs
from labelprism.data import Dataset, write_directory
from labelprism.recipe_settings import PRESETS

THREADS = 2
N_FEATURES, N_LABELS, OWN, OTHER = 50_000, 20_000, 20, 15
TRAINING = """
import hashlib, json, re, sys, threading, time
import numpy as np
from pathlib import Path
from labelprism import PrismClassifier
from labelprism.data import Dataset

def own():
    return int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10

most, ended = 0, False
def watch():
    global most
    while not ended:
        most = max(most, own())
        time.sleep(0.01)

watcher = threading.Thread(target=watch)
watcher.start()
begin = time.perf_counter()
path, scratch, threads = sys.argv[1:]
model = PrismClassifier(n_jobs=int(threads), random_state=0).fit(Dataset.open(path), scratch=scratch or None)
seconds = time.perf_counter() - begin
ended = True
watcher.join()
arrays = model.recipe_.arrays
content = hashlib.sha256(b"".join(np.ascontiguousarray(arrays[name]).tobytes() for name in sorted(arrays)))
print(json.dumps([most, seconds, content.hexdigest()[:12]]))
"""


def synthetic(n: int, path: Path) -> None:
    """Write rows of 35 features, 20 of them those of their label; labels by Zipf's law."""
    rng = np.random.default_rng(0)
    label = np.minimum(rng.zipf(1.3, n) - 1, 1 << 40) % N_LABELS
    features = rng.integers(0, N_FEATURES, (N_LABELS, OWN), dtype=np.int32)[label]
    features = np.concatenate([features, rng.integers(0, N_FEATURES, (n, OTHER), dtype=np.int32)], axis=1)
    rows = np.arange(n + 1) * features.shape[1]
    X = sp.csr_array((np.ones(features.size, np.float32), features.ravel(), rows), shape=(n, N_FEATURES))
    X.sum_duplicates()
    Y = sp.csr_array((np.ones(n, np.float32), label.astype(np.int32), np.arange(n + 1)), shape=(n, N_LABELS))
    write_directory(Dataset(X=X, Y=Y), path)


def measure(path: str, folder: str) -> None:
    """Print a line for each way of training."""
    data = Dataset.open(path)
    of_data = sum(file.stat().st_size for file in Path(path).iterdir())
    needs = memory_needs(data.X, data.Y, PRESETS["default"], THREADS)
    for scratch, need in zip(("", folder), needs, strict=True):
        command = [sys.executable, "-c", TRAINING, path, scratch, str(THREADS)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        most, seconds, content = json.loads(done.stdout)
        way = "files" if scratch else "memory"
        name = Path(path).name
        numbers = f"{of_data / 1e6:,.0f} | {most / 1e6:,.0f} | {need / 1e6:,.0f} ({need / most - 1:+.0%})"
        print(f"| {name} | {way} | {numbers} | {seconds:.0f} | {content} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*")
    parser.add_argument("--rows", type=int, default=200_000, help="of the synthetic data")
    parser.add_argument("--scratch", help="the folder for arrays in files (a temporary one)")
    arguments = parser.parse_args()
    print(
        "| data | arrays in | data, MB | own memory, MB | foretold | seconds | model |\n|---|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        paths = arguments.data
        if not paths:
            paths = [f"{folder}/synthetic-{arguments.rows}.ds"]
            synthetic(arguments.rows, Path(paths[0]))
        for path in paths:
            measure(path, folder)


if __name__ == "__main__":
    main()
