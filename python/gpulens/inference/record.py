"""What is kept of one call of an engine."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional

from ..stats import Distribution, describe

__all__ = ["InferenceRecord"]

_NAN = float("nan")
_NONE_MEASURED = describe([])


@dataclass
class InferenceRecord:
    """One call. NaN, None and "" are what is not known; a 0 is one that was measured.

    time: Unix seconds of its begin; None: now. Latencies are of the engine alone: what the consumer of a stream did between two
    tokens is in consumer_seconds. total_tokens: where it is None, prompt and completion if both are known. outcome: "ok", "error" (with error_type) or "cancelled". metadata: what JSON can say.
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
    outcome: str = "ok"
    streaming: bool = False
    warmup: bool = False
