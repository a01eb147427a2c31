"""gpulens.compat.openjarvis: its names, signatures and known numbers; what needs no store and no sensor."""
import dataclasses
import enum
import inspect
import math
import threading
import unittest
from unittest import mock

from gpulens.compat import openjarvis as t
from gpulens.compat.openjarvis.flops import MODEL_PARAMS_B, estimate_flops_no_kv_cache
from monitors import FixedMonitor

# As its document gives them: the fields in order, and the default of most.
RECORDS = {
    "AggregatedStats": "total_calls=0 total_tokens=0 total_cost total_latency total_energy_joules avg_throughput_tok_per_sec"
    " avg_gpu_utilization_pct avg_energy_per_output_token_joules avg_throughput_per_watt total_prefill_energy_joules"
    " total_decode_energy_joules avg_mean_itl_ms avg_median_itl_ms avg_p95_itl_ms per_model=[] per_engine=[]",
    "EngineStats": "engine='' call_count=0 total_tokens=0 total_latency avg_latency total_cost avg_ttft total_energy_joules"
    " avg_gpu_utilization_pct avg_throughput_tok_per_sec avg_tokens_per_joule avg_energy_per_output_token_joules"
    " avg_throughput_per_watt total_prefill_energy_joules total_decode_energy_joules avg_mean_itl_ms avg_median_itl_ms"
    " avg_p95_itl_ms",
    "ModelStats": "model_id='' call_count=0 total_tokens=0 prompt_tokens=0 completion_tokens=0 total_latency avg_latency total_cost"
    " avg_ttft total_energy_joules avg_gpu_utilization_pct avg_throughput_tok_per_sec avg_tokens_per_joule"
    " avg_energy_per_output_token_joules avg_throughput_per_watt total_prefill_energy_joules total_decode_energy_joules"
    " avg_mean_itl_ms avg_median_itl_ms avg_p95_itl_ms",
    "GpuSample": "energy_joules mean_power_watts peak_power_watts mean_utilization_pct peak_utilization_pct mean_memory_used_gb"
    " peak_memory_used_gb mean_temperature_c peak_temperature_c duration_seconds num_snapshots=0",
    "GpuSnapshot": "power_watts! utilization_pct! memory_used_gb! temperature_c! device_id=0",
    "EfficiencyMetrics": "mfu_pct mbu_pct actual_flops peak_flops actual_bandwidth_gb_s peak_bandwidth_gb_s ipj",
    "VLLMMetrics": "ttft_p50 ttft_p95 ttft_p99 gpu_cache_usage_pct e2e_latency_p50 e2e_latency_p95 queue_depth",
    "EnergySample": "energy_joules mean_power_watts peak_power_watts duration_seconds num_snapshots=0 mean_utilization_pct"
    " peak_utilization_pct mean_memory_used_gb peak_memory_used_gb mean_temperature_c peak_temperature_c vendor='' device_name=''"
    " device_count=0 energy_method='' cpu_energy_joules gpu_energy_joules dram_energy_joules ane_energy_joules",
    "BatchMetrics": "batch_id='' total_requests=0 total_tokens=0 total_energy_joules energy_per_token_joules"
    " energy_per_request_joules mean_power_watts mean_throughput_tok_per_sec prefill_energy_joules decode_energy_joules"
    " per_request_energy=[]",
    "SteadyStateConfig": "warmup_samples=5 window_size=5 cv_threshold=0.05 min_steady_samples=3 metric='throughput'",
    "SteadyStateResult": "total_samples=0 warmup_samples=0 steady_state_samples=0 steady_state_reached=False warmup_throughputs=[]"
    " warmup_energies=[] steady_throughputs=[] steady_energies=[]",
    "TelemetrySample": "timestamp_ns! gpu_power_w cpu_power_w gpu_energy_j cpu_energy_j gpu_util_pct gpu_temp_c gpu_mem_gb",
}


def reported(record):
    """The fields of a dataclass in the words of RECORDS."""
    out = []
    for field in dataclasses.fields(record):
        if field.default_factory is not dataclasses.MISSING:
            out.append(f"{field.name}={field.default_factory()!r}")
        elif field.default is dataclasses.MISSING:
            out.append(field.name + "!")
        else:
            out.append(field.name + ("" if repr(field.default) == "0.0" else f"={field.default!r}"))
    return " ".join(out)


