"""Wrong arguments of constructors and functions raise a clear error at once, and never
give a wrong number later.
"""

import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tailmetrics as tm
from cases import BUCKETS, FEW, NUM_LABELS, registered
from tailmetrics._signatures import arguments
from tailmetrics.metrics import REGISTRY, TopKMetric

WRONG: dict[str, list[Any]] = {
    "k": [
        0,
        -1,
        1.0,
        "1",
        True,
        [],
        [0],
        [1, 1],
        [1, None],
        [1.5],
        {},
        object(),
        "10",
        [True],
        [[1]],
        float("nan"),
    ],
    "buckets": ["quantiles", "", 3, [0, 1], torch.zeros(3), object(), {}, True],
    "num_labels": [0, -1, 1.5, "40", True, [40], object(), float("inf")],
    "scope": ["overall", "", None, 1, ["bucket"], object()],
    "average": ["mean", "", None, 1, True, ["micro"], object()],
    "depth": [0, -1, 1.5, "10", None, True, [500], object()],
    "empty_target_action": ["ignore", "", 0, True, ["skip"], object()],
    "denominator": ["rows", "", None, 3, object()],
    "labels": ["some", "", None, 3, object()],
    "gain": ["log", "", None, 3, object()],
    "normalization": ["none", "", None, 3, object()],
    "statistic": ["mode", "", None, 3, object()],
    "min_recall": [0, 0.0, -0.1, 1.1, "0.5", None, True, float("nan"), object(), [0.5]],
    "miss_value": [-1, 1.5, "3", True, object()],
    "label_counts": [
        [-1] * NUM_LABELS,
        [1.5] * NUM_LABELS,
        "text",
        object(),
        [[1] * NUM_LABELS],
        [None],
        {},
    ],
    "num_train": [0, 2, -5, 1.5, "100", True, object(), [100]],
    "a": [-0.1, "x", float("nan"), float("inf"), True, object(), [0.5]],
    "b": [-0.1, "x", float("nan"), float("inf"), True, object(), [0.5]],
    "preset": ["netflix", "", None, 3, object()],
    "min_gain": [0, -1, float("nan"), float("inf"), "2", True],
    "beta": [0, -1, float("nan"), float("inf"), "2"],
    "max_gain": [0, -1, 100.5, float("nan"), float("inf"), "2", True],
    "persistence": [0, 1, -0.5, 1.5, float("nan")],
    "threshold": [float("nan"), [], [0.5, 0.5], "half", [float("nan"), 0.5]],
    "row_groups": [["en", "en"], [], [""], "en", ["en", 3]],
    "weights": [
        [-1.0] * NUM_LABELS,
        [float("nan")] * NUM_LABELS,
        [float("inf")] * NUM_LABELS,
    ],
    "nonexistent": [1],
    "name": [3, object(), ["a"], b"x"],
    "weighted": [3, "yes", [True], None, object()],
}


def is_clear(error: BaseException) -> bool:
    """Return whether an error names its caller and says more than a word."""
    return (
        bool(re.match(r"[A-Za-z]\w+(\.\w+)?: \S", str(error))) and len(str(error)) > 40
    )


def problems_of_call(call: Callable[[], Any], description: str) -> list[str]:
    """Return what is wrong with the response to a wrong call: no error, an unclear one,
    or one of another type.
    """
    try:
        call()
    except (TypeError, ValueError) as error:
        return [] if is_clear(error) else [f"{description}: {error}"]
    except Exception as error:
        return [f"{description}: {type(error).__name__}: {error}"]
    return [f"{description}: accepted"]


@pytest.mark.parametrize("case", FEW, ids=str)
def test_metrics_refuse_wrong_arguments(case: Any) -> None:
    """Metrics raise a clear error for every argument of theirs with a wrong number,
    text or object, and for an argument that does not exist.
    """
    problems = []
    names = {*arguments(REGISTRY[case.name]), "nonexistent"} - (
        set() if "k" in case.arguments else {"k"}
    )
    for argument in WRONG.keys() & names:
        for value in WRONG[argument]:
            if (argument, value, case.name) != ("num_train", 2, "NoveltyAtK"):
                keywords = {argument: value}
                problems += problems_of_call(
                    lambda keywords=keywords: case.metric(**keywords),
                    f"{case.name}({argument}={value!r})",
                )
    assert problems == []


