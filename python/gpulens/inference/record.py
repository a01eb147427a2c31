"""InferenceRecord: the record of one call of an engine."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Mapping, Optional

from ..stats import Distribution, describe

__all__ = ["InferenceRecord"]

Outcome = Literal["ok", "error", "cancelled"]

if TYPE_CHECKING:
    from typing_extensions import TypedDict

    class RecordFields(TypedDict, total=False):
        """The fields of InferenceRecord, for what takes them as keyword arguments."""

        model: str
        engine: str
        agent: str
        batch_id: str
        error_type: str
        metadata: Mapping[str, Any]
        time: Optional[float]
        prompt_tokens: Optional[int]
        prompt_tokens_evaluated: Optional[int]
        cached_prompt_tokens: Optional[int]
        completion_tokens: Optional[int]
        total_tokens: Optional[int]
        latency_seconds: float
        ttft_seconds: float
        consumer_seconds: float
        cost_usd: float
        energy_joules: float
        prefill_energy_joules: float
        decode_energy_joules: float
        energy_uncertainty_joules: float
        gpu_energy_joules: float
        cpu_energy_joules: float
        dram_energy_joules: float
        energy_method: str
        energy_vendor: str
        power_watts: float
        gpu_utilization_ratio: float
        gpu_memory_used_bytes: float
        gpu_temperature_celsius: float
        itl_seconds: Distribution
        outcome: Outcome
        streaming: bool
        warmup: bool


_NAN = float("nan")
_NONE_MEASURED = describe([])


@dataclass
class InferenceRecord:
    """The record of one call. Unknown values are NaN, None or ""; a 0 was measured.

    Latencies are those of the engine alone; the time that the consumer of a stream takes between tokens is
    in consumer_seconds.

    time: start of the call in Unix seconds; None: now.
    total_tokens: None: the sum of prompt and completion tokens where both are known.
    outcome: "ok", "error" (with error_type) or "cancelled".
    metadata: any mapping that JSON can represent.
    """

    model: str = ""
    engine: str = ""
    agent: str = ""
    batch_id: str = ""
    error_type: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    time: Optional[float] = None
    prompt_tokens: Optional[int] = None
    prompt_tokens_evaluated: Optional[int] = None
    cached_prompt_tokens: Optional[int] = None
    completion_tokens: Optional[int] = None
    total_tokens: Optional[int] = None
    latency_seconds: float = _NAN
    ttft_seconds: float = _NAN
    consumer_seconds: float = _NAN
    cost_usd: float = _NAN
    energy_joules: float = _NAN
    prefill_energy_joules: float = _NAN
    decode_energy_joules: float = _NAN
    energy_uncertainty_joules: float = _NAN
    gpu_energy_joules: float = _NAN
    cpu_energy_joules: float = _NAN
    dram_energy_joules: float = _NAN
    energy_method: str = ""
    energy_vendor: str = ""
    power_watts: float = _NAN
    gpu_utilization_ratio: float = _NAN
    gpu_memory_used_bytes: float = _NAN
    gpu_temperature_celsius: float = _NAN
    itl_seconds: Distribution = _NONE_MEASURED
    outcome: Outcome = "ok"
    streaming: bool = False
    warmup: bool = False
