"""Each public name is called once, with a value computed by hand; docstrings show those
of formulas and metrics.
"""

import inspect
import re
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
import torch

import tailmetrics
from cases import BUCKETS, FEW, NUM_LABELS, TREE, data, fed
from tailmetrics import (
    LabelBuckets,
    LabelFrequency,
    LabelTree,
    Ranking,
    RecallAtK,
    TopKCollection,
    functional,
    rank,
)
from tailmetrics._parameters import SHARED_PARAMETERS
from tailmetrics._signatures import KEYWORDS, arguments
from tailmetrics.buckets import names_of_kind
from tailmetrics.cli.options import DataOptions
from tailmetrics.evaluation import compare_runs, evaluate
from tailmetrics.metrics import REGISTRY
from tailmetrics.metrics._checks import depends_on_labels
from tailmetrics.ranking._batch import BATCH_DEFAULTS, BatchArguments, Context

SCORES = torch.tensor([[0.4, 0.3, 0.2, 0.1]])
TARGET = torch.tensor([[1, 3]])
"""Hits at the ranks 2 and 4 of four."""


RANKINGS: dict[str, Callable[[], Ranking]] = {
    "rank": lambda: rank(SCORES, TARGET),
    "from_scores": lambda: Ranking.from_scores(SCORES, target_ids=TARGET),
    "from_ids": lambda: Ranking.from_ids(
        torch.tensor([[0, 1, 2, 3]]), target_ids=TARGET
    ),
    "from_flat": lambda: Ranking.from_flat(
        SCORES[0], torch.tensor([0, 1, 0, 1]), torch.zeros(4).long(), torch.arange(4)
    ),
}


@pytest.mark.parametrize("name", RANKINGS)
def test_every_constructor_of_a_ranking(name: str) -> None:
    """Each constructor of a ranking ranks all labels, here with hits at the ranks 2 and
    4. repr shows ids and properties of a ranking, and no scores.
    """
    ranking = RANKINGS[name]()
    assert ranking.ids.tolist() == [[0, 1, 2, 3]]
    assert ranking.target_ranks[0, :2].tolist() == [2, 4]
    assert float(functional.reciprocal_rank(ranking)) == 1 / 2
    assert re.findall(r"(\w+)=", repr(ranking)) == [
        "ids",
        "complete",
        "distinct",
        "num_labels",
        "ignore_index",
    ]


