"""Layer 0: a background thread that adds batches in the order of the calls."""

from __future__ import annotations

from collections.abc import Callable
from concurrent import futures
from copy import deepcopy
from threading import Thread, current_thread
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

WAITING: Final = 2
"""Batches that may wait while one is added: this evens out a slow batch, and bounds the memory to three batches."""


class Given(NamedTuple):
    """A batch that was handed over.

    Attributes:
        number: The number of the batch since the last reset.
        work: The future of the call that adds the batch.
        watched: The tensors of the batch that are not copied, each with its number of in-place changes at the call.
    """

    number: int
    work: futures.Future[None]
    watched: list[tuple[Tensor, int]]


class Background:
    """One background thread, and the queue of its batches.

    Tensors on the CPU are not copied. Torch counts the in-place changes of each tensor, and every later call compares
    the counts: a batch that was changed too early gives an error, never a wrong number. Arrays and tensors of
    ``torch.inference_mode`` have no such count, and are copied. Tensors on a device are copied, too: the program does
    not wait for such a copy.
    """

    def __init__(self) -> None:
        self._executor: futures.ThreadPoolExecutor | None = None
        self._thread: Thread | None = None
        self._streams: dict[torch.device, Any] = {}
        self._start_anew()

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy as a new object with a thread of its own and an empty queue."""
        return Background, ()

    def reset(self) -> None:
        """Wait for all batches, and start again with batch 1; tensors that were changed too early raise no error.

        Raises:
            ValueError: If a batch could not be added. Then nothing is reset.
        """
        if current_thread() is not self._thread:
            self._join()
            self._look(for_changes=False)
            self._raise()
            self._start_anew()

    def _start_anew(self) -> None:
        self._number = 0
        self._batches: list[Given] = []
        self._errors: list[tuple[int, BaseException]] = []
        self._changed: int | None = None

    def submit(self, work: Callable[..., None], *args: Any, **kwargs: Any) -> bool:
        """Queue ``work`` with these arguments for the thread; wait only if the queue is full.

        Returns:
            True; False when called in the thread itself, where the caller does the work at once.

        Raises:
            ValueError: If an earlier batch could not be added, or was changed too early. This one is then not queued.
        """
        if current_thread() is self._thread:
            return False
        self._look()
        self._raise()
        watched: list[Tensor] = []
        args = tuple(_kept(one, watched) for one in args)
        kwargs = {name: _kept(one, watched) for name, one in kwargs.items()}
        versions = [(tensor, tensor._version) for tensor in watched]
        devices = {tensor.device for tensor in _tensors((args, kwargs)) if tensor.device.type == "cuda"}
        ready = [(device, torch.cuda.current_stream(device).record_event()) for device in devices]

        def do() -> None:
            self._thread = current_thread()
            for device, event in ready:
                stream = self._streams.setdefault(device, torch.cuda.Stream(device))  # type: ignore[no-untyped-call]
                stream.wait_event(event)
                torch.cuda.set_stream(stream)
            for tensor in _tensors((args, kwargs)) if ready else ():
                tensor.record_stream(self._streams[tensor.device])
            with torch.no_grad():
                work(*args, **kwargs)

        futures.wait([one.work for one in self._batches if not one.work.done()][:-WAITING])
        if self._executor is None:  # its thread ends when no reference to it is left
            self._executor = futures.ThreadPoolExecutor(1, "tailmetrics")
        self._number += 1
        self._batches.append(Given(self._number, self._executor.submit(do), versions))
        return True

    def wait(self) -> None:
        """Wait until all batches of the queue are added.

        Raises:
            ValueError: If a batch could not be added, or was changed too early; the message says which batch.
        """
        if current_thread() is not self._thread:
            self._join()
            self._look()
            self._raise()

    def _join(self) -> None:
        futures.wait([one.work for one in self._batches])
        for device, stream in self._streams.items():
            torch.cuda.current_stream(device).wait_stream(stream)

    def _look(self, for_changes: bool = True) -> None:
        """Note the first batch that was changed too early, and all errors; remove finished batches from the queue."""
        done = [one.work.done() for one in self._batches]  # before the tensors: a batch that ends later stays watched
        changed = (one.number for one in self._batches if any(tensor._version != old for tensor, old in one.watched))
        self._changed = (self._changed or next(changed, None)) if for_changes else None
        failed = [(one, one.work.exception()) for one, ended in zip(self._batches, done, strict=True) if ended]
        self._errors += [(one.number, error) for one, error in failed if error is not None]
        self._batches = [one for one, ended in zip(self._batches, done, strict=True) if not ended]

    def _raise(self) -> None:
        """Raise the first error that was not raised yet."""
        if self._changed is not None:
            raise ValueError(
                f"TopKCollection: a tensor of batch {self._changed} was changed in place after update(), while the "
                "batch may not have been added yet, so that values can be wrong; call reset(). With background=True "
                "leave the tensors of a batch as they are until values are read, or pass copies."
            )
        if self._errors:
            number, error = self._errors.pop(0)
            kind = type(error) if type(error) in (TypeError, ValueError) else RuntimeError
            raise kind(
                f"{error} (This is batch {number} since the last reset; with background=True it is told in the next "
                "call, which has done nothing else.)"
            ) from error


def _kept(value: Any, watched: list[Tensor]) -> Any:
    """Return an argument as it is now: a CPU tensor itself, noted in ``watched`` to detect changes; else a copy."""
    if isinstance(value, Tensor):
        if value.device.type == "cpu" and value.layout == torch.strided and not value.is_inference():
            watched.append(value)
            return value.detach()
        return value.detach().clone()
    if isinstance(value, (tuple, list)):
        kept = [_kept(one, watched) for one in value]
        return kept if isinstance(value, list) else tuple(kept)
    return value if isinstance(value, (int, float, str, bytes, type(None))) else deepcopy(value)


def _tensors(value: Any) -> list[Tensor]:
    """Return the tensors in nested arguments."""
    if isinstance(value, Tensor):
        return [value]
    many = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return [tensor for one in many for tensor in _tensors(one)]
