"""Section `scrape`: fifty targets of 4,000 samples, each scraped once a second, compared with vmagent and the
OpenTelemetry Collector on the same targets. One program after the other: they would take each other's cores. The numbers are those of
the reading alone: no client scrapes the agent meanwhile, vmagent drops every sample once it is read, and so does the
collector's exporter."""
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from harness import measure, processes, scrapes
from harness.agent import Agent
from harness.measure import Absent, ROOT, WORK, output_of

TARGETS, ENGINES = 50, 17
SETTLE, SPAN, TICKS = 10, 60, 30
COLLECTOR, VMAGENT = "0.152.0", "1.140.0"


class Server:
    """bench/target_server.py; as a context manager it is ended again."""

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, ROOT / "bench/target_server.py", str(TARGETS), str(ENGINES)],
                                        stdout=subprocess.PIPE, text=True)
        try:
            self.port, self.samples = (int(word) for word in self.process.stdout.readline().split())
        except ValueError:
            self.__exit__()
            raise Absent("the targets do not start") from None
        return self

    def __exit__(self, *_):
        end(self.process)
        self.process.stdout.close()

    def url(self, target):
        return f"http://127.0.0.1:{self.port}/{target}/metrics"

    def sent(self):
        return int(processes.get(f"http://127.0.0.1:{self.port}/counts"))


def end(process):
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def watch(process, server):
    """Costs over SPAN seconds, and the number of pages read."""
    time.sleep(SETTLE)
    pids = processes.processes(process.pid)
    cpu, sent, start, memory = processes.run_seconds(pids), server.sent(), time.monotonic(), []
    for second in range(1, SPAN + 1):
        time.sleep(max(0.0, start + second - time.monotonic()))
        if process.poll() is not None:
            raise Absent(f"ended with {process.returncode}")
        if second % 10 == 0:
            memory.append(processes.pss_bytes(pids))
    span = time.monotonic() - start
    pages = (server.sent() - sent) / span
    if pages < 0.9 * TARGETS:
        raise Absent(f"took {pages:.1f} pages a second of {TARGETS}: this machine is too busy to compare")
    return {"cpu": (processes.run_seconds(pids) - cpu) / span, "pss_bytes": statistics.median(memory),
            "pss_max_bytes": max(memory), "pages_per_s": pages, "samples": server.samples * TARGETS}  # fmt: skip


def value_of(page, name):
    lines = [line for line in page.split(b"\n") if line.startswith(name + b" ")]
    return float(lines[0].split()[1]) if lines else None


def ours(server, kind):
    program = measure.RELEASE / "gpulens"
    if not program.exists() or "targets" not in output_of([program, "collect", "--help"]):
        raise Absent("build/release/gpulens has no collector targets")
    targets = ", ".join(f"{{name: t{n}, kind: {kind}, url: '{server.url(n)}', interval: 1s}}" for n in range(TARGETS))
    config = f"targets: [{targets}]\nsinks: {{prometheus: {{names: [native]}}}}\n"
    with Agent(config=config) as agent:
        agent.wait_for(b"\ngpulens_tick_duration_seconds ")
        found = watch(agent.process, server)
        ticks, start = [], time.monotonic()
        for second in range(TICKS):
            time.sleep(max(0.0, start + second - time.monotonic()))
            page = processes.get(agent.url)
            if page is None or value_of(page, b"gpulens_tick_duration_seconds") is None:
                raise Absent("the agent stopped answering")
            ticks.append(value_of(page, b"gpulens_tick_duration_seconds"))
        up = sum(1 for line in page.split(b"\n") if line.startswith(b"gpulens_scrape_up{") and line.endswith(b" 1"))
        if up < TARGETS:
            raise Absent(f"{up} of {TARGETS} targets are up")
        ticks.sort()
        return found | {"tick_p99_s": ticks[-1], "tick_median_s": statistics.median(ticks), "ticks": TICKS,
                        "page_samples": processes.samples_of(page)}  # fmt: skip


