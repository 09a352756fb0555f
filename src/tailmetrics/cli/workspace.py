"""A hidden folder in which files wait until all is done, beside those that they replace."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from shutil import rmtree

from filelock import FileLock, Timeout

from tailmetrics.cli.errors import CommandError
from tailmetrics.cli.wording import WORKSPACE

PATIENCE = 0.5
"""Seconds to wait for a run that is just ending."""


class Workspace:
    """The workspace of one run for some files of a folder; a second run for them is refused while this one lives.

    ``new`` holds the files to come, ``old`` those that they replace while they are being moved. A journal says what is
    being moved, so that the next run puts back what a killed one left half done.

    Attributes:
        folder: Where the files are for.
        new: Where they wait.
        claimed: Names of files of the folder that are this run's: what it does not write disappears with the commit.
    """

    def __init__(self, folder: Path, key: str, claimed: Iterable[str]) -> None:
        self.folder = folder
        self.claimed = list(claimed)
        self._placed: list[str] = []
        self._root = folder / f"{WORKSPACE}{key}"
        self.new, self._old, self._journal = (self._root / name for name in ("new", "old", "journal.json"))
        self._root.mkdir(exist_ok=True)
        self._lock = FileLock(self._root / "lock")
        try:
            self._lock.acquire(timeout=PATIENCE, poll_interval=PATIENCE / 10)
        except Timeout as error:
            hint = "wait until it has ended, or name another place to write to."
            raise CommandError(f"{folder}: another run is writing there", hint) from error
        self._undo()
        self.new.mkdir()

    @property
    def names(self) -> list[str]:
        """Names of the files that wait."""
        return sorted(path.name for path in self.new.iterdir())

    def place(self) -> None:
        """Move the files to their folder, and what they replace out of it.

        Raises:
            CommandError: If one cannot be moved.
        """
        names = self._placed = self.names
        moved = {name: os.path.lexists(self.folder / name) for name in dict.fromkeys([*names, *self.claimed])}
        self._old.mkdir()
        unfinished = self._journal.with_suffix(".new")
        unfinished.write_text(json.dumps(moved))
        unfinished.replace(self._journal)
        for name, exists in moved.items():
            goal = self.folder / name
            try:
                if exists:
                    goal.replace(self._old / name)
                if name in names:
                    (self.new / name).replace(goal)
            except OSError as error:
                hint = "check its permissions, or name another place to write to."
                raise CommandError(f"{goal}: cannot be written: {error.strerror}", hint) from error

    def commit(self) -> list[Path]:
        """Keep what was placed and return the paths."""
        self._journal.unlink()  # from here on nothing is put back
        return [self.folder / name for name in self._placed]

    def close(self) -> None:
        """Put back what was not committed and remove the workspace."""
        self._undo()
        with suppress(OSError):  # an open file cannot be removed everywhere
            (self._root / "lock").unlink(missing_ok=True)
        self._lock.release()
        with suppress(OSError):  # the next run is in it already
            self._root.rmdir()

    def _undo(self) -> None:
        """Put back what a run moved that did not come to its commit, this one or one that was killed.

        It can be killed itself at any point, and be done again.
        """
        moved: dict[str, bool] = json.loads(self._journal.read_text()) if self._journal.exists() else {}
        for name, existed in moved.items():
            if existed and os.path.lexists(self._old / name):
                (self._old / name).replace(self.folder / name)
            elif not existed and not (self.new / name).exists():
                (self.folder / name).unlink(missing_ok=True)
        self._journal.unlink(missing_ok=True)
        self._journal.with_suffix(".new").unlink(missing_ok=True)
        for folder in (self._old, self.new):
            rmtree(folder, ignore_errors=True)
