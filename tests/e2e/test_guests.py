"""What anybody may do to an agent without being let in: floods of passwords, web pages elsewhere, spoofed names."""
import base64
import contextlib
import crypt
import http.client
import pathlib
import socket
import statistics
import tempfile
import threading
import time
import unittest
import warnings

from agent import Agent

warnings.filterwarnings("ignore", category=DeprecationWarning)


def basic(user, word):
    return "Basic " + base64.b64encode(f"{user}:{word}".encode()).decode()


class Flood:
    """Clients that try passwords as fast as they are answered, in a with statement."""

    def __init__(self, port, clients):
        self.port, self.stop = port, threading.Event()
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
        return Agent(config=f"interval: 0.2s\nhttp: {{web_config: {web}}}\n", authorization=basic("alice", "secret"))

    @staticmethod
    def timed(agent, word):
        begun = time.monotonic()
        status = agent.get("/metrics", timeout=60, Authorization=basic("alice", word)).status
        return time.monotonic() - begun, status

    @staticmethod
    def beats(manager):
        count = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                count += manager.recv(100) == b"WATCHDOG=1"
        return count

    def test_a_service_manager_that_does_not_read_holds_up_nothing(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            path = str(pathlib.Path(folder, "notify"))
            manager.bind(path)
            agent = Agent()
            agent.environment.update(NOTIFY_SOCKET=path, WATCHDOG_USEC="20000")
            with agent:
                queue = int(pathlib.Path("/proc/sys/net/unix/max_dgram_qlen").read_text())
                time.sleep(0.01 * min(queue, 200) * 2 + 0.5)
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
                with Flood(agent.port, 40):
                    time.sleep(1)
                    manager.setblocking(False)
                    self.beats(manager)
                    begun, times, health, beats = time.monotonic(), [], [], 0
                    while time.monotonic() - begun < 6:
                        took, status = self.timed(agent, "secret")
                        self.assertEqual(status, 200)
                        times.append(took)
                        health.append(agent.get("/health", timeout=20).status)
                        beats += self.beats(manager)
                        time.sleep(0.1)
                # Behind the flood's checks it would wait for dozens of hashes.
                self.assertLess(statistics.median(times), hash_time, times)
                self.assertEqual(set(health), {200})
                self.assertGreaterEqual(beats, 4, "of 12 in six seconds")

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
            self.assertEqual(agent.said().count("the configuration was read again"), 1)
            answer = agent.get("/")
            self.assertEqual(answer.getheader("X-Content-Type-Options"), "nosniff")
            self.assertEqual(answer.getheader("X-Frame-Options"), "DENY")

    def test_allowed_hosts_may_be_asked_for(self):
        with Agent(config="http: {allowed_hosts: [gpu1.example.org]}\n") as agent:
            self.assertEqual(agent.get("/metrics", Host="gpu1.example.org").status, 200)
            self.assertEqual(agent.get("/metrics", Host="gpu2.example.org").status, 403)
            agent.config.write_text("http: {allowed_hosts: [gpu2.example.org]}\n")
            self.assertEqual(agent.get("/-/reload", method="POST").status, 200)
            self.assertEqual(agent.get("/metrics", Host="gpu1.example.org").status, 403)
            self.assertEqual(agent.get("/metrics", Host="gpu2.example.org").status, 200)


if __name__ == "__main__":
    unittest.main()
