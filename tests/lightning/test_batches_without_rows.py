"""Batches, loaders and validations in which nothing is ranked."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from numbered_rows import ROWS, Model, callback, loader, trainer
from torch.utils.data import DataLoader, DistributedSampler

import tailmetrics
from tailmetrics.lightning import HeadToTailReport
from tailmetrics.lightning.split_rows import SamplerPadding
from written import values_of

pytestmark = pytest.mark.filterwarnings(
    "ignore:::pytorch_lightning", "ignore:::lightning"
)


class RanksSome(Model):
    """A model that returns None for chosen batches and loaders."""

    def __init__(
        self, batches: tuple[int, ...] = (), loaders: tuple[int, ...] = ()
    ) -> None:
        super().__init__()
        self.batches, self.loaders = batches, loaders

    def validation_step(
        self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0
    ) -> Any:
        if batch_idx in self.batches or dataloader_idx in self.loaders:
            return None
        return super().validation_step(batch)

    test_step = validation_step


class RanksNoRow(Model):
    """A model that returns tensors without rows."""

    def validation_step(
        self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0
    ) -> Any:
        return {
            "preds": torch.zeros(0, ROWS),
            "target": torch.zeros(0, dtype=torch.int64),
        }


def recall(**arguments: Any) -> HeadToTailReport:
    """Return a callback whose value is 1 for rows of labels 0 to 3, and 0 for
    others.
    """
    return HeadToTailReport(
        [tailmetrics.RecallAtK(k=4)],
        **{"label_counts": [1] * ROWS, "table": False, **arguments},
    )


def values(run: Any) -> dict[str, float]:
    """Return the logged values."""
    return {key: round(float(value), 6) for key, value in run.callback_metrics.items()}


@pytest.mark.parametrize(
    ("batches", "rows", "value"), [((0,), 16, 0.0), ((1, 2, 4), 8, 0.5)]
)
def test_a_batch_for_which_the_step_returns_none_is_skipped(
    batches: tuple[int, ...], rows: int, value: float, tmp_path: Path
) -> None:
    """A batch for which the step returns None is skipped.

    Of five batches of four rows the others count, and labels 0 to 3 are in the first.
    """
    report = recall()
    run = trainer(tmp_path, report)
    run.validate(RanksSome(batches), loader(), verbose=False)
    assert report.report is not None
    assert report.report.rows == rows
    assert values(run) == {"val/recall@4": value}


def test_a_loader_without_ranked_batches_has_no_keys_or_files(tmp_path: Path) -> None:
    """A loader of which no batch is ranked has no keys and no files.

    The other loader keeps its number, and its report is `report`.
    """
    report = recall()
    run = trainer(tmp_path, report)
    run.validate(RanksSome(loaders=(0,)), [loader(), loader()], verbose=False)
    assert values(run) == {"val/recall@4/dataloader_idx_1": 0.2}
    assert report.report is not None
    assert report.report.rows == ROWS
    assert {path.stem for path in (tmp_path / "reports").iterdir()} == {
        "report_val_1",
        "rows_val_1",
    }


def test_a_step_that_always_returns_none_brings_a_warning(tmp_path: Path) -> None:
    """If a step returns None for every batch, as with a forgotten return, a warning
    says that nothing is ranked.
    """
    run = trainer(tmp_path, recall())
    with pytest.warns(
        UserWarning,
        match="validation_step returned None for every batch, so that nothing is ranked",
    ):
        run.validate(RanksSome(loaders=(0,)), loader(), verbose=False)
    assert values(run) == {}


@pytest.mark.parametrize("number", [1, 2])
def test_a_loader_of_empty_batches_has_a_report_of_no_rows(
    number: int, tmp_path: Path
) -> None:
    """A loader of batches without rows has a report of 0 rows, whose values are NaN in
    the logs and null in the files.
    """
    report = recall(
        intervals=True, labels=True, label_names=[str(label) for label in range(ROWS)]
    )
    run = trainer(tmp_path, report)
    run.validate(RanksNoRow(), [loader()] * number, verbose=False)
    assert report.report is not None
    assert report.report.rows == 0
    assert len(values(run)) == number
    assert all(math.isnan(value) for value in values(run).values())
    for path in (tmp_path / "reports").glob("report_val*.json"):
        assert values_of(json.loads(path.read_text())) == {"recall@4": None}


def test_skipped_batches_count_in_the_order_of_a_distributed_sampler() -> None:
    """Of nine rows on two processes the last of the second process is a repeat, also if
    its first batch is skipped.
    """
    sampler = DistributedSampler(range(9), num_replicas=2, rank=1, shuffle=False)
    repeats = SamplerPadding(loader(sampler=sampler))
    repeats.skip("validation_step")
    mask = repeats.first_seen(1, "validation_step", masked=False)
    assert mask is not None
    assert mask.tolist() == [False]


def test_a_fit_whose_validation_loader_is_empty_brings_a_warning(
    tmp_path: Path,
) -> None:
    """If the only validation loader of a fit has no rows, Lightning does not validate,
    and a warning says that nothing is logged or written.
    """
    report = recall()
    empty: Any = DataLoader([], 4)
    with pytest.warns(
        UserWarning,
        match="no validation loader has rows, so that nothing was logged or written",
    ):
        trainer(tmp_path, report).fit(Model(), loader(), empty)


@pytest.mark.parametrize("arguments", [{"limit_val_batches": 0}, {}])
def test_a_fit_without_validation_brings_no_warning(
    arguments: dict[str, Any], tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """A fit without a validation loader, or with limit_val_batches=0, brings no
    warning.
    """
    validation = loader() if arguments else None
    trainer(tmp_path, callback(), **arguments).fit(Model(), loader(), validation)
    assert not [
        warning for warning in recwarn if "HeadToTailReport" in str(warning.message)
    ]
