"""Arguments of wrong types, by the hundred: nothing breaks inside, and nothing that was accumulated changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tailmetrics import LabelBuckets, LabelFrequency, RecallAtK, TopKCollection, evaluate, evaluation, io, rank
from tailmetrics._wrong_types import fits
from tailmetrics.lightning import HeadToTailReport
from tailmetrics.metrics import REGISTRY, TopKMetric
from tailmetrics.report import Report
from tailmetrics.significance import compare, correct, intervals

SCORES = torch.rand(4, 12, generator=torch.Generator().manual_seed(0))
TARGET = torch.tensor([1, 2, 3, 4])
COUNTS = torch.arange(12)
BUCKETS = LabelBuckets.deciles(COUNTS)
ODD: dict[str, Any] = {
    "None": None, "3": 3, "-1": -1, "2.5": 2.5, "nan": float("nan"), "inf": float("inf"), "1j": 1j, "True": True,
    "text": "x", "empty text": "", "bytes": b"x", "list": [], "dict": {}, "tuple": (1,), "[None]": [None],
    "list of texts": ["a"], "dict of numbers": {"a": 1}, "lists": [[1], [2, 3]], "set": {1}, "object": object(),
    "class": int, "function": lambda: 1, "tensor": torch.tensor([1.0]), "flag": torch.tensor(True),
    "array": np.array(["a"]), "metric": RecallAtK(k=1), "buckets": BUCKETS,
}  # fmt: skip
"""What nobody would pass on purpose, or only to another argument."""
MADE_WITH = {"k": 2, "threshold": 0.5, "min_recall": 0.5, "label_counts": COUNTS, "num_train": 100, "num_labels": 12}
SAID = re.compile(r"[A-Za-z_][\w.]*( \([^)]*\))?(, [^:]*)?: .{15,}")
"""Who was called, and what is wrong."""


def metric_of(kind: type[TopKMetric]) -> Callable[..., Any]:
    """Make a metric, with what it needs."""
    needed = {name: value for name, value in MADE_WITH.items() if name in signature(kind.__init__).parameters}
    return lambda **more: kind(**{**needed, **more})


def report() -> Report:
    """A small report."""
    return evaluate(SCORES, TARGET, metrics=[RecallAtK(k=1)], label_counts=COUNTS)


CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "rank": (rank, {"preds": SCORES, "target": TARGET, "depth": 3}),
    "evaluate": (evaluate, {"preds": SCORES, "target": TARGET, "metrics": [RecallAtK(k=1)], "labels": True,
                            "label_counts": COUNTS, "row_groups": ["a", "b", "a", "b"], "intervals": 20}),
    "compare_runs": (evaluation.compare_runs, {"runs": {"a": SCORES, "b": -SCORES}, "target": TARGET, "resamples": 20}),
    "compare": (compare, {"runs": {"a": {"k": [1.0, 2, 3]}, "b": {"k": [1.0, 2, 2]}}, "resamples": 20}),
    "intervals": (intervals, {"rows": {"k": [1.0, 2, 3]}, "resamples": 20}),
    "correct": (correct, {"p_values": [0.1, 0.2]}),
    "deciles": (LabelBuckets.deciles, {"counts": COUNTS}),
    "quantiles": (LabelBuckets.quantiles, {"counts": COUNTS, "n": 3}),
    "thresholds": (LabelBuckets.thresholds, {"counts": COUNTS, "edges": (1, 5)}),
    "from_assignment": (LabelBuckets.from_assignment, {"assignment": [0, 1], "names": ["a", "b"]}),
    "LabelFrequency": (LabelFrequency, {"num_labels": 12}),
    "from_counts": (LabelFrequency.from_counts, {"counts": COUNTS, "num_rows": 100}),
    "TopKCollection": (TopKCollection, {"metrics": [RecallAtK(k=1)]}),
    "Evaluation": (evaluation.Evaluation, {"metrics": [RecallAtK(k=1)]}),
    "HeadToTailReport": (HeadToTailReport, {"metrics": [RecallAtK(k=1)]}),
    "read": (io.read, {"preds": "s.npy", "target": "t.npy"}),
    "read lines": (io.read, {"preds": "p.csv", "target": "y.csv"}),
    "read_target": (io.read_target, {"path": "t.npy", "num_labels": 12}),
    "read_label_counts": (io.read_label_counts, {"path": "c.npy"}),
    "write": (lambda **given: report().write(**given), {"folder": "out", "stem": "report"}),
    "plot": (lambda **given: fed().plot(**given), {"val": None, "ax": None}),
    "update": (lambda **given: fed().update(**given), {"preds": SCORES, "target": TARGET, "row_mask": None,
                                                       "row_groups": None, "row_weights": None, "indexes": None}),
    "merge_state": (lambda **given: fed().merge_state(**given), {"incoming_state": RecallAtK(k=1)}),
    "load_state_bytes": (lambda **given: fed().load_state_bytes(**given), {"data": RecallAtK(k=1).state_bytes()}),
    "bind": (lambda **given: RecallAtK(k=1, buckets="deciles").bind(**given), {"frequency": BUCKETS}),
    **{name: (metric_of(kind), {}) for name, kind in REGISTRY.items()},
}  # fmt: skip


def fed() -> RecallAtK:
    """A metric that has seen rows."""
    metric = RecallAtK(k=1)
    metric.update(SCORES, TARGET)
    return metric


def arguments(name: str) -> Iterator[str]:
    """Yield the arguments of a call that can be wrong."""
    function, given = CALLS[name]
    yield from given
    for one in signature(REGISTRY.get(name, function)).parameters.values():
        if one.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY) and one.name not in given:
            yield one.name
    yield from ("buckets", "row_groups", "num_labels", "name", "weighted") if name in REGISTRY else ()


@pytest.fixture(scope="module", autouse=True)
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The files that are read, in a folder of their own; it is the current one."""
    folder = tmp_path_factory.mktemp("wrong types")
    np.save(folder / "s.npy", SCORES.numpy())
    np.save(folder / "t.npy", TARGET.numpy())
    np.save(folder / "c.npy", COUNTS.numpy())
    (folder / "p.csv").write_text("query,item,score\na,1,2\nb,2,1\n")
    (folder / "y.csv").write_text("query,item\na,1\nb,2\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        yield folder


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_nothing_breaks_inside(name: str) -> None:
    """Each argument of a call that works is replaced by each odd value: it is taken, or one sentence names the caller."""
    function, given = CALLS[name]
    function(**given)
    bare = []
    for argument in dict.fromkeys(arguments(name)):
        for label, value in ODD.items():
            try:
                function(**{**given, argument: value})
            except Exception as error:
                said = str(error)
                if not isinstance(error, io.DataFileError) and (not SAID.match(said) or "\n" in said):
                    bare.append(f"{argument}={label}: {type(error).__name__}: {said}")
    assert not bare, "\n".join(bare)


def test_nothing_changes_behind_an_error() -> None:
    """Arguments that an update, a merge or bytes refuse leave the states as they were."""
    metric = fed()
    before = metric.state_bytes()
    for value in ODD.values():
        calls: list[Callable[[], Any]] = [
            lambda value=value, metric=metric: metric.update(value, TARGET),
            lambda value=value, metric=metric: metric.update(SCORES, value),
            lambda value=value, metric=metric: metric.update(SCORES, TARGET, row_mask=value),
            lambda value=value, metric=metric: metric.merge_state(value),
            lambda value=value, metric=metric: metric.load_state_bytes(value),
        ]
        for call in calls:
            try:
                call()
            except Exception:
                assert metric.state_bytes() == before
            else:
                metric = fed()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"num_labels": "x"}, r"num_labels='x' is a str; pass a whole number or None\."),
        ({"target": 3}, r"target=3 is an int; pass a text\."),
        ({"row_groups": ["a"]}, r"row_groups=\['a'\] is a list; pass a text\."),
        ({"label_names": 3}, r"label_names=3 is an int; pass a list of texts or None\."),
        ({"label_names": "abc"}, r"label_names='abc' is a str; pass a list of texts or None\."),
        ({"files": "no"}, r"files='no' is a str; pass True or False\."),
        ({"num_train": 2.5}, r"num_train=2\.5 is a float; pass a whole number or None\."),
        ({"label_counts": {"a": 1}}, "label_counts is a dict; pass whole numbers, one per label"),
        (
            {"label_counts": "nowhere.pt"},
            r"label_counts='nowhere.pt' cannot be read \(.*\); save the counts with torch",
        ),
    ],
)
def test_the_callback_refuses_at_once(given: Mapping[str, Any], said: str) -> None:
    """What would fail in the middle of a run, or be taken for something else, is refused where it is written."""
    with pytest.raises((TypeError, ValueError), match=f"HeadToTailReport: {said}"):
        HeadToTailReport([RecallAtK(k=1)], **given)


