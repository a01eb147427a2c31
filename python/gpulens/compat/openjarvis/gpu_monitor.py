"""Energy and utilization of GPUs during a block."""
from contextlib import contextmanager
from typing import Iterator

from .gpu_specs import GPU_SPECS, GpuHardwareSpec, lookup_gpu_spec
from .native_monitor import close_sample, fill_common, open_native
from .records import GpuSample, GpuSnapshot

__all__ = ["GPU_SPECS", "GpuHardwareSpec", "GpuMonitor", "GpuSample", "GpuSnapshot", "lookup_gpu_spec"]

_VENDORS = ("nvidia", "amd")


class GpuMonitor:
    """Measures blocks on the GPUs that this process may use.

        mon = GpuMonitor(poll_interval_ms=50)
        with mon.sample() as result:
            ...
        print(result.energy_joules, result.validity)
        mon.close()

    One thread of gpulens reads for all monitors. Blocks may overlap; each sample contains all energy used
    during its block.
    """

    def __init__(self, poll_interval_ms: int = 50) -> None:
        self._native, self._why = open_native(_VENDORS, poll_interval_ms)

    @staticmethod
    def available() -> bool:
        """Returns whether there is a GPU that this process may read. Raises nothing."""
        return open_native(_VENDORS, 50)[0] is not None

    @contextmanager
    def sample(self) -> Iterator[GpuSample]:
        """Measures the block of a `with` statement.

        The sample that it binds is filled when the block ends, also by an exception. It is empty without a
        GPU and after close().
        """
        sample = GpuSample()
        if self._native is None:
            yield close_sample(sample, self._why)
            return
        window = self._native.window()
        try:
            yield sample
        finally:
            window.end()
            fill_common(sample, window.result)

    def close(self) -> None:
        """Releases the GPUs. May be called twice."""
        self._native, self._why = None, "the monitor is closed"
