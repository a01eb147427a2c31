"""The names of the l9gpu project: `from l9gpu.… import x` becomes `from gpulens.compat.l9gpu.… import x`.

`metric_names` maps the fields of its records to metrics. `schemas` contains the records, which this module
exports, too. `training` measures a training job and exports the result. `scrape` and `parse`
read pages of metrics, and `histogram_quantile` computes quantiles of buckets as Prometheus does.
"""
from . import metric_names
from .prometheus import histogram_quantile, parse, scrape
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
    "parse",
    "scrape",
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
