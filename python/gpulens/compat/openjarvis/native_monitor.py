"""Vendor-specific monitors on top of gpulens.EnergyMonitor, and the samples that they fill."""
import time
from contextlib import contextmanager
from typing import Iterator, Optional, Sequence, Tuple, TypeVar

from ... import energy as _energy
from .energy_monitor import EnergyMonitor, EnergySample, EnergyVendor
from .records import GpuSample

__all__ = ["AmdEnergyMonitor", "AppleEnergyMonitor", "NvidiaEnergyMonitor", "RaplEnergyMonitor", "VENDORS"]

Sample = TypeVar("Sample", GpuSample, EnergySample)

_GIB = 2.0**30
_METHODS = {"counter": "hw_counter", "power_integral": "polling"}


def open_native(vendors: Sequence[str], poll_interval_ms: int) -> Tuple[Optional[_energy.EnergyMonitor], str]:
    """Returns the native monitor of the first available vendor, else None and the reason."""
    why = ""
    for vendor in vendors:
        interval = min(max(poll_interval_ms / 1e3, 0.001), 1.0)
        native = _energy.EnergyMonitor(interval_seconds=interval, prefer=vendor)
        if native.available and native.vendor == vendor:
            return native, ""
        why = native.reason or f"this machine has no energy sensors of {vendor}"
    return None, why


def known(value: float, scale: float = 1.0) -> float:
    """Converts to a number of the records: 0.0 for an unknown value."""
    return value * scale if value == value else 0.0


def fill_common(sample: Sample, result: _energy.EnergyResult) -> None:
    """Fills the fields that GpuSample and EnergySample share."""
    ticks = result.ticks
    sample.energy_joules = known(result.energy_joules)
    sample.mean_power_watts = known(result.mean_power_watts)
    sample.peak_power_watts = known(ticks.peak_power_watts)
    sample.mean_utilization_pct = known(ticks.mean_utilization_ratio, 100)
    sample.peak_utilization_pct = known(ticks.peak_utilization_ratio, 100)
    sample.mean_memory_used_gb = known(ticks.mean_memory_used_bytes, 1 / _GIB)
    sample.peak_memory_used_gb = known(ticks.peak_memory_used_bytes, 1 / _GIB)
    sample.mean_temperature_c = known(ticks.mean_temperature_celsius)
    sample.peak_temperature_c = known(ticks.peak_temperature_celsius)
    sample.duration_seconds = result.duration_seconds
    sample.num_snapshots = ticks.count
    sample.validity = result.validity
    sample.reason = result.reason


def close_sample(sample: Sample, why: str) -> Sample:
    """Marks a sample as not measured and returns it."""
    sample.validity = "no_device"
    sample.reason = why
    return sample


