"""Example: a language model and rare words, from head to tail.

A neural network is compared with counts.
"""
