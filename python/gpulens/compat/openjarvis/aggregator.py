"""What a file of telemetry records tells of many calls."""
import sqlite3
import threading
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..._core import telemetry_bits as _telemetry_bits
from ...inference.store import InferenceStore as _InferenceStore
from .reading import Database
from .records import AggregatedStats, EngineStats, ModelStats

__all__ = ["AggregatedStats", "EngineStats", "ModelStats", "TelemetryAggregator"]

_EARLIEST, _LATEST = -8e9, 8e9  # seconds that the native store takes


def _zero(value: float) -> float:
    return 0.0 if value != value else value


def _told(kind: Any, summary: Any) -> Any:
    """A summary of the native store, in the names and units of these records."""
    means, latency, energy = summary.call_means, summary.latency_seconds, summary.energy_joules
    ratio, each = summary.output_tokens_per_second_per_watt, means.tokens_per_joule
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
        # Of the sums; where no record has both sides, the mean of what records say themselves.
        "avg_throughput_tok_per_sec": _zero(summary.output_tokens_per_second) or means.tokens_per_second,
        "avg_tokens_per_joule": _zero(ratio) or each,
        "avg_energy_per_output_token_joules": _zero(summary.joules_per_output_token) or means.joules_per_output_token,
        "avg_throughput_per_watt": _zero(ratio) or means.tokens_per_second_per_watt,
    }
    told = {name: _zero(value) for name, value in numbers.items() if name in kind.__dataclass_fields__}
    for name in ("total_tokens", "prompt_tokens", "completion_tokens"):
        if name in kind.__dataclass_fields__:
            told[name] = getattr(summary, name)
    return kind(**told)


