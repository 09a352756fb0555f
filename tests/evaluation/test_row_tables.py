"""Tables of values per row: what processes wrote of their shares is joined."""

import torch

from tailmetrics.cli import main
from tailmetrics.evaluation.row_tables import RowTable, join_parts


def test_a_process_without_rows_has_no_part(tmp_path):
    """Only the second of three parts is there. The joined table holds its rows and its metadata."""
    torch.save(torch.eye(3), tmp_path / "preds.pt")
    torch.save(torch.tensor([[0], [2], [2]]), tmp_path / "target.pt")
    files = ["--preds", str(tmp_path / "preds.pt"), "--target", str(tmp_path / "target.pt")]
    assert main(["evaluate", *files, "--metrics+=RecallAtK", "--metrics.k=1", "--out", str(tmp_path), "--quiet"]) == 0
    part = tmp_path / "rows.parquet"
    join_parts([tmp_path / "0.parquet", part, tmp_path / "2.parquet"], tmp_path / "whole.parquet")
    one, whole = RowTable.open(part), RowTable.open(tmp_path / "whole.parquet")
    assert (whole.columns, whole.names.to_pylist(), whole.identity) == (one.columns, [0, 1, 2], one.identity)
    assert whole.scalars == {"recall@1": 2 / 3}
