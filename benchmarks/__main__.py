"""Measure speed and memory: ``python -m benchmarks [all | demands | peers | growth | device]``."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from benchmarks import accelerator, demands, growth, peers, report
from benchmarks.measure import Settings

SECTIONS: dict[str, Callable[[Settings], Iterator[Any]]] = {
    "demands": demands.run,
    "peers": peers.run,
    "growth": growth.run,
    "device": accelerator.run,
}


def main() -> None:
    options = _parser().parse_args()
    warnings.simplefilter("ignore")  # peers warn of their conventions, thousands of times
    if options.threads:
        torch.set_num_threads(options.threads)
    settings = Settings(options.quick, options.device, options.seconds, options.clock, options.processes)
    folder, page = report.folders(settings)
    if options.out is not None:
        folder, page = options.out, None
    measured = {name: _measure(name, settings) for name in _sections(options.what, settings)}
    print(report.write(folder, report.keep(folder, measured), page))
    print(f"written to {folder}{f' and {page}' if page else ''}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("what", nargs="?", default="all", choices=["all", *SECTIONS], help="what to measure")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: see that all runs; the numbers say nothing")
    parser.add_argument("--device", default="cpu", help="where tensors live, such as cuda")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="what ratios are of")
    parser.add_argument("--threads", type=int, help="threads of torch; all cores if not given")
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each comparison")
    parser.add_argument("--processes", type=int, default=3, help="in how many processes bounded memory is measured")
    parser.add_argument("--out", type=Path, help="where results go instead; the documentation stays as it is")
    return parser


def _sections(what: str, settings: Settings) -> list[str]:
    """Return what is to be measured; the demands are on the CPU, the share of bandwidth is of other devices."""
    if what != "all":
        return [what]
    return ["demands", "peers", "growth"] if settings.device == "cpu" else ["device", "peers", "growth"]


def _measure(name: str, settings: Settings) -> dict[str, Any]:
    facts = report.machine(settings)
    start = perf_counter()
    lines = []
    for result in SECTIONS[name](settings):
        lines.append(report.as_line(result))
        print(f"{perf_counter() - start:6.1f} s  {name}: {_short(lines[-1])}", flush=True)
    return {"machine": facts, "seconds": round(perf_counter() - start, 1), "lines": lines}


def _short(line: dict[str, Any]) -> str:
    return " · ".join(f"{value:.4g}" if isinstance(value, float) else str(value) for value in line.values() if value)


if __name__ == "__main__":
    main()
