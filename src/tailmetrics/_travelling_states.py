"""Floor 0: states as bytes, which any machine reads: a digest, then compressed meanings and whole numbers.

No table of buckets or counts is among them, only what tells whether the reader has the same ones. Nothing in them is
executed. Layout: ``MAGIC``, the version (1 byte), SHA-256 of the rest (32 bytes), the length of the first stream (8
bytes, little-endian), a zlib stream of JSON, and a zlib stream of the states one behind the other, little-endian.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import sha256
from itertools import accumulate
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from tailmetrics._meaning import Meaning, difference
from tailmetrics._packed_sync import Share

MAGIC: Final = b"tailmetrics states "
VERSION: Final = 1
LONGEST_JSON: Final = 2**24


def to_bytes(shares: Sequence[Share], updates: Sequence[int]) -> bytes:
    """Return what metrics hold, and how many updates each has seen."""
    meanings = [asdict(share.meaning) for share in shares]
    about = zlib.compress(json.dumps({"metrics": meanings, "updates": list(updates)}).encode())
    packer = zlib.compressobj(1)
    states = [packer.compress(_little_endian(state)) for state in _once_each(shares)]
    packed = b"".join([len(about).to_bytes(8, "little"), about, *states, packer.flush()])
    return b"".join([MAGIC, bytes([VERSION]), sha256(packed).digest(), packed])


def from_bytes(
    caller: str, data: Any, shares: Sequence[Share], names: Sequence[str] = ()
) -> list[tuple[dict[str, Tensor], int]]:
    """Return the states of each metric, and its number of updates.

    Args:
        caller: The name that errors begin with.
        data: What :func:`to_bytes` returned.
        shares: The metrics that are to have the states, in their order.
        names: What they are called, where they have names.

    Raises:
        TypeError: If ``data`` is not bytes.
        ValueError: If ``data`` is damaged, or of other metrics.
    """
    packed = _checked(caller, data)
    end = 8 + int.from_bytes(packed[:8], "little")
    meanings, updates = _about(caller, packed[8:end])
    differs = difference([share.meaning for share in shares], meanings, "here", "in data", names)
    if differs is not None:
        raise ValueError(
            f"{caller}: data holds the states of other metrics: {differs}. Load them where the same metrics were made, "
            "with the same arguments, buckets and counts, in the same order."
        )
    own = _once_each(shares)
    flat = _unpacked(caller, packed[end:], sum(map(_size, own)))
    if len(flat) != sum(map(_size, own)):
        raise _not_states(caller)
    ends = accumulate(map(_size, own))
    states = {id(state): _state(flat[end - _size(state) : end], state) for state, end in zip(own, ends, strict=True)}
    return [
        ({name: states[id(state)] for name, state in share.states.items()}, count)
        for share, count in zip(shares, updates, strict=True)
    ]


def _checked(caller: str, data: Any) -> bytes:
    """Return the compressed part of data that is whole and of a version that is known."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"{caller}: data is a {type(data).__name__}; pass the bytes that state_bytes() returned.")
    given = bytes(data)
    start = len(MAGIC) + 1
    if given[: len(MAGIC)] != MAGIC or len(given) < start + 32:
        raise _not_states(caller)
    if given[start - 1] != VERSION:
        raise ValueError(
            f"{caller}: data is of version {given[start - 1]}, but this tailmetrics reads version {VERSION}; use the "
            "release that wrote it."
        )
    packed = given[start + 32 :]
    if sha256(packed).digest() != given[start : start + 32]:
        raise ValueError(f"{caller}: data is damaged or cut short; send it again.")
    return packed


def _about(caller: str, packed: bytes) -> tuple[list[Meaning], list[int]]:
    try:
        header = json.loads(bytes(_unpacked(caller, packed, LONGEST_JSON)))
        return [Meaning(**one) for one in header["metrics"]], [int(count) for count in header["updates"]]
    except (KeyError, TypeError, ValueError):
        raise _not_states(caller) from None


def _not_states(caller: str) -> ValueError:
    return ValueError(f"{caller}: data is not what state_bytes() returned; pass those bytes unchanged.")


def _unpacked(caller: str, packed: bytes, longest: int) -> memoryview:
    """Return what was packed, and never more than is expected, whatever the data would unpack to."""
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(packed, longest + 1)
    except zlib.error:
        raise _not_states(caller) from None
    if len(found) > longest or not unpacker.eof:
        raise _not_states(caller)
    return memoryview(found)


def _once_each(shares: Sequence[Share]) -> list[Tensor]:
    return list({id(state): state for share in shares for state in share.states.values()}.values())


def _size(state: Tensor) -> int:
    return state.numel() * state.element_size()


def _little_endian(state: Tensor) -> bytes:
    array = state.detach().cpu().contiguous().numpy()
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def _state(data: memoryview, like: Tensor) -> Tensor:
    dtype = torch.empty(0, dtype=like.dtype).numpy().dtype
    array = np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype)
    return torch.from_numpy(array).view(like.shape).to(like.device)
