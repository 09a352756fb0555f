"""Each public name by one quick call whose value can be redone by hand; formulas and metrics show theirs in their docstrings."""

import inspect
import re
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

import pytest
import torch

import tailmetrics
from cases import BUCKETS, FEW, NUM_LABELS, TREE, data, fed
from tailmetrics import LabelBuckets, LabelFrequency, LabelTree, Ranking, RecallAtK, TopKCollection, functional, rank
from tailmetrics._arguments import KEYWORDS, arguments
from tailmetrics._parameters import SHARED_PARAMETERS
from tailmetrics.buckets import names_of
from tailmetrics.cli.options import DataOptions
from tailmetrics.evaluation import compare_runs, evaluate
from tailmetrics.metrics import REGISTRY
from tailmetrics.metrics._checks import depends_on_labels
from tailmetrics.ranking._inputs import BATCH_DEFAULTS, BatchArguments, Context

SCORES = torch.tensor([[0.4, 0.3, 0.2, 0.1]])
TARGET = torch.tensor([[1, 3]])
"""Hits at the ranks 2 and 4 of four."""


RANKINGS: dict[str, Callable[[], Ranking]] = {
    "rank": lambda: rank(SCORES, TARGET),
    "from_scores": lambda: Ranking.from_scores(SCORES, target_ids=TARGET),
    "from_ids": lambda: Ranking.from_ids(torch.tensor([[0, 1, 2, 3]]), target_ids=TARGET),
    "from_flat": lambda: Ranking.from_flat(
        SCORES[0], torch.tensor([0, 1, 0, 1]), torch.zeros(4).long(), torch.arange(4)
    ),
}


@pytest.mark.parametrize("name", RANKINGS)
def test_every_way_to_a_ranking(name: str) -> None:
    """All labels in their order, with hits at the ranks 2 and 4; it prints its ids and what is known of them, no scores."""
    ranking = RANKINGS[name]()
    assert ranking.ids.tolist() == [[0, 1, 2, 3]]
    assert ranking.target_ranks[0, :2].tolist() == [2, 4]
    assert float(functional.reciprocal_rank(ranking)) == 1 / 2
    assert re.findall(r"(\w+)=", repr(ranking)) == ["ids", "complete", "distinct", "num_labels", "ignore_index"]