class TelemetryAggregator:
    """Reads a file of telemetry records, also one that may not be written or that an older OpenJarvis left. Thread-safe.

    Means are over the calls that measured it; ratios are ratios of sums, over the calls that have both sides. A file that
    gpulens wrote has its days, hours and minutes added up already; of others all rows are read. since and until
    are Unix seconds, both included. current_methodology_only: records whose token_counting_version is 2. Raises
    UnavailableError where there is no file, DataLossError where it is none of these.
    """

    def __init__(self, db_path: Any) -> None:
        self._path = str(db_path)
        self._lock = threading.Lock()
        self._database: Optional[Database] = Database(self._path)
        self._bits = _telemetry_bits()
        self._store = _InferenceStore(self._database.path, read_only=True)

    def per_model_stats(
        self, *, since: Optional[float] = None, until: Optional[float] = None, current_methodology_only: bool = False
    ) -> List[ModelStats]:
        """Of each model, those with most calls first."""
        return self._models(self._asked(since, until, current_methodology_only))

    def per_engine_stats(
        self, *, since: Optional[float] = None, until: Optional[float] = None, current_methodology_only: bool = False
    ) -> List[EngineStats]:
        """Of each engine, those with most calls first."""
        return self._engines(self._asked(since, until, current_methodology_only))

    def top_models(self, n: int = 5, *, since: Optional[float] = None) -> List[ModelStats]:
        """The n models with most calls."""
        return self._models({**self._asked(since, None, False), "limit": n}) if n > 0 else []

    def summary(
        self, *, since: Optional[float] = None, until: Optional[float] = None, current_methodology_only: bool = False
    ) -> AggregatedStats:
        """Of all calls, and of each model and engine."""
        asked = self._asked(since, until, current_methodology_only)
        (summary,) = self._native().summary(**asked)
        total = _told(AggregatedStats, summary)
        total.total_calls = summary.calls
        total.per_model, total.per_engine = self._models(asked), self._engines(asked)
        return total

    def per_batch_stats(
        self, *, since: Optional[float] = None, until: Optional[float] = None, exclude_warmup: bool = False
    ) -> List[Dict[str, Any]]:
        """Of each batch, those with most requests first: batch_id, total_requests, total_tokens, total_energy_joules and
        energy_per_token_joules, which is over the requests whose energy is known."""
        conditions, arguments = self._where(since, until)
        conditions = [*conditions, "batch_id != ''"] + (["COALESCE(is_warmup, 0) = 0"] if exclude_warmup else [])
        if "batch_id" not in self._open().columns:
            return []
        tokens = "COALESCE(prompt_tokens, 0) + COALESCE(completion_tokens, 0)"
        joules = self._known("energy_joules")
        columns = (
            f"batch_id, COUNT(*) AS total_requests, SUM({tokens}) AS total_tokens,"
            f" COALESCE(SUM({joules}), 0.0) AS total_energy_joules,"
            f" COALESCE(SUM({joules}) / NULLIF(SUM(CASE WHEN {joules} IS NOT NULL THEN {tokens} END), 0), 0.0)"
            " AS energy_per_token_joules"
        )
        rows = self._select(columns, conditions, arguments, "GROUP BY batch_id ORDER BY total_requests DESC, batch_id")
        return [dict(row) for row in rows]

    def export_records(self, *, since: Optional[float] = None, until: Optional[float] = None) -> List[Dict[str, Any]]:
        """The rows as dicts, the oldest first."""
        conditions, arguments = self._where(since, until)
        rest = f"WHERE {' AND '.join(conditions)} " if conditions else ""
        with self._lock:
            return self._open().rows(rest + "ORDER BY timestamp, id", arguments)

    def record_count(self) -> int:
        """How many records there are."""
        return int(self._native().count())

    def clear(self) -> int:
        """Deletes all records; how many there were."""
        store = _InferenceStore(self._open().path)
        try:
            return int(store.clear())
        finally:
            store.close()

    def close(self) -> None:
        """Closes the file. May be called twice."""
        with self._lock:
            database, self._database = self._database, None
            if database is not None:
                database.close()
                self._store.close()

    def _open(self) -> Database:
        if self._database is None:
            raise sqlite3.ProgrammingError("the aggregator is closed")
        return self._database

    def _known(self, column: str) -> str:
        """SQL: the column, NULL where it was not measured."""
        columns = self._open().columns
        if column not in columns:
            return "NULL"
        if "measured" not in columns or column not in self._bits:
            return f"NULLIF({column}, 0)"
        return f"CASE WHEN {column} != 0 OR measured & {self._bits[column]} THEN {column} END"

    def _native(self) -> Any:
        self._open()
        return self._store

    def _asked(self, since: Optional[float], until: Optional[float], current: bool) -> Dict[str, Any]:
        asked: Dict[str, Any] = {"warmup": True, "token_counting_version": 2 if current else None}
        for name, bound in (("since", since), ("until", until)):
            if bound is not None:
                asked[name] = min(max(float(bound), _EARLIEST), _LATEST)
        return asked

    def _models(self, asked: Dict[str, Any]) -> List[ModelStats]:
        models = []
        for summary in self._native().summary(by="model", **asked):
            models.append(_told(ModelStats, summary))
            models[-1].model_id, models[-1].call_count = summary.key, summary.calls
        return models

    def _engines(self, asked: Dict[str, Any]) -> List[EngineStats]:
        engines = []
        for summary in self._native().summary(by="engine", **asked):
            engines.append(_told(EngineStats, summary))
            engines[-1].engine, engines[-1].call_count = summary.key, summary.calls
        return engines

    def _where(self, since: Optional[float], until: Optional[float]) -> Tuple[List[str], List[Any]]:
        conditions: List[str] = []
        arguments: List[Any] = []
        for condition, bound in (("timestamp >= ?", since), ("timestamp <= ?", until)):
            if bound is not None:
                conditions.append(condition)
                arguments.append(bound)
        return conditions, arguments

    def _select(self, columns: str, conditions: Sequence[str], arguments: Sequence[Any], rest: str) -> List[sqlite3.Row]:
        where = f"WHERE {' AND '.join(conditions)}"
        with self._lock:
            return self._open().connection.execute(f"SELECT {columns} FROM telemetry {where} {rest}", arguments).fetchall()
