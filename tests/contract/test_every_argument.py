"""Each argument of each metric shows wherever two metrics must be distinguished:
states, repr, settings, processes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor
from torchmetrics import MetricCollection

from cases import BUCKETS, NUM_LABELS, NUM_TRAIN, TREE, registered, training_counts
from exactness.bits import bits_of
from tailmetrics import LabelBuckets, LabelTree, PopularityAtK, Ranking, rank
from tailmetrics._signatures import PRESENTATION, arguments
from tailmetrics._transfer import difference, identity
from tailmetrics.metrics import REGISTRY, TopKMetric
from tailmetrics.ranking._device import force_plain

COUNTS = training_counts()
VALUES: dict[str, tuple[Any, Any]] = {
    "k": (2, 3),
    "bins": (8, 16),
    "not_retrieved": ("last", "absent"),
    "buckets": (BUCKETS, LabelBuckets.deciles(COUNTS.flip(0))),
    "num_labels": (NUM_LABELS, NUM_LABELS + 1),
    "row_groups": (["a", "b"], ["b", "a"]),
    "weighted": (False, True),
    "duplicates": ("error", "first"),
    "ignore_index": (None, -100),
    "min_gain": (None, 2.0),
    "scope": ("bucket", "global"),
    "ties": ("best", "worst"),
    "average": ("macro", "weighted"),
    "depth": (20, 30),
    "empty_target_action": ("skip", "error"),
    "max_gain": (3.0, 4.0),
    "labels": ("present", "union"),
    "macro": (None, "of_averages"),
    "beta": (2.0, 3.0),
    "min_recall": (0.5, 0.8),
    "statistic": ("median", "mean"),
    "miss_value": (5, 6),
    "gain": ("linear", "exponential"),
    "label_counts": (COUNTS, COUNTS + 1),
    "num_train": (NUM_TRAIN, NUM_TRAIN + 1),
    "normalization": ("normalized", "sum"),
    "a": (0.5, 0.6),
    "b": (1.4, 1.5),
    "preset": ("wikipedia", "amazon"),
    "weights": (torch.ones(NUM_LABELS), torch.full((NUM_LABELS,), 2.0)),
    "persistence": (0.8, 0.9),
    "threshold": (0.4, 0.5),
    "tree": (TREE, LabelTree([-1, *range(NUM_LABELS - 1)])),
}
"""Two values of each argument."""

DENOMINATORS: dict[str, tuple[Any, Any]] = {
    "MAP": ("relevant", "attainable"),
    "PositiveCoverageAtK": ("observed", "known"),
}
"""Two values of ``denominator`` for metrics in which it has other values than in
precision.
"""

REQUIRED_ARGUMENTS: dict[str, dict[str, Any]] = {
    "scope": {"buckets": BUCKETS},
    "depth": {"buckets": BUCKETS},
    "labels": {"average": "macro"},
    "macro": {"average": "macro"},
}
"""Other arguments that an argument needs to have an effect."""


def make_metric(name: str, argument: str, value: Any) -> TopKMetric:
    """Return a metric with all that it needs, and one argument of this value."""
    options = {
        key: option
        for key, option in REQUIRED_ARGUMENTS.get(argument, {}).items()
        if key in arguments(REGISTRY[name])
    }
    if (
        argument == "num_labels"
        and value != NUM_LABELS
        and name.startswith(("Propensity", "Popularity", "Novelty"))
    ):
        options["label_counts"] = torch.cat([COUNTS, COUNTS[:1]])
    if argument == "num_labels" and "tree" in arguments(REGISTRY[name]):
        options["tree"] = LabelTree([-1] * value)
    return registered(name, **{**options, argument: value})


def two_metrics(name: str, argument: str) -> tuple[TopKMetric, TopKMetric]:
    """Return two metrics of a class that differ in one argument."""
    values = VALUES.get(argument)
    if argument == "denominator":
        values = DENOMINATORS.get(name, ("predicted", "k"))
    assert values is not None
    return make_metric(name, argument, values[0]), make_metric(
        name, argument, values[1]
    )


def pairs() -> Iterator[Any]:
    """Yield every class with every argument that it takes and that a value depends
    on.
    """
    for name, metric in REGISTRY.items():
        usual = registered(name)
        for argument in arguments(metric):
            if argument in PRESENTATION or (
                argument,
                usual.aggregation.can_be_weighted,
            ) == ("weighted", False):
                continue
            if argument == "buckets" and name in ("TieRateAtK", "PersonalizationAtK"):
                continue  # metrics of whole rows refuse buckets
            if argument == "ties" and usual.reading.tie_rules == ("id",):
                continue  # the metric reads scores
            if (
                argument == "average"
                and not {"labels", "bins"} & arguments(metric).keys()
            ):
                continue  # "samples" is the only valid average
            yield pytest.param(name, argument, id=f"{name}-{argument}")


@pytest.mark.filterwarnings("ignore:.*as logits are")
@pytest.mark.parametrize(("name", "argument"), list(pairs()))
def test_metrics_with_two_values_of_an_argument_are_distinguished(
    name: str, argument: str
) -> None:
    """Two metrics of a class that differ in one argument have different reprs, settings
    and names of states.

    Their difference names the argument. Shared states are counts of labels, which do
    not depend on the use made of them: they have one name.
    """
    first, second = two_metrics(name, argument)
    assert first.is_bound
    assert second.is_bound
    text = difference([first.fingerprint()], [second.fingerprint()], "here", "there")
    assert text is not None
    assert ("a is 0.5 here and 0.6 there" if argument == "preset" else argument) in text
    if argument in IN_TEXT:
        assert repr(first) != repr(second)
        assert identity(first.settings()) != identity(second.settings())
    if argument != "num_labels":  # which shows in the shapes
        assert not unshared_states(first) & unshared_states(second)
    if argument in ("duplicates", "ignore_index"):
        assert not {*first.metric_state} & {*second.metric_state}


BATCHED = [
    pair
    for number, pair in enumerate(pairs())
    if pair.values[1] not in ("num_labels", "row_groups", "weighted")
    and number % 3 == 0
]


@pytest.mark.filterwarnings("ignore:.*as logits are")
@pytest.mark.parametrize(("name", "argument"), BATCHED)
def test_a_plain_collection_keeps_two_values_of_an_argument_apart(
    name: str, argument: str
) -> None:
    """A MetricCollection of TorchMetrics, which merges metrics of equal states after
    its first batch, does not merge two metrics that differ in an argument. Every third
    pair is tested.
    """
    first, second = two_metrics(name, argument)
    alone = [first.clone(), second.clone()]
    collection = MetricCollection({"first": first, "second": second})
    for scores in (SCORES.neg(), SCORES):
        for member in (collection, *alone):
            member.update(scores, CLASSES)
    assert [bits_of(value) for value in collection.compute().values()] == [
        bits_of(metric.compute()) for metric in alone
    ]


IN_TEXT = VALUES.keys() - {
    "num_labels",
    "label_counts",
    "buckets",
    "weights",
    "tree",
} | {"denominator"}
"""Arguments whose value repr shows in full."""


def unshared_states(metric: TopKMetric) -> set[str]:
    """Return the names of the states that a metric shares with no other."""
    return {
        metric._names[name]
        for name, state in metric._declared.items()
        if not state.shared
    }


def test_metrics_that_count_different_rows_do_not_share_states() -> None:
    """Two members of a MetricCollection that share counts of labels but count different
    rows keep their own values: 11 / 4 and 19 / 6, by hand.
    """
    counts, ids = [5, 3, 2, 1], torch.tensor([[0, 1], [2, 3]])
    all_rows = PopularityAtK(k=2, label_counts=counts)
    without_ignored = PopularityAtK(k=2, label_counts=counts, ignore_index=3)
    collection = MetricCollection({"all": all_rows, "without": without_ignored})
    for target in ([1, 2], [1, 3]):
        collection.update(ids, torch.tensor(target))
    scalars = {key: float(value) for key, value in collection.compute().items()}
    assert scalars == {"all": 11 / 4, "without": pytest.approx(19 / 6, abs=1e-12)}


def test_table_of_values_covers_every_argument() -> None:
    """The table of two values holds every argument of every class."""
    tried_arguments = {
        argument for metric in REGISTRY.values() for argument in arguments(metric)
    }
    assert tried_arguments - {*PRESENTATION, "denominator"} == VALUES.keys()


# arguments of updates, and arguments that decide how a batch is read, in each form of
# input

GENERATOR = torch.Generator().manual_seed(3)
ROWS = 8
SCORES = torch.randn(ROWS, NUM_LABELS, generator=GENERATOR)
SCORES[0] = (
    SCORES[0]
    .sort(descending=True)
    .values.index_fill(0, torch.tensor([3]), 5.0)
    .index_fill(0, torch.tensor([0, 1, 2]), 5.0)
)
BEST = SCORES.sort(dim=1, descending=True, stable=True)
IDS, LISTED_SCORES = BEST.indices[:, :12], BEST.values[:, :12]
CLASSES = IDS[torch.arange(ROWS), torch.arange(ROWS) % 5].index_fill(
    0, torch.tensor([0]), 39
)
GAINS = torch.zeros(ROWS, NUM_LABELS).scatter_(
    1, IDS[:, :6], torch.tensor([1.0, 3, 1, 2, 0, 3]).repeat(ROWS, 1)
)
GAINS[2] = torch.zeros(NUM_LABELS).index_fill(0, IDS[2, 8], 1.0)
GAINS[3] = torch.zeros(NUM_LABELS).index_copy(
    0, IDS[3, [0, 5]], torch.tensor([1.0, 3.0])
)
IGNORED = int(CLASSES[1])


@dataclass(frozen=True)
class ArgumentCase:
    """An argument that changes a value: what takes it, and the batch that shows it.

    Attributes:
        metric: Arguments of the metric.
        reading: Arguments that decide how the batch is read, of the metric or of the
            function that ranks.
        rows: Arguments of ``update``, or of the function that ranks.
        target: The targets.
        twice: Whether lists hold a label twice.
        broken: Whether scores hold NaN.
    """

    metric: dict[str, Any] = field(default_factory=dict)
    reading: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, Any] = field(default_factory=dict)
    target: Tensor = CLASSES
    twice: bool = False
    broken: bool = False


CASES_OF_ARGUMENTS: dict[str, ArgumentCase] = {
    "row_mask": ArgumentCase(rows={"row_mask": torch.arange(ROWS) > 1}),
    "row_groups": ArgumentCase(
        {"row_groups": ["a", "b"]}, rows={"row_groups": torch.arange(ROWS) % 2}
    ),
    "row_weights": ArgumentCase(
        {"weighted": True}, rows={"row_weights": torch.arange(ROWS).double() ** 2}
    ),
    "ignore_index": ArgumentCase(reading={"ignore_index": IGNORED}),
    "min_gain": ArgumentCase({"min_gain": 2.0}, target=GAINS),
    "duplicates": ArgumentCase(reading={"duplicates": "first"}, twice=True),
    "validate_args": ArgumentCase(
        reading={"validate_args": False}, twice=True, broken=True
    ),
    "indexes": ArgumentCase(rows={"indexes": torch.arange(ROWS)}),
}


def dense(case: ArgumentCase) -> Tensor:
    return (
        SCORES.index_fill(1, torch.tensor([7]), float("nan")) if case.broken else SCORES
    )


def lists(case: ArgumentCase) -> Tensor:
    return IDS.index_copy(1, torch.tensor([1]), IDS[:, :1]) if case.twice else IDS


def flat(case: ArgumentCase) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return documents of eight queries: scores, targets, queries and labels.

    The ignored ones have the ignore_index as target.
    """
    relevant = (
        GAINS
        if case.target is GAINS
        else torch.nn.functional.one_hot(CLASSES, NUM_LABELS).float()
    )
    if "ignore_index" in case.reading:
        relevant[:3, 1:] = IGNORED
    labels = torch.arange(NUM_LABELS).repeat(ROWS)
    labels = labels.index_fill(0, torch.tensor([1]), 0) if case.twice else labels
    return (
        dense(case).flatten(),
        relevant.flatten(),
        torch.arange(ROWS).repeat_interleave(NUM_LABELS),
        labels,
    )


