"""Dask: one task per partition of a DataFrame, and a tree of tasks that add results."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from tailmetrics.engines.cluster import Cluster, Work, in_groups

EXPECTED: Final = 8
"""Assumed threads of a cluster without workers: enough tasks for one or a few."""


class DaskCluster(Cluster):
    """Runs tasks on the scheduler of the current ``Client``.

    Without a client, tasks run on threads of this process.
    """

    name = "dask"

    def run_tasks(self, dataset: Any, work: Work) -> bytes:
        """Return the sum of the results of all partitions."""
        from dask.delayed import delayed

        # the graph holds ``work`` once, for all tasks
        shared_work = delayed(work, pure=True, traverse=False)
        evaluate = delayed(Work.__call__, pure=True)
        merge = delayed(Work.merged, pure=True)
        results = [
            evaluate(shared_work, [part])
            for part in dataset[list(work.columns)].to_delayed()
        ]
        while len(results) != 1:
            results = [merge(shared_work, group) for group in in_groups(results)]
        total: bytes = results[0].compute()
        return total

    def numbers(self, count: int) -> Any:
        """Return a DataFrame of the numbers 0 to ``count - 1``, one per partition.

        The column is named ``id``.
        """
        import pandas as pd

        return import_module("dask.dataframe").from_pandas(
            pd.DataFrame({"id": range(count)}), npartitions=count
        )

    def connect(self) -> int:
        """Return the number of threads of all workers.

        If there is no client and Dask's settings name no scheduler, workers are started
        on this machine. If no worker has joined the cluster yet, return
        :data:`EXPECTED`: some clusters start workers with the first tasks.
        """
        distributed = import_module("distributed")
        try:
            self._client: Any = distributed.get_client()
        except ValueError:
            # keep the client: the workers end with it
            self._client = distributed.Client(threads_per_worker=1)
        return sum(self._client.nthreads().values()) or EXPECTED


CLUSTER: Final = DaskCluster()
evaluate = CLUSTER.evaluate
count_labels = CLUSTER.count_labels
