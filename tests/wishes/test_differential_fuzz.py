"""Every metric of 0.1.0, in every form of input, against plain loops of its definition.

By default a small number of random cases runs; ``TAILMETRICS_FUZZ_CASES=2000`` runs more, and
``TAILMETRICS_FUZZ_SEED=7`` others. A case that fails names its seed.

For each case: one draw of rows is cut into batches; each batch comes in a form of preds and of target drawn anew, with
or without ``row_mask``; several cut-offs at once; overall, or by bucket in both scopes. The metric alone, the metric
in a :class:`TopKCollection` and the metric fed with a ranking give the same bits, and the plain loop's value to 1e-11.

Readings: a macro or weighted mean over no label at all may be 0 or NaN; a cut-off is never deeper than ``depth``.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

import tailmetrics
from wishes.drawn import PREDS, SCORED, Batch, as_mask, as_preds, as_target, draw_batch, target_forms
from wishes.reference import SHOWN, Facts, values

CASES = int(os.environ.get("TAILMETRICS_FUZZ_CASES", "40"))
SEED = int(os.environ.get("TAILMETRICS_FUZZ_SEED", "0"))

DENSE_ONLY = ("CrossEntropy",)
SCORES_ONLY = ("TieRateAtK",)
AVERAGED = ("PrecisionAtK", "RecallAtK", "F1AtK")
NAMES = (
    *AVERAGED,
    *("NormalizedRecallAtK", "HitRateAtK", "AccuracyAtK", "RelevanceAtK", "CGAtK", "DCGAtK", "NDCGAtK"),
    *("MRR", "MAP", "RPrecision", "KForRecall", "CrossEntropy"),
    *("PropensityScoredPrecisionAtK", "PropensityScoredRecallAtK", "PropensityScoredNDCGAtK"),
    *("PredictionProportionAtK", "PositiveCoverageAtK", "CatalogCoverageAtK", "GiniAtK", "EntropyAtK"),
    *("PopularityAtK", "NoveltyAtK", "TieRateAtK"),
)


@dataclass(frozen=True)
class Asked:
    """A metric with its options, as the reference and the library are asked for it."""

    name: str
    options: dict[str, Any]
    ks: list[int | None]
    facts: Facts
    buckets: tailmetrics.LabelBuckets | None

    def metric(self, **more: Any) -> Any:
        arguments = {**self.options, **more}
        if self.ks != [None]:
            arguments["k"] = list(self.ks) if len(self.ks) > 1 else self.ks[0]
        elif self.name == "NDCGAtK":
            arguments["k"] = None
        if self.buckets is not None:
            arguments["buckets"] = self.buckets
        if self.name.startswith("Propensity") or self.name in ("PopularityAtK", "NoveltyAtK"):
            arguments["label_counts"] = torch.tensor(self.facts.counts)
        if self.name.startswith("Propensity") or self.name == "NoveltyAtK":
            arguments["num_train"] = self.facts.num_train
        return getattr(tailmetrics, self.name)(num_labels=self.facts.num_labels, **arguments)

    def expected(self, batches: list[Batch]) -> list[float]:
        lines = [line for batch in batches for line in batch.counted()]
        return [value for k in self.ks for value in values(self.name, lines, self.facts, self.options, k)]


def draw_buckets(rng: Random, counts: list[int]) -> tailmetrics.LabelBuckets:
    """Deciles, quantiles, thresholds or a given assignment."""
    make, given = tailmetrics.LabelBuckets, torch.tensor(counts)
    kind = rng.choice(["deciles", "quantiles", "assignment"])
    if kind == "deciles":
        return make.deciles(given)
    if kind == "quantiles":
        return make.quantiles(given, rng.choice([2, 3]), by=rng.choice(["mass", "labels"]))
    assignment = [rng.randrange(3) for _ in counts]
    return make.from_assignment(torch.tensor(assignment), ["head", "body", "tail"])


def draw_asked(rng: Random, facts: Facts, buckets: tailmetrics.LabelBuckets | None) -> Asked:
    name = rng.choice(NAMES)
    if name in ("TieRateAtK",):
        buckets, facts = None, Facts(facts.num_labels, facts.counts, facts.num_train)
    options: dict[str, Any] = {}
    ratio = name.startswith("Propensity")
    if name in AVERAGED:
        options["average"] = rng.choice(["samples", "samples", "micro", "macro", "weighted"])
        if options["average"] == "macro":
            options["labels"] = rng.choice(["present", "union", "all"])
    if name in ("PrecisionAtK", "F1AtK") and options["average"] in ("samples", "micro") and rng.random() < 0.5:
        options["denominator"] = "k"
    if name == "MAP":
        options["denominator"] = rng.choice(["relevant", "attainable"])
    if name == "PositiveCoverageAtK":
        options["denominator"] = rng.choice(["observed", "known"])
    if name in ("CGAtK", "DCGAtK", "NDCGAtK"):
        options["gain"] = rng.choice(["linear", "exponential"])
    if name == "PropensityScoredNDCGAtK":
        options["normalization"] = rng.choice(["normalized", "sum"])
    if ratio and rng.random() < 0.3:
        options.update(a=rng.choice([0.5, 0.6]), b=rng.choice([0.4, 2.6]))
    if name == "KForRecall":
        options["min_recall"] = rng.choice([0.07, 0.28, 0.5, 0.8, 1.0])
        options["statistic"] = rng.choice(["median", "mean"])
        if rng.random() < 0.5:
            options["miss_value"] = rng.choice([0, 3, 1000])
    deepest = 130
    relevant = name not in SHOWN and name != "TieRateAtK"
    if relevant and name != "KForRecall":
        empty = rng.choice([None, None, "neg", "skip", "pos"])
        if empty is not None and not (empty == "pos" and (ratio or options.get("average", "samples") != "samples")):
            options["empty_target_action"] = empty
    if relevant and buckets is not None:
        options["scope"] = rng.choice(["bucket", "global"])
    if relevant and name not in ("CrossEntropy",) and rng.random() < 0.3:
        options["depth"] = deepest = rng.choice([5, 9])
    return Asked(name, options, draw_ks(rng, name, deepest), facts, buckets)


def draw_ks(rng: Random, name: str, deepest: int) -> list[int | None]:
    if name in ("RPrecision", "KForRecall", "CrossEntropy"):
        return [None]
    if name in ("MRR", "MAP", "NDCGAtK") and deepest > 100 and rng.random() < 0.4:
        return [None]
    pool = [k for k in (1, 2, 3, 5, 9, 20, 45, 130) if k <= deepest]
    return [*sorted(rng.sample(pool, rng.randrange(1, min(4, len(pool)) + 1)))]


def draw_facts(rng: Random, buckets: bool) -> tuple[Facts, tailmetrics.LabelBuckets | None]:
    num_labels = rng.choice([1, 2, 3, 5, 9, 17, 40, 40, 130])
    counts = [rng.choice([0, 1, 1, 2, 3, 7, 30, 400]) for _ in range(num_labels)]
    facts = Facts(num_labels, counts, max(3, sum(counts)))
    if not buckets:
        return facts, None
    made = draw_buckets(rng, counts)
    assignment = made.assignment.tolist()
    members = [{label for label in range(num_labels) if assignment[label] == number} for number in range(len(made))]
    return Facts(num_labels, counts, facts.num_train, members), made


def forms_for(asked: list[Asked]) -> tuple[str, ...]:
    names = {one.name for one in asked}
    if names & set(DENSE_ONLY):
        return ("dense", "numpy")
    return SCORED if names & set(SCORES_ONLY) else PREDS


def arguments(batch: Batch, forms: tuple[str, ...], rng: Random) -> tuple[Any, Any]:
    preds = rng.choice(forms)
    return as_preds(batch, preds, rng), as_target(batch, rng.choice(target_forms(batch, preds)), rng)


def same_bits(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.numpy().tobytes() == other.numpy().tobytes()


def differences(found: Tensor, wanted: list[float], asked: Asked) -> list[str]:
    """What is further apart than 1e-11 of the value."""
    flat = found.reshape(-1).tolist()
    if len(flat) != len(wanted):
        return [f"{len(flat)} values instead of {len(wanted)}"]
    unsure = asked.options.get("average") in ("macro", "weighted")
    return [
        f"value {place}: {ours!r} instead of {theirs!r}"
        for place, (ours, theirs) in enumerate(zip(flat, wanted, strict=True))
        if not agree(ours, theirs) and not (unsure and agree(nan_is_zero(ours), nan_is_zero(theirs)))
    ]


def nan_is_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def agree(ours: float, theirs: float) -> bool:
    if math.isnan(ours) or math.isnan(theirs):
        return math.isnan(ours) and math.isnan(theirs)
    return ours == theirs or abs(ours - theirs) <= 1e-11 * max(1, abs(theirs))


def run_case(seed: int) -> tuple[int, list[str]]:
    """One case: the number of values compared, and what was wrong."""
    rng = Random(seed)
    facts, buckets = draw_facts(rng, buckets=rng.random() < 0.6)
    batch = draw_batch(rng, facts.num_labels)
    cuts = sorted(rng.randrange(len(batch.lines) + 1) for _ in range(rng.choice([0, 0, 1, 2])))
    batches = batch.split(cuts)
    asked = [draw_asked(rng, facts, buckets) for _ in range(6)]
    if any(one.name == "CrossEntropy" for one in asked) and rng.random() < 0.7:
        asked = [one for one in asked if one.name != "CrossEntropy"]
    compared, wrong = 0, []
    collection = tailmetrics.TopKCollection(
        {str(place): one.metric(name=f"m{place}") for place, one in enumerate(asked)}
    )
    for part in batches:
        collection.update(*arguments(part, forms_for(asked), rng), **as_mask(part))
    members = {name.split("@")[0]: member for name, member in collection.items(keep_base=True, copy_state=False)}
    for place, one in enumerate(asked):
        wanted = one.expected(batches)
        alone, ranked = one.metric(), one.metric()
        for part in batches:
            alone.update(*arguments(part, forms_for([one]), rng), **as_mask(part))
            feed_ranking(ranked, part, one, rng)
        results = {"alone": alone.compute(), "ranking": ranked.compute(), "collection": members[str(place)].compute()}
        compared += len(wanted)
        found = differences(results["alone"], wanted, one)
        found += [f"other bits {how}" for how in results if not same_bits(results[how], results["alone"])]
        wrong += [f"seed {seed}: {one.name} {one.options} k={one.ks}: {text}" for text in found]
    return compared, wrong


def feed_ranking(metric: Any, part: Batch, asked: Asked, rng: Random) -> None:
    depth = max([asked.options.get("depth", 500), *(k or 0 for k in asked.ks)])
    fed = arguments(part, forms_for([asked]), rng)
    metric.update(tailmetrics.rank(*fed, depth=depth, num_labels=part.num_labels, **as_mask(part)))


@pytest.mark.parametrize("seed", range(SEED, SEED + CASES))
def test_every_form_gives_the_value_of_the_plain_loop(seed: int) -> None:
    """Metric alone, in a collection and from a ranking: one value, whatever form each batch came in."""
    compared, wrong = run_case(seed)
    assert compared
    assert not wrong, "\n".join(wrong)


def test_the_fuzz_reaches_every_metric_and_form() -> None:
    """A hundred draws name every metric, both scopes, every form and every average."""
    rng = Random(0)
    drawn = [draw_asked(rng, *draw_facts(rng, buckets=True)) for _ in range(600)]
    assert {one.name for one in drawn} == set(NAMES)
    assert {one.options.get("scope") for one in drawn} == {None, "bucket", "global"}
    assert {one.options.get("average") for one in drawn} == {None, "samples", "micro", "macro", "weighted"}
    assert any(len(one.ks) > 2 for one in drawn)
    assert forms_for([]) == PREDS


@pytest.mark.parametrize("size", [1e6, 2.0**60, 2.0**99])
def test_cross_entropy_of_scores_of_any_size(size: float) -> None:
    """Seven labels share the best score, one of them relevant: ln 7, however large the score is."""
    metric = tailmetrics.CrossEntropy()
    metric.update(torch.tensor([[size] * 7 + [-size] * 3]), torch.tensor([6]))
    assert float(metric.compute()) == pytest.approx(math.log(7), rel=1e-9)
