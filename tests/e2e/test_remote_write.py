"""Remote write out: to a decoder of our own (1.0 and 2.0), and to Debian's Prometheus."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

from agent import BINARY, Agent, free_port, peer, prometheus_result, value, wait_until
from remote_write_receiver import FIRST, SECOND, Receiver


def collect(*arguments):
    ours = {key: value for key, value in os.environ.items() if not key.startswith("GPULENS_")}
    return subprocess.run([BINARY, "collect", *arguments], env=ours, capture_output=True, text=True, timeout=60, check=False)


class Collect(unittest.TestCase):
    def check_samples(self, receiver):
        total = int(pathlib.Path("/proc/meminfo").read_text().split()[1]) * 1024
        memory = {s.labels["system_memory_state"]: s for s in receiver.samples("system_memory_usage_bytes")}
        self.assertLess(abs(sum(sample.value for sample in memory.values()) - total), 0.2 * total)
        free = memory["free"]
        self.assertEqual(free.labels["job"], "gpulens")
        self.assertEqual(free.labels["instance"], os.uname().nodename)
        self.assertEqual(free.labels["team"], "t")
        self.assertLess(abs(time.time() * 1000 - free.ms), 60e3)
        self.assertFalse(any(s.ended for request in receiver.requests for s in request.samples), "it is no stream that ends")

    def run_once(self, receiver, *more):
        done = collect("host", "--once", "--sink", "remote_write", "-o", f"url={receiver.url}", "-o", "attributes=team=t", *more)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_version_2(self):
        with Receiver() as receiver:
            self.run_once(receiver)
            self.assertEqual({r.headers["Content-Type"] for r in receiver.requests}, {SECOND})
            headers = receiver.requests[0].headers
            self.assertEqual(headers["Content-Encoding"], "snappy")
            self.assertEqual(headers["X-Prometheus-Remote-Write-Version"], "2.0.0")
            self.assertTrue(headers["User-Agent"].startswith("gpulens/"))
            self.check_samples(receiver)
            cpu = receiver.samples("system_cpu_time_seconds_total")[0]
            self.assertEqual((cpu.about["type"], cpu.about["unit"]), (1, "seconds"))
            self.assertLess(cpu.start_ms, cpu.ms)

    def test_version_1(self):
        with Receiver() as receiver:
            self.run_once(receiver, "-o", "protocol=1.0")
            self.assertEqual({r.headers["Content-Type"] for r in receiver.requests}, {FIRST})
            self.assertEqual(receiver.requests[0].headers["X-Prometheus-Remote-Write-Version"], "0.1.0")
            self.check_samples(receiver)

    def test_a_receiver_of_version_1_is_found_out(self):
        for refusal in (204, 400, 415):
            with self.subTest(refusal), Receiver(lambda r, _: (refusal if r.second else 204, {})) as receiver:
                self.run_once(receiver)
                self.assertTrue(receiver.requests.pop(0).second)
                self.assertFalse(any(request.second for request in receiver.requests))
                self.check_samples(receiver)

    def test_refused_data_is_reported(self):
        with Receiver(lambda *_: (403, {})) as receiver:
            done = collect("host", "--once", "--sink", "remote_write", "-o", f"url={receiver.url}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("403", done.stderr)

    def test_too_busy_is_tried_again(self):
        with Receiver(lambda r, n: Receiver.good(r, n) if n else (429, {"Retry-After": "0"})) as receiver:
            done = collect("host", "--once", "--sink", "remote_write", "-o", f"url={receiver.url}")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(receiver.requests), 2)

    def test_native_histograms_need_version_2(self):
        done = collect("host", "--once", "--sink", "remote_write", "-o", "native_histograms=true")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('native_histograms needs protocol: "2.0"', done.stderr)


class Stream(unittest.TestCase):
    def test_everything_ends_with_the_agent_when_configured(self):
        with Receiver() as receiver:
            config = f"interval: 200ms\nsinks: {{remote_write: {{url: '{receiver.url}', interval: 200ms, stale_at_end: true}}}}\n"
            with Agent(config=config) as agent:
                wait_until(lambda: len(receiver.samples("system_memory_usage_bytes")) >= 12, what="three rounds")
                wait_until(lambda: value(agent.page(), "gpulens_sink_up", sink="remote_write") == 1)
                self.assertGreater(value(agent.page(), "gpulens_sink_delivered_total", sink="remote_write"), 0)
            last = {}
            for request in receiver.requests:
                for sample in request.samples:
                    key = tuple(sorted(sample.labels.items()))
                    self.assertTrue(key not in last or last[key].ms < sample.ms, key)
                    last[key] = sample
        self.assertEqual([key for key, sample in last.items() if not sample.ended], [])


class Prometheus(unittest.TestCase):
    """Debian's, which knows 1.0 alone and answers 204 to what it does not understand."""

    def setUp(self):
        self.program, self.port = peer("prometheus"), free_port()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-prometheus-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        (self.folder / "prometheus.yml").write_text("global: {}\n")
        self.start()
        self.addCleanup(lambda: self.stop())

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.server = subprocess.Popen(
                [self.program, f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                 f"--web.listen-address=127.0.0.1:{self.port}", "--web.enable-remote-write-receiver"], stdout=log, stderr=log)

    def stop(self):
        self.server.terminate()
        self.server.wait(30)

    def query(self, query):
        return prometheus_result(self.port, query)

    def test_values_a_restart_and_the_end(self):
        url = f"http://127.0.0.1:{self.port}/api/v1/write"
        config = ("interval: 200ms\nsinks: {remote_write: "
                  f"{{url: '{url}', interval: 500ms, stale_at_end: true, retry: {{initial: 50ms, max: 200ms}}}}}}\n")  # fmt: skip
        with Agent("--demo", config=config) as agent:
            wait_until(lambda: len(self.query("gpu_power_draw_watts")) == 8, 40, "eight GPUs")
            shown = float(self.query('gpu_memory_total_bytes{gpu_index="0"} or gpu_memory_capacity_bytes{gpu_index="0"} or '
                                   'gpu_power_limit_watts{gpu_index="0"}')[0]["value"][1])  # fmt: skip
            self.assertGreater(shown, 0)
            self.stop()
            waiting = lambda: value(agent.page(), "gpulens_sink_queue_length", sink="remote_write", queue="delivery")
            wait_until(lambda: waiting() >= 4, 40, "a queue")
            self.start()
            wait_until(lambda: self.query("gpu_power_draw_watts"), 40, "the receiver")

            def whole():
                count = self.query('count_over_time(gpu_energy_consumption_joules_total{gpu_index="0"}[60s])')
                return waiting() == 0 and count and float(count[0]["value"][1]) >= 10
            wait_until(whole, 40, "what waited")
            self.assertEqual(self.query("max(resets(gpu_energy_consumption_joules_total[60s]))")[0]["value"][1], "0")
            # No half-second is missing: what was read while the receiver was away is there.
            series = self.query('gpu_energy_consumption_joules_total{gpu_index="0"}[60s]')[0]["values"]
            gaps = [later[0] - earlier[0] for earlier, later in zip(series, series[1:])]
            self.assertLess(max(gaps), 1.9, gaps)
            page = agent.page()
            self.assertEqual(value(page, "gpulens_sink_dropped_total", sink="remote_write", queue="delivery", reason="refused"), 0)
        wait_until(lambda: self.query("up or vector(1)") and not self.query("gpu_power_draw_watts"), 20, "the end of all series")


if __name__ == "__main__":
    unittest.main()
