# %% [markdown]
# # Subject indexing of short texts
#
# A catalogue knows the title of a work and a few facts. People file it under subjects of a large vocabulary. Here the
# subjects are suggested: 14,905 of them, for works of the Tate collection, which come with the library.
#
# `python subject_indexing.py --sample` does the same with a sixteenth of the data.

# %%
import os
import sys
import time
from pathlib import Path

import numpy as np

from labelprism import PrismClassifier, metrics
from labelprism.data import load_tate
from labelprism.features import TextFeatures

SAMPLE = "--sample" in sys.argv or "LABELPRISM_SAMPLE" in os.environ
OUTPUT = Path("output")

train, test = load_tate()
if SAMPLE:
    train, test = train.take(range(0, train.n_rows, 16)), test.take(range(0, test.n_rows, 16))
counts = np.bincount(train.Y.indices, minlength=train.n_labels)
print(f"{train.n_rows:,} works to learn from, {test.n_rows:,} to test")
print(f"{train.Y.nnz / train.n_rows:.1f} subjects a work; {np.mean(counts <= 5):.0%} of them have at most five works")

# %% [markdown]
# ## A text and its subjects
#
# The text is all that the model sees. The subjects are nodes of Tate's subject tree with everything above them, which
# is why "people" and "nature" come up so often.

# %%
work = 45
print(test.texts[work])
print(" | ".join(test.names_of(test.Y[[work]].indices)))

# %% [markdown]
# ## Learn
#
# `TextFeatures` makes weighted words of texts and stays with the model, so that the model takes texts. `keep_names`
# lets it name the words when it explains something.

# %%
model = PrismClassifier(features=TextFeatures(keep_names=True), n_jobs=-1, random_state=0)
since = time.perf_counter()
model.fit(train)
print(f"trained in {time.perf_counter() - since:.1f} s")

# %% [markdown]
# ## How good are the suggestions?
#
# P@k is the share of the first k suggestions that are right, nDCG@5 counts early ones more, and PSP@5 gives rare
# subjects a larger weight. Beside it: the same five subjects for every work, the most frequent ones.

# %%
suggested, _ = model.predict_topk(test, k=5)
usual = np.tile(np.argsort(-counts, kind="stable")[:5], (test.n_rows, 1))
SHOWN = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5")
for name, ranking in (("labelprism", suggested), ("most frequent", usual)):
    scores = metrics.evaluate(test.Y, ranking, train.Y)
    print(f"{name:14}" + "".join(f"{key:>8} {100 * scores[key]:5.1f}" for key in SHOWN))

# %% [markdown]
# Frequent subjects are easy, rare ones are not. `objective="propensity"` ranks for the rare ones and pays with some
# precision.

# %%
rare = PrismClassifier(features=TextFeatures(), objective="propensity", n_jobs=-1, random_state=0).fit(train)
for_rare, _ = rare.predict_topk(test, k=5)
for name, ranking in (("precision", suggested), ("propensity", for_rare)):
    scores = metrics.evaluate(test.Y, ranking, train.Y)
    print(f"objective={name}: P@1 {100 * scores['P@1']:.1f}, PSP@5 {100 * scores['PSP@5']:.1f}; right at least once:")
    for group in metrics.by_frequency(test.Y, ranking, counts)[:3]:
        works = f"{group.fewest} to {group.most}" if group.most else f"{group.fewest} or more"
        print(f"    {group.coverage:.0%} of the subjects that have {works} works and occur in the test")

# %% [markdown]
# ## Which suggestions may go in unseen?
#
# Probabilities are learned on held-out works, so that a threshold means something: of the suggestions with at least
# 70%, more than 70% should be right. A catalogue can take those and show the others to a person.

# %%
labels, likely = model.predict_topk_proba(test, k=20)
works = np.repeat(np.arange(test.n_rows), labels.shape[1])
is_true = np.asarray(test.Y[works, np.maximum(labels, 0).ravel()]).reshape(labels.shape) > 0
print(f"calibration error {metrics.expected_calibration_error(is_true[labels >= 0], likely[labels >= 0]):.3f}")
for threshold in (0.5, 0.7, 0.9, 0.95):
    taken = (labels >= 0) & (likely >= threshold)
    right = is_true[taken].sum()
    how_many, share = taken.sum() / test.n_rows, right / max(taken.sum(), 1)
    print(f"at least {threshold:.0%}: {how_many:4.1f} a work, {share:.1%} right, {right / test.Y.nnz:.0%} of all")

# %% [markdown]
# ## New texts

# %%
TITLES = [
    "A ship in a storm off the coast of Holland",
    "Portrait of a lady with a small dog, oil paint on canvas",
    "Study for a bridge and castle ruins, graphite on paper",
]
for title, names in zip(TITLES, model.predict_labels(TITLES, k=6), strict=True):
    print(f"{title}\n    {' | '.join(names)}")

# %% [markdown]
# A cataloguer who wants animals only gives a list of what is allowed. Candidates are then looked for among these.

# %%
ANIMALS = ["cat", "cow", "deer", "dog - non-specific", "donkey", "fish (1876)", "horse (602)", "sheep", "swan"]
print(model.predict_labels(TITLES, k=2, allowed=ANIMALS))

# %% [markdown]
# ## Why?
#
# The parts of a score add up to it, and the words that made the classifier's part are named.

# %%
for label in model.explain(TITLES[:1], k=3, n_features=4).labels:
    parts = ", ".join(f"{part} {value:+.2f}" for part, value in label.parts.items())
    words = ", ".join(f"{share.name} {share.value:+.2f}" for share in label.features or ())
    print(f"{label.name}: {label.score:.2f} = {parts}\n    words: {words}")

# %% [markdown]
# ## Keep it, and let it learn
#
# A model is a directory of arrays. It loads in milliseconds, nothing in it is executed, and it takes new works and
# new subjects without growing its trees anew.

# %%
OUTPUT.mkdir(exist_ok=True)
model.save(OUTPUT / "tate.model")
model = PrismClassifier.load(OUTPUT / "tate.model")
new_works = [
    "Wind turbines off the coast, digital print on paper",
    "A field of wind turbines at dawn, oil paint on canvas",
]
model.partial_fit(new_works, [("sea", "wind turbine"), ("field", "wind turbine")])
print(model.predict_labels(["Wind turbines above a field, etching on paper"], k=5))
