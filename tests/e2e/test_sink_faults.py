"""Faults of receivers, networks and disks, each applied to each of the sinks that send. While it lasts the agent answers as
usual, reports which sink is down, and keeps its data; afterwards all of that is delivered, and nothing is counted as lost.

Jumps of the clock are tested where time can be set: request_log_test.cc, request_sender_test.cc, remote_write_test.cc.
"""
import concurrent.futures
import contextlib
import pathlib
import resource
import shutil
import tempfile
import time
import unittest

from agent import Agent, samples, value, wait_until
from relay import Relay
from test_grpc import certificate, grpc

try:
    import otlp_receiver
    import test_otlp_grpc
except ImportError:
    otlp_receiver = None
import remote_write_receiver
import test_webhook

SINKS = {
    "otlp": "otlp: {{endpoint: '{scheme}://127.0.0.1:{port}', {common}}}",
    "grpc": "otlp: {{endpoint: '{scheme}://127.0.0.1:{port}', protocol: grpc, {common}}}",
    "remote_write": "remote_write: {{url: '{scheme}://127.0.0.1:{port}/api/v1/write', {common}}}",
    "webhook": "webhook: {{url: '{scheme}://127.0.0.1:{port}/hook', {common}}}",
}
COMMON = "interval: 200ms, retry: {initial: 20ms, max: 100ms}, include: ['gpulens.*'], attributes: {of: faults}"
BUSY = {"otlp": "503", "grpc": "UNAVAILABLE", "remote_write": "503", "webhook": "503"}


class Receivers:
    """One of each kind, with `busy` they refuse for now. In a with statement; `ports` by the name of the sink."""

    def __init__(self):
        self.busy, self.ports, self.stack = False, {}, contextlib.ExitStack()
        self.counts = {}

    def __enter__(self):
        http = self.stack.enter_context(otlp_receiver.Receiver(lambda *_: (503 if self.busy else 200, {})))
        self.ports["otlp"], self.counts["otlp"] = http.port, lambda: len(http.requests)
        written = remote_write_receiver.Receiver(
            lambda request, n: (503, {}) if self.busy else remote_write_receiver.Receiver.good(request, n))
        self.stack.enter_context(written)
        self.ports["remote_write"] = written.port
        self.counts["remote_write"] = lambda: len(written.requests)
        hook = self.stack.enter_context(test_webhook.Hook(statuses=lambda: 503 if self.busy else 200))
        self.ports["webhook"], self.counts["webhook"] = hook.port, lambda: len(hook.records())
        if grpc:
            unavailable = (grpc.StatusCode.UNAVAILABLE, "busy", None)
            calls = test_otlp_grpc.Collector(lambda _: unavailable if self.busy else None)
            pool = concurrent.futures.ThreadPoolExecutor(4)
            server = grpc.server(pool, handlers=[calls])
            self.ports["grpc"] = server.add_insecure_port("127.0.0.1:0")
            self.counts["grpc"] = lambda: len(calls.taken)
            server.start()
            self.stack.callback(pool.shutdown)
            self.stack.callback(lambda: server.stop(None).wait(20))
        return self

    def __exit__(self, *_):
        self.stack.close()


