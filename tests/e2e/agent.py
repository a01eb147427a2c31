"""Starts the real program for an end-to-end test, and queries it.

GPULENS_BIN names the program, GPULENS_PEERS a folder with Debian's prometheus and node exporter.
"""
import contextlib
import fcntl
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = pathlib.Path(os.environ.get("GPULENS_BIN", ROOT / "build" / "release" / "gpulens"))
PEERS = pathlib.Path(os.environ.get("GPULENS_PEERS", ROOT / "build" / "peers"))
PROFILES = ROOT / "tests" / "fake_nvml" / "profiles"
# Tests look for series of every level, unless their configuration sets one.
os.environ.setdefault("GPULENS_METRICS", "all")
# Of --demo most tests need GPUs alone, with the same load and processes in every run; test_demo.py has the rest.
os.environ.setdefault("GPULENS_DEMO_SCENARIO", "none")


def fake_library():
    """The simulated libnvidia-ml.so.1 of the same build as the program."""
    return BINARY.resolve().parent / "fake_nvml" / "libnvidia-ml.so.1"


def peer(name):
    """A program of another project; skips the test with the reason when it is not there."""
    path = PEERS / "usr" / "bin" / name
    if not path.exists():
        found = shutil.which(name)
        if not found:
            raise unittest.SkipTest(f"peer not here: {name}; ./dev test fetches it, as tools/prepare_peers.sh does alone")
        path = pathlib.Path(found)
    return str(path)


def free_port():
    """Reserves a port on which nothing listens; no other test gets it until this process ends.

    The port lies outside the range from which the kernel assigns ports, so no other program takes it before it is used.
    """
    folder = pathlib.Path(tempfile.gettempdir(), f"gpulens-test-ports-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    first_of_kernel = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    choice = range(10_000, first_of_kernel) if first_of_kernel > 11_000 else range(50_000, 65_536)
    for port in random.sample(choice, len(choice)):
        lock = os.open(folder / str(port), os.O_CREAT | os.O_RDWR, 0o600)
        with contextlib.suppress(OSError), socket.socket() as s:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            s.bind(("127.0.0.1", port))
            return port  # with the lock held until this process ends
        os.close(lock)
    raise AssertionError("every port is in use")


def wait_until(question, seconds=60.0, what="the answer"):
    """Calls `question` repeatedly and returns its first true answer."""
    end = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come within {seconds} s")
        time.sleep(0.02)


def prometheus_result(port, query):
    """The rows of an instant query of a Prometheus or VictoriaMetrics on this machine; none while it does not answer."""
    url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
    with contextlib.suppress(OSError, ValueError), urllib.request.urlopen(url, timeout=20) as answer:
        return json.load(answer)["data"]["result"]
    return []


class Agent:
    """`gpulens agent` on free ports. Use it in a with statement: it is stopped, and must exit with 0."""

    def __init__(self, *arguments, config="", environment=None, binary=BINARY, tls=None, authorization=None):
        self.tls = tls
        self.who = {"Authorization": authorization} if authorization else {}
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-e2e-"))
        self.port, self.ws_port = free_port(), free_port()
        self.config = self.folder / "gpulens.yaml"
        self.config.write_text(config)
        self.log = self.folder / "stderr"
        self.arguments = [str(binary), "agent", "--config", str(self.config), "--http-listen",
                          f"127.0.0.1:{self.port}", "--ws-listen", f"127.0.0.1:{self.ws_port}", *arguments]
        ours = {key: value for key, value in os.environ.items() if key not in ("GPULENS_BIN", "GPULENS_PEERS")}
        # Engines of another test on this machine are none of this one's, nor is what another one's agent left to be sent.
        state = self.folder / "state"
        state.mkdir()
        quiet = {"GPULENS_DISCOVERY_LOCAL_ENABLED": "false", "STATE_DIRECTORY": str(state)}
        if re.search(r"\bmetrics: *(essential|standard|all)\b", config):
            ours.pop("GPULENS_METRICS", None)
        self.environment = {**ours, **quiet, **(environment or {})}
        self.process = None

    def __enter__(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(self.arguments, env=self.environment, stderr=log,
                                            stdout=subprocess.DEVNULL)
        try:
            wait_until(self.answers, 30, "a first page")
        except AssertionError:
            self.process.kill()
            raise AssertionError("the agent does not answer: " + self.log_text()) from None
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            code = self.process.wait(30)
            assert code == 0, f"exit code {code}: {self.log_text()}"
        shutil.rmtree(self.folder, ignore_errors=True)

    def answers(self):
        """Whether there is a page. A 401 does not count: users are checked before the first tick, too."""
        with contextlib.suppress(OSError):
            return self.get("/metrics", tls=self.tls, **self.who).status == 200
        return False

    def log_text(self):
        return self.log.read_text(errors="replace")

    def get(self, path, method="GET", timeout=5, tls=None, **headers):
        connection = (http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=tls) if tls else
                      http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout))
        connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        response = connection.getresponse()
        response.text = response.read()
        connection.close()
        return response

    def page(self, **headers):
        return self.get("/metrics", **headers).text.decode()

    def reload(self, config):
        """Puts another configuration in force."""
        before = value(self.page(), "gpulens_config_reloads_total", result="applied") or 0
        self.config.write_text(config)
        self.process.send_signal(signal.SIGHUP)
        wait_until(lambda: value(self.page(), "gpulens_config_reloads_total", result="applied") == before + 1, what="the reload")

    def reader_pid(self):
        """The pid of the reader process, or None. Never 0, which is the process group for kill()."""
        return next((pid for pid, words in processes_below(self.process.pid).items() if words[1:3] == ["reader", "nvml"]), None)


def processes_below(pid):
    """The processes that a process has started, and those that these have: {pid: its words}."""
    found = {}
    with contextlib.suppress(OSError):
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                for child in (task / "children").read_text().split():
                    with contextlib.suppress(OSError):
                        found[int(child)] = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().decode(errors="replace").split("\0")
                        found.update(processes_below(int(child)))
    return found


_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: (\S+))?$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Sample:
    def __init__(self, name, labels, value, timestamp):
        self.name, self.labels, self.value, self.timestamp = name, labels, value, timestamp

    def __repr__(self):
        return f"{self.name}{self.labels} {self.value}"


def samples(page, name=None, **labels):
    """The samples of a page in text format, of one name and with these labels."""
    found = []
    for line in page.splitlines():
        match = _SAMPLE.match(line)
        if not match or (name and match[1] != name):
            continue
        have = dict(_LABEL.findall(match[2] or ""))
        if all(have.get(k) == v for k, v in labels.items()):
            found.append(Sample(match[1], have, float(match[3]), match[4]))
    return found


def value(page, name, **labels):
    """The one value of a series; None when the page has none."""
    found = samples(page, name, **labels)
    assert len(found) <= 1, f"{name}{labels}: {len(found)} series"
    return found[0].value if found else None


def nvidia_config(profile, interval="1s", **options):
    more = "".join(f", {k}: {v}" for k, v in options.items())
    return f"collectors: {{nvidia: {{library: {fake_library()}, interval: {interval}{more}}}}}\ninterval: {interval}\n", {
        "GPULENS_FAKE_NVML": str(PROFILES / profile) if "/" not in profile else profile}
