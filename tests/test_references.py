"""References: chance, popularity and the attainable value, without a run."""

import pickle
from collections.abc import Iterator
from contextlib import nullcontext
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import tailmetrics as tm
from cases import EVERY_CASE, NUM_LABELS as LABELS_OF_CASES, Case
from tailmetrics._signatures import arguments
from tailmetrics.metrics import REGISTRY
from tailmetrics.metrics._metric import TopKMetric
from tailmetrics.metrics._states import Addition
from tailmetrics.ranking._device import force_plain

NUM_LABELS, NUM_ROWS = 60, 5
COUNTS = (200 / torch.arange(1, NUM_LABELS + 1)).long()[
    torch.randperm(NUM_LABELS, generator=torch.manual_seed(0))
]
BUCKETS = tm.LabelBuckets.quantiles(COUNTS, 4)
SETTINGS = [("bucket", 20), ("bucket", 60), ("global", 60), (None, 60)]


def _target(graded: bool = False) -> torch.Tensor:
    draw = torch.Generator().manual_seed(1)
    target = torch.zeros(NUM_ROWS, NUM_LABELS)
    for row in range(NUM_ROWS):
        target[row, torch.randperm(NUM_LABELS, generator=draw)[: 2 + row]] = 1
    return target * (torch.arange(NUM_LABELS) % 3 + 1) if graded else target.bool()


def _metrics(
    scope: str | None, depth: int, **further_arguments: object
) -> list[TopKMetric]:
    by = {} if scope is None else {"buckets": BUCKETS, "scope": scope, "depth": depth}
    arguments = {**by, **further_arguments}
    at_k = [
        tm.RecallAtK,
        tm.PrecisionAtK,
        tm.HitRateAtK,
        tm.NDCGAtK,
        tm.F1AtK,
        tm.MRR,
        tm.NormalizedRecallAtK,
    ]
    return [
        *(metric([1, 5], **arguments) for metric in at_k),
        tm.MAP(5, denominator="attainable", **arguments),
        tm.MRR(**arguments),
        tm.FallOutAtK(5, **arguments)
        if by
        else tm.FallOutAtK(5, num_labels=NUM_LABELS, **arguments),
        tm.PropensityScoredPrecisionAtK(
            5, label_counts=COUNTS, num_train=500, **arguments
        ),
    ]


