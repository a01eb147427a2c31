"""The runtime of ring kernels: kernels by ID."""
import asyncio
from typing import Any, Dict, List, Optional, Union

from .. import errors
from .._pickling import refuses
from .._core import KernelTelemetry, Registry, TelemetryCollector
from .actor import Actor
from .errors import KernelAlreadyExistsError, KernelEndedError, KernelNotFoundError, QueueTimeoutError
from .kernels import WhenFull, registered, spec_of
from .states import KernelState

__all__ = ["KernelHandle", "RingKernelRuntime"]

_MOST_ENDED = 1_000  # ids of kernels that have ended, which are still known by their state


class KernelHandle:
    """Handle of a kernel of a runtime. It remains valid after the kernel has ended; its methods then raise
    KernelEndedError."""

    __slots__ = ("_actor", "_runtime")

    def __init__(self, actor: Actor, runtime: "RingKernelRuntime"):
        self._actor = actor
        self._runtime = runtime

    @property
    def kernel_id(self) -> str:
        """ID of the kernel."""
        return self._actor.spec.kernel_id

    @property
    def state(self) -> KernelState:
        """State of the kernel."""
        return self._actor.state

    @property
    def telemetry(self) -> Optional[KernelTelemetry]:
        """Consistent snapshot of the kernel's telemetry; None while telemetry is off."""
        return self._actor.recorder.telemetry() if self._actor.recorder else None

    async def send(self, message: Any, timeout: Optional[float] = None) -> None:
        """Puts a message into the kernel's queue. When the queue is full, waits or applies `when_full`.

        Raises QueueTimeoutError when there is no room within `timeout` seconds.
        """
        await self._actor.send(message, timeout)

    async def receive(self, timeout: Optional[float] = None) -> Any:
        """Returns the kernel's oldest reply. Raises QueueTimeoutError when there is none within `timeout`
        seconds."""
        return await self._actor.receive(timeout)

    async def ask(self, message: Any, timeout: Optional[float] = None) -> Any:
        """Sends a message and returns the handler's answer to it, regardless of other senders and
        receivers.

        Raises the exception of the handler, and QueueTimeoutError when there is no answer within `timeout`
        seconds. For a loop, which answers when it chooses, returns the next reply.
        """
        actor = self._actor
        if actor.spec.loop:
            await actor.send(message, timeout)
            return await actor.receive(timeout)
        loop = asyncio.get_running_loop()
        answer, late = loop.create_future(), []

        def expire():
            late.append(True)
            answer.cancel()

        timer = None if timeout is None else loop.call_later(timeout, expire)
        try:
            await actor.send(message, timeout, answer)
            return await answer
        except asyncio.CancelledError:
            if not late:
                raise
            raise QueueTimeoutError(self.kernel_id, timeout or 0.0, "ask") from None
        finally:
            if timer is not None:
                timer.cancel()
            answer.cancel()

    async def terminate(self, timeout: Optional[float] = 5.0) -> None:
        """Ends the kernel as RingKernelRuntime.terminate does."""
        await self._runtime.terminate(self.kernel_id, timeout)

    __reduce__ = refuses("a kernel runs in one process; send its telemetry")

    def __repr__(self) -> str:
        return f"KernelHandle({self.kernel_id}, {self.state.value})"


