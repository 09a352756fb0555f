"""Floor 4: the callback that reports from head to tail in every validation and test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, Subset

from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation import Evaluation
from tailmetrics.frequency import LabelFrequency, frequency_of
from tailmetrics.metrics import TopKMetric
from tailmetrics.report import Report

PACKAGES = ("pytorch_lightning", "lightning.pytorch")
"""Lightning comes in two packages; the callback is one of whichever are installed."""


def _callback_bases() -> tuple[type, ...]:
    installed = [name for name in PACKAGES if find_spec(name.partition(".")[0]) is not None]
    if not installed:
        raise ImportError(
            "tailmetrics.lightning needs Lightning; install it with: pip install 'tailmetrics[lightning]'"
        )
    return tuple(import_module(name).Callback for name in installed)


class HeadToTailReport(*_callback_bases()):  # type: ignore[misc]
    """Feeds metrics from what validation and test steps return, logs them once per epoch, and writes a report.

    ``validation_step`` and ``test_step`` return ``{"preds": …, "target": …}``, in any form that
    :func:`tailmetrics.rank` takes. What a metric leaves open (``buckets="deciles"``) is completed by counting the
    training labels once, before the first training step, or before a test without training. Rows that a distributed
    sampler repeats to fill up its last round are left out; so are those of Lightning's sanity check.

    Args:
        metrics: The metrics, as a list or a :class:`TopKCollection`.
        num_labels: L; None takes it from ``label_counts``, the metrics, or the attribute ``num_labels`` of the data
            module or model.
        label_counts: Training counts, shape (L,), as a tensor, a list or the path of a file saved by ``torch.save``;
            None counts them.
        num_train: Number of training rows that go with ``label_counts``; only propensities and novelty ask for it.
        preds: Key of the predictions in what a step returns.
        target: Key of the target in what a step returns.
        row_mask: Key of a row mask in what a step returns, if it has one.
        train_target: Where the target is in a training batch: a key, or an index, or a function of the batch.
        files: Whether to write ``report.md``, ``report.json`` and ``report.png`` into the log directory.
        table: Whether to print a table after validation outside of fitting, after testing, and after fitting.
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
    ) -> None:
        super().__init__()
        self.collection = metrics if isinstance(metrics, TopKCollection) else TopKCollection(metrics)
        self.num_labels = num_labels
        self.preds, self.target, self.row_mask = preds, target, row_mask
        self.train_target = train_target
        self.files, self.table = files, table
        self.report: Report | None = None
        self._frequency: LabelFrequency | None = None
        self._evaluations: list[Evaluation] = []
        self._rows_before: list[int] = []
        self._source = ""
        if label_counts is not None:
            counts = torch.load(label_counts, weights_only=True) if isinstance(label_counts, str) else label_counts
            frequency = _frequency_of(torch.as_tensor(counts), num_train)
            if num_labels not in (None, frequency.num_labels):
                raise ValueError(
                    f"HeadToTailReport: num_labels={num_labels}, but label_counts holds {frequency.num_labels} counts; "
                    "pass one per label, and leave num_labels out."
                )
            self._adopt(frequency, "label_counts")

    # -- training labels ----------------------------------------------------------------------------------------

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Count the training labels, unless they are known."""
        self._ensure_bound(trainer, pl_module)

    def _ensure_bound(self, trainer: Any, pl_module: Any) -> None:
        if self._frequency is not None or self.collection.is_bound:
            return
        num_labels, source = self._find_num_labels(trainer, pl_module)
        frequency = LabelFrequency(num_labels).to(pl_module.device)
        for batch in _training_batches(_train_loader(trainer, pl_module), trainer):
            target = self._read_train_target(batch)
            try:
                frequency.update(target.to(pl_module.device) if isinstance(target, Tensor) else target)
            except ValueError as error:
                raise ValueError(
                    f"HeadToTailReport: counting training labels, with {num_labels} labels by {source}: {error}"
                ) from error
        self._adopt(_frequency_of(frequency.compute().reshape(-1).cpu(), frequency.num_rows), source)

    def _adopt(self, frequency: LabelFrequency, source: str) -> None:
        self._frequency, self._source = frequency, source
        if not self.collection.is_bound:
            # counts that were given without num_train: buckets know no number of rows, rather than none
            only_counts = not int(frequency.rows) and bool(frequency.counts.any())
            self.collection.bind(LabelBuckets.deciles(frequency.counts) if only_counts else frequency)

    def _find_num_labels(self, trainer: Any, pl_module: Any) -> tuple[int, str]:
        """Return the number of labels, and what says so."""
        members = self.collection.members().values()
        known = [(self.num_labels, "num_labels")]
        known += [(metric.num_labels, f"num_labels of {type(metric).__name__}") for metric in members]
        owners = (getattr(trainer, "datamodule", None), pl_module, getattr(pl_module, "hparams", None))
        names = ("data module", "model", "model's hparams")
        known += [
            (getattr(owner, "num_labels", None), f"num_labels of the {name}")
            for owner, name in zip(owners, names, strict=True)
        ]
        found = next(((int(number), source) for number, source in known if number is not None), None)
        if found is None:
            raise ValueError(
                "HeadToTailReport: the number of labels is not known; pass num_labels=, or give the data module or "
                "the model an attribute num_labels."
            )
        return found

    def _read_train_target(self, batch: Any) -> Any:
        if callable(self.train_target):
            return self.train_target(batch)
        try:
            pair = isinstance(self.train_target, str) and isinstance(batch, (tuple, list)) and len(batch) == 2
            return batch[1] if pair else batch[self.train_target]
        except (KeyError, IndexError, TypeError):
            raise ValueError(
                f"HeadToTailReport: train_target={self.train_target!r} is not in a training batch ({_outline(batch)}); "
                "pass the key, the index or a function of the batch that gives the target, or label_counts=."
            ) from None

    # -- validation and test ------------------------------------------------------------------------------------

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Start from nothing."""
        self._start(trainer, pl_module, trainer.num_val_batches)

    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        """Start from nothing."""
        self._start(trainer, pl_module, trainer.num_test_batches)

    def on_validation_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Add what ``validation_step`` returned."""
        self._add(trainer, outputs, trainer.val_dataloaders, dataloader_idx, "validation_step")

    def on_test_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Add what ``test_step`` returned."""
        self._add(trainer, outputs, trainer.test_dataloaders, dataloader_idx, "test_step")

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Log and write the report."""
        self._finish(trainer, pl_module, "val", print_table=trainer.state.fn != "fit")

    def on_test_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Log and write the report."""
        self._finish(trainer, pl_module, "test", print_table=True)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Print the table of the last validation."""
        if self.report is not None:
            self._print(trainer, self.report)

    def _start(self, trainer: Any, pl_module: Any, num_batches: Any) -> None:
        if trainer.sanity_checking:
            return
        self._ensure_bound(trainer, pl_module)
        loaders = max(1, len(num_batches))
        if len(self._evaluations) != loaders:
            self._evaluations = [Evaluation(deepcopy(self.collection)) for _ in range(loaders)]
        self._rows_before = [0] * loaders
        for evaluation in self._evaluations:
            evaluation.start(pl_module.device)

    def _add(self, trainer: Any, outputs: Any, loaders: Any, index: int, step: str) -> None:
        if trainer.sanity_checking:
            return
        if not isinstance(outputs, dict) or self.preds not in outputs or self.target not in outputs:
            raise ValueError(
                f"HeadToTailReport: {step} returned {_outline(outputs)}; return a dict with {self.preds!r} and "
                f"{self.target!r} (the names are arguments of the callback)."
            )
        preds, target, mask = outputs[self.preds], outputs[self.target], outputs.get(self.row_mask)
        first = preds[0] if isinstance(preds, (tuple, list)) else preds
        if first is preds and isinstance(preds, Tensor):
            self._check_width(preds)
        loader = list(loaders)[index] if isinstance(loaders, (list, tuple)) else loaders
        once = _not_repeated(loader, self._rows_before[index], first.shape[0])
        self._rows_before[index] += first.shape[0]
        if once is not None:
            mask = once.to(first.device) if mask is None else once.to(first.device) & mask
        self._evaluations[index].update(preds, target, mask)

    def _check_width(self, preds: Tensor) -> None:
        """Name what the number of labels came from where scores have another."""
        known = None if self._frequency is None else self._frequency.num_labels
        if known is not None and preds.ndim == 2 and preds.is_floating_point() and preds.shape[1] != known:
            raise ValueError(
                f"HeadToTailReport: preds has {preds.shape[1]} columns, but there are {known} labels by "
                f"{self._source}; pass scores of all labels, or the number that there is."
            )

    def _finish(self, trainer: Any, pl_module: Any, stage: str, print_table: bool) -> None:
        if trainer.sanity_checking:
            return
        log_dir = trainer.log_dir or trainer.default_root_dir
        for index, evaluation in enumerate(self._evaluations):
            several = len(self._evaluations) > 1
            title = {"val": "Validation", "test": "Test"}[stage] + (f" {index}" if several else "")
            report = evaluation.report(title)
            suffix = f"/dataloader_idx_{index}" if several else ""
            logged = {f"{stage}/{key}{suffix}": value for key, value in report.scalars.items()}
            # every rank has the value over all ranks, and the maximum of equal numbers is exact: a mean could round
            pl_module.log_dict(logged, add_dataloader_idx=False, sync_dist=True, reduce_fx="max")
            if index == 0:
                self.report = report
            if self.files and trainer.is_global_zero and not trainer.fast_dev_run:
                report.write(Path(log_dir), stem=f"report_{index}" if several else "report")
            if print_table:
                self._print(trainer, report)
            evaluation.start(pl_module.device)

    def _print(self, trainer: Any, report: Report) -> None:
        if self.table and trainer.is_global_zero:
            from tailmetrics.report import print_report

            print_report(report)

    # -- checkpoints --------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the training counts, so that a resumed run does not count again."""
        if self._frequency is None:
            return {}
        return {"label_counts": self._frequency.counts.cpu(), "num_train": int(self._frequency.rows)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the training counts of a checkpoint, unless there are some."""
        if state_dict and self._frequency is None:
            self._adopt(_frequency_of(state_dict["label_counts"], state_dict["num_train"]), "the checkpoint")


def _frequency_of(counts: Tensor, num_rows: int | None) -> LabelFrequency:
    return frequency_of(counts.to(torch.int64).reshape(-1), num_rows or 0)


def _train_loader(trainer: Any, pl_module: Any) -> Any:
    """Return the training data: that of a fit under way, or what the data module or the model would train on."""
    if trainer.train_dataloader is not None:
        return trainer.train_dataloader
    datamodule: Any = getattr(trainer, "datamodule", None)
    for owner in (datamodule, pl_module):
        if owner is None or type(owner).train_dataloader is _inherited(owner).train_dataloader:
            continue
        if datamodule is not None and owner is datamodule:
            datamodule.setup("fit")
        return owner.train_dataloader()
    raise ValueError(
        "HeadToTailReport: there is no training data to count labels in; pass label_counts= to the callback, or a "
        "data module that has a train_dataloader."
    )


def _inherited(owner: Any) -> Any:
    """Return the Lightning class that ``owner`` derives from."""
    return next(
        base for base in type(owner).__mro__ if base.__module__.startswith(PACKAGES) and "train_dataloader" in dir(base)
    )


def _training_batches(loader: Any, trainer: Any) -> Iterator[Any]:
    """Yield every training row once over all ranks: this rank's share of the data set, without a sampler's repeats."""
    if isinstance(loader, DataLoader) and not isinstance(loader.dataset, IterableDataset):
        rows = range(trainer.global_rank, len(loader.dataset), trainer.world_size)  # type: ignore[arg-type]
        size = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None) or 256
        yield from DataLoader(Subset(loader.dataset, rows), batch_size=size, collate_fn=loader.collate_fn)
    else:
        yield from loader


def _not_repeated(loader: Any, before: int, rows: int) -> Tensor | None:
    """Return a mask of the rows that a distributed sampler did not add to fill its last round, None for all.

    Of ``n`` rows over ``w`` ranks, rank ``r`` gets the places r, r + w, r + 2w, …; places from n on are repeats,
    shuffled or not.
    """
    sampler = getattr(loader, "sampler", None)
    if not isinstance(sampler, DistributedSampler):
        sampler = getattr(getattr(loader, "batch_sampler", None), "sampler", None)
    if not isinstance(sampler, DistributedSampler):
        return None
    places = (before + torch.arange(rows)) * sampler.num_replicas + sampler.rank
    repeated = places >= len(sampler.dataset)  # type: ignore[arg-type]
    return ~repeated if bool(repeated.any()) else None


def _outline(value: Any) -> str:
    """Return what a batch or output is, for a message."""
    if isinstance(value, dict):
        return f"a dict with {', '.join(map(repr, value)) or 'nothing in it'}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return "nothing" if value is None else f"a {type(value).__name__}"
