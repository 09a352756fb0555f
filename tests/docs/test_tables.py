"""Pages show what a reader sees rendered: tables have headers, and no output stands there that no test compares."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)


def tables(text: str) -> list[list[str]]:
    """Return the tables of a page: lines behind one another that begin with a bar."""
    blocks = re.split(r"\n(?!\|)", FENCED.sub("", text))
    tables = [[line for line in block.splitlines() if line.startswith("|")] for block in blocks]
    return [table for table in tables if table]


def columns(line: str) -> int:
    """Return how many cells a line has; a bar behind a backslash or between backticks is no border."""
    return len(re.sub(r"\\\||`[^`]*`", "", line).strip().strip("|").split("|"))


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_every_table_has_a_header_and_rows_as_wide(page: Path) -> None:
    """Without a header a row is shown as text with bars."""
    for table in tables(page.read_text()):
        assert len(table) > 2, table
        assert re.fullmatch(r"[|:\- ]+", table[1]), table[0]
        assert {columns(line) for line in table} == {columns(table[0])}, table[0]


def test_a_row_without_header_is_found() -> None:
    """A table, a blank line, and a row: the row is a table of its own, which has no header."""
    assert tables("| a |\n|---|\n| b |\n\n| c |\n") == [["| a |", "|---|", "| b |"], ["| c |"]]


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_no_output_is_shown_that_no_test_compares(page: Path) -> None:
    """Blocks of output are `text`, which the tests of code blocks and of the command line compare."""
    assert "```console" not in page.read_text()
