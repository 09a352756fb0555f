"""The page of a report is correct, self-contained and readable in both colour schemes;
a browser checks it if installed.
"""

import math
import re
from html.parser import HTMLParser
from importlib.resources import files as package_files

import pytest

from browser import CHROMIUM, running
from report.simple import report_of_values
from tailmetrics.report import BucketRow, ComparisonReport
from tailmetrics.report.charts import run_look, shade
from tailmetrics.report.formatting import number
from tailmetrics.report.pages import fragment, page
from tailmetrics.significance import Comparison, Interval, PValues

VOID = {"meta", "link", "line", "rect", "polygon", "polyline", "wbr"}
WIDTHS = (320, 360, 768, 1280)


class Tags(HTMLParser):
    """The elements of a document with their attributes, and its text; unbalanced tags
    raise an error.
    """

    def __init__(self, text):
        super().__init__()
        self.elements, self.text, self._open = [], "", []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self._open.pop() == tag, tag

    def handle_data(self, data):
        if "style" not in self._open:
            self.text += data

    def all(self, *tags):
        return [attributes for tag, attributes in self.elements if tag in tags]


@pytest.fixture(scope="module")
def parsed(report):
    return Tags(page(report))


def styles(name):
    return (package_files("tailmetrics") / "report" / name).read_text()


def luminance(colour):
    """Return the relative luminance as WCAG 2.2 defines it."""
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first, second):
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def schemes():
    """Return the custom properties of the page in light and dark."""
    light, dark = styles("page.css").split(
        "@media screen and (prefers-color-scheme: dark)"
    )
    colours = [
        dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6})", part)) for part in (light, dark)
    ]
    assert colours[0].keys() == colours[1].keys()
    return dict(zip(("light", "dark"), colours, strict=True))


def test_every_value_and_count_is_on_the_page(report, parsed):
    """The page shows each value, each warning, and the labels and positives of each
    bucket.
    """
    text = " ".join(parsed.text.split())
    for key, value in report.overall.items():
        assert f"{key}{number(value, report.facts(key).is_place)}" in text
    (table,) = (
        section for section in report.document().sections if section.name == "buckets"
    )
    assert table.header == [
        "bucket",
        "labels",
        "positives",
        "rows with a relevant label",
        *report.by_bucket,
    ]
    overall_cells = [
        number(report.overall[metric], report.facts(metric).is_place)
        for metric in report.by_bucket
    ]
    assert table.lines[0] == ["all", "20", "60", "60", *overall_cells]
    for row, line in zip(report.buckets, table.lines[1:], strict=True):
        cells = [
            number(values[row.name], report.facts(metric).is_place)
            for metric, values in report.by_bucket.items()
        ]
        # each row has one label, so that a bucket has as many rows as positives
        assert line == [
            row.name,
            f"{row.labels:,}",
            *[f"{row.positives:,}"] * 2,
            *cells,
        ]
    for line in (line for part in table.parts for line in part.lines):
        assert "".join(line) in text
    assert dict.fromkeys(
        name for part in table.parts for name in part.header
    ) == dict.fromkeys(table.header)
    for warning in report.warnings:
        assert warning in text


@pytest.mark.parametrize("render", [page, fragment])
def test_pages_load_nothing_and_run_no_scripts(either, render):
    """Pages and fragments hold no address, script or foreign style sheet, and no
    element from a name.
    """
    text = render(either)
    tags = Tags(text)
    assert "http" not in text
    assert "<b>" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert not tags.all("script", "iframe", "img", "object", "form")
    for _, attributes in tags.elements:
        assert not [name for name in attributes if name.startswith("on")]
        assert attributes.get("href", "data:,").startswith(("data:,", "#"))
        assert "src" not in attributes
        # a notebook could hold the same id twice
        assert render is page or "id" not in attributes


def test_the_structure_of_a_page_is_accessible(either):
    """A page has one first heading, no skipped level, a language, unique ids, existing
    references and headers with a scope.
    """
    parsed = Tags(page(either))
    headings = [tag for tag, _ in parsed.elements if re.fullmatch(r"h\d", tag)]
    assert headings[0] == "h1"
    assert set(headings[1:]) == {"h2"}
    assert parsed.all("html") == [{"lang": "en"}]
    assert {
        "name": "viewport",
        "content": "width=device-width, initial-scale=1",
    } in parsed.all("meta")
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    references = {
        attributes["aria-labelledby"]
        for _, attributes in parsed.elements
        if "aria-labelledby" in attributes
    }
    assert references <= set(ids)
    assert all(attributes["scope"] in ("row", "col") for attributes in parsed.all("th"))
    for _, attributes in parsed.elements:
        if attributes.get("tabindex"):
            assert attributes["role"] in ("region", "group")
            assert attributes.get("aria-label") or attributes.get("aria-labelledby")


