"""Metrics together: a member gives what it gives alone, grouped or not, whatever the first batch looks like."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torchmetrics import MetricCollection

from cases import FEW, NUM_LABELS, data
from exactness.bits import CASES_OF_A_KIND, ONE_OF_EACH, bits_of
from tailmetrics import (
    MRR,
    AccuracyAtK,
    CatalogCoverageAtK,
    EntropyAtK,
    F1AtK,
    GiniAtK,
    LabelBuckets,
    LabelFrequency,
    PopularityAtK,
    PrecisionAtK,
    PropensityScoredPrecisionAtK,
    RecallAtK,
    TopKCollection,
    evaluate,
)
from tailmetrics.evaluation import Evaluation
from tailmetrics.lightning import HeadToTailReport

MISSES = (torch.tensor([[0, 1], [2, 3]]), torch.tensor([[5, 6], [7, -1]]))
EMPTY = (torch.tensor([[0, 1], [2, 3]]), torch.tensor([[-1, -1], [-1, -1]]))
HITS = (torch.tensor([[0, 1], [2, 3], [4, 5]]), torch.tensor([[0, 7], [3, -1], [5, 4]]))
BATCH = data(seed=61, num_rows=15, graded=True)


def values(found: dict[str, Any]) -> dict[str, Any]:
    """The bits of each entry of a dict."""
    return {key: bits_of(value) for key, value in found.items()}


@pytest.mark.parametrize(
    ("kinds", "first", "compute_groups", "prefix", "postfix"),
    [
        pytest.param(CASES_OF_A_KIND, MISSES, True, None, None, id="misses"),
        pytest.param(
            ONE_OF_EACH, EMPTY, True, "val/", "_end", marks=pytest.mark.slow, id="no relevant label, other keys"
        ),
        pytest.param(
            ONE_OF_EACH, MISSES, False, "val/", "_end", marks=pytest.mark.slow, id="without groups, other keys"
        ),
    ],
)
def test_a_plain_collection_merges_no_two_metrics(
    kinds: Any, first: Any, compute_groups: bool, prefix: Any, postfix: Any
) -> None:
    """After a first batch in which all states are alike, every member still gives what it gives alone."""
    cases = [case for case in kinds if not case.needs_scores]
    members = {f"m{number}": case.metric() for number, case in enumerate(cases)}
    alone = {name: metric.clone() for name, metric in members.items()}
    collection = MetricCollection(members, compute_groups=compute_groups, prefix=prefix, postfix=postfix)
    for batch in (first, HITS, first):
        collection.update(*batch)
        for metric in alone.values():
            metric.update(*batch)
    wanted = {f"{prefix or ''}{name}{postfix or ''}": metric.compute() for name, metric in alone.items()}
    assert values(collection.compute()) == values(wanted)
    collection.reset()
    collection.update(*HITS)
    again = {name: metric.metric_state for name, metric in collection.items(keep_base=True)}
    for name, metric in alone.items():
        metric.reset()
        metric.update(*HITS)
        assert values(again[name]) == values(metric.metric_state), name


def test_the_published_trap() -> None:
    """P@5, R@5 and R@10 after a first batch of misses are .3, .5 and .5 of their own, not .3 three times."""
    collection = MetricCollection({"p": PrecisionAtK(k=1), "r": RecallAtK(k=1), "r2": RecallAtK(k=2)})
    collection.update(*MISSES)
    collection.update(torch.tensor([[0, 1]] * 3), torch.tensor([[0, 1]] * 3))
    found = {name: value.item() for name, value in collection.compute().items()}
    assert found == {"p": 3 / 5, "r": 1.5 / 5, "r2": 3 / 5}


def test_a_top_k_collection_gives_each_member_its_own_value() -> None:
    """All metrics at once, sharing rankings and per-label states, by update and by forward."""
    cases = {f"{number}": case for number, case in enumerate(CASES_OF_A_KIND)}
    named = {name: case.metric(name=f"m{name}") for name, case in cases.items()}
    alone = {name: metric.clone() for name, metric in named.items()}
    collection = TopKCollection(named)
    for rows in (slice(0, 4), slice(4, 11)):
        collection.update(BATCH.scores[rows], BATCH.target[rows])
        for metric in alone.values():
            metric.update(BATCH.scores[rows], BATCH.target[rows])
    of_batch = collection(BATCH.scores[11:], BATCH.target[11:])
    wanted_of_batch = {}
    for metric in alone.values():
        wanted_of_batch |= metric.scalars(metric(BATCH.scores[11:], BATCH.target[11:]))
    assert values(of_batch) == values(wanted_of_batch)
    wanted: dict[str, Any] = {}
    for metric in alone.values():
        wanted |= metric.scalars()
    assert values(collection.compute()) == values(wanted)
    collection.update(BATCH.scores[:2], BATCH.target[:2])
    for metric in alone.values():
        metric.update(BATCH.scores[:2], BATCH.target[:2])
    assert values(collection.compute()) == {
        key: bits_of(value) for metric in alone.values() for key, value in metric.scalars().items()
    }


def differing(one: Any, other: Any, *batches: Any) -> list[str]:
    """The keys that a collection of two gives other than each alone."""
    collection, alone = TopKCollection([one.clone(), other.clone()]), (one.clone(), other.clone())
    grouped = MetricCollection({"one": one.clone(), "other": other.clone()})
    for batch in batches:
        collection.update(*batch)
        grouped.update(*batch)
        for metric in alone:
            metric.update(*batch)
    wanted = {key: bits_of(value) for metric in alone for key, value in metric.scalars().items()}
    found = values(collection.compute())
    in_plain = {
        key: bits_of(value)
        for name, metric in zip(("one", "other"), alone, strict=True)
        for key, value in metric.scalars(grouped.compute()[name]).items()
    }
    return [key for key in wanted if not found[key] == wanted[key] == in_plain[key]]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"label_counts": [9, 9, 1, 1, 1, 1, 1, 1]}, {"label_counts": [1, 1, 1, 1, 1, 1, 9, 9]}),
        ({"num_train": 50}, {"num_train": 5000}),
        ({"a": 0.5}, {"a": 0.5000001}),
        ({"b": 1.0}, {"b": 1.0000001}),
    ],
    ids=["counts", "rows", "a", "b"],
)
def test_weights_of_two_members_are_kept_apart(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Propensities enter the states, so members of other counts or parameters share none."""
    common = {"k": 1, "label_counts": [5, 4, 3, 2, 1, 1, 1, 0], "num_train": 50}
    pair = (
        PropensityScoredPrecisionAtK(**{**common, **one}, name="one"),
        PropensityScoredPrecisionAtK(**{**common, **other}, name="other"),
    )
    assert differing(*pair, EMPTY, HITS) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            PopularityAtK(k=1, label_counts=[1] * 8, name="one"),
            PopularityAtK(k=1, label_counts=list(range(8)), name="other"),
        ),
        (RecallAtK(k=[1, 2], name="one"), RecallAtK(k=[2, 1], name="other")),
        (RecallAtK(k=1, name="one"), RecallAtK(k=[1], name="other")),
        (AccuracyAtK(k=1), AccuracyAtK(k=1, empty_target_action="skip")),
        (F1AtK(k=1, average="macro", num_labels=8), F1AtK(k=1, average="macro", num_labels=8, labels="all")),
        (RecallAtK(k=1, average="micro"), RecallAtK(k=1, average="macro", num_labels=8)),
        (MRR(k=1), MRR()),
    ],
    ids=lambda metric: type(metric).__name__,
)
def test_arguments_of_two_members_are_kept_apart(one: Any, other: Any) -> None:
    """What one argument changes does not leak into the other member."""
    assert differing(one, other, EMPTY, MISSES, HITS) == []


