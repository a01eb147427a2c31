"""Files of telemetry records for tests, and the records in them."""
import os
import sqlite3
import tempfile
import time
import unittest

from engines import pause
from gpulens.compat import openjarvis as t


def record(timestamp=1.0, model_id="m1", **fields):
    return t.TelemetryRecord(timestamp=timestamp, model_id=model_id, **fields)


class InAFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "telemetry.db")

    def stored(self, *records):
        """A file with these; its aggregator."""
        store = t.TelemetryStore(self.path)
        for each in records:
            store.record(each)
        store.close()
        aggregator = t.TelemetryAggregator(self.path)
        self.addCleanup(aggregator.close)
        return aggregator

    def rows(self, table="telemetry"):
        database = sqlite3.connect(self.path)
        database.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in database.execute(f"SELECT * FROM {table} ORDER BY rowid")]
        finally:
            database.close()

    def wait_for(self, wanted, seconds=20):
        deadline = time.monotonic() + seconds
        while not wanted():
            self.assertLess(time.monotonic(), deadline, "it did not come")
            pause(0.01)