def update(
    form: str,
    metric: TopKMetric,
    case: ArgumentCase,
    reading: dict[str, Any],
    rows: dict[str, Any],
) -> None:
    """Update a metric with the batch in a form."""
    preds: dict[str, Callable[[], Any]] = {
        "scores": lambda: dense(case),
        "ids": lambda: lists(case),
        "candidates": lambda: (LISTED_SCORES, lists(case)),
        "CSR": lambda: csr(lists(case)),
        "gradients": lambda: dense(case).clone().requires_grad_(),
        "ranking of scores": lambda: rank(
            dense(case), case.target, 6, **reading, **rows
        ),
        "ranking of ids": lambda: rank(lists(case), case.target, **reading, **rows),
        "ranking beside arguments": lambda: rank(SCORES, CLASSES, NUM_LABELS),
    }
    if form == "flat":
        scores, target, queries, _ = flat(case)
        rows = {
            name: queries if name == "indexes" else value
            for name, value in rows.items()
        }
        metric.update(
            scores,
            target,
            **(rows if "indexes" in case.rows else {"indexes": queries, **rows}),
        )
    elif form == "documents with labels":
        scores, target, queries, labels = flat(case)
        metric.update(
            Ranking.from_flat(
                scores,
                target,
                queries,
                labels,
                num_labels=NUM_LABELS,
                **reading,
                **rows,
            )
        )
    elif form == "ranking beside arguments":
        metric.update(preds[form](), **rows)
    elif form in ("ranking of scores", "ranking of ids"):
        metric.update(preds[form]())
    else:
        metric.update(preds[form](), case.target, **rows)


