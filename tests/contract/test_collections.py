"""Metrics in a collection have the values that they have alone, whatever the first
batch is.
"""

import operator
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
    """Return the bits of each value of a dict."""
    return {key: bits_of(value) for key, value in scalars.items()}


@pytest.mark.parametrize(
    ("kinds", "first", "options"),
    [
        pytest.param(ONE_OF_EACH, MISSES, {}, id="misses"),
        pytest.param(
            CASES_OF_A_KIND,
            EMPTY,
            {"prefix": "val/", "postfix": "_end"},
            marks=pytest.mark.slow,
            id="empty rows",
        ),
        pytest.param(
            ONE_OF_EACH,
            MISSES,
            {"compute_groups": False},
            marks=pytest.mark.slow,
            id="without groups",
        ),
    ],
)
def test_a_plain_collection_merges_no_two_metrics(
    kinds: Any, first: Any, options: dict[str, Any]
) -> None:
    """A MetricCollection of TorchMetrics never merges two metrics: after a first batch
    that leaves all states equal, every member has the value that it has alone. This
    also holds for an update with a ranking.
    """
    members = {
        f"m{number}": case.metric()
        for number, case in enumerate(kinds)
        if not case.needs_scores
    }
    alone = {name: metric.clone() for name, metric in members.items()}
    collection = MetricCollection(members, **options)
    for batch in (first, HITS, (tm.rank(*first, num_labels=NUM_LABELS),)):
        collection.update(*batch)
        for metric in alone.values():
            metric.update(*batch)
    prefix, postfix = options.get("prefix", ""), options.get("postfix", "")
    expected = {
        f"{prefix}{name}{postfix}": metric.compute() for name, metric in alone.items()
    }
    assert values(collection.compute()) == values(expected)
    collection.reset()
    collection.update(*HITS)
    for name, metric in collection.items(keep_base=True):
        alone[name].reset()
        alone[name].update(*HITS)
        assert values(metric.metric_state) == values(alone[name].metric_state), name


def test_a_top_k_collection_gives_each_member_its_own_value() -> None:
    """Each member of a TopKCollection of all metrics has the value that it has alone,
    by update and by forward, although members share rankings and states.
    """
    cases = {f"{number}": case for number, case in enumerate(ONE_OF_EACH)}
    members = {name: case.metric(name=f"m{name}") for name, case in cases.items()}
    alone = {name: metric.clone() for name, metric in members.items()}
    collection = tm.TopKCollection(members)
    for rows in (slice(0, 4), slice(4, 11)):
        collection.update(BATCH.scores[rows], BATCH.target[rows])
        for metric in alone.values():
            metric.update(BATCH.scores[rows], BATCH.target[rows])
    batch_values = collection(BATCH.scores[11:], BATCH.target[11:])
    expected_of_batch = {}
    for metric in alone.values():
        expected_of_batch |= metric.scalars(
            metric(BATCH.scores[11:], BATCH.target[11:])
        )
    assert values(batch_values) == values(expected_of_batch)
    expected: dict[str, Any] = {}
    for metric in alone.values():
        expected |= metric.scalars()
    assert values(collection.compute()) == values(expected)
    collection.update(BATCH.scores[:2], BATCH.target[:2])
    for metric in alone.values():
        metric.update(BATCH.scores[:2], BATCH.target[:2])
    assert values(collection.compute()) == {
        key: bits_of(value)
        for metric in alone.values()
        for key, value in metric.scalars().items()
    }


@pytest.mark.parametrize(
    "collection",
    [
        tm.TopKCollection,
        lambda members: MetricCollection(dict(zip("ab", members, strict=True))),
    ],
)
@pytest.mark.parametrize("strict_first", [True, False])
def test_member_that_refuses_empty_rows_refuses_them_in_a_collection(
    collection: Any, strict_first: bool
) -> None:
    """A member with empty_target_action="error" raises in a collection, in any order of
    members, in the first batch and later.
    """
    members = [
        tm.RecallAtK(k=1, empty_target_action="error", name="strict"),
        tm.RecallAtK(k=1),
    ]
    group = collection(members if strict_first else members[::-1])
    with pytest.raises(ValueError, match="no relevant label"):
        group.update(*EMPTY)
    group = collection(
        [metric.clone() for metric in (members if strict_first else members[::-1])]
    )
    group.update(*HITS)
    with pytest.raises(ValueError, match="no relevant label"):
        group.update(*EMPTY)