def test_buckets_of_two_members_are_kept_apart() -> None:
    """Same names and sizes, other labels."""
    halves = [LabelBuckets.from_assignment(half, ["head", "tail"]) for half in ([0] * 4 + [1] * 4, [0, 1] * 4)]
    for metric in (RecallAtK, PrecisionAtK):
        for average in ("samples", "micro", "macro"):
            pair = [metric(k=1, buckets=half, average=average, name=str(n)) for n, half in enumerate(halves)]
            assert differing(*pair, EMPTY, MISSES, HITS) == []


@pytest.mark.parametrize(
    "collection", [TopKCollection, lambda members: MetricCollection(dict(zip("ab", members, strict=True)))]
)
@pytest.mark.parametrize("strict_first", [True, False])
def test_a_member_that_refuses_empty_rows_refuses_them_in_company(collection: Any, strict_first: bool) -> None:
    """empty_target_action="error" raises whatever other member has the same numbers, from the first batch to the last."""
    members = [RecallAtK(k=1, empty_target_action="error", name="strict"), RecallAtK(k=1)]
    together = collection(members if strict_first else members[::-1])
    with pytest.raises(ValueError, match="no relevant label"):
        together.update(*EMPTY)
    together = collection([metric.clone() for metric in (members if strict_first else members[::-1])])
    together.update(*HITS)
    with pytest.raises(ValueError, match="no relevant label"):
        together.update(*EMPTY)


