"""Several callbacks and several loaders in one Trainer."""

from pathlib import Path
from typing import Any

import pytest
from numbered_rows import ROWS, FixedOrder, Model, callback, loader, trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.utilities import CombinedLoader
from torch.utils.data import DistributedSampler

import tailmetrics
from tailmetrics.lightning import HeadToTailReport
from tailmetrics.lightning.split_rows import SamplerPadding

pytestmark = pytest.mark.filterwarnings(
    "ignore:::pytorch_lightning", "ignore:::lightning"
)


def recall_at(k: int, **arguments: Any) -> HeadToTailReport:
    """Return a callback whose value is the share of rows with labels 0 to k - 1."""
    return HeadToTailReport(
        [tailmetrics.RecallAtK(k=k)],
        **{"table": False, "num_labels": ROWS, **arguments},
    )


def test_callbacks_with_names_have_their_own_keys_and_files(tmp_path: Path) -> None:
    """Callbacks with names have their own keys and files.

    A run that is resumed from a checkpoint with the callbacks in another order gives
    each its own report.
    """
    run = trainer(
        tmp_path, recall_at(1, name="one"), recall_at(2, name="two"), recall_at(4)
    )
    run.fit(Model(), loader(), loader())
    values = {key: float(value) for key, value in run.callback_metrics.items()}
    assert {key: round(value * ROWS) for key, value in values.items()} == {
        "val/one/recall@1": 1,
        "val/two/recall@2": 2,
        "val/recall@4": 4,
    }
    stems = {path.stem for path in (tmp_path / "reports").iterdir()}
    names = {"one_val", "two_val", "val"}
    assert stems == {f"{kind}_{name}" for kind in ("report", "rows") for name in names}
    run.save_checkpoint(tmp_path / "run.ckpt")
    first, second, third = (
        recall_at(1, name="one"),
        recall_at(2, name="two"),
        recall_at(4),
    )
    resumed = trainer(tmp_path, second, third, first, max_epochs=2)
    resumed.fit(Model(), loader(), loader(), ckpt_path=tmp_path / "run.ckpt")
    for report, key in ((first, "recall@1"), (second, "recall@2"), (third, "recall@4")):
        assert report.report is not None
        assert list(report.report.scalars) == [key]


def test_a_name_that_is_no_part_of_a_file_name_is_refused() -> None:
    """A name that cannot be part of a file name is refused when the callback is
    created.
    """
    with pytest.raises(
        ValueError,
        match="HeadToTailReport: name='a/b' is no part of a file name; use letters",
    ):
        callback(name="a/b")


@pytest.mark.parametrize("as_dict", [False, True])
def test_each_loader_has_its_own_report(as_dict: bool, tmp_path: Path) -> None:
    """Each loader of a list or dict has its own report, files and keys, which end as
    those of Lightning, can be monitored and are returned by validate.
    """
    loaders: Any = [
        loader(sampler=FixedOrder([0])),
        loader(sampler=FixedOrder([5, 0, 6, 7])),
    ]
    loaders = {"a": loaders[0], "b": loaders[1]} if as_dict else loaders
    monitor = ModelCheckpoint(
        tmp_path, monitor="val/recall@1/dataloader_idx_1", save_weights_only=True
    )
    run = trainer(tmp_path, recall_at(1), monitor, enable_checkpointing=True)
    run.fit(Model(), loader(), loaders)
    assert float(monitor.best_model_score) == 0.25
    returned = run.validate(Model(), loaders, verbose=False)
    assert returned[0]["val/recall@1/dataloader_idx_0"] == 1.0
    assert returned[1]["val/recall@1/dataloader_idx_1"] == 0.25
    assert {key: float(value) for key, value in run.callback_metrics.items()} == {
        "val/recall@1/dataloader_idx_0": 1.0,
        "val/recall@1/dataloader_idx_1": 0.25,
    }
    stems = {path.stem for path in (tmp_path / "reports").iterdir()}
    kinds = {"report_val", "rows_val", "report_best", "rows_best"}
    assert stems == {f"{kind}_{index}" for kind in kinds for index in (0, 1)}


