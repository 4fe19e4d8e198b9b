"""How long a large model takes to load, and how much memory several processes need that use it.

    python benchmarks/load.py [FOLDER]

Makes a model of 1 GB in FOLDER (a temporary one by default), loads it in four processes, one after the other, all of
which live on, and predicts.
Linux: memory is read from /proc.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from labelprism import PrismClassifier
from labelprism.recipe_model import DefaultRecipe

N_FEATURES, N_LABELS, PER_FEATURE = 1_000_000, 100_000, 125
PROCESSES = 4
READER = """
import sys, time
import numpy as np, scipy.sparse as sp
from labelprism import PrismClassifier
PrismClassifier.load(sys.argv[2])  # a small one, so that all modules are there
start = time.perf_counter()
model = PrismClassifier.load(sys.argv[1])
seconds = time.perf_counter() - start
rng = np.random.default_rng(0)
for _ in range(200):  # 1 GB is touched all over
    X = sp.random(100, model.n_features_in_, density=1e-4, format="csr", dtype=np.float32, random_state=rng)
    model.predict_topk(X, 5)
print(f"{1000 * seconds:.1f}", flush=True)
sys.stdin.read()
"""


def make_model(path: Path) -> int:
    """Save a model whose lists of weights are long, and return its size."""
    rng = np.random.default_rng(0)
    X = sp.random(2000, N_FEATURES, density=2e-5, format="csr", dtype=np.float32, random_state=rng)
    Y = sp.csr_array((np.ones(2000), (np.arange(2000), rng.integers(0, N_LABELS, 2000))), shape=(2000, N_LABELS))
    model = PrismClassifier(random_state=0).fit(X, Y)
    n_pairs = N_FEATURES * PER_FEATURE
    lists = np.zeros((N_FEATURES, 3), np.int64)
    lists[:, 0] = lists[:, 1] = np.arange(N_FEATURES) * PER_FEATURE
    lists[:, 2] = PER_FEATURE  # and the layout 0, a list, in the upper half
    labels = np.sort(rng.integers(0, N_LABELS, (1000, PER_FEATURE), dtype=np.int32), axis=1)
    arrays = {
        **model.recipe_.arrays,
        "label_lists": lists,
        "label_list_labels": np.tile(labels, (N_FEATURES // 1000, 1)).reshape(-1),
        "label_pairs": rng.integers(0, 1 << 12, n_pairs, dtype=np.uint32),
    }
    model.recipe_ = DefaultRecipe(arrays, model.recipe_.meta)
    model.save(path)
    return sum(file.stat().st_size for file in path.iterdir())


def memory(pid: int) -> dict[str, float]:
    """Return the resident, the proportional and the private memory of a process in MB."""
    found = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, value, *_ = line.split()
        found[name.rstrip(":")] = int(value) / 1024
    return {"Rss": found["Rss"], "Pss": found["Pss"], "private": found["Private_Dirty"] + found["Private_Clean"]}


def main() -> None:
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        size = make_model(Path(folder) / "model")
        small = sp.eye_array(40, format="csr", dtype=np.float32)
        PrismClassifier(preset="fast").fit(small, np.arange(40)).save(f"{folder}/small")
        command = [sys.executable, "-c", READER, f"{folder}/model", f"{folder}/small"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        readers, times = [], []
        for _ in range(PROCESSES):
            readers.append(subprocess.Popen(command, **pipes))
            times.append(float(readers[-1].stdout.readline()))
        print(f"model of {size / 1e9:.2f} GB; loaded in {', '.join(f'{t:.1f}' for t in times)} ms")
        for reader in readers:
            print(", ".join(f"{name} {value:,.0f} MB" for name, value in memory(reader.pid).items()))
        for reader in readers:
            reader.communicate()


if __name__ == "__main__":
    main()
