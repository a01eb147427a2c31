"""Detection of the steady state of a benchmark."""
from typing import List, Optional

from ...errors import InvalidArgumentError as _InvalidArgumentError
from ...stats import SteadyStateDetector as _Detector
from .records import SteadyStateConfig, SteadyStateResult

__all__ = ["SteadyStateConfig", "SteadyStateDetector", "SteadyStateResult"]

_METRICS = ("throughput", "energy", "latency")


class SteadyStateDetector:
    """Detects when the coefficient of variation of the last values stays low. Not thread-safe.

    config.metric selects the metric that is checked. A window with a NaN or a mean that is not positive is
    never steady. Raises InvalidArgumentError for an unknown metric or an invalid window.
    """

    def __init__(self, config: Optional[SteadyStateConfig] = None):
        self.config = config or SteadyStateConfig()
        if self.config.metric not in _METRICS:
            raise _InvalidArgumentError(f"metric must be one of {', '.join(_METRICS)}; got {self.config.metric!r}")
        self._detector = _Detector(
            warmup=self.config.warmup_samples,
            window=self.config.window_size,
            consecutive=self.config.min_steady_samples,
            cv_below=self.config.cv_threshold,
        )
        self._throughputs: List[float] = []
        self._energies: List[float] = []

    def record(self, throughput: float, energy: float = 0.0, latency: float = 0.0) -> bool:
        """Records one measurement. Returns True once the steady state is reached, and from then on."""
        self._throughputs.append(throughput)
        self._energies.append(energy)
        return self._detector.record({"throughput": throughput, "energy": energy, "latency": latency}[self.config.metric])

    @property
    def result(self) -> SteadyStateResult:
        """All measurements so far: the first are warm-up, the others count as steady-state samples,
        whether the state is reached or not."""
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
        """Discards all measurements."""
        self._detector.reset()
        self._throughputs.clear()
        self._energies.clear()
