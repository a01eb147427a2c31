"""Events, from a line of a kernel log to a counter, a sink and the store, through the real program."""
import contextlib
import json
import pathlib
import signal
import subprocess
import tempfile
import unittest

from agent import BINARY, Agent, samples, value, wait_until


# Emptied when the tests are over.
FOLDERS = tempfile.TemporaryDirectory(prefix="gpulens-events-")


def new_folder():
    return pathlib.Path(tempfile.mkdtemp(dir=FOLDERS.name))


class WithLog:
    """An agent with simulated GPUs that follows a kernel log of ours."""

    def __init__(self, interval="200ms", source=True, state=None):
        self.folder = new_folder()
        self.log, self.out = self.folder / "kern.log", self.folder / "out.jsonl"
        self.state = state or self.folder / "state"
        self.log.touch()
        kernel_log = f"{{source: file, path: {self.log}, interval: 100ms}}" if source else "{enabled: false}"
        self.agent = Agent("--demo", config=f"interval: {interval}\nstate_dir: {self.state}\n"
                           f"collectors: {{kernel_log: {kernel_log}}}\n"
                           f"sinks: {{file: {{enabled: true, path: {self.out}}}}}\n")

    def __enter__(self):
        self.agent.__enter__()
        wait_until(lambda: samples(self.agent.page(), "gpu_power_draw_watts"), what="GPU values")
        return self

    def __exit__(self, *what):
        self.agent.__exit__(*what)

    def log_kernel(self, message):
        with self.log.open("a") as file:
            file.write(f"[   12.345678] {message}\n")

    def bus_of(self, gpu):
        info = samples(self.agent.page(), "gpu_info", gpu_index=str(gpu))[0]
        return info.labels["gpu_pci_bus_id"].lower().removesuffix(".0")

    def events(self):
        """Events that the file sink has received so far, without those of every start."""
        found = []
        for line in self.out.read_text().splitlines():
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if entry.get("type") == "event" and entry["name"] not in ("gpulens.reader", "gpu.found"):
                    found.append(entry)
        return found

    def run_events(self, *arguments):
        return subprocess.run([BINARY, "events", "--state-dir", str(self.state), *arguments], capture_output=True,
                              text=True, timeout=60)

    def incidents(self, *arguments):
        answer = self.run_events("--format", "json", *arguments)
        assert answer.returncode == 0, answer.stderr
        return [json.loads(line) for line in answer.stdout.splitlines()]


