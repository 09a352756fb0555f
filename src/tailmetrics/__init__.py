"""How good a top-k model is from its most frequent labels to its rarest: stateful metrics for TorchMetrics."""

from tailmetrics import functional
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.frequency import LabelFrequency
from tailmetrics.metrics import *  # noqa: F403 - one line per metric, in one place
from tailmetrics.ranking import Ranking, rank

__version__ = "0.1.0"
