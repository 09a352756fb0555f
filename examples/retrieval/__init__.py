"""Example: which functions are worth a look, too? BM25 over docstrings, with and
without a prior, from head to tail.
"""