def test_every_plot_has_an_alternative_text(report, parsed):
    """The alternative text of a plot gives each bucket with its value."""
    drawings = parsed.all("svg")
    images = [
        attributes["aria-label"]
        for attributes in drawings
        if attributes.get("role") == "img"
    ]
    assert len(images) == len(report.by_bucket)
    for description, (metric, values) in zip(
        images, report.by_bucket.items(), strict=True
    ):
        assert description.startswith(metric)
        for bucket, value in values.items():
            assert (
                f"{bucket} {'no value' if math.isnan(value) else number(value, report.facts(metric).is_place)}"
                in description
            )
        assert (
            f"all labels {number(report.overall[metric], report.facts(metric).is_place)}"
            in description
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_have_enough_contrast(scheme):
    """In both colour schemes text has a contrast of 4.5 to 1 (WCAG AA), and drawings
    have one of 3 to 1.
    """
    colours = schemes()[scheme]
    for text in ("--ink", "--muted"):
        assert contrast(colours[text], colours["--paper"]) >= 4.5
    assert contrast(colours["--note-ink"], colours["--note"]) >= 4.5
    assert contrast(colours["--head"], colours["--paper"]) >= 3
    colours_of_drawings = [
        *(shade(index, 100, "") for index in range(100)),
        *(run_look(index)[0] for index in range(6)),
    ]
    assert all(
        contrast(getattr(colour, scheme), colours["--paper"]) >= 3
        for colour in colours_of_drawings
    )
    assert contrast(getattr(shade(0, 1, "unseen"), scheme), colours["--paper"]) >= 3


def test_shades_of_the_notebook_show_on_white_and_black():
    """Bars in a notebook have a contrast of 3 to 1 on light and on dark backgrounds."""
    for index in range(100):
        for background in ("#ffffff", "#1e1e1e"):
            assert contrast(shade(index, 100, "").light, background) >= 3


def test_styles_of_the_notebook_apply_only_to_the_report():
    """Every selector of the styles for notebooks is below the element of the report."""
    text = re.sub(r"@media[^{]*\{", "", styles("fragment.css") + styles("charts.css"))
    text = re.sub(r"\{[^}]*\}", ";", text)
    selectors = [
        selector.strip() for selector in re.split(r"[;,}]", text) if selector.strip()
    ]
    assert selectors
    assert all(selector.startswith(".tailmetrics") for selector in selectors)


def drawings(report, section):
    """Return the drawings of a section."""
    return [
        chart
        for part in report.document().sections
        if part.name == section
        for chart in part.charts
    ]


def test_bars_are_as_high_as_values():
    """The heights of bars are proportional to their values and 0 for NaN and infinity;
    a bar of a negative value hangs from the baseline.
    """
    rows = [BucketRow(name, 1, 1, 1) for name in "abcd"]
    values = dict(zip("abcd", (3.0, math.nan, -1.0, math.inf), strict=True))
    (chart,) = drawings(
        report_of_values(
            "", {f"m/{name}": value for name, value in values.items()}, buckets=rows
        ),
        "headline",
    )
    ends = [[up for _, up in mark.places] for mark in chart.marks if mark.kind == "bar"]
    assert ends == [[0.25, 1.0], [0.25, 0.25], [0.25, 0.0], [0.25, 0.25]]
    assert [mark.text for mark in chart.marks if mark.kind == "text"] == [
        "3.00",
        "–",
        "-1.00",
        "∞",
    ]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("no chromium is installed")
    with running(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def report_with_names(report, count, name):
    """Return a report of buckets with names of any length."""
    rows = [BucketRow(f"{name}{number}", 12_345, 1, 678_901) for number in range(count)]
    scalars = {f"a_metric_with_a_long_name@10/{row.name}": 0.123 for row in rows}
    return report_of_values(
        name * 30, scalars, buckets=rows, notes=report.notes, settings=report.settings
    )


CASES = {
    "whole": lambda report: report,
    "many long names": lambda report: report_with_names(report, 40, "averylongname"),
    "overall only": lambda report: report_of_values("Overall", {"precision@1": 0.5}),
}


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", CASES)
def test_pages_are_displayed_completely_in_a_browser(
    report, browser, tmp_path, case, width, scheme
):
    """In a browser a page of any width and colour scheme has no error and no request,
    does not scroll sideways, and shows every plot and the right background.
    """
    shown_report = CASES[case](report)
    file = tmp_path / "report.html"
    file.write_text(page(shown_report), encoding="utf-8")
    browser.complaints.clear()
    browser.requests.clear()
    browser.open(file, width, scheme)
    assert browser.evaluate("document.readyState") == "complete"
    assert not browser.complaints
    assert set(browser.requests) <= {file.as_uri(), "data:,"}
    browser.evaluate(
        "for (const details of document.querySelectorAll('details')) details.open = true"
    )
    assert (
        browser.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        == 0
    )
    plots = browser.evaluate(
        "[...document.querySelectorAll('svg[role=img]')].map(svg => [svg.getBoundingClientRect().width, "
        "[...svg.querySelectorAll('rect')].filter(mark => mark.getBoundingClientRect().width > 1).length])"
    )
    expected = [
        sum(mark.kind == "bar" for mark in chart.marks)
        for chart in drawings(shown_report, "buckets")
    ]
    assert [marks for _, marks in plots[: len(expected)]] == expected
    assert all(drawn_width > 240 for drawn_width, _ in plots)
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    paper = schemes()[scheme]["--paper"]
    assert (
        background
        == f"rgb({', '.join(str(int(paper[start : start + 2], 16)) for start in (1, 3, 5))})"
    )


@pytest.mark.parametrize("width", [360, 1280])
def test_numbers_of_adjacent_bars_do_not_overlap(report, browser, tmp_path, width):
    """The numbers above and below eleven bars do not overlap, and the plot does not
    scroll, also on a phone.
    """
    file = tmp_path / "report.html"
    file.write_text(page(report), encoding="utf-8")
    browser.open(file, width, "light")
    overlaps = browser.evaluate(
        "[...document.querySelectorAll('svg.chart')].flatMap(svg => { const boxes = [...svg.querySelectorAll('text')]"
        ".map(text => [text.textContent, text.getBoundingClientRect()]); return boxes.flatMap(([a, p], i) => "
        "boxes.slice(i + 1).filter(([b, q]) => p.left < q.right && q.left < p.right && p.top + 4 < q.bottom && "
        "q.top + 4 < p.bottom).map(([b]) => `${a} over ${b}`)); })"
    )
    assert overlaps == []
    scrolled = "[...document.querySelectorAll('.plot .scroll')].map(box => box.scrollWidth - box.clientWidth)"
    assert set(browser.evaluate(scrolled)) == {0}


@pytest.mark.parametrize("width", [360, 1280])
def test_texts_of_a_plot_of_differences_are_within_its_box(browser, tmp_path, width):
    """No text of a drawing of differences extends beyond its box."""
    interval = Interval(0.06, 0.0595, 0.0601, 90, 0.95, "t")
    comparison = Comparison(
        "recall@5",
        "new",
        "old",
        "mean",
        0.5,
        0.44,
        interval,
        PValues(0.1),
        PValues(0.1),
        1,
        0,
        0,
        0.1,
        0.1,
    )
    file = tmp_path / "compare.html"
    file.write_text(page(ComparisonReport([comparison])), encoding="utf-8")
    browser.open(file, width, "light")
    beyond = browser.evaluate(
        "[...document.querySelectorAll('.plot .scroll')].flatMap(box => [...box.querySelectorAll('text')].filter(text "
        "=> text.getBoundingClientRect().right > box.getBoundingClientRect().right).map(text => text.textContent))"
    )
    assert beyond == []


def test_the_keyboard_reaches_scrolling_boxes_and_settings(report, browser, tmp_path):
    """The tab key stops at each box that may scroll and at the settings, which Enter
    opens.
    """
    file = tmp_path / "report.html"
    file.write_text(page(report), encoding="utf-8")
    browser.open(file, 360, "light")
    stops = "[tabindex='0'], summary, a[href]"
    focusable = browser.evaluate(f'document.querySelectorAll("{stops}").length')
    reached = set()
    for _ in range(focusable):
        browser.press("Tab")
        reached.add(
            browser.evaluate(
                "[...document.querySelectorAll('*')].indexOf(document.activeElement)"
            )
        )
        if browser.evaluate("document.activeElement.tagName") == "SUMMARY":
            browser.press("Enter")
    assert len(reached) >= focusable - 1
    assert browser.evaluate("document.querySelector('details').open") is True
