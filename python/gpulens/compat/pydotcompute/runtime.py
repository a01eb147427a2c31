"""RingKernelRuntime with the documented methods, on top of gpulens.ring, and RingKernel, one kernel of its own."""
import contextlib
from typing import Any, AsyncIterator, Callable, Dict, List, Optional, Union

from ...errors import InvalidArgumentError
from ...ring.actor import KernelContext
from ...ring.errors import KernelNotFoundError, KernelStateError, QueueFullError, QueueTimeoutError
from ...ring.runtime import KernelHandle
from ...ring.runtime import RingKernelRuntime as _Runtime
from ...ring.states import KernelState
from .kernels import Registered, RingKernelConfig, registry, spec_of
from .telemetry import KernelTelemetry, TelemetryCollector

__all__ = ["KernelContext", "KernelState", "RingKernel", "RingKernelRuntime", "managed_kernel"]


class RingKernelRuntime:
    """Runs actors on the event loop. Use it with `async with`, which terminates all kernels at its end.

    enable_telemetry: count and time messages; off by default, for performance.
    default_queue_size: queue size of kernels that do not set one.
    backend: "auto" or "cpu"; Python actors run on the host.
    use_uvloop, use_eager_tasks: accepted and ignored; the program chooses its event loop.
    """

    is_active: bool = False  # between start() and shutdown()

    def __init__(
        self,
        *,
        enable_telemetry: bool = False,
        default_queue_size: int = 1000,
        backend: str = "auto",
        use_uvloop: bool = False,
        use_eager_tasks: bool = False,
    ) -> None:
        self._runtime = _Runtime()
        self._telemetry = TelemetryCollector(enable_telemetry)
        self._runtime.collector = self._telemetry
        self._default_queue_size = default_queue_size
        self._types: Dict[str, Registered] = {}
        self.backend = backend

    async def __aenter__(self) -> "RingKernelRuntime":
        await self.start()
        return self

    async def __aexit__(self, *exception: Any) -> None:
        await self.shutdown()

    async def start(self) -> None:
        """Marks the runtime as active; `async with` calls it."""
        self.is_active = True

    async def shutdown(self, timeout: float = 10.0) -> None:
        """Terminates all kernels."""
        self.is_active = False
        await self._runtime.terminate_all(timeout)

    # ---- lifecycle

    async def launch(
        self,
        kernel_id: str,
        kernel_func: Optional[Callable[..., Any]] = None,
        *,
        queue_size: Optional[int] = None,
        config: Optional[RingKernelConfig] = None,
        input_type: Optional[type] = None,
        output_type: Optional[type] = None,
    ) -> KernelHandle:
        """Creates a kernel from the function, or from the one registered under the ID.

        Raises KernelNotFoundError, which lists the registered kernels, and KernelAlreadyExistsError.
        """
        entry = self._entry(kernel_id, kernel_func)
        config = config or entry.config
        if queue_size is not None:
            config = RingKernelConfig(
                kernel_id, config.grid_size, config.block_size, queue_size, queue_size, config.backpressure_strategy
            )
        entry = Registered(entry.func, input_type or entry.input_type, output_type or entry.output_type, config)
        handle = self._runtime.launch_spec(spec_of(kernel_id, entry))
        self._types[kernel_id] = entry
        return handle

    def _entry(self, kernel_id: str, function: Optional[Callable[..., Any]]) -> Registered:
        if function is None:
            found = registry.get(kernel_id)
            if found is None:
                raise KernelNotFoundError(kernel_id, list(registry))
            return found
        meta = getattr(function, "_ring_kernel_meta", None)
        if meta is not None:
            return Registered(function._original_func, meta["input_type"], meta["output_type"], meta["config"])
        size = self._default_queue_size
        return Registered(function, None, None, RingKernelConfig(kernel_id, input_queue_size=size, output_queue_size=size))

    async def activate(self, kernel_id: str) -> None:
        """Changes a kernel from LAUNCHED to ACTIVE. Raises KernelStateError in another state."""
        await self._runtime.activate(kernel_id)

    async def deactivate(self, kernel_id: str) -> None:
        """Changes a kernel from ACTIVE to DEACTIVATED: messages are queued and not processed."""
        await self._runtime.deactivate(kernel_id)

    async def reactivate(self, kernel_id: str) -> None:
        """Changes a kernel from DEACTIVATED to ACTIVE."""
        await self._runtime.reactivate(kernel_id)

    async def terminate(self, kernel_id: str, timeout: float = 5.0) -> None:
        """Ends a kernel. Wakes all callers that wait for it at once. Its telemetry is kept until a reset."""
        await self._runtime.terminate(kernel_id, timeout)

    async def terminate_all(self, *, timeout: float = 10.0) -> None:
        """Ends all kernels."""
        await self._runtime.terminate_all(timeout)

    # ---- messages

    async def send(self, kernel_id: str, message: Any, *, timeout: Optional[float] = None) -> None:
        """Puts a message into a kernel's queue.

        Raises QueueFullError when there is no room, at once or within `timeout` seconds, and TypeError for
        a message that is not of the kernel's input_type.
        """
        entry = self._types.get(kernel_id)
        if entry is not None and entry.input_type is not None and not isinstance(message, entry.input_type):
            expected, got = entry.input_type.__name__, type(message).__name__
            raise TypeError(f"kernel '{kernel_id}' accepts messages of the type {expected}, not {got}")
        try:
            await self._runtime.send(kernel_id, message, timeout)
        except QueueTimeoutError:
            raise QueueFullError(kernel_id, self._queue_size(kernel_id)) from None

    def _queue_size(self, kernel_id: str) -> int:
        return self._types[kernel_id].config.input_queue_size

    async def receive(self, kernel_id: str, *, timeout: Optional[float] = None) -> Any:
        """Returns a kernel's oldest reply. Raises QueueTimeoutError, which is also an
        asyncio.TimeoutError, when there is none in time."""
        return await self._runtime.receive(kernel_id, timeout)

    async def send_and_receive(self, kernel_id: str, message: Any, *, timeout: Optional[float] = None) -> Any:
        """Calls send(), then receive()."""
        await self.send(kernel_id, message, timeout=timeout)
        return await self.receive(kernel_id, timeout=timeout)

    async def send_batch(self, kernel_id: str, messages: List[Any], *, timeout: Optional[float] = None) -> int:
        """Sends messages one after the other until the queue has no room for `timeout` seconds. Returns
        the number sent."""
        sent = 0
        for message in messages:
            try:
                await self.send(kernel_id, message, timeout=timeout)
            except QueueFullError:
                break
            sent += 1
        return sent

    # ---- queries

    def get_state(self, kernel_id: str) -> KernelState:
        """Returns the state of a kernel; TERMINATED for one that was terminated."""
        return self._runtime.state(kernel_id)

    def get_kernel_state(self, kernel_id: str) -> KernelState:
        """Same as get_state()."""
        return self.get_state(kernel_id)

    @property
    def kernel_ids(self) -> List[str]:
        """IDs of all kernels that were launched and not terminated."""
        return self._runtime.kernel_ids

    @property
    def active_kernels(self) -> List[str]:
        """IDs of all kernels that are ACTIVE."""
        return [kernel_id for kernel_id in self.kernel_ids if self.get_state(kernel_id) is KernelState.ACTIVE]

    # ---- telemetry

    def get_telemetry(self, kernel_id: str) -> Optional[KernelTelemetry]:
        """Returns a kernel's live telemetry; None while telemetry is off or where there is no such kernel."""
        return self._telemetry.get_telemetry(kernel_id)

    def get_all_telemetry(self) -> Dict[str, KernelTelemetry]:
        """Returns the live telemetry of all kernels, by ID."""
        return self._telemetry.get_all_telemetry()

    def get_summary(self) -> Dict[str, Any]:
        """Returns TelemetryCollector.get_summary(); kernel_count and zeros while telemetry is off."""
        if self._telemetry.enabled:
            return self._telemetry.get_summary()
        zeros = ("total_messages", "total_messages_processed", "total_messages_dropped", "total_errors")
        counts: Dict[str, Any] = dict.fromkeys(zeros, 0)
        return {"kernel_count": len(self.kernel_ids), **counts, "aggregate_throughput": 0.0, "per_kernel": {}}

    def reset_telemetry(self, kernel_id: Optional[str] = None) -> None:
        """Resets the counts and throughput of a kernel; None: of all kernels. start_time is kept."""
        self._telemetry.reset(kernel_id)

    @contextlib.asynccontextmanager
    async def kernel_scope(
        self, kernel_id: str, kernel_func: Optional[Callable[..., Any]] = None, **options: Any
    ) -> AsyncIterator[KernelHandle]:
        """Launches and activates a kernel in an `async with` block, and terminates it at the end."""
        handle = await self.launch(kernel_id, kernel_func, **options)
        try:
            await self.activate(kernel_id)
            yield handle
        finally:
            await self.terminate(kernel_id)


