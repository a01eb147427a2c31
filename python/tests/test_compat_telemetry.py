"""gpulens.compat.openjarvis: its store, and the signatures of all that has to do with it."""
import dataclasses
import inspect
import json
import os
import sqlite3
import stat
import threading
import types
import unittest
from typing import get_type_hints

from engines import Engine, pause
from gpulens.compat import openjarvis as t
from telemetry_files import InAFolder, record


class Signatures(unittest.TestCase):
    def test_as_documented(self):
        when = "*, since: Optional[float] = None, until: Optional[float] = None"
        for function, wanted in (
            (t.TelemetryAggregator.per_batch_stats, f"(self, {when}, exclude_warmup: bool = False) -> List[Dict[str, Any]]"),
            (t.TelemetryAggregator.per_model_stats, f"(self, {when}, current_methodology_only: bool = False) -> List[ModelStats]"),
            (t.TelemetryAggregator.per_engine_stats, f"(self, {when}, current_methodology_only: bool = False) -> List[EngineStats]"),
            (t.TelemetryAggregator.summary, f"(self, {when}, current_methodology_only: bool = False) -> AggregatedStats"),
            (t.TelemetryAggregator.top_models, "(self, n: int = 5, *, since: Optional[float] = None) -> List[ModelStats]"),
            (t.TelemetryAggregator.export_records, f"(self, {when}) -> List[Dict[str, Any]]"),
            (t.TelemetryAggregator.record_count, "(self) -> int"),
            (t.TelemetryAggregator.clear, "(self) -> int"),
            (t.TelemetryStore.record, "(self, rec: TelemetryRecord) -> None"),
        ):
            reported = str(inspect.signature(function)).replace("typing.", "").replace("float | None", "Optional[float]")
            for kind in ("ModelStats", "EngineStats", "AggregatedStats", "TelemetryRecord"):
                reported = reported.replace(f"gpulens.compat.openjarvis.records.{kind}", kind)
            self.assertEqual(reported, wanted, function.__qualname__)
        parameters = inspect.signature(t.instrumented_generate).parameters.values()
        self.assertEqual([(p.name, p.kind.name) for p in parameters], [
            ("engine", "POSITIONAL_OR_KEYWORD"), ("messages", "POSITIONAL_OR_KEYWORD"), ("model", "KEYWORD_ONLY"), ("bus", "KEYWORD_ONLY"),
            ("temperature", "KEYWORD_ONLY"), ("max_tokens", "KEYWORD_ONLY"), ("kwargs", "VAR_KEYWORD")])
        self.assertEqual([p.default for p in parameters][4:6], [0.7, 1024])
        self.assertIn("return", get_type_hints(t.instrumented_generate))
        store = inspect.signature(t.TelemetryStore).parameters
        self.assertEqual([(p.name, p.default) for p in store.values()][1:], [("batch_size", 50), ("flush_interval_seconds", 5.0)])
        engine = inspect.signature(t.InstrumentedEngine).parameters
        self.assertEqual(list(engine), ["engine", "bus", "gpu_monitor", "energy_monitor"])


