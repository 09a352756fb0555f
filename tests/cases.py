"""The table of metrics and their arguments for the tests of oracle, laws and contract,
and the data they run on.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor

from oracle import Row, Setting, rank_scores
from tailmetrics import LabelBuckets, LabelTree
from tailmetrics._signatures import arguments
from tailmetrics.metrics import REGISTRY, TopKMetric

NUM_LABELS = 40
NUM_TRAIN = 200


@cache
def training_counts() -> Tensor:
    """Return counts of a long tail over ids in no order of frequency, with the last
    labels never seen.
    """
    generator = torch.Generator().manual_seed(5)
    counts = (120 / torch.arange(1, NUM_LABELS + 1) ** 1.2).long()
    counts[-8:] = 0
    return counts[torch.randperm(NUM_LABELS, generator=generator)]


BUCKETS = LabelBuckets.deciles(training_counts())
TREE = LabelTree(
    [(label * 7 % (label + 1)) - 1 if label % 9 else -1 for label in range(NUM_LABELS)]
)
"""Several roots, chains, and labels with many children, across the buckets."""


@dataclass(frozen=True)
class Case:
    """A metric with arguments, and the setting of the oracle for them."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    by: str | None = None

    def __str__(self) -> str:
        arguments = {
            key: "per label" if isinstance(value, Tensor) else value
            for key, value in self.arguments.items()
        }
        shown = ",".join(f"{key}={value}" for key, value in arguments.items())
        return f"{self.name}({shown}){'/' + self.by if self.by else ''}"

    @property
    def needs_scores(self) -> bool:
        """Whether ids alone are not enough."""
        read_scores = (
            "CalibrationErrorAtK",
            "RowAUC",
            "CoverageError",
            "RankingLoss",
            "LabelAUC",
            "LabelAP",
        )
        return self.name in (
            "CrossEntropy",
            "TieRateAtK",
            *read_scores,
        ) or self.name.endswith("AtThreshold")

    def metric(self, **other_arguments: Any) -> TopKMetric:
        """The metric."""
        facts: dict[str, Any] = {"num_labels": NUM_LABELS}
        if self.by is not None:
            facts["buckets"] = BUCKETS
            facts |= (
                {"scope": self.by} if "scope" in arguments(REGISTRY[self.name]) else {}
            )
        counted = (
            self.name.startswith("Propensity") and "weights" not in other_arguments
        )
        if counted or self.name in ("PopularityAtK", "PopularityLiftAtK", "NoveltyAtK"):
            facts["label_counts"] = training_counts()
        if counted or self.name == "NoveltyAtK":
            facts["num_train"] = NUM_TRAIN
        if "tree" in arguments(REGISTRY[self.name]):
            facts["tree"] = TREE
        return REGISTRY[self.name](**{**facts, **self.arguments, **other_arguments})

    def setting(self, cut: Any) -> Setting:
        """The same for the oracle, at a cut-off or a threshold."""
        arguments = {
            key: value
            for key, value in self.arguments.items()
            if key not in ("k", "threshold")
        }
        k = cut
        if self.name.endswith("AtThreshold"):
            k, arguments["threshold"] = (
                None,
                cut.tolist() if isinstance(cut, Tensor) else cut,
            )
        if self.by is not None:
            arguments.update(
                assignment=BUCKETS.assignment.tolist(),
                num_buckets=len(BUCKETS),
                scope=self.by,
            )
        arguments |= {
            "counts": training_counts().tolist(),
            "num_train": NUM_TRAIN,
            "parents": TREE.parents.tolist(),
        }
        return Setting(k=k, num_labels=NUM_LABELS, **arguments)

    def cutoffs(self) -> list[Any]:
        """The cut-offs or thresholds, one by one."""
        cuts = self.arguments.get("threshold", self.arguments.get("k"))
        return list(cuts) if isinstance(cuts, list) else [cuts]


