"""What measures energy, as a class that may be derived from."""
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from enum import Enum
from typing import List, Optional

from .records import EnergySample

__all__ = ["EnergyMonitor", "EnergySample", "EnergyVendor", "create_energy_monitor"]


class EnergyVendor(str, Enum):
    """Whose sensors are read."""

    NVIDIA = "nvidia"
    AMD = "amd"
    APPLE = "apple"
    CPU_RAPL = "cpu_rapl"


class EnergyMonitor(ABC):
    """Something that measures energy. A class derived from it works in EnergyBatch and in TelemetrySession."""

    @staticmethod
    @abstractmethod
    def available() -> bool:
        """Whether this machine has what it reads. Raises nothing."""

    @abstractmethod
    def vendor(self) -> EnergyVendor:
        """Whose sensors it reads."""

    @abstractmethod
    def energy_method(self) -> str:
        """How it comes to its joules, like "hw_counter" or "polling"."""

    @abstractmethod
    def sample(self) -> "AbstractContextManager[EnergySample]":
        """Measures the block of a `with`: what it gives is filled when the block is left."""

    def snapshot(self) -> EnergySample:
        """What is read now: power, utilization, memory, temperature. Empty unless a derived class can tell."""
        return EnergySample()

    def close(self) -> None:
        """Lets go of what it reads. May be called twice."""


def create_energy_monitor(poll_interval_ms: int = 50, prefer_vendor: Optional[str] = None) -> Optional[EnergyMonitor]:
    """A monitor of the vendor that is preferred, else of the first that is there: NVIDIA, AMD, Apple, RAPL. None without any.

    prefer_vendor: "nvidia", "amd", "apple" or "cpu_rapl"; another word prefers none.
    """
    from .native_monitor import VENDORS  # which derive from the class above

    order: List = sorted(VENDORS, key=lambda kind: kind._VENDOR.value != prefer_vendor)
    for kind in order:
        monitor = kind(poll_interval_ms)
        if monitor._native is not None:
            return monitor
    return None
