"""Numbers, names and sentences as texts of a report.

Each name is escaped once, for the format of its file.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence

from tailmetrics._arguments import cut
from tailmetrics.significance.interval import DECIMALS, first_decimal

LETTERS = "abcdefghijklmnopqrstuvwxyz"
RAISED = "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖqʳˢᵗᵘᵛʷˣʸᶻ"
"""Letters as superscripts, except q: terminals show no superscript of q."""
_OF_MARKDOWN = re.compile(r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])")
_OF_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "–": "--",
        "−": "$-$",
        "…": r"\ldots{}",
        "✓": r"$\surd$",
        "∞": r"$\infty$",
        "±": r"$\pm$",
        "≤": r"$\leq$",
        "†": r"$\dagger$",
        "·": r"$\cdot$",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        **{
            raised: rf"$^\mathrm{{{letter}}}$"
            for raised, letter in zip(RAISED, LETTERS, strict=True)
        },
        "q": "q",  # RAISED holds no superscript of q, but q itself
        **{character: f"\\{character}" for character in "&%$#_{}"},
    }
)


def number(value: float, place: bool = False, decimals: int = DECIMALS) -> str:
    """Return a value as a table shows it; a place in a list has one decimal at most.

    >>> number(2.0), number(2.0, place=True), number(5141.5, place=True), number(math.nan)
    ('2.0000', '2', '5,141.5', '–')
    """
    if math.isnan(value):
        return "–"
    if place and math.isfinite(value):
        return f"{value:,.1f}".removesuffix(".0")
    if abs(value) >= 100:
        return f"{value:,.1f}"
    return f"{value:.{decimals}f}"


def number_above_zero(value: float) -> str:
    """Return a value as a table shows it, with enough decimals not to be rounded to 0.

    >>> number_above_zero(0.25), number_above_zero(0.00003)
    ('0.2500', '0.00003')
    """
    return number(value, decimals=max(DECIMALS, first_decimal(value)))


AT_MOST = "≤"
"""The sign before a p-value that is an upper bound.

The number of random swaps can give no lower p-value.
"""


def p_value(value: float, at_most: bool = False) -> str:
    """Return a p-value as a table shows it."""
    if math.isnan(value):
        return "–"
    if value < 0.0001:
        return "<0.0001"
    if at_most:
        return f"{AT_MOST}{value:.4f}"
    return f"{value:.4f}"


def signed(value: float, decimals: int = DECIMALS) -> str:
    """Return a difference with its sign."""
    if math.isnan(value):
        return "–"
    return f"{value:+.{decimals}f}"


def ends_with_signs(ends: Sequence[float], decimals: int = DECIMALS) -> str:
    """Return the ends of the interval of a difference; – without them."""
    return " … ".join(signed(end, decimals) for end in ends) or "–"


def count(value: int | None) -> str:
    """Return a count as a table shows it; – for None."""
    return "–" if value is None else f"{value:,}"


def counted(number_of_things: int, singular: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "label"), counted(1200, "label")
    ('1 label', '1,200 labels')
    """
    plural = "" if number_of_things == 1 else "s"
    return f"{number_of_things:,} {singular}{plural}"


def with_interval(
    value: float, ends: Sequence[float], place: bool = False, decimals: int = DECIMALS
) -> str:
    """Return a value with its interval.

    The interval is ± if both rounded sides are equal, and else [low, high].

    >>> with_interval(0.5, (0.41, 0.59)), with_interval(0.0, (0.0, 0.168))
    ('0.5000 ±.0900', '0.0000 [.0000, .1680]')
    """
    text = number(value, place, decimals)
    low, high = ends
    below = number(value - low, place, decimals)
    above = number(high - value, place, decimals)
    if below == above and decimals == DECIMALS:
        return f"{text} ±{without_zero(above)}"
    return f"{text} {between(low, high, place, decimals)}"


def between(
    low: float, high: float, place: bool = False, decimals: int = DECIMALS
) -> str:
    """Return the two ends of a range, as ``[.0249, .1395]``."""
    return (
        f"[{without_zero(number(low, place, decimals))}, "
        f"{without_zero(number(high, place, decimals))}]"
    )


def without_zero(text: str) -> str:
    """Return a number without its leading 0.

    Eleven such numbers fit side by side on a phone.
    """
    return re.sub(r"^0(?=\.)", "", text)


