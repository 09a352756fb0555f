"""Whatever starts the processes of a run, its values are in ``trainer.callback_metrics`` at the end.

Runs of processes that torchrun starts are in test_two_processes.py.
"""

import io
import os
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from numbered_rows import FixedOrder, Model, callback, loader, trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.strategies import DDPStrategy

import processes


def values_of(folder: str | Path, strategy: Any, validated: bool) -> tuple[bool, float]:
    """Return whether the keys of a fit, after a validation if `validated`, are texts, and a value, as saved and
    loaded.
    """
    report = callback(label_counts=[1] * 20)
    monitor = ModelCheckpoint(Path(folder, "kept"), monitor="val/recall@5/decile_9/dataloader_idx_0")
    run = trainer(folder, report, monitor, enable_checkpointing=True, devices=2, strategy=strategy)
    loaders = [loader(), loader(sampler=FixedOrder([7]))]
    if validated:
        run.validate(Model(), loaders, verbose=False)
    run.fit(Model(), loader(), loaders)
    run.validate(Model(), loaders, verbose=False)  # the path of the best checkpoint is restored without its score
    assert report.report is None
    file = io.BytesIO()
    torch.save(dict(run.callback_metrics), file)
    file.seek(0)
    values = torch.load(file, weights_only=True)
    return {type(key) for key in values} == {str}, float(values["val/recall@5/decile_9/dataloader_idx_0"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_runs_of_each_launcher_return_their_values(tmp_path: Path) -> None:
    """A run on two forked processes, as in a notebook, and one on spawned processes return their logged values.

    The values of two loaders can be saved and loaded with weights_only=True. The reports end with the processes.
    """
    forked = f"import test_launchers; result = test_launchers.values_of({str(tmp_path)!r}, 'ddp_notebook', True)"
    assert processes.run_in_process(forked) == (True, 1.0)
    start = processes.context().get_start_method()  # whose server has loaded torch and TorchMetrics
    with patch.dict(os.environ):  # to which Lightning adds the address of the processes
        assert values_of(tmp_path, DDPStrategy(start_method=start), False) == (True, 1.0)


@pytest.mark.parametrize(("strategy", "warns"), [("ddp_notebook", True), ("auto", False)])
def test_a_warning_names_the_folder_if_reports_end_with_their_processes(
    strategy: str, warns: bool, tmp_path: Path
) -> None:
    """If the processes of a run end with it, the callback of the calling process has no report, and a warning names the
    folder of the files.
    """
    report = callback(label_counts=[1] * 20, files=True)
    trainer(tmp_path, report).validate(Model(), loader(), verbose=False)
    run = trainer(tmp_path, devices=1, strategy=strategy)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report.teardown(run, Model(), "validate")
    texts = [str(warning.message) for warning in caught]
    assert any("end with the processes" in text and str(tmp_path / "reports") in text for text in texts) == warns
