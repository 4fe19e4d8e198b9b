"""Write src/core/unicode_tables.inc: character classes and case folding, from Python's Unicode database.

    python tools/make_unicode_tables.py > src/core/unicode_tables.inc

Run it with the newest Python at hand; the table names the Unicode version it holds.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator

# Scripts written without blanks between words: each character becomes a word of its own (as in UAX #29).
IDEOGRAPH_NAMES = ("CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH", "HIRAGANA LETTER")


def is_word(char: str) -> bool:
    """Letters, digits and other numbers, connector punctuation such as the underscore."""
    category = unicodedata.category(char)
    return category[0] in "LN" or category == "Pc"


def is_ideograph(char: str) -> bool:
    """Characters that are a word by themselves."""
    return unicodedata.name(char, "").startswith(IDEOGRAPH_NAMES)


def is_mark(char: str) -> bool:
    """Accents and vowel signs: part of the word that they follow."""
    return unicodedata.category(char)[0] == "M"


def is_ignored(char: str) -> bool:
    """Invisible format characters (soft hyphen, joiners): they neither split a word nor belong to it.

    The zero width space is one by its category, but its purpose is to split words.
    """
    return unicodedata.category(char) == "Cf" and char != "\u200b"


def fold(text: str) -> str:
    """Fold case and compatibility characters, as `TextHasher` does for texts that are not simple."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def second_of_composition() -> set[str]:
    """Return the characters that Unicode may join with the one before them."""
    pairs = (unicodedata.normalize("NFD", chr(code)) for code in range(sys.maxunicode + 1))
    return {char for pair in pairs for char in pair[1:]}


COMPOSING = second_of_composition()


MAX_EXPANSION = 4


def is_simple(char: str) -> bool:
    """Tell whether a character of the basic plane is folded to the same few characters whatever stands beside it."""
    if char > "\uffff" or "\ud800" <= char <= "\udfff" or unicodedata.category(char) == "Cn":
        return False
    folded = fold(char)
    return (
        1 <= len(folded) <= MAX_EXPANSION
        and all(c <= "\uffff" and fold(c) == c for c in folded)
        and not any(unicodedata.combining(c) or c in COMPOSING for c in char + folded)
    )


def ranges(belongs: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    """Yield runs of consecutive code points, both ends included."""
    start = None
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and belongs(chr(code))
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            yield start, code - 1
            start = None


def print_table(declaration: str, rows: Iterable[tuple[int, ...]]) -> None:
    """Print tuples of code points as a C++ array."""
    print(f"constexpr {declaration}[] = {{")
    line = "   "
    for row in rows:
        item = f" {{{', '.join(f'{code:#x}' for code in row)}}},"
        if len(line) + len(item) > 118:
            print(line)
            line = "   "
        line += item
    print(f"{line}\n}};")


def main() -> None:
    """Print the table."""
    print(f"// Made by tools/make_unicode_tables.py from Unicode {unicodedata.unidata_version}; do not edit.")
    print("// clang-format off")
    for name, belongs in (
        ("kWordRanges", is_word),
        ("kIdeographRanges", is_ideograph),
        ("kMarkRanges", is_mark),
        ("kIgnoredRanges", is_ignored),
        ("kSimpleRanges", is_simple),
    ):
        print_table(f"Range {name}", ranges(belongs))
    simple = [chr(code) for code in range(0x10000) if is_simple(chr(code))]
    folds = [(char, fold(char)) for char in simple if fold(char) != char]
    print_table("Fold kFolds", ((ord(char), ord(folded)) for char, folded in folds if len(folded) == 1))
    print_table("Expansion kExpansions", ((ord(char), *map(ord, to)) for char, to in folds if len(to) > 1))
    print("// clang-format on")


if __name__ == "__main__":
    main()
