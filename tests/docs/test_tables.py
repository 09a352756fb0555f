"""Tables of pages have headers, and pages show no output that no test compares."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCED = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)


def tables(text: str) -> list[list[str]]:
    """Return the tables of a page: consecutive lines that start with a bar."""
    blocks = re.split(r"\n(?!\|)", FENCED.sub("", text))
    tables = [
        [line for line in block.splitlines() if line.startswith("|")]
        for block in blocks
    ]
    return [table for table in tables if table]


def columns(line: str) -> int:
    """Return the number of cells of a line; a bar behind a backslash or between
    backticks is no border.
    """
    return len(re.sub(r"\\\||`[^`]*`", "", line).strip().strip("|").split("|"))


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_every_table_has_a_header_and_rows_of_equal_width(page: Path) -> None:
    """Every table of a page has a header, without which it is shown as text, and rows
    of as many cells.
    """
    for table in tables(page.read_text()):
        assert len(table) > 2, table
        assert re.fullmatch(r"[|:\- ]+", table[1]), table[0]
        assert {columns(line) for line in table} == {columns(table[0])}, table[0]


def test_a_row_behind_a_blank_line_is_a_table_of_its_own() -> None:
    """A row behind a blank line is parsed as a table of its own, which has no
    header.
    """
    assert tables("| a |\n|---|\n| b |\n\n| c |\n") == [
        ["| a |", "|---|", "| b |"],
        ["| c |"],
    ]


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_pages_have_no_console_blocks(page: Path) -> None:
    """Pages have no `console` blocks: output is in `text` blocks, which tests
    compare.
    """
    assert "```console" not in page.read_text()
