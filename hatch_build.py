"""Compiles the C file of the ranking when the package is built or installed.

Without a compiler, the package is built without the compiled file.

Also ``make native``: ``python hatch_build.py`` compiles it anew beside its source.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import sysconfig
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

SOURCE = Path(__file__).parent / "src/tailmetrics/ranking/_native.c"

WINDOWS = sys.platform == "win32"

LIBRARY = SOURCE.with_suffix(".dll" if WINDOWS else ".so")
"""Where native.py looks for it."""

FLAGS = (
    "-std=c11",
    "-O3",
    "-fno-fast-math",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-shared",
)
"""Options that change no number and run on each processor, unlike -march=native."""

# MinGW, which GitHub's runners have: the library needs no other one of MinGW; its bytes
# hold no time and no folder.
MINGW = ("-static-libgcc", "-Wl,--no-insert-timestamp,--disable-auto-image-base")
FLAGS += MINGW if WINDOWS else ("-fPIC", "-pthread")


def compile_native(
    library: Path = LIBRARY, options: tuple[str, ...] = ()
) -> Path | None:
    """Compile the C file with the system's compiler or ``$CC``, and with ``$CFLAGS``.

    The system's compiler is ``cc``, on Windows ``gcc``.

    Args:
        library: The file to make.
        options: Further options of the compiler.

    Returns:
        The library; None, after a line that says why, where it could not be made.
    """
    digest = library.with_suffix(".sha256")
    for old in (library, digest):
        old.unlink(missing_ok=True)
    if os.environ.get("TAILMETRICS_NATIVE") == "0":
        return _without("TAILMETRICS_NATIVE=0")
    here = ("-mmacosx-version-min=11.0",) if sys.platform == "darwin" else ()
    # first, so that they change no number either
    given = shlex.split(os.environ.get("CFLAGS", ""))
    compiler = shlex.split(os.environ.get("CC", "gcc" if WINDOWS else "cc"))
    with TemporaryDirectory(dir=library.parent) as folder:
        part = Path(folder) / library.name  # a library of Windows holds its name
        command = [
            *compiler,
            *given,
            *FLAGS,
            *here,
            *options,
            "-o",
            str(part),
            str(SOURCE),
            "-lm",
        ]
        try:
            ran = subprocess.run(command, text=True, capture_output=True)
        except OSError as error:
            return _without(f"{command[0]}: {error.strerror}")
        if ran.returncode:
            return _without(
                (ran.stderr.strip() or f"{command[0]} failed").splitlines()[0]
            )
        # native.py loads only what is whole, and of this text: the system ends a
        # process that loads half a library
        digest.write_text(sha256(part.read_bytes() + SOURCE.read_bytes()).hexdigest())
        part.replace(library)  # as a whole: another process may load it
    return library


def _without(reason: str) -> None:
    print(
        (
            f"tailmetrics: {SOURCE.name} was not compiled ({reason}); torch does its "
            "steps, more slowly."
        ),
        file=sys.stderr,
    )


def wheel_tag() -> str:
    """Return the tag of a wheel with the library: any Python 3, this platform."""
    # Python itself may be of another version and for two kinds of processors; the
    # library is of these
    here = (
        f"macosx_11_0_{platform.machine()}"
        if sys.platform == "darwin"
        else sysconfig.get_platform()
    )
    return f"py3-none-{here.replace('-', '_').replace('.', '_')}"


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # make native: nothing of hatchling is installed
    pass
else:

    class NativeBuildHook(BuildHookInterface):
        """Compiles before a wheel is made, of the editable kind too."""

        def initialize(self, version: str, build_data: dict[str, object]) -> None:
            """Compile, and say for which platform the wheel is."""
            if compile_native() is not None:
                build_data["pure_python"] = False
                build_data["tag"] = wheel_tag()
                files = LIBRARY, LIBRARY.with_suffix(".sha256")
                build_data["artifacts"] = [
                    file.relative_to(Path(__file__).parent).as_posix() for file in files
                ]


if __name__ == "__main__":
    sys.exit(compile_native(options=tuple(sys.argv[1:])) is None)
