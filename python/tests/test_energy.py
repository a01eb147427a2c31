"""gpulens.energy, and OpenJarvis' monitors over it: here without any sensor, and on a simulated NVML in a process of its own.

The simulated library is what the repository's build makes (build/release/fake_nvml); without it those tests skip.
"""
import inspect
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import warnings
import weakref

import gpulens
from gpulens.compat import openjarvis as t

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# OpenJarvis' own, as its document has it, but for the import.
EXAMPLE = """
from gpulens.compat.openjarvis import GpuMonitor
mon = GpuMonitor(poll_interval_ms=50)
with mon.sample() as result:
    # ... run inference ...
    pass
print(result.energy_joules)
mon.close()
"""
FAKE = pathlib.Path(os.environ.get("GPULENS_FAKE_NVML_FOLDER", ROOT / "build/release/fake_nvml"))


class Simulated(unittest.TestCase):
    def test_on_simulated_gpus(self):
        self.run_on(ROOT / "tests/fake_nvml/profiles/h100_idle.yaml", "simulated_gpus")

    def test_on_a_board_of_300_watts(self):
        with tempfile.TemporaryDirectory(prefix="gpulens-") as folder:
            profile = pathlib.Path(folder, "board.yaml")
            # From 71 W idle to 700 W.
            profile.write_text("model: H100\ngpus: 1\nload: {kind: constant, level: 0.3772}\n")
            self.run_on(profile, "simulated_board")

    def test_on_a_board_without_a_counter(self):
        with tempfile.TemporaryDirectory(prefix="gpulens-") as folder:
            profile = pathlib.Path(folder, "board.yaml")
            profile.write_text("model: H100\ngpus: 1\nload: {kind: constant, level: 0.3772}\n"
                               "errors:\n  - {call: nvmlDeviceGetTotalEnergyConsumption, code: 3}\n")
            self.run_on(profile, "simulated_power")

    @unittest.skipUnless((FAKE / "libnvidia-ml.so.1").exists(), "the simulated NVML is not built")
    def run_on(self, profile, tests):
        env = {**os.environ, "LD_LIBRARY_PATH": str(FAKE), "GPULENS_FAKE_NVML": str(profile)}
        for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
            env.pop(name, None)
        command = [sys.executable, "-m", "unittest", "-v", tests]
        folder = pathlib.Path(__file__).parent
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("skipped", done.stderr)


class WithoutSensors(unittest.TestCase):
    """As on a machine with nothing to read; with something the results are its."""

    def test_results_have_a_reason(self):
        with gpulens.EnergyMonitor().window() as window:
            pass
        result = window.result
        if result.vendor == "none":
            self.assertTrue(math.isnan(result.energy_joules) and math.isnan(result.mean_power_watts))
            self.assertIn(result.validity, ("no_device", "permission_denied"))
            self.assertFalse(result.valid)
            self.assertTrue(result.reason)
        with self.assertRaisesRegex(TypeError, "truth value"):
            bool(result)

    def test_errors_are_reported(self):
        for options in ({"share": "luck"}, {"prefer": "abacus"}, {"interval_seconds": 0}, {"interval_seconds": math.nan},
                        {"history_seconds": -1}):
            with self.assertRaises(gpulens.InvalidArgumentError, msg=options):
                gpulens.EnergyMonitor(**options)
        with self.assertRaises(ValueError):
            gpulens.EnergyMonitor().between(math.nan, 1)

    def test_leaving_by_an_exception_ends_it(self):
        window = gpulens.EnergyMonitor().window()
        with self.assertRaises(KeyError):
            with window:
                raise KeyError("x")
        self.assertGreaterEqual(window.result.duration_seconds, 0)

    def test_carbon_of_an_unknown_energy_or_zone(self):
        result = gpulens.EnergyMonitor(carbon="de").window().result
        self.assertEqual(result.carbon_grams_per_kwh, gpulens.carbon_intensity("DEU"))
        if not result.valid:
            self.assertTrue(math.isnan(result.carbon_grams()) and math.isnan(result.carbon_grams(100)))
            self.assertEqual(result.gpu_energy, {})
        self.assertEqual(gpulens.carbon_intensity("WORLD"), 475)
        for wrong in ("Atlantis", "", -1, math.nan, math.inf, object()):
            with self.assertRaises(gpulens.InvalidArgumentError, msg=repr(wrong)):
                gpulens.EnergyMonitor(carbon=wrong)
            with self.assertRaises(gpulens.InvalidArgumentError, msg=repr(wrong)):
                result.carbon_grams(wrong)
        with self.assertRaisesRegex(ValueError, "Atlantis"):
            gpulens.carbon_intensity("Atlantis")

    def test_the_documented_example_runs(self):
        done = subprocess.run([sys.executable, "-c", EXAMPLE], check=True, capture_output=True, text=True, timeout=60)
        self.assertGreaterEqual(float(done.stdout), 0.0)

    def test_documented_signatures(self):
        self.assertEqual(str(inspect.signature(t.GpuMonitor)), "(poll_interval_ms: int = 50) -> None")
        documented = list(inspect.signature(t.create_energy_monitor).parameters.values())[:2]
        self.assertEqual([(p.name, p.default) for p in documented], [("poll_interval_ms", 50), ("prefer_vendor", None)])

    def test_monitors_without_a_gpu(self):
        for kind in (t.GpuMonitor, t.NvidiaEnergyMonitor, t.AmdEnergyMonitor, t.AppleEnergyMonitor, t.RaplEnergyMonitor):
            self.assertIsInstance(kind.available(), bool)
        self.assertFalse(t.AppleEnergyMonitor.available())
        if t.GpuMonitor.available():
            self.skipTest("this machine has a GPU")
        before = threading.active_count()
        monitor = t.GpuMonitor()
        with monitor.sample() as sample:
            self.assertEqual(threading.active_count(), before)
        self.assertEqual((sample, sample.validity), (t.GpuSample(), "no_device"))
        monitor.close()
        found = t.create_energy_monitor()
        self.assertTrue(found is None or found.vendor() == t.EnergyVendor.CPU_RAPL)


