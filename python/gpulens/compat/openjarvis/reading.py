"""A file of telemetry records, opened to be read: of OpenJarvis in any of its versions, or of gpulens."""
import os
import pathlib
import sqlite3
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Sequence

from ...errors import DataLossError, UnavailableError

__all__ = ["Database", "open_to_read"]

_INTERNAL = ("measured",)


class Database:
    """Of one thread at a time."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(os.path.expanduser(path))
        self.connection = _connect(self.path)
        self.connection.row_factory = sqlite3.Row
        try:
            self.columns = [row[1] for row in self.connection.execute("PRAGMA table_info(telemetry)")]
        except sqlite3.DatabaseError as error:
            self.connection.close()
            raise DataLossError(f"{path}: {error}") from error
        if not self.columns:
            self.connection.close()
            raise DataLossError(f"{path}: there is no table telemetry in it")

    def rows(self, rest: str, arguments: Sequence[Any] = ()) -> List[Dict[str, Any]]:
        """All columns of the rows as dicts. rest: what follows SELECT … FROM telemetry."""
        columns = ", ".join(f'"{name}"' for name in self.columns if name not in _INTERNAL)
        return [dict(row) for row in self.connection.execute(f"SELECT {columns} FROM telemetry {rest}", arguments)]

    def close(self) -> None:
        self.connection.close()


def _connect(path: str) -> sqlite3.Connection:
    if not os.path.exists(path):
        raise UnavailableError(f"{path}: there is no such file")
    uri = pathlib.Path(path).as_uri()
    connection = sqlite3.connect(uri + "?mode=ro", uri=True, timeout=5, check_same_thread=False)
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
        return connection
    except sqlite3.OperationalError:
        # In a folder that may not be written no log can be made beside it; where there is none, or the empty one that readers
        # leave behind, it has nothing to tell.
        connection.close()
        if os.path.exists(path + "-wal") and os.path.getsize(path + "-wal"):
            raise
        return sqlite3.connect(uri + "?immutable=1", uri=True, timeout=5, check_same_thread=False)
    except sqlite3.DatabaseError as error:
        connection.close()
        raise DataLossError(f"{path}: {error}") from error


@contextmanager
def open_to_read(path: str) -> Iterator[Database]:
    """The file for the block. Raises UnavailableError where it is not, DataLossError for what is no such file."""
    database = Database(path)
    try:
        yield database
    finally:
        database.close()