@pytest.mark.parametrize("owner", ["data module", "model"])
def test_what_others_tell_the_callback_is_named(owner: str) -> None:
    """Attributes of the data module or the model that are no number of labels, or no names."""
    callback = HeadToTailReport([RecallAtK(k=1)])
    wrong = SimpleNamespace(num_labels="many", label_names=3)
    module = wrong if owner == "model" else SimpleNamespace()
    trainer = SimpleNamespace(datamodule=wrong if owner == "data module" else None)
    with pytest.raises(TypeError, match=f"HeadToTailReport: num_labels of the {owner}='many' is not a whole number"):
        callback._labels._find_num_labels(trainer, module)
    with pytest.raises(TypeError, match=f"HeadToTailReport: label_names of the {owner}=3 is an int; pass a list of te"):
        callback._names("label_names", trainer, module)


@pytest.mark.parametrize(
    ("hint", "taken", "refused"),
    [
        (int, [3, np.int64(3), torch.tensor(3)], [True, 2.5, "3", None]),
        (int | None, [None, 3], ["", 0.5]),
        (list[str], [["a"], ("a",), np.array(["a"])], ["a", [1], {"a": 1}, 3, torch.ones(2)]),
        (Mapping[str, Any], [{}, {"a": 1}], [[], "a"]),
        (Callable[[], Any], [int, lambda: 1], [3]),
        (Path | str, ["a", Path("a")], [b"a", 3]),
        (Any, [3, None], []),
    ],
)
def test_what_fits_an_annotation(hint: Any, taken: list[Any], refused: list[Any]) -> None:
    """Arrays stand for lists, numbers of numpy for numbers; a text is no list, and True no number."""
    assert [value for value in taken if not fits(value, hint)] == []
    assert [value for value in refused if fits(value, hint)] == []
