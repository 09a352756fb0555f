"""Error rates of ``tailmetrics.significance``, by simulation: ``python -m benchmarks.significance``."""
