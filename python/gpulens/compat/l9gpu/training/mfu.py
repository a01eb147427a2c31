"""MFU by the formula of the PaLM paper, and the dense peaks of GPUs."""
from __future__ import annotations

import math

from ....efficiency import find_gpu_spec, mfu, training_flops
from ....errors import InvalidArgumentError

__all__ = ["compute_mfu", "compute_tflops", "get_peak_tflops", "peak_tflops"]

_RECOMPUTED = 4 / 3  # with checkpointing the forward pass, a third of the work, is done twice


def peak_tflops(product: str, precision: str | None = None) -> float:
    """The dense peak of a GPU, 10^12 operations a second, by the name that its driver tells ("NVIDIA H100 80GB HBM3").

    precision: "bf16", "fp16", "fp8" …; None: bf16, or fp16 of a product that has no bf16 (V100, T4).
    gpulens.find_gpu_spec(product) has the source of the figure. Raises InvalidArgumentError for a name that is not in the table,
    and for a figure that is not published: nothing is guessed.
    """
    spec = find_gpu_spec(product)
    if spec is None:
        raise InvalidArgumentError(f'"{product}" is not in the table of hardware; give peak_tflops_per_gpu')
    asked = [precision] if precision else ["bf16", "fp16"]
    for one in asked:
        peak = spec.peak_flops(one)
        if not math.isnan(peak):
            return peak / 1e12
    raise InvalidArgumentError(f"no {' or '.join(asked)} peak of {product} is published; give peak_tflops_per_gpu")


def get_peak_tflops(gpu_model: str) -> float | None:
    """As peak_tflops(); None for what is not known."""
    try:
        return peak_tflops(gpu_model)
    except InvalidArgumentError:
        return None


def compute_tflops(
    num_params: float, tokens_per_step: float, step_time_seconds: float, gradient_checkpointing: bool = False
) -> float:
    """10^12 operations a second of the whole job: 6 for each parameter and token. gradient_checkpointing: recomputed ones count,
    too. NaN without a time."""
    flops = training_flops(num_params, tokens_per_step) * (_RECOMPUTED if gradient_checkpointing else 1)
    return flops / step_time_seconds / 1e12 if step_time_seconds > 0 else math.nan


def compute_mfu(
    num_params: float,
    tokens_per_step: float,
    step_time_seconds: float,
    gpu_count: int,
    peak_tflops_per_gpu: float,
    gradient_checkpointing: bool = False,
) -> float:
    """6 * num_params * tokens_per_step / (step_time_seconds * gpu_count * peak), a ratio. gradient_checkpointing: recomputed
    operations count, too, which is the HFU; a monitor's MFU is without them. 0.0 without a peak, NaN without a time."""
    if not peak_tflops_per_gpu > 0:
        return 0.0
    flops = training_flops(num_params, tokens_per_step) * (_RECOMPUTED if gradient_checkpointing else 1)
    return mfu(flops, step_time_seconds, peak_flops=peak_tflops_per_gpu * 1e12, gpu_count=gpu_count)
