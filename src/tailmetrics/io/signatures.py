"""First bytes of files of columns."""

PARQUET = b"PAR1"
ARROW = b"ARROW1"
FEATHER_1 = b"FEA1"
STREAM = b"\xff\xff\xff\xff"
"""Of an Arrow stream, such as ``datasets`` saves."""
