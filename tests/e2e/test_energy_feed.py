"""Energy that the agent reads for programs: a program without NVML has the joules of the simulated GPUs' counters."""
import os
import pathlib
import signal
import socket
import stat
import subprocess
import tempfile
import time
import unittest

from agent import BINARY, Agent, processes_below, samples, wait_until
from test_sdk import Program

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FAKE = pathlib.Path(os.environ.get("GPULENS_FAKE_NVML_FOLDER", BINARY.parent / "fake_nvml"))
WATTS = 8 * 71.0  # of eight idle H100, always


class Drawn:
    """An answer of the program."""

    def __init__(self, line):
        self.line = line
        self.validity, joules, wrong, seconds, self.vendor, devices, *reason = line.split(" ", 6)
        self.joules, self.wrong, self.seconds, self.devices = float(joules), float(wrong), float(seconds), int(devices)
        self.reason = reason[0] if reason else ""


def children(pid):
    """The readers that an agent has started."""
    return [one for one, words in processes_below(pid).items() if words[1:3] == ["reader", "energy"]]


@unittest.skipUnless((FAKE / "libnvidia-ml.so.1").exists(), "the simulated NVML is not built")
class Feed(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="gpulens-e2e-")
        self.addCleanup(self.folder.cleanup)
        self.socket = f"{self.folder.name}/energy.sock"

    def agent(self):
        # The agent finds the library; the program does not.
        seen = {"LD_LIBRARY_PATH": str(FAKE), "GPULENS_FAKE_NVML": str(ROOT / "tests/fake_nvml/profiles/h100_idle.yaml"),
                "CUDA_VISIBLE_DEVICES": ""}
        programs = f"{{socket: '{self.folder.name}/otlp.sock', interval: 100ms}}"
        return Agent(config=f"interval: 100ms\ncollectors: {{programs: {programs}}}\n", environment=seen)

    def program(self, **more):
        return Program(GPULENS_ENERGY_SOCKET=self.socket, GPULENS_ENERGY="agent", **more)

    def listens(self):
        wait_until(lambda: os.path.exists(self.socket))

    def window(self, program):
        """The energy of a window so long that half of it is certain: on a busy machine the readings at its ends come late."""
        for seconds in (0.3, 1, 3, 9):
            program.do("drawn")
            end = time.monotonic() + seconds
            wait_until(lambda end=end: time.monotonic() >= end)
            drawn = Drawn(program.do("drawn"))
            if drawn.wrong < 0.5 * drawn.joules:
                break
        return drawn

    def assert_true(self, drawn, watts=WATTS):
        self.assertEqual(drawn.validity, "valid", drawn.line)
        self.assertAlmostEqual(drawn.joules, watts * drawn.seconds, delta=drawn.wrong + 0.1, msg=drawn.line)
        self.assertLess(drawn.wrong, 0.5 * drawn.joules, drawn.line)
        self.assertEqual(drawn.vendor, "nvidia")

    def test_joules_by_the_agent_are_the_counters(self):
        with self.agent() as agent:
            self.listens()
            self.assertTrue(stat.S_IMODE(os.stat(self.socket).st_mode) == 0o666)
            self.assertEqual(children(agent.process.pid), [], "no request yet")
            with self.program() as program:
                drawn = self.window(program)
                self.assertEqual(drawn.devices, 8)
                self.assert_true(drawn)
                self.assertEqual(len(children(agent.process.pid)), 1)

    def test_two_programs_have_one_reader_and_their_own_devices(self):
        with self.agent() as agent:
            self.listens()
            with self.program(CUDA_VISIBLE_DEVICES="3") as one, self.program(CUDA_VISIBLE_DEVICES="0,1") as two:
                first, second = self.window(one), self.window(two)
                self.assertEqual((first.devices, second.devices), (1, 2))
                self.assert_true(first, 71.0)
                self.assert_true(second, 142.0)
                self.assertEqual(len(children(agent.process.pid)), 1)

    def test_a_reader_that_is_killed_is_started_again(self):
        with self.agent() as agent:
            self.listens()
            with self.program() as program:
                self.assert_true(self.window(program))
                (reader,) = children(agent.process.pid)
                os.kill(reader, signal.SIGKILL)
                wait_until(lambda: children(agent.process.pid) not in ([], [reader]))
                wait_until(lambda: Drawn(program.do("drawn")).validity == "valid", 30)
                self.assert_true(self.window(program))

    def test_a_lost_agent_is_reported_and_its_successor_used(self):
        with self.program() as program:
            with self.agent():
                self.listens()
                self.assert_true(self.window(program))
            self.assertFalse(os.path.exists(self.socket))
            wait_until(lambda: Drawn(program.do("drawn")).validity == "source_failed", 30)
            gone = Drawn(program.do("drawn"))
            self.assertEqual(gone.line.split()[1], "nan")
            self.assertIn("agent", gone.reason)
            with self.agent():
                self.listens()
                wait_until(lambda: Drawn(program.do("drawn")).validity == "valid", 60)
                self.assert_true(self.window(program))

    def test_released_gpus_are_held_by_no_reader(self):
        control = f"{self.folder.name}/gpulens.sock"
        order = lambda *words: subprocess.run([BINARY, "gpu", *words, "--socket", control], capture_output=True, timeout=60)
        programs = f"programs: {{socket: '{self.folder.name}/otlp.sock', interval: 100ms}}"
        config = f"interval: 100ms\ncontrol: {{socket: {control}}}\ncollectors: {{nvidia: {{library: simulated}}, {programs}}}\n"
        seen = {"GPULENS_FAKE_NVML": str(ROOT / "tests/fake_nvml/profiles/h100_idle.yaml")}
        with Agent(config=config, environment=seen) as agent:
            self.listens()
            wait_until(lambda: samples(agent.page(), "gpu_power_draw_watts"), 20, "GPU values")
            with self.program() as program:
                self.assert_true(self.window(program))
                self.assertEqual(order("release").returncode, 0)
                wait_until(lambda: children(agent.process.pid) == [])
                wait_until(lambda: Drawn(program.do("drawn")).validity == "source_failed", 30)
                self.assertEqual(children(agent.process.pid), [])
                self.assertEqual(order("resume").returncode, 0)
                wait_until(lambda: Drawn(program.do("drawn")).validity == "valid", 60)
                self.assert_true(self.window(program))

    def test_a_client_with_an_unknown_request_is_disconnected(self):
        with self.agent():
            self.listens()
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                client.settimeout(30)
                client.connect(self.socket)
                client.send(b"GET /metrics HTTP/1.1\r\n\r\n")
                self.assertEqual(client.recv(100), b"")
            with self.program() as program:
                self.assert_true(self.window(program))

    def test_without_an_agent_the_reason_names_the_socket(self):
        with self.program() as program:
            program.do("drawn")
            drawn = Drawn(program.do("drawn"))
        self.assertNotEqual(drawn.vendor, "nvidia")
        if drawn.validity != "valid":  # else there is RAPL
            self.assertIn(f"no agent at {self.socket}", drawn.reason)


if __name__ == "__main__":
    unittest.main()
