"""Specifications of kernels, and the registry of decorated kernels."""
import dataclasses
import functools
import inspect
from typing import Any, Callable, Dict, Literal, Optional, TypeVar, Union, overload

from ..errors import InvalidArgumentError

__all__ = ["KernelSpec", "registered", "ring_kernel", "spec_of"]

WhenFull = Literal["block", "reject", "drop_oldest", "drop_newest"]
WHEN_FULL = ("block", "reject", "drop_oldest", "drop_newest")
DEFAULT_QUEUE_SIZE = 4096
MOST_QUEUE_SIZE = 1 << 24
_CONTEXTS = ("ctx", "context", "kernel_context")
F = TypeVar("F", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class KernelSpec:
    """The function of a kernel, how it is called, and the sizes of its queues."""

    kernel_id: str
    function: Callable[..., Any]
    loop: bool  # called once, with a KernelContext; else with each message
    queue_size: int = DEFAULT_QUEUE_SIZE
    when_full: WhenFull = "block"
    reply_queue_size: Optional[int] = None  # None: as queue_size

    def __post_init__(self):
        if not isinstance(self.kernel_id, str) or not self.kernel_id or len(self.kernel_id.encode()) > 255:
            raise InvalidArgumentError(f"kernel_id must be a str of 1 to 255 bytes; got {self.kernel_id!r}")
        for size in (self.queue_size, self.replies):
            if not isinstance(size, int) or not 1 <= size <= MOST_QUEUE_SIZE:
                raise InvalidArgumentError(f"kernel '{self.kernel_id}': a queue size must be 1 to {MOST_QUEUE_SIZE}; got {size!r}")
        if self.when_full not in WHEN_FULL:
            raise InvalidArgumentError(
                f"kernel '{self.kernel_id}': when_full must be one of {', '.join(WHEN_FULL)}; got {self.when_full!r}"
            )

    @property
    def replies(self) -> int:
        """Size of the reply queue."""
        return self.queue_size if self.reply_queue_size is None else self.reply_queue_size


registered: Dict[str, KernelSpec] = {}


def takes_context(function: Callable[..., Any]) -> bool:
    """Returns whether the function is a loop: its one parameter is named ctx, or annotated as a
    KernelContext."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    if len(parameters) != 1:
        return False
    return parameters[0].name in _CONTEXTS or "KernelContext" in str(parameters[0].annotation)


def register(spec: KernelSpec, function: Callable[..., Any], keep: bool = True) -> Callable[..., Any]:
    """Returns the function with its spec attached. Registers it under its ID when `keep` is true; the last
    function of an ID wins."""

    @functools.wraps(function)
    def call(*arguments, **named):
        return function(*arguments, **named)

    call.__gpulens_kernel__ = spec
    if keep:
        registered[spec.kernel_id] = spec
    return call


@overload
def ring_kernel(kernel_id: F) -> F: ...


@overload
def ring_kernel(
    kernel_id: Optional[str] = None, *, queue_size: int = ..., when_full: WhenFull = ...
) -> Callable[[F], F]: ...


def ring_kernel(
    kernel_id: Union[str, Callable[..., Any], None] = None,
    *,
    queue_size: int = DEFAULT_QUEUE_SIZE,
    when_full: WhenFull = "block",
) -> Any:
    """Decorates a function as a kernel, which RingKernelRuntime.start and launch find by its ID.

    The function, async or not, is a handler: it is called with each message, and its result is the reply.
    With one parameter named ctx it is a loop: it is called once, and receives and sends through the
    KernelContext.

    kernel_id: by default the function's name.
    queue_size: size of the message queue and of the reply queue.
    when_full: "block" (the sender waits), "reject" (raises QueueFullError), "drop_oldest" or
        "drop_newest".
    """

    def decorate(function):
        name = kernel_id if isinstance(kernel_id, str) else function.__name__
        return register(KernelSpec(name, function, takes_context(function), queue_size, when_full), function)

    return decorate(kernel_id) if callable(kernel_id) else decorate


def spec_of(kernel: Any, kernel_id: Optional[str] = None, **changes: Any) -> Optional[KernelSpec]:
    """Returns the spec of a decorated or plain function, or of a registered ID; None where there is none."""
    if isinstance(kernel, str):
        found = registered.get(kernel)
    else:
        found = getattr(kernel, "__gpulens_kernel__", None)
        if found is None and callable(kernel):
            found = KernelSpec(kernel_id or getattr(kernel, "__name__", "kernel"), kernel, takes_context(kernel))
    if found is None:
        return None
    changes = {name: value for name, value in changes.items() if value is not None}
    if kernel_id is not None:
        changes["kernel_id"] = kernel_id
    return dataclasses.replace(found, **changes) if changes else found