class RingKernelRuntime:
    """Runs kernels on one event loop. Not thread-safe.

    Use it with `async with`, which terminates all kernels at its end. Telemetry is kept after a kernel's
    end, until it is reset or the runtime ends.

    enable_telemetry: count and time every message; off by default.
    registry: also exports the telemetry, as ring_kernel.*; by default the registry of the process.
    """

    def __init__(self, *, enable_telemetry: bool = False, registry: Optional[Registry] = None):
        self.collector = TelemetryCollector(enable_telemetry, registry=registry)
        self._kernels: Dict[str, Actor] = {}
        self._ended: Dict[str, KernelState] = {}

    __reduce__ = refuses("make a runtime in the other process")

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exception: Any) -> None:
        await self.terminate_all()

    def _actor(self, kernel_id: str) -> Actor:
        try:
            return self._kernels[kernel_id]
        except KeyError:
            if kernel_id in self._ended:
                raise KernelEndedError(kernel_id, self._ended[kernel_id].name, "use") from None
            raise KernelNotFoundError(kernel_id, list(self._kernels)) from None

    async def start(
        self,
        kernel: Any,
        kernel_id: Optional[str] = None,
        *,
        queue_size: Optional[int] = None,
        when_full: Optional[WhenFull] = None,
    ) -> KernelHandle:
        """Launches and activates a kernel: a function, decorated or not, or the ID of a decorated one."""
        handle = await self.launch(kernel, kernel_id, queue_size=queue_size, when_full=when_full)
        await self.activate(handle.kernel_id)
        return handle

    async def launch(
        self,
        kernel: Any,
        kernel_id: Optional[str] = None,
        *,
        queue_size: Optional[int] = None,
        when_full: Optional[WhenFull] = None,
    ) -> KernelHandle:
        """Creates a kernel with its queues. It processes nothing until it is activated.

        Raises KernelNotFoundError when no function is registered under the ID, and
        KernelAlreadyExistsError when the ID is in use.
        """
        spec = spec_of(kernel, kernel_id, queue_size=queue_size, when_full=when_full)
        if spec is None:
            if isinstance(kernel, str):
                raise KernelNotFoundError(kernel, list(registered))
            raise errors.InvalidArgumentError(f"kernel must be a function or the ID of one; got {kernel!r}")
        return self.launch_spec(spec)

    def launch_spec(self, spec: Any) -> KernelHandle:
        """Creates a kernel from a complete KernelSpec, as launch() does."""
        known = self._kernels.get(spec.kernel_id)
        if known is not None and known.state is not KernelState.TERMINATED:
            raise KernelAlreadyExistsError(spec.kernel_id)
        self._ended.pop(spec.kernel_id, None)
        actor = self._kernels[spec.kernel_id] = Actor(spec, self.collector.kernel(spec.kernel_id))
        return KernelHandle(actor, self)

    async def activate(self, kernel_id: str) -> None:
        """Starts the work of a launched kernel. Raises KernelStateError in another state."""
        self._actor(kernel_id).activate()

    async def deactivate(self, kernel_id: str) -> None:
        """Pauses an active kernel: it finishes its message and begins no other; new messages are queued."""
        self._actor(kernel_id).deactivate()

    async def reactivate(self, kernel_id: str) -> None:
        """Resumes the work of a deactivated kernel."""
        self._actor(kernel_id).reactivate()

    async def terminate(self, kernel_id: str, timeout: Optional[float] = 5.0) -> None:
        """Ends a kernel and frees its ID. Does nothing for a kernel that has ended already.

        Wakes all callers that wait for the kernel at once, drops all queued messages, waits at most
        `timeout` seconds for the handler, and then cancels it.
        """
        if kernel_id in self._ended:
            return
        actor = self._actor(kernel_id)
        await actor.terminate(timeout)
        if self._kernels.get(kernel_id) is actor:
            del self._kernels[kernel_id]
            self._ended[kernel_id] = actor.state
            if len(self._ended) > _MOST_ENDED:
                del self._ended[next(iter(self._ended))]

    async def terminate_all(self, timeout: Optional[float] = 10.0) -> None:
        """Ends all kernels concurrently. Raises the first failure after all have been tried."""
        for actor in self._kernels.values():
            actor.close()
        tasks = [self.terminate(kernel_id, timeout) for kernel_id in list(self._kernels)]
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def send(self, kernel_id: str, message: Any, timeout: Optional[float] = None) -> None:
        """Sends a message as KernelHandle.send does."""
        await self._actor(kernel_id).send(message, timeout)

    async def receive(self, kernel_id: str, timeout: Optional[float] = None) -> Any:
        """Receives a reply as KernelHandle.receive does."""
        return await self._actor(kernel_id).receive(timeout)

    async def ask(self, kernel_id: str, message: Any, timeout: Optional[float] = None) -> Any:
        """Sends a message and returns the answer as KernelHandle.ask does."""
        return await self.handle(kernel_id).ask(message, timeout)

    def handle(self, kernel_id: str) -> KernelHandle:
        """Returns the handle of a kernel."""
        return KernelHandle(self._actor(kernel_id), self)

    def state(self, kernel_id: str) -> KernelState:
        """Returns the state of a kernel; also of the last 1,000 terminated ones."""
        return self._ended[kernel_id] if kernel_id in self._ended else self._actor(kernel_id).state

    @property
    def kernel_ids(self) -> List[str]:
        """IDs of all kernels that were not terminated."""
        return list(self._kernels)

    @property
    def telemetry_enabled(self) -> bool:
        """Whether messages are counted and timed."""
        return self.collector.enabled

    def telemetry(self, kernel_id: str) -> Optional[KernelTelemetry]:
        """Returns a consistent snapshot of a kernel's telemetry; None while telemetry is off or where
        there is no such kernel."""
        return self.collector.get_telemetry(kernel_id)

    def all_telemetry(self) -> Dict[str, KernelTelemetry]:
        """Returns the telemetry of all kernels, by ID."""
        return self.collector.get_all_telemetry()

    def summary(self) -> Dict[str, Union[int, float, Dict[str, Any]]]:
        """Returns kernel_count, total_messages, total_errors, total_dropped, aggregate_throughput, and
        per_kernel by ID.

        Returns kernel_count alone while telemetry is off.
        """
        return self.collector.get_summary() if self.collector.enabled else {"kernel_count": len(self._kernels)}

    def reset_telemetry(self, kernel_id: Optional[str] = None) -> None:
        """Resets the counts, latencies and throughput of a kernel; None: of all kernels.

        start_time is kept, and so are the values that a registry exports.
        """
        self.collector.reset(kernel_id)