@pytest.mark.parametrize(
    ("scope", "depth"),
    [
        SETTINGS[0],
        *(pytest.param(*setting, marks=pytest.mark.slow) for setting in SETTINGS[1:]),
    ],
)
def test_chance_is_the_mean_over_random_scores(scope: str | None, depth: int) -> None:
    """Chance is the mean over 8,000 matrices of uniform scores, within 4.5 standard
    errors for each value, also for cut lists.
    """
    draw, collection = (
        torch.Generator().manual_seed(2),
        tm.TopKCollection(_metrics(scope, depth), references=["chance"]),
    )
    values_by_key: dict[str, list[float]] = {}
    for _ in range(40):
        collection.reset()
        collection.update(
            torch.rand(NUM_ROWS * 200, NUM_LABELS, generator=draw),
            _target().repeat(200, 1),
        )
        for key, value in collection.compute().items():
            values_by_key.setdefault(key, []).append(value.item())
    chance = collection.references()["chance"]
    assert chance.keys() == values_by_key.keys()
    for key, values in values_by_key.items():
        values_of_draws = torch.tensor(values, dtype=torch.float64)
        error = max(1e-12, values_of_draws.std().item() / len(values) ** 0.5)
        assert chance[key].item() == pytest.approx(
            values_of_draws.mean().item(), abs=4.5 * error, nan_ok=True
        ), key


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize(("scope", "depth"), SETTINGS)
def test_popularity_is_a_metric_of_counts_as_scores(
    scope: str | None, depth: int, graded: bool
) -> None:
    """Popularity is the metric of the counts as scores, as a mean over all orders of
    equal counts.
    """
    target = _target(graded)
    collection = tm.TopKCollection(_metrics(scope, depth), references=["popularity"])
    collection.bind(_frequency()).update(torch.rand(target.shape), target)
    expected = tm.TopKCollection(_metrics(scope, depth, ties="expected"))
    expected.update(COUNTS.float().expand(target.shape), target)
    references = collection.references()["popularity"]
    for key, value in zip(references, expected.compute().values(), strict=True):
        assert references[key].item() == pytest.approx(
            value.item(), abs=1e-12, nan_ok=True
        ), key


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize(("scope", "depth"), SETTINGS)
def test_attainable_is_the_value_of_the_targets_as_scores(
    scope: str | None, depth: int, graded: bool
) -> None:
    """The attainable value is that of the targets as scores: in each bucket, of a
    ranking with the relevant labels of the bucket first, by gain or by weight.
    """
    target, scores = _target(graded), torch.rand(NUM_ROWS, NUM_LABELS)
    collection = tm.TopKCollection(_metrics(scope, depth), references=["attainable"])
    collection.bind(_frequency()).update(scores, target)
    references = collection.references()["attainable"]
    weights = tm.functional.inverse_propensities(COUNTS, 500)
    for number in range(len(BUCKETS) if scope else 1):
        in_bucket = (
            (BUCKETS.assignment == number)
            if scope
            else torch.ones(NUM_LABELS, dtype=torch.bool)
        )
        for by_weight in (False, True):
            expected = tm.TopKCollection(_metrics(scope, depth))
            # other labels keep their order, so that a cut list of the bucket is as long
            # as that of the row
            others = (
                torch.where(in_bucket, scores - 1, scores)
                if scope == "bucket"
                else scores
            )
            first = 2 + ((target > 0) * weights if by_weight else target.float())
            expected.update(
                torch.where((target > 0) & in_bucket, first.float(), others), target
            )
            for key, value in expected.compute().items():
                # lengths of cut lists differ
                depends_on_length = "precision" in key or "f1" in key
                is_of_bucket = key.endswith(BUCKETS.names[number]) if scope else True
                if (
                    is_of_bucket
                    and key in references
                    and ("psp" in key) == by_weight
                    and not (depends_on_length and depth < NUM_LABELS)
                ):
                    assert references[key].item() == pytest.approx(
                        value.item(), abs=1e-12, nan_ok=True
                    ), key


def _forms(draw: torch.Generator, half: int) -> Iterator[tuple[Any, torch.Tensor]]:
    """Yield three rows of good scores of all labels, of some labels, and lists that end
    anywhere.

    Forms alternate between targets with and without gains; the other half swaps them.
    """
    target = torch.rand(3, LABELS_OF_CASES, generator=draw) < 0.6 * torch.rand(
        3, 1, generator=draw
    )
    gains = target * torch.randint(1, 4, target.shape, generator=draw).float()
    scores = torch.randn(target.shape, generator=draw) + 3 * target * torch.rand(
        3, 1, generator=draw
    )
    partial_scores = scores.masked_fill(
        torch.rand(target.shape, generator=draw) < 0.7, -torch.inf
    )
    lists = scores.topk(12).indices
    lists = lists.masked_fill(
        torch.arange(12) >= torch.randint(13, (3, 1), generator=draw), -1
    )
    for place, preds in enumerate((scores, partial_scores, lists)):
        yield preds, (target, gains)[(place + half) % 2]


def _kind(case: Case) -> tuple[Any, ...]:
    """Return what decides whether a metric has a best value."""
    return case.name, case.by, case.arguments.get("average")


OF_EACH_KIND = {_kind(case): case for case in EVERY_CASE}.values()
KINDS = {
    _kind(case)
    for case in OF_EACH_KIND
    if "expected" in case.metric().aggregation.tie_rules
}


def _cases_and_halves() -> Iterator[Any]:
    """Yield one case of each kind with both halves of the forms, and the others with
    the halves by turns.
    """
    for number, case in enumerate(case for case in EVERY_CASE if _kind(case) in KINDS):
        halves = [number % 2]
        if any(case is other for other in OF_EACH_KIND):
            halves = [0, 1]
        for half in halves:
            yield pytest.param(case, half, id=f"{case}-{half}")


