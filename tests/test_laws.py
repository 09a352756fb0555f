"""What holds for every metric whose value depends on ranks alone."""

import pytest
import torch

from cases import NUM_LABELS, Case, data
from exactness.bits import CASES_OF_A_KIND
from tailmetrics import KForRecall, LabelFrequency, PrecisionAtK, RecallAtK, functional, rank

pytestmark = pytest.mark.usefixtures("both_forms")

TIED, UNTIED = data(7), data(8, ties=False)


@pytest.mark.parametrize("case", [case for case in CASES_OF_A_KIND if not case.needs_scores], ids=str)
def test_negative_scores_score_as_their_positive_twins(case: Case) -> None:
    """All-negative logits, the same shifted to positive, and stretched: only the order counts, never the sign."""
    values = []
    for scores in (TIED.scores - 100, TIED.scores + 100, TIED.scores * 8):
        metric = case.metric()
        metric.update(scores, TIED.target)
        values.append(metric.compute().nan_to_num(-1))
    assert torch.equal(values[0], values[1])
    assert torch.equal(values[0], values[2])


@pytest.mark.parametrize("case", [case for case in CASES_OF_A_KIND if case.by is None], ids=str)
def test_a_batch_of_no_rows_is_valid_and_changes_nothing(case: Case) -> None:
    """N = 0, before and after a batch of some."""
    metric, plain = case.metric(), case.metric()
    for scores, target in ((UNTIED.scores[:0], UNTIED.target[:0]), (UNTIED.scores, UNTIED.target)) * 2:
        metric.update(scores, target)
    for _ in range(2):
        plain.update(UNTIED.scores, UNTIED.target)
    assert torch.equal(metric.compute().nan_to_num(-1), plain.compute().nan_to_num(-1))


def test_recall_just_reached_is_reached() -> None:
    """For every recall .01 … .99 and every n up to 100: the smallest c with c/n >= recall, not ceil of a product."""
    n = torch.arange(1, 101)
    ids = torch.arange(100).expand(100, 100)
    target = torch.where(ids < n[:, None], ids, -1)
    ranking = rank(ids, target)
    for percent in range(1, 100):
        recall = percent / 100
        wanted = [next(c for c in range(1, size + 1) if c / size >= recall) for size in n.tolist()]
        assert functional.k_for_recall(ranking, recall).tolist() == wanted


def test_the_median_of_an_even_number_of_rows_is_between_the_two_middle_ones() -> None:
    """k = 1, 2, 4 and a miss that counts 10 // 2 = 5: (2 + 4) / 2 = 3."""
    metric = KForRecall(min_recall=1.0, num_labels=10)
    metric.update(torch.arange(4).expand(4, 4), torch.tensor([0, 1, 3, 9]))
    assert float(metric.compute()) == 3.0


def test_depth_bounds_what_a_bucket_sees() -> None:
    """Target at rank 4, alone in its bucket: found by depth 4, not by depth 3."""
    from tailmetrics import LabelBuckets

    buckets = LabelBuckets.from_assignment([0, 0, 0, 1], ["head", "tail"])
    values = []
    for depth in (4, 3):
        metric = RecallAtK(k=1, buckets=buckets, depth=depth)
        metric.update(torch.tensor([[9.0, 8, 7, 6]]), torch.tensor([3]))
        values.append(float(metric.compute()[1]))
    assert values == [1.0, 0.0]


def test_a_ranking_cut_too_short_is_refused() -> None:
    """Scores ranked to 10 do not answer k = 20; complete lists of 10 do."""
    scores = torch.randn(2, NUM_LABELS)
    target = torch.tensor([1, 2])
    with pytest.raises(
        ValueError, match=r"PrecisionAtK: k=20 is deeper than the ranking \(10 ids per row\); rank again"
    ):
        PrecisionAtK(k=20).update(rank(scores, target, depth=10))
    PrecisionAtK(k=20).update(torch.arange(10).expand(2, 10), target)


def test_frequency_waits_for_no_device_without_checks() -> None:
    """validate_args=False counts the same."""
    frequency = LabelFrequency(5, validate_args=False)
    frequency.update(torch.tensor([[0, 2], [2, -1]]))
    assert frequency.compute().tolist() == [1, 0, 2, 0, 0]