class RingKernel:
    """One kernel with a runtime to itself. Telemetry is off; a RingKernelRuntime has it.

    kernel_func: an actor (with one parameter, its KernelContext), or a handler, which is called with each
        message.
    config: queue sizes and backpressure; None: those of the decorator, else the defaults of
        RingKernelConfig.
    input_type: messages of other types are refused with TypeError.

    Must be used from one event loop. Raises InvalidArgumentError for a config that no queue can have.
    """

    def __init__(
        self,
        kernel_id: str,
        kernel_func: Callable[..., Any],
        *,
        config: Optional[RingKernelConfig] = None,
        input_type: Optional[type] = None,
        output_type: Optional[type] = None,
    ) -> None:
        meta = getattr(kernel_func, "_ring_kernel_meta", {})
        self.kernel_id = kernel_id
        self._config = config or meta.get("config") or RingKernelConfig(kernel_id)
        self._function = kernel_func
        self._types = {"input_type": input_type, "output_type": output_type}
        self._runtime = RingKernelRuntime()
        self._state: Optional[KernelState] = KernelState.CREATED  # None: the runtime has it

    @property
    def state(self) -> KernelState:
        """State of the kernel."""
        return self._state or self._runtime.get_state(self.kernel_id)

    @property
    def config(self) -> RingKernelConfig:
        """Configuration of the kernel."""
        return self._config

    def _launched(self, operation: str) -> RingKernelRuntime:
        if self._state is not None:
            raise KernelStateError(self.kernel_id, self._state.name, operation)
        return self._runtime

    async def launch(self) -> None:
        """Makes the queues. Raises KernelStateError unless the kernel is CREATED."""
        if self.state is not KernelState.CREATED:
            raise KernelStateError(self.kernel_id, self.state.name, "launch")
        await self._runtime.launch(self.kernel_id, self._function, config=self._config, **self._types)
        self._state = None

    async def activate(self) -> None:
        """Changes a kernel from LAUNCHED to ACTIVE. Raises KernelStateError in another state."""
        await self._launched("activate").activate(self.kernel_id)

    async def deactivate(self) -> None:
        """Changes a kernel from ACTIVE to DEACTIVATED: messages are queued and not processed."""
        await self._launched("deactivate").deactivate(self.kernel_id)

    async def reactivate(self) -> None:
        """Changes a kernel from DEACTIVATED to ACTIVE."""
        await self._launched("reactivate").reactivate(self.kernel_id)

    async def terminate(self, timeout: float = 5.0) -> None:
        """Ends the kernel, which cannot be launched again. Wakes all callers that wait for it at once. Does
        nothing for a kernel that has ended."""
        if self._state is None:
            await self._runtime.terminate(self.kernel_id, timeout)
        else:
            self._state = KernelState.TERMINATED

    async def send(self, message: Any, timeout: Optional[float] = None) -> None:
        """Puts a message into the queue, as RingKernelRuntime.send() does."""
        await self._launched("send message").send(self.kernel_id, message, timeout=timeout)

    async def receive(self, timeout: Optional[float] = None) -> Any:
        """Returns the oldest reply, as RingKernelRuntime.receive() does."""
        return await self._launched("receive message").receive(self.kernel_id, timeout=timeout)

    def __repr__(self) -> str:
        return f"RingKernel({self.kernel_id}, {self.state.value})"