@pytest.mark.parametrize(("case", "half"), list(_cases_and_halves()))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_value_exceeds_the_attainable_value(case: Case, half: int) -> None:
    """No value exceeds the attainable value: in both scopes, for whole and cut lists,
    with gains and weights, by bucket and over all labels. Metrics of which less is
    better have no attainable value.
    """
    depth_argument = {}
    if (
        half == 1
        and "depth" in arguments(REGISTRY[case.name])
        and "depth" not in case.arguments
    ):
        depth_argument["depth"] = 7
    draw = torch.Generator().manual_seed(half)
    collection = tm.TopKCollection(
        [case.metric(weighted=True, **depth_argument)], references=["attainable"]
    )
    is_loss = collection.members().popitem()[1].higher_is_better is False
    for preds, target in _forms(draw, half):
        collection.reset()
        try:
            collection.update(preds, target, row_weights=torch.rand(3, generator=draw))
        except ValueError as error:  # the metric does not read this form
            assert "scores" in str(error)
            continue
        attainable, values = collection.references()["attainable"], collection.compute()
        assert bool(attainable) != is_loss
        for key, largest in attainable.items():
            assert values[key] <= largest + 1e-9 or (
                values[key].isnan() and largest.isnan()
            ), key


def _frequency() -> tm.LabelFrequency:
    frequency = tm.LabelFrequency(NUM_LABELS)
    frequency.counts, frequency._update_count = COUNTS.clone(), 1
    return frequency


def test_attainable_value_ignores_padding() -> None:
    """The attainable value ignores padding: the best list of a padded row with gains of
    1/2 and 1/4 begins with them, on CPUs and devices.
    """
    ids, gains = (
        torch.tensor([[0, -1, 2, -1], [1, 0, 3, 2]]),
        torch.tensor([[0.5, 0, 0.25, 0], [0.5, 0.25, 0.75, 1]]),
    )
    for form in (nullcontext, force_plain):
        with form():
            metrics = tm.TopKCollection([tm.CGAtK(k=[1, 2])], references=["attainable"])
            metrics.update(
                tm.Ranking.from_scores(
                    torch.rand(2, 5), target_ids=ids, target_gains=gains
                )
            )
            assert list(map(float, metrics.references()["attainable"].values())) == [
                (0.5 + 1) / 2,
                (0.75 + 1.75) / 2,
            ]


def test_chance_of_recall_and_fall_out_is_k_over_labels() -> None:
    """Chance of recall and fall-out at k of 60 labels is k / 60, also for lists of ids;
    masked rows do not count.
    """
    metrics = [
        metric_class([1, 6], num_labels=NUM_LABELS)
        for metric_class in (tm.RecallAtK, tm.FallOutAtK)
    ]
    collection = tm.TopKCollection(metrics, references=["chance"])
    collection.update(
        torch.arange(10).view(2, 5),
        torch.tensor([[3, 50], [7, -1]]),
        torch.tensor([True, False]),
    )
    assert {
        key: value.item() for key, value in collection.references()["chance"].items()
    } == {
        f"{name}@{k}": pytest.approx(k / 60)
        for name in ("recall", "fall_out")
        for k in (1, 6)
    }


@pytest.mark.parametrize(
    "further_arguments",
    [{}, {"empty_target_action": "neg"}, {"ignore_index": -100}, {"weighted": True}],
)
@pytest.mark.parametrize(("scope", "depth"), SETTINGS)
def test_references_leave_out_dropped_rows(
    scope: str | None, depth: int, further_arguments: dict[str, Any]
) -> None:
    """Rows dropped by a mask, by ``ignore_index`` or by a weight of 0 add nothing to
    references, whatever the action for empty rows.
    """
    is_kept, target = (
        torch.tensor([True, False, True, True, False]),
        torch.tensor([3, 7, 50, 11, 9]),
    )
    references = []
    for rows in (slice(None), is_kept):
        collection = tm.TopKCollection(
            _metrics(scope, depth, **further_arguments),
            references=["chance", "popularity", "attainable"],
        )
        collection.bind(_frequency())
        row_arguments: dict[str, Any] = {"row_mask": is_kept[rows]}
        if "weighted" in further_arguments:
            row_arguments = {"row_weights": is_kept[rows].double()}
        part_target = target
        if "ignore_index" in further_arguments:
            part_target, row_arguments = target.where(is_kept, -100), {}
        collection.update(
            torch.arange(5 * NUM_LABELS).view(5, -1)[rows].float(),
            part_target[rows],
            **row_arguments,
        )
        references.append(collection.references())
    torch.testing.assert_close(*references, rtol=0, atol=0, equal_nan=True)


