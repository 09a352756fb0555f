"""The settings of a metric, as they are written into results."""

import json

import pytest

from cases import registered
from tailmetrics.evaluation.description import settings_of
from tailmetrics.metrics import REGISTRY


@pytest.mark.parametrize("name", REGISTRY)
def test_settings_of_every_metric_are_plain_data(name):
    """The settings of every metric can be written as JSON, and name its class."""
    settings = settings_of(registered(name))
    assert settings["class"] == name
    json.dumps(settings, allow_nan=False)
