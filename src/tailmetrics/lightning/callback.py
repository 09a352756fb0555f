"""The Lightning callback: the methods that a Trainer calls, and one evaluation for each loader."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import warn

import torch
from torch import Tensor

from tailmetrics._arguments import check_names
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.accumulating import check_update
from tailmetrics.evaluation.data import group_numbers
from tailmetrics.evaluation.description import with_label_values
from tailmetrics.evaluation.evaluating import ALIKE, CONFIDENCE
from tailmetrics.frequency import LabelFrequency
from tailmetrics.lightning.trainer import (
    SamplerPadding,
    UnsplitCheck,
    apart,
    best_checkpoint,
    callback_bases,
    evaluated_loaders,
    loaders_without_rows,
    log_values,
    outline,
    processes_with_equal_numbers,
    run_folder,
    runs_in_started_processes,
    show_in_loggers,
)
from tailmetrics.lightning.training_labels import TrainingLabels
from tailmetrics.metrics import TopKMetric
from tailmetrics.report import Report

if TYPE_CHECKING:
    from tailmetrics.lightning.rows import LoaderRows

UNSPLIT = (
    "several processes ranked the same rows of a loader: each row counts several times, intervals are too narrow, and "
    "metrics over the catalogue are wrong. Let Lightning split the loader (use_distributed_sampler=True), split a "
    "stream by trainer.global_rank, or return a row mask."
)
"""Note of a report on a loader whose rows are not split over the processes."""


class HeadToTailReport(*callback_bases()):  # type: ignore[misc]
    """Updates metrics with the outputs of validation and test steps, logs them once per epoch, and writes a report.

    ``validation_step`` and ``test_step`` return ``{"preds": …, "target": …}``, in any form that
    :func:`tailmetrics.rank` takes. If metrics need training counts (``buckets="deciles"``), the callback counts the
    training labels once: before the first training step, or before a test without training. Rows that a distributed
    sampler repeats to fill its last round are left out, and so are the rows of Lightning's sanity check.

    Several callbacks in one Trainer need different names: ``name`` is part of their keys, files and checkpoint entries.

    Args:
        metrics: The metrics, as a list or a :class:`TopKCollection`.
        num_labels: L; None takes it from ``label_counts``, the metrics, or the attribute ``num_labels`` of the data
            module or model.
        label_counts: Training counts, shape (L,), as a tensor, a list or the path of a file that ``torch.save`` or
            ``numpy.save`` wrote; None counts the labels, which reads the training data once.
        num_train: Number of training rows behind ``label_counts``; only propensities and novelty need it.
        preds: Key of the predictions in the output of a step.
        target: Key of the target in the output of a step.
        row_mask: Key of the row mask in the output of a step; the mask is optional.
        train_target: Place of the target in a training batch: a key, an index, or a function of the batch that
            returns None for a batch without labels.
        files: Whether to write ``report_val.*`` and ``report_test.*`` into the folder of the run.
        table: Whether to print a table after validation outside of fitting, after testing, and after fitting.
        figures: Whether to send the figure and tables to TensorBoard, Weights & Biases and MLflow loggers.
        name: Name of this callback in keys and files: ``val/name/…``, ``report_name_val.*``.
        row_groups: Key of the group of each row, a name or number, in the output of a step; read only if metrics have
            row groups.
        group_names: Names of the row groups, for every metric that has no row groups of its own.
        labels: Whether the report names the worst labels and blind spots, and ``labels_val.csv`` holds the values of
            every label. They come from metrics that keep them (``average="none"``, ``"macro"``), or else are precision,
            recall and F1 at the k of the headline.
        label_names: The name of each label; None takes the attribute ``label_names`` of the data module or model.
        row_ids: Key of the number of each row (int64) in the output of a step; optional. The table of rows has it.
        row_names: The name of each row by its number; None takes the attribute ``row_names`` of the data module or
            model.
        intervals: Whether the report has 95 % confidence intervals. They assume independent rows, and cost time in
            every step.
        rows: Whether the folder also holds ``rows_val.parquet`` and ``rows_test.parquet``, the values of each row, so
            that ``tailmetrics compare`` takes the folders of two runs. A single process writes them, if pyarrow is
            installed.

    Attributes:
        report: The latest report on the first loader.
        best_report: The report, on the first loader, of the checkpoint that ``ModelCheckpoint(monitor=…)`` keeps as the
            best one; None without such a checkpoint.
        folder: The folder into which the first process wrote the report; None without files.
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
        for kind, names in {"label_names": label_names, "row_names": row_names}.items():
            if names is not None:
                check_names("HeadToTailReport", kind, names)
        if not isinstance(name, str) or not re.fullmatch(r"[\w.-]*", name):
            raise ValueError(
                f"HeadToTailReport: name={name!r} is no part of a file name; use letters, digits, '_', '-' and '.'."
            )
        if not isinstance(metrics, TopKCollection):
            metrics = TopKCollection(metrics, row_groups=group_names)
        elif group_names is not None:
            raise ValueError(
                "HeadToTailReport: group_names is given beside a TopKCollection; pass row_groups= to the collection."
            )
        check_update(metrics, "HeadToTailReport")
        self.collection = with_label_values(metrics) if labels else metrics
        self.label_names, self.row_names = label_names, row_names
        self.name, self.files, self.table, self.figures = name, files, table, figures
        self.rows = files and rows and find_spec("pyarrow") is not None
        self.report: Report | None = None
        self.best_report: Report | None = None
        self._validated: dict[int, Report] = {}
        self._kept: tuple[str, float | None] | None = None
        self.folder: Path | None = None
        self._labels = TrainingLabels(self.collection, num_labels, label_counts, num_train, train_target)
        keys = {"preds": preds, "target": target, "row_mask": row_mask, "row_groups": row_groups, "row_ids": row_ids}
        more = {"labels": labels}
        self._running = Evaluations(self.collection, keys, intervals=CONFIDENCE if intervals else None, **more)

    @property
    def frequency(self) -> LabelFrequency | None:
        """How often each label occurs in training; None until this is known."""
        return self._labels.frequency

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Refuse a second callback of the same name, and forget the loaders of an earlier run."""
        names = [callback.name for callback in trainer.callbacks if isinstance(callback, HeadToTailReport)]
        if names.count(self.name) > 1:
            raise ValueError(
                f"HeadToTailReport: {names.count(self.name)} callbacks of the Trainer have name={self.name!r}, which "
                "is part of their keys and files; pass each another name=."
            )
        self._running.forget_loaders()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Count the training labels if the metrics need counts."""
        self._bind(trainer, pl_module, starts_fit=True)
        self._kept, self._validated = best_checkpoint(trainer), {}  # a resumed fit has the best one of an earlier run

    def _bind(self, trainer: Any, pl_module: Any, starts_fit: bool = False) -> None:
        if self._labels.ensure(trainer, pl_module, starts_fit):
            self._running.discard_copies()

    # -- validation and test ------------------------------------------------------------------------------------

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Start empty evaluations, one per loader."""
        if not trainer.sanity_checking:
            self._keep_best(trainer)  # ModelCheckpoint may save as late as at the end of an epoch
            self._bind(trainer, pl_module)
            names = {kind: self._names(kind, trainer, pl_module) for kind in ("label_names", "row_names")}
            rows = self.rows and trainer.world_size == 1 and not trainer.fast_dev_run
            self._running.start(trainer, pl_module.device, rows=rows, **names)

    def _names(self, kind: str, trainer: Any, pl_module: Any) -> Sequence[str] | None:
        """Return the names of labels or rows: of the callback, else of the data module, else of the model."""
        owners = {"": self, " of the data module": getattr(trainer, "datamodule", None), " of the model": pl_module}
        for of, owner in owners.items():
            names: Sequence[str] | None = getattr(owner, kind, None)
            if names is not None:
                return check_names("HeadToTailReport", f"{kind}{of}", names)
        return None

    def on_validation_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Add the output of ``validation_step``, or of ``test_step`` while testing."""
        if not trainer.sanity_checking:
            step = "test_step" if trainer.testing else "validation_step"
            self._running.add(outputs, dataloader_idx, step)

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Log every value, write the report, and print it outside of fitting."""
        if trainer.sanity_checking:
            return
        stage, in_fit = "test" if trainer.testing else "val", trainer.state.fn == "fit"
        of = f" of {type(pl_module).__name__}" + (f" ({self.name})" if self.name else "")
        of += f", epoch {trainer.current_epoch}" if in_fit else ""
        title = "Test" if trainer.testing else "Validation"
        reports = self._running.reports(trainer, title, of, self._labels.notes)
        prefix, logged = "/".join(filter(None, (stage, self.name))), {}
        ranked_reports: dict[int, Report] = {}
        for index, report in enumerate(reports):
            # metrics may synchronise over some processes only, but all processes log the same values
            values = {**report.scalars, **report.summaries}
            is_left_out = not report.rows and self._running.is_left_out(index)
            scalars: dict[str, float] | None = trainer.strategy.broadcast(None if is_left_out else values)
            if scalars is None:
                continue
            ranked_reports[index] = report
            suffix = f"/dataloader_idx_{index}" if self._running.has_several_loaders else ""
            logged.update({f"{prefix}/{key}{suffix}": value for key, value in scalars.items()})
            if not in_fit:
                self._print(trainer, report)
        if not ranked_reports:
            step = "test_step" if trainer.testing else "validation_step"
            warn(
                f"HeadToTailReport: {step} returned None for every batch, so that nothing is ranked, logged or "
                "written; return a dict with predictions and target where rows are to be ranked.",
                stacklevel=2,
            )
            return
        self.report = next(iter(ranked_reports.values()))
        self._validated = ranked_reports if in_fit else {}
        log_values(pl_module, apart(logged, trainer.loggers))
        if trainer.is_global_zero and not trainer.fast_dev_run:
            self._publish(trainer, ranked_reports, stage)

    on_test_start, on_test_batch_end = on_validation_start, on_validation_batch_end
    on_test_epoch_end = on_validation_epoch_end

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Write the report of the checkpoint that is the best so far, if it is that of the last validation."""
        self._keep_best(trainer)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Print the table of the best checkpoint, if there is one, or else of the last validation."""
        self._keep_best(trainer)
        shown = self.best_report or self.report
        if shown is not None:
            self._print(trainer, shown)
        elif trainer.is_global_zero and loaders_without_rows(trainer):
            warn(
                "HeadToTailReport: no validation loader has rows, so that nothing was logged or written; give one rows "
                "before a value is monitored.",
                stacklevel=2,
            )

    def _keep_best(self, trainer: Any) -> None:
        """Write ``report_best.*`` if ``ModelCheckpoint`` has saved the model of the last validation as the best one."""
        kept = best_checkpoint(trainer)
        if kept is None or kept == self._kept or not self._validated:
            return
        self._kept = kept
        said = f"This report is of the checkpoint that is kept as the best one, {Path(kept[0]).name}."
        reports = {}
        for index, report in self._validated.items():
            reports[index] = replace(report, notes=(said, *report.notes))
        self.best_report = next(iter(reports.values()))
        if trainer.is_global_zero and not trainer.fast_dev_run and self.files:
            self._write(run_folder(trainer), reports, "best")

    def _publish(self, trainer: Any, reports: dict[int, Report], stage: str) -> None:
        """Write files, and send figures and tables to loggers."""
        self.folder = run_folder(trainer) if self.files else None
        self._write(self.folder, reports, stage)
        if self.figures:
            for index, report in reports.items():
                show_in_loggers(trainer.loggers, report, self._stem("report", stage, index), trainer.global_step)

    def _write(self, folder: Path | None, reports: dict[int, Report], stage: str) -> None:
        if folder is None:
            return
        for index, report in reports.items():
            report.write(folder, stem=self._stem("report", stage, index))
            self._running.write_rows(index, folder / f"{self._stem('rows', stage, index)}.parquet")

    def _stem(self, kind: str, stage: str, index: int) -> str:
        """Return the stem of the files of a loader, such as ``report_val`` or ``rows_name_val_1``."""
        parts = [kind, self.name, stage]
        if self._running.has_several_loaders:
            parts.append(str(index))
        return "_".join(filter(None, parts))

    def _print(self, trainer: Any, report: Report) -> None:
        if self.table and trainer.is_global_zero:
            from tailmetrics.report.text import print_report

            print_report(report)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Warn at the end of a run whose processes end with it, and with them the reports."""
        if self.report is not None and trainer.is_global_zero and runs_in_started_processes(trainer):
            files = "" if self.folder is None else f", or the files in {self.folder}"
            warn(
                "HeadToTailReport: the reports of this run end with the processes that Lightning started for it, so "
                "that report and best_report of the callback are None after the run; read trainer.callback_metrics"
                f"{files}.",
                stacklevel=2,
            )

    # -- checkpoints --------------------------------------------------------------------------------------------

    @property
    def _checkpoint_key(self) -> str:
        """Key of the callback's entry in a checkpoint."""
        return f"HeadToTailReport {self.name}".strip()

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Save the training counts, so that a resumed run continues with them.

        They are no ``state_dict`` of the callback: Lightning would refuse two callbacks of one name without naming the
        argument ``name``.
        """
        checkpoint[self._checkpoint_key] = self._labels.state_dict()

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Load training counts from a checkpoint; counts that are known already are kept."""
        self._labels.load_state_dict(checkpoint.get(self._checkpoint_key, {}))


