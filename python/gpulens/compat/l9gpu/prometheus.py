"""What is read out of a Prometheus page."""
from typing import List, Optional, Tuple

from ..._core import bucket_quantile as _bucket_quantile

__all__ = ["histogram_quantile"]


def histogram_quantile(buckets: List[Tuple[float, float]], count: float, quantile: float) -> Optional[float]:
    """The value below which this fraction of the observations lies, as Prometheus' histogram_quantile() has it.

    buckets: pairs of an upper bound and how many observations are at or below it, in any order; +Inf may be among them.
    count: all observations. quantile: 0 to 1. None without observations or without a finite bound.
    """
    return _bucket_quantile(list(buckets), count, quantile)
