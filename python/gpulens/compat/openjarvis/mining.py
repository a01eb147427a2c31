"""The table mining_stats, which OpenJarvis keeps in the file of telemetry records."""
import contextlib
import sqlite3
import time
from typing import Any, Dict, Iterator, List

from ...errors import IoError as _IoError

__all__ = ["recent_mining_stats", "record_mining_stats"]

# Columns of the numbers and texts of a MiningStats object, and their types.
_COLUMNS = {
    "provider_id": "TEXT NOT NULL",
    "shares_submitted": "INTEGER NOT NULL DEFAULT 0",
    "shares_accepted": "INTEGER NOT NULL DEFAULT 0",
    "blocks_found": "INTEGER NOT NULL DEFAULT 0",
    "hashrate": "REAL NOT NULL DEFAULT 0",
    "uptime_seconds": "REAL NOT NULL DEFAULT 0",
    "last_share_at": "REAL",
    "last_error": "TEXT",
    "payout_target": "TEXT NOT NULL DEFAULT 'solo'",
    "fees_owed": "INTEGER NOT NULL DEFAULT 0",
}
_BUSY_SECONDS = 5.0


@contextlib.contextmanager
def _open(path: str) -> Iterator[sqlite3.Connection]:
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as database, database:
            yield database
    except sqlite3.Error as error:
        raise _IoError(f"{path}: {error}") from error


def record_mining_stats(path: str, stats: Any) -> None:
    """Stores a snapshot: an object with the attributes of OpenJarvis' MiningStats.

    Written at once, unlike records. Raises AttributeError for an object that lacks one, and IoError.
    """
    row = (time.time(), *(getattr(stats, name) for name in _COLUMNS))
    with _open(path) as database:
        columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
        database.execute(
            f"CREATE TABLE IF NOT EXISTS mining_stats (id INTEGER PRIMARY KEY AUTOINCREMENT, recorded_at REAL NOT NULL, {columns})"
        )
        marks = ", ".join("?" * len(row))
        database.execute(f"INSERT INTO mining_stats (recorded_at, {', '.join(_COLUMNS)}) VALUES ({marks})", row)


def recent_mining_stats(path: str, limit: int = 50) -> List[Dict[str, Any]]:
    """Returns the newest snapshots, the newest first; a limit below 0: all. Raises IoError."""
    with _open(path) as database:
        database.row_factory = sqlite3.Row
        if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'mining_stats'").fetchone() is None:
            return []
        return [dict(row) for row in database.execute("SELECT * FROM mining_stats ORDER BY recorded_at DESC, id DESC LIMIT ?", (limit,))]
