"""Intervals of averages over labels are the same numbers wherever an evaluation runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lightning_toy import NUM_LABELS, ByHeart, Data, scores_and_targets
from test_callback import trainer

from cli.workers import Workers
from tailmetrics import F1AtK, LabelAP, LabelAUC, LabelFrequency, evaluate
from tailmetrics.cli import main
from tailmetrics.lightning import HeadToTailReport

CONFIG = """metrics:
  - {class_path: tailmetrics.F1AtK, init_args: {k: 3, average: macro}}
  - {class_path: tailmetrics.F1AtK, init_args: {k: 3, average: macro, buckets: deciles}}
  - {class_path: tailmetrics.LabelAUC, init_args: {buckets: deciles}}
  - {class_path: tailmetrics.LabelAP, init_args: {buckets: deciles}}
"""


def metrics() -> list[Any]:
    """The metrics of CONFIG."""
    of_deciles = [
        F1AtK(k=3, average="macro", buckets="deciles"),
        LabelAUC(buckets="deciles"),
        LabelAP(buckets="deciles"),
    ]
    return [F1AtK(k=3, average="macro"), *of_deciles]


@pytest.mark.slow
def test_python_command_line_callback_and_two_processes(tmp_path: Path) -> None:
    """Macro F1, LabelAUC and LabelAP, over all labels and by decile: value, ends and rows are equal to the bit."""
    scores, target = scores_and_targets()
    frequency = LabelFrequency(NUM_LABELS)
    frequency.update(scores_and_targets(seed=1)[1])
    counts = frequency.compute()
    in_python = evaluate(scores, target, metrics=metrics(), label_counts=counts).intervals
    assert {"macro_f1@3", "macro_auc", "macro_ap"} <= in_python.keys()
    assert sum(not isnan(one.low) for one in in_python.values()) >= 20

    callback = HeadToTailReport(metrics(), label_counts=counts, intervals=True, files=False, table=False)
    trainer(tmp_path, callback).validate(ByHeart(), Data(), verbose=False)
    assert callback.report is not None

    for name, array in (("scores", scores), ("target", target), ("counts", counts)):
        np.save(tmp_path / f"{name}.npy", array.numpy())
    (tmp_path / "config.yaml").write_text(CONFIG)
    files = {
        "--preds": "scores.npy",
        "--target": "target.npy",
        "--label-counts": "counts.npy",
        "--config": "config.yaml",
    }
    words = ["evaluate", "--quiet", *(word for name, file in files.items() for word in (name, str(tmp_path / file)))]
    assert main([*words, "--out", str(tmp_path / "one")]) == 0
    workers = Workers()
    ended = workers.ranks(*words, "--out", tmp_path / "two")
    workers.pool.shutdown()
    assert [status for status, *_ in ended] == [0, 0]

    def plain(found: Any) -> Any:
        written = {key: {name: _told(value) for name, value in asdict(one).items()} for key, one in found.items()}
        return json.loads(json.dumps(written))

    expected = plain(in_python)
    assert plain(callback.report.intervals) == expected
    for folder in ("one", "two"):
        assert json.loads((tmp_path / folder / "report.json").read_text())["intervals"] == expected


def _told(value: Any) -> Any:
    return None if isinstance(value, float) and isnan(value) else value
