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
    MessageDeserializationError,
    MessageError,
    MessageSerializationError,
    PyDotComputeError,
    QueueError,
    QueueFullError,
    QueueTimeoutError,
)
from .gpu_monitor import GPUInfo, GPUMonitor
from .kernels import (
    BackpressureStrategy,
    RingKernelBuilder,
    RingKernelConfig,
    get_registered_kernel,
    get_ring_kernel_meta,
    is_ring_kernel,
    register_ring_kernel,
    ring_kernel,
)
from .messages import RingKernelMessage, deserialize_message, get_message_type, message
from .ring_kernels.fast_queue import FastMessageQueue, PriorityBand, QueueStats, get_priority_band
from .ring_kernels.queue import MessageQueue
from .runtime import KernelContext, KernelState, RingKernel, RingKernelRuntime, managed_kernel
from .telemetry import KernelTelemetry, RingKernelTelemetry, TelemetryCollector

__all__ = [
    "BackpressureStrategy",
    "FastMessageQueue",
    "GPUInfo",
    "GPUMonitor",
    "KernelAlreadyExistsError",
    "KernelContext",
    "KernelError",
    "KernelNotFoundError",
    "KernelState",
    "KernelStateError",
    "KernelTelemetry",
    "MessageDeserializationError",
    "MessageError",
    "MessageQueue",
    "MessageSerializationError",
    "PriorityBand",
    "PyDotComputeError",
    "QueueError",
    "QueueFullError",
    "QueueStats",
    "QueueTimeoutError",
    "RingKernel",
    "RingKernelBuilder",
    "RingKernelConfig",
    "RingKernelMessage",
    "RingKernelRuntime",
    "RingKernelTelemetry",
    "TelemetryCollector",
    "deserialize_message",
    "get_message_type",
    "get_priority_band",
    "get_registered_kernel",
    "get_ring_kernel_meta",
    "is_ring_kernel",
    "managed_kernel",
    "message",
    "register_ring_kernel",
    "ring_kernel",
]
