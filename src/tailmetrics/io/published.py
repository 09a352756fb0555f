"""Files of one tool each: predictions of MTEB, and LETOR, the format of SVMrank, LightGBM and XGBoost.

A line of LETOR is ``grade qid:query feature:value … # docid = name``. Predictions have a score on each line, for the
document on the same line of the targets. A document without a name is called by the number of its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from tailmetrics.io.errors import DataFileError, note, reading
from tailmetrics.io.files import FilePath, check_file, stream
from tailmetrics.io.lines import Opened, Triples, triples
from tailmetrics.io.reading import Head, Opening, is_number
from tailmetrics.io.text import BLANK, numbered_lines, parse_float, parse_json

META = "mteb_model_meta"
"""The key that only predictions of MTEB have."""
SHOWN_PARTS = 8
"""The most parts that an error names; each is a few words."""
LETOR_LINE = re.compile(r"(\S+)\s+qid:(\S+)(?:\s+[^\s:]+:\S+)*\s*(?:#(.*))?")
DOCUMENT = re.compile(r"docid\s*=\s*(\S+)")
LETOR_HINT = (
    "targets are lines 'grade qid:query feature:value', predictions one score for each of these lines. One label for "
    "each row is an array: numpy.save writes it."
)

# -- MTEB -------------------------------------------------------------------------------------------------------------


def is_mteb(head: Head) -> bool:
    """Whether a file holds predictions of MTEB."""
    return head.data.lstrip()[:1] == b"{" and f'"{META}"'.encode() in head.data


def read_mteb(asked: Opening, part: str | None = None) -> Opened:
    """Read ``{"mteb_model_meta": …, subset: {split: {query: {document: score}}}}``, of one subset and split."""
    from tailmetrics.io.tables import from_dict

    path = check_file(asked.path)
    with reading(path, "MTEB"), stream(path) as file:
        content = parse_json(path, bytes(file.read()))
    chosen, run = part_of(path, content, part, lambda name: f"part={name!r} chooses one.")
    if asked.role is not None:
        note(path, f"the predictions for {chosen} are read.")
    return from_dict(run, asked)


def part_of(
    path: FilePath, content: Mapping[str, Any], part: str | None, hint: Callable[[str], str]
) -> tuple[str, Mapping[str, Any]]:
    """Return the name, such as ``default/test``, and the run of one subset and split of predictions of MTEB.

    Args:
        path: The file, or the name of a dict.
        content: What it holds.
        part: The name of the part; None where there is one part alone.
        hint: Takes the name of a part, and says how to choose it.

    Raises:
        DataFileError: If there is no such part, or if no part is named and there are several.
    """
    held = {name: splits for name, splits in content.items() if name != META and isinstance(splits, Mapping)}
    parts = {f"{name}/{split}": run for name, splits in held.items() for split, run in splits.items()}
    if part is None and len(parts) == 1:
        ((part, run),) = parts.items()
        return part, run
    if part is not None and part in parts:
        return part, parts[part]
    if not parts:
        raise DataFileError(path, "holds no subset with a split", hint="MTEB writes {subset: {split: {query: …}}}.")
    said = ", ".join(name[:40] for name in list(parts)[:SHOWN_PARTS]) + " …" * (len(parts) > SHOWN_PARTS)
    problem = f"holds predictions for {said}" if part is None else f"has no part {part[:40]!r}; its parts are {said}"
    raise DataFileError(path, problem, hint=hint(next(iter(parts))[:80]))


# -- LETOR ------------------------------------------------------------------------------------------------------------


def is_letor(head: Head) -> bool:
    """Whether the first line that is no comment names a query as LETOR does, or every line is one number."""
    return any(words[1:2] and words[1].startswith("qid:") for words in head.words[:1]) or is_scores(head)


def is_scores(head: Head) -> bool:
    """Whether every line is one number: scores beside targets in LETOR."""
    return bool(head.words) and all(len(words) == 1 and is_number(words[0]) for words in head.words)


def read_letor(asked: Opening, beside: Sequence[FilePath] = ()) -> Iterator[Triples]:
    """Read targets, or predictions for the lines of the targets ``beside``."""
    path = check_file(asked.path)
    if asked.role == "target" or (asked.role is None and not is_scores(Head(path))):
        return triples((f"line {line}", query, item, grade) for line, query, item, grade in _judged(path))
    if not beside:
        raise DataFileError(path, "holds one score on each line, which belong to targets in LETOR", hint=LETOR_HINT)
    return triples(_scored(path, beside))


def _judged(path: FilePath) -> Iterator[tuple[int, str, str, float]]:
    """Yield line number, query, document and grade of each line that is no comment."""
    with reading(path, "LETOR"):
        lines = ((line, text.strip(BLANK)) for line, text in numbered_lines(path))
        for number, (line, text) in enumerate((one for one in lines if not one[1].startswith("#")), 1):
            found = LETOR_LINE.fullmatch(text)
            if found is None:
                raise DataFileError(path, f"{text[:40]!r} names no grade and query", f"line {line}", LETOR_HINT)
            named = DOCUMENT.search(found[3] or "")
            yield line, found[2], named[1] if named else str(number), parse_float(path, "grade", found[1], line)


def _scored(path: FilePath, beside: Sequence[FilePath]) -> Iterator[tuple[str, str, str, float]]:
    """Yield the place, query, document and score of each line."""
    judged = (one for target in beside for one in _judged(target))
    with reading(path, "LETOR"):
        for score, target in zip_longest(numbered_lines(path), judged):
            if score is None or target is None:
                more, less = (beside[0], path) if score is None else (path, beside[0])
                raise DataFileError(path, f"{more} holds more lines than {less}", hint=LETOR_HINT)
            line, text = score
            yield f"line {line}", target[1], target[2], parse_float(path, "score", text.strip(BLANK), line)
