"""Paths that the tests share, and what they are not to be disturbed by."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "lightning"))
