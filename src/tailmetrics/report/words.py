"""What rows and labels are called in a field, such as users and items."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

Words: TypeAlias = tuple[str, str]
"""The plural of a row and of a label, such as ``("users", "items")``."""
USUAL_WORDS: Words = ("rows", "labels")
_WORD = r"(?<![\w.'\"=\-@/`])({})(?![\w'\"=\-@/`(]|\.\w)"
"""A word of a sentence: no part of a name, an argument, an option or a file."""


def singular(plural: str) -> str:
    """Return the singular of a regular plural.

    >>> singular("users"), singular("queries"), singular("classes"), singular("people")
    ('user', 'query', 'class', 'people')
    """
    if plural.endswith("ies"):
        return plural.removesuffix("ies") + "y"
    if plural.endswith(("sses", "xes", "ches", "shes")):
        return plural.removesuffix("es")
    return plural.removesuffix("s")


def in_words(text: str, words: Words, names: Iterable[str] = ()) -> str:
    """Return a sentence of the library in the words of a field.

    Args:
        text: The sentence, which says row, rows, query, queries, label or labels.
        words: The words of the field.
        names: Names of buckets, groups and runs, which stay as they are.

    >>> in_words("Rows with a relevant label there", ("users", "items"))
    'Users with a relevant item there'
    """
    if words == USUAL_WORDS or not text:
        return text

    rows, labels = words
    replacements = {
        "rows": rows,
        "row": singular(rows),
        "queries": rows,
        "query": singular(rows),
    }
    replacements |= {"labels": labels, "label": singular(labels)}
    replacements |= {
        word.capitalize(): plural.capitalize() for word, plural in replacements.items()
    }
    word = _WORD.format("|".join(replacements))

    names_with_words = []
    for name in names:
        if re.search(word, name):
            names_with_words.append(re.escape(name))
    names_with_words.sort(key=len, reverse=True)
    pattern = "|".join([*names_with_words, word])
    return re.sub(pattern, lambda match: replacements.get(match[1], match[0]), text)
