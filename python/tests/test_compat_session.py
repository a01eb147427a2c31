"""gpulens.compat.openjarvis: sessions, phases, and the scraper of vLLM's page."""
import contextlib
import threading
import time
import unittest

from gpulens.compat import openjarvis as t
from http_stub import HttpStub
from monitors import FixedMonitor

MS = 1_000_000


class Board(FixedMonitor):
    """Releases `readings` at each reading."""

    def __init__(self, watts=300.0, fails=False):
        super().__init__(watts=watts)
        self.fails, self.readings = fails, threading.Semaphore(0)

    def snapshot(self):
        self.readings.release()
        if self.fails:
            raise OSError("the driver is gone")
        sample = t.EnergySample(mean_power_watts=self.watts, mean_temperature_c=60.0)
        sample.cpu_power_watts = self.watts / 2
        return sample


def filled(samples, **options):
    session = t.TelemetrySession(**options)
    for sample in samples:
        session._buffer.push(sample)
    return session


class Arithmetic(unittest.TestCase):
    def test_constant(self):
        session = filled(t.TelemetrySample(i * 100 * MS, 100.0, 50.0) for i in range(11))
        gpu, cpu = session.energy_delta(0, 1000 * MS)
        self.assertAlmostEqual(gpu, 100.0)
        self.assertAlmostEqual(cpu, 50.0)

    def test_ramp(self):
        session = filled(t.TelemetrySample(i * 10 * MS, 2.0 * i, 1.0 * i) for i in range(101))
        gpu, cpu = session.energy_delta(0, 1000 * MS)
        self.assertAlmostEqual(gpu, 100.0)
        self.assertAlmostEqual(cpu, 50.0)

    def test_one_sample_is_no_span(self):
        self.assertEqual(filled([t.TelemetrySample(0, 100.0)]).energy_delta(0, 1000 * MS), (0.0, 0.0))
        self.assertEqual(t.TelemetrySession().avg_power(0, 1), (0.0, 0.0))

    def test_windows(self):
        session = filled(t.TelemetrySample(i * 1000, float(i)) for i in range(10))
        got = session.window(2000, 6000)
        self.assertEqual([s.timestamp_ns for s in got], [2000, 3000, 4000, 5000, 6000])
        self.assertIsInstance(got[0], t.TelemetrySample)

    def test_the_newest_are_kept(self):
        session = filled((t.TelemetrySample(i, float(i)) for i in range(5)), buffer_size=3)
        self.assertEqual([s.gpu_power_w for s in session.window(0, 10)], [2.0, 3.0, 4.0])
        self.assertEqual(len(session._buffer), 3)
        session._buffer.clear()
        self.assertEqual(len(session._buffer), 0)

    def test_mean_power(self):
        session = filled([t.TelemetrySample(0, 100.0, 40.0), t.TelemetrySample(1000, 200.0, 60.0)])
        self.assertEqual(session.avg_power(0, 1000), (150.0, 50.0))

    def test_edges_between_readings(self):
        session = filled(t.TelemetrySample(i * 100 * MS, 300.0) for i in range(11))
        self.assertAlmostEqual(session.energy_delta(140 * MS, 260 * MS)[0], 36.0)
        self.assertAlmostEqual(session.energy_delta(110 * MS, 130 * MS)[0], 6.0)  # 20 ms between two readings


class Phases(unittest.TestCase):
    def setUp(self):
        self.session = filled(t.TelemetrySample(i * 100 * MS, 300.0, 30.0) for i in range(11))

    def test_a_phase(self):
        phase = t.compute_phase_metrics(self.session, 0, 1000 * MS, 100)
        self.assertEqual(set(phase), {"energy_j", "cpu_energy_j", "mean_power_w", "cpu_mean_power_w", "duration_s",
                                      "energy_per_token_j", "tokens"})
        self.assertAlmostEqual(phase["energy_j"], 300.0)
        self.assertAlmostEqual(phase["cpu_energy_j"], 30.0)
        self.assertAlmostEqual(phase["energy_per_token_j"], 3.0)
        self.assertAlmostEqual(phase["mean_power_w"], 300.0)
        self.assertEqual((phase["duration_s"], phase["tokens"]), (1.0, 100))

    def test_no_tokens(self):
        self.assertEqual(t.compute_phase_metrics(self.session, 0, 1000 * MS, 0)["energy_per_token_j"], 0.0)

    def test_power_of_a_span_without_readings(self):
        self.assertAlmostEqual(t.compute_phase_metrics(self.session, 110 * MS, 130 * MS, 1)["mean_power_w"], 300.0)

    def test_split(self):
        prefill, decode = t.split_at_ttft(self.session, 0, 500 * MS, 1000 * MS, 64, 128)
        self.assertAlmostEqual(prefill["energy_j"], 150.0)
        self.assertAlmostEqual(decode["energy_j"], 150.0)
        self.assertEqual((prefill["duration_s"], decode["duration_s"], prefill["tokens"], decode["tokens"]), (0.5, 0.5, 64, 128))
        prefill, decode = t.split_at_ttft(self.session, 0, 140 * MS, 980 * MS, 1, 1)
        self.assertAlmostEqual(prefill["energy_j"] + decode["energy_j"], 294.0)
        self.assertAlmostEqual(prefill["energy_j"], 42.0)

    def test_a_first_token_after_the_end(self):
        prefill, decode = t.split_at_ttft(self.session, 0, 5000 * MS, 1000 * MS, 1, 1)
        self.assertAlmostEqual(prefill["energy_j"], 300.0)
        self.assertEqual((decode["energy_j"], decode["duration_s"]), (0.0, 0.0))


