"""gpulens queue: requests of a removed sink on disk are listed, warned of and dropped, with and without a running agent."""
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest

import otlp_receiver
import test_otlp_in
from agent import BINARY, Agent, free_port, value, wait_until

LEFT = "gpulens_sink_disk_queue_leftover_size_bytes"


class QueueCommand(unittest.TestCase):
    def setUp(self):
        self.state = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-queue-"))
        self.addCleanup(shutil.rmtree, self.state, ignore_errors=True)
        self.port, self.dead, self.unused, self.number = free_port(), free_port(), free_port(), 0
        self.config = self.state / "command.yaml"

    def text(self, sinks, interval="100ms", socket=None):
        """The configuration of agent and commands. With the socket `none` commands query no agent."""
        text = (f"interval: {interval}\nstate_dir: {self.state}\ncontrol: {{socket: {socket or self.state / 'control.sock'}}}\n"
                f"http: {{listen: ['127.0.0.1:{self.unused}']}}\n"
                f"collectors: {{nvidia: {{enabled: false}}}}\n"
                f"receivers: {{otlp: {{http: {{listen: '127.0.0.1:{self.port}'}}, grpc: {{listen: []}}}}}}\nsinks:\n"
                + "".join(f"  {name}: {{endpoint: '{url}', interval: 200ms, transport: {{timeout: 60s}}, retry: {{initial: 50ms, max: 200ms}}}}\n"
                          for name, url in sinks.items()))  # fmt: skip
        self.config.write_text(text)
        return text

    def b(self):
        return {"otlp/b": f"http://127.0.0.1:{self.dead}"}

    def run_queue(self, *words, **more):
        environment = {key: text for key, text in os.environ.items() if not key.startswith("GPULENS_")}
        return subprocess.run([BINARY, *words, "--config", self.config], capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, env=environment, **more)  # fmt: skip

    def listed(self):
        """{sink: [(folder's name, its entry)]}"""
        done = self.run_queue("queue", "list", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual(answer["schema"], "gpulens.queue/1")
        found = {}
        for folder in answer["folders"]:
            self.assertEqual(folder["problems"], [])
            for sink in folder["sinks"]:
                found.setdefault(sink["sink"], []).append((pathlib.Path(folder["folder"]).name, {**folder, **sink}))
        return found

    def waits(self, sink):
        return sum(entry["requests"] for _, entry in self.listed().get(sink, []))

    def push(self, count):
        for _ in range(count):
            body = test_otlp_in.gauge("pushed", 1, {"pad": os.urandom(20_000).hex(), "number": str(self.number)}).SerializeToString()
            self.assertEqual(test_otlp_in.post(self.port, "/v1/metrics", body).status, 200)
            self.number += 1

    def arrived(self, receiver):
        return [int(attributes["number"]) for request in receiver.requests for attributes, _ in request.points("pushed")]

    def test_a_removed_sink(self):
        with otlp_receiver.Receiver() as far, Agent(config=self.text({"otlp": far.url, **self.b()})) as agent:
            self.push(30)
            wait_until(lambda: len(self.arrived(far)) == 30 and self.waits("otlp/b") > 35, 30, "a backlog")
            self.assertEqual({entry["configured"] for _, entry in self.listed()["otlp/b"]}, {True})
            self.assertIsNone(value(agent.page(), LEFT, sink="otlp/b"))
            refused = self.run_queue("queue", "drop", "otlp/b", "--yes")
            self.assertEqual(refused.returncode, 2)
            self.assertIn("otlp/b is configured", refused.stderr)

            with_b = self.config.read_text()
            agent.reload(self.text({"otlp": far.url}))
            self.assertEqual({entry["configured"] for _, entry in self.listed()["otlp/b"]}, {False})
            self.push(10)
            size = wait_until(lambda: value(agent.page(), LEFT, sink="otlp/b"), 20, "the metric")
            self.assertGreater(size, 30 * 20_000)
            self.assertGreater(value(agent.page(), "gpulens_sink_disk_queue_leftover_length", sink="otlp/b"), 35)
            table = self.run_queue("queue", "list")
            self.assertRegex(table.stdout, r"(?m)^otlp/b +no +\d+ +[\d.]+ KiB +\d+ s ")
            doctor = self.run_queue("doctor")
            self.assertIn("gpulens queue drop otlp/b", doctor.stdout)
            self.assertEqual(doctor.returncode, 1, doctor.stdout)

            # The file may already name it again before the reload.
            self.config.write_text(with_b)
            self.assertEqual(self.run_queue("queue", "drop", "otlp/b", "--yes").returncode, 2)
            self.text({"otlp": far.url})
            silent = self.run_queue("queue", "drop", "otlp/b")
            self.assertEqual((silent.returncode, self.waits("otlp/b") > 35), (2, True))
            self.assertIn("--yes", silent.stderr)
            wait_until(lambda: not any(entry["in_use"] for _, entry in self.listed()["otlp/b"]), 30, "the agent to leave its folders")
            done = self.run_queue("queue", "drop", "otlp/b", "--yes")
            self.assertEqual(done.returncode, 0, done.stderr)
            freed = re.match(r"Dropped (\d+) requests queued for otlp/b: ([\d.]+) (K|M)iB on disk are free\.$", done.stdout)
            self.assertGreater(int(freed[1]), 35, done.stdout)
            self.assertGreater(float(freed[2]) * {"K": 1 << 10, "M": 1 << 20}[freed[3]], 30 * 20_000)
            self.assertEqual(sorted(folder.name for folder in (self.state / "queue").iterdir()), ["otlp+1", "received+1"])
            self.push(10)
            self.assertNotIn("otlp/b", self.listed())
            again = self.run_queue("queue", "drop", "otlp/b", "--yes")
            self.assertEqual((again.returncode, "nothing is queued for otlp/b" in again.stderr), (1, True))

            wait_until(lambda: len(self.arrived(far)) == 50, 30, "all")
            self.assertEqual(self.arrived(far), list(range(50)), "the other sink loses and repeats nothing")
            agent.reload(self.text({"otlp": far.url}, "150ms"))
            wait_until(lambda: value(agent.page(), LEFT, sink="otlp/b") is None, 20, "the end of the warning")
            self.assertNotIn("otlp/b", self.run_queue("doctor").stdout)

    def test_in_a_folder_that_the_agent_has_open(self):
        gate = threading.Event()
        with otlp_receiver.Receiver(lambda *_: gate.wait(60) and (200, {})) as far:
            with Agent(config=self.text({"otlp": far.url, **self.b()})) as agent:
                self.addCleanup(gate.set)
                self.push(20)
                wait_until(lambda: self.waits("otlp") >= 20, 30, "a backlog of both")
                agent.reload(self.text({"otlp": far.url}))
                shared = [entry for _, entry in self.listed()["otlp/b"] if entry["requests"]]
                self.assertTrue(shared)
                self.assertEqual({(entry["in_use"], entry.get("pid")) for entry in shared}, {(True, agent.process.pid)})
                before = self.waits("otlp")
                done = self.run_queue("queue", "drop", "otlp/b", "--yes")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"freed by process {agent.process.pid} within a minute", done.stdout)
                self.assertNotIn("otlp/b", self.listed())
                self.assertGreaterEqual(self.waits("otlp"), before, "the other sink's is still there")
                gate.set()
                wait_until(lambda: len(self.arrived(far)) == 20, 30, "all of the other sink")
                self.assertEqual(self.arrived(far), list(range(20)))
                wait_until(lambda: not any((self.state / "queue" / name).exists() for name in ("otlp", "received")), 30, "the folders' end")

    def test_without_an_agent_and_with_one_that_is_killed(self):
        with Agent(config=self.text({"otlp": f"http://127.0.0.1:{self.dead}", **self.b()})) as agent:
            self.push(20)
            wait_until(lambda: self.waits("otlp") > 22 and self.waits("otlp/b") > 22, 30, "a backlog")
            os.kill(agent.process.pid, signal.SIGKILL)
            agent.process.wait(10)
        # The owner of the folder is dropped, and the other keeps all of it.
        self.text(self.b(), socket="none")
        kept = self.waits("otlp/b")
        doctor = self.run_queue("doctor")
        self.assertEqual(doctor.returncode, 1, doctor.stdout)
        self.assertIn("gpulens queue drop otlp\n", doctor.stdout)
        self.assertEqual(self.drop_at_terminal(b"n\n").returncode, 1)
        self.assertEqual(self.drop_at_terminal(b"y\n").returncode, 0)
        self.assertNotIn("otlp", self.listed())
        self.assertEqual(self.waits("otlp/b"), kept)
        # When it is configured again it begins with what is new.
        with otlp_receiver.Receiver() as first, otlp_receiver.Receiver() as second:
            with Agent(config=self.text({"otlp": first.url, "otlp/b": second.url})):
                self.push(5)
                wait_until(lambda: len(self.arrived(second)) == 25, 30, "all")
                wait_until(lambda: len(self.arrived(first)) >= 5, 30, "what is new")
                self.assertEqual(self.arrived(second), list(range(25)))
                self.assertEqual(self.arrived(first), list(range(20, 25)))

    def test_requests_of_a_removed_sink_outlive_the_other_one(self):
        with Agent(config=self.text({"otlp": f"http://127.0.0.1:{self.dead}", **self.b()})) as agent:
            self.push(20)
            wait_until(lambda: self.waits("otlp") > 22 and self.waits("otlp/b") > 22, 30, "a backlog")
            os.kill(agent.process.pid, signal.SIGKILL)
            agent.process.wait(10)
        kept = self.waits("otlp")
        # Segments without any reader, as a crash just after a drop leaves them.
        abandoned = self.state / "queue" / "otlp+9"
        shutil.copytree(self.state / "queue" / "otlp", abandoned, ignore=shutil.ignore_patterns("position*", "lock"))
        with otlp_receiver.Receiver() as far:
            with Agent(config=self.text({"otlp/b": far.url})):
                self.assertFalse(abandoned.exists())
                wait_until(lambda: len(self.arrived(far)) == 20, 30, "all of the one that stays")
                self.push(3)
                wait_until(lambda: len(self.arrived(far)) == 23, 30, "what is new")
                self.assertEqual(self.waits("otlp"), kept)
            self.assertEqual(self.arrived(far), list(range(23)))
        with otlp_receiver.Receiver() as far, Agent(config=self.text({"otlp": far.url})):
            wait_until(lambda: len(self.arrived(far)) >= 20, 30, "what was kept")
            self.assertEqual(self.arrived(far), list(range(20)))

    def drop_at_terminal(self, answer):
        """`gpulens queue drop otlp` at a terminal that gets `answer`."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen([BINARY, "queue", "drop", "otlp", "--config", self.config], stdin=theirs, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)  # fmt: skip
        os.write(ours, answer)
        _, question = process.communicate(timeout=30)
        os.close(ours), os.close(theirs)
        self.assertRegex(question, r"Drop \d+ requests \([\d.]+ .iB\) queued for otlp\? \[y/N\]")
        return process

    def test_nothing_is_there(self):
        self.text({"otlp": f"http://127.0.0.1:{self.dead}"}, socket="none")
        self.assertIn("no sink has a queue in", self.run_queue("queue", "list").stdout)
        self.assertEqual(self.run_queue("queue", "drop", "otlp/b", "--yes").returncode, 1)
        self.assertEqual(self.run_queue("queue").returncode, 2)
        other = self.run_queue("queue", "list", "--state-dir", "/proc/nope")
        self.assertEqual((other.returncode, other.stdout), (0, "no sink has a queue in /proc/nope/queue\n"))
        self.config.write_text("sinks: 7\n")
        self.assertEqual(self.run_queue("queue", "list").returncode, 2)


if __name__ == "__main__":
    unittest.main()