def test_random_scores_have_no_adjusted_gap() -> None:
    """Random scores have an adjusted gap of 0, within its error.

    Their plain gap in scope="bucket" comes from the sizes of the buckets.
    """
    counts = (1000 / torch.arange(1, 1001)).long()
    collection = tm.TopKCollection(
        [tm.RecallAtK(10, buckets=tm.LabelBuckets.deciles(counts))],
        references=["chance", "attainable"],
    )
    draw = torch.Generator().manual_seed(3)
    for _ in range(10):
        target = torch.multinomial(counts.double().expand(400, 1000), 5, generator=draw)
        collection.update(torch.rand(400, 1000, generator=draw), target)
    summaries = collection.summaries()
    assert summaries["recall@10/gap"] > 0.3
    assert abs(summaries["recall@10/adjusted_gap"]) < 0.03


@pytest.mark.slow
def test_references_travel_with_their_collection() -> None:
    """References are merged, saved, pickled, copied and reset with a collection, to the
    same bits in any batches.
    """

    def make_collection() -> tm.TopKCollection:
        return tm.TopKCollection(
            _metrics("bucket", 20),
            references=["chance", "popularity", "attainable"],
            prefix="val/",
        )

    target, scores = _target(), torch.rand(NUM_ROWS, NUM_LABELS)
    whole, first, second, loaded = (
        make_collection(),
        make_collection(),
        make_collection(),
        make_collection(),
    )
    whole.update(scores, target)
    first.update(scores[:2], target[:2])
    second.update(scores[2:], target[2:])
    first.merge_state(second)
    whole.persistent(True)
    loaded.load_state_dict(whole.state_dict())
    expected = whole.references()
    assert all(key.startswith("val/") for values in expected.values() for key in values)
    for collection in (
        first,
        loaded,
        pickle.loads(pickle.dumps(whole)),
        deepcopy(whole),
        whole.to("cpu"),
    ):
        torch.testing.assert_close(
            collection.references(), expected, rtol=0, atol=0, equal_nan=True
        )
    whole.reset()
    whole.update(scores[:1], target[:1])
    assert (
        whole.references()["chance"]["val/recall_depth20@5/quantile_4"]
        != (first.references()["chance"]["val/recall_depth20@5/quantile_4"])
    )


def test_members_bound_one_by_one_have_references() -> None:
    """References and orders are known once all members are bound, also one by one, and
    after the collection was moved and saved before.
    """
    frequency = tm.LabelFrequency.from_counts(list(range(NUM_LABELS, 0, -1)), 1000)
    target, scores = _target(), torch.rand(NUM_ROWS, NUM_LABELS)
    one_by_one, together = (
        tm.TopKCollection(
            [tm.RecallAtK(2, buckets="quantiles:2"), tm.MRR()],
            references=["chance", "popularity"],
        ).with_orders()
        for _ in range(2)
    )
    one_by_one.to("cpu").state_dict()
    for metric in one_by_one.members().values():
        metric.bind(frequency)
    together.bind(frequency)
    for collection in (one_by_one, together):
        collection.update(scores, target)
    assert all(together.references().values())
    assert str(one_by_one.references()) == str(together.references())
    assert str(one_by_one.orders()) == str(together.orders())


