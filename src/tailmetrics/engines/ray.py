"""Ray: one task of Ray Data per block, and a tree of tasks that add results."""

from __future__ import annotations

from typing import Any, Final

from tailmetrics.engines.cluster import Cluster, Work, in_groups, results_in


class RayCluster(Cluster):
    """The Ray cluster of ``ray.init``, or of ``RAY_ADDRESS``, or else this machine."""

    name = "ray"

    def run_tasks(self, dataset: Any, work: Work) -> bytes:
        """Return the sum of the results of all blocks."""
        import pyarrow as pa
        import ray

        shared_work = ray.put(work)  # the cluster holds ``work`` once, for all tasks

        def evaluate(block: Any) -> Any:
            return pa.table({"result": [ray.get(shared_work)([block])]})

        def merge(*blocks: Any) -> Any:
            return pa.table(
                {"result": [ray.get(shared_work).merged(results_in(blocks))]}
            )

        columns = dataset.select_columns(list(work.columns))
        blocks = columns.map_batches(
            evaluate, batch_size=None, batch_format="pyarrow"
        ).to_arrow_refs()
        task = ray.remote(merge)
        while len(blocks) != 1:
            blocks = [task.remote(*group) for group in in_groups(blocks)]
        result: bytes = ray.get(blocks[0])["result"][0].as_py()
        return result

    def numbers(self, count: int) -> Any:
        """Return a data set of the numbers 0 to ``count - 1``, one per block.

        The column is named ``id``.
        """
        import ray

        return ray.data.range(count, override_num_blocks=count)

    def connect(self) -> int:
        """Start Ray unless it is running; return the cluster's number of processors."""
        import ray

        if not ray.is_initialized():
            ray.init()
        resources: Any = ray.cluster_resources  # untyped
        return int(resources().get("CPU", 1))


CLUSTER: Final = RayCluster()
evaluate = CLUSTER.evaluate
count_labels = CLUSTER.count_labels
