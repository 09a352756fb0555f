"""One pass over the rows of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from tailmetrics.cli.inputs import Files, Share
from tailmetrics.cli.messages import CommandError, describe
from tailmetrics.cli.options import DataOptions
from tailmetrics.cli.progress import progress
from tailmetrics.cli.row_groups import RowGroups, read_row_groups
from tailmetrics.cli.training import largest_min_gain
from tailmetrics.evaluation import Evaluation
from tailmetrics.io import DataFileError, Dataset
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._batch import Batch

CPU = torch.device("cpu")
Write: TypeAlias = Callable[[Tensor, Ranking], None]
"""Function that is called with the row numbers and the ranking of each batch."""


def accumulate(
    evaluation: Evaluation,
    dataset: Dataset,
    groups: RowGroups | None,
    options: DataOptions,
    device: torch.device = CPU,
    write: Write | None = None,
) -> None:
    """Evaluate the rows in batches.

    Args:
        evaluation: The evaluation to which the rows are added.
        dataset: The rows.
        groups: The groups of the rows; None without groups.
        options: The options of the files.
        device: The device on which metrics are computed.
        write: Called with the row numbers and the ranking of each batch.

    Raises:
        CommandError: If a metric refuses a batch, or if ``--probabilities`` does not
            fit the predictions or a metric.
    """
    if options.probabilities:
        _check_probabilities(evaluation, dataset)
    if groups is not None:
        groups = groups.numbered_as(evaluation.row_groups)
    path = dataset.preds.path
    with progress(f"evaluating {path.name}", dataset.stop - dataset.start) as advance:
        for batch in dataset:
            try:
                _check_gains(batch.target, dataset, evaluation)
                ranking = _add(evaluation, batch, dataset, groups, options, device)
                if write is not None:
                    write(batch.rows, ranking)
            except DataFileError:
                raise
            except ValueError as error:
                raise _with_rows(error, batch, dataset) from error
            advance(int(batch.rows[-1]) + 1 - dataset.start)


def accumulate_share(
    evaluation: Evaluation, share: Share, *, preds: str, files: Files
) -> None:
    """Evaluate one share of the rows.

    As in one process, only the first batch of all rows is checked for mistakes.
    """
    dataset = files.open_run(preds, share)
    if dataset.start > 0:
        evaluation.collection.skip_checks_of_first_batch()
    accumulate(evaluation, dataset, read_row_groups(files, dataset), files.options)


def _add(
    evaluation: Evaluation,
    batch: Any,
    dataset: Dataset,
    groups: RowGroups | None,
    options: DataOptions,
    device: torch.device,
) -> Ranking:
    """Add a batch to an evaluation, and return its ranking."""
    target = batch.target.to(device)
    # -1 is no label: such rows are left out, too
    if options.ignore_index is not None and target.ndim == 1:
        target = target.where(target != -1, options.ignore_index)

    row_groups = None
    if groups is not None:
        row_groups = groups.numbers[batch.rows].to(device)

    preds = _on_device(batch.preds, device)
    if options.probabilities:
        preds = _logarithm(preds)

    return evaluation.add(
        Batch(
            preds,
            target,
            row_groups=row_groups,
            tokens=dataset.tokens,
            has_names=dataset.label_names is not None,
        )
    )


def _on_device(preds: Any, device: torch.device) -> Any:
    """Return predictions on a device: a tensor, or the scores and ids of candidates."""
    if isinstance(preds, tuple):
        return tuple(part.to(device) for part in preds)
    return preds.to(device)


def _with_rows(error: ValueError, batch: Any, dataset: Dataset) -> CommandError:
    """Return the error of a batch with its rows and its files."""
    problem, hint = describe(error)
    rows = f"rows {int(batch.rows[0])} to {int(batch.rows[-1])}"
    return CommandError(
        f"{problem} ({rows} of {dataset.preds.path} and {dataset.target.path})", hint
    )


def _check_probabilities(evaluation: Evaluation, dataset: Dataset) -> None:
    """Raise if predictions are not dense scores, or if a metric has a threshold."""
    if not dataset.preds.dense:
        raise CommandError(
            "--probabilities needs dense scores [N, L]",
            "leave it out: lists are in order already.",
        )
    if any(metric.reading.required_depth.decisions for metric in evaluation.members):
        raise CommandError(
            "--probabilities takes logarithms, and thresholds are for scores",
            "leave one of them out.",
        )


def _check_gains(target: Tensor, dataset: Dataset, evaluation: Evaluation) -> None:
    """Raise if a metric has ``min_gain`` above 1, but targets have no gains.

    No label would then be relevant.
    """
    min_gain = largest_min_gain(evaluation.members)
    if min_gain <= 1:
        return
    is_matrix = target.layout == torch.sparse_csr or target.shape[-1] == dataset.columns
    has_gains = target.dtype != torch.bool and (target.is_floating_point() or is_matrix)
    if not has_gains:
        problem = f"holds no gains, so that none reaches min_gain={min_gain:g}"
        hint = "leave min_gain out: without gains every label listed is relevant."
        raise DataFileError(dataset.target.path, problem, hint=hint)


def _logarithm(probabilities: Tensor) -> Tensor:
    """Return the logarithms in double precision.

    In double precision, different probabilities keep different logarithms.

    Raises:
        ValueError: If a probability lies outside [0, 1].
    """
    # 16-bit numbers are rounded
    outside = probabilities[(probabilities < 0) | (probabilities > 1 + 2**-10)]
    if len(outside):
        raise ValueError(
            f"preds holds {float(outside[0]):.4g}, but probabilities lie between 0 and "
            "1; leave --probabilities out where scores are logits."
        )
    return probabilities.to(torch.float64).log()
