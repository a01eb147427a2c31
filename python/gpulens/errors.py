"""What gpulens raises: one class for each code of a Status, each also the built-in that people catch.

Every error has `code`, as it stands in metrics ("permission_denied"), and `detail`, a sentence that says what, where and,
when known, what to do.
"""
import builtins

__all__ = [
    "Error",
    "UnavailableError",
    "PermissionDeniedError",
    "InvalidArgumentError",
    "DataLossError",
    "TimeoutError",
    "ExhaustedError",
    "IoError",
]


class Error(Exception):
    """The base of all that gpulens raises."""

    code = "unknown"

    def __init__(self, detail: str = ""):
        super().__init__(detail)
        self.detail = detail

    def __str__(self) -> str:
        return self.detail


class UnavailableError(Error, RuntimeError):
    """This machine does not have the thing: no GPU, no agent, no such file."""

    code = "unavailable"


class PermissionDeniedError(Error, PermissionError):
    """It is there; this process may not read it."""

    code = "permission_denied"


class InvalidArgumentError(Error, ValueError):
    """The caller or the configuration is wrong."""

    code = "invalid_argument"


class DataLossError(Error, ValueError):
    """The other side sent bytes, or a file holds some, that cannot be understood."""

    code = "data_loss"


class TimeoutError(Error, builtins.TimeoutError):
    """No answer by the deadline."""

    code = "timeout"


class ExhaustedError(Error, RuntimeError):
    """A bound of gpulens is reached: a size, a count, a queue."""

    code = "exhausted"


class IoError(Error, OSError):
    """Any other system call that failed."""

    code = "io"


_BY_CODE = {
    kind.code: kind
    for kind in (
        UnavailableError,
        PermissionDeniedError,
        InvalidArgumentError,
        DataLossError,
        TimeoutError,
        ExhaustedError,
        IoError,
    )
}


def of_code(code: str, detail: str) -> Error:
    """The error for a code of a Status; the native side raises through this."""
    return _BY_CODE.get(code, Error)(detail)
