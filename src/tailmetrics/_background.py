"""Layer 0: one thread at a time touches states, and a background thread adds batches in the order of the calls."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent import futures
from copy import deepcopy
from multiprocessing.util import Finalize
from threading import RLock, Thread, current_thread
from typing import Any, Final, NamedTuple
from weakref import WeakSet

import torch
from torch import Tensor

WAITING: Final = 2
"""Batches that may wait while one is added: this evens out a slow batch, and bounds the memory to three batches."""


try:
    from torch.compiler import is_compiling as is_compiling
except ImportError:  # before torch 2.3
    from torch._dynamo import is_compiling as is_compiling


def eagerly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call an update outside of the graph of ``torch.compile``, which cannot trace it, and would say so at length."""
    from torch._dynamo import disable  # which is loaded where something is compiled, and takes a second elsewhere

    return disable(function)(*args, **kwargs)  # type: ignore[no-untyped-call]


class StateLock:
    """The lock of the states of a metric, or of all metrics of a collection: who touches them waits, then holds it.

    A copy of a metric has a lock of its own. A process that was forked while another thread added a batch has a part
    of this batch: it gets an error until the states are reset.

    Args:
        of_many: Whether it is the lock of a collection; a reset of one of its metrics is then no reset of all states.

    Attributes:
        held: Held while states are read or changed.
        waits: Whether :meth:`wait` has anything to do; an update of a small batch saves a call.
    """

    waits = False

    def __init__(self, of_many: bool = False) -> None:
        self.held = RLock()
        self.of_many = of_many
        self._was_cut_off = False
        LOCKS.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.of_many,)

    def wait(self) -> None:
        """Wait for what must be done before states are touched; nothing where this thread touches them already.

        Raises:
            ValueError: If the states are not whole.
        """
        if self._was_cut_off and not self.is_held_here:
            raise ValueError(
                "The states are not whole: this process was forked while another thread added a batch. Call reset() of "
                "the metric or collection, or read it in the process that made it."
            )

    @property
    def is_held_here(self) -> bool:
        """Whether this thread holds the lock."""
        return bool(self.held._is_owned())  # type: ignore[attr-defined] # which threading.Condition asks, too

    def reset(self) -> None:
        """Note that all states are reset next."""
        self._was_cut_off = False

    def after_fork(self) -> None:
        """Make the lock one of this process, in which no other thread lives on."""
        if self.held.acquire(blocking=False):
            self.held.release()
        else:
            self.held, self._was_cut_off, self.waits = RLock(), True, True

    def at_exit(self) -> None:
        """Print what nobody was told; called when the program ends."""


LOCKS: Final[WeakSet[StateLock]] = WeakSet()
"""All locks of this process."""


def _each_lock(method: str) -> None:
    for lock in list(LOCKS):
        getattr(lock, method)()


PRINTING: Final[set[int]] = set()
"""The processes that print at their end what nobody was told."""


def _print_at_exit() -> None:
    """Let this process print it; one of ``multiprocessing`` ends without ``atexit``."""
    if os.getpid() not in PRINTING:
        PRINTING.add(os.getpid())
        Finalize(None, _each_lock, ("at_exit",), exitpriority=0)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=lambda: _each_lock("after_fork"))


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


class Background(StateLock):
    """One background thread, and the queue of its batches; a program that waits for states waits for these first.

    Tensors on the CPU are not copied. Torch counts the in-place changes of each tensor, and every later call compares
    the counts: a batch that was changed too early gives an error, never a wrong number. Arrays and tensors of
    ``torch.inference_mode`` have no such count, and are copied. Tensors on a device are copied, too: the program does
    not wait for such a copy. Several threads may hand over batches. The background thread never holds ``_queue``, and
    a thread that holds the lock of states never takes it, so that none waits for another without end.
    """

    waits = True

    def __init__(self, of_many: bool = True) -> None:
        super().__init__(of_many)
        self._errors: list[tuple[int, BaseException]] = []
        self._without_thread()
        self._start_anew()

    def _without_thread(self) -> None:
        """Have no thread yet: the first batch starts it."""
        self._queue = RLock()
        self._executor: futures.ThreadPoolExecutor | None = None
        self._thread: Thread | None = None
        self._streams: dict[torch.device, Any] = {}
        self._batches: list[Given] = []

    def after_fork(self) -> None:
        """Start a new thread with the next batch; batches of the queue are lost to this process."""
        super().after_fork()
        self._was_cut_off |= self._added < self._number
        self._without_thread()

    def at_exit(self) -> None:
        """Wait for the last batches, and print the error of each that was not added, if no call has raised it."""
        futures.wait([one.work for one in self._batches])
        self.__del__()

    def __del__(self) -> None:
        for number, error in self._errors:
            sys.stderr.write(f"TopKCollection: batch {number} was not added: {error}\n")
        self._errors.clear()

    def reset(self) -> None:
        """Wait for all batches, and start again with batch 1; tensors that were changed too early raise no error.

        Raises:
            ValueError: If a batch could not be added. Then nothing is reset.
        """
        if current_thread() is not self._thread and not self.is_held_here:
            with self._queue:
                self._join()
                self._look(for_changes=False)
                self._raise()
                self._start_anew()
        super().reset()

    def _start_anew(self) -> None:
        self._number = self._added = 0
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
        with self._queue:
            self._check()
            self._submit(work, args, kwargs)
        return True

    def _submit(self, work: Callable[..., None], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        number, watched = self._number + 1, list[Tensor]()
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
            try:
                with torch.no_grad():
                    work(*args, **kwargs)
            except BaseException as error:
                self._errors.append((number, error))
            self._added += 1

        futures.wait([one.work for one in self._batches if not one.work.done()][:-WAITING])
        if self._executor is None:  # its thread ends when no reference to it is left
            self._executor = futures.ThreadPoolExecutor(1, "tailmetrics")
            _print_at_exit()
        self._number = number
        self._batches.append(Given(number, self._executor.submit(do), versions))

    def wait(self) -> None:
        """Wait until all batches of the queue are added; not in the background thread, nor within a call that waited.

        Raises:
            ValueError: If a batch could not be added, or was changed too early; the message says which batch.
        """
        if current_thread() is not self._thread and not self.is_held_here:
            with self._queue:
                self._join()
                self._check()

    def _check(self) -> None:
        super().wait()
        self._look()
        self._raise()

    def _join(self) -> None:
        futures.wait([one.work for one in self._batches])
        for device, stream in self._streams.items():
            torch.cuda.current_stream(device).wait_stream(stream)

    def _look(self, for_changes: bool = True) -> None:
        """Note the first batch that was changed too early; remove finished batches from the queue."""
        done = [one.work.done() for one in self._batches]  # before the tensors: a batch that ends later stays watched
        changed = (one.number for one in self._batches if any(tensor._version != old for tensor, old in one.watched))
        self._changed = (self._changed or next(changed, None)) if for_changes else None
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
