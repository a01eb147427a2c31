"""The records of the l9gpu project, field by field; None is what was not measured.

Made by tools/l9gpu_fields.py; change its table, not this.
"""

from dataclasses import dataclass
from typing import Dict, List, Optional

__all__ = [
    "DeviceMetrics",
    "AMDDeviceMetrics",
    "GaudiDeviceMetrics",
    "HostMetrics",
    "DcgmProfilingMetrics",
    "VllmMetrics",
    "NimMetrics",
    "TritonMetrics",
    "SGLangMetrics",
    "TGIMetrics",
    "GPUFleetHealthMetrics",
    "GPUCostMetrics",
    "NCCLCollectiveMetrics",
    "TrainingMetrics",
]


@dataclass
class DeviceMetrics:
    """What an NVIDIA GPU's driver tells."""

    mem_util: Optional[int] = None  # 1
    mem_used_percent: Optional[int] = None  # {percent}
    gpu_util: Optional[int] = None  # 1
    temperature: Optional[int] = None  # Cel
    power_draw: Optional[int] = None  # W
    power_used_percent: Optional[int] = None  # 1
    retired_pages_count_single_bit: Optional[int] = None  # {row}
    retired_pages_count_double_bit: Optional[int] = None  # {row}
    mem_used_bytes: Optional[int] = None  # By
    mem_total_bytes: Optional[int] = None  # By
    mem_free_bytes: Optional[int] = None  # By
    clock_graphics_mhz: Optional[int] = None  # MHz
    clock_memory_mhz: Optional[int] = None  # MHz
    nvlink_tx_bandwidth: Optional[int] = None  # By/s
    nvlink_rx_bandwidth: Optional[int] = None  # By/s
    ecc_errors_volatile_correctable: Optional[int] = None  # {error}
    ecc_errors_volatile_uncorrectable: Optional[int] = None  # {error}
    throttle_reason: Optional[int] = None  # {bool}
    power_state: Optional[int] = None  # {state}
    pcie_rx_bytes: Optional[int] = None  # By/s
    pcie_tx_bytes: Optional[int] = None  # By/s
    fan_speed_percent: Optional[int] = None  # 1
    enc_util: Optional[int] = None  # 1
    dec_util: Optional[int] = None  # 1
    xid_errors: Optional[int] = None  # {error}
    pcie_replay_count: Optional[int] = None  # {event}
    total_energy_mj: Optional[int] = None  # mJ
    throttle_power_software: Optional[int] = None  # {bool}
    throttle_temp_hardware: Optional[int] = None  # {bool}
    throttle_temp_software: Optional[int] = None  # {bool}
    throttle_syncboost: Optional[int] = None  # {bool}
    mem_unified_used_bytes: Optional[int] = None  # By
    mem_unified_total_bytes: Optional[int] = None  # By
    gpu_architecture: Optional[str] = None


@dataclass
class AMDDeviceMetrics(DeviceMetrics):
    """What an AMD GPU's driver tells besides."""

    xgmi_link_bandwidth: Optional[List[int]] = None  # By/s
    ecc_per_block: Optional[Dict[str, int]] = None  # {error}
    junction_temperature: Optional[int] = None  # Cel
    hbm_temperature: Optional[int] = None  # Cel


@dataclass
class GaudiDeviceMetrics(DeviceMetrics):
    """What an Intel Gaudi accelerator's driver tells besides."""

    network_rx_bandwidth: Optional[List[int]] = None  # By/s
    network_tx_bandwidth: Optional[List[int]] = None  # By/s
    rows_replaced: Optional[int] = None  # {row}
    rows_pending: Optional[int] = None  # {row}


@dataclass
class HostMetrics:
    """Of a machine and all its GPUs."""

    max_gpu_util: int  # 1
    min_gpu_util: int  # 1
    avg_gpu_util: float  # 1
    ram_util: float  # 1