@unittest.skipUnless(otlp_receiver, "the Python package opentelemetry-proto is not here")
class Faults(unittest.TestCase):
    def setUp(self):
        self.receivers = Receivers()
        self.receivers.__enter__()
        self.addCleanup(self.receivers.__exit__)

    def configuration(self, names, ports, scheme="http", more=""):
        common = COMMON + f", transport: {{timeout: 1s{more}}}"
        sinks = "\n".join("  " + SINKS[name].format(scheme=scheme, port=ports[name], common=common) for name in names)
        state = tempfile.mkdtemp(prefix="gpulens-faults-")
        self.addCleanup(shutil.rmtree, state, True)
        return f"interval: 200ms\nstate_dir: {state}\ncontrol: {{socket: none}}\nsinks:\n{sinks}\n"

    @contextlib.contextmanager
    def agents(self, ports, scheme="http", more=""):
        """All sinks at work: {name: its agent}. OTLP over gRPC has an agent of its own."""
        with contextlib.ExitStack() as stack:
            found = {}
            for names in (["otlp", "remote_write", "webhook"], ["grpc"] if grpc else []):
                if names:
                    agent = stack.enter_context(Agent(config=self.configuration(names, ports, scheme, more)))
                    found.update({name: agent for name in names})
            yield found

    @staticmethod
    def of(agent, name, metric, **labels):
        return value(agent.page(), "gpulens_sink_" + metric, sink="otlp" if name == "grpc" else name, **labels)

    def wait_down(self, agents, what):
        for name, agent in agents.items():
            wait_until(lambda: self.of(agent, name, "up") == 0 and self.of(agent, name, "queue_length", queue="delivery") >= 3, 30,
                       f"{what}: {name} being down with what waits")

    def wait_healed(self, agents, what):
        """All is delivered, nothing was lost, and more comes."""
        for name, agent in agents.items():
            wait_until(lambda: self.of(agent, name, "up") == 1 and self.of(agent, name, "queue_length", queue="delivery") <= 1, 60,
                       f"{what}: {name} having delivered all")
            page = agent.page()
            lost = [s for s in samples(page, "gpulens_sink_dropped_total", queue="delivery") if s.value]
            self.assertEqual(lost, [], what)
            count = self.receivers.counts[name]
            before = count()
            wait_until(lambda: count() > before, 30, f"{what}: {name} sending more")

    def test_each_fault_is_reported_and_loses_nothing(self):
        with contextlib.ExitStack() as stack:
            relays = {name: stack.enter_context(Relay(("127.0.0.1", port))) for name, port in self.receivers.ports.items()}
            with self.agents({name: relay.port for name, relay in relays.items()}) as agents:
                self.wait_healed(agents, "at first")
                for fault in ("away", "hang", "garbage", "reset", "busy"):
                    with self.subTest(fault):
                        self.receivers.busy = fault == "busy"
                        for relay in relays.values():
                            relay.act("good" if fault == "busy" else fault)
                        self.wait_down(agents, fault)
                        if fault == "busy":
                            for name, agent in agents.items():
                                self.assertGreater(self.of(agent, name, "requests_total", code=BUSY[name]), 0, name)
                        self.receivers.busy = False
                        for relay in relays.values():
                            relay.act("good")
                        self.wait_healed(agents, fault)

    def test_a_receiver_that_is_away_from_beginning_to_end(self):
        with contextlib.ExitStack() as stack:
            relays = {name: stack.enter_context(Relay(("127.0.0.1", port))) for name, port in self.receivers.ports.items()}
            for relay in relays.values():
                relay.act("away")
            with self.agents({name: relay.port for name, relay in relays.items()}) as agents:
                self.wait_down(agents, "away")
                begin = time.monotonic()
            self.assertLess(time.monotonic() - begin, 20, "the end does not wait for it, and its exit code is 0")

    def test_tls_that_does_not_fit(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other, contextlib.ExitStack() as stack:
            good, bad = certificate(folder), certificate(other)
            cases = (("an unknown certificate", bad), ("no TLS at all", None))
            for what, shown in cases:
                with self.subTest(what):
                    relays = {name: stack.enter_context(Relay(("127.0.0.1", port), shown))
                              for name, port in self.receivers.ports.items()}
                    ports = {name: relay.port for name, relay in relays.items()}
                    before = {name: count() for name, count in self.receivers.counts.items()}
                    with self.agents(ports, "https", f", tls: {{ca_file: {good[0]}}}") as agents:
                        self.wait_down(agents, what)
                        self.assertEqual({name: count() for name, count in self.receivers.counts.items()}, before)
                        # The right certificate on the same port.
                        for name, relay in relays.items():
                            relay.act("away")
                            fitting = Relay(("127.0.0.1", self.receivers.ports[name]), good)
                            fitting.port = relay.port
                            stack.enter_context(fitting)
                        self.wait_healed(agents, what)

    def test_a_full_disk(self):
        """Simulates a full disk by the limit on the size of a file, which can be lifted from outside; every request is larger."""
        with self.agents(self.receivers.ports) as agents:
            self.wait_healed(agents, "at first")
            pids = {agent.process.pid for agent in agents.values()}
            for pid in pids:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
            for name, agent in agents.items():
                wait_until(lambda: self.of(agent, name, "disk_queue_unusable"), 30, f"{name} saying so")
            # The receivers are there: what the disk does not take goes on through memory.
            before = {name: count() for name, count in self.receivers.counts.items()}
            for name, count in self.receivers.counts.items():
                wait_until(lambda: count() > before[name], 30, f"{name} delivering meanwhile")
            for pid in pids:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            self.wait_healed(agents, "a full disk")


if __name__ == "__main__":
    unittest.main()