def test_collection_passes_duplicates_and_ignore_index_to_members() -> None:
    """A collection passes ``duplicates`` and ``ignore_index`` to members without them;
    a member with another value is refused. A repeated id is a miss, and the ignored row
    does not count.
    """
    ids, target = torch.tensor([[0, 0, 2], [1, 2, 0]]), torch.tensor([2, -100])
    alone = tm.RecallAtK(k=2, duplicates="first", ignore_index=-100)
    collection = tm.TopKCollection(
        [tm.RecallAtK(k=2), tm.PrecisionAtK(k=3)], duplicates="first", ignore_index=-100
    )
    collection.update(ids, target)
    alone.update(ids, target)
    scalars = collection.compute()
    assert float(scalars["recall@2"]) == float(alone.compute()) == 0.0
    # a repeated id is a miss, and the second row does not count
    assert float(scalars["precision@3"]) == 1 / 3
    member = next(iter(collection.members().values()))
    assert list(member.metric_state) == list(alone.metric_state)
    assert repr(member) == "RecallAtK(k=2, duplicates='first', ignore_index=-100)"
    with pytest.raises(
        ValueError, match="members have ignore_index=-1 and -100, but share one ranking"
    ):
        tm.TopKCollection(
            [tm.RecallAtK(k=2, ignore_index=-1), tm.PrecisionAtK(k=3)],
            ignore_index=-100,
        )
    with pytest.raises(
        ValueError, match="TopKCollection: duplicates='last' is not known"
    ):
        tm.TopKCollection([tm.RecallAtK(k=2)], duplicates="last")  # type: ignore[arg-type]


class Flipped(tm.RecallAtK):  # type: ignore[misc]
    """Ranks the lowest scores first, by a method that a collection does not call."""

    stem = "flipped"

    def update(self, preds: Any, target: Any = None, *args: Any, **kwargs: Any) -> None:
        """Negate the scores."""
        super().update(-preds, target, *args, **kwargs)


class FlippedCollection(tm.TopKCollection):
    """Ranks the lowest scores of all members first."""

    def update(self, preds: Any, target: Any = None, *args: Any, **kwargs: Any) -> None:
        """Negate the scores."""
        super().update(-preds, target, *args, **kwargs)


def test_custom_update_is_called_or_refused() -> None:
    """A class that overrides update() works alone; collections, evaluate and reports,
    which do not call it, refuse the class with one sentence.
    """
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
        with pytest.raises(
            TypeError,
            match=r"Flipped(Collection)? overrides update\(\), which .*; .*\.",
        ):
            refusal()


def test_update_between_sync_and_unsync_is_refused() -> None:
    """An update of a metric or a collection between ``sync`` and ``unsync`` is refused,
    because ``unsync`` would lose it.
    """
    collection = tm.TopKCollection([tm.RecallAtK(k=1), tm.PrecisionAtK(k=1)])
    members = list(collection.members().values())
    collection.update(*HITS)
    for member in members:
        member.sync(
            dist_sync_fn=lambda state, group: [state, state],
            distributed_available=lambda: True,
        )
    for call in (collection.update, members[0].update):
        with pytest.raises(
            ValueError,
            match=r"update: the states are those of all processes; call unsync\(\) first",
        ):
            call(*HITS)
    for member in members:
        member.unsync()
        assert member.update_count == 1
    collection.update(*HITS)
    assert members[0].update_count == 2


