"""The records of OpenJarvis' telemetry: measurements of one inference, and aggregates of many.

Units are percent and GiB, as in OpenJarvis; values that were not measured are 0.0. Samples also have
`validity` and `reason`, which are not fields: they show whether a 0.0 was measured.
"""
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

__all__ = [
    "AggregatedStats",
    "BatchMetrics",
    "EfficiencyMetrics",
    "EnergySample",
    "EngineStats",
    "GpuSample",
    "GpuSnapshot",
    "ModelStats",
    "SteadyStateConfig",
    "SteadyStateResult",
    "TelemetryRecord",
    "TelemetrySample",
    "VLLMMetrics",
]


@dataclass
class GpuSample:
    """Energy and utilization of the GPUs during a block: joules, watts, percent, GiB, °C, seconds.

    Power and memory are sums over all GPUs, utilization and temperature their means; means and peaks are
    over the block's readings. `validity` is "valid", else the reason as a code; `reason` is the same as
    text.
    """

    energy_joules: float = 0.0
    mean_power_watts: float = 0.0
    peak_power_watts: float = 0.0
    mean_utilization_pct: float = 0.0
    peak_utilization_pct: float = 0.0
    mean_memory_used_gb: float = 0.0
    peak_memory_used_gb: float = 0.0
    mean_temperature_c: float = 0.0
    peak_temperature_c: float = 0.0
    duration_seconds: float = 0.0
    num_snapshots: int = 0

    validity = "running"
    reason = ""


@dataclass
class GpuSnapshot:
    """One reading of one GPU: watts, percent, GiB, °C."""

    power_watts: float
    utilization_pct: float
    memory_used_gb: float
    temperature_c: float
    device_id: int = 0


@dataclass
class EnergySample:
    """Energy during a block, of the measured devices: GPUs, or the processor and its memory.

    Units as in GpuSample. energy_joules is that of the vendor's devices alone; the fields of the parts
    (GPU, processor, memory) are filled in addition where they can be read, those of a processor also when
    GPUs are measured.

    energy_method: "hw_counter", "polling" (power integrated) or "rapl".

    `validity` is "valid", else the reason as a code; `reason` is the same as text.
    """

    energy_joules: float = 0.0
    mean_power_watts: float = 0.0
    peak_power_watts: float = 0.0
    duration_seconds: float = 0.0
    num_snapshots: int = 0
    mean_utilization_pct: float = 0.0
    peak_utilization_pct: float = 0.0
    mean_memory_used_gb: float = 0.0
    peak_memory_used_gb: float = 0.0
    mean_temperature_c: float = 0.0
    peak_temperature_c: float = 0.0
    vendor: str = ""
    device_name: str = ""
    device_count: int = 0
    energy_method: str = ""
    cpu_energy_joules: float = 0.0
    gpu_energy_joules: float = 0.0
    dram_energy_joules: float = 0.0
    ane_energy_joules: float = 0.0

    validity = "running"
    reason = ""
    cpu_power_watts = 0.0  # of a snapshot: what the processor draws now


@dataclass
class TelemetrySample:
    """One reading of a TelemetrySession.

    timestamp_ns is in Unix nanoseconds; energies count up from an arbitrary zero; memory is in GiB.
    """

    timestamp_ns: int
    gpu_power_w: float = 0.0
    cpu_power_w: float = 0.0
    gpu_energy_j: float = 0.0
    cpu_energy_j: float = 0.0
    gpu_util_pct: float = 0.0
    gpu_temp_c: float = 0.0
    gpu_mem_gb: float = 0.0


@dataclass
class VLLMMetrics:
    """Metrics of a vLLM server: seconds, the used fraction of the cache from 0 to 1 (despite its name),
    and waiting requests. 0.0: absent from the page."""

    ttft_p50: float = 0.0
    ttft_p95: float = 0.0
    ttft_p99: float = 0.0
    gpu_cache_usage_pct: float = 0.0
    e2e_latency_p50: float = 0.0
    e2e_latency_p95: float = 0.0
    queue_depth: float = 0.0


@dataclass
class BatchMetrics:
    """Totals of a batch of requests: its energy, divided by the number of requests and by the tokens
    passed to record_request().

    The mean throughput is over the block's time; power is the monitor's mean in watts. The energies of
    prefill and decode stay 0.0: a block does not distinguish them; use compute_phase_metrics().
    """

    batch_id: str = ""
    total_requests: int = 0
    total_tokens: int = 0
    total_energy_joules: float = 0.0
    energy_per_token_joules: float = 0.0
    energy_per_request_joules: float = 0.0
    mean_power_watts: float = 0.0
    mean_throughput_tok_per_sec: float = 0.0
    prefill_energy_joules: float = 0.0
    decode_energy_joules: float = 0.0
    per_request_energy: List[float] = field(default_factory=list)


@dataclass
class EfficiencyMetrics:
    """Efficiency of a model on its GPUs: percent of the peak of all GPUs, operations per second, GB/s
    (10^9 bytes), accuracy per joule.

    Unknown values are 0.0.
    """

    mfu_pct: float = 0.0
    mbu_pct: float = 0.0
    actual_flops: float = 0.0
    peak_flops: float = 0.0
    actual_bandwidth_gb_s: float = 0.0
    peak_bandwidth_gb_s: float = 0.0
    ipj: float = 0.0


