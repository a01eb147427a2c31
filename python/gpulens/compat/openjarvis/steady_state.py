"""Whether a benchmark has settled."""
from typing import List, Optional

from ...errors import InvalidArgumentError as _InvalidArgumentError
from ...stats import SteadyStateDetector as _Detector
from .records import SteadyStateConfig, SteadyStateResult

__all__ = ["SteadyStateConfig", "SteadyStateDetector", "SteadyStateResult"]

_METRICS = ("throughput", "energy", "latency")


class SteadyStateDetector:
    """Settled once the coefficient of variation of the last values stays low. One thread at a time.

    The metric that config.metric names decides; a NaN or a mean that is not positive is never settled. Raises
    InvalidArgumentError for a metric or a window that is none.
    """

    def __init__(self, config: Optional[SteadyStateConfig] = None):
        self.config = config or SteadyStateConfig()
        if self.config.metric not in _METRICS:
            raise _InvalidArgumentError(f"metric is one of {', '.join(_METRICS)}; got {self.config.metric!r}")
        self._detector = _Detector(
            warmup=self.config.warmup_samples,
            window=self.config.window_size,
            consecutive=self.config.min_steady_samples,
            cv_below=self.config.cv_threshold,
        )
        self._throughputs: List[float] = []
        self._energies: List[float] = []

    def record(self, throughput: float, energy: float = 0.0, latency: float = 0.0) -> bool:
        """Takes one measurement. True when it is settled with this one, and from then on."""
        self._throughputs.append(throughput)
        self._energies.append(energy)
        return self._detector.record({"throughput": throughput, "energy": energy, "latency": latency}[self.config.metric])

    @property
    def result(self) -> SteadyStateResult:
        """All so far: the first are warm-up, the others count as steady-state samples, settled or not."""
        warm = min(self.config.warmup_samples, len(self._throughputs))
        return SteadyStateResult(
            total_samples=len(self._throughputs),
            warmup_samples=warm,
            steady_state_samples=len(self._throughputs) - warm,
            steady_state_reached=self._detector.steady,
            warmup_throughputs=self._throughputs[:warm],
            warmup_energies=self._energies[:warm],
            steady_throughputs=self._throughputs[warm:],
            steady_energies=self._energies[warm:],
        )

    def reset(self) -> None:
        """Begins anew."""
        self._detector.reset()
        self._throughputs.clear()
        self._energies.clear()
