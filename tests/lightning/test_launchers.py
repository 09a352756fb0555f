"""Whatever starts the processes, the callback ends a run with its values in ``trainer.callback_metrics``.

What processes that are there already do, as torchrun starts them, is in test_two_processes.py.
"""

import io
import os
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from counted import Given, Model, callback, loader, trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.strategies import DDPStrategy

import processes


def values_of(folder: str | Path, strategy: Any, validated: bool) -> tuple[bool, float]:
    """Run a fit, behind a validation if asked for, and return what was logged as it is saved and loaded."""
    report = callback(label_counts=[1] * 20)
    monitor = ModelCheckpoint(Path(folder, "kept"), monitor="val/recall@5/decile_9/dataloader_idx_0")
    run = trainer(folder, report, monitor, enable_checkpointing=True, devices=2, strategy=strategy)
    loaders = [loader(), loader(sampler=Given([7]))]
    if validated:
        run.validate(Model(), loaders, verbose=False)
    run.fit(Model(), loader(), loaders)
    run.validate(Model(), loaders, verbose=False)  # where the path of the best checkpoint has come without its score
    assert report.report is None
    file = io.BytesIO()
    torch.save(dict(run.callback_metrics), file)
    file.seek(0)
    values = torch.load(file, weights_only=True)
    return {type(key) for key in values} == {str}, float(values["val/recall@5/decile_9/dataloader_idx_0"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_run_of_each_launcher_ends_with_its_values(tmp_path: Path) -> None:
    """Of processes that are forked, as in a notebook, and of those that are sent what they need, as by ``ddp_spawn``.

    A validation, a fit and a validation on two processes with two loaders; what was logged is saved, and loaded as
    weights only. The reports end with the processes.
    """
    forked = f"import test_launchers; result = test_launchers.values_of({str(tmp_path)!r}, 'ddp_notebook', True)"
    assert processes.run_in_process(forked) == (True, 1.0)
    start = processes.context().get_start_method()  # of torch and TorchMetrics, which such a process has loaded already
    with patch.dict(os.environ):  # in which Lightning leaves where the processes meet
        assert values_of(tmp_path, DDPStrategy(start_method=start), False) == (True, 1.0)


@pytest.mark.parametrize(("strategy", "warns"), [("ddp_notebook", True), ("auto", False)])
def test_reports_that_end_with_their_process_are_named(strategy: str, warns: bool, tmp_path: Path) -> None:
    """The callback of the process that called the Trainer has none, which is said where the reports are."""
    report = callback(label_counts=[1] * 20, files=True)
    trainer(tmp_path, report).validate(Model(), loader(), verbose=False)
    run = trainer(tmp_path, devices=1, strategy=strategy)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report.teardown(run, Model(), "validate")
    texts = [str(warning.message) for warning in caught]
    assert any("end with the processes" in text and str(tmp_path / "reports") in text for text in texts) == warns
