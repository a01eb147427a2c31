"""Energy of a run's own processes: gpulens run over simulated GPUs whose processes the script itself puts there."""
import os
import pathlib
import unittest

from agent import BINARY, Agent, wait_until
from experiment_home import Home

FAKE = pathlib.Path(os.environ.get("GPULENS_FAKE_NVML_FOLDER", BINARY.parent / "fake_nvml"))
WATTS = 71.0  # of an idle H100
FIRST_NAMESPACE = "pid:[4026531836]"

# A child of the script computes on GPU 3, process 1 on GPU 5; `others` besides on GPU 3.
SCRIPT = """
import os, pathlib, subprocess, sys
world = pathlib.Path(os.environ["WORLD"])
child = subprocess.Popen(["sleep", "1.5"])
lines = ["model: H100", "gpus: 8", "load: {kind: idle}", "processes:",
         f"  - {{gpu: 3, pid: {child.pid}, memory: 2GiB, sm: 60}}", "  - {gpu: 5, pid: 1, memory: 8GiB, sm: 90}"]
lines += [f"  - {{gpu: 3, pid: 1, memory: 1GiB, sm: {sm}}}" for sm in sys.argv[1:]]
new = world.with_suffix(".new")
new.write_text("\\n".join(lines) + "\\n")
os.replace(new, world)
child.wait()
"""


@unittest.skipUnless((FAKE / "libnvidia-ml.so.1").exists(), "the simulated NVML is not built")
@unittest.skipUnless(os.readlink("/proc/self/ns/pid") == FIRST_NAMESPACE, "process numbers of a container's own")
class RunEnergy(Home):
    def setUp(self):
        super().setUp()
        self.world = self.home / "world.yaml"
        self.world.write_text("model: H100\ngpus: 8\nload: {kind: idle}\n")
        self.environment.update(WORLD=str(self.world), GPULENS_ENERGY="own", LD_LIBRARY_PATH=str(FAKE),
                                GPULENS_FAKE_NVML=str(self.world))
        self.environment.pop("CUDA_VISIBLE_DEVICES", None)
        self.script("train.py", SCRIPT)

    def run_energy(self, *arguments):
        self.good("run", "-q", "train.py", *arguments)
        page = self.show("train")
        self.assertEqual(page["energy"]["validity"], "valid", page)
        return page["energy"], page["duration_seconds"]

    def assert_one_board(self, energy, seconds, share):
        self.assertEqual((energy["devices"], energy["vendor"], energy["method"]), (1, "nvidia", "counter"))
        self.assertLessEqual(energy["energy_joules"] - energy["uncertainty_joules"], share * WATTS * seconds)
        self.assertGreaterEqual(energy["energy_joules"] + energy["uncertainty_joules"], share * WATTS * 1.5)
        self.assertLess(energy["energy_joules"], 2 * WATTS * seconds, "never eight boards")
        self.assertEqual(energy["peak_memory_used_bytes"], 2 << 30)

    def test_its_own_board_alone_is_its_energy(self):
        energy, seconds = self.run_energy()
        self.assert_one_board(energy, seconds, 1)
        self.assertEqual(energy["attribution"], "exclusive")
        self.assertRegex(self.good("exp", "show", "train"), r"energy +\d.* J ± .*counter, exclusive")

    def test_a_shared_board_is_shared_by_utilization(self):
        energy, seconds = self.run_energy("20")
        self.assert_one_board(energy, seconds, 0.75)
        self.assertEqual(energy["attribution"], "shared_by_utilization")
        self.assertLess(energy["energy_joules"], 0.8 * energy["device_energy_joules"])
        self.assertAlmostEqual(energy["peak_power_watts"], 0.75 * WATTS, delta=0.5)

    def test_a_run_that_uses_no_gpu_has_no_joules_of_them(self):
        self.environment["GPULENS_ENERGY_ROOT"] = str(self.home)  # no processor with an energy counter
        self.good("run", "-q", "--name", "quiet", "sleep", "0.5")
        energy = self.show("quiet")["energy"]
        self.assertEqual((energy["validity"], energy["energy_joules"]), ("no_device", None))
        self.assertIn("none of its processes used one of the 8 devices", energy["reason"])

    def test_by_the_agent(self):
        seen = {"LD_LIBRARY_PATH": str(FAKE), "GPULENS_FAKE_NVML": str(self.world)}
        programs = f"{{socket: '{self.home}/otlp.sock', interval: 100ms}}"
        with Agent(config=f"interval: 100ms\ncollectors: {{programs: {programs}}}\n", environment=seen):
            wait_until(lambda: (self.home / "energy.sock").exists())
            del self.environment["LD_LIBRARY_PATH"], self.environment["GPULENS_FAKE_NVML"]
            self.environment.update(GPULENS_ENERGY="agent", GPULENS_ENERGY_SOCKET=str(self.home / "energy.sock"))
            energy, seconds = self.run_energy()
            self.assert_one_board(energy, seconds, 1)
            self.assertEqual(energy["attribution"], "exclusive")

    def test_a_mig_device_that_nvml_alone_knows(self):
        del self.environment["LD_LIBRARY_PATH"]
        self.environment.update(GPULENS_ENERGY="agent", CUDA_VISIBLE_DEVICES="MIG-1c2d")
        self.good("run", "-q", "--name", "part", "true")
        energy = self.show("part")["energy"]
        self.assertEqual((energy["validity"], energy["energy_joules"]), ("no_device", None))
        self.assertIn("MIG device, which NVML alone knows", energy["reason"])


if __name__ == "__main__":
    unittest.main()
