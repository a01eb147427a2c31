"""The runtime: kernels by their ids."""
import asyncio
from typing import Any, Dict, List, Optional, Union

from .. import errors
from .._core import KernelTelemetry, Registry, TelemetryCollector
from .actor import Actor
from .errors import KernelAlreadyExistsError, KernelEndedError, KernelNotFoundError, QueueTimeoutError
from .kernels import registered, spec_of
from .states import KernelState

__all__ = ["KernelHandle", "RingKernelRuntime"]

_MOST_ENDED = 1_000  # ids of kernels that have ended, which are still known by their state


class KernelHandle:
    """A kernel of a runtime. It outlives the kernel: then it raises KernelEndedError."""

    __slots__ = ("_actor", "_runtime")

    def __init__(self, actor: Actor, runtime: "RingKernelRuntime"):
        self._actor = actor
        self._runtime = runtime

    @property
    def kernel_id(self) -> str:
        """Its id."""
        return self._actor.spec.kernel_id

    @property
    def state(self) -> KernelState:
        """Its state."""
        return self._actor.state

    @property
    def telemetry(self) -> Optional[KernelTelemetry]:
        """A consistent copy of its numbers; None: telemetry is off."""
        return self._actor.recorder.telemetry() if self._actor.recorder else None

    async def send(self, message: Any, timeout: Optional[float] = None) -> None:
        """Puts a message into its queue. Full: waits, or as `when_full` says."""
        await self._actor.send(message, timeout)

    async def receive(self, timeout: Optional[float] = None) -> Any:
        """Its oldest reply. QueueTimeoutError: there was none in `timeout` seconds."""
        return await self._actor.receive(timeout)

    async def ask(self, message: Any, timeout: Optional[float] = None) -> Any:
        """The handler's answer to this message, whoever else sends and receives; what it raises is raised here.

        Of a loop, which answers when it likes: its next reply.
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
        """As RingKernelRuntime.terminate."""
        await self._runtime.terminate(self.kernel_id, timeout)

    def __repr__(self) -> str:
        return f"KernelHandle({self.kernel_id}, {self.state.value})"


class RingKernelRuntime:
    """Runs kernels on the event loop; for one loop, and not thread-safe.

    As `async with`: leaving it terminates all kernels. Telemetry survives a kernel's end, until a reset or the runtime's.

    enable_telemetry: off unless asked for; then every message is counted and timed.
    registry: also tells the telemetry, as ring_kernel.*; that of the process unless given.
    """

    def __init__(self, *, enable_telemetry: bool = False, registry: Optional[Registry] = None):
        self.collector = TelemetryCollector(enable_telemetry, registry=registry)
        self._kernels: Dict[str, Actor] = {}
        self._ended: Dict[str, KernelState] = {}

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
        when_full: Optional[str] = None,
    ) -> KernelHandle:
        """Launches and activates a kernel: a function, decorated or not, or the id of a decorated one."""
        handle = await self.launch(kernel, kernel_id, queue_size=queue_size, when_full=when_full)
        await self.activate(handle.kernel_id)
        return handle

    async def launch(
        self,
        kernel: Any,
        kernel_id: Optional[str] = None,
        *,
        queue_size: Optional[int] = None,
        when_full: Optional[str] = None,
    ) -> KernelHandle:
        """Makes a kernel with queues, which does nothing until it is activated. KernelNotFoundError: no such id was
        decorated. KernelAlreadyExistsError: the id is taken."""
        spec = spec_of(kernel, kernel_id, queue_size=queue_size, when_full=when_full)
        if spec is None:
            if isinstance(kernel, str):
                raise KernelNotFoundError(kernel, list(registered))
            raise errors.InvalidArgumentError(f"a kernel is a function or the id of one, not {kernel!r}")
        return self.launch_spec(spec)

    def launch_spec(self, spec: Any) -> KernelHandle:
        """The same with everything decided: a KernelSpec."""
        known = self._kernels.get(spec.kernel_id)
        if known is not None and known.state is not KernelState.TERMINATED:
            raise KernelAlreadyExistsError(spec.kernel_id)
        self._ended.pop(spec.kernel_id, None)
        actor = self._kernels[spec.kernel_id] = Actor(spec, self.collector.kernel(spec.kernel_id))
        return KernelHandle(actor, self)

    async def activate(self, kernel_id: str) -> None:
        """Lets a launched kernel work. KernelStateError: it is in another state."""
        self._actor(kernel_id).activate()

    async def deactivate(self, kernel_id: str) -> None:
        """An active kernel finishes its message and begins no other; messages are queued."""
        self._actor(kernel_id).deactivate()

    async def reactivate(self, kernel_id: str) -> None:
        """Lets a deactivated kernel work again."""
        self._actor(kernel_id).reactivate()

    async def terminate(self, kernel_id: str, timeout: Optional[float] = 5.0) -> None:
        """Wakes whoever waits for the kernel at once, drops what is queued, waits for the handler at most `timeout` seconds
        and then cancels it. Then the id is free. Nothing happens to one that has ended already."""
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
        """All of them, at the same time. The first failure is raised when all have been tried."""
        for actor in self._kernels.values():
            actor.close()
        tasks = [self.terminate(kernel_id, timeout) for kernel_id in list(self._kernels)]
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def send(self, kernel_id: str, message: Any, timeout: Optional[float] = None) -> None:
        """As KernelHandle.send."""
        await self._actor(kernel_id).send(message, timeout)

    async def receive(self, kernel_id: str, timeout: Optional[float] = None) -> Any:
        """As KernelHandle.receive."""
        return await self._actor(kernel_id).receive(timeout)

    async def ask(self, kernel_id: str, message: Any, timeout: Optional[float] = None) -> Any:
        """As KernelHandle.ask."""
        return await self.handle(kernel_id).ask(message, timeout)

    def handle(self, kernel_id: str) -> KernelHandle:
        """The handle of a kernel."""
        return KernelHandle(self._actor(kernel_id), self)

    def state(self, kernel_id: str) -> KernelState:
        """The state of a kernel, of the last 1,000 that were terminated, too."""
        return self._ended[kernel_id] if kernel_id in self._ended else self._actor(kernel_id).state

    @property
    def kernel_ids(self) -> List[str]:
        """Of all kernels that were not terminated."""
        return list(self._kernels)

    @property
    def telemetry_enabled(self) -> bool:
        """Whether messages are counted and timed."""
        return self.collector.enabled

    def telemetry(self, kernel_id: str) -> Optional[KernelTelemetry]:
        """A consistent copy of a kernel's numbers; None: telemetry is off, or there is no such kernel."""
        return self.collector.get_telemetry(kernel_id)

    def all_telemetry(self) -> Dict[str, KernelTelemetry]:
        """The same of all, by id."""
        return self.collector.get_all_telemetry()

    def summary(self) -> Dict[str, Union[int, float, Dict[str, Any]]]:
        """kernel_count, total_messages, total_errors, total_dropped, aggregate_throughput, and per_kernel by id; kernel_count
        alone when telemetry is off."""
        return self.collector.get_summary() if self.collector.enabled else {"kernel_count": len(self._kernels)}

    def reset_telemetry(self, kernel_id: Optional[str] = None) -> None:
        """Begins counts, latencies and throughput of a kernel anew; None: of all. start_time stays, and so does what a
        registry tells."""
        self.collector.reset(kernel_id)
