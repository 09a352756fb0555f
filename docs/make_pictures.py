"""Draw the picture of the deciles page from ICD-10-CM counts: `python -m docs.make_pictures` from the root."""

from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from torch import Tensor

from examples.icd10.data import ICD10Data
from tailmetrics import LabelBuckets, LabelFrequency
from tailmetrics.report._palette import shade

FOLDER = Path(__file__).parent / "pictures"


def icd10_frequency() -> LabelFrequency:
    """Count the training labels of the ICD-10 demo."""
    data = ICD10Data()
    frequency = LabelFrequency(data.num_labels)
    for batch in data.train_dataloader():
        frequency.update(batch["target"])
    return frequency


def draw(counts: Tensor, path: Path) -> None:
    """Draw the long tail cut into ten pieces of equal mass above, and how many labels that takes below."""
    buckets = LabelBuckets.deciles(counts)
    colours = [
        shade(place, 11, name).light for place, name in enumerate(buckets.names[:10])
    ]
    figure, (curve, sizes) = plt.subplots(
        2, 1, figsize=(8, 6.4), height_ratios=(3, 2), layout="constrained"
    )
    _draw_curve(curve, counts, buckets, colours)
    _draw_sizes(sizes, counts, buckets, colours)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


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
        "Ten deciles: each colour holds a tenth of all label occurrences", loc="left"
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
    names = [
        f"{name}\n{share:.1%}"
        for name, share in zip(
            buckets.names, (mass / mass.sum()).tolist(), strict=False
        )
    ]
    axes.set_xticks(range(10), names, fontsize=8)
    axes.set_ylim(0, max(number_of_labels) * 1.15)
    axes.set_ylabel("labels in it")
    axes.set_title("… which takes ever more labels", loc="left")
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    draw(icd10_frequency().compute(), FOLDER / "deciles.png")
