"""The folders of two runs are compared as two tables of values per row are."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from lightning_toy import ByHeart, Data, scores_and_targets
from pytorch_lightning import Trainer

from tailmetrics import LabelFrequency, PrecisionAtK, RecallAtK
from tailmetrics.cli import main
from tailmetrics.evaluation import compare_runs
from tailmetrics.lightning import HeadToTailReport
from written import comparisons_of, values_of

pytestmark = pytest.mark.filterwarnings("ignore")


def metrics() -> list[Any]:
    """A metric over all labels, and one by decile."""
    return [PrecisionAtK(k=1), RecallAtK(k=5, buckets="deciles", scope="global")]


def counts() -> torch.Tensor:
    """The training counts."""
    frequency = LabelFrequency(30)
    frequency.update(scores_and_targets(seed=1)[1])
    return frequency.compute()


def validated(folder: Path, model: ByHeart, **arguments: Any) -> None:
    """Validate a model; the callback writes into ``folder/reports``."""
    report = HeadToTailReport(metrics(), label_counts=counts(), table=False, figures=False, **arguments)
    settings = {"logger": False, "accelerator": "cpu", "enable_progress_bar": False, "enable_model_summary": False}
    Trainer(default_root_dir=folder, callbacks=[report], **settings).validate(model, Data(), verbose=False)


class Other(ByHeart):
    """A model with other scores."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = torch.nn.Parameter(scores_and_targets(seed=5)[0], requires_grad=False)


class Masked(ByHeart):
    """Every second row does not count."""

    def validation_step(self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0) -> dict[str, Any]:
        return {**super().validation_step(batch), "row_mask": batch[0] % 2 == 0}


def test_two_folders_of_the_callback_are_compared_as_their_scores_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every difference, interval and p-value is that of compare_runs on the scores of both models."""
    for name, model in (("old", ByHeart()), ("new", Other())):
        validated(tmp_path / name, model)
    folders = [str(tmp_path / name / "reports") for name in ("old", "new")]
    assert (
        main(["compare", *folders, "--resamples", "200", "--names", "old", "new", "--out", str(tmp_path / "out")]) == 0
    )
    capsys.readouterr()
    comparisons = comparisons_of(json.loads((tmp_path / "out" / "compare.json").read_text()))
    scores = {"old": scores_and_targets()[0], "new": scores_and_targets(seed=5)[0]}
    arguments: dict[str, Any] = {"metrics": metrics(), "label_counts": counts(), "resamples": 200}
    expected = comparisons_of(compare_runs(scores, scores_and_targets()[1], **arguments).as_dict())
    assert [comparison["key"] for comparison in comparisons] == [comparison["key"] for comparison in expected]
    for comparison, expected_comparison in zip(comparisons, expected, strict=True):
        assert {name: comparison[name] for name in ("difference", "low", "p_randomisation", "n")} == pytest.approx(
            {name: expected_comparison[name] for name in ("difference", "low", "p_randomisation", "n")}, nan_ok=True
        )


def test_rows_are_those_that_count_and_can_be_left_out(tmp_path: Path) -> None:
    """The mean of a column is the value of the report; ``rows=False`` writes no table, and compare says so."""
    validated(tmp_path, ByHeart())
    table = pq.read_table(tmp_path / "reports" / "rows_val.parquet")
    report = json.loads((tmp_path / "reports" / "report_val.json").read_text())
    assert table.num_rows == report["rows"] == 41
    column = [value for value in table["precision@1"].to_pylist() if value is not None]
    assert sum(column) / len(column) == pytest.approx(values_of(report)["precision@1"])
    validated(tmp_path / "masked", Masked())
    table = pq.read_table(tmp_path / "masked" / "reports" / "rows_val.parquet")
    report = json.loads((tmp_path / "masked" / "reports" / "report_val.json").read_text())
    column = [value for value in table["precision@1"].to_pylist() if value is not None]
    assert len(column) == report["rows"] == 21
    assert sum(column) / len(column) == pytest.approx(values_of(report)["precision@1"])
    validated(tmp_path / "without", ByHeart(), rows=False)
    assert not list((tmp_path / "without").rglob("*.parquet"))
    assert main(["compare", str(tmp_path / "reports"), str(tmp_path / "without" / "reports")]) == 2


class OfTexts(ByHeart):
    """Names of rows stand in the place of their numbers."""

    def validation_step(self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0) -> dict[str, Any]:
        return {**super().validation_step(batch), "row_ids": [f"q{row}" for row in batch[0].tolist()]}


def test_texts_as_row_ids_are_refused_by_name(tmp_path: Path) -> None:
    """With what to return instead."""
    with pytest.raises(ValueError, match=r"HeadToTailReport: row_ids is .*the names of all rows as row_names="):
        validated(tmp_path, OfTexts())