def registered(name: str, **other_arguments: Any) -> TopKMetric:
    """The metric of a name, with arguments that do for it."""
    arguments = (
        {"min_recall": 0.5}
        if name == "KForRecall"
        else {"k": 3}
        if name.endswith("AtK")
        else {}
    )
    return Case(name, arguments).metric(**other_arguments)


OF_EACH_BASE = [
    *{type(registered(name).aggregation): name for name in REGISTRY}.values()
]
"""A metric of each kind of aggregation: those of one kind differ in what they read, and
in their formulas.
"""

KS = [1, 3, 10]
EMPTY = [
    {},
    {"empty_target_action": "neg"},
    {"empty_target_action": "pos"},
    {"empty_target_action": "skip"},
]
EMPTY_OF_SUMS = [
    choice for choice in EMPTY if choice.get("empty_target_action") != "pos"
]


def _relevance_cases() -> list[Case]:
    plain: list[tuple[str, dict[str, Any]]] = [
        *(
            (name, {"k": KS})
            for name in (
                "NormalizedRecallAtK",
                "HitRateAtK",
                "AccuracyAtK",
                "RelevanceAtK",
            )
        ),
        *((name, {"k": KS}) for name in ("PrecisionAtK", "RecallAtK", "F1AtK")),
        *((name, {"k": KS, "denominator": "k"}) for name in ("PrecisionAtK", "F1AtK")),
        *(
            (name, {"k": KS, "gain": gain})
            for name in ("CGAtK", "DCGAtK", "NDCGAtK")
            for gain in ("linear", "exponential")
        ),
        ("MRR", {}),
        ("MRR", {"k": KS}),
        *(
            ("MAP", {"denominator": denominator})
            for denominator in ("relevant", "attainable")
        ),
        *(
            ("MAP", {"k": KS, "denominator": denominator})
            for denominator in ("relevant", "attainable")
        ),
        ("RPrecision", {}),
        ("CrossEntropy", {}),
    ]
    sums: list[tuple[str, dict[str, Any]]] = [
        *(
            (name, {"k": KS})
            for name in ("PropensityScoredPrecisionAtK", "PropensityScoredRecallAtK")
        ),
        *(
            ("PropensityScoredNDCGAtK", {"k": KS, "normalization": way})
            for way in ("normalized", "sum")
        ),
        ("PropensityScoredPrecisionAtK", {"k": [5], "a": 0.5, "b": 0.4}),
        *(
            (name, {"k": KS, "average": "micro"})
            for name in ("PrecisionAtK", "RecallAtK", "F1AtK")
        ),
        *(
            (name, {"k": KS, "average": "micro", "denominator": "k"})
            for name in ("PrecisionAtK", "F1AtK")
        ),
        *(
            (name, {"k": KS, "average": "macro", "labels": labels})
            for name in ("PrecisionAtK", "RecallAtK", "F1AtK")
            for labels in ("present", "union", "all")
        ),
        *(
            (name, {"k": KS, "average": "weighted"})
            for name in ("PrecisionAtK", "RecallAtK", "F1AtK")
        ),
    ]
    cases = [
        (name, {**arguments, **choice}) for name, arguments in plain for choice in EMPTY
    ]
    cases += [
        (name, {**arguments, **choice})
        for name, arguments in sums
        for choice in EMPTY_OF_SUMS
    ]
    cases += [
        (name, {"k": [2], "depth": 7}) for name in ("PrecisionAtK", "NDCGAtK", "MAP")
    ]
    cases += [
        (
            "KForRecall",
            {"min_recall": recall, "statistic": statistic, "depth": depth, **more},
        )
        for recall, statistic, depth, more in (
            (0.8, "median", 500, {}),
            (0.5, "mean", 500, {}),
            (1.0, "median", 12, {}),
            (0.28, "mean", 12, {"miss_value": 100}),
            (0.07, "median", 12, {"miss_value": 0}),
        )
    ]
    return [
        Case(name, arguments, by)
        for name, arguments in cases
        for by in (None, "bucket", "global")
    ]


