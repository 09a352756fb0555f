"""What happens to files between one program and the next: what must be read alike, what refused, what either."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random

LINES = ("trec", "msmarco", "csv", "tsv", "jsonl", "lists")
"""Formats of text whose lines name their query."""
TOKENS = [
    b'"',
    b"nan",
    b"inf",
    b"1e400",
    b"0x10",
    b"1_0",
    b"1" + b"0" * 20,
    b"-1",
    b"\xff",
    b"\x00",
    b"\r",
    b"\t",
    b",",
    b"#",
]
TOKENS += [b"{", b"07", b" ", b"\xc2\xa0", b"\x1c", b"+1", b"1.5", b"''"]


def _ended(content: bytes) -> bytes:
    return content if content.endswith((b"\n", b"\r")) else content + b"\n"


ALIKE: dict[str, Callable[[bytes], bytes]] = {
    "CR LF": lambda content: re.sub(rb"\r?\n", b"\r\n", content),
    "CR": lambda content: re.sub(rb"\r?\n", b"\r", content),
    "one CR": lambda content: content.replace(b"\n", b"\r", 1),
    "a byte order mark": lambda content: b"\xef\xbb\xbf" + content.removeprefix(b"\xef\xbb\xbf"),
    "blank lines": lambda content: _ended(content) + b"\n \n",
    "no last end": lambda content: content.rstrip(b"\r\n"),
}
"""Unusual lines that mean the same."""
WRONG: dict[str, Callable[[bytes], bytes]] = {
    "no UTF-8": lambda content: _ended(content) + b"\xff\n",
    "other words": lambda content: _ended(content) + b"what is this",
    "a word": lambda content: _ended(content) + b"{",
}
"""Last lines that are wrong in every format."""


def _replaced(content: bytes, source: Random) -> bytes:
    place = source.randrange(len(content) + 1)
    return content[:place] + source.choice(TOKENS) + content[place + source.randrange(4) :]


def _shuffled(content: bytes, source: Random) -> bytes:
    lines = content.split(b"\n")
    return b"\n".join(source.choices(lines, k=len(lines)))


ANY: dict[str, Callable[[bytes, Random], bytes]] = {
    "cut": lambda content, source: content[: source.randrange(len(content) + 1)],
    "a byte": lambda content, source: bytes([source.randrange(256)]).join(
        [content[: (place := source.randrange(len(content)))], content[place + 1 :]]
    ),
    "a word": _replaced,
    "lines lost and repeated": _shuffled,
    "nothing": lambda content, source: b"",
    "twice": lambda content, source: content + content,
}
"""Damage of any file, which is read or refused."""


def damage(path: Path, form: str, source: Random) -> str:
    """Damage a file, and return how: "alike", "wrong" or "any"."""
    content = path.read_bytes()
    kind = source.choice(["alike", "wrong", "any"])
    if form not in LINES or path.suffix in (".gz", ".bz2", ".zst"):
        kind = "any"
    if kind == "any" and source.random() < 0.1:
        path.unlink()
    elif kind == "any":
        path.write_bytes(ANY[source.choice(list(ANY))](content, source))
    else:
        table = ALIKE if kind == "alike" else WRONG
        path.write_bytes(table[source.choice(list(table))](content))
    return kind