@pytest.mark.parametrize("name", sorted(RANKINGS.keys() - {"from_ids"}))
def test_no_way_to_a_ranking_takes_nan(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores are checked unless a call says otherwise."""
    monkeypatch.setitem(globals(), "SCORES", SCORES.where(SCORES > 0.1, torch.nan))
    with pytest.raises(ValueError, match="NaN"):
        RANKINGS[name]()


OTHERS: dict[str, Callable[[], bool]] = {
    "LabelBuckets": lambda: LabelBuckets.thresholds([5, 1], [2]).assignment.tolist() == [0, 1],
    "LabelFrequency": lambda: LabelFrequency.from_counts([5, 1], 6).compute().tolist() == [5, 1],
    "LabelTree": lambda: LabelTree([-1, 0, 1]).level(1).tolist() == [0, 1, 1],
    "TopKCollection": lambda: len(TopKCollection([tailmetrics.MRR(), tailmetrics.MAP()]).keys()) == 2,
    "evaluate": lambda: "recall@1" in str(tailmetrics.evaluate(SCORES, TARGET, metrics=[tailmetrics.RecallAtK(k=1)])),
}
"""Public classes and functions that are neither metrics nor ways to a ranking."""


@pytest.mark.parametrize("name", OTHERS)
def test_every_other_name_does_what_it_is_for(name: str) -> None:
    """Buckets, counts, collections and reports."""
    assert OTHERS[name]()


def test_no_public_name_is_forgotten() -> None:
    """Those of the package, of functional, and the class methods that make a ranking."""
    bases = {"RatioMetric", "RowMeanMetric", "TopKMetric"}
    names = {*REGISTRY, *RANKINGS, *OTHERS, *bases, "Ranking", "functional"}
    assert set(tailmetrics.__all__) <= names, set(tailmetrics.__all__) - names
    assert {name for name in vars(Ranking) if name.startswith("from_")} <= RANKINGS.keys()


# signatures: from the class alone a program finds every keyword, with its type and meaning


def hints(metric: type) -> dict[str, Any]:
    """The types of a constructor's arguments, those of its keywords included."""
    own = next(base for base in metric.__mro__ if "__init__" in vars(base))
    hints = get_type_hints(vars(own)["__init__"], include_extras=True)
    (keywords,) = get_args(hints.pop("kwargs"))
    return {**get_type_hints(keywords), **hints}


@pytest.mark.parametrize("name", REGISTRY)
def test_every_keyword_has_a_type(name: str) -> None:
    """By typing.get_type_hints of the constructor and of the TypedDict of its keywords, TorchMetrics' own included."""
    assert {*arguments(REGISTRY[name]), *KEYWORDS} <= hints(REGISTRY[name]).keys()


@pytest.mark.parametrize("name", [*REGISTRY, "LabelFrequency"])
def test_help_shows_every_argument_with_its_meaning(name: str) -> None:
    """In the signature, with its default, and in the docstring, those of TorchMetrics by reference."""
    metric: Any = REGISTRY.get(name, LabelFrequency)
    shape = inspect.signature(metric)
    assert list(shape.parameters) == [*arguments(metric), *KEYWORDS]
    for argument in arguments(metric):
        assert f"\n    {argument}: " in inspect.cleandoc(metric.__doc__), argument
    assert "kwargs: See" not in metric.__doc__.replace("kwargs: See :class:`torchmetrics.Metric`", "")


@pytest.mark.parametrize(
    "function", [rank, TopKCollection, evaluate, compare_runs], ids=lambda function: function.__name__
)
def test_arguments_of_how_a_batch_is_read_are_shown_and_named(function: Any) -> None:
    """By signature and help, with default and meaning; an error for an argument that is not known says what was meant."""
    shape = inspect.signature(function).parameters
    assert {name: shape[name].default for name in BATCH_DEFAULTS} == BATCH_DEFAULTS
    for name in BATCH_DEFAULTS:
        assert f"\n    {name}: " in inspect.cleandoc(function.__doc__), name
    with pytest.raises(TypeError, match=rf"^{function.__name__}: ignored_index .* did you mean ignore_index=\?$"):
        function([RecallAtK(1)], TARGET, ignored_index=0)


@pytest.mark.parametrize("name", REGISTRY)
def test_the_table_of_shared_parameters_has_the_types_of_keywords(name: str) -> None:
    """The typed dict of ``**kwargs`` and the table agree, so that type checkers see what help shows."""
    own = next(base for base in REGISTRY[name].__mro__ if "__init__" in vars(base))
    (keywords,) = get_args(get_type_hints(vars(own)["__init__"], include_extras=True)["kwargs"])
    for key, type_of_key in keywords.__annotations__.items():
        if key not in KEYWORDS:
            assert SHARED_PARAMETERS[key].type == type_of_key.__forward_arg__, key


def test_an_argument_of_how_a_batch_is_read_is_known_everywhere() -> None:
    """To type checkers, to each batch, to every metric, and to the command line, by the same name and default."""
    assert {*get_type_hints(BatchArguments)} == {*BATCH_DEFAULTS} <= {*vars(Context("rank"))}
    for place in (Context("rank"), DataOptions(), RecallAtK(1)):
        assert {name: getattr(place, name) for name in BATCH_DEFAULTS} == BATCH_DEFAULTS


def test_defaults_of_the_signature_are_those_of_torchmetrics() -> None:
    """A metric made with every default of its signature is the metric made without them."""
    defaults = {
        name: parameter.default for name, parameter in inspect.signature(RecallAtK).parameters.items() if name != "k"
    }
    assert repr(RecallAtK(1, **defaults)) == repr(RecallAtK(1))
    explicit, plain = RecallAtK(1, **defaults), RecallAtK(1)
    for name in KEYWORDS:
        assert getattr(explicit, name, None) == getattr(plain, name, None), name


def test_a_copy_has_the_type_of_what_was_copied() -> None:
    """For type checkers: what ``clone`` returns can be bound, or updated with row weights, as the original."""
    assert inspect.signature(RecallAtK.clone).return_annotation == "Self"
    assert inspect.signature(TopKCollection.clone).return_annotation == "Self"
    assert RecallAtK(k=2).clone().bind(LabelFrequency.from_counts([3, 1], 4)).k == 2


# what metrics, collections, buckets and counts tell of themselves

BATCH = data(seed=14, num_rows=20, ties=False)
ORDER = torch.randperm(NUM_LABELS, generator=torch.Generator().manual_seed(3))


def test_what_a_metric_says_of_itself_is_so() -> None:
    """Its keys by group, what it was made with, and that labels may be numbered otherwise where it reads none."""
    for case in FEW:
        metric = case.metric(row_groups=["a", "b"])
        assert metric.group_keys() == ["", "/a", "/b"]
        assert metric.keys() == [key for group in metric.group_keys() for key in metric.row_keys(group)]
        assert repr(metric) == f"{case.name}({metric.extra_repr()})"
        assert metric.unusual_settings().keys() <= metric.settings().keys()
        assert metric.shares_states
        if not depends_on_labels(metric):
            renumbered = BATCH.scores[:, ORDER], BATCH.target[:, ORDER]
            renumbered_metric, wanted = fed(case.metric(), *renumbered), fed(case.metric(), BATCH.scores, BATCH.target)
            assert torch.equal(renumbered_metric.compute(), wanted.compute()), str(case)


@pytest.mark.filterwarnings("ignore:.*as logits are")
@pytest.mark.parametrize(
    ("name", "cut", "ks"), [("RecallAtK", [1, 3], (1, 3)), ("PrecisionAtThreshold", [0.25, 0.5], (0, 1))]
)
def test_what_is_known_of_single_labels(name: str, cut: Any, ks: tuple[int, ...]) -> None:
    """Columns are named by cut-offs, or by thresholds, which formulas know by their number."""
    metric, mean_metric = (REGISTRY[name](cut, average=average, num_labels=NUM_LABELS) for average in ("none", "macro"))
    assert (metric.aggregation.keeps_labels, mean_metric.aggregation.keeps_labels, metric.reading.ks) == (
        True,
        True,
        ks,
    )
    columns = fed(TopKCollection([metric]), BATCH.scores, BATCH.target).per_label()
    assert {f"{metric.stem}@{metric.aggregation.cut_name(k)}" for k in metric.cutoffs} <= columns.keys()


def test_references_and_orders_may_be_asked_for_later() -> None:
    """As if the collection had been made with them; above chance, rows add up to the values."""
    names: Any = ["chance", "attainable"]
    members = [tailmetrics.RecallAtK(3, buckets=BUCKETS), tailmetrics.NDCGAtK([1, 3])]
    early, later = TopKCollection([member.clone() for member in members], references=names), TopKCollection(members)
    for collection in (early, later.with_references(names).with_orders()):
        fed(collection, BATCH.scores, BATCH.target)
    values, references = later.compute(), later.references()
    assert str(references) == str(early.references())
    assert later.reference_models.adjusted
    for name in later.reference_models.adjusted:
        for key, (own, most) in later.reference_models.above_chance(
            name, later.rank(BATCH.scores, BATCH.target)
        ).items():
            wanted = (values[key] - references["chance"][key]) / (
                references["attainable"][key] - references["chance"][key]
            )
            assert float(own.nansum() / most.nansum()) == pytest.approx(float(wanted), nan_ok=True)
    orders = later.orders()
    for key in orders["worst"]:
        assert str(orders["worst"][key]) == str(orders["best"][key]) == str(values[key])  # nothing ties


def test_tables_of_buckets_and_counts_that_are_known() -> None:
    """The bucket of each label, and one behind the last for padding; counts that need not be added up."""
    few = LabelBuckets.from_assignment([1, 0, 1], ["head", "tail"])
    assert few.table_on(torch.device("cpu")).tolist() == [1, 0, 1, 2]
    assert names_of("thresholds:5") == ("5+", "1-4", "unseen")
    frequency = LabelFrequency.from_counts([2, 1], 3)
    assert (frequency.compute().tolist(), frequency.num_rows, frequency.extra_repr()) == ([2, 1], 3, "num_labels=2")


def test_a_formula_by_itself_is_its_metric() -> None:
    """With the defaults of both: the mean of the rows, or the ratio of the sums of rows."""
    kept = BATCH.target.any(dim=1)
    batch = BATCH.scores[kept].clamp(min=-9), BATCH.target[kept]
    arguments = {"k": 3, "weights": torch.linspace(1, 9, NUM_LABELS), "num_labels": NUM_LABELS, "tree": TREE}
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
            key: value for key, value in arguments.items() if key in inspect.signature(formula).parameters
        }
        value = formula(rank(*batch), **metric_arguments)
        value = value[0].sum() / value[1].sum() if isinstance(value, tuple) else value.double().mean()
        assert float(fed(metric(**metric_arguments), *batch).compute()) == pytest.approx(float(value), rel=1e-12), name
        tried += 1
    assert tried >= 20


