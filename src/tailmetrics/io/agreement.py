"""Whether names of several files mean the same: queries and labels alike."""

from __future__ import annotations

from collections.abc import Sequence

from tailmetrics.io.engine import Engine
from tailmetrics.io.errors import DataFileError, note
from tailmetrics.io.paths import FilePath

WRITTEN_ALIKE = r"regexp_replace(trim(name), '^0*([0-9]+)(\.0*)?$', '\1')"
"""A name as it would be written if all programs wrote whole numbers alike: 7 for 007, 7.0 and 7 behind a blank."""


def check_agreement(
    engine: Engine, met: str, word: str, paths: Sequence[FilePath], as_written: bool, may_differ: bool = False
) -> None:
    """Raise if a file has no name in common with the others, or writes one in another way.

    Args:
        engine: With the table ``met`` (name, file), which holds each name of each file once.
        met: Its name.
        word: What the names are, for the message.
        paths: The files, by their numbers.
        as_written: Whether names that differ only in how a number is written are different.
        may_differ: Whether names cannot be written in two ways, so that nothing in common is only noted.

    Raises:
        DataFileError: Naming the later file.
    """
    if not as_written:
        _check_written_alike(engine, met, word, paths)
    lonely = engine.row(
        f"SELECT file FROM {met} WHERE file > 0 GROUP BY file HAVING file NOT IN "
        f"(SELECT file FROM {met} SEMI JOIN (SELECT name FROM {met} GROUP BY name HAVING count(*) > 1) USING (name)) "
        "ORDER BY file LIMIT 1"
    )
    others = None if lonely is None else engine.row(f"SELECT file, name FROM {met} WHERE file <> ? LIMIT 1", lonely[0])
    if lonely is None or others is None:
        return
    here, there = (
        engine.row(f"SELECT min(name) FROM {met} WHERE file = ?", file)[0] for file in (lonely[0], others[0])
    )
    problem = f"has no {word} in common with {paths[others[0]]}: {there!r} there, {here!r} here"
    if may_differ:
        note(paths[lonely[0]], problem)
        return
    hint = "do the two files belong together?"
    if word == "label":
        hint += " If they do, and no prediction is right, string_ids=False takes whole numbers as they are."
    raise DataFileError(paths[lonely[0]], problem, hint=hint)


def _check_written_alike(engine: Engine, met: str, word: str, paths: Sequence[FilePath]) -> None:
    """Raise if no file has both of two names that are one number, such as 7 and 007."""
    found = engine.row(
        f"SELECT arg_min(name, file), min(file), arg_max(name, file), max(file) FROM {met} "
        f"GROUP BY {WRITTEN_ALIKE} HAVING count(DISTINCT name) > 1 AND count(*) = count(DISTINCT file) "
        "ORDER BY 1 LIMIT 1"
    )
    if found is not None:
        there, first, here, last = found
        hint = f"write both alike; with string_ids=True they are two {'labels' if word == 'label' else 'queries'}."
        raise DataFileError(paths[last], f"has the {word} {here!r} where {paths[first]} has {there!r}", hint=hint)
