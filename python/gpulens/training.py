"""Performance of a training loop: MFU and HFU, gradients, data wait, checkpoints and stragglers.

    monitor = gpulens.TrainingMonitor(num_params=70e9, tokens_per_step=4096, precision="bf16", max_norm=1.0)
    for batch in monitor.dataloader.wrap(loader):          # the wait is measured inside the loop
        with monitor.step() as step:
            step.loss = model(batch)
            step.loss.backward()
            monitor.gradients.record_step(model)
    with monitor.checkpoint.time_save(size_bytes=140e9):
        save()

The monitor writes instruments (training.mfu, training.step_time, …), which every exporter of the registry
exports. It never makes the host wait for a device: a tensor on a device is copied while kernels run, and
is read once the copy is complete. PyTorch is used when the program has imported it; plain numbers and
lists work as well.
"""
from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from typing import Any, Callable, Iterable, Iterator, Literal

from ._core import Registry, TrainingMetrics, TrainingOptions, TrainingRecorder, find_straggler
from . import job as _job
from ._tensors import Later, gradients_of, is_tensor, plain_norm, torch_module, torch_norm

Precision = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4"]

__all__ = ["TrainingMonitor", "TrainingMetrics", "DataLoaderTimer", "GradientTracker", "CheckpointTimer", "find_straggler"]


class _Step:
    """One step. Assign `loss` when it is known: a number, or a tensor of one element."""

    def __init__(self, clock):
        self._clock = clock
        self._loss = None
        self._loss_at = None

    @property
    def loss(self):
        return self._loss

    @loss.setter
    def loss(self, value):
        self._loss = value
        if self._loss_at is None:
            self._loss_at = self._clock()


class DataLoaderTimer:
    """Measures how long a loop waits for its next batch. last_wait_seconds: NaN before the first one."""

    last_wait_seconds: float = math.nan

    def __init__(self, recorder: TrainingRecorder, clock: Callable[[], float] = time.perf_counter):
        self._recorder = recorder
        self._clock = clock

    def wrap(self, loader: Iterable[Any]) -> "_TimedLoader":
        """Returns the loader with the time of its next() measured.

        The result can be iterated repeatedly, and has len() and the attributes of the loader.
        """
        return _TimedLoader(loader, self)

    wrap_dataloader = wrap

    def _batches(self, loader) -> Iterator[Any]:
        begun, wait = self._clock(), _job.DataWait()  # making the iterator starts workers: a wait, too
        try:
            batches = iter(loader)
            while True:
                try:
                    batch = next(batches)
                except StopIteration:
                    return  # that there is none left is no wait for a batch
                wait.end()
                self.last_wait_seconds = self._clock() - begun
                self._recorder.record_data_wait(self.last_wait_seconds)
                yield batch
                begun, wait = self._clock(), _job.DataWait()
        finally:
            wait.end(False)  # unless it has ended


class _TimedLoader:
    def __init__(self, loader, timer):
        self._loader = loader
        self._timer = timer

    def __iter__(self):
        return self._timer._batches(self._loader)

    def __len__(self):
        return len(self._loader)

    def __getattr__(self, name):
        return getattr(self._loader, name)


class _Checkpoint:
    def __init__(self, size_bytes: float | None):
        self.size_bytes = size_bytes  # may be set inside the block, when the size is known only there
        self.seconds = math.nan


class CheckpointTimer:
    """Measures the duration of checkpoints and, where the size is known, their rate. A block that raises
    is not recorded."""

    def __init__(self, recorder: TrainingRecorder, clock: Callable[[], float] = time.perf_counter):
        self._recorder = recorder
        self._clock = clock

    @contextlib.contextmanager
    def _time(self, record, size_bytes):
        checkpoint = _Checkpoint(size_bytes)
        begun = self._clock()
        with _job.phase("checkpoint"):
            yield checkpoint
        checkpoint.seconds = self._clock() - begun
        record(checkpoint.seconds, checkpoint.size_bytes)

    def time_save(self, size_bytes: float | None = None) -> contextlib.AbstractContextManager[_Checkpoint]:
        """Measures the block of a `with` statement that saves a checkpoint.

        The object that the `with` statement binds has size_bytes, which the block may set when the size
        becomes known only there, and, after the block, seconds.
        """
        return self._time(self._recorder.record_checkpoint_save, size_bytes)

    def time_restore(self, size_bytes: float | None = None) -> contextlib.AbstractContextManager[_Checkpoint]:
        """Measures the block of a `with` statement that restores a checkpoint, as time_save() does."""
        return self._time(self._recorder.record_checkpoint_restore, size_bytes)


