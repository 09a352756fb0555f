"""Level, groups, weights, masks, leading axes and ignored rows together are what each of them is alone.

A metric that is given all of them has, group by group, the values of a plain metric on a target rewritten by the level
and on rows repeated by their weight: the same bits where no weight is drawn, to 1e-11 where one is. By default a small
number of random cases runs; ``TAILMETRICS_FUZZ_CASES=2000`` runs more, ``TAILMETRICS_FUZZ_SEED=7`` others.
"""

from __future__ import annotations

import math
import os
from itertools import pairwise
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

import tailmetrics
from wishes.drawn import padded
from wishes.rows import COUNTS, DECILES, NUM_LABELS, THREE, bits, csr, fed, graded, ranked

CASES = int(os.environ.get("TAILMETRICS_FUZZ_CASES", "60"))
SEED = int(os.environ.get("TAILMETRICS_FUZZ_SEED", "0"))
COUNTED = {"label_counts": COUNTS, "num_train": int(COUNTS.sum())}
NAMES = ["en", "de"]

FROM_LISTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {"k": [1, 4]}) for name in ("PrecisionAtK", "RecallAtK", "F1AtK", "HitRateAtK", "NormalizedRecallAtK")),
    *((name, {"k": 3, "average": way}) for name in ("PrecisionAtK", "F1AtK") for way in ("micro", "macro", "weighted")),
    ("FBetaAtK", {"k": [2, 5], "beta": 2.0}),
    ("RelevanceAtK", {"k": 2}),
    ("RPrecision", {}),
    ("MRR", {"k": 4}),
    ("MAP", {"k": 4}),
    ("RBPAtK", {"k": 4}),
    ("FallOutAtK", {"k": 2}),
    ("KForRecall", {"min_recall": 0.6}),
    ("KForRecall", {"min_recall": 0.6, "statistic": "mean"}),
    *((f"PropensityScored{name}AtK", {"k": [1, 3], **COUNTED}) for name in ("Precision", "Recall", "NDCG")),
]
FROM_SCORES: list[tuple[str, dict[str, Any]]] = [
    *((name, {"threshold": [0.1, 0.8]}) for name in ("PrecisionAtThreshold", "RecallAtThreshold", "F1AtThreshold")),
    ("F1AtThreshold", {"threshold": 0.4, "average": "macro"}),
    ("F1AtThreshold", {"threshold": 0.4, "average": "samples"}),
    ("RowAUC", {}),
    ("CoverageError", {}),
    ("RankingLoss", {}),
    ("CrossEntropy", {}),
    ("CalibrationErrorAtK", {"k": 1}),
]
WITHOUT_SCOPE = ("CalibrationErrorAtK",)


def keyed(key: str, group: str) -> str:
    stem, slash, bucket = key.partition("/")
    return f"{stem}/{group}{slash}{bucket}"


def plain_values(make: Any, rows: tuple[Tensor, Tensor], counted: Tensor, times: Tensor) -> dict[str, Tensor]:
    """The plain metric on the rows that count, each as often as it weighs."""
    repeated = torch.arange(len(counted))[counted].repeat_interleave(times[counted])
    return dict(fed(make(), rows[0][repeated], rows[1][repeated]).scalars())


def as_form(rng: Random, scores: Tensor, gains: Tensor, needs_scores: bool, axes: int) -> tuple[Any, Any]:
    """Dense scores, ranked ids or gains as CSR; the leading axes only where the form has them."""
    ids = padded(ranked(scores.tolist()), -1, torch.int64)
    preds: Any = scores if needs_scores or rng.random() < 0.5 else ids
    if axes == 2:
        return preds.unflatten(0, (6, -1)), gains.unflatten(0, (6, -1))
    return preds, csr(gains, gains > 0) if rng.random() < 0.3 else gains


def run_case(seed: int) -> tuple[int, list[str]]:
    """One case: the number of values compared, and what was wrong."""
    rng = Random(seed)
    name, options = rng.choice(FROM_LISTS + FROM_SCORES)
    scores, gains = graded(seed, num_rows=36)
    scores = (scores * 4).round() / 4
    way = rng.choice([{}, {"buckets": THREE}, {"buckets": DECILES}])
    if way and name not in WITHOUT_SCOPE and rng.random() < 0.5:
        way = {**way, "scope": "global"}
    level = rng.choice([None, 2, 2.5, 4])
    weighted, grouped, masked = (rng.random() < 0.5 for _ in range(3))
    generator = torch.Generator().manual_seed(seed)
    weighted = weighted and name != "CalibrationErrorAtK"  # no mean over rows, so that weights are refused
    groups = torch.randint(-1, 2, (36,), generator=generator)
    times = torch.randint(0, 4, (36,), generator=generator) if weighted else torch.ones(36, dtype=torch.int64)
    mask = torch.rand(36, generator=generator) < 0.8 if masked else torch.ones(36, dtype=torch.bool)
    arguments = {"num_labels": NUM_LABELS, "name": "value", **options, **way}

    extras = {"min_gain": level} if level else {}
    extras |= {"row_groups": NAMES} if grouped else {}
    extras |= {"weighted": True} if weighted else {}
    axes = rng.choice([1, 2])
    combined = getattr(tailmetrics, name)(**arguments, **extras)
    edges = [0, rng.choice([0, 12, 18, 36]), 36] if axes == 1 else [0, 36]
    for start, end in pairwise(edges):
        own = slice(start, end)
        shape = (6, -1) if axes == 2 else (-1,)
        more = {"row_mask": mask[own].reshape(shape)} if masked else {}
        more |= {"row_groups": groups[own].reshape(shape)} if grouped else {}
        more |= {"row_weights": times[own].reshape(shape)} if weighted else {}
        needs_scores = (name, options) in FROM_SCORES
        combined.update(*as_form(rng, scores[own], gains[own], needs_scores, axes), **more)

    def make() -> Any:
        return getattr(tailmetrics, name)(**arguments)

    rows = scores, gains >= level if level else gains
    wanted = plain_values(make, rows, mask, times)
    for number, group in enumerate(NAMES if grouped else []):
        own_rows = plain_values(make, rows, mask & (groups == number), times)
        wanted |= {keyed(key, group): value for key, value in own_rows.items()}
    found = combined.scalars()
    said = f"seed {seed}: {name} {options} {way} level {level} weighted {weighted} masked {masked} axes {axes}"
    if set(found) != set(wanted):
        return 0, [f"{said}: keys {sorted(set(found) ^ set(wanted))}"]
    wrong = [
        f"{said}: {key} is {float(found[key])!r} instead of {float(value)!r}"
        for key, value in wanted.items()
        if not agree(found[key], value, weighted)
    ]
    return len(wanted), wrong


def agree(one: Tensor, other: Tensor, weighted: bool) -> bool:
    """The same bits, or with weights to 1e-11."""
    if bits(one) == bits(other):
        return True
    if math.isnan(float(one)) or math.isnan(float(other)):
        return math.isnan(float(one)) and math.isnan(float(other))
    return weighted and math.isclose(float(one), float(other), rel_tol=1e-11, abs_tol=1e-12)


@pytest.mark.parametrize("seed", range(SEED, SEED + CASES))
def test_all_at_once_is_each_alone(seed: int) -> None:
    """Group by group, the plain metric on the rows that count, rewritten and repeated."""
    compared, wrong = run_case(seed)
    assert compared or wrong
    assert not wrong, "\n".join(wrong)