@dataclass
class DcgmProfilingMetrics:
    """Profiling figures of DCGM."""

    gpu_index: Optional[int] = None
    gpu_uuid: Optional[str] = None
    gpu_model: Optional[str] = None
    sm_active: Optional[float] = None  # 1
    dram_active: Optional[float] = None  # 1
    gr_engine_active: Optional[float] = None  # 1
    tensor_active: Optional[float] = None  # 1
    fp64_active: Optional[float] = None  # 1
    fp32_active: Optional[float] = None  # 1
    fp16_active: Optional[float] = None  # 1
    sm_occupancy: Optional[float] = None  # 1
    nvlink_tx_bytes: Optional[float] = None  # By/s
    nvlink_rx_bytes: Optional[float] = None  # By/s
    prof_pcie_tx_bytes: Optional[float] = None  # By/s
    prof_pcie_rx_bytes: Optional[float] = None  # By/s
    mig_enabled: Optional[bool] = None
    mig_instance_id: Optional[str] = None


@dataclass
class VllmMetrics:
    """Of a vLLM server."""

    prompt_tokens_per_sec: Optional[float] = None  # {token}/s
    generation_tokens_per_sec: Optional[float] = None  # {token}/s
    e2e_latency_p50: Optional[float] = None  # s
    e2e_latency_p95: Optional[float] = None  # s
    e2e_latency_p99: Optional[float] = None  # s
    ttft_p50: Optional[float] = None  # s
    ttft_p95: Optional[float] = None  # s
    gpu_cache_usage: Optional[float] = None  # 1
    cpu_cache_usage: Optional[float] = None  # 1
    requests_running: Optional[int] = None  # {request}
    requests_waiting: Optional[int] = None  # {request}
    requests_swapped: Optional[int] = None  # {request}
    itl_p50: Optional[float] = None  # s
    itl_p95: Optional[float] = None  # s
    itl_p99: Optional[float] = None  # s
    prefill_duration_p50: Optional[float] = None  # s
    prefill_duration_p95: Optional[float] = None  # s
    decode_duration_p50: Optional[float] = None  # s
    decode_duration_p95: Optional[float] = None  # s
    cache_hit_rate: Optional[float] = None  # 1
    cache_evictions_per_sec: Optional[float] = None  # {block}/s
    spec_decode_acceptance_rate: Optional[float] = None  # 1
    spec_decode_efficiency: Optional[float] = None  # 1
    requests_success_per_sec: Optional[float] = None  # {request}/s
    requests_finished_stop_per_sec: Optional[float] = None  # {request}/s
    requests_finished_length_per_sec: Optional[float] = None  # {request}/s
    requests_finished_abort_per_sec: Optional[float] = None  # {request}/s
    preemptions_per_sec: Optional[float] = None  # {event}/s
    lora_active_count: Optional[int] = None  # {adapter}
    model_name: Optional[str] = None


@dataclass
class NimMetrics:
    """Of an NVIDIA NIM server."""

    requests_total: Optional[int] = None  # {request}
    requests_failed: Optional[int] = None  # {request}
    request_latency_p50: Optional[float] = None  # s
    request_latency_p99: Optional[float] = None  # s
    batch_size_avg: Optional[float] = None  # {request}
    queue_depth: Optional[int] = None  # {request}
    kv_cache_usage: Optional[float] = None  # 1
    nim_itl_p50: Optional[float] = None  # s
    nim_itl_p95: Optional[float] = None  # s


@dataclass
class TritonMetrics:
    """Of a model of a Triton server."""

    model_name: Optional[str] = None
    model_version: Optional[str] = None
    triton_requests_success_per_sec: Optional[float] = None  # {request}/s
    triton_requests_failed_per_sec: Optional[float] = None  # {request}/s
    triton_avg_request_latency_us: Optional[float] = None  # us
    triton_avg_queue_latency_us: Optional[float] = None  # us
    triton_avg_compute_input_latency_us: Optional[float] = None  # us
    triton_avg_compute_infer_latency_us: Optional[float] = None  # us
    triton_avg_compute_output_latency_us: Optional[float] = None  # us
    triton_queue_depth: Optional[int] = None  # {request}
    triton_avg_batch_size: Optional[float] = None  # {request}


@dataclass
class SGLangMetrics:
    """Of an SGLang server."""

    sglang_prompt_tokens_per_sec: Optional[float] = None  # {token}/s
    sglang_generation_tokens_per_sec: Optional[float] = None  # {token}/s
    sglang_cache_hit_rate: Optional[float] = None  # 1
    sglang_itl_p50: Optional[float] = None  # s
    sglang_itl_p95: Optional[float] = None  # s
    sglang_ttft_p50: Optional[float] = None  # s
    sglang_ttft_p95: Optional[float] = None  # s
    sglang_e2e_latency_p50: Optional[float] = None  # s
    sglang_e2e_latency_p95: Optional[float] = None  # s
    sglang_e2e_latency_p99: Optional[float] = None  # s
    sglang_requests_running: Optional[int] = None  # {request}
    sglang_requests_waiting: Optional[int] = None  # {request}
    model_name: Optional[str] = None


