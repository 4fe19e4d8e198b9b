# %% [markdown]
# # Predicting the dependencies of a package
#
# From the name, the section and the one-line description of a Debian package: what does it depend on? Every package
# that something depends on is a label, so there are tens of thousands.
#
# On Debian and its relatives the packages are those that `apt` knows on this machine. Elsewhere, and with `--sample`,
# they are `data/debian-sample.xz`: a sixth of Debian 12, without descriptions. `--packages FILE` takes a `Packages`
# file of a mirror, plain or `.xz`.

# %%
import lzma
import os
import re
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from labelprism import PrismClassifier, metrics
from labelprism.data import Dataset
from labelprism.features import TextFeatures

SAMPLE = "--sample" in sys.argv or "LABELPRISM_SAMPLE" in os.environ
HERE = Path(__file__).parent if "__file__" in globals() else Path()
FIELDS = ("Package", "Source", "Section", "Description", "Depends")


def package_lines() -> Iterable[str]:
    """Return the lines of a list of packages: a file that was asked for, those that apt knows, or the sample."""
    if "--packages" in sys.argv:
        path = Path(sys.argv[sys.argv.index("--packages") + 1])
    elif shutil.which("apt-cache") and not SAMPLE:
        listed = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
        if listed.count("\nPackage: ") > 10_000:  # fewer where apt has never been updated
            return listed.splitlines()
        path = HERE / "data" / "debian-sample.xz"
    else:
        path = HERE / "data" / "debian-sample.xz"
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as lines:
        return lines.read().splitlines()


def packages_of(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yield the fields of each package; an empty line ends one, and lines that begin with a blank go on."""
    fields: dict[str, str] = {}
    for line in [*lines, ""]:
        name, colon, value = line.partition(": ")
        if not line and "Package" in fields:
            yield fields
            fields = {}
        elif colon and name in FIELDS:
            fields[name] = value


packages = list({package["Package"]: package for package in packages_of(package_lines())}.values())
if SAMPLE:
    packages = packages[::2]
print(f"{len(packages):,} packages; one of them: {packages[len(packages) // 2]}")

# %% [markdown]
# ## Texts and labels
#
# A dependency is a name with versions and alternatives; the first alternative is the label. Packages that are built
# from one source resemble one another, so all of them go to the same side: four fifths of the sources are learned
# from.

# %%
NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")


def text_of(package: dict[str, str]) -> str:
    """Return what the model sees: the name in pieces, the section, the description where there is one."""
    pieces = re.split(r"[-.+]", package["Package"])
    return " ".join([*pieces, *(package[field] for field in ("Section", "Description") if field in package)])


def dependencies_of(package: dict[str, str]) -> list[str]:
    """Return the names of what a package depends on."""
    found = (NAME.match(one.strip()) for one in package.get("Depends", "").split(","))
    return sorted({one.group() for one in found if one})


def dataset_of(packages: list[dict[str, str]], names: list[str]) -> Dataset:
    """Return packages with those dependencies that have a name in a list; packages without any are left out."""
    number = {name: place for place, name in enumerate(names)}
    known = [[number[name] for name in dependencies_of(package) if name in number] for package in packages]
    kept = [place for place, labels in enumerate(known) if labels]
    indptr = np.concatenate([[0], np.cumsum([len(known[place]) for place in kept])])
    labels = np.concatenate([known[place] for place in kept])
    Y = sp.csr_array((np.ones(labels.size), labels, indptr), shape=(len(kept), len(names)))
    return Dataset(texts=[text_of(packages[place]) for place in kept], Y=Y, label_names=names)


is_test = [zlib.crc32(package.get("Source", package["Package"]).split()[0].encode()) % 5 == 0 for package in packages]
learned = [package for package, left_out in zip(packages, is_test, strict=True) if not left_out]
names = sorted({name for package in learned for name in dependencies_of(package)})
train = dataset_of(learned, names)
test = dataset_of([package for package, left_out in zip(packages, is_test, strict=True) if left_out], names)
counts = np.bincount(train.Y.indices, minlength=train.n_labels)
print(f"{train.n_rows:,} packages to learn from, {test.n_rows:,} to test; {train.n_labels:,} dependencies")
print(f"{train.Y.nnz / train.n_rows:.1f} dependencies a package; {np.mean(counts == 1):.0%} of them occur once")

# %% [markdown]
# ## Learn and measure
#
# Names of packages are not made of dictionary words, so pieces of words (`characters`) are features too.

# %%
since = time.perf_counter()
model = PrismClassifier(features=TextFeatures(characters=(3, 4)), n_jobs=-1, random_state=0).fit(train)
print(f"trained in {time.perf_counter() - since:.1f} s")
suggested, _ = model.predict_topk(test, k=5)
usual = np.tile(np.argsort(-counts, kind="stable")[:5], (test.n_rows, 1))
for title, ranking in (("labelprism", suggested), ("most frequent", usual)):
    scores = metrics.evaluate(test.Y, ranking, train.Y)
    shown = ("P@1", "P@3", "P@5", "recall@5", "nDCG@5", "PSP@5")
    print(f"{title:14}" + "".join(f"{key:>10} {100 * scores[key]:5.1f}" for key in shown))

# %% [markdown]
# `libc6` is right for four packages in ten, which is what makes the most frequent ones look so well. A package's
# other dependencies are the interesting ones.

# %%
interesting = np.flatnonzero(counts <= train.n_rows // 100)
allowed = np.isin(np.arange(train.n_labels), interesting)
Y_interesting = test.Y[:, interesting]
rows = np.flatnonzero(np.diff(Y_interesting.indptr))
found, _ = model.predict_topk([test.texts[row] for row in rows], k=5, allowed=allowed)
scores = metrics.evaluate(test.Y[rows].multiply(allowed).tocsr(), found, train.Y)
print(f"without those that over 1% of the packages need, {rows.size:,} packages: "
      f"P@1 {100 * scores['P@1']:.1f}, recall@5 {100 * scores['recall@5']:.1f}")  # fmt: skip

# %% [markdown]
# ## Packages that do not exist yet

# %%
NEW = [
    "python3 weather python command-line weather forecasts from a web service",
    "libgeo tiles dev libdevel development files of a library for map tiles",
    "r cran spatialmodels gnu-r GNU R package for spatial models",
]
for text, found_names in zip(NEW, model.predict_labels(NEW, k=5), strict=True):
    print(f"{text}\n    {', '.join(found_names)}")

# %% [markdown]
# ## Is something missing?
#
# The other way round: likely dependencies that a package does not declare. Some are mistakes of the model, some come
# in through another package, and now and then one has been forgotten.

# %%
labels, likely = model.predict_topk_proba(test, k=5)
entries = np.repeat(np.arange(test.n_rows), labels.shape[1]), np.maximum(labels, 0).ravel()
declared = np.asarray(test.Y[entries]).reshape(labels.shape) > 0
doubtful = np.where(declared | (labels < 0), 0, likely)
for row in np.argsort(-doubtful.max(axis=1), kind="stable")[:5]:
    place = int(doubtful[row].argmax())
    print(f"{test.texts[row][:60]!r} does not name {names[labels[row, place]]} ({doubtful[row, place]:.0%})")