@pytest.mark.parametrize("name", sorted(RANKINGS.keys() - {"from_ids"}))
def test_constructors_of_a_ranking_refuse_nan(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each constructor of a ranking refuses NaN scores by default."""
    monkeypatch.setitem(globals(), "SCORES", SCORES.where(SCORES > 0.1, torch.nan))
    with pytest.raises(ValueError, match="NaN"):
        RANKINGS[name]()


OTHER_NAMES: dict[str, Callable[[], bool]] = {
    "LabelBuckets": lambda: (
        LabelBuckets.thresholds([5, 1], [2]).assignment.tolist() == [0, 1]
    ),
    "LabelFrequency": lambda: (
        LabelFrequency.from_counts([5, 1], 6).compute().tolist() == [5, 1]
    ),
    "LabelTree": lambda: LabelTree([-1, 0, 1]).level(1).tolist() == [0, 1, 1],
    "TopKCollection": lambda: (
        len(TopKCollection([tailmetrics.MRR(), tailmetrics.MAP()]).keys()) == 2
    ),
    "evaluate": lambda: (
        "recall@1"
        in str(
            tailmetrics.evaluate(SCORES, TARGET, metrics=[tailmetrics.RecallAtK(k=1)])
        )
    ),
}
"""Public classes and functions that are neither metrics nor constructors of rankings.
"""


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_other_public_names_return_values_by_hand(name: str) -> None:
    """Buckets, counts, trees, collections and reports return values computed by
    hand.
    """
    assert OTHER_NAMES[name]()


def test_every_public_name_is_tested_here() -> None:
    """The tables of this file hold every public name of the package, and every class
    method that makes a ranking.
    """
    bases = {"RatioMetric", "RowMeanMetric", "TopKMetric"}
    names = {*REGISTRY, *RANKINGS, *OTHER_NAMES, *bases, "Ranking", "functional"}
    assert set(tailmetrics.__all__) <= names, set(tailmetrics.__all__) - names
    assert {
        name for name in vars(Ranking) if name.startswith("from_")
    } <= RANKINGS.keys()


# signatures: the class alone tells programs every keyword, its type and its meaning


def hints(metric: type) -> dict[str, Any]:
    """Return the types of a constructor's arguments, with those of its keywords."""
    base_with_init = next(base for base in metric.__mro__ if "__init__" in vars(base))
    hints = get_type_hints(vars(base_with_init)["__init__"], include_extras=True)
    (keywords,) = get_args(hints.pop("kwargs"))
    return {**get_type_hints(keywords), **hints}


@pytest.mark.parametrize("name", REGISTRY)
def test_every_keyword_has_a_type(name: str) -> None:
    """typing.get_type_hints of the constructor and of the TypedDict of its keywords
    gives the type of every keyword, with those of TorchMetrics.
    """
    assert {*arguments(REGISTRY[name]), *KEYWORDS} <= hints(REGISTRY[name]).keys()


@pytest.mark.parametrize("name", [*REGISTRY, "LabelFrequency"])
def test_help_shows_every_argument_with_its_meaning(name: str) -> None:
    """The signature of a metric has every argument, and its docstring explains each;
    keywords of TorchMetrics are referred to.
    """
    metric: Any = REGISTRY.get(name, LabelFrequency)
    signature = inspect.signature(metric)
    assert list(signature.parameters) == [*arguments(metric), *KEYWORDS]
    for argument in arguments(metric):
        assert f"\n    {argument}: " in inspect.cleandoc(metric.__doc__), argument
    assert "kwargs: See" not in metric.__doc__.replace(
        "kwargs: See :class:`torchmetrics.Metric`", ""
    )


@pytest.mark.parametrize(
    "function",
    [rank, TopKCollection, evaluate, compare_runs],
    ids=lambda function: function.__name__,
)
def test_reading_arguments_are_in_signatures_and_errors(function: Any) -> None:
    """The arguments that decide how a batch is read are in the signature and the help
    of rank, TopKCollection, evaluate and compare_runs. An unknown argument raises an
    error that names the one meant.
    """
    parameters = inspect.signature(function).parameters
    assert {name: parameters[name].default for name in BATCH_DEFAULTS} == BATCH_DEFAULTS
    for name in BATCH_DEFAULTS:
        assert f"\n    {name}: " in inspect.cleandoc(function.__doc__), name
    with pytest.raises(
        TypeError,
        match=rf"^{function.__name__}: ignored_index .* did you mean ignore_index=\?$",
    ):
        function([RecallAtK(1)], TARGET, ignored_index=0)


@pytest.mark.parametrize("name", REGISTRY)
def test_the_table_of_shared_parameters_has_the_types_of_keywords(name: str) -> None:
    """The table of shared parameters has the types of the TypedDict of ``**kwargs``, so
    that type checkers and help agree.
    """
    base_with_init = next(
        base for base in REGISTRY[name].__mro__ if "__init__" in vars(base)
    )
    (keywords,) = get_args(
        get_type_hints(vars(base_with_init)["__init__"], include_extras=True)["kwargs"]
    )
    for key, type_of_key in keywords.__annotations__.items():
        if key not in KEYWORDS:
            assert SHARED_PARAMETERS[key].type == type_of_key.__forward_arg__, key


def test_reading_arguments_have_one_name_and_default_everywhere() -> None:
    """The arguments that decide how a batch is read have the same names and defaults
    for type checkers, batches, metrics and the command line.
    """
    assert (
        {*get_type_hints(BatchArguments)}
        == {*BATCH_DEFAULTS}
        <= {*vars(Context("rank"))}
    )
    for holder in (Context("rank"), DataOptions(), RecallAtK(1)):
        assert {
            name: getattr(holder, name) for name in BATCH_DEFAULTS
        } == BATCH_DEFAULTS


def test_defaults_of_the_signature_are_those_of_torchmetrics() -> None:
    """A metric made with every default of its signature equals a metric made without
    them.
    """
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(RecallAtK).parameters.items()
        if name != "k"
    }
    assert repr(RecallAtK(1, **defaults)) == repr(RecallAtK(1))
    explicit, plain = RecallAtK(1, **defaults), RecallAtK(1)
    for name in KEYWORDS:
        assert getattr(explicit, name, None) == getattr(plain, name, None), name


def test_clone_is_typed_as_the_original() -> None:
    """clone is typed to return the class of the original, so that the copy can be bound
    or updated with row weights.
    """
    assert inspect.signature(RecallAtK.clone).return_annotation == "Self"
    assert inspect.signature(TopKCollection.clone).return_annotation == "Self"
    assert RecallAtK(k=2).clone().bind(LabelFrequency.from_counts([3, 1], 4)).k == 2


