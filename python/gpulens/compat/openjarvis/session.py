"""Background sampling of power, and the energy between any two times."""
import logging
import threading
import time
from typing import Any, List, Optional, Tuple

from ..._core import PowerTrace as _PowerTrace
from .energy_monitor import EnergyMonitor
from .records import TelemetrySample

__all__ = ["TelemetrySample", "TelemetrySession"]

_log = logging.getLogger("gpulens")


class _RingBuffer:
    """The newest samples. Thread-safe; times are those of the samples."""

    def __init__(self, capacity: int) -> None:
        self._trace = _PowerTrace(capacity)

    def push(self, sample: TelemetrySample) -> None:
        """Adds a sample; ignores one that is earlier than the last."""
        s = sample
        self._trace.add(
            (s.timestamp_ns, s.gpu_power_w, s.cpu_power_w, s.gpu_energy_j, s.cpu_energy_j, s.gpu_util_pct, s.gpu_temp_c, s.gpu_mem_gb)
        )

    def window(self, start_ns: int, end_ns: int) -> List[TelemetrySample]:
        return [TelemetrySample(*row) for row in self._trace.within(start_ns, end_ns)]

    def compute_energy_delta(self, start_ns: int, end_ns: int) -> Tuple[float, float]:
        return self._trace.energy_joules(start_ns, end_ns)

    def compute_avg_power(self, start_ns: int, end_ns: int) -> Tuple[float, float]:
        return self._trace.mean_watts(start_ns, end_ns)

    def clear(self) -> None:
        self._trace.clear()

    def __len__(self) -> int:
        return len(self._trace)


class TelemetrySession:
    """Calls monitor.snapshot() every interval_ms in a thread of its own and keeps the newest buffer_size
    readings.

    Times are Unix nanoseconds, as time.time_ns() returns them, but never jump: the wall clock is read
    once, at the start. Queries are thread-safe while the session runs. A query up to the current time
    takes a closing reading, so that a span between two readings has its energy. Without a monitor the
    session does nothing.
    """

    def __init__(self, monitor: Optional[EnergyMonitor] = None, interval_ms: int = 100, buffer_size: int = 100_000) -> None:
        self._monitor = monitor
        self._interval_ms = interval_ms
        self._buffer = _RingBuffer(buffer_size)
        self._thread: Optional[threading.Thread] = None
        self._stop_event = threading.Event()
        self._reading = threading.Lock()  # one snapshot() at a time
        self._offset_ns = time.time_ns() - time.monotonic_ns()
        self._last_ns = 0

    def start(self) -> None:
        """Starts the thread; does nothing when it runs or there is no monitor."""
        if self._monitor is None or (self._thread is not None and self._thread.is_alive()):
            return
        self._stop_event = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._stop_event,), name="gpulens-session", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread after a last reading. Waits at most 2 seconds for a snapshot() that hangs."""
        if self._thread is None:
            return
        self._stop_event.set()
        self._thread.join(timeout=2.0)
        self._thread = None

    def window(self, start_ns: int, end_ns: int) -> List[TelemetrySample]:
        """Returns the readings from start_ns to end_ns, both included."""
        self._close(end_ns)
        return self._buffer.window(start_ns, end_ns)

    def energy_delta(self, start_ns: int, end_ns: int) -> Tuple[float, float]:
        """Returns the joules of (GPU, CPU): the integral of power with interpolated edges; 0.0 where
        nothing was read."""
        self._close(end_ns)
        return self._buffer.compute_energy_delta(start_ns, end_ns)

    def avg_power(self, start_ns: int, end_ns: int) -> Tuple[float, float]:
        """Returns the watts of (GPU, CPU): the mean of the readings; 0.0 without any."""
        self._close(end_ns)
        return self._buffer.compute_avg_power(start_ns, end_ns)

    def __enter__(self) -> "TelemetrySession":
        self.start()
        return self

    def __exit__(self, *exc: Any) -> None:
        self.stop()

    def _now_ns(self) -> int:
        return time.monotonic_ns() + self._offset_ns

    def _run(self, stopped: threading.Event) -> None:
        while True:
            with self._reading:
                self._read()
            if stopped.is_set():
                return
            stopped.wait(self._interval_ms / 1000)

    def _read(self) -> None:
        try:
            before = self._now_ns()
            es = self._monitor.snapshot()
            at = (before + self._now_ns()) // 2
            self._buffer.push(
                TelemetrySample(
                    timestamp_ns=at,
                    gpu_power_w=es.mean_power_watts,
                    cpu_power_w=getattr(es, "cpu_power_watts", 0.0),
                    gpu_energy_j=es.gpu_energy_joules,
                    cpu_energy_j=es.cpu_energy_joules,
                    gpu_util_pct=es.mean_utilization_pct,
                    gpu_temp_c=es.mean_temperature_c,
                    gpu_mem_gb=es.mean_memory_used_gb,
                )
            )
            self._last_ns = at
        except Exception:  # errors of a monitor end neither the thread nor its callers
            _log.debug("a snapshot failed", exc_info=True)

    def _close(self, end_ns: int) -> None:
        """Takes one more reading when the span ends after the last reading and not in the future."""
        thread = self._thread
        if thread is None or thread is threading.current_thread() or not self._last_ns < end_ns <= self._now_ns():
            return
        # The thread may be reading just now, or hang in it: then its reading has to do.
        if self._reading.acquire(timeout=self._interval_ms / 1000):
            try:
                if self._last_ns < end_ns:
                    self._read()
            finally:
                self._reading.release()