@contextlib.asynccontextmanager
async def managed_kernel(
    runtime: Union[RingKernelRuntime, str, None] = None,
    kernel_id: Any = None,
    kernel_func: Optional[Callable[..., Any]] = None,
    **options: Any,
) -> AsyncIterator[Any]:
    """Launches and activates a kernel in an `async with` block, and terminates it at the end.

    managed_kernel(runtime, kernel_id, kernel_func=None): a kernel of the runtime; the block has its ID, as
    PyDotCompute documents. managed_kernel(kernel_id, kernel_func, **options): a kernel of its own; the block
    has the RingKernel, as its code has it. options: those of RingKernel.

    Raises InvalidArgumentError for other arguments.
    """
    if isinstance(runtime, str):
        runtime, kernel_id, kernel_func = None, runtime, kernel_func if kernel_id is None else kernel_id
    fits = not options if runtime is not None else callable(kernel_func)
    if not isinstance(kernel_id, str) or not fits:
        raise InvalidArgumentError("managed_kernel takes (runtime, kernel_id, kernel_func=None) or (kernel_id, kernel_func, **options)")
    if runtime is not None:
        async with runtime.kernel_scope(kernel_id, kernel_func):
            yield kernel_id
        return
    kernel = RingKernel(kernel_id, kernel_func, **options)
    await kernel.launch()
    try:
        await kernel.activate()
        yield kernel
    finally:
        await kernel.terminate()