# descriptions of metrics, collections, buckets and counts

BATCH = data(seed=14, num_rows=20, ties=False)
ORDER = torch.randperm(NUM_LABELS, generator=torch.Generator().manual_seed(3))


def test_descriptions_of_metrics_are_true() -> None:
    """A metric describes truly its keys by group, its arguments, and whether its value
    depends on the numbering of labels.
    """
    for case in FEW:
        metric = case.metric(row_groups=["a", "b"])
        assert metric.group_keys() == ["", "/a", "/b"]
        assert metric.keys() == [
            key for group in metric.group_keys() for key in metric.row_keys(group)
        ]
        assert repr(metric) == f"{case.name}({metric.extra_repr()})"
        assert metric.unusual_settings().keys() <= metric.settings().keys()
        assert metric.shares_states
        if not depends_on_labels(metric):
            renumbered = BATCH.scores[:, ORDER], BATCH.target[:, ORDER]
            renumbered_metric, expected = (
                fed(case.metric(), *renumbered),
                fed(case.metric(), BATCH.scores, BATCH.target),
            )
            assert torch.equal(renumbered_metric.compute(), expected.compute()), str(
                case
            )


@pytest.mark.filterwarnings("ignore:.*as logits are")
@pytest.mark.parametrize(
    ("name", "cut", "ks"),
    [("RecallAtK", [1, 3], (1, 3)), ("PrecisionAtThreshold", [0.25, 0.5], (0, 1))],
)
def test_columns_of_labels_are_named_by_cutoff_or_threshold(
    name: str, cut: Any, ks: tuple[int, ...]
) -> None:
    """Columns of per_label() are named by cut-offs or thresholds.

    Metrics with average="none" and "macro" keep labels.
    """
    metric, mean_metric = (
        REGISTRY[name](cut, average=average, num_labels=NUM_LABELS)
        for average in ("none", "macro")
    )
    assert (
        metric.aggregation.keeps_labels,
        mean_metric.aggregation.keeps_labels,
        metric.reading.ks,
    ) == (
        True,
        True,
        ks,
    )
    columns = fed(TopKCollection([metric]), BATCH.scores, BATCH.target).per_label()
    assert {
        f"{metric.stem}@{metric.aggregation.cut_name(k)}" for k in metric.cutoffs
    } <= columns.keys()


def test_with_references_and_with_orders_equal_constructor_arguments() -> None:
    """with_references and with_orders give a collection the references and orders that
    it has if it is made with them.

    Rows above chance add up to the adjusted values.
    """
    names: Any = ["chance", "attainable"]
    members = [tailmetrics.RecallAtK(3, buckets=BUCKETS), tailmetrics.NDCGAtK([1, 3])]
    early, later = (
        TopKCollection([member.clone() for member in members], references=names),
        TopKCollection(members),
    )
    for collection in (early, later.with_references(names).with_orders()):
        fed(collection, BATCH.scores, BATCH.target)
    values, references = later.compute(), later.references()
    assert str(references) == str(early.references())
    assert later.reference_models.adjusted
    for name in later.reference_models.adjusted:
        for key, (above_chance, attainable) in later.reference_models.above_chance(
            name, later.rank(BATCH.scores, BATCH.target)
        ).items():
            expected = (values[key] - references["chance"][key]) / (
                references["attainable"][key] - references["chance"][key]
            )
            assert float(above_chance.nansum() / attainable.nansum()) == pytest.approx(
                float(expected), nan_ok=True
            )
    orders = later.orders()
    for key in orders["worst"]:
        # nothing ties
        assert str(orders["worst"][key]) == str(orders["best"][key]) == str(values[key])


def test_properties_of_buckets_and_counts() -> None:
    """A table of buckets holds the bucket of each label, and one more for padding;
    names_of_kind gives the names of a text; counts of from_counts are complete.
    """
    buckets = LabelBuckets.from_assignment([1, 0, 1], ["head", "tail"])
    assert buckets.table_on(torch.device("cpu")).tolist() == [1, 0, 1, 2]
    assert names_of_kind("thresholds:5") == ("5+", "1-4", "unseen")
    frequency = LabelFrequency.from_counts([2, 1], 3)
    assert (
        frequency.compute().tolist(),
        frequency.num_rows,
        frequency.extra_repr(),
    ) == ([2, 1], 3, "num_labels=2")


