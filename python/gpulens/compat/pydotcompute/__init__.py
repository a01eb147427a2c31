"""The names of PyDotCompute's ring kernels: change the import, keep the program.

    from gpulens.compat.pydotcompute import RingKernelRuntime, message, ring_kernel

Actors run on the asyncio loop, as in PyDotCompute; telemetry that it documents but never recorded is
recorded here. Telemetry is off unless RingKernelRuntime(enable_telemetry=True) enables it. As documented
there, times are float seconds, start_time is comparable to time.time(), and unknown values are 0.0 or
None. The native API is gpulens.ring.
"""
from .exceptions import (
    KernelAlreadyExistsError,
    KernelError,
    KernelNotFoundError,
    KernelStateError,
    PyDotComputeError,
    QueueError,
    QueueFullError,
    QueueTimeoutError,
)
from .gpu_monitor import GPUInfo, GPUMonitor
from .kernels import (
    BackpressureStrategy,
    RingKernelConfig,
    get_registered_kernel,
    is_ring_kernel,
    register_ring_kernel,
    ring_kernel,
)
from .messages import RingKernelMessage, message
from .runtime import KernelContext, KernelState, RingKernelRuntime, managed_kernel
from .telemetry import KernelTelemetry, RingKernelTelemetry, TelemetryCollector

__all__ = [
    "BackpressureStrategy",
    "GPUInfo",
    "GPUMonitor",
    "KernelAlreadyExistsError",
    "KernelContext",
    "KernelError",
    "KernelNotFoundError",
    "KernelState",
    "KernelStateError",
    "KernelTelemetry",
    "PyDotComputeError",
    "QueueError",
    "QueueFullError",
    "QueueTimeoutError",
    "RingKernelConfig",
    "RingKernelMessage",
    "RingKernelRuntime",
    "RingKernelTelemetry",
    "TelemetryCollector",
    "get_registered_kernel",
    "is_ring_kernel",
    "managed_kernel",
    "message",
    "register_ring_kernel",
    "ring_kernel",
]
