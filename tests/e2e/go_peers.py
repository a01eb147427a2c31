"""Programs of others that tools/prepare_go_peers.sh builds, for a test: started on free ports, ended by their pid.

They lie in build/go_peers (GPULENS_GO_PEERS names another folder). One that is not there skips its tests with the reason
that the script left.
"""
import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import unittest
import urllib.parse
import urllib.request

from agent import ROOT, free_port, wait_until

GO_PEERS = pathlib.Path(os.environ.get("GPULENS_GO_PEERS", ROOT / "build" / "go_peers"))
TIMEOUT = 30.0


def go_peer(name):
    """The program; skips the test with the reason when it is not there."""
    program, why = GO_PEERS / name / name, GO_PEERS / f"{name}.why"
    if program.exists():
        return program
    reason = why.read_text().strip() if why.exists() else "tools/prepare_go_peers.sh builds it"
    raise unittest.SkipTest(reason if reason.startswith("no Go toolchain") else f"peer not here: {name}: {reason}")


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
        return True
    return False


class Process:
    """A program with a folder of its own. Use it in a with statement; `ready` is called until it is true."""

    def __init__(self, prefix):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"gpulens-{prefix}-"))
        self.log, self.process = self.folder / "log", None

    def start(self, arguments, ready):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([str(part) for part in arguments], stdout=log, stderr=log, cwd=self.folder)
        try:
            wait_until(lambda: self.process.poll() is not None or ready(), TIMEOUT, "the peer")
            assert self.process.poll() is None, "it ended"
        except AssertionError as reason:
            self.__exit__()
            raise AssertionError(f"{arguments[0]}: {reason}: {self.last_words}") from None
        return self

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def log_text(self):
        return self.log.read_text(errors="replace")

    def __exit__(self, *_):
        self.stop()
        self.last_words = self.log_text()[-2000:] if self.log.exists() else ""
        shutil.rmtree(self.folder, ignore_errors=True)


class Collector(Process):
    """The OpenTelemetry Collector. What it takes by OTLP is in files, one for each signal, that `lines` reads. `send`, (path of a file of
    OTLP JSON lines, signal, exporter as YAML), makes it a sender of that, too."""

    def __init__(self, *sends):
        super().__init__("collector")
        self.program = go_peer("collector")
        self.grpc, self.http = free_port(), free_port()
        self.outs = {signal: self.folder / f"{signal}.jsonl" for signal in ("metrics", "logs", "traces")}
        receivers, exporters, pipelines = "", "", ""
        for number, (path, signal, exporter) in enumerate(sends):
            receivers += f"  jsonlines/{number}: {{path: '{path}'}}\n"
            name, _, options = exporter.partition(" ")
            exporters += f"  {name}/{number}: {options}\n"
            pipelines += f"    {signal}/{number}: {{receivers: [jsonlines/{number}], exporters: [{name}/{number}]}}\n"
        for signal, out in self.outs.items():
            exporters += f"  file/{signal}: {{path: '{out}', flush_interval: 50ms}}\n"
            pipelines += f"    {signal}: {{receivers: [otlp], exporters: [file/{signal}]}}\n"
        self.config = (
            "receivers:\n  otlp: {protocols: {grpc: {endpoint: '127.0.0.1:%d', max_recv_msg_size_mib: 64}, http: {endpoint: '127.0.0.1:%d'}}}\n"
            % (self.grpc, self.http) + receivers +
            "exporters:\n" + exporters +
            "service:\n  telemetry: {metrics: {level: none}, logs: {level: info}}\n  pipelines:\n" + pipelines)  # fmt: skip

    def __enter__(self):
        (self.folder / "collector.yaml").write_text(self.config)
        return self.start([self.program, "--config", f"file:{self.folder}/collector.yaml"],
                          lambda: listens(self.grpc) and listens(self.http))  # fmt: skip

    def lines(self):
        """Each request that is whole in the files, as JSON."""
        return [json.loads(line) for line in self.text().splitlines()]

    def text(self):
        texts = [out.read_text() if out.exists() else "" for out in self.outs.values()]
        return "".join(text[:text.rfind("\n") + 1] for text in texts)

    def wait(self, holds, what):
        """The first true answer of `holds(text)`, where text is what the files have by now."""
        try:
            return wait_until(lambda: holds(self.text()), TIMEOUT, what)
        except AssertionError as reason:
            raise AssertionError(f"{reason}; {len(self.text())} bytes; log of the Collector: {self.log_text()[-2000:]}") from None


class VictoriaMetrics(Process):
    """One node, on a free port. It is configured to show new samples at once."""

    def __init__(self, *options):
        super().__init__("victoria-metrics")
        self.program, self.port, self.options = go_peer("victoria-metrics"), free_port(), options
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        return self.start([self.program, f"-httpListenAddr=127.0.0.1:{self.port}", f"-storageDataPath={self.folder}/data",
                           "-search.latencyOffset=0s", "-search.disableCache", "-retentionPeriod=100y", "-loggerLevel=WARN",
                           *self.options], lambda: self.get("/health") == b"OK")  # fmt: skip

    def get(self, path, **query):
        url = self.url + path + ("?" + urllib.parse.urlencode(query, doseq=True) if query else "")
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=20) as answer:
            return answer.read()
        return b""

    def query(self, expression):
        """{labels as a frozenset: value} now. New samples are shown some seconds later, unless configured otherwise."""
        self.get("/internal/force_flush")
        text = self.get("/api/v1/query", query=expression, nocache=1)
        found = json.loads(text)["data"]["result"] if text else []
        return {frozenset(one["metric"].items()): float(one["value"][1]) for one in found}

    def export(self, selector):
        """(labels, [(milliseconds, value)]) of each series, as it is stored; null is a number that is none."""
        lines = [json.loads(line) for line in self.get("/api/v1/export", **{"match[]": selector}).splitlines()]
        return [(line["metric"], list(zip(line["timestamps"], line["values"]))) for line in lines]
