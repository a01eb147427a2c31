"""What a program reports of itself to the agent of its machine: phases, waits for data, collectives.

    with gpulens.phase("optimizer_step"):
        optimizer.step()

    world = gpulens.JobCommunicator("world", rank=rank, ranks=ranks)
    with world.collective("all_reduce", size_bytes=gradient.nbytes):
        comm.Allreduce(...)

The agent reads it out of memory that this process shares with it, and derives phases, slow ranks and hangs. Nothing needs to be
started. Recording takes about a microsecond, never waits and never fails; without an agent nothing is kept. `gpulens run
--probes=torch` reports the same of a PyTorch job without a change of it; a program that also uses this module adds to that.
GPULENS_PROBES=off in the environment turns it off.
"""
from __future__ import annotations

import contextlib
import sys
from typing import Any, Iterator, Literal

from . import _core
from .errors import InvalidArgumentError

__all__ = ["JobCommunicator", "data_wait", "job_reason", "phase"]

Phase = Literal[
    "data_loading", "gpu_compute", "nccl_collective", "optimizer_step", "checkpoint", "prefill", "decode", "queued", "idle"
]
Function = Literal[
    "other", "all_reduce", "broadcast", "all_gather", "reduce_scatter", "reduce", "all_to_all", "gather", "scatter", "send",
    "receive", "all_gather_v", "barrier"
]
_PHASES = {
    name: number
    for number, name in enumerate(
        "unknown data_loading gpu_compute nccl_collective optimizer_step checkpoint prefill decode queued idle".split()
    )
}
_FUNCTIONS = {
    name: number
    for number, name in enumerate(
        "other all_reduce broadcast all_gather reduce_scatter reduce all_to_all gather scatter send receive all_gather_v"
        " barrier".split()
    )
}


class _Hook:
    """The functions of the library that the hook of PyTorch has loaded, as those of _core: a process has one page."""

    def __init__(self, library):
        self._library = library
        self.job_phase_begin, self.job_phase_end = library.phase_begin, library.phase_end
        self.job_communicator_close = library.communicator_close

    def job_wait_begin(self):
        wait = self._library.Wait()
        self._library.data_wait_begin(self._library.byref(wait))
        return wait

    def job_wait_end(self, wait, got_batch):
        self._library.data_wait_end(self._library.byref(wait), 1 if got_batch else 0)

    def job_communicator_open(self, hash, rank, ranks, name):
        return self._library.communicator_open(hash, rank, ranks, name.encode("ascii", "replace")[:63])

    def job_call_begin(self, communicator, function, size_bytes, root):
        call = self._library.Call()
        self._library.collective_begin(self._library.byref(call), communicator, function, size_bytes, root, 0)
        return call

    def job_call_end(self, call, measured):
        self._library.collective_end(self._library.byref(call), 1 if measured else 0)

    def job_reason(self):
        status = self._library.job_status()
        return {0: None, 1: "no agent has made its socket", 2: "turned off"}.get(status, "no memory could be shared with the agent")


_functions: Any = None


def _native() -> Any:
    global _functions
    hook = sys.modules.get("gpulens_torch_hook")
    library = hook.library() if hook is not None else None
    if _functions is None or (library is not None and _functions is _core):
        _functions = _core if library is None else _Hook(library)
    return _functions


def _number(names, name, what):
    number = names.get(name)
    if number is None:
        raise InvalidArgumentError(f"{what}: unknown {what} \"{name}\"; use {', '.join(names)}")
    return number


@contextlib.contextmanager
def phase(name: Phase) -> Iterator[None]:
    """Marks a phase of this process: a context manager, or a decorator of a function.

    Phases nest, also those of several threads: the phase is that which began last and has not ended.

    Raises InvalidArgumentError for a name that is not one of the phases.
    """
    number = _number(_PHASES, name, "phase")
    native = _native()
    token = native.job_phase_begin(number)
    try:
        yield
    finally:
        native.job_phase_end(token)


class DataWait:
    """A wait that has begun. Call end() in the same thread."""

    __slots__ = ("_functions", "_wait")

    def __init__(self):
        self._functions = _native()
        self._wait = self._functions.job_wait_begin()

    def end(self, got_batch: bool = True) -> None:
        """Ends the wait; got_batch False: there was none left, and the wait is not recorded."""
        if self._wait is not None:
            self._functions.job_wait_end(self._wait, got_batch)
            self._wait = None


@contextlib.contextmanager
def data_wait() -> Iterator[None]:
    """Marks a wait of the training loop for its next batch. A wait inside another one is part of it; one that raises is not
    recorded."""
    wait = DataWait()
    try:
        yield
    except BaseException:
        wait.end(False)
        raise
    wait.end()


class JobCommunicator:
    """A group of ranks that communicate by a library which gpulens does not see. Thread-safe.

    key: what identifies the group, equal on all its ranks and in no other job of the machines: a number, or a text.
    rank, ranks: of this process in it, and their number.
    name: shown to people; None: the key.

    Calls of one function are joined across ranks by their order, so every rank must report all of them. At most 64 may be open.
    """

    def __init__(self, key: int | str, *, rank: int, ranks: int, name: str | None = None):
        if not 0 <= rank < ranks:
            raise InvalidArgumentError(f"rank: {rank} is not one of {ranks} ranks")
        value = key if isinstance(key, int) else _hash_of(key)
        self._functions = _native()
        shown = str(key) if name is None else name
        self._handle = self._functions.job_communicator_open(value & 0xFFFFFFFFFFFFFFFF, rank, ranks, shown)

    @contextlib.contextmanager
    def collective(self, function: Function, size_bytes: int = 0, *, root: int = -1) -> Iterator[None]:
        """Marks a call that returns when the collective is complete on this rank. One that raises is counted and not timed.

        size_bytes: message of this rank.
        root: of broadcast, reduce, gather and scatter; the other rank of send and receive; -1: none.
        """
        number = _number(_FUNCTIONS, function, "function")
        call = self._functions.job_call_begin(self._handle, number, size_bytes, root)
        try:
            yield
        except BaseException:
            self._functions.job_call_end(call, False)
            raise
        self._functions.job_call_end(call, True)

    def close(self) -> None:
        """The group has ended."""
        self._functions.job_communicator_close(self._handle)


def _hash_of(text):
    """64-bit FNV-1a, as the hook of PyTorch has it; never 0."""
    value = 0xCBF29CE484222325
    for byte in text.encode("utf-8", "surrogateescape"):
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value or 1


def job_reason() -> str | None:
    """Returns why nothing is reported to an agent; None when it is."""
    return _native().job_reason()
