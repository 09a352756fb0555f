"""What holds for the metrics of wishes holds in both forms."""

import pytest


@pytest.fixture(autouse=True)
def in_both_forms(both_forms: None) -> None:
    """Each test runs in the form of the CPU, and in the one that devices run."""
