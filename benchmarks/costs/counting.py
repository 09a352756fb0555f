"""A dispatch mode that counts what a program's operations would cost on a device."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

WAITS = {
    *("_local_scalar_dense", "is_nonzero", "equal", "allclose"),
    *("nonzero", "nonzero_numpy", "argwhere", "bincount", "masked_select"),
    *("_unique", "_unique2", "unique_dim", "unique_consecutive"),
}
"""Operations after which the program waits for a result, or its size."""

NO_KERNEL = {
    *(
        "detach",
        "alias",
        "expand",
        "view",
        "reshape",
        "_unsafe_view",
        "_reshape_alias",
        "as_strided",
    ),
    *(
        "t",
        "transpose",
        "permute",
        "squeeze",
        "unsqueeze",
        "select",
        "slice",
        "unbind",
        "split",
    ),
    *("crow_indices", "col_indices", "values"),
    *("empty", "empty_strided", "empty_like", "new_empty", "resize_"),
}
"""Operations that launch nothing: views, and memory that nothing is written to."""

LAUNCHES = Counter({"sort": 6, "topk": 10, "_unique2": 8, "nonzero": 4})
"""How many kernels CUDA launches for one operation, where it is not one."""

SORTED_AT_ONCE = 4096
"""The largest width of rows that CUDA sorts in a single pass.

Wider rows take a pass for every byte or so, with a copy beside them.
"""

PASSES = {1: 2, 2: 3, 4: 6, 8: 11}
"""Passes that sorting wider rows takes, by the bytes of a number."""


class CountedCosts(TorchDispatchMode):
    """Counts what runs within it on tensors of ``device``.

    Attributes:
        launches: Kernels.
        bytes: Bytes read and written by them.
        peak: The most bytes that live at once of the tensors made within.
        waits: Operations for which the program waits for the device.
        copies: Tensors that go from one device to another.
    """

    def __init__(self, device: str = "meta") -> None:
        super().__init__()
        self.device = device
        self.launches = self.bytes = self.peak = self.waits = self.copies = 0
        self._live: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = func.overloadpacket.__name__
        inputs = _tensors((args, kwargs))
        input_storages = {_storage(tensor) for tensor in inputs}
        out = func(*args, **(kwargs or {}))
        outputs = _tensors(out)
        self.waits += _waits(name, args, kwargs or {})
        self.copies += name == "lift_fresh" or (
            name in ("_to_copy", "copy_")
            and len({tensor.device.type for tensor in (*inputs, *outputs)}) > 1
        )
        if any(tensor.device.type == self.device for tensor in outputs):
            written = any(
                argument.alias_info and argument.alias_info.is_write
                for argument in func._schema.arguments
            )
            new = [
                tensor for tensor in outputs if _storage(tensor) not in input_storages
            ]
            self._hold(new, _scratch_bytes(name, inputs))
            if (new or written) and name not in NO_KERNEL:
                self.launches += LAUNCHES[name] or 1
                self.bytes += _moved(name, inputs, outputs, written)
        return out

    def _hold(self, new: list[Tensor], scratch: int) -> None:
        """Raise the peak to the memory of live tensors, new ones and scratch.

        ``scratch`` is what an operation takes for itself.
        """
        self._live = {
            key: kept for key, kept in self._live.items() if not kept[0].expired()
        }
        for tensor in new:
            storage = tensor.untyped_storage()
            self._live[_storage(tensor)] = StorageWeakRef(storage), storage.nbytes()
        self.peak = max(
            self.peak, sum(size for _, size in self._live.values()) + scratch
        )


def _tensors(values: Any) -> list[Tensor]:
    leaves = tree_leaves(values)
    return [
        leaf
        for leaf in leaves
        if isinstance(leaf, Tensor) and leaf.layout == torch.strided
    ]


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _size(tensor: Tensor) -> int:
    """Return the bytes of a tensor; what is expanded is there once."""
    size = tensor.element_size()
    for length, stride in zip(tensor.shape, tensor.stride(), strict=True):
        size *= length if stride else 1
    return size


def _waits(name: str, args: Any, kwargs: dict[str, Any]) -> bool:
    if name in ("index", "index_put", "index_put_", "_index_put_impl_"):
        return any(
            index is not None and index.dtype in (torch.bool, torch.uint8)
            for index in args[1]
        )
    return name in WAITS or (
        name == "repeat_interleave" and kwargs.get("output_size") is None
    )


def _scratch_bytes(name: str, inputs: list[Tensor]) -> int:
    """Return the bytes that sorting wide rows takes beside its results."""
    wide = (
        name == "sort" and inputs[0].ndim > 0 and inputs[0].shape[-1] > SORTED_AT_ONCE
    )
    return inputs[0].numel() * (16 + inputs[0].element_size()) if wide else 0


def _moved(name: str, inputs: list[Tensor], outputs: list[Tensor], writes: bool) -> int:
    """Return the bytes that an operation reads and writes."""
    written = sum(map(_size, outputs))
    if name in ("index", "gather", "index_select", "take", "embedding"):
        return sum(map(_size, inputs[1:])) + 2 * written
    if name.startswith(("scatter", "index_add", "index_put")):
        sources = [_size(tensor) for tensor in inputs[1:]]
        return sum(sources) + (2 * max(sources, default=0) if writes else written)
    if name == "sort":
        size, passes = inputs[0].element_size(), 1
        if inputs[0].ndim and inputs[0].shape[-1] > SORTED_AT_ONCE:
            passes = PASSES[size]
        return inputs[0].numel() * passes * (2 * size + 8 + size + 8)
    if name == "topk":
        return (
            inputs[0].numel()
            * inputs[0].element_size()
            * (inputs[0].element_size() + 1)
            + written
        )
    return sum({id(tensor): _size(tensor) for tensor in inputs}.values()) + written
