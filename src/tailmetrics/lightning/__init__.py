"""Layer 4: the Lightning callback, which reports metrics by label frequency in every validation and test."""

from tailmetrics.lightning.callback import HeadToTailReport

__all__ = ["HeadToTailReport"]
