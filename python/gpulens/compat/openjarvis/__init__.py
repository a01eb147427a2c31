"""OpenJarvis' telemetry: `from openjarvis.telemetry import x` becomes `from gpulens.compat.openjarvis
import x`.

Names, signatures and units are those of OpenJarvis; values that were not measured are 0.0. docs/sdk.md
lists the errors of OpenJarvis that are corrected here.
"""
from .aggregator import TelemetryAggregator
from .batch import EnergyBatch
from .efficiency import compute_efficiency
from .energy_monitor import EnergyMonitor, EnergyVendor, create_energy_monitor
from .events import Event, EventBus, EventType
from .flops import compute_mfu, estimate_flops
from .gpu_monitor import GpuMonitor
from .gpu_specs import GpuHardwareSpec, lookup_gpu_spec
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
    "GpuHardwareSpec",
    "GpuMonitor",
    "GpuSample",
    "GpuSnapshot",
    "InstrumentedEngine",
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
    "instrumented_generate",
    "lookup_gpu_spec",
    "split_at_ttft",
]
