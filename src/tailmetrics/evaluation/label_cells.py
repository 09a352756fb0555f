"""The labels that rows hit, predict and hold: what intervals and comparisons of averages over labels are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailmetrics.metrics import (
    CatalogCoverageAtK,
    EntropyAtK,
    GiniAtK,
    LabelAP,
    LabelAUC,
    NoveltyAtK,
    PersonalizationAtK,
    PopularityAtK,
    PopularityLiftAtK,
    PositiveCoverageAtK,
    TopKMetric,
)
from tailmetrics.metrics._labels import LabelAveragedMetric
from tailmetrics.metrics._states import AtCells, InBlocks
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._scores import dense_blocks
from tailmetrics.significance.labels import AreaRows, Exposure, LabelRows, OverLabels, ShownRows

Ints: TypeAlias = NDArray[np.int64]
Lists: TypeAlias = tuple[Ints, Ints]
"""How many codes each row has, shape (N,), and the codes of all rows, one behind the other."""

MOST = 2**24
"""Codes that are kept of a cut-off, 128 MB; with more, averages over labels have no interval."""
BINS, MARKS = 8192, 256
"""Codes of a bin and whether the label is relevant, of 4,096 bins at most; and marks, which tell scores of a bin apart:
two different scores have one mark in 1 of 256 cases."""


EXPOSURES: dict[type[TopKMetric], Exposure] = {
    CatalogCoverageAtK: "coverage",
    GiniAtK: "gini",
    EntropyAtK: "entropy",
    PopularityAtK: "mean",
    NoveltyAtK: "mean",
    PopularityLiftAtK: "lift",
    PersonalizationAtK: "personalization",
}
"""What is a function of how often labels are shown: neither good nor bad, so that no comparison reads it."""


def has_label_cells(metric: TopKMetric, shown: bool = False) -> bool:
    """Whether it is known what rows change: of an average over labels or, if ``shown``, a function of what is shown."""
    if metric.weighted:
        return False
    if type(metric) in EXPOSURES:
        return shown
    if isinstance(metric, (LabelAUC, LabelAP)):
        return metric.average != "none"
    if isinstance(metric, LabelAveragedMetric):
        return metric.average in ("macro", "weighted")
    return isinstance(metric, PositiveCoverageAtK)


def spec_of(metric: Any) -> dict[str, Any]:
    """Return as plain data how the value is made of codes; ``sizes`` are the labels of each bucket."""
    buckets = metric.bound_buckets
    sizes = [metric.num_labels] if buckets is None else buckets.label_counts.tolist()
    if type(metric) in EXPOSURES:
        counts = getattr(metric, "label_counts", None)
        weights = np.zeros(metric.num_labels) if counts is None else counts.cpu().numpy().astype(np.float64)
        if isinstance(metric, NoveltyAtK):
            weights = -np.log2(np.clip(weights, 1, metric.num_train) / metric.num_train)
        return {"exposure": EXPOSURES[type(metric)], "weights": weights, "sizes": sizes}
    if isinstance(metric, (LabelAUC, LabelAP)):
        area = "roc" if isinstance(metric, LabelAUC) else "precision"
        return {"area": area, "average": metric.average, "sizes": sizes}
    if isinstance(metric, PositiveCoverageAtK):
        return {"top": 0.0, "over": "present" if metric.denominator == "observed" else "all", "sizes": sizes}
    one = torch.eye(3, dtype=torch.float64)
    above, below = metric._label_ratio(*one)  # both are sums of hits, predictions and support
    weights = {"top": float(above[0]), "below": [float(below[1]), float(below[2])]}
    of_averages = {} if metric.macro is None else {"of_averages": True}
    return {**weights, "over": metric.labels, "weighted": metric.average == "weighted", "sizes": sizes, **of_averages}


def over_labels(spec: Mapping[str, Any], bucket: int, lists: Lists, inside: NDArray[np.bool_]) -> OverLabels:
    """Return what rows add to the value of one bucket.

    Args:
        spec: Of the metric.
        bucket: Its number, 0 without buckets.
        lists: The codes of all rows.
        inside: Shape (N,), the rows that count.
    """
    lengths, codes = lists
    rows, number = np.repeat(np.arange(lengths.size), lengths), len(spec["sizes"])
    kept = inside[rows]
    if "area" in spec:
        of_bucket = (
            codes.reshape(lengths.size, -1) // (BINS * MARKS) == bucket
            if codes.size
            else np.zeros((lengths.size, 0), bool)
        )
        columns = of_bucket[0] if len(of_bucket) else np.zeros(0, bool)
        found = codes.reshape(of_bucket.shape)[:, columns]
        bins, marks = found % BINS // 2, found // BINS % MARKS
        return AreaRows(bins, found % 2 > 0, inside, spec["area"], spec["average"], marks)
    label, flags = codes // 4, codes % 4
    kept &= label % number == bucket
    if "exposure" in spec:
        cells = rows[kept], label[kept] // number, flags[kept] % 2 > 0, flags[kept] > 1
        return ShownRows(*cells, inside, sum(spec["sizes"]), spec["exposure"], spec["sizes"][bucket], spec["weights"])
    over = cast("Literal['present', 'union', 'all']", spec["over"])
    below = (spec["below"][0], spec["below"][1]) if "below" in spec else (0.0, 1.0)
    cells = rows[kept], label[kept] // number, flags[kept] % 2 > 0, flags[kept] > 1
    size, weighted = spec["sizes"][bucket], spec.get("weighted", False)
    of_averages = spec.get("of_averages", False)
    return LabelRows(*cells, inside, sum(spec["sizes"]), spec["top"], below, over, weighted, size, of_averages)


def lists_of(metric: Any, ranking: Ranking) -> list[Lists]:
    """Return the codes of a batch for each cut-off: 8 bytes for each label of a row."""
    size, num_labels = ranking.num_rows, int(metric.num_labels)
    buckets = metric.bound_buckets
    bucket = np.zeros(num_labels, np.int64) if buckets is None else buckets.assignment.cpu().numpy()
    if isinstance(metric, (LabelAUC, LabelAP)):
        relevant = np.zeros((size, num_labels), bool)
        entries = metric._relevant(ranking).targets.entries
        some = (entries.ids >= 0).cpu().numpy()
        relevant[entries.rows.cpu().numpy()[some], entries.ids.cpu().numpy()[some]] = True
        blocks = [block for _, block in dense_blocks(ranking, num_labels)]
        scores = torch.cat([torch.empty(0, num_labels), *(block.cpu() for block in blocks)])
        marks = mixed((scores.double() + 0.0).view(torch.int64)) & (MARKS - 1)  # + 0.0 makes both zeros one
        bins = metric._cells(torch.tensor(0), scores)
        cells = (torch.from_numpy(bucket) * MARKS + marks) * BINS + 2 * bins + torch.from_numpy(relevant)
        return [(np.full(size, num_labels), cells.numpy().ravel())]
    averaged = isinstance(metric, LabelAveragedMetric)
    prepared = dict(metric.cells_of_rows(ranking) if averaged else metric._prepare(ranking))
    name: Callable[[str], str] = metric._label_state if averaged else str
    held = _one_of(prepared, map(name, ("support", "observed", "relevant")))
    found = []
    for k in metric.ks:
        hit = _one_of(prepared, map(name, (f"hits_at_{k}", f"hit_at_{k}")))
        predicted = _one_of(prepared, map(name, (f"predicted_at_{k}", f"shown_at_{k}")))
        codes = [num_labels * rows + labels for rows, labels in (hit, predicted, held)]
        every = np.unique(np.concatenate(codes))
        rows, label = np.divmod(every, num_labels)
        own, made = (np.isin(every, np.concatenate([codes[0], one])) for one in (codes[2], codes[1]))
        coded = (label * (1 if buckets is None else len(buckets)) + bucket[label]) * 4 + 2 * own + made
        found.append((np.bincount(rows, minlength=size), coded))
    return found


def from_all(value: Any) -> list[Any]:
    """Return the values of all processes, in each of them."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return [value]
    found: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(found, value)
    return found


