"""Whatever starts the processes, the callback ends a run with its values in ``trainer.callback_metrics``.

What processes that are there already do, as torchrun starts them, is in test_two_processes.py.
"""

import io
import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from counted import Given, Model, callback, loader, trainer
from pytorch_lightning.strategies import DDPStrategy

import processes


def values_of(folder: Any, strategy: Any, validated: bool) -> tuple[bool, float]:
    """Run a fit, behind a validation if asked for, and return what was logged as it is saved and loaded."""
    run = trainer(folder, callback(label_counts=[1] * 20), devices=2, strategy=strategy)
    loaders = [loader(), loader(sampler=Given([7]))]
    if validated:
        run.validate(Model(), loaders, verbose=False)
    run.fit(Model(), loader(), loaders)
    file = io.BytesIO()
    torch.save(dict(run.callback_metrics), file)
    file.seek(0)
    values = torch.load(file, weights_only=True)
    return {type(key) for key in values} == {str}, float(values["val/recall@5/decile_9/dataloader_idx_0"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_run_of_each_launcher_ends_with_its_values(tmp_path: Path) -> None:
    """Of processes that are forked, as in a notebook, and of those that are sent what they need, as by ``ddp_spawn``.

    A validation and a fit on two processes with two loaders; what was logged is saved, and loaded as weights only.
    """
    forked = f"import test_launchers; found = test_launchers.values_of({str(tmp_path)!r}, 'ddp_notebook', True)"
    assert processes.found_by(forked) == (True, 1.0)
    start = processes.context().get_start_method()  # of torch and TorchMetrics, which such a process has loaded already
    with patch.dict(os.environ):  # in which Lightning leaves where the processes meet
        assert values_of(tmp_path, DDPStrategy(start_method=start), False) == (True, 1.0)
