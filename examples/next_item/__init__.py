"""Example: which function will be called next? Popularity against Markov chains, from
head to tail.
"""