class _NativeMonitor(EnergyMonitor):
    _VENDOR: EnergyVendor

    def __init__(self, poll_interval_ms: int = 50) -> None:
        self._native, self._why = open_native([self._VENDOR.value], poll_interval_ms)
        self._devices = self._native.devices if self._native else []
        self._method = ""

    @classmethod
    def _there(cls) -> bool:
        return open_native([cls._VENDOR.value], 50)[0] is not None

    def vendor(self) -> EnergyVendor:
        return self._VENDOR

    def energy_method(self) -> str:
        """Returns how energy is determined.

        hw_counter: the hardware counts joules.
        rapl: processor counters.
        polling: power readings are integrated.
        """
        if self._VENDOR == EnergyVendor.CPU_RAPL:
            return "rapl"
        if not self._method and self._native:
            self._method = _METHODS.get(self._native.window().result.method, "")
        return self._method or "polling"

    def _last(self) -> Optional[_energy.EnergyReading]:
        """Returns the newest reading; for a monitor that has just started, waits for one."""
        end = time.monotonic() + 2.0  # of the slowest interval two
        while self._native is not None:
            now = time.monotonic()
            readings = self._native.history(now - 10, now)
            if readings:
                return readings[-1]
            if now > end:
                break
            self._native.window().result  # waits for a reading, a little
        return None

    def _head(self) -> EnergySample:
        part = "cpu" if self._VENDOR == EnergyVendor.CPU_RAPL else "gpu"
        mine = [device for device in self._devices if device.part == part]
        name = mine[0].name if mine else ""
        return EnergySample(
            vendor=self._VENDOR.value, device_name=name, device_count=len(mine), energy_method=self.energy_method()
        )

    @contextmanager
    def sample(self) -> Iterator[EnergySample]:
        """Measures the energy of the monitor's devices in a block; the sample is filled when the block
        ends, also by an exception."""
        sample = self._head()
        native = self._native
        if native is None:
            yield close_sample(sample, self._why)
            return
        window = native.window()
        try:
            yield sample
        finally:
            window.end()
            result = window.result
            fill_common(sample, result)
            sample.gpu_energy_joules = known(result.gpu_joules)
            sample.cpu_energy_joules = known(result.cpu_joules)
            sample.dram_energy_joules = known(result.dram_joules)

    def snapshot(self) -> EnergySample:
        """Returns the last reading: power, utilization, memory and temperature. Energies count up from an
        arbitrary zero."""
        sample = self._head()
        last = self._last()
        if last is None:
            return close_sample(sample, self._why)
        watts = last.cpu_watts if self._VENDOR == EnergyVendor.CPU_RAPL else last.gpu_watts
        sample.mean_power_watts = sample.peak_power_watts = known(watts)
        sample.cpu_power_watts = known(last.cpu_watts)
        sample.mean_utilization_pct = sample.peak_utilization_pct = known(last.utilization_ratio, 100)
        sample.mean_memory_used_gb = sample.peak_memory_used_gb = known(last.memory_used_bytes, 1 / _GIB)
        sample.mean_temperature_c = sample.peak_temperature_c = known(last.temperature_celsius)
        sample.gpu_energy_joules = known(last.gpu_joules)
        sample.cpu_energy_joules = known(last.cpu_joules)
        sample.dram_energy_joules = known(last.dram_joules)
        sample.num_snapshots = 1
        sample.validity = "valid" if watts == watts else "source_failed"
        return sample

    def close(self) -> None:
        self._native, self._why = None, "the monitor is closed"


class NvidiaEnergyMonitor(_NativeMonitor):
    """Measures the NVIDIA GPUs that CUDA_VISIBLE_DEVICES allows. Without any, measures nothing, and its
    samples contain the reason.

    poll_interval_ms: time between two readings, 1 to 1000; one thread of gpulens reads for all monitors.

    Thread-safe.
    """

    _VENDOR = EnergyVendor.NVIDIA

    @staticmethod
    def available() -> bool:
        """Returns whether there is an NVIDIA GPU that this process may read."""
        return NvidiaEnergyMonitor._there()


class AmdEnergyMonitor(_NativeMonitor):
    """Measures the AMD GPUs that ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES allow; else as
    NvidiaEnergyMonitor."""

    _VENDOR = EnergyVendor.AMD

    @staticmethod
    def available() -> bool:
        """Returns whether there is an AMD GPU that this process may read."""
        return AmdEnergyMonitor._there()


class AppleEnergyMonitor(_NativeMonitor):
    """Monitor of Apple silicon; not available on Linux, and never an estimate.

    allow_estimates: accepted and ignored.
    """

    _VENDOR = EnergyVendor.APPLE

    def __init__(self, poll_interval_ms: int = 50, allow_estimates: bool = False) -> None:
        super().__init__(poll_interval_ms)

    @staticmethod
    def estimate_available() -> bool:
        """Returns whether energy can be estimated: never."""
        return False

    @staticmethod
    def available() -> bool:
        """Returns whether Apple silicon is available: never on Linux."""
        return AppleEnergyMonitor._there()


class RaplEnergyMonitor(_NativeMonitor):
    """Measures processors and their memory through RAPL: all sockets, nothing twice, counter wraps
    handled. Else as NvidiaEnergyMonitor."""

    _VENDOR = EnergyVendor.CPU_RAPL

    @staticmethod
    def available() -> bool:
        """Returns whether the RAPL counters exist and may be read."""
        return RaplEnergyMonitor._there()


VENDORS = (NvidiaEnergyMonitor, AmdEnergyMonitor, AppleEnergyMonitor, RaplEnergyMonitor)
