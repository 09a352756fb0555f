"""Whatever starts the processes, the callback ends a run with its values in ``trainer.callback_metrics``.

What processes that are there already do, as torchrun starts them, is in test_two_processes.py.
"""

from pathlib import Path

import pytest

import processes

SCRIPT = """
import io, multiprocessing, warnings
import torch
from counted import Given, Model, callback, loader, trainer
from pytorch_lightning.strategies import DDPStrategy

def values_of(strategy, validated):
    "Run a fit, behind a validation if asked for, and return what was logged as it is saved and loaded."
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

warnings.simplefilter("ignore")
multiprocessing.set_forkserver_preload(["counted"])  # once for both workers, which are sent the model and the callback
found = [values_of("ddp_notebook", True), values_of(DDPStrategy(start_method=start), False)]
"""


@pytest.mark.slow
def test_a_run_of_each_launcher_ends_with_its_values(tmp_path: Path) -> None:
    """Of processes that are forked, as in a notebook, and of those that are sent what they need, as by ``ddp_spawn``.

    A validation and a fit on two processes with two loaders; what was logged is saved, and loaded as weights only.
    """
    start = processes.context().get_start_method()  # of torch and TorchMetrics, which such a process has loaded already
    given = f"folder, start = {str(tmp_path)!r}, {start!r}\n"
    assert processes.found_by(given + SCRIPT) == [(True, 1.0)] * 2
