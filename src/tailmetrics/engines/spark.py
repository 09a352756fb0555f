"""Spark: one task of ``mapInArrow`` per partition, then a shuffle to tasks that add."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from tailmetrics.engines.cluster import FAN_IN, Cluster, Work, results_in


class SparkCluster(Cluster):
    """The cluster of the current Spark session, such as one from ``spark-submit``."""

    name = "spark"

    def run_tasks(self, dataset: Any, work: Work) -> bytes:
        """Return the sum of the results of all partitions."""

        def merge(batches: Iterable[Any]) -> bytes:
            return work.merged(results_in(batches))

        columns = [f"`{name}`" for name in work.columns]
        results = dataset.select(*columns).mapInArrow(
            _as_arrow_function(work), "result binary"
        )
        merged = (
            results.repartition(FAN_IN)
            .mapInArrow(_as_arrow_function(merge), "result binary")
            .collect()
        )
        return work.merged(bytes(row["result"]) for row in merged)

    def numbers(self, count: int) -> Any:
        """Return a DataFrame of the numbers 0 to ``count - 1``, one per partition.

        The column is named ``id``.
        """
        return _session().range(0, count, 1, count)

    def connect(self) -> int:
        """Return how many tasks Spark runs at a time."""
        return int(_session().sparkContext.defaultParallelism)


def _session() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def _as_arrow_function(
    function: Callable[[Iterable[Any]], bytes],
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return a function for ``mapInArrow`` that yields a result as an Arrow batch.

    The result is that of one partition.
    """

    def arrow_function(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        yield pa.RecordBatch.from_pydict({"result": [function(batches)]})

    return arrow_function


CLUSTER: Final = SparkCluster()
evaluate = CLUSTER.evaluate
count_labels = CLUSTER.count_labels