def peer(command, server, folder):
    with open(pathlib.Path(folder, "log"), "wb") as log:
        process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log, cwd=folder)
    try:
        return watch(process, server)
    except Absent as reason:
        last = pathlib.Path(folder, "log").read_text(errors="replace").strip().split("\n")[-1]
        raise Absent(f"{reason}: {last[:200]}") from reason
    finally:
        end(process)


def scrape_config(server, indent, more=""):
    targets = "".join(f"{indent}      - {{targets: ['127.0.0.1:{server.port}'], labels: {{__metrics_path__: /{n}/metrics, "
                      f"target: t{n}}}}}\n" for n in range(TARGETS))  # fmt: skip
    return (f"{indent}scrape_configs:\n{indent}  - job_name: bench\n{indent}    scrape_interval: 1s\n"
            f"{indent}    scrape_timeout: 1s\n{more}{indent}    static_configs:\n{targets}")  # fmt: skip


def go_program(name, package, files):
    """Builds a program of a Go module of its own in WORK; slowly, so that others can work meanwhile."""
    go = shutil.which("go") or "/usr/local/go/bin/go"
    folder = WORK / name
    program = folder / name
    stamps = [folder / f"{file}.built_from" for file in files]
    if program.exists() and all(stamp.exists() and stamp.read_text() == text for stamp, text in zip(stamps, files.values())):
        return program
    if not os.access(go, os.X_OK):
        raise Absent("no Go toolchain here")
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (folder / file).write_text(text, encoding="utf-8")
    output_of(["nice", go, "build", "-mod=mod", "-trimpath", "-tags", "remove_all_sd", "-ldflags=-s -w", "-o", program, package],
              cwd=folder, env={**os.environ, "CGO_ENABLED": "0"})  # fmt: skip
    for stamp, text in zip(stamps, files.values()):
        stamp.write_text(text, encoding="utf-8")
    return program


def vmagent(server):
    module = f"module gpulens/bench/vmagent\n\ngo 1.26.2\n\nrequire github.com/VictoriaMetrics/VictoriaMetrics v{VMAGENT}\n"
    program = go_program("vmagent", "github.com/VictoriaMetrics/VictoriaMetrics/app/vmagent", {"go.mod": module})
    with tempfile.TemporaryDirectory() as folder:
        drop = "    metric_relabel_configs: [{action: drop, source_labels: [__name__], regex: '.*'}]\n"
        config = pathlib.Path(folder, "scrape.yaml")
        config.write_text(scrape_config(server, "", drop), encoding="utf-8")
        return peer([program, f"-promscrape.config={config}", f"-httpListenAddr=127.0.0.1:{scrapes.free_port()}",
                     f"-remoteWrite.url=http://127.0.0.1:{server.port}/write", f"-remoteWrite.tmpDataPath={folder}/data",
                     "-loggerLevel=ERROR"], server, folder)  # fmt: skip


def collector(server):
    source = ROOT / "bench/collector"
    program = go_program("collector", ".", {name: (source / name).read_text(encoding="utf-8") for name in ("go.mod", "main.go")})
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "collector.yaml")
        config.write_text(
            "receivers:\n  prometheus:\n    config:\n" + scrape_config(server, "      ") +
            "exporters: {nop: {}}\nservice:\n  telemetry: {metrics: {level: none}, logs: {level: error}}\n"
            "  pipelines: {metrics: {receivers: [prometheus], exporters: [nop]}}\n", encoding="utf-8")  # fmt: skip
        return peer([program, "--config", config], server, folder)


def scrape():
    parts = {
        "gpulens, kind: prometheus": lambda server: ours(server, "prometheus"),
        "gpulens, kind: vllm": lambda server: ours(server, "vllm"),
        f"vmagent {VMAGENT}": vmagent,
        f"OpenTelemetry Collector {COLLECTOR}": collector,
    }
    result, absent = {}, {}
    with Server() as server:
        for name, part in parts.items():
            try:
                result[name] = part(server)
            except (Absent, OSError) as reason:
                absent[name] = str(reason)
    return {"agents": result, "absent": absent}