@dataclass
class SteadyStateConfig:
    """Criterion of the steady state: after the warm-up, the coefficient of variation of the last
    window_size values is below cv_threshold for min_steady_samples consecutive checks.

    metric: the metric that is checked: "throughput", "energy" or "latency".
    """

    warmup_samples: int = 5
    window_size: int = 5
    cv_threshold: float = 0.05
    min_steady_samples: int = 3
    metric: str = "throughput"


@dataclass
class SteadyStateResult:
    """Values recorded by a SteadyStateDetector so far, in their original units.

    All values after the warm-up count as steady-state samples, whether the steady state is reached or not.
    """

    total_samples: int = 0
    warmup_samples: int = 0
    steady_state_samples: int = 0
    steady_state_reached: bool = False
    warmup_throughputs: List[float] = field(default_factory=list)
    warmup_energies: List[float] = field(default_factory=list)
    steady_throughputs: List[float] = field(default_factory=list)
    steady_energies: List[float] = field(default_factory=list)


@dataclass
class ModelStats:
    """Statistics of all records of a model: sums in tokens, seconds, USD and joules, and means over the
    records that measured the value.

    Utilization is in percent, ITL in milliseconds; ratios are ratios of sums. 0.0: no record has the
    value.
    """

    model_id: str = ""
    call_count: int = 0
    total_tokens: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_latency: float = 0.0
    avg_latency: float = 0.0
    total_cost: float = 0.0
    avg_ttft: float = 0.0
    total_energy_joules: float = 0.0
    avg_gpu_utilization_pct: float = 0.0
    avg_throughput_tok_per_sec: float = 0.0
    avg_tokens_per_joule: float = 0.0
    avg_energy_per_output_token_joules: float = 0.0
    avg_throughput_per_watt: float = 0.0
    total_prefill_energy_joules: float = 0.0
    total_decode_energy_joules: float = 0.0
    avg_mean_itl_ms: float = 0.0
    avg_median_itl_ms: float = 0.0
    avg_p95_itl_ms: float = 0.0


@dataclass
class EngineStats:
    """Statistics of all records of an engine; units and means as in ModelStats."""

    engine: str = ""
    call_count: int = 0
    total_tokens: int = 0
    total_latency: float = 0.0
    avg_latency: float = 0.0
    total_cost: float = 0.0
    avg_ttft: float = 0.0
    total_energy_joules: float = 0.0
    avg_gpu_utilization_pct: float = 0.0
    avg_throughput_tok_per_sec: float = 0.0
    avg_tokens_per_joule: float = 0.0
    avg_energy_per_output_token_joules: float = 0.0
    avg_throughput_per_watt: float = 0.0
    total_prefill_energy_joules: float = 0.0
    total_decode_energy_joules: float = 0.0
    avg_mean_itl_ms: float = 0.0
    avg_median_itl_ms: float = 0.0
    avg_p95_itl_ms: float = 0.0


@dataclass
class AggregatedStats:
    """Statistics of all records, with units and means as in ModelStats; per_model and per_engine are
    sorted by descending number of calls."""

    total_calls: int = 0
    total_tokens: int = 0
    total_cost: float = 0.0
    total_latency: float = 0.0
    total_energy_joules: float = 0.0
    avg_throughput_tok_per_sec: float = 0.0
    avg_gpu_utilization_pct: float = 0.0
    avg_energy_per_output_token_joules: float = 0.0
    avg_throughput_per_watt: float = 0.0
    total_prefill_energy_joules: float = 0.0
    total_decode_energy_joules: float = 0.0
    avg_mean_itl_ms: float = 0.0
    avg_median_itl_ms: float = 0.0
    avg_p95_itl_ms: float = 0.0
    per_model: List[ModelStats] = field(default_factory=list)
    per_engine: List[EngineStats] = field(default_factory=list)


@dataclass
class TelemetryRecord:
    """The record of one inference: a row of the store.

    timestamp is in Unix seconds, latencies and ttft in seconds, ITL in milliseconds, memory in GiB. A
    total_tokens of 0 means the sum of prompt and completion tokens. metadata is any mapping that JSON can
    represent. Values that were not measured are 0.0 and "".
    """

    timestamp: float
    model_id: str
    prompt_tokens: int = 0
    prompt_tokens_evaluated: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    latency_seconds: float = 0.0
    ttft: float = 0.0
    cost_usd: float = 0.0
    energy_joules: float = 0.0
    power_watts: float = 0.0
    gpu_utilization_pct: float = 0.0
    gpu_memory_used_gb: float = 0.0
    gpu_temperature_c: float = 0.0
    throughput_tok_per_sec: float = 0.0
    energy_per_output_token_joules: float = 0.0
    throughput_per_watt: float = 0.0
    prefill_latency_seconds: float = 0.0
    decode_latency_seconds: float = 0.0
    prefill_energy_joules: float = 0.0
    decode_energy_joules: float = 0.0
    mean_itl_ms: float = 0.0
    median_itl_ms: float = 0.0
    p90_itl_ms: float = 0.0
    p95_itl_ms: float = 0.0
    p99_itl_ms: float = 0.0
    std_itl_ms: float = 0.0
    is_streaming: bool = False
    engine: str = ""
    agent: str = ""
    energy_method: str = ""
    energy_vendor: str = ""
    batch_id: str = ""
    is_warmup: bool = False
    cpu_energy_joules: float = 0.0
    gpu_energy_joules: float = 0.0
    dram_energy_joules: float = 0.0
    tokens_per_joule: float = 0.0
    token_counting_version: Optional[int] = None
    mining_session_id: Optional[str] = None
    metadata: Dict[str, Any] = field(default_factory=dict)
