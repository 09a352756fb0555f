"""An engine without machines, whose data sets are lists of tables."""

import pickle

import pyarrow as pa
import pytest

from tailmetrics.engines.cluster import Cluster, in_groups


class Parts:
    """A data set of Arrow tables or DataFrames, some of which have no rows."""

    def __init__(self, parts):
        self.parts = parts
        self.columns = getattr(parts[0], "column_names", None) or list(parts[0].columns)


class Alone(Cluster):
    """An engine in which every task gets a copy of the work, as on other machines, and
    results are merged in a tree.
    """

    name = "alone"
    tasks = 0

    def evaluate(self, parts, *args, **kwargs):
        return super().evaluate(Parts(parts), *args, **kwargs)

    def count_labels(self, parts, num_labels):
        return super().count_labels(Parts(parts), num_labels)

    def run_tasks(self, dataset, work):
        dataset = dataset.parts
        pickled_work = pickle.dumps(work)
        results = [
            self._task(pickled_work)(
                [part[list(work.columns)] if hasattr(part, "iloc") else part]
            )
            for part in dataset
        ]
        while len(results) != 1:
            results = [
                pickle.loads(pickled_work).merged(group) for group in in_groups(results)
            ]
        return results[0]

    def _task(self, pickled_work):
        self.tasks += 1
        return pickle.loads(pickled_work)

    def numbers(self, count):
        return Parts([pa.table({"id": [number]}) for number in range(count)])

    def connect(self):
        return 3


@pytest.fixture
def alone():
    """Return the engine."""
    return Alone()
