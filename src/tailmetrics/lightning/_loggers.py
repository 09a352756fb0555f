"""Figures and tables into the loggers that take them: TensorBoard, Weights & Biases, MLflow, or alike."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tailmetrics.report import Report
from tailmetrics.report.figures import head_to_tail_figure
from tailmetrics.report.markdown import markdown
from tailmetrics.report.tables import tables


def show_in_loggers(loggers: list[Any], report: Report, name: str, step: int) -> None:
    """Hand a report to every logger that takes figures and text; call it on the first process.

    Loggers are told apart by what they can do, so that none has to be installed. One that takes neither, such as a
    ``CSVLogger``, is passed over.

    Args:
        loggers: Those of the trainer.
        report: What they are to show.
        name: Under which they show it.
        step: Of the training.
    """
    for logger in loggers:
        experiment = getattr(logger, "experiment", None)
        if hasattr(logger, "log_image") and hasattr(logger, "log_table"):
            _wandb(logger, report, name, step)
        elif hasattr(experiment, "add_figure") and hasattr(experiment, "add_text"):
            _tensorboard(experiment, report, name, step)
        elif hasattr(experiment, "log_figure") and hasattr(experiment, "log_text") and hasattr(logger, "run_id"):
            _mlflow(logger, experiment, report, name, step)


def _tensorboard(writer: Any, report: Report, name: str, step: int) -> None:
    writer.add_text(name, markdown(report), step)
    if report.by_bucket:
        writer.add_figure(name, head_to_tail_figure(report), step)


def _wandb(logger: Any, report: Report, name: str, step: int) -> None:
    overall = [[key, _cell(value)] for key, value in report.overall.items()]
    if overall:
        logger.log_table(f"{name}/overall", columns=["metric", "value"], data=overall, step=step)
    if report.by_bucket:
        columns = ["bucket", "labels", "positives", *report.by_bucket]
        logger.log_table(f"{name}/by_bucket", columns=columns, data=list(_bucket_rows(report)), step=step)
        logger.log_image(f"{name}/figure", [head_to_tail_figure(report)], step=step)
    for number, table in enumerate(tables(report)):
        if table.name not in ("overall", "buckets"):
            logger.log_table(f"{name}/{table.name}_{number}", columns=table.header, data=table.lines, step=step)


def _bucket_rows(report: Report) -> Iterator[list[Any]]:
    """Yield the values over all labels, then those of each bucket."""
    whole = [report.value_over_all(metric) for metric in report.by_bucket]
    counts = (sum(row.labels for row in report.buckets), sum(row.positives for row in report.buckets))
    yield ["all", *counts, *(None if value is None else _cell(value) for value in whole)]
    for row in report.buckets:
        values = (_cell(of.get(row.name, math.nan)) for of in report.by_bucket.values())
        yield [row.name, row.labels, row.positives, *values]


def _mlflow(logger: Any, client: Any, report: Report, name: str, step: int) -> None:
    place = f"{name}/step_{step:08d}"
    client.log_text(logger.run_id, markdown(report), f"{place}.md")
    if report.labels is not None:
        client.log_text(logger.run_id, report.labels.csv(), f"{place}_labels.csv")
    if report.by_bucket:
        client.log_figure(logger.run_id, head_to_tail_figure(report), f"{place}.png")


def _cell(value: float) -> float | None:
    return None if math.isnan(value) else value
