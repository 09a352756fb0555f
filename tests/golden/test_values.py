"""No version changes a value unnoticed: every key of every class, on fixed data, equals
the files of earlier versions.

A value that has to change, because it was wrong, changes in the file of the next
version, and its key is named in `CHANGELOG.md`. `python tests/golden/test_values.py`
writes the file of the current version, at a release.
"""

import json
import math
import re
import sys
import warnings
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import pytest
import torch
from torch import Tensor

import tailmetrics
from cases import EVERY_CASE, NUM_LABELS, Case

FOLDER, ROWS, K = Path(__file__).parent, 50, 3
CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def mixed(factor: int) -> Tensor:
    """Return whole numbers from 0 to 2^16 - 1 of rows and labels that look random, by
    arithmetic that no version changes.
    """
    rows, labels = torch.arange(ROWS)[:, None], torch.arange(NUM_LABELS)
    mixed = ((rows * 7919 + labels * 104_729 + factor) * 2_654_435_761) % 2**32
    return (mixed ^ (mixed >> 15)) * 2_246_822_519 % 2**32 >> 16


SCORES = mixed(1).double() / 2**16
GAINS = torch.where(mixed(2) < 6000, mixed(3) % 4 + 1, 0).double()
GAINS[::9] = 0  # rows without a relevant label
SCORES[4] = (SCORES[4] * 4).round() / 4  # ties


def values(case: Case) -> dict[str, list[float]]:
    """Return the values of a case by key; those of the buckets of one key are a
    list.
    """
    arguments = {
        **case.arguments,
        **({"k": K} if isinstance(case.arguments.get("k"), list) else {}),
    }
    metric = Case(case.name, arguments, case.by).metric()
    for rows in (slice(0, 20), slice(20, ROWS)):
        metric.update(SCORES[rows], GAINS[rows])
    values_by_key: dict[str, list[float]] = {}
    for key, value in metric.scalars().items():
        values_by_key.setdefault(re.sub(r"/(decile_\d+|unseen)$", "", key), []).append(
            float(value)
        )
    return values_by_key


def all_values() -> dict[str, list[float]]:
    """Return the values of all cases by key; one key never names two numbers."""
    by_key: dict[str, list[float]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in EVERY_CASE:
            if "depth" in case.arguments and case.name != "KForRecall":
                continue  # the one argument that keys do not show
            for name, numbers in values(case).items():
                key = f"{name} by bucket" if len(numbers) > 1 else name
                assert same(by_key.setdefault(key, numbers), numbers), (
                    f"{key} has two values: {case}"
                )
    return by_key


def same(numbers: list[float], other_numbers: list[float]) -> bool:
    """Return whether numbers are equal to 1e-12: the logarithms of two machines differ
    in the last bit.
    """
    return len(numbers) == len(other_numbers) and all(
        math.isclose(a, b, rel_tol=1e-12) or (math.isnan(a) and math.isnan(b))
        for a, b in zip(numbers, other_numbers, strict=True)
    )


@pytest.fixture(scope="module")
def current_values() -> dict[str, list[float]]:
    """Return the values of the current version."""
    return all_values()


@pytest.mark.parametrize(
    "path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem
)
def test_values_are_those_of_each_version(
    path: Path, current_values: dict[str, list[float]]
) -> None:
    """Every value equals the one in the file of each version, except for keys that the
    changelog names.
    """
    recorded, changelog = json.loads(path.read_text()), CHANGELOG.read_text()
    differs = [
        key
        for key, numbers in recorded.items()
        if key not in current_values or not same(current_values[key], numbers)
    ]
    is_current = path.stem == tailmetrics.__version__
    assert [
        key
        for key in differs
        if is_current or f"`{key.removesuffix(' by bucket')}`" not in changelog
    ] == []


def test_file_of_this_version_holds_every_key(
    current_values: dict[str, list[float]],
) -> None:
    """The file of the current version holds every key, and every class of the library
    has a key.
    """
    recorded = json.loads((FOLDER / f"{tailmetrics.__version__}.json").read_text())
    assert sorted(current_values.keys() - recorded.keys()) == []
    assert {case.name for case in EVERY_CASE} == set(tailmetrics.metrics.REGISTRY)


if __name__ == "__main__":
    lines = [
        f"{json.dumps(key)}: {json.dumps(numbers)}"
        for key, numbers in sorted(all_values().items())
    ]
    target = FOLDER / f"{tailmetrics.__version__}.json"
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(target, len(lines), "keys")
