"""How good a top-k model is from its most frequent labels to its rarest: stateful metrics for TorchMetrics."""

from tailmetrics import functional as functional
from tailmetrics.buckets import LabelBuckets as LabelBuckets
from tailmetrics.collection import TopKCollection as TopKCollection
from tailmetrics.frequency import LabelFrequency as LabelFrequency
from tailmetrics.metrics import *  # noqa: F403 - one line per metric, in one place
from tailmetrics.ranking import Ranking as Ranking
from tailmetrics.ranking import rank as rank

__version__ = "0.1.0"
