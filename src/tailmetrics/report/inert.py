"""Names and titles written so that nothing acts upon them: no tag, no line of its own, no formula of a spreadsheet."""

from __future__ import annotations

import html


def in_markdown(text: str) -> str:
    r"""Return a text for one line of Markdown, in which HTML and the ends of cells are characters.

    >>> print(in_markdown("a|b <script>\n# c"))
    a\|b &lt;script&gt; # c
    """
    return html.escape(_on_one_line(text), quote=False).replace("|", r"\|")


def in_cell(text: str) -> str:
    """Return a text for a cell of CSV, which no spreadsheet takes for a formula.

    >>> in_cell("=1+2"), in_cell("recall@5")
    ("'=1+2", 'recall@5')
    """
    text = _on_one_line(text)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _on_one_line(text: str) -> str:
    words = " ".join(text.split())
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in words)