def test_formula_of_a_ranking_equals_its_metric() -> None:
    """A formula with its defaults has the value of its metric: the mean over rows, or
    the ratio of sums over rows.
    """
    has_target = BATCH.target.any(dim=1)
    batch = BATCH.scores[has_target].clamp(min=-9), BATCH.target[has_target]
    arguments = {
        "k": 3,
        "weights": torch.linspace(1, 9, NUM_LABELS),
        "num_labels": NUM_LABELS,
        "tree": TREE,
    }
    names = {name.replace("_", ""): name for name in vars(functional)} | {
        "mrr": "reciprocal_rank",
        "map": "average_precision",
    }
    tried = 0
    for name, metric in REGISTRY.items():
        formula = getattr(functional, names.get(name.lower(), ""), None)
        if formula is None or name == "KForRecall":  # whose rows make a median
            continue
        metric_arguments = {
            key: value
            for key, value in arguments.items()
            if key in inspect.signature(formula).parameters
        }
        value = formula(rank(*batch), **metric_arguments)
        value = (
            value[0].sum() / value[1].sum()
            if isinstance(value, tuple)
            else value.double().mean()
        )
        assert float(
            fed(metric(**metric_arguments), *batch).compute()
        ) == pytest.approx(float(value), rel=1e-12), name
        tried += 1
    assert tried >= 20


@pytest.mark.parametrize(
    ("formula", "arguments_of"),
    [
        (functional.cross_entropy, lambda size: {"buckets": two_buckets(size)}),
        (functional.near_miss_at_k, lambda size: {"tree": LabelTree([-1] * size)}),
        (
            functional.hierarchical_recall_at_k,
            lambda size: {"tree": LabelTree([-1] * size)},
        ),
        (
            functional.propensity_scored_recall_at_k,
            lambda size: {"weights": torch.ones(size)},
        ),
    ],
    ids=["buckets", "tree", "tree, hierarchical", "weights"],
)
@pytest.mark.parametrize("size", [3, 5])
def test_formulas_refuse_tables_of_other_labels(
    formula: Any, arguments_of: Any, size: int
) -> None:
    """A formula of four labels refuses buckets, trees and weights of three or five, of
    scores, ids and rankings; it takes those of four.
    """
    cutoff = {"k": 1} if "k" in inspect.signature(formula).parameters else {}
    formula(SCORES, TARGET, **cutoff, **arguments_of(4))

    wrong_arguments = {**cutoff, **arguments_of(size)}
    with pytest.raises(ValueError, match=f"4 columns, but there are {size} labels"):
        formula(SCORES, TARGET, **wrong_arguments)
    with pytest.raises(
        ValueError, match=f"is of 4 labels, the other arguments of {size}; make both"
    ):
        formula(rank(SCORES, TARGET), **wrong_arguments)
    if cutoff and size == 3:
        with pytest.raises(ValueError, match="holds the id 3, but there are 3 labels"):
            formula(torch.tensor([[0, 1]]), TARGET, **wrong_arguments)


@pytest.mark.parametrize("weights", [np.ones(4), [1.0] * 4, torch.ones(1, 4)], ids=str)
def test_formulas_refuse_weights_of_another_form(weights: Any) -> None:
    """Weights that are no tensor of shape [L] are refused, and the error names them."""
    message = (
        r"propensity_scored_recall_at_k: weights is .*; pass a tensor of shape \[L\]"
    )
    for batch in ((SCORES, TARGET), (rank(SCORES, TARGET),)):
        with pytest.raises(TypeError, match=message):
            functional.propensity_scored_recall_at_k(*batch, k=1, weights=weights)


@pytest.mark.parametrize(
    ("formula", "argument"),
    [(functional.near_miss_at_k, "tree"), (functional.cross_entropy, "buckets")],
)
def test_formulas_refuse_a_list_as_tree_or_buckets(formula: Any, argument: str) -> None:
    """A list as tree or buckets is refused, and the error names the class to pass."""
    cutoff = {"k": 1} if argument == "tree" else {}
    with pytest.raises(TypeError, match=f"{argument} is list; pass .*Label"):
        formula(SCORES, TARGET, **cutoff, **{argument: [0, 0, 1, 1]})


def two_buckets(num_labels: int) -> LabelBuckets:
    """Return the label 0 as one bucket and all other labels as another."""
    return LabelBuckets.from_assignment([0] + [1] * (num_labels - 1), ["a", "b"])


