"""docs/names.md is correct: its calls run, and give the values that are known by these
names elsewhere.
"""

import re
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
import torch
from sklearn.metrics import balanced_accuracy_score

import tailmetrics
from tailmetrics import (
    MAP,
    MRR,
    AccuracyAtK,
    CGAtK,
    HitRateAtK,
    KForRecall,
    LabelBuckets,
    NormalizedRecallAtK,
    PredictionProportionAtK,
    PropensityScoredRecallAtK,
    RecallAtK,
    RecallAtThreshold,
    TopKCollection,
    functional,
)
from tailmetrics.buckets import buckets_of_kind

ROOT = Path(__file__).parents[2]
L = 60
COUNTS = [300 // (label + 1) for label in range(L)]
WORDS = (ROOT / "docs" / "names.md").read_text()


def calls() -> list[str]:
    """Return every call of a class in the second columns of the tables."""
    rows = re.findall(
        r"^\| .* \| (.*) \|$",
        WORDS.partition("## Asked for elsewhere")[0],
        re.MULTILINE,
    )
    return sorted(
        {call for row in rows for call in re.findall(r"`([A-Z]\w+\([^`]*\))`", row)}
    )


def test_the_page_has_calls_of_every_field() -> None:
    """The parser of the page returns metrics of every field."""
    names = {call.partition("(")[0] for call in calls()}
    assert {
        "HitRateAtK",
        "PropensityScoredPrecisionAtK",
        "RPrecision",
        "CrossEntropy",
        "F1AtThreshold",
    } <= names


@pytest.mark.parametrize("call", calls())
def test_every_call_of_the_page_creates_a_metric(call: str) -> None:
    """Every call of the page creates a metric, with the number of labels and the counts
    that the page names.
    """
    metric = eval(
        call,
        {
            **{name: getattr(tailmetrics, name) for name in tailmetrics.__all__},
            "L": L,
            "counts": COUNTS,
            "parents": [-1] * L,
        },
    )
    assert isinstance(metric, tailmetrics.TopKMetric)


def value(
    metric: tailmetrics.TopKMetric, preds: torch.Tensor, target: torch.Tensor
) -> torch.Tensor:
    """Return the value of one batch."""
    metric.update(preds, target)
    return metric.compute()


@pytest.fixture
def scores() -> torch.Tensor:
    """Return scores of 200 rows, which are higher for labels of lower ids."""
    return (
        torch.rand(200, L, generator=torch.Generator().manual_seed(0))
        - torch.arange(L) / 100
    )


@pytest.fixture
def classes() -> torch.Tensor:
    """Return one label per row; every label occurs."""
    random_labels = torch.randint(
        0, L, (200 - L,), generator=torch.Generator().manual_seed(1)
    )
    return torch.cat([torch.arange(L), random_labels])


def test_balanced_accuracy_is_macro_recall_at_1(
    scores: torch.Tensor, classes: torch.Tensor
) -> None:
    """Macro recall at 1 is the balanced accuracy of scikit-learn."""
    ours = value(RecallAtK(k=1, average="macro", num_labels=L), scores, classes)
    assert float(ours) == pytest.approx(
        balanced_accuracy_score(classes, scores.argmax(1)), abs=1e-12
    )


def test_accuracy_of_many_medium_and_few_shot_is_macro_recall_by_threshold(
    scores: torch.Tensor, classes: torch.Tensor
) -> None:
    """Macro recall at 1 by thresholds is the accuracy of many, medium and few-shot
    classes: the mean over the classes with more than 100, 20 to 100, and fewer than 20
    training rows.
    """
    buckets = buckets_of_kind("thresholds:1,20,101:many,medium,few", COUNTS)
    ours = value(
        RecallAtK(k=1, average="macro", buckets=buckets, scope="global"),
        scores,
        classes,
    )
    right = (scores.argmax(1) == classes).double()
    counts = np.array(COUNTS)
    groups = (
        counts > 100,
        (counts >= 20) & (counts <= 100),
        (counts < 20) & (counts > 0),
    )
    for recall, group in zip(ours.tolist(), groups, strict=False):
        per_class = [
            float(right[classes == label].mean()) for label in np.flatnonzero(group)
        ]
        assert recall == pytest.approx(float(np.mean(per_class)), abs=1e-12)
    assert buckets.names[:3] == ("many", "medium", "few")


def test_mean_rank_is_the_mean_k_for_a_recall_of_1(
    scores: torch.Tensor, classes: torch.Tensor
) -> None:
    """The mean rank of the relevant label, which is 1 plus the number of labels with
    higher scores, is the mean k for a recall of 1.
    """
    ours = value(KForRecall(min_recall=1.0, statistic="mean", depth=L), scores, classes)
    ranks = (scores > scores.gather(1, classes[:, None])).sum(1) + 1
    assert float(ours) == float(ranks.double().mean())


def test_relative_p_and_num_rel_ret_are_normalized_recall_and_cumulated_gain() -> None:
    """``relative_P`` of trec_eval is normalized recall, and ``num_rel_ret`` is the sum
    over rows of the cumulated gain of 0/1 targets.
    """
    source = np.random.default_rng(0)
    order = np.stack([source.permutation(L)[:20] for _ in range(30)])
    relevant = np.stack([source.permutation(L)[:12] for _ in range(30)])
    run = {
        f"q{row}": {f"d{label}": 20.0 - rank for rank, label in enumerate(order[row])}
        for row in range(30)
    }
    qrels = {
        f"q{row}": {f"d{label}": 1 for label in relevant[row]} for row in range(30)
    }
    theirs = pytrec_eval.RelevanceEvaluator(
        qrels, {"relative_P", "num_rel_ret"}
    ).evaluate(run)
    ids, target = torch.from_numpy(order), torch.from_numpy(relevant)
    for k in (5, 15):
        mean = np.mean([values[f"relative_P_{k}"] for values in theirs.values()])
        assert float(value(NormalizedRecallAtK(k=k), ids, target)) == pytest.approx(
            mean, abs=1e-9
        )
    hits = sum(values["num_rel_ret"] for values in theirs.values())
    assert float(value(CGAtK(k=20), ids, target)) * 30 == pytest.approx(hits, abs=1e-9)


def test_snips_is_the_weighted_share_of_hits(
    scores: torch.Tensor, classes: torch.Tensor
) -> None:
    """Propensity-scored recall with weights (n / N)^-((γ + 1) / 2) is SNIPS: Σ w·hit /
    Σ w.

    Kish's effective sample size of the weights is between 1 and the number of rows.
    """
    weights = functional.inverse_popularity(COUNTS, gamma=1.5)
    expected = [(max(COUNTS) / count) ** 1.25 for count in COUNTS]
    assert weights.tolist() == pytest.approx(expected, rel=1e-12)
    ours = value(PropensityScoredRecallAtK(k=10, weights=weights), scores, classes)
    hits = (scores.topk(10).indices == classes[:, None]).any(1)
    w = weights[classes[classes >= 0]]
    assert float(ours) == pytest.approx(float((w * hits).sum() / w.sum()), abs=1e-12)
    assert 1 < float(w.sum() ** 2 / (w**2).sum()) < len(classes)


def test_macro_coverage_of_sets_is_macro_recall_at_a_threshold(
    scores: torch.Tensor, classes: torch.Tensor
) -> None:
    """Macro recall at a threshold is the macro coverage of sets: the mean over labels
    of how often a set holds them.

    The labels that are missed in most of their rows are those of a loop.
    """
    recalls = [
        float((scores[classes == label, label] > 0.5).double().mean())
        for label in range(L)
    ]
    ours = value(RecallAtThreshold(0.5, average="macro", num_labels=L), scores, classes)
    assert float(ours) == pytest.approx(float(np.mean(recalls)), abs=1e-12)
    collection = TopKCollection([RecallAtThreshold(0.5, average="none", num_labels=L)])
    has_row = classes != 3  # label 3 has no row, so that it is not missed
    collection.update(scores[has_row], classes[has_row])
    columns = collection.per_label()
    (column,) = (values for name, values in columns.items() if "recall" in name)
    missed = (column < 0.5) & (columns["support"] > 0)
    assert int(missed.sum()) == sum(
        recall < 0.5 for label, recall in enumerate(recalls) if label != 3
    )


def test_optimistic_and_pessimistic_ranks_are_orders_of_ties(
    classes: torch.Tensor,
) -> None:
    """MRR with ties="best" and "worst" has the optimistic and pessimistic ranks of
    PyKEEN: 1 plus the higher scores, and all higher and equal scores. ties="expected"
    is the mean of 1 / rank over these.
    """
    scores = torch.randint(
        0, 6, (200, L), generator=torch.Generator().manual_seed(2)
    ).float()
    relevant_scores = scores.gather(1, classes[:, None])
    above, equal = (scores > relevant_scores).sum(1), (scores == relevant_scores).sum(1)
    assert float(value(MRR(ties="best"), scores, classes)) == pytest.approx(
        float((1 / (above + 1.0)).mean())
    )
    assert float(value(MRR(ties="worst"), scores, classes)) == pytest.approx(
        float((1 / (above + equal * 1.0)).mean())
    )
    mean = [
        np.mean([1 / (a + j) for j in range(1, e + 1)])
        for a, e in zip(above.tolist(), equal.tolist(), strict=True)
    ]
    assert float(value(MRR(ties="expected"), scores, classes)) == pytest.approx(
        float(np.mean(mean))
    )


def test_values_of_sentence_transformers_and_of_the_harness(
    scores: torch.Tensor, classes: torch.Tensor
) -> None:
    """Accuracy@k of sentence-transformers is the hit rate, ``acc`` of the harness is
    accuracy at 1, and MAP@100 divides by min(100, n).
    """
    num_higher = (scores > scores.gather(1, classes[:, None])).sum(1)
    ours = value(HitRateAtK(k=[1, 3]), scores, classes).tolist()
    assert ours == [float((num_higher < k).double().mean()) for k in (1, 3)]
    assert float(value(AccuracyAtK(k=1), scores, classes)) == float(
        (scores.argmax(1) == classes).double().mean()
    )
    inverse = torch.where(num_higher < 100, 1 / (num_higher + 1.0), 0.0)
    ours_map = value(MAP(k=100, denominator="attainable"), scores, classes)
    assert float(ours_map) == pytest.approx(float(inverse.double().mean()), abs=1e-7)


def test_sampled_candidates_raise_the_hit_rate(
    scores: torch.Tensor, classes: torch.Tensor
) -> None:
    """The hit rate of the relevant label among 20 sampled candidates is that of a
    direct count, and is greater than among all labels.
    """
    candidates = torch.stack(
        [
            torch.randperm(L, generator=torch.Generator().manual_seed(row))[:20]
            for row in range(200)
        ]
    )
    ids = torch.cat(
        [classes[:, None], torch.where(candidates == classes[:, None], -1, candidates)],
        dim=1,
    )
    sampled = torch.where(ids < 0, -torch.inf, scores.gather(1, ids.clamp(min=0)))
    ours = value(HitRateAtK(k=10), (sampled, ids), classes)
    assert float(ours) == float(
        ((sampled > sampled[:, :1]).sum(1) < 10).double().mean()
    )
    assert float(ours) > float(value(HitRateAtK(k=10), scores, classes))


def test_tail_percentage_is_the_proportion_of_the_bucket_of_rare_labels(
    scores: torch.Tensor,
) -> None:
    """The prediction proportion of the bucket of items with at most 5 occurrences is
    the tail percentage of RecBole: the share in each list, averaged over users.
    """
    buckets = LabelBuckets.thresholds(COUNTS, (1, 6))
    ours = value(
        PredictionProportionAtK(k=10, buckets=buckets),
        scores,
        torch.zeros(200, dtype=torch.int64),
    )
    rare = torch.tensor(COUNTS) <= 5
    shares = rare[scores.topk(10).indices].double().mean(1)
    assert buckets.names[1] == "1-5"
    assert float(ours[1]) == pytest.approx(float(shares.mean()), abs=1e-12)
