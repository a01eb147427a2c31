"""What a GPU could do, and how much of it was used: MFU, HFU, MBU. Ratios, 0 to 1; NaN where a number is not known.

    spec = find_gpu_spec("NVIDIA H100 80GB HBM3")
    mfu(flops=1e14, seconds=1.0, spec=spec, precision="bf16")    # 0.1011
"""
from ._core import GpuHardwareSpec, find_gpu_spec, forward_flops, mbu, mfu, training_flops

__all__ = ["GpuHardwareSpec", "find_gpu_spec", "forward_flops", "mbu", "mfu", "training_flops"]
