"""pydotcompute.ring_kernels: the same names as in the package."""
from .gpu_monitor import GPUMonitor
from .messages import RingKernelMessage, message
from .runtime import KernelContext, KernelState, RingKernelRuntime
from .telemetry import KernelTelemetry, RingKernelTelemetry, TelemetryCollector

__all__ = [
    "GPUMonitor",
    "KernelContext",
    "KernelState",
    "KernelTelemetry",
    "RingKernelMessage",
    "RingKernelRuntime",
    "RingKernelTelemetry",
    "TelemetryCollector",
    "message",
]