def _one_of(prepared: Mapping[str, Any], names: Iterable[str]) -> Lists:
    """Return the rows and labels of the cells where something is added to the state that there is of some, if any."""
    increment: Any = next((prepared[name] for name in names if name in prepared), None)
    blocks: Iterator[AtCells] = increment.blocks() if isinstance(increment, InBlocks) else iter([increment])
    parts = [
        [side[one.amounts != 0].cpu().numpy() for side in (one.rows, one.cells)] for one in blocks if one is not None
    ]
    empty = np.zeros(0, np.int64)
    rows, labels = (np.concatenate([empty, *(part[side] for part in parts)]) for side in (0, 1))
    return rows, labels


def hashes(lengths: Ints, codes: Ints) -> Ints:
    """Return a number for each row that depends on its codes in their order."""
    rows = np.repeat(np.arange(lengths.size), lengths)
    place = np.arange(codes.size) - (np.cumsum(lengths) - lengths)[rows]
    total = np.zeros(lengths.size, np.int64)
    np.add.at(total, rows, mixed(torch.from_numpy(codes * 1_000_003 + place)).numpy())
    return total


def mixed(values: Tensor) -> Tensor:
    """Return int64 in which every bit depends on every bit of the given ones.

    Source: the finaliser of SplitMix64; Steele, Lea and Flood, Fast splittable pseudorandom number generators (2014).
    """
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        values = (values ^ _shifted(values, shift)) * factor
    return values ^ _shifted(values, 31)


def _shifted(values: Tensor, bits: int) -> Tensor:
    """Return values shifted right, zeros from the left also where the first bit is set."""
    return (values >> bits) & ((1 << (64 - bits)) - 1)


def taken(pair: Lists, order: Ints) -> Lists:
    """Return the lists of rows in another order."""
    lengths, codes = pair
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return lengths[order], codes[np.argsort(np.repeat(place, lengths), kind="stable")]
