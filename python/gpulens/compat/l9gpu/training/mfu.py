"""MFU by the formula of the PaLM paper, and dense peaks of GPUs."""
from __future__ import annotations

import math

from ....efficiency import find_gpu_spec, mfu, training_flops
from ....errors import InvalidArgumentError

__all__ = ["GPU_PEAK_TFLOPS", "compute_mfu", "compute_tflops", "get_peak_tflops", "peak_tflops"]

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


# l9gpu's names of GPUs, and the product that each means in the table of gpulens.
_PRODUCTS = {
    "H100 SXM5": "NVIDIA H100 80GB HBM3",
    "H100 PCIe": "NVIDIA H100 PCIe",
    "H200 SXM5": "NVIDIA H200",
    "L4": "NVIDIA L4",
    "L40S": "NVIDIA L40S",
    "A100 SXM4 40GB": "NVIDIA A100-SXM4-40GB",
    "A100 SXM4 80GB": "NVIDIA A100-SXM4-80GB",
    "A100 PCIe 40GB": "NVIDIA A100-PCIE-40GB",
    "A10G": "NVIDIA A10G",
    "A10": "NVIDIA A10",
    "B200 SXM6": "NVIDIA B200",
    "T4": "Tesla T4",
    "V100 SXM2": "Tesla V100-SXM2-16GB",
}


def _known_peaks() -> dict[str, float]:
    peaks = {}
    for name, product in _PRODUCTS.items():
        try:
            peaks[name] = peak_tflops(product)
        except InvalidArgumentError:  # no peak is published
            continue
    return peaks


# Dense peaks of bf16 (T4 and V100: fp16), in 10^12 operations per second. Add your own GPUs here.
GPU_PEAK_TFLOPS = _known_peaks()


def get_peak_tflops(gpu_model: str) -> float | None:
    """Returns the peak of a GPU by its name in GPU_PEAK_TFLOPS or its driver's product name; None where it
    is unknown."""
    for name, peak in GPU_PEAK_TFLOPS.items():
        if name.lower() == gpu_model.lower():
            return peak
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