def test_collection_ranks_a_batch_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection of ten members ranks a batch once."""
    calls = []
    read = _ranking.read_batch
    monkeypatch.setattr(
        _ranking,
        "read_batch",
        lambda *args, **kwargs: calls.append(1) or read(*args, **kwargs),
    )
    collection = tm.TopKCollection([tm.PrecisionAtK(k=k) for k in range(1, 11)])
    collection.update(torch.randn(4, 20), torch.tensor([1, 2, 3, 4]))
    assert len(calls) == 1


def test_metrics_that_need_the_same_counts_per_label_share_them() -> None:
    """Members that need the same counts per label share one state: coverage, Gini and
    entropy at one k keep one vector of L numbers.
    """
    kinds = (tm.CatalogCoverageAtK, tm.GiniAtK, tm.EntropyAtK)
    collection = tm.TopKCollection([kind(k=2, num_labels=9) for kind in kinds])
    collection.update(torch.arange(9.0)[None], torch.tensor([3]))
    states = [
        state
        for metric in collection.members().values()
        for state in metric.metric_state.values()
    ]
    assert len({state.data_ptr() for state in states if state.numel() == 9}) == 1
    assert float(collection.compute()["catalog_coverage@2"]) == 2 / 9


def test_a_member_that_is_looked_up_twice_copies_its_states_once() -> None:
    """collection[name] gives the members states of their own, and a second look copies
    them no more.
    """
    collection = tm.TopKCollection(
        {
            "coverage": tm.CatalogCoverageAtK(k=1, num_labels=3),
            "gini": tm.GiniAtK(k=1, num_labels=3),
        }
    )
    collection.update(torch.tensor([[0], [1]]), torch.tensor([0, 0]))

    def states(name: str) -> list[Any]:
        return list(collection[name].metric_state.values())

    coverage, gini = states("coverage"), states("gini")
    assert not {id(state) for state in coverage} & {id(state) for state in gini}
    states_again = [*states("coverage"), *states("gini")]
    assert all(map(operator.is_, states_again, [*coverage, *gini]))


def test_members_used_alone_keep_their_own_batches() -> None:
    """A member that shares states and is updated, called or reset alone counts its own
    batches, and so do the others. After a reset of the collection they share again.
    """
    by_label: dict[str, Any] = {"k": 3, "num_labels": NUM_LABELS}
    metrics = {
        "updated": tm.GiniAtK(**by_label),
        "called": tm.CatalogCoverageAtK(**by_label),
        "emptied": tm.CatalogCoverageAtK(**by_label),
        "untouched": tm.EntropyAtK(**by_label),
    }
    collection = tm.TopKCollection({name: metrics[name].clone() for name in metrics})
    first, alone, last = (data(seed=seed, num_rows=9) for seed in (62, 63, 64))

    def check(batches: dict[str, list[Any]]) -> None:
        """Compare the values of members with metrics of their batches."""
        values = collection.compute()
        for name, metric in metrics.items():
            metric.reset()
            for batch in batches[name]:
                metric.update(batch.scores, batch.target)
            assert bits_of(values[name]) == bits_of(metric.compute()), name

    collection.update(first.scores, first.target)
    members = collection.members()
    members["updated"].update(alone.scores, alone.target)
    members["called"](alone.scores, alone.target)
    members["emptied"].reset()
    with_alone = [first, alone]
    batches = {
        "updated": with_alone,
        "called": with_alone,
        "emptied": [],
        "untouched": [first],
    }
    check(batches)
    collection.update(last.scores, last.target)
    check({name: [*earlier, last] for name, earlier in batches.items()})

    collection.reset()
    collection.update(first.scores, first.target)
    states = [
        state
        for member in members.values()
        for state in member.metric_state.values()
        if NUM_LABELS in state.shape
    ]
    assert len({state.data_ptr() for state in states}) == 1


@pytest.mark.parametrize("form", [nullcontext, force_plain])
def test_members_by_bucket_with_different_depths_keep_their_own_lists(
    form: Any,
) -> None:
    """Members by bucket with different depths keep their own lists.

    The first label of the tail is at rank 31: at a depth of 30 the tail lists nothing,
    at 40 it is a hit.
    """
    halves = tm.LabelBuckets.from_assignment([0] * 30 + [1] * 10, ["head", "tail"])
    collection = tm.TopKCollection(
        [
            tm.RecallAtK(1, buckets=halves, depth=depth, name=f"{depth}")
            for depth in (30, 40)
        ]
    )
    with form():
        collection.update(-torch.arange(40.0)[None], torch.tensor([30]))
    scalars = collection.compute()
    assert (float(scalars["30/tail"]), float(scalars["40/tail"])) == (0, 1)


def test_repr_of_a_collection_lists_its_members() -> None:
    """repr of a collection lists its members as code, one per line, and its prefix."""
    collection = tm.TopKCollection(
        [tm.RecallAtK(k=[1, 5]), tm.MRR(buckets=BUCKETS)], prefix="val/"
    )
    assert repr(collection).splitlines() == [
        "TopKCollection(",
        "  (recall_1_recall_5): RecallAtK(k=[1, 5])",
        "  (mrr_by_bucket): MRR(11 buckets),",
        "  prefix=val/",
        ")",
    ]


def test_collection_takes_metrics_by_position_and_refuses_other_objects() -> None:
    """TopKCollection takes metrics as positional arguments.

    A class in place of a metric, or a prefix by position, raises a TypeError that says
    what to pass.
    """
    precision, recall = tm.PrecisionAtK(k=1), tm.RecallAtK(k=1)
    assert list(tm.TopKCollection(precision, recall).members()) == [
        "precision_1",
        "recall_1",
    ]
    wrong: Any
    for wrong in (
        (tm.RecallAtK,),
        ([tm.RecallAtK],),
        ({"recall": tm.RecallAtK},),
        ([precision], "val/"),
    ):
        with pytest.raises(
            TypeError,
            match=r"is no metric of tailmetrics; pass .* such as \[RecallAtK\(k=5\)\]",
        ):
            tm.TopKCollection(*wrong)


def test_names_of_a_dict_replace_keys_and_stay_in_copies():
    """Names of a dict replace the stems of keys, also in bound and copied collections:
    {"p": PrecisionAtK([1, 5])} has the keys p@1 and p@5. A custom name of a metric
    stays.
    """
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
    for copy in (
        collection,
        collection.clone(),
        pickle.loads(pickle.dumps(collection)),
    ):
        assert list(copy.compute()) == keys
    assert [metric.keys() for metric in collection.members().values()] == [
        metric.empty_copy().keys() for metric in metrics.values()
    ]
    with_groups = tm.TopKCollection(metrics, row_groups=["a"])
    assert [
        key for metric in with_groups.members().values() for key in metric.row_keys()
    ] == keys
    by_bucket = {"b": tm.RecallAtK(k=1, buckets="deciles")}
    collection = tm.TopKCollection(by_bucket).bind(
        tm.LabelBuckets.deciles(range(6, 0, -1))
    )
    assert by_bucket["b"].keys()[0] == next(iter(collection.compute())) == "b/decile_10"


def test_a_list_takes_two_sets_of_buckets():
    """Metrics with different buckets may be in one collection, because their keys
    differ.
    """
    sets = (
        tm.LabelBuckets.deciles(range(6, 0, -1)),
        tm.LabelBuckets.from_assignment([0, 0, 0, 1, 1, 1], ["x", "y"]),
    )
    collection = tm.TopKCollection(
        [tm.RecallAtK(k=1, buckets=buckets) for buckets in sets]
    )
    collection.update(torch.eye(6), torch.arange(6))
    assert {"recall@1/decile_10", "recall@1/x"} < {*collection.compute()}


def test_single_value_of_a_metric_refuses_update_and_merge() -> None:
    """An item of ``items()`` that is one of several values of a metric refuses update
    and merge_state, and names where they belong. Merged by ``members()``, two
    collections have the value of one that saw all batches.
    """
    first, second = (
        tm.TopKCollection([tm.PrecisionAtK(k=[1, 5]), tm.RecallAtK(k=5)])
        for _ in range(2)
    )
    first.update(*HITS)
    second.update(*MISSES)
    parts = dict(second.items())
    for key, part in first.items():
        if key == "recall@5":
            part.merge_state(parts[key])  # a metric of one value, which is itself
            continue
        with pytest.raises(
            TypeError,
            match=r"collection\.merge_state\(other\) merges all metrics, and .*members\(\)",
        ):
            part.merge_state(parts[key])
        for add in (part.update, part):
            with pytest.raises(
                TypeError,
                match=r"update the collection, or a metric of collection\.members\(\)",
            ):
                add(*HITS)
    for name, metric in first.members().items():
        if len(metric.keys()) > 1:
            metric.merge_state(second.members()[name])
    expected = tm.TopKCollection([tm.PrecisionAtK(k=[1, 5]), tm.RecallAtK(k=5)])
    expected.update(*HITS)
    expected.update(*MISSES)
    assert values(first.compute()) == values(expected.compute())
