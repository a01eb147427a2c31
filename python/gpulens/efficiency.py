"""Peak performance of GPUs and the fraction of it that was used: MFU, HFU and MBU.

    spec = find_gpu_spec("NVIDIA H100 80GB HBM3")
    mfu(flops=1e14, seconds=1.0, spec=spec, precision="bf16")    # 0.1011

Results are ratios from 0 to 1, and NaN where an input is unknown.
"""
from ._core import GpuHardwareSpec, find_gpu_spec, forward_flops, mbu, mfu, training_flops

__all__ = ["GpuHardwareSpec", "find_gpu_spec", "forward_flops", "mbu", "mfu", "training_flops"]
