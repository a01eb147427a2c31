"""`gpulens bench serve` against a server whose times are known."""
import contextlib
import http.server
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import tempfile
import threading
import unittest

from agent import BINARY, wait_until

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FAKE = pathlib.Path(os.environ.get("GPULENS_FAKE_NVML_FOLDER", BINARY.parent / "fake_nvml"))
PROFILE = ROOT / "tests/fake_nvml/profiles/h100_idle.yaml"
FIRST, GAP, TOKENS = 0.05, 0.01, 6  # seconds to the first token, between two, and how many


class Llm(http.server.BaseHTTPRequestHandler):
    """An OpenAI-compatible server that never answers faster than configured."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def chunk(self, event):
        data = f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def do_GET(self):
        body = b'{"object":"list","data":[{"id":"known-times"}]}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests.append((request, self.headers))
        if self.server.busy:
            body = b'{"error":{"message":"too many"}}'
            self.send_response(429)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            self.answer()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client was stopped

    def answer(self):
        self.chunk({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
        for token in range(TOKENS):
            self.server.ended.wait(GAP if token else FIRST)
            self.chunk({"choices": [{"delta": {"content": "a"}}]})
        self.chunk({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": TOKENS}})
        self.chunk("[DONE]")
        self.wfile.write(b"0\r\n\r\n")


class BenchServe(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Llm)
        self.server.daemon_threads = True
        self.server.lock, self.server.requests, self.server.busy = threading.Lock(), [], False
        self.server.ended = threading.Event()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def tearDown(self):
        self.server.ended.set()
        self.server.shutdown()
        self.server.server_close()

    def command(self, *words):
        return [BINARY, "bench", "serve", self.url, *words]

    def bench(self, *words, env=None):
        return subprocess.run(self.command(*words), capture_output=True, text=True, timeout=120, env={**os.environ, **(env or {})})

    def test_times_and_tokens_are_those_of_the_server(self):
        done = self.bench("--requests", "40", "--concurrency", "4", "--warmup", "4", "--json", "--slo", "ttft=1ms",
                          "--api-key-env", "KEY", env={"KEY": "sk-7"})
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(result["model"], "known-times")
        self.assertEqual((result["ok"], result["errors"], result["prompt_tokens"]), (36, 0, 36 * 9))
        self.assertEqual(result["completion_tokens"], 36 * TOKENS)
        # Never quicker than the server; how much slower is the machine's affair.
        self.assertGreaterEqual(result["ttft_seconds"]["min"], FIRST)
        self.assertGreaterEqual(result["e2e_seconds"]["min"], FIRST + (TOKENS - 1) * GAP)
        # When the last token is seen. A busy machine sees the first one late, so what is between two can be less than the server's.
        last = result["ttft_seconds"]["mean"] + (TOKENS - 1) * result["tpot_seconds"]["mean"]
        self.assertGreaterEqual(last, FIRST + (TOKENS - 1) * GAP - 1e-6)
        self.assertEqual(result["itl_seconds"]["n"], 36 * (TOKENS - 1))
        self.assertEqual(result["good_ratio"], 0, "no first token comes within 1 ms")
        request, headers = self.server.requests[0]
        self.assertEqual(headers["Authorization"], "Bearer sk-7")
        self.assertEqual((request["stream"], request["max_tokens"]), (True, 128))
        self.assertEqual(len({a["messages"][0]["content"] for a, _ in self.server.requests}), 40, "no two prompts are the same")

    @unittest.skipUnless((FAKE / "libnvidia-ml.so.1").exists(), "the simulated NVML is not built")
    def test_joules_are_those_of_the_measured_time(self):
        seen = {"LD_LIBRARY_PATH": str(FAKE), "GPULENS_FAKE_NVML": str(PROFILE), "CUDA_VISIBLE_DEVICES": "1,2"}
        done = self.bench("--requests", "40", "--concurrency", "4", "--warmup", "8", "--json", env=seen)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        energy = result["energy"]
        self.assertEqual((energy["validity"], energy["vendor"], energy["method"], energy["devices"]),
                         ("valid", "nvidia", "counter", 2), energy)
        # Two idle boards of 71 W.
        self.assertAlmostEqual(energy["joules"], 142 * result["elapsed_seconds"], delta=energy["uncertainty_joules"] + 0.1)
        self.assertLess(energy["uncertainty_joules"], 0.5 * energy["joules"])
        self.assertAlmostEqual(energy["joules_per_output_token"] * result["completion_tokens"], energy["joules"], places=3)
        self.assertAlmostEqual(energy["joules_per_request"] * result["ok"], energy["joules"], places=3)
        text = self.bench("--requests", "8", "--concurrency", "4", env=seen).stdout
        self.assertRegex(text, r"energy +\d+\.\d J ± .* by nvidia; .* J/token out, .* J/request")

    def test_without_a_sensor_joules_are_unknown_with_a_reason(self):
        nothing = {"GPULENS_ENERGY_ROOT": "/nonexistent", "GPULENS_ENERGY_SOCKET": "/nonexistent"}
        result = json.loads(self.bench("--requests", "4", "--json", env=nothing).stdout)["energy"]
        if result["vendor"] != "none":
            self.skipTest("this machine has a GPU")
        self.assertEqual((result["validity"], result["joules"], result["joules_per_output_token"]), ("no_device", None, None))
        self.assertIn("no agent at /nonexistent", result["reason"])

    def store(self):
        folder = tempfile.TemporaryDirectory(prefix="gpulens-bench-")
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name) / "telemetry.db"

    def stats(self, db, *words):
        done = subprocess.run([BINARY, "telemetry", "stats", "--db", str(db), "--json", *words], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["total"]

    def agree(self, stats, result):
        """The totals of the store are those of the run; percentiles within the error of the store's sketch."""
        self.assertEqual(stats["calls"], result["ok"] + result["errors"] + result["cancelled"])
        self.assertEqual((stats["errors"], stats["cancelled"]), (result["errors"], result["cancelled"]))
        self.assertEqual((stats["prompt_tokens"], stats["completion_tokens"]), (result["prompt_tokens"], result["completion_tokens"]))
        for ours, theirs in (("ttft_seconds", "ttft_seconds"), ("latency_seconds", "e2e_seconds")):
            stored, run = stats[ours], result[theirs]
            self.assertEqual(stored["n"], run["n"], ours)
            for figure, error in (("mean", 1e-8), ("min", 1e-8), ("max", 1e-8), ("p50", 0.0055), ("p90", 0.0055), ("p95", 0.0055), ("p99", 0.0055)):
                self.assertAlmostEqual(stored[figure], run[figure], delta=error * run[figure], msg=f"{ours} {figure}")

    def test_stored_records_match_the_printed_result(self):
        db = self.store()
        done = self.bench("--requests", "60", "--concurrency", "4", "--warmup", "4", "--json", "--store", str(db), "--engine", "mine")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        stored = result["store"]
        self.assertEqual((stored["path"], stored["stored"], stored["lost"]), (str(db), 56, 0))
        self.agree(self.stats(db), result)
        file = sqlite3.connect(db)
        self.addCleanup(file.close)
        self.assertEqual(file.execute("SELECT DISTINCT model_id, engine, batch_id, is_streaming, is_warmup, outcome, prompt_tokens,"
                                      " completion_tokens, itl_count, token_counting_version FROM telemetry").fetchall(),
                         [("known-times", "mine", stored["batch_id"], 1, 0, "ok", 9, TOKENS, TOKENS - 1, 2)])
        least, gaps = file.execute("SELECT min(min_itl_ms), sum(itl_count) FROM telemetry").fetchone()
        self.assertAlmostEqual(least, 1e3 * result["itl_seconds"]["min"], places=5)
        self.assertEqual(gaps, result["itl_seconds"]["n"])
        # Another run is another batch of the same file; the text shows how to query it alone.
        text = self.bench("--requests", "8", "--concurrency", "2", "--warmup", "2", "--store", str(db)).stdout
        self.assertRegex(text, rf"stored +6 records: gpulens telemetry stats --db {db} --batch bench-\S+\n")
        batch = text.rsplit("--batch ", 1)[1].split()[0]
        self.assertNotEqual(batch, stored["batch_id"])
        self.assertEqual(self.stats(db, "--batch", batch)["calls"], 6)
        self.agree(self.stats(db, "--batch", stored["batch_id"]), result)
        self.assertEqual(self.stats(db)["calls"], 62)

    def test_failures_are_stored_with_the_reason(self):
        db = self.store()
        self.server.busy = True
        done = self.bench("--requests", "5", "--model", "m", "--json", "--store", str(db))
        self.assertEqual(done.returncode, 1)
        result = json.loads(done.stdout)
        stats = self.stats(db)
        self.assertEqual((stats["calls"], stats["errors"], stats["latency_seconds"]["n"], stats["completion_tokens"]), (5, 5, 0, 0))
        self.assertEqual(result["store"]["stored"], 5)
        with contextlib.closing(sqlite3.connect(db)) as file:
            self.assertEqual(file.execute("SELECT outcome, error_type, count(*) FROM telemetry GROUP BY 1, 2").fetchall(), [("error", "HTTP 429", 5)])

    def test_an_unusable_store_is_reported_before_any_load(self):
        for where, code in (("mysql://x/y", 2), ("/proc/none/telemetry.db", 1)):
            done = self.bench("--requests", "5", "--model", "m", "--store", where)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn("--store", done.stderr)
        self.assertEqual(self.server.requests, [])

    @unittest.skipUnless((FAKE / "libnvidia-ml.so.1").exists(), "the simulated NVML is not built")
    def test_each_record_has_its_share_of_the_joules(self):
        db = self.store()
        seen = {"LD_LIBRARY_PATH": str(FAKE), "GPULENS_FAKE_NVML": str(PROFILE), "CUDA_VISIBLE_DEVICES": "1,2"}
        done = self.bench("--requests", "40", "--concurrency", "4", "--warmup", "0", "--json", "--store", str(db), env=seen)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        joules = self.stats(db)["energy_joules"]
        self.assertEqual(joules["n"], 40)
        # While a request is in flight the shares add up to what the devices draw; nothing runs but requests here.
        self.assertAlmostEqual(joules["sum"], result["energy"]["joules"], delta=0.1 * result["energy"]["joules"] + result["energy"]["uncertainty_joules"])
        with contextlib.closing(sqlite3.connect(db)) as file:
            self.assertEqual(file.execute("SELECT DISTINCT energy_vendor, energy_method FROM telemetry").fetchall(), [("nvidia", "counter")])
            whole, parts = file.execute("SELECT sum(energy_joules), sum(prefill_energy_joules + decode_energy_joules) FROM telemetry").fetchone()
            self.assertAlmostEqual(whole, parts, delta=1e-3 * whole)

    def test_an_open_loop_does_not_wait_for_the_server(self):
        done = self.bench("--rate", "200", "--requests", "60", "--concurrency", "1", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        # One at a time takes 60 × 0.1 s, and all fell due within 0.3 s or so: the waiting time shows it.
        self.assertGreater(result["late_seconds"]["max"], 2)
        self.assertGreater(result["ttft_seconds"]["max"], result["late_seconds"]["max"])

    def test_refusals_are_reported_and_end_with_1(self):
        self.server.busy = True
        done = self.bench("--requests", "5", "--model", "m")
        self.assertEqual(done.returncode, 1)
        self.assertIn("0 answered, 5 failed", done.stdout)
        self.assertIn("5 × HTTP 429: too many", done.stdout)

    def test_ctrl_c_prints_the_results_so_far(self):
        db = self.store()
        process = subprocess.Popen(self.command("--requests", "100000", "--concurrency", "2", "--store", str(db)), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        wait_until(lambda: len(self.server.requests) >= 8, 20)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("stopped early, the figures are partial", out)
        self.assertIn("2 cancelled", out)
        stats = self.stats(db)
        self.assertEqual(stats["cancelled"], 2)
        self.assertIn(f"{stats['calls'] - 2} answered", out)

    def test_wrong_use_names_the_mistake(self):
        for words, message in ((["--slo", "fast"], "expected ttft=TIME"), (["--duration", "soon"], '"soon"'),
                            (["--api-key-env", "NO_SUCH_VARIABLE"], "the variable is not set"), (["--rate", "0"], "--rate")):
            done = self.bench(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(message, done.stderr, words)
        unreachable = subprocess.run([BINARY, "bench", "serve", "http://127.0.0.1:1"], capture_output=True, text=True, timeout=60)
        self.assertEqual(unreachable.returncode, 1)
        self.assertIn("connection refused. Is the server up?", unreachable.stderr)


if __name__ == "__main__":
    unittest.main()
