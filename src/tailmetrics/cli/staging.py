"""Files that appear all together at the end, or not at all."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from tailmetrics.cli.errors import CommandError
from tailmetrics.cli.ownership import is_ours
from tailmetrics.cli.workspace import Workspace

HELD = (signal.SIGINT, signal.SIGTERM)


class Staging:
    """Places to write files into until all is done: beside their goals, on the same file system.

    A goal is refused at once if it is an input, a folder, or a file that tailmetrics has not written. Leaving the
    context removes whatever has not been committed and puts back what was there before.

    Args:
        inputs: Files that are read; no goal may be one of them.

    Attributes:
        made: Folders that were made, the outer one first; they go again with the last rank that has written nothing.
    """

    def __init__(self, inputs: Iterable[str | Path] = ()) -> None:
        self._inputs = [Path(path) for path in inputs]
        self._workspaces: list[Workspace] = []
        self.made: list[Path] = []
        self._committed = False

    def __enter__(self) -> Staging:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with _uninterrupted():
            for workspace in self._workspaces:
                workspace.close()
            for folder in [] if self._committed else reversed(self.made):
                _remove_if_empty(folder)

    def claim(self, folder: str | Path, key: str, names: Iterable[str]) -> Path:
        """Return a folder whose files go to ``folder``, which is made if need be.

        Args:
            folder: Where the files are for.
            key: What is written there; two runs that write the same into one folder do not run at once.
            names: Files that are this run's: those of an earlier run that it does not write again disappear.

        Raises:
            CommandError: If one of them must not be replaced, or another run writes there.
        """
        folder = Path(folder).absolute()
        names = list(names)
        for name in names:
            self.check(folder / name)
        self._make(folder)
        workspace = Workspace(folder, key, names)
        self._workspaces.append(workspace)
        return workspace.new

    def check(self, goal: Path) -> None:
        """Raise unless a file may be written, or replaced."""
        for path in self._inputs:
            if _is_same(goal, path):
                hint = "name another file or folder to write to."
                raise CommandError(f"{goal}: is one of the files that are read, and would be replaced", hint)
        if goal.is_dir():
            raise CommandError(f"{goal}: is a folder, where a file is to be written", "name another place to write to.")
        if os.path.lexists(goal) and not is_ours(goal):
            hint = "name another place to write to, or move that file away."
            raise CommandError(f"{goal}: is there already and was not written by tailmetrics", hint)

    def place(self) -> None:
        """Move everything to where it belongs; until :meth:`commit` it can still be undone.

        Raises:
            CommandError: If a file cannot be moved; everything is then as before.
        """
        for workspace in self._workspaces:
            for name in workspace.names:
                self.check(workspace.folder / name)
        with _uninterrupted():
            for workspace in self._workspaces:
                workspace.place()

    def commit(self) -> list[Path]:
        """Keep what has been placed, and return the paths."""
        with _uninterrupted():
            self._committed = True
            return [path for workspace in self._workspaces for path in workspace.commit()]

    def _make(self, folder: Path) -> None:
        missing = [one for one in (folder, *folder.parents) if not one.exists()]
        above = next(one for one in (folder, *folder.parents) if one.exists())
        if not above.is_dir():
            raise CommandError(f"{above}: is not a folder", "name a folder to write to.")
        for one in reversed(missing):
            one.mkdir(exist_ok=True)
            self.made.append(one)


def _is_same(goal: Path, path: Path) -> bool:
    if goal.exists() and path.exists():
        return goal.samefile(path)
    return goal.resolve() == path.resolve()


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # another run has written into it


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold SIGINT and SIGTERM back until the end."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are handled in the main thread only
        return
    held: list[int] = []
    before = {number: signal.signal(number, lambda caught, _: held.append(caught)) for number in HELD}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for caught in held:
            signal.raise_signal(caught)