def test_formulas_have_no_value_in_masked_rows() -> None:
    """A formula is NaN in rows that the row mask drops, so that its mean without NaN is
    the value of the metric.

    Bools, whole numbers and the two terms of a ratio have no NaN; of these the mask
    takes the rows that count.
    """
    row_mask = torch.arange(len(BATCH.target)) % 3 != 1
    batch = BATCH.scores.clamp(min=-9), BATCH.target
    ranking = rank(*batch, row_mask=row_mask)
    for name, formula, cutoffs in (
        ("RecallAtK", functional.recall_at_k, {"k": 3}),
        ("NDCGAtK", functional.ndcg_at_k, {"k": 3}),
        ("MRR", functional.reciprocal_rank, {}),
    ):
        metric = REGISTRY[name](**cutoffs)
        metric.update(*batch, row_mask=row_mask)
        values = formula(ranking, **cutoffs)
        assert values.isnan().tolist() == (~row_mask).tolist(), name
        assert float(values.nanmean()) == pytest.approx(
            float(metric.compute()), rel=1e-12
        ), name
    for num_rows in (len(BUCKETS), len(row_mask)):  # as many rows as buckets, and more
        ranking = rank(
            batch[0][:num_rows], batch[1][:num_rows], row_mask=row_mask[:num_rows]
        )
        losses = functional.cross_entropy(ranking, BUCKETS)
        assert (
            losses.isnan().all(dim=1).tolist()
            == losses.isnan().any(dim=1).tolist()
            == (~ranking.row_mask).tolist()
        )
    ranking = rank(*batch, row_mask=row_mask)
    hits = functional.hit_rate_at_k(ranking, k=3)
    assert (
        hits[row_mask].tolist()
        == functional.hit_rate_at_k(rank(*batch), k=3)[row_mask].tolist()
    )
    assert not hits[~row_mask].any()


def test_cut_offs_of_a_formula_are_checked_beside_a_ranking() -> None:
    """Formulas of a ranking check cut-offs as metrics do; a list of cut-offs gives the
    values of each.
    """
    arguments = {
        "weights": torch.linspace(1, 9, NUM_LABELS),
        "num_labels": NUM_LABELS,
        "tree": TREE,
    }
    ranking, tried = rank(BATCH.scores.clamp(min=-9), BATCH.target), 0
    for name, formula in vars(functional).items():
        parameters = (
            inspect.signature(formula).parameters if inspect.isfunction(formula) else {}
        )
        if "k" not in parameters or next(iter(parameters)) == "shown":
            continue
        others = {key: value for key, value in arguments.items() if key in parameters}
        for k, problem in {
            0: "k=0 is too small",
            -1: "k=-1 is too small",
            2.5: "k=2.5 is not a whole number",
        }.items():
            with pytest.raises((ValueError, TypeError), match=f"{name}: {problem}"):
                formula(ranking, k, **others)
        results = (
            formula(ranking, k=[1, 3], **others),
            *(formula(ranking, k, **others) for k in (1, 3)),
        )
        values, *single_values = (
            value[0] if isinstance(value, tuple) else value for value in results
        )
        assert torch.equal(values, torch.stack(single_values)), name
        tried += 1
    assert tried >= 20


def test_texts_of_a_formula_are_checked_wherever_they_stand() -> None:
    """A formula refuses a text that an argument does not take, by keyword and by
    position, beside arrays and beside a ranking.
    """
    ranking = rank(SCORES, TARGET, depth=4)
    calls = [
        lambda: functional.precision_at_k(ranking, 2, "all"),
        lambda: functional.precision_at_k(ranking, k=2, denominator="all"),
        lambda: functional.precision_at_k(SCORES, TARGET, 2, "all"),
    ]
    for call in calls:
        with pytest.raises(
            ValueError,
            match="precision_at_k: denominator='all' is not known; choose one of 'predicted'",
        ):
            call()


def test_which_direction_is_better() -> None:
    """Higher is better for every metric except losses, errors, concentration,
    popularity and tie rates.

    The share of predictions has no direction.
    """
    lower = "CalibrationErrorAtK CoverageError CrossEntropy FallOutAtK GiniAtK KForRecall PopularityAtK PopularityLiftAtK RankingLoss"
    assert {
        name for name, metric in REGISTRY.items() if metric.higher_is_better is False
    } == {
        *lower.split(),
        "TieRateAtK",
    }
    assert {
        name for name, metric in REGISTRY.items() if metric.higher_is_better is None
    } == {"PredictionProportionAtK"}
