"""Evaluations on Ray, Spark or Dask: the engine sends tasks to the machines, and
repeats a task that fails.

Each engine has a module with the same two functions:

>>> from tailmetrics.engines.ray import count_labels, evaluate  # doctest: +SKIP
>>> from tailmetrics.engines.spark import count_labels, evaluate  # doctest: +SKIP
>>> from tailmetrics.engines.dask import count_labels, evaluate  # doctest: +SKIP
"""
