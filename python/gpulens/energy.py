"""Energy, in joules, of a time span of the program or of one request's share of it.

    monitor = EnergyMonitor(share="tokens")      # the GPUs this process may use; one thread for all monitors
    with monitor.window() as epoch:              # all energy of the devices; windows nest and overlap freely
        with monitor.request() as request:       # a share: concurrent requests add up to the devices' energy
            request.mark("decode")
            request.add_tokens(128)
    print(request.result, request.phase("decode").energy_joules)
    print(epoch.result.gpu_energy, epoch.result.carbon_grams("DE"))

Work that a framework queues on a GPU runs on after the call that queued it: `monitor.window(sync="torch")` waits for it at
both edges.

Results carry method, uncertainty and validity. Unknown values are NaN, and `reason` explains why.

To measure a device that this library does not support, implement EnergySource and pass it in
EnergyMonitor(sources=[…]).
"""
from __future__ import annotations

import atexit
import importlib
import os
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from typing import Callable, Literal, Optional, Sequence, Tuple

from ._core import (EnergyDevice, EnergyMonitor, EnergyOfDevice, EnergyReading, EnergyResult, EnergyTicks, EnergyWindow, SourceMailbox,
                    SourceReading, carbon_intensity)
from .errors import InvalidArgumentError, UnavailableError

__all__ = [
    "EnergyDevice",
    "EnergyMonitor",
    "EnergyOfDevice",
    "EnergyReading",
    "EnergyResult",
    "EnergySource",
    "EnergyTicks",
    "EnergyWindow",
    "SourceReading",
    "carbon_intensity",
]


class EnergySource(ABC):
    """Abstract base class of energy sources, for devices that this library does not support itself.

        class Meter(EnergySource):
            name, vendor = "meter", None           # vendor: "nvidia", "amd", "apple", "cpu_rapl" or None

            def open(self):
                return [EnergyDevice("socket-1", part="gpu", most_watts=3000.0)]

            def read(self, device):
                return SourceReading(joules=read_the_meter())

        monitor = EnergyMonitor(sources=[Meter()])

    Each monitor calls its sources from a Python thread of its own, so a method that blocks delays only the
    readings of that monitor. A call that takes longer than a second counts as a failed reading. An
    exception counts as a failed reading, too; its text becomes the reason.
    """

    name: str = "python"
    vendor: Optional[Literal["nvidia", "amd", "apple", "cpu_rapl"]] = None

    @abstractmethod
    def open(self) -> Sequence[EnergyDevice]:
        """Returns the devices. Called before any reading, again in a child after fork(), and repeatedly
        while readings fail."""

    @abstractmethod
    def read(self, device: int) -> SourceReading:
        """Returns a reading of the device with this index in the list that open() returned."""

    def _serve(self) -> Tuple[SourceMailbox, Optional[str], str]:
        box = SourceMailbox()
        _served[box] = self
        _start(box, self)
        return box, self.vendor, self.name


def _torch_device() -> Optional[Callable[[], object]]:
    torch = importlib.import_module("torch")
    return torch.cuda.synchronize if torch.cuda.is_available() else None


def _cupy_device() -> Optional[Callable[[], object]]:
    cupy = importlib.import_module("cupy")
    return (lambda: cupy.cuda.Device().synchronize()) if cupy.cuda.is_available() else None


_SYNCHRONIZERS = {"torch": _torch_device, "cupy": _cupy_device}


def _synchronizer(sync: object) -> Callable[[], object]:
    """Returns the function that waits for the work queued on the devices, for the argument `sync` of a window."""
    if callable(sync):
        return sync
    if sync is True or sync == "auto":
        imported = [name for name in _SYNCHRONIZERS if name in sys.modules]
        if not imported:
            raise UnavailableError("sync=\"auto\" finds neither torch nor cupy imported: import one first, or pass a function")
        calls = [call for call in (_SYNCHRONIZERS[name]() for name in imported) if call is not None]
        return lambda: [call() for call in calls]
    if sync in _SYNCHRONIZERS:
        try:
            call = _SYNCHRONIZERS[sync]()
        except ImportError as error:
            raise UnavailableError(f"sync=\"{sync}\" needs the module {sync}: {error}") from error
        if call is None:
            raise UnavailableError(f"sync=\"{sync}\": {sync} has no CUDA device")
        return call
    raise InvalidArgumentError(f"sync must be a function, \"torch\", \"cupy\", \"auto\" or True; got {sync!r}")


_served: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _start(box: SourceMailbox, source: EnergySource) -> None:
    threading.Thread(target=_answer, args=(box, source), name="gpulens-source", daemon=True).start()


def _answer(box: SourceMailbox, source: EnergySource) -> None:
    """Runs the thread of a source until the monitor and its windows are gone."""
    end = box.fileno()
    while os.read(end, 64):
        request = box.take()
        if request is None:
            continue
        serial, what = request
        try:
            if what < 0:
                box.give_devices(serial, list(source.open()))
            else:
                box.give_reading(serial, source.read(what))
        except Exception as error:  # becomes the reason of the unknown values
            box.fail(serial, what < 0, f"{type(error).__name__}: {error}")


def _in_child() -> None:
    for box, source in list(_served.items()):
        box.renew()
        _start(box, source)


def _close() -> None:
    for box in list(_served):
        box.close()


os.register_at_fork(after_in_child=_in_child)
atexit.register(_close)
