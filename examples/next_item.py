# %% [markdown]
# # Next-item recommendation as extreme classification
#
# Somebody has used some items, one after the other. What comes next? Every item is a class, the items so far are the
# features, and the rest is what this library does anyway.
#
# Logs of shops are seldom free to give away, so the sequences here are of another kind, but real: **the functions
# that a Python function calls, in the order in which they first occur in it**, read from the standard library, numpy,
# scipy and scikit-learn as they are installed on this machine. Authors of code chose them one after the other; an
# editor would recommend the next one. They are not visits to a shop, and figures of the two cannot be compared.
#
# Your own sequences: `--sessions FILE`, items of a session on a line, blanks between. Or `--sessions FILE.inter`: a
# header, then `user TAB item TAB rating TAB time` on each line, as MovieLens comes in the PyPI package recbole.

# %%
import ast
import os
import sys
import sysconfig
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from labelprism import PrismClassifier, metrics

SAMPLE = "--sample" in sys.argv or "LABELPRISM_SAMPLE" in os.environ
FEWEST_USES = 5  # rarer items are left out of the sessions
HISTORY = 20  # so many of the latest items count

# %% [markdown]
# ## Sessions
#
# `numpy.zeros` is an item, so is `len`, and `.append` is a method of whatever it is.


# %%
def python_files() -> list[Path]:
    """Return the files of the standard library, and of three packages that are always here; not their tests."""
    library = Path(sysconfig.get_paths()["stdlib"])
    if SAMPLE:
        return sorted(library.glob("*.py"))[::3]
    packages = [Path(find_spec(name).origin).parent for name in ("numpy", "scipy", "sklearn")]
    found = [*library.glob("*.py"), *library.glob("*/*.py"), *(path for one in packages for path in one.rglob("*.py"))]
    return sorted(path for path in found if path.parent.name not in ("tests", "test", "site-packages", "dist-packages"))


def calls_of(path: Path) -> Iterator[list[str]]:
    """Yield what each function of a file calls, each name once, in the order of the text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of old code about itself
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):  # some files are made to be wrong
            return
    imports = [one for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names]
    modules = {one.asname or one.name: one.name for one in imports}
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
            calls.sort(key=lambda call: (call.lineno, call.col_offset))
            yield list(dict.fromkeys(name for call in calls if (name := name_of(call.func, modules))))


def name_of(called: ast.expr, modules: dict[str, str]) -> str | None:
    """Return `numpy.zeros`, `len` or `.append`."""
    if isinstance(called, ast.Name):
        return called.id
    if not isinstance(called, ast.Attribute):
        return None
    owner = called.value.id if isinstance(called.value, ast.Name) else ""
    return f"{modules.get(owner, '')}.{called.attr}"


def sessions_of_file(path: Path) -> Iterator[list[str]]:
    """Yield the sessions of a file of your own."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if path.suffix != ".inter":
        yield from (line.split() for line in lines)
        return
    rows = sorted((line.split("\t") for line in lines[1:]), key=lambda row: (row[0], float(row[3])))
    for _, visits in groupby(rows, key=lambda row: row[0]):
        yield [row[1] for row in visits]


def frequent(sessions: Iterable[list[str]]) -> list[list[str]]:
    """Leave out rare items, second visits to an item, and then sessions of under three items."""
    sessions = [list(dict.fromkeys(session)) for session in sessions]
    uses = Counter(item for session in sessions for item in session)
    kept = ([item for item in session if uses[item] >= FEWEST_USES] for session in sessions)
    return [session for session in kept if len(session) >= 3]


if "--sessions" in sys.argv:
    sessions = frequent(sessions_of_file(Path(sys.argv[sys.argv.index("--sessions") + 1])))
else:
    sessions = frequent(session for path in python_files() for session in calls_of(path))
