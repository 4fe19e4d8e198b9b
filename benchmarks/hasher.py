"""Speed of TextHasher against scikit-learn's HashingVectorizer, both on one core, on the embedded data set.

python benchmarks/hasher.py
"""

from __future__ import annotations

from sklearn.feature_extraction.text import HashingVectorizer
from timing import best_of, machine

from labelprism.data import load_tate
from labelprism.features import TextHasher

CASES = [
    ("words", "word", (1, 1)),
    ("words and word pairs", "word", (1, 2)),
    ("characters 3 to 5", "char", (3, 5)),
    ("characters in words 3 to 5", "char_wb", (3, 5)),
]


def main() -> None:
    print(machine())
    ascii_texts = [text for text in load_tate()[0].texts or [] if text.isascii()][:20_000]
    accented = [text.replace("e", "é").replace("o", "ö") for text in ascii_texts]
    print(f"{'texts':10}{'n-grams':28}{'sklearn s':>12}{'labelprism s':>14}{'ratio':>8}")
    for kind, texts in (("ASCII", ascii_texts), ("accented", accented)):
        for name, analyzer, ngrams in CASES:
            theirs = HashingVectorizer(analyzer=analyzer, ngram_range=ngrams, norm=None, alternate_sign=False)
            ours = TextHasher(20, analyzer=analyzer, ngram_range=ngrams).fit([])  # type: ignore[arg-type]
            slow = best_of(lambda model=theirs, texts=texts: model.transform(texts), 3)
            fast = best_of(lambda model=ours, texts=texts: model.transform(texts), 5)
            print(f"{kind:10}{name:28}{slow:12.2f}{fast:14.3f}{slow / fast:8.1f}")


if __name__ == "__main__":
    main()
