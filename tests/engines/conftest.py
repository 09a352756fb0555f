"""An engine without machines: its parts are tables in a list."""

import pickle

import pyarrow as pa
import pytest

from tailmetrics.engines.cluster import Cluster, in_groups


class Alone(Cluster):
    """Every task gets its own copy of the work, as on other machines, and results are added up in a tree."""

    name = "alone"
    tasks = 0

    def columns_of(self, dataset):
        return dataset[0].column_names if hasattr(dataset[0], "column_names") else list(dataset[0].columns)

    def total(self, dataset, work):
        sent = pickle.dumps(work)
        results = [self._task(sent)([part[list(work.columns)] if hasattr(part, "iloc") else part]) for part in dataset]
        while len(results) != 1:
            results = [pickle.loads(sent).merged(some) for some in in_groups(results)]
        return results[0]

    def _task(self, sent):
        self.tasks += 1
        return pickle.loads(sent)

    def numbers(self, count):
        return [pa.table({"id": [number]}) for number in range(count)]

    def connect(self):
        return 3


@pytest.fixture
def alone():
    """Return the engine."""
    return Alone()
