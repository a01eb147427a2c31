"""OpenJarvis' monitors on one simulated GPU of 300 W that counts no joules: run by test_energy.py, in a process that finds the simulated NVML."""
import unittest

import gpulens
from gpulens.compat import openjarvis as t
from simulated_board import hold


class WithoutACounter(unittest.TestCase):
    def test_power_is_added_up(self):
        monitor = gpulens.EnergyMonitor()
        with monitor.window() as window:
            hold(0.5)
        result = window.result
        self.assertTrue(result.valid, result.reason)
        self.assertEqual((result.vendor, result.method), ("nvidia", "power_integral"))
        self.assertAlmostEqual(result.mean_power_watts, 300.0, delta=15.0)

    def test_polling_is_what_openjarvis_calls_it(self):
        monitor = t.create_energy_monitor(20)
        self.addCleanup(monitor.close)
        self.assertEqual((monitor.vendor(), monitor.energy_method()), (t.EnergyVendor.NVIDIA, "polling"))
        with monitor.sample() as sample:
            hold(0.5)
        self.assertEqual((sample.energy_method, sample.vendor, sample.validity), ("polling", "nvidia", "valid"), sample.reason)
        self.assertAlmostEqual(sample.energy_joules / sample.duration_seconds, 300.0, delta=15.0)
        self.assertEqual(sample.gpu_energy_joules, sample.energy_joules)
        self.assertAlmostEqual(monitor.snapshot().mean_power_watts, 300.0, delta=3.0)

    def test_engines_record_energy(self):
        class Engine:
            engine_id = "fake"

            def generate(self, messages, **kwargs):
                hold(0.2)
                return {"content": "a", "usage": {"prompt_tokens": 1, "completion_tokens": 4, "total_tokens": 5}}

        bus, records = t.EventBus(), []
        bus.subscribe(t.EventType.TELEMETRY_RECORD, lambda event: records.append(event.data["record"]))
        monitor = t.create_energy_monitor(20)
        self.addCleanup(monitor.close)
        t.InstrumentedEngine(Engine(), bus, energy_monitor=monitor).generate([], model="m")
        (record,) = records
        self.assertEqual((record.energy_method, record.energy_vendor), ("polling", "nvidia"))
        self.assertAlmostEqual(record.energy_joules, 300 * record.latency_seconds, delta=0.15 * record.energy_joules + 3)


if __name__ == "__main__":
    unittest.main()
