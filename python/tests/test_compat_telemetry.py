"""gpulens.compat.openjarvis: its store, its aggregator and its instrumented engines."""
import asyncio
import dataclasses
import hashlib
import inspect
import os
import pathlib
import sqlite3
import stat
import tempfile
import threading
import time
import unittest
from typing import get_type_hints

from engines import USAGE, AsyncEngine, Bus, Engine, pause
from gpulens.compat import openjarvis as t

# The table before prompt_tokens_evaluated, token_counting_version and mining_session_id.
OLD = """CREATE TABLE telemetry (id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp REAL NOT NULL, model_id TEXT NOT NULL,
engine TEXT NOT NULL DEFAULT '', agent TEXT NOT NULL DEFAULT '', prompt_tokens INTEGER NOT NULL DEFAULT 0,
completion_tokens INTEGER NOT NULL DEFAULT 0, total_tokens INTEGER NOT NULL DEFAULT 0, latency_seconds REAL NOT NULL DEFAULT 0.0,
ttft REAL NOT NULL DEFAULT 0.0, cost_usd REAL NOT NULL DEFAULT 0.0, energy_joules REAL NOT NULL DEFAULT 0.0,
power_watts REAL NOT NULL DEFAULT 0.0, metadata TEXT NOT NULL DEFAULT '{}')"""


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
            told = str(inspect.signature(function)).replace("typing.", "").replace("float | None", "Optional[float]")
            for kind in ("ModelStats", "EngineStats", "AggregatedStats", "TelemetryRecord"):
                told = told.replace(f"gpulens.compat.openjarvis.records.{kind}", kind)
            self.assertEqual(told, wanted, function.__qualname__)
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
                self.assertEqual(__import__("json").loads(got), value)
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
        store.close()
        self.assertEqual(len(store.list_recent()), 3)

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