def test_cut_offs_of_a_formula_are_checked_beside_a_ranking() -> None:
    """As those of a metric; a list of them is the cut-offs one by one."""
    arguments = {"weights": torch.linspace(1, 9, NUM_LABELS), "num_labels": NUM_LABELS, "tree": TREE}
    ranking, tried = rank(BATCH.scores.clamp(min=-9), BATCH.target), 0
    for name, formula in vars(functional).items():
        parameters = inspect.signature(formula).parameters if inspect.isfunction(formula) else {}
        if "k" not in parameters or next(iter(parameters)) == "shown":
            continue
        others = {key: value for key, value in arguments.items() if key in parameters}
        for k, problem in {0: "k=0 is too small", -1: "k=-1 is too small", 2.5: "k=2.5 is not a whole number"}.items():
            with pytest.raises((ValueError, TypeError), match=f"{name}: {problem}"):
                formula(ranking, k, **others)
        both = (formula(ranking, k=[1, 3], **others), *(formula(ranking, k, **others) for k in (1, 3)))
        values, *single_values = (value[0] if isinstance(value, tuple) else value for value in both)
        assert torch.equal(values, torch.stack(single_values)), name
        tried += 1
    assert tried >= 20


def test_which_direction_is_better() -> None:
    """Higher, but for losses, errors, concentration and popularity; a share of what is shown has no direction."""
    lower = "CalibrationErrorAtK CoverageError CrossEntropy FallOutAtK GiniAtK KForRecall PopularityAtK PopularityLiftAtK RankingLoss"
    assert {name for name, metric in REGISTRY.items() if metric.higher_is_better is False} == {
        *lower.split(),
        "TieRateAtK",
    }
    assert {name for name, metric in REGISTRY.items() if metric.higher_is_better is None} == {"PredictionProportionAtK"}
