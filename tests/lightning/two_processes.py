"""Fits and validations on two processes for test_two_processes.py; the first process
prints its outcomes as JSON.
"""

import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import test_callback
import test_log_dict
import torch
from lightning_toy import ByHeart, Data
from numbered_rows import (
    ROWS,
    FixedOrder,
    Model,
    Numbered,
    Stream,
    callback,
    loader,
    trainer,
)
from torch import distributed
from torch.distributed import distributed_c10d
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    Subset,
    SubsetRandomSampler,
)

import pictures
import tailmetrics
from tailmetrics.evaluation import Evaluation
from tailmetrics.lightning import HeadToTailReport

COLLECTIVES = [
    *(
        "all_reduce",
        "all_gather",
        "all_gather_into_tensor",
        "all_to_all",
        "barrier",
        "broadcast",
        "gather",
        "reduce",
    ),
    *(
        "reduce_scatter",
        "scatter",
        "all_gather_object",
        "broadcast_object_list",
        "gather_object",
    ),
]


class Tally:
    """A count of collectives, which can be paused."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.counts = False

    def watch(self) -> None:
        """Count collectives from now on."""
        for name in COLLECTIVES:
            for module in (distributed, distributed_c10d):
                setattr(module, name, self._counted(name, getattr(module, name)))

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += [name] if self.counts else []
            return function(*args, **kwargs)

        return call

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count within this context, in which the metrics synchronise."""
        before, self.counts = self.counts, False
        yield
        self.counts = before


def report_of_test(folder: Path) -> dict[str, Any]:
    """Return the report of a test after a fit."""
    callback = HeadToTailReport(test_callback.metrics())
    run = test_callback.trainer(
        folder, callback, devices=2, strategy="ddp", max_epochs=1
    )
    run.fit(ByHeart(), datamodule=Data())
    run.test(ByHeart(), datamodule=Data(), verbose=False)
    torch.save(dict(run.callback_metrics), folder / f"values_{run.global_rank}.pt")
    outcomes: dict[str, Any] = callback.report.as_dict()
    return outcomes | {"folder": str(folder)}


def counted_labels(
    folder: Path, loaders: dict[str, DataLoader[Any]], **arguments: Any
) -> dict[str, list[int]]:
    """Return for each loader the labels that a fit counts, each as often as it is
    counted.
    """
    counts = {}
    for kind, rows in loaders.items():
        report = callback()
        trainer(folder, report, devices=2, strategy="ddp", **arguments).fit(
            Model(), rows
        )
        counts[kind] = (
            torch.arange(ROWS).repeat_interleave(report.frequency.counts).tolist()
        )
    return counts


def counted_rows(folder: Path) -> dict[str, list[int]]:
    """Return the counted labels by kind of loader, with and without Lightning's
    distributed samplers.
    """
    sampler, custom_sampler = (
        SubsetRandomSampler(range(15)),
        FixedOrder([1, 2, 3, 2, 1]),
    )
    rank = int(os.environ.get("LOCAL_RANK", 0))
    ordered = DistributedSampler(range(ROWS), num_replicas=2, rank=rank, shuffle=False)
    split = {
        "shuffled": loader(shuffle=True),
        "subset": loader(sampler=sampler),
        "fixed order": loader(sampler=custom_sampler),
    }
    unchanged = {
        "subset on both": loader(sampler=sampler),
        "subset in batches on both": loader(
            batch_sampler=BatchSampler(sampler, 4, False)
        ),
        "fixed order on both": loader(sampler=custom_sampler),
        "batches on each": loader(
            batch_sampler=FixedOrder([[1 + rank, 4 + rank], [7, 7]])
        ),
        "not divisible": loader(
            sampler=DistributedSampler(range(13), num_replicas=2, rank=rank)
        ),
    }
    return {
        **counted_labels(folder, split),
        **counted_labels(folder, unchanged, use_distributed_sampler=False),
        **counted_labels(
            folder, {"limited": loader(sampler=ordered)}, limit_train_batches=1
        ),
    }


def collectives(folder: Path) -> dict[str, Any]:
    """Return the collectives at the end of a validation epoch without those of the
    metrics, and the number of logged values.
    """
    metrics = [
        metric(k=[1, 3, 5], buckets="deciles", scope=scope)
        for metric in (
            tailmetrics.PrecisionAtK,
            tailmetrics.RecallAtK,
            tailmetrics.F1AtK,
            tailmetrics.HitRateAtK,
            tailmetrics.NDCGAtK,
        )
        for scope in ("bucket", "global")
    ]
    tally = Tally()

    class Watched(HeadToTailReport):  # type: ignore[misc]
        def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            tally.counts = True
            super().on_validation_epoch_end(trainer, pl_module)

    original = Evaluation.report

    def report(self: Any, title: str) -> Any:
        with tally.paused():
            return original(self, title)

    Evaluation.report = report  # type: ignore[method-assign]
    callback_of_run = Watched(
        metrics, label_counts=[1] * ROWS, num_train=ROWS, table=False
    )
    run = trainer(folder, callback_of_run, devices=2, strategy="ddp")
    tally.watch()
    run.validate(Model(), loader(), verbose=False)
    tally.counts, Evaluation.report = False, original  # type: ignore[method-assign]
    values = {key: float(value) for key, value in run.callback_metrics.items()}
    return {
        "collectives": tally.calls,
        "logged": len(values),
        "recall@5": values["val/global_recall@5/decile_9"],
    }


