"""String ids over several files: one numbering for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tailmetrics.io.checks import Role
from tailmetrics.io.errors import DataFileError
from tailmetrics.io.formats import KEYED_FORMATS, Columns, format_of, open_rows, open_triples, words_on_first_line
from tailmetrics.io.names import Numbering, ordered, whole_numbers
from tailmetrics.io.source import Source


def read_label_names(
    *paths: str | Path,
    format: str | None = None,
    columns: Columns | None = None,
) -> tuple[str, ...] | None:
    """Return the string ids of all files in the order of their label ids; None when the ids are numbers already.

    Names ascend, but descend if one of the files is TREC, where the last name wins ties. Pass the result as
    ``label_names`` wherever one of these files is read, so that a label has the same id everywhere. Every file is read
    whole.

    Args:
        paths: Files of predictions and targets.
        format: Format of all files; None tells it from each name.
        columns: Names of columns.

    Raises:
        DataFileError: If a file cannot be read.
    """
    found: set[str] = set()
    forms = [format_of("read_label_names", path, format) for path in paths]
    for path, form in zip(paths, forms, strict=True):
        if form in KEYED_FORMATS:
            found.update(_items(Path(path), form, columns or Columns()))
        elif form == "parquet":
            found.update(_distinct([open_rows(path, form, _role(path, columns or Columns()), columns or Columns())]))
    if "trec" not in forms and whole_numbers(list(found)) is not None:
        return None
    return tuple(ordered(found, descending="trec" in forms))


def number_strings(sources: Sequence[Source], label_names: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the names of the labels and let the files that write ids as strings number them by these names."""
    written = [source for source in sources if source.string_ids]
    if written and label_names is None:
        if len(written) < len(sources):
            other = next(source for source in sources if not source.string_ids)
            hint = "write both alike, or pass label_names, the name of every label id."
            raise DataFileError(written[0].path, f"has strings for label ids, but {other.path} has numbers", hint=hint)
        label_names = ordered(_distinct(written), descending=False)
    for source in written:
        source.numbering = Numbering(label_names)
    return None if label_names is None else tuple(label_names)


def _distinct(sources: Iterable[Source]) -> Iterator[str]:
    for source in sources:
        for names in source.distinct_names():
            yield from names.to_pylist()


def _items(path: Path, form: str, columns: Columns) -> Iterator[str]:
    is_run = form == "trec" and words_on_first_line(path) == 6
    for triples in open_triples(path, form, "preds" if is_run else "target", columns):
        yield from triples.item.unique().to_pylist()


def _role(path: str | Path, columns: Columns) -> Role:
    from tailmetrics.io.parquet import column_names

    return "preds" if columns.ids in column_names(path) else "target"
