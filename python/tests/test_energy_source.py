"""gpulens.energy.EnergySource: devices whose readings come from Python."""
import gc
import math
import os
import threading
import time
import unittest

import gpulens
from gpulens.compat import openjarvis as t


class Meter(gpulens.EnergySource):
    """Two boards that draw 300 W and 100 W; its counters are true at each instant."""

    name, vendor = "meter", "nvidia"

    def __init__(self):
        self.begin, self.threads, self.opened, self.wrong, self.zero = time.monotonic(), set(), 0, None, 0.0

    def open(self):
        self.opened += 1
        if isinstance(self.wrong, OSError):
            raise self.wrong
        return [gpulens.EnergyDevice(f"meter-{i}", most_watts=450.0) for i in range(2)]

    def read(self, device):
        self.threads.add(threading.current_thread())
        if self.wrong:
            raise self.wrong
        watts = (300.0, 100.0)[device]
        return gpulens.SourceReading(joules=1000 + watts * (time.monotonic() - self.begin) - self.zero, watts=watts)


def wait_until(question, seconds=30):
    end = time.monotonic() + seconds
    while not question():
        if time.monotonic() > end:
            raise AssertionError("it did not come")
        time.sleep(0.005)


class Sources(unittest.TestCase):
    def hold(self, seconds):
        end = time.monotonic() + seconds
        wait_until(lambda: time.monotonic() >= end)

    def test_joules_of_a_window(self):
        meter = Meter()
        monitor = gpulens.EnergyMonitor(sources=[meter])
        self.assertEqual((monitor.available, monitor.vendor, [d.id for d in monitor.devices]),
                         (True, "nvidia", ["meter-0", "meter-1"]))
        with monitor.window() as window:
            self.hold(0.3)
        result = window.result
        self.assertTrue(result.valid, result.reason)
        self.assertAlmostEqual(result.energy_joules, 400 * result.duration_seconds, delta=result.uncertainty_joules + 0.1)
        self.assertLess(result.uncertainty_joules, 0.5 * result.energy_joules)
        (thread,) = meter.threads
        self.assertEqual(thread.name, "gpulens-source")

    def test_twenty_milliseconds_at_300_watts(self):
        monitor = gpulens.EnergyMonitor(sources=[Meter()], devices=["meter-0"])
        for _ in range(5):
            with monitor.window() as window:
                self.hold(0.02)
            result = window.result
            self.assertTrue(result.valid, result.reason)
            self.assertAlmostEqual(result.energy_joules, 300 * result.duration_seconds, delta=result.uncertainty_joules + 0.02)

    def test_eight_requests_share_what_was_drawn(self):
        monitor = gpulens.EnergyMonitor(sources=[Meter()])
        requests = [monitor.request() for _ in range(8)]
        self.hold(0.375)
        for request in requests:
            request.end()
        results = [request.result for request in requests]
        whole = results[0].device_energy_joules
        self.assertGreater(whole, 149)
        total = sum(result.energy_joules for result in results)
        # They begin and end some microseconds apart, and what one alone had open is its alone.
        self.assertAlmostEqual(total, whole, delta=0.05 * whole)
        for result in results:
            self.assertAlmostEqual(result.energy_joules, whole / 8, delta=0.05 * whole)

    def test_an_unsettled_result_is_queried_again(self):
        gate = threading.Event()
        gate.set()

        class Slow(Meter):
            def read(self, device):
                gate.wait(10)
                return super().read(device)

        monitor = gpulens.EnergyMonitor(sources=[Slow()])
        window = monitor.window()
        self.hold(0.1)
        gate.clear()  # nothing is read from here on
        self.hold(0.05)
        window.end()
        first = window.result
        gate.set()
        wait_until(lambda: window.result.uncertainty_joules < first.uncertainty_joules)
        settled = window.result
        self.assertEqual(settled.duration_seconds, first.duration_seconds)
        self.assertAlmostEqual(settled.energy_joules, 400 * settled.duration_seconds, delta=settled.uncertainty_joules + 0.1)

    def test_its_exception_is_the_reason_and_it_is_reopened(self):
        meter = Meter()
        monitor = gpulens.EnergyMonitor(sources=[meter])
        meter.wrong = ValueError("the cable is out")
        window = monitor.window()
        wait_until(lambda: window.estimate().validity == "source_failed")
        self.assertIn("ValueError: the cable is out", window.estimate().reason)
        self.assertTrue(math.isnan(window.estimate().energy_joules))
        wait_until(lambda: meter.opened > 1)
        meter.wrong = None

        def measures():
            with monitor.window() as again:
                self.hold(0.02)
            return again.result.valid

        wait_until(measures)

    def test_one_that_is_not_there(self):
        meter = Meter()
        meter.wrong = OSError("no such meter")
        monitor = gpulens.EnergyMonitor(sources=[meter])
        self.assertFalse(monitor.available)
        self.assertIn("no such meter", monitor.reason)
        self.assertEqual(monitor.window().result.validity, "no_device")

    def test_its_thread_ends_with_the_monitor(self):
        meter = Meter()
        monitor = gpulens.EnergyMonitor(sources=[meter])
        wait_until(lambda: meter.threads)
        (thread,) = meter.threads
        del monitor
        gc.collect()
        wait_until(lambda: not thread.is_alive())

    def test_after_a_fork(self):
        monitor = gpulens.EnergyMonitor(sources=[Meter()])
        child = os.fork()
        if child == 0:
            try:
                with monitor.window() as window:
                    self.hold(0.05)
                result = window.result
                os._exit(0 if result.valid and abs(result.energy_joules - 400 * result.duration_seconds) <= result.uncertainty_joules + 0.1 else 1)
            finally:
                os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        with monitor.window() as window:
            self.hold(0.05)
        self.assertTrue(window.result.valid)

    def test_errors_are_reported(self):
        with self.assertRaises(TypeError):
            gpulens.EnergySource()
        with self.assertRaises(ValueError):
            gpulens.EnergyDevice("")
        with self.assertRaises(ValueError):
            gpulens.EnergyDevice("a", part="fan")
        with self.assertRaises(AttributeError):
            gpulens.EnergyMonitor(sources=[object()])