def csr(ids: Tensor) -> Tensor:
    """Return listed labels with their scores as CSR."""
    crow = torch.arange(0, ids.numel() + 1, ids.shape[1])
    return torch.sparse_csr_tensor(
        crow,
        ids.flatten(),
        LISTED_SCORES.flatten(),
        SCORES.shape,
        check_invariants=False,
    )


FORMS = ("scores", "ids", "candidates", "CSR", "gradients", "ranking of scores", "ranking of ids", "flat",
         "documents with labels", "ranking beside arguments")  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {
    "KForRecall": {"min_recall": 1.0, "statistic": "mean"},
    **{
        name: {"threshold": [0.0, 1.0, 1.6]}
        for name in REGISTRY
        if name.endswith("Threshold")
    },
    "PredictionProportionAtK": {"k": 3, "buckets": BUCKETS, "num_labels": None},
    "NearMissAtK": {
        "k": 1,
        "tree": LabelTree([-1] * 2 + [label % 2 for label in range(NUM_LABELS - 2)]),
    },
}
"""Arguments by which a class sees one row among eight."""


def outcome(
    form: str, name: str, case: ArgumentCase, with_argument: bool
) -> Tensor | str:
    """Return the value with or without the argument, or the text of the error."""
    try:
        metric = registered(
            name,
            **OPTIONS.get(name, {}),
            **(case.metric | case.reading if with_argument else {}),
        )
        update(
            form,
            metric,
            case,
            case.reading if with_argument else {},
            case.rows if with_argument else {},
        )
    except (TypeError, ValueError) as error:
        return str(error)
    return metric.compute()


