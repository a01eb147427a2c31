"""Measurements in a training loop: gradients, data wait and checkpoints. Each class is usable without a
monitor."""
from __future__ import annotations

import math
from contextlib import AbstractContextManager
from typing import Any, Iterable, Iterator

from .... import training as _training
from ...._core import Registry, TrainingOptions, TrainingRecorder
from ...._tensors import Later
from ....errors import InvalidArgumentError

__all__ = ["CheckpointTimer", "DataLoaderTimer", "GradientTracker"]


def known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _alone() -> TrainingRecorder:
    """Returns a recorder for a tracker without a monitor: its values can be read, and are exported
    nowhere."""
    return TrainingRecorder(TrainingOptions(), product="", precision="bf16", registry=Registry())


class GradientTracker(_training.GradientTracker):
    """Computes the L2 norm of all gradients, the number of parameters whose gradient is NaN or infinite,
    and the fraction of clipped steps.

    Call record_step(model, max_norm) after backward() and before clipping. Usable without a monitor.
    """

    def __init__(self, recorder: TrainingRecorder | None = None, later: Later | None = None):
        super().__init__(recorder or _alone(), later)

    def _metrics(self):
        self._later.settle(wait=True)
        return self._recorder.metrics

    @property
    def gradient_norm(self) -> float | None:
        """Norm of the last step, before clipping; None before the first step."""
        return known(self._metrics().gradient_norm)

    @property
    def gradient_nan_count(self) -> int | None:
        """Number of parameters of the last step whose gradient is NaN or infinite; None before the first
        step."""
        count = known(self._metrics().gradient_nonfinite_params)
        return None if count is None else int(count)

    @property
    def gradient_clip_rate(self) -> float | None:
        """Fraction of clipped steps among all steps recorded with a max_norm, 0 to 1; None before the
        first one."""
        return known(self._metrics().gradient_clip_ratio)


class DataLoaderTimer(_training.DataLoaderTimer):
    """Measures how long a loop waits for its next batch.

    Use it as `for batch in DataLoaderTimer(loader)`, or, with an existing timer, as `for batch in
    timer.wrap_dataloader(loader)`. last_wait_seconds is None before the first batch.
    """

    last_wait_seconds: float | None = None  # type: ignore[assignment]

    def __init__(self, dataloader: Iterable[Any] | None = None, *, recorder: TrainingRecorder | None = None, **options: Any):
        super().__init__(recorder or _alone(), **options)
        self._loader = dataloader

    def __iter__(self) -> Iterator[Any]:
        if self._loader is None:
            raise InvalidArgumentError("no data loader is set; pass it to DataLoaderTimer() or to the monitor's wrap_dataloader()")
        return self._batches(self._loader)

    def __len__(self) -> int:
        return len(self._loader)

    def __bool__(self) -> bool:
        return True  # also without a loader, and with an empty one

    @property
    def dataloader_wait(self) -> float | None:
        """Wait for the last batch in seconds; None before the first batch."""
        return known(self._recorder.metrics.data_wait_seconds)


class CheckpointTimer(_training.CheckpointTimer):
    """Measures checkpoints: `with timer.time_save(size_bytes)`, `with timer.time_restore()`. Usable
    without a monitor."""

    def __init__(self, recorder: TrainingRecorder | None = None, **options: Any):
        super().__init__(recorder or _alone(), **options)

    @property
    def checkpoint_save_duration(self) -> float | None:
        """Duration of the last save in seconds; None before the first one."""
        return known(self._recorder.metrics.checkpoint_save_seconds)

    @property
    def checkpoint_save_bandwidth(self) -> float | None:
        """Bytes per second of the last save whose size was known; None before the first one."""
        return known(self._recorder.metrics.checkpoint_save_bytes_per_second)

    @property
    def checkpoint_restore_duration(self) -> float | None:
        """Duration of the last restore in seconds; None before the first one."""
        return known(self._recorder.metrics.checkpoint_restore_seconds)

    last_save_duration = checkpoint_save_duration
    last_save_bandwidth = checkpoint_save_bandwidth
    last_restore_duration = checkpoint_restore_duration

    def time_save(self, checkpoint_size_bytes: float | None = None) -> AbstractContextManager[Any]:
        """Measures the block of a `with` statement that saves a checkpoint.

        The object that the `with` statement binds has size_bytes, which the block may set when the size
        becomes known only there.
        """
        return super().time_save(checkpoint_size_bytes)