class Aggregates(InAFolder):
    def test_of_two_models_and_engines(self):
        a = self.stored(
            record(1.0, "m1", engine="e1", prompt_tokens=10, completion_tokens=5, total_tokens=15, cost_usd=0.001, latency_seconds=1.0),
            record(2.0, "m2", engine="e2", prompt_tokens=20, completion_tokens=10, total_tokens=30, cost_usd=0.002, latency_seconds=2.0),
            record(3.0, "m1", engine="e1"),
        )
        s = a.summary()
        self.assertEqual((s.total_calls, s.total_tokens), (3, 45))
        self.assertAlmostEqual(s.total_cost, 0.003)
        self.assertEqual([(type(m), m.model_id, m.call_count) for m in s.per_model], [(t.ModelStats, "m1", 2), (t.ModelStats, "m2", 1)])
        self.assertEqual([(type(e), e.engine, e.call_count) for e in s.per_engine], [(t.EngineStats, "e1", 2), (t.EngineStats, "e2", 1)])
        self.assertEqual((s.per_model[0].prompt_tokens, s.per_model[1].completion_tokens, s.per_model[1].avg_latency), (10, 10, 2.0))
        self.assertEqual([m.model_id for m in a.top_models(1)], ["m1"])
        self.assertEqual([m.model_id for m in a.top_models(since=3.0)], ["m1"])
        self.assertEqual([m.model_id for m in a.per_model_stats(since=2.0, until=2.0)], ["m2"])
        self.assertEqual([e.engine for e in a.per_engine_stats(until=1.0)], ["e1"])

    def test_known_numbers(self):
        a = self.stored(
            record(model_id="m1", throughput_tok_per_sec=100.0, gpu_utilization_pct=80.0, energy_joules=10.0, latency_seconds=1.0),
            record(model_id="m1", throughput_tok_per_sec=120.0, gpu_utilization_pct=90.0, energy_joules=20.0, latency_seconds=1.0),
            record(model_id="m2", throughput_tok_per_sec=80.0, gpu_utilization_pct=60.0, energy_joules=30.0, latency_seconds=1.0),
        )
        s = a.summary()
        self.assertAlmostEqual(s.avg_throughput_tok_per_sec, 100.0)
        self.assertAlmostEqual(s.avg_gpu_utilization_pct, 76.6667, places=3)
        self.assertAlmostEqual(s.total_energy_joules, 60.0)
        self.assertAlmostEqual(s.per_model[0].avg_throughput_tok_per_sec, 110.0)

    def test_ratios_that_records_bring(self):
        a = self.stored(*(record(tokens_per_joule=value) for value in (10.0, 20.0, 30.0)))
        self.assertAlmostEqual(a.per_model_stats()[0].avg_tokens_per_joule, 20.0)

    def test_what_was_not_measured_dilutes_nothing(self):
        a = self.stored(record(mean_itl_ms=20.0, ttft=0.3, is_streaming=True), *(record() for _ in range(9)))
        s = a.summary()
        self.assertEqual((s.avg_mean_itl_ms, s.per_model[0].avg_ttft, s.total_calls), (20.0, 0.3, 10))

    def test_ratios_are_of_sums(self):
        def both(joules, tokens, **more):
            return record(energy_joules=joules, completion_tokens=tokens, **more)

        a = self.stored(both(10.0, 1000), both(1.0, 1), record(completion_tokens=500))
        self.assertAlmostEqual(a.summary().avg_energy_per_output_token_joules, 11 / 1001)
        self.assertAlmostEqual(a.per_model_stats()[0].avg_tokens_per_joule, 1001 / 11)
        a = self.stored(both(10.0, 1000, energy_per_output_token_joules=0.01), both(1.0, 1, energy_per_output_token_joules=1.0))
        self.assertAlmostEqual(a.summary().avg_energy_per_output_token_joules, 22 / 2002)

    def test_batches(self):
        a = self.stored(
            record(1.0, batch_id="b", prompt_tokens=1, completion_tokens=9, energy_joules=2.0, is_warmup=True),
            record(2.0, batch_id="b", prompt_tokens=5, completion_tokens=5, energy_joules=3.0),
            record(3.0, batch_id="c", prompt_tokens=2, completion_tokens=2, energy_joules=1.0),
            record(3.0, batch_id="b", completion_tokens=4), record(4.0),
        )
        self.assertEqual(a.per_batch_stats(), [
            {"batch_id": "b", "total_requests": 3, "total_tokens": 24, "total_energy_joules": 5.0, "energy_per_token_joules": 0.25},
            {"batch_id": "c", "total_requests": 1, "total_tokens": 4, "total_energy_joules": 1.0, "energy_per_token_joules": 0.25}])
        self.assertEqual([b["total_requests"] for b in a.per_batch_stats(exclude_warmup=True)], [2, 1])
        self.assertEqual([b["total_requests"] for b in a.per_batch_stats(since=2, until=2)], [1])

    def test_of_this_methodology(self):
        a = self.stored(record(completion_tokens=1), record(completion_tokens=2, token_counting_version=2),
                        record(completion_tokens=4, token_counting_version=1))
        self.assertEqual(a.summary(current_methodology_only=True).per_model[0].completion_tokens, 2)
        self.assertEqual(a.summary().per_model[0].completion_tokens, 7)

    def test_export_count_and_clear(self):
        a = self.stored(record(2.0), record(1.0, model_id="m2", is_streaming=True), record(3.0))
        exported = a.export_records(until=2.0)
        self.assertEqual([(row["timestamp"], row["model_id"], row["is_streaming"]) for row in exported], [(1.0, "m2", 1), (2.0, "m1", 0)])
        self.assertEqual((a.record_count(), a.clear(), a.record_count(), a.clear()), (3, 3, 0, 0))
        self.assertEqual(a.summary(), t.AggregatedStats())
        a.close()
        a.close()
        with self.assertRaises(sqlite3.ProgrammingError):
            a.summary()

    def test_a_file_that_may_not_be_written(self):
        self.stored(record(energy_joules=2.0), record()).close()
        os.chmod(self.path, 0o444)
        os.chmod(self.folder.name, 0o555)
        self.addCleanup(os.chmod, self.folder.name, 0o755)
        before = hashlib.sha256(pathlib.Path(self.path).read_bytes()).hexdigest()
        a = t.TelemetryAggregator(self.path)
        self.assertEqual((a.summary().total_calls, a.record_count(), len(a.export_records())), (2, 2, 2))
        self.assertEqual((len(a.per_batch_stats()), len(a.top_models()), len(a.per_engine_stats())), (0, 1, 1))
        a.close()
        self.assertEqual(hashlib.sha256(pathlib.Path(self.path).read_bytes()).hexdigest(), before)

    def test_an_old_file(self):
        database = sqlite3.connect(self.path)
        database.execute(OLD)
        database.executemany("INSERT INTO telemetry (timestamp, model_id, engine, prompt_tokens, completion_tokens, total_tokens,"
                             " latency_seconds, energy_joules) VALUES (?, ?, 'e', 10, 20, 30, 2.0, 5.0)", [(1.0, "a"), (2.0, "b")])
        database.commit()
        database.close()
        a = t.TelemetryAggregator(self.path)
        s = a.summary()
        self.assertEqual((s.total_calls, s.total_tokens, s.total_energy_joules, s.avg_throughput_tok_per_sec), (2, 60, 10.0, 10.0))
        self.assertEqual((s.avg_mean_itl_ms, a.per_batch_stats(), a.summary(current_methodology_only=True).total_calls), (0.0, [], 0))
        a.close()
        store = t.TelemetryStore(self.path)  # and a store goes on with it
        store.record(record(3.0, "a", token_counting_version=2, completion_tokens=7))
        store.close()
        a = t.TelemetryAggregator(self.path)
        self.assertEqual([(m.model_id, m.call_count, m.completion_tokens) for m in a.per_model_stats()], [("a", 2, 27), ("b", 1, 20)])
        self.assertEqual([row["token_counting_version"] for row in self.rows()], [None, None, 2])
        a.close()

    def test_no_such_file(self):
        with self.assertRaises(RuntimeError):
            t.TelemetryAggregator(self.path)
        self.assertFalse(os.path.exists(self.path))
        pathlib.Path(self.path).write_bytes(b"no database at all, but a text " * 100)
        with self.assertRaises(ValueError):
            t.TelemetryAggregator(self.path)
        with self.assertRaises(ValueError):
            t.TelemetryStore(self.path)


