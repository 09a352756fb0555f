"""Values of each label: ``average="none"`` equals scikit-learn's ``average=None``; ``per_label()`` gives the counts.

Readings of the contract where it leaves a choice:

- A label with nothing below the line is 0 (``zero_division=0``), as in the macro mean.
- ``scalars()`` of ``average="none"`` raises and names ``compute`` or ``per_label``. A collection with such a member
  leaves it out of ``compute()`` rather than raise, so that a training loop goes on.
- The keys of ``per_label()`` are ``count``, ``support``, ``predicted`` and ``hits`` where the members share one
  cut-off or threshold; the values stand under keys that end with ``precision@3`` (or ``f1@t0.5``).
- ``count`` is the training count that the collection was bound to.
- Every row counts in every count ("neg", as overall).
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import tailmetrics
from wishes.rows import COUNTS, NUM_LABELS, drawn, fed, floats, ranked, sets

MEASURES = {"precision": "PrecisionAtK", "recall": "RecallAtK", "f1": "F1AtK"}

every_measure = pytest.mark.parametrize("measure", MEASURES)


def shown_at(scores: Tensor, k: int) -> list[set[int]]:
    """The top k of each row."""
    return [set(order[:k]) for order in ranked(scores.tolist())]


def counted(shown: list[set[int]], relevant: list[set[int]]) -> dict[str, list[int]]:
    """Support, predictions and hits of each label."""
    rows = list(zip(shown, relevant, strict=True))
    labels = range(NUM_LABELS)
    return {
        "support": [sum(label in own for _, own in rows) for label in labels],
        "predicted": [sum(label in listed for listed, _ in rows) for label in labels],
        "hits": [sum(label in listed and label in own for listed, own in rows) for label in labels],
    }


def value_of(measure: str, hits: int, predicted: int, support: int) -> float:
    above = 2 * hits if measure == "f1" else hits
    below = {"precision": predicted, "recall": support, "f1": predicted + support}[measure]
    return above / below if below else 0.0


def oracle(measure: str, shown: list[set[int]], relevant: list[set[int]]) -> list[float]:
    """The value of each label."""
    counts = counted(shown, relevant)
    columns = zip(counts["hits"], counts["predicted"], counts["support"], strict=True)
    return [value_of(measure, *three) for three in columns]


def as_matrix(shown: list[set[int]]) -> Tensor:
    return torch.tensor([[label in listed for label in range(NUM_LABELS)] for listed in shown])


def batch(seed: int) -> tuple[Tensor, Tensor]:
    """One label never relevant, one never shown, one neither."""
    scores, target = drawn(seed)
    target[:, [3, 5]] = False
    scores[:, [4, 5]] = -20.0
    return scores, target


def made(measure: str, *arguments: Any, **more: Any) -> Any:
    return getattr(tailmetrics, MEASURES[measure])(*arguments, average="none", num_labels=NUM_LABELS, **more)


# --- cut-offs


@every_measure
def test_one_cut_off_gives_a_value_per_label(measure: str) -> None:
    """``compute()`` has shape (L,) and equals the plain loop."""
    scores, target = batch(1)
    found = fed(made(measure, 3), scores, target).compute()
    assert found.shape == (NUM_LABELS,)
    assert floats(found) == pytest.approx(oracle(measure, shown_at(scores, 3), sets(target)), rel=0, abs=1e-12)


@every_measure
def test_several_cut_offs_give_a_row_each(measure: str) -> None:
    """``compute()`` has shape (len(k), L)."""
    scores, target = batch(2)
    found = fed(made(measure, [1, 4, 9]), scores, target).compute()
    assert found.shape == (3, NUM_LABELS)
    for row, k in zip(found, (1, 4, 9), strict=True):
        assert floats(row) == pytest.approx(oracle(measure, shown_at(scores, k), sets(target)), rel=0, abs=1e-12)


@every_measure
@pytest.mark.parametrize("k", [1, 3])
def test_scikit_learn_on_the_top_k(measure: str, k: int) -> None:
    """precision_score, recall_score and f1_score with average=None on the top k as a 0/1 matrix."""
    peers = pytest.importorskip("sklearn.metrics")
    scores, target = batch(3)
    decided = as_matrix(shown_at(scores, k))
    expected = getattr(peers, f"{measure}_score")(target, decided, average=None, zero_division=0)
    found = floats(fed(made(measure, k), scores, target).compute())
    assert found == pytest.approx(expected.tolist(), rel=0, abs=1e-9)


@every_measure
def test_scikit_learn_on_classes(measure: str) -> None:
    """At k = 1 on class indices, scikit-learn's value of each class."""
    peers = pytest.importorskip("sklearn.metrics")
    scores, _ = batch(4)
    classes = torch.arange(len(scores)) % (NUM_LABELS - 2)
    labels = list(range(NUM_LABELS))
    score = getattr(peers, f"{measure}_score")
    expected = score(classes, scores.argmax(1), average=None, labels=labels, zero_division=0)
    found = floats(fed(made(measure, 1), scores, classes).compute())
    assert found == pytest.approx(expected.tolist(), rel=0, abs=1e-9)


@every_measure
def test_the_macro_mean_is_the_mean_of_the_values(measure: str) -> None:
    """Of all labels with labels="all", of those with a support by default."""
    scores, target = batch(5)
    values = fed(made(measure, 3), scores, target).compute()
    for labels, chosen in (("all", torch.ones(NUM_LABELS, dtype=torch.bool)), ("present", target.any(0))):
        macro = getattr(tailmetrics, MEASURES[measure])(3, average="macro", labels=labels, num_labels=NUM_LABELS)
        assert float(fed(macro, scores, target).compute()) == pytest.approx(float(values[chosen].mean()), abs=1e-12)


