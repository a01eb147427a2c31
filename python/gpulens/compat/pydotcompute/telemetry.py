"""KernelTelemetry and TelemetryCollector as PyDotCompute documents them, and RingKernelTelemetry as its
code has it."""
import dataclasses
import math
import time
from typing import Any, Dict, Optional

from ..._core import KernelRecorder
from ..._core import TelemetryCollector as _Collector
from ...ring.states import KernelState
from .gpu_monitor import GPUMonitor

__all__ = ["KernelTelemetry", "RingKernelTelemetry", "TelemetryCollector"]


@dataclasses.dataclass
class KernelTelemetry:
    """Telemetry of one kernel. Instances from a runtime or a collector are live: every attribute is the
    current value."""

    kernel_id: str
    state: KernelState
    messages_received: int = 0
    messages_sent: int = 0
    messages_processed: int = 0
    errors: int = 0
    start_time: Optional[float] = None
    last_message_time: Optional[float] = None

    @property
    def throughput(self) -> float:
        """Processed messages per second of the uptime; 0.0 without an uptime."""
        uptime = self.uptime
        return self.messages_processed / uptime if uptime > 0 else 0.0

    @property
    def uptime(self) -> float:
        """Seconds since the kernel started; 0.0 before."""
        return 0.0 if self.start_time is None else max(0.0, time.time() - self.start_time)

    @property
    def error_rate(self) -> float:
        """Errors per processed message; 1.0 when there are only errors."""
        if self.messages_processed:
            return self.errors / self.messages_processed
        return 1.0 if self.errors else 0.0


