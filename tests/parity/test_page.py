"""docs/parity.md names tests that exist, and says nothing of a peer that no test holds."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
import torch

from tailmetrics import PersonalizationAtK

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "parity.md").read_text()
DEVIATIONS = PAGE.partition("## Where a peer differs")[2].partition("\n## ")[0]


def test_every_deviation_has_a_test_that_exists() -> None:
    """One function of this folder per row."""
    written = "".join(path.read_text() for path in sorted(Path(__file__).parent.glob("test_*.py")))
    cited = re.findall(r"\| `(test_\w+)` \|$", DEVIATIONS, re.MULTILINE)
    assert len(cited) > 12
    assert [name for name in cited if f"def {name}(" not in written] == []


def test_the_cosine_of_two_full_lists_is_their_overlap() -> None:
    """recmetrics: one minus the mean cosine of the rows' vectors of what is shown, over every two rows."""
    shown = torch.rand(9, 20, generator=torch.Generator().manual_seed(3)).argsort(dim=1)[:, :6]
    vectors = torch.zeros(9, 20, dtype=torch.float64).scatter_(1, shown, 1.0)
    two = itertools.combinations(torch.nn.functional.normalize(vectors, dim=1), 2)
    cosines = [float(one @ other) for one, other in two]
    metric = PersonalizationAtK(k=6, num_labels=20)
    metric.update(shown, shown[:, 0])
    assert float(metric.compute()) == pytest.approx(1 - sum(cosines) / len(cosines), rel=0, abs=1e-9)
