"""Quantiles of Prometheus histograms."""
from typing import List, Optional, Tuple

from ..._core import bucket_quantile as _bucket_quantile

__all__ = ["histogram_quantile"]


def histogram_quantile(buckets: List[Tuple[float, float]], count: float, quantile: float) -> Optional[float]:
    """Returns the value below which this fraction of the observations lies, as Prometheus'
    histogram_quantile() does.

    buckets: pairs of an upper bound and the number of observations at or below it, in any order; +Inf may
        be included.
    count: number of all observations.
    quantile: 0 to 1.

    Returns None without observations or without a finite bound.
    """
    return _bucket_quantile(list(buckets), count, quantile)