def test_a_validation_after_a_fit_has_its_own_loaders(tmp_path: Path) -> None:
    """A validation after a fit has the reports and keys of its own loaders: the fit
    validates one loader, then two are validated, then one.
    """
    report = recall_at(1, files=False)
    run = trainer(tmp_path, report)
    run.fit(Model(), loader(), loader())
    run.validate(
        Model(),
        [loader(sampler=FixedOrder([3])), loader(sampler=FixedOrder([0]))],
        verbose=False,
    )
    assert float(run.callback_metrics["val/recall@1/dataloader_idx_1"]) == 1.0
    assert {
        index: loader_report.scalars for index, loader_report in report.reports.items()
    } == {
        0: {"recall@1": 0.0},
        1: {"recall@1": 1.0},
    }
    assert report.report is report.reports[0]
    run.validate(Model(), loader(sampler=FixedOrder([0, 3])), verbose=False)
    assert {key: float(value) for key, value in run.callback_metrics.items()} == {
        "val/recall@1": 0.5
    }


def test_a_combined_loader_is_reported_as_one_loader(tmp_path: Path) -> None:
    """A CombinedLoader whose mode joins the batches of its loaders is reported as one
    loader.
    """

    class JoinedBatches(Model):
        def validation_step(
            self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0
        ) -> Any:
            return super().validation_step(batch[0])

    loaders = CombinedLoader(
        [loader(sampler=FixedOrder([0, 3])), loader(sampler=FixedOrder([1, 2]))],
        "min_size",
    )
    run = trainer(tmp_path, recall_at(1, files=False))
    run.validate(JoinedBatches(), loaders, verbose=False)
    assert {key: float(value) for key, value in run.callback_metrics.items()} == {
        "val/recall@1": 0.5
    }


def test_repeats_of_a_distributed_sampler_are_masked_in_batches_of_any_size() -> None:
    """Of ten rows on four processes the last row of processes 2 and 3 is a repeat,
    which is masked in batches of two and of three.
    """
    for process in range(4):
        sampler = DistributedSampler(
            range(10), num_replicas=4, rank=process, shuffle=False
        )
        for size in (2, 3):
            repeats = SamplerPadding(loader(sampler=sampler, batch_size=size))
            rows = [min(size, 3 - start) for start in range(0, 3, size)]
            masks = [
                repeats.first_seen(row, "validation_step", masked=False) for row in rows
            ]
            counts = []
            for mask, row in zip(masks, rows, strict=True):
                counts += [True] * row if mask is None else mask.tolist()
            assert counts == [True, True, process < 2]


def test_a_step_that_returns_other_rows_must_mask_repeats() -> None:
    """A step that returns three rows for each row of a batch is accepted if the batch
    has no repeats, or if it masks them itself; otherwise it is refused.
    """
    sampler = DistributedSampler(range(9), num_replicas=2, rank=1, shuffle=False)
    repeats = SamplerPadding(loader(sampler=sampler))
    assert repeats.first_seen(12, "validation_step", masked=False) is None
    message = "HeadToTailReport: validation_step returned 3 rows for a batch of 1, of which the distributed sampler repeats 1"
    with pytest.raises(ValueError, match=message):
        repeats.first_seen(3, "validation_step", masked=False)
    masked_repeats = SamplerPadding(loader(sampler=sampler))
    assert [
        masked_repeats.first_seen(rows, "test_step", masked=True) for rows in (12, 3)
    ] == [None, None]


@pytest.mark.parametrize("name", ["", "tail"])
def test_two_callbacks_of_one_name_are_refused(name: str, tmp_path: Path) -> None:
    """Two callbacks of the same name are refused, because their keys and files would be
    the same, and the error names the argument.
    """
    run = trainer(tmp_path, callback(name=name), callback(name=name))
    with pytest.raises(
        ValueError,
        match=f"2 callbacks of the Trainer have name='{name}', .*; pass each another name=",
    ):
        run.validate(Model(), loader(), verbose=False)
