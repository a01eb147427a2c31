"""The best monitor, and energy of RAPL, on simulated machines: a tree with counters, simulated libraries of the vendors.

The simulated libraries are what the repository's build makes; machines that need one that is not there are left out.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIBRARIES = {
    "nvidia": pathlib.Path(os.environ.get("GPULENS_FAKE_NVML_FOLDER", ROOT / "build/release/fake_nvml")),
    "amd": pathlib.Path(os.environ.get("GPULENS_FAKE_AMDSMI_FOLDER", ROOT / "build/release/fake_amdsmi")),
}
ZONES = {"0": ("package-0", 500_000), "0:0": ("dram", 100_000), "1": ("package-1", 900_000)}


class Machines(unittest.TestCase):
    def run_on(self, *parts):
        for part in parts:
            if part in LIBRARIES and not any(LIBRARIES[part].glob("*.so*")):
                self.skipTest(f"the simulated library of {part} is not built")
        with tempfile.TemporaryDirectory(prefix="gpulens-") as folder:
            root = pathlib.Path(folder)
            powercap = root / "sys/class/powercap"
            powercap.mkdir(parents=True)
            for zone, (name, energy) in ZONES.items() if "rapl" in parts else ():
                at = powercap / f"intel-rapl:{zone}"
                at.mkdir()
                (at / "name").write_text(name + "\n")
                (at / "energy_uj").write_text(f"{energy}\n")
                (at / "max_energy_range_uj").write_text(("1000000" if zone == "1" else "262143328850") + "\n")
            profile = root / "amd.yaml"
            profile.write_text("model: MI300X\ngpus: 2\nload: {level: 0.5}\n")
            hidden = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPULENS_ENERGY")
            env = {key: text for key, text in os.environ.items() if key not in hidden}
            env.update(
                MACHINE=" ".join(parts), GPULENS_ENERGY_ROOT=folder, GPULENS_ENERGY_SOCKET=f"{folder}/none",
                LD_LIBRARY_PATH=":".join(str(LIBRARIES[part]) for part in parts if part in LIBRARIES),
                GPULENS_FAKE_NVML=str(ROOT / "tests/fake_nvml/profiles/h100_idle.yaml"), GPULENS_FAKE_AMDSMI=str(profile),
            )  # fmt: skip
            done = subprocess.run([sys.executable, "-m", "unittest", "-v", "simulated_machine"], env=env, capture_output=True,
                                  text=True, timeout=300, cwd=pathlib.Path(__file__).parent)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_all(self):
        self.run_on("nvidia", "amd", "rapl")

    def test_nvidia_and_processors(self):
        self.run_on("nvidia", "rapl")

    def test_amd_and_processors(self):
        self.run_on("amd", "rapl")

    def test_amd(self):
        self.run_on("amd")

    def test_processors(self):
        self.run_on("rapl")

    def test_nothing(self):
        self.run_on()


if __name__ == "__main__":
    unittest.main()
