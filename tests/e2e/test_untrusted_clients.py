"""Attacks on an agent by clients without access: floods of passwords, foreign web pages, spoofed names."""
import base64
import contextlib
import crypt
import http.client
import os
import pathlib
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import unittest
import warnings

from agent import BINARY, Agent, samples, value, wait_until
from http_stub import HttpStub
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

warnings.filterwarnings("ignore", category=DeprecationWarning)


def basic(user, word):
    return "Basic " + base64.b64encode(f"{user}:{word}".encode()).decode()


class Flood:
    """Clients that try passwords as fast as they are answered, in a with statement."""

    def __init__(self, port, clients):
        self.port, self.stop, self.tried = port, threading.Event(), 0
        self.threads = [threading.Thread(target=self.run, args=(i,), daemon=True) for i in range(clients)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join(30)

    def run(self, number):
        tried = 0
        while not self.stop.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
                while not self.stop.is_set():
                    tried += 1
                    self.tried += 1
                    connection.request("GET", "/metrics", headers={"Authorization": basic("alice", f"{number}-{tried}")})
                    busy = connection.getresponse()
                    busy.read()
                    if busy.status == 503:
                        self.stop.wait(0.05)


class Passwords(unittest.TestCase):
    def agent(self, folder, cost=12):
        salt = f"$2y${cost:02}$abcdefghijklmnopqrstuu"
        web = pathlib.Path(folder, "web.yml")
        web.write_text(f"basic_auth_users:\n  alice: {crypt.crypt('secret', salt)}\n")
        return Agent(config=f"interval: 0.5s\nhttp: {{web_config: {web}}}\n", authorization=basic("alice", "secret"))

    @staticmethod
    def timed(agent, word):
        begun = time.monotonic()
        status = agent.get("/metrics", timeout=60, Authorization=basic("alice", word)).status
        return time.monotonic() - begun, status

    @staticmethod
    def ticks(agent):
        """Ticks that were late or left out, and readings of the agent itself, one each second."""
        page = agent.get("/metrics", timeout=20, Authorization=basic("alice", "secret")).text.decode()
        return value(page, "gpulens_tick_late_total"), value(page, "gpulens_collector_runs_total", collector="self", result="ok")

    @staticmethod
    def beats(manager):
        count = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                count += manager.recv(100) == b"WATCHDOG=1"
        return count

    def test_a_service_manager_that_does_not_read_causes_no_delay(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            path = str(pathlib.Path(folder, "notify"))
            manager.bind(path)
            agent = Agent()
            agent.environment.update(NOTIFY_SOCKET=path, WATCHDOG_USEC="20000")
            with agent:
                queue = int(pathlib.Path("/proc/sys/net/unix/max_dgram_qlen").read_text())
                threading.Event().wait(0.01 * min(queue, 200) * 2 + 0.5)
                self.assertEqual(agent.get("/health").status, 200)
                manager.setblocking(False)
                self.assertGreater(self.beats(manager), 1)

    def test_a_flood_of_passwords_holds_up_neither_ticks_nor_scrapes_nor_the_watchdog(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            path = str(pathlib.Path(folder, "notify"))
            manager.bind(path)
            manager.settimeout(20)
            agent = self.agent(folder)
            agent.environment.update(NOTIFY_SOCKET=path, WATCHDOG_USEC="1000000")
            with agent:
                hash_time, status = self.timed(agent, "wrong")
                self.assertEqual(status, 401)
                with Flood(agent.port, 40) as flood:
                    wait_until(lambda: flood.tried > 80, 30, "the flood")
                    manager.setblocking(False)
                    self.beats(manager)
                    begun, times, health, beats = time.monotonic(), [], [], 0
                    late, runs = self.ticks(agent)
                    while time.monotonic() - begun < 6:
                        took, status = self.timed(agent, "secret")
                        self.assertEqual(status, 200)
                        times.append(took)
                        health.append(agent.get("/health", timeout=20).status)
                        beats += self.beats(manager)
                        flood.stop.wait(0.1)
                    late_then, runs_then = self.ticks(agent)
                # A remembered password waits for no hash; behind the flood's it would wait for dozens. A hash of cost 12 takes
                # a quarter of a second, and more where the machine is busy with other things.
                self.assertLess(statistics.median(times), max(0.2, hash_time / 2), times)
                self.assertEqual(set(health), {200})
                self.assertGreaterEqual(beats, 4, "of 12 in six seconds")
                self.assertLessEqual(late_then - late, 2, "of 12 ticks")
                self.assertGreaterEqual(runs_then - runs, 5, "of 6 readings")

    def test_probes_need_no_password_and_pages_do(self):
        with tempfile.TemporaryDirectory() as folder, self.agent(folder, 4) as agent:
            for path in ("/health", "/-/healthy", "/-/ready"):
                self.assertEqual(agent.get(path).status, 200, path)
            for path in ("/", "/metrics", "/json", "/health/", "/-/ready2"):
                self.assertEqual(agent.get(path).status, 401, path)
            self.assertEqual(agent.get("/-/reload", method="POST").status, 401)
            self.assertEqual(agent.get("/health", method="POST").status, 401)


class WebPages(unittest.TestCase):
    def test_rebound_names_and_foreign_origins_are_refused(self):
        with Agent() as agent:
            here = f"127.0.0.1:{agent.port}"
            for headers, status in (({}, 200),
                                    ({"Host": f"localhost:{agent.port}"}, 200),
                                    ({"Host": "node1:9091"}, 200),
                                    ({"Host": f"evil.example:{agent.port}"}, 403),
                                    ({"Host": here, "Origin": "http://evil.example"}, 403),
                                    ({"Host": here, "Origin": "null"}, 403),
                                    ({"Host": here, "Origin": f"http://{here}"}, 200)):
                self.assertEqual(agent.get("/metrics", **headers).status, status, headers)
            self.assertEqual(agent.get("/-/reload", method="POST").status, 200, "without Origin, from this machine")
            rebound = {"Host": f"evil.example:{agent.port}", "Origin": f"http://evil.example:{agent.port}"}
            self.assertEqual(agent.get("/-/reload", method="POST", **rebound).status, 403)
            self.assertEqual(agent.get("/-/reload", method="POST", Origin="http://evil.example").status, 403)
            self.assertEqual(agent.log_text().count("the configuration was read again"), 1)
            answer = agent.get("/")
            self.assertEqual(answer.getheader("X-Content-Type-Options"), "nosniff")
            self.assertEqual(answer.getheader("X-Frame-Options"), "DENY")

    def test_allowed_hosts_may_be_requested(self):
        with Agent(config="http: {allowed_hosts: [gpu1.example.org]}\n") as agent:
            self.assertEqual(agent.get("/metrics", Host="gpu1.example.org").status, 200)
            self.assertEqual(agent.get("/metrics", Host="gpu2.example.org").status, 403)
            agent.config.write_text("http: {allowed_hosts: [gpu2.example.org]}\n")
            self.assertEqual(agent.get("/-/reload", method="POST").status, 200)
            self.assertEqual(agent.get("/metrics", Host="gpu1.example.org").status, 403)
            self.assertEqual(agent.get("/metrics", Host="gpu2.example.org").status, 200)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(20)
        self.sock.connect(self.path)


class Spoofs(unittest.TestCase):
    """A foreign value never appears under a name of the agent's own."""

    spoofed = {"gpu.power.draw": "gpu_power_draw_watts", "gpulens.collector.up": "gpulens_collector_up", "up": "up"}

    def send(self, path):
        request = ExportMetricsServiceRequest()
        metrics = request.resource_metrics.add().scope_metrics.add().metrics
        for name in (*self.spoofed, "mine"):
            metric = metrics.add(name=name, unit="W" if name == "gpu.power.draw" else "")
            metric.gauge.data_points.add(time_unix_nano=time.time_ns(), as_double=99999)
        connection = UnixConnection(path)
        connection.request("POST", "/v1/metrics", request.SerializeToString(), {"Content-Type": "application/x-protobuf"})
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()

    def check(self, page, **labels):
        for family in self.spoofed.values():
            self.assertEqual(samples(page, family, **labels), [], family)
            self.assertEqual([one.value for one in samples(page, "exported_" + family, **labels)], [99999], family)
        self.assertFalse([one for one in samples(page) if one.value == 99999 and one.name not in
                          {"mine", *("exported_" + family for family in self.spoofed.values())}])

    def test_a_program(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/otlp.sock"
            with Agent(config=f"interval: 100ms\ncollectors: {{programs: {{socket: '{path}', interval: 100ms}}}}\n") as agent:
                wait_until(lambda: pathlib.Path(path).exists())
                self.send(path)
                wait_until(lambda: samples(agent.page(), "mine"))
                self.check(agent.page(), process_pid=str(os.getpid()))

    def test_a_target(self):
        page = "".join(f"# TYPE {family} gauge\n{family} 99999\n" for family in (*self.spoofed.values(), "mine"))
        with HttpStub(lambda *_: (200, {"Content-Type": "text/plain; version=0.0.4"}, page.encode())) as stub, \
                Agent(config="interval: 100ms\ntargets: "
                             f"[{{name: odd, kind: prometheus, url: '{stub.origin}/metrics?token=SECRETQ', interval: 200ms}}]\n") as agent:  # fmt: skip
            wait_until(lambda: samples(agent.page(), "mine", target="odd"))
            text = agent.page()
            self.check(text, target="odd")
            self.assertNotIn("SECRETQ", text + agent.log_text())
            self.assertTrue(samples(text, "gpulens_scrape_info", target="odd", url=f"{stub.origin}/metrics?…"))


class Secrets(unittest.TestCase):
    config = """
targets:
  - name: a
    url: http://me:SECRET1@127.0.0.1:9/metrics?api_key=SECRET2
    transport: {headers: {Cookie: SECRET3, X-Auth: SECRET4, signoz-ingestion-key: SECRET5, Whatever: a-long-SECRET6}}
sinks:
  webhook: {url: "http://127.0.0.1:9/services/T0/SECRET7?auth=SECRET8", interval: 1s}
"""

    def test_nothing_shows_them(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "gpulens.yaml")
            file.write_text(self.config)
            run = subprocess.run([BINARY, "config", "print", "--config", file], capture_output=True, text=True, timeout=20)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("http://127.0.0.1:9/…", run.stdout)
            self.assertNotIn("SECRET", run.stdout + run.stderr)
            file.write_text(self.config.replace("http://127.0.0.1:9/services", "http:/127.0.0.1:9/services").replace("name: a", "nam: a"))
            run = subprocess.run([BINARY, "config", "check", file], capture_output=True, text=True, timeout=20)
            self.assertEqual(run.returncode, 2)
            self.assertIn("is not a URL", run.stderr)
            self.assertNotIn("SECRET", run.stdout + run.stderr)
        with Agent(config=self.config) as agent:
            wait_until(lambda: "cannot deliver to http://127.0.0.1:9:" in agent.log_text(), 30, "the log's word of the sink")
            self.assertNotIn("SECRET", agent.log_text() + agent.page() + agent.get("/json").text.decode())


class Limits(unittest.TestCase):
    def test_too_few_files_are_reported_at_once(self):
        agent = Agent()
        command = "ulimit -n 32; exec \"$@\""
        run = subprocess.run(["sh", "-c", command, "sh", *agent.arguments], capture_output=True, text=True, timeout=30,
                             env=agent.environment)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("may open 32 files", run.stderr)

    def test_unknown_variables_come_after_the_output_of_a_command(self):
        run = subprocess.run([BINARY, "events", "--state-dir", "/nowhere", "--gpu", "0"], capture_output=True, text=True, timeout=20,
                             env={"GPULENS_BIN": "x", "PATH": "/bin"})
        self.assertIn("no events were recorded", run.stderr.splitlines()[0])
        self.assertNotIn("GPULENS_BIN", run.stderr)

    def test_names_of_files_do_not_steer_a_terminal(self):
        for name in ("/nowhere/\x1b]0;x\x07.yaml", "/nowhere/\u009b2J.yaml"):
            run = subprocess.run([BINARY, "config", "check", name], capture_output=True, text=True, timeout=20)
            self.assertNotEqual(run.returncode, 0)
            for steers in "\x1b\x07\u009b":
                self.assertNotIn(steers, run.stderr + run.stdout)


if __name__ == "__main__":
    unittest.main()
