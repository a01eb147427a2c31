"""Distributions, inter-token latencies, and detection of the steady state of a benchmark.

Values that were not measured are NaN and are ignored.
"""
from ._core import Distribution, SteadyStateDetector, describe, inter_token_latency, percentile

__all__ = ["Distribution", "SteadyStateDetector", "describe", "inter_token_latency", "percentile"]
