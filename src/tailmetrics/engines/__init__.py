"""Evaluations on Ray, Spark or Dask, which send tasks to machines.

The engine repeats a task that fails.

Each engine has a module with the same two functions:

>>> from tailmetrics.engines.ray import count_labels, evaluate  # doctest: +SKIP
>>> from tailmetrics.engines.spark import count_labels, evaluate  # doctest: +SKIP
>>> from tailmetrics.engines.dask import count_labels, evaluate  # doctest: +SKIP
"""
