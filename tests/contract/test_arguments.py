"""Arguments of constructors and functions: a wrong one is a clear error at once, never a wrong number later."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from cases import BUCKETS, FEW, NUM_LABELS, registered
from tailmetrics import (
    F1AtThreshold,
    KForRecall,
    LabelBuckets,
    LabelFrequency,
    Ranking,
    RecallAtK,
    RowMeanMetric,
    TopKCollection,
    rank,
)
from tailmetrics._arguments import arguments
from tailmetrics.metrics import REGISTRY, TopKMetric

WRONG: dict[str, list[Any]] = {
    "k": [0, -1, 1.0, "1", True, [], [0], [1, 1], [1, None], [1.5], {}, object(), "10", [True], [[1]], float("nan")],
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
    "label_counts": [[-1] * NUM_LABELS, [1.5] * NUM_LABELS, "text", object(), [[1] * NUM_LABELS], [None], {}],
    "num_train": [0, 2, -5, 1.5, "100", True, object(), [100]],
    "a": [-0.1, "x", float("nan"), float("inf"), True, object(), [0.5]],
    "b": [-0.1, "x", float("nan"), float("inf"), True, object(), [0.5]],
    "preset": ["netflix", "", None, 3, object()],
    "min_gain": [0, -1, float("nan"), float("inf"), "2", True],
    "beta": [0, -1, float("nan"), float("inf"), "2"],
    "persistence": [0, 1, -0.5, 1.5, float("nan")],
    "threshold": [float("nan"), [], [0.5, 0.5], "half", [float("nan"), 0.5]],
    "row_groups": [["en", "en"], [], [""], "en", ["en", 3]],
    "weights": [[-1.0] * NUM_LABELS, [float("nan")] * NUM_LABELS, [float("inf")] * NUM_LABELS],
    "nonexistent": [1],
    "name": [3, object(), ["a"], b"x"],
}


def is_clear(error: BaseException) -> bool:
    """Names a caller, and is more than a word."""
    return bool(re.match(r"[A-Za-z]\w+(\.\w+)?: \S", str(error))) and len(str(error)) > 40


def complaints(call: Callable[[], Any], what: str) -> list[str]:
    """What is wrong with the answer to a wrong call."""
    try:
        call()
    except (TypeError, ValueError) as error:
        return [] if is_clear(error) else [f"{what}: {error}"]
    except Exception as error:
        return [f"{what}: {type(error).__name__}: {error}"]
    return [f"{what}: accepted"]


@pytest.mark.parametrize("case", FEW, ids=str)
def test_metrics_refuse_wrong_arguments(case: Any) -> None:
    """Every argument that the metric takes, with numbers, texts and objects that mean nothing."""
    found = []
    for argument, values in WRONG.items():
        if not takes(case, argument):
            continue
        for value in values:
            if argument == "num_train" and value == 2 and case.name == "NoveltyAtK":
                continue
            found += complaints(lambda a=argument, v=value: made(case, {a: v}), f"{case.name}({argument}={value!r})")
    assert found == []


def made(case: Any, arguments: dict[str, Any]) -> TopKMetric:
    """The metric of a case with other arguments."""
    given: dict[str, Any] = dict(case.arguments)
    if case.by is not None:
        given["buckets"] = BUCKETS
    if case.name.startswith("Propensity") or case.name in ("PopularityAtK", "NoveltyAtK"):
        given["label_counts"] = [1] * NUM_LABELS
    if case.name.startswith("Propensity") or case.name == "NoveltyAtK":
        given["num_train"] = 100
    return REGISTRY[case.name](**{**given, **arguments})


def takes(case: Any, argument: str) -> bool:
    """Whether the metric takes the argument at all; those it does not take are refused as unknown ones."""
    if argument == "nonexistent":
        return True
    if argument == "k" and "k" not in case.arguments:
        return False
    good = {
        "k": 1, "buckets": None, "num_labels": NUM_LABELS, "scope": "bucket", "average": "samples", "depth": 5,
        "empty_target_action": "skip", "labels": "present", "gain": "linear", "normalization": "sum",
        "statistic": "mean", "min_recall": 0.5, "miss_value": 1, "label_counts": [1] * NUM_LABELS, "num_train": 9,
        "a": 0.5, "b": 0.5, "preset": "default", "name": "x", "validate_args": False, "min_gain": 2, "beta": 1,
        "persistence": 0.5, "threshold": 0.5, "row_groups": ["en"], "weights": None,
        "denominator": {"MAP": "relevant", "PositiveCoverageAtK": "known"}.get(case.name, "predicted"),
    }  # fmt: skip
    try:
        made(case, {argument: good[argument]})
    except (TypeError, ValueError):
        return False
    return True


SCORES, TARGET = torch.randn(3, 8), torch.tensor([1, 2, 3])
IDS = torch.arange(3)[:, None]
FUNCTIONS: dict[str, list[Callable[[], Any]]] = {
    "rank depth": [lambda v=v: rank(SCORES, TARGET, depth=v) for v in (0, -1, 1.5, "a", None, True)],
    "rank num_labels": [lambda v=v: rank(IDS, TARGET, num_labels=v) for v in (0, -1, 2.5, "a", True, 7.0)],
    "from_scores depth": [
        lambda v=v: Ranking.from_scores(SCORES, target_ids=TARGET, depth=v) for v in (0, -1, 1.5, "a", True)
    ],
    "from_ids num_labels": [
        lambda v=v: Ranking.from_ids(IDS, target_ids=TARGET, num_labels=v) for v in (0, -1, 2.5, "a", True)
    ],
    "from_ids of scores": [lambda: Ranking.from_ids(SCORES, target_ids=TARGET)],
    "from_scores of ids": [lambda: Ranking.from_scores(IDS, target_ids=TARGET)],
    "explicit targets": [
        lambda: Ranking.from_scores(SCORES),
        lambda: Ranking.from_scores(SCORES, target_ids=TARGET, target_mask=SCORES > 0),
        lambda: Ranking.from_scores(SCORES, target_mask=SCORES),
        lambda: Ranking.from_scores(SCORES, target_mask=TARGET),
        lambda: Ranking.from_scores(SCORES, target_gains=TARGET),
        lambda: Ranking.from_scores(SCORES, target_gains=TARGET.float()),
        lambda: Ranking.from_scores(SCORES, target_ids=SCORES),
        lambda: Ranking.from_scores(SCORES, target_ids=SCORES > 0),
        lambda: Ranking.from_scores(SCORES, target_ids=TARGET, target_gains=SCORES),
        lambda: Ranking.from_scores(SCORES, target_ids=TARGET, target_gains=torch.tensor([1.0, -1, 1])),
        lambda: Ranking.from_scores(SCORES, target_ids=TARGET, target_gains=torch.tensor([1.0, torch.nan, 1])),
        lambda: Ranking.from_scores(SCORES, target_ids=TARGET, target_gains="text"),
        lambda: Ranking.from_scores(SCORES, target_ids=torch.tensor([1, 2, 8])),
        lambda: Ranking.from_scores((SCORES, TARGET), target_ids=TARGET),
        lambda: Ranking.from_scores([SCORES], target_ids=TARGET),
        lambda: Ranking.from_ids(IDS, target_ids=TARGET.float()),
        lambda: Ranking.from_ids((SCORES, IDS), target_ids=TARGET),
    ],
    "counts": [
        lambda f=f, v=v: f(v)
        for f in (LabelBuckets.deciles, lambda c: LabelBuckets.quantiles(c, 3), lambda c: LabelBuckets.thresholds(c, [1]))
        for v in ([-1], [1.5], "text", object(), None, [[1, 2]], [[1], [2, 3]], [None], {}, np.array(["a"]), 1.5)
    ],
    "quantiles": [
        *(lambda v=v: LabelBuckets.quantiles([1, 2], v) for v in (0, -1, 1.5, "a", None, True)),
        *(lambda v=v: LabelBuckets.quantiles([1, 2], 2, by=v) for v in ("count", None, 1)),
        *(lambda v=v: LabelBuckets.quantiles([1, 2], 2, ties=v) for v in ("random", None, 1)),
    ],
    "thresholds": [
        lambda v=v: LabelBuckets.thresholds([1, 2], v)
        for v in ([], [0], [2, 1], [1, 1], [1.5], ["a"], 3, None, "12", [True], [-1, 2])
    ],
    "from_assignment": [
        lambda a=a, n=n, c=c: LabelBuckets.from_assignment(a, n, c)
        for a, n, c in (
            ([0, 2], ["a", "b"], None), ([0, -1], ["a", "b"], None), ([0, 1], [], None), ([0, 1], ["a", "a"], None),
            ([0.5], ["a"], None), ("text", ["a"], None), ([0, 1], ["a", "b"], [1]), ([0, 1], ["a", "b"], [1, -1]),
            ([0, 1], None, None), ([0, 1], 3, None), ([0, 1], "ab", [1.5, 2]),
        )
    ],
    "LabelFrequency": [lambda v=v: LabelFrequency(v) for v in (0, -1, 1.5, "a", None, True, [3])],
    "TopKCollection": [
        *(lambda v=v: TopKCollection(v) for v in ([], {}, None, "text", 3, [3], [None], {"a": 3}, object(), [RecallAtK])),
        lambda: TopKCollection([RecallAtK(k=1), RecallAtK(k=1)]),
        lambda: TopKCollection([RecallAtK(k=[1, 2]), RecallAtK(k=[2, 3])]),
        lambda: TopKCollection({"a.b": RecallAtK(k=1)}),
        lambda: TopKCollection({"": RecallAtK(k=1)}),
        lambda: TopKCollection({3: RecallAtK(k=1)}),
        lambda: TopKCollection([RecallAtK(k=1, name="x"), RecallAtK(k=2, name="x")]),
    ],
    "bind": [
        lambda v=v, m=m: m().bind(v)
        for m in (lambda: RecallAtK(k=1, buckets="deciles"), lambda: TopKCollection([RecallAtK(k=1, buckets="deciles")]))
        for v in (None, "deciles", [1, 2], torch.tensor([1, 2]), RecallAtK(k=1), 3)
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_refuse_wrong_arguments(name: str) -> None:
    """As metrics do."""
    found = []
    for number, call in enumerate(FUNCTIONS[name]):
        found += complaints(call, f"{name}, call {number}")
    assert found == []


@pytest.mark.parametrize("case", FEW, ids=str)
def test_an_unknown_keyword_is_named_with_what_is_accepted(case: Any) -> None:
    """The class, the keyword, the arguments there are; those of torchmetrics.Metric go through."""
    with pytest.raises(ValueError, match=rf"{case.name}: shape is not an argument .* name, .*sync_on_compute"):
        made(case, {"shape": 3})
    with pytest.raises(ValueError, match=f"{case.name}: top_k is not an argument"):
        made(case, {"top_k": 3})
    keywords = dict.fromkeys(("process_group", "distributed_available_fn", "dist_sync_fn"))
    flags = {"sync_on_compute": False, "dist_sync_on_step": True, "compute_on_cpu": True, "compute_with_cache": False}
    metric = made(case, {**keywords, **flags})
    assert {name: getattr(metric, name) for name in flags} == flags
    with pytest.raises(ValueError, match="`sync_on_compute` to be a `bool`"):
        made(case, {"sync_on_compute": 3})


def test_other_libraries_words_for_k_are_answered_with_k() -> None:
    """Also where Python alone would only miss k, and in the metrics that have none."""
    for name in ("RecallAtK", "GiniAtK", "MRR"):
        with pytest.raises(ValueError, match=f"{name}: top_k is not an argument of this metric; pass k= "):
            REGISTRY[name](top_k=5)
    with pytest.raises(ValueError, match="GiniAtK: scope is not an argument of this metric; it takes k, buckets, "):
        REGISTRY["GiniAtK"](k=3, scope="global")
    for name, more in (("RPrecision", ()), ("CrossEntropy", ()), ("KForRecall", ()), ("KForRecall", (0.8,))):
        with pytest.raises(ValueError, match=f"{name}: k is not an argument of this metric; it takes"):
            REGISTRY[name](*more, k=5)
    with pytest.raises(
        ValueError, match="LabelFrequency: labels is not an argument of this metric; it takes num_labels"
    ):
        LabelFrequency(labels=5)


def test_a_metric_of_ones_own_may_take_arguments_any_way_it_likes() -> None:
    """Handed on by keyword or by position, or taken out of the keywords: what its class accepts is not refused."""

    class Mine(RowMeanMetric):
        higher_is_better = True
        stem = "mine"

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.colour = kwargs.pop("colour", None)
            super().__init__(*args, **kwargs)

        def _row_value(self, placement: Any, k: int) -> torch.Tensor:
            return placement.hits_at(k).double()

    assert (Mine(3).keys(), Mine(k=3, colour="red").colour) == (["mine@3"], "red")
    with pytest.raises(ValueError, match="Mine: color is not an argument of this metric; it takes k, "):
        Mine(k=3, color="red")


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    """Wherever an int is: kept as an int, with the same key; a bool of NumPy or torch is none."""
    five = np.int64(5)
    metric = RecallAtK(k=[five, np.uint8(7)], depth=np.int32(50), num_labels=five)
    assert [type(one) for one in (*metric.cutoffs, metric.depth, metric.num_labels)] == [int] * 4
    assert metric.keys() == ["recall@5", "recall@7"]
    assert REGISTRY["KForRecall"](0.5, miss_value=five).keys() == REGISTRY["KForRecall"](0.5, miss_value=5).keys()
    assert type(LabelFrequency(five).num_labels) is int
    assert LabelBuckets.quantiles([3, 2, 1], np.int64(2)) == LabelBuckets.quantiles([3, 2, 1], 2)
    assert rank(SCORES, TARGET, depth=five).depth == 5
    for wrong in (np.bool_(True), torch.tensor(True), np.float64(5)):
        with pytest.raises(TypeError, match="RecallAtK: k=.*is not a whole number"):
            RecallAtK(k=wrong)


def test_arguments_by_name_are_by_name_only() -> None:
    """`KForRecall(0.8, "mean")` does not say what "mean" is."""
    with pytest.raises(TypeError, match="KForRecall: too many positional arguments; .*, most of them by name only"):
        REGISTRY["KForRecall"](0.8, "mean")


def test_the_padding_of_other_libraries_is_answered_with_ours() -> None:
    """-100 among the target ids; in preds, where nothing is padded so, no such hint."""
    with pytest.raises(ValueError, match="target holds the id -100; .* leave them out with row_mask=target != -100"):
        RecallAtK(k=1).update(SCORES, torch.tensor([1, -100, 2]))
    with pytest.raises(
        ValueError, match="preds holds the id -100; ids start at 0, and -1 pads a row. Integers are ids here"
    ):
        RecallAtK(k=1).update(torch.tensor([[1, -100]]), torch.tensor([1]))


@pytest.mark.parametrize(
    ("metric", "shown"),
    [
        (lambda: RecallAtK(k=5), "RecallAtK(k=5)"),
        (lambda: RecallAtK(k=[5]), "RecallAtK(k=[5])"),
        (lambda: RecallAtK(k=5, buckets=BUCKETS), "RecallAtK(k=5, 11 buckets)"),
        (lambda: RecallAtK(k=5, buckets="deciles", name="r"), "RecallAtK(k=5, buckets='deciles', name='r')"),
        (
            lambda: RecallAtK(k=[1, 5], buckets=BUCKETS, scope="global", average="macro", empty_target_action="skip"),
            "RecallAtK(k=[1, 5], 11 buckets, scope='global', average='macro', empty_target_action='skip')",
        ),
        (lambda: REGISTRY["MRR"](empty_target_action="neg", depth=500), "MRR()"),
        (
            lambda: REGISTRY["PrecisionAtK"](k=1, denominator="k", depth=9),
            "PrecisionAtK(k=1, denominator='k', depth=9)",
        ),
        (lambda: REGISTRY["KForRecall"](0.8, buckets=BUCKETS), "KForRecall(min_recall=0.8, 11 buckets)"),
        (lambda: REGISTRY["GiniAtK"](k=3, num_labels=9), "GiniAtK(k=3, num_labels=9)"),
        (
            lambda: REGISTRY["PropensityScoredPrecisionAtK"](k=3, preset="amazon"),
            "PropensityScoredPrecisionAtK(k=3, a=0.6, b=2.6)",
        ),
    ],
)
def test_repr_shows_the_arguments_that_are_not_the_default(metric: Callable[[], TopKMetric], shown: str) -> None:
    """As they are written, in one line; buckets by their number."""
    assert repr(metric()) == shown


def test_combinations_that_contradict_each_other_are_refused() -> None:
    """Two arguments that are right one by one and mean nothing together."""
    recall, precision = REGISTRY["RecallAtK"], REGISTRY["PrecisionAtK"]
    psp, popularity = REGISTRY["PropensityScoredPrecisionAtK"], REGISTRY["PopularityAtK"]
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
        lambda: psp(k=1, label_counts=[*counts, 1], num_train=50, buckets=BUCKETS),
        lambda: psp(k=1, label_counts=counts, num_train=50, num_labels=3),
        lambda: popularity(k=1, label_counts=[1, 2], buckets=BUCKETS),
        lambda: REGISTRY["KForRecall"](0.5, empty_target_action="neg"),
        lambda: REGISTRY["NDCGAtK"](k=[None, 1]),
    ]
    assert [found for number, call in enumerate(calls) for found in complaints(call, f"call {number}")] == []


@pytest.mark.parametrize("argument", ["preds", "target"])
def test_lists_are_refused_with_what_to_pass(argument: str) -> None:
    """A Python list could be ids, scores or rows of any length: torch.tensor says which."""
    given = {"preds": SCORES, "target": TARGET} | {argument: [[0.5, 0.1], [0.5, 0.1], [0.2, 0.3]]}
    with pytest.raises(TypeError, match=rf"RecallAtK: {argument} is a list; pass a tensor, such as torch.tensor"):
        RecallAtK(k=1).update(**given)


def test_numbers_and_arrays_of_numpy_are_numbers() -> None:
    """NumPy's numbers of any width, and vectors of them, mean what Python's mean: keys and values are the same."""
    scores, target = torch.tensor([[0.9, 0.6, 0.2, 0.4]]), torch.tensor([[0, 3]])
    pairs: list[tuple[TopKMetric, TopKMetric]] = [
        (RecallAtK(k=np.array([1, 3])), RecallAtK(k=[1, 3])),
        (RecallAtK(k=torch.tensor([1, 3])), RecallAtK(k=[1, 3])),
        (RecallAtK(k=np.int16(3)), RecallAtK(k=3)),
        (F1AtThreshold(np.float32(0.5)), F1AtThreshold(0.5)),
        (F1AtThreshold(np.linspace(0.25, 0.75, 3)), F1AtThreshold([0.25, 0.5, 0.75])),
        (F1AtThreshold(np.array(0.5)), F1AtThreshold(0.5)),
        (KForRecall(np.float32(0.5), num_labels=4), KForRecall(0.5, num_labels=4)),
        (RecallAtK(k=1, min_gain=np.float32(0.5)), RecallAtK(k=1, min_gain=0.5)),
    ]
    for given, plain in pairs:
        given.update(scores, target)
        plain.update(scores, target)
        assert given.keys() == plain.keys()
        assert given.compute().tolist() == plain.compute().tolist()
    for wrong in (np.array([[1]]), np.array([1.5]), np.array([True]), np.array([])):
        with pytest.raises((TypeError, ValueError), match="RecallAtK: k"):
            RecallAtK(k=wrong)
    for wrong in (np.array([[0.5]]), np.array([True]), np.array(["a"]), np.bool_(True), np.array([])):
        with pytest.raises(ValueError, match="F1AtThreshold: threshold="):
            F1AtThreshold(wrong)


@pytest.mark.parametrize(
    ("name", "given", "key"),
    [
        ("F1AtThreshold", {}, "micro_f1@t0.5"),
        ("F1AtThreshold", {"average": "samples"}, "f1@t0.5"),
        ("F1AtThreshold", {"threshold": 0.25, "average": "weighted"}, "weighted_f1@t0.25"),
        ("F1AtThreshold", {"average": "macro", "labels": "union"}, "macro_f1_union@t0.5"),
        ("F1AtThreshold", {"threshold": torch.zeros(NUM_LABELS), "average": "macro"}, "macro_f1@t"),
        ("F1AtThreshold", {"min_gain": 2}, "micro_f1_min2@t0.5"),
        ("F1AtK", {"k": 5, "average": "micro", "min_gain": 2}, "micro_f1_min2@5"),
        ("MRR", {"min_gain": 1.5}, "mrr_min1.5"),
        ("MAP", {"k": 3, "min_gain": 2}, "map_min2@3"),
        ("LabelAUC", {}, "macro_auc"),
        ("LabelAP", {"average": "micro"}, "micro_ap"),
        ("RowAUC", {"name": "mine"}, "mine"),
    ],
)
def test_the_key_says_what_a_number_is(name: str, given: dict[str, Any], key: str) -> None:
    """The average, the labels that it is over, the least gain, the cut-off or threshold; or the name that was given."""
    assert REGISTRY[name](num_labels=NUM_LABELS, **given).keys() == [key]


def test_keys_tell_numbers_apart() -> None:
    """Also where they differ in the seventh digit."""
    assert F1AtThreshold([0.1234561, 0.1234562]).keys() == ["micro_f1@t0.1234561", "micro_f1@t0.1234562"]
    assert KForRecall(0.8000001).keys() == ["median_k_for_recall@0.8000001"]
    assert RecallAtK(k=1, min_gain=1.0000001).keys() == ["recall_min1.0000001@1"]
    assert RecallAtK(k=1, min_gain=2).keys() == ["recall_min2@1"]


@pytest.mark.parametrize("name", REGISTRY)
def test_what_a_metric_is_made_with_cannot_be_set_later(name: str) -> None:
    """States, keys and values would not follow. The metric stays as it is, a copy too; the rest can be set."""
    metric = registered(name)
    for one in (metric, metric.clone(), pickle.loads(pickle.dumps(metric))):
        shown, keys = repr(one), one.keys()
        for argument in ({"k", "cutoffs"} | arguments(REGISTRY[name]).keys()) - {"validate_args"}:
            if hasattr(one, argument):
                with pytest.raises(AttributeError, match=f"{name}: {argument} is settled when the metric is made"):
                    setattr(one, argument, 1)
        assert (repr(one), one.keys()) == (shown, keys)
        one.validate_args = False
        one.note = "mine"
    with pytest.raises(AttributeError, match="LabelFrequency: num_labels is settled when the metric is made"):
        LabelFrequency(3).num_labels = 4
