"""Blind spots count only rows whose labels all fit in a list."""

import pytest
import torch

import tailmetrics as tm
from tailmetrics.evaluation import Evaluation
from tailmetrics.report import markdown

K = 5


def data():
    """Return scores of a perfect model, and targets: 300 rows of 15 labels out of 20,
    and 200 rows of one label.
    """
    generator = torch.Generator().manual_seed(0)
    target = torch.zeros(500, 40)
    for row in range(300):
        target[row, torch.randperm(20, generator=generator)[:15]] = 1
    target[torch.arange(300, 500), torch.arange(200) % 20 + 20] = 1
    scores = target + 0.01 * torch.rand(500, 40, generator=generator)
    return scores, target


def test_a_perfect_model_has_no_blind_spot():
    """A perfect model has no blind spot, although its lists of five hold a third of 15
    relevant labels.

    The page says that rows with more labels than a list can hold are left out.
    """
    scores, target = data()
    report = tm.evaluate(scores, target, metrics=[tm.RecallAtK(K)], labels=True)
    assert report.blind_spots == []
    assert (
        "300 rows with more than 5 relevant labels are left out, because no list of 5 holds them all"
        in markdown(report)
    )


def test_crowded_counts_equal_a_loop_in_any_batches():
    """The support, hits and number of crowded rows, which are left out, equal those of
    plain loops.

    This holds for merged shares and with a row mask.
    """
    scores, target = data()
    target[40:60, 0] = 0
    mask = torch.arange(500) % 7 > 0
    top = scores.topk(K).indices
    support, hits = (
        torch.zeros(40, dtype=torch.int64),
        torch.zeros(40, dtype=torch.int64),
    )
    for row in range(500):
        if mask[row] and target[row].sum() > K:
            for label in target[row].nonzero().flatten().tolist():
                support[label] += 1
                hits[label] += int(label in top[row])
    parts = []
    for rows in (range(0, 500, 2), range(1, 500, 2)):
        part = Evaluation([tm.RecallAtK(K, num_labels=40)], labels=True, num_labels=40)
        part.update(scores[list(rows)], target[list(rows)], mask[list(rows)])
        parts.append(part)
    parts[0].merge_state(parts[1])
    labels = parts[0].report("").labels
    assert labels.crowded_support.tolist() == support.tolist()
    assert labels.crowded_hits.tolist() == hits.tolist()
    assert labels.crowded_rows == int((mask & (target.sum(1) > K)).sum())


@pytest.mark.parametrize("k", [5, 15])
def test_label_missed_in_uncrowded_rows_is_a_blind_spot(k):
    """A label that is never found in rows of one label stays a blind spot, with the
    counts of those rows alone.
    """
    scores, target = data()
    scores[target[:, 25] == 1, 25] = -1
    spots = tm.evaluate(
        scores, target, metrics=[tm.RecallAtK(k)], labels=True
    ).blind_spots
    assert [(spot.label, spot.support, spot.hits) for spot in spots] == [(25, 10, 0)]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("scope", ["global", "bucket"])
def test_crowded_rows_are_those_of_the_deepest_list(scope, order):
    """With several metrics in any order, crowded rows are those with more labels than
    the deepest list of a row, here of five. Hits in other rows are 0 in the head and 10
    in the tail for each label.
    """
    scores, target = data()
    buckets = tm.LabelBuckets.from_assignment(torch.arange(40) // 20, ["head", "tail"])
    metrics = [
        tm.RecallAtK([1, K], average="macro", buckets=buckets, scope=scope),
        tm.RecallAtK([1, K], average="none", num_labels=40),
        tm.PrecisionAtK(2, average="none", num_labels=40),
    ]
    report = tm.evaluate(scores, target, metrics=metrics[::order], labels=True)
    assert report.labels.k == "5"
    assert report.labels.tests is not None
    hits_in_other_rows = report.labels.columns[f"hits@{K}"] - report.labels.crowded_hits
    assert hits_in_other_rows.tolist() == [0] * 20 + [10] * 20
    assert report.blind_spots == []
