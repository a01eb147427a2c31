"""What OpenJarvis' documentation of its telemetry promises, row by row: rows whose check no other test makes as it is written.

The others are named in test_seed_rows_sdk.py, which also looks whether any row is missing.
"""
import hashlib
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import gpulens
from gpulens.compat import openjarvis as t
from telemetry_files import InAFolder, record
from test_compat_session import Board
from test_energy_source import Scripted

MS = 1_000_000
REALS = ("latency_seconds ttft cost_usd energy_joules power_watts gpu_utilization_pct gpu_memory_used_gb gpu_temperature_c"
         " throughput_tok_per_sec prefill_latency_seconds decode_latency_seconds cpu_energy_joules gpu_energy_joules"
         " dram_energy_joules tokens_per_joule energy_per_output_token_joules throughput_per_watt prefill_energy_joules"
         " decode_energy_joules mean_itl_ms median_itl_ms p90_itl_ms p95_itl_ms p99_itl_ms std_itl_ms").split()  # fmt: skip


def seed_era_table(migrated):
    """The table of the documented version; `migrated`: as ALTER TABLE left it, the newest columns behind the metadata."""
    columns = ["id INTEGER PRIMARY KEY AUTOINCREMENT", "timestamp REAL NOT NULL", "model_id TEXT NOT NULL"]
    columns += [f"{name} TEXT NOT NULL DEFAULT ''" for name in ("engine", "agent", "energy_method", "energy_vendor", "batch_id")]
    columns += [f"{name} INTEGER NOT NULL DEFAULT 0" for name in ("prompt_tokens", "completion_tokens", "total_tokens", "is_warmup",
                                                                   "is_streaming")]  # fmt: skip
    columns += [f"{name} REAL NOT NULL DEFAULT 0.0" for name in REALS]
    metadata = "metadata TEXT NOT NULL DEFAULT '{}'"
    columns = [*columns[:20], metadata, *columns[20:]] if migrated else [*columns, metadata]
    return f"CREATE TABLE telemetry ({', '.join(columns)})"


