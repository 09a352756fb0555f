"""Example: how good is a language model at rare words? A neural network against counts,
from head to tail.
"""
