"""Distributions, latencies between tokens, and whether a benchmark has settled.

What was not measured is NaN and does not count.
"""
from ._core import Distribution, SteadyStateDetector, describe, inter_token_latency, percentile

__all__ = ["Distribution", "SteadyStateDetector", "describe", "inter_token_latency", "percentile"]
