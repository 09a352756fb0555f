"""The trade-off of one model: values at several strengths τ, as a table, a drawing and a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tailmetrics.report.charts import Chart, Mark, Place, axis_of, clipped, run_look
from tailmetrics.report.document import Records, Section
from tailmetrics.report.formatting import number, sentences, with_interval

if TYPE_CHECKING:
    from tailmetrics.significance.estimating import Interval

NO_CHOICE = (
    "no τ is chosen on one half of the rows and measured on the other: that needs intervals of independent rows, a "
    "headline by bucket that is a mean over rows of values from 0 to 1, and ten rows of the rarest bucket in each half"
)
WHAT_TAU_IS = "labels are ranked by the logarithm of their probability less τ ln(n + 1), n their training count"


@dataclass(frozen=True)
class TauChoice:
    """What a τ that was chosen on one half of the rows changes on the other half, both ways together.

    On each half, τ is the one of which the rarest bucket gains most, less what all labels lose.

    Attributes:
        taus: The τ chosen on the first half, and on the second.
        bucket: The rarest bucket with rows.
        tail: The change of the value of the rarest bucket.
        whole: The change of the value over all labels.
        net: Their sum.
    """

    taus: tuple[float, float]
    bucket: str
    tail: Interval
    whole: Interval
    net: Interval

    @property
    def gains(self) -> bool:
        """Whether the intervals show that the rarest bucket gains, and more than all labels lose."""
        return self.tail.low > 0 and self.net.low > 0

    def in_words(self, metric: str) -> str:
        """Return in one sentence what ``metric`` gains and loses, or that nothing is shown to be gained."""
        taus = " and ".join(f"{tau:g}" for tau in dict.fromkeys(self.taus))
        if self.taus == (0.0, 0.0):
            return (
                f"Nothing to gain: at every τ all labels lose as much as {self.bucket} gains, or more, on both halves"
            )
        changes = [
            f"{'gains' if one.value > 0 else 'loses'} {with_interval(abs(one.value), _sized(one))}"
            if one.value or one.ends
            else "keeps its value"
            for one in (self.tail, self.whole)
        ]
        how = f"with τ chosen on one half of the rows and measured on the other ({taus})"
        said = f"{self.bucket} {changes[0]}, and the value over all labels {changes[1]}"
        return f"{metric} {how}: {said}" if self.gains else f"Nothing to gain is shown, {how}: {said}"


def _sized(one: Interval) -> Interval:
    """Return an interval of a gain, or of a loss, as a number above 0."""
    return one if one.value > 0 else replace(one, value=-one.value, low=-one.high, high=-one.low)


def trade_off_records(trade_off: Mapping[float, Mapping[str, float]], intervals: Mapping[str, Interval]) -> Records:
    """Return the lines of the CSV file: a value for each τ and key, with its interval."""
    lines: list[Sequence[object]] = []
    for tau, values in trade_off.items():
        for key, value in values.items():
            one = intervals.get(f"tau={tau:g}/{key}") or (intervals.get(key) if tau == 0 else None)
            lines.append((tau, key, value, *((None, None) if one is None else (one.low, one.high))))
    return ["tau", "key", "value", "low", "high"], lines


def trade_off_section(report: Any) -> Iterator[Section]:
    """Yield the values of the headline by τ: over all labels, in the most frequent bucket and in the rarest."""
    first: Mapping[str, float] = next(iter(report.trade_off.values()), {})
    metrics = [one for one in report.by_bucket if any(report.split(key).metric == one for key in first)]
    if not metrics:
        return
    metric = metrics[0]
    known = [name for name, value in report.by_bucket[metric].items() if name != "unseen" and not math.isnan(value)]
    whole = report.over_all.get(metric, "")
    columns = {"all labels": whole} if whole in first else {}
    columns |= {name: report.key(metric, name) for name in dict.fromkeys([*known[:1], *known[-1:]])}
    choice = NO_CHOICE if report.tau_choice is None else report.tau_choice.in_words(metric)
    lines = [
        [f"{tau:g}", *(with_interval(values[key], _interval(report, tau, key)) for key in columns.values())]
        for tau, values in report.trade_off.items()
    ]
    charts = [_drawing(report, metric, whole, columns[known[-1]], known[-1])] if whole in first and known else []
    caption = sentences(report.of_rows, choice, WHAT_TAU_IS)
    title = f"{metric}: what the tail gains, and the head loses"
    yield Section("trade_off", title, caption, header=["τ", *columns], lines=lines, charts=charts)


def _interval(report: Any, tau: float, key: str) -> Interval | None:
    found: Interval | None = report.intervals.get(f"tau={tau:g}/{key}")
    return found


def _drawing(report: Any, metric: str, whole: str, rare: str, bucket: str) -> Chart:
    """Return a drawing of the value over all labels against the value of the rarest bucket, with a point for each τ."""
    points = {tau: (values[whole], values[rare]) for tau, values in report.trade_off.items()}
    intervals = {tau: [_interval(report, tau, key) for key in (whole, rare)] for tau in points}
    ends = {tau: [() if one is None else one.ends for one in of] for tau, of in intervals.items()}
    reach = [[end for of in ends.values() for end in of[side]] for side in (0, 1)]
    across, up = (axis_of([*(point[side] for point in points.values()), *reach[side]]) for side in (0, 1))

    def place(x: float, y: float) -> Place:
        return clipped(across.share(x)), clipped(up.share(y))

    colour, shape = run_look(0)
    marks = [Mark("line", [place(*point) for point in points.values()], colour, style="thin")]
    for tau, (x, y) in points.items():
        of_x, of_y = ends[tau]
        lines = [place(end, y) for end in of_x], [place(x, end) for end in of_y]
        marks += [Mark("line", line, colour, style="thin") for line in lines if line]
        text = f"τ = {tau:g}: all labels {number(x)}, {bucket} {number(y)}"
        marks.append(Mark("dot", [place(x, y)], colour, style=shape, text=text))
        marks.append(Mark("text", [place(x, y)], style="above", text=f"τ = {tau:g}"))
    return Chart(
        "The trade-off",
        marks,
        f"{metric} over all labels against {bucket}, for each τ",
        aside=metric,
        caption="lines: confidence intervals" if any(reach) else "",
        across=across.ticks(),
        up=up.ticks(),
        names=(f"{metric} over all labels", f"{metric} in {bucket}"),
        height=220,
        gutter=44,
    )