def parameters(function):
    return [(p.name, p.default) for p in inspect.signature(function).parameters.values() if p.name != "self"]


class Documented(unittest.TestCase):
    def test_records(self):
        for name, fields in RECORDS.items():
            self.assertEqual(reported(getattr(t, name)), fields, name)

    def test_signatures(self):
        none = inspect.Parameter.empty
        self.assertEqual(parameters(t.compute_efficiency), [
            ("param_count_b", none), ("active_params_b", none), ("gpu_peak_tflops", none), ("gpu_peak_bandwidth_gb_s", none),
            ("tokens_per_sec", none), ("num_gpus", 1), ("energy_joules", 0.0), ("accuracy", 0.0), ("bytes_per_param", 2.0)])
        self.assertEqual(parameters(t.compute_mfu), [("flops", none), ("duration_s", none), ("gpu_name", none), ("num_gpus", 1)])
        self.assertEqual(parameters(t.estimate_flops), [("model", none), ("input_tokens", none), ("output_tokens", none)])
        self.assertEqual(parameters(t.TelemetrySession), [("monitor", None), ("interval_ms", 100), ("buffer_size", 100000)])
        self.assertEqual(parameters(t.EnergyBatch), [("energy_monitor", None), ("batch_id", None)])
        self.assertEqual(parameters(t.compute_phase_metrics), [(n, none) for n in ("session", "start_ns", "end_ns", "tokens")])
        self.assertEqual([n for n, _ in parameters(t.split_at_ttft)],
                         ["session", "start_ns", "ttft_ns", "end_ns", "input_tokens", "output_tokens"])
        self.assertEqual(parameters(t.VLLMMetricsScraper), [("host", "http://localhost:8000")])
        self.assertEqual(parameters(t.SteadyStateDetector), [("config", None)])

    def test_vendors(self):
        self.assertEqual([v.value for v in t.EnergyVendor], ["nvidia", "amd", "apple", "cpu_rapl"])
        self.assertTrue(issubclass(t.EnergyVendor, str) and issubclass(t.EnergyVendor, enum.Enum))
        self.assertEqual(t.EnergyVendor("amd"), "amd")

    def test_the_record_of_a_call(self):
        fields = dataclasses.fields(t.TelemetryRecord)
        self.assertEqual(len(fields), 41)
        self.assertEqual([f.name for f in fields[:4]], ["timestamp", "model_id", "prompt_tokens", "prompt_tokens_evaluated"])
        record = t.TelemetryRecord(timestamp=1.0, model_id="m")
        self.assertEqual((record.metadata, record.token_counting_version, record.is_warmup), ({}, None, False))

    def test_validity_is_a_field_of_its_own(self):
        self.assertEqual(t.GpuSample(), t.GpuSample(0.0))
        self.assertEqual((t.GpuSample().validity, t.EnergySample().reason), ("running", ""))


class InterTokenLatency(unittest.TestCase):
    def test_known_numbers(self):
        self.assertEqual(t.compute_itl_stats([0, 1, 3, 6, 10]), {
            "p50_ms": 2.5, "p90_ms": 3.7, "p95_ms": 3.85, "p99_ms": 3.97, "mean_ms": 2.5, "min_ms": 1.0, "max_ms": 4.0})
        self.assertEqual(set(t.compute_itl_stats([0, 10]).values()), {10.0})
        self.assertEqual(set(t.compute_itl_stats([5.0 * i for i in range(11)]).values()), {5.0})
        arrivals = [sum(range(i + 1)) for i in range(11)]  # latencies 1 to 10
        stats = t.compute_itl_stats(arrivals)
        self.assertEqual((stats["mean_ms"], stats["p50_ms"], stats["p90_ms"]), (5.5, 5.5, 9.1))

    def test_of_nothing(self):
        for arrivals in ([], [7.0]):
            self.assertEqual(set(t.compute_itl_stats(arrivals).values()), {0.0})
            self.assertEqual(len(t.compute_itl_stats(arrivals)), 7)


