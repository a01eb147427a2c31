"""Runs of the Python package as the program `gpulens` prints them: the rows ze-030 to ze-034 of what zernel promises.

The program is that of the repository's build (build/release/gpulens, or $GPULENS_BIN); without it these tests skip.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import unittest

import gpulens

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = pathlib.Path(os.environ.get("GPULENS_BIN", ROOT / "build/release/gpulens"))
FAKE = pathlib.Path(os.environ.get("GPULENS_FAKE_NVML_FOLDER", ROOT / "build/release/fake_nvml"))
SNIPPET = """
from gpulens.compat import zernel
# Track an experiment programmatically
with zernel.experiment("my-run") as exp:
    exp.log_param("lr", 0.001)
    for step in range(1000):
        loss = train_step()
        exp.log_metric("loss", loss, step=step)
"""
PREAMBLE = """
_losses = iter(1 / (step + 1) for step in range(1000))
def train_step():
    return next(_losses)
"""


# The script's own process, on all eight simulated GPUs.
ON_ALL_GPUS = """
import os
with open(os.environ["GPULENS_FAKE_NVML"], "w") as world:
    world.write("model: H100\\ngpus: 8\\nload: {kind: idle}\\nprocesses:\\n")
    for gpu in range(8):
        world.write(f"  - {{gpu: {gpu}, pid: {os.getpid()}, memory: 1GiB}}\\n")
"""
NUMBERS_AS_THE_HOST = os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"


@unittest.skipUnless(BINARY.exists(), "the program gpulens is not built here")
class ProgramOutput(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpulens-exp-")
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        self.environment = {key: value for key, value in os.environ.items()
                            if not key.startswith("GPULENS_") and key not in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")}
        self.environment["HOME"] = str(self.home)

    def call(self, *command, **more):
        return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=60, cwd=self.home, check=False,
                              env={**self.environment, **more})

    def output(self, *arguments):
        done = self.call(BINARY, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def python(self, code, **more):
        return self.call(sys.executable, "-c", textwrap.dedent(code), **more)

    def snippet(self):
        done = self.python(PREAMBLE + SNIPPET)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_ze_030_the_run_is_listed_as_done(self):
        self.snippet()
        self.assertRegex(self.output("exp", "list"), r"\nexp-\d{8}-\d{6}-[0-9a-f]{8} +my-run +done +999 +0\.001 ")

    def test_ze_031_its_param_is_shown(self):
        self.snippet()
        self.assertRegex(self.output("exp", "show", "my-run"), r"\nPARAM +VALUE\nlr +0\.001\n")

    def test_ze_032_the_whole_history_in_order(self):
        self.snippet()
        (run,) = json.loads(self.output("exp", "list", "--json"))["runs"]
        whole = json.loads(self.output("exp", "export", run["id"]))
        points = [(point[0], point[2]) for point in whole["history"]["loss"]]
        self.assertEqual(points, [(step, 1 / (step + 1)) for step in range(1000)])

    def test_ze_033_an_exception_is_a_failure_and_a_kill_a_crash(self):
        done = self.python("""
            import gpulens
            with gpulens.experiment("bad") as exp:
                raise ValueError("loss is NaN")
            """)
        self.assertEqual(done.returncode, 1)
        self.assertIn("status      failed: ValueError: loss is NaN\n", self.output("exp", "show", "bad"))
        done = self.python("""
            import os, signal, gpulens
            exp = gpulens.experiment("killed")
            exp.log_metric("loss", 0.5, step=7)
            exp.flush()
            os.kill(os.getpid(), signal.SIGKILL)
            """)
        self.assertEqual(done.returncode, -9)
        page = json.loads(self.output("exp", "show", "killed", "--json"))
        self.assertEqual((page["status"], page["metrics"]["loss"]["last_step"]), ("crashed", 7))
        self.assertRegex(self.output("exp", "list", "--status", "crashed"), r"killed +crashed +7 .*last heartbeat 2")

    def test_ze_034_the_package_is_an_installed_one(self):
        self.assertEqual(pathlib.Path(gpulens.__file__).parent.parent, pathlib.Path(sysconfig.get_paths()["platlib"]))

    def test_a_script_of_gpulens_run_is_this_run(self):
        (self.home / "train.py").write_text(PREAMBLE + SNIPPET + "print('lr=1 loss=77')\n")
        environment = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = self.call(BINARY, "run", "train.py", PATH=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        (run,) = json.loads(self.output("exp", "list", "--json"))["runs"]
        self.assertEqual((run["name"], run["status"], run["exit_code"]), ("my-run", "done", 0))
        self.assertEqual((run["metrics"]["loss"]["count"], run["metrics"]["loss"]["max"]), (1000, 1),
                         "what it logs itself is not taken from what it prints")
        self.assertEqual(run["metrics"]["lr"]["last"], 1)

    @unittest.skipUnless((FAKE / "libnvidia-ml.so.1").exists(), "the simulated NVML is not built")
    def test_joules_of_simulated_gpus(self):
        simulated = {"LD_LIBRARY_PATH": str(FAKE), "GPULENS_FAKE_NVML": str(self.home / "world.yaml")}
        done = self.python(ON_ALL_GPUS + textwrap.dedent("""
            import time, gpulens
            with gpulens.experiment("a", heartbeat_interval_seconds=0.05) as exp:
                for step in range(1, 11):
                    exp.log_metric("loss", 1 / step, step=step)
                    time.sleep(0.05)
            print(exp.energy.energy_joules, exp.energy.mean_power_watts, exp.energy.devices, exp.energy.vendor)
            """), **simulated)
        self.assertEqual(done.returncode, 0, done.stderr)
        joules, watts, devices, vendor = done.stdout.split()
        if not NUMBERS_AS_THE_HOST:
            self.skipTest("a container with process numbers of its own")
        self.assertEqual((float(watts), devices, vendor), (8 * 71, "8", "nvidia"))
        page = json.loads(self.output("exp", "show", "a", "--json"))
        energy = page["energy"]
        self.assertEqual((energy["energy_joules"], energy["validity"], energy["method"]), (float(joules), "valid", "counter"))
        # No more than the eight GPUs drew while the process was there, and for the half second of the loop at least.
        self.assertLessEqual(float(joules), 8 * 71 * page["duration_seconds"] + energy["uncertainty_joules"])
        self.assertGreater(float(joules), 8 * 71 * 0.1)
        text = self.output("exp", "show", "a")
        self.assertRegex(text, r"\nenergy +[\d.]+ J ± [\d.]+ J  counter, exclusive")
        self.assertRegex(text, r"\ndevices +8 nvidia: 0 % busy \(peak 0 %\), 568 W \(peak 568 W\)")
        listed = re.search(r"a +done +10 .* (8) +([\d.]+) J +([\d.]+)\n", self.output("exp", "list"))
        self.assertIsNotNone(listed)
        self.assertAlmostEqual(float(listed[3]), float(joules) / 10, places=2)
        done = self.call(BINARY, "run", "-q", "--name", "b", "echo", "loss=1", **simulated)
        self.assertEqual(done.returncode, 0, done.stderr)
        # It ended before anybody could look whether it used a GPU, or was seen to use none.
        brief = json.loads(self.output("exp", "show", "b", "--json"))["energy"]
        self.assertIn((brief["validity"], brief.get("attribution")), (("no_device", None), ("valid", "whole_board")))
        done = self.call(BINARY, "run", "-q", "--no-energy", "--name", "c", "echo", "loss=1", **simulated)
        self.assertNotIn("energy", json.loads(self.output("exp", "show", "c", "--json")))


if __name__ == "__main__":
    unittest.main()
