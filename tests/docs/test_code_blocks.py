"""README and documentation are true: their Python runs from top to bottom, and prints what they show."""

import contextlib
import io
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import processes

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE
)
ELSEWHERE = {"docs/offline.md"}
"""Pages whose commands have to run between their Python: tests/cli/test_offline_document.py runs both."""


def pages() -> list[str]:
    """Return the pages that show Python, from the root."""
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    shown = [path.relative_to(ROOT).as_posix() for path in paths if "```python" in path.read_text()]
    return [page for page in shown if page not in ELSEWHERE]


def blocks(text: str) -> Iterator[tuple[int, str, str | None]]:
    """Yield line number, code and the output shown, if any, of each Python block: the text block right behind it."""
    found = list(BLOCK.finditer(text))
    for block, following in zip(found, [*found[1:], None], strict=True):
        if block["language"] == "python":
            adjacent = following is not None and not text[block.end() : following.start()].strip()
            shown = (
                following["text"] if following is not None and adjacent and following["language"] == "text" else None
            )
            yield text.count("\n", 0, block.start()) + 2, block["text"], shown


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.parametrize("page", pages())
def test_every_block_runs_and_prints_what_is_shown(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """State carries over within a page; a text block right behind a Python block is what that block prints."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for line, code, shown in blocks((ROOT / page).read_text()):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Lightning comments on its own settings; ours are errors elsewhere
            exec(compile("\n" * (line - 1) + code, ROOT / page, "exec"), names)
        if shown is not None:
            assert printed.getvalue().strip() == shown.strip(), f"{page}:{line}"


def test_a_wrong_output_and_its_place_are_found() -> None:
    """The reader of pages sees line number, code and output, and takes no distant block for one."""
    page = "# T\n\n```python\nprint(1)\n```\n\n```text\n2\n```\n\n```python\nprint(3)\n```\n\nSo.\n\n```text\n4\n```\n"
    assert list(blocks(page)) == [(4, "print(1)\n", "2\n"), (12, "print(3)\n", None)]


@pytest.mark.slow
def test_the_distributed_page_prints_the_same_on_two_processes(tmp_path: Path) -> None:
    """Its first block is a script for torchrun, as it says; here two processes have the environment that torchrun gives."""
    (_, script, shown), *_ = blocks((ROOT / "docs" / "distributed.md").read_text())
    assert "".join(processes.printed_by_ranks(script, tmp_path)) == shown