class Flops(unittest.TestCase):
    def test_of_models_by_their_names(self):
        self.assertEqual(t.estimate_flops("qwen3:8b", 100, 50), (2.4e12, 16e9))
        self.assertEqual(t.estimate_flops("llama-3.1-8b-instruct", 10, 10)[0], 3.2e11)
        self.assertEqual(t.estimate_flops("qwen3:8b", 0, 0), (0.0, 0.0))
        for model, billions in (("qwen3:32b", 32), ("qwen3:0.6b-fp16", 0.6), ("Qwen/Qwen3-8B", 8), ("llama-3.1-405b", 405),
                                ("qwen3:30b-a3b", 3), ("mixtral-8x7b", 12.9), ("mistral-7b-instruct-v0.3", 7)):
            self.assertAlmostEqual(t.estimate_flops(model, 1, 0)[1], 2e9 * billions, msg=model)

    def test_no_guess(self):
        for model in ("gpt-4o", "", "bob", "phi-8x9b", "a-7b-and-a-13b"):
            with self.assertRaises(ValueError, msg=model):
                t.estimate_flops(model, 10, 10)

    def test_a_model_of_ones_own(self):
        MODEL_PARAMS_B["my-model"] = 3.0
        self.addCleanup(MODEL_PARAMS_B.pop, "my-model")
        self.assertEqual(t.estimate_flops("my-model", 1, 1)[1], 6e9)

    def test_without_a_cache(self):
        total, mean = estimate_flops_no_kv_cache("qwen3:8b", 100, 50)
        self.assertEqual((total, mean), (8e9 * 150 * 151, 8e9 * 151))
        self.assertEqual(estimate_flops_no_kv_cache("qwen3:8b", 0, 0), (0.0, 0.0))

    def test_mfu_is_a_ratio(self):
        one = t.compute_mfu(100e12, 1.0, "H100")
        self.assertAlmostEqual(one, 0.1011, places=4)
        self.assertAlmostEqual(t.compute_mfu(100e12, 1.0, "H100", 2), one / 2)
        self.assertAlmostEqual(t.compute_mfu(100e12, 1.0, "NVIDIA H100 80GB HBM3"), one)
        self.assertAlmostEqual(t.compute_mfu(65e12, 1.0, "Tesla T4"), 1.0)  # it has no bf16
        self.assertEqual((t.compute_mfu(1e12, 1.0, "abacus"), t.compute_mfu(1e12, 0.0, "H100")), (0.0, 0.0))
        with self.assertRaises(ValueError):
            t.compute_mfu(1e12, 1.0, "H100", 0)


class Specs(unittest.TestCase):
    def test_short_names(self):
        a100 = t.lookup_gpu_spec("A100-SXM")
        self.assertEqual((a100.tflops_fp16, a100.bandwidth_gb_s, a100.tdp_watts), (312.0, 2039.0, 400.0))
        self.assertAlmostEqual(t.lookup_gpu_spec("NVIDIA H100-SXM 80GB").tflops_fp16, 990, delta=1)
        self.assertAlmostEqual(t.lookup_gpu_spec("nvidia rtx 4090").tflops_fp16, 165, delta=0.5)

    def test_real_names_find_the_right_board(self):
        for name, tflops, watts in (("NVIDIA H100 80GB HBM3", 989.4, 700), ("NVIDIA A100 80GB PCIe", 312, 300),
                                    ("NVIDIA L4", 121, 72), ("NVIDIA H200", 989, 700), ("NVIDIA L40S", 362.05, 350),
                                    ("NVIDIA B200", 2250, 1000), ("NVIDIA H100 PCIe", 756, 350), ("10de:2330", 989.4, 700)):
            spec = t.lookup_gpu_spec(name)
            self.assertEqual((spec.tflops_fp16, spec.tdp_watts), (tflops, watts), name)

    def test_no_guess(self):
        for name in ("NVIDIA RTX A1000", "T400", "NVIDIA A10X", "", "Radeon", "80GB"):
            self.assertIsNone(t.lookup_gpu_spec(name), name)


    def test_a_board_of_ones_own(self):
        self.assertEqual(t.GPU_SPECS["H100-SXM"], t.lookup_gpu_spec("NVIDIA H100 80GB HBM3"))
        self.assertEqual(set(t.GPU_SPECS) - {"B200-SXM", "H100-SXM", "H100-PCIE", "A100-SXM", "A100-PCIE", "L40S", "A10", "RTX 4090", "RTX 3090", "MI300X",
                                             "MI250X"}, set())  # fmt: skip
        self.assertIsNone(t.lookup_gpu_spec("Board 9"))
        with mock.patch.dict(t.GPU_SPECS, {"Board 9": t.GpuHardwareSpec(1.0, 2.0, 3.0)}):
            self.assertEqual(t.lookup_gpu_spec("board 9").bandwidth_gb_s, 2.0)
        self.assertEqual(t.GPU_PEAK_TFLOPS_BF16["L40S"], 362.05)
        self.assertEqual(t.compute_mfu(1e12, 1.0, "Board 9"), 0.0)
        with mock.patch.dict(t.GPU_PEAK_TFLOPS_BF16, {"Board 9": 4.0}):
            self.assertEqual(t.compute_mfu(1e12, 1.0, "board 9"), 0.25)


