"""Draw the pictures of the pages, for light and dark ones.

Run `python -m docs.make_pictures` from the root; it takes 2 minutes.

The first is the report of the ICD-10-CM demo, the second shows how its labels are cut
into deciles. The others, of "How to read the numbers", are reports of scores that are
drawn at random.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import fill

import torch
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.spines import Spine
from matplotlib.text import Text
from torch import Tensor

from examples.icd10.__main__ import ICD10CLI
from examples.icd10.data import ICD10Data
from examples.icd10.model import BagOfFeatures
from tailmetrics import LabelBuckets, LabelFrequency, RecallAtK, evaluate
from tailmetrics.lightning import HeadToTailReport
from tailmetrics.report import Report
from tailmetrics.report.breakdowns import what_buckets_are
from tailmetrics.report.charts import shade
from tailmetrics.report.pictures import picture

FOLDER = Path(__file__).parent / "pictures"
WIDTH = 6.4
"""Inches; text stays readable on a phone that shows the picture 350 pixels wide."""
SMALLEST_TEXT = 9
LETTERS = 88
"""Letters of the smallest text that fit into a line."""
INK_ON_DARK, DARK_PAPER = "#d7dade", "#0b0c0f"


def demo_report(counts: Tensor) -> Report:
    """Train the demo, and report recall in the one list of ten that a user sees.

    With counts, for to count here would draw random numbers, and the demo would be
    trained on other batches.
    """
    metrics = [RecallAtK(k=10), RecallAtK(k=10, buckets="deciles", scope="global")]
    cli = ICD10CLI(
        BagOfFeatures, ICD10Data, run=False, args=["--config", "configs/icd10.yaml"]
    )
    seen = HeadToTailReport(
        metrics, label_counts=counts, table=False, intervals=True, name="picture"
    )
    cli.trainer.callbacks.append(seen)  # type: ignore[attr-defined]
    cli.trainer.fit(cli.model, datamodule=cli.datamodule)
    cli.trainer.test(cli.model, datamodule=cli.datamodule, verbose=False)
    assert seen.report is not None
    labels = sum(row.labels for row in seen.report.buckets)
    facts = []
    for metric in seen.report.metrics:
        if metric.metric == "global_recall@10":
            metric = replace(metric, caption="in the one list of 10 that a row shows")
        facts.append(metric)
    title = f"ICD-10-CM, {labels:,} labels: found in the list of ten"
    return replace(seen.report, title=title, metrics=facts)


def without_references(report: Report) -> Report:
    """Return a report without chance, popularity and the attainable value."""
    records = []
    for record in report.records:
        records.append(replace(record, chance=None, popularity=None, attainable=None))
    return replace(report, records=records)


def icd10_counts() -> Tensor:
    """Count the training labels of the demo."""
    data = ICD10Data()
    frequency = LabelFrequency(data.num_labels)
    for batch in data.train_dataloader():
        frequency.update(batch["target"])
    return frequency.compute()


def deciles_figure(counts: Tensor) -> Figure:
    """Draw the long tail, cut into deciles, above the number of labels of each."""
    buckets = LabelBuckets.deciles(counts)
    colours = [
        shade(place, 11, name).light for place, name in enumerate(buckets.names[:10])
    ]
    figure = Figure(figsize=(WIDTH, 5.6), layout="constrained")
    curve, sizes = figure.subplots(2, 1, height_ratios=(3, 2))
    _draw_curve(curve, counts, buckets, colours)
    _draw_sizes(sizes, counts, buckets, colours)
    return figure


def _draw_curve(
    axes: Axes, counts: Tensor, buckets: LabelBuckets, colours: list[str]
) -> None:
    ordered, order = counts.sort(descending=True, stable=True)
    bucket = buckets.assignment[order]
    for number, colour in enumerate(colours):
        rank = (bucket == number).nonzero().flatten() + 1
        axes.fill_between(
            rank, ordered[rank - 1], 0.7, color=colour, step="mid", linewidth=0.5
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlim=(0.9, len(counts)),
        ylim=(0.7, int(ordered[0]) * 1.3),
    )
    axes.set(
        xlabel="labels, from the most frequent to the rarest",
        ylabel="times seen in training",
    )
    axes.set_title(
        "Each colour holds about a tenth of all label occurrences",
        loc="left",
        fontsize=11,
    )


def _draw_sizes(
    axes: Axes, counts: Tensor, buckets: LabelBuckets, colours: list[str]
) -> None:
    number_of_labels = buckets.label_counts[:10].tolist()
    bars = axes.bar(range(10), number_of_labels, color=colours)
    mass = torch.zeros(10, dtype=torch.int64)
    seen = buckets.assignment < 10
    mass.index_add_(0, buckets.assignment[seen], counts[seen])
    axes.bar_label(bars, [f"{labels:,}" for labels in number_of_labels])
    shares = zip(buckets.names, (mass / mass.sum()).tolist(), strict=False)
    axes.set_xticks(
        range(10),
        [f"{name.removeprefix('decile_')}\n{share:.1%}" for name, share in shares],
    )
    axes.set_ylim(0, max(number_of_labels) * 1.2)
    axes.set(ylabel="labels in it", xlabel="decile, and its share of all occurrences")
    axes.set_title(
        "The rarer the labels, the more of them it takes", loc="left", fontsize=11
    )
    axes.spines[["top", "right"]].set_visible(False)


def pictures_to_read() -> Iterator[tuple[str, Figure]]:
    """Draw what scopes, chance, ties and intervals do.

    Each of 2,000 rows has 3 of 2,000 labels, which follow a power law.
    """
    generator = torch.Generator().manual_seed(0)
    counts = (1e5 / torch.arange(1, 2001)).long()
    weights = counts.double().expand(2000, -1)
    target = torch.multinomial(weights, 3, generator=generator)
    chance = torch.rand(2000, 2000, generator=generator)
    scores = torch.randn(2000, 2000, generator=generator) + counts.log()
    scores.scatter_add_(1, target, torch.full(target.shape, 3.0))
    few_bits = (scores / 2).sigmoid().bfloat16().float()  # the largest ones are all 1
    buckets = LabelBuckets.quantiles(counts, 5)
    within = RecallAtK(10, buckets=buckets)
    shown = RecallAtK(10, buckets=buckets, scope="global")
    plain = {"intervals": False, "title": "One model, two questions"}
    report = evaluate(scores, target, metrics=[within, shown], **plain)
    said = "ranked among the labels of the bucket", "in the one list of ten"
    yield "scopes", _with_captions(without_references(report), *said)
    plain["title"] = "Random scores: the gap is that of the sizes of the buckets"
    report = evaluate(chance, target, metrics=[within], **plain)
    said = ("dotted line: chance · diamond: popularity · cap: attainable",)
    yield "chance", _with_captions(report, *said)
    plain["title"] = "Outputs in bfloat16, labels numbered by frequency"
    report = evaluate(few_bits, target, metrics=[shown], **plain)
    said = (
        "bar: lower id first · dot: mean over all orders · bracket: worst and best",
    )
    yield "ties", _with_captions(without_references(report), *said)
    report = evaluate(scores[:100], target[:100], metrics=[shown], title="100 rows")
    said = ("vertical line: the 95 % interval",)
    yield "intervals", _with_captions(without_references(report), *said)


def _with_captions(report: Report, *captions: str) -> Figure:
    """Draw a report of half the height, with captions that fit large letters."""
    figure = picture(report)
    figure.set_size_inches(WIDTH, 2.9)
    figure.supxlabel("")
    for axes, caption in zip(figure.axes, captions, strict=False):
        axes.texts[-1].set_text(caption)
    return figure


def write(figure: Figure, stem: str) -> None:
    """Write the figure as it is, then as a dark page shows it: ``stem-dark.png``."""
    for text in figure.findobj(Text):
        text.set_fontsize(max(text.get_fontsize(), SMALLEST_TEXT))
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(FOLDER / f"{stem}.png", dpi=200, metadata={"Software": None})
    _darken(figure)
    figure.savefig(
        FOLDER / f"{stem}-dark.png",
        dpi=200,
        transparent=True,
        metadata={"Software": None},
    )


def _darken(figure: Figure) -> None:
    """Turn ink light, and bucket colours into those of the palette for dark pages."""
    shades = [
        shade(place, 11, name)
        for place, name in enumerate([*map(str, range(10)), "unseen"])
    ]
    dark = {found.light: found.dark for found in shades}
    for artist in figure.findobj():
        _darken_artist(artist, dark)


def _darken_artist(artist: Artist, dark: dict[str, str]) -> None:
    if isinstance(artist, Text):
        artist.set_color(INK_ON_DARK)
        box = artist.get_bbox_patch()
        if box is not None:  # what lies behind a number does not cross it out
            box.set_facecolor(DARK_PAPER)
    elif isinstance(artist, Line2D):
        artist.set_color(dark.get(to_hex(artist.get_color()), INK_ON_DARK))
        artist.set_markeredgecolor(artist.get_color())
    elif isinstance(artist, Spine):
        artist.set_edgecolor(INK_ON_DARK)
    elif isinstance(artist, Collection):
        faces = [
            dark.get(to_hex(colour), INK_ON_DARK) for colour in artist.get_facecolor()
        ]
        artist.set_color(faces or INK_ON_DARK)  # error bars have no face
    elif isinstance(artist, Rectangle) and to_hex(artist.get_facecolor()) in dark:
        artist.set_color(dark[to_hex(artist.get_facecolor())])


def main() -> None:
    """Draw all of them."""
    torch.set_num_threads(1)  # as the demo does: the same numbers
    counts = icd10_counts()
    write(deciles_figure(counts), "deciles")
    report = without_references(demo_report(counts))
    figure = picture(report)
    figure.set_size_inches(WIDTH, 4.0)
    below = what_buckets_are(
        report.buckets
    )  # the page says in words what the picture shows
    figure.supxlabel(fill(below, LETTERS), x=0.01, ha="left", fontsize=SMALLEST_TEXT)
    write(figure, "head-to-tail")
    for name, figure in pictures_to_read():
        write(figure, f"reading-{name}")


if __name__ == "__main__":
    main()
