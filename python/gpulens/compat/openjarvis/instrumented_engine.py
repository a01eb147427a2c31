"""An engine whose calls are published as telemetry."""
import math
import numbers
import sys
from typing import Any, Dict, Optional, Sequence, Tuple

from ... import energy as _energy

from ...inference.call import Call
from ...inference.engine import follow_call, name_of
from ...inference.record import InferenceRecord
from ...inference.recorder import EnergyMeter, Recorder
from .events import EventType
from .gpu_monitor import GpuMonitor
from .native_monitor import VENDORS, known
from .records import TelemetryRecord

__all__ = ["InstrumentedEngine", "to_telemetry_record"]

_GIB = 2.0**30
# What OpenJarvis calls the ways of measuring.
_METHODS = {"counter": "hw_counter", "power_integral": "polling"}
_TOKENS_COUNTED = 2  # token_counting_version: the prompt's tokens include cached ones
_REPORTED = (
    "latency_seconds ttft energy_joules power_watts gpu_utilization_pct gpu_memory_used_gb gpu_temperature_c"
    " throughput_tok_per_sec energy_per_output_token_joules throughput_per_watt prefill_latency_seconds decode_latency_seconds"
    " prefill_energy_joules decode_energy_joules mean_itl_ms energy_method energy_vendor cpu_energy_joules gpu_energy_joules"
    " dram_energy_joules tokens_per_joule"
).split()


def _ratio(a: float, b: float) -> float:
    return a / b if b > 0 else 0.0


def _published(record: TelemetryRecord) -> Any:
    """Returns the record as OpenJarvis' own class in a program that has loaded it, since subscribers there, its
    TelemetryStore among them, accept no other."""
    theirs = getattr(sys.modules.get("openjarvis.core.types"), "TelemetryRecord", None)
    if theirs is None:
        return record
    known = getattr(theirs, "__dataclass_fields__", vars(record))  # older versions have fewer fields
    return theirs(**{name: value for name, value in vars(record).items() if name in known})


def to_telemetry_record(r: InferenceRecord) -> TelemetryRecord:
    """Converts to OpenJarvis' units; values that were not measured are 0.0. The metadata contains outcome
    and error type."""
    prompt, completion = r.prompt_tokens or 0, r.completion_tokens or 0
    latency, ttft, joules, watts = (
        known(x) for x in (r.latency_seconds, r.ttft_seconds, r.energy_joules, r.power_watts)
    )
    decode = max(latency - ttft, 0.0) if ttft else 0.0
    throughput = _ratio(completion, latency)
    itl = r.itl_seconds
    mean_itl = known(itl.mean, 1e3) if itl.n or r.streaming else _ratio(decode, completion - 1) * 1e3
    metadata = dict(r.metadata)
    if r.outcome != "ok":
        metadata["outcome"] = r.outcome
    if r.error_type:
        metadata["error_type"] = r.error_type
    return TelemetryRecord(
        timestamp=r.time or 0.0,
        model_id=r.model,
        prompt_tokens=prompt,
        prompt_tokens_evaluated=prompt if r.prompt_tokens_evaluated is None else r.prompt_tokens_evaluated,
        completion_tokens=completion,
        total_tokens=prompt + completion if r.total_tokens is None else r.total_tokens,
        latency_seconds=latency,
        ttft=ttft,
        cost_usd=known(r.cost_usd),
        energy_joules=joules,
        power_watts=watts,
        gpu_utilization_pct=known(r.gpu_utilization_ratio, 100),
        gpu_memory_used_gb=known(r.gpu_memory_used_bytes, 1 / _GIB),
        gpu_temperature_c=known(r.gpu_temperature_celsius),
        throughput_tok_per_sec=throughput,
        energy_per_output_token_joules=_ratio(joules, completion),
        throughput_per_watt=_ratio(throughput, watts),
        prefill_latency_seconds=ttft,
        decode_latency_seconds=decode,
        prefill_energy_joules=known(r.prefill_energy_joules),
        decode_energy_joules=known(r.decode_energy_joules),
        mean_itl_ms=mean_itl,
        median_itl_ms=known(itl.p50, 1e3),
        p90_itl_ms=known(itl.p90, 1e3),
        p95_itl_ms=known(itl.p95, 1e3),
        p99_itl_ms=known(itl.p99, 1e3),
        std_itl_ms=known(itl.std, 1e3),
        is_streaming=r.streaming,
        engine=r.engine,
        agent=r.agent,
        energy_method="rapl" if r.energy_vendor == "cpu_rapl" else _METHODS.get(r.energy_method, r.energy_method),
        energy_vendor=r.energy_vendor,
        batch_id=r.batch_id,
        is_warmup=r.warmup,
        cpu_energy_joules=known(r.cpu_energy_joules),
        gpu_energy_joules=known(r.gpu_energy_joules),
        dram_energy_joules=known(r.dram_energy_joules),
        tokens_per_joule=_ratio(completion, joules),
        token_counting_version=_TOKENS_COUNTED,
        metadata=metadata,
    )


