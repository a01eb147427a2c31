"""The decorator @ring_kernel with the documented parameters, and the registry of decorated functions."""
import dataclasses
import enum
from typing import Any, Callable, Dict, Optional, TypeVar, Union, overload

from ...errors import InvalidArgumentError
from ...ring import kernels as _kernels

__all__ = [
    "BackpressureStrategy",
    "RingKernelBuilder",
    "RingKernelConfig",
    "get_registered_kernel",
    "get_ring_kernel_meta",
    "is_ring_kernel",
    "register_ring_kernel",
    "ring_kernel",
]


F = TypeVar("F", bound=Callable[..., Any])


class BackpressureStrategy(str, enum.Enum):
    """Policy for a message that is sent to a full queue."""

    BLOCK = "block"
    REJECT = "reject"
    DROP_OLDEST = "drop_oldest"


@dataclasses.dataclass
class RingKernelConfig:
    """Configuration of a kernel.

    grid_size and block_size are stored and have no effect: actors run on the host. Raises
    InvalidArgumentError for a size below 1.
    """

    kernel_id: str = ""
    grid_size: int = 1
    block_size: int = 256
    input_queue_size: int = 4096
    output_queue_size: int = 4096
    backpressure_strategy: Union[str, BackpressureStrategy] = "block"
    use_fast_queue: bool = True

    def __post_init__(self):
        for name in ("grid_size", "block_size", "input_queue_size", "output_queue_size"):
            if getattr(self, name) < 1:
                raise InvalidArgumentError(f"{name} must be at least 1; got {getattr(self, name)}")


@dataclasses.dataclass
class Registered:
    """A decorated function with its message types and configuration."""

    func: Callable[..., Any]
    input_type: Optional[type]
    output_type: Optional[type]
    config: RingKernelConfig


registry: Dict[str, Registered] = {}


def is_loop(function: Callable[..., Any]) -> bool:
    """Returns whether the function is an actor, which receives and sends by itself, as all kernels of
    PyDotCompute are.

    A handler of gpulens.ring neither takes a context nor receives.
    """
    code = getattr(function, "__code__", None)
    return _kernels.takes_context(function) or (code is not None and "receive" in code.co_names)


def spec_of(kernel_id: str, entry: Registered) -> _kernels.KernelSpec:
    """Returns the kernel's spec for the runtime, which checks the types of messages where types are given."""
    config = entry.config
    rule = config.backpressure_strategy
    return _kernels.KernelSpec(
        kernel_id,
        entry.func,
        is_loop(entry.func),
        config.input_queue_size,
        rule.value if isinstance(rule, enum.Enum) else rule,
        config.output_queue_size,
    )


def register_ring_kernel(
    kernel_id: str,
    func: Callable[..., Any],
    input_type: Optional[type] = None,
    output_type: Optional[type] = None,
    **config: Any,
) -> None:
    """Registers a function under an ID, for RingKernelRuntime.launch."""
    registry[kernel_id] = Registered(func, input_type, output_type, RingKernelConfig(kernel_id, **config))


def get_registered_kernel(kernel_id: str) -> Optional[Dict[str, Any]]:
    """Returns func, input_type, output_type and config of a registered kernel; None where there is none."""
    entry = registry.get(kernel_id)
    return None if entry is None else dict(vars(entry))


@overload
def ring_kernel(func: F) -> F: ...


@overload
def ring_kernel(
    func: None = None,
    *,
    kernel_id: Optional[str] = ...,
    input_type: Optional[type] = ...,
    output_type: Optional[type] = ...,
    queue_size: int = ...,
    input_queue_size: Optional[int] = ...,
    output_queue_size: Optional[int] = ...,
    grid_size: int = ...,
    block_size: int = ...,
    backpressure: Union[str, BackpressureStrategy] = ...,
    auto_register: bool = ...,
) -> Callable[[F], F]: ...


