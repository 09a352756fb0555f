"""Whatever starts the processes of a run, its values are in
``trainer.callback_metrics`` at the end.

Runs of processes that torchrun starts are in test_two_processes.py.
"""

import io
import os
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from numbered_rows import FixedOrder, Model, callback, loader, trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.strategies import DDPStrategy

import processes
import tailmetrics
from tailmetrics.lightning.trainer import BYTES_IN_PIPE, fit_values_into_pipe


def values_of(folder: str | Path, strategy: Any, validated: bool) -> tuple[bool, float]:
    """Return whether the keys of a fit, after a validation if `validated`, are texts,
    and a value, as saved and loaded.
    """
    report = callback(label_counts=[1] * 20)
    monitor = ModelCheckpoint(
        Path(folder, "kept"), monitor="val/recall@5/decile_9/dataloader_idx_0"
    )
    run = trainer(
        folder, report, monitor, enable_checkpointing=True, devices=2, strategy=strategy
    )
    loaders = [loader(), loader(sampler=FixedOrder([7]))]
    if validated:
        run.validate(Model(), loaders, verbose=False)
    run.fit(Model(), loader(), loaders)
    # the path of the best checkpoint is restored without its score
    run.validate(Model(), loaders, verbose=False)
    assert report.report is None
    file = io.BytesIO()
    torch.save(dict(run.callback_metrics), file)
    file.seek(0)
    values = torch.load(file, weights_only=True)
    return {type(key) for key in values} == {str}, float(
        values["val/recall@5/decile_9/dataloader_idx_0"]
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_runs_of_each_launcher_return_their_values(tmp_path: Path) -> None:
    """A run on two forked processes, as in a notebook, and one on spawned processes
    return their logged values.

    The values of two loaders can be saved and loaded with weights_only=True. The
    reports end with the processes.
    """
    forked = f"import test_launchers; result = test_launchers.values_of({str(tmp_path)!r}, 'ddp_notebook', True)"
    assert processes.run_in_process(forked) == (True, 1.0)
    # whose server has loaded torch and TorchMetrics
    start = processes.context().get_start_method()
    with patch.dict(os.environ):  # to which Lightning adds the address of the processes
        assert values_of(tmp_path, DDPStrategy(start_method=start), False) == (
            True,
            1.0,
        )


def many_values_of(folder: str, strategy: str) -> dict[str, float]:
    """Return the values of a validation that logs more of them than a pipe holds one by
    one.
    """
    metrics = []
    for name in ("first", "second"):
        metrics.append(
            tailmetrics.RecallAtK(
                k=range(1, 11), buckets="deciles", scope="global", name=name
            )
        )
    run = trainer(
        Path(folder),
        callback(metrics, label_counts=[1] * 20),
        devices=1,
        strategy=strategy,
    )
    run.validate(Model(), loader(), verbose=False)
    return {key: float(value) for key, value in run.callback_metrics.items()}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_run_on_forked_processes_ends_and_returns_many_values(tmp_path: Path) -> None:
    """A run on a forked process returns the 270 values of a run without one. Lightning
    alone would wait without end.
    """
    forked = f"import test_launchers; result = test_launchers.many_values_of({str(tmp_path)!r}, 'ddp_notebook')"
    values = processes.run_in_process(forked)
    assert len(values) > 260
    assert str(values) == str(many_values_of(str(tmp_path), "auto"))


@pytest.mark.parametrize(("own_values", "is_kept"), [(500, True), (1000, False)])
def test_values_fit_into_a_pipe_or_are_left_out(own_values: int, is_kept: bool) -> None:
    """500 values of the callback are sent as they are, and of 1000 none, so that a run
    ends. Others always stay.
    """
    own = {
        f"val/recall@{k}/decile_1": torch.tensor(1 / (k + 1), dtype=torch.float64)
        for k in range(own_values)
    }
    metrics = {"loss": torch.tensor(0.5), **own}
    kept = fit_values_into_pipe(SimpleNamespace(callback_metrics=metrics), set(own))
    assert kept == is_kept
    expected = {"loss": torch.tensor(0.5)} | (own if is_kept else {})
    assert metrics == expected
    file = io.BytesIO()
    torch.save(metrics, file)
    assert file.tell() <= BYTES_IN_PIPE


@pytest.mark.parametrize(
    ("strategy", "warns"), [("ddp_notebook", True), ("auto", False)]
)
def test_a_warning_names_the_folder_if_reports_end_with_their_processes(
    strategy: str, warns: bool, tmp_path: Path
) -> None:
    """If the processes of a run end with it, the callback of the calling process has no
    report, and a warning names the folder of the files.
    """
    report = callback(label_counts=[1] * 20, files=True)
    trainer(tmp_path, report).validate(Model(), loader(), verbose=False)
    run = trainer(tmp_path, devices=1, strategy=strategy)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report.teardown(run, Model(), "validate")
    texts = [str(warning.message) for warning in caught]
    assert (
        any(
            "end with the processes" in text and str(tmp_path / "reports") in text
            for text in texts
        )
        == warns
    )
