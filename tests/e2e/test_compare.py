"""`gpulens doctor --compare` with a simulated nvidia-smi of the same simulated machine, and with hostile output."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from agent import BINARY, PROFILES, ROOT, fake_library

TOOL = ROOT / "tests" / "fake_nvidia_smi" / "nvidia-smi"
BAD = ROOT / "src/cli/compare/testdata/bad"
HL_SMI = ROOT / "tests" / "fake_hl_smi" / "hl-smi"


def run_compare(*arguments, profile="h200", **environment):
    """The exit code, stdout and stderr of a comparison of simulated GPUs. `profile`: the name of one, or its text."""
    with tempfile.TemporaryDirectory() as folder:
        yaml = pathlib.Path(folder, "profile.yaml")
        yaml.write_text(profile if "\n" in profile else (PROFILES / f"{profile}.yaml").read_text())
        config = pathlib.Path(folder, "gpulens.yaml")
        config.write_text(f"state_dir: {folder}\n")
        ours = {**os.environ, "GPULENS_FAKE_NVML": str(yaml), "FAKE_NVIDIA_SMI_LIBRARY": str(fake_library()),
                **environment}
        done = subprocess.run([str(BINARY), "doctor", "--demo", "--config", str(config), *arguments], env=ours,
                              capture_output=True, text=True, timeout=240, check=False)
    return done.returncode, done.stdout, done.stderr


def compare(*arguments, profile="h200", **environment):
    code, out, errors = run_compare("--compare", "--tool", str(TOOL), "--json", *arguments, profile=profile, **environment)
    assert out, errors
    return code, json.loads(out)


def unexplained(report):
    return [(field["subject"], field["field"], field["tool"], field["gpulens"], field["reason"])
            for field in report["fields"] if field["verdict"] == "unexplained"]


class Compare(unittest.TestCase):
    def test_every_field_of_busy_gpus_has_its_reason(self):
        code, report = compare()
        self.assertEqual(unexplained(report), [])
        self.assertEqual(code, 0)
        self.assertGreaterEqual(report["distinct_fields"], 150)
        self.assertGreaterEqual(report["comparisons"], 8 * 150)
        # Most of it is compared and not just listed.
        compared = {field["field"] for field in report["fields"]
                    if field["metric"] and field["tool"] != "N/A" and field["gpulens"]}
        self.assertGreaterEqual(len(compared), 85, sorted(compared))
        self.assertTrue(report["simulated"])

    def test_other_boards(self):
        for profile in ("a100", "h100_busy", "l4", "gb200", "gb10", "gb10_system_memory", "mig_table", "no_ecc"):
            with self.subTest(profile=profile):
                code, report = compare(profile=profile)
                self.assertEqual(unexplained(report), [])
                self.assertEqual(code, 0)
                # Where the tool has no value, gpulens has none, but for the mean power where the board has no other.
                self.assertLessEqual({field["field"] for field in report["fields"] if field["verdict"] == "tool_silent"},
                                     {f"{part}_power_readings/instant_power_draw" for part in ("gpu_memory", "module")})

    def test_a_value_where_the_tool_has_none_is_found(self):
        wrong = ["temperature/gpu_temp=N/A", "fb_memory_usage/used=[ERR!]", "performance_state=P15"]
        code, report = compare(FAKE_NVIDIA_SMI_WRONG=";".join(wrong), profile="h100_idle")
        self.assertEqual(sorted(f"{field[1]}={field[2]}" for field in unexplained(report)), sorted(wrong))
        self.assertEqual(code, 1)

    def test_wrong_values_and_unknown_fields_are_found(self):
        wrong = ["max_clocks/sm_clock=1234 MHz", "ecc_mode/current_ecc=Disabled", "fb_memory_usage/total=40960 MiB",
                 "product_name=NVIDIA A100", "gpu_power_readings/max_power_limit=70.00 W", "compute_mode=Prohibited",
                 "temperature/gpu_temp=7 C", "fan_speed=30 %", "warp_core/temperature=9 C"]
        code, report = compare(FAKE_NVIDIA_SMI_WRONG=";".join(wrong), profile="h100_idle")
        self.assertEqual(sorted(f"{field[1]}={field[2]}" for field in unexplained(report)), sorted(wrong))
        self.assertEqual(code, 1)
        self.assertEqual(report["looks"], 3)

    def test_the_table_fits_a_terminal(self):
        code, out, _ = run_compare("--compare", "--tool", str(TOOL), profile="h100_idle")
        self.assertEqual(code, 0)
        self.assertEqual([line for line in out.splitlines() if len(line) > 80], [])
        self.assertIn("SIMULATED", out)
        self.assertIn("0 unexplained", out)
        self.assertRegex(out, r"● [1-9]\d\d+ values agree, ")
        self.assertIn("gpu:GPU-", out)

    def test_a_recording(self):
        ours = {**os.environ, "GPULENS_FAKE_NVML": str(PROFILES / "h100_idle.yaml"),
                "FAKE_NVIDIA_SMI_LIBRARY": str(fake_library())}
        xml = subprocess.run([str(TOOL), "-q", "-x"], env=ours, capture_output=True, check=True, timeout=60).stdout
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "smi.xml")
            file.write_bytes(xml)
            code, out, errors = run_compare("--compare-with", str(file), "--json", profile="h100_busy")
            self.assertEqual(code, 0, out[-2000:] + errors)
            file.write_bytes(xml.replace(b"<max_link_gen>5<", b"<max_link_gen>2<", 1))
            code, out, _ = run_compare("--compare-with", str(file), "--json", profile="h100_busy")
            self.assertEqual(code, 1)
            self.assertEqual([field[1] for field in unexplained(json.loads(out))],
                             ["pci/pci_gpu_link_info/pcie_gen/max_link_gen"])

    def test_hostile_output_is_refused_at_once(self):
        for file in sorted(BAD.iterdir()):
            with self.subTest(file=file.name):
                code, out, errors = run_compare("--compare-with", str(file))
                self.assertEqual((code, out), (2, ""))
                self.assertIn("gpulens doctor --compare: ", errors)
                self.assertNotIn("root:", errors)

    def test_a_tool_that_fails(self):
        for mode, errors in (("exit3", "version mismatch"), ("garbage", "XML")):
            with self.subTest(mode=mode):
                code, _, error = run_compare("--compare", "--tool", str(TOOL), FAKE_NVIDIA_SMI_MODE=mode,
                                             profile="h100_idle")
                self.assertEqual(code, 2)
                self.assertIn(errors, error)

    def test_no_tool(self):
        code, _, errors = run_compare("--compare", PATH="/nonexistent")
        self.assertEqual(code, 2)
        self.assertIn("nvidia-smi, amd-smi, hl-smi", errors)
        code, _, errors = run_compare("--compare", "--tool", "/bin/ls")
        self.assertEqual(code, 2)


class CompareGaudi(unittest.TestCase):
    def test_hl_smi(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder, "gpulens.yaml")
            config.write_text(f"state_dir: {folder}\ncollectors: {{gaudi: {{hl_smi_path: {HL_SMI}, interval: 1s}}}}\n")
            done = subprocess.run([str(BINARY), "doctor", "--compare", "--json", "--config", str(config), "--tool",
                                   str(HL_SMI)], capture_output=True, text=True, timeout=240, check=False)
        report = json.loads(done.stdout)
        self.assertEqual(unexplained(report), [])
        self.assertEqual(done.returncode, 0)
        self.assertEqual(report["tool"], "hl-smi")


if __name__ == "__main__":
    unittest.main()
