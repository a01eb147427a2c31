"""Exceptions that gpulens raises: one class per status code, each of them also a subclass of the matching
built-in exception.

Every error has `code`, the code as it appears in metrics ("permission_denied"), and `detail`, a sentence
that describes what failed, where and, when known, what to do.
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
    """Base class of all exceptions that gpulens raises."""

    code = "unknown"

    def __init__(self, detail: str = ""):
        super().__init__(detail)
        self.detail = detail

    def __str__(self) -> str:
        return self.detail

    def __reduce__(self):
        return _unpickled, (type(self), self.args), self.__dict__


class UnavailableError(Error, RuntimeError):
    """The resource does not exist on this machine: no GPU, no agent, no such file."""

    code = "unavailable"


class PermissionDeniedError(Error, PermissionError):
    """The resource exists, but this process may not read it."""

    code = "permission_denied"


class InvalidArgumentError(Error, ValueError):
    """An argument or the configuration is wrong."""

    code = "invalid_argument"


class DataLossError(Error, ValueError):
    """The data received from a peer or read from a file cannot be decoded."""

    code = "data_loss"


class TimeoutError(Error, builtins.TimeoutError):
    """The operation did not complete before its deadline."""

    code = "timeout"


class ExhaustedError(Error, RuntimeError):
    """A limit of gpulens is reached: a size, a count or a queue."""

    code = "exhausted"


class IoError(Error, OSError):
    """Any other system call failed."""

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


def _unpickled(kind, args):
    """Makes an error of a pickle without its constructor, whose arguments are not those of Exception."""
    error = kind.__new__(kind, *args)
    BaseException.__init__(error, *args)
    return error


def of_code(code: str, detail: str) -> Error:
    """Returns the exception for a status code; the native code raises its errors through this function."""
    return _BY_CODE.get(code, Error)(detail)