class Sync(unittest.TestCase):
    """What waits for the devices at the edges of a window: functions, and stand-ins of torch and cupy."""

    def setUp(self):
        self.calls = []
        self.monitor = gpulens.EnergyMonitor()

    def module(self, name, available=True):
        """Puts a stand-in of a module in place, which notes each wait for its device."""
        module = types.ModuleType(name)
        module.cuda = types.SimpleNamespace(
            is_available=lambda: available,
            synchronize=lambda: self.calls.append("torch"),
            Device=lambda: types.SimpleNamespace(synchronize=lambda: self.calls.append("cupy")))
        before = sys.modules.get(name)
        sys.modules[name] = module
        self.addCleanup(lambda: sys.modules.pop(name, None) if before is None else sys.modules.__setitem__(name, before))

    def absent(self, name):
        before = sys.modules.get(name)
        sys.modules[name] = None  # as Python marks a module that cannot be imported
        self.addCleanup(lambda: sys.modules.pop(name, None) if before is None else sys.modules.__setitem__(name, before))

    def test_a_function_is_called_before_both_edges(self):
        with self.monitor.window(sync=lambda: self.calls.append(time.monotonic())) as window:
            inside = time.monotonic()
        self.assertEqual(len(self.calls), 2)
        self.assertLessEqual(self.calls[0], inside)
        window.end()
        self.assertGreaterEqual(window.result.duration_seconds, self.calls[1] - inside)
        self.assertEqual(len(self.calls), 2)
        request = self.monitor.request(sync=lambda: self.calls.append(0))
        self.assertEqual(len(self.calls), 3)
        request.result  # ends it, without the GIL
        self.assertEqual(len(self.calls), 4)

    def test_torch_and_cupy_are_known(self):
        self.module("torch")
        self.module("cupy")
        for sync, expected in (("torch", ["torch"]), ("cupy", ["cupy"]), ("auto", ["torch", "cupy"]), (True, ["torch", "cupy"])):
            self.calls.clear()
            with self.monitor.window(sync=sync):
                self.assertEqual(self.calls, expected)
            self.assertEqual(self.calls, 2 * expected)

    def test_what_is_missing_is_an_error(self):
        self.absent("torch")
        self.absent("cupy")
        with self.assertRaisesRegex(gpulens.UnavailableError, "needs the module torch"):
            self.monitor.window(sync="torch")
        del sys.modules["torch"], sys.modules["cupy"]
        with self.assertRaisesRegex(gpulens.UnavailableError, "neither torch nor cupy"):
            self.monitor.request(sync="auto")
        self.module("torch", available=False)
        with self.assertRaisesRegex(gpulens.UnavailableError, "torch has no CUDA device"):
            self.monitor.window(sync="torch")
        with self.monitor.window(sync="auto"):  # there is nothing to wait for
            pass
        self.assertEqual(self.calls, [])
        for wrong in ("jax", 7, False, ""):
            with self.assertRaisesRegex(gpulens.InvalidArgumentError, "sync must be"):
                self.monitor.window(sync=wrong)

    def test_an_exception_loses_no_window(self):
        def fails():
            raise RuntimeError("CUDA error: an illegal address")

        with self.assertWarnsRegex(RuntimeWarning, "illegal address"):
            with self.monitor.window(sync=fails) as window:
                pass
        result = window.result
        self.assertGreater(result.duration_seconds, 0)
        self.assertRegex(result.reason, "sync failed at the end.*RuntimeError: CUDA error: an illegal address")

    def test_an_interrupt_is_raised(self):
        def interrupted():
            raise KeyboardInterrupt

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with self.assertRaises(KeyboardInterrupt):
                window = self.monitor.window(sync=interrupted)
                time.sleep(1)
                del window

    def test_a_window_is_no_cycle_after_its_end(self):
        class Holder:
            def wait(self):
                pass

        holder = Holder()
        holder.window = self.monitor.window(sync=holder.wait)
        holder.window.end()
        gone = weakref.ref(holder)
        del holder
        self.assertIsNone(gone())


if __name__ == "__main__":
    unittest.main()