def brief(value: float, place: bool = False, most_decimals: int = 3) -> str:
    """Return a value as a short text for the room above a bar.

    A place in a list that is a whole number has no decimals.
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if place and value == round(value):
        return rounded(round(value))
    if 0 < size < 0.0005:
        return f"{value:.0e}"
    for limit, decimals in ((1, 3), (10, 2), (100, 1), (1000, 0)):
        if size < limit:
            return f"{value:.{min(decimals, most_decimals)}f}"
    return rounded(round(value))


def short_name(bucket: str) -> str:
    """Return a bucket's name for the room under a bar: ``10`` for ``decile_10``."""
    return cut(bucket.removeprefix("decile_").removeprefix("quantile_"), 10)


def rounded(value: int) -> str:
    """Return a count as a short text for the room under a bar."""
    for unit, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if abs(value) >= max(unit, 10_000):
            return f"{value / unit:.1f}".removesuffix(".0") + letter
    return str(value)


def sentences(*parts: str) -> str:
    """Return the parts joined as sentences.

    Each sentence begins with a capital letter, unless it begins with a key.
    """
    texts = []
    for part in parts:
        if not part:
            continue
        first_word = part.split()[0].rstrip(",;:")
        text = part
        if first_word.isalpha() and first_word != "unseen":
            text = part[0].upper() + part[1:]
        texts.append(text.removesuffix(".") + ".")
    return " ".join(texts)


def split(
    key: str, groups: Iterable[str], buckets: Iterable[str], postfix: str = ""
) -> tuple[str, str, str]:
    """Return metric, group and bucket of a key.

    The group is "" for all rows, and the bucket is "" for all labels.

    Names of groups and buckets may hold "/", so the known names decide.
    The postfix of a collection, which ends every key, becomes part of the metric.

    >>> split("val/recall@10/en/decile_1", ["en"], ["decile_1"])
    ('val/recall@10', 'en', 'decile_1')
    """
    rest, bucket = _without_name(key.removesuffix(postfix), buckets)
    rest, group = _without_name(rest, groups)
    return f"{rest}{postfix}", group, bucket


def _without_name(key: str, names: Iterable[str]) -> tuple[str, str]:
    """Return a key without the longest name that ends it, and this name, or ""."""
    longest = ""
    for name in names:
        if len(name) > len(longest) and key.endswith(f"/{name}"):
            longest = name
    if not longest:
        return key, ""
    return key.removesuffix(f"/{longest}"), longest


def printable(text: str) -> str:
    r"""Return a text on one line, with unprintable characters as escapes like ``\x1b``.

    >>> print(printable("a\x1b[31mb\n# c"))
    a\x1b[31mb # c
    """
    return _spelled_out(" ".join(text.split()))


def _spelled_out(text: str) -> str:
    """Return a text with unprintable characters as escapes; blanks of any kind stay."""
    letters = []
    for letter in text:
        is_blank = unicodedata.category(letter) == "Zs"
        if not (letter.isprintable() or is_blank):
            letter = letter.encode("unicode_escape").decode()
        letters.append(letter)
    return "".join(letters)


def in_markdown(text: str) -> str:
    r"""Return a text escaped for one line of Markdown.

    The text makes no HTML, link, picture, formula or end of a cell.

    >>> print(in_markdown("a|b <script>\n# ![c](http://d) e_f _g_ ~~h~~ $i$"))
    a\|b &lt;script&gt; # !\[c\](http://d) e_f \_g\_ \~\~h\~\~ \$i\$
    """
    return _OF_MARKDOWN.sub(r"\\\g<0>", html.escape(printable(text), quote=False))


def in_latex(text: str) -> str:
    r"""Return a text escaped for LaTeX.

    >>> in_latex("a_b 50 %"), in_latex(brief(-math.inf))
    ('a\\_b 50 \\%', '$-$$\\infty$')
    """
    return printable(text).translate(_OF_LATEX)


def in_cell(value: object) -> object:
    r"""Return a value for a cell of CSV, in which no text is a formula.

    Numbers have full precision, and NaN and None are empty cells.

    A name keeps its blanks, so that it is equal to the name that was given; two names
    stay two.

    >>> in_cell("=1+2"), in_cell(" recall  @5"), in_cell(-0.5), in_cell(math.nan)
    ("'=1+2", ' recall  @5', -0.5, '')
    >>> print(in_cell("a\tb"))
    a\tb
    """
    if isinstance(value, str):
        text = _spelled_out(value)
        if text.lstrip().startswith(("=", "+", "-", "@")):
            return f"'{text}"
        return text
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return value
