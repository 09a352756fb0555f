"""`evaluate` and `compare_runs` of rankings, which hold their targets."""

import pytest
import torch

import tailmetrics as tm
from tailmetrics.evaluation import Evaluation, compare_runs

ROWS, LABELS = 60, 12
GENERATOR = torch.Generator().manual_seed(0)
SCORES = torch.rand(ROWS, LABELS, generator=GENERATOR)
OTHER_SCORES = torch.rand(ROWS, LABELS, generator=GENERATOR)
TARGET = torch.randint(LABELS, (ROWS,), generator=GENERATOR)
MASK = torch.arange(ROWS) % 7 != 3
COUNTS = torch.arange(LABELS, 0, -1)
METRICS = [tm.RecallAtK(k=2), tm.NDCGAtK(k=3)]
GROUPED = [tm.RecallAtK(k=2, row_groups=["x", "y"])]


def grouped(pair):
    """Return a ranking whose rows alternate between two groups."""
    return tm.rank(SCORES, TARGET, row_groups=torch.tensor(pair).repeat(ROWS // 2))


def weighted():
    """Return a ranking whose rows have weights."""
    return tm.rank(SCORES, TARGET, row_weights=torch.arange(1.0, ROWS + 1))


def test_a_ranking_has_the_report_of_its_scores_and_target():
    """evaluate of a ranking has the values, intervals, references and counts of rows of
    its scores and target, with row mask and row groups.
    """
    groups = ["even" if row % 2 == 0 else "odd" for row in range(ROWS)]
    arguments = {"metrics": METRICS, "label_counts": COUNTS, "row_groups": groups}
    expected = tm.evaluate(SCORES, TARGET, row_mask=MASK, **arguments)
    report = tm.evaluate(tm.rank(SCORES, TARGET, row_mask=MASK), **arguments)
    assert repr(report.scalars) == repr(expected.scalars)
    assert repr(report.intervals) == repr(expected.intervals)
    assert repr(report.references) == repr(expected.references)
    assert report.rows == expected.rows == int(MASK.sum())
    assert report.row_groups == expected.row_groups


def test_a_cut_ranking_of_pieces_has_the_values_of_all_scores():
    """A ranking of the first k of two halves of the labels has the values of the whole
    matrix of scores.
    """
    halves = [SCORES[:, :6].topk(3), SCORES[:, 6:].topk(3)]
    pair = (
        torch.cat([half.values for half in halves], 1),
        torch.cat([halves[0].indices, halves[1].indices + 6], 1),
    )
    ranking = tm.rank(pair, TARGET, num_labels=LABELS, complete=False)
    expected = tm.evaluate(SCORES, TARGET, metrics=METRICS, label_counts=COUNTS)
    report = tm.evaluate(ranking, metrics=METRICS, label_counts=COUNTS)
    assert report.scalars == pytest.approx(expected.scalars, abs=0, nan_ok=True)


def test_training_targets_are_counted_beside_a_ranking():
    """Training targets beside a ranking are counted over the labels of the ranking,
    also if the last label occurs in no training row.
    """
    train = torch.tensor([0, 0, 1, 5])
    expected = tm.evaluate(SCORES, TARGET, metrics=METRICS, train_target=train)
    report = tm.evaluate(tm.rank(SCORES, TARGET), metrics=METRICS, train_target=train)
    assert report.scalars == pytest.approx(expected.scalars, nan_ok=True)


def test_ignore_index_is_no_training_label_beside_a_ranking():
    """Beside a ranking, ignore_index is left out of the training counts: lists padded
    by 0 have the buckets of the same lists padded by -1.
    """
    padded, train = (
        torch.tensor([[3, 1], [3, 0], [2, 0]]),
        torch.tensor([[3, 1], [3, -1], [2, -1]]),
    )
    ranking = tm.rank(SCORES, TARGET.clamp(min=1), ignore_index=0)
    report = tm.evaluate(ranking, metrics=METRICS, train_target=padded, ignore_index=0)
    expected = tm.evaluate(ranking, metrics=METRICS, train_target=train)
    assert report.buckets == expected.buckets


def test_rankings_of_runs_compare_as_their_scores_do():
    """compare_runs of rankings has the values, differences and p-values of compare_runs
    of their scores.
    """
    runs = {"a": SCORES, "b": OTHER_SCORES}
    expected = compare_runs(runs, TARGET, metrics=METRICS, resamples=200)
    rankings = {name: tm.rank(scores, TARGET) for name, scores in runs.items()}
    comparison = compare_runs(rankings, metrics=METRICS, resamples=200)
    assert comparison.values == expected.values
    assert repr(comparison.comparisons) == repr(expected.comparisons)


def test_micro_average_of_weighted_rows_divides_weights():
    """The micro average of weighted rows divides the weights of the rows with a hit by
    those of all rows, and its count is the sum of weights.
    """
    report = tm.evaluate(
        weighted(), metrics=[tm.RecallAtK(k=2, average="micro", weighted=True)]
    )
    is_hit = (SCORES.topk(2).indices == TARGET[:, None]).any(1)
    weights = torch.arange(1, ROWS + 1)
    assert report.by_key["micro_recall@2"].value == int(weights[is_hit].sum()) / int(
        weights.sum()
    )
    assert report.by_key["micro_recall@2"].count == int(weights.sum())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: tm.evaluate(SCORES),
            "target is missing; pass the relevant labels, or a Ranking",
        ),
        (
            lambda: tm.evaluate(tm.rank(SCORES, TARGET), TARGET),
            "target is given beside a Ranking",
        ),
        (
            lambda: tm.evaluate(tm.rank(SCORES, TARGET), row_mask=MASK),
            "row_mask is given beside a Ranking",
        ),
        (
            lambda: tm.evaluate(tm.rank(SCORES, TARGET), label_names=["a"]),
            "label_names holds 1 labels, but the data have 12",
        ),
        (
            lambda: compare_runs({"a": tm.rank(SCORES, TARGET), "b": SCORES}, TARGET),
            "a is a Ranking and b is not",
        ),
        (
            lambda: compare_runs(
                {"a": tm.rank(SCORES, TARGET), "b": tm.rank(SCORES, TARGET.flip(0))}
            ),
            "rankings a and b have different targets",
        ),
        (
            lambda: compare_runs(
                {
                    "a": tm.rank(SCORES, TARGET),
                    "b": tm.rank(SCORES, TARGET, row_mask=MASK),
                }
            ),
            "rankings a and b have different targets or row masks",
        ),
        (
            lambda: compare_runs(
                {"a": grouped([0, 1]), "b": grouped([1, 0])}, metrics=GROUPED
            ),
            "rankings a and b have different row_groups; rank all runs with the same row_groups",
        ),
        (
            lambda: compare_runs(
                {"a": grouped([0, 1]), "b": tm.rank(SCORES, TARGET)}, metrics=GROUPED
            ),
            "rankings a and b have different row_groups",
        ),
        (
            lambda: tm.evaluate(
                grouped([0, 1]), metrics=GROUPED, row_groups=["x", "y"] * (ROWS // 2)
            ),
            "row_groups is given beside a Ranking, which holds it already",
        ),
        (
            lambda: compare_runs(
                dict.fromkeys("ab", weighted()),
                metrics=[tm.RecallAtK(k=3, weighted=True)],
            ),
            "RecallAtK has weighted=True, but tests count all rows alike",
        ),
    ],
)
def test_arguments_that_do_not_fit_a_ranking_are_refused(call, message):
    """evaluate and compare_runs refuse a target, mask or group beside a ranking that
    holds it, scores without a target, rankings of different rows or groups, and
    comparisons of weighted metrics.
    """
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_an_evaluation_refuses_a_target_beside_a_ranking() -> None:
    """Evaluation.update refuses a target or a row mask beside a ranking, which holds
    them, and counts no row; the ranking alone counts.
    """
    ranking = tm.rank(torch.tensor([[0, 1], [1, 0]]), torch.tensor([0, 0]))
    evaluation = Evaluation([tm.RecallAtK(1)])
    for argument in ({"target": torch.tensor([1, 1])}, {"row_mask": torch.ones(2) > 0}):
        with pytest.raises(TypeError, match="a Ranking holds target and row_mask"):
            evaluation.update(ranking, **argument)
    evaluation.update(ranking)
    report = evaluation.report("")
    assert (report.rows, report.scalars["recall@1"]) == (2, 0.5)
