"""The C file: bits of halves, what it refuses, and whether it is used; its steps are held to loops in test_kernels.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from hatch_build import compile_native
from tailmetrics.ranking import native
from tailmetrics.ranking._hits import Hits
from tailmetrics.testing import show_versions

pytestmark = pytest.mark.usefixtures("library")


def _best(scores: Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Values and ids of the best of each row by a stable sort of numpy, NaN first."""
    numbers = scores.to(torch.float64).numpy()
    ids = np.argsort(np.where(np.isnan(numbers), -np.inf, -numbers), axis=1, kind="stable")
    order = np.argsort(~np.isnan(np.take_along_axis(numbers, ids, 1)), axis=1, kind="stable")
    ids = np.take_along_axis(ids, order, 1)
    return np.take_along_axis(numbers, ids, 1)[:, : k + 1], ids[:, :k]


def test_every_half_is_read_as_the_number_it_is() -> None:
    """All 65,536 patterns of bits of either half type, subnormal ones and NaN included, sorted."""
    every = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)[None]
    for dtype in (torch.float16, torch.bfloat16):
        scores = every.view(dtype)
        values, ids, *_ = native.top_k(scores, 2**16, 1)
        wanted, wanted_ids = _best(scores, 2**16)
        np.testing.assert_array_equal(values.numpy(), wanted)
        np.testing.assert_array_equal(ids.numpy(), wanted_ids)


def test_no_memory_behind_a_table_is_read() -> None:
    """Ids that are no column of a mask, more labels than a row may have, labels and buckets without a place are refused."""
    ids, mask = torch.tensor([[3, 30]]), torch.ones(1, 30, dtype=torch.bool)
    starts, nothing = torch.tensor([0, 2]), Hits(torch.empty(1, 0).long(), torch.empty(1, 0).long(), None)
    for call in (
        lambda: native.hits(ids, mask, 30, 1),
        lambda: native.hits(ids, ids.view(-1), 1, 1, starts),
        lambda: native.within_buckets(ids, torch.zeros(9, dtype=torch.uint8), 1, nothing, 1),
        lambda: native.within_buckets(ids, torch.full((31,), 4, dtype=torch.int32), 4, nothing, 1),
    ):
        with pytest.raises(IndexError, match="larger than the labels"):
            call()


def test_check_of_what_holds_no_id() -> None:
    """No rows, no places, and nothing but -1, which may stand any number of times."""
    for shape in ((0, 4), (4, 0)):
        assert native.check_lists(torch.empty(shape, dtype=torch.int64), 2) == (0, -1, None, None)
    assert native.check_lists(torch.full((9, 5), -1), 2) == (-1, -1, None, None)


def test_versions_say_which_form_reads_batches(capsys: pytest.CaptureFixture[str]) -> None:
    """A report of a bug names the versions and the form."""
    show_versions()
    lines = capsys.readouterr().out.splitlines()
    assert f"torch {torch.__version__}" in lines
    assert lines[-1].startswith(f"batches on the CPU are read in {'C' if native.available() else 'torch'} (")


def test_a_library_of_another_text_is_not_used(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one that is not there, nor what is no library: the forms of torch run, and the description says why."""
    assert native.load(library)[1] == f"C ({library})"
    (tmp_path / "_native.so").write_bytes(b"no library")
    assert native.load(tmp_path / "_native.so")[0] is None
    assert native.load(tmp_path / "nothing.so") == (None, "torch (installed without a C compiler)")
    monkeypatch.setattr(native, "crc32", lambda text: 1)
    assert native.load(library) == (None, "torch (_native.c has changed since it was compiled: make native)")


def test_without_a_compiler_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether there is none or it fails; a library that stood there does not stay behind."""
    for compiler, reason in (("no-such-compiler", "No such file"), ("false", "failed")):
        (tmp_path / "_native.so").write_bytes(b"old")
        monkeypatch.setenv("CC", compiler)
        assert compile_native(tmp_path / "_native.so") is None
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert reason in said
        assert not list(tmp_path.iterdir())
