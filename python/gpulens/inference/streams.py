"""Results of measured calls: passed on as the engine returned them, and measured while they are read."""
from __future__ import annotations

import functools
import time
from typing import Any, AsyncIterator, Callable, Iterator, Optional, Type

from .call import Call
from .chunks import find

__all__ = ["AsyncStream", "Manager", "Stream", "follow"]


class _Chunks:
    """Common part of Stream and AsyncStream: handling of the engine's chunks."""

    _end: Type[BaseException]  # raised at its end

    def __init__(self, inner: Any, call: Call) -> None:
        self._inner, self._call, self._next = inner, call, None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_inner"], name)

    def _gave(self, chunk: Any) -> Any:
        self._call.leave()
        self._call.chunk(chunk)
        return chunk

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, self._end):
            self._call.finish()
        else:
            self._call.fail(error)


class Stream(_Chunks):
    """Iterator over the engine's chunks, with the other attributes of the engine's stream. For one thread
    at a time."""

    _end = StopIteration

    def __iter__(self) -> "Stream":
        return self

    def _step(self, function: Any, *args: Any) -> Any:
        self._call.enter()
        try:
            chunk = function(*args)
        except BaseException as error:
            self._failed(error)
            raise
        return self._gave(chunk)

    def _first(self) -> Any:
        self._next = iter(self._inner).__next__
        return self._next()

    def __next__(self) -> Any:
        return self._step(self._next or self._first)

    def send(self, value: Any) -> Any:
        return self._step(self._inner.send, value)

    def throw(self, *what: Any) -> Any:
        return self._step(self._inner.throw, *what)

    def close(self) -> Any:
        """Closes the engine's stream. The call is cancelled unless the stream had ended."""
        try:
            close = getattr(self._inner, "close", None)
            return close() if close is not None else None
        finally:
            self._call.finish("cancelled")

    def __enter__(self) -> "Stream":
        enter = getattr(self._inner, "__enter__", None)
        if enter is not None:
            enter()
        return self

    def __exit__(self, *what: Any) -> Any:
        leave = getattr(self._inner, "__exit__", None)
        try:
            return leave(*what) if leave is not None else self.close()
        finally:
            self._call.finish("cancelled")


class AsyncStream(_Chunks):
    """Stream for `async for`."""

    _end = StopAsyncIteration

    def __init__(self, inner: Any, call: Call) -> None:
        super().__init__(inner, call)
        call.on_loop = True

    def __aiter__(self) -> "AsyncStream":
        return self

    async def _step(self, function: Any, *args: Any) -> Any:
        self._call.enter()
        try:
            chunk = await function(*args)
        except BaseException as error:
            self._failed(error)
            raise
        return self._gave(chunk)

    def _first(self) -> Any:
        self._next = self._inner.__aiter__().__anext__
        return self._next()

    def __anext__(self) -> Any:
        return self._step(self._next or self._first)

    def asend(self, value: Any) -> Any:
        return self._step(self._inner.asend, value)

    def athrow(self, *what: Any) -> Any:
        return self._step(self._inner.athrow, *what)

    async def aclose(self) -> Any:
        """Closes the engine's stream. The call is cancelled unless the stream had ended."""
        try:
            close = getattr(self._inner, "aclose", None) or getattr(self._inner, "close", None)
            return await close() if close is not None else None
        finally:
            self._call.finish("cancelled")

    close = aclose  # of the clients of OpenAI and Anthropic

    async def __aenter__(self) -> "AsyncStream":
        enter = getattr(self._inner, "__aenter__", None)
        if enter is not None:
            await enter()
        return self

    async def __aexit__(self, *what: Any) -> Any:
        leave = getattr(self._inner, "__aexit__", None)
        try:
            return await (leave(*what) if leave is not None else self.aclose())
        finally:
            self._call.finish("cancelled")


def _texts_of(event: Any) -> str:
    delta = find(event, "delta") if find(event, "type") == "content_block_delta" else None
    text = find(delta, "text") if find(delta, "type") == "text_delta" else None
    return text if isinstance(text, str) else ""


