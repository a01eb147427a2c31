"""Readings of a real NVIDIA GPU compared with nvidia-smi, energy compared with power under a load, and its processes.

Runs from the tree (ctest -L gpu) and from the package alone: ctest --test-dir …/share/gpulens/tests -L gpu.
Without a GPU everything is skipped, with the reason.
"""
import os
import subprocess
import sys
import tempfile
import time
import unittest

import nvidia_smi
from agent_page import HERE, LIBRARY, Agent, find, program, rounds

ENERGY, POWER = "gpu_energy_consumption_joules_total", "gpu_power_instant_watts"

try:
    DRIVER, GPUS = nvidia_smi.query()
    WHY_NOT = "" if GPUS else "no NVIDIA GPU: nvidia-smi lists none"
except OSError as error:
    DRIVER, GPUS, WHY_NOT = None, {}, f"no NVIDIA GPU: {error}"


def setUpModule():
    if WHY_NOT:
        print("SKIP ALL", WHY_NOT)
        raise unittest.SkipTest(WHY_NOT)


# Our series, the path in the output of nvidia-smi, and how far apart two readings of a live board may be.
EXACT = [
    ("gpu_memory_total_bytes", {}, ["fb_memory_usage/total"], 2**20),
    ("gpu_power_limit_watts", {"gpu_power_limit_type": "enforced"},
     ["gpu_power_readings/current_power_limit", "power_readings/enforced_power_limit"], 0.01),
    ("gpu_power_limit_watts", {"gpu_power_limit_type": "max"},
     ["gpu_power_readings/max_power_limit", "power_readings/max_power_limit"], 0.01),
    ("gpu_pcie_link_gen_max", {}, ["pci/pci_gpu_link_info/pcie_gen/max_link_gen"], 0),
    ("gpu_pcie_link_width_max", {}, ["pci/pci_gpu_link_info/link_widths/max_link_width"], 0),
    ("gpu_ecc_errors_total", {"gpu_ecc_error_type": "uncorrectable", "gpu_ecc_count_type": "volatile"},
     ["ecc_errors/volatile/total_uncorrectable", "ecc_errors/volatile/double_bit/total"], 0),
    ("gpu_row_remap_count", {"gpu_ecc_error_type": "uncorrectable"}, ["remapped_rows/remapped_row_unc"], 0),
]
LIVE = [
    ("gpu_temperature_celsius", {"gpu_temperature_sensor": "edge"}, ["temperature/gpu_temp"], 4, 0),
    ("gpu_temperature_celsius", {"gpu_temperature_sensor": "memory"}, ["temperature/memory_temp"], 4, 0),
    ("gpu_power_draw_watts", {},
     ["gpu_power_readings/average_power_draw", "gpu_power_readings/power_draw", "power_readings/power_draw"], 20, 0.25),
    ("gpu_memory_used_bytes", {}, ["fb_memory_usage/used"], 64 * 2**20, 0.02),
    ("gpu_memory_reserved_bytes", {}, ["fb_memory_usage/reserved"], 2**20, 0),
    ("gpu_clock_frequency_MHz", {"gpu_clock_type": "memory"}, ["clocks/mem_clock"], 0, 0.05),
]


class Readings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.agent = Agent(interval="1s")
        cls.addClassCleanup(cls.agent.close)
        cls.agent.wait_for("gpu_pcie_link_gen_max")
        cls.page = cls.agent.page()
        cls.driver, cls.gpus = nvidia_smi.query()

    def compare(self, rows, check):
        """Calls check(our values, nvidia-smi's value or None, slack…) for every row and GPU."""
        for uuid, gpu in self.gpus.items():
            for name, labels, paths, *slack in rows:
                with self.subTest(gpu=uuid, name=name, **labels):
                    check(find(self.page, name, gpu_uuid=uuid, **labels), gpu.value(*paths), *slack)

    def test_identity_of_the_gpus(self):
        for uuid, gpu in self.gpus.items():
            info = [labels for name, labels, _ in self.page if name == "gpu_info" and labels.get("gpu_uuid") == uuid]
            self.assertEqual(len(info), 1)
            self.assertEqual(info[0]["gpu_model"], gpu.name)
            self.assertEqual(find(self.page, "gpu_state", gpu_uuid=uuid, gpu_state="ok"), [1])
        self.assertEqual(find(self.page, "gpu_devices", gpu_vendor="nvidia"), [len(self.gpus)])
        versions = [labels["gpu_driver_version"] for name, labels, _ in self.page if name == "gpu_driver_info"]
        self.assertEqual(versions, [self.driver])

    def test_constant_readings_are_equal(self):
        def check(ours, theirs, slack):
            if theirs is None:
                return  # The library may know what nvidia-smi of this version does not print.
            self.assertEqual(len(ours), 1)
            self.assertLessEqual(abs(ours[0] - theirs), slack)
        self.compare(EXACT, check)

    def test_changing_readings_are_close(self):
        def check(ours, theirs, slack, share):
            if theirs is None:
                return self.assertEqual(ours, [], "nvidia-smi prints N/A")
            self.assertEqual(len(ours), 1)
            self.assertLessEqual(abs(ours[0] - theirs), max(slack, share * theirs))
        self.compare(LIVE, check)

    def test_no_xid_has_happened(self):
        for value in find(self.page, "gpu_xid_errors_total"):
            self.assertEqual(value, 0)

    def test_nothing_is_rejected(self):
        rejected = [(labels, value) for name, labels, value in self.page
                    if name == "gpulens_samples_total" and labels.get("collector") == "nvidia"
                    and labels.get("result") == "rejected" and value > 0]
        self.assertEqual(rejected, [])


