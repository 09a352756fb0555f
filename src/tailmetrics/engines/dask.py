"""Dask: a task for each partition of a DataFrame, and a tree of tasks that add up."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from tailmetrics.engines.cluster import Cluster, Work, in_groups


class DaskCluster(Cluster):
    """The scheduler of the ``Client`` that is there; without one, the threads of this process."""

    name = "dask"

    def total(self, dataset: Any, work: Work) -> bytes:
        """Return the sum of the results of all partitions."""
        from dask.delayed import delayed

        kept = delayed(work, pure=True, traverse=False)  # once in the graph, however large its tables are
        evaluate, merge = delayed(Work.__call__, pure=True), delayed(Work.merged, pure=True)
        results = [evaluate(kept, [part]) for part in dataset[list(work.columns)].to_delayed()]
        while len(results) != 1:
            results = [merge(kept, some) for some in in_groups(results)]
        total: bytes = results[0].compute()
        return total

    def numbers(self, count: int) -> Any:
        """Return a DataFrame of numbers, a partition for each."""
        import pandas as pd

        return import_module("dask.dataframe").from_pandas(pd.DataFrame({"id": range(count)}), npartitions=count)

    def connect(self) -> int:
        """Return the threads of all workers, which are started on this machine where no scheduler is named."""
        distributed = import_module("distributed")
        try:
            self._client: Any = distributed.get_client()
        except ValueError:
            self._client = distributed.Client(threads_per_worker=1)  # kept: its workers end with it
        return sum(self._client.nthreads().values())


CLUSTER: Final = DaskCluster()
evaluate = CLUSTER.evaluate
count_labels = CLUSTER.count_labels