class Scripted(gpulens.EnergySource):
    """Counters that stand still until they are set."""

    name = "scripted"

    def __init__(self, joules, vendor="nvidia", parts=None, values=None):
        self.joules, self.vendor, self.parts = list(joules), vendor, parts or ["gpu"] * len(joules)
        self.values, self.reads = values or [{}] * len(joules), [0] * len(joules)

    def open(self):
        return [gpulens.EnergyDevice(f"device-{i}", part=part) for i, part in enumerate(self.parts)]

    def read(self, device):
        value = self.joules[device]
        self.reads[device] += 1
        return gpulens.SourceReading(joules=value, **self.values[device])

    def pass_by(self):
        before = list(self.reads)
        wait_until(lambda: all(now >= then + 2 for now, then in zip(self.reads, before)))

    def measure(self, after):
        monitor = gpulens.EnergyMonitor(sources=[self], interval_seconds=0.005)
        self.pass_by()
        with monitor.window() as window:
            self.pass_by()
            self.joules = list(after)
            self.pass_by()
        result = window.result
        assert result.valid, result.reason
        return result


class KnownNumbers(unittest.TestCase):
    """The numbers that OpenJarvis' own tests state, through Python."""

    def test_counters(self):
        self.assertAlmostEqual(Scripted([5.0]).measure([8.0]).energy_joules, 3.0, places=6)
        two = Scripted([2.0, 3.0]).measure([5.0, 7.0])
        self.assertAlmostEqual(two.energy_joules, 7.0, places=6)
        self.assertAlmostEqual(two.gpu_joules, 7.0, places=6)
        self.assertTrue(math.isnan(two.cpu_joules))

    def test_an_accumulator_times_its_resolution(self):
        result = Scripted([1000 * 15.3e-6], vendor="amd").measure([2000 * 15.3e-6])
        self.assertAlmostEqual(result.energy_joules, 0.0153, places=9)
        self.assertEqual(result.vendor, "amd")

    def test_packages_and_memory(self):
        for before, after, cpu, dram in (([0.5, 0.1], [0.6, 0.12], 0.1, 0.02), ([1e-3, 2e-3], [5e-3, 3e-3], 0.004, 0.001)):
            result = Scripted(before, vendor="cpu_rapl", parts=["cpu", "dram"]).measure(after)
            self.assertAlmostEqual(result.cpu_joules, cpu, places=9)
            self.assertAlmostEqual(result.dram_joules, dram, places=9)
            self.assertAlmostEqual(result.energy_joules, cpu + dram, places=9)

    def test_a_processor_is_reported_with_a_gpu_and_not_added(self):
        result = Scripted([10.0, 20.0], parts=["gpu", "cpu"]).measure([14.0, 29.0])
        self.assertAlmostEqual(result.energy_joules, 4.0, places=6)
        self.assertAlmostEqual(result.cpu_joules, 9.0, places=6)

    def test_means_over_two_boards(self):
        boards = [
            dict(watts=200.0, utilization_ratio=0.8, memory_used_bytes=10 * 2.0**30, temperature_celsius=60.0),
            dict(watts=300.0, utilization_ratio=0.9, memory_used_bytes=12 * 2.0**30, temperature_celsius=70.0),
        ]
        ticks = Scripted([1.0, 1.0], values=boards).measure([2.0, 2.0]).ticks
        self.assertGreater(ticks.count, 0)
        self.assertAlmostEqual(ticks.mean_power_watts, 500.0)
        self.assertAlmostEqual(ticks.peak_power_watts, 500.0)
        self.assertAlmostEqual(ticks.mean_utilization_ratio, 0.85)
        self.assertAlmostEqual(ticks.mean_memory_used_bytes, 22 * 2.0**30)
        self.assertAlmostEqual(ticks.mean_temperature_celsius, 65.0)


