"""Whatever starts the processes, the callback ends a run with its values in ``trainer.callback_metrics``.

What ``ddp`` starts is in test_two_processes.py.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SCRIPT = """
import io, sys, warnings
import torch
from counted import Given, Model, callback, loader, trainer

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    run = trainer(sys.argv[2], callback(label_counts=[1] * 20), devices=2, strategy=sys.argv[1])
    loaders = [loader(), loader(sampler=Given([7]))]
    run.validate(Model(), loaders, verbose=False)
    run.fit(Model(), loader(), loaders)
    file = io.BytesIO()
    torch.save(dict(run.callback_metrics), file)
    file.seek(0)
    values = torch.load(file, weights_only=True)
    if run.is_global_zero:
        print({type(key) for key in values} == {str}, float(values["val/recall@5/decile_9/dataloader_idx_0"]))
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["ddp_spawn", "ddp_notebook"])
def test_a_run_of_each_launcher_ends_with_its_values(launcher: str, tmp_path: Path) -> None:
    """A validation and a fit on two processes with two loaders; what was logged is saved, and loaded as weights only."""
    script = tmp_path / "run.py"
    script.write_text(f"import sys; sys.path[:0] = [{str(HERE)!r}, {str(HERE.parent)!r}]\n{SCRIPT}")
    ran = subprocess.run(
        [sys.executable, script, launcher, tmp_path], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout.splitlines()[-1] == "True 1.0"
