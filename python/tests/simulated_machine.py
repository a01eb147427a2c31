"""OpenJarvis' monitors on a machine simulated by test_energy_trees.py; $MACHINE lists which of NVIDIA, AMD and RAPL it has."""
import os
import pathlib
import threading
import time
import unittest

import gpulens
from gpulens.compat import openjarvis as t

MACHINE = os.environ.get("MACHINE", "").split()
ROOT = pathlib.Path(os.environ.get("GPULENS_ENERGY_ROOT", "/"))
RAPL = "sys/class/powercap/intel-rapl:"


def zones():
    return [path.parent.name[len("intel-rapl:"):] for path in ROOT.glob(RAPL + "*/energy_uj")]


def counter(zone, microjoules):
    at = ROOT / f"{RAPL}{zone}/energy_uj"
    new = at.with_name("new")
    new.write_text(f"{microjoules}\n")
    os.replace(new, at)  # never half written


def read_on(monitor):
    """Waits until the counters were read, which never stand still."""
    for _ in range(30):  # a GPU has readings as well, and more often
        for zone in zones():
            counter(zone, int((ROOT / f"{RAPL}{zone}/energy_uj").read_text()) + 1)
        now = time.monotonic()
        while not monitor._native.history(now, time.monotonic()):
            time.sleep(0.002)


class Machine(unittest.TestCase):
    def test_the_order_of_preference(self):
        best = {"nvidia": t.EnergyVendor.NVIDIA, "amd": t.EnergyVendor.AMD, "rapl": t.EnergyVendor.CPU_RAPL}
        expected = next((best[name] for name in ("nvidia", "amd", "rapl") if name in MACHINE), None)
        monitor = t.create_energy_monitor()
        if expected is None:
            self.assertIsNone(monitor)
            return
        self.assertEqual(monitor.vendor(), expected)
        self.assertEqual(t.create_energy_monitor(prefer_vendor="apple").vendor(), expected)
        for name, vendor in best.items():
            if name in MACHINE:
                self.assertEqual(t.create_energy_monitor(prefer_vendor=vendor.value).vendor(), vendor)
        self.assertEqual(t.RaplEnergyMonitor.available(), "rapl" in MACHINE)
        self.assertEqual(t.NvidiaEnergyMonitor.available(), "nvidia" in MACHINE)
        self.assertEqual(t.AmdEnergyMonitor.available(), "amd" in MACHINE)

    @unittest.skipUnless({"nvidia", "rapl"} <= set(MACHINE), "another machine")
    def test_components_of_a_gpu_machine(self):
        monitor = t.create_energy_monitor(10)
        # The energy after a counter's last value is known after its second value; a window waits for the GPU only.
        read_on(monitor)
        with monitor.sample() as sample:
            read_on(monitor)
            counter("0", 3_500_000)
            counter("0:0", 1_500_000)
            read_on(monitor)
        self.assertEqual(sample.validity, "valid", sample.reason)
        self.assertGreater(sample.gpu_energy_joules, 0)
        self.assertEqual(sample.energy_joules, sample.gpu_energy_joules)
        self.assertAlmostEqual(sample.cpu_energy_joules, 3.0, delta=1e-4)
        self.assertAlmostEqual(sample.dram_energy_joules, 1.4, delta=1e-4)
        self.assertEqual(sample.ane_energy_joules, 0.0)

    @unittest.skipUnless(MACHINE == ["rapl"], "another machine")
    def test_wraps_and_sockets(self):
        monitor = t.create_energy_monitor(10)
        self.assertEqual((monitor.vendor(), monitor.energy_method()), (t.EnergyVendor.CPU_RAPL, "rapl"))
        with monitor.sample() as sample:
            read_on(monitor)
            counter("0", 600_000)  # 0.1 J
            counter("0:0", 120_000)  # 0.02 J
            counter("1", 200_000)  # from 900,000 over 1,000,000: 0.3 J
            read_on(monitor)
        self.assertEqual(sample.validity, "valid", sample.reason)
        self.assertAlmostEqual(sample.cpu_energy_joules, 0.4, delta=1e-4)
        self.assertAlmostEqual(sample.dram_energy_joules, 0.02, delta=1e-4)
        self.assertAlmostEqual(sample.energy_joules, 0.42, delta=1e-4)

    @unittest.skipUnless(MACHINE == ["amd"], "another machine")
    def test_the_accumulator_times_its_resolution(self):
        monitor = t.create_energy_monitor(10)
        self.assertEqual(monitor.energy_method(), "hw_counter")
        native = gpulens.EnergyMonitor(interval_seconds=0.01)
        with native.window() as window:
            while not window.estimate().energy_joules > 20:
                threading.Event().wait(0.005)
        result = window.result
        self.assertEqual((result.vendor, result.method), ("amd", "counter"))
        # Against the other sensor: the power, reported in whole watts.
        self.assertAlmostEqual(result.mean_power_watts, result.ticks.mean_power_watts,
                               delta=0.1 * result.mean_power_watts + result.uncertainty_joules / result.duration_seconds)


if __name__ == "__main__":
    unittest.main()
