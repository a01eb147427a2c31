"""The energy of a batch of requests."""
import threading
import time
import uuid
from contextlib import contextmanager
from typing import Iterator, List, Optional, Tuple

from .energy_monitor import EnergyMonitor, EnergySample
from .records import BatchMetrics

__all__ = ["BatchMetrics", "EnergyBatch"]


class _BatchContext:
    """Collects the requests of a block of EnergyBatch.sample(). Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: List[Tuple[int, float]] = []

    def record_request(self, tokens: int, prompt_tokens: int = 0, energy_joules: float = 0.0) -> None:
        """Records one request.

        tokens: all its tokens, including those of the prompt.
        prompt_tokens: the tokens of the prompt.
        energy_joules: its energy where it is known.
        """
        with self._lock:
            self._requests.append((tokens, energy_joules))

    def _taken(self) -> List[Tuple[int, float]]:
        with self._lock:
            return list(self._requests)


class EnergyBatch:
    """Counts the requests of a block, and divides the energy of the block by their number and by their
    tokens.

    Without a monitor, the energies passed with the requests are added up. `metrics` is None until the
    block ends; after a block that raises it covers the requests recorded so far.
    """

    def __init__(self, energy_monitor: Optional[EnergyMonitor] = None, batch_id: Optional[str] = None) -> None:
        self._monitor = energy_monitor
        self.batch_id = batch_id or str(uuid.uuid4())
        self.metrics: Optional[BatchMetrics] = None

    @contextmanager
    def sample(self) -> Iterator[_BatchContext]:
        """Measures the block of a `with` statement. Call record_request() of the object that it binds for
        each request."""
        context = _BatchContext()
        measured = None
        start = end = time.perf_counter()
        try:
            if self._monitor is None:
                try:
                    yield context
                finally:
                    end = time.perf_counter()
            else:
                with self._monitor.sample() as sample:
                    start = time.perf_counter()
                    try:
                        yield context
                    finally:
                        end = time.perf_counter()
                        measured = sample
        finally:
            self._finish(context, end - start, measured)

    def _finish(self, context: _BatchContext, seconds: float, measured: Optional[EnergySample]) -> None:
        requests = context._taken()
        energies = [joules for _, joules in requests]
        tokens = sum(count for count, _ in requests)
        joules, power = sum(energies), 0.0
        if measured is not None:  # filled by now: its own block has been left
            joules, power = measured.energy_joules, measured.mean_power_watts
        self.metrics = BatchMetrics(
            batch_id=self.batch_id,
            total_requests=len(requests),
            total_tokens=tokens,
            total_energy_joules=joules,
            energy_per_token_joules=joules / tokens if tokens > 0 else 0.0,
            energy_per_request_joules=joules / len(requests) if requests else 0.0,
            mean_power_watts=power,
            mean_throughput_tok_per_sec=tokens / seconds if seconds > 0 else 0.0,
            per_request_energy=energies,
        )
