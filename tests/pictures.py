"""Blank pictures of reports, for tests about something else: drawing takes longer than
everything else.
"""

from typing import Any

import pytest


def _draw_nothing(figure: Any, renderer: Any) -> None:
    """Draw nothing: a white image is written."""


def _small_picture(shown: Any) -> Any:
    """Return a small empty picture."""
    from matplotlib.figure import Figure

    return Figure(figsize=(1, 1))


def leave_blank(patched: pytest.MonkeyPatch) -> None:
    """Give each report a small picture of nothing, and let matplotlib draw on no other
    one.
    """
    pytest.importorskip("matplotlib")
    patched.setattr("tailmetrics.report.pictures.picture", _small_picture)
    patched.setattr("matplotlib.figure.Figure.draw", _draw_nothing)


@pytest.fixture
def blank_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave pictures blank; tests/report draws all that a report can hold."""
    leave_blank(monkeypatch)


@pytest.fixture(autouse=True)
def most_pictures_blank(request: pytest.FixtureRequest) -> None:
    """Leave pictures blank in folders whose conftest.py imports this fixture, except in
    tests marked ``drawn``.
    """
    if request.node.get_closest_marker("drawn") is None:
        request.getfixturevalue("blank_pictures")