@dataclass
class TGIMetrics:
    """Of a Text Generation Inference server."""

    tgi_request_latency_p50: Optional[float] = None  # s
    tgi_request_latency_p95: Optional[float] = None  # s
    tgi_request_latency_p99: Optional[float] = None  # s
    tgi_queue_latency_p50: Optional[float] = None  # s
    tgi_queue_latency_p95: Optional[float] = None  # s
    tgi_inference_latency_p50: Optional[float] = None  # s
    tgi_inference_latency_p95: Optional[float] = None  # s
    tgi_tpot_p50: Optional[float] = None  # s
    tgi_tpot_p95: Optional[float] = None  # s
    tgi_batch_size_p50: Optional[float] = None  # {request}
    tgi_batch_size_p95: Optional[float] = None  # {request}
    tgi_batch_forward_duration_p50: Optional[float] = None  # s
    tgi_batch_forward_duration_p95: Optional[float] = None  # s
    tgi_input_tokens_p50: Optional[float] = None  # {token}
    tgi_input_tokens_p95: Optional[float] = None  # {token}
    tgi_output_tokens_p50: Optional[float] = None  # {token}
    tgi_output_tokens_p95: Optional[float] = None  # {token}


@dataclass
class GPUFleetHealthMetrics:
    """The health of a GPU."""

    gpu_index: Optional[int] = None
    gpu_uuid: Optional[str] = None
    gpu_model: Optional[str] = None
    xid_last_error_code: Optional[int] = None  # {code}
    xid_error_rate: Optional[float] = None  # {error}/h
    ecc_sbe_rate: Optional[float] = None  # {error}/h
    ecc_dbe_total: Optional[int] = None  # {error}
    row_remap_available: Optional[int] = None  # {row}
    pcie_link_gen_current: Optional[int] = None  # {gen}
    pcie_link_width_current: Optional[int] = None  # {lanes}
    pcie_link_downtraining: Optional[int] = None  # {bool}
    thermal_ramp_rate: Optional[float] = None  # Cel/min
    health_score: Optional[float] = None  # 1


@dataclass
class GPUCostMetrics:
    """What a GPU costs, and what it emits."""

    gpu_index: Optional[int] = None
    cost_per_gpu_hour: Optional[float] = None  # USD/h
    cost_rate_per_sec: Optional[float] = None  # USD/s
    cost_per_prompt_token: Optional[float] = None  # USD/{token}
    cost_per_generation_token: Optional[float] = None  # USD/{token}
    tokens_per_watt: Optional[float] = None  # {token}/W
    joules_per_token: Optional[float] = None  # J/{token}
    is_idle: Optional[int] = None  # {bool}
    idle_cost_rate_per_sec: Optional[float] = None  # USD/s
    co2_grams_per_kwh: Optional[float] = None  # g/kWh
    co2_rate_grams_per_sec: Optional[float] = None  # g/s


@dataclass
class NCCLCollectiveMetrics:
    """One collective operation of one rank."""

    collective_type: Optional[str] = None
    rank: Optional[int] = None
    message_size_bytes: Optional[float] = None  # By
    bandwidth_bytes_per_sec: Optional[float] = None  # By/s
    bus_bandwidth_bytes_per_sec: Optional[float] = None  # By/s
    duration_us: Optional[float] = None  # us
    is_straggler: Optional[int] = None  # {bool}


@dataclass
class TrainingMetrics:
    """One step of a training job."""

    mfu: Optional[float] = None  # 1
    tflops: Optional[float] = None  # TFLOPS
    step_time: Optional[float] = None  # s
    gradient_norm: Optional[float] = None  # 1
    gradient_nan_count: Optional[int] = None  # {param}
    gradient_clip_rate: Optional[float] = None  # 1
    training_loss: Optional[float] = None  # 1
    dataloader_wait: Optional[float] = None  # s
    checkpoint_save_duration: Optional[float] = None  # s
    checkpoint_save_bandwidth: Optional[float] = None  # By/s
    checkpoint_restore_duration: Optional[float] = None  # s
