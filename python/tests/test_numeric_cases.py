"""The numbers that OpenJarvis' and PyDotCompute's own tests state, through Python; python/src/compat/*_test.cc checks the same in C++.

Boards whose readings must be a second apart are tested in C++ only, whose tests control the clock; Apple's library is not
simulated. The rest uses sources that change only on request.
"""
import itertools
import math
import sqlite3
import threading
import unittest

import gpulens
from engines import Engine
from gpulens.compat import openjarvis as t
from gpulens.compat import pydotcompute as p
from gpulens.compat.openjarvis.flops import estimate_flops_no_kv_cache
from gpulens.ring.queues import BoundedQueue, Full
from monitors import FixedMonitor
from telemetry_files import InAFolder, record
from test_compat_session import filled, page
from test_energy_source import Scripted, wait_until

SECOND = 1_000_000_000


class Cases(unittest.TestCase):
    def check(self, cases, places=9):
        for name, got, wanted in cases:
            with self.subTest(name):
                self.assertAlmostEqual(got, wanted, places=places)


class Statistics(Cases):
    def test_latencies_between_tokens(self):
        five = dict(min=1.0, max=4.0, mean=2.5, p50=2.5, p90=3.7, p95=3.85, p99=3.97)
        ten = dict(mean=5.5, p50=5.5, p90=9.1)
        for arrivals, wanted in (
            ([0, 1, 3, 6, 10], five), (list(itertools.accumulate(range(11))), ten),
            ([0, 10], dict.fromkeys(five, 10.0)), ([5.0 * i for i in range(11)], dict.fromkeys(five, 5.0)),
        ):  # fmt: skip
            compat = t.compute_itl_stats(arrivals)
            native = gpulens.inter_token_latency([ms / 1e3 for ms in arrivals])
            self.check((key, compat[key + "_ms"], value) for key, value in wanted.items())
            self.check(((key, getattr(native, key), value / 1e3) for key, value in wanted.items()), places=8)
        for nothing in ([], [7.0]):
            self.assertEqual(set(t.compute_itl_stats(nothing).values()), {0.0})
            self.assertEqual(gpulens.inter_token_latency(nothing).n, 0)

    def test_percentiles_and_spread(self):
        for values, share, wanted in ((range(1, 101), 0.9, 90.1), ([10, 20], 0.5, 15), ([42], 0.99, 42), ([5, 3, 1, 4, 2], 0.5, 3)):
            self.assertAlmostEqual(gpulens.percentile(values, share), wanted)
        of = gpulens.describe([10, 20, 30, 40, 50])
        self.check((("mean", of.mean, 30), ("median", of.p50, 30), ("p90", of.p90, 46), ("p95", of.p95, 48), ("p99", of.p99, 49.6)))
        self.assertAlmostEqual(of.std, 15.811, places=3)

    def test_steady_state(self):
        for config, values, at in (
            (t.SteadyStateConfig(2, 3, 0.05, 1), (50, 60, 100, 101, 100), 5), (t.SteadyStateConfig(), [7.0] * 20, 12),
            (t.SteadyStateConfig(3, 3, 0.05, 2), [7.0] * 20, 7), (t.SteadyStateConfig(2, 3, 0.01, 1), [10.0, 1000.0] * 50, 0),
        ):  # fmt: skip
            compat = t.SteadyStateDetector(config)
            native = gpulens.SteadyStateDetector(
                warmup=config.warmup_samples, window=config.window_size, consecutive=config.min_steady_samples, cv_below=config.cv_threshold)
            for detector in (compat, native):
                steady = [detector.record(float(value)) for value in values]
                self.assertEqual(steady.index(True) + 1 if any(steady) else 0, at)
        detector = t.SteadyStateDetector(t.SteadyStateConfig(warmup_samples=3))
        for i in range(7):
            detector.record(float(i))
        self.assertEqual((detector.result.warmup_samples, detector.result.steady_state_samples), (3, 4))


