"""Layer 4: the Lightning callback, which reports metrics by label frequency."""

from tailmetrics._extras import extra_hint

try:
    from tailmetrics.lightning.callback import HeadToTailReport
except ModuleNotFoundError as error:
    hint = extra_hint(error, "lightning")
    if hint is None:
        raise
    raise ImportError(f"tailmetrics.lightning needs {hint}") from error

__all__ = ["HeadToTailReport"]