class Bus(unittest.TestCase):
    def test_of_the_process(self):
        t.reset_event_bus()
        bus = t.get_event_bus(record_history=True)
        self.addCleanup(t.reset_event_bus)
        self.assertIs(t.get_event_bus(), bus)
        bus.publish(t.EventType.BATCH_START, {"n": 1})
        self.assertEqual([event.event_type for event in bus.history], ["batch_start"])
        bus.clear_history()
        self.assertEqual(bus.history, [])
        t.reset_event_bus()
        self.assertIsNot(t.get_event_bus(), bus)


class Efficiency(unittest.TestCase):
    def test_of_a_token(self):
        self.assertEqual(t.estimate_model_flops_per_token(7.0), 14e9)
        self.assertEqual(t.estimate_model_flops_per_token(47.0, 13.0), 26e9)
        self.assertEqual(t.estimate_model_bytes_per_token(7.0), 14e9)
        self.assertEqual(t.estimate_model_bytes_per_token(7.0, 0.5), 3.5e9)

    def test_known_numbers(self):
        e = t.compute_efficiency(7, None, 312, 2039, 100)
        self.assertAlmostEqual(e.mfu_pct, 0.44872, places=5)
        self.assertAlmostEqual(e.mbu_pct, 68.661, places=3)
        self.assertEqual((e.actual_flops, e.actual_bandwidth_gb_s), (1.4e12, 1400.0))
        two = t.compute_efficiency(7, None, 312, 2039, 100, num_gpus=2)
        self.assertAlmostEqual(two.mfu_pct * 2, e.mfu_pct)
        self.assertAlmostEqual(two.mbu_pct * 2, e.mbu_pct)
        moe = t.compute_efficiency(47, 13, 312, 2039, 50)
        self.assertEqual((moe.actual_flops, moe.actual_bandwidth_gb_s), (1.3e12, 4700.0))
        self.assertEqual(t.compute_efficiency(7, None, 312, 2039, 100, bytes_per_param=0.5).actual_bandwidth_gb_s, 350.0)
        self.assertAlmostEqual(t.compute_efficiency(7, 7, 312, 2039, 1, accuracy=0.8, energy_joules=50).ipj, 0.016)

    def test_what_is_not_known_is_zero(self):
        e = t.compute_efficiency(7, None, 0, 0, 100)
        self.assertEqual((e.mfu_pct, e.mbu_pct, e.ipj), (0.0, 0.0, 0.0))
        with self.assertRaises(ValueError):
            t.compute_efficiency(7, None, 312, 2039, 100, num_gpus=0)


class SteadyState(unittest.TestCase):
    def test_known_runs(self):
        detector = t.SteadyStateDetector()
        self.assertEqual([detector.record(100.0) for _ in range(13)], [False] * 11 + [True, True])
        detector = t.SteadyStateDetector(t.SteadyStateConfig(3, 3, 0.05, 2))
        self.assertEqual([detector.record(5.0) for _ in range(7)].index(True), 6)
        detector = t.SteadyStateDetector(t.SteadyStateConfig(2, 3, 0.05, 1))
        self.assertEqual([detector.record(v) for v in (50, 60, 100, 101, 100)], [False] * 4 + [True])

    def test_never(self):
        for values in ([math.nan] * 20, [-5.0] * 20, [0.0] * 20, [10.0, 1000.0] * 10):
            detector = t.SteadyStateDetector(t.SteadyStateConfig(cv_threshold=0.01))
            self.assertFalse(any(detector.record(v) for v in values))

    def test_the_metric_decides(self):
        config = t.SteadyStateConfig(metric="energy")
        detector = t.SteadyStateDetector(config)
        got = [detector.record(10.0 if i % 2 else 1000.0, energy=7.0) for i in range(12)]
        self.assertEqual(got, [False] * 11 + [True])
        with self.assertRaisesRegex(ValueError, "throughput, energy, latency"):
            t.SteadyStateDetector(t.SteadyStateConfig(metric="mood"))

    def test_result_and_reset(self):
        detector = t.SteadyStateDetector(t.SteadyStateConfig(warmup_samples=3))
        for i in range(7):
            detector.record(float(i), energy=10.0 * i)
        result = detector.result
        self.assertEqual((result.total_samples, result.warmup_samples, result.steady_state_samples), (7, 3, 4))
        self.assertEqual((result.warmup_throughputs, result.steady_energies), ([0.0, 1.0, 2.0], [30.0, 40.0, 50.0, 60.0]))
        self.assertFalse(result.steady_state_reached)
        detector.reset()
        self.assertEqual(detector.result, t.SteadyStateResult())