# --- thresholds


@every_measure
@pytest.mark.parametrize("threshold", [0.25, [0.0, 0.75], torch.linspace(-1, 1, NUM_LABELS)])
def test_thresholds_give_a_value_per_label(measure: str, threshold: Any) -> None:
    """(L,) for one threshold or one per label, (T, L) for several; scikit-learn's average=None."""
    peers = pytest.importorskip("sklearn.metrics")
    scores, target = batch(7)
    name = MEASURES[measure].replace("AtK", "AtThreshold")
    metric = getattr(tailmetrics, name)(threshold, average="none", num_labels=NUM_LABELS)
    found = fed(metric, scores, target).compute()
    several = threshold if isinstance(threshold, list) else [threshold]
    assert found.shape == ((len(several), NUM_LABELS) if isinstance(threshold, list) else (NUM_LABELS,))
    score = getattr(peers, f"{measure}_score")
    expected = [score(target, scores > one, average=None, zero_division=0).tolist() for one in several]
    assert floats(found) == pytest.approx([value for row in expected for value in row], rel=0, abs=1e-9)


# --- where to look


def test_scalars_says_where_to_look_instead() -> None:
    """Thousands of labels are no scalars to log: the error names compute and per_label."""
    metric = fed(tailmetrics.RecallAtK(3, average="none", num_labels=NUM_LABELS), *batch(8))
    with pytest.raises((TypeError, ValueError), match=r"RecallAtK: .*(compute|per_label)"):
        metric.scalars()


def collection(**more: Any) -> Any:
    """Precision, recall and F1 of each label at 3, with one value for logs beside them."""
    members = [made(measure, 3) for measure in MEASURES]
    return tailmetrics.TopKCollection([*members, tailmetrics.MRR()], **more)


def only(found: dict[str, Tensor], ending: str) -> Tensor:
    """The one entry whose key ends so."""
    [key] = [key for key in found if key.endswith(ending)]
    return found[key]


def test_a_collection_computes_what_can_be_logged() -> None:
    """Members without scalars do not keep the others from being logged."""
    found = fed(collection(), *batch(9)).compute()
    assert list(found) == ["mrr"]


def test_per_label_gives_counts_and_values() -> None:
    """Training count, support, predictions and hits as integers, and each metric's values, all of shape (L,)."""
    scores, target = batch(10)
    bound = collection()
    bound.bind(tailmetrics.LabelFrequency.from_counts(COUNTS, int(COUNTS.sum())))
    found = fed(bound, scores, target).per_label()
    assert all(value.shape == (NUM_LABELS,) for value in found.values())
    wanted = {"count": COUNTS.tolist(), **counted(shown_at(scores, 3), sets(target))}
    for key, counts in wanted.items():
        assert found[key].dtype == torch.int64, key
        assert found[key].tolist() == counts, key
    for measure in MEASURES:
        expected = oracle(measure, shown_at(scores, 3), sets(target))
        assert floats(only(found, f"{measure}@3")) == pytest.approx(expected, rel=0, abs=1e-12)


def test_per_label_of_thresholds() -> None:
    """The same of what is above a threshold."""
    scores, target = batch(11)
    names = ("PrecisionAtThreshold", "RecallAtThreshold", "F1AtThreshold")
    members = [getattr(tailmetrics, name)(0.5, average="none", num_labels=NUM_LABELS) for name in names]
    found = fed(tailmetrics.TopKCollection(members), scores, target).per_label()
    above = [{label for label, score in enumerate(row) if score > 0.5} for row in scores.tolist()]
    for key, counts in counted(above, sets(target)).items():
        assert found[key].tolist() == counts, key
    for measure in MEASURES:
        expected = oracle(measure, above, sets(target))
        assert floats(only(found, f"{measure}@t0.5")) == pytest.approx(expected, rel=0, abs=1e-12)


def test_per_label_of_macro_members() -> None:
    """A member with a macro average counts per label as well, and shows the labels behind its mean."""
    scores, target = batch(12)
    member = tailmetrics.F1AtK(2, average="macro", labels="all", num_labels=NUM_LABELS)
    made_of = fed(tailmetrics.TopKCollection([member]), scores, target)
    values = only(made_of.per_label(), "f1@2")
    assert float(values.mean()) == pytest.approx(float(made_of.compute()["macro_f1_all@2"]), abs=1e-12)


def test_per_label_without_a_member_that_counts_labels_says_what_to_add() -> None:
    """A collection of row means knows no labels: an error, no empty table."""
    whole = fed(tailmetrics.TopKCollection([tailmetrics.MRR()]), *batch(14))
    with pytest.raises((TypeError, ValueError), match=r"TopKCollection.*average"):
        whole.per_label()


def test_two_members_of_one_kind_keep_their_own_columns() -> None:
    """Gains 1 and 1: each label is hit once, and by min_gain=2 never; no column of one stands beside values of another."""
    members = [made("precision", k=1), made("precision", k=1, min_gain=2)]
    collection = tailmetrics.TopKCollection(members)
    gains = torch.zeros(2, NUM_LABELS)
    gains[0, 0] = gains[1, 1] = 1.0
    collection.update(torch.tensor([[0], [1]]), gains)
    found = collection.per_label()
    assert floats(found["precision@1"])[:3] == [1, 1, 0]
    assert floats(found["hits"])[:3] == [1, 1, 0]
    assert floats(found["precision@1 (none_precision_min2@1)"])[:3] == [0, 0, 0]
    assert floats(found["hits (none_precision_min2@1)"])[:3] == [0, 0, 0]
