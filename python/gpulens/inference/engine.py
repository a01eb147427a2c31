"""An engine whose calls are recorded."""
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


def measured(recorder: Recorder, method: Callable[..., Any], streams: bool, default_model: str) -> Callable[..., Any]:
    """The method, with each call of it recorded. It gives what the method gives and raises what it raises."""
    at = _places(method)

    @functools.wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        model = _argument("model", at, args, kwargs)
        call = recorder.begin(model if isinstance(model, str) else default_model, _argument("messages", at, args, kwargs))
        return follow_call(call, method, streams, args, kwargs)

    return run


def follow_call(call: Any, method: Callable[..., Any], streams: bool, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    """The method's call, measured as `call`; None: not measured."""
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
    """Where `model` and `messages` stand among the arguments without names."""
    try:
        names = [p.name for p in inspect.signature(method).parameters.values() if p.kind == p.POSITIONAL_OR_KEYWORD]
    except (TypeError, ValueError):  # it does not say
        names = []
    return {name: names.index(name) if name in names else len(names) + 64 for name in ("model", "messages")}


def _argument(name: str, at: Dict[str, int], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    if name in kwargs:
        return kwargs[name]
    place = at[name]
    return args[place] if place < len(args) else None


class InstrumentedEngine:
    """An engine with the methods, results and attributes of the one inside, each of whose calls is recorded.

    Recorded are generate, stream and stream_full, and their asynchronous forms (agenerate, astream, …; or the same names as
    coroutines and async generators). Thread-safe as the engine is. Nothing of it makes a call fail: what cannot be recorded is
    counted, and logged the first time. A call that another recorded call makes is recorded once, as the outer one.

    A stream's latencies are the engine's: the time that the consumer takes between two chunks is in consumer_seconds. An
    engine that works ahead while its consumer is busy looks faster for it. In a coroutine the time includes what else the
    event loop does before it comes back. A stream that is closed or let go of before its end is cancelled.

    Tokens are what the engine says: its usage, else what its chunks say of themselves, else tokens_per_chunk. What nobody says
    is None, and so are the latencies between tokens, unless there are as many chunks as the usage has tokens.
    """

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
        if store is None and bus is None:
            raise InvalidArgumentError("instrument() wants a store, a bus or both: where the records go")
        targets = [StoreTarget(store)] if store is not None else []
        targets += [BusTarget(bus)] if bus is not None else []
        labels = {"engine": name_of(engine), "agent": agent, "batch_id": batch_id, "warmup": warmup}
        recorder = Recorder(targets, EnergyMeter(energy) if energy is not None else None, labels, tokens_per_chunk)
        for name, value in zip(_OWN, (engine, recorder, {})):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name in _OWN:  # asked before __init__, as copy does
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
        """How often something of a call could not be measured or told."""
        return self._gpulens_recorder.failures


def name_of(engine: Any) -> str:
    """Its engine_id, else the name of its class."""
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
    """The engine, with each of its calls recorded: see InstrumentedEngine.

    store: an InferenceStore, or anything with record(InferenceRecord).
    energy: a gpulens.EnergyMonitor; each call has its share of what the devices draw, prefill and decode apart. A thread waits
    for the readings, so that a record may come some ms after its call; store.flush() waits for it.
    bus: anything with publish(type, data): "inference_start", "inference_end" and "telemetry_record" with {"record": …}.
    agent, batch_id, warmup: for the records.
    tokens_per_chunk: how many tokens a chunk has where the engine does not say: a number, or a function of the chunk.
    Raises InvalidArgumentError without store and bus.
    """
    return InstrumentedEngine(
        engine, store, energy, bus, agent=agent, batch_id=batch_id, warmup=warmup, tokens_per_chunk=tokens_per_chunk
    )
