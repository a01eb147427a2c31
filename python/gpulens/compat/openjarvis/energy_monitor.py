"""What measures energy, as a class that may be derived from."""
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from enum import Enum

from .records import EnergySample

__all__ = ["EnergyMonitor", "EnergySample", "EnergyVendor"]


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
