"""The file of telemetry records."""
import logging
from typing import Any, Dict, List

from ..._core import TelemetryWriter as _TelemetryWriter
from ..._core import telemetry_rows as _telemetry_rows
from ...errors import InvalidArgumentError as _InvalidArgumentError
from ...inference.store import InferenceStore as _InferenceStore
from .events import EventType
from .records import TelemetryRecord

__all__ = ["TelemetryRecord", "TelemetryStore"]

_log = logging.getLogger("gpulens")
_SHORTEST, _LONGEST = 0.001, 3600.0  # seconds that the native store takes


class TelemetryStore:
    """Appends records to an SQLite file, which OpenJarvis can go on reading and writing; nothing is deleted.

    A thread writes: when batch_size records wait, and after flush_interval_seconds (0: an hour). record() neither waits nor
    fails; a record that cannot be kept is set aside in the table telemetry_poison, alone. "~" is the home folder, a new file is
    its owner's (0600), and folders keep their permissions. Thread-safe. Raises ValueError for a batch below 1 or an interval
    below 0, and an OSError or a ValueError for a file that cannot be opened or is none of these.
    """

    def __init__(self, db_path: Any, batch_size: int = 50, flush_interval_seconds: float = 5.0) -> None:
        if batch_size < 1:
            raise _InvalidArgumentError(f"batch_size is at least 1; got {batch_size}")
        if not flush_interval_seconds >= 0:
            raise _InvalidArgumentError(f"flush_interval_seconds is not negative; got {flush_interval_seconds}")
        interval = min(max(flush_interval_seconds or _LONGEST, _SHORTEST), _LONGEST)
        self._store = _InferenceStore(db_path, flush_records=batch_size, flush_interval_seconds=interval)
        self._writer = _TelemetryWriter(self._store, TelemetryRecord)
        self._closed = False

    def record(self, rec: TelemetryRecord) -> None:
        """Keeps a record; after close() it is dropped and counted in `health`."""
        self._writer.record(rec)

    def flush(self) -> None:
        """Waits until all that was recorded is in the file."""
        self._store.flush()

    def list_recent(self, limit: int = 50) -> List[Dict[str, Any]]:
        """The newest rows, the newest first; a limit below 0: all."""
        if limit == 0:
            return []
        return list(_telemetry_rows(self._store, newest_first=True, limit=max(limit, 0)))

    def subscribe_to_bus(self, bus: Any) -> None:
        """Keeps each record that is published on the bus as "telemetry_record"; other payloads are passed by."""
        bus.subscribe(EventType.TELEMETRY_RECORD, self._on_event)

    def _on_event(self, event: Any) -> None:
        record = event.data.get("record")
        if isinstance(record, TelemetryRecord):
            self.record(record)
        else:
            _log.debug("an event without a TelemetryRecord: %r", type(record))

    @property
    def health(self) -> Any:
        """How many records were stored, dropped and set aside: a gpulens StoreHealth."""
        return self._store.health

    def close(self) -> None:
        """Writes what waits. May be called twice."""
        if not self._closed:
            self._closed = True
            self._store.close()
