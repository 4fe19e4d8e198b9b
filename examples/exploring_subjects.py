# %% [markdown]
# # Exploring subjects with the tree
#
# The tree that finds candidates was grown to split labels apart that need not be told from one another. Read the
# other way round it says which labels live together. Here: subjects of the Tate collection; hashtags, products or
# diagnoses work the same.
#
# Needs `pip install 'labelprism[explore]'`. Writes pictures and a page into `output/`.

# %%
import os
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from matplotlib.figure import Figure
from sklearn.preprocessing import normalize

from labelprism import PrismClassifier, explore
from labelprism.data import load_tate
from labelprism.features import TextFeatures

SAMPLE = "--sample" in sys.argv or "LABELPRISM_SAMPLE" in os.environ
OUTPUT = Path("output")
OUTPUT.mkdir(exist_ok=True)


def show(figure: Figure, name: str) -> None:
    """Keep a picture, and show it where this is a notebook."""
    figure.savefig(OUTPUT / name, dpi=80)
    if "get_ipython" in globals():
        from IPython.display import Image, display

        display(Image(OUTPUT / name))


train, test = load_tate()
if SAMPLE:
    train, test = train.take(range(0, train.n_rows, 20)), test.take(range(0, test.n_rows, 20))
model = PrismClassifier(features=TextFeatures(keep_names=True), n_jobs=-1, random_state=0).fit(train)
view = explore.tree_view(model, test)
print(view)

# %% [markdown]
# ## The first splits
#
# A node is called by the subjects that it has more of than its parent; the lift says how many times more. `words`
# send an example to the right side of the node's own split, or to the left one.

# %%
for row in explore.frequent_labels(view, depth=3, n_labels=4):
    if row.tree == 1 and row.way:
        grown = ", ".join(f"{name} (x{lift:.1f})" for name, lift in row.grown)
        features, weights = view.routers.features[row.node], view.routers.weights[row.node]
        words = [view.routers.names.get(int(feature), "") for feature in features[(features >= 0) & (weights > 0)][:3]]
        print(f"{'  ' * row.depth}{row.way:4} {row.mass:7.0f} labels: {grown}")
        print(f"{'  ' * row.depth}     words to the right: {', '.join(words) or '-'}")

# %%
show(explore.tree_picture(view), "tree.png")

# %% [markdown]
# ## The leaves that stand out most
#
# Against the whole collection, what has a leaf more of? The leaves are in the order of the sum of p log(p / q) over
# their subjects (the Kullback-Leibler divergence), where p is a subject's share in the leaf and q that in the
# collection.

# %%
counts = np.bincount(train.Y.indices, minlength=train.n_labels)
leaf_of_entry = np.repeat(np.arange(view.held.shape[0]), np.diff(view.held.indptr))
mass = view.mass[view.nodes.leaf_nodes]
p, q = view.held.data / mass[leaf_of_entry], (counts / counts.sum())[view.held.indices]
surplus = sp.csr_array((p * np.log(p / q), view.held.indices, view.held.indptr), shape=view.held.shape)
divergence = np.asarray(surplus.sum(axis=1)).ravel()
is_shown = (view.nodes.tree[view.nodes.leaf_nodes] == 0) & (mass >= (20 if SAMPLE else 200))
for leaf in np.flatnonzero(is_shown)[np.argsort(-divergence[is_shown], kind="stable")][:10]:
    entries = slice(surplus.indptr[leaf], surplus.indptr[leaf + 1])
    leading = surplus.indices[entries][np.argsort(-surplus.data[entries], kind="stable")[:5]]
    depth = view.nodes.depth[view.nodes.leaf_nodes[leaf]]
    print(f"{divergence[leaf]:.2f}, depth {depth}, {mass[leaf]:.0f} labels: {' | '.join(train.names_of(leading))}")

# %% [markdown]
# ## Who lives with whom?
#
# A subject is a vector: how often it occurred in each leaf. Subjects with like vectors are neighbours in the tree.
# Neighbours that never occur in the same work are the interesting ones: nobody has put them together, yet the same
# words bring both up.

# %%
in_leaves = normalize(sp.csr_array(view.held.T))  # a row for each subject, of unit length
together = sp.csr_array(train.Y.T @ train.Y)
is_known = counts >= (5 if SAMPLE else 20)


def neighbours(name: str, n: int = 6) -> tuple[list[str], list[str]]:
    """Return a subject's neighbours in the trees, and those of them that share no work with it."""
    label = train.label_names.index(name)
    likeness = (in_leaves @ in_leaves[[label]].T).toarray().ravel() * is_known
    likeness[label] = 0
    nearest = [int(one) for one in np.argsort(-likeness, kind="stable")[:200] if likeness[one] > 0]
    met = set(together[[label]].indices.tolist())
    return train.names_of(nearest[:n]), train.names_of([one for one in nearest if one not in met][:n])


for name in ("castle", "dog - non-specific", "ship, warship", "train (1109)", "angel"):
    if name in train.label_names and is_known[train.label_names.index(name)]:
        near, never = neighbours(name)
        print(f"{name}\n    lives with: {' | '.join(near)}\n    and, never in one work: {' | '.join(never) or '-'}")

# %% [markdown]
# ## How good is the tree?

# %%
show(explore.model_picture(view), "model.png")

# %% [markdown]
# Rare subjects live in few leaves, frequent ones in many: of each subject, the leaves it takes to hold nine tenths of
# it.

# %%
held = sp.csc_array(view.held)
spread = np.zeros(train.n_labels)
for label in np.flatnonzero(np.diff(held.indptr)):
    of_leaves = np.sort(held.data[held.indptr[label] : held.indptr[label + 1]])[::-1].cumsum()
    spread[label] = np.searchsorted(of_leaves, 0.9 * of_leaves[-1]) + 1
figure = Figure(figsize=(7, 4.5), layout="constrained")
axes = figure.subplots()
axes.scatter(counts[spread > 0], spread[spread > 0], s=4, alpha=0.3)
axes.set(xscale="log", yscale="log", xlabel="works with the subject", ylabel="leaves that hold 90% of it, all trees")
axes.set_title(f"{np.count_nonzero(spread):,} subjects in {view.nodes.leaf_nodes.size:,} leaves", loc="left")
show(figure, "spread.png")

# %% [markdown]
# ## The page
#
# One file that works offline: the trees to click through, a search for subjects, examples with their way through the
# trees. Open `output/subjects.html`.

# %%
page = explore.page(model, test, title="Subjects of the Tate collection", n_examples=5 if SAMPLE else 30)
(OUTPUT / "subjects.html").write_text(page, encoding="utf-8")
print(f"output/subjects.html: {len(page.encode()) / 1e6:.1f} MB")