def _known(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def _nanoseconds(seconds: float) -> int:
    return round(_known(seconds) * 1e9)


def _mean_ns(latencies: Any) -> float:
    return _nanoseconds(latencies.sum) / latencies.n if latencies.n else 0.0


def _read(name: str) -> property:
    return property(lambda self: getattr(self._now(), name))


class LiveTelemetry(KernelTelemetry):
    """Current telemetry of a kernel, under the names of KernelTelemetry, of RingKernelTelemetry and of the
    native API: wait_seconds, service_seconds, throughput_10s and so on."""

    def __init__(self, recorder: KernelRecorder):
        self.__dict__["_recorder"] = recorder

    def _now(self) -> Any:
        return self._recorder.telemetry()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._now(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} is read-only")

    __hash__ = object.__hash__

    kernel_id = _read("kernel_id")
    state = _read("state")
    messages_received = _read("messages_received")
    messages_sent = _read("messages_sent")
    messages_processed = _read("messages_processed")
    errors = _read("errors")
    start_time = _read("start_time")
    last_message_time = _read("last_message_time")
    throughput = _read("throughput")
    uptime = _read("uptime")
    error_rate = _read("error_rate")

    # The names of the code there.
    messages_dropped = _read("dropped")
    error_count = _read("errors")
    uptime_seconds = _read("uptime")
    total_latency_ns = property(lambda self: _nanoseconds(self._now().service_seconds.sum))
    max_latency_ns = property(lambda self: _nanoseconds(self._now().service_seconds.max))
    min_latency_ns = property(lambda self: _nanoseconds(self._now().service_seconds.min))
    avg_latency_ns = property(lambda self: _mean_ns(self._now().service_seconds))
    avg_latency_ms = property(lambda self: self.avg_latency_ns / 1e6)

    def record_message(self, latency_ns: int) -> None:
        """Counts a message that took latency_ns nanoseconds."""
        self._recorder.processed(latency_ns * 1e-9)

    def record_drop(self) -> None:
        """Counts a dropped message."""
        self._recorder.drop("rejected")

    def record_error(self, error: str) -> None:
        """Counts an error."""
        self._recorder.error(error)

    def to_dict(self) -> Dict[str, Any]:
        """Returns the eleven values of RingKernelTelemetry.to_dict."""
        return {name: getattr(self, name) for name in _REPORTED}


@dataclasses.dataclass
class RingKernelTelemetry:
    """Latencies and counts that a program maintains itself; independent of any collector, and not
    thread-safe."""

    kernel_id: str = ""
    messages_processed: int = 0
    messages_dropped: int = 0
    queue_depth: int = 0
    total_latency_ns: int = 0
    max_latency_ns: int = 0
    min_latency_ns: int = 0
    error_count: int = 0
    last_error: Optional[str] = None
    uptime_seconds: float = 0.0

    @property
    def avg_latency_ns(self) -> float:
        """Mean latency in nanoseconds; 0.0 without messages."""
        return self.total_latency_ns / self.messages_processed if self.messages_processed else 0.0

    @property
    def avg_latency_ms(self) -> float:
        """Mean latency in milliseconds; 0.0 without messages."""
        return self.avg_latency_ns / 1e6

    @property
    def throughput(self) -> float:
        """Messages per second of the uptime; 0.0 without an uptime."""
        return self.messages_processed / self.uptime_seconds if self.uptime_seconds else 0.0

    def record_message(self, latency_ns: int) -> None:
        """Counts a message that took latency_ns nanoseconds. A latency of 0 counts as a measurement."""
        self.min_latency_ns = latency_ns if self.messages_processed == 0 else min(self.min_latency_ns, latency_ns)
        self.max_latency_ns = max(self.max_latency_ns, latency_ns)
        self.messages_processed += 1
        self.total_latency_ns += latency_ns

    def record_drop(self) -> None:
        """Counts a dropped message."""
        self.messages_dropped += 1

    def record_error(self, error: str) -> None:
        """Counts an error and stores it as the last one."""
        self.error_count += 1
        self.last_error = error

    def reset(self) -> None:
        """Resets everything but the ID."""
        self.__init__(self.kernel_id)

    def to_dict(self) -> Dict[str, Any]:
        """Returns the eleven values, for JSON."""
        return {name: getattr(self, name) for name in _REPORTED}


_REPORTED = (
    "kernel_id",
    "messages_processed",
    "messages_dropped",
    "queue_depth",
    "avg_latency_ms",
    "max_latency_ns",
    "min_latency_ns",
    "throughput",
    "error_count",
    "last_error",
    "uptime_seconds",
)


class TelemetryCollector:
    """Collects the telemetry of kernels. Thread-safe.

    enabled: False records nothing.
    """

    def __init__(self, enabled: bool = True) -> None:
        self._native = _Collector(enabled)
        self._live: Dict[str, LiveTelemetry] = {}
        self._gpus: Optional[GPUMonitor] = None
        self._began = time.monotonic()

    @property
    def enabled(self) -> bool:
        """Whether telemetry is recorded."""
        return self._native.enabled

    def kernel(self, kernel_id: str) -> KernelRecorder:
        """Returns the recorder of one kernel, for a runtime."""
        return self._native.kernel(kernel_id)

    def record_receive(self, kernel_id: str) -> None:
        """Counts a message that entered the kernel's queue."""
        self._native.record_receive(kernel_id)

    def record_send(self, kernel_id: str) -> None:
        """Counts a reply of the kernel; the first one for a received message counts that message as
        processed."""
        self._native.record_send(kernel_id)

    def record_processed(self, kernel_id: str, latency_ns: Optional[int] = None) -> None:
        """Counts a processed message where its replies do not count it.

        latency_ns: its latency in nanoseconds; None: unknown.
        """
        self._native.record_processed(kernel_id, float("nan") if latency_ns is None else latency_ns * 1e-9)

    def record_error(self, kernel_id: str, error: Any = None) -> None:
        """Counts an error while the kernel worked on a message: an exception or a text."""
        self._native.record_error(kernel_id, error)

    def get_telemetry(self, kernel_id: str) -> Optional[KernelTelemetry]:
        """Returns the kernel's live telemetry; None for an unknown kernel, or while telemetry is off."""
        if self._native.get_telemetry(kernel_id) is None:
            self._live.pop(kernel_id, None)
            return None
        live = self._live.get(kernel_id)
        if live is None or live.state is KernelState.TERMINATED:
            # One that has ended keeps its numbers, and a new one of its name has its own.
            live = self._live[kernel_id] = LiveTelemetry(self._native.find(kernel_id))
        return live

    def get_all_telemetry(self) -> Dict[str, KernelTelemetry]:
        """Returns the live telemetry of all kernels, by ID."""
        return {kernel_id: self.get_telemetry(kernel_id) for kernel_id in self._native.get_all_telemetry()}

    def get_summary(self) -> Dict[str, Any]:
        """Returns kernel_count, total_messages (processed), total_errors, aggregate_throughput and
        per_kernel, and, under the names of PyDotCompute's code, total_messages_processed,
        total_messages_dropped, uptime_seconds and gpu_utilization.

        Computed on each call.
        """
        summary = self._native.get_summary()
        for row in summary["per_kernel"].values():
            for name, value in row.items():
                if value != value:  # NaN
                    row[name] = 0.0
        summary["total_messages_processed"] = summary["total_messages"]
        summary["total_messages_dropped"] = summary["total_dropped"]
        summary["uptime_seconds"] = time.monotonic() - self._began
        if self._gpus is None:
            self._gpus = GPUMonitor()
        summary["gpu_utilization"] = self._gpus.get_utilization() if self._gpus.is_available else None
        return summary

    def reset(self, kernel_id: Optional[str] = None) -> None:
        """Resets the counts and throughput of a kernel; None: of all kernels. start_time is kept."""
        self._native.reset(kernel_id)

    # The names of the code there.

    def register_kernel(self, kernel_id: str) -> Optional[KernelTelemetry]:
        """Registers a kernel and returns its telemetry, always the same object."""
        self._native.kernel(kernel_id)
        return self.get_telemetry(kernel_id)

    def unregister_kernel(self, kernel_id: str) -> None:
        """Marks the kernel as terminated; its telemetry is kept until a reset. Does nothing for an unknown
        kernel."""
        if self._native.get_telemetry(kernel_id) is not None:
            self._native.kernel(kernel_id).set_state(KernelState.TERMINATED)

    def get_kernel_telemetry(self, kernel_id: str) -> Optional[KernelTelemetry]:
        """Same as get_telemetry()."""
        return self.get_telemetry(kernel_id)

    def reset_all(self) -> None:
        """Resets all kernels and the collector's own uptime."""
        self.reset()
        self._began = time.monotonic()
