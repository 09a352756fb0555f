"""What happens to files between one program and the next."""

from __future__ import annotations

from pathlib import Path
from random import Random

TOKENS = [
    b'"',
    b"nan",
    b"inf",
    b"-inf",
    b"1e400",
    b"0x10",
    b"1_0",
    b"100000000000000000000",
    b"-1",
    b"\xff",
    b"\x00",
    b"\r",
    b"\t",
    b",",
    b"#",
    b"{",
    b"07",
    b" ",
    b"\xc2\xa0",
    b"\x1c",
    b"+1",
    b"1.5",
    b"",
    b"''",
]


def damage(path: Path, source: Random) -> str:
    """Damage a file, and return how."""
    content = path.read_bytes()
    how = source.choice(
        [cut, flipped, inserted, line_lost, line_twice, lines_swapped, replaced, joined, emptied, gone, folder, twice]
    )
    how(path, content, source)
    return how.__name__


def cut(path: Path, content: bytes, source: Random) -> None:
    """The file ends early."""
    path.write_bytes(content[: source.randrange(len(content) + 1)])


def flipped(path: Path, content: bytes, source: Random) -> None:
    """One byte is another."""
    place = source.randrange(len(content))
    path.write_bytes(content[:place] + bytes([source.randrange(256)]) + content[place + 1 :])


def inserted(path: Path, content: bytes, source: Random) -> None:
    """Something stands where it does not belong."""
    place = source.randrange(len(content) + 1)
    path.write_bytes(content[:place] + source.choice(TOKENS) + content[place:])


def replaced(path: Path, content: bytes, source: Random) -> None:
    """A word is another."""
    words = content.replace(b",", b" , ").replace(b"\t", b" \t ").replace(b"\n", b" \n ").split(b" ")
    filled = [place for place, word in enumerate(words) if word.strip(b"\n\t, ")]
    if not filled or content.startswith((b"PK", b"PAR1", b"\x93", b"\x1f", b"BZh")):
        inserted(path, content, source)
        return
    words[source.choice(filled)] = source.choice(TOKENS)
    text = b" ".join(words).replace(b" , ", b",").replace(b" \t ", b"\t").replace(b" \n ", b"\n")
    path.write_bytes(text)


def line_lost(path: Path, content: bytes, source: Random) -> None:
    """A line is missing."""
    lines = content.split(b"\n")
    del lines[source.randrange(len(lines))]
    path.write_bytes(b"\n".join(lines))


def line_twice(path: Path, content: bytes, source: Random) -> None:
    """A line stands twice."""
    lines = content.split(b"\n")
    place = source.randrange(len(lines))
    lines.insert(place, lines[place])
    path.write_bytes(b"\n".join(lines))


def lines_swapped(path: Path, content: bytes, source: Random) -> None:
    """Two lines have changed places."""
    lines = content.split(b"\n")
    one, other = source.randrange(len(lines)), source.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    path.write_bytes(b"\n".join(lines))


def joined(path: Path, content: bytes, source: Random) -> None:
    """An end of line is missing."""
    lines = content.split(b"\n")
    place = source.randrange(len(lines))
    path.write_bytes(b"\n".join(lines[:place]) + b"\n".join(lines[place:]))


def emptied(path: Path, content: bytes, source: Random) -> None:
    """Nothing is in it."""
    path.write_bytes(b"")


def gone(path: Path, content: bytes, source: Random) -> None:
    """It is not there."""
    path.unlink()


def folder(path: Path, content: bytes, source: Random) -> None:
    """A folder has its name."""
    path.unlink()
    path.mkdir()


def twice(path: Path, content: bytes, source: Random) -> None:
    """It was written twice into one file."""
    path.write_bytes(content + content)
