"""The best monitor that there is."""
from typing import List, Optional

from .energy_monitor import EnergyMonitor
from .native_monitor import VENDORS

__all__ = ["create_energy_monitor"]


def create_energy_monitor(poll_interval_ms: int = 50, prefer_vendor: Optional[str] = None) -> Optional[EnergyMonitor]:
    """A monitor of the vendor that is preferred, else of the first that is there: NVIDIA, AMD, Apple, RAPL. None without any.

    prefer_vendor: "nvidia", "amd", "apple" or "cpu_rapl"; another word prefers none.
    """
    order: List = sorted(VENDORS, key=lambda kind: kind._VENDOR.value != prefer_vendor)
    for kind in order:
        monitor = kind(poll_interval_ms)
        if monitor._native is not None:
            return monitor
    return None