SCORES, TARGET = torch.randn(3, 8), torch.tensor([1, 2, 3])
IDS = torch.arange(3)[:, None]
FUNCTIONS: dict[str, list[Callable[[], Any]]] = {
    "rank depth": [lambda v=v: tm.rank(SCORES, TARGET, depth=v) for v in (0, -1, 1.5, "a", True)],
    "rank num_labels": [lambda v=v: tm.rank(IDS, TARGET, num_labels=v) for v in (0, -1, 2.5, "a", True, 7.0)],
    "from_scores depth": [
        lambda v=v: tm.Ranking.from_scores(SCORES, target_ids=TARGET, depth=v) for v in (0, -1, 1.5, "a", True)
    ],
    "from_ids num_labels": [
        lambda v=v: tm.Ranking.from_ids(IDS, target_ids=TARGET, num_labels=v) for v in (0, -1, 2.5, "a", True)
    ],
    "from_ids of scores": [lambda: tm.Ranking.from_ids(SCORES, target_ids=TARGET)],
    "from_scores of ids": [lambda: tm.Ranking.from_scores(IDS, target_ids=TARGET)],
    "explicit targets": [
        lambda: tm.Ranking.from_scores(SCORES),
        lambda: tm.Ranking.from_scores(SCORES, target_ids=TARGET, target_mask=SCORES > 0),
        lambda: tm.Ranking.from_scores(SCORES, target_mask=SCORES),
        lambda: tm.Ranking.from_scores(SCORES, target_mask=TARGET),
        lambda: tm.Ranking.from_scores(SCORES, target_gains=TARGET),
        lambda: tm.Ranking.from_scores(SCORES, target_gains=TARGET.float()),
        lambda: tm.Ranking.from_scores(SCORES, target_ids=SCORES),
        lambda: tm.Ranking.from_scores(SCORES, target_ids=SCORES > 0),
        lambda: tm.Ranking.from_scores(SCORES, target_ids=TARGET, target_gains=SCORES),
        lambda: tm.Ranking.from_scores(SCORES, target_ids=TARGET, target_gains=torch.tensor([1.0, -1, 1])),
        lambda: tm.Ranking.from_scores(SCORES, target_ids=TARGET, target_gains=torch.tensor([1.0, torch.nan, 1])),
        lambda: tm.Ranking.from_scores(SCORES, target_ids=TARGET, target_gains="text"),
        lambda: tm.Ranking.from_scores(SCORES, target_ids=torch.tensor([1, 2, 8])),
        lambda: tm.Ranking.from_scores((SCORES, TARGET), target_ids=TARGET),
        lambda: tm.Ranking.from_scores([SCORES], target_ids=TARGET),
        lambda: tm.Ranking.from_ids(IDS, target_ids=TARGET.float()),
        lambda: tm.Ranking.from_ids((SCORES, IDS), target_ids=TARGET),
    ],
    "counts": [
        lambda f=f, v=v: f(v)
        for f in (tm.LabelBuckets.deciles, lambda c: tm.LabelBuckets.quantiles(c, 3), lambda c: tm.LabelBuckets.thresholds(c, [1]))
        for v in ([-1], [1.5], "text", object(), None, [[1, 2]], [[1], [2, 3]], [None], {}, np.array(["a"]), 1.5)
    ],
    "quantiles": [
        *(lambda v=v: tm.LabelBuckets.quantiles([1, 2], v) for v in (0, -1, 1.5, "a", None, True)),
        *(lambda v=v: tm.LabelBuckets.quantiles([1, 2], 2, by=v) for v in ("count", None, 1)),
        *(lambda v=v: tm.LabelBuckets.quantiles([1, 2], 2, ties=v) for v in ("random", None, 1)),
    ],
    "thresholds": [
        lambda v=v: tm.LabelBuckets.thresholds([1, 2], v)
        for v in ([], [0], [2, 1], [1, 1], [1.5], ["a"], 3, None, "12", [True], [-1, 2])
    ],
    "from_assignment": [
        lambda a=a, n=n, c=c: tm.LabelBuckets.from_assignment(a, n, c)
        for a, n, c in (
            ([0, 2], ["a", "b"], None), ([0, -1], ["a", "b"], None), ([0, 1], [], None), ([0, 1], ["a", "a"], None),
            ([0.5], ["a"], None), ("text", ["a"], None), ([0, 1], ["a", "b"], [1]), ([0, 1], ["a", "b"], [1, -1]),
            ([0, 1], None, None), ([0, 1], 3, None), ([0, 1], "ab", [1.5, 2]),
        )
    ],
    "LabelFrequency": [lambda v=v: tm.LabelFrequency(v) for v in (0, -1, 1.5, "a", None, True, [3])],
    "TopKCollection": [
        *(lambda v=v: tm.TopKCollection(v) for v in ([], {}, None, "text", 3, [3], [None], {"a": 3}, object(), [tm.RecallAtK])),
        lambda: tm.TopKCollection([tm.RecallAtK(k=1), tm.RecallAtK(k=1)]),
        lambda: tm.TopKCollection([tm.RecallAtK(k=[1, 2]), tm.RecallAtK(k=[2, 3])]),
        lambda: tm.TopKCollection({"a.b": tm.RecallAtK(k=1)}),
        lambda: tm.TopKCollection({"": tm.RecallAtK(k=1)}),
        lambda: tm.TopKCollection({3: tm.RecallAtK(k=1)}),
        lambda: tm.TopKCollection([tm.RecallAtK(k=1, name="x"), tm.RecallAtK(k=2, name="x")]),
    ],
    "functional": [
        lambda arrays=arrays, wrong=wrong: tm.functional.ndcg_at_k(*arrays, k=2, gain=wrong)
        for arrays in ((torch.tensor([[0, 1]]), torch.tensor([[1]])), (tm.rank(torch.tensor([[0, 1]]), torch.tensor([[1]])),))
        for wrong in ("exp", None, 2)
    ],
    "bind": [
        lambda v=v, m=m: m().bind(v)
        for m in (lambda: tm.RecallAtK(k=1, buckets="deciles"), lambda: tm.TopKCollection([tm.RecallAtK(k=1, buckets="deciles")]))
        for v in (None, "deciles", [1, 2], torch.tensor([1, 2]), tm.RecallAtK(k=1), 3)
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_classes_refuse_wrong_arguments(name: str) -> None:
    """Functions, rankings, buckets, counts and collections raise an error that names
    the caller if an argument is wrong.
    """
    problems = []
    for number, call in enumerate(FUNCTIONS[name]):
        problems += problems_of_call(call, f"{name}, call {number}")
    assert problems == []


@pytest.mark.parametrize("case", FEW, ids=str)
def test_unknown_keyword_is_refused_with_the_accepted_ones(case: Any) -> None:
    """An unknown keyword raises an error that names the class, the keyword and the
    accepted arguments.

    Keywords of torchmetrics.Metric are passed on.
    """
    with pytest.raises(
        ValueError,
        match=rf"{case.name}: shape is not an argument .* name, .*sync_on_compute",
    ):
        case.metric(shape=3)
    with pytest.raises(ValueError, match=f"{case.name}: top_k is not an argument"):
        case.metric(top_k=3)
    keywords = dict.fromkeys(
        ("process_group", "distributed_available_fn", "dist_sync_fn")
    )
    flags = {
        "sync_on_compute": False,
        "dist_sync_on_step": True,
        "compute_on_cpu": True,
        "compute_with_cache": False,
    }
    metric = case.metric(**keywords, **flags)
    assert {name: getattr(metric, name) for name in flags} == flags
    with pytest.raises(ValueError, match="`sync_on_compute` to be a `bool`"):
        case.metric(sync_on_compute=3)


def test_custom_metric_may_take_arguments_from_its_keywords() -> None:
    """A custom metric takes arguments by position, by keyword, or out of its keywords;
    other keywords are refused.
    """

    class Mine(tm.RowMeanMetric):
        higher_is_better = True
        stem = "mine"

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.colour = kwargs.pop("colour", None)
            super().__init__(*args, **kwargs)

        def _row_value(self, placement: Any, k: int) -> torch.Tensor:
            return placement.hits_at(k).double()

    assert (Mine(3).keys(), Mine(k=3, colour="red").colour) == (["mine@3"], "red")
    with pytest.raises(
        ValueError, match="Mine: color is not an argument of this metric; it takes k, "
    ):
        Mine(k=3, color="red")


REPRS = """
RecallAtK(k=5)
RecallAtK(k=[5])
RecallAtK(k=5, buckets='deciles', name='r')
PrecisionAtK(k=1, denominator='k', depth=9)
GiniAtK(k=3, num_labels=9)
"""


def test_repr_shows_the_arguments_that_are_not_the_default() -> None:
    """repr of a metric shows, in one line, the arguments that differ from their
    defaults, as code; buckets are shown by their number.
    """
    for text in REPRS.split("\n")[1:-1]:
        assert repr(eval(text, dict(REGISTRY))) == text
    several_cutoffs = tm.RecallAtK(
        k=[1, 5],
        buckets=BUCKETS,
        scope="global",
        average="macro",
        empty_target_action="skip",
    )
    expected = "RecallAtK(k=[1, 5], 11 buckets, scope='global', average='macro', empty_target_action='skip')"
    assert repr(several_cutoffs) == expected
    assert repr(tm.MRR(empty_target_action="neg", depth=500)) == "MRR()"
    psp = tm.PropensityScoredPrecisionAtK(k=3, preset="amazon")
    assert repr(psp) == "PropensityScoredPrecisionAtK(k=3, a=0.6, b=2.6)"


def test_combinations_that_contradict_each_other_are_refused() -> None:
    """Two arguments that are valid one by one and contradict each other are refused
    with a clear error.
    """
    recall, precision = REGISTRY["RecallAtK"], REGISTRY["PrecisionAtK"]
    psp, popularity = (
        REGISTRY["PropensityScoredPrecisionAtK"],
        REGISTRY["PopularityAtK"],
    )
    counts = [1] * NUM_LABELS
    calls: list[Callable[[], Any]] = [
        lambda: recall(k=1, buckets=BUCKETS, num_labels=NUM_LABELS + 1),
        lambda: precision(k=1, average="macro", denominator="k", num_labels=3),
        lambda: recall(k=1, labels="all"),
        lambda: recall(k=1, average="micro", empty_target_action="pos"),
        lambda: REGISTRY["MRR"](average="micro"),
        lambda: REGISTRY["TieRateAtK"](k=1, buckets=BUCKETS),
        lambda: psp(k=1, label_counts=counts, num_train=50, empty_target_action="pos"),
        lambda: psp(k=1, label_counts=counts, num_train=50, preset="amazon", a=0.5),
        lambda: psp(k=1, weights=[2.0] * NUM_LABELS, preset="amazon"),
        lambda: psp(k=1, weights=[2.0] * NUM_LABELS, b=0.5),
        lambda: psp(k=1, label_counts=[*counts, 1], num_train=50, buckets=BUCKETS),
        lambda: psp(k=1, label_counts=counts, num_train=50, num_labels=3),
        lambda: popularity(k=1, label_counts=[1, 2], buckets=BUCKETS),
        lambda: REGISTRY["KForRecall"](0.5, empty_target_action="neg"),
        lambda: REGISTRY["NDCGAtK"](k=[None, 1]),
    ]
    assert [
        problem
        for number, call in enumerate(calls)
        for problem in problems_of_call(call, f"call {number}")
    ] == []


def test_numpy_numbers_and_arrays_are_accepted() -> None:
    """NumPy numbers of any width are accepted as Python numbers, and NumPy vectors as
    tensors: keys and values are the same. Arrays of other shapes or types are refused.
    """
    scores, target = torch.tensor([[0.9, 0.6, 0.2, 0.4]]), torch.tensor([[0, 3]])
    pairs: list[tuple[TopKMetric, TopKMetric]] = [
        (tm.RecallAtK(k=np.array([1, 3])), tm.RecallAtK(k=[1, 3])),
        (tm.RecallAtK(k=torch.tensor([1, 3])), tm.RecallAtK(k=[1, 3])),
        (tm.RecallAtK(k=np.int16(3)), tm.RecallAtK(k=3)),
        (tm.F1AtThreshold(np.float32(0.5)), tm.F1AtThreshold(0.5)),
        (
            tm.F1AtThreshold(np.linspace(0.1, 0.7, 4)),
            tm.F1AtThreshold(torch.linspace(0.1, 0.7, 4).double()),
        ),
        (tm.F1AtThreshold(np.array(0.5)), tm.F1AtThreshold(0.5)),
        (
            tm.KForRecall(np.float32(0.5), num_labels=4),
            tm.KForRecall(0.5, num_labels=4),
        ),
        (tm.RecallAtK(k=1, min_gain=np.float32(0.5)), tm.RecallAtK(k=1, min_gain=0.5)),
    ]
    for with_numpy_numbers, plain in pairs:
        with_numpy_numbers.update(scores, target)
        plain.update(scores, target)
        assert with_numpy_numbers.keys() == plain.keys()
        assert with_numpy_numbers.compute().tolist() == plain.compute().tolist()
    five = np.int64(5)
    metric = tm.RecallAtK(k=[five, np.uint8(7)], depth=np.int32(50), num_labels=five)
    assert [
        type(number) for number in (*metric.cutoffs, metric.depth, metric.num_labels)
    ] == [int] * 4
    assert type(tm.LabelFrequency(five).num_labels) is int
    assert tm.LabelBuckets.quantiles(
        [3, 2, 1], np.int64(2)
    ) == tm.LabelBuckets.quantiles([3, 2, 1], 2)
    assert tm.rank(SCORES, TARGET, depth=five).depth == 5
    for wrong in (
        np.array([[1]]),
        np.array([1.5]),
        np.array([True]),
        np.array([]),
        np.bool_(True),
        np.float64(5),
    ):
        with pytest.raises((TypeError, ValueError), match="RecallAtK: k"):
            tm.RecallAtK(k=wrong)
    for wrong in (
        np.array([[0.5]]),
        np.array([True]),
        np.array(["a"]),
        np.bool_(True),
        np.array([]),
        np.array([1]),
        torch.tensor([torch.nan]),
    ):
        with pytest.raises(ValueError, match="F1AtThreshold: threshold="):
            tm.F1AtThreshold(wrong)


@pytest.mark.parametrize(
    ("name", "metric_arguments", "key"),
    [
        ("F1AtThreshold", {}, "micro_f1@t0.5"),
        ("F1AtThreshold", {"average": "samples"}, "f1@t0.5"),
        (
            "F1AtThreshold",
            {"threshold": 0.25, "average": "weighted"},
            "weighted_f1@t0.25",
        ),
        (
            "F1AtThreshold",
            {"average": "macro", "labels": "union"},
            "macro_f1_union@t0.5",
        ),
        (
            "F1AtThreshold",
            {"threshold": torch.zeros(NUM_LABELS), "average": "macro"},
            "macro_f1@t",
        ),
        ("F1AtThreshold", {"min_gain": 2}, "micro_f1_min2@t0.5"),
        ("F1AtK", {"k": 5, "average": "micro", "min_gain": 2}, "micro_f1_min2@5"),
        ("MRR", {"min_gain": 1.5}, "mrr_min1.5"),
        ("MAP", {"k": 3, "min_gain": 2}, "map_min2@3"),
        ("LabelAUC", {}, "macro_auc"),
        ("LabelAP", {"average": "micro"}, "micro_ap"),
        ("RowAUC", {"name": "mine"}, "mine"),
        ("RecallAtK", {"k": 1, "ties": "expected"}, "recall_expected@1"),
        ("F1AtThreshold", {"threshold": 0.1234561}, "micro_f1@t0.1234561"),
        ("KForRecall", {"min_recall": 0.8000001}, "median_k_for_recall@0.8000001"),
        ("RecallAtK", {"k": 1, "min_gain": 1.0000001}, "recall_min1.0000001@1"),
    ],
)
def test_key_names_average_cutoff_and_options(
    name: str, metric_arguments: dict[str, Any], key: str
) -> None:
    """The key of a value names the average, the labels that it is over, min_gain, and
    the cut-off or threshold with all digits; or it is the name of the metric.
    """
    assert REGISTRY[name](num_labels=NUM_LABELS, **metric_arguments).keys() == [key]


@pytest.mark.parametrize("name", REGISTRY)
def test_arguments_of_a_metric_cannot_be_set_later(name: str) -> None:
    """Setting an argument of a metric, or of a copy, raises an error and changes
    nothing, because states, keys and values would not follow. Other attributes can be
    set.
    """
    metric = registered(name)
    for copy in (metric, metric.clone(), pickle.loads(pickle.dumps(metric))):
        text, keys = repr(copy), copy.keys()
        for argument in ({"k", "cutoffs"} | arguments(REGISTRY[name]).keys()) - {
            "validate_args"
        }:
            if hasattr(copy, argument):
                with pytest.raises(
                    AttributeError,
                    match=f"{name}: {argument} is settled when the metric is made",
                ):
                    setattr(copy, argument, 1)
        assert (repr(copy), copy.keys()) == (text, keys)
        copy.validate_args = False
        copy.note = "mine"
    with pytest.raises(
        AttributeError,
        match="LabelFrequency: num_labels is settled when the metric is made",
    ):
        tm.LabelFrequency(3).num_labels = 4