class Running(unittest.TestCase):
    def test_without_a_monitor_nothing_runs(self):
        before = threading.active_count()
        with t.TelemetrySession() as session:
            self.assertEqual(threading.active_count(), before)
            self.assertEqual(session.window(0, time.time_ns()), [])

    def test_reads_in_the_background(self):
        board = Board(watts=100.0)
        with t.TelemetrySession(board, interval_ms=5) as session:
            begin = None
            for _ in range(10):
                self.assertTrue(board.readings.acquire(timeout=20))
                begin = begin or time.time_ns()
            end = time.time_ns()
            gpu, cpu = session.energy_delta(begin, end)
            seconds = (end - begin) / 1e9
        # The clocks of the session and of time.time_ns() are one but for a step of the latter.
        self.assertAlmostEqual(gpu, 100.0 * seconds, delta=100.0 * 0.002 + 0.02 * gpu)
        self.assertAlmostEqual(cpu, gpu / 2)
        self.assertGreaterEqual(len(session.window(begin, end)), 5)
        self.assertEqual(session.window(begin, end)[0].gpu_temp_c, 60.0)

    def test_a_span_up_to_now_is_closed_by_a_reading(self):
        board = Board()
        with t.TelemetrySession(board, interval_ms=60_000) as session:  # but for the first, the thread reads no more
            self.assertTrue(board.readings.acquire(timeout=20))
            while not len(session._buffer):
                time.sleep(0)
            first = session.window(0, 1 << 62)[0].timestamp_ns
            while session._now_ns() < first + 20 * MS:
                time.sleep(0)
            end = first + 20 * MS
            self.assertAlmostEqual(session.energy_delta(first, end)[0], 6.0)

    def test_stop_and_start_again(self):
        board = Board()
        session = t.TelemetrySession(board, interval_ms=1)
        for _ in range(2):
            session.start()
            session.start()
            self.assertTrue(board.readings.acquire(timeout=20))
            session.stop()
            session.stop()
            while board.readings.acquire(blocking=False):
                pass
            self.assertFalse(board.readings.acquire(timeout=0.02))

    def test_a_monitor_that_fails_ends_nothing(self):
        board = Board(fails=True)
        with t.TelemetrySession(board, interval_ms=1) as session:
            for _ in range(5):
                self.assertTrue(board.readings.acquire(timeout=20))
            self.assertEqual(session.energy_delta(0, time.time_ns()), (0.0, 0.0))

    def test_readers_with_a_concurrent_writer(self):
        board = Board(watts=100.0)
        torn = []

        def read(session):
            for _ in range(300):
                for sample in session.window(0, 1 << 62):
                    if (sample.gpu_power_w, sample.cpu_power_w, sample.gpu_temp_c) != (100.0, 50.0, 60.0):
                        torn.append(sample)
                session.energy_delta(0, time.time_ns())

        with t.TelemetrySession(board, interval_ms=1, buffer_size=50) as session:
            threads = [threading.Thread(target=read, args=(session,)) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(torn, [])


PAGE = """\
# TYPE vllm:time_to_first_token_seconds histogram
""" + "".join(
    f'vllm:time_to_first_token_seconds_bucket{{engine="0",model_name="m",le="{le}"}} {n}\n'
    for le, n in (("0.01", 5), ("0.025", 15), ("0.05", 40), ("0.1", 80), ("0.25", 95), ("0.5", 100), ("+Inf", 100))
) + "# TYPE vllm:e2e_request_latency_seconds histogram\n" + "".join(
    f'vllm:e2e_request_latency_seconds_bucket{{engine="0",model_name="m",le="{le}"}} {n}\n'
    for le, n in (("0.1", 10), ("0.5", 50), ("1.0", 80), ("2.5", 95), ("5.0", 100), ("+Inf", 100))
) + """\
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.42
vllm:num_requests_waiting{engine="0",model_name="m"} 3
"""


@contextlib.contextmanager
def page(status=200, body=PAGE, content_type="text/plain; version=0.0.4; charset=utf-8"):
    """Serves a page at /metrics; the address of the server is the value of the with statement."""
    with HttpStub(lambda request, _: (status if request.path == "/metrics" else 404, {"Content-Type": content_type}, body.encode())) as stub:
        yield stub.origin


class Scraper(unittest.TestCase):
    def test_a_page_with_labels(self):
        with page() as url:
            got = t.VLLMMetricsScraper(url).scrape()
            self.assertEqual(t.VLLMMetricsScraper(url + "/").scrape(), got)
        for name, expected in (("ttft_p50", 0.0625), ("ttft_p95", 0.25), ("ttft_p99", 0.45), ("e2e_latency_p50", 0.5),
                               ("e2e_latency_p95", 2.5), ("gpu_cache_usage_pct", 0.42), ("queue_depth", 3.0)):
            self.assertAlmostEqual(getattr(got, name), expected, msg=name)

    def test_a_page_with_fewer_families(self):
        with page(body="vllm:num_requests_waiting 4\n") as url:
            self.assertEqual(t.VLLMMetricsScraper(url).scrape(), t.VLLMMetrics(queue_depth=4.0))

    def test_errors_are_zeros(self):
        for server in (page(status=500), page(status=404), page(body="<html>", content_type="text/html"),
                       page(body="\0\0\0", content_type="application/octet-stream"), page(body="")):
            with server as url:
                self.assertEqual(t.VLLMMetricsScraper(url).scrape(), t.VLLMMetrics())
        self.assertEqual(t.VLLMMetricsScraper(url).scrape(), t.VLLMMetrics())  # the server is closed
        for host in ("file:///etc", "localhost", "http://[", "http://127.0.0.1:99999999", ""):
            self.assertEqual(t.VLLMMetricsScraper(host).scrape(), t.VLLMMetrics(), host)


if __name__ == "__main__":
    unittest.main()