class Files(InAFolder):
    # Every query, by a user who may not write; a superuser's would not be refused. Its Python may be one that only that one reads.
    QUERY = """
import os, sys
from gpulens.compat import openjarvis as t
if os.getuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
path = sys.argv[1]
assert not os.access(path, os.W_OK) and not os.access(os.path.dirname(path), os.W_OK)
a = t.TelemetryAggregator(path)
print(a.summary().total_calls, a.per_model_stats()[0].call_count, a.per_engine_stats()[0].call_count, len(a.top_models(2)),
      a.per_batch_stats()[0]["total_requests"], len(a.export_records()), a.record_count())
try:
    a.clear()
except Exception as error:
    print(type(error).__name__)
a.close()
"""

    def test_oj_007_a_file_that_this_user_may_not_write(self):
        self.stored(*(record(float(i), engine="e", batch_id="b") for i in range(7))).close()
        os.chmod(self.path, 0o444)
        os.chmod(self.folder.name, 0o555)
        self.addCleanup(os.chmod, self.folder.name, 0o755)
        before = hashlib.sha256(pathlib.Path(self.path).read_bytes()).hexdigest()
        done = subprocess.run([sys.executable, "-c", self.QUERY, self.path], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        answers, refused = done.stdout.splitlines()
        self.assertEqual(answers, "7 7 7 1 7 7 7")
        self.assertTrue(refused.endswith("Error"), refused)
        self.assertEqual(hashlib.sha256(pathlib.Path(self.path).read_bytes()).hexdigest(), before)

    def test_oj_010_warm_up_is_left_out(self):
        tokens = {"prompt_tokens": 4, "completion_tokens": 6, "energy_joules": 2.0, "batch_id": "b"}
        a = self.stored(*(record(float(i), is_warmup=i < 3, **tokens) for i in range(5)))
        self.assertEqual(a.per_batch_stats(exclude_warmup=True), [
            {"batch_id": "b", "total_requests": 2, "total_tokens": 20, "total_energy_joules": 4.0, "energy_per_token_joules": 0.2}])
        self.assertEqual(a.per_batch_stats()[0]["total_requests"], 5)

    def test_oj_011_between_two_times(self):
        a = self.stored(*(record(at, batch_id="b", prompt_tokens=int(at)) for at in (1.0, 2.0, 3.0)))
        (only,) = a.per_batch_stats(since=2, until=2)
        self.assertEqual((only["total_requests"], only["total_tokens"]), (1, 2))

    def test_oj_012_nothing_is_deleted(self):
        self.stored(*(record(1.0 + i) for i in range(100))).close()  # of 1970: older than any retention
        t.TelemetryStore(self.path).close()
        with sqlite3.connect(self.path) as database:
            self.assertEqual(database.execute("SELECT COUNT(*), MIN(timestamp) FROM telemetry").fetchone(), (100, 1.0))
        database.close()

    def test_oj_015_files_of_the_documented_version(self):
        for migrated in (False, True):
            with self.subTest(migrated=migrated):
                path = os.path.join(self.folder.name, f"old-{migrated}.db")
                database = sqlite3.connect(path)
                database.execute(seed_era_table(migrated))
                insert = ("INSERT INTO telemetry (timestamp, model_id, engine, batch_id, prompt_tokens, completion_tokens, total_tokens,"
                          " latency_seconds, energy_joules, mean_itl_ms, gpu_utilization_pct, metadata)"
                          " VALUES (?, ?, 'e', 'b', 10, 20, 30, 2.0, 5.0, ?, 50.0, '{\"k\": 1}')")  # fmt: skip
                database.executemany(insert, [(1.0, "a", 0.0), (2.0, "a", 20.0), (3.0, "b", 0.0)])
                database.commit()
                database.close()
                a = t.TelemetryAggregator(path)
                self.addCleanup(a.close)
                s = a.summary()
                self.assertEqual((s.total_calls, s.total_tokens, s.total_latency, s.total_energy_joules), (3, 90, 6.0, 15.0))
                self.assertEqual((s.avg_mean_itl_ms, s.avg_gpu_utilization_pct, s.avg_throughput_tok_per_sec), (20.0, 50.0, 10.0))
                self.assertAlmostEqual(s.avg_energy_per_output_token_joules, 15 / 60)
                self.assertEqual([(m.model_id, m.call_count) for m in s.per_model], [("a", 2), ("b", 1)])
                self.assertEqual(a.per_batch_stats()[0]["total_requests"], 3)
                self.assertEqual([row["metadata"] for row in a.export_records()], ['{"k": 1}'] * 3)


def over(monitor, source):
    """A monitor of OpenJarvis' names that reads this source instead of the machine."""
    monitor._native = gpulens.EnergyMonitor(sources=[source], interval_seconds=0.005)
    monitor._devices = monitor._native.devices
    source.pass_by()
    return monitor


class Monitors(unittest.TestCase):
    def test_oj_023_two_boards(self):
        boards = [dict(watts=200.0, utilization_ratio=0.8, memory_used_bytes=10 * 2.0**30, temperature_celsius=60.0),
                  dict(watts=300.0, utilization_ratio=0.9, memory_used_bytes=12 * 2.0**30, temperature_celsius=70.0)]  # fmt: skip
        source = Scripted([100.0, 100.0], values=boards)
        with over(t.GpuMonitor(), source).sample() as sample:
            source.pass_by()
            source.joules = [300.0, 400.0]  # a second of each
            source.pass_by()
        self.assertEqual(sample.validity, "valid", sample.reason)
        self.assertAlmostEqual(sample.energy_joules, 500.0)
        self.assertAlmostEqual(sample.peak_power_watts, 500.0)
        self.assertAlmostEqual(sample.mean_power_watts * sample.duration_seconds, 500.0)
        for name, value in (("utilization_pct", 85.0), ("memory_used_gb", 22.0), ("temperature_c", 65.0)):
            self.assertAlmostEqual(getattr(sample, "mean_" + name), value, msg=name)
            self.assertAlmostEqual(getattr(sample, "peak_" + name), value, msg=name)

    def test_oj_033_a_counter_from_5000_to_8000_millijoules(self):
        source = Scripted([5.0])
        with over(t.NvidiaEnergyMonitor(), source).sample() as sample:
            self.assertEqual((sample.vendor, sample.energy_joules), ("nvidia", 0.0))
            source.pass_by()
            source.joules = [8.0]
            source.pass_by()
        self.assertAlmostEqual(sample.energy_joules, 3.0)
        self.assertEqual((sample.gpu_energy_joules, sample.device_count, sample.energy_method), (sample.energy_joules, 1, "hw_counter"))


class Sessions(unittest.TestCase):
    def test_oj_058_a_second_at_100_watts(self):
        with t.TelemetrySession(Board(watts=100.0), interval_ms=100) as session:
            begin = time.time_ns()
            end = begin + 1000 * MS
            while time.time_ns() < end:
                threading.Event().wait(0.01)
            joules, _ = session.energy_delta(begin, end)
            samples = session.window(begin, end)
        self.assertAlmostEqual(joules, 100.0, delta=1.0)
        self.assertGreaterEqual(len(samples), 3)  # about 10, of a machine that has nothing else to do
        self.assertLessEqual(len(samples), 12)

    def test_oj_060_eight_readers_for_ten_seconds(self):
        failed, reads, end = [], [0] * 8, time.monotonic() + 10

        def read(index, session):
            try:
                while time.monotonic() < end:
                    rows = session.window(0, 1 << 62)
                    torn = [s for s in rows if (s.gpu_power_w, s.cpu_power_w, s.gpu_temp_c) != (100.0, 50.0, 60.0)]
                    failed.extend(torn)
                    times = [s.timestamp_ns for s in rows]
                    if times != sorted(times):
                        failed.append(times)
                    joules, _ = session.energy_delta(times[0], times[-1]) if rows else (0.0, 0.0)
                    if rows and joules > 100.0 * (session._now_ns() - times[0]) / 1e9 + 1e-6:
                        failed.append(joules)
                    reads[index] += 1
            except Exception as error:  # which would end this thread alone
                failed.append(error)

        with t.TelemetrySession(Board(watts=100.0), interval_ms=1, buffer_size=200) as session:
            threads = [threading.Thread(target=read, args=(i, session)) for i in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(failed, [])
        self.assertGreater(min(reads), 0)


if __name__ == "__main__":
    unittest.main()
