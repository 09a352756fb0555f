"""Measure speed beside other libraries: ``python -m benchmarks [peers | device]``.

``python -m benchmarks claims`` simulates how often intervals and tests err.
``python -m benchmarks.cores``, ``.memory``, ``.costs``, ``.files`` and ``.states``
measure the rest.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import warnings
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from benchmarks import accelerator, claims, peers
from benchmarks.measure import Settings
from benchmarks.tables import PAGE, replace_table

PACKAGES = (
    "tailmetrics",
    "torch",
    "numpy",
    "scipy",
    "torchmetrics",
    "torcheval",
    "scikit-learn",
    "ranx",
)
PACKAGES += ("numba", "pytrec-eval-terrier", "napkinxc")


def main() -> None:
    """Measure, print, and write the table of README.md, except with ``--quick``."""
    if sys.argv[1:2] == ["claims"]:
        claims.main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "what",
        nargs="?",
        default="peers",
        choices=["peers", "device"],
        help="what to measure",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="tiny sizes: see that all runs; the numbers say nothing",
    )
    parser.add_argument(
        "--device", default="cpu", help="where tensors live, such as cuda"
    )
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="time for each comparison"
    )
    options = parser.parse_args()
    # peers warn of their conventions, thousands of times
    warnings.simplefilter("ignore")
    settings = Settings(options.quick, options.device, options.seconds)
    facts = machine(settings.device)
    text = {"peers": peers.table, "device": accelerator.table}[options.what](settings)
    print(f"{text}\n\n{facts}")
    if not options.quick and (options.what == "device" or settings.device == "cpu"):
        replace_table(PAGE, f"benchmarks {options.what}", f"{text}\n\n{facts}")


def machine(device: str = "cpu", packages: Sequence[str] = PACKAGES) -> str:
    """Return what the numbers depend on, in a sentence."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [
        line.split(":")[1].strip() for line in lines if line.startswith("model name")
    ]
    where = f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores"
    if device.startswith("cuda"):
        where = f"{torch.cuda.get_device_name(device)} beside {where}"
    time = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    load = (
        f"load {os.getloadavg()[0]:.1f} at the start"
        if hasattr(os, "getloadavg")
        else ""
    )
    return (
        f"{time}; {where}; {load}; "
        f"{', '.join(f'{name} {_version(name)}' for name in packages)}."
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    main()
