"""Refuses to pickle and copy objects that belong to their process."""
from typing import Any, Callable, NoReturn

__all__ = ["refuses"]


def refuses(instead: str) -> Callable[[Any], NoReturn]:
    """Returns a __reduce__ that raises a TypeError, which ends with what to do instead."""

    def reduce(self: Any) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be pickled or copied: {instead}")

    return reduce
