"""The training library of the l9gpu project: measures inside the training process and exports over
OTLP/gRPC itself.

    monitor = L9GPUTrainingMonitor(
        otlp_endpoint="http://otel-collector:4317",
        num_params=70_000_000_000,
        tokens_per_step=4096,
        gpu_count=8,
        peak_tflops_per_gpu=989.0,  # H100 BF16
    )
    for batch in monitor.wrap_dataloader(loader):
        ...
        monitor.gradients.record_step(model, max_norm=1.0)
        monitor.emit_step(loss, step_time)

Exports every 30 seconds, and once more when the interpreter exits, also after an exception. Needs neither
an agent nor PyTorch. Each monitor has a registry of its own, which nothing else exports, and all features
of gpulens.TrainingMonitor.

docs/compat.md lists what differs from the original, with the reasons.
"""
from __future__ import annotations

import atexit
import math
import weakref
from typing import Any, Iterable, Mapping

from .... import training as _training
from ...._core import Registry
from ....efficiency import mfu as _mfu
from ....efficiency import training_flops as _training_flops
from ....export import export_otlp
from ..schemas import TrainingMetrics
from .hooks import CheckpointTimer, DataLoaderTimer, GradientTracker
from .hooks import known as _known
from .mfu import compute_mfu, compute_tflops, peak_tflops

__all__ = [
    "L9GPUTrainingMonitor",
    "GradientTracker",
    "DataLoaderTimer",
    "CheckpointTimer",
    "compute_mfu",
    "compute_tflops",
    "peak_tflops",
]

_monitors: "weakref.WeakSet[L9GPUTrainingMonitor]" = weakref.WeakSet()


def _settle_all() -> None:
    for monitor in list(_monitors):
        try:
            monitor.flush()
        except Exception:  # a device that failed ends the program; what it still owed is not known, the rest is sent
            pass


class L9GPUTrainingMonitor(_training.TrainingMonitor):
    """Measures a training job and exports the result to an OTLP receiver over gRPC. Thread-safe.

    otlp_endpoint: "http://HOST:4317", or https; "": OTEL_EXPORTER_OTLP_ENDPOINT, else localhost.
    num_params: number of parameters of the model.
    tokens_per_step, gpu_count: those of the whole job.
    peak_tflops_per_gpu: dense peak in 10^12 operations per second; None: peak_tflops() of the device that
        PyTorch uses, and an error when that is unknown.
    gradient_checkpointing: recomputed operations count in training.hfu.
    service_name: service.name of the resource.
    flush_seconds: time between two exports.
    timeout_seconds: limit of one export.
    ca_file, client_certificate_file, client_key_file, headers: as in gpulens.export_otlp.
    options: further options of gpulens.TrainingMonitor (max_norm, rank, active_params, …).

    Members: gradients (a GradientTracker), dataloader (a DataLoaderTimer of the loader passed to
    wrap_dataloader()), checkpoint (a CheckpointTimer), registry, exporter.

    Raises InvalidArgumentError, which names the option, and UnavailableError where the package was built
    without gRPC.
    """

    gradients: GradientTracker
    dataloader: DataLoaderTimer
    checkpoint: CheckpointTimer

    def __init__(
        self,
        otlp_endpoint: str = "",
        num_params: float = 0,
        tokens_per_step: float = 0,
        gpu_count: int = 1,
        peak_tflops_per_gpu: float | None = None,
        gradient_checkpointing: bool = False,
        service_name: str = "l9gpu-training",
        *,
        flush_seconds: float = 30.0,
        timeout_seconds: float = 5.0,
        ca_file: str = "",
        client_certificate_file: str = "",
        client_key_file: str = "",
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ):
        if peak_tflops_per_gpu is None:
            product = options.get("product") or _training._product()
            peak_tflops_per_gpu = peak_tflops(product, options.get("precision"))
        self.registry = Registry()
        super().__init__(
            num_params=num_params,
            tokens_per_step=tokens_per_step,
            gpu_count=gpu_count,
            peak_tflops_per_gpu=peak_tflops_per_gpu,
            gradient_checkpointing=gradient_checkpointing,
            registry=self.registry,
            **options,
        )
        self._peak_flops, self._gpu_count = peak_tflops_per_gpu * 1e12, gpu_count
        self._flops_per_step = _training_flops(options.get("active_params") or num_params, tokens_per_step)
        self.dataloader = DataLoaderTimer(recorder=self._recorder, clock=self._clock)
        self.gradients = GradientTracker(self._recorder, self._later)
        self.checkpoint = CheckpointTimer(self._recorder, clock=self._clock)
        # As gRPC's own clients take it: HOST:PORT without a scheme is in the clear.
        if otlp_endpoint and "://" not in otlp_endpoint:
            otlp_endpoint = "http://" + otlp_endpoint
        self.exporter = export_otlp(
            otlp_endpoint,
            protocol="grpc",
            service_name=service_name,
            headers=headers,
            ca_file=ca_file,
            client_certificate_file=client_certificate_file,
            client_key_file=client_key_file,
            interval_seconds=flush_seconds,
            timeout_seconds=timeout_seconds,
            registry=self.registry,
        )
        _monitors.add(self)
        # Registered again, so that it runs before the last export: exit handlers run in reverse order.
        atexit.unregister(_settle_all)
        atexit.register(_settle_all)

    def wrap_dataloader(self, dataloader: Iterable[Any]) -> DataLoaderTimer:
        """Sets the loader of `dataloader` and returns `dataloader`: for batch in monitor.dataloader."""
        self.dataloader._loader = dataloader
        return self.dataloader

    def collect(self, loss: Any = None, step_time: float | None = None) -> TrainingMetrics:
        """Returns the metrics of a step of `step_time` seconds together with the last values of all other
        metrics. Records nothing.

        Fields are None where a value is unknown. Waits for values that are still being copied from a
        device.
        """
        last, flops = self.metrics, self._flops_per_step
        timed = step_time is not None and step_time > 0 and flops > 0
        used = _mfu(flops, step_time, peak_flops=self._peak_flops, gpu_count=self._gpu_count) if timed else math.nan
        return TrainingMetrics(
            mfu=_known(used),
            tflops=flops / step_time / 1e12 if timed else None,
            step_time=step_time,
            gradient_norm=_known(last.gradient_norm),
            gradient_nan_count=self.gradients.gradient_nan_count,
            gradient_clip_rate=_known(last.gradient_clip_ratio),
            training_loss=None if loss is None else float(loss),
            dataloader_wait=_known(last.data_wait_seconds),
            checkpoint_save_duration=_known(last.checkpoint_save_seconds),
            checkpoint_save_bandwidth=_known(last.checkpoint_save_bytes_per_second),
            checkpoint_restore_duration=_known(last.checkpoint_restore_seconds),
        )

    def emit_step(self, loss: Any = None, step_time: float | None = None) -> TrainingMetrics:
        """Records a step of `step_time` seconds, which the next flush exports, and returns its metrics.

        loss: a number or a tensor of one element (waits for a tensor on a device); None: unknown.
        step_time: None: unknown, and only the loss is recorded.
        """
        if step_time is not None:
            self.record_step(step_time, loss)
        elif loss is not None:
            self.record_loss(loss)
        return self.collect(loss, step_time)

    def close(self) -> None:
        """Exports once more, for at most a second, and stops exporting. May be called twice."""
        self.flush()
        self.exporter.close()

    def __enter__(self) -> "L9GPUTrainingMonitor":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
