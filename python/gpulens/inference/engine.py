"""InstrumentedEngine and instrument(): an engine whose calls are recorded."""
from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Dict, Optional, Tuple, Union

from ..errors import InvalidArgumentError
from .recorder import BusTarget, EnergyMeter, Recorder, StoreTarget
from .streams import follow

__all__ = ["InstrumentedEngine", "instrument"]

# The methods that are calls of a model, and whether they give chunks.
_CALLS: Dict[str, bool] = {
    "generate": False, "agenerate": False, "generate_async": False,
    "stream": True, "astream": True, "stream_async": True,
    "stream_full": True, "astream_full": True, "stream_full_async": True,
}  # fmt: skip
_OWN = ("_gpulens_engine", "_gpulens_recorder", "_gpulens_methods")


def _has_calls(engine: Any) -> bool:
    return any(callable(getattr(engine, name, None)) for name in _CALLS)


def measured(recorder: Recorder, method: Callable[..., Any], streams: bool, default_model: str) -> Callable[..., Any]:
    """Returns the method wrapped so that each call is recorded. Results and exceptions are those of the
    method."""
    at = _places(method)

    @functools.wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        model = _argument("model", at, args, kwargs)
        call = recorder.begin(model if isinstance(model, str) else default_model, _argument("messages", at, args, kwargs))
        return follow_call(call, method, streams, args, kwargs)

    return run


def follow_call(call: Any, method: Callable[..., Any], streams: bool, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    """Calls the method and measures it as `call`; None: does not measure."""
    if call is None:
        return method(*args, **kwargs)
    call.enter()
    try:
        result = method(*args, **kwargs)
    except BaseException as error:
        call.fail(error)
        raise
    call.leave()
    return follow(call, result, streams)


def _places(method: Callable[..., Any]) -> Dict[str, int]:
    """Returns the positions of `model` and `messages` among the positional arguments."""
    try:
        names = [p.name for p in inspect.signature(method).parameters.values() if p.kind == p.POSITIONAL_OR_KEYWORD]
    except (TypeError, ValueError):  # the signature is unknown
        names = []
    return {name: names.index(name) if name in names else len(names) + 64 for name in ("model", "messages")}


def _argument(name: str, at: Dict[str, int], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    if name in kwargs:
        return kwargs[name]
    place = at[name]
    return args[place] if place < len(args) else None


class InstrumentedEngine:
    """Wraps an engine and records each of its calls; methods, results and attributes are those of the
    engine.

    Recorded are generate, stream and stream_full, and their asynchronous forms (agenerate, astream, …; or
    the same names as coroutines and async generators). As thread-safe as the engine. Recording never makes
    a call fail: failures to record are counted, and the first one is logged. A call that is made by
    another recorded call is recorded once, as part of the outer call.

    Latencies of a stream are those of the engine: the time that the consumer takes between two chunks is
    in consumer_seconds. An engine that works ahead while its consumer is busy therefore appears faster. In
    a coroutine the time includes the other work of the event loop before it returns to the coroutine. A
    stream that is closed or released before its end is cancelled.

    Token counts are those of the engine's usage, else those of its chunks, else tokens_per_chunk. Without
    any of these they are None, and so are the inter-token latencies, unless there are as many chunks as
    the usage has tokens.
    """

    _gpulens_of_client = False

    def __init__(
        self,
        engine: Any,
        store: Any = None,
        energy: Any = None,
        bus: Any = None,
        *,
        agent: str = "",
        batch_id: str = "",
        warmup: bool = False,
        tokens_per_chunk: Union[None, int, Callable[[Any], Optional[int]]] = None,
    ) -> None:
        self._gpulens_check(engine)
        if store is None and bus is None:
            raise InvalidArgumentError("instrument() needs a store, a bus or both to receive the records")
        targets = [StoreTarget(store)] if store is not None else []
        targets += [BusTarget(bus)] if bus is not None else []
        labels = {"engine": self._gpulens_name(engine), "agent": agent, "batch_id": batch_id, "warmup": warmup}
        meter = EnergyMeter(energy) if energy is not None else None
        self._gpulens_hold(engine, Recorder(targets, meter, labels, tokens_per_chunk, self._gpulens_of_client))


    @staticmethod
    def _gpulens_check(engine: Any) -> None:
        if not _has_calls(engine):
            what = "method generate, stream or stream_full (or an asynchronous form), nor chat.completions.create or messages.create"
            raise TypeError(
                f"instrument() takes an engine or a client of OpenAI or Anthropic; {type(engine).__name__} has no {what}"
            )

    @staticmethod
    def _gpulens_name(engine: Any) -> str:
        return name_of(engine)

    def _gpulens_hold(self, engine: Any, recorder: Recorder) -> None:
        for name, value in zip(_OWN, (engine, recorder, {})):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name in _OWN:  # read before __init__, as copy does
            raise AttributeError(name)
        value = getattr(self._gpulens_engine, name)
        if name not in _CALLS or not callable(value):
            return value
        known = self._gpulens_methods.get(name)
        if known is None or known[0] != value:
            model = getattr(self._gpulens_engine, "model", None)
            run = measured(self._gpulens_recorder, value, _CALLS[name], model if isinstance(model, str) else "")
            known = self._gpulens_methods[name] = (value, run)
        return known[1]

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._gpulens_engine, name, value)

    def __dir__(self) -> Any:
        return sorted(set(super().__dir__()) | set(dir(self._gpulens_engine)))

    def __repr__(self) -> str:
        return f"InstrumentedEngine({self._gpulens_engine!r})"

    @property
    def telemetry_failures(self) -> int:
        """Number of times that a part of a call could not be measured or recorded."""
        return self._gpulens_recorder.failures


def name_of(engine: Any) -> str:
    """Returns the engine's engine_id, else the name of its class."""
    name = getattr(engine, "engine_id", None)
    return name if isinstance(name, str) and name else type(engine).__name__


def instrument(
    engine: Any,
    store: Any = None,
    energy: Any = None,
    bus: Any = None,
    *,
    agent: str = "",
    batch_id: str = "",
    warmup: bool = False,
    tokens_per_chunk: Union[None, int, Callable[[Any], Optional[int]]] = None,
) -> InstrumentedEngine:
    """Returns the engine, or the client of OpenAI or Anthropic, wrapped so that each of its calls is recorded: see
    InstrumentedEngine and gpulens.inference.clients.InstrumentedClient.

    engine: any object with generate, stream or stream_full or their asynchronous forms; or OpenAI(), AsyncOpenAI(),
        Anthropic(), AsyncAnthropic() and clients with the same methods.
    store: an InferenceStore, or any object with record(InferenceRecord).
    energy: a gpulens.EnergyMonitor; each call has its share of the devices' energy, with prefill and
        decode separate. A thread waits for the readings, so a record may be stored some milliseconds after
        its call; store.flush() waits for it.
    bus: any object with publish(type, data), which receives "inference_start", "inference_end" and
        "telemetry_record" with {"record": …}.
    agent, batch_id, warmup: values of these fields in the records.
    tokens_per_chunk: tokens in a chunk where the engine does not report them: a number, or a function of
        the chunk.

    Raises TypeError for an object without such methods, InvalidArgumentError without store and bus.
    """
    from .clients import InstrumentedClient, is_client  # which derives from the class above

    kind = InstrumentedClient if not _has_calls(engine) and is_client(engine) else InstrumentedEngine
    return kind(
        engine, store, energy, bus, agent=agent, batch_id=batch_id, warmup=warmup, tokens_per_chunk=tokens_per_chunk
    )
