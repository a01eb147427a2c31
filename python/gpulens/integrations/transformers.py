"""Callback for the Trainer of Hugging Face Transformers:

    from gpulens.integrations.transformers import GpulensCallback
    trainer = Trainer(model, args, callbacks=[GpulensCallback()])

Steps, loss, gradient norm and learning progress are recorded where the Trainer reports them; missing
values are not estimated.
"""
from __future__ import annotations

import time
from typing import Any

from transformers import TrainerCallback

from ..training import TrainingMonitor
from ._steps import StepTimes

__all__ = ["GpulensCallback"]


class GpulensCallback(TrainerCallback):
    """Records the steps of a Hugging Face Trainer.

    monitor: the TrainingMonitor to use; None: one is created from the model and the training arguments
        when training begins. The model's parameters are counted.
    tokens_per_step: tokens per step of the whole job; 0: unknown, and there is no MFU.

    Further options are those of gpulens.TrainingMonitor.
    """

    def __init__(self, monitor: TrainingMonitor | None = None, *, tokens_per_step: float = 0, clock=time.perf_counter, **options: Any):
        self.monitor = monitor
        self._options = {"tokens_per_step": tokens_per_step, **options}
        self._times = StepTimes(clock)

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        if self.monitor is None:
            options = dict(self._options)
            if model is not None:
                options.setdefault("num_params", sum(p.numel() for p in model.parameters()))
            options.setdefault("gradient_checkpointing", bool(getattr(args, "gradient_checkpointing", False)))
            norm = getattr(args, "max_grad_norm", None)
            options.setdefault("max_norm", norm if norm else None)
            options.setdefault("precision", "bf16" if getattr(args, "bf16", False) else "fp16" if getattr(args, "fp16", False) else "fp32")
            self.monitor = TrainingMonitor(**options)
        self._times.resume()

    def on_step_begin(self, args, state, control, **kwargs):
        self._times.begin(self.monitor)

    def on_step_end(self, args, state, control, **kwargs):
        self._times.end(self.monitor)

    def on_log(self, args, state, control, logs=None, **kwargs):
        logs = logs or {}
        if "loss" in logs:
            self.monitor.record_loss(logs["loss"])
        if "grad_norm" in logs:
            self.monitor.record_gradient(logs["grad_norm"])

    def on_evaluate(self, args, state, control, **kwargs):
        self._times.resume()  # an evaluation is no wait for data

    def on_save(self, args, state, control, **kwargs):
        self._times.resume()  # nor is a checkpoint, whose time the Trainer does not report
