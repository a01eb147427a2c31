"""pydotcompute.exceptions, as far as ring kernels raise them. They are those of gpulens.ring: QueueTimeoutError is also
asyncio.TimeoutError, KernelNotFoundError a KeyError."""
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
    """The base of what is wrong with a message."""


class _Unfit(MessageError):
    what = ""

    def __init__(self, message_type: type, cause: Exception):
        self.message_type = message_type
        self.cause = cause
        super().__init__(f"a {message_type.__name__} cannot be {self.what}: {cause}")


class MessageSerializationError(_Unfit):
    """A message cannot be written as bytes."""

    what = "serialized"


class MessageDeserializationError(_Unfit):
    """Bytes are no message of this type."""

    what = "deserialized"
