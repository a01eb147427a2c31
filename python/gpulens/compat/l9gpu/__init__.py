"""The l9gpu project's names: from l9gpu.… import x  becomes  from gpulens.compat.l9gpu.… import x.

`metric_names` maps the fields of its records to metrics; `schemas` holds the records, which are here, too;
`training` measures a training job and sends it; `histogram_quantile` reads buckets as Prometheus does.
"""
from . import metric_names
from .prometheus import histogram_quantile
from .schemas import (
    AMDDeviceMetrics,
    DcgmProfilingMetrics,
    DeviceMetrics,
    GaudiDeviceMetrics,
    GPUCostMetrics,
    GPUFleetHealthMetrics,
    HostMetrics,
    NCCLCollectiveMetrics,
    NimMetrics,
    SGLangMetrics,
    TGIMetrics,
    TrainingMetrics,
    TritonMetrics,
    VllmMetrics,
)

__all__ = [
    "metric_names",
    "histogram_quantile",
    "AMDDeviceMetrics",
    "DcgmProfilingMetrics",
    "DeviceMetrics",
    "GaudiDeviceMetrics",
    "GPUCostMetrics",
    "GPUFleetHealthMetrics",
    "HostMetrics",
    "NCCLCollectiveMetrics",
    "NimMetrics",
    "SGLangMetrics",
    "TGIMetrics",
    "TrainingMetrics",
    "TritonMetrics",
    "VllmMetrics",
]
