"""The part of pydotcompute.exceptions that ring kernels raise.

The classes are those of gpulens.ring: QueueTimeoutError is also an asyncio.TimeoutError,
KernelNotFoundError a KeyError.
"""
from ...errors import Error as PyDotComputeError
from ...ring.errors import (
    KernelAlreadyExistsError,
    KernelError,
    KernelNotFoundError,
    KernelStateError,
    QueueError,
    QueueFullError,
    QueueTimeoutError,
)

__all__ = [
    "KernelAlreadyExistsError",
    "KernelError",
    "KernelNotFoundError",
    "KernelStateError",
    "MessageDeserializationError",
    "MessageError",
    "MessageSerializationError",
    "PyDotComputeError",
    "QueueError",
    "QueueFullError",
    "QueueTimeoutError",
]


class MessageError(PyDotComputeError):
    """Base class of the errors of messages."""


class _Unfit(MessageError):
    what = ""

    def __init__(self, message_type: type, cause: Exception):
        self.message_type = message_type
        self.cause = cause
        super().__init__(f"message {message_type.__name__} cannot be {self.what}: {cause}")


class MessageSerializationError(_Unfit):
    """A message cannot be converted to bytes."""

    what = "serialized"


class MessageDeserializationError(_Unfit):
    """The bytes are not a message of this type."""

    what = "deserialized"
