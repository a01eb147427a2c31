"""An agent, VictoriaMetrics and the front between them, killed again and again by a plan that follows from a seed."""
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request

import victoria
from agent import BINARY, free_port, value, wait_until
from queue_archive import Archive
from ticking_page import TickingPage

SINKS = ("remote_write", "otlp")
CONFIG = """
metrics: all
interval: 1s
state_dir: {state}
control: {{socket: none}}
targets: [{{name: soak, kind: prometheus, url: "{page}", interval: 1s, transport: {{timeout: 900ms}}}}]
sinks:
  file: {{path: {witness}, include: ["soak_*"], rotate_size: 0}}
  remote_write:
    {{url: "{front}/api/v1/write", protocol: "1.0", interval: 0s, attributes: {{via: remote_write}}, {delivery}}}
  otlp: {{endpoint: "{front}/opentelemetry", events: false, interval: 0s, attributes: {{via: otlp}}, {delivery}}}
"""
# Short waits, so that much happens in the time.
DELIVERY = "transport: {timeout: 2s}, retry: {initial: 100ms, max: 1s}"


class KilledAgent:
    """One agent after the other, with the same folder."""

    def __init__(self, folder, page_url, front_port):
        self.folder, self.process, self.runs = folder, None, []
        self.state, self.witness = folder / "state", folder / "ticks.jsonl"
        self.state.mkdir()
        self.port, self.ws_port = free_port(), free_port()
        self.config = folder / "gpulens.yaml"
        self.config.write_text(CONFIG.format(state=self.state, page=page_url, witness=self.witness, delivery=DELIVERY,
                                             front=f"http://127.0.0.1:{front_port}"))

    def start(self):
        ours = {key: text for key, text in os.environ.items() if not key.startswith(("GPULENS_", "OTEL_"))}
        log = self.folder / f"agent-{len(self.runs)}.log"
        self.runs.append(log)
        with open(log, "wb") as out:
            self.process = subprocess.Popen(
                [str(BINARY), "agent", "--config", str(self.config), "--http-listen", f"127.0.0.1:{self.port}",
                 "--ws-listen", f"127.0.0.1:{self.ws_port}"],
                env={**ours, "GPULENS_DISCOVERY_LOCAL_ENABLED": "false"}, stderr=out, stdout=subprocess.DEVNULL)

    def kill(self):
        assert self.process.poll() is None, f"the agent ended by itself: {self.log_text()}"
        self.process.kill()
        self.process.wait(30)

    def stop(self):
        """Stops the agent with SIGTERM, as systemd does. Returns the seconds that it took."""
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        assert code == 0, f"exit code {code}: {self.log_text()}"
        return time.monotonic() - begin

    def page(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    def waiting(self):
        """Number of records that its sinks have not delivered; None while it does not report them."""
        page = self.page()
        counts = [value(page, "gpulens_sink_queue_length", sink=sink, queue="delivery") for sink in SINKS]
        return None if None in counts else sum(counts)

    def log_text(self):
        return "".join(log.read_text(errors="replace") for log in self.runs)


class World:
    """The agent, its receiver and VictoriaMetrics, for a with statement. `report` is called with a line for each action."""

    def __init__(self, seed, seconds, kills, report):
        self.victoria = victoria.Victoria()
        self.random, self.seconds, self.kills, self.report = random.Random(seed), seconds, kills, report
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-soak-"))
        self.front, self.page = victoria.Front(self.victoria), TickingPage()
        self.agent = KilledAgent(self.folder, self.page.url, self.front.port)
        self.archives = {sink: Archive(self.agent.state / "queue" / sink, self.folder / "archive" / sink) for sink in SINKS}
        self.done, self.ending = {"agent": 0, "victoria": 0, "term": 0}, threading.Event()
        self.starts = []  # of each run of the agent: the number of the next answer
        self.keeper = threading.Thread(target=self.keep, daemon=True)

    def __enter__(self):
        self.page.__enter__()
        self.victoria.__enter__()
        self.front.set("good")
        self.start_agent()
        self.keeper.start()
        return self

    def __exit__(self, failed, *_):
        self.ending.set()
        self.keeper.join()
        if self.agent.process and self.agent.process.poll() is None:
            self.agent.kill()
        self.front.close()
        self.page.__exit__()
        if failed is None:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            self.report(f"what there was is in {self.folder}")
        self.victoria.__exit__()

    def keep(self):
        while not self.ending.wait(0.2):
            self.keep_now()

    def keep_now(self):
        for archive in self.archives.values():
            archive.keep()

    def plan(self):
        """[(when, what, fault)]: as many kills of the agent as of VictoriaMetrics, spread over the time, and one SIGTERM without a
        receiver. Each five have each of the faults."""
        acts = ["agent", "victoria"] * (self.kills // 2)
        self.random.shuffle(acts)
        acts.insert(self.random.randrange(1, len(acts)), "term")
        each = self.seconds / (len(acts) + 1)
        faults = []
        while len(faults) < len(acts):
            faults += self.random.sample(victoria.FAULTS, len(victoria.FAULTS))
        return [(each * (i + self.random.uniform(0.5, 1.2)), act, fault) for i, (act, fault) in enumerate(zip(acts, faults))], each

    def run(self):
        begin = time.monotonic()
        plan, each = self.plan()
        for when, act, fault in sorted(plan):
            self.pause(begin + when - time.monotonic())
            early = self.random.random() < 0.5
            if early:  # so that something waits when the kill comes
                self.front.set(fault)
                self.pause(self.random.uniform(0.5, 3.0))
            self.report(f"{time.monotonic() - begin:6.1f} s  the receiver: {fault}, {'before' if early else 'after'} the kill")
            getattr(self, "do_" + act)()
            self.done[act] += 1
            self.front.set(fault)
            self.pause(self.random.uniform(0.3, min(6.0, each / 3)))
            self.front.set("good")
        self.pause(begin + self.seconds - time.monotonic())
        self.finish()

    def pause(self, seconds):
        """The plan has times: nothing is waited for."""
        self.ending.wait(max(0.0, seconds))

    def start_agent(self):
        self.starts.append(self.page.answered + 1)
        self.agent.start()

    def do_agent(self):
        away = self.random.uniform(0.0, 2.0)
        self.report(f"kill -9 of the agent, started again after {away:.1f} s; answers so far: {self.page.answered}")
        self.agent.kill()
        self.keep_now()
        self.pause(away)
        self.start_agent()

    def do_victoria(self):
        away = self.random.uniform(0.0, 3.0)
        self.report(f"kill -9 of VictoriaMetrics, started again after {away:.1f} s")
        self.front.kill_victoria(lambda: self.pause(away))

    def do_term(self):
        self.report("SIGTERM to the agent while its receiver is away")
        self.front.set("away")
        self.agent.stop()
        self.keep_now()
        self.front.set("good")
        self.start_agent()

    def nearly_delivered(self):
        waiting = self.agent.waiting()
        return waiting is not None and waiting <= 2

    def finish(self):
        """Nearly all is delivered, then SIGTERM, in whose time the rest is. A machine that is too slow for that gets another try."""
        for _ in range(5):
            wait_until(self.nearly_delivered, 120, "the delivery")
            took = self.agent.stop()
            self.keep_now()
            left = sum(len(self.archives[sink].records()) + 1 - self.archives[sink].position() for sink in SINKS)
            self.report(f"SIGTERM: the agent ended after {took:.2f} s, {left} records were left")
            if left == 0:
                return
            self.start_agent()
        raise AssertionError(f"{left} records were left each time")
