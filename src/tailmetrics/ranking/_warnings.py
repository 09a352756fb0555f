"""Warnings that point at the caller's code.

They are about the speed of batches, and about probable mistakes in a first batch.

Each ``warning_of_`` function looks at values for one likely mistake, and returns the
sentence of a warning, or None. It reads a sample of the rows, and nothing where reading
would make a device wait.
"""

from __future__ import annotations

import sys
from functools import cache
from warnings import warn

import torch
from torch import Tensor

from tailmetrics._compiling import is_compiling
from tailmetrics.ranking import native
from tailmetrics.ranking._batch import Batch, Context
from tailmetrics.ranking._kernels import Targets
from tailmetrics.ranking._orders import repeats_previous
from tailmetrics.ranking._reading import Depth, Lists

INSIDE = ("tailmetrics.", "torch", "functools")
"""How the names of modules begin whose frames a warning passes over."""


class SpeedWarning(UserWarning):
    """Batches are read more slowly than they could be.

    The values are the same, so reports do not repeat this warning.
    """


def warn_outside(text: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points at the first caller outside of the library.

    Frames of torch and functools are passed over too.
    """
    frame, levels = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        INSIDE
    ):
        frame, levels = frame.f_back, levels + 1
    warn(text, category, stacklevel=levels)


def warn_of_batch(notes: list[str], text: str) -> None:
    """Issue a warning about a batch, and add it to the ``notes`` of the batch.

    A report shows the notes.
    """
    notes.append(text)
    warn_outside(text)


@cache
def warn_of_speed() -> None:
    """Warn once in a process if torch reads CPU batches, but nobody asked for it."""
    if native.is_missing():
        warn_outside(
            f"tailmetrics: batches on the CPU are read in {native.description()}. The "
            "C file of the library gives the same values up to 8 times as fast. "
            "Install a C compiler (on Windows: gcc of MinGW), then tailmetrics again: "
            "pip install --force-reinstall --no-deps --no-binary tailmetrics "
            "tailmetrics, or in a clone make native. To stay with torch, set "
            "TAILMETRICS_NATIVE=0 in the environment.",
            SpeedWarning,
        )


# likely mistakes

PADDED = "make the metrics with ignore_index={label}"
"""The remedy for target lists that seem to be padded by a label."""
PADDED_BY_NAME = "take the name of this label out of the lists"
"""The remedy where labels have names: a label is a place among the names."""

SAMPLED_CELLS = 2**16
"""At most this many cells are read, in whole rows, but at least one row.

This takes a tenth of a millisecond.
"""

FEWEST_ROWS, CANDIDATES = 20, range(20, 1002)
"""Sampled negatives are 19 to 1,000.

Of 20 shuffled rows of so many classes, hardly all have the same class.
"""

FEWEST_RISES = 16
"""So many rising steps of scores, and no falling one, mean ascending rows.

By chance this happens once in 65,536.
"""

FEWEST_QUERIES = 5
"""Of so many rows hardly all have the label of their own number first."""

SAME_PLACE = 0.8
"""The share of equal ids at the same place of preds and target if both are tokens."""

LEAST_ODDS = 1000
"""The least odds against chance at which equal ids at the same place are tokens.

In rankings of K places, n equal ids share all places in one of K ** n batches.
"""

FIRST_TRY = 4
"""A batch of so few rows is probably a first try.

Then more than half of the equal ids at the same place are enough.
"""

SWAPPED = (
    "if preds and target are swapped, pass the scores first: update(preds, target)"
)


def first_rows(context: Context, value: Tensor) -> Tensor | None:
    """Return the first rows that count, as a sample for checks of values.

    A vector is one row.

    The sample is None if no row counts, if the value is not dense, or if reading it
    would make a device wait.
    """
    if (
        value.ndim not in (1, 2)
        or value.layout != torch.strided
        or not context.kernels.can_read_values
    ):
        return None
    if value.ndim == 1:
        value = value[None]
    sample = value[: max(1, SAMPLED_CELLS // max(1, value.shape[1]))]
    row_mask = context.row_mask
    if row_mask is not None and len(row_mask) == len(value):
        sample = sample[row_mask[: len(sample)]]
    return sample if sample.numel() else None


def warn_of_first_batch(
    context: Context, batch: Batch, lists: Lists, targets: Targets, depth: Depth
) -> None:
    """Warn of probable mistakes in a first batch, and of slow steps.

    Args:
        context: The settings of the batch.
        batch: The tensors of the batch.
        lists: The ranked lists.
        targets: The relevant labels.
        depth: The depth to which the batch was ranked.
    """
    if context.kernels.can_read_values:
        warn_of_speed()
    texts: list[str | None] = []
    if context.validate or context.is_offline:
        texts.append(warning_of_padding(batch.target, batch.tokens, batch.row_mask))
    if context.validate:
        texts += _warnings_of_values(context, batch, lists, targets, depth)
    for text in texts:
        if text is not None:
            warn_of_batch(context.notes, text)


def _warnings_of_values(
    context: Context, batch: Batch, lists: Lists, targets: Targets, depth: Depth
) -> list[str | None]:
    """Return warnings of values that are probably read in the wrong form.

    For the arguments see :func:`warn_of_first_batch`.
    """
    if batch.documents is not None:
        return [warning_of_scores(context, *batch.documents)]

    texts = []
    if targets.padded is not None:
        remedy = PADDED_BY_NAME if batch.has_names else PADDED
        texts.append(warning_of_padded_lists(context.caller, targets.padded, remedy))
    if not depth.decisions:  # decisions hold only 0 and 1
        texts += _warnings_of_preds(context, batch, are_ids=lists.scores is None)
    texts.append(warning_of_self_retrieval(context, lists.ids, targets))
    return texts


def _warnings_of_preds(
    context: Context, batch: Batch, are_ids: bool
) -> list[str | None]:
    """Return warnings of ``preds`` that probably hold something else."""
    preds, target = batch.preds, batch.target
    if isinstance(preds, tuple):
        return [warning_of_distances(context, *preds)]
    if preds.is_sparse_csr:
        return [warning_of_distances(context, preds, None)]

    if are_ids and batch.has_names:  # names are neither scores nor ranks
        return []
    if are_ids:
        texts = [warning_of_ids(context, preds)]
        if batch.form == "target":
            texts.append(warning_of_ids_on_both_sides(context, preds, target))
        return texts
    texts = [warning_of_scores(context, preds, target)]
    if batch.form == "target":
        texts.append(warning_of_sampled_negatives(context, preds, target))
        texts.append(warning_of_gains(context, preds, target))
    return texts


def _layout(values: Tensor) -> str:
    """Return the type and the width of a batch.

    The number of rows is left out, because it would give each batch another text.
    """
    axes = ", ".join(["N", *map(str, values.shape[1:])])
    return f"{str(values.dtype).removeprefix('torch.')} [{axes}]"


# looks at dense scores


def warning_of_scores(context: Context, scores: Tensor, target: Tensor) -> str | None:
    """Say that dense scores look like decisions, a target, or ranks.

    Decisions and targets hold only 0 and 1; ranks go from 0 to L - 1 or from 1 to L.

    Args:
        context: The settings of the batch.
        scores: Shape (N, L), or (n,) of flat queries.
        target: The target of the batch.
    """
    sample = first_rows(context, scores)
    if sample is None or not bool((sample == sample.round()).all()):
        return None

    are_decisions = torch.unique(sample[sample > -torch.inf]).tolist() == [0, 1]
    if are_decisions:
        target_sample = first_rows(context, target)
        # a perfect prediction
        if target_sample is not None and torch.equal(
            sample, target_sample.to(sample.dtype)
        ):
            return None
        return (
            f"{context.caller}: preds, {_layout(scores)}, hold only 0 and 1, so that "
            "the labels of a row are tied and the lower id is ranked first. If these "
            "are decisions, pass the scores behind them, or preds.bool() to a metric "
            f"with a threshold, such as F1AtThreshold; {SWAPPED}."
        )

    if scores.ndim == 2 and _is_permutation(sample):
        return (
            f"{context.caller}: preds, {_layout(scores)}, hold each number from "
            f"{int(sample.min())} to {int(sample.max())} once in a row, as ranks do, "
            "and are read as scores: the largest is best. If these are ranks of the "
            "labels, pass -preds; if they are label ids, best first, pass "
            "preds.long(); if they are scores, Ranking.from_scores(preds, ...) takes "
            "them as such."
        )
    return None


def warning_of_sampled_negatives(
    context: Context, scores: Tensor, target: Tensor
) -> str | None:
    """Say that the relevant label of every row is the first or the last column.

    This is so beside sampled negatives, in batches of few columns.

    Args:
        context: The settings of the batch.
        scores: Shape (N, L).
        target: Shape (N,) or (N, 1), label ids; or (N, L), a matrix.
    """
    sample = first_rows(context, target)
    if (
        scores.ndim != 2
        or scores.shape[1] not in CANDIDATES
        or sample is None
        or target.shape[:1] != scores.shape[:1]
    ):
        return None
    if target.ndim == 1 or target.shape[1] == 1:
        labels = sample.reshape(-1)
    elif target.shape == scores.shape:
        relevant = sample > 0
        labels = (
            relevant.to(torch.uint8).argmax(dim=1).where(relevant.sum(dim=1) == 1, -1)
        )
    else:
        return None

    label, last = int(labels[0]), scores.shape[1] - 1
    if (
        len(labels) < FEWEST_ROWS
        or label not in (0, last)
        or bool((labels != label).any())
    ):
        return None
    place = "0" if label == 0 else f"the last, {last}"
    return (
        f"{context.caller}: the relevant label of each row is {place}, as where it "
        f"stands beside {last} sampled negatives. Such values are higher than among "
        "all labels, and may turn the order of two models around: pass the scores of "
        "all labels. If rows are sorted by class, nothing is wrong."
    )


# looks at lists of ids, and at candidates


def warning_of_ids(context: Context, ids: Tensor) -> str | None:
    """Say that each row of ids holds the numbers 0 to K - 1 or 1 to K.

    The ranks of all labels would look like this.
    """
    if ids.shape[1] < 2 or context.num_labels not in (None, ids.shape[1]):
        return None
    sample = first_rows(context, ids)
    if sample is None or not _is_permutation(sample):
        return None
    if context.num_labels is None and not bool((sample != sample[0]).any()):
        return None
    return (
        f"{context.caller}: preds, {_layout(ids)}, hold each number from "
        f"{int(sample.min())} to {int(sample.max())} once in a row and are read as "
        "label ids, best first. If these are ranks of the labels, pass "
        "-preds.float(); if they are scores, pass preds.float(); if they are ids, "
        "Ranking.from_ids(preds, ...) takes them as such."
    )


def warning_of_ids_on_both_sides(
    context: Context, ids: Tensor, target: Tensor
) -> str | None:
    """Say that ids of one shape (N, K) look like labels of tokens, or like grades.

    Grades are the whole numbers of a target beside whole scores of all labels.

    Of labels of tokens nearly all ids that a row of both sides has in common stand at
    the same place. In ranked lists beside sets of K labels, one in K does. Where all
    ids agree, both readings give the same value. Scores and grades of all labels have
    no id in common in any row. Where the number of labels is known and is not K, they
    cannot be.
    """
    if ids.shape != target.shape or ids.shape[1] < 2 or target.is_floating_point():
        return None
    sample, target_sample = first_rows(context, ids), first_rows(context, target)
    if sample is None or target_sample is None:
        return None
    sample, target_sample = sample.to(torch.int64), target_sample.to(torch.int64)
    num_common = _ids_in_common(sample, target_sample)
    if num_common:
        if not _are_tokens(sample, target_sample, num_common):
            return None
        return (
            f"{context.caller}: preds and target, {_layout(ids)}, are read as a ranked "
            "list and a set of relevant labels in each row, but equal ids stand at "
            "the same place of both, as labels of tokens do. If they are one "
            "predicted and one true label of each token, pass preds[..., None]: then "
            "each token is a row. If they are lists and sets, ignore this warning."
        )

    # padded lists are ids
    is_padded = bool((sample < 0).any()) or bool((target_sample < 0).any())
    if is_padded or context.num_labels not in (None, ids.shape[1]):
        return None
    return (
        f"{context.caller}: preds and target, {_layout(ids)}, are both read as label "
        "ids, and no row has an id in common. If these are scores and grades of all "
        "labels, pass preds.float() and target.float(); if they are ids, look whether "
        "both number the same labels."
    )


def _are_tokens(ids: Tensor, other_ids: Tensor, num_common: int) -> bool:
    """Return whether common ids of two tables (N, K) share places beyond chance."""
    num_rows, width = ids.shape
    same_place = int(((ids == other_ids) & (ids >= 0)).sum())
    if width < 3 or same_place < 3 or torch.equal(ids, other_ids):
        return False
    if num_rows <= FIRST_TRY:
        return same_place > num_common / 2
    return width**same_place >= LEAST_ODDS and same_place > SAME_PLACE * num_common


def _ids_in_common(ids: Tensor, other_ids: Tensor) -> int:
    """Return how many ids the same rows of two tables (N, K) have in common.

    Each table holds an id once in a row.
    """
    ordered = torch.cat([ids, other_ids], dim=1).sort(dim=1).values
    return int(repeats_previous(ordered).sum())


def warning_of_distances(
    context: Context, scores: Tensor, ids: Tensor | None
) -> str | None:
    """Say that the scores of each row ascend but its ids do not, as in a search.

    Args:
        context: The settings of the batch.
        scores: Shape (N, C), the scores of candidates; CSR without ``ids``.
        ids: Shape (N, C), -1 for none.
    """
    if ids is None:
        if not context.kernels.can_read_values:
            return None
        values, labels = (
            scores.values()[:SAMPLED_CELLS],
            scores.col_indices()[:SAMPLED_CELLS],
        )
        place = torch.arange(len(values), device=values.device)
        row = torch.searchsorted(scores.crow_indices()[1:], place, right=True)
        inside = row.diff() == 0
        steps, turns = values.diff()[inside], labels.diff()[inside]
    else:
        sample, listed = first_rows(context, scores), first_rows(context, ids)
        if sample is None or listed is None:
            return None
        inside = listed[:, 1:] >= 0
        steps, turns = sample.diff(dim=1)[inside], listed.diff(dim=1)[inside]

    rises = int((steps > 0).sum()) >= FEWEST_RISES and not bool((steps < 0).any())
    if not rises or not bool((turns < 0).any()):
        return None
    return (
        f"{context.caller}: the scores of preds, {_layout(scores)}, rise from the "
        "first place of each row to the last, as distances do, and are read as "
        "scores: the largest is best. If they are distances, pass their negative; "
        "columns=Columns(rank=NAME) reads those of a file."
    )


def warning_of_self_retrieval(
    context: Context, ids: Tensor, targets: Targets
) -> str | None:
    """Say that the best label of each row is the row itself.

    This is so if embeddings are searched in themselves.

    Rows whose only relevant label is their own number are pairs, such as images and
    their captions.

    Args:
        context: The settings of the batch.
        ids: Shape (N, K), ranked lists.
        targets: The relevant labels.
    """
    if not context.kernels.can_read_values or not ids.shape[1]:
        return None
    row = torch.arange(len(ids), device=ids.device)
    is_itself = ids[:, 0] == row
    counted = len(ids) if context.row_mask is None else int(context.row_mask.sum())
    if counted < FEWEST_QUERIES or int(is_itself.sum()) != counted:
        return None
    entries = targets.entries
    if bool((entries.ids == entries.rows).all()):
        return None
    return (
        f"{context.caller}: the first label of each row is the row itself, as where "
        "each query is searched in a collection that holds it. It counts as a miss, "
        "or, where it is relevant, as a hit of any model. Leave it out: set the score "
        "of each row for itself to -inf, in this batch with "
        "scores.fill_diagonal_(-torch.inf), or pass ids[:, 1:] for ids. If rows and "
        "labels are different things, ignore this warning."
    )


# looks at gains


def warning_of_gains(context: Context, scores: Tensor, target: Tensor) -> str | None:
    """Say that integer gains of all labels may be lists of ids.

    They look like ids if rows are padded by 0, or hold every label once.

    Args:
        context: The settings of the batch.
        scores: Shape (N, L).
        target: Integers of the same shape, which are read as gains.
    """
    is_integer = not target.is_floating_point() and target.dtype != torch.bool
    if target.shape != scores.shape or not is_integer or scores.shape[1] < 2:
        return None
    sample = first_rows(context, target)
    if sample is None or not bool((sample > 0).any()):
        return None
    text = (
        f"{context.caller}: target, {_layout(target)}, is read as a gain for each "
        "label, because it is as wide as the scores, but each row may also be a list "
        "of label ids, {looks}. If these are ids, pass Ranking.from_scores(preds, "
        "target_ids={ids}); if they are gains or a multi-hot, pass target.float() "
        "or target.bool()."
    )
    if sample.shape[1] > 2 and _is_permutation(sample) and int(sample.min()) == 0:
        return text.format(looks="with every label once", ids="target")

    is_id = sample > 0
    behind_padding = is_id[:, 1:] & ~is_id[:, :-1]
    ordered = sample.sort(dim=1).values
    repeats = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] > 0)
    if (
        bool(behind_padding.any())
        or bool(repeats.any())
        or int(sample.max()) >= sample.shape[1]
    ):
        return None
    return text.format(looks="padded by 0", ids="target.masked_fill(target == 0, -1)")


# looks at padding


def warning_of_padding(
    labels: Tensor, tokens: int, row_mask: Tensor | None
) -> str | None:
    """Say that a label looks like padding of sequences.

    Most sequences end in a run of the label, and it is rare elsewhere.

    Args:
        labels: Shape (B·T,), the label of each token. Other shapes, and labels on a
            GPU, are not checked.
        tokens: T.
        row_mask: Shape (B·T,), bool: the tokens that count; None for all.
    """
    on_cpu = labels.is_cpu and (row_mask is None or row_mask.is_cpu)
    if (
        labels.ndim != 1
        or labels.is_floating_point()
        or not on_cpu
        or is_compiling()
        or tokens < 2
    ):
        return None
    if row_mask is not None:
        labels = labels.where(row_mask, -1)
    label = _label_at_ends(
        labels[: len(labels) // tokens * tokens].reshape(-1, tokens), shortest=2
    )
    if label is None:
        return None
    return (
        f"target: most sequences end in a run of label {label}, which is hardly "
        "anywhere else, as padding is. It counts as a label that was to be predicted. "
        "If it is padding, write -100 there (padding_value=-100) and make the metrics "
        f"with ignore_index=-100; ignore_index={label} would leave out every row of "
        f"label {label}."
    )


def warning_of_padded_lists(caller: str, lists: Tensor, remedy: str) -> str | None:
    """Say that a label looks like padding of lists (N, M).

    Most lists end in the label, and it is rare elsewhere.

    Args:
        caller: The name that the warning begins with.
        lists: Label ids, -1 for none. Lists on a GPU are not checked.
        remedy: Says what to do if the label ``{label}`` is padding.
    """
    if (
        lists.ndim != 2
        or lists.shape[1] < 2
        or len(lists) < FEWEST_ROWS
        or not lists.is_cpu
        or is_compiling()
    ):
        return None
    if bool((lists < 0).any()):  # padded by -1
        return None
    # padding would stand twice in a row
    if lists.shape[1] > 2 and not bool((lists[:, -1] == lists[:, -2]).any()):
        return None
    label = _label_at_ends(lists, shortest=1)
    if label is None:
        return None
    return (
        f"{caller}: most rows of target end in label {label}, which is hardly anywhere "
        "else, as padding is. It counts as a label. If it is padding, "
        f"{remedy.format(label=label)}. If it is a label, nothing is wrong."
    )


def _label_at_ends(sequences: Tensor, shortest: int) -> int | None:
    """Return the label in which most sequences end if it is rare elsewhere, or None.

    Args:
        sequences: Shape (N, T), whole numbers.
        shortest: The least length of a run.
    """
    sequences = sequences[: max(1, SAMPLED_CELLS // sequences.shape[1])]
    if len(sequences) < 4:  # two or three may end alike by chance
        return None
    label = int(sequences[:, -1].mode().values)
    same = sequences == label
    # the length of the run at the end of each sequence
    run = same.flip(1).cumprod(1).sum(1)

    inside = int(same.sum() - run.sum())
    others = int(sequences.numel() - run.sum())
    # at most 1 % of all others: a frequent class, such as "no entity", is everywhere
    is_rare = 100 * inside <= others
    are_most = 2 * int((run >= shortest).sum()) > len(run)
    return label if label >= 0 and are_most and is_rare and others else None


# samples of values


def _is_permutation(sample: Tensor) -> bool:
    """Return whether all rows hold 0 to L - 1, or all rows 1 to L, with L >= 2."""
    if sample.shape[1] < 2:
        return False
    ordered = sample.sort(dim=1).values.to(torch.int64)
    numbers = torch.arange(sample.shape[1], device=sample.device)
    return bool((ordered - ordered[:1, :1] == numbers).all()) and int(
        ordered[0, 0]
    ) in (0, 1)
