"""Peak performance of GPUs and the fraction of it that was used: MFU, HFU and MBU.

    spec = find_gpu_spec("NVIDIA H100 80GB HBM3")
    mfu(flops=1e14, seconds=1.0, spec=spec, precision="bf16")    # 0.1011

Ratios are from 0 to 1. A result is NaN where a measured number is unknown: NaN, negative or infinite; a ratio also where
the time, the peak or the bandwidth is 0. An argument that is a mistake of the program (an unknown precision, a gpu_count
below 1) raises InvalidArgumentError.
"""
from ._core import GpuHardwareSpec, find_gpu_spec, forward_flops, mbu, mfu, training_flops

__all__ = ["GpuHardwareSpec", "find_gpu_spec", "forward_flops", "mbu", "mfu", "training_flops"]
