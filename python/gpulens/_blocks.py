"""Blocks of a `with` statement that record into an instrument and are decorators, too."""
from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, ContextManager, Tuple, Type, TypeVar, Union

__all__ = ["CountExceptions", "TrackInprogress"]

F = TypeVar("F", bound=Callable[..., Any])


def around(function: F, block: Callable[[], ContextManager[Any]]) -> F:
    """Returns the function with a block of its own around each call. The block of a coroutine function lasts
    until the coroutine ends, that of a generator function from the first item to the end."""
    call: Any
    if inspect.iscoroutinefunction(function):

        async def call(*arguments: Any, **named: Any) -> Any:
            with block():
                return await function(*arguments, **named)

    elif inspect.isasyncgenfunction(function):

        async def call(*arguments: Any, **named: Any) -> Any:
            items = function(*arguments, **named)
            with block():
                try:
                    async for item in items:
                        yield item
                finally:
                    await items.aclose()

    elif inspect.isgeneratorfunction(function):

        def call(*arguments: Any, **named: Any) -> Any:
            with block():
                return (yield from function(*arguments, **named))

    elif callable(function):

        def call(*arguments: Any, **named: Any) -> Any:
            with block():
                return function(*arguments, **named)

    else:
        raise TypeError(f"a function must be decorated, not {type(function).__name__}")
    return functools.wraps(function)(call)


class CountExceptions:
    """Counts the exceptions that leave a `with` block or a decorated function; they are raised on. Thread-safe,
    and for any number of blocks at a time."""

    def __init__(self, counter: Any, kinds: Union[Type[BaseException], Tuple[Type[BaseException], ...]]) -> None:
        issubclass(Exception, kinds)  # raises TypeError for what is no class
        self._counter, self._kinds = counter, kinds

    def __enter__(self) -> CountExceptions:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is not None and issubclass(kind, self._kinds):
            self._counter.add(1)

    def __call__(self, function: F) -> F:
        return around(function, lambda: self)


class TrackInprogress:
    """Adds 1 to a gauge or an UpDownCounter for as long as a `with` block or a decorated function runs.
    Thread-safe, and for any number of blocks at a time."""

    def __init__(self, add: Callable[[int], None]) -> None:
        self._add = add

    def __enter__(self) -> TrackInprogress:
        self._add(1)
        return self

    def __exit__(self, *why: Any) -> None:
        self._add(-1)

    def __call__(self, function: F) -> F:
        return around(function, lambda: self)


async def returns(value: Any) -> Any:
    """Returns the value: an awaitable for __aenter__."""
    return value


async def waits(awaitable: Any) -> None:
    """Awaits, and returns None: an awaitable for __aexit__."""
    await awaitable
