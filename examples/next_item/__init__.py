"""Example: predict which function will be called next.

Popularity is compared with Markov chains, from head to tail.
"""
