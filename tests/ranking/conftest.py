"""The C file compiled for tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hatch_build import compile_native
from tailmetrics.ranking import native


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The library in place of the installed one, compiled so that any work is worth a thread and blocks are short."""
    path = tmp_path_factory.mktemp("native") / "_native.so"
    if compile_native(path, ("-DWORTH_A_THREAD=1", "-DBLOCK=1")) is None:
        pytest.skip("no C compiler")
    loaded = native.load(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "_loaded", lambda: loaded)
        assert native.available()
        yield path
