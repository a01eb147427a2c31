"""gpulens.compat.openjarvis: results of its aggregator for files, also old ones."""
import hashlib
import os
import pathlib
import sqlite3
import unittest

from gpulens.compat import openjarvis as t
from telemetry_files import InAFolder, record

# The table before prompt_tokens_evaluated, token_counting_version and mining_session_id.
OLD = """CREATE TABLE telemetry (id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp REAL NOT NULL, model_id TEXT NOT NULL,
engine TEXT NOT NULL DEFAULT '', agent TEXT NOT NULL DEFAULT '', prompt_tokens INTEGER NOT NULL DEFAULT 0,
completion_tokens INTEGER NOT NULL DEFAULT 0, total_tokens INTEGER NOT NULL DEFAULT 0, latency_seconds REAL NOT NULL DEFAULT 0.0,
ttft REAL NOT NULL DEFAULT 0.0, cost_usd REAL NOT NULL DEFAULT 0.0, energy_joules REAL NOT NULL DEFAULT 0.0,
power_watts REAL NOT NULL DEFAULT 0.0, metadata TEXT NOT NULL DEFAULT '{}')"""


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

    def test_a_ratio_that_follows_from_what_a_record_has(self):
        a = self.stored(record(completion_tokens=300, latency_seconds=2.0, power_watts=50.0))
        self.assertAlmostEqual(a.summary().avg_throughput_per_watt, 3.0)
        self.assertEqual(a.per_model_stats()[0].avg_tokens_per_joule, 0.0)

    def test_throughput_per_watt_is_a_ratio_of_sums_too(self):
        a = self.stored(record(completion_tokens=1000, latency_seconds=10.0, power_watts=100.0),
                        record(completion_tokens=1, latency_seconds=1.0, power_watts=300.0), record(completion_tokens=500))
        s = a.summary()
        self.assertAlmostEqual(s.avg_throughput_per_watt, 1001 / 1300)  # the mean of both ratios is 0.50
        self.assertAlmostEqual(s.per_model[0].avg_throughput_per_watt, 1001 / 1300)
        self.assertEqual((s.avg_energy_per_output_token_joules, s.per_model[0].avg_tokens_per_joule), (0.0, 0.0))

    def test_joules_that_cannot_be(self):
        a = self.stored(record(2.0, completion_tokens=10, energy_joules=5.0))
        database = sqlite3.connect(self.path)  # as OpenJarvis records a counter that could not be read at the end
        database.execute("INSERT INTO telemetry (timestamp, model_id, completion_tokens, energy_joules) VALUES (1.0, 'm1', 10, -5000006.0)")
        database.commit()
        database.close()
        s = a.summary()
        self.assertEqual((s.total_calls, s.total_energy_joules, s.avg_energy_per_output_token_joules), (2, 5.0, 0.5))
        self.assertEqual(a.export_records()[0]["energy_joules"], -5000006.0)

    def test_both_ends_of_a_time_to_the_last_bit(self):
        times = [1_763_856_000.123]
        for _ in range(50):
            times.append(times[-1] + 2.0**-22)
        a = self.stored(*(record(time) for time in times))
        for time in times:
            self.assertEqual(a.summary(since=time, until=time).total_calls, 1)
        self.assertEqual(a.summary(since=float("-inf"), until=float("inf")).total_calls, 51)
        self.assertEqual(a.summary(since=float("inf")).total_calls, 0)

    def test_numbers_are_those_of_the_rows_whether_they_are_added_up_or_not(self):
        a = self.stored(*(
            record(1.7e9 + i, f"m{i % 3}", engine=f"e{i % 2}", completion_tokens=i % 7 and 10 * (i % 7), latency_seconds=1.0 + i % 5,
                   energy_joules=(i % 4) * 2.5, gpu_utilization_pct=float(i % 3 * 40), is_warmup=i % 2 == 0)
            for i in range(5000)))
        with sqlite3.connect(self.path) as database:
            self.assertGreater(database.execute("SELECT covered FROM telemetry_rollup_state").fetchone()[0], 4000)
            for model in a.summary().per_model:
                of = f"FROM telemetry WHERE model_id = '{model.model_id}'"
                (calls, tokens, latency, gpu) = database.execute(
                    f"SELECT COUNT(*), SUM(completion_tokens), SUM(latency_seconds), AVG(NULLIF(gpu_utilization_pct, 0)) {of}").fetchone()
                self.assertEqual((model.call_count, model.completion_tokens), (calls, tokens))
                self.assertAlmostEqual(model.total_latency, latency)
                self.assertAlmostEqual(model.avg_gpu_utilization_pct, gpu or 0.0)
                (joules,) = database.execute(
                    f"SELECT SUM(energy_joules) / SUM(completion_tokens) {of} AND energy_joules > 0 AND completion_tokens > 0").fetchone()
                self.assertAlmostEqual(model.avg_energy_per_output_token_joules, joules)

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

    def test_batches_are_those_of_sql(self):
        a = self.stored(*(
            record(1.7e9 + i, batch_id=f"b{i % 7}" if i % 5 else "", prompt_tokens=i % 11 * 3, completion_tokens=i % 3 * 10,
                   energy_joules=i % 4 * 2.5, is_warmup=i % 6 == 0)
            for i in range(1000)))
        for where, queried in (("1", {}), ("is_warmup = 0", {"exclude_warmup": True}),
                             ("timestamp BETWEEN 1700000100 AND 1700000200", {"since": 1700000100, "until": 1700000200})):
            database = sqlite3.connect(self.path)
            rows = database.execute(
                "SELECT batch_id, COUNT(*), SUM(prompt_tokens + completion_tokens), SUM(energy_joules), SUM(energy_joules) /"
                " SUM(CASE WHEN energy_joules > 0 THEN prompt_tokens + completion_tokens END) FROM telemetry"
                f" WHERE batch_id != '' AND {where} GROUP BY batch_id ORDER BY 2 DESC, 1").fetchall()
            database.close()
            reported = [tuple(batch.values()) for batch in a.per_batch_stats(**queried)]
            self.assertEqual([batch[:3] for batch in reported], [row[:3] for row in rows])
            for batch, row in zip(reported, rows):
                self.assertAlmostEqual(batch[3], row[3])
                self.assertAlmostEqual(batch[4], row[4])

    def test_export_is_what_is_in_the_file(self):
        database = sqlite3.connect(self.path)
        database.execute("CREATE TABLE telemetry (model_id TEXT, theirs BLOB, timestamp REAL NOT NULL, id INTEGER PRIMARY KEY, note TEXT)")
        rows = [("b", b"\0\xff", 2.0, 1, None), ("a", b"", 1.0, 2, "ä \"x\""), ("c", None, 2.0, 3, "")]
        database.executemany("INSERT INTO telemetry VALUES (?, ?, ?, ?, ?)", rows)
        database.execute("INSERT INTO telemetry VALUES (CAST(x'ff61' AS TEXT), NULL, 3, 4, 5)")
        database.commit()
        database.close()
        a = t.TelemetryAggregator(self.path)
        exported = a.export_records()
        self.assertEqual(list(exported[0]), ["model_id", "theirs", "timestamp", "id", "note"])
        self.assertEqual([tuple(row.values()) for row in exported[:3]], [rows[1], rows[0], rows[2]])
        self.assertEqual(exported[3]["model_id"], "\udcffa")
        self.assertEqual([row["id"] for row in a.export_records(since=2.0, until=2.0)], [1, 3])
        self.assertEqual((a.export_records(since=9.0), a.per_batch_stats()), ([], []))
        a.close()
        t.TelemetryStore(self.path).close()  # adds what is missing; `measured` is for programs
        database = sqlite3.connect(self.path)
        database.execute("DELETE FROM telemetry WHERE id = 4")
        database.commit()
        database.close()
        a = t.TelemetryAggregator(self.path)
        columns = [row for row in self.rows()[0] if row != "measured"]
        self.assertEqual(list(a.export_records()[0]), columns)
        self.assertGreater(len(columns), 42)
        a.close()
        with self.assertRaises(sqlite3.ProgrammingError):
            a.export_records()

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

if __name__ == "__main__":
    unittest.main()