class ADerivedMonitor(t.EnergyMonitor):
    """A custom monitor over a custom source."""

    def __init__(self):
        self.native = gpulens.EnergyMonitor(sources=[Meter()])
        wait_until(lambda: self.native.history(0, time.monotonic()))

    @staticmethod
    def available():
        return True

    def vendor(self):
        return t.EnergyVendor.NVIDIA

    def energy_method(self):
        return "hw_counter"

    def sample(self):
        from contextlib import contextmanager

        @contextmanager
        def block():
            sample = t.EnergySample(vendor="nvidia")
            with self.native.window() as window:
                yield sample
            sample.energy_joules = sample.gpu_energy_joules = window.result.energy_joules
            sample.mean_power_watts = window.result.mean_power_watts

        return block()

    def snapshot(self):
        now = time.monotonic()
        last = self.native.history(now - 10, now)[-1]
        return t.EnergySample(mean_power_watts=last.gpu_watts, gpu_energy_joules=last.gpu_joules)


class InBatchesAndSessions(unittest.TestCase):
    def test_a_derived_monitor(self):
        monitor = ADerivedMonitor()
        batch = t.EnergyBatch(monitor)
        with t.TelemetrySession(monitor, interval_ms=10) as session, batch.sample() as context:
            begin = session._now_ns()
            end = begin + 200_000_000
            wait_until(lambda: session._now_ns() >= end)
            context.record_request(50)
            joules = session.energy_delta(begin, end)[0]
        self.assertAlmostEqual(joules, 80.0, delta=8)
        self.assertAlmostEqual(batch.metrics.mean_power_watts, 400, delta=60)
        self.assertAlmostEqual(batch.metrics.energy_per_token_joules, batch.metrics.total_energy_joules / 50)


if __name__ == "__main__":
    unittest.main()