class FakeMonitor(t.EnergyMonitor):
    """Ten joules for each block."""

    @staticmethod
    def available():
        return True

    def vendor(self):
        return t.EnergyVendor.NVIDIA

    def energy_method(self):
        return "hw_counter"

    def sample(self):
        from contextlib import contextmanager

        @contextmanager
        def block():
            sample = t.EnergySample(vendor="nvidia", energy_method="hw_counter")
            yield sample
            sample.energy_joules, sample.mean_power_watts, sample.mean_utilization_pct = 10.0, 250.0, 80.0

        return block()


class Engines(unittest.TestCase):
    def test_instrumented_generate(self):
        engine, bus = Engine(), Bus()
        before = dict(engine.answer)
        result = t.instrumented_generate(engine, ["hi"], model="m", bus=bus, top_p=0.5)
        self.assertIs(result, engine.answer)
        self.assertEqual(result, before)
        self.assertEqual(engine.seen, [(["hi"], "m", {"temperature": 0.7, "max_tokens": 1024, "top_p": 0.5})])
        self.assertEqual([kind for kind, _ in bus], ["inference_start", "inference_end", "telemetry_record"])
        (r,) = bus.records()
        self.assertEqual((r.model_id, r.engine, r.prompt_tokens, r.completion_tokens, r.total_tokens, r.cost_usd),
                         ("m", "fake", 12, 3, 15, 0.25))
        self.assertEqual((r.ttft, r.energy_joules, r.token_counting_version), (0.0, 0.0, 2))

    def test_events_have_one_subscriber_each(self):
        bus, seen = t.EventBus(), []
        for kind in t.EventType:
            bus.subscribe(kind, lambda event: seen.append((event.event_type, event.data)))
        t.instrumented_generate(Engine(), [], model="m", bus=bus)
        self.assertEqual([kind for kind, _ in seen], ["inference_start", "inference_end", "telemetry_record"])

    def test_failed(self):
        bus = Bus()
        with self.assertRaises(KeyError):
            t.instrumented_generate(Engine(error=KeyError("k")), [], model="m", bus=bus)
        self.assertEqual([kind for kind, _ in bus], ["inference_start", "inference_end", "telemetry_record"])
        self.assertEqual(bus.records()[0].metadata, {"outcome": "error", "error_type": "KeyError"})
        self.assertEqual(bus[1][1]["error"], "KeyError")

    def test_subscribers_do_not_break_inference(self):
        bus, seen = t.EventBus(), []
        bus.subscribe("telemetry_record", lambda event: 1 / 0)
        bus.subscribe("telemetry_record", seen.append)
        with self.assertLogs("gpulens", "WARNING"):
            self.assertEqual(t.instrumented_generate(Engine(), [], model="m", bus=bus)["content"], "abc")
        self.assertEqual(len(seen), 1)

    def test_with_energy(self):
        bus = Bus()
        engine = t.InstrumentedEngine(Engine(result={"usage": {"prompt_tokens": 7, "completion_tokens": 50}}), bus,
                                      energy_monitor=FakeMonitor())
        result = engine.generate([], model="m")
        (r,) = bus.records()
        self.assertAlmostEqual(r.energy_per_output_token_joules, 0.2)
        self.assertAlmostEqual(r.tokens_per_joule, 5.0)
        self.assertAlmostEqual(r.throughput_per_watt, r.throughput_tok_per_sec / 250)
        self.assertEqual((r.power_watts, r.gpu_utilization_pct, r.energy_method, r.energy_vendor), (250.0, 80.0, "hw_counter", "nvidia"))
        self.assertEqual((result["_telemetry"]["energy_joules"], r.total_tokens), (10.0, 57))
        engine = t.InstrumentedEngine(Engine(result={"usage": {"completion_tokens": 0}}), bus, energy_monitor=FakeMonitor())
        engine.generate([], model="m")
        self.assertEqual(bus.records()[1].energy_per_output_token_joules, 0.0)

    def test_a_slow_consumer(self):
        bus = Bus()
        engine = t.InstrumentedEngine(Engine(["a"] * 5, {"prompt_tokens": 11, "completion_tokens": 5}, seconds=0.01), bus)
        for chunk in engine.stream([], model="m"):
            pause(0.1)
        (r,) = bus.records()
        self.assertEqual((r.prompt_tokens, r.completion_tokens, r.total_tokens, r.is_streaming), (11, 5, 16, True))
        self.assertTrue(0 < r.ttft < r.latency_seconds < 0.3, r)
        self.assertTrue(0 < r.mean_itl_ms < 100, r)
        self.assertAlmostEqual(r.prefill_latency_seconds + r.decode_latency_seconds, r.latency_seconds)

    def test_what_it_passes_on(self):
        inner, bus = Engine(), Bus()
        engine = t.InstrumentedEngine(inner, bus)
        self.assertEqual((engine.engine_id, engine.list_models(), engine.closed), ("instrumented", ["m"], False))
        self.assertEqual(list(engine.stream_full([], model="m")), ["a", "b", "c"])
        self.assertEqual(bus.records()[0].completion_tokens, 3)
        result = t.instrumented_generate(engine, [], model="m", bus=bus)
        self.assertEqual((len(bus.records()), "_telemetry" in result), (2, False))

    def test_in_coroutines(self):
        async def use(engine):
            await engine.generate([], model="m")
            return [chunk async for chunk in engine.stream([], model="m")]

        bus = Bus()
        asyncio.run(use(t.InstrumentedEngine(AsyncEngine(usage=USAGE), bus)))
        self.assertEqual([r.completion_tokens for r in bus.records()], [3, 3])


if __name__ == "__main__":
    unittest.main()
