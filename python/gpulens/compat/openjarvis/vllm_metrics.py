"""Metrics of a vLLM server."""
import logging

from ..._core import read_vllm_page as _read_vllm_page
from ...errors import Error as _Error
from .._pages import FAILURES as _FAILURES
from .._pages import fetch as _fetch
from .records import VLLMMetrics

__all__ = ["VLLMMetrics", "VLLMMetricsScraper"]

_log = logging.getLogger("gpulens")
_SECONDS = 5.0


class VLLMMetricsScraper:
    """Scrapes the page /metrics of a vLLM server. Thread-safe."""

    def __init__(self, host: str = "http://localhost:8000") -> None:
        self._url = host.rstrip("/") + "/metrics"

    def scrape(self) -> VLLMMetrics:
        """Returns latencies of all requests since the server started, the current cache usage and the
        current queue depth.

        Several engines of one server are added up before a quantile is computed. Values that the page does
        not contain are 0.0; all are 0.0 when there is no answer within 5 seconds, or when it is not a page
        of metrics. Raises nothing.
        """
        try:
            body, content_type = _fetch(self._url, _SECONDS)
            read = _read_vllm_page(body, content_type)
        except (*_FAILURES, _Error) as error:
            _log.debug("%s: %s", self._url, error)
            return VLLMMetrics()
        known = {
            "ttft_p50": read.ttft_p50_seconds,
            "ttft_p95": read.ttft_p95_seconds,
            "ttft_p99": read.ttft_p99_seconds,
            "gpu_cache_usage_pct": read.cache_usage_ratio,
            "e2e_latency_p50": read.e2e_p50_seconds,
            "e2e_latency_p95": read.e2e_p95_seconds,
            "queue_depth": read.requests_waiting,
        }
        return VLLMMetrics(**{name: value if value == value else 0.0 for name, value in known.items()})
