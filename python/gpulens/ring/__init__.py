"""Ring kernels: persistent actors on an asyncio loop, each with a message queue, a reply queue and
telemetry.

    from gpulens.ring import RingKernelRuntime, ring_kernel

    @ring_kernel("square", queue_size=1024, when_full="reject")
    async def square(x: int) -> int:
        return x * x

    async with RingKernelRuntime(enable_telemetry=True) as runtime:
        worker = await runtime.start(square)
        print(await worker.ask(7, timeout=1.0))
        print(worker.telemetry.service_seconds.p99)

A kernel is a handler or a loop. A handler is called with each message, and its result is the reply (None:
no reply). A loop has one parameter named ctx and receives and sends by itself. An exception in a handler
is counted, and the next message follows; an exception in a loop ends the kernel: KernelState.FAILED.
Telemetry is off by default. When enabled it is recorded by native code: see TelemetryCollector, which
other runtimes may use, too.
"""
from .._core import KernelRecorder, KernelTelemetry, TelemetryCollector
from .actor import KernelContext
from .errors import (
    KernelAlreadyExistsError,
    KernelEndedError,
    KernelError,
    KernelNotFoundError,
    KernelStateError,
    QueueError,
    QueueFullError,
    QueueTimeoutError,
)
from .kernels import ring_kernel
from .messages import Message, message
from .runtime import KernelHandle, RingKernelRuntime
from .states import KernelState

__all__ = [
    "KernelAlreadyExistsError",
    "KernelContext",
    "KernelEndedError",
    "KernelError",
    "KernelHandle",
    "KernelNotFoundError",
    "KernelRecorder",
    "KernelState",
    "KernelStateError",
    "KernelTelemetry",
    "Message",
    "QueueError",
    "QueueFullError",
    "QueueTimeoutError",
    "RingKernelRuntime",
    "TelemetryCollector",
    "message",
    "ring_kernel",
]
