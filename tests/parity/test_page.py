"""The pages on parity and exactness cite tests that exist."""

import itertools
import re
from pathlib import Path

import pytest
import torch

from tailmetrics import PersonalizationAtK

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "exactness.md").read_text()
PAGE = (ROOT / "docs" / "parity.md").read_text()
DEVIATIONS = PAGE.partition("## Where a peer differs")[2].partition("\n## ")[0]


def test_every_deviation_has_a_test_that_exists() -> None:
    """Every deviation on the parity page cites a test of this folder."""
    source = "".join(
        path.read_text() for path in sorted(Path(__file__).parent.glob("test_*.py"))
    )
    cited = re.findall(r"\| `(test_\w+)` \|$", DEVIATIONS, re.MULTILINE)
    assert len(cited) > 12
    assert [name for name in cited if f"def {name}(" not in source] == []


def test_personalization_equals_recmetrics() -> None:
    """Personalization equals recmetrics: one minus the mean cosine of the vectors of
    listed labels, over every pair of rows.
    """
    lists = torch.rand(9, 20, generator=torch.Generator().manual_seed(3)).argsort(
        dim=1
    )[:, :6]
    vectors = torch.zeros(9, 20, dtype=torch.float64).scatter_(1, lists, 1.0)
    pairs = itertools.combinations(torch.nn.functional.normalize(vectors, dim=1), 2)
    cosines = [float(row @ other_row) for row, other_row in pairs]
    metric = PersonalizationAtK(k=6, num_labels=20)
    metric.update(lists, lists[:, 0])
    assert float(metric.compute()) == pytest.approx(
        1 - sum(cosines) / len(cosines), rel=0, abs=1e-9
    )


def test_every_promise_has_a_test_that_exists() -> None:
    """Every promise on the exactness page cites at least one test, which exists where
    it says.
    """
    rows = [
        line
        for line in DOCUMENT.splitlines()
        if line.startswith("| ") and not line.startswith("| promise")
    ]
    assert len(rows) > 20
    for row in rows:
        cited = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert cited, row
        for path, name in cited:
            assert re.search(
                rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE
            ), f"{path}::{name}"