class GradientTracker:
    """Computes the L2 norm of all gradients in one pass, and counts parameters with a non-finite gradient
    and clipped steps."""

    def __init__(self, recorder: TrainingRecorder, later: Later | None = None):
        self._recorder = recorder
        self._later = later or Later()

    def record_step(self, model: Any, max_norm: float | None = None, *, scale: float = 1.0) -> Any:
        """Records the gradients of a step. Call it after backward() and before clipping.

        model: an object with parameters(), or an iterable or a mapping of parameters or gradients. A
            parameter is an object with `grad`. A gradient is a tensor of PyTorch, an array (of NumPy, CuPy
            and others with ravel(), astype() and dot(): their norm is awaited), an object with norm(), a
            number, or a sequence of numbers.
        max_norm: the step counts as clipped when the norm is larger; None: the monitor's max_norm.
        scale: the factor by which a GradScaler multiplied the gradients.

        For a sharded model the norm is that of this rank's shard.

        Returns the norm over the parameters with a finite gradient: a tensor on the gradients' device
        where the gradients are tensors, else a float. Without gradients, returns None and records nothing.
        """
        gradients = list(gradients_of(model))
        if not gradients:
            return None
        norm, bad = torch_norm(gradients) if is_tensor(gradients[0]) else plain_norm(gradients)
        if scale != 1.0:
            norm = norm / scale

        def record(norm_value, bad_value):
            clipped = None if max_norm is None else norm_value > max_norm
            self._recorder.record_gradient(norm_value, int(bad_value), clipped)

        self._later.do(record, norm, bad)
        return norm


def _from_job(of_torch, variable, default):
    """Returns the value of the process group, else the value that the launcher put into the environment."""
    torch = torch_module()
    group = getattr(torch, "distributed", None)
    if group is not None and group.is_available() and group.is_initialized():
        return of_torch(group)
    text = os.environ.get(variable, "")
    return int(text) if text.isdigit() else default


def _product():
    torch = torch_module()
    if torch is not None and torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return ""


