"""The base class of energy monitors, from which programs may derive their own."""
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from enum import Enum
from typing import List, Optional

from .records import EnergySample

__all__ = ["EnergyMonitor", "EnergySample", "EnergyVendor", "create_energy_monitor"]


class EnergyVendor(str, Enum):
    """Vendor of the sensors that are read."""

    NVIDIA = "nvidia"
    AMD = "amd"
    APPLE = "apple"
    CPU_RAPL = "cpu_rapl"


class EnergyMonitor(ABC):
    """Abstract base class of energy monitors. Derived classes work in EnergyBatch and TelemetrySession."""

    @staticmethod
    @abstractmethod
    def available() -> bool:
        """Returns whether this machine has the sensors that the monitor reads. Raises nothing."""

    @abstractmethod
    def vendor(self) -> EnergyVendor:
        """Returns the vendor of the sensors."""

    @abstractmethod
    def energy_method(self) -> str:
        """Returns how the monitor determines energy, such as "hw_counter" or "polling"."""

    @abstractmethod
    def sample(self) -> "AbstractContextManager[EnergySample]":
        """Measures the block of a `with` statement. The sample that it binds is filled when the block
        ends."""

    def snapshot(self) -> EnergySample:
        """Returns the current power, utilization, memory and temperature. Empty unless a derived class
        implements it."""
        return EnergySample()

    def close(self) -> None:
        """Releases the sensors. May be called twice."""


def create_energy_monitor(
    poll_interval_ms: int = 50, prefer_vendor: Optional[str] = None, allow_estimates: bool = False
) -> Optional[EnergyMonitor]:
    """Returns a monitor of the preferred vendor, else of the first available one: NVIDIA, AMD, Apple,
    RAPL. None without any.

    prefer_vendor: "nvidia", "amd", "apple" or "cpu_rapl"; any other value expresses no preference.
    allow_estimates: accepted and ignored; nothing is estimated from the power that a chip is rated for.
    """
    from .native_monitor import VENDORS  # which derive from the class above

    order: List = sorted(VENDORS, key=lambda kind: kind._VENDOR.value != prefer_vendor)
    for kind in order:
        monitor = kind(poll_interval_ms)
        if monitor._native is not None:
            return monitor
    return None