def _shown_cases() -> list[Case]:
    names = (
        "PredictionProportionAtK",
        "CatalogCoverageAtK",
        "GiniAtK",
        "EntropyAtK",
        "PopularityAtK",
        "NoveltyAtK",
    )
    arguments_by_name = [(name, {"k": KS}) for name in names]
    arguments_by_name += [
        ("PositiveCoverageAtK", {"k": KS, "denominator": way})
        for way in ("observed", "known")
    ]
    return [
        Case(name, arguments, by)
        for name, arguments in arguments_by_name
        for by in (None, "bucket")
    ]


CASES = [*_relevance_cases(), *_shown_cases(), Case("TieRateAtK", {"k": KS})]


def _further_cases() -> list[Case]:
    lists: list[tuple[str, dict[str, Any]]] = [
        ("RBPAtK", {"k": KS}),
        ("FBetaAtK", {"k": KS, "beta": 0.5}),
        ("ERRAtK", {"k": KS, "max_gain": 4}),
        ("FallOutAtK", {"k": KS}),
        ("JudgedAtK", {"k": KS}),
        *(("RecallAtK", {"k": KS, "min_gain": level}) for level in (1.0, 1.5)),
        ("MAP", {"min_gain": 1.5}),
        *(
            (f"Hierarchical{name}AtK", {"k": KS})
            for name in ("Precision", "Recall", "F1")
        ),
        *((name, {}) for name in ("RowAUC", "CoverageError", "RankingLoss")),
        *(
            (name, {"threshold": [0.0, 0.5]})
            for name in ("PrecisionAtThreshold", "RecallAtThreshold", "F1AtThreshold")
        ),
    ]
    by_scope = [
        Case(name, arguments, by)
        for name, arguments in lists
        for by in (None, "bucket", "global")
    ]
    shown = (
        ("PopularityLiftAtK", {"k": KS}),
        ("CalibrationErrorAtK", {"k": KS}),
        *((name, {"bins": 256}) for name in ("LabelAUC", "LabelAP")),
    )
    by_bucket = [
        Case(name, arguments, by)
        for name, arguments in shown
        for by in (None, "bucket")
    ]
    one_list = [Case("NearMissAtK", {"k": KS}, by) for by in (None, "global")]
    return [*by_scope, *by_bucket, *one_list, Case("PersonalizationAtK", {"k": KS})]


EVERY_CASE = [*CASES, *_further_cases()]
"""Cases whose values of each version are in tests/golden."""


def _cases_of_arguments() -> list[Case]:
    thresholds = ("PrecisionAtThreshold", "RecallAtThreshold", "F1AtThreshold")
    averages: list[dict[str, Any]] = [
        {"average": average} for average in ("samples", "micro", "macro", "weighted")
    ]
    averages += [{"average": "macro", "labels": labels} for labels in ("union", "all")]
    cuts = ([0.75, -1.25, 9.0], torch.linspace(-1, 1, NUM_LABELS, dtype=torch.float64))
    lists: list[tuple[str, dict[str, Any]]] = [
        *(
            (name, {"threshold": cut, **way})
            for name in thresholds
            for cut in cuts
            for way in averages
        ),
        *(
            (name, {"threshold": 0.25, "average": "samples", **empty})
            for name in thresholds
            for empty in EMPTY
        ),
        *(
            ("FBetaAtK", {"k": KS, "beta": beta, **way})
            for beta in (0.5, 2.0)
            for way in averages
        ),
        *(
            (name, empty)
            for name in ("RowAUC", "CoverageError", "RankingLoss")
            for empty in EMPTY
        ),
        *(
            (name, {"k": KS, **empty})
            for name in ("FallOutAtK", "HierarchicalRecallAtK")
            for empty in EMPTY
        ),
        ("HierarchicalF1AtK", {"k": [2], "depth": 7, "min_gain": 1.0}),
        *(
            ("RBPAtK", {"k": KS, "persistence": persistence})
            for persistence in (0.5, 0.95)
        ),
        ("ERRAtK", {"k": KS, "max_gain": 2}),
    ]
    areas = [
        (name, {"bins": bins, **way})
        for name in ("LabelAUC", "LabelAP")
        for bins in (8, 4096)
        for way in averages[1:4]
    ]
    shown = [
        *areas,
        *(("CalibrationErrorAtK", {"k": KS, "bins": bins}) for bins in (1, 10)),
    ]
    by_scope = [
        Case(name, arguments, by)
        for name, arguments in lists
        for by in (None, "bucket", "global")
    ]
    return [
        *by_scope,
        *(
            Case(name, arguments, by)
            for name, arguments in shown
            for by in (None, "bucket")
        ),
    ]