class Efficiency(Cases):
    def test_flops_and_utilization(self):
        total, each = estimate_flops_no_kv_cache("qwen3:8b", 100, 50)
        e, two = t.compute_efficiency(7, None, 312, 2039, 100), t.compute_efficiency(7, None, 312, 2039, 100, num_gpus=2)
        moe = t.compute_efficiency(47, 13, 312, 2039, 50)
        self.check((
            ("qwen3:8b", t.estimate_flops("qwen3:8b", 100, 50)[0], 2.4e12), ("each", t.estimate_flops("qwen3:8b", 100, 50)[1], 16e9),
            ("llama", t.estimate_flops("llama-3.1-8b-instruct", 10, 10)[0], 3.2e11), ("no cache", total, 1.812e14), ("each", each, 1.812e14 / 150),
            ("flops", e.actual_flops, 1.4e12), ("GB/s", e.actual_bandwidth_gb_s, 1400), ("47 B", moe.actual_flops, 1.3e12),
            ("its GB/s", moe.actual_bandwidth_gb_s, 4700), ("two, MFU", two.mfu_pct, e.mfu_pct / 2), ("two, MBU", two.mbu_pct, e.mbu_pct / 2),
            ("half a byte", t.compute_efficiency(7, None, 312, 2039, 100, bytes_per_param=0.5).actual_bandwidth_gb_s, 350),
            ("IPJ", t.compute_efficiency(7, None, 312, 2039, 100, accuracy=0.8, energy_joules=50).ipj, 0.016),
            ("unknown", t.compute_mfu(1e12, 1.0, "abacus"), 0), ("0 s", t.compute_mfu(1e12, 0.0, "H100"), 0),
        ))  # fmt: skip
        self.assertAlmostEqual(e.mfu_pct, 0.44872, places=5)
        self.assertAlmostEqual(e.mbu_pct, 68.661, places=3)
        # A ratio, of 989.4 TFLOPS where the original has 989.
        self.assertAlmostEqual(t.compute_mfu(100e12, 1.0, "H100"), 0.101112, delta=1e-4)
        self.assertAlmostEqual(gpulens.mfu(100e12, 1.0, peak_flops=989e12, gpu_count=2), 0.050556, places=6)

    def test_look_ups(self):
        a100 = t.lookup_gpu_spec("A100-SXM")
        self.assertEqual((a100.tflops_fp16, a100.bandwidth_gb_s, a100.tdp_watts), (312, 2039, 400))
        self.assertAlmostEqual(t.lookup_gpu_spec("NVIDIA H100-SXM 80GB").tflops_fp16, 990, delta=1)
        self.assertAlmostEqual(t.lookup_gpu_spec("nvidia rtx 4090").tflops_fp16, 165, delta=0.5)
        self.assertIsNone(t.lookup_gpu_spec("Some GPU"))

    def test_the_page_of_vllm(self):
        with page() as url:
            m = t.VLLMMetricsScraper(url).scrape()
        self.check((("p50", m.ttft_p50, 0.0625), ("p95", m.ttft_p95, 0.25), ("p99", m.ttft_p99, 0.45), ("e2e p50", m.e2e_latency_p50, 0.5),
                    ("e2e p95", m.e2e_latency_p95, 2.5), ("cache", m.gpu_cache_usage_pct, 0.42), ("queue", m.queue_depth, 3)))  # fmt: skip


class Turning(Scripted):
    """A board that reports the given readings in turn, repeatedly."""

    def __init__(self, *reported):
        super().__init__([1.0])
        self.turns = itertools.cycle(reported)

    def read(self, device):
        self.values[0] = next(self.turns)
        return super().read(device)


