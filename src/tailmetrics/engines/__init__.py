"""An evaluation on the engines that people have: Ray, Spark and Dask move the work, and start it again where it fails.

Each has a module with the same two functions:

>>> from tailmetrics.engines.ray import count_labels, evaluate  # doctest: +SKIP
>>> from tailmetrics.engines.spark import count_labels, evaluate  # doctest: +SKIP
>>> from tailmetrics.engines.dask import count_labels, evaluate  # doctest: +SKIP
"""
