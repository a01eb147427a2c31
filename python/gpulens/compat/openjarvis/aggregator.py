"""What a file of telemetry records tells of many calls."""
import sqlite3
import threading
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..._core import telemetry_bits as _telemetry_bits
from ...inference.store import InferenceStore as _InferenceStore
from .reading import Database
from .records import AggregatedStats, EngineStats, ModelStats

__all__ = ["AggregatedStats", "EngineStats", "ModelStats", "TelemetryAggregator"]

_SUMS = {
    "total_tokens": "total_tokens",
    "prompt_tokens": "prompt_tokens",
    "completion_tokens": "completion_tokens",
    "total_latency": "latency_seconds",
    "total_cost": "cost_usd",
    "total_energy_joules": "energy_joules",
    "total_prefill_energy_joules": "prefill_energy_joules",
    "total_decode_energy_joules": "decode_energy_joules",
}
_MEANS = {
    "avg_latency": "latency_seconds",
    "avg_ttft": "ttft",
    "avg_gpu_utilization_pct": "gpu_utilization_pct",
    "avg_mean_itl_ms": "mean_itl_ms",
    "avg_median_itl_ms": "median_itl_ms",
    "avg_p95_itl_ms": "p95_itl_ms",
}
# A ratio: its column, what it is a ratio of, and what it is one to.
_RATIOS = {
    "avg_throughput_tok_per_sec": ("throughput_tok_per_sec", "completion_tokens", ("latency_seconds",)),
    "avg_tokens_per_joule": ("tokens_per_joule", "completion_tokens", ("energy_joules",)),
    "avg_energy_per_output_token_joules": ("energy_per_output_token_joules", "energy_joules", ("completion_tokens",)),
    "avg_throughput_per_watt": ("throughput_per_watt", "completion_tokens", ("latency_seconds", "power_watts")),
}


class TelemetryAggregator:
    """Reads a file of telemetry records, also one that may not be written or that an older OpenJarvis left. Thread-safe.

    Means are over the calls that measured it; ratios are ratios of sums, over the calls that have both sides. since and until
    are Unix seconds, both included. current_methodology_only: records whose token_counting_version is 2. Raises
    UnavailableError where there is no file, DataLossError where it is none of these.
    """

    def __init__(self, db_path: Any) -> None:
        self._path = str(db_path)
        self._lock = threading.Lock()
        self._database: Optional[Database] = Database(self._path)
        self._bits = _telemetry_bits()

    def per_model_stats(
        self, *, since: Optional[float] = None, until: Optional[float] = None, current_methodology_only: bool = False
    ) -> List[ModelStats]:
        """Of each model, those with most calls first."""
        return self._stats(ModelStats, "model_id", self._where(since, until, current_methodology_only))

    def per_engine_stats(
        self, *, since: Optional[float] = None, until: Optional[float] = None, current_methodology_only: bool = False
    ) -> List[EngineStats]:
        """Of each engine, those with most calls first."""
        return self._stats(EngineStats, "engine", self._where(since, until, current_methodology_only))

    def top_models(self, n: int = 5, *, since: Optional[float] = None) -> List[ModelStats]:
        """The n models with most calls."""
        return self.per_model_stats(since=since)[: max(n, 0)]

    def summary(
        self, *, since: Optional[float] = None, until: Optional[float] = None, current_methodology_only: bool = False
    ) -> AggregatedStats:
        """Of all calls, and of each model and engine."""
        where = self._where(since, until, current_methodology_only)
        (total,) = self._stats(AggregatedStats, None, where)
        total.per_model = self._stats(ModelStats, "model_id", where)
        total.per_engine = self._stats(EngineStats, "engine", where)
        return total

    def per_batch_stats(
        self, *, since: Optional[float] = None, until: Optional[float] = None, exclude_warmup: bool = False
    ) -> List[Dict[str, Any]]:
        """Of each batch, those with most requests first: batch_id, total_requests, total_tokens, total_energy_joules and
        energy_per_token_joules, which is over the requests whose energy is known."""
        conditions, arguments = self._where(since, until, False)
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
        conditions, arguments = self._where(since, until, False)
        rest = f"WHERE {' AND '.join(conditions)} " if conditions else ""
        with self._lock:
            return self._open().rows(rest + "ORDER BY timestamp, id", arguments)

    def record_count(self) -> int:
        """How many records there are."""
        return int(self._select("COUNT(*) AS n", [], [])[0]["n"])

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

    def _column(self, name: str) -> str:
        return name if name in self._open().columns else "0"

    def _ratio(self, stored: str, over: str, under: Sequence[str]) -> str:
        """SQL: the ratio of sums. What a row says itself counts by its lower side; where no row has that, it is their mean."""
        said, upper, lower = self._column(stored), self._column(over), " * ".join(self._column(name) for name in under)
        both = f"FILTER (WHERE {lower} != 0 AND ({said} != 0 OR {upper} != 0))"
        whole = f"SUM(CASE WHEN {said} != 0 THEN {said} * {lower} ELSE {upper} END) {both}"
        return f"1.0 * {whole} / (SUM({lower}) {both}), AVG(NULLIF({said}, 0))"

    def _stats(self, kind: Any, group: Optional[str], where: Tuple[List[str], List[Any]]) -> List[Any]:
        names = set(kind.__dataclass_fields__)
        calls = "total_calls" if kind is AggregatedStats else "call_count"
        columns = [f"COUNT(*) AS {calls}"]
        if group:
            columns.append(f"{group if group in self._open().columns else repr('')} AS {group}")
        columns += [f"COALESCE(SUM({self._column(c)}), 0) AS {name}" for name, c in _SUMS.items() if name in names]
        columns += [f"COALESCE(AVG({self._known(c)}), 0.0) AS {name}" for name, c in _MEANS.items() if name in names]
        columns += [f"COALESCE({self._ratio(*parts)}, 0.0) AS {name}" for name, parts in _RATIOS.items() if name in names]
        rest = f"GROUP BY 2 ORDER BY {calls} DESC, 2" if group else ""
        rows = self._select(", ".join(columns), *where, rest)
        return [kind(**dict(row)) for row in rows]

    def _where(self, since: Optional[float], until: Optional[float], current: bool) -> Tuple[List[str], List[Any]]:
        conditions: List[str] = []
        arguments: List[Any] = []
        for condition, bound in (("timestamp >= ?", since), ("timestamp <= ?", until)):
            if bound is not None:
                conditions.append(condition)
                arguments.append(bound)
        if current:
            known = "token_counting_version" in self._open().columns
            conditions.append("token_counting_version = 2" if known else "0")
        return conditions, arguments

    def _select(self, columns: str, conditions: Sequence[str], arguments: Sequence[Any], rest: str = "") -> List[sqlite3.Row]:
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        with self._lock:
            return self._open().connection.execute(f"SELECT {columns} FROM telemetry {where} {rest}", arguments).fetchall()
