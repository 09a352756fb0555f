"""Spark: one task of ``mapInArrow`` evaluates each partition, and a shuffle sends the results to tasks that add."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from tailmetrics.engines.cluster import FAN_IN, Cluster, Work


class SparkCluster(Cluster):
    """The cluster of the current Spark session, such as a session that ``spark-submit`` starts."""

    name = "spark"

    def total(self, dataset: Any, work: Work) -> bytes:
        """Return the sum of the results of all partitions."""

        def merge(batches: Iterable[Any]) -> bytes:
            return work.merged(one for batch in batches for one in batch["result"].to_pylist())

        quoted = [f"`{name}`" for name in work.columns]
        found = dataset.select(*quoted).mapInArrow(_in_arrow(work), "result binary")
        merged = found.repartition(FAN_IN).mapInArrow(_in_arrow(merge), "result binary").collect()
        return work.merged(bytes(row["result"]) for row in merged)

    def numbers(self, count: int) -> Any:
        """Return a DataFrame whose column ``id`` holds the numbers 0 to ``count - 1``, one number per partition."""
        return _session().range(0, count, 1, count)

    def connect(self) -> int:
        """Return how many tasks Spark runs at a time."""
        return int(_session().sparkContext.defaultParallelism)


def _session() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def _in_arrow(function: Callable[[Iterable[Any]], bytes]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return a function for ``mapInArrow``: it yields the result of one partition as an Arrow batch."""

    def mapped(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        yield pa.RecordBatch.from_pydict({"result": [function(batches)]})

    return mapped


CLUSTER: Final = SparkCluster()
evaluate = CLUSTER.evaluate
count_labels = CLUSTER.count_labels
