"""The folder of a run: one for each Trainer, whatever its logger."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any
from warnings import warn
from weakref import WeakKeyDictionary

_folders: WeakKeyDictionary[Any, Path | None] = WeakKeyDictionary()
"""By Trainer, so that all callbacks of one write into one folder; not in the callback, which may be pickled."""


def run_folder(trainer: Any) -> Path | None:
    """Return where the run of a Trainer keeps its files, None where that is no folder; for the first process only.

    The log directory of the first logger, else ``name/version`` in its ``save_dir``, where Lightning keeps the
    checkpoints of the run too, else a new ``lightning_logs/version_0``, ``version_1`` and so on.
    """
    if trainer not in _folders:
        _folders[trainer] = _folder_of(trainer)
    return _folders[trainer]


def _folder_of(trainer: Any) -> Path | None:
    logger = trainer.loggers[0] if trainer.loggers else None
    root = str(getattr(logger, "log_dir", None) or getattr(logger, "save_dir", None) or trainer.default_root_dir)
    if "://" in root:
        warn(
            f"HeadToTailReport: reports are not written, because {root} is no local folder; give the Trainer a local "
            "default_root_dir or a logger with a local save_dir, or pass files=False.",
            stacklevel=2,
        )
        return None
    if getattr(logger, "log_dir", None) is not None:
        return Path(root)
    version = None if logger is None else _version(logger)
    return _next_version(Path(root, "lightning_logs")) if version is None else Path(root, *version)


def _version(logger: Any) -> tuple[str, str] | None:
    """Return the names of a logger and of its run; some know it only once it has begun."""
    logger.experiment  # noqa: B018 - a property that begins the run
    version = logger.version
    if version is None:
        return None
    return str(logger.name), version if isinstance(version, str) else f"version_{version}"


def _next_version(logs: Path) -> Path:
    """Make and return the first folder that is not there yet."""
    logs.mkdir(parents=True, exist_ok=True)
    for number in count():
        try:
            (logs / f"version_{number}").mkdir()
        except FileExistsError:
            continue
        return logs / f"version_{number}"
    raise AssertionError("unreachable")
