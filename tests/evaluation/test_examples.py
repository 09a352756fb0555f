"""Example rows: chosen by what they hold, told as a loop over the scores finds them, the same however rows come."""

import json
from typing import Any

import pytest
import torch
from torch import Tensor

from tailmetrics import MRR, LabelBuckets, PrecisionAtK, RecallAtK, evaluate
from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.row_examples import RELEVANT
from tailmetrics.report import Example

ROWS, LABELS, K = 80, 40, 5
COUNTS = (400 / torch.arange(1, LABELS + 1)).long()
BUCKETS = LabelBuckets.quantiles(COUNTS, 3)


def data() -> tuple[Tensor, Tensor]:
    """Scores in steps, so that some are equal, and three relevant labels a row, one of them twice in places."""
    generator = torch.Generator().manual_seed(2)
    scores = (torch.randn(ROWS, LABELS, generator=generator) * 4).round() / 4
    scores[torch.rand(ROWS, LABELS, generator=generator) < 0.1] = -torch.inf
    return scores, torch.rand(ROWS, LABELS, generator=generator) < 0.08


def evaluation(**more: Any) -> Evaluation:
    """What shows lists of five by bucket."""
    metrics = [RecallAtK(K, buckets=BUCKETS, scope="global", depth=LABELS)]
    return Evaluation(metrics, examples=True, **more)


def report_of(batches: list[tuple[Any, ...]], **more: Any) -> list[Example]:
    """The examples of batches of predictions, targets and numbers of rows."""
    found = evaluation(**more)
    for preds, target, rows in batches:
        found.update(preds, target, rows=rows)
    return list(found.report("").examples)


def as_told(scores: Tensor, mask: Tensor, row: int) -> tuple[list[tuple[int, int | None, bool]], list[int]]:
    """Relevant labels with rank and hit, and the list of a row, by a loop over the labels."""
    order = sorted(
        (label for label in range(LABELS) if scores[row, label] > -torch.inf),
        key=lambda one: (-float(scores[row, one]), one),
    )
    ranks = {label: place for place, label in enumerate(order, start=1)}
    relevant = [(label, ranks.get(label), ranks.get(label, LABELS) <= K) for label in range(LABELS) if mask[row, label]]
    return sorted(relevant, key=lambda one: (one[1] is None, one[1], one[0])), order[:K]


def test_each_bucket_has_a_row_that_misses_a_label_of_it() -> None:
    """Ranks, hits and lists are those of a loop; the missed label is relevant, of that bucket, and not shown."""
    scores, mask = data()
    found = evaluate(scores, mask, metrics=[RecallAtK(K, buckets=BUCKETS, scope="global")], examples=True).examples
    assert [one.bucket for one in found] == list(BUCKETS.names)[: len(found)]
    assert len(found) == 3
    for one in found:
        assert one.row is not None
        relevant, shown = as_told(scores, mask, one.row)
        assert [(label.label, label.rank, label.hit) for label in one.relevant] == relevant
        assert [label.label for label in one.shown] == shown
        assert [label.hit for label in one.shown] == [bool(mask[one.row, label]) for label in shown]
        assert mask[one.row, one.missed]
        assert one.missed not in shown
        assert BUCKETS.names[int(BUCKETS.assignment[one.missed])] == one.bucket
        assert one.num_relevant == int(mask[one.row].sum())


@pytest.mark.slow
def test_no_order_of_rows_and_no_cut_into_batches_changes_them() -> None:
    """Rows shuffled, in batches of other sizes, and as ids that are padded otherwise: the same rows."""
    scores, mask = data()
    rows = torch.arange(ROWS)
    expected = report_of([(scores, mask, rows)])
    shuffled = torch.randperm(ROWS, generator=torch.Generator().manual_seed(0))
    for size in (1, 7, ROWS):
        parts = shuffled.split(size)
        assert report_of([(scores[part], mask[part], rows[part]) for part in parts]) == expected
    width = int(mask.sum(dim=1).max()) + 3
    ids = torch.full((ROWS, width), -1)
    for row in range(ROWS):
        labels = mask[row].nonzero()[:, 0].flip(0)
        ids[row, : len(labels)] = labels
    assert report_of([(scores, ids, rows)]) == expected


