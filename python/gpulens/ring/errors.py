"""What kernels and their queues raise; each is also the class of gpulens.errors, and so the built-in, that people catch."""
import asyncio
import builtins
from typing import Optional, Sequence

from .. import errors

__all__ = [
    "KernelAlreadyExistsError",
    "KernelEndedError",
    "KernelError",
    "KernelNotFoundError",
    "KernelStateError",
    "QueueError",
    "QueueFullError",
    "QueueTimeoutError",
]

# One class since Python 3.11, two before.
_ASYNCIO = () if asyncio.TimeoutError is builtins.TimeoutError else (asyncio.TimeoutError,)


class KernelError(errors.Error):
    """The base of what is wrong with a kernel."""


class KernelNotFoundError(KernelError, errors.InvalidArgumentError, KeyError):
    """There is no kernel with this id; `available` lists those there are."""

    def __init__(self, kernel_id: str, available: Optional[Sequence[str]] = None):
        self.kernel_id = kernel_id
        self.available = sorted(available or [])
        known = ", ".join(self.available[:10]) + (", …" if len(self.available) > 10 else "")
        super().__init__(f"there is no kernel '{kernel_id}'" + (f"; there are: {known}" if known else ", nor any other"))


class KernelAlreadyExistsError(KernelError, errors.InvalidArgumentError):
    """The id is taken by a kernel that has not ended."""

    def __init__(self, kernel_id: str):
        self.kernel_id = kernel_id
        super().__init__(f"there is a kernel '{kernel_id}' already")


class KernelStateError(KernelError, errors.InvalidArgumentError):
    """A kernel in this state cannot do that. `current_state` is the state's name: "LAUNCHED"."""

    def __init__(self, kernel_id: str, current_state: str, operation: str, why: str = ""):
        self.kernel_id = kernel_id
        self.current_state = current_state
        self.operation = operation
        super().__init__(f"cannot {operation} kernel '{kernel_id}' from state '{current_state}'" + (f": {why}" if why else ""))


class KernelEndedError(KernelStateError, errors.UnavailableError):
    """The kernel has ended or failed, perhaps while it was waited for."""


class QueueError(errors.Error):
    """The base of what is wrong with a queue."""


class QueueFullError(QueueError, errors.ExhaustedError):
    """A queue has no room."""

    def __init__(self, kernel_id: str, queue_size: int):
        self.kernel_id = kernel_id
        self.queue_size = queue_size
        super().__init__(f"the queue of kernel '{kernel_id}' is full (size: {queue_size})")


class QueueTimeoutError(QueueError, errors.TimeoutError, *_ASYNCIO):
    """No message, no reply or no room by the deadline. Also asyncio.TimeoutError."""

    def __init__(self, kernel_id: str, timeout: float, operation: str):
        self.kernel_id = kernel_id
        self.timeout = timeout
        self.operation = operation
        super().__init__(f"kernel '{kernel_id}': {timeout} s were not enough to {operation} a message")
