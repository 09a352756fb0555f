"""Example: find which functions are worth a look, too.

BM25 searches docstrings with and without a prior, evaluated from head to tail.
"""