class Events(unittest.TestCase):
    def test_an_xid_from_the_line_to_the_store(self):
        with WithLog() as machine:
            agent = machine.agent
            # The counter is 0 before the first event, so that rate() sees it.
            wait_until(lambda: value(agent.page(), "gpu_xid_errors_total", gpu_index="3") == 0, what="a counter at 0")
            empty = machine.run_events()
            self.assertEqual((empty.returncode, empty.stdout), (0, ""))
            self.assertIn("no events were recorded", empty.stderr)

            # Some readings must have been taken before there can be any in the incident.
            wait_until(lambda: len(machine.out.read_text().split('"gpu.power.draw"')) > 8 * 8, what="ticks")
            machine.log_kernel(f"NVRM: Xid (PCI:{machine.bus_of(3)}): 79, pid=4242, name=python3, GPU has fallen off the bus.")
            wait_until(lambda: value(agent.page(), "gpu_xid_errors_total", gpu_index="3") == 1, what="the count")
            page = agent.page()
            self.assertEqual(value(page, "gpu_xid_code_errors_total", gpu_index="3", gpu_xid_code="79"), 1)
            self.assertEqual(value(page, "gpu_xid_errors_total", gpu_index="2"), 0)
            self.assertEqual(value(page, "gpu_xid_last_error_code", gpu_index="3"), 79)
            self.assertEqual(value(page, "gpulens_events_total", event="gpu.xid"), 1)

            event = wait_until(machine.events, what="the event in the file")[0]
            self.assertEqual(event["name"], "gpu.xid")
            self.assertEqual(event["severity"], "fatal")
            self.assertEqual(event["entity"]["gpu.index"], 3)
            self.assertEqual(event["attributes"]["gpu.xid.action"], "reboot")
            self.assertEqual(event["attributes"]["process.pid"], 4242)
            self.assertIn("XID 79", agent.log_text())

            # Read while the agent writes.
            kept = wait_until(lambda: machine.incidents("--with-readings"), what="the incident")[0]
            self.assertEqual(kept["gpu_index"], 3)
            columns = [column["name"] for column in kept["readings_before"]["columns"]]
            self.assertIn("gpu.power.draw", columns)
            self.assertIn("gpu.temperature", columns)
            readings = kept["readings_before"]["samples"]
            self.assertGreaterEqual(len(readings), 3)
            self.assertTrue(all(-30.001 <= sample[0] <= 0 for sample in readings), readings)
            self.assertTrue(all(sample[1 + columns.index("gpu.power.draw")] > 0 for sample in readings))
            # The XID, and the word that the health of the GPU has by it.
            wait_until(lambda: value(agent.page(), "gpulens_store_writes_total", result="ok") == 2, what="the self-metric")

            self.assertEqual(len(machine.incidents("--gpu", "3", "--name", "gpu.xid")), 1)
            self.assertIn("no matching event", machine.run_events("--gpu", "5").stderr)
            self.assertIn("XID 79 bus, do: reboot, python3", machine.run_events().stdout)
            self.assertEqual(machine.run_events("--format", "csv", "--name", "gpu.xid").stdout.count("\n"), 2)
            # A GPU that is to be rebooted is not well.
            wait_until(lambda: value(agent.page(), "gpu_health_state", gpu_index="3", gpu_health_state="failed") == 1, what="the word")
            self.assertEqual(value(agent.page(), "gpu_health_condition", gpu_index="3", gpu_health_reason="xid_reset"), 1)

    def test_stored_events_survive_a_kill_and_the_next_agent_knows_the_last_xid(self):
        with WithLog() as machine:
            wait_until(lambda: value(machine.agent.page(), "gpu_xid_errors_total", gpu_index="1") == 0)
            machine.log_kernel(f"NVRM: Xid (PCI:{machine.bus_of(1)}): 31, pid=7, name=a, Ch 00000008")
            wait_until(lambda: value(machine.agent.page(), "gpulens_store_writes_total", result="ok") == 1,
                       what="a row on disk")
            machine.agent.process.send_signal(signal.SIGKILL)
            machine.agent.process.wait(20)
            self.assertEqual(machine.incidents()[0]["attributes"]["gpu.xid.code"], 31)
        with WithLog(state=machine.state) as again:
            wait_until(lambda: value(again.agent.page(), "gpu_xid_last_error_code", gpu_index="1") == 31)
            self.assertEqual(value(again.agent.page(), "gpu_xid_errors_total", gpu_index="1"), 0)

    def test_other_events_and_lines_that_are_none(self):
        with WithLog() as machine:
            machine.log_kernel("usb 1-1: new high-speed USB device")
            machine.log_kernel("NVRM: Xid (PCI:zz): 79, broken")
            machine.log_kernel("Out of memory: Killed process 77 (evil\x1b[31m) total-vm:1kB")
            event = wait_until(machine.events, what="the kill")[0]
            self.assertEqual(event["name"], "host.oom_kill")
            self.assertNotIn("\x1b", json.dumps(event, ensure_ascii=False))
            self.assertEqual(value(machine.agent.page(), "gpulens_events_total", event="gpu.xid"), 0)

    def test_an_endlessly_repeated_line_is_counted_and_not_reported_each_time(self):
        with WithLog() as machine:
            wait_until(lambda: value(machine.agent.page(), "gpu_xid_errors_total", gpu_index="1") == 0)
            line = f"NVRM: Xid (PCI:{machine.bus_of(1)}): 31, pid=7, name=a, Ch 00000008"
            machine.log_kernel("\n[   12.345678] ".join([line] * 3000))
            wait_until(lambda: value(machine.agent.page(), "gpu_xid_errors_total", gpu_index="1") == 3000, what="the count")
            wait_until(lambda: value(machine.agent.page(), "gpulens_events_dropped_total", reason="rate_limit") == 2995,
                       what="those that are reported together")
            self.assertEqual(len([event for event in machine.events() if event["name"] == "gpu.xid"]), 5)

    def test_without_a_watching_source_counters_of_xids_are_absent(self):
        with WithLog(source=False) as machine:
            page = machine.agent.page()
            self.assertEqual(value(page, "gpulens_events_total", event="gpu.xid"), 0)
            self.assertEqual(samples(page, "gpulens_kernel_log_lost_total"), [])

    def test_a_state_folder_that_cannot_be_written_costs_only_the_store(self):
        folder = new_folder()
        (folder / "file").touch()
        with WithLog(state=folder / "file" / "state") as machine:
            wait_until(lambda: value(machine.agent.page(), "gpu_xid_errors_total", gpu_index="0") == 0)
            machine.log_kernel(f"NVRM: Xid (PCI:{machine.bus_of(0)}): 13, Graphics SM Warp Exception")
            wait_until(lambda: value(machine.agent.page(), "gpu_xid_errors_total", gpu_index="0") == 1)
            wait_until(lambda: value(machine.agent.page(), "gpulens_store_writes_total", result="error") == 1)
            wait_until(machine.events, what="the event in the file")
            self.assertIn("incidents are not stored", machine.agent.log_text())

    def test_explain(self):
        answer = subprocess.run([BINARY, "events", "explain", "79"], capture_output=True, text=True, timeout=60)
        self.assertEqual(answer.returncode, 0)
        self.assertIn("Reboot the machine", answer.stdout)
        unknown = subprocess.run([BINARY, "events", "explain", "4000"], capture_output=True, text=True, timeout=60)
        self.assertEqual((unknown.returncode, unknown.stdout), (2, ""))


if __name__ == "__main__":
    unittest.main()
