"""gpulens.InferenceStore: records in, summaries out."""
import datetime
import math
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import gpulens
from engines import USAGE, Engine
from http_stub import HttpStub
from test_energy_source import Meter


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "telemetry.db")

    def rows(self, columns="*"):
        database = sqlite3.connect(self.path)
        try:
            return database.execute(f"SELECT {columns} FROM telemetry ORDER BY id").fetchall()
        finally:
            database.close()


class ClickHouse(HttpStub):
    """A server that takes everything for the tables that were created, and can be away."""

    away = False

    def __init__(self):
        self.columns = []
        super().__init__(lambda request, body: (503, {}, b"away") if self.away else (200, {}, self.take(body).encode()))

    def take(self, body):
        if body.startswith(b"CREATE TABLE") and not self.columns:
            self.columns = re.findall(r"`(\w+)` (\w+(?:\(\w+\))?)", body.decode().partition("(")[2])
        if b"system.tables" in body:
            return "name\tengine\n" + ("telemetry\tReplacingMergeTree\n" if self.columns else "")
        if b"system.columns" in body:
            return "name\ttype\n" + "".join(f"{name}\t{kind}\n" for name, kind in self.columns)
        return ""


class Recording(InAFolder):
    def test_fields_by_name_and_records(self):
        with gpulens.InferenceStore(pathlib.Path(self.path)) as store:
            self.assertEqual(store.path, self.path)
            store.record(model="m", engine="e", prompt_tokens=512, completion_tokens=128, latency_seconds=0.5, ttft_seconds=0.125)
            itl = gpulens.describe([0.015625, 0.03125])
            store.record(gpulens.InferenceRecord(model="n", gpu_utilization_ratio=0.5, itl_seconds=itl, metadata={"a": 1}, time=77.5,
                                                 streaming=True, outcome="error", error_type="OSError", consumer_seconds=1.5))
            self.assertEqual(store.count(), 2)
            self.assertEqual((store.health.stored, store.health.dropped, store.health.last_error), (2, 0, ""))
        self.assertEqual(self.rows("model_id, engine, prompt_tokens, completion_tokens, total_tokens, latency_seconds, ttft"),
                         [("m", "e", 512, 128, 640, 0.5, 0.125), ("n", "", 0, 0, 0, 0.0, 0.0)])
        reported = self.rows("gpu_utilization_pct, median_itl_ms, metadata, timestamp, is_streaming, outcome, error_type, consumer_seconds")[1]
        self.assertEqual(reported, (50.0, 23.4375, '{"a": 1}', 77.5, 1, "error", "OSError", 1.5))

    def test_a_record_over_fields(self):
        with gpulens.InferenceStore(self.path) as store:
            store.record(gpulens.InferenceRecord(model="m", engine="e"), model="n")
        self.assertEqual(self.rows("model_id, engine"), [("n", "e")])

    def test_what_is_wrong_with_the_call(self):
        with gpulens.InferenceStore(self.path) as store:
            for wrong, message in (({"modle": "m"}, "no field modle"), ({"model": 5}, "model must be a string"), ({"latency_seconds": "1"}, "latency_seconds"),
                                ({"prompt_tokens": 1.5}, "prompt_tokens"), ({"outcome": "good"}, "outcome"), ({"itl_seconds": 1}, "itl_seconds"),
                                ({"metadata": {"a": object()}}, "JSON"), ({"time": "now"}, "time")):
                with self.assertRaisesRegex(TypeError, message):
                    store.record(**wrong)
            with self.assertRaises(TypeError):
                store.record(1, 2)
            store.flush()
            self.assertEqual(store.count(), 0)

    def test_what_cannot_be_kept_is_set_aside(self):
        with gpulens.InferenceStore(self.path) as store:
            store.record(model="good")
            for poison in ({"model": "\ud800"}, {"latency_seconds": -1.0}, {"time": float("nan")}, {"time": -5}, {"prompt_tokens": -3}):
                store.record(**poison)
            store.record(model="good")
            store.flush()
            self.assertEqual((store.health.stored, store.health.rejected), (2, 5))

    def test_threads(self):
        with gpulens.InferenceStore(self.path) as store:
            threads = [threading.Thread(target=lambda: [store.record(model="m") for _ in range(1000)]) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(store.count(), 8000)

    def test_after_close(self):
        store = gpulens.InferenceStore(self.path)
        store.close()
        store.close()
        store.record(model="m")
        self.assertEqual(store.health.dropped, 1)

    def test_that_cannot_be_opened(self):
        pathlib.Path(self.path + ".file").touch()
        with self.assertRaises(gpulens.Error):
            gpulens.InferenceStore(os.path.join(self.path + ".file", "telemetry.db"))
        pathlib.Path(self.path).write_bytes(b"a text, and not a short one " * 200)
        with self.assertRaises(gpulens.DataLossError):
            gpulens.InferenceStore(self.path)

    def test_the_end_of_a_program_writes(self):
        code = ("import gpulens, sys; store = gpulens.InferenceStore(sys.argv[1], flush_interval_seconds=3600)\n"
                "for _ in range(10): store.record(model='m')")
        subprocess.run([sys.executable, "-c", code, self.path], check=True)
        self.assertEqual(len(self.rows()), 10)

    def test_a_killed_program_loses_what_was_not_flushed(self):
        code = ("import gpulens, os, signal, sys\n"
                "store = gpulens.InferenceStore(sys.argv[1], flush_interval_seconds=3600)\n"
                "for _ in range(100): store.record(model='kept')\n"
                "store.flush()\n"
                "for _ in range(10): store.record(model='lost')\n"
                "os.kill(os.getpid(), signal.SIGKILL)")
        done = subprocess.run([sys.executable, "-c", code, self.path])
        self.assertEqual(done.returncode, -9)
        code = "import gpulens, sys; store = gpulens.InferenceStore(sys.argv[1]); print(store.health.crashed, store.count())"
        done = subprocess.run([sys.executable, "-c", code, self.path], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "1 100\n")
        self.assertRegex(done.stderr, r"ended without closing .*100 of its records are stored, what it had not flushed is lost")
        self.assertEqual(set(self.rows("model_id")), {("kept",)})

    def test_a_fork(self):
        with gpulens.InferenceStore(self.path) as store:
            store.record(model="parent")
            store.flush()
            child = os.fork()
            if child == 0:
                try:
                    store.record(model="child")
                    store.flush()
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
            store.record(model="parent")
        self.assertEqual(sorted(self.rows("model_id")), [("child",), ("parent",), ("parent",)])


class WhenFull(InAFolder):
    def program(self, code):
        done = subprocess.run([sys.executable, "-c", "import gpulens, sys\n" + code, self.path], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split(), done.stderr

    def test_dropped_records_are_reported(self):
        out, err = self.program(
            "store = gpulens.InferenceStore(sys.argv[1], queue_records=1024)\n"
            "for i in range(50000): store.record(model='m', prompt_tokens=i)\n"
            "print(store.flush(), store.flush(), store.health.dropped, store.health.stored, store.close())")
        dropped, again, counted, stored, at_close = map(int, out)
        self.assertEqual((dropped + stored, counted, again, at_close), (50000, dropped, 0, 0))
        self.assertEqual(len(self.rows("id")), stored)
        self.assertGreater(dropped, 0)
        self.assertEqual(err.count("queue of 1024 records is full"), 1, err)
        self.assertIn(f"{dropped} records were dropped, {stored} are stored", err)

    def test_block_stores_all(self):
        out, err = self.program(
            "store = gpulens.InferenceStore(sys.argv[1], queue_records=64, when_full='block', flush_interval_seconds=3600)\n"
            "for i in range(50000): store.record(model='m', prompt_tokens=i)\n"
            "print(store.close(), store.health.dropped, store.health.stored)")
        self.assertEqual((out, err), (["0", "0", "50000"], ""))
        self.assertEqual(len(self.rows("id")), 50000)

    def test_block_lets_other_threads_run(self):
        """The file is locked for a while; meanwhile this thread runs, and the records wait."""
        store = gpulens.InferenceStore(self.path, queue_records=8, when_full="block", flush_interval_seconds=0.01)
        other = sqlite3.connect(self.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        thread = threading.Thread(target=lambda: [store.record(model="m") for _ in range(100)])
        thread.start()
        while store.health.queued < 8:
            threading.Event().wait(0.001)
        thread.join(0.3)
        self.assertTrue(thread.is_alive())
        other.execute("COMMIT")
        other.close()
        thread.join(30)
        self.assertEqual((store.close(), store.health.stored), (0, 100))

    def test_block_raises_when_nothing_can_be_written(self):
        """A disk that is full, by a limit of the size of files."""
        out, err = self.program(
            "import resource, signal, time\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "store = gpulens.InferenceStore(sys.argv[1], queue_records=8, when_full='block', flush_interval_seconds=0.01)\n"
            "store.flush()\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, resource.RLIM_INFINITY))\n"
            "begun, kept, raised = time.monotonic(), 0, []\n"
            "for i in range(100):\n"
            "    try: store.record(model='m', metadata={'text': 'x' * 60000}); kept += 1\n"
            "    except gpulens.Error as error: raised.append(str(error))\n"
            "took = time.monotonic() - begun\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
            "store.record(model='m') if store.flush() == len(raised) else None\n"
            "store.close()\n"
            "print(kept, len(raised), 10 <= took < 40, store.health.stored, store.health.dropped)\n"
            "print(raised[-1], file=sys.stderr)")
        kept, raised, once, stored, dropped = out
        self.assertEqual((int(kept) + int(raised), once, stored, dropped), (100, "True", str(int(kept) + 1), raised))
        self.assertRegex(err, rf"the queue is full, and nothing was written for 10 s \(.*\); {raised} records were dropped, 8 are queued")

    def test_a_server_that_is_away(self):
        """The same for ClickHouse: the server is there when the store opens, and then no more."""
        with ClickHouse() as server:
            url = f"clickhouse://127.0.0.1:{server.port}/d"
            store = gpulens.InferenceStore(url, queue_records=8, when_full="block", flush_interval_seconds=0.01)
            server.away = True
            begun = time.monotonic()
            with self.assertRaisesRegex(gpulens.Error, "nothing was written for 10 s .*1 records were dropped, 8 are queued"):
                for _ in range(100):
                    store.record(model="m")
            self.assertLess(time.monotonic() - begun, 40)
            server.away = False
            until = time.monotonic() + 30
            while store.health.queued and time.monotonic() < until:  # its writer tries again after 5 s at most
                threading.Event().wait(0.05)
            self.assertEqual(store.flush(), 1)
            for _ in range(100):
                store.record(model="m")
            self.assertEqual((store.close(), store.health.stored), (0, 108))

    def test_wrong_words(self):
        with self.assertRaisesRegex(gpulens.InvalidArgumentError, "block or drop_newest"):
            gpulens.InferenceStore(self.path, when_full="wait")


class OnAServer(unittest.TestCase):
    def test_clickhouse_that_does_not_let_in(self):
        def refuse(request, _):
            key = request.headers["X-ClickHouse-Key"]
            return 403, {}, f"Code: 516. DB::Exception: {key}: Authentication failed".encode()

        with HttpStub(refuse) as server:
            with self.assertRaisesRegex(gpulens.PermissionDeniedError, "Authentication failed") as raised:
                gpulens.InferenceStore(f"clickhouse://me:hush-hush@127.0.0.1:{server.port}/d")
        self.assertNotIn("hush", str(raised.exception))

    def test_clickhouse_over_tls(self):
        """No server is there; a package without the TLS library reports that."""
        with self.assertRaisesRegex(gpulens.UnavailableError, "refused|TLS"):
            gpulens.InferenceStore("clickhouses://127.0.0.1:1/d")

    def test_what_is_no_url(self):
        with self.assertRaisesRegex(gpulens.InvalidArgumentError, "URL of ClickHouse"):
            gpulens.InferenceStore("clickhouse://h/d?tabel=x")


class Calls(InAFolder):
    def test_measured(self):
        with gpulens.InferenceStore(self.path) as store:
            with store.begin(model="m", engine="mine") as call:
                for _ in range(4):
                    self.assertEqual(call.wait(lambda: 42), 42)
                    call.add_tokens(2)
                self.assertFalse(call.finished)
            self.assertTrue(call.finished)
            with self.assertRaises(KeyError):
                with store.begin(model="m"):
                    raise KeyError
            with self.assertRaises(KeyboardInterrupt):
                with store.begin(model="m"):
                    raise KeyboardInterrupt
            store.begin(model="m").finish(completion_tokens=7, warmup=True)
            store.begin(model="m")  # let go of
        self.assertEqual(self.rows("outcome, error_type, completion_tokens, is_warmup"), [
            ("ok", None, 8, 0), ("error", "KeyError", 0, 0), ("cancelled", None, 0, 0), ("ok", None, 7, 1), ("cancelled", None, 0, 0)])

    def test_of_an_engine(self):
        with gpulens.InferenceStore(self.path) as store:
            engine = gpulens.instrument(Engine(usage=USAGE), store, agent="a")
            engine.generate([], model="m")
            list(engine.stream([], model="m"))
        self.assertEqual(self.rows("model_id, engine, agent, completion_tokens, is_streaming"),
                         [("m", "fake", "a", 3, 0), ("m", "fake", "a", 3, 1)])


class Energy(InAFolder):
    """A store with a monitor: each call that begin() begins has its share, here of two boards that draw 400 W."""

    def hold(self, seconds):
        threading.Event().wait(seconds)

    def test_a_call_has_its_joules_and_its_phases(self):
        monitor = gpulens.EnergyMonitor(sources=[Meter()])
        with gpulens.InferenceStore(self.path, energy=monitor) as store:
            with store.begin(model="m") as call:
                self.hold(0.1)
                call.add_tokens(1)
                self.hold(0.3)
                call.add_tokens(9)
        ((joules, wrong, prefill, decode, latency, method, vendor),) = self.rows(
            "energy_joules, energy_uncertainty_joules, prefill_energy_joules, decode_energy_joules, latency_seconds, energy_method,"
            " energy_vendor")
        self.assertEqual((method, vendor), ("counter", "nvidia"))
        self.assertGreater(wrong, 0)
        self.assertAlmostEqual(joules, 400 * latency, delta=wrong + 4)
        self.assertAlmostEqual(prefill + decode, joules, delta=2 * wrong + 0.5)
        self.assertGreater(decode, prefill)

    def test_calls_at_once_share_them(self):
        monitor = gpulens.EnergyMonitor(sources=[Meter()])
        with gpulens.InferenceStore(self.path, energy=monitor) as store:
            with monitor.window() as window:
                calls = [store.begin(model="m") for _ in range(4)]
                self.hold(0.3)
                for call in calls:
                    call.finish()
        shares = [joules for (joules,) in self.rows("energy_joules")]
        self.assertEqual(len(shares), 4)
        self.assertAlmostEqual(sum(shares), window.result.energy_joules, delta=0.1 * window.result.energy_joules)
        self.assertLess(max(shares), 0.4 * window.result.energy_joules)

    def test_what_is_known_wins_and_without_a_monitor_there_is_none(self):
        monitor = gpulens.EnergyMonitor(sources=[Meter()])
        with gpulens.InferenceStore(self.path, energy=monitor) as store:
            call = store.begin(model="m")
            self.hold(0.05)
            call.finish(energy_joules=1.5)
        with gpulens.InferenceStore(self.path) as store, store.begin(model="m"):
            pass
        self.assertEqual(self.rows("energy_joules, energy_method")[0][0], 1.5)
        self.assertEqual(self.rows("energy_joules, energy_method, measured")[1][:2], (0.0, ""))
        with gpulens.InferenceStore(self.path, read_only=True) as store:
            self.assertEqual(store.summary()[0].energy_joules.n, 1)

    def test_a_monitor_of_another_kind_costs_the_energy_alone(self):
        with gpulens.InferenceStore(self.path) as store:
            with self.assertLogs("gpulens", "WARNING") as logged:
                gpulens.instrument(Engine(), store, energy=unittest.mock.MagicMock()).generate([], model="m")
                self.assertEqual(store.flush(), 0)
            (of_model,) = store.summary()
        self.assertIn("must be a gpulens.EnergyMonitor", logged.output[0])
        self.assertEqual((of_model.calls, of_model.energy_joules.n), (1, 0))

    def test_flush_raises_for_calls_that_wait_for_their_energy(self):
        class Slow:
            """A monitor and its window, whose reading does not come."""

            come = threading.Event()

            def request(self):
                return self

            mark = add_tokens = end = lambda self, *_: None

            @property
            def result(self):
                self.come.wait(30)
                raise OSError("gone")

        with gpulens.InferenceStore(self.path) as store, self.assertLogs("gpulens", "WARNING"):
            gpulens.instrument(Engine(), store, energy=Slow()).generate([], model="m")
            with self.assertRaisesRegex(gpulens.errors.TimeoutError, "not recorded yet"):
                store.flush(2)
            Slow.come.set()
            self.assertEqual((store.flush(), store.health.stored), (0, 1))

    def test_only_a_monitor_will_do(self):
        with self.assertRaisesRegex(TypeError, "EnergyMonitor"):
            gpulens.InferenceStore(self.path, energy=400.0)


class Summaries(InAFolder):
    def test_of_groups(self):
        with gpulens.InferenceStore(self.path) as store:
            for ttft, tokens in ((0.1, 10), (0.3, 20), (math.nan, 30)):
                store.record(model="a", ttft_seconds=ttft, completion_tokens=tokens, latency_seconds=1.0)
            store.record(model="b", outcome="error", energy_joules=10.0, completion_tokens=1000)
            store.record(model="b", outcome="cancelled", energy_joules=1.0, completion_tokens=1)
            store.record(model="c", warmup=True)
            a, b = store.summary(by="model", since=datetime.timedelta(hours=1))
            self.assertEqual((a.key, a.calls, a.ttft_seconds.n, a.completion_tokens), ("a", 3, 2, 60))
            self.assertAlmostEqual(a.ttft_seconds.mean, 0.2)
            self.assertAlmostEqual(a.output_tokens_per_second, 20.0)
            self.assertTrue(math.isnan(a.joules_per_output_token))
            self.assertEqual((b.key, b.calls, b.errors, b.cancelled, b.energy_joules.n), ("b", 2, 1, 1, 2))
            self.assertAlmostEqual(b.joules_per_output_token, 11 / 1001)
            self.assertIn("b, 2 calls, 1 errors", repr(b))
            (everything,) = store.summary(warmup=True)
            self.assertEqual(everything.calls, 6)
            self.assertEqual(store.summary(by="model", model="b", limit=1)[0].key, "b")

    def test_means_of_calls_and_the_way_tokens_were_counted(self):
        with gpulens.InferenceStore(self.path) as store:
            for tokens, seconds in ((100, 1.0), (10, 1.0), (30, 3.0)):
                store.record(model="m", completion_tokens=tokens, latency_seconds=seconds)
        with sqlite3.connect(self.path) as database:
            database.execute("UPDATE telemetry SET token_counting_version = 1 WHERE completion_tokens = 30")
        database.close()
        with gpulens.InferenceStore(self.path, read_only=True) as store:
            (everything,) = store.summary()
            self.assertAlmostEqual(everything.output_tokens_per_second, 28.0)
            self.assertAlmostEqual(everything.call_means.tokens_per_second, 40.0)
            self.assertTrue(math.isnan(everything.call_means.itl_p95_seconds))
            self.assertEqual([store.summary(token_counting_version=version)[0].calls for version in (None, 1, 2, 3)], [3, 1, 2, 0])

    def test_of_times(self):
        now = time.time()
        with gpulens.InferenceStore(self.path) as store:
            for ago in (7200, 1800, 0):
                store.record(model="m", time=now - ago)
            for since, calls in ((datetime.timedelta(hours=1), 2), (datetime.datetime.fromtimestamp(now - 3600), 2), (now - 3600, 2),
                                 (datetime.datetime.fromtimestamp(now - 1e4, datetime.timezone.utc), 3)):
                self.assertEqual(store.summary(since=since)[0].calls, calls)
            self.assertEqual(store.summary(until=now - 3600)[0].calls, 1)
            with self.assertRaises(TypeError):
                store.summary(since="yesterday")
            with self.assertRaises(gpulens.InvalidArgumentError):
                store.summary(by="colour")


if __name__ == "__main__":
    unittest.main()
