"""Layer 4: the callback that reports from head to tail in every validation and test."""

from tailmetrics.lightning.callback import HeadToTailReport

__all__ = ["HeadToTailReport"]
