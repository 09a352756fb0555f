"""What a validation or test step returns, and what arrived instead, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Keys:
    """Names under which a step returns predictions, target and, where it has them, what is known of rows."""

    preds: str
    target: str
    row_mask: str
    row_groups: str = "row_groups"
    row_ids: str = "row_ids"

    def read(self, outputs: Any, step: str) -> tuple[Any, Any, Any, Any, Any]:
        """Return predictions, target, row mask, row groups and numbers of rows (None where there are none)."""
        if not isinstance(outputs, dict) or self.preds not in outputs or self.target not in outputs:
            raise ValueError(
                f"HeadToTailReport: {step} returned {outline(outputs)}; return a dict with {self.preds!r} and "
                f"{self.target!r} (the names are arguments of the callback)."
            )
        beside = (outputs.get(name) for name in (self.row_mask, self.row_groups, self.row_ids))
        return outputs[self.preds], outputs[self.target], *beside


def outline(value: Any) -> str:
    """Return what a batch or output is, for a message."""
    if isinstance(value, dict):
        return f"a dict with {', '.join(map(repr, value)) or 'nothing in it'}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return "nothing" if value is None else f"a {type(value).__name__}"
