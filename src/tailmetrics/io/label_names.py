"""Names of labels over several files: one numbering for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tailmetrics.io.columns import Columns
from tailmetrics.io.errors import DataFileError, check_file
from tailmetrics.io.formats import Format, format_of
from tailmetrics.io.labels import LabelRule
from tailmetrics.io.names import Numbering
from tailmetrics.io.source import Source


def read_label_names(
    *paths: str | Path,
    format: str | None = None,
    columns: Columns | None = None,
    string_ids: bool | None = None,
    num_labels: int | None = None,
    more: Iterable[str] = (),
) -> tuple[str, ...] | None:
    """Return the names of the labels of all files in the order of their ids; None where ids are numbers already.

    Names ascend (whole numbers by value), but descend if one of the files is TREC, where the last name wins ties. Pass
    the result as ``label_names`` wherever one of these files is read, so that a label has the same id everywhere.
    Every file is read whole.

    Args:
        paths: Files of predictions and targets.
        format: Format of all files; None tells it for each.
        columns: Names of columns.
        string_ids: As for :func:`read`.
        num_labels: As for :func:`read`: with it, whole numbers are label ids.
        more: Further names, such as those of labels that only training has.

    Raises:
        DataFileError: If a file cannot be read.
    """
    columns = columns or Columns()
    files = [check_file(path) for path in paths]
    forms = [format_of("read_label_names", path, format, columns) for path in files]
    descending = any(form.ties == "last name" for form in forms)
    rule = LabelRule(None, string_ids, num_labels, descending)
    if rule.by_number and all(form.lines for form in forms):
        return None
    found = set(more)
    named = [_names(path, form, columns, bool(string_ids)) for path, form in zip(files, forms, strict=True)]
    for names in named:
        found.update(names or ())
    return None if all(names is None for names in named) or not found else rule.number(list(found), files[0]).names


def _names(path: Path, form: Format, columns: Columns, as_names: bool) -> Iterator[str] | None:
    """Return the names that a file holds; None where its labels are numbers."""
    opened = form.open(path, None, columns)
    if form.lines:
        return (name for block in opened for name in block.item.drop_null().unique().to_pylist())
    if as_names:
        opened.read_as_names()
    return _distinct([opened]) if opened.string_ids else None


def number_strings(
    sources: Sequence[Source], label_names: Sequence[str] | None, as_names: bool
) -> tuple[str, ...] | None:
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
        label_names = LabelRule(None, True, None, False).order(list(_distinct(written)))
    for source in written:
        source.numbering = Numbering(label_names)
    return None if label_names is None else tuple(label_names)


def _distinct(sources: Iterable[Source]) -> Iterator[str]:
    for source in sources:
        for names in source.distinct_names():
            yield from names