ALL_CASES = [*EVERY_CASE, *_cases_of_arguments()]
"""With more values of arguments, for the comparison with the oracle."""

FEW = list({(case.name, case.by): case for case in reversed(EVERY_CASE)}.values())
"""One case per metric and way of bucketing, for tests that are slow per case."""


@dataclass(frozen=True)
class Data:
    """A batch as tensors, and as rows for the oracle."""

    scores: Tensor
    target: Tensor
    rows: list[Row]

    @property
    def ids(self) -> Tensor:
        """Return the scores as ranked ids."""
        width = max((len(row.ranked) for row in self.rows), default=0)
        padded = [row.ranked + [-1] * (width - len(row.ranked)) for row in self.rows]
        return torch.tensor(padded, dtype=torch.int64).view(len(self.rows), width)


def data(
    seed: int = 0, num_rows: int = 61, graded: bool = False, ties: bool = True
) -> Data:
    """Return random rows: empty targets, short lists, tied scores, unseen labels, and a
    row without any retrieved label.
    """
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(num_rows, NUM_LABELS, generator=generator)
    if ties:
        scores = (scores * 4).round() / 4
    cut = (
        torch.rand(num_rows, NUM_LABELS, generator=generator)
        < torch.rand(num_rows, 1, generator=generator) - 0.3
    )
    scores = scores.masked_fill(cut, -torch.inf)
    scores[num_rows // 2] = -torch.inf
    density = torch.rand(num_rows, 1, generator=generator) * 0.4
    density[::7] = 0
    gains = (torch.rand(num_rows, NUM_LABELS, generator=generator) < density).float()
    if graded:
        gains *= torch.randint(1, 5, gains.shape, generator=generator) / 2
    return Data(scores, gains if graded else gains.bool(), rows_of(scores, gains))


def rows_of(scores: Tensor, gains: Tensor) -> list[Row]:
    """Return the rows in the form of the oracle."""
    return [
        Row(
            rank_scores(row_scores.tolist()),
            {label: gain for label, gain in enumerate(relevant.tolist()) if gain > 0},
            row_scores.tolist(),
        )
        for row_scores, relevant in zip(scores.double(), gains.double(), strict=True)
    ]


def fed(metric: Any, *batch: Any, **other_arguments: Any) -> Any:
    """Return the metric after one update."""
    metric.update(*batch, **other_arguments)
    return metric


def fed_with(metric: Any, batches: Iterable[Data]) -> Any:
    """Return the metric after several batches."""
    for batch in batches:
        metric.update(batch.scores, batch.target)
    return metric


def floats(value: Tensor) -> list[float]:
    """Return every value of a tensor of any shape, as a flat list."""
    return [float(number) for number in value.flatten().tolist()]


def padded_ids(target: Tensor) -> Tensor:
    """Return a multi-hot target as label ids, padded with -1."""
    relevant = [row.nonzero().squeeze(1).tolist() for row in target > 0]
    width = max(map(len, relevant), default=0)
    return torch.tensor(
        [ids + [-1] * (width - len(ids)) for ids in relevant], dtype=torch.int64
    ).view(len(target), width)
