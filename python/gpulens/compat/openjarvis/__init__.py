"""OpenJarvis' telemetry: `from openjarvis.telemetry import x` becomes `from gpulens.compat.openjarvis
import x`.

Names, signatures and units are those of OpenJarvis; values that were not measured are 0.0. docs/compat.md
lists what differs, with the reasons.
"""
from .aggregator import TelemetryAggregator
from .batch import EnergyBatch
from .efficiency import compute_efficiency, estimate_model_bytes_per_token, estimate_model_flops_per_token
from .energy_monitor import EnergyMonitor, EnergyVendor, create_energy_monitor
from .events import Event, EventBus, EventType, get_event_bus, reset_event_bus
from .flops import GPU_PEAK_TFLOPS_BF16, MODEL_PARAMS_B, compute_mfu, estimate_flops, estimate_flops_no_kv_cache
from .gpu_monitor import GpuMonitor
from .gpu_specs import GPU_SPECS, GpuHardwareSpec, lookup_gpu_spec
from .instrumented_engine import InstrumentedEngine
from .itl import compute_itl_stats
from .native_monitor import AmdEnergyMonitor, AppleEnergyMonitor, NvidiaEnergyMonitor, RaplEnergyMonitor
from .phase_metrics import compute_phase_metrics, split_at_ttft
from .records import (
    AggregatedStats,
    BatchMetrics,
    EfficiencyMetrics,
    EnergySample,
    EngineStats,
    GpuSample,
    GpuSnapshot,
    ModelStats,
    SteadyStateConfig,
    SteadyStateResult,
    TelemetryRecord,
    TelemetrySample,
    VLLMMetrics,
)
from .session import TelemetrySession
from .steady_state import SteadyStateDetector
from .store import TelemetryStore
from .vllm_metrics import VLLMMetricsScraper
from .wrapper import instrumented_generate

__all__ = [
    "AggregatedStats",
    "AmdEnergyMonitor",
    "AppleEnergyMonitor",
    "BatchMetrics",
    "EfficiencyMetrics",
    "EnergyBatch",
    "EnergyMonitor",
    "EnergySample",
    "EnergyVendor",
    "EngineStats",
    "Event",
    "EventBus",
    "EventType",
    "GPU_PEAK_TFLOPS_BF16",
    "GPU_SPECS",
    "GpuHardwareSpec",
    "GpuMonitor",
    "GpuSample",
    "GpuSnapshot",
    "InstrumentedEngine",
    "MODEL_PARAMS_B",
    "ModelStats",
    "NvidiaEnergyMonitor",
    "RaplEnergyMonitor",
    "SteadyStateConfig",
    "SteadyStateDetector",
    "SteadyStateResult",
    "TelemetryAggregator",
    "TelemetryRecord",
    "TelemetrySample",
    "TelemetrySession",
    "TelemetryStore",
    "VLLMMetrics",
    "VLLMMetricsScraper",
    "compute_efficiency",
    "compute_itl_stats",
    "compute_mfu",
    "compute_phase_metrics",
    "create_energy_monitor",
    "estimate_flops",
    "estimate_flops_no_kv_cache",
    "estimate_model_bytes_per_token",
    "estimate_model_flops_per_token",
    "get_event_bus",
    "instrumented_generate",
    "lookup_gpu_spec",
    "reset_event_bus",
    "split_at_ttft",
]