def ring_kernel(
    func: Optional[Callable[..., Any]] = None,
    *,
    kernel_id: Optional[str] = None,
    input_type: Optional[type] = None,
    output_type: Optional[type] = None,
    queue_size: int = 4096,
    input_queue_size: Optional[int] = None,
    output_queue_size: Optional[int] = None,
    grid_size: int = 1,
    block_size: int = 256,
    backpressure: Union[str, BackpressureStrategy] = "block",
    auto_register: bool = True,
) -> Any:
    """Makes an async function an actor, registered under kernel_id, by default the function's name.

    input_type: messages of other types are refused with TypeError.
    output_type: stored; get_registered_kernel() returns it.
    queue_size: capacity of the message queue and of the reply queue, unless input_queue_size or
        output_queue_size is given.
    backpressure: policy of a full queue: "block" (the sender waits), "reject" (raises QueueFullError) or
        "drop_oldest".
    grid_size, block_size: stored, without effect: actors run on the host.
    auto_register: False: the function is not registered; pass it to launch(kernel_id, function).

    Raises InvalidArgumentError for a size below 1 and for an unknown policy.
    """

    def decorate(function):
        name = kernel_id or function.__name__
        config = RingKernelConfig(
            name,
            grid_size,
            block_size,
            queue_size if input_queue_size is None else input_queue_size,
            queue_size if output_queue_size is None else output_queue_size,
            backpressure,
        )
        entry = Registered(function, input_type, output_type, config)
        made = _kernels.register(spec_of(name, entry), function, keep=False)
        made._ring_kernel_meta = {"kernel_id": name, "input_type": input_type, "output_type": output_type, "config": config}
        made._original_func = function
        if auto_register:
            registry[name] = entry
        return made

    return decorate if func is None else decorate(func)


def is_ring_kernel(func: Callable[..., Any]) -> bool:
    """Returns whether the function was decorated with @ring_kernel."""
    return hasattr(func, "_ring_kernel_meta")


def get_ring_kernel_meta(func: Callable[..., Any]) -> Optional[Dict[str, Any]]:
    """Returns kernel_id, input_type, output_type and config of a function that was decorated with
    @ring_kernel; None for another one."""
    meta = getattr(func, "_ring_kernel_meta", None)
    return None if meta is None else dict(meta)


class RingKernelBuilder:
    """Makes a kernel step by step; each method returns the builder. build() checks the values and registers
    the kernel, as @ring_kernel does.

        RingKernelBuilder("square").with_queue_size(1024).with_backpressure("reject").with_handler(square).build()
    """

    def __init__(self, kernel_id: str) -> None:
        self._options: Dict[str, Any] = {"kernel_id": kernel_id}
        self._handler: Optional[Callable[..., Any]] = None

    def _with(self, **options: Any) -> "RingKernelBuilder":
        self._options.update(options)
        return self

    def with_input_type(self, input_type: type) -> "RingKernelBuilder":
        """Messages of other types are refused."""
        return self._with(input_type=input_type)

    def with_output_type(self, output_type: type) -> "RingKernelBuilder":
        """Stores the type of the replies."""
        return self._with(output_type=output_type)

    def with_queue_size(self, size: int) -> "RingKernelBuilder":
        """Sets the capacity of the message queue and of the reply queue."""
        return self._with(input_queue_size=size, output_queue_size=size)

    def with_input_queue_size(self, size: int) -> "RingKernelBuilder":
        """Sets the capacity of the message queue."""
        return self._with(input_queue_size=size)

    def with_output_queue_size(self, size: int) -> "RingKernelBuilder":
        """Sets the capacity of the reply queue."""
        return self._with(output_queue_size=size)

    def with_grid_size(self, size: int) -> "RingKernelBuilder":
        """Stores the grid size, which has no effect."""
        return self._with(grid_size=size)

    def with_block_size(self, size: int) -> "RingKernelBuilder":
        """Stores the block size, which has no effect."""
        return self._with(block_size=size)

    def with_backpressure(self, strategy: Union[str, BackpressureStrategy]) -> "RingKernelBuilder":
        """Sets the policy of a full queue: "block", "reject" or "drop_oldest"."""
        return self._with(backpressure=strategy)

    def with_handler(self, handler: Callable[..., Any]) -> "RingKernelBuilder":
        """Sets the function of the kernel."""
        self._handler = handler
        return self

    def build(self) -> Callable[..., Any]:
        """Registers the kernel and returns its function. Raises InvalidArgumentError, which is a ValueError,
        without a handler, for a size below 1 and for an unknown policy."""
        if self._handler is None:
            raise InvalidArgumentError(f"kernel '{self._options['kernel_id']}' has no handler; call with_handler()")
        return ring_kernel(**self._options)(self._handler)

    def __repr__(self) -> str:
        return f"RingKernelBuilder({', '.join(f'{name}={value!r}' for name, value in self._options.items())})"
