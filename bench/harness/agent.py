"""Section `agent`: the real program. Memory and CPU of all its processes at 1 s, and how soon after its
start it answers. It is scraped once a second meanwhile, as in life."""
import os
import pathlib
import socket
import statistics
import subprocess
import tempfile
import time

from harness import measure, scrapes
from harness.measure import Absent
from harness.processes import get, processes, pss_bytes, run_seconds, samples_of

SETTLE = 5
SPAN = 15
STARTS = 10
FEW_LINES = 12  # two of comments


class Agent:
    """A running agent; as a context manager it is ended again."""

    def __init__(self, *options, config="", environment=None):
        program = measure.RELEASE / "gpulens"
        if not program.exists():
            raise Absent("build/release/gpulens is not built")
        self.folder = tempfile.TemporaryDirectory()
        self.port = scrapes.free_port()
        self.url = f"http://127.0.0.1:{self.port}/metrics"
        file = pathlib.Path(self.folder.name, "gpulens.yaml")
        file.write_text(f"state_dir: {self.folder.name}\n{config}", encoding="utf-8")
        self.log = pathlib.Path(self.folder.name, "log")
        self.started = time.perf_counter()
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [
                    program, "agent", "--config", file, "--http-listen", f"127.0.0.1:{self.port}",
                    "--ws-listen", f"127.0.0.1:{scrapes.free_port()}", *options,
                ],
                stdout=log, stderr=log,
                # Of --demo the GPUs alone, as in earlier results.
                env={"GPULENS_DEMO_SCENARIO": "none", **os.environ, **(environment or {})},
            )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()

    def wait_for(self, text, seconds=20):
        """Seconds from the start until a page has `text`."""
        while time.perf_counter() - self.started < seconds:
            if self.process.poll() is not None:
                break
            with socket.socket() as probe:
                listening = probe.connect_ex(("127.0.0.1", self.port)) == 0
            page = get(self.url) if listening else None
            if page and text in page:
                return time.perf_counter() - self.started
            time.sleep(0.001)
        last = self.log.read_text(errors="replace").strip().split("\n")[-1]
        raise Absent(f"the agent showed no {text.decode()} within {seconds} s: {last}")


def steady(text, *options, config=""):
    """Memory and CPU over SPAN seconds, after it has shown `text` and settled."""
    with Agent(*options, config=config) as agent:
        agent.wait_for(text)
        time.sleep(SETTLE)
        before, start = run_seconds(processes(agent.process.pid)), time.monotonic()
        memory, page = [], b""
        for second in range(1, SPAN + 1):
            time.sleep(max(0.0, start + second - time.monotonic()))
            page = get(agent.url)
            if page is None:
                raise Absent("the agent stopped answering")
            memory.append(pss_bytes(processes(agent.process.pid)))
        pids = processes(agent.process.pid)
        used = run_seconds(pids) - before
        return {
            "pss_bytes": statistics.median(memory), "pss_max_bytes": max(memory), "processes": len(pids),
            "cpu": used / (time.monotonic() - start), "page_bytes": len(page),
            "samples": samples_of(page),
        }  # fmt: skip


def scraping(name, lines=None):
    """The host and one target of 5,000 samples, or of those in its first lines."""
    target = scrapes.start_ours(lines=lines)
    try:
        url = f"http://127.0.0.1:{target.port}/metrics"
        config = f'targets: [{{name: bench, kind: prometheus, url: "{url}", interval: 1s}}]\n'
        return steady(name, config=config)
    finally:
        target.stop()


def start_times():
    times = []
    for _ in range(STARTS):
        with Agent() as agent:
            times.append(agent.wait_for(b"\nsystem_"))
    return {"median_s": statistics.median(times), "best_s": min(times), "runs": len(times)}


def agent():
    parts = {
        "start": start_times,
        "host": lambda: steady(b"\nsystem_"),
        "demo": lambda: steady(b"\ngpu_power", "--demo"),
        "few": lambda: scraping(b"node_gpu_counter_00_total{", FEW_LINES),
        "scrape": lambda: scraping(b"node_gpu_gauge_29_ratio{"),
    }
    result, absent = {}, {}
    for name, part in parts.items():
        try:
            result[name] = part()
        except Absent as reason:
            absent[name] = str(reason)
    return {**result, "absent": absent}