def changes_nothing(argument: str, form: str, name: str) -> bool:
    """Return whether a class or a form documents that the argument has no effect."""
    if argument == "min_gain":
        return name in ("CGAtK", "DCGAtK", "NDCGAtK")  # their page: gains are graded
    # no column of a matrix stands in it twice, and without ids no document has a label
    if argument == "duplicates":
        return form in ("scores", "gradients", "ranking of scores", "flat")
    # every document is judged
    if name == "JudgedAtK" and form in ("flat", "documents with labels"):
        return True
    return name == "TieRateAtK" and "ids" in form


def pairs_of_updates() -> Iterator[tuple[str, str]]:
    """Yield each argument in each form; for a ranking, only those that select, group
    and weigh rows.
    """
    for argument, case in CASES_OF_ARGUMENTS.items():
        applies_to_rankings = case.rows or argument == "ignore_index"
        yield from (
            (argument, form)
            for form in FORMS
            if form != "ranking beside arguments" or applies_to_rankings
        )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("argument", "form"), list(pairs_of_updates()))
def test_an_argument_changes_the_value_or_is_refused(argument: str, form: str) -> None:
    """An argument changes the value on a batch that shows it, or is refused, in every
    form of input and never silently ignored. Each form is tested with one class of
    three by turns.
    """
    case = CASES_OF_ARGUMENTS[argument]
    accepted = 0
    turn = [*CASES_OF_ARGUMENTS].index(argument) + FORMS.index(form)
    for number, name in enumerate(REGISTRY):
        if (number + turn) % 3:
            continue
        without, result = (
            outcome(form, name, case, with_argument) for with_argument in (False, True)
        )
        accepted += isinstance(result, Tensor)
        if isinstance(result, Tensor) and not case.broken:
            with force_plain():
                plain = outcome(form, name, case, True)
            assert isinstance(plain, Tensor), (name, plain)
            assert torch.equal(plain.nan_to_num(-1), result.nan_to_num(-1)), (
                name,
                result,
                plain,
            )
        if changes_nothing(argument, form, name):
            continue
        if isinstance(result, str):
            assert result.startswith((name, "rank", "Ranking")), result
            assert argument != "validate_args" or result != without, (name, result)
        elif isinstance(without, Tensor):
            changed = result.shape != without.shape or not torch.equal(
                result.nan_to_num(-1), without.nan_to_num(-1)
            )
            assert changed, (name, result)
    is_refused = form == "ranking beside arguments" or (
        argument == "indexes" and form != "flat"
    )
    is_refused |= argument == "duplicates" and form == "CSR"
    assert accepted == 0 if is_refused else accepted > 3
