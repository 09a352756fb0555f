"""docs/names.md tells the truth: what it writes can be made, and is what people call by that name."""

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
from tailmetrics.buckets import buckets_of

ROOT = Path(__file__).parents[2]
L = 60
COUNTS = [300 // (label + 1) for label in range(L)]
WORDS = (ROOT / "docs" / "names.md").read_text()


def calls() -> list[str]:
    """Return what the second columns say to write: every call of a class."""
    rows = re.findall(r"^\| .* \| (.*) \|$", WORDS.partition("## Asked for elsewhere")[0], re.MULTILINE)
    return sorted({call for row in rows for call in re.findall(r"`([A-Z]\w+\([^`]*\))`", row)})


def test_calls_are_found() -> None:
    """The reader of the page sees metrics of every field."""
    names = {call.partition("(")[0] for call in calls()}
    assert {"HitRateAtK", "PropensityScoredPrecisionAtK", "RPrecision", "CrossEntropy", "F1AtThreshold"} <= names


@pytest.mark.parametrize("call", calls())
def test_what_is_written_can_be_made(call: str) -> None:
    """As it stands, with the number of labels and the counts that the page speaks of."""
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


def value(metric: tailmetrics.TopKMetric, preds: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the value of one batch."""
    metric.update(preds, target)
    return metric.compute()


@pytest.fixture
def scores() -> torch.Tensor:
    """Return scores of 200 rows; labels that come first score higher."""
    return torch.rand(200, L, generator=torch.Generator().manual_seed(0)) - torch.arange(L) / 100


@pytest.fixture
def classes() -> torch.Tensor:
    """Return one label per row, every label at least once."""
    drawn = torch.randint(0, L, (200 - L,), generator=torch.Generator().manual_seed(1))
    return torch.cat([torch.arange(L), drawn])


def test_balanced_accuracy_is_macro_recall_at_1(scores: torch.Tensor, classes: torch.Tensor) -> None:
    """As scikit-learn computes it."""
    ours = value(RecallAtK(k=1, average="macro", num_labels=L), scores, classes)
    assert float(ours) == pytest.approx(balanced_accuracy_score(classes, scores.argmax(1)), abs=1e-12)


def test_accuracy_of_many_medium_and_few_shot_is_macro_recall_by_threshold(
    scores: torch.Tensor, classes: torch.Tensor
) -> None:
    """Over 100, 20 to 100, below 20 training rows: the mean over the classes of each group of their accuracy."""
    buckets = buckets_of("thresholds:1,20,101:many,medium,few", COUNTS)
    ours = value(RecallAtK(k=1, average="macro", buckets=buckets, scope="global"), scores, classes)
    right = (scores.argmax(1) == classes).double()
    counts = np.array(COUNTS)
    groups = (counts > 100, (counts >= 20) & (counts <= 100), (counts < 20) & (counts > 0))
    for recall, group in zip(ours.tolist(), groups, strict=False):
        per_class = [float(right[classes == label].mean()) for label in np.flatnonzero(group)]
        assert recall == pytest.approx(float(np.mean(per_class)), abs=1e-12)
    assert buckets.names[:3] == ("many", "medium", "few")


def test_mean_rank_is_the_mean_k_for_a_recall_of_1(scores: torch.Tensor, classes: torch.Tensor) -> None:
    """The rank of the one relevant label: one more than the labels that score higher."""
    ours = value(KForRecall(min_recall=1.0, statistic="mean", depth=L), scores, classes)
    ranks = (scores > scores.gather(1, classes[:, None])).sum(1) + 1
    assert float(ours) == float(ranks.double().mean())


def test_relative_p_and_num_rel_ret_of_trec_eval() -> None:
    """``relative_P`` is normalized recall; ``num_rel_ret`` is the cumulated gain of 0/1 targets, summed over rows."""
    drawn = np.random.default_rng(0)
    order = np.stack([drawn.permutation(L)[:20] for _ in range(30)])
    relevant = np.stack([drawn.permutation(L)[:12] for _ in range(30)])
    run = {f"q{row}": {f"d{label}": 20.0 - rank for rank, label in enumerate(order[row])} for row in range(30)}
    qrels = {f"q{row}": {f"d{label}": 1 for label in relevant[row]} for row in range(30)}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"relative_P", "num_rel_ret"}).evaluate(run)
    ids, target = torch.from_numpy(order), torch.from_numpy(relevant)
    for k in (5, 15):
        mean = np.mean([values[f"relative_P_{k}"] for values in theirs.values()])
        assert float(value(NormalizedRecallAtK(k=k), ids, target)) == pytest.approx(mean, abs=1e-9)
    hits = sum(values["num_rel_ret"] for values in theirs.values())
    assert float(value(CGAtK(k=20), ids, target)) * 30 == pytest.approx(hits, abs=1e-9)


def test_snips_is_the_weighted_share_of_hits(scores: torch.Tensor, classes: torch.Tensor) -> None:
    """Σ w·hit / Σ w with w = (n / N)^-((γ + 1) / 2); the effective sample size is that of Kish."""
    weights = functional.inverse_popularity(COUNTS, gamma=1.5)
    expected = [(max(COUNTS) / count) ** 1.25 for count in COUNTS]
    assert weights.tolist() == pytest.approx(expected, rel=1e-12)
    ours = value(PropensityScoredRecallAtK(k=10, weights=weights), scores, classes)
    hits = (scores.topk(10).indices == classes[:, None]).any(1)
    w = weights[classes[classes >= 0]]
    assert float(ours) == pytest.approx(float((w * hits).sum() / w.sum()), abs=1e-12)
    assert 1 < float(w.sum() ** 2 / (w**2).sum()) < len(classes)


def test_macro_coverage_of_sets_is_macro_recall_at_a_threshold(scores: torch.Tensor, classes: torch.Tensor) -> None:
    """The mean over labels of how often a set holds them; labels that are missed more often than not, in loops."""
    recalls = [float((scores[classes == label, label] > 0.5).double().mean()) for label in range(L)]
    ours = value(RecallAtThreshold(0.5, average="macro", num_labels=L), scores, classes)
    assert float(ours) == pytest.approx(float(np.mean(recalls)), abs=1e-12)
    collection = TopKCollection([RecallAtThreshold(0.5, average="none", num_labels=L)])
    has_row = classes != 3  # so that label 3 has no row: it is missed nowhere
    collection.update(scores[has_row], classes[has_row])
    columns = collection.per_label()
    (column,) = (values for name, values in columns.items() if "recall" in name)
    missed = (column < 0.5) & (columns["support"] > 0)
    assert int(missed.sum()) == sum(column < 0.5 for label, column in enumerate(recalls) if label != 3)


def test_ranks_of_pykeen_are_orders_of_equal_scores(classes: torch.Tensor) -> None:
    """Optimistic: one more than what is above; pessimistic: with all that is equal; expected: the mean of 1 / rank."""
    scores = torch.randint(0, 6, (200, L), generator=torch.Generator().manual_seed(2)).float()
    own = scores.gather(1, classes[:, None])
    above, equal = (scores > own).sum(1), (scores == own).sum(1)
    assert float(value(MRR(ties="best"), scores, classes)) == pytest.approx(float((1 / (above + 1.0)).mean()))
    assert float(value(MRR(ties="worst"), scores, classes)) == pytest.approx(float((1 / (above + equal * 1.0)).mean()))
    mean = [
        np.mean([1 / (a + j) for j in range(1, e + 1)]) for a, e in zip(above.tolist(), equal.tolist(), strict=True)
    ]
    assert float(value(MRR(ties="expected"), scores, classes)) == pytest.approx(float(np.mean(mean)))


def test_scores_of_sentence_transformers_and_of_the_harness(scores: torch.Tensor, classes: torch.Tensor) -> None:
    """Accuracy@k: a hit among k; MAP@100 divides by min(100, n); ``acc``: the choice of the largest log-likelihood."""
    place = (scores > scores.gather(1, classes[:, None])).sum(1)
    ours = value(HitRateAtK(k=[1, 3]), scores, classes).tolist()
    assert ours == [float((place < k).double().mean()) for k in (1, 3)]
    assert float(value(AccuracyAtK(k=1), scores, classes)) == float((scores.argmax(1) == classes).double().mean())
    inverse = torch.where(place < 100, 1 / (place + 1.0), 0.0)
    ours_map = value(MAP(k=100, denominator="attainable"), scores, classes)
    assert float(ours_map) == pytest.approx(float(inverse.double().mean()), abs=1e-7)


def test_sampled_candidates_flatter(scores: torch.Tensor, classes: torch.Tensor) -> None:
    """The relevant label and 20 others, drawn: ranked among themselves, as a loop does."""
    drawn = torch.stack([torch.randperm(L, generator=torch.Generator().manual_seed(row))[:20] for row in range(200)])
    ids = torch.cat([classes[:, None], torch.where(drawn == classes[:, None], -1, drawn)], dim=1)
    sampled = torch.where(ids < 0, -torch.inf, scores.gather(1, ids.clamp(min=0)))
    ours = value(HitRateAtK(k=10), (sampled, ids), classes)
    assert float(ours) == float(((sampled > sampled[:, :1]).sum(1) < 10).double().mean())
    assert float(ours) > float(value(HitRateAtK(k=10), scores, classes))


def test_tail_percentage_is_the_proportion_of_the_bucket_of_rare_labels(scores: torch.Tensor) -> None:
    """Of items seen at most 5 times, as RecBole counts them: a share of each list, then the mean over users."""
    buckets = LabelBuckets.thresholds(COUNTS, (1, 6))
    ours = value(PredictionProportionAtK(k=10, buckets=buckets), scores, torch.zeros(200, dtype=torch.int64))
    rare = torch.tensor(COUNTS) <= 5
    shares = rare[scores.topk(10).indices].double().mean(1)
    assert buckets.names[1] == "1-5"
    assert float(ours[1]) == pytest.approx(float(shares.mean()), abs=1e-12)
