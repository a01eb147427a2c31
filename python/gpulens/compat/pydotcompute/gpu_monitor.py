"""GPUMonitor: GPU metrics through the package pynvml.

Without pynvml or an NVIDIA driver the monitor is not available. It is meant for programs that use it
already; the agent and gpulens' own API provide more metrics of GPUs.
"""
import dataclasses
from typing import Any, Dict, List

__all__ = ["GPUInfo", "GPUMonitor"]


@dataclasses.dataclass
class GPUInfo:
    """Metrics of one GPU: bytes, ratios of 0 to 1, degrees Celsius and watts. Unknown values are 0."""

    index: int = 0
    name: str = "N/A"
    uuid: str = "N/A"
    memory_total: int = 0
    memory_used: int = 0
    memory_free: int = 0
    utilization_gpu: float = 0.0
    utilization_memory: float = 0.0
    temperature: float = 0.0
    power_usage: float = 0.0
    power_limit: float = 0.0

    @property
    def memory_utilization(self) -> float:
        """Fraction of the memory that is used; 0.0 without a total."""
        return self.memory_used / self.memory_total if self.memory_total else 0.0


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class GPUMonitor:
    """Reads GPUs. Never raises: without pynvml or a driver `is_available` is False and all results are
    empty."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handles: List[Any] = []
        try:
            import pynvml

            pynvml.nvmlInit()
            self._handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
            self._nvml = pynvml
        except Exception:  # of a package and a driver that are not ours
            self._handles = []

    @property
    def is_available(self) -> bool:
        """Whether there is a GPU to read."""
        return bool(self._handles)

    @property
    def device_count(self) -> int:
        """Number of GPUs."""
        return len(self._handles)

    def get_gpu_info(self, device_index: int = 0) -> GPUInfo:
        """Returns the metrics of a GPU; those that cannot be read are 0 or "N/A"."""
        info = GPUInfo(index=device_index)
        if not 0 <= device_index < len(self._handles):
            return info
        nvml, handle = self._nvml, self._handles[device_index]
        reads = {
            "name": lambda: {"name": _text(nvml.nvmlDeviceGetName(handle))},
            "uuid": lambda: {"uuid": _text(nvml.nvmlDeviceGetUUID(handle))},
            "memory": lambda: _memory(nvml.nvmlDeviceGetMemoryInfo(handle)),
            "use": lambda: _use(nvml.nvmlDeviceGetUtilizationRates(handle)),
            "temperature": lambda: {"temperature": float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))},
            "power": lambda: {"power_usage": nvml.nvmlDeviceGetPowerUsage(handle) / 1000},
            "limit": lambda: {"power_limit": nvml.nvmlDeviceGetPowerManagementLimit(handle) / 1000},
        }
        for read in reads.values():  # one that a board does not support takes none of the others along
            try:
                info = dataclasses.replace(info, **read())
            except Exception:
                continue
        return info

    def get_all_gpu_info(self) -> List[GPUInfo]:
        """Returns the metrics of all GPUs."""
        return [self.get_gpu_info(i) for i in range(self.device_count)]

    def get_utilization(self, device_index: int = 0) -> float:
        """Returns the utilization of a GPU, 0 to 1."""
        return self.get_gpu_info(device_index).utilization_gpu

    def get_memory_info(self, device_index: int = 0) -> Dict[str, int]:
        """Returns used, free and total memory, in bytes."""
        info = self.get_gpu_info(device_index)
        return {"used": info.memory_used, "free": info.memory_free, "total": info.memory_total}

    def shutdown(self) -> None:
        """Releases the driver."""
        nvml, self._nvml, self._handles = self._nvml, None, []
        if nvml is not None:
            try:
                nvml.nvmlShutdown()
            except Exception:
                pass


def _memory(read: Any) -> Dict[str, int]:
    return {"memory_total": int(read.total), "memory_used": int(read.used), "memory_free": int(read.free)}


def _use(read: Any) -> Dict[str, float]:
    return {"utilization_gpu": read.gpu / 100, "utilization_memory": read.memory / 100}
