"""MFU by the formula of the PaLM paper, and dense peaks of GPUs."""
from __future__ import annotations

import math

from ....efficiency import find_gpu_spec, mfu, training_flops
from ....errors import InvalidArgumentError

__all__ = ["compute_mfu", "compute_tflops", "get_peak_tflops", "peak_tflops"]

_RECOMPUTED = 4 / 3  # with checkpointing the forward pass, a third of the work, is done twice


def peak_tflops(product: str, precision: str | None = None) -> float:
    """Returns the dense peak of a GPU, in 10^12 operations per second, by its driver's product name
    ("NVIDIA H100 80GB HBM3").

    precision: "bf16", "fp16", "fp8", …; None: bf16, or fp16 for a product that has no bf16 (V100, T4).

    gpulens.find_gpu_spec(product) has the source of the figure. Raises InvalidArgumentError for a name
    that is not in the table, and for a figure that is not published; nothing is guessed.
    """
    spec = find_gpu_spec(product)
    if spec is None:
        raise InvalidArgumentError(f'GPU "{product}" is not in the hardware table; give peak_tflops_per_gpu')
    names = [precision] if precision else ["bf16", "fp16"]
    for one in names:
        peak = spec.peak_flops(one)
        if not math.isnan(peak):
            return peak / 1e12
    raise InvalidArgumentError(f"no {' or '.join(names)} peak is published for {product}; give peak_tflops_per_gpu")


def get_peak_tflops(gpu_model: str) -> float | None:
    """Returns peak_tflops() of the model, or None where it is unknown."""
    try:
        return peak_tflops(gpu_model)
    except InvalidArgumentError:
        return None


def compute_tflops(
    num_params: float, tokens_per_step: float, step_time_seconds: float, gradient_checkpointing: bool = False
) -> float:
    """Returns the rate of the whole job in 10^12 operations per second: 6 operations for each parameter
    and token.

    gradient_checkpointing: recomputed operations count, too.

    Returns NaN where step_time_seconds is not positive.
    """
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
    """Returns 6 * num_params * tokens_per_step / (step_time_seconds * gpu_count * peak), a ratio.

    gradient_checkpointing: recomputed operations count, too, so the result is the HFU; the MFU of a
        monitor excludes them.

    Returns 0.0 without a peak, and NaN where step_time_seconds is not positive.
    """
    if not peak_tflops_per_gpu > 0:
        return 0.0
    flops = training_flops(num_params, tokens_per_step) * (_RECOMPUTED if gradient_checkpointing else 1)
    return mfu(flops, step_time_seconds, peak_flops=peak_tflops_per_gpu * 1e12, gpu_count=gpu_count)
