"""Several callbacks, several loaders, in one Trainer."""

from pathlib import Path
from typing import Any

import pytest
from counted import ROWS, Given, Model, callback, loader, trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.utilities import CombinedLoader
from torch.utils.data import DistributedSampler

import tailmetrics
from tailmetrics.lightning import HeadToTailReport
from tailmetrics.lightning.split_rows import SamplerPadding

pytestmark = pytest.mark.filterwarnings("ignore:::pytorch_lightning", "ignore:::lightning")
ALL = [1] * ROWS


def recall_at(k: int, **arguments: Any) -> HeadToTailReport:
    """A callback with one number, which is the number of loaded rows among labels 0 to k - 1."""
    return HeadToTailReport([tailmetrics.RecallAtK(k=k)], **{"table": False, "num_labels": ROWS, **arguments})


def test_two_callbacks_with_names_are_kept_apart(tmp_path: Path) -> None:
    """Keys, files and checkpoint entries each have the name; a resumed run finds both."""
    run = trainer(tmp_path, recall_at(1, name="one"), recall_at(2, name="two"), recall_at(4))
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
    first, second, third = recall_at(1, name="one"), recall_at(2, name="two"), recall_at(4)
    again = trainer(tmp_path, second, third, first, max_epochs=2)
    again.fit(Model(), loader(), loader(), ckpt_path=tmp_path / "run.ckpt")
    for report, key in ((first, "recall@1"), (second, "recall@2"), (third, "recall@4")):
        assert report.report is not None
        assert list(report.report.scalars) == [key]


def test_a_name_is_part_of_a_file_name() -> None:
    """What is none is refused at once."""
    with pytest.raises(ValueError, match="HeadToTailReport: name='a/b' is no part of a file name; use letters"):
        callback(name="a/b")


@pytest.mark.parametrize("as_dict", [False, True])
def test_several_loaders_are_reported_apart(as_dict: bool, tmp_path: Path) -> None:
    """A list and a dict; keys end as Lightning's own do, and are there to be monitored and in what validate returns."""
    loaders: Any = [loader(sampler=Given([0])), loader(sampler=Given([5, 0, 6, 7]))]
    loaders = {"a": loaders[0], "b": loaders[1]} if as_dict else loaders
    monitor = ModelCheckpoint(tmp_path, monitor="val/recall@1/dataloader_idx_1", save_weights_only=True)
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
    written = {path.stem for path in (tmp_path / "reports").iterdir()}
    kinds = {"report_val", "rows_val", "report_best", "rows_best"}
    assert written == {f"{kind}_{index}" for kind in kinds for index in (0, 1)}


def test_a_validation_after_a_fit_has_its_own_loaders(tmp_path: Path) -> None:
    """The fit validates on one loader, what follows on two, and then on one again."""
    report = recall_at(1, files=False)
    run = trainer(tmp_path, report)
    run.fit(Model(), loader(), loader())
    run.validate(Model(), [loader(sampler=Given([3])), loader(sampler=Given([0]))], verbose=False)
    assert float(run.callback_metrics["val/recall@1/dataloader_idx_1"]) == 1.0
    assert {index: loader_report.scalars for index, loader_report in report.reports.items()} == {
        0: {"recall@1": 0.0},
        1: {"recall@1": 1.0},
    }
    assert report.report is report.reports[0]
    run.validate(Model(), loader(sampler=Given([0, 3])), verbose=False)
    assert {key: float(value) for key, value in run.callback_metrics.items()} == {"val/recall@1": 0.5}


def test_loaders_whose_batches_come_together_are_one(tmp_path: Path) -> None:
    """A CombinedLoader in a mode of its own gives one batch of both, and the step one set of rows."""

    class Both(Model):
        def validation_step(self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0) -> Any:
            return super().validation_step(batch[0])

    loaders = CombinedLoader([loader(sampler=Given([0, 3])), loader(sampler=Given([1, 2]))], "min_size")
    run = trainer(tmp_path, recall_at(1, files=False))
    run.validate(Both(), loaders, verbose=False)
    assert {key: float(value) for key, value in run.callback_metrics.items()} == {"val/recall@1": 0.5}


def test_repeated_rows_are_found_in_batches_of_any_size() -> None:
    """Ten rows on four processes: the last place of processes 2 and 3 is a repeat, in a batch of two and one of three."""
    for process in range(4):
        sampler = DistributedSampler(range(10), num_replicas=4, rank=process, shuffle=False)
        for size in (2, 3):
            repeats = SamplerPadding(loader(sampler=sampler, batch_size=size))
            rows = [min(size, 3 - start) for start in range(0, 3, size)]
            masks = [repeats.first_seen(row, "validation_step", masked=False) for row in rows]
            flat = [
                first
                for mask, row in zip(masks, rows, strict=True)
                for first in ([True] * row if mask is None else mask)
            ]
            assert [bool(first) for first in flat] == [True, True, process < 2]


def test_a_step_that_returns_other_rows_than_it_got_says_which_are_repeats() -> None:
    """Three rows for each that came in: fine without repeats, an error with one, unless the step masks them itself."""
    sampler = DistributedSampler(range(9), num_replicas=2, rank=1, shuffle=False)
    repeats = SamplerPadding(loader(sampler=sampler))
    assert repeats.first_seen(12, "validation_step", masked=False) is None
    message = (
        "HeadToTailReport: validation_step returned 3 rows for a batch of 1, of which the distributed sampler repeats 1"
    )
    with pytest.raises(ValueError, match=message):
        repeats.first_seen(3, "validation_step", masked=False)
    again = SamplerPadding(loader(sampler=sampler))
    assert [again.first_seen(rows, "test_step", masked=True) for rows in (12, 3)] == [None, None]


@pytest.mark.parametrize("name", ["", "tail"])
def test_two_callbacks_of_one_name_are_refused(name: str, tmp_path: Path) -> None:
    """Their keys and files would be one: the error names the argument that keeps them apart."""
    run = trainer(tmp_path, callback(name=name), callback(name=name))
    with pytest.raises(ValueError, match=f"2 callbacks of the Trainer have name='{name}', .*; pass each another name="):
        run.validate(Model(), loader(), verbose=False)
