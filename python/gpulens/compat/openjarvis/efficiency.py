"""Utilization of a GPU by a model."""
from typing import Optional

from ... import efficiency as _efficiency
from ...errors import InvalidArgumentError as _InvalidArgumentError
from .records import EfficiencyMetrics

__all__ = ["EfficiencyMetrics", "compute_efficiency", "estimate_model_bytes_per_token", "estimate_model_flops_per_token"]


def estimate_model_flops_per_token(param_count_b: float, active_params_b: Optional[float] = None) -> float:
    """Returns the operations of a token: 2 for each parameter that works on it.

    param_count_b, active_params_b: billions of parameters: all of them, and those used per token (None:
        all).
    """
    return _efficiency.forward_flops((param_count_b if active_params_b is None else active_params_b) * 1e9, 1)


def estimate_model_bytes_per_token(param_count_b: float, bytes_per_param: float = 2.0) -> float:
    """Returns the bytes of all weights, which a single request reads for each token.

    param_count_b: billions of parameters.
    """
    return param_count_b * 1e9 * bytes_per_param


def compute_efficiency(
    param_count_b: float,
    active_params_b: Optional[float],
    gpu_peak_tflops: float,
    gpu_peak_bandwidth_gb_s: float,
    tokens_per_sec: float,
    num_gpus: int = 1,
    energy_joules: float = 0.0,
    accuracy: float = 0.0,
    bytes_per_param: float = 2.0,
) -> EfficiencyMetrics:
    """Returns MFU and MBU in percent, and intelligence per joule: accuracy divided by energy.

    param_count_b, active_params_b: billions of parameters: all of them, and those used per token (None:
        all).

    The MBU assumes that each token reads all weights again, as a single request does; with a batch, pass
    steps per second as tokens_per_sec, or use gpulens.mbu(). Raises InvalidArgumentError for fewer than
    one GPU.
    """
    if num_gpus < 1:
        raise _InvalidArgumentError(f"num_gpus must be at least 1; got {num_gpus}")
    flops = estimate_model_flops_per_token(param_count_b, active_params_b) * tokens_per_sec
    bytes_per_step = estimate_model_bytes_per_token(param_count_b, bytes_per_param)
    mfu = _efficiency.mfu(flops, 1.0, peak_flops=gpu_peak_tflops * 1e12, gpu_count=num_gpus)
    mbu = _efficiency.mbu(
        bytes_per_step, tokens_per_sec, bandwidth_bytes_per_second=gpu_peak_bandwidth_gb_s * 1e9, gpu_count=num_gpus
    )
    return EfficiencyMetrics(
        mfu_pct=mfu * 100 if mfu == mfu else 0.0,
        mbu_pct=mbu * 100 if mbu == mbu else 0.0,
        actual_flops=flops,
        peak_flops=gpu_peak_tflops * 1e12 * num_gpus,
        actual_bandwidth_gb_s=bytes_per_step * tokens_per_sec / 1e9,
        peak_bandwidth_gb_s=gpu_peak_bandwidth_gb_s * num_gpus,
        ipj=accuracy / energy_joules if energy_joules > 0 else 0.0,
    )