items = sorted({item for session in sessions for item in session})
number = {item: place for place, item in enumerate(items)}
print(
    f"{len(sessions):,} sessions, {len(items):,} items, {np.mean([len(one) for one in sessions]):.1f} items a session"
)
print(" > ".join(sessions[len(sessions) // 3][:8]))

# %% [markdown]
# ## Items so far become a sparse row
#
# The last item of each session is the test. Of what is before it, every position is an example: the items so far are
# the features, the next one is the class. A row has two parts of one column for each item: the items so far, later
# ones heavier, and once more the very last one, so that "came just before" can weigh more than "was there".


# %%
def row_of(history: list[str]) -> tuple[list[int], list[float]]:
    """Return the columns and values of the items so far."""
    recent = history[-HISTORY:][::-1]  # the latest first
    columns = [number[item] for item in recent] + [len(items) + number[recent[0]]]
    return columns, [(1 + age) ** -0.5 for age in range(len(recent))] + [1.0]


def matrix_of(histories: list[list[str]]) -> sp.csr_array:
    """Return a row for each history, (n, 2 items)."""
    rows = [row_of(history) for history in histories]
    indptr = np.concatenate([[0], np.cumsum([len(columns) for columns, _ in rows])])
    columns, values = (np.concatenate(part) for part in zip(*rows, strict=True))
    return sp.csr_array((values.astype(np.float32), columns, indptr), shape=(len(rows), 2 * len(items)))


def one_hot(numbers: np.ndarray) -> sp.csr_array:
    """Return one label a row, (n, items)."""
    return sp.csr_array((np.ones(numbers.size), numbers, np.arange(numbers.size + 1)), shape=(numbers.size, len(items)))


learned = [session[:-1] for session in sessions]
positions = [(session, end) for session in learned for end in range(1, len(session))]
X = matrix_of([session[:end] for session, end in positions])
Y = one_hot(np.array([number[session[end]] for session, end in positions]))
tested = np.sort(np.random.default_rng(0).permutation(len(sessions))[: 500 if SAMPLE else 5000])
X_test = matrix_of([sessions[place][:-1] for place in tested])
Y_test = one_hot(np.array([number[sessions[place][-1]] for place in tested]))
print(f"{X.shape[0]:,} examples to learn from, {X_test.shape[0]:,} sessions to test")

# %%
since = time.perf_counter()
model = PrismClassifier(n_jobs=-1, random_state=0).fit(X, Y)
print(f"trained in {time.perf_counter() - since:.1f} s")

# %% [markdown]
# ## What was seen is not recommended again
#
# Each row has its own seen items. So more are asked for than are needed, and the seen ones are struck out.
# (`allowed=` is for what holds for all rows, as "in stock"; see below.)

# %%
seen = [{number[item] for item in sessions[place][:-1]} for place in tested]


def unseen(ranking: np.ndarray, k: int = 20) -> np.ndarray:
    """Return the first k of each row that its session has not seen yet; -1 where there are fewer."""
    result = np.full((len(ranking), k), -1)
    for place, (row, old) in enumerate(zip(ranking.tolist(), seen, strict=True)):
        new = [item for item in row if item >= 0 and item not in old][:k]
        result[place, : len(new)] = new
    return result


most = 20 + min(max(map(len, seen)), 100)
recommended = unseen(model.predict_topk(X_test, k=most)[0])

# %% [markdown]
# ## Beside the usual baselines
#
# - **popularity**: the most used items, for everybody the same;
# - **item to item**: items that occur in the same sessions as the items so far, by the cosine of their sessions;
# - **what followed the last item** in other sessions, which is a Markov chain of order one.
#
# All of them leave out what was seen. The hit rate at k is the share of the tests whose item is among the first k.

# %%
held = [(place, number[item]) for place, session in enumerate(learned) for item in session]
visits = sp.csr_array((np.ones(len(held)), np.array(held).T), shape=(len(learned), len(items)))
popularity = np.asarray(visits.sum(axis=0)).ravel()
by_use = np.argsort(-popularity, kind="stable")

unit = normalize(sp.csc_array(visits), axis=0)
likeness = sp.csr_array(unit.T @ unit)
likeness.setdiag(0)
is_last = X[:, len(items) :]
followed = sp.csr_array(is_last.T @ Y)


def best_of(scores: sp.csr_array) -> np.ndarray:
    """Return the items of the largest scores of every row; where a row has too few, the most used ones fill it."""
    found = np.full((scores.shape[0], most), -1)
    for row in range(scores.shape[0]):
        columns, values = (part[scores.indptr[row] : scores.indptr[row + 1]] for part in (scores.indices, scores.data))
        best = columns[np.lexsort((-popularity[columns], -values))][:most]
        filled = np.concatenate([best, by_use[:most][~np.isin(by_use[:most], best)]])[:most]
        found[row, : filled.size] = filled
    return found


rankings = {
    "popularity": unseen(np.tile(by_use[:most], (tested.size, 1))),
    "item to item": unseen(best_of(sp.csr_array(X_test[:, : len(items)] @ likeness))),
    "followed the last item": unseen(best_of(sp.csr_array(X_test[:, len(items) :] @ followed))),
    "labelprism": recommended,
}
for name, ranking in rankings.items():
    scores = metrics.evaluate(Y_test, ranking, ks=(1, 5, 10, 20))
    hits = "".join(f"  hit@{k} {100 * scores[f'recall@{k}']:5.1f}" for k in (1, 5, 10, 20))
    print(f"{name:24}{hits}  nDCG@10 {100 * scores['nDCG@10']:5.1f}")
gain = metrics.bootstrap_difference(Y_test, recommended, rankings["followed the last item"], "recall", k=10)
print(f"labelprism less the Markov chain, hit@10: {100 * gain.low:+.1f} to {100 * gain.high:+.1f} (95%)")

# %% [markdown]
# ## Only what may be recommended
#
# A shop recommends what is in stock, an editor what is imported. `allowed` says so, and candidates are looked for
# among these only, so that a short list is still filled.

# %%
history = [item for item in ("open", ".read", "os.path.join") if item in number] or sessions[0][:2]
in_stock = np.array([item.startswith("os.") for item in items])
row = matrix_of([history])
print(f"after {' > '.join(history)}: {[items[place] for place in model.predict_topk(row, k=5)[0][0]]}")
if in_stock.any():
    print(f"of the module os alone: {[items[place] for place in model.predict_topk(row, k=5, allowed=in_stock)[0][0]]}")
