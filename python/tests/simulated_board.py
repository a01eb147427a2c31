"""OpenJarvis' monitors on one simulated GPU that draws 300 W: run by test_energy.py, in a process that finds the simulated NVML."""
import time
import unittest

from gpulens.compat import openjarvis as t


def hold(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.005)


class At300Watts(unittest.TestCase):
    def test_a_second_is_300_joules(self):
        monitor = t.GpuMonitor(poll_interval_ms=50)
        hold(0.5)
        with monitor.sample() as result:
            hold(1.0)
        self.assertEqual(result.validity, "valid", result.reason)
        self.assertAlmostEqual(result.energy_joules / result.duration_seconds, 300.0, delta=3.0)
        self.assertAlmostEqual(result.peak_power_watts, 300.0, delta=3.0)
        monitor.close()

    def test_a_snapshot_is_not_zero(self):
        monitor = t.create_energy_monitor(20)
        self.assertAlmostEqual(monitor.snapshot().mean_power_watts, 300.0, delta=3.0)
        monitor.close()
        monitor.close()

    def test_a_session_of_a_second(self):
        monitor = t.create_energy_monitor(20)
        with t.TelemetrySession(monitor, interval_ms=100) as session:
            hold(0.2)
            begin = session._now_ns()
            hold(1.0)
            end = session._now_ns()
            joules = session.energy_delta(begin, end)[0]
            samples = len(session.window(begin, end))
        self.assertAlmostEqual(joules / ((end - begin) / 1e9), 300.0, delta=3.0)
        self.assertGreaterEqual(samples, 2)
        self.assertLessEqual(samples, 12)


if __name__ == "__main__":
    unittest.main()
