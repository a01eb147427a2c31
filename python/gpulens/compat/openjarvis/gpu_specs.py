"""Hardware specifications of GPUs."""
import re
from dataclasses import dataclass
from typing import Dict, Optional

from ... import efficiency as _efficiency

__all__ = ["GPU_SPECS", "GpuHardwareSpec", "lookup_gpu_spec"]

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


def _as_theirs(spec: _efficiency.GpuHardwareSpec) -> GpuHardwareSpec:
    numbers = (spec.peak_flops("fp16") / 1e12, spec.memory_bandwidth_bytes_per_second / 1e9, spec.tdp_watts)
    return GpuHardwareSpec(*(n if n == n else 0.0 for n in numbers))


# OpenJarvis' keys that are in the table of gpulens; the figures are those of the table. Add your own boards here.
GPU_SPECS: Dict[str, GpuHardwareSpec] = {
    key: _as_theirs(found)
    for key in ("B200-SXM", "H100-SXM", "H100-PCIE", "A100-SXM", "A100-PCIE", "L40S", "A10", "RTX 4090", "RTX 3090", "MI300X", "MI250X")
    for found in [find_spec(key)]
    if found is not None
}


def lookup_gpu_spec(name: str) -> Optional[GpuHardwareSpec]:
    """Returns the spec of a GPU by its key in GPU_SPECS, its full product name, its PCI ID or a short name;
    None where it is unknown."""
    for key, known in GPU_SPECS.items():
        if key.lower() == name.lower():
            return known
    spec = find_spec(name)
    return None if spec is None else _as_theirs(spec)
