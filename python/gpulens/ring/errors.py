"""Exceptions of kernels and their queues; each is also a class of gpulens.errors, and so a built-in
exception."""
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
    """Base class of the errors of kernels."""


class KernelNotFoundError(KernelError, errors.InvalidArgumentError, KeyError):
    """No kernel has this ID; `available` lists the existing ones."""

    def __init__(self, kernel_id: str, available: Optional[Sequence[str]] = None):
        self.kernel_id = kernel_id
        self.available = sorted(available or [])
        known = ", ".join(self.available[:10]) + (", …" if len(self.available) > 10 else "")
        super().__init__(f"no kernel '{kernel_id}'; " + (f"available: {known}" if known else "there are no kernels"))


class KernelAlreadyExistsError(KernelError, errors.InvalidArgumentError):
    """The ID is in use by a kernel that has not ended."""

    def __init__(self, kernel_id: str):
        self.kernel_id = kernel_id
        super().__init__(f"kernel '{kernel_id}' already exists")


class KernelStateError(KernelError, errors.InvalidArgumentError):
    """A kernel in this state does not allow the operation. `current_state` is the name of the state, such
    as "LAUNCHED"."""

    def __init__(self, kernel_id: str, current_state: str, operation: str, why: str = ""):
        self.kernel_id = kernel_id
        self.current_state = current_state
        self.operation = operation
        super().__init__(f"cannot {operation} kernel '{kernel_id}' from state '{current_state}'" + (f": {why}" if why else ""))


class KernelEndedError(KernelStateError, errors.UnavailableError):
    """The kernel has ended or failed, perhaps while the caller waited for it."""


class QueueError(errors.Error):
    """Base class of the errors of queues."""


class QueueFullError(QueueError, errors.ExhaustedError):
    """The queue has no room."""

    def __init__(self, kernel_id: str, queue_size: int):
        self.kernel_id = kernel_id
        self.queue_size = queue_size
        super().__init__(f"the queue of kernel '{kernel_id}' is full (size: {queue_size})")


class QueueTimeoutError(QueueError, errors.TimeoutError, *_ASYNCIO):
    """No message, reply or room was available before the deadline. Also a subclass of
    asyncio.TimeoutError."""

    def __init__(self, kernel_id: str, timeout: float, operation: str):
        self.kernel_id = kernel_id
        self.timeout = timeout
        self.operation = operation
        super().__init__(f"kernel '{kernel_id}': timed out after {timeout} s ({operation})")
