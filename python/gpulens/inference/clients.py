"""InstrumentedClient: a client such as OpenAI() or Anthropic() whose calls are recorded."""
from __future__ import annotations

import functools
from typing import Any, Callable, Dict

from .engine import InstrumentedEngine, measured
from .streams import Manager

__all__ = ["InstrumentedClient", "is_client"]

# The methods that are calls of a model, and whether they return the manager of a stream helper.
_CALLS: Dict[str, bool] = {
    "chat.completions.create": False, "chat.completions.parse": False, "chat.completions.stream": True,
    "beta.chat.completions.parse": False, "beta.chat.completions.stream": True,
    "completions.create": False, "embeddings.create": False,
    "responses.create": False, "responses.parse": False, "responses.stream": True,
    "messages.create": False, "messages.parse": False, "messages.stream": True,
    "beta.messages.create": False, "beta.messages.parse": False, "beta.messages.stream": True,
}  # fmt: skip
_PARTS = {path[:end] for path in _CALLS for end, sign in enumerate(path) if sign == "."}
# What makes an object a client, the commonest first: a client loads each part when it is first used.
_MARKS = ("chat.completions.create", "messages.create", "responses.create", "completions.create", "embeddings.create")
_COPIES = ("with_options", "copy")


def _resolve(thing: Any, path: str) -> Any:
    for name in path.split("."):
        thing = getattr(thing, name, None)
    return thing


def is_client(thing: Any) -> bool:
    """Returns whether the object has a method of OpenAI's or Anthropic's clients that is a call of a model."""
    return any(callable(_resolve(thing, path)) for path in _MARKS)


class _Part:
    """A part of a client on the way to its calls, such as `chat` and `chat.completions`."""

    def __init__(self, client: "InstrumentedClient", path: str, inner: Any) -> None:
        object.__setattr__(self, "_gpulens", (client, path, inner))

    def __getattr__(self, name: str) -> Any:
        if name == "_gpulens":  # read before __init__, as copy does
            raise AttributeError(name)
        client, path, inner = self._gpulens
        return client._gpulens_at(f"{path}.{name}", getattr(inner, name))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._gpulens[2], name, value)

    def __dir__(self) -> Any:
        return dir(self._gpulens[2])

    def __repr__(self) -> str:
        return repr(self._gpulens[2])


class InstrumentedClient(InstrumentedEngine):
    """Wraps a client of OpenAI or Anthropic, also an asynchronous one, and records each call of a model:
    chat.completions, completions, responses, messages (create, parse and stream) and embeddings.create.

    Methods, results, exceptions and attributes are those of the client, of which this is an instance as far as
    isinstance() can see; what with_options() and copy() return is recorded, too. Calls of with_raw_response and
    with_streaming_response pass through without a record. The record's engine is the client's package
    ("openai"), and its metadata has "finish_reason". As thread-safe as the client. Everything else is as with
    InstrumentedEngine.
    """

    _gpulens_of_client = True

    @staticmethod
    def _gpulens_check(engine: Any) -> None:
        """The caller has checked it."""

    @staticmethod
    def _gpulens_name(engine: Any) -> str:
        return type(engine).__module__.partition(".")[0]

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._gpulens_engine)

    def _gpulens_at(self, path: str, value: Any) -> Any:
        """Returns what replaces a client's attribute."""
        if path in _PARTS:
            return _Part(self, path, value)
        if path not in _CALLS or not callable(value):
            return value
        known = self._gpulens_methods.get(path)
        if known is None or known[0] != value:
            run = _managed(self, value) if _CALLS[path] else measured(self._gpulens_recorder, value, False, "")
            known = self._gpulens_methods[path] = (value, run)
        return known[1]

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        return functools.partial(self._gpulens_copy, value) if name in _COPIES and callable(value) else self._gpulens_at(name, value)

    def _gpulens_copy(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        client = method(*args, **kwargs)
        if not is_client(client):
            return client
        copy = object.__new__(InstrumentedClient)
        copy._gpulens_hold(client, self._gpulens_recorder)
        return copy

    def __enter__(self) -> Any:
        self._gpulens_engine.__enter__()
        return self

    def __exit__(self, *what: Any) -> Any:
        return self._gpulens_engine.__exit__(*what)

    async def __aenter__(self) -> Any:
        await self._gpulens_engine.__aenter__()
        return self

    async def __aexit__(self, *what: Any) -> Any:
        return await self._gpulens_engine.__aexit__(*what)

    def __repr__(self) -> str:
        return f"InstrumentedClient({self._gpulens_engine!r})"


def _managed(client: InstrumentedClient, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        model = kwargs.get("model")
        begin = client._gpulens_recorder.begin
        return Manager(method(*args, **kwargs), lambda: begin(model if isinstance(model, str) else "", kwargs.get("messages")))

    return run