class UnderLoad(unittest.TestCase):
    """GPU 0 works for some seconds; the agent reads it five times a second."""

    @classmethod
    def setUpClass(cls):
        cls.agent = Agent(interval="200ms")
        cls.addClassCleanup(cls.agent.close)
        cls.agent.wait_for(ENERGY)
        cls.load = subprocess.Popen([sys.executable, os.path.join(HERE, "cuda_load.py"), "15"],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.end_load)
        if cls.load.stdout.readline().strip() != "busy":
            raise unittest.SkipTest("no CUDA load: " + cls.load.stderr.read().strip())
        for _ in rounds(2):
            pass  # The board's own mean of power reaches back a second.
        cls.series = [(time.monotonic(), cls.agent.page()) for _ in rounds(10)]

    @classmethod
    def end_load(cls):
        if cls.load.poll() is None:
            cls.load.terminate()
        cls.load.wait(20)
        cls.load.stdout.close()
        cls.load.stderr.close()

    def test_energy_counter_is_the_integral_of_power(self):
        joules = [(at, find(page, ENERGY, gpu_index=0)[0]) for at, page in self.series]
        watts = [(at, find(page, POWER, gpu_index=0)[0]) for at, page in self.series]
        integral = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in zip(watts, watts[1:]))
        counted = joules[-1][1] - joules[0][1]
        print(f"energy counter {counted:.1f} J, integral of power {integral:.1f} J")
        # The counter moves in steps of the board's own sampling, hence two joules per step at each end.
        self.assertLessEqual(abs(counted - integral), 0.05 * integral + 0.4 * max(w for _, w in watts))

    def test_it_is_busy(self):
        shares = [find(page, "gpu_utilization_ratio", gpu_index=0) for _, page in self.series]
        self.assertGreater(max(share[0] for share in shares if share), 0.9)

    def test_the_process_is_seen_and_goes(self):
        pid = self.load.pid
        seen = find(self.series[-1][1], "gpu_process_memory_used_bytes", process_pid=pid)
        if not seen:
            self.skipTest("the driver reports pids of another namespace, or no memory of processes")
        self.assertGreater(seen[0], 2**20)
        self.load.wait(60)
        for _ in rounds(20):
            if not find(self.agent.page(), "gpu_process_memory_used_bytes", process_pid=pid):
                return
        self.fail("the ended process is still there")


class Recorded(unittest.TestCase):
    """The machine recorded for some seconds, then seen again from the file alone."""

    def test_the_recording_replays(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "recording.yaml")
            subprocess.run([program(), "capture", "nvml", "--for", "5s", "-q", "--library", LIBRARY, "-o", file],
                           timeout=120, check=True)
            with open(file, encoding="ascii") as recording:
                text = recording.read()
            print(f"recording of {len(GPUS)} GPUs, 5 s: {len(text) // 1024} KiB")
            self.assertTrue(f"driver: {DRIVER}\n" in text)
            for uuid in GPUS:
                self.assertFalse(uuid in text, "identity is made up by default")
            self.addCleanup(os.environ.pop, "GPULENS_FAKE_NVML", None)
            os.environ["GPULENS_FAKE_NVML"] = file
            agent = Agent(interval="200ms", library="simulated")
            self.addCleanup(agent.close)
            agent.wait_for("gpu_memory_total_bytes")
            page = agent.wait_for("gpu_pcie_link_gen_max")
        models = sorted(labels["gpu_model"] for name, labels, _ in page if name == "gpu_info")
        self.assertEqual(models, sorted(gpu.name for gpu in GPUS.values()))
        totals = sorted(find(page, "gpu_memory_total_bytes"))
        self.assertEqual(len(totals), len(GPUS))
        for ours, gpu in zip(totals, sorted(gpu.value("fb_memory_usage/total") for gpu in GPUS.values())):
            self.assertLessEqual(abs(ours - gpu), 2**20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