def in_groups(folder: Path) -> dict[str, Any]:
    """Return the values that metrics with a process group log on both processes."""
    outcomes: dict[str, Any] = {}
    for name, members in (("all", [0, 1]), ("first", [0])):
        group = distributed.new_group(members)
        group_of_process = (
            group if distributed.get_rank() in members else distributed.new_group([1])
        )
        if members == [0] and distributed.get_rank() == 0:
            distributed.new_group([1])
        metrics = [tailmetrics.RecallAtK(k=4, process_group=group_of_process)]
        report = HeadToTailReport(
            metrics, label_counts=[1] * ROWS, num_train=ROWS, table=False, files=False
        )
        run = trainer(folder, report, devices=2, strategy="ddp")
        run.validate(Model(), loader(), verbose=False)
        logged = [None, None]
        distributed.all_gather_object(
            logged, float(run.callback_metrics["val/recall@4"])
        )
        outcomes[name] = logged
    return outcomes


def unsplit(folder: Path) -> dict[str, list[bool]]:
    """Return for each kind of loader whether the reports of two epochs say that
    processes ranked the same rows.
    """
    rank = int(os.environ.get("LOCAL_RANK", 0))
    rows_of_process = range(rank, ROWS, 2)
    loaders = {
        "unsplit": loader(),
        "unsplit in random order": loader(shuffle=True),
        "unsplit stream": DataLoader(RowStream(range(ROWS)), 4),
        "split stream": DataLoader(RowStream(rows_of_process), 4),
        "split data set": DataLoader(Subset(Numbered(), rows_of_process), 4),
        "split data set in random order": DataLoader(
            Subset(Numbered(), rows_of_process), 4, shuffle=True
        ),
        "split data set of equal values": DataLoader(
            Subset(Numbered(), range(1 + rank, 19, 2)), 4, shuffle=True
        ),
        "split by a sampler": loader(
            sampler=DistributedSampler(range(ROWS), num_replicas=2, rank=rank)
        ),
        "rows of the first process alone": DataLoader(
            RowStream(range(ROWS if rank == 0 else 0)), 4
        ),
    }
    notes = {}
    for kind, rows in loaders.items():
        report = HeadToTailReport(
            [tailmetrics.RecallAtK(k=5)],
            label_counts=[1] * ROWS,
            table=False,
            files=False,
        )
        run = trainer(
            folder, report, devices=2, strategy="ddp", use_distributed_sampler=False
        )
        notes[kind] = []
        for _ in range(2):
            run.validate(Model(), rows, verbose=False)
            notes[kind].append(
                any(
                    "several processes ranked the same rows" in note
                    for note in report.report.notes
                )
            )
    return notes


def streamed(folder: Path) -> dict[str, Any]:
    """Return for each limit of a fit on an endless stream the rows read before the
    first step, or the error.
    """
    limits: dict[str, dict[str, Any]] = {
        "max_steps": {"max_steps": 3, "max_epochs": -1},
        "limit_train_batches": {"limit_train_batches": 2},
        "max_time": {"max_time": "00:00:01:00", "max_epochs": -1},
    }
    outcomes = {}
    for name, limit in limits.items():
        stream = Stream()
        run = trainer(folder, callback(), devices=2, strategy="ddp", **limit)
        outcomes[name] = rows_before_the_first_step(run, DataLoader(stream, 4), stream)
    return outcomes


def rows_before_the_first_step(run: Any, loaders: Any, stream: Any) -> int | str:
    """Return how many rows of a stream a fit reads before its first step, or the error
    that ends it.
    """
    model = StopsAtOnce(stream)
    try:
        run.fit(model, loaders)
    except ValueError as error:
        return f"{stream.rows_read} {error}"
    return model.rows_read


class StopsAtOnce(Model):
    """A model that keeps how many rows of a stream are read when training starts, and
    stops after the first batch.
    """

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self.stream, self.rows_read = [stream], -1

    def on_train_epoch_start(self) -> None:
        self.rows_read = self.stream[0].rows_read

    def training_step(self, batch: Any) -> torch.Tensor:
        self.trainer.should_stop = True
        return super().training_step({})


class RowStream(IterableDataset[dict[str, int]]):
    """A stream of some numbered rows, without a length."""

    def __init__(self, numbers: Any) -> None:
        self.numbers = numbers

    def __iter__(self) -> Iterator[dict[str, int]]:
        return ({"x": row, "target": row} for row in self.numbers)


def logged_by_log_dict(folder: Path) -> dict[str, list[float]]:
    """Return the values of two loaders that `self.log_dict(self.metrics)` logs on each
    process.
    """
    run = trainer(folder, devices=2, strategy="ddp")
    run.validate(
        test_log_dict.Model(),
        [test_log_dict.loader(0), test_log_dict.loader(1)],
        verbose=False,
    )
    values: list[Any] = [None, None]
    distributed.all_gather_object(
        values, {key: float(value) for key, value in run.callback_metrics.items()}
    )
    return {
        key: [process_values[key] for process_values in values] for key in values[0]
    }


def main() -> None:
    """Run everything in the current folder; the first process prints the outcomes."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    folder = Path.cwd()
    with pytest.MonkeyPatch.context() as patched:
        pictures.leave_blank(patched)
        outcomes = {
            "report": report_of_test(folder),
            "counted": counted_rows(folder),
            "collectives": collectives(folder),
        }
        outcomes["unsplit"], outcomes["streamed"] = unsplit(folder), streamed(folder)
        distributed.barrier()
        outcomes["in groups"] = in_groups(folder)
        outcomes["logged"] = logged_by_log_dict(folder)
    if distributed.get_rank() == 0:
        print(f"\n{json.dumps(outcomes)}")
    distributed.barrier()
    # threads that run while the process ends may abort it
    distributed.destroy_process_group()
