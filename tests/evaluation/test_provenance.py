"""What a result was computed with is said as plain data."""

import json

import pytest

from cases import registered
from tailmetrics.evaluation.description import settings_of
from tailmetrics.metrics import REGISTRY


@pytest.mark.parametrize("name", REGISTRY)
def test_settings_of_every_metric_are_plain_data(name):
    """What a metric was computed with can be written for each of them."""
    settings = settings_of(registered(name))
    assert settings["class"] == name
    json.dumps(settings, allow_nan=False)
