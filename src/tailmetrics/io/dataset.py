"""Batches of open files as tensors for ``metric.update``.

Batches are cut to the rows of one rank, filtered and checked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias, final

import numpy as np
import torch
from torch import Tensor

from tailmetrics._arguments import LARGEST_GAIN
from tailmetrics.io.columns import TableReading
from tailmetrics.io.database import Names
from tailmetrics.io.files import DataFileError, FilePath
from tailmetrics.io.filters import Filter
from tailmetrics.io.rows import (
    Array,
    FileFacts,
    Ints,
    Ragged,
    Rows,
    Source,
    csr_of,
    row_of,
    stands_before,
)
from tailmetrics.ranking._kernels_cpu import kernels_for

LARGEST = 2**63 - 1
Kind: TypeAlias = Literal["preds", "target"]
"""Whether rows are predictions or targets, also of training."""


class Batch(NamedTuple):
    """Consecutive rows of predictions and targets.

    Attributes:
        preds: Scores (N, L), ranked ids (N, K), a pair (scores, ids) of candidates, or
            CSR (N, L).
        target: Label ids (N, M), one label id per row (N,), multi-hot or gains (N, L),
            or CSR (N, L).
        rows: Shape (N,), int64, row numbers in the files.
    """

    preds: Tensor | tuple[Tensor, Tensor]
    target: Tensor
    rows: Tensor


class TargetBatch(NamedTuple):
    """Consecutive rows of targets, without predictions.

    Attributes:
        target: Label ids (N, M), one label id per row (N,), multi-hot or gains (N, L),
            or CSR (N, L).
        rows: Shape (N,), int64, row numbers in the file.
    """

    target: Tensor
    rows: Tensor


class RowRules(NamedTuple):
    """What the rows of a file may hold.

    Attributes:
        role: Predictions or targets.
        num_labels: Number of labels; None for no upper limit.
        may_repeat: Whether a row may hold a label more than once; in targets only if
            they cannot be a matrix.
        lowest: The lowest number allowed in the place of a label id.
    """

    role: Kind
    num_labels: int | None
    may_repeat: bool = False
    lowest: int = 0


class EntryBound(NamedTuple):
    """How many entries, such as labels with their scores, one row may hold.

    Attributes:
        memory: The memory limit as it was given.
        entries: The number of entries.
    """

    memory: str
    entries: int

    def check(self, path: FilePath, row: str, entries: int) -> None:
        """Raise if a row has more entries; ``row`` is its name in the error."""
        if entries > self.entries:
            hint = (
                "a row is read as a whole: give more --memory, or leave out what is "
                "below every cut-off."
            )
            problem = (
                f"holds {entries:,} entries, and --memory {self.memory} has room for "
                f"{self.entries:,}"
            )
            raise DataFileError(path, problem, row, hint)


@dataclass(frozen=True, eq=False, kw_only=True)
class Files(FileFacts):
    """Facts about open files, and the conversion of their rows to tensors.

    Attributes:
        batch_rows: Rows per batch.
        bound: How many entries a row may hold.
        readings: How each file is read.
        ignore_index: A label id that pads lists of targets, for metrics with this
            ``ignore_index``.
    """

    batch_rows: int
    bound: EntryBound
    readings: tuple[TableReading, ...] = ()
    ignore_index: int | None = None

    @property
    def tie_winner(self) -> str:
        """Text that says which of two labels with equal scores is ranked first."""
        # label ids are numbers, or the user gave the order of the names
        if not isinstance(self.label_names, Names):
            return "the lower label id"
        if self.label_names.descending:
            return "the label that comes last by name"
        return "the label that comes first by name"

    def _checked(self, source: Source, rules: RowRules) -> Iterator[tuple[Rows, int]]:
        """Yield the checked rows of each batch, and the number of the first row."""
        may_be_padded = (
            rules.role == "target"
            and self.ignore_index is not None
            and not source.one_label
        )
        first = self.start
        for rows in source.all_batches(self.start, self.stop, self.batch_rows):
            if isinstance(rows, Ragged):
                self.bound.check(
                    source.path,
                    source.describe_row(first + int(rows.lengths.argmax())),
                    rows.width,
                )
            checked = rows
            if may_be_padded and isinstance(rows, Ragged) and rows.values is None:
                is_padding = rows.ids == self.ignore_index
                checked = rows.select(~is_padding)
                is_first = ~stands_before(rows.row_numbers, rows.ids)
                # a row of padding alone keeps one
                rows = rows.select(~is_padding | is_first)
            check_rows(checked, source, first, rules)
            yield rows, first
            first += len(rows)

    def _target_tensor(
        self, source: Source, rows: Rows, is_filtered: bool = False
    ) -> Tensor:
        """Return targets as a tensor.

        The result is dense [N, L], one label id per row [N], label ids [N, M], or gains
        as CSR [N, L].
        """
        if not isinstance(rows, Ragged):
            return _tensor(rows)
        # one -1 in a row would be a class that is missing; a filter has left the row
        # without a label
        is_bare = (
            is_filtered
            and rows.width < 2
            and not rows.lengths.all()
            and not (rows.ids < 0).any()
        )
        if source.one_label and not is_bare:
            return torch.from_numpy(rows.matrix)[:, 0]
        if rows.values is not None:
            if self.columns is None:
                content = "gains"
                if source.reading.value is not None:
                    content = f"gains of {source.reading.value!r}"
                hint = "--num-labels L reads ids up to L - 1."
                if source.is_table:
                    hint = (
                        "--string-ids true makes each number a label of its "
                        f"own; {hint}"
                    )
                raise DataFileError(
                    source.path,
                    f"holds {content}, but the number of labels is not known",
                    hint=hint,
                )
            return csr_tensor(rows, rows.values, self.columns)
        padding = int(is_bare)
        # metrics take whole numbers [N, L] as multi-hot
        if rows.matrix.shape[1] + padding == self.columns:
            padding += 1
        ids = torch.from_numpy(rows.matrix)
        if padding:
            ids = torch.nn.functional.pad(ids, (0, padding), value=-1)
        return ids


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset(Files):
    """Predictions and targets in batches; can be iterated any number of times.

    Every value of a batch has been checked, so that metrics can skip their checks
    (``validate_args=False``). One exception: in a target of one label per row, a number
    below -1 is valid only if it is the metrics' ``ignore_index``, and only the metrics
    check this.

    Attributes:
        preds: The file of predictions.
        target: The file of targets.
        ignored: The filter: pairs of row and label that do not count.
        duplicates: ``"first"`` if a row may hold a label twice: predictions then keep
            its places, as in :func:`tailmetrics.rank`, and targets the first gain.
    """

    preds: Source
    target: Source
    ignored: Filter | None = None
    duplicates: Literal["error", "first"] = "error"

    @property
    def tokens(self) -> int:
        """Number of rows per sequence: T for predictions (B, T, L), otherwise 1."""
        return math.prod(self.preds.sequences[1:])

    def __iter__(self) -> Iterator[Batch]:
        repeats = self.duplicates == "first"
        # metrics check negative numbers, because they know their ignore_index
        lowest = -LARGEST if self.target.one_label else 0
        targets = self._targets(lowest)
        all_preds = self._checked(
            self.preds, RowRules("preds", self.columns, may_repeat=repeats)
        )
        for (preds, first), (target, _) in zip(all_preds, targets, strict=True):
            if self.ignored is not None:
                preds = self.ignored.apply(preds, first, -np.inf)
                target = self.ignored.apply(target, first, 0)
            scored = preds_tensors(preds, None if repeats else self.columns)
            targets_of_rows = self._target_tensor(
                self.target, target, self.ignored is not None
            )
            yield Batch(
                scored, targets_of_rows, torch.arange(first, first + len(preds))
            )

    def filtered(self) -> tuple[int, int, int]:
        """Return counts of relevant labels, of those filtered out, and of emptied rows.

        The counts are over the rows of this rank.

        A row left empty had relevant labels, all of them filtered out. This reads the
        targets once more.
        """
        assert self.ignored is not None
        counts = np.zeros(3, np.int64)
        for target, first in self._targets(-LARGEST):
            # counted first: the filter changes dense rows in place
            before = _relevant(target)
            after = _relevant(self.ignored.apply(target, first, 0))
            counts += (
                before.sum(),
                (before - after).sum(),
                ((before > 0) & (after == 0)).sum(),
            )
        relevant, removed, bare = counts.tolist()
        return relevant, removed, bare

    def _targets(self, lowest: int) -> Iterator[tuple[Rows, int]]:
        """Yield the targets of each batch with the number of the first row.

        If labels may repeat, the first entry of each label stays.
        """
        repeats = self.duplicates == "first"
        rules = RowRules("target", self.columns, repeats, lowest)
        for target, first in self._checked(self.target, rules):
            if repeats and isinstance(target, Ragged):
                target = first_of_each(target)
            yield target, first


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class TargetDataset(Files):
    """Targets in batches; can be iterated any number of times.

    A row may hold a label more than once, as training data do; a batch with such a row
    and gains comes as label ids.

    Attributes:
        target: The file of targets.
        min_gain: The lowest gain that counts as relevant; None for every gain above 0.
        one_label: Whether, in a target of one label per row, any negative number means
            "no label", such as an ``ignore_index``; otherwise only -1 does.
    """

    target: Source
    min_gain: float | None = None
    one_label: bool = False

    def __iter__(self) -> Iterator[TargetBatch]:
        lowest = 0
        if self.target.one_label:
            lowest = -LARGEST if self.one_label else -1
        rules = RowRules("target", self.columns, may_repeat=True, lowest=lowest)
        for target, first in self._checked(self.target, rules):
            if self.min_gain is not None:
                target = drop_low_gains(target, self.min_gain)
            if (
                isinstance(target, Ragged)
                and target.values is not None
                and _repeating_row(target) is not None
            ):
                # CSR holds a label once
                target = replace(target.select(target.values > 0), values=None)
            yield TargetBatch(
                self._target_tensor(self.target, target),
                torch.arange(first, first + len(target)),
            )


# -- tensors ---------------------------------------------------------------------------


def preds_tensors(rows: Rows, num_labels: int | None) -> Tensor | tuple[Tensor, Tensor]:
    """Return predictions as tensors.

    The result is dense scores [N, L], ranked ids [N, K], a pair (scores, ids) of
    candidates, or CSR [N, L].
    """
    if not isinstance(rows, Ragged):
        return _tensor(rows)
    if rows.values is None:
        return torch.from_numpy(rows.matrix)
    scores = rows.values
    if scores.dtype.kind != "f":
        scores = scores.astype(np.float64)
    if num_labels is not None and rows.is_uneven:
        return csr_tensor(rows, scores, num_labels)
    return _tensor(
        rows.padded(scores, -np.inf, rows.matrix.shape[1])
    ), torch.from_numpy(rows.matrix)


def csr_tensor(rows: Ragged, values: Array, num_labels: int) -> Tensor:
    """Return rows with these values as a sparse CSR tensor [N, L]."""
    offsets = _tensor(rows.offsets.astype(np.int64, copy=False))
    ids = _tensor(rows.ids.astype(np.int64, copy=False))
    return csr_of(offsets, ids, _tensor(values), (len(rows), num_labels))


def _tensor(array: Array) -> Tensor:
    """Return an array as a tensor that owns its memory.

    The memory of Arrow or of a file must not be changed.
    """
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.int64)
    return torch.from_numpy(np.require(array, requirements=["C", "W", "O"]))


# -- shorter rows ----------------------------------------------------------------------


def drop_low_gains(rows: Rows, minimum: float) -> Rows:
    """Return targets without the gains below ``minimum``, if they have gains."""
    if isinstance(rows, Ragged):
        if rows.values is None:
            return rows
        return rows.select(rows.values >= minimum)
    if rows.dtype.kind == "b":
        return rows
    return np.where(rows >= minimum, rows, rows.dtype.type(0))


def first_of_each(rows: Ragged) -> Ragged:
    """Return rows without the later entries of each label and their gains."""
    return rows.select(~stands_before(rows.row_numbers, rows.ids) | (rows.ids < 0))


def _relevant(rows: Rows) -> Ints:
    """Return the number of relevant labels of each row, shape (n,)."""
    if not isinstance(rows, Ragged):
        return np.asarray(np.count_nonzero(rows, axis=1))
    is_relevant = rows.ids >= 0
    if rows.values is not None:
        is_relevant &= rows.values > 0
    return rows.select(is_relevant).lengths


# -- checks ----------------------------------------------------------------------------


RANGE_HINT = (
    "label ids run from 0 to the number of labels less one: check --num-labels and "
    "how the ids were numbered."
)
NEGATIVE_HINTS = {
    "preds": (
        "label ids start at 0: leave padding out; --string-ids true makes it a label "
        "like any other."
    ),
    "target": (
        "label ids start at 0: leave padding out; a row without a label has an empty "
        "list; an array holds -1."
    ),
}
REPEAT_HINTS = {
    "preds": (
        "duplicates='first' leaves the later one in its place as a miss; to drop it "
        "would move up what follows."
    ),
    "target": (
        "a label is relevant to a row or not: duplicates='first' counts it once. Where "
        "each is a case of its own, such as a visit of a user, drop none: make each a "
        "row, by a column 'query' that numbers the lines."
    ),
}
BINARY_HINT = (
    "whole numbers are label ids here; if 0 and 1 are a multi-hot matrix, save it "
    "as bool."
)
WIDTH_HINT = (
    "whole numbers as many as there are labels are multi-hot; label ids need one more "
    "column of -1."
)
VALUE_HINTS = {
    "preds": "write -inf for what was not retrieved, or leave it out.",
    "target": (
        f"gains are 0 or from {1 / LARGEST_GAIN:g} to {LARGEST_GAIN:g}: write 0 for "
        "what is not relevant. Scores belong to the predictions."
    ),
}


def check_rows(rows: Rows, source: Source, first: int, rules: RowRules) -> None:
    """Raise unless ids are in range and distinct, scores not NaN, and gains in range.

    Ids must be distinct within their row.

    Args:
        rows: Rows as read.
        source: The file, for the message.
        first: Row number of the first row in the file.
        rules: What the rows may hold.

    Raises:
        DataFileError: Naming the row and the wrong value.
    """
    if not isinstance(rows, Ragged):
        wrong = _wrong_value(rows, rules.role)
    else:
        wrong = _wrong_id(rows.ids, rules)
        if wrong is None and rows.values is not None:
            wrong = _wrong_value(rows.values, rules.role)
        if wrong is None and (rules.role == "target" or not rules.may_repeat):
            _check_repeats(rows, source, first, rules)
    if wrong is not None:
        entry, problem, hint = wrong
        if isinstance(rows, Ragged):
            row = row_of(entry, rows.offsets)
        else:
            row = entry // rows.shape[1]
        raise source.error(first + row, problem, hint)


def _check_repeats(rows: Ragged, source: Source, first: int, rules: RowRules) -> None:
    """Raise if a row holds a label twice.

    Repeated labels pass if the rules allow them and the numbers cannot be a matrix.
    """
    row = _repeating_row(rows)
    if row is None:
        return
    ordered = np.sort(rows[row : row + 1].ids)
    label = source.describe_label(int(ordered[:-1][ordered[1:] == ordered[:-1]][0]))
    # names have quotes
    is_binary = rows.values is None and label in ("0", "1") and int(rows.ids.max()) <= 1
    if (
        not rules.may_repeat
        or (rules.role == "target" and is_binary)
        or source.is_ambiguous(rules.num_labels)
    ):
        hint = REPEAT_HINTS[rules.role]
        if is_binary:
            hint = BINARY_HINT
        elif source.reading.query and source.reading.unread:
            hint = _longer_key(source.reading)
        raise source.error(first + row, f"holds the label {label} twice", hint)


def _longer_key(reading: TableReading) -> str:
    """Return the hint that a column which is not read may be part of the query."""
    name = reading.unread[0]
    hint = (
        f"if {name!r} tells its lines apart, --columns.query {reading.key},{name} "
        "makes it a part of the query where "
    )
    return (
        f"{hint}both files have it; else, as of seeds and folds, give a file for each "
        "of its values."
    )


def _wrong_id(ids: Ints, rules: RowRules) -> tuple[int, str, str] | None:
    """Return the place of an id out of range, the problem and a hint, or None."""
    if not ids.size:
        return None
    low, high, num_labels = int(ids.min()), int(ids.max()), rules.num_labels
    if low < rules.lowest:
        wrong, beyond, hint = low, "", NEGATIVE_HINTS[rules.role]
    elif high > LARGEST:
        wrong, beyond, hint = high, "", f"label ids are at most {LARGEST}."
    elif num_labels is not None and high >= num_labels:
        wrong, beyond, hint = high, f", but there are {num_labels} labels", RANGE_HINT
    else:
        return None
    return int((ids == wrong).argmax()), f"holds the label id {wrong}{beyond}", hint


def _wrong_value(values: Array, role: Kind) -> tuple[int, str, str] | None:
    """Return the place of a wrong score or gain, the problem and a hint, or None.

    For scores a look at the minimum is enough: it is NaN if any score is NaN.
    """
    if not values.size or values.dtype.kind in "bu":
        return None
    if role == "preds":
        if not np.isnan(values.min()):
            return None
        wrong = np.isnan(values)
    else:
        tiny = (
            values.dtype.kind == "f"
            and ((values > 0) & (values < 1 / LARGEST_GAIN)).any()
        )
        if values.min() >= 0 and float(values.max()) <= LARGEST_GAIN and not tiny:
            return None
        real = values.astype(np.float64)
        wrong = (real != 0) & ~((real >= 1 / LARGEST_GAIN) & (real <= LARGEST_GAIN))
    at = int(wrong.argmax())
    hint = WIDTH_HINT if values.dtype.kind == "i" else VALUE_HINTS[role]
    name = "score" if role == "preds" else "gain"
    return at, f"holds the {name} {values.flat[at]}", hint


def _repeating_row(rows: Ragged) -> int | None:
    """Return the number of a row that holds a label twice; None without one.

    Rows of very different lengths are halved first, which limits padding.
    """
    if rows.width < 2:
        return None
    middle = len(rows) // 2
    if middle and rows.is_uneven:
        row = _repeating_row(rows[:middle])
        if row is not None:
            return row
        row = _repeating_row(rows[middle:])
        return None if row is None else middle + row
    return (
        kernels_for(torch.device("cpu"))
        .check_lists(torch.from_numpy(rows.matrix))
        .repeat_row
    )
