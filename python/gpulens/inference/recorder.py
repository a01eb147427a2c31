"""Completes a call after its end: energy, store and event bus. Nothing here makes a call fail."""
from __future__ import annotations

import itertools
import logging
from typing import Any, Callable, Dict, Optional, Sequence, Tuple, Union

from .._core import EnergyResult
from . import settle
from .call import Call, reported_by

__all__ = ["BusTarget", "EnergyMeter", "Recorder", "StoreTarget"]

_log = logging.getLogger("gpulens")


class StoreTarget:
    """Target for any object with record(InferenceRecord)."""

    def __init__(self, store: Any) -> None:
        self.key = store

    def begin(self, call: Call, messages: int) -> None:
        """Does nothing: a store receives a call at its end."""

    def end(self, call: Call) -> None:
        self.key.record(call.record)


class BusTarget:
    """Target for any object with publish(type, data)."""

    def __init__(self, bus: Any) -> None:
        self.key = bus

    def begin(self, call: Call, messages: int) -> None:
        record = call.record
        self.key.publish("inference_start", {"model": record.model, "engine": record.engine, "message_count": messages})

    def end(self, call: Call) -> None:
        record = call.record
        try:
            ended = {"model": record.model, "engine": record.engine, "latency": record.latency_seconds, "outcome": record.outcome}
            self.key.publish("inference_end", ended)
        finally:
            self.key.publish("telemetry_record", {"record": record})


class EnergyMeter:
    """Measures the energy share of a call with a gpulens.EnergyMonitor."""

    def __init__(self, monitor: Any, later: bool = True) -> None:
        self._monitor = monitor
        self.later = later  # settled by a thread: it may wait for a reading

    def open(self) -> Any:
        window = self._monitor.request()
        window.mark("prefill")
        return window

    def fill(self, call: Call, wait: bool) -> None:
        """Writes the energy of a call into its record.

        wait: waits at most 20 ms for a closing reading; False: the end of the window is estimated from the
            preceding power.
        """
        window, record = call.window, call.record
        result = window.result if wait else window.estimate()
        if not isinstance(result, EnergyResult):
            raise TypeError(f"energy must be a gpulens.EnergyMonitor; the result of a {type(self._monitor).__name__} is no EnergyResult")
        ticks = result.ticks
        record.energy_joules, record.power_watts = result.energy_joules, result.mean_power_watts
        record.energy_uncertainty_joules = result.uncertainty_joules
        record.gpu_energy_joules = result.gpu_joules
        record.cpu_energy_joules, record.dram_energy_joules = result.cpu_joules, result.dram_joules
        record.gpu_utilization_ratio = ticks.mean_utilization_ratio
        record.gpu_memory_used_bytes = ticks.peak_memory_used_bytes
        record.gpu_temperature_celsius = ticks.mean_temperature_celsius
        if result.valid:
            record.energy_method, record.energy_vendor = result.method, result.vendor
        if record.streaming:
            record.prefill_energy_joules = window.phase("prefill").energy_joules
            record.decode_energy_joules = window.phase("decode").energy_joules
        elif record.ttft_seconds < record.latency_seconds:  # the engine's TTFT divides the energy by the devices' own curve
            first = self._monitor.between(call.begun, call.begun + record.ttft_seconds).energy_joules
            whole = self._monitor.between(call.begun, call.begun + record.latency_seconds).energy_joules
            if whole > 0:
                record.prefill_energy_joules = result.energy_joules * min(first / whole, 1.0)
                record.decode_energy_joules = result.energy_joules - record.prefill_energy_joules


class Recorder:
    """State shared by all calls of one engine. Thread-safe."""

    def __init__(
        self,
        targets: Sequence[Any],
        meter: Any,
        labels: Dict[str, Any],
        tokens_per_chunk: Union[None, int, Callable[[Any], Optional[int]]] = None,
        of_client: bool = False,
    ) -> None:
        self.targets, self.meter, self.labels, self.tokens_per_chunk = tuple(targets), meter, labels, tokens_per_chunk
        self.of_client = of_client  # records have the reason why the model stopped
        self._failures = itertools.count()  # atomic, as += is not
        self.failures = 0

    def failed(self, what: str, error: BaseException) -> None:
        """Counts a failure; logs the first one."""
        self.failures = next(self._failures) + 1
        if self.failures == 1:
            _log.warning("telemetry: %s; further failures are only counted", what, exc_info=error)

    def begin(self, model: str, messages: Any) -> Optional[Call]:
        """Begins a call. Returns None when an enclosing call already records it, or when it cannot be
        measured."""
        try:
            around = reported_by.get()
            targets = self.targets if not around else tuple(t for t in self.targets if id(t.key) not in around)
            if not targets:
                return None
            call = Call(self, targets, model)
        except Exception as error:
            self.failed("a call could not be measured", error)
            return None
        self._each(targets, "begin", call, len(messages) if hasattr(messages, "__len__") else 0)
        try:
            if self.meter is not None:
                call.window = self.meter.open()
        except Exception as error:
            self.failed("the energy of a call could not be measured", error)
        return call

    def ended(self, call: Call) -> None:
        """Completes a call; called once per call."""
        if call.window is not None and self.meter.later and settle.later(call):
            return
        self.tell(call, not call.on_loop and self.meter is not None and not self.meter.later)

    def tell(self, call: Call, wait: bool) -> None:
        """Determines the energy of a call and passes the call to the targets."""
        try:
            if call.window is not None:
                self.meter.fill(call, wait)
        except Exception as error:
            self.failed("the energy of a call could not be measured", error)
        call.window = None
        self._each(call.targets, "end", call)

    def _each(self, targets: Tuple[Any, ...], method: str, *args: Any) -> None:
        for target in targets:
            try:
                getattr(target, method)(*args)
            except Exception as error:
                self.failed("a call could not be recorded", error)
