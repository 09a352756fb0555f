"""The Lightning callback: the methods that a Trainer calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from warnings import warn

from torch import Tensor

from tailmetrics._arguments import check_flag, check_names
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.accumulating import check_update
from tailmetrics.evaluation.added_metrics import (
    with_label_values,
    with_values_over_all,
)
from tailmetrics.evaluation.evaluating import CONFIDENCE
from tailmetrics.evaluation.headline import headline_of
from tailmetrics.frequency import LabelFrequency
from tailmetrics.lightning.loader_evaluation import (
    LoaderEvaluation,
    StepKeys,
    find_unsplit_loaders,
)
from tailmetrics.lightning.logged import log_values, logged_values, show_in_loggers
from tailmetrics.lightning.split_rows import UNSPLIT
from tailmetrics.lightning.trainer import (
    best_checkpoint,
    callback_bases,
    evaluated_loaders,
    fit_values_into_pipe,
    has_only_empty_loaders,
    run_folder,
    runs_in_started_processes,
)
from tailmetrics.lightning.training_labels import TrainingLabels
from tailmetrics.metrics import TopKMetric
from tailmetrics.report import Report
from tailmetrics.report.terminal import print_report


class HeadToTailReport(*callback_bases()):  # type: ignore[misc]
    """Lightning callback that updates metrics, logs them each epoch, writes a report.

    ``validation_step`` and ``test_step`` return ``{"preds": …, "target": …}``, in any
    form that :func:`tailmetrics.rank` takes, or None for a batch that is not ranked. If
    metrics need training counts (``buckets="deciles"``), the callback counts the
    training labels once: before the first training step, or before a test without
    training. Rows that a distributed sampler repeats to fill its last round are left
    out, and so are the rows of Lightning's sanity check.

    Several callbacks in one Trainer need different names: ``name`` is part of their
    keys, files and checkpoint entries.

    Args:
        metrics: The metrics, as a list or a :class:`TopKCollection`.
        num_labels: L; None takes it from ``label_counts``, the metrics, or the
            attribute ``num_labels`` of the data module or model.
        label_counts: Training counts, shape (L,), as a tensor, a list or the path of a
            file that ``torch.save`` or ``numpy.save`` wrote; None counts the labels,
            which reads the training data once.
        num_train: Number of training rows behind ``label_counts``; only propensities
            and novelty need it.
        preds: Key of the predictions in the output of a step.
        target: Key of the target in the output of a step.
        row_mask: Key of the row mask in the output of a step; the mask is optional.
        train_target: Place of the target in a training batch: a key, an index, or a
            function of the batch that returns None for a batch without labels. Of
            several training loaders, each is read by itself: a batch is then that of
            one loader.
        files: Whether to write ``report_val.*``, ``report_test.*`` and
            ``report_best.*`` into the folder of the run.
        table: Whether to print a table after validation outside of fitting, after
            testing, and after fitting.
        figures: Whether to send the figure and tables to TensorBoard, Weights & Biases
            and MLflow loggers.
        name: Name of this callback in keys (``val/name/…``) and files
            (``report_name_val.*``).
        headline: The metric that the report is about, such as ``"recall@10"``; see
            :func:`tailmetrics.evaluate`.
        key_format: A function that changes each logged key, such as
            ``lambda key: key.replace("@", "_at_")`` for a logger that drops characters;
            None logs keys as they are.
        row_groups: Key of the group of each row, a name or number, in the output of a
            step; read only if metrics have row groups.
        group_names: Names of the row groups, for every metric that has no row groups of
            its own.
        labels: Whether the report names the worst labels and blind spots, and
            ``labels_val.csv`` holds the values of every label. They come from metrics
            that keep them (``average="none"``, ``"macro"``), or else are precision,
            recall and F1 at the k of the headline.
        label_names: The name of each label; None takes the attribute ``label_names`` of
            the data module or model.
        row_ids: Key of the number of each row (int64) in the output of a step;
            optional. The table of rows has it.
        row_names: The name of each row by its number; None takes the attribute
            ``row_names`` of the data module or model.
        intervals: Whether the report has 95 % confidence intervals. They assume
            independent rows, and cost time in every step.
        rows: Whether the folder also holds ``rows_val.parquet`` and
            ``rows_test.parquet``, the values of each row, so that
            ``tailmetrics compare`` takes the folders of two runs. A single process
            writes them, if pyarrow is installed.

    Attributes:
        report: The latest report on the first loader.
        reports: The latest report of each loader, by the index of the loader.
        best_report: The report, on the first loader, of the checkpoint that
            ``ModelCheckpoint(monitor=…)`` keeps as the best one; None without one.
        folder: The folder to which the first process wrote the report, or None.
        frequency: How often each label occurs in training; None until this is known.
    """

    def __init__(
        self,
        metrics: list[TopKMetric] | TopKCollection,
        num_labels: int | None = None,
        label_counts: Tensor | list[int] | str | None = None,
        num_train: int | None = None,
        preds: str = "preds",
        target: str = "target",
        row_mask: str = "row_mask",
        train_target: str | int | Callable[[Any], Any] = "target",
        files: bool = True,
        table: bool = True,
        figures: bool = True,
        name: str = "",
        headline: str | None = None,
        key_format: Callable[[str], str] | None = None,
        row_groups: str = "row_groups",
        group_names: Sequence[str] | None = None,
        labels: bool = False,
        label_names: Sequence[str] | None = None,
        row_ids: str = "row_ids",
        row_names: Sequence[str] | None = None,
        intervals: bool = False,
        rows: bool = True,
    ) -> None:
        super().__init__()
        if label_names is not None:
            check_names("HeadToTailReport", "label_names", label_names)
        if row_names is not None:
            check_names("HeadToTailReport", "row_names", row_names)
        if not isinstance(name, str) or not re.fullmatch(r"[\w.-]*", name):
            raise ValueError(
                f"HeadToTailReport: name={name!r} is no part of a file name; use "
                "letters, digits, '_', '-' and '.'."
            )
        flags = {
            "files": files,
            "table": table,
            "figures": figures,
            "labels": labels,
            "intervals": intervals,
            "rows": rows,
        }
        for argument, flag in flags.items():
            check_flag("HeadToTailReport", argument, flag)
        collection = _collection_of(metrics, group_names)
        if headline is not None:
            try:
                headline_of(collection, with_values_over_all(collection)[1], headline)
            except ValueError as error:
                raise ValueError(f"HeadToTailReport: {error}") from error
        if labels:
            collection = with_label_values(collection, headline=headline)

        self.collection = collection
        self.name = name
        self.files = files
        self.table = table
        self.figures = figures
        self.headline = headline
        self.key_format = key_format
        self.labels = labels
        self.label_names = label_names
        self.row_names = row_names
        self.intervals = intervals
        self.rows = files and rows and find_spec("pyarrow") is not None
        self.report: Report | None = None
        self.reports: dict[int, Report] = {}
        self.best_report: Report | None = None
        self.folder: Path | None = None
        self._step_keys = StepKeys(preds, target, row_mask, row_groups, row_ids)
        self._training_labels = TrainingLabels(
            collection, num_labels, label_counts, num_train, train_target
        )
        self._loader_evaluations: list[LoaderEvaluation] = []
        self._fit_reports: dict[int, Report] = {}
        """The reports of the last validation in a fit, by loader."""
        self._logged_keys: set[str] = set()
        """The keys of the values that Lightning has got."""
        self._last_best_checkpoint: tuple[str, float | None] | None = None
        """Path and score of the best checkpoint when the callback last looked."""

    @property
    def frequency(self) -> LabelFrequency | None:
        """How often each label occurs in training; None until this is known."""
        return self._training_labels.frequency

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Refuse a second callback of this name, and forget loaders of earlier runs."""
        names = [
            callback.name
            for callback in trainer.callbacks
            if isinstance(callback, HeadToTailReport)
        ]
        if names.count(self.name) > 1:
            raise ValueError(
                f"HeadToTailReport: {names.count(self.name)} callbacks of the Trainer "
                f"have name={self.name!r}, which is part of their keys and files; pass "
                "each another name=."
            )
        self._loader_evaluations = []
        self._fit_reports = {}

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Count the training labels if the metrics need counts."""
        self._ensure_counts(trainer, pl_module, starts_fit=True)
        # a resumed fit has the best one of an earlier run
        self._last_best_checkpoint = best_checkpoint(trainer)
        self._fit_reports = {}

    def _ensure_counts(
        self, trainer: Any, pl_module: Any, starts_fit: bool = False
    ) -> None:
        """Count the training labels if counts are missing or a new fit changes them."""
        has_new_counts = self._training_labels.ensure(trainer, pl_module, starts_fit)
        if has_new_counts:
            self._loader_evaluations = []  # their metrics have the old counts

    # -- validation and test -----------------------------------------------------------

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Start an empty evaluation for each loader."""
        if trainer.sanity_checking:
            return
        # ModelCheckpoint may have saved after on_train_epoch_end
        self._update_best_reports(trainer)
        self._ensure_counts(trainer, pl_module)
        label_names = self._names("label_names", trainer, pl_module)
        row_names = self._names("row_names", trainer, pl_module)
        loaders = evaluated_loaders(trainer)
        if len(self._loader_evaluations) != len(loaders):
            self._loader_evaluations = [
                self._loader_evaluation(loader, trainer) for loader in loaders
            ]

        writes_rows = self.rows and trainer.world_size == 1 and not trainer.fast_dev_run
        for evaluation, loader in zip(self._loader_evaluations, loaders, strict=True):
            evaluation.start(
                loader,
                pl_module.device,
                writes_rows=writes_rows,
                label_names=label_names,
                row_names=row_names,
            )

    def _loader_evaluation(self, loader: Any, trainer: Any) -> LoaderEvaluation:
        """Return an evaluation of a loader, with a copy of the metrics."""
        evaluation = Evaluation(
            _copy_of(self.collection),
            labels=self.labels,
            confidence=CONFIDENCE if self.intervals else None,
            headline=self.headline,
        )
        return LoaderEvaluation(evaluation, self._step_keys, loader, trainer.world_size)

    def _names(self, kind: str, trainer: Any, pl_module: Any) -> Sequence[str] | None:
        """Return the attribute ``kind`` of the callback, the data module or the model.

        The kind is ``label_names`` or ``row_names``; None if no owner has such names.
        """
        owners = {
            "": self,
            " of the data module": getattr(trainer, "datamodule", None),
            " of the model": pl_module,
        }
        for suffix, owner in owners.items():
            names: Sequence[str] | None = getattr(owner, kind, None)
            if names is not None:
                return check_names("HeadToTailReport", f"{kind}{suffix}", names)
        return None

    def on_validation_batch_end(
        self,
        trainer: Any,
        pl_module: Any,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Add the output of ``validation_step``, or of ``test_step`` while testing."""
        if not trainer.sanity_checking:
            self._loader_evaluations[dataloader_idx].add(outputs, _step_name(trainer))

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Log every value, write the report, and print it outside of fitting."""
        if trainer.sanity_checking:
            return
        reports: dict[int, Report] = {}
        values: dict[str, float] = {}
        for index, report in enumerate(self._reports(trainer, pl_module)):
            evaluation = self._loader_evaluations[index]
            was_left_out = evaluation.was_left_out and not report.rows
            # metrics may synchronise over some processes only, but all processes log
            # the same values
            loader_values = trainer.strategy.broadcast(
                None if was_left_out else logged_values(report)
            )
            if loader_values is None:
                continue
            reports[index] = report
            for key, value in loader_values.items():
                values[self._logged_key(trainer, key, index)] = value
        if not reports:
            warn(
                f"HeadToTailReport: {_step_name(trainer)} returned None for every "
                "batch, so that nothing is ranked, logged or written; return a dict "
                "with predictions and target where rows are to be ranked.",
                stacklevel=2,
            )
            return

        self._logged_keys |= log_values(
            pl_module, values, trainer.loggers, self.key_format
        )
        is_fit = trainer.state.fn == "fit"
        self.reports = reports
        self.report = next(iter(reports.values()))
        self._fit_reports = reports if is_fit else {}
        if trainer.is_global_zero and not trainer.fast_dev_run:
            self._publish(trainer, reports)
        if not is_fit:
            for report in reports.values():
                self._print(trainer, report)

    on_test_start, on_test_batch_end = on_validation_start, on_validation_batch_end
    on_test_epoch_end = on_validation_epoch_end

    def _reports(self, trainer: Any, pl_module: Any) -> list[Report]:
        """Return a report per loader over all processes; call it in every process."""
        for index in find_unsplit_loaders(trainer, self._loader_evaluations):
            self._loader_evaluations[index].is_unsplit = True
            if trainer.is_global_zero:
                warn(f"HeadToTailReport: {UNSPLIT}", stacklevel=2)

        title = "Test" if trainer.testing else "Validation"
        model = f" of {type(pl_module).__name__}"
        if self.name:
            model += f" ({self.name})"
        if trainer.state.fn == "fit":
            model += f", epoch {trainer.current_epoch}"
        reports = []
        for index, evaluation in enumerate(self._loader_evaluations):
            number = f" {index}" if self._has_several_loaders else ""
            reports.append(
                evaluation.report(
                    f"{title}{number}{model}", self._training_labels.notes
                )
            )
        return reports

    @property
    def _has_several_loaders(self) -> bool:
        """Whether keys, titles and files need the index of the loader."""
        return len(self._loader_evaluations) > 1

    def _logged_key(self, trainer: Any, key: str, index: int) -> str:
        """Return the key of a value in loggers, such as ``val/name/recall@10``."""
        parts = [_stage_name(trainer), key]
        if self.name:
            parts.insert(1, self.name)
        if self._has_several_loaders:
            parts.append(f"dataloader_idx_{index}")
        return "/".join(parts)

    # -- the fit -----------------------------------------------------------------------

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Keep and write the last reports if a new best checkpoint was saved."""
        self._update_best_reports(trainer)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Print the table of the best checkpoint, or else of the last validation."""
        self._update_best_reports(trainer)
        report = self.best_report or self.report
        if report is not None:
            self._print(trainer, report)
        elif trainer.is_global_zero and has_only_empty_loaders(trainer):
            warn(
                "HeadToTailReport: no validation loader has rows, so that nothing was "
                "logged or written; give one rows before a value is monitored.",
                stacklevel=2,
            )

    def _update_best_reports(self, trainer: Any) -> None:
        """Keep and write the last reports if a new best checkpoint was saved."""
        best = best_checkpoint(trainer)
        if best is None or best == self._last_best_checkpoint or not self._fit_reports:
            return
        self._last_best_checkpoint = best
        note = (
            "This report is of the checkpoint that is kept as the best one, "
            f"{Path(best[0]).name}."
        )
        reports: dict[int, Report] = {}
        for index, report in self._fit_reports.items():
            reports[index] = replace(report, notes=(note, *report.notes))
        self.best_report = next(iter(reports.values()))
        if trainer.is_global_zero and not trainer.fast_dev_run and self.files:
            self._write(run_folder(trainer), reports, "best")

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Delete temporary files, and warn if reports are lost with the processes.

        They are lost if Lightning started the processes for this run alone.
        """
        for evaluation in self._loader_evaluations:
            evaluation.discard_rows()
        if (
            self.report is not None
            and trainer.is_global_zero
            and runs_in_started_processes(trainer)
        ):
            sources = []
            if fit_values_into_pipe(trainer, self._logged_keys):
                sources.append("trainer.callback_metrics")
            if self.folder is not None:
                sources.append(f"the files in {self.folder}")
            advice = "read " + ", or ".join(sources)
            if not sources:
                advice = (
                    "pass files=True, because Lightning hands over only about 600 "
                    "values, and there are more"
                )
            warn(
                "HeadToTailReport: the reports of this run end with the processes "
                "that Lightning started for it, so that report and best_report of the "
                f"callback are None after the run; {advice}.",
                stacklevel=2,
            )

    # -- files, loggers and tables -----------------------------------------------------

    def _publish(self, trainer: Any, reports: dict[int, Report]) -> None:
        """Write files, and send figures and tables to loggers."""
        stage = _stage_name(trainer)
        self.folder = None
        if self.files:
            self.folder = run_folder(trainer)
            self._write(self.folder, reports, stage)
        if self.figures:
            for index, report in reports.items():
                show_in_loggers(
                    trainer.loggers,
                    report,
                    self._stem("report", stage, index),
                    trainer.global_step,
                )

    def _write(
        self, folder: Path | None, reports: dict[int, Report], stage: str
    ) -> None:
        """Write the reports and row tables of all loaders; nothing without a folder."""
        if folder is None:
            return
        for index, report in reports.items():
            report.write(folder, stem=self._stem("report", stage, index))
            table = folder / f"{self._stem('rows', stage, index)}.parquet"
            self._loader_evaluations[index].write_rows(table)

    def _stem(self, kind: str, stage: str, index: int) -> str:
        """Return the stem of a loader's files, such as ``rows_name_val_1``."""
        parts = [kind, self.name, stage]
        if self._has_several_loaders:
            parts.append(str(index))
        return "_".join(filter(None, parts))

    def _print(self, trainer: Any, report: Report) -> None:
        """Print the table of a report in the first process, if ``table`` is True."""
        if self.table and trainer.is_global_zero:
            print_report(report)

    # -- checkpoints -------------------------------------------------------------------

    @property
    def _checkpoint_key(self) -> str:
        """Key of the callback's entry in a checkpoint."""
        return f"HeadToTailReport {self.name}".strip()

    def on_save_checkpoint(
        self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]
    ) -> None:
        """Save the training counts, so that a resumed run continues with them.

        They are no ``state_dict`` of the callback: Lightning would refuse two callbacks
        of one name without naming the argument ``name``.
        """
        checkpoint[self._checkpoint_key] = self._training_labels.state_dict()

    def on_load_checkpoint(
        self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]
    ) -> None:
        """Load training counts from a checkpoint, unless counts are known already."""
        self._training_labels.load_state_dict(checkpoint.get(self._checkpoint_key, {}))


def _collection_of(
    metrics: list[TopKMetric] | TopKCollection, group_names: Sequence[str] | None
) -> TopKCollection:
    """Return metrics as a collection, with the names of groups of rows."""
    if not isinstance(metrics, TopKCollection):
        return TopKCollection(metrics, row_groups=group_names)
    if group_names is not None:
        raise ValueError(
            "HeadToTailReport: group_names is given beside a TopKCollection; pass "
            "row_groups= to the collection."
        )
    check_update(metrics, "HeadToTailReport")
    return metrics


def _copy_of(collection: TopKCollection) -> TopKCollection:
    """Return a copy of the metrics that shares their process groups.

    A process group cannot be copied.
    """
    process_groups: dict[int, Any] = {}
    for metric in collection.members().values():
        if metric.process_group is not None:
            process_groups[id(metric.process_group)] = metric.process_group
    return deepcopy(collection, process_groups)


def _stage_name(trainer: Any) -> str:
    """Return the name of the stage in keys and files."""
    return "test" if trainer.testing else "val"


def _step_name(trainer: Any) -> str:
    """Return the name of the method of the model whose outputs are added."""
    return "test_step" if trainer.testing else "validation_step"
