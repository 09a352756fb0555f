"""`tailmetrics compare` of the folders of two runs compares their tables of values per
row.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from lightning_toy import ByHeart, Data, scores_and_targets
from pytorch_lightning import Trainer

from tailmetrics import LabelFrequency, PrecisionAtK, RecallAtK, TopKCollection
from tailmetrics.cli import main
from tailmetrics.evaluation import Evaluation, compare_runs
from tailmetrics.lightning import HeadToTailReport
from tailmetrics.lightning.rows import LoaderRows
from written import comparisons_of, values_of

pytestmark = pytest.mark.filterwarnings("ignore")


def metrics() -> list[Any]:
    """Return a metric over all labels, and one by decile."""
    return [PrecisionAtK(k=1), RecallAtK(k=5, buckets="deciles", scope="global")]


def counts() -> torch.Tensor:
    """Return the training counts."""
    frequency = LabelFrequency(30)
    frequency.update(scores_and_targets(seed=1)[1])
    return frequency.compute()


def validate(folder: Path, model: ByHeart, **arguments: Any) -> None:
    """Validate a model with a callback that writes into ``folder/reports``."""
    report = HeadToTailReport(
        metrics(), label_counts=counts(), table=False, figures=False, **arguments
    )
    settings = {
        "logger": False,
        "accelerator": "cpu",
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    Trainer(default_root_dir=folder, callbacks=[report], **settings).validate(
        model, Data(), verbose=False
    )


class OtherScores(ByHeart):
    """A model with other scores."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = torch.nn.Parameter(
            scores_and_targets(seed=5)[0], requires_grad=False
        )


class Masked(ByHeart):
    """A model of which every second row does not count."""

    def validation_step(
        self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0
    ) -> dict[str, Any]:
        return {**super().validation_step(batch), "row_mask": batch[0] % 2 == 0}


class MaskedAtTheEnd(ByHeart):
    """A model of which no row counts in the last batches, which alone have a row
    mask.
    """

    def validation_step(
        self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0
    ) -> dict[str, Any]:
        output = super().validation_step(batch)
        if int(batch[0].max()) >= 30:
            output["row_mask"] = batch[0] < 0
        return output