class Store(InAFolder):
    def test_every_field_comes_back_by_its_name(self):
        values = {}
        for i, field in enumerate(dataclasses.fields(t.TelemetryRecord)):
            values[field.name] = {"int": 1000 + i, "float": 1000.5 + i, "bool": True, "str": f"text {i}"}.get(
                str(getattr(field.type, "__name__", field.type)), None)
        values.update(token_counting_version=2, mining_session_id="s", metadata={"a": [1, None, "ä"]}, gpu_utilization_pct=42.5)
        rec = t.TelemetryRecord(**values)
        store = t.TelemetryStore(self.path)
        self.assertIsNone(store.record(rec))
        store.close()
        (row,) = self.rows()
        for name, value in values.items():
            got = row[name]
            if name == "metadata":
                self.assertEqual(json.loads(got), value)
            elif isinstance(value, float):
                self.assertAlmostEqual(got, value, places=9, msg=name)
            else:
                self.assertEqual(got, value, name)

    def test_a_hundred(self):
        aggregator = self.stored(*(record(float(i)) for i in range(1, 101)))
        self.assertEqual((len(self.rows()), aggregator.record_count()), (100, 100))

    def test_good_ones_around_a_poison_one(self):
        store = t.TelemetryStore(self.path, batch_size=10)
        for i in range(100):
            store.record(record(1.0 + i))
        for poison in (record(model_id=None), record(timestamp=None), record(prompt_tokens="many"), record(metadata={"a": object()}),
                       record(model_id="\ud800"), record(latency_seconds=float("inf"))):
            self.assertIsNone(store.record(poison))
        for i in range(100):
            store.record(record(1000.0 + i))
        store.flush()
        self.assertEqual(len(self.rows()), 200)
        self.assertEqual((store.health.rejected, store.health.dropped), (6, 0))
        self.assertEqual(len(self.rows("telemetry_poison")), 6)
        store.close()

    def test_batches_and_the_interval(self):
        store = t.TelemetryStore(self.path, batch_size=2, flush_interval_seconds=0)
        store.record(record())
        pause(0.1)
        self.assertEqual(len(self.rows()), 0)
        store.record(record())
        self.wait_for(lambda: len(self.rows()) == 2)
        store.close()
        store = t.TelemetryStore(self.path, batch_size=1000, flush_interval_seconds=0.05)
        store.record(record())
        self.wait_for(lambda: len(self.rows()) == 3)
        store.close()
        store.close()
        store.record(record())
        self.assertEqual((len(self.rows()), store.health.dropped), (3, 1))
        for arguments in ({"batch_size": 0}, {"flush_interval_seconds": -1}):
            with self.assertRaises(ValueError):
                t.TelemetryStore(self.path, **arguments)

    def test_threads(self):
        store = t.TelemetryStore(self.path)
        threads = [threading.Thread(target=lambda: [store.record(record()) for _ in range(32)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store.close()
        self.assertEqual(len(self.rows()), 256)

    def test_recent(self):
        store = t.TelemetryStore(self.path)
        for at in (2.0, 3.0, 1.0):
            store.record(record(at, model_id=f"m{at:.0f}"))
        self.assertEqual([row["model_id"] for row in store.list_recent(limit=2)], ["m3", "m2"])
        self.assertEqual((store.list_recent(0), len(store.list_recent(-1))), ([], 3))
        store.close()
        self.assertEqual(len(store.list_recent()), 3)

    def test_mining(self):
        stats = types.SimpleNamespace(provider_id="p", shares_submitted=3, shares_accepted=2, blocks_found=0, hashrate=1.5, uptime_seconds=60.0,
                                      last_share_at=None, last_error="late", payout_target="solo", fees_owed=0)  # fmt: skip
        store = t.TelemetryStore(self.path)
        self.assertEqual(store.list_recent_mining_stats(), [])
        store.record(record())
        store.record_mining_stats(stats)
        stats.shares_accepted = 3
        store.record_mining_stats(stats)
        rows = store.list_recent_mining_stats()
        self.assertEqual([row["shares_accepted"] for row in rows], [3, 2])
        self.assertEqual((rows[0]["provider_id"], rows[0]["hashrate"], rows[0]["last_share_at"], rows[0]["last_error"]), ("p", 1.5, None, "late"))
        self.assertEqual(len(store.list_recent_mining_stats(limit=1)), 1)
        with self.assertRaises(AttributeError):
            store.record_mining_stats(object())
        stats.provider_id = None
        with self.assertRaisesRegex(OSError, "provider_id"):
            store.record_mining_stats(stats)
        store.flush()
        self.assertEqual(len(store.list_recent()), 1, "the records are in the same file")
        store.close()
        with self.assertRaisesRegex(RuntimeError, "closed"):
            store.record_mining_stats(stats)

    def test_permissions(self):
        os.chmod(self.folder.name, 0o777)
        t.TelemetryStore(self.path).close()
        self.assertEqual(stat.S_IMODE(os.stat(self.folder.name).st_mode), 0o777)
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)
        database = sqlite3.connect(self.path)
        self.assertEqual(database.execute("PRAGMA journal_mode").fetchone(), ("wal",))
        database.close()

    def test_the_home_folder(self):
        home, os.environ["HOME"] = os.environ.get("HOME"), self.folder.name
        try:
            t.TelemetryStore("~/telemetry.db").close()
        finally:
            os.environ["HOME"] = home or "/"
        self.assertTrue(os.path.exists(self.path))

    def test_of_a_bus(self):
        bus = t.EventBus(record_history=True)
        store = t.TelemetryStore(self.path)
        store.subscribe_to_bus(bus)
        t.instrumented_generate(Engine(), ["hi"], model="m", bus=bus)
        bus.publish("telemetry_record", {"record": "none"})
        bus.publish("telemetry_record", {})
        store.close()
        self.assertEqual([row["completion_tokens"] for row in self.rows()], [3])
        self.assertEqual(len(bus.history), 5)

if __name__ == "__main__":
    unittest.main()
