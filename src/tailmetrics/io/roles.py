"""What a file is for."""

from __future__ import annotations

from typing import Literal, TypeAlias

Role: TypeAlias = Literal["preds", "target"]
"""A function that takes a role takes None where only the labels that a file names are asked for."""
