"""One call of an engine, published as telemetry."""
from typing import Any, Dict, Sequence

from ...inference.engine import follow_call, name_of
from ...inference.recorder import Recorder
from .instrumented_engine import InstrumentedEngine, TelemetryBusTarget

__all__ = ["instrumented_generate"]


def instrumented_generate(
    engine: Any, messages: Sequence[Any], *, model: str, bus: Any, temperature: float = 0.7, max_tokens: int = 1024, **kwargs: Any
) -> Dict[str, Any]:
    """Calls engine.generate() and publishes it on `bus` as inference_start, inference_end and
    telemetry_record, also when it raises.

    bus: any object with publish(type, data); an exception of its subscribers is logged and the call
        continues.

    Returns the engine's dict, unchanged. An InstrumentedEngine on the same bus publishes the call itself,
    so it is not published twice.
    """
    given = {"model": model, "temperature": temperature, "max_tokens": max_tokens, **kwargs}
    if isinstance(engine, InstrumentedEngine) and engine._bus is bus:
        result = engine.generate(messages, **given)
        if isinstance(result, dict):
            result.pop("_telemetry", None)
        return result
    method = engine.generate
    recorder = Recorder([TelemetryBusTarget(bus)], None, {"engine": name_of(engine)})
    return follow_call(recorder.begin(model, messages), method, False, (messages,), given)
