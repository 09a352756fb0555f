"""Configs that come with the library."""

from __future__ import annotations

from pathlib import Path

import tailmetrics
from tailmetrics.cli.errors import CommandError


def preset_path(name: str) -> Path:
    """Return the path of a preset by name.

    Raises:
        CommandError: If there is none of this name.
    """
    presets = preset_paths()
    if name not in presets:
        raise CommandError(f"--preset {name}: there is no such preset", f"choose one of {', '.join(presets)}.")
    return presets[name]


def preset_paths() -> dict[str, Path]:
    """Return the presets by name: a config is one if it is a list of metrics."""
    package = Path(tailmetrics.__file__).parent
    # inside the package when installed, beside src in a checkout
    folder = next((folder for folder in (package / "configs", package.parents[1] / "configs") if folder.is_dir()), None)
    paths = sorted(folder.glob("*.yaml")) if folder is not None else []
    return {
        path.stem: path
        for path in paths
        if any(line == "metrics:" for line in path.read_text(encoding="utf-8").splitlines())
    }
