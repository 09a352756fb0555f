"""Example: which further modules will a Python file import? Popularity against EASE,
from head to tail.
"""
