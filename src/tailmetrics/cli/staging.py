"""Files that appear all together at the end, or not at all."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from types import TracebackType

from tailmetrics.cli.errors import CommandError

HELD = (signal.SIGINT, signal.SIGTERM)


class Staging:
    """Folders to write into, beside the folders that the files are for, on the same file system.

    Leaving the context removes whatever has not been published.
    """

    def __init__(self) -> None:
        self._folders: dict[Path, Path] = {}

    def __enter__(self) -> Staging:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for staged in self._folders.values():
            rmtree(staged, ignore_errors=True)

    def folder(self, final: Path | str) -> Path:
        """Return a folder whose files :meth:`publish` moves to ``final``, which need not exist yet."""
        final = Path(final).absolute()
        if final not in self._folders:
            above = next(folder for folder in (final, *final.parents) if folder.exists())
            if not above.is_dir():
                raise CommandError(f"{above}: is not a folder", "name a folder to write to.")
            self._folders[final] = Path(mkdtemp(prefix=".tailmetrics-", dir=above))
        return self._folders[final]

    def publish(self) -> list[Path]:
        """Move everything to where it belongs and return the paths; an interrupt waits until that is done."""
        published = []
        with _uninterrupted():
            for final, staged in self._folders.items():
                final.mkdir(parents=True, exist_ok=True)
                for file in sorted(staged.iterdir()):
                    published.append(file.replace(final / file.name))
        return published


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