class TrainingMonitor:
    """Measures a training loop. Thread-safe, except that a step belongs to the thread that opened it.

    num_params, active_params: number of parameters of the model; for a mixture of experts active_params is
        the number used per token.
    tokens_per_step: tokens per step of the whole job, all ranks together.
    precision: the precision whose peak is used.
    gpu_count, rank: None: those of the process group, else of WORLD_SIZE and RANK.
    peak_tflops_per_gpu: dense peak in 10^12 operations per second; None: that of `product` at `precision`.
        Without a known peak there is no MFU, and mfu_reason explains why.
    product: product name of the GPU; None: the device that PyTorch uses.
    gradient_checkpointing: recomputed operations count in HFU, not in MFU.
    max_norm: norm above which gradients are clipped.
    compare_ranks_every: number of steps after which all ranks exchange their busy times; 0: never. The
        exchange is a collective call of torch.distributed, so every rank must have the same number. The
        busy time runs from the start of waiting for the batch until the loss is assigned, which no other
        rank can prolong.
    registry: by default the registry of the process.

    Raises InvalidArgumentError, which names the option.
    """

    def __init__(
        self,
        *,
        num_params: float = 0,
        active_params: float = 0,
        tokens_per_step: float = 0,
        precision: Precision = "bf16",
        gpu_count: int | None = None,
        rank: int | None = None,
        peak_tflops_per_gpu: float | None = None,
        product: str | None = None,
        gradient_checkpointing: bool = False,
        max_norm: float | None = None,
        compare_ranks_every: int = 0,
        registry: Registry | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ):
        options = TrainingOptions()
        options.num_params, options.active_params, options.tokens_per_step = num_params, active_params, tokens_per_step
        options.gpu_count = gpu_count if gpu_count is not None else _from_job(lambda g: g.get_world_size(), "WORLD_SIZE", 1)
        options.rank = rank if rank is not None else _from_job(lambda g: g.get_rank(), "RANK", 0)
        if peak_tflops_per_gpu is not None:
            options.peak_flops_per_gpu = peak_tflops_per_gpu * 1e12
        if max_norm is not None:
            options.max_norm = max_norm
        options.gradient_checkpointing = gradient_checkpointing
        product = _product() if product is None else product
        self._recorder = TrainingRecorder(options, product=product, precision=precision, registry=registry)
        self._clock = clock
        self._later = Later()
        self._compare_every = compare_ranks_every
        self._busy = _Busy()
        self.dataloader = DataLoaderTimer(self._recorder, clock)
        self.gradients = GradientTracker(self._recorder, self._later)
        self.checkpoint = CheckpointTimer(self._recorder, clock)

    @contextlib.contextmanager
    def step(self) -> Iterator[_Step]:
        """Measures a step by the host's clock. A step that raises is not counted."""
        step = _Step(self._clock)
        begun = self._clock()
        yield step
        ended = self._clock()
        loss_at = step._loss_at if step._loss_at is not None else ended
        self._busy.add(loss_at - begun + self._new_wait())
        self.record_step(ended - begun, step.loss)

    def record_step(self, seconds: float, loss: Any = None) -> None:
        """Records a step that was timed elsewhere.

        seconds: duration of the step.
        loss: a number or a tensor of one element; None: unknown.
        """
        self._recorder.record_step(seconds)
        if loss is not None:
            self.record_loss(loss)
        self._later.settle()
        if self._compare_every and self._recorder.metrics.steps % self._compare_every == 0:
            self.compare_ranks()

    def record_loss(self, loss: Any) -> None:
        """Records the loss of a step that was recorded without it: a number or a tensor of one element."""
        self._later.do(self._recorder.record_loss, loss)

    def record_data_wait(self, seconds: float) -> None:
        """Records a wait for a batch that was timed elsewhere, in seconds."""
        self._recorder.record_data_wait(seconds)

    def record_gradient(self, l2_norm: Any, nonfinite_params: int | None = None, clipped: bool | None = None) -> None:
        """Records a gradient norm that was computed elsewhere.

        l2_norm: a number or a tensor of one element.
        nonfinite_params: number of parameters with a non-finite gradient; None: unknown.
        clipped: whether the gradient was clipped; None: clipped when the norm is above max_norm.
        """
        bad = -1 if nonfinite_params is None else nonfinite_params
        self._later.do(lambda norm: self._recorder.record_gradient(norm, bad, clipped), l2_norm)

    def _new_wait(self):
        wait, self.dataloader.last_wait_seconds = self.dataloader.last_wait_seconds, math.nan
        return 0.0 if math.isnan(wait) else wait

    def compare_ranks(self) -> tuple[int, float] | None:
        """Returns the slowest rank and the ratio of its busy time to the median of all ranks, since the
        last comparison.

        Returns None without torch.distributed. Collective: every rank must call it.
        """
        group = getattr(torch_module(), "distributed", None)
        if group is None or not group.is_available() or not group.is_initialized():
            return None
        times = [None] * group.get_world_size()
        group.all_gather_object(times, self._busy.take())
        self._recorder.record_ranks(times)
        return find_straggler(times)

    def flush(self) -> None:
        """Waits for the numbers that are still being copied from a device."""
        self._later.settle(wait=True)

    @property
    def metrics(self) -> TrainingMetrics:
        """The last values. Waits for values that are still being copied from a device."""
        self.flush()
        return self._recorder.metrics

    @property
    def mfu_reason(self) -> str | None:
        """Reason why there is no MFU; None when there is one."""
        return self._recorder.mfu_reason


class _Busy:
    """Mean seconds per step since the last take()."""

    def __init__(self):
        self._lock = threading.Lock()
        self._sum, self._steps = 0.0, 0

    def add(self, seconds):
        with self._lock:
            self._sum += seconds
            self._steps += 1

    def take(self):
        with self._lock:
            mean = self._sum / self._steps if self._steps else math.nan
            self._sum, self._steps = 0.0, 0
            return mean
