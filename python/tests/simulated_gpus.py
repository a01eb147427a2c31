"""gpulens.energy on simulated GPUs: run by test_energy.py, in a process that finds the simulated NVML."""
import asyncio
import threading
import unittest

import gpulens
from engines import Bus, Engine, Kept
from gpulens.compat import openjarvis as t


class Idle(unittest.TestCase):
    """Eight GPUs that draw 71 W each, always."""

    WATTS = 8 * 71.0

    def hold(self, window, joules):
        """Waits until this much has been drawn in a window."""
        while not window.estimate().energy_joules > joules:
            threading.Event().wait(0.005)

    def assert_energy(self, result, seconds):
        self.assertTrue(result.valid, result)
        wrong = max(result.uncertainty_joules, 0.02 * self.WATTS * seconds) + 0.5
        self.assertAlmostEqual(result.energy_joules, self.WATTS * seconds, delta=wrong, msg=repr(result))

    def test_a_window(self):
        monitor = gpulens.EnergyMonitor()
        self.assertEqual((monitor.vendor, monitor.available, len(monitor.devices)), ("nvidia", True, 8))
        with monitor.window() as window:
            self.hold(window, 50)
            self.assertEqual(window.estimate().validity, "running")
        result = window.result
        self.assert_energy(result, result.duration_seconds)
        self.assertEqual((result.vendor, result.method, result.devices), ("nvidia", "counter", 8))
        self.assertAlmostEqual(result.mean_power_watts, self.WATTS, delta=0.1 * self.WATTS)
        self.assertAlmostEqual(result.ticks.mean_power_watts, self.WATTS, delta=1)
        self.assertIn(" J ± ", repr(result))

    def test_each_gpu_and_carbon(self):
        monitor = gpulens.EnergyMonitor(carbon=360)
        with monitor.window() as window, monitor.request() as request:
            self.hold(window, 50)
        for result in (window.result, request.result):
            self.assertEqual(list(result.gpu_energy), list(range(8)))
            self.assertAlmostEqual(sum(result.gpu_energy.values()), result.energy_joules, delta=0.02)
            self.assertEqual([one.id for one in result.by_device], [one.id for one in monitor.devices[:8]])
            self.assertEqual({(one.part, one.validity) for one in result.by_device}, {("gpu", "valid")})
            self.assertGreater(min(result.gpu_energy.values()), 0)
            self.assertAlmostEqual(result.carbon_grams(), result.energy_joules * 1e-4)
            self.assertAlmostEqual(result.carbon_grams("WORLD"), result.energy_joules / 3.6e6 * 475)
        with monitor.request() as request:
            request.mark("decode")
        self.assertEqual(request.phase("decode").gpu_energy, {})

    def test_shares_add_up_to_what_was_drawn(self):
        monitor = gpulens.EnergyMonitor(share="tokens")
        with monitor.window() as whole:
            with monitor.request() as a, monitor.request() as b, monitor.request() as c:
                for _ in range(3):
                    for request, tokens in ((a, 10), (b, 30), (c, 0)):
                        request.add_tokens(tokens)
                    self.hold(whole, whole.estimate().energy_joules + 20)
        shares = [request.result for request in (a, b, c)]
        total = sum(share.energy_joules for share in shares)
        wrong = whole.result.uncertainty_joules + sum(share.uncertainty_joules for share in shares) + 0.5
        self.assertAlmostEqual(total, whole.result.energy_joules, delta=wrong)
        self.assertGreater(shares[1].energy_joules, shares[0].energy_joules)

    def test_phases(self):
        monitor = gpulens.EnergyMonitor()
        with monitor.request() as request:
            request.mark("prefill")
            self.hold(request, 30)
            request.mark("decode")
            self.hold(request, 80)
        parts = request.phase("prefill").energy_joules + request.phase("decode").energy_joules
        self.assertAlmostEqual(parts, request.result.energy_joules, delta=2 * request.result.uncertainty_joules + 0.5)
        self.assertEqual(request.phase("coda").validity, "gap")

    def together(self, run, monitor):
        """Eight calls at once, and what was drawn meanwhile."""
        whole = monitor.window()
        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        whole.end()
        return whole.result

    def test_calls_at_once_share_what_is_drawn(self):
        monitor, kept = gpulens.EnergyMonitor(), Kept()
        start = threading.Barrier(8)

        class Held(Engine):
            def stream(inner, messages, **kwargs):
                start.wait()
                with monitor.window() as window:
                    self.hold(window, 75)
                yield "a"
                start.wait()
                with monitor.window() as window:
                    self.hold(window, 75)
                yield "b"
                start.wait()

        engine = gpulens.instrument(Held(), kept, energy=monitor, tokens_per_chunk=1)
        whole = self.together(lambda: list(engine.stream([])), monitor)
        self.assertTrue(gpulens.inference.settle.drain(10))
        self.assertEqual((len(kept), engine.telemetry_failures), (8, 0))
        total = sum(record.energy_joules for record in kept)
        # All but the little that was drawn around them.
        wrong = whole.uncertainty_joules + sum(record.energy_uncertainty_joules for record in kept) + 0.1 * whole.energy_joules
        self.assertAlmostEqual(total, whole.energy_joules, delta=wrong)
        self.assertGreater(total, 140)
        for record in kept:
            phases = record.prefill_energy_joules + record.decode_energy_joules
            self.assertAlmostEqual(phases, record.energy_joules, delta=2 * record.energy_uncertainty_joules + 0.5)
            self.assertGreater(record.prefill_energy_joules, 5)
            self.assertEqual((record.energy_method, record.energy_vendor), ("counter", "nvidia"))

    def test_openjarvis_engines_share_it_too(self):
        bus, devices = Bus(), gpulens.EnergyMonitor()
        start = threading.Barrier(8)

        class Held(Engine):
            def generate(inner, messages, **kwargs):
                start.wait()
                with devices.window() as window:
                    self.hold(window, 150)
                start.wait()
                return {"usage": {"completion_tokens": 4}, "ttft": 0.01}

        engine = t.InstrumentedEngine(Held(), bus, gpu_monitor=t.GpuMonitor())
        whole = self.together(lambda: engine.generate([], model="m"), devices)
        total = sum(record.energy_joules for record in bus.records())
        # Without what was drawn before the first and, with the wait for a reading, after the last: eight times that, were it not shared.
        self.assertTrue(0.5 * whole.energy_joules < total < 1.1 * whole.energy_joules, (total, whole))
        for record in bus.records():
            self.assertAlmostEqual(record.prefill_energy_joules + record.decode_energy_joules, record.energy_joules)
            self.assertGreater(record.decode_energy_joules, record.prefill_energy_joules)
            self.assertEqual((record.energy_method, record.energy_vendor), ("hw_counter", "nvidia"))

    def test_settled_in_a_coroutine(self):
        async def measure():
            with gpulens.EnergyMonitor().window() as window:
                while not window.estimate().energy_joules > 20:
                    await asyncio.sleep(0.005)
            return await window.settle(), window

        settled, window = asyncio.run(measure())
        self.assertEqual(settled.duration_seconds, window.result.duration_seconds)
        self.assertTrue(settled.valid)

    def test_a_gpu_monitor(self):
        self.assertTrue(t.GpuMonitor.available())
        monitor = t.GpuMonitor(poll_interval_ms=20)
        with gpulens.EnergyMonitor().window() as whole:
            with monitor.sample() as result:
                self.assertEqual(result.energy_joules, 0.0)
                self.hold(whole, 100)
        self.assertEqual(result.validity, "valid", result.reason)
        self.assertAlmostEqual(result.energy_joules, self.WATTS * result.duration_seconds, delta=0.1 * result.energy_joules + 5)
        self.assertAlmostEqual(result.mean_power_watts * result.duration_seconds, result.energy_joules, delta=1e-6 * result.energy_joules)
        self.assertEqual(result.mean_utilization_pct, 0.0)
        self.assertGreater(result.mean_temperature_c, 10)
        self.assertGreater(result.num_snapshots, 0)
        monitor.close()
        monitor.close()
        with monitor.sample() as after:
            pass
        self.assertEqual((after, after.reason), (t.GpuSample(), "the monitor is closed"))

    def test_monitors_of_vendors(self):
        self.assertEqual([kind.available() for kind in (t.NvidiaEnergyMonitor, t.AmdEnergyMonitor, t.AppleEnergyMonitor)],
                         [True, False, False])
        for preferred in (None, "nvidia", "apple", "amd", "abacus"):
            self.assertEqual(t.create_energy_monitor(prefer_vendor=preferred).vendor(), t.EnergyVendor.NVIDIA)
        monitor = t.create_energy_monitor(20)
        self.assertEqual(monitor.energy_method(), "hw_counter")
        with gpulens.EnergyMonitor().window() as whole, monitor.sample() as sample:
            self.hold(whole, 60)
        self.assertEqual((sample.vendor, sample.device_name, sample.device_count, sample.energy_method),
                         ("nvidia", "NVIDIA H100 80GB HBM3", 8, "hw_counter"))
        self.assertEqual((sample.gpu_energy_joules, sample.validity), (sample.energy_joules, "valid"))
        self.assertAlmostEqual(monitor.snapshot().mean_power_watts, self.WATTS, delta=1)
        monitor.close()
        self.assertEqual(monitor.snapshot().mean_power_watts, 0.0)

    def test_batches_and_sessions(self):
        monitor = t.create_energy_monitor(20)
        batch = t.EnergyBatch(monitor)
        with t.TelemetrySession(monitor, interval_ms=10) as session, batch.sample() as context:
            with gpulens.EnergyMonitor().window() as whole:
                begin = session._now_ns()
                self.hold(whole, 100)
                end = session._now_ns()
            context.record_request(100)
            joules = session.energy_delta(begin, end)[0]
        self.assertAlmostEqual(joules, self.WATTS * (end - begin) / 1e9, delta=0.1 * joules + 3)
        self.assertAlmostEqual(batch.metrics.energy_per_token_joules * 100, batch.metrics.total_energy_joules)
        self.assertGreater(batch.metrics.total_energy_joules, 90)


if __name__ == "__main__":
    unittest.main()
