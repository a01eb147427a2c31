"""No process of the agent needs what the sandbox refuses: every feature runs, and the kernel logs nothing that was, or would be, refused.

Two agents: with `sandbox.mode: log` the kernel allows and logs what the filter of system calls would refuse (type=1326); with `enforce` a newer
kernel logs what Landlock refuses (type=1423). A third agent sends to the first, that to the second, that to a server of the test: in a ring each
request would be forwarded for ever. As it is: 20 s. GPULENS_SOAK_MINUTES=10: so long.
"""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from agent import BINARY, Agent, free_port, processes_below, value, wait_until  # noqa: E402
from http_stub import HttpStub  # noqa: E402
from test_sandbox import TRY_INSIDE, World, confines, try_inside  # noqa: E402

MINUTES = float(os.environ.get("GPULENS_SOAK_MINUTES", "0"))
SECONDS = 60 * MINUTES or 20
LINES = re.compile(rb"audit: type=(1326|1423) .*")


class KernelLog:
    """What the kernel has logged of refused calls since this began."""

    def __init__(self):
        try:
            self.file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        except OSError as why:
            raise unittest.SkipTest(f"the kernel's log: {why}") from None
        os.lseek(self.file, 0, os.SEEK_END)
        self.seen = []

    def lines(self):
        while True:
            try:
                line = os.read(self.file, 8192)
            except BlockingIOError:
                return self.seen
            except BrokenPipeError:  # some were overwritten
                raise AssertionError("the kernel's log was overwritten before it was read") from None
            if found := LINES.search(line):
                self.seen.append(found[0].decode(errors="replace"))

    def of(self, pids):
        return [line for line in self.lines() if (pid := re.search(r" pid=(\d+)", line)) and int(pid[1]) in pids]

    def close(self):
        os.close(self.file)


class Everything:
    """A World whose agent has every sink and receiver, and is used as its users use it."""

    def __init__(self, case, mode, ports, sinks, hook):
        self.world = World(case, mode=mode)
        folder = self.world.folder
        self.config = self.world.config.split("sinks:")[0] + (
            "history: {start: at_once}\n"
            "discovery: {local: {enabled: true}}\n"
            f"receivers:\n  otlp: {{http: {{listen: ['127.0.0.1:{ports[0]}']}}, grpc: {{listen: ['127.0.0.1:{ports[1]}']}}}}\n"
            f"  remote_write: {{http: {{listen: ['127.0.0.1:{ports[2]}']}}}}\n"
            f"{sinks}"
            f"  file: {{path: {folder}/run/readings.json, rotate_size: 1MiB, interval: 1s}}\n"
            f"  webhook: {{url: '{hook.origin}/hook', interval: 5s}}\n"
            f"  keda: {{listen: ['127.0.0.1:{ports[3]}']}}\n")
        self.world.agent.environment.pop("GPULENS_SINKS_REMOTE_WRITE_TRANSPORT_BEARER_TOKEN")
        self.world.agent.config.write_text(self.config)
        self.world.agent.environment.pop("GPULENS_DISCOVERY_LOCAL_ENABLED", None)
        self.pids = set()

    def __enter__(self):
        self.world.__enter__()
        return self

    def __exit__(self, *what):
        self.world.__exit__(*what)

    def use(self, round_):
        """One round of what people and programs do with an agent."""
        agent, folder = self.world.agent, self.world.folder
        self.pids |= {agent.process.pid, *processes_below(agent.process.pid)}
        for path in ("/metrics", "/", "/-/status", "/api/now", "/api/why", "/api/events", "/api/history", "/json"):
            agent.get(path, timeout=30)
        commands = [["doctor", "--json"], ["events"], ["why", "--json"], ["ledger"], ["queue", "list"]]
        finder = folder / "finder.yaml"
        finder.write_text(f"control: {{socket: {folder}/run/s.sock}}\nhttp: {{listen: ['127.0.0.1:{agent.port}']}}\n")
        subprocess.run([str(BINARY), *commands[round_ % len(commands)], "--config", str(finder)], capture_output=True, timeout=60, check=False)
        if round_ % 5 == 1:  # another configuration, and back
            changed = self.config.replace("interval: 250ms\nstate_dir", f"interval: {250 + round_ % 2}ms\nstate_dir", 1)
            agent.reload(changed)
        if round_ % 7 == 2:  # a reader process that ends is started again
            for pid, words in processes_below(agent.process.pid).items():
                if words[1:3] in (["reader", "nvml"], ["reader", "page"]):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{agent.ws_port}/", timeout=5).close()


def sinks_to(otlp, remote_write):
    return (f"sinks:\n  otlp: {{endpoint: 'http://127.0.0.1:{otlp}', interval: 1s}}\n"
            f"  remote_write: {{url: 'http://127.0.0.1:{remote_write}/api/v1/write', interval: 1s}}\n")


@unittest.skipUnless(os.getuid() == 0 and TRY_INSIDE.exists() and confines(), "needs root, try_inside, and a build without a sanitizer")
class Logged(unittest.TestCase):
    def test_nothing_is_refused_that_is_needed(self):
        log = KernelLog()
        self.addCleanup(log.close)
        first, second = ([free_port() for _ in range(4)] for _ in range(2))
        with HttpStub(lambda *_: (200, {}, b"")) as server, \
                Everything(self, "enforce", second, sinks_to(server.port, server.port), server) as enforces, \
                Everything(self, "log", first, sinks_to(second[0], second[2]), server) as logs, \
                Agent("--demo", config=sinks_to(first[0], first[2])):
            end, round_ = time.monotonic() + SECONDS, 0
            while time.monotonic() < end:
                for one in (logs, enforces):
                    one.use(round_)
                round_ += 1
                threading.Event().wait(0.3)
            lines = log.of(logs.pids | enforces.pids)
            self.assertEqual(lines, [], f"{len(lines)} calls were refused")
            for one in (logs, enforces):
                self.assertGreater(value(one.world.agent.page(), "gpulens_config_reloads_total", result="applied"), 0)
                # Its process was killed often: the next start waits for the end of a back-off.
                wait_until(lambda one=one: value(one.world.agent.page(), "gpulens_collector_up", collector="nvidia") == 1, 120, "the reader process")
                wait_until(lambda one=one: value(one.world.agent.page(), "gpulens_sink_up", sink="otlp") == 1, 30, "the sink after the last reload")
            # The log has what is refused: else it would be empty in any case.
            pid = logs.world.agent.process.pid
            try_inside(pid, ["exec", "bpf"])
            wait_until(lambda: len(log.of({pid})) >= 2, 10, "a logged call")
            print(json.dumps({"seconds": SECONDS, "rounds": round_, "processes": len(logs.pids | enforces.pids), "refused": 0}), flush=True)


if __name__ == "__main__":
    unittest.main()
