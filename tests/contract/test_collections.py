"""Metrics together: a member gives what it gives alone, grouped or not, whatever the first batch looks like."""

import pickle
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torchmetrics import MetricCollection

import tailmetrics as tm
from cases import BUCKETS, NUM_LABELS, data
from exactness.bits import CASES_OF_A_KIND, ONE_OF_EACH, bits_of
from tailmetrics.evaluation import Evaluation
from tailmetrics.lightning import HeadToTailReport
from tailmetrics.ranking import _ranking
from tailmetrics.ranking._device import force_plain

MISSES = (torch.tensor([[0, 1], [2, 3]]), torch.tensor([[5, 6], [7, -1]]))
EMPTY = (torch.tensor([[0, 1], [2, 3]]), torch.tensor([[-1, -1], [-1, -1]]))
HITS = (torch.tensor([[0, 1], [2, 3], [4, 5]]), torch.tensor([[0, 7], [3, -1], [5, 4]]))
BATCH = data(seed=61, num_rows=15, graded=True)


def values(scalars: dict[str, Any]) -> dict[str, Any]:
    """The bits of each entry of a dict."""
    return {key: bits_of(value) for key, value in scalars.items()}


@pytest.mark.parametrize(
    ("kinds", "first", "options"),
    [
        pytest.param(ONE_OF_EACH, MISSES, {}, id="misses"),
        pytest.param(
            CASES_OF_A_KIND, EMPTY, {"prefix": "val/", "postfix": "_end"}, marks=pytest.mark.slow, id="empty rows"
        ),
        pytest.param(ONE_OF_EACH, MISSES, {"compute_groups": False}, marks=pytest.mark.slow, id="without groups"),
    ],
)
def test_a_plain_collection_merges_no_two_metrics(kinds: Any, first: Any, options: dict[str, Any]) -> None:
    """After a first batch in which all states are alike, every member gives what it gives alone; a ranking is handed on."""
    members = {f"m{number}": case.metric() for number, case in enumerate(kinds) if not case.needs_scores}
    alone = {name: metric.clone() for name, metric in members.items()}
    collection = MetricCollection(members, **options)
    for batch in (first, HITS, (tm.rank(*first, num_labels=NUM_LABELS),)):
        collection.update(*batch)
        for metric in alone.values():
            metric.update(*batch)
    before, behind = options.get("prefix", ""), options.get("postfix", "")
    wanted = {f"{before}{name}{behind}": metric.compute() for name, metric in alone.items()}
    assert values(collection.compute()) == values(wanted)
    collection.reset()
    collection.update(*HITS)
    for name, metric in collection.items(keep_base=True):
        alone[name].reset()
        alone[name].update(*HITS)
        assert values(metric.metric_state) == values(alone[name].metric_state), name


def test_a_top_k_collection_gives_each_member_its_own_value() -> None:
    """All metrics at once, sharing rankings and per-label states, by update and by forward."""
    cases = {f"{number}": case for number, case in enumerate(ONE_OF_EACH)}
    named = {name: case.metric(name=f"m{name}") for name, case in cases.items()}
    alone = {name: metric.clone() for name, metric in named.items()}
    collection = tm.TopKCollection(named)
    for rows in (slice(0, 4), slice(4, 11)):
        collection.update(BATCH.scores[rows], BATCH.target[rows])
        for metric in alone.values():
            metric.update(BATCH.scores[rows], BATCH.target[rows])
    batch_values = collection(BATCH.scores[11:], BATCH.target[11:])
    wanted_of_batch = {}
    for metric in alone.values():
        wanted_of_batch |= metric.scalars(metric(BATCH.scores[11:], BATCH.target[11:]))
    assert values(batch_values) == values(wanted_of_batch)
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


@pytest.mark.parametrize(
    "collection", [tm.TopKCollection, lambda members: MetricCollection(dict(zip("ab", members, strict=True)))]
)
@pytest.mark.parametrize("strict_first", [True, False])
def test_a_member_that_refuses_empty_rows_refuses_them_in_company(collection: Any, strict_first: bool) -> None:
    """empty_target_action="error" raises whatever other member has the same numbers, from the first batch to the last."""
    members = [tm.RecallAtK(k=1, empty_target_action="error", name="strict"), tm.RecallAtK(k=1)]
    together = collection(members if strict_first else members[::-1])
    with pytest.raises(ValueError, match="no relevant label"):
        together.update(*EMPTY)
    together = collection([metric.clone() for metric in (members if strict_first else members[::-1])])
    together.update(*HITS)
    with pytest.raises(ValueError, match="no relevant label"):
        together.update(*EMPTY)


