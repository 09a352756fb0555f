"""An engine without machines: its data sets are lists of tables."""

import pickle

import pyarrow as pa
import pytest

from tailmetrics.engines.cluster import Cluster, in_groups


class Parts:
    """A data set: tables of Arrow or DataFrames of pandas, some without rows."""

    def __init__(self, parts):
        self.parts = parts
        self.columns = getattr(parts[0], "column_names", None) or list(parts[0].columns)


class Alone(Cluster):
    """Every task gets its own copy of the work, as on other machines, and results are added up in a tree."""

    name = "alone"
    tasks = 0

    def evaluate(self, parts, *args, **kwargs):
        return super().evaluate(Parts(parts), *args, **kwargs)

    def count_labels(self, parts, num_labels):
        return super().count_labels(Parts(parts), num_labels)

    def total(self, dataset, work):
        dataset = dataset.parts
        sent = pickle.dumps(work)
        results = [self._task(sent)([part[list(work.columns)] if hasattr(part, "iloc") else part]) for part in dataset]
        while len(results) != 1:
            results = [pickle.loads(sent).merged(group) for group in in_groups(results)]
        return results[0]

    def _task(self, sent):
        self.tasks += 1
        return pickle.loads(sent)

    def numbers(self, count):
        return Parts([pa.table({"id": [number]}) for number in range(count)])

    def connect(self):
        return 3


@pytest.fixture
def alone():
    """Return the engine."""
    return Alone()
