"""What a kernel is made of, and the registry of those that were decorated."""
import dataclasses
import functools
import inspect
from typing import Any, Callable, Dict, Optional, TypeVar, Union, overload

from ..errors import InvalidArgumentError

__all__ = ["KernelSpec", "registered", "ring_kernel", "spec_of"]

WHEN_FULL = ("block", "reject", "drop_oldest", "drop_newest")
DEFAULT_QUEUE_SIZE = 4096
MOST_QUEUE_SIZE = 1 << 24
_CONTEXTS = ("ctx", "context", "kernel_context")
F = TypeVar("F", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class KernelSpec:
    """A kernel's function, how it is called, and its queues."""

    kernel_id: str
    function: Callable[..., Any]
    loop: bool  # called once, with a KernelContext; else with each message
    queue_size: int = DEFAULT_QUEUE_SIZE
    when_full: str = "block"
    reply_queue_size: Optional[int] = None  # None: as queue_size

    def __post_init__(self):
        if not isinstance(self.kernel_id, str) or not self.kernel_id or len(self.kernel_id.encode()) > 255:
            raise InvalidArgumentError(f"a kernel's id is a str of 1 to 255 bytes, not {self.kernel_id!r}")
        for size in (self.queue_size, self.replies):
            if not isinstance(size, int) or not 1 <= size <= MOST_QUEUE_SIZE:
                raise InvalidArgumentError(f"kernel '{self.kernel_id}': a queue's size is 1 to {MOST_QUEUE_SIZE}, not {size!r}")
        if self.when_full not in WHEN_FULL:
            raise InvalidArgumentError(
                f"kernel '{self.kernel_id}': when_full is one of {', '.join(WHEN_FULL)}, not {self.when_full!r}"
            )

    @property
    def replies(self) -> int:
        """The size of the queue of replies."""
        return self.queue_size if self.reply_queue_size is None else self.reply_queue_size


registered: Dict[str, KernelSpec] = {}


def takes_context(function: Callable[..., Any]) -> bool:
    """Whether it is a loop: its one parameter is named ctx, or annotated as a KernelContext."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    if len(parameters) != 1:
        return False
    return parameters[0].name in _CONTEXTS or "KernelContext" in str(parameters[0].annotation)


def register(spec: KernelSpec, function: Callable[..., Any], keep: bool = True) -> Callable[..., Any]:
    """The function with its spec on it; kept by its id, the last one of an id."""

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
    kernel_id: Optional[str] = None, *, queue_size: int = ..., when_full: str = ...
) -> Callable[[F], F]: ...


def ring_kernel(
    kernel_id: Union[str, Callable[..., Any], None] = None,
    *,
    queue_size: int = DEFAULT_QUEUE_SIZE,
    when_full: str = "block",
) -> Any:
    """Makes a function a kernel that RingKernelRuntime.start and launch know by its id, the function's name unless given.

    The function, async or not, is a handler: called with each message, its result is the reply. With one parameter named
    ctx it is a loop: called once, it receives and sends by the KernelContext.

    queue_size: of the messages and of the replies.
    when_full: "block" (the sender waits), "reject" (QueueFullError), "drop_oldest" or "drop_newest".
    """

    def decorate(function):
        name = kernel_id if isinstance(kernel_id, str) else function.__name__
        return register(KernelSpec(name, function, takes_context(function), queue_size, when_full), function)

    return decorate(kernel_id) if callable(kernel_id) else decorate


def spec_of(kernel: Any, kernel_id: Optional[str] = None, **changes: Any) -> Optional[KernelSpec]:
    """The spec of a decorated or plain function, or of a registered id; None: there is none."""
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