class Evaluations:
    """One evaluation per loader, from the start of a validation or test to its end.

    Args:
        collection: The metrics; each loader gets a copy.
        keys: Keys in the output of a step: of predictions, target, row mask, row groups and numbers of rows.
        more: Further arguments of :class:`Evaluation`.
    """

    def __init__(self, collection: TopKCollection, keys: Mapping[str, str], **more: Any) -> None:
        self._collection, self._keys, self._more = collection, keys, more
        self._each: list[Evaluation] = []
        self._padding: list[SamplerPadding] = []
        self._device: torch.device | str = "cpu"
        self._of_sequences = False
        self._rows: list[LoaderRows] = []
        self._has_output: list[bool] = []
        self._returned_none: list[bool] = []
        self._unsplit: list[UnsplitCheck] = []
        self._unsplit_notes: list[tuple[str, ...]] = []

    @property
    def has_several_loaders(self) -> bool:
        """Whether keys and files name the loader."""
        return len(self._padding) > 1

    def forget_loaders(self) -> None:
        """Forget which loaders the processes have compared, before a run that may have others."""
        self._unsplit = []

    def discard_copies(self) -> None:
        """Discard the copies of the metrics, after the metrics got new counts; the next start makes new copies."""
        self._each = []

    def start(
        self,
        trainer: Any,
        device: torch.device | str,
        *,
        rows: bool = False,
        label_names: Sequence[str] | None = None,
        row_names: Sequence[str] | None = None,
    ) -> None:
        """Start an empty evaluation per loader; loaders whose batches come together share one evaluation.

        If ``rows``, the values of each row are kept in files of a temporary folder.
        """
        loaders = evaluated_loaders(trainer)
        if len(self._each) != len(loaders):
            more: dict[str, Any] = {**self._more, "label_names": label_names}
            self._each = [Evaluation(_copy(self._collection), **more) for _ in loaders]
        self._padding, self._device = [SamplerPadding(loader) for loader in loaders], device
        self._has_output = [False] * len(loaders)
        self._returned_none = [False] * len(loaders)
        if len(self._unsplit) != len(loaders):
            self._unsplit = [UnsplitCheck(loader) for loader in loaders]
            self._unsplit_notes = [()] * len(loaders)
        for evaluation in self._each:
            evaluation.start(device)
        for one in self._rows:
            one.discard()
        self._rows = []
        if rows:
            from tailmetrics.lightning.rows import LoaderRows

            pairs = zip(self._each, loaders, strict=True)
            self._rows = [LoaderRows(evaluation, loader, label_names, row_names) for evaluation, loader in pairs]

    def write_rows(self, index: int, path: Path) -> None:
        """Copy the table of rows of a loader to a path, if there is one."""
        if self._rows:
            self._rows[index].write(path)

    def add(self, outputs: Any, index: int, step: str) -> None:
        """Add the output of a step for a batch of the loader ``index``, without rows that the sampler repeats."""
        needed = [self._keys["preds"], self._keys["target"]]
        if outputs is None:
            self._padding[index].skip(step)
            self._returned_none[index] = True
            return
        if not isinstance(outputs, dict) or not {*needed} <= outputs.keys():
            raise ValueError(
                f"HeadToTailReport: {step} returned {outline(outputs)}; return a dict with {needed[0]!r} and "
                f"{needed[1]!r} (the names are arguments of the callback)."
            )
        preds, target, mask, groups, rows = (outputs.get(name) for name in self._keys.values())
        first: Any = preds[0] if isinstance(preds, (tuple, list)) else preds
        kept = self._padding[index].first_seen(first.shape[0], step, mask is not None)
        if kept is not None:
            kept = kept.to(first.device)
            mask = kept if mask is None else kept.reshape(-1, *[1] * (mask.ndim - 1)) & mask  # per row or sequence
        self._of_sequences |= first.ndim > 2
        names = self._each[index].row_groups
        if names and groups is None:
            raise ValueError(
                f"HeadToTailReport: {step} returned no {self._keys['row_groups']!r}; return the group of each row "
                f"under this key, a name or number of {', '.join(names)}, None or -1 for none (row_groups= is its "
                "name)."
            )
        groups = group_numbers("HeadToTailReport", groups, names) if names else None
        ranking = self._each[index].update(preds, target, mask, row_groups=groups)
        self._unsplit[index].read_batch(ranking)
        self._has_output[index] = True
        if self._rows and ranking.num_rows:
            self._rows[index].add(ranking, rows)

    def is_left_out(self, index: int) -> bool:
        """Return whether this process got None for each batch of a loader."""
        return self._returned_none[index] and not self._has_output[index]

    def _find_unsplit_loaders(self, trainer: Any) -> None:
        """Note, and warn once, of loaders whose rows several processes have ranked."""
        if trainer.world_size == 1 or not any(check.is_open for check in self._unsplit):
            return
        for check, evaluation in zip(self._unsplit, self._each, strict=True):
            check.read_states(evaluation.collection)
        for index, is_unsplit in enumerate(processes_with_equal_numbers(trainer, self._unsplit)):
            if is_unsplit and not self._unsplit_notes[index]:
                self._unsplit_notes[index] = (UNSPLIT,)
                if trainer.is_global_zero:
                    warn(f"HeadToTailReport: {UNSPLIT}", stacklevel=2)

    def reports(self, trainer: Any, title: str, of: str, notes: tuple[str, ...]) -> list[Report]:
        """Return a report per loader, over all processes, and empty the evaluations; call it in every process."""
        self._find_unsplit_loaders(trainer)
        several, found = len(self._each) > 1, []
        for index, evaluation in enumerate(self._each):
            report = evaluation.report(f"{title} {index}{of}" if several else f"{title}{of}")
            alike = f"{ALIKE} The callback does not: save the logits, and evaluate them."
            own = (alike,) if self._of_sequences and report.intervals else ()
            own = (*own, *self._unsplit_notes[index])
            found.append(replace(report, notes=(*report.notes, *own, *notes)))
            if self._rows:
                self._rows[index].close(found[-1])
            evaluation.start(self._device)
        return found


def _copy(collection: TopKCollection) -> TopKCollection:
    """Return a copy of the metrics that shares their process groups, which cannot be copied."""
    groups = (metric.process_group for metric in collection.members().values())
    return deepcopy(collection, {id(group): group for group in groups if group is not None})
