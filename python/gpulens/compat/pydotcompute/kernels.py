"""The decorator @ring_kernel with the documented parameters, and the registry of decorated functions."""
import dataclasses
import enum
from typing import Any, Callable, Dict, Optional, TypeVar, Union, overload

from ...errors import InvalidArgumentError
from ...ring import kernels as _kernels

__all__ = [
    "BackpressureStrategy",
    "RingKernelConfig",
    "get_registered_kernel",
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
