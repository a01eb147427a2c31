"""Aggregation of a file of telemetry records."""
import os
from typing import Any, Dict, List, Optional

from ..._core import telemetry_rows as _telemetry_rows
from ...inference.store import InferenceStore as _InferenceStore
from .records import AggregatedStats, EngineStats, ModelStats

__all__ = ["AggregatedStats", "EngineStats", "ModelStats", "TelemetryAggregator"]

_EARLIEST, _LATEST = -8e9, 8e9  # seconds that the native store takes


def _zero(value: float) -> float:
    return 0.0 if value != value else value


def _span(since: Optional[float], until: Optional[float]) -> Dict[str, float]:
    bounds = (("since", since), ("until", until))
    return {name: min(max(float(bound), _EARLIEST), _LATEST) for name, bound in bounds if bound is not None}


def _converted(kind: Any, summary: Any) -> Any:
    """Converts a summary of the native store to the names and units of these records."""
    means, latency, energy = summary.call_means, summary.latency_seconds, summary.energy_joules
    joules_per_token = _zero(summary.joules_per_output_token)
    numbers = {
        "total_latency": latency.sum,
        "avg_latency": latency.mean,
        "avg_ttft": summary.ttft_seconds.mean,
        "total_cost": summary.cost_usd.sum,
        "total_energy_joules": energy.sum,
        "total_prefill_energy_joules": summary.prefill_energy_joules,
        "total_decode_energy_joules": summary.decode_energy_joules,
        "avg_gpu_utilization_pct": summary.gpu_utilization_ratio.mean * 100,
        "avg_mean_itl_ms": summary.itl_seconds.mean * 1e3,
        "avg_median_itl_ms": means.itl_median_seconds * 1e3,
        "avg_p95_itl_ms": means.itl_p95_seconds * 1e3,
        # Of the sums; where no record has both sides, the mean of the records' own ratios.
        "avg_throughput_tok_per_sec": _zero(summary.output_tokens_per_second) or means.tokens_per_second,
        "avg_tokens_per_joule": 1 / joules_per_token if joules_per_token else means.tokens_per_joule,
        "avg_energy_per_output_token_joules": joules_per_token or means.joules_per_output_token,
        "avg_throughput_per_watt": _zero(summary.output_tokens_per_second_per_watt) or means.tokens_per_second_per_watt,
    }
    values = {name: _zero(value) for name, value in numbers.items() if name in kind.__dataclass_fields__}
    for name in ("total_tokens", "prompt_tokens", "completion_tokens"):
        if name in kind.__dataclass_fields__:
            values[name] = getattr(summary, name)
    return kind(**values)


class TelemetryAggregator:
    """Reads a file of telemetry records; also a read-only one, or one written by an older OpenJarvis.
    Thread-safe.

    Means are over the calls that measured the value; ratios are ratios of sums, over the calls that have
    both sides. For a file written by gpulens the sums of days, hours and minutes are precomputed; of other
    files all rows are read.

    since, until: Unix seconds, both included.
    current_methodology_only: only records whose token_counting_version is 2.

    Raises UnavailableError where there is no file, and DataLossError where the file is not a file of
    telemetry records.
    """

    def __init__(self, db_path: Any) -> None:
        self._path = os.path.abspath(os.path.expanduser(str(db_path)))
        self._store: Optional[_InferenceStore] = _InferenceStore(self._path, read_only=True)

    def per_model_stats(
        self, *, since: Optional[float] = None, until: Optional[float] = None, current_methodology_only: bool = False
    ) -> List[ModelStats]:
        """Returns the statistics of each model, those with most calls first."""
        return self._models(self._query(since, until, current_methodology_only))

    def per_engine_stats(
        self, *, since: Optional[float] = None, until: Optional[float] = None, current_methodology_only: bool = False
    ) -> List[EngineStats]:
        """Returns the statistics of each engine, those with most calls first."""
        return self._engines(self._query(since, until, current_methodology_only))

    def top_models(self, n: int = 5, *, since: Optional[float] = None) -> List[ModelStats]:
        """Returns the statistics of the n models with most calls."""
        return self._models({**self._query(since, None, False), "limit": n}) if n > 0 else []

    def summary(
        self, *, since: Optional[float] = None, until: Optional[float] = None, current_methodology_only: bool = False
    ) -> AggregatedStats:
        """Returns the statistics of all calls, and those of each model and engine."""
        query = self._query(since, until, current_methodology_only)
        (summary,) = self._native().summary(**query)
        total = _converted(AggregatedStats, summary)
        total.total_calls = summary.calls
        total.per_model, total.per_engine = self._models(query), self._engines(query)
        return total

    def per_batch_stats(
        self, *, since: Optional[float] = None, until: Optional[float] = None, exclude_warmup: bool = False
    ) -> List[Dict[str, Any]]:
        """Returns the statistics of each batch, those with most requests first.

        Each is a dict of batch_id, total_requests, total_tokens, total_energy_joules and
        energy_per_token_joules; the last is over the requests whose energy is known.
        """
        batches = []
        for summary in self._native().summary(by="batch", **{**self._query(since, until, False), "warmup": not exclude_warmup}):
            batches.append(
                {
                    "batch_id": summary.key,
                    "total_requests": summary.calls,
                    "total_tokens": summary.prompt_tokens + summary.completion_tokens,
                    "total_energy_joules": _zero(summary.energy_joules.sum),
                    "energy_per_token_joules": _zero(summary.joules_per_token),
                }
            )
        return batches

    def export_records(self, *, since: Optional[float] = None, until: Optional[float] = None) -> List[Dict[str, Any]]:
        """Returns the rows as dicts, the oldest first, with all columns of the file in its order, except
        the internal column `measured`.

        They are read by native code, as `gpulens telemetry export` reads them.
        """
        return list(_telemetry_rows(self._native(), **_span(since, until)))

    def record_count(self) -> int:
        """Returns the number of records."""
        return int(self._native().count())

    def clear(self) -> int:
        """Deletes all records and returns their number."""
        self._native()
        store = _InferenceStore(self._path)
        try:
            return int(store.clear())
        finally:
            store.close()

    def close(self) -> None:
        """Closes the file. May be called twice."""
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def _native(self) -> Any:
        store = self._store
        if store is None:
            import sqlite3  # whose error this is in OpenJarvis

            raise sqlite3.ProgrammingError("the aggregator is closed")
        return store

    def _query(self, since: Optional[float], until: Optional[float], current: bool) -> Dict[str, Any]:
        return {**_span(since, until), "warmup": True, "token_counting_version": 2 if current else None}

    def _models(self, query: Dict[str, Any]) -> List[ModelStats]:
        models = []
        for summary in self._native().summary(by="model", **query):
            models.append(_converted(ModelStats, summary))
            models[-1].model_id, models[-1].call_count = summary.key, summary.calls
        return models

    def _engines(self, query: Dict[str, Any]) -> List[EngineStats]:
        engines = []
        for summary in self._native().summary(by="engine", **query):
            engines.append(_converted(EngineStats, summary))
            engines[-1].engine, engines[-1].call_count = summary.key, summary.calls
        return engines
