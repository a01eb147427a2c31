"""What the callbacks share: the times of steps, as a framework tells of them."""
from __future__ import annotations

from typing import Any, Callable

from ..training import TrainingMonitor


class StepTimes:
    """Between two steps a framework does little but fetch the next batch: that time is the wait for data."""

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self._begun: float | None = None
        self._ended: float | None = None

    def begin(self, monitor: TrainingMonitor) -> None:
        self._begun = self._clock()
        if self._ended is not None:
            monitor.record_data_wait(self._begun - self._ended)

    def end(self, monitor: TrainingMonitor, loss: Any = None) -> None:
        """The end of a step; one that never began is none."""
        self._ended = self._clock()
        if self._begun is not None:
            monitor.record_step(self._ended - self._begun, loss)
            self._begun = None

    def resume(self) -> None:
        """What lay before was something else: an evaluation, a checkpoint."""
        self._ended = self._clock()