class TelemetryBusTarget:
    """Publishes the events of OpenJarvis: start, end and record of each call, also of a call that fails."""

    def __init__(self, bus: Any) -> None:
        self.key = bus

    def begin(self, call: Call, messages: int) -> None:
        started = {"model": call.record.model, "engine": call.record.engine, "message_count": messages}
        self.key.publish(EventType.INFERENCE_START, started)

    def end(self, call: Call) -> None:
        record = to_telemetry_record(call.record)
        reported = {name: getattr(record, name) for name in _REPORTED}
        call.reported = reported
        ended = {"model": record.model_id, "engine": record.engine, "latency": record.latency_seconds, **reported}
        ended.update({name: getattr(record, name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")})
        if call.record.outcome != "ok":
            ended["error"] = call.record.error_type or call.record.outcome
        try:
            self.key.publish(EventType.INFERENCE_END, ended)
        finally:
            self.key.publish(EventType.TELEMETRY_RECORD, {"record": _published(record)})


class _Sampled:
    """Adapts the sample() of a monitor to a window."""

    def __init__(self, monitor: Any) -> None:
        self._block = monitor.sample()
        self.sample = self._block.__enter__()

    def mark(self, phase: str) -> None:
        """Does nothing: a sample has no phases."""

    def add_tokens(self, tokens: int) -> None:
        """Does nothing: a sample has no weights."""

    def end(self) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(None, None, None)


class MonitorMeter:
    """Measures the energy of a call with a monitor: the call's share for a monitor of gpulens, else all
    energy of its sample(), as OpenJarvis does."""

    later = False

    def __init__(self, monitor: Any) -> None:
        self._monitor = monitor

    def _shares(self) -> Any:
        monitor = self._monitor
        native = monitor._native if isinstance(monitor, (*VENDORS, GpuMonitor)) else monitor
        return EnergyMeter(native, later=False) if isinstance(native, _energy.EnergyMonitor) else None

    def open(self) -> Any:
        shares = self._shares()
        return shares.open() if shares else _Sampled(self._monitor)

    def fill(self, call: Call, wait: bool) -> None:
        if isinstance(call.window, _Sampled):
            _fill(call.record, call.window.sample)
            return
        shares = self._shares()
        if shares is not None:  # else it was closed meanwhile
            shares.fill(call, wait)


def _fill(record: InferenceRecord, sample: Any) -> None:
    def value(name: str, scale: float = 1.0) -> float:
        known = getattr(sample, name, 0.0)
        return float(known) * scale or math.nan if isinstance(known, numbers.Real) else math.nan

    def text(name: str) -> str:
        known = getattr(sample, name, "")
        return known if isinstance(known, str) else ""

    record.energy_joules, record.power_watts = value("energy_joules"), value("mean_power_watts")
    record.gpu_utilization_ratio = value("mean_utilization_pct", 0.01)
    record.gpu_memory_used_bytes = value("peak_memory_used_gb", _GIB)
    record.gpu_temperature_celsius = value("mean_temperature_c")
    record.gpu_energy_joules, record.cpu_energy_joules = value("gpu_energy_joules"), value("cpu_energy_joules")
    record.dram_energy_joules = value("dram_energy_joules")
    record.energy_method, record.energy_vendor = text("energy_method"), text("vendor")
    if record.ttft_seconds <= record.latency_seconds and record.latency_seconds > 0:
        # Nothing better than the time is known of such a monitor.
        record.prefill_energy_joules = record.energy_joules * (record.ttft_seconds / record.latency_seconds)
        record.decode_energy_joules = record.energy_joules - record.prefill_energy_joules


class InstrumentedEngine:
    """Wraps an engine; each call is published on the bus as inference_start, inference_end and
    telemetry_record.

    Any object with publish(type, data) is a bus; an exception of it or its subscribers is counted and
    logged, and the call continues. Subscribers are called before the result is returned. Failed and
    cancelled calls are published, too. With a monitor (energy_monitor takes precedence over gpu_monitor) a
    call has its share of the energy; concurrent requests add up to the energy of the devices. As
    thread-safe as the engine.

    Each string of a stream is one token, as with OpenJarvis' engines, unless the engine's usage reports
    another number. See also gpulens.InstrumentedEngine, the native form of this class.
    """

    engine_id = "instrumented"

    def __init__(self, engine: Any, bus: Any, gpu_monitor: Any = None, energy_monitor: Any = None) -> None:
        self._inner, self._bus = engine, bus
        monitor = energy_monitor if energy_monitor is not None else gpu_monitor
        meter = MonitorMeter(monitor) if monitor is not None else None
        labels = {"engine": name_of(engine)}
        self._recorder = Recorder([TelemetryBusTarget(bus)], meter, labels, _tokens_of_text)

    def _run(self, name: str, streams: bool, messages: Any, model: str, kwargs: Dict[str, Any]) -> Tuple[Any, Any]:
        method = getattr(self._inner, name)
        call = self._recorder.begin(model, messages)
        return call, follow_call(call, method, streams, (messages,), {"model": model, **kwargs})

    def generate(
        self, messages: Sequence[Any], *, model: str, temperature: float = 0.7, max_tokens: int = 1024, **kwargs: Any
    ) -> Dict[str, Any]:
        """Returns the engine's result with the measured values in "_telemetry"."""
        kwargs.update(temperature=temperature, max_tokens=max_tokens)
        call, result = self._run("generate", False, messages, model, kwargs)
        if isinstance(result, dict) and call is not None and call.reported:
            result["_telemetry"] = call.reported
        return result

    def stream(
        self, messages: Sequence[Any], *, model: str, temperature: float = 0.7, max_tokens: int = 1024, **kwargs: Any
    ) -> Any:
        """Returns the engine's stream of texts, an iterator or async iterator as the engine returns it."""
        kwargs.update(temperature=temperature, max_tokens=max_tokens)
        return self._run("stream", True, messages, model, kwargs)[1]

    def stream_full(
        self, messages: Sequence[Any], *, model: str, temperature: float = 0.7, max_tokens: int = 1024, **kwargs: Any
    ) -> Any:
        """Returns the engine's stream of chunks, an iterator or async iterator as the engine returns it."""
        kwargs.update(temperature=temperature, max_tokens=max_tokens)
        return self._run("stream_full", True, messages, model, kwargs)[1]

    def list_models(self) -> Any:
        """Returns the engine's list_models()."""
        return self._inner.list_models()

    def health(self) -> Any:
        """Returns the engine's health()."""
        return self._inner.health()

    def close(self) -> None:
        """Closes the engine."""
        self._inner.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_inner" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._inner, name)


def _tokens_of_text(chunk: Any) -> Optional[int]:
    return 1 if isinstance(chunk, str) else None
