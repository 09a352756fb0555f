"""Keeps results as JSON, and writes tables, figures and the page of the documentation from them."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from string import Template
from typing import Any

import torch

from benchmarks import growth, plots, tables
from benchmarks.measure import Settings

HERE = Path(__file__).parent
PEERS = ("torchmetrics", "torcheval", "scikit-learn", "ranx", "numba", "pytrec-eval-terrier", "napkinxc")
PACKAGES = ("tailmetrics", "torch", "numpy", "scipy", *PEERS)
SECTIONS = ("demands", "peers", "growth", "device")

Results = dict[str, dict[str, Any]]


def machine(settings: Settings) -> dict[str, Any]:
    """Return what the numbers depend on."""
    facts: dict[str, Any] = {
        "time": datetime.now(timezone.utc).isoformat(timespec="minutes"),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 2),
        "clock": settings.clock,
        "device": settings.device,
        "python": platform.python_version(),
    }
    if settings.device.startswith("cuda"):
        facts["device"] = torch.cuda.get_device_name(settings.device)
    return facts | {"packages": {name: _version(name) for name in PACKAGES}}


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def as_line(result: Any) -> dict[str, Any]:
    """Return a result as JSON holds it."""
    return asdict(result) | ({"met": result.met} if hasattr(result, "met") else {})


def keep(folder: Path, measured: Results) -> Results:
    """Put sections in place of those measured before, and return all there are."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.json"
    results: Results = (json.loads(path.read_text()) if path.exists() else {}) | measured
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    return results


def write(folder: Path, results: Results, page: Path | None) -> str:
    """Write ``table.md`` and the figures, and the page if asked for; return the text of the tables."""
    lines = {name: results.get(name, {}).get("lines", []) for name in SECTIONS}
    parts = {name: _section(name, results) for name in SECTIONS}
    parts["summary"] = tables.summary(lines["demands"], lines["peers"])
    text = "\n\n".join(part for part in (parts["summary"], *(parts[name] for name in SECTIONS)) if part) + "\n"
    (folder / "table.md").write_text(text)
    if lines["demands"] or lines["peers"]:
        plots.ratios(lines["demands"], lines["peers"], folder / "ratios.png")
    if lines["growth"]:
        plots.growth(lines["growth"], folder / "growth.png")
    if page is not None:
        _write_page(page, folder, parts)
    return text


def _section(name: str, results: Results) -> str:
    if name not in results:
        return tables.NOT_YET.format(name if name != "device" else "device --device cuda")
    facts = results[name]["machine"]
    packages = ", ".join(f"{package} {number}" for package, number in facts["packages"].items())
    where = f"{facts['processor']}, {facts['cores']} cores, {facts['threads']} threads"
    if facts["device"] != "cpu":
        where = f"{facts['device']} beside {where}"
    clock = "CPU time" if facts["clock"] == "cpu" else "the wall clock"
    head = f"{facts['time']}; {where}; load {facts['load']} at the start; ratios by {clock}; {packages}."
    return f"{getattr(tables, name)(results[name]['lines'])}\n\n{head}"


def _write_page(page: Path, folder: Path, parts: dict[str, str]) -> None:
    case = growth.Case()
    sizes = f"otherwise {case.rows:,} rows, {case.labels:,} labels, depth {case.depth}, {case.metrics} metrics"
    images = page.parent / "images"
    images.mkdir(parents=True, exist_ok=True)
    for name in ("ratios.png", "growth.png"):
        if (folder / name).exists():
            (images / name).write_bytes((folder / name).read_bytes())
    page.write_text(Template((HERE / "page.md").read_text()).substitute(parts, sizes=sizes))


def folders(settings: Settings) -> tuple[Path, Path | None]:
    """Return where results go, and the page that is written from them; tiny sizes are kept away from both."""
    root = HERE.parent
    if settings.quick:
        return root / "runs" / "benchmarks-quick", None
    if settings.device != "cpu":
        return HERE / "results" / settings.device.replace(":", "-"), None
    return HERE / "results", root / "docs" / "performance.md"
