"""Inter-token latency."""
from typing import Dict, Sequence

from ...stats import inter_token_latency as _inter_token_latency

__all__ = ["compute_itl_stats"]


def compute_itl_stats(token_timestamps: Sequence[float]) -> Dict[str, float]:
    """Returns p50_ms, p90_ms, p95_ms, p99_ms, mean_ms, min_ms and max_ms of token arrival times in
    milliseconds.

    All are 0.0 for fewer than two arrivals. Arrivals that go back in time are ignored.
    """
    stats = _inter_token_latency([arrival / 1e3 for arrival in token_timestamps])
    names = ("p50", "p90", "p95", "p99", "mean", "min", "max")
    return {f"{name}_ms": round(getattr(stats, name) * 1e3, 9) if stats.n else 0.0 for name in names}