def test_members_of_other_label_sets_do_not_share() -> None:
    """Two numbers of labels in one collection are an error, at construction or at the first update."""
    with pytest.raises(ValueError, match="labels"):
        TopKCollection([GiniAtK(k=1, num_labels=8), EntropyAtK(k=1, num_labels=9)]).update(
            torch.randn(3, 8), torch.tensor([1, 2, 3])
        )


def test_members_can_be_added_later_or_the_error_says_no() -> None:
    """By add_metrics and by assignment: counted from then on, or refused; keys stay unique."""
    collection = TopKCollection([RecallAtK(k=[1, 2])])
    for add in (
        lambda: collection.add_metrics(MRR()),
        lambda: collection.add_metrics({"f1": F1AtK(k=2)}),
        lambda: collection.__setitem__("accuracy", AccuracyAtK(k=2)),
    ):
        try:
            add()
        except (TypeError, ValueError, NotImplementedError) as error:
            assert str(error).startswith("TopKCollection")
    collection.update(*HITS)
    assert not any(value.isnan() for value in collection.compute().values())
    with pytest.raises((TypeError, ValueError), match="TopKCollection"):
        collection.add_metrics({"again": RecallAtK(k=1)})


def test_one_table_of_buckets_for_all() -> None:
    """Copies, pickles aside, share the buckets; binding a collection gives every member the same object."""
    frequency = LabelFrequency(NUM_LABELS)
    frequency.update(BATCH.target)
    collection = TopKCollection([RecallAtK(k=1, buckets="deciles"), PrecisionAtK(k=1, buckets="deciles")])
    collection.bind(frequency)
    first, second = collection.values()
    assert first.buckets is second.buckets is next(iter(collection.clone().values())).buckets


def test_shared_states_take_the_memory_of_one() -> None:
    """Coverage, Gini, entropy and popularity of the same k count in one tensor."""
    members = [CatalogCoverageAtK, GiniAtK, EntropyAtK]
    collection = TopKCollection([member(k=2, num_labels=8) for member in members])
    collection.update(*HITS)
    pointers = {
        state.data_ptr() for metric in collection.values(copy_state=False) for state in metric.metric_state.values()
    }
    assert len(pointers) == len(members[0](k=2, num_labels=8).metric_state)


@pytest.mark.parametrize("case", [case for case in FEW if not case.needs_scores], ids=str)
def test_a_member_read_out_of_a_collection_is_its_own(case: Any) -> None:
    """Members taken by name have their own state: updating one leaves the others."""
    collection = TopKCollection({"one": case.metric(), "gini": GiniAtK(k=[7], num_labels=NUM_LABELS)})
    collection.update(BATCH.scores, BATCH.target)
    before = values(collection.compute())
    member = collection["one"].clone()
    member.update(BATCH.scores, BATCH.target)
    assert values(collection.compute()) == before


