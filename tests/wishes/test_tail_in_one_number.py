"""summaries(): gap and spread of each by-bucket key; PopularityLiftAtK.

Readings of the contract where it leaves a choice:

- The rarest seen bucket is the last one that is not ``unseen`` (labels seen in training); with buckets of one's own
  and no ``unseen`` it is the last. The spread is the population's standard deviation (Elliot's PopREO) over the mean of
  the same buckets.
- A seen bucket without a row has no value: gap and spread are those of the others, and NaN where fewer than two have
  one.
- A spread over a mean of 0 is NaN. Metrics without buckets have no summary.
- Popularity lift divides the mean training count over all labels shown by the mean over all relevant labels of all
  rows; by bucket, both means are over the bucket's labels.
"""

from __future__ import annotations

import math
import statistics
from fractions import Fraction
from typing import Any

import pytest
import torch

import tailmetrics
from wishes.rows import COUNTS, DECILES, NUM_LABELS, THREE, drawn, fed, floats, members, ranked, sets


def gap(values: list[float], names: list[str]) -> float:
    seen = [value for value, name in zip(values, names, strict=True) if name != "unseen" and not math.isnan(value)]
    return seen[0] - seen[-1] if len(seen) > 1 else math.nan


def spread(values: list[float], names: list[str]) -> float:
    seen = [v for v, name in zip(values, names, strict=True) if name != "unseen" and not math.isnan(v)]
    middle = statistics.fmean(seen)
    return statistics.pstdev(seen) / middle if middle else math.nan


@pytest.mark.parametrize("buckets", [THREE, DECILES], ids=["three", "deciles"])
def test_gap_and_spread_of_every_key(buckets: Any) -> None:
    """Per metric and cut-off: first minus last seen bucket, and standard deviation over mean."""
    batch = drawn(1, num_rows=200)
    members_of = [
        tailmetrics.RecallAtK(k=[2, 5], buckets=buckets),
        tailmetrics.NDCGAtK(k=5, buckets=buckets, scope="global"),
        tailmetrics.MRR(),
    ]
    collection = fed(tailmetrics.TopKCollection(members_of), *batch)
    found = collection.summaries()
    values = collection.compute()
    wanted = {}
    for stem in ("recall@2", "recall@5", "global_ndcg@5"):
        by_bucket = [float(values[f"{stem}/{name}"]) for name in buckets.names]
        wanted[f"{stem}/gap"] = gap(by_bucket, list(buckets.names))
        wanted[f"{stem}/spread"] = spread(by_bucket, list(buckets.names))
    assert set(found) == set(wanted)
    for key, value in wanted.items():
        assert float(found[key]) == pytest.approx(value, rel=1e-12), key
        assert not math.isnan(value)


def test_popreo_and_poprsp() -> None:
    """The spread of recall is PopREO, that of exposure per positive PopRSP: std(v) / mean(v) with numpy's std."""
    numpy = pytest.importorskip("numpy")
    scores, target = drawn(2, num_rows=200)
    collection = tailmetrics.TopKCollection(
        [tailmetrics.RecallAtK(k=5, buckets=THREE, average="micro", scope="global")]
    )
    found = fed(collection, scores, target).summaries()
    tops = [set(order[:5]) for order in ranked(scores.tolist())]
    rates = []
    for inside in members(THREE):
        hits = sum(len(top & own & inside) for top, own in zip(tops, sets(target), strict=True))
        rates.append(hits / sum(len(own & inside) for own in sets(target)))
    assert float(found["global_micro_recall@5/spread"]) == pytest.approx(numpy.std(rates) / numpy.mean(rates), rel=1e-9)


def test_prefix_and_postfix_stand_where_they_do_in_compute() -> None:
    """The keys of the summaries are those of compute() with gap and spread in the bucket's place."""
    collection = tailmetrics.TopKCollection([tailmetrics.RecallAtK(k=5, buckets=THREE)], prefix="val/", postfix="_x")
    fed(collection, *drawn(3))
    stems = {key.replace("/head", "/{}") for key in collection.compute() if "/head" in key}
    assert set(collection.summaries()) == {stem.format(word) for stem in stems for word in ("gap", "spread")}


def test_unseen_labels_are_left_out() -> None:
    """A model that finds nothing unseen has no larger gap for it."""
    scores, target = drawn(4, num_rows=200)
    spoilt = scores.masked_fill(COUNTS == 0, -50.0)
    for preds in (scores, spoilt):
        collection = fed(tailmetrics.TopKCollection([tailmetrics.RecallAtK(k=5, buckets=DECILES)]), preds, target)
        values = collection.compute()
        wanted = float(values["recall@5/decile_10"]) - float(values["recall@5/decile_1"])
        assert float(collection.summaries()["recall@5/gap"]) == pytest.approx(wanted, rel=1e-12)


def test_without_buckets_there_is_nothing_to_sum_up() -> None:
    """An empty dict, no error: a callback can log it as it is."""
    assert fed(tailmetrics.TopKCollection([tailmetrics.MRR()]), *drawn(5)).summaries() == {}


# --- popularity lift


def lift(tops: list[list[int]], relevant: list[set[int]], inside: set[int]) -> float:
    """Mean count of what is shown over that of what is relevant."""
    counts = COUNTS.tolist()
    shown = [counts[label] for top in tops for label in top if label in inside]
    asked = [counts[label] for own in relevant for label in own if label in inside]
    if not shown or not asked or not sum(asked):
        return math.nan
    return float(Fraction(sum(shown), len(shown)) / Fraction(sum(asked), len(asked)))


@pytest.mark.parametrize("k", [1, 5, [1, 3, 30]])
def test_popularity_lift_equals_the_plain_loop(k: Any) -> None:
    """Above 1 where the model shows what is more popular than what is asked for."""
    scores, target = drawn(7)
    scores = scores.masked_fill(torch.rand(scores.shape, generator=torch.Generator().manual_seed(1)) < 0.3, -math.inf)
    found = fed(tailmetrics.PopularityLiftAtK(k=k, label_counts=COUNTS), scores, target).compute()
    orders = ranked(scores.tolist())
    ks = k if isinstance(k, list) else [k]
    wanted = [lift([order[:one] for order in orders], sets(target), set(range(NUM_LABELS))) for one in ks]
    assert floats(found) == pytest.approx(wanted, rel=1e-12)


def test_popularity_lift_by_bucket() -> None:
    """Both means over the bucket's labels."""
    scores, target = drawn(8)
    found = fed(tailmetrics.PopularityLiftAtK(k=5, label_counts=COUNTS, buckets=THREE), scores, target).compute()
    tops = [order[:5] for order in ranked(scores.tolist())]
    wanted = [lift(tops, sets(target), inside) for inside in members(THREE)]
    assert floats(found) == pytest.approx(wanted, rel=1e-12)


def test_popularity_lift_of_the_relevant_labels_themselves_is_one() -> None:
    """Showing exactly what is asked for lifts nothing; showing the head to rows that ask for the tail lifts much."""
    ids = torch.tensor([[2, 9], [5, 11]])
    metric = fed(tailmetrics.PopularityLiftAtK(k=2, label_counts=COUNTS), ids, ids)
    assert float(metric.compute()) == 1
    head = fed(tailmetrics.PopularityLiftAtK(k=1, label_counts=COUNTS), torch.tensor([[0]]), torch.tensor([15]))
    assert float(head.compute()) == 90
