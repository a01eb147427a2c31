"""Hardware specifications of GPUs."""
import re
from dataclasses import dataclass
from typing import Optional

from ... import efficiency as _efficiency

__all__ = ["GpuHardwareSpec", "lookup_gpu_spec"]

# OpenJarvis' short names, and which product each means. A short name is the whole name but for vendor and memory size, never
# a part of it: "RTX A1000" is no "A10".
_SHORT = {
    "b200": "NVIDIA B200",
    "b200-sxm": "NVIDIA B200",
    "h200": "NVIDIA H200",
    "h100": "NVIDIA H100 80GB HBM3",
    "h100-sxm": "NVIDIA H100 80GB HBM3",
    "h100-pcie": "NVIDIA H100 PCIe",
    "a100": "NVIDIA A100-SXM4-80GB",
    "a100-sxm": "NVIDIA A100-SXM4-80GB",
    "a100-pcie": "NVIDIA A100 80GB PCIe",
    "l4": "NVIDIA L4",
    "l40": "NVIDIA L40",
    "l40s": "NVIDIA L40S",
    "a10": "NVIDIA A10",
    "a10g": "NVIDIA A10G",
    "t4": "Tesla T4",
    "v100": "Tesla V100-SXM2-16GB",
    "4090": "NVIDIA GeForce RTX 4090",
    "rtx 4090": "NVIDIA GeForce RTX 4090",
    "3090": "NVIDIA GeForce RTX 3090",
    "rtx 3090": "NVIDIA GeForce RTX 3090",
    "mi300x": "AMD Instinct MI300X",
    "mi250x": "AMD Instinct MI250X",
}


@dataclass(frozen=True)
class GpuHardwareSpec:
    """Dense fp16 peak in 10^12 operations per second, memory bandwidth in GB/s and power of a board. 0.0:
    not published."""

    tflops_fp16: float
    bandwidth_gb_s: float
    tdp_watts: float


def find_spec(name: str) -> Optional[_efficiency.GpuHardwareSpec]:
    """Returns the native spec of a product name, a PCI ID or a short name; None where nothing matches
    exactly."""
    exact = _efficiency.find_gpu_spec(name)
    if exact is not None:
        return exact
    short = re.sub(r"\b(?:nvidia|amd|geforce|instinct|tesla|\d+ ?gb)\b", " ", name.lower())
    return _efficiency.find_gpu_spec(_SHORT.get(" ".join(short.split()), ""))


def lookup_gpu_spec(name: str) -> Optional[GpuHardwareSpec]:
    """Returns the spec of a GPU by its full product name, its PCI ID or a short name; None where it is
    unknown."""
    spec = find_spec(name)
    if spec is None:
        return None
    numbers = (spec.peak_flops("fp16") / 1e12, spec.memory_bandwidth_bytes_per_second / 1e9, spec.tdp_watts)
    return GpuHardwareSpec(*(n if n == n else 0.0 for n in numbers))
