"""An evaluation whose states go to other processes and machines, to be merged there in any order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailmetrics.evaluation.accumulating import Evaluation

LENGTH_BYTES = 8


def counted(evaluation: Evaluation) -> list[Any]:
    """Return everything of an evaluation that has states."""
    if evaluation.ties is None:
        evaluation.start()
    parts = (
        evaluation.collection,
        evaluation.positives,
        evaluation.ties,
        evaluation.group_rows,
        evaluation.examples,
        *evaluation.moments.values(),
        *evaluation.cells,
    )
    return [one for one in parts if one is not None]


def packed(parts: list[bytes]) -> bytes:
    """Return several byte strings as one."""
    return b"".join(len(part).to_bytes(LENGTH_BYTES, "little") + part for part in parts)


def unpacked(data: bytes, count: int) -> list[bytes]:
    """Return the byte strings that were packed.

    Raises:
        TypeError: If ``data`` is not bytes.
        ValueError: If they are not ``count``, or were cut.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"Evaluation.load_state_bytes: data is a {type(data).__name__}; pass what state_bytes() returned."
        )
    parts = list(_parts(bytes(data)))
    if len(parts) != count or sum(map(len, parts)) + LENGTH_BYTES * count != len(data):
        raise ValueError(
            f"Evaluation.load_state_bytes: data holds {len(parts)} parts, but {count} are needed; pass what "
            "state_bytes() of an evaluation of the same metrics returned, whole."
        )
    return parts


def _parts(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        length = int.from_bytes(data[start : start + LENGTH_BYTES], "little")
        yield data[start + LENGTH_BYTES : start + LENGTH_BYTES + length]
        start += LENGTH_BYTES + length