def test_metrics_within_a_plain_collection_take_a_shared_ranking() -> None:
    """A plain collection passes a Ranking on as it passes tensors."""
    import tailmetrics

    cases = {f"m{number}": case for number, case in enumerate(ONE_OF_EACH)}
    collection = MetricCollection({name: case.metric() for name, case in cases.items()})
    collection.update(tailmetrics.rank(BATCH.scores, BATCH.target))
    for name, value in collection.compute().items():
        metric = cases[name].metric()
        metric.update(BATCH.scores, BATCH.target)
        assert bits_of(value) == bits_of(metric.compute()), cases[name]


def test_a_collection_hands_on_how_rows_are_read() -> None:
    """``duplicates`` and ``ignore_index`` are those of every member that says nothing; one that says other is refused."""
    ids, target = torch.tensor([[0, 0, 2], [1, 2, 0]]), torch.tensor([2, -100])
    alone = RecallAtK(k=2, duplicates="first", ignore_index=-100)
    collection = TopKCollection([RecallAtK(k=2), PrecisionAtK(k=3)], duplicates="first", ignore_index=-100)
    collection.update(ids, target)
    alone.update(ids, target)
    found = collection.compute()
    assert float(found["recall@2"]) == float(alone.compute()) == 0.0
    assert float(found["precision@3"]) == 1 / 3  # a repeated id is a miss, and the second row does not count
    member = next(iter(collection.members().values()))
    assert list(member.metric_state) == list(alone.metric_state)
    assert repr(member) == "RecallAtK(k=2, duplicates='first', ignore_index=-100)"
    with pytest.raises(ValueError, match="members have ignore_index=-1 and -100, but share one ranking"):
        TopKCollection([RecallAtK(k=2, ignore_index=-1), PrecisionAtK(k=3)], ignore_index=-100)
    with pytest.raises(ValueError, match="TopKCollection: duplicates='last' is not known"):
        TopKCollection([RecallAtK(k=2)], duplicates="last")  # type: ignore[arg-type]


class Flipped(RecallAtK):  # type: ignore[misc]
    """Ranks the lowest scores first, by a method that a collection does not call."""

    stem = "flipped"

    def update(self, preds: Any, target: Any = None, *args: Any, **kwargs: Any) -> None:
        """Turn the scores around."""
        super().update(-preds, target, *args, **kwargs)


class FlippedCollection(TopKCollection):
    """The same for all members."""

    def update(self, preds: Any, target: Any = None, *args: Any, **kwargs: Any) -> None:
        """Turn the scores around."""
        super().update(-preds, target, *args, **kwargs)


def test_an_update_of_ones_own_is_not_passed_over() -> None:
    """Alone it is called; where rankings are handed on, the class is refused in one sentence."""
    scores, target = torch.tensor([[0.9, 0.1]]), torch.tensor([1])
    metric, collection = Flipped(k=1), FlippedCollection([RecallAtK(k=1)])
    metric.update(scores, target)
    collection.update(scores, target)
    assert float(metric.compute()) == float(collection.compute()["recall@1"]) == 1.0
    refusals: list[Any] = [
        lambda: TopKCollection([Flipped(k=1)]),
        lambda: evaluate(scores, target, metrics=[Flipped(k=1)]),
        lambda: evaluate(scores, target, metrics=collection),
        lambda: Evaluation(collection),
        lambda: HeadToTailReport([Flipped(k=1)]),
        lambda: HeadToTailReport(collection),
    ]
    for refusal in refusals:
        with pytest.raises(TypeError, match=r"Flipped(Collection)? overrides update\(\), which .*; .*\."):
            refusal()


def test_what_would_be_lost_when_states_are_given_back_is_refused() -> None:
    """An update between ``sync`` and ``unsync``, of a metric and of a collection."""
    collection = TopKCollection([RecallAtK(k=1), PrecisionAtK(k=1)])
    members = list(collection.members().values())
    collection.update(*HITS)
    for member in members:
        member.sync(dist_sync_fn=lambda state, group: [state, state], distributed_available=lambda: True)
    for call in (collection.update, members[0].update):
        with pytest.raises(ValueError, match=r"update: the states are those of all processes; call unsync\(\) first"):
            call(*HITS)
    for member in members:
        member.unsync()
        assert member.update_count == 1
    collection.update(*HITS)
    assert members[0].update_count == 2
