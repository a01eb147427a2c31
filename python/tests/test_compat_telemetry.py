"""gpulens.compat.openjarvis: its store, and the signatures of all that has to do with it."""
import dataclasses
import inspect
import json
import os
import sqlite3
import stat
import sys
import threading
import types
import unittest
from typing import Optional, get_type_hints
from unittest import mock

import gpulens
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

    def test_fifty_thousand_in_a_loop(self):
        store = t.TelemetryStore(self.path)
        for i in range(50_000):
            store.record(record(1.0 + i))
        store.close()
        self.assertEqual((len(self.rows()), store.health.stored, store.health.dropped), (50_000, 50_000, 0))

    def test_invalid_ones_in_a_loop(self):
        store = t.TelemetryStore(self.path)
        for i in range(3000):
            store.record(record(model_id=None))
        store.close()
        self.assertEqual((store.health.rejected, store.health.dropped, len(self.rows("telemetry_poison"))), (3000, 0, 3000))


@dataclasses.dataclass
class TheirRecord:
    """A record of another package: OpenJarvis' by its fields, of a version with fewer and others."""

    timestamp: float
    model_id: str
    completion_tokens: int = 0
    energy_joules: float = 0.0
    ane_energy_joules: float = 1.0
    ttft: Optional[float] = None
    engine: Optional[str] = None
    metadata: dict = dataclasses.field(default_factory=dict)


def their_class():
    """OpenJarvis' own record, where the package is here."""
    try:
        from openjarvis.core.types import TelemetryRecord
    except ImportError:
        return TheirRecord
    return TelemetryRecord


class RecordsOfOthers(InAFolder):
    def test_on_a_bus_and_by_themselves(self):
        bus, store = t.EventBus(), t.TelemetryStore(self.path)
        store.subscribe_to_bus(bus)
        for kind in (TheirRecord, their_class()):
            made = kind(timestamp=7.0, model_id="m", completion_tokens=3, energy_joules=2.5, metadata={"outcome": "error"})
            bus.publish("telemetry_record", {"record": made})
            store.record(made)
        store.close()
        kept = [tuple(row[name] for name in ("timestamp", "model_id", "completion_tokens", "energy_joules", "ttft", "outcome"))
                for row in self.rows()]
        self.assertEqual(kept, [(7.0, "m", 3, 2.5, 0.0, "error")] * 4)
        self.assertEqual((store.health.rejected, store.health.dropped), (0, 0))

    def test_native_records(self):
        bus, store = t.EventBus(), t.TelemetryStore(self.path)
        store.subscribe_to_bus(bus)
        list(gpulens.instrument(Engine(usage={"completion_tokens": 3}), bus=bus).stream([], model="m"))
        store.record(gpulens.InferenceRecord(model="n", gpu_utilization_ratio=0.5))
        store.close()
        self.assertEqual([(row["model_id"], row["completion_tokens"], row["gpu_utilization_pct"]) for row in self.rows()],
                         [("m", 3, 0.0), ("n", 0, 50.0)])

    def test_what_is_no_record(self):
        bus, store = t.EventBus(), t.TelemetryStore(self.path)
        store.subscribe_to_bus(bus)
        for wrong in (5, "text", {"timestamp": 1.0, "model_id": "m"}, types.SimpleNamespace(timestamp=1.0)):
            with self.assertRaisesRegex(TypeError, "is not a telemetry record: it has no attribute"):
                store.record(wrong)
        with self.assertLogs("gpulens", "WARNING") as logged:
            for _ in range(3):
                bus.publish("telemetry_record", {"record": "text"})
        self.assertEqual(len(logged.output), 1)
        self.assertIn("str is not a telemetry record", logged.output[0])
        store.record(types.SimpleNamespace(timestamp=1.0, model_id=5))
        store.close()
        self.assertEqual((store.health.rejected, len(self.rows())), (4, 0))
        self.assertIn("no attribute timestamp", self.rows("telemetry_poison")[0]["reason"])

    def test_published_records_are_of_their_class_where_it_is_loaded(self):
        module = types.ModuleType("openjarvis.core.types")
        module.TelemetryRecord = TheirRecord
        bus = t.EventBus(record_history=True)
        with mock.patch.dict(sys.modules, {"openjarvis.core.types": module}):
            t.instrumented_generate(Engine(), ["hi"], model="m", bus=bus)
        published = bus.history[-1].data["record"]
        self.assertIs(type(published), TheirRecord)
        self.assertEqual((published.model_id, published.completion_tokens, published.ane_energy_joules), ("m", 3, 1.0))

    def test_a_bus_learns_no_error_of_the_store(self):
        bus, store = t.EventBus(), t.TelemetryStore(self.path)
        store.subscribe_to_bus(bus)
        store._writer = mock.Mock(record=mock.Mock(side_effect=gpulens.errors.IoError("disk full")))
        with self.assertLogs("gpulens", "WARNING") as logged:
            for _ in range(3):
                bus.publish("telemetry_record", {"record": record()})
        self.assertEqual((len(logged.output), "disk full" in logged.output[0]), (1, True))
        store.close()


if __name__ == "__main__":
    unittest.main()
