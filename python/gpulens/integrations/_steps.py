"""Step timing shared by the callbacks."""
from __future__ import annotations

from typing import Any, Callable

from ..training import TrainingMonitor


class StepTimes:
    """Times steps from begin and end notifications.

    Between two steps a framework does little but fetch the next batch, so that time counts as data wait.
    """

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self._begun: float | None = None
        self._ended: float | None = None

    def begin(self, monitor: TrainingMonitor) -> None:
        self._begun = self._clock()
        if self._ended is not None:
            monitor.record_data_wait(self._begun - self._ended)

    def end(self, monitor: TrainingMonitor, loss: Any = None) -> None:
        """Ends a step; ignored for a step that never began."""
        self._ended = self._clock()
        if self._begun is not None:
            monitor.record_step(self._ended - self._begun, loss)
            self._begun = None

    def resume(self) -> None:
        """Starts a new data wait after an evaluation or a checkpoint."""
        self._ended = self._clock()