class Energy(Cases):
    def test_counters(self):
        for vendor, parts, before, after, wanted in (
            ("nvidia", ["gpu"], [5.0], [8.0], (3.0, None, None)), ("nvidia", ["gpu", "gpu"], [2.0, 3.0], [5.0, 7.0], (7.0, None, None)),
            ("amd", ["gpu"], [1000 * 15.3e-6], [2000 * 15.3e-6], (0.0153, None, None)),
            ("cpu_rapl", ["cpu", "dram"], [0.5, 0.1], [0.6, 0.12], (0.12, 0.1, 0.02)),
            ("cpu_rapl", ["cpu", "dram"], [1e-3, 2e-3], [5e-3, 3e-3], (0.005, 0.004, 0.001)),
            ("nvidia", ["gpu", "cpu", "dram"], [0.0, 0.0, 0.0], [3.0, 1.5, 0.5], (3.0, 1.5, 0.5)),
        ):  # fmt: skip
            result = Scripted(before, vendor=vendor, parts=parts).measure(after)
            for got, joules in zip((result.energy_joules, result.cpu_joules, result.dram_joules), wanted):
                if joules is not None:
                    self.assertAlmostEqual(got, joules, places=6, msg=parts)

    def test_readings(self):
        def reported(*numbers):
            names = ("watts", "utilization_ratio", "memory_used_bytes", "temperature_celsius")
            return dict(zip(names, (number * scale for number, scale in zip(numbers, (1, 0.01, 2.0**30, 1)))))

        def ticks(source):
            with gpulens.EnergyMonitor(sources=[source], interval_seconds=0.002).window() as window:
                before = source.reads[0]
                wait_until(lambda: source.reads[0] > before + 90)
            return window.result.ticks

        peaks = ticks(Turning(reported(200, 60, 10, 55), reported(400, 95, 20, 80), reported(300, 70, 15, 65)))
        means = ticks(Turning(reported(100, 40, 8, 50), reported(200, 60, 12, 60), reported(300, 80, 16, 70)))
        self.check((("W", peaks.peak_power_watts, 400), ("ratio", peaks.peak_utilization_ratio, 0.95),
                    ("GiB", peaks.peak_memory_used_bytes / 2**30, 20), ("C", peaks.peak_temperature_celsius, 80)))  # fmt: skip
        for got, wanted in ((means.mean_power_watts, 200), (means.mean_utilization_ratio, 0.6),
                            (means.mean_memory_used_bytes / 2**30, 12), (means.mean_temperature_celsius, 60)):  # fmt: skip
            self.assertAlmostEqual(got / wanted, 1, delta=0.05)  # whole turns but for the last
        boards = Scripted([1.0, 1.0], values=[reported(200, 80, 10, 60), reported(300, 90, 12, 70)]).measure([2.0, 2.0]).ticks
        self.check((("W", boards.mean_power_watts, 500), ("ratio", boards.mean_utilization_ratio, 0.85),
                    ("GiB", boards.mean_memory_used_bytes / 2**30, 22), ("C", boards.mean_temperature_celsius, 65)))  # fmt: skip

    def test_sessions(self):
        def of(*watts, every=SECOND, **options):
            return filled((t.TelemetrySample(i * every, *pair) for i, pair in enumerate(watts)), **options)

        whole = (0, 10 * SECOND)
        steady, ramp = of(*[(100.0, 50.0)] * 11, every=SECOND // 10), of((0.0, 0.0), (200.0, 100.0))
        two = of((100.0, 40.0), (200.0, 60.0))
        self.check((
            ("300 W, 11 readings", of(*[(300.0,)] * 11).energy_delta(*whole)[0], 3000), ("100 W", steady.energy_delta(*whole)[0], 100),
            ("0 to 400 W", of(*((100.0 * i,) for i in range(5))).energy_delta(*whole)[0], 800), ("50 W", steady.energy_delta(*whole)[1], 50),
            ("two boards that rise", of((200.0,), (400.0,), (600.0,)).energy_delta(*whole)[0], 800),
            ("two boards", of((500.0,), (500.0,)).energy_delta(*whole)[0], 500), ("one", of((100.0,)).energy_delta(*whole)[0], 0),
            ("to 200 W", ramp.energy_delta(*whole)[0], 100), ("to 100 W", ramp.energy_delta(*whole)[1], 50),
            ("mean", two.avg_power(*whole)[0], 150), ("of the processor", two.avg_power(*whole)[1], 50),
            ("of three", of((100.0,), (200.0,), (150.0,)).avg_power(*whole)[0], 150),
            ("window", len(of(*[(1.0,)] * 10, every=1000).window(2000, 6000)), 5), ("newest", len(of(*[(1.0,)] * 5, buffer_size=3).window(*whole)), 3),
        ))  # fmt: skip

    def test_phases(self):
        session = filled(t.TelemetrySample(i * SECOND // 10, 200.0, 100.0) for i in range(11))
        whole = t.compute_phase_metrics(session, 0, SECOND, 100)
        self.assertAlmostEqual(whole["energy_j"] + whole["cpu_energy_j"], 300.0)
        self.assertAlmostEqual((whole["energy_j"] + whole["cpu_energy_j"]) / whole["tokens"], 3.0)
        ramp = filled([t.TelemetrySample(0), t.TelemetrySample(SECOND, 200.0, 100.0)])
        ten = t.compute_phase_metrics(ramp, 0, SECOND, 10)
        self.assertAlmostEqual((ten["energy_j"] + ten["cpu_energy_j"]) / 10, 15.0)
        prefill, decode = t.split_at_ttft(session, 0, SECOND // 2, SECOND, 64, 128)
        self.assertEqual((prefill["duration_s"], decode["duration_s"], prefill["tokens"], decode["tokens"]), (0.5, 0.5, 64, 128))
        self.assertEqual(t.compute_phase_metrics(session, 0, SECOND, 0)["energy_per_token_j"], 0.0)

    def test_batches(self):
        def batch(joules, *tokens):
            made = t.EnergyBatch(FixedMonitor(joules=joules) if joules else None)
            with made.sample() as context:
                for each in tokens:
                    context.record_request(each)
            return made.metrics

        three, given = batch(None, 50, 30, 20), t.EnergyBatch()
        self.assertEqual((three.total_requests, three.total_tokens), (3, 100))
        with given.sample() as context:
            context.record_request(1, energy_joules=1.0)
            context.record_request(1, energy_joules=2.0)
        self.check((("1 J and 2 J", given.metrics.total_energy_joules, 3), ("20 J", batch(20.0, 200).energy_per_token_joules, 0.1),
                    ("15 J", batch(15.0, 1, 1, 1).energy_per_request_joules, 5),
                    ("1 J", batch(1.0, *[10] * 100).energy_per_token_joules, 0.001)))  # fmt: skip


class Records(InAFolder):
    def test_aggregates(self):
        a = self.stored(
            record(model_id="m1", prompt_tokens=10, completion_tokens=5, total_tokens=15, cost_usd=0.001, gpu_utilization_pct=80.0, energy_joules=10.0,
                   tokens_per_joule=10.0),
            record(model_id="m1", gpu_utilization_pct=90.0, energy_joules=20.0, tokens_per_joule=20.0),
            record(model_id="m2", prompt_tokens=20, completion_tokens=10, total_tokens=30, cost_usd=0.002, gpu_utilization_pct=60.0,
                   energy_joules=30.0, tokens_per_joule=30.0))  # fmt: skip
        s = a.summary()
        self.assertEqual(([(m.model_id, m.call_count) for m in s.per_model], s.total_tokens), ([("m1", 2), ("m2", 1)], 45))
        self.assertAlmostEqual(s.total_cost, 0.003)
        self.assertAlmostEqual(s.avg_gpu_utilization_pct, 76.67, places=2)
        self.assertAlmostEqual(s.total_energy_joules, 60)
        (whole,) = gpulens.InferenceStore(self.path, read_only=True).summary(warmup=True)
        self.assertAlmostEqual(whole.call_means.tokens_per_joule, 20)

    def test_throughput_and_a_bench_of_three(self):
        a = self.stored(*(record(model_id=m, throughput_tok_per_sec=r, energy_joules=5.0) for m, r in (("m1", 100.0), ("m1", 120.0), ("m2", 80.0))))
        self.assertAlmostEqual(a.summary().avg_throughput_tok_per_sec, 100)
        self.assertAlmostEqual(a.summary().total_energy_joules, 15)

    def test_of_the_instrumented_engine(self):
        store, bus = t.TelemetryStore(self.path), t.EventBus()
        store.subscribe_to_bus(bus)
        for tokens in (50, 0):
            engine = t.InstrumentedEngine(Engine(result={"usage": {"completion_tokens": tokens}}), bus, energy_monitor=FixedMonitor(10.0, 250.0))
            engine.generate([], model=f"of {tokens}")
        store.close()
        fifty, none = self.rows()
        self.assertAlmostEqual(fifty["energy_per_output_token_joules"], 0.2)
        self.assertAlmostEqual(fifty["throughput_per_watt"], fifty["throughput_tok_per_sec"] / 250)
        self.assertEqual(none["energy_per_output_token_joules"], 0.0)

    def test_the_store(self):
        store = t.TelemetryStore(self.path, batch_size=2, flush_interval_seconds=0)
        store.record(record())
        self.assertEqual(len(self.rows()), 0)
        store.record(record())
        self.wait_for(lambda: len(self.rows()) == 2)
        threads = [threading.Thread(target=lambda: [store.record(record()) for _ in range(4)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store.close()
        store.close()
        self.assertEqual(len(self.rows()), 2 + 32)
        database = sqlite3.connect(self.path)
        self.assertEqual(database.execute("PRAGMA journal_mode").fetchone(), ("wal",))
        database.close()


class Ring(Cases):
    def test_latencies(self):
        of = p.RingKernelTelemetry
        for reported, n, total, least, most in (([1000], 1, 1000, 1000, 1000), ([1000, 2000, 500], 3, 3500, 500, 2000), ([100] * 1000, 1000, 100_000, 100, 100),
                                            ([0], 1, 0, 0, 0), ([0, 10**9], 2, 10**9, 0, 10**9)):  # fmt: skip
            compat, native = of("k"), gpulens.ring.TelemetryCollector(registry=gpulens.Registry())
            for one in reported:
                compat.record_message(one)
                native.record_processed("k", one * 1e-9)
            self.assertEqual((compat.messages_processed, compat.total_latency_ns, compat.min_latency_ns, compat.max_latency_ns), (n, total, least, most))
            service = native.get_telemetry("k").service_seconds
            self.check((("n", service.n, n), ("sum", service.sum, total * 1e-9), ("min", service.min, least * 1e-9), ("max", service.max, most * 1e-9)), 15)
        self.check((
            ("10 in 1,000,000 ns", of("k", messages_processed=10, total_latency_ns=1_000_000).avg_latency_ns, 100_000),
            ("4 in 4,000,000 ns", of("k", messages_processed=4, total_latency_ns=4_000_000).avg_latency_ms, 1), ("none", of("k").avg_latency_ns, 0),
            ("100 in 10 s", of("k", messages_processed=100, uptime_seconds=10).throughput, 10), ("no uptime", of("k", messages_processed=100).throughput, 0),
            ("50", of("k", messages_processed=50, messages_dropped=2, uptime_seconds=10).to_dict()["throughput"], 5),
            ("GPU", p.GPUInfo(memory_used=250, memory_total=1000).memory_utilization, 0.25), ("no GPU", p.GPUInfo().memory_utilization, 0),
        ))  # fmt: skip

    def test_collector(self):
        collector = p.TelemetryCollector()
        one, two = collector.register_kernel("k1"), collector.register_kernel("k2")
        self.assertIs(collector.register_kernel("k1"), one)
        for latency in (1000, 2000):
            one.record_message(latency)
        one.record_drop()
        two.record_message(3000)
        two.record_error("First error")
        summary = collector.get_summary()
        self.assertEqual([summary[key] for key in ("kernel_count", "total_messages_processed", "total_messages_dropped", "total_errors")], [2, 3, 1, 1])
        self.assertLessEqual({"uptime_seconds", "gpu_utilization"}, set(summary))
        two.record_error("Second error")
        one.record_drop()
        self.assertEqual((one.messages_dropped, two.error_count, two.last_error), (2, 2, "Second error"))
        plain = p.RingKernelTelemetry("k")
        plain.record_message(5)
        plain.record_drop()
        plain.record_error("e")
        plain.reset()
        self.assertEqual(plain, p.RingKernelTelemetry("k"))
        collector.unregister_kernel("unknown")
        for i in range(98):
            collector.register_kernel(f"more {i}")
        self.assertEqual(collector.get_summary()["kernel_count"], 100)

    def test_queues(self):
        def queue(limit=8, when_full="reject"):
            drops = []
            return BoundedQueue(limit, when_full, lambda *drop: drops.append(drop)), drops

        for items, order in (((("a", 50), ("b", 200), ("c", 100)), "bca"), ((("A", 100), ("B", 200), ("C", 100), ("D", 150)), "BDAC"),
                             ((("x", 7), ("y", 7), ("z", 7)), "xyz")):  # fmt: skip
            q, _ = queue()
            for item, priority in items:
                q.put_now(item, priority)
            self.assertEqual("".join(q.get_now() for _ in items), order)
        q, _ = queue(2)
        q.put_now(1, 128)
        q.put_now(2, 128)
        with self.assertRaises(Full):
            q.put_now(3, 128)
        q, drops = queue(2, "drop_oldest")
        for i in range(3):
            q.put_now(i, 128)
        self.assertEqual((q.size, drops), (2, [("oldest", 0)]))
        q, _ = queue()
        for i in range(5):
            q.put_now(i, 128)
        for _ in range(3):
            q.get_now()
        self.assertEqual((q.size, q.peak, q.clear()), (2, 5, 2))


class RingOff(unittest.IsolatedAsyncioTestCase):
    async def test_telemetry_that_is_off(self):
        async with p.RingKernelRuntime(enable_telemetry=False) as runtime:
            self.assertIsNone(runtime.get_telemetry("k"))
            self.assertIn("kernel_count", runtime.get_summary())
        off = gpulens.ring.TelemetryCollector(enabled=False)
        self.assertEqual(off.get_all_telemetry(), {})
        self.assertTrue(math.isnan(gpulens.describe([]).mean))


if __name__ == "__main__":
    unittest.main()
