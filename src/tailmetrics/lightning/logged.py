"""What the callback sends to Lightning's loggers: values by key, tables and figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import torch

from tailmetrics.report import Report
from tailmetrics.report.pictures import picture
from tailmetrics.report.text import markdown


def logged_values(report: Report) -> dict[str, float]:
    """Return the values of a report by key, without the NaN of buckets without labels.

    Such a bucket, for example ``unseen``, can have no other value.
    """
    empty_buckets = {bucket.name for bucket in report.buckets if not bucket.labels}
    values = {}
    for key, value in {**report.scalars, **report.summaries}.items():
        last_part = key.removesuffix(report.postfix).rpartition("/")[2]
        if math.isnan(value) and last_part in empty_buckets:
            continue
        values[key] = value
    return values


def log_values(
    pl_module: Any,
    values: Mapping[str, float],
    loggers: Sequence[Any],
    key_format: Callable[[str], str] | None = None,
) -> set[str]:
    """Log values that are equal in all processes, and return their keys.

    Logging needs no communication and does not wait for a device.

    Lightning gets tensors on the CPU, which it reads without waiting. ``sync_dist``
    with ``rank_zero_only`` makes Lightning reduce nothing and warn of nothing.
    ``reduce_fx="max"`` keeps a single value unchanged, while a mean would divide.
    """
    tensors = {}
    for key, value in _formatted(_apart(values, loggers), key_format).items():
        tensors[key] = torch.tensor(value, dtype=torch.float64)
    pl_module.log_dict(
        tensors,
        sync_dist=True,
        rank_zero_only=True,
        reduce_fx="max",
        add_dataloader_idx=False,
    )
    return set(tensors)


def _apart(values: Mapping[str, float], loggers: Sequence[Any]) -> Mapping[str, float]:
    """Return values under names that no other name uses as a folder, if files need it.

    A logger that stores a file for each name needs such names. In MLflow's file store,
    ``val/recall@10`` becomes ``val/recall@10/all`` beside ``val/recall@10/decile_1``.
    """
    if not any(
        hasattr(logger, "run_id") and getattr(logger, "save_dir", None) is not None
        for logger in loggers
    ):
        return values
    folders: set[str] = set()
    for name in values:
        folders.update(map(str, PurePosixPath(name).parents))

    values_apart = {}
    for name, value in values.items():
        if name in folders:
            name = f"{name}/all"
        values_apart[name] = value
    return values_apart


def _formatted(
    values: Mapping[str, float], key_format: Callable[[str], str] | None
) -> Mapping[str, float]:
    """Return values with the keys that ``key_format`` returns.

    Raise TypeError unless the keys are texts, and ValueError unless they are distinct.
    """
    if key_format is None:
        return values
    formatted: dict[str, float] = {}
    for key, value in values.items():
        name = key_format(key)
        if not isinstance(name, str):
            raise TypeError(
                f"HeadToTailReport: key_format returned {name!r} for {key!r}; "
                "return a text."
            )
        if name in formatted:
            raise ValueError(
                f"HeadToTailReport: key_format returned {name!r} for {key!r} and for a "
                "key before it; return a text of its own for each key."
            )
        formatted[name] = value
    return formatted


def show_in_loggers(
    loggers: Sequence[Any], report: Report, name: str, step: int
) -> None:
    """Send a report to every logger that takes figures and text.

    Call this function on the first process.

    Loggers are recognised by their methods, so that no logger has to be installed. A
    logger without methods for figures and text, such as ``CSVLogger``, is skipped.

    Args:
        loggers: The loggers of the trainer.
        report: The report to show.
        name: Name of the report in the loggers.
        step: The training step.
    """
    for logger in loggers:
        experiment: Any = getattr(logger, "experiment", None)
        if hasattr(logger, "log_image") and hasattr(logger, "log_table"):
            _show_in_wandb(logger, report, name, step)
        elif hasattr(experiment, "add_figure") and hasattr(experiment, "add_text"):
            _show_in_tensorboard(experiment, report, name, step)
        elif (
            hasattr(experiment, "log_figure")
            and hasattr(experiment, "log_text")
            and hasattr(logger, "run_id")
        ):
            _show_in_mlflow(
                experiment, logger.run_id, report, f"{name}/step_{step:08d}"
            )


def _show_in_wandb(logger: Any, report: Report, name: str, step: int) -> None:
    for number, table in enumerate(report.document().tables):
        logger.log_table(
            f"{name}/{number}_{table.name}",
            columns=table.header,
            data=table.lines,
            step=step,
        )
    if report.document().charts:
        logger.log_image(f"{name}/figure", [picture(report)], step=step)


def _show_in_tensorboard(experiment: Any, report: Report, name: str, step: int) -> None:
    experiment.add_text(name, markdown(report), step)
    if report.document().charts:
        experiment.add_figure(name, picture(report), step)


def _show_in_mlflow(experiment: Any, run_id: str, report: Report, path: str) -> None:
    experiment.log_text(run_id, markdown(report), f"{path}.md")
    if report.labels is not None:
        experiment.log_text(run_id, report.labels.csv(), f"{path}_labels.csv")
    if report.document().charts:
        experiment.log_figure(run_id, picture(report), f"{path}.png")
