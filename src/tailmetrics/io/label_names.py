"""Names of labels over several files: one numbering for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tailmetrics.io.columns import Columns
from tailmetrics.io.engine import MEMORY, Engine
from tailmetrics.io.errors import DataFileError
from tailmetrics.io.finding import Part, PathLike, find
from tailmetrics.io.formats import Format, format_of_parts
from tailmetrics.io.labels import LabelRule, ordered_names
from tailmetrics.io.names import Numbering
from tailmetrics.io.source import Source


def read_label_names(
    *paths: PathLike | Sequence[PathLike],
    format: str | None = None,
    columns: Columns | None = None,
    string_ids: bool | None = None,
    num_labels: int | None = None,
    more: Iterable[str] = (),
    memory: str = MEMORY,
) -> Sequence[str] | None:
    """Return the names of the labels of all files in the order of their ids; None where ids are numbers already.

    Names ascend (whole numbers by value), but descend if one of the files is TREC, where the last name wins ties. Pass
    the result as ``label_names`` wherever one of these files is read, so that a label has the same id everywhere.
    Every file is read whole.

    Args:
        paths: Files of predictions and targets, as for :func:`read`.
        format: Format of all files; None tells it for each.
        columns: Names of columns.
        string_ids: As for :func:`read`.
        num_labels: As for :func:`read`: with it, whole numbers are label ids.
        more: Further names, such as those of labels that only training has.
        memory: As for :func:`read`.

    Raises:
        DataFileError: If a file cannot be read.
    """
    columns = columns or Columns()
    found = [find(path) for path in paths]
    forms = [format_of_parts("read_label_names", one.parts, format, columns) for one in found]
    descending = any(form.ties == "last name" for form in forms)
    rule = LabelRule(None, string_ids, num_labels, descending)
    if rule.by_number and all(form.lines for form in forms):
        return None
    opened = [
        (one.name, _names(part, form, columns, bool(string_ids)))
        for one, form in zip(found, forms, strict=True)
        for part in one.parts
    ]
    named = [(path, blocks) for path, blocks in opened if blocks is not None]
    if not named:
        return None
    numbered = next((path for path, blocks in opened if blocks is None), None)
    if numbered is not None:
        if num_labels is not None and string_ids is None:
            return None
        hint = "with num_labels=L whole numbers are label ids in all of them; with string_ids=True they are names."
        raise DataFileError(named[0][0], f"has names of labels, but {numbered} has their numbers", hint=hint)
    return ordered_names(Engine(memory), named, rule, bool(string_ids), _blocks(more))


def _names(part: Part, form: Format, columns: Columns, as_names: bool) -> Iterator[Any] | None:
    """Return the names that a file holds, some at a time; None where its labels are numbers."""
    opened = form.open(part.path, None, columns, part.partition)
    if form.lines:
        return (block.item.drop_null().unique() for block in opened)
    if as_names:
        opened.read_as_names()
    return _distinct([opened]) if opened.string_ids else None


def number_strings(
    sources: Sequence[Source], label_names: Sequence[str] | None, as_names: bool, memory: str
) -> Sequence[str] | None:
    """Return the names of the labels and let the files that hold names number them."""
    for source in sources if as_names else ():
        if not source.string_ids:
            source.read_as_names()
    written = [source for source in sources if source.string_ids]
    if written and label_names is None:
        if len(written) < len(sources):
            other = next(source for source in sources if not source.string_ids)
            hint = "write both alike, or pass label_names, the name of every label id."
            raise DataFileError(written[0].path, f"has strings for label ids, but {other.path} has numbers", hint=hint)
        rule = LabelRule(None, True, None, False)
        named = [(source.path, _distinct([source])) for source in written]
        label_names = ordered_names(Engine(memory), named, rule, as_names) or ()
    for source in written:
        source.number_by(Numbering(label_names or ()))
    return label_names


def _distinct(sources: Iterable[Source]) -> Iterator[Any]:
    for source in sources:
        for names in source.distinct_names():
            yield from _blocks(names)


def _blocks(names: Iterable[str]) -> Iterator[Any]:
    import pyarrow as pa

    yield pa.array(list(names), pa.large_string())
