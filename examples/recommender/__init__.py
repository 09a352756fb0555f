"""Example: predict which further modules a Python file imports.

Popularity is compared with EASE, from head to tail.
"""
