"""A few of the random command lines of ``python -m cli.fuzz``."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.fuzz.trial import tried
from tailmetrics.report import pictures


@pytest.mark.parametrize("number", [*range(3), *(pytest.param(n, marks=pytest.mark.slow) for n in range(3, 12))])
def test_a_random_command_line_gives_the_numbers_of_plain_loops_or_an_error(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs stay as they are, nothing is half written, and numbers are those of the slow readers and of the API."""
    monkeypatch.setattr(pictures, "write_picture", pictures.write_picture)  # which a trial replaces
    assert tried(number, tmp_path).problem == ""