def _reads_all(name: str) -> bool:
    return name == "until_done" or name.startswith("get_final_")


class _HelperStream(Stream):
    """Stream of a client's stream helper. What the helper itself would read from its stream is read through
    this one, so that it is measured."""

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        if name == "text_stream":
            return self._texts()
        return functools.partial(self._read_all, value) if _reads_all(name) and callable(value) else value

    def _texts(self) -> Iterator[str]:
        for event in self:
            if text := _texts_of(event):
                yield text

    def _read_all(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        for _ in self:
            pass
        return method(*args, **kwargs)


class _AsyncHelperStream(AsyncStream):
    """The same for `async for`."""

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        if name == "text_stream":
            return self._texts()
        return functools.partial(self._read_all, value) if _reads_all(name) and callable(value) else value

    async def _texts(self) -> AsyncIterator[str]:
        async for event in self:
            if text := _texts_of(event):
                yield text

    async def _read_all(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        async for _ in self:
            pass
        return await method(*args, **kwargs)


class Manager:
    """Manager of a client's stream helper, whose request begins with the `with` block.

    begin: begins the call, or returns None where it is not measured.
    """

    def __init__(self, inner: Any, begin: Callable[[], Optional[Call]]) -> None:
        self._inner, self._begin = inner, begin
        self._call: Optional[Call] = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_inner"], name)

    def __enter__(self) -> Any:
        call = self._call = self._begin()
        if call is None:
            return self._inner.__enter__()
        call.enter()
        try:
            stream = self._inner.__enter__()
        except BaseException as error:
            call.fail(error)
            raise
        return _HelperStream(stream, _left(call))

    def __exit__(self, *what: Any) -> Any:
        try:
            return self._inner.__exit__(*what)
        finally:
            if self._call is not None:
                self._call.finish("cancelled")

    async def __aenter__(self) -> Any:
        call = self._call = self._begin()
        if call is None:
            return await self._inner.__aenter__()
        call.on_loop = True
        call.enter()
        try:
            stream = await self._inner.__aenter__()
        except BaseException as error:
            call.fail(error)
            raise
        return _AsyncHelperStream(stream, _left(call))

    async def __aexit__(self, *what: Any) -> Any:
        try:
            return await self._inner.__aexit__(*what)
        finally:
            if self._call is not None:
                self._call.finish("cancelled")


def _left(call: Call) -> Call:
    call.leave()
    call.record.streaming = True
    return call


async def _awaited(call: Call, work: Any, streams: bool) -> Any:
    call.on_loop = True
    call.enter()
    try:
        result = await work
    except BaseException as error:
        call.fail(error)
        raise
    call.leave()
    return follow(call, result, streams)


def _settled(call: Call, begun: float, future: Any) -> None:
    call.worked(time.monotonic() - begun)
    if future.cancelled():
        call.finish("cancelled")
    elif future.exception() is not None:
        call.fail(future.exception())
    else:
        call.result(future.result())


def follow(call: Call, result: Any, streams: bool) -> Any:
    """Returns the object that the caller receives for the engine's result.

    streams: the method returns chunks; then an iterable that is not an iterator counts as a stream, too.
    """
    if type(result) is dict:
        call.result(result)
        return result
    if hasattr(result, "add_done_callback"):  # a future, of asyncio or of a pool: it is the engine's, and stays what it is
        begun = time.monotonic()
        result.add_done_callback(lambda future: _settled(call, begun, future))
        return result
    if hasattr(result, "__await__"):
        call.idle = True
        return _awaited(call, result, streams)
    if hasattr(result, "__anext__") or (streams and hasattr(result, "__aiter__")):
        call.record.streaming = True
        return AsyncStream(result, call)
    if hasattr(result, "__next__") or (streams and hasattr(result, "__iter__") and not hasattr(result, "__len__")):
        call.record.streaming = True
        return Stream(result, call)
    call.result(result)
    return result