def test_a_collection_hands_on_how_rows_are_read() -> None:
    """``duplicates`` and ``ignore_index`` are those of every member that says nothing; one that says other is refused."""
    ids, target = torch.tensor([[0, 0, 2], [1, 2, 0]]), torch.tensor([2, -100])
    alone = tm.RecallAtK(k=2, duplicates="first", ignore_index=-100)
    collection = tm.TopKCollection([tm.RecallAtK(k=2), tm.PrecisionAtK(k=3)], duplicates="first", ignore_index=-100)
    collection.update(ids, target)
    alone.update(ids, target)
    scalars = collection.compute()
    assert float(scalars["recall@2"]) == float(alone.compute()) == 0.0
    assert float(scalars["precision@3"]) == 1 / 3  # a repeated id is a miss, and the second row does not count
    member = next(iter(collection.members().values()))
    assert list(member.metric_state) == list(alone.metric_state)
    assert repr(member) == "RecallAtK(k=2, duplicates='first', ignore_index=-100)"
    with pytest.raises(ValueError, match="members have ignore_index=-1 and -100, but share one ranking"):
        tm.TopKCollection([tm.RecallAtK(k=2, ignore_index=-1), tm.PrecisionAtK(k=3)], ignore_index=-100)
    with pytest.raises(ValueError, match="TopKCollection: duplicates='last' is not known"):
        tm.TopKCollection([tm.RecallAtK(k=2)], duplicates="last")  # type: ignore[arg-type]


class Flipped(tm.RecallAtK):  # type: ignore[misc]
    """Ranks the lowest scores first, by a method that a collection does not call."""

    stem = "flipped"

    def update(self, preds: Any, target: Any = None, *args: Any, **kwargs: Any) -> None:
        """Turn the scores around."""
        super().update(-preds, target, *args, **kwargs)


class FlippedCollection(tm.TopKCollection):
    """The same for all members."""

    def update(self, preds: Any, target: Any = None, *args: Any, **kwargs: Any) -> None:
        """Turn the scores around."""
        super().update(-preds, target, *args, **kwargs)


def test_an_update_of_ones_own_is_not_passed_over() -> None:
    """Alone it is called; where rankings are handed on, the class is refused in one sentence."""
    scores, target = torch.tensor([[0.9, 0.1]]), torch.tensor([1])
    metric, collection = Flipped(k=1), FlippedCollection([tm.RecallAtK(k=1)])
    metric.update(scores, target)
    collection.update(scores, target)
    assert float(metric.compute()) == float(collection.compute()["recall@1"]) == 1.0
    refusals: list[Any] = [
        lambda: tm.TopKCollection([Flipped(k=1)]),
        lambda: tm.evaluate(scores, target, metrics=[Flipped(k=1)]),
        lambda: tm.evaluate(scores, target, metrics=collection),
        lambda: Evaluation(collection),
        lambda: HeadToTailReport([Flipped(k=1)]),
        lambda: HeadToTailReport(collection),
    ]
    for refusal in refusals:
        with pytest.raises(TypeError, match=r"Flipped(Collection)? overrides update\(\), which .*; .*\."):
            refusal()


def test_what_would_be_lost_when_states_are_given_back_is_refused() -> None:
    """An update between ``sync`` and ``unsync``, of a metric and of a collection."""
    collection = tm.TopKCollection([tm.RecallAtK(k=1), tm.PrecisionAtK(k=1)])
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


def test_a_batch_is_ranked_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten members, one call of the ranking."""
    calls = []
    read = _ranking.read_batch
    monkeypatch.setattr(_ranking, "read_batch", lambda *args, **kwargs: calls.append(1) or read(*args, **kwargs))
    collection = tm.TopKCollection([tm.PrecisionAtK(k=k) for k in range(1, 11)])
    collection.update(torch.randn(4, 20), torch.tensor([1, 2, 3, 4]))
    assert len(calls) == 1


def test_metrics_that_need_the_same_counts_per_label_share_them() -> None:
    """Coverage, Gini and entropy at one k keep one vector of L numbers."""
    kinds = (tm.CatalogCoverageAtK, tm.GiniAtK, tm.EntropyAtK)
    collection = tm.TopKCollection([kind(k=2, num_labels=9) for kind in kinds])
    collection.update(torch.arange(9.0)[None], torch.tensor([3]))
    states = [state for metric in collection.members().values() for state in metric.metric_state.values()]
    assert len({state.data_ptr() for state in states if state.numel() == 9}) == 1
    assert float(collection.compute()["catalog_coverage@2"]) == 2 / 9


@pytest.mark.parametrize("form", [nullcontext, force_plain])
def test_members_by_bucket_of_other_depths_keep_their_own_lists(form: Any) -> None:
    """The first label of the tail stands at place 31: at a depth of 30 the tail lists nothing, at 40 it is right."""
    halves = tm.LabelBuckets.from_assignment([0] * 30 + [1] * 10, ["head", "tail"])
    collection = tm.TopKCollection(
        [tm.RecallAtK(1, buckets=halves, depth=depth, name=f"{depth}") for depth in (30, 40)]
    )
    with form():
        collection.update(-torch.arange(40.0)[None], torch.tensor([30]))
    scalars = collection.compute()
    assert (float(scalars["30/tail"]), float(scalars["40/tail"])) == (0, 1)


def test_repr_lists_the_members_as_they_were_written() -> None:
    """One per line."""
    collection = tm.TopKCollection([tm.RecallAtK(k=[1, 5]), tm.MRR(buckets=BUCKETS)], prefix="val/")
    assert repr(collection).splitlines() == [
        "TopKCollection(",
        "  (recall_1_recall_5): RecallAtK(k=[1, 5])",
        "  (mrr_by_bucket): MRR(11 buckets),",
        "  prefix=val/",
        ")",
    ]


def test_metrics_side_by_side_are_members_and_what_is_no_metric_is_refused() -> None:
    """As of TorchMetrics' collection; a TypeError says what to write instead of a class, or of a prefix by position."""
    precision, recall = tm.PrecisionAtK(k=1), tm.RecallAtK(k=1)
    assert list(tm.TopKCollection(precision, recall).members()) == ["precision_1", "recall_1"]
    wrong: Any
    for wrong in ((tm.RecallAtK,), ([tm.RecallAtK],), ({"recall": tm.RecallAtK},), ([precision], "val/")):
        with pytest.raises(TypeError, match=r"is no metric of tailmetrics; pass .* such as \[RecallAtK\(k=5\)\]"):
            tm.TopKCollection(*wrong)