class Monitors(unittest.TestCase):
    def test_abstract(self):
        with self.assertRaises(TypeError):
            t.EnergyMonitor()
        monitor = FixedMonitor()
        self.assertEqual(monitor.vendor(), "nvidia")
        with monitor.sample() as sample:
            self.assertEqual(sample.energy_joules, 0.0)
        self.assertEqual(sample.energy_joules, 20.0)

    def test_defaults_of_the_base(self):
        self.assertEqual(t.EnergyMonitor.snapshot(FixedMonitor()), t.EnergySample())
        t.EnergyMonitor.close(FixedMonitor())


class Batches(unittest.TestCase):
    def test_without_a_monitor(self):
        batch = t.EnergyBatch(batch_id="b")
        with batch.sample() as context:
            self.assertIsNone(batch.metrics)
            for tokens in (50, 30, 20):
                context.record_request(tokens, prompt_tokens=5)
        self.assertEqual((batch.metrics.total_requests, batch.metrics.total_tokens), (3, 100))
        self.assertEqual((batch.metrics.total_energy_joules, batch.metrics.energy_per_token_joules), (0.0, 0.0))
        self.assertGreater(batch.metrics.mean_throughput_tok_per_sec, 0)
        self.assertEqual(batch.metrics.batch_id, "b")

    def test_energies_of_the_requests(self):
        batch = t.EnergyBatch()
        with batch.sample() as context:
            context.record_request(10, energy_joules=1.0)
            context.record_request(10, 0, 2.0)
        self.assertEqual((batch.metrics.total_energy_joules, batch.metrics.per_request_energy), (3.0, [1.0, 2.0]))

    def test_with_a_monitor(self):
        batch = t.EnergyBatch(FixedMonitor(joules=20.0))
        with batch.sample() as context:
            context.record_request(200)
        self.assertEqual((batch.metrics.energy_per_token_joules, batch.metrics.mean_power_watts), (0.1, 100.0))
        batch = t.EnergyBatch(FixedMonitor(joules=15.0))
        with batch.sample() as context:
            for _ in range(3):
                context.record_request(1)
        self.assertEqual(batch.metrics.energy_per_request_joules, 5.0)
        batch = t.EnergyBatch(FixedMonitor(joules=1.0))
        with batch.sample() as context:
            for _ in range(100):
                context.record_request(10)
        self.assertAlmostEqual(batch.metrics.energy_per_token_joules, 0.001)

    def test_an_exception_leaves_what_was_recorded(self):
        for monitor in (None, FixedMonitor()):
            batch = t.EnergyBatch(monitor)
            with self.assertRaises(KeyError):
                with batch.sample() as context:
                    context.record_request(10, energy_joules=1.0)
                    raise KeyError("x")
            self.assertEqual(batch.metrics.total_requests, 1)
            self.assertEqual(batch.metrics.total_energy_joules, 20.0 if monitor else 1.0)

    def test_requests_from_many_threads(self):
        batch = t.EnergyBatch()
        with batch.sample() as context:
            threads = [threading.Thread(target=lambda: [context.record_request(1) for _ in range(500)]) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(batch.metrics.total_requests, 4000)

    def test_an_id_of_its_own(self):
        self.assertNotEqual(t.EnergyBatch().batch_id, t.EnergyBatch().batch_id)


if __name__ == "__main__":
    unittest.main()