def test_references_without_needed_numbers_are_refused_or_left_out() -> None:
    """References without the number of labels, and unknown references, are refused;
    popularity without counts is left out.
    """
    collection = tm.TopKCollection([tm.RecallAtK(2)], references=["chance"])
    with pytest.raises(ValueError, match="needs the number of labels"):
        collection.update(torch.tensor([[1, 2]]), torch.tensor([1]))
    with pytest.raises(ValueError, match="references='luck'"):
        tm.TopKCollection([tm.RecallAtK(2)], references=["luck"])
    collection = tm.TopKCollection(
        [tm.RecallAtK(2)], references=["chance", "popularity"]
    )
    collection.update(torch.rand(3, 4), torch.arange(3))
    assert list(collection.references()) == ["chance"]


def test_references_are_of_the_rows_of_every_update_and_forward() -> None:
    """References count the rows of update and forward, and none of a batch that fails.

    With two rows by update and one by forward, attainable recall@1 is (1/2 + 1 + 1) / 3
    and chance 1/4.
    """
    scores = torch.tensor([[0.9, 0.5, 0.1, 0.0]])
    collection = tm.TopKCollection(
        [tm.RecallAtK(k=1)], references=["chance", "attainable"]
    )
    collection.update(scores, torch.tensor([[0, 2]]))
    collection.update(scores, torch.tensor([[0, -1]]))
    collection(scores, torch.tensor([[0, -1]]))
    with pytest.raises(ValueError, match="preds holds NaN"):
        collection(scores * torch.nan, torch.tensor([[0, -1]]))
    references = {
        name: float(values["recall@1"])
        for name, values in collection.references().items()
    }
    assert references == {"chance": 0.25, "attainable": 2.5 / 3}
    collection.reset()
    collection.update(scores, torch.tensor([[0, 2]]))
    assert {
        name: float(values["recall@1"])
        for name, values in collection.references().items()
    } == {
        "chance": 0.25,
        "attainable": 0.5,
    }


class _CellCounter(TorchDispatchMode):
    """Counts the cells of the results of torch operations, without views."""

    def __init__(self, step: str = "") -> None:
        """Count the operations whose name holds ``step``."""
        super().__init__()
        self.step, self.number = step, 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Count the cells of one operation, and run it."""
        result = function(*args, **(kwargs or {}))
        is_counted = self.step in str(function) and isinstance(result, torch.Tensor)
        if is_counted and function._schema.returns[0].alias_info is None:
            self.number += result.numel()
        return result


def test_cost_of_references_does_not_depend_on_the_number_of_labels() -> None:
    """After the first batch, which makes tables, references compute as many cells for
    100,000 labels as for 1,000, within a tenth.
    """
    cell_counts = []
    for num_labels in (1_000, 100_000):
        buckets = tm.LabelBuckets.from_assignment(
            torch.arange(num_labels) % 5, list("abcde")
        )
        counts = torch.arange(num_labels, 0, -1)
        collection = tm.TopKCollection(
            [
                metric([1, 5], buckets=buckets, depth=20)
                for metric in (tm.RecallAtK, tm.NDCGAtK, tm.MRR)
            ],
            references=["chance", "popularity", "attainable"],
        ).bind(tm.LabelFrequency.from_counts(counts, 1000))
        ids = torch.arange(20).expand(30, 20).contiguous()
        target = torch.stack([torch.arange(row, row + 3) for row in range(30)])
        collection.update(ids, target)
        ranking = collection.rank(ids, target)
        with _CellCounter() as cells:
            collection.reference_models.note_increments(Addition(), ranking)
        cell_counts.append(cells.number)
    assert cell_counts[1] == pytest.approx(cell_counts[0], rel=0.1)
    assert cell_counts[0] > 10_000


def test_expected_reciprocal_rank_computes_equal_ties_once() -> None:
    """The expected reciprocal rank computes the product of equal ties once: as many
    cells for 50 equal rows as for one, where all 5,000 labels tie.
    """
    cell_counts = []
    for num_rows in (1, 50):
        target = torch.arange(3).expand(num_rows, 3).contiguous()
        with _CellCounter("cumprod") as cells:
            tm.MRR(ties="expected").update(torch.zeros(num_rows, 5_000), target)
        cell_counts.append(cells.number)
    assert cell_counts[0] == cell_counts[1] >= 5_000 - 2
