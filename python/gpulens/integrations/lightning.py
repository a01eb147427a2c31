"""Callback for Lightning:

    from gpulens.integrations.lightning import GpulensCallback
    trainer = Trainer(callbacks=[GpulensCallback(tokens_per_step=4096)])
"""
from __future__ import annotations

import time
from typing import Any

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from ..training import TrainingMonitor
from ._steps import StepTimes

__all__ = ["GpulensCallback"]


class GpulensCallback(Callback):
    """Records the steps of a Lightning Trainer.

    monitor: the TrainingMonitor to use; None: one is created when training begins, with the number of the
        model's parameters.
    tokens_per_step: tokens per step of the whole job; 0: unknown, and there is no MFU.

    Further options are those of gpulens.TrainingMonitor.
    """

    def __init__(self, monitor: TrainingMonitor | None = None, *, tokens_per_step: float = 0, clock=time.perf_counter, **options: Any):
        super().__init__()
        self.monitor = monitor
        self._options = {"tokens_per_step": tokens_per_step, **options}
        self._times = StepTimes(clock)

    def on_train_start(self, trainer, pl_module):
        if self.monitor is None:
            options = dict(self._options)
            options.setdefault("num_params", sum(p.numel() for p in pl_module.parameters()))
            clip = getattr(trainer, "gradient_clip_val", None)
            options.setdefault("max_norm", clip if clip else None)
            options.setdefault("gpu_count", max(1, getattr(trainer, "world_size", 1)))
            options.setdefault("rank", getattr(trainer, "global_rank", 0))
            self.monitor = TrainingMonitor(**options)
        self._times.resume()

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self._times.begin(self.monitor)

    def on_before_optimizer_step(self, trainer, pl_module, optimizer, *_):
        self.monitor.gradients.record_step(pl_module)

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, *_):
        self._times.end(self.monitor, outputs.get("loss") if isinstance(outputs, dict) else outputs)

    def on_validation_end(self, trainer, pl_module):
        self._times.resume()
