"""pydotcompute.ring_kernels: the names that it exports itself, and the modules queue, fast_queue and
lifecycle."""
from ..gpu_monitor import GPUMonitor
from ..messages import RingKernelMessage, message
from ..runtime import KernelContext, KernelState, RingKernel, RingKernelRuntime
from ..telemetry import KernelTelemetry, RingKernelTelemetry, TelemetryCollector
from .fast_queue import FastMessageQueue, PriorityBand
from .queue import MessageQueue

__all__ = [
    "FastMessageQueue",
    "GPUMonitor",
    "KernelContext",
    "KernelState",
    "KernelTelemetry",
    "MessageQueue",
    "PriorityBand",
    "RingKernel",
    "RingKernelMessage",
    "RingKernelRuntime",
    "RingKernelTelemetry",
    "TelemetryCollector",
    "message",
]