def test_names_of_a_dict_replace_keys_and_stay_in_copies():
    """{"p": PrecisionAtK([1, 5])} has the keys p@1 and p@5, bound or not, copied or not; an own name stays."""
    scores, target = torch.eye(6), torch.arange(6)
    metrics = {
        "p": tm.PrecisionAtK(k=[1, 5]),
        "r": tm.RecallAtK(k=1),
        "same": tm.RecallAtK(k=1),
        "n": tm.RecallAtK(k=1, name="own"),
    }
    collection = tm.TopKCollection(metrics)
    assert collection.members()["p"] is metrics["p"]
    collection.update(scores, target)
    keys = ["p@1", "p@5", "r", "same", "own"]
    for copy in (collection, collection.clone(), pickle.loads(pickle.dumps(collection))):
        assert list(copy.compute()) == keys
    assert [metric.keys() for metric in collection.members().values()] == [
        metric.empty_copy().keys() for metric in metrics.values()
    ]
    with_groups = tm.TopKCollection(metrics, row_groups=["a"])
    assert [key for metric in with_groups.members().values() for key in metric.row_keys()] == keys
    by_bucket = {"b": tm.RecallAtK(k=1, buckets="deciles")}
    collection = tm.TopKCollection(by_bucket).bind(tm.LabelBuckets.deciles(range(6, 0, -1)))
    assert by_bucket["b"].keys()[0] == next(iter(collection.compute())) == "b/decile_10"


def test_a_list_takes_two_sets_of_buckets():
    """Their keys differ, and so may their metrics stand in one list."""
    sets = tm.LabelBuckets.deciles(range(6, 0, -1)), tm.LabelBuckets.from_assignment([0, 0, 0, 1, 1, 1], ["x", "y"])
    collection = tm.TopKCollection([tm.RecallAtK(k=1, buckets=buckets) for buckets in sets])
    collection.update(torch.eye(6), torch.arange(6))
    assert {"recall@1/decile_10", "recall@1/x"} < {*collection.compute()}


def test_a_value_of_a_metric_with_several_refuses_what_belongs_to_the_metric() -> None:
    """``items()`` gives one for each key: its updates and merges would be lost, and the error names where they belong."""
    here, there = (tm.TopKCollection([tm.PrecisionAtK(k=[1, 5]), tm.RecallAtK(k=5)]) for _ in range(2))
    here.update(*HITS)
    there.update(*MISSES)
    parts = dict(there.items())
    for key, part in here.items():
        if key == "recall@5":
            part.merge_state(parts[key])  # a metric of one value, which is itself
            continue
        with pytest.raises(TypeError, match=r"collection\.merge_state\(other\) merges all metrics, and .*members\(\)"):
            part.merge_state(parts[key])
        for add in (part.update, part):
            with pytest.raises(TypeError, match=r"update the collection, or a metric of collection\.members\(\)"):
                add(*HITS)
    for name, metric in here.members().items():
        if len(metric.keys()) > 1:
            metric.merge_state(there.members()[name])
    together = tm.TopKCollection([tm.PrecisionAtK(k=[1, 5]), tm.RecallAtK(k=5)])
    together.update(*HITS)
    together.update(*MISSES)
    assert values(here.compute()) == values(together.compute())
