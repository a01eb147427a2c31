"""The file of telemetry records."""
import logging
from typing import Any, Dict, List

from ..._core import TelemetryWriter as _TelemetryWriter
from ..._core import telemetry_rows as _telemetry_rows
from ...errors import InvalidArgumentError as _InvalidArgumentError
from ...errors import UnavailableError as _UnavailableError
from ...inference.record import InferenceRecord as _InferenceRecord
from ...inference.store import InferenceStore as _InferenceStore
from .events import EventType
from .mining import recent_mining_stats as _recent_mining_stats
from .mining import record_mining_stats as _record_mining_stats
from .records import TelemetryRecord

__all__ = ["TelemetryRecord", "TelemetryStore"]

_log = logging.getLogger("gpulens")
_SHORTEST, _LONGEST = 0.001, 3600.0  # seconds that the native store takes


class TelemetryStore:
    """Appends records to an SQLite file, which OpenJarvis can continue to read and write; nothing is
    deleted.

    A thread writes: when batch_size records wait, and after flush_interval_seconds (0: an hour). No record
    is dropped: when 16,384 wait to be written, record() waits for room. A record that cannot be stored is
    moved to the table telemetry_poison, without affecting others, and the first one is logged. "~" is the
    home folder; a new file is readable by its owner only (0600), and folders keep their permissions.
    Thread-safe.

    Raises ValueError for a batch size below 1 or an interval below 0, and OSError or ValueError for a file
    that cannot be opened or is not a file of telemetry records.
    """

    def __init__(self, db_path: Any, batch_size: int = 50, flush_interval_seconds: float = 5.0) -> None:
        if batch_size < 1:
            raise _InvalidArgumentError(f"batch_size must be at least 1; got {batch_size}")
        if not flush_interval_seconds >= 0:
            raise _InvalidArgumentError(f"flush_interval_seconds must not be negative; got {flush_interval_seconds}")
        interval = min(max(flush_interval_seconds or _LONGEST, _SHORTEST), _LONGEST)
        self._store = _InferenceStore(db_path, when_full="block", flush_records=batch_size, flush_interval_seconds=interval)
        self._writer = _TelemetryWriter(self._store, TelemetryRecord)
        self._closed = False
        self._failures = 0

    def record(self, rec: TelemetryRecord) -> None:
        """Stores a record: a TelemetryRecord, that of OpenJarvis itself (openjarvis.core.types) or of another
        package, which is any object with `timestamp` and `model_id`, or a gpulens.InferenceRecord.

        In a record of another package an absent attribute and None mean not measured. After close() the record
        is dropped and counted in `health`.

        Raises TypeError for any other object. Raises an error with the number of dropped records, such as
        OSError or TimeoutError, when the queue is full and nothing could be written for 10 s; until something is
        written again, further records are dropped at once, with the same error.
        """
        if isinstance(rec, _InferenceRecord):
            self._store.record(rec)
        else:
            self._writer.record(rec)

    def flush(self) -> None:
        """Waits until all recorded data is in the file."""
        self._store.flush()

    def list_recent(self, limit: int = 50) -> List[Dict[str, Any]]:
        """Returns the newest rows, the newest first; a limit below 0: all rows."""
        if limit == 0:
            return []
        return list(_telemetry_rows(self._store, newest_first=True, limit=max(limit, 0)))

    def record_mining_stats(self, stats: Any) -> None:
        """Stores a snapshot of OpenJarvis' MiningStats in the table mining_stats, at once. Raises
        UnavailableError after close(), AttributeError for an object that is no such snapshot, and IoError."""
        if self._closed:
            raise _UnavailableError("the store is closed")
        _record_mining_stats(self._store.path, stats)

    def list_recent_mining_stats(self, limit: int = 50) -> List[Dict[str, Any]]:
        """Returns the newest snapshots of record_mining_stats(), the newest first; a limit below 0: all."""
        return _recent_mining_stats(self._store.path, limit)

    def subscribe_to_bus(self, bus: Any) -> None:
        """Stores each record that is published on the bus as "telemetry_record", as record() does.

        The publisher gets no error. What is no record is set aside and counted in `health.rejected`, a record that
        could not be kept in `health.dropped`; the first of either is logged.
        """
        bus.subscribe(EventType.TELEMETRY_RECORD, self._on_event)

    def _on_event(self, event: Any) -> None:
        record = event.data.get("record")
        if record is None:
            _log.debug("ignored an event without a record")
            return
        try:
            try:
                self.record(record)
            except TypeError as error:
                self._writer.set_aside(record, str(error))
                self._failed(error)
        except Exception as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        if self._failures == 1:
            _log.warning("a published record is not stored; further ones are only counted: %s", error)

    @property
    def health(self) -> Any:
        """Number of records stored, dropped and set aside: a gpulens StoreHealth."""
        return self._store.health

    def close(self) -> None:
        """Writes all queued records and closes the file. May be called twice."""
        if not self._closed:
            self._closed = True
            self._store.close()
