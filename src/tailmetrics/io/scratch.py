"""Folders for files that are needed for a while."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from weakref import finalize


def folder_for(owner: Any) -> Path:
    """Return a new folder beneath ``TMPDIR`` that goes with its owner, or with the process."""
    folder = Path(mkdtemp(prefix="tailmetrics-"))
    finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return folder