def test_what_was_counted_apart_is_put_together() -> None:
    """Evaluations of parts merged, in memory and as bytes, have the examples of the whole."""
    scores, mask = data()
    rows = torch.arange(ROWS)
    expected = report_of([(scores, mask, rows)])
    first, second, third = (evaluation() for _ in range(3))
    first.update(scores[:30], mask[:30], rows=rows[:30])
    second.update(scores[30:], mask[30:], rows=rows[30:])
    third.load_state_bytes(second.state_bytes())
    for other in (second, third):
        merged = evaluation()
        merged.merge_state(first)
        merged.merge_state(other)
        assert list(merged.report("").examples) == expected


def test_rows_that_do_not_count_are_no_examples() -> None:
    """With a mask the examples are those of the other rows alone."""
    scores, mask = data()
    keep = torch.arange(ROWS) % 3 == 0
    found = evaluation()
    found.update(scores, mask, keep, rows=torch.arange(ROWS))
    assert list(found.report("").examples) == report_of([(scores[keep], mask[keep], torch.arange(ROWS)[keep])])


def test_rows_alike_differ_by_their_number_alone() -> None:
    """Of rows that hold the same the one with the lowest number is told, in whatever batch it came."""
    scores, mask = data()
    same, relevant = scores[:1].expand(6, -1), mask[:1].expand(6, -1)
    for parts in ([0, 1, 2, 3, 4, 5], [5, 3, 1, 4, 2, 0]):
        batches = [(same[part : part + 1], relevant[part : part + 1], torch.tensor([10 + part])) for part in parts]
        assert {one.row for one in report_of(batches)} == {10}


def test_names_numbers_and_none() -> None:
    """A row is told by its name, else by its number, else not at all; labels by name."""
    scores, mask = data()
    labels = [f"label {label}" for label in range(LABELS)]
    rows = [f"query {row}" for row in range(ROWS)]
    metrics = [RecallAtK(K)]
    named = evaluate(scores, mask, metrics=metrics, examples=True, label_names=labels, row_names=rows).examples
    assert [one.label for one in named] == [f"query {one.row}" for one in named]
    assert all(label.name == f"label {label.label}" for one in named for label in (*one.relevant, *one.shown))
    assert 1 < len(named) <= 5
    assert all(not one.bucket for one in named)
    numbered = evaluate(scores, mask, metrics=metrics, examples=True).examples
    assert [one.label for one in numbered] == [f"row {one.row}" for one in numbered]
    assert [one.label for one in report_of([(scores, mask, None)])] == [""] * 3


def test_long_targets_are_cut_and_counted() -> None:
    """Of thirty relevant labels twelve are told, the missed one among them, and how many there are."""
    scores, _ = data()
    mask = torch.zeros(ROWS, LABELS, dtype=torch.bool)
    mask[:, 10:] = True
    for one in report_of([(scores, mask, None)]):
        assert len(one.relevant) == RELEVANT
        assert one.num_relevant == 30
        assert one.missed in [label.label for label in one.relevant]


def test_without_a_list_or_a_miss_there_are_none() -> None:
    """A metric without a cut-off shows no list, and rows that find everything miss nothing."""
    scores, mask = data()
    assert not evaluate(scores, mask, metrics=[MRR()], examples=True).examples
    perfect = mask.float()
    assert not evaluate(perfect, mask & (mask.cumsum(1) <= K), metrics=[PrecisionAtK(K)], examples=True).examples


def test_wrong_names_and_numbers_are_refused() -> None:
    """One name for each row, one whole number for each row."""
    scores, mask = data()
    with pytest.raises(ValueError, match=r"evaluate: row_names holds 1 names for 80 rows"):
        evaluate(scores, mask, examples=True, row_names=["one"])
    with pytest.raises(ValueError, match=r"Evaluation: the numbers of rows are .* for 80 rows"):
        evaluation().update(scores, mask, rows=torch.arange(3))


@pytest.mark.parametrize(("place", "wrong"), [(1, -1), (3, -7), (4, [0] * 4 + [-5]), (6, [10**30] * 3), (2, 0.5)])
def test_forged_examples_are_refused(place: int, wrong: Any) -> None:
    """A label or a row below 0 would show the name of another one; what was kept stays."""
    one = evaluation()
    one.update(*data(), rows=torch.arange(ROWS))
    examples = one.examples
    assert examples is not None
    mine = examples.state_bytes()
    forged = json.loads(mine)
    forged["0"][place] = wrong
    for odd in (forged, {"9": forged["1"]}):
        with pytest.raises((TypeError, ValueError)):
            examples.load_state_bytes(json.dumps(odd).encode())
        assert examples.state_bytes() == mine
