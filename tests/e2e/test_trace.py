"""`gpulens trace`: a timeline of the demo, compared with /api/history and read by Perfetto's own classes."""
import csv
import io
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import unittest

from agent import BINARY, Agent, samples, wait_until
from test_telemetry import OLD
from trace_file import TraceFile

PROCESSOR = os.environ.get("GPULENS_TRACE_PROCESSOR")  # a trace_processor_shell of Perfetto


class Trace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-e2e-"))
        cls.addClassCleanup(shutil.rmtree, cls.home, True)
        socket = str(cls.home / "control.sock")
        # Its late rank is always late and none hangs, since the test does not wait for the hour of the day.
        text = subprocess.run([BINARY, "sim", "scenario"], check=True, capture_output=True, text=True, timeout=30).stdout
        late = "late: {rank: 6, every: 6m, for: 90s, after: 2m}, hang: {rank: 2, every: 12m, for: 75s, after: 5m}"
        assert late in text
        (cls.home / "demo.yaml").write_text(text.replace(late, "late: {rank: 6, every: 24h, for: 23h}"))
        cls.agent = Agent("--demo", config=f"state_dir: {cls.home}/state\ncontrol: {{socket: {socket}}}\n",
                          environment={"GPULENS_DEMO_SCENARIO": str(cls.home / "demo.yaml")})
        cls.enterClassContext(cls.agent)
        cls.url = f"http://127.0.0.1:{cls.agent.port}"
        cls.history(window="1s")  # the first reader begins the history
        wait_until(lambda: len(samples(cls.agent.page(), "gpu_power_draw_watts")) == 8, what="eight GPUs")
        subprocess.run([BINARY, "sim", "fail", "--socket", socket, "gpu=3", "mode=xid", "code=31"], check=True,
                       capture_output=True, timeout=30)
        wait_until(lambda: b'"gpu.xid"' in cls.agent.get("/api/events").text, what="the XID")
        wait_until(lambda: b'"nccl.straggler"' in cls.agent.get("/api/events").text, 40, "the late rank")
        begin = time.monotonic()
        wait_until(lambda: time.monotonic() > begin + 4, what="some readings")
        # Read before the trace is written: an hour is kept, so that both have the same samples.
        cls.done = cls.trace("--last", "1m", "-o", cls.home / "node.pftrace")
        cls.file = TraceFile((cls.home / "node.pftrace").read_bytes())

    @classmethod
    def run_trace(cls, *arguments, **more):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GPULENS_")} | {"HOME": str(cls.home)}
        return subprocess.run([BINARY, "trace", *map(str, arguments)], capture_output=True, timeout=60, env=environment,
                              check=False, stdin=subprocess.DEVNULL, **more)

    @classmethod
    def trace(cls, *arguments):
        done = cls.run_trace(cls.url, *arguments)
        assert done.returncode == 0, done.stderr
        return done

    @classmethod
    def history(cls, **parameters):
        query = "&".join(f"{key}={value}" for key, value in parameters.items())
        return json.loads(cls.agent.get(f"/api/history?{query}", timeout=20).text)

    def test_the_file_is_sound_and_names_what_it_shows(self):
        self.assertEqual(self.file.faults, [])
        self.assertEqual(self.file.facts["gpulens.simulated"], "true")
        self.assertEqual(len(self.file.clocks), 1)
        self.assertEqual(self.file.clocks[0].primary_trace_clock, 1)
        roots = [track for track in self.file.tracks.values() if track.parent is None]
        self.assertEqual(len(roots), 1)
        self.assertIn("SIMULATED", roots[0].name)
        text = self.done.stderr.decode()
        self.assertIn("(SIMULATED)", text)
        self.assertIn(f"{(self.home / 'node.pftrace').stat().st_size:,} bytes", text)
        self.assertIn(f"{sum(len(t.values) for t in self.file.counters()):,} values", text)

    def test_each_track_has_the_samples_of_the_history(self):
        begin = self.file.clocks[0].clocks[0].timestamp // 1_000_000
        # What was read late, or after the trace, is in the history alone.
        end = max(t.last for t in self.file.counters()) // 1_000_000 - 3000
        found = {}
        for one in self.history(window=f"{end - begin + 1000}ms", end=end)["series"]:
            key = one["name"], json.dumps(one["attributes"], sort_keys=True), one["source"]
            stale = set(one.get("stale", ()))
            found[key] = one, [(at, value) for i, (at, value) in enumerate(zip(one["at"], one["value"]))
                               if value is not None and i not in stale]
        compared = rates = 0
        for track in self.file.counters():
            key = track.metric, json.dumps(track.attributes, sort_keys=True), track.source
            if key not in found:
                self.assertFalse([at for at, _ in track.values if at // 1_000_000 <= end], key)
                continue
            series, samples = found[key]
            ours = [(at // 1_000_000, value) for at, value in track.values]
            if series["kind"] == "counter":
                self.assertFalse(series.get("resets"), key)
                pairs = [(max(a[0], begin), (b[1] - a[1]) / (b[0] - a[0]) * 1000) for a, b in zip(samples, samples[1:])
                         if b[0] > begin]
                ours = [one for one in ours if one[0] < (samples[-1][0] if samples else 0)]
                self.assertEqual([at for at, _ in ours], [at for at, _ in pairs], key)
                for (_, a), (_, b) in zip(ours, pairs):
                    self.assertAlmostEqual(a, b, delta=1e-9 * max(abs(a), 1), msg=key)
                rates += 1
            else:
                self.assertEqual([one for one in ours if one[0] <= end], [one for one in samples if begin <= one[0] <= end], key)
                compared += 1
        self.assertGreater(compared, 300)
        self.assertGreater(rates, 100)

    def test_it_shows_gpus_engines_processes_and_events(self):
        paths = {track.path[1] for track in self.file.tracks.values() if len(track.path) > 1}
        self.assertEqual(len([one for one in paths if one.startswith("GPU ")]), 8)
        engines = {track.path[2] for track in self.file.tracks.values() if track.path[1:2] == ("Engines and other targets",)
                   and len(track.path) > 2}
        self.assertIn("chat-a", engines)
        self.assertLessEqual({"Host", "Processes"}, paths)
        up = [one for track in self.file.with_name("gpulens.scrape.up") for one in track.slices]
        self.assertIn("up", {name for _, _, name, _ in up})
        processes = [one for track in self.file.tracks.values() if track.path[1:2] == ("Processes",) for one in track.slices]
        self.assertTrue(processes)
        self.assertTrue(all(arguments["process.pid"] > 0 for _, _, _, arguments in processes))
        power = self.file.with_name("gpu.power.draw")
        # A slow machine leaves gaps, which have tracks of their own next to the counters.
        self.assertEqual({track.unit for track in power if track.values}, {"W"})
        # The demo has one of its own, on GPU 5, once in its day.
        xids = [mark for track in self.file.tracks.values() for mark in track.marks if mark[1] == "gpu.xid" and mark[2]["gpu.index"] == 3]
        self.assertEqual(len(xids), 1)
        self.assertEqual(xids[0][2]["gpu.xid.code"], 31)
        self.assertEqual([t.path[1][:5] for t in self.file.tracks.values() if xids[0] in t.marks], ["GPU 3"])
        self.assertFalse([track for track in self.file.tracks.values() if track.path[1:2] == ("gpulens",)])

    def test_it_shows_what_runs_inside_jobs(self):
        phases = {track.path[2]: {name for _, _, name, _ in track.slices} for track in self.file.with_name("phase") if track.name == "phase"}
        self.assertIn("gpu compute", phases["pt_main_thread 5000801"])
        self.assertTrue(phases["VLLM::Worker_TP 5000001"] & {"prefill", "decode", "queued", "idle"}, phases)
        groups = {track.path[2].split(" · ")[0] for track in self.file.tracks.values() if track.path[1:2] == ("Collectives",) and len(track.path) > 2}
        self.assertEqual(groups, {"train-tts", "chat-a-tp"})
        faults = [one for track in self.file.with_name("faults") for one in track.slices]
        self.assertEqual([name for _, _, name, _ in faults], ["rank 6 late"])
        self.assertEqual(faults[0][3]["nccl.host"], "demo-node-7")
        self.assertIn(" after the median of the ranks", faults[0][3]["evidence"])
        late = [track for track in self.file.with_name("late") if track.name == "late" and track.slices]
        self.assertEqual([track.path[3] for track in late], ["rank 6"])
        self.assertIn("nccl.rank.lateness", {track.name for track in self.file.counters() if track.path[-2] == "rank 6"})

    def test_chrome_and_csv_have_the_same_numbers(self):
        self.trace("--last", "1m", "-o", self.home / "node.json")
        events = json.loads((self.home / "node.json").read_text())["traceEvents"]
        phases = [event["ph"] for event in events]
        self.assertGreaterEqual(phases.count("C"), sum(len(track.values) for track in self.file.counters()))
        self.assertEqual(phases.count("B"), phases.count("E"))
        self.assertTrue(all(isinstance(value, float | int) for e in events if e["ph"] == "C" for value in e["args"].values()))
        # One process of the trace may not have two counters of one name.
        names = {}
        for event in events:
            if event["ph"] == "C":
                self.assertEqual(names.setdefault((event["pid"], event["name"]), event["tid"]), event["tid"])
        out = self.trace("--last", "1m", "--format", "csv", "-o", "-").stdout.decode()
        rows = list(csv.DictReader(io.StringIO(out, newline="")))
        kinds = [row["what"] for row in rows]
        self.assertGreaterEqual(kinds.count("value"), phases.count("C"))
        self.assertGreaterEqual(kinds.count("slice"), 1)
        self.assertIn(("simulated", "true"), {(row["name"], row["value"]) for row in rows if row["what"] == "fact"})
        self.assertFalse([cell for row in rows for cell in row.values() if cell and cell[0] in "=+@"])

    def test_ctrl_c_keeps_what_is_there(self):
        path = self.home / "live.pftrace"
        with subprocess.Popen([BINARY, "trace", self.url, "--for", "50s", "-o", path], stderr=subprocess.PIPE) as process:
            wait_until(lambda: any(p.stat().st_size > 20_000 for p in self.home.glob("live.pftrace.*")), what="a piece")
            self.assertFalse(path.exists(), "a file that is not complete has another name")
            process.send_signal(signal.SIGINT)
            text = process.stderr.read().decode()
        self.assertEqual(process.returncode, 130, text)
        live = TraceFile(path.read_bytes())
        self.assertEqual(live.faults, [])
        self.assertGreater(sum(len(track.values) for track in live.counters()), 500)
        self.assertEqual(list(self.home.glob("live.pftrace.*")), [])

    def test_the_size_has_a_limit(self):
        done = self.trace("--last", "1m", "--max-size", "100KiB", "-o", self.home / "small.pftrace")
        self.assertIn("--max-size", done.stderr.decode())
        self.assertEqual(TraceFile((self.home / "small.pftrace").read_bytes()).faults, [])

    def test_failures_leave_no_file(self):
        for arguments, code, text in ((("http://127.0.0.1:1", "-o", self.home / "x"), 1, ""),
                                      ((self.url, "-o", self.home / "no" / "x"), 1, "no/x"),
                                      ((self.url, "--last", "soon", "-o", self.home / "x"), 2, "--last"),
                                      ((self.url, "--max-size", "1", "-o", self.home / "x"), 2, "--max-size"),
                                      ((self.url,), 2, "-o"), ((self.url, "--format", "pdf", "-o", "x"), 2, "pdf")):
            with self.subTest(arguments=arguments):
                done = self.run_trace(*arguments)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(text, done.stderr.decode())
                self.assertEqual([p.name for p in self.home.iterdir() if p.name.startswith("x")], [])

    def test_runs_and_calls_of_engines(self):
        runs, calls, path = self.home / "runs.db", self.home / "calls.db", self.home / "own.pftrace"
        hostile = "ft\x7f=evil"
        script = self.home / "train.sh"
        script.write_text("for i in 1 2 3; do echo \"{'loss': 0.$i, 'step': $i}\"; sleep 0.2; done\n")
        subprocess.run([BINARY, "run", "-q", "--no-energy", "--db", runs, "--name", "ft-<b>\"é", "--", "sh", script], check=True,
                       capture_output=True, timeout=30)
        with sqlite3.connect(calls) as database:
            database.execute(OLD)
            for i in range(5):
                database.execute("INSERT INTO telemetry(timestamp, model_id, engine, latency_seconds, ttft, completion_tokens) VALUES(?,?,?,?,?,?)",
                                 (time.time() - 8 + i * 0.5, "llama " + hostile, "vllm", 1.5, 0.25, 20))
        database.close()
        self.trace("--last", "30s", "--experiments", runs, "--telemetry", calls, "-o", path)
        own = TraceFile(path.read_bytes())
        self.assertEqual(own.faults, [])
        run = [track for track in own.tracks.values() if track.path[1:2] == ("Experiments",) and track.slices]
        self.assertEqual(len(run), 1)
        self.assertEqual({name for _, _, name, _ in run[0].slices}, {"ft-<b>\"é", "step 1", "step 2", "step 3"})
        self.assertEqual([len(track.values) for track in own.counters() if track.name == "loss"], [3])
        requests = [one for track in own.tracks.values() if track.path[1:2] == ("Requests",) for one in track.slices]
        self.assertEqual([name for _, _, name, _ in requests].count("request"), 5)
        self.assertEqual([name for _, _, name, _ in requests].count("first token"), 5)
        for begin, end, name, _ in requests:
            self.assertAlmostEqual((end - begin) / 1e9, {"request": 1.5, "first token": 0.25, "further tokens": 1.25}[name], places=5)
        # A named file that is not there is reported; the rest is written.
        done = self.trace("--last", "10s", "--experiments", self.home / "none.db", "-o", path)
        self.assertIn("left out", done.stderr.decode())

    @unittest.skipUnless(PROCESSOR, "GPULENS_TRACE_PROCESSOR names no trace_processor_shell")
    def test_perfettos_trace_processor_reads_it(self):
        from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig
        with TraceProcessor(trace=str(self.home / "node.pftrace"), config=TraceProcessorConfig(bin_path=PROCESSOR)) as processor:
            def number(query):
                return next(iter(processor.query(query))).n

            self.assertEqual(number("select count(*) as n from counter"), sum(len(t.values) for t in self.file.counters()))
            self.assertEqual(number("select count(*) as n from slice where dur != 0"), sum(len(t.slices) for t in self.file.tracks.values()))
            self.assertEqual(number("select count(*) as n from slice where dur < 0"), 0)
            self.assertEqual(number("select sum(value) as n from stats where severity in ('error', 'data_loss')"), 0)


if __name__ == "__main__":
    unittest.main()