def test_folders_of_runs_are_compared_as_their_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The comparison of the folders of two runs has the differences, intervals and
    p-values of compare_runs on the scores of both models.
    """
    for name, model in (("old", ByHeart()), ("new", OtherScores())):
        validate(tmp_path / name, model)
    folders = [str(tmp_path / name / "reports") for name in ("old", "new")]
    assert (
        main(
            [
                "compare",
                *folders,
                "--resamples",
                "200",
                "--names",
                "old",
                "new",
                "--out",
                str(tmp_path / "out"),
            ]
        )
        == 0
    )
    capsys.readouterr()
    comparisons = comparisons_of(
        json.loads((tmp_path / "out" / "compare.json").read_text())
    )
    scores = {"old": scores_and_targets()[0], "new": scores_and_targets(seed=5)[0]}
    arguments: dict[str, Any] = {
        "metrics": metrics(),
        "label_counts": counts(),
        "resamples": 200,
    }
    expected = comparisons_of(
        compare_runs(scores, scores_and_targets()[1], **arguments).as_dict()
    )
    assert [comparison["key"] for comparison in comparisons] == [
        comparison["key"] for comparison in expected
    ]
    for comparison, expected_comparison in zip(comparisons, expected, strict=True):
        assert {
            name: comparison[name]
            for name in ("difference", "low", "p_randomisation", "n")
        } == pytest.approx(
            {
                name: expected_comparison[name]
                for name in ("difference", "low", "p_randomisation", "n")
            },
            nan_ok=True,
        )


def test_the_table_of_rows_holds_the_rows_that_count(tmp_path: Path) -> None:
    """The mean of a column of the table of rows is the value of the report, also of
    masked rows, which are null.

    With rows=False there is no table, and compare refuses the folder.
    """
    validate(tmp_path, ByHeart())
    table = pq.read_table(tmp_path / "reports" / "rows_val.parquet")
    report = json.loads((tmp_path / "reports" / "report_val.json").read_text())
    assert table.num_rows == report["rows"] == 41
    column = [value for value in table["precision@1"].to_pylist() if value is not None]
    assert sum(column) / len(column) == pytest.approx(values_of(report)["precision@1"])
    validate(tmp_path / "masked", Masked())
    table = pq.read_table(tmp_path / "masked" / "reports" / "rows_val.parquet")
    report = json.loads(
        (tmp_path / "masked" / "reports" / "report_val.json").read_text()
    )
    column = [value for value in table["precision@1"].to_pylist() if value is not None]
    assert len(column) == report["rows"] == 21
    assert sum(column) / len(column) == pytest.approx(values_of(report)["precision@1"])
    validate(tmp_path / "without", ByHeart(), rows=False)
    assert not list((tmp_path / "without").rglob("*.parquet"))
    assert (
        main(
            [
                "compare",
                str(tmp_path / "reports"),
                str(tmp_path / "without" / "reports"),
            ]
        )
        == 2
    )


def test_a_table_of_rows_may_have_masks_in_some_batches(tmp_path: Path) -> None:
    """A step may return a row mask for some batches only: masked rows are null in the
    table.
    """
    validate(tmp_path, MaskedAtTheEnd())
    column = pq.read_table(tmp_path / "reports" / "rows_val.parquet")[
        "precision@1"
    ].to_pylist()
    values = [value for value in column if value is not None]
    report = json.loads((tmp_path / "reports" / "report_val.json").read_text())
    assert 0 < len(values) == report["rows"] < len(column) == 41
    assert sum(values) / len(values) == pytest.approx(values_of(report)["precision@1"])


class TextRowIds(ByHeart):
    """A model that returns names as row ids."""

    def validation_step(
        self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0
    ) -> dict[str, Any]:
        return {
            **super().validation_step(batch),
            "row_ids": [f"q{row}" for row in batch[0].tolist()],
        }


def test_texts_as_row_ids_are_refused(tmp_path: Path) -> None:
    """Texts as row ids are refused, and the error asks for row numbers and for the
    names as row_names=.
    """
    with pytest.raises(
        ValueError,
        match=r"HeadToTailReport: row_ids is .*the names of all rows as row_names=",
    ):
        validate(tmp_path, TextRowIds())


class NumberedRows(ByHeart):
    """A model that returns the number of each row."""

    def validation_step(
        self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0
    ) -> dict[str, Any]:
        return {**super().validation_step(batch), "row_ids": batch[0]}


def test_row_ids_beyond_the_names_of_rows_are_refused(tmp_path: Path) -> None:
    """Row ids for which row_names= holds no name are refused, and the error gives the
    largest one and the number of names.
    """
    largest = max(int(batch[0].max()) for batch in Data().val_dataloader())
    with pytest.raises(
        ValueError, match=r"row_ids holds \d+, but row_names has 1 names"
    ):
        validate(tmp_path, NumberedRows(), row_names=["first"])
    validate(
        tmp_path, NumberedRows(), row_names=[f"q{row}" for row in range(largest + 1)]
    )


def test_a_batch_with_refused_row_ids_does_not_count(tmp_path: Path) -> None:
    """Rows without row ids are numbered from 0 also after a batch whose row ids were
    refused.
    """
    evaluation = Evaluation(TopKCollection([RecallAtK(k=1)]))
    evaluation.start("cpu")
    rows = LoaderRows(evaluation, None, ["first"])
    ranking = evaluation.update(torch.eye(3), torch.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match="row_ids holds 7, but row_names has 1 names"):
        rows.add(ranking, torch.tensor([0, 7, 0]))

    rows.add(ranking, None)
    rows.close(evaluation.report("report"))
    rows.write(tmp_path / "rows.parquet")
    table = pq.read_table(tmp_path / "rows.parquet")
    assert table["row"].to_pylist() == [0, 1, 2]
