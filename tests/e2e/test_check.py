"""`gpulens check` against the simulated libnvidia-ml.so.1: every exit code, through an agent and without one."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from agent import BINARY, Agent, free_port, nvidia_config, samples, value, wait_until

OK, WARNING, CRITICAL, UNKNOWN = range(4)


class Checker:
    """The command with one configuration; no agent runs at the address it names."""

    def __init__(self, test, profile):
        config, self.environment = nvidia_config(profile)
        handle, self.config = tempfile.mkstemp(suffix=".yaml")
        with os.fdopen(handle, "w") as file:
            file.write(config + f"http: {{listen: ['127.0.0.1:{free_port()}']}}\n")
        test.addCleanup(os.unlink, self.config)

    def run(self, *arguments, **environment):
        return run("--config", self.config, *arguments, **{**self.environment, **environment})


def run(*arguments, **environment):
    done = subprocess.run([str(BINARY), "check", *arguments], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **environment}, check=False)
    return done.returncode, done.stdout, done.stderr


class Alive(unittest.TestCase):
    """--alive, the probe of containers that have no shell: of the agent alone, with and without passwords of its pages."""

    def test_answers_or_not(self):
        with Agent("--demo") as agent:
            code, out, _ = run("--alive", "--url", f"http://127.0.0.1:{agent.port}")
            self.assertEqual((code, out), (OK, f"OK - the agent at 127.0.0.1:{agent.port} answers\n"))
        code, out, _ = run("--alive", "--url", f"http://127.0.0.1:{agent.port}")
        self.assertEqual(code, CRITICAL, out)
        self.assertIn(f"CRITICAL - the agent at 127.0.0.1:{agent.port}: ", out)

    def test_goes_with_no_check(self):
        for more in ("gpu_num", "--direct", "--demo", "--json"):
            code, out, _ = run("--alive", more)
            self.assertEqual(code, UNKNOWN)
            self.assertIn("--alive only checks that the agent answers", out)


class Direct(unittest.TestCase):
    def test_exit_codes(self):
        check = Checker(self, "checks.yaml")
        code, out, err = check.run("gpu_temperature")
        self.assertEqual(code, OK, out + err)
        self.assertRegex(out, r"^OK - gpu_temperature: 4 GPUs, highest \d+ °C \| gpu0=\d+;85;90 gpu1=")
        self.assertIn("read by this process", err)
        code, out, _ = check.run("pcie_replays")
        self.assertEqual(code, WARNING, out)
        self.assertIn("WARNING - pcie_replays: GPU 3 at 200 replays, limit 100", out)
        code, out, _ = check.run("ecc_uncorrected_volatile_total")
        self.assertEqual(code, CRITICAL, out)
        self.assertIn("GPU 1 at 2 errors, limit 0", out)
        code, out, _ = check.run("gpu_retired_pages")
        self.assertEqual(code, UNKNOWN, "an H100 has no counter of retired pages")
        self.assertIn("do not report gpu.retired_pages", out)

    def test_several_the_worst_wins(self):
        check = Checker(self, "checks.yaml")
        code, out, _ = check.run("gpu_num", "row_remap", "nvlink_status", "gpu_retired_pages", "--format", "json")
        self.assertEqual(code, CRITICAL)
        page = json.loads(out)
        self.assertEqual((page["schema"], page["code"], page["status"]), ("gpulens.check/1", 2, "CRITICAL"))
        self.assertEqual([c["code"] for c in page["checks"]], [OK, CRITICAL, CRITICAL, UNKNOWN])
        self.assertEqual(page["checks"][2]["gpus"][2], {"gpu": "2", "value": 1, "code": 2})

    def test_thresholds_and_switches(self):
        check = Checker(self, "checks.yaml")
        self.assertEqual(check.run("pcie_replays=300,400")[0], OK)
        self.assertEqual(check.run("pcie_replays", "--critical", "150")[0], CRITICAL)
        self.assertEqual(check.run("gpu_num", "--critical", "8")[0], CRITICAL)
        code, out, _ = check.run("row_remap", "--disable", "row_remap")
        self.assertEqual((code, out), (OK, "OK - row_remap: disabled\n"))
        code, out, _ = check.run("row_remap", GPULENS_CHECK_DISABLE="row_remap,xid")
        self.assertEqual((code, out), (OK, "OK - row_remap: disabled\n"))

    def test_wrong_use_is_unknown(self):
        for arguments in ((), ("gpu_temprature",), ("gpu_num", "row_remap", "--critical", "3"), ("gpu_num=x",),
                          ("gpu_num", "--format", "xml"), ("gpu_num", "--disable", "nothing"), ("--nonsense",),
                          ("gpu_num", "--url", "ftp://x")):
            code, out, err = run(*arguments)
            self.assertEqual(code, UNKNOWN, (arguments, out, err))
        self.assertIn("Did you mean gpu_temperature?", run("gpu_temprature")[1])
        code, out, _ = run("--list")
        self.assertEqual(code, OK)
        self.assertIn("ecc_corrected_volatile_total", out)

    def test_without_a_library_nothing_is_ok(self):
        handle, path = tempfile.mkstemp(suffix=".yaml")
        with os.fdopen(handle, "w") as file:
            file.write("collectors: {nvidia: {library: /nowhere/libnvidia-ml.so.1}}\n")
        self.addCleanup(os.unlink, path)
        code, out, _ = run("gpu_temperature", "--direct", "--config", path)
        self.assertEqual(code, UNKNOWN, out)
        self.assertTrue(out.startswith("UNKNOWN - "), out)

    def test_a_requested_agent_that_is_absent(self):
        code, out, _ = run("gpu_temperature", "--url", f"http://127.0.0.1:{free_port()}")
        self.assertEqual(code, UNKNOWN, out)

    def test_demo_is_marked_as_simulated(self):
        code, out, _ = run("gpu_num", "--demo")
        self.assertEqual((code, out), (OK, "OK - gpu_num: SIMULATED, 8 of 8 GPUs answer\n"))


class ThroughAnAgent(unittest.TestCase):
    def test_the_agent_is_queried_first(self):
        config, environment = nvidia_config("checks.yaml", interval="200ms")
        # The result of another run would stay for half a minute.
        state = self.enterContext(tempfile.TemporaryDirectory(prefix="gpulens-check-"))
        with Agent(config=config + f"state_dir: {state}\n", environment=environment) as agent:
            wait_until(lambda: len(samples(agent.page(), "gpu_ecc_errors_total")) >= 8)
            wait_until(lambda: value(agent.page(), "gpu_health_score_ratio", gpu_index="1") == 0.7)
            url = f"http://127.0.0.1:{agent.port}"
            code, out, err = run("ecc_uncorrected_volatile_total", "--url", url)
            self.assertEqual(code, CRITICAL, out + err)
            self.assertIn("GPU 1 at 2 errors", out)
            self.assertIn("the agent at " + url, err)
            code, out, _ = run("gpu_health", "--url", url)
            self.assertEqual(code, WARNING, out)
            self.assertIn("GPU 1 at 0.7 of 1, limit 0.8", out)
            config_file = pathlib.Path(agent.folder) / "check.yaml"
            config_file.write_text(f"http: {{listen: ['127.0.0.1:{agent.port}']}}\n")
            code, _, err = run("gpu_num", "--config", str(config_file))
            self.assertEqual(code, OK)
            self.assertIn("the agent at " + url, err)


if __name__ == "__main__":
    unittest.main()
