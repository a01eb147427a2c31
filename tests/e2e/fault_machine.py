"""Fixture of the fault matrix: an agent with simulated GPUs that can be made to fail, and a scraper."""
import contextlib
import http.client
import json
import pathlib
import re
import subprocess
import tempfile
import threading
import time

from agent import BINARY, Agent, samples, wait_until

GPUS = 8
PROFILE = """model: H100
gpus: 8
load: {kind: sine, level: 0.7, amplitude: 0.2, period: 45}
processes:
  - {pid: 41000, memory: 40GiB}
"""


def uuid(gpu):
    return f"GPU-51313000-2330-4000-8000-{gpu:012x}"


class Page:
    """One page, parsed only as far as it is queried."""

    def __init__(self, text, seconds):
        self.text, self.seconds, self.found = text, seconds, {}

    def all(self, name, **labels):
        if name not in self.found:
            lines = re.findall(rf"^{re.escape(name)}(?:\{{.*)? \S+$", self.text, re.M)
            self.found[name] = samples("\n".join(lines), name)
        return [s for s in self.found[name] if all(s.labels.get(k) == v for k, v in labels.items())]

    def one(self, name, **labels):
        found = self.all(name, **labels)
        return found[0].value if found else None

    def state(self, gpu):
        for sample in self.all("gpu_state", gpu_uuid=uuid(gpu)):
            if sample.value == 1:
                return sample.labels["gpu_state"]
        return ""

    def age(self, gpu):
        found = self.one("gpu_sample_age_seconds", gpu_uuid=uuid(gpu))
        return 1e9 if found is None else found

    def fresh(self, gpu, name="gpu_power_draw_watts"):
        return any(not s.timestamp for s in self.all(name, gpu_uuid=uuid(gpu)))

    def stale(self, gpu, name="gpu_power_draw_watts"):
        return any(s.timestamp for s in self.all(name, gpu_uuid=uuid(gpu)))

    def healthy(self, gpu):
        return self.state(gpu) == "ok" and self.fresh(gpu, "gpu_state") and self.fresh(gpu)


