"""What l9gpu's documentation of its training library promises, row by row, by real clocks and without anything to send to.

What a receiver gets is checked by otlp_training.py; the rows are all named in test_seed_rows_sdk.py.
"""
import dataclasses
import math
import threading
import time
import types
import unittest

import gpulens
from gpulens.compat import l9gpu
from gpulens.compat.l9gpu import metric_names as m
from gpulens.compat.l9gpu.training import peak_tflops
from gpulens.compat.l9gpu.training.hooks import CheckpointTimer, DataLoaderTimer, GradientTracker
from gpulens.compat.l9gpu.training.mfu import compute_mfu, compute_tflops, get_peak_tflops


def hold(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        threading.Event().wait(max(end - time.monotonic(), 0))


class Names(unittest.TestCase):
    def test_l9_045_l9_046_l9_047_of_a_field(self):
        self.assertEqual(m.get_otel_name("gpu_util"), "gpu.utilization")
        self.assertEqual(m.get_unit("cost_per_gpu_hour"), "USD/h")
        self.assertEqual(m.get_data_point_attributes("itl_p95"), {"quantile": "p95"})

    def test_l9_049_records_with_the_fields_of_the_name_table(self):
        names = ("DeviceMetrics DcgmProfilingMetrics VllmMetrics NimMetrics TritonMetrics SGLangMetrics TGIMetrics GPUFleetHealthMetrics"
                 " GPUCostMetrics NCCLCollectiveMetrics TrainingMetrics").split()  # fmt: skip
        self.assertEqual(len(names), 11)
        known = 0
        for name in names:
            record = getattr(l9gpu, name)
            fields = [field.name for field in dataclasses.fields(record)]
            known += sum(m.get_otel_name(field) != "gpu." + field for field in fields)
            self.assertEqual(getattr(record(**{fields[0]: 1}), fields[0]), 1)
            with self.assertRaises(TypeError):
                record(gpu_utill=1)
        self.assertGreater(known, 140)


class Formula(unittest.TestCase):
    def test_l9_217_numbers_of_the_snippet(self):
        flops = gpulens.training_flops(70_000_000_000, 4096)
        self.assertEqual(flops, 6 * 70e9 * 4096)
        for step_time, share in ((1.0, 0.2174), (2.0, 0.1087)):
            self.assertAlmostEqual(gpulens.mfu(flops, step_time, peak_flops=989e12, gpu_count=8), share, 4)
        self.assertAlmostEqual(flops / 1e12, 1720.32, 6)
        self.assertAlmostEqual(compute_mfu(70e9, 4096, 1.0, 8, 989.0), 0.2174, 4)
        self.assertAlmostEqual(compute_tflops(70e9, 4096, 1.0), 1720.32, 6)
        # Recomputed operations count where one asks for them.
        self.assertAlmostEqual(compute_mfu(7e9, 4096, 1.0, 8, 989.0, gradient_checkpointing=True), 4 / 3 * 6 * 7e9 * 4096 / 8 / 989e12)
        self.assertEqual((compute_mfu(7e9, 4096, 1.0, 8, 0.0), math.isnan(compute_tflops(7e9, 4096, 0.0))), (0.0, True))

    def test_l9_218_peaks_by_real_names(self):
        for product, tflops in {"NVIDIA H100 80GB HBM3": 989.4, "NVIDIA A100-SXM4-80GB": 312, "NVIDIA L4": 121, "NVIDIA B200": 2250,
                                "Tesla T4": 65, "Tesla V100-SXM2-16GB": 125}.items():  # fmt: skip
            self.assertAlmostEqual(peak_tflops(product), tflops, 3, product)
            spec = gpulens.find_gpu_spec(product)
            self.assertTrue(spec.source, product)
        for product in ("NVIDIA H100 90GB", "NVIDIA L400", "", "T400"):
            with self.assertRaises(ValueError):
                peak_tflops(product)
            self.assertIsNone(get_peak_tflops(product))
        self.assertAlmostEqual(get_peak_tflops("NVIDIA L4"), 121)


class Parts(unittest.TestCase):
    def test_l9_219_gradients_by_hand(self):
        tracker = GradientTracker()
        parameter = types.SimpleNamespace
        model = types.SimpleNamespace(parameters=lambda: [parameter(grad=[[1.0, 2.0], [2.0, 4.0]]), parameter(grad=[12.0]), parameter(grad=None)])
        self.assertAlmostEqual(tracker.record_step(model, max_norm=1.0), math.sqrt(1 + 4 + 4 + 16 + 144))
        self.assertEqual((tracker.gradient_norm, tracker.gradient_nan_count, tracker.gradient_clip_rate), (13.0, 0, 1.0))
        tracker.record_step([[math.nan, 1.0], [2.0]], max_norm=100.0)
        self.assertEqual((tracker.gradient_nan_count, tracker.gradient_clip_rate), (1, 0.5))
        clipped = GradientTracker()
        for step in range(10):
            clipped.record_step([2.0 if step in (3, 7) else 0.5], max_norm=1.0)
        self.assertEqual(clipped.gradient_clip_rate, 0.2)

    def test_l9_220_a_loader_of_a_fifth_of_a_second(self):
        timer = DataLoaderTimer()

        def slow():
            for batch in range(2):
                hold(0.2)
                yield batch

        begin, batches = time.perf_counter(), []
        for batch in timer.wrap_dataloader(slow()):
            self.assertGreaterEqual(timer.dataloader_wait, 0.2)
            self.assertLessEqual(timer.dataloader_wait, time.perf_counter() - begin)
            batches.append(batch)
            hold(0.3)  # the work on it is no wait
            begin = time.perf_counter()
        self.assertEqual(batches, [0, 1])

    def test_l9_220_a_timer_made_of_its_loader(self):
        timer = DataLoaderTimer([1, 2, 3])
        self.assertEqual((list(timer), list(timer), len(timer)), ([1, 2, 3], [1, 2, 3], 3))
        self.assertGreaterEqual(timer.last_wait_seconds, 0)
        empty = DataLoaderTimer()
        self.assertTrue(empty)
        with self.assertRaisesRegex(ValueError, "no data loader is set"):
            iter(empty)

    def test_l9_221_checkpoints_within_five_percent(self):
        timer, size = CheckpointTimer(), 1 << 30
        begin = time.perf_counter()
        with timer.time_save(size):
            inner = time.perf_counter()
            hold(0.5)
            inner = time.perf_counter() - inner
        outer = time.perf_counter() - begin
        self.assertLessEqual(inner, timer.checkpoint_save_duration)
        self.assertLessEqual(timer.checkpoint_save_duration, outer)
        self.assertAlmostEqual(timer.checkpoint_save_duration, inner, delta=max(0.05 * inner, outer - inner))
        self.assertAlmostEqual(timer.checkpoint_save_bandwidth * timer.checkpoint_save_duration, size, delta=1)
        with timer.time_restore():
            hold(0.3)
        self.assertGreaterEqual(timer.checkpoint_restore_duration, 0.3)
        self.assertEqual((timer.last_save_duration, timer.last_save_bandwidth, timer.last_restore_duration),
                         (timer.checkpoint_save_duration, timer.checkpoint_save_bandwidth, timer.checkpoint_restore_duration))  # fmt: skip


if __name__ == "__main__":
    unittest.main()
