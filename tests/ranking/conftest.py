"""The C file, compiled for tests."""

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from hatch_build import FLAGS, SOURCE, compile_native
from tailmetrics.ranking import native

OPTIONS = ("-DWORTH_A_THREAD=1", "-DBLOCK=1")


@pytest.fixture(scope="module")
def library(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Return a library in place of the installed one, compiled so that any work is
    worth a thread and blocks are short.

    A library that an earlier run has compiled from the same text in the same way is
    used again.
    """
    options = [
        *FLAGS,
        *OPTIONS,
        *(os.environ.get(name, "") for name in ("CC", "CFLAGS", "TAILMETRICS_NATIVE")),
    ]
    key = sha256(SOURCE.read_bytes() + repr(options).encode()).hexdigest()[:16]
    cache = getattr(request.config, "cache", None)  # not in a run without one
    folder = (
        tmp_path_factory.mktemp("native")
        if cache is None
        else cache.mkdir(f"native-{key}")
    )
    path = folder / "_native.so"
    if not path.exists() and compile_native(path, OPTIONS) is None:
        pytest.skip("no C compiler")
    loaded = native.load(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "_loaded", lambda: loaded)
        assert native.available()
        yield path