class Scraper(threading.Thread):
    """Scrapes /metrics ten times a second over one connection, and keeps the pages."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.pages, self.failures, self.ended = port, [], [], threading.Event()
        self.lock = threading.Condition()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        due = time.monotonic()
        while not self.ended.wait(max(0.0, due - time.monotonic())):
            due = max(due + 0.1, time.monotonic() - 0.1)
            begin = time.monotonic()
            try:
                connection.request("GET", "/metrics")
                answer = connection.getresponse()
                text = answer.read().decode()
                good = answer.status == 200 and "\ngpulens_collector_up{" in text and text.endswith("\n")
                problem = f"status {answer.status}, {len(text)} bytes"
            except (OSError, http.client.HTTPException) as error:
                good, text, problem = False, "", repr(error)
                connection.close()
            with self.lock:
                if not good:
                    self.failures.append(problem)
                self.pages.append(Page(text, time.monotonic() - begin))
                self.lock.notify_all()

    def wait(self, question, what, seconds=20.0):
        """The first page from now on of which the answer is true."""
        with self.lock:
            at, end = len(self.pages), time.monotonic() + seconds
            while True:
                while at >= len(self.pages):
                    if not self.lock.wait(max(0.0, end - time.monotonic())):
                        raise AssertionError(f"{what}: not within {seconds} s")
                page = self.pages[at]
                at += 1
                if page.text and question(page):
                    return page
                if time.monotonic() > end:
                    raise AssertionError(f"{what}: not within {seconds} s")


def p99(pages):
    times = sorted(page.seconds for page in pages)
    return times[min(len(times) - 1, int(len(times) * 0.99))] if times else 0.0


class Machine:
    """The agent, its simulated GPUs, its kernel log, its events, and the command that breaks them."""

    def __init__(self):
        self.kept = tempfile.TemporaryDirectory(prefix="gpulens-faults-")
        self.folder = pathlib.Path(self.kept.name)
        self.socket, self.out = self.folder / "s.sock", self.folder / "out.jsonl"
        self.log, self.profile = self.folder / "kern.log", self.folder / "profile.yaml"
        self.log.touch()
        self.profile.write_text(PROFILE)
        self.agent = Agent("--demo", environment={"GPULENS_FAKE_NVML": str(self.profile)},
                           config=f"interval: 250ms\nstate_dir: {self.folder}/state\ncontrol: {{socket: {self.socket}}}\n"
                           "collectors:\n  nvidia: {interval: 250ms, ttl: 2s, serial: false}\n"
                           f"  kernel_log: {{source: file, path: {self.log}, interval: 100ms}}\n"
                           f"sinks: {{file: {{enabled: true, path: {self.out}, rotate_size: 0}}}}\n")
        self.mark, self.read_to, self.reported, self.expected, self.serial = 0, 0, [], [], False

    def __enter__(self):
        self.agent.__enter__()
        self.scraper = Scraper(self.agent.port)
        self.scraper.start()
        return self

    def __exit__(self, *what):
        self.scraper.ended.set()
        self.scraper.join(20)
        self.agent.__exit__(*what)
        self.kept.cleanup()

    def call(self, *words):
        return subprocess.run([BINARY, *words, "--socket", str(self.socket)], capture_output=True, text=True, timeout=60)

    def command(self, *words):
        answer = self.call(*words)
        assert answer.returncode == 0, f"{words}: {answer.stderr}"
        return answer.stdout

    def fail(self, words):
        return self.command("fake", "nvml", "fail", *words.split())

    def heal(self, *words):
        return self.command("fake", "nvml", "heal", *words)

    def replace_collector(self):
        """Another collector by a changed configuration: a reader process that was ended often starts ever later."""
        text = self.agent.config.read_text()
        old, self.serial = self.serial, not self.serial
        reader = self.agent.reader_pid()
        self.agent.config.write_text(text.replace(f"serial: {str(old).lower()}", f"serial: {str(self.serial).lower()}"))
        assert self.agent.get("/-/reload", method="POST").status == 200
        # The next row ends the new collector's process, not what is left of the old one.
        wait_until(lambda: self.agent.reader_pid() not in (None, reader), what="the new collector's reader process")
        self.wait_healthy()

    def reopen(self, profile=None):
        """Releases and resumes the GPUs, as an operator does around work on the driver: the state of the library is discarded. The
        profile is replaced in between, or a running reader process would read half of each."""
        self.command("gpu", "release", "--for", "1m")
        if profile:
            self.profile.write_text(profile)
        self.resume()

    def resume(self):
        """Ends a release. Both are awaited: a page of before the release looks well, and a reader process that only begins to
        open its library is given 30 s for it, whatever becomes of it."""
        self.wait(lambda page: page.one("gpulens_collector_up", collector="nvidia") == 0, "the release")
        self.command("gpu", "resume")
        self.wait(lambda page: page.one("gpulens_collector_up", collector="nvidia") == 1, "the library open again")

    def wait(self, question, what):
        return self.scraper.wait(question, what)

    def wait_healthy(self, but=()):
        self.wait(lambda page: all(page.healthy(gpu) for gpu in range(GPUS) if gpu not in but), "all GPUs well")

    def read_events(self):
        """Takes the events that were written since the last call."""
        with self.out.open("rb") as file:
            file.seek(self.read_to)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self.read_to += len(line)
                entry = json.loads(line) if b'"type":"event"' in line else {}
                if entry:
                    self.reported.append(entry)

    def events(self, name, mark=None):
        """The events of this name since the row began."""
        self.read_events()
        return [entry for entry in self.reported[self.mark if mark is None else mark:] if entry["name"] == name]

    def expect_event(self, name, gpu=None, **attributes):
        """Expects an event of this row at the end: an XID waits 5 s for the line of the kernel log."""
        self.expected.append((self.mark, name, gpu, attributes))

    def event(self, name, gpu=None, mark=None, **attributes):
        def look():
            for entry in self.events(name, mark):
                have = {k.replace(".", "_"): v for k, v in entry.get("attributes", {}).items()}
                of = gpu is None or entry.get("entity", {}).get("gpu.uuid") == uuid(gpu)
                if of and all(have.get(k) == v for k, v in attributes.items()):
                    return entry
            return None
        return wait_until(look, what=f"event {name} of GPU {gpu} with {attributes}")

    def rejected(self, page):
        return sum(s.value for s in page.all("gpulens_samples_total", result="rejected"))

    def reader(self):
        return wait_until(self.agent.reader_pid, what="a reader process")

    def starts(self, page, reason):
        return page.one("gpulens_reader_starts_total", reason=reason) or 0

    def log_kernel(self, text):
        with self.log.open("a") as file:
            file.write(text)

    def bus_of(self, gpu):
        info = self.wait(lambda page: page.all("gpu_info", gpu_uuid=uuid(gpu)), "gpu_info").all("gpu_info", gpu_uuid=uuid(gpu))
        return info[0].labels["gpu_pci_bus_id"].lower().removesuffix(".0")
