"""Gateways of the configuration in docs/fleet.md, VictoriaMetrics behind them, and nodes that send to them; each process is measured."""
import base64
import collections
import contextlib
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
from agent import BINARY, Agent, free_port, samples, wait_until  # noqa: E402
from go_peers import Process, VictoriaMetrics, go_peer, listens  # noqa: E402
from http_stub import HttpStub  # noqa: E402
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest  # noqa: E402
from recording import documented, frames  # noqa: E402

FLEET_LOAD = pathlib.Path(os.environ.get("FLEET_LOAD", BINARY.parent / "fleet_load"))
USER, PASSWORD = "node", "secret"
TOKEN = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
TICKS = os.sysconf("SC_CLK_TCK")
GROUP = 10  # nodes that are counted by one query


def bcrypt(password):
    import crypt  # noqa: PLC0415 gone from Python 3.13

    return crypt.crypt(password, "$2b$10$abcdefghijklmnopqrstuu")


def cpu(pid):
    """Seconds of the processor that a process and its waited-for children have used."""
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / TICKS


def peak_memory(pid):
    """MiB."""
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


class Gateway(Agent):
    """`gateway.yaml` of docs/fleet.md on this machine. It can be killed, and started again with its state folder and ports."""

    def __init__(self, store, extra="", without=()):
        self.rw, self.otlp = free_port(), free_port()
        super().__init__(environment={"GPULENS_METRICS": "standard"})
        web = self.folder / "web.yaml"
        web.write_text(f"basic_auth_users: {{{USER}: '{bcrypt(PASSWORD)}'}}\n")
        text = documented("gateway.yaml")
        text = text.replace("/etc/gpulens/web.yaml", str(web)).replace("https://store.example.org:8428", store)
        text = text.replace('":9095"', f'"127.0.0.1:{self.rw}"').replace('":4318"', f'"127.0.0.1:{self.otlp}"')
        text = re.sub(r"(?m)^ *(state_dir|transport): .*\n", "", text)
        assert "example.org" not in text, text
        for key in without:
            text = re.sub(rf"(?m)^{key}: .*\n", "", text)
        text += f"control: {{socket: none}}\ncollectors: {{programs: {{enabled: false}}}}\n{extra}"
        self.config.write_text(text)
        self.arguments = [str(BINARY), "agent", "--config", str(self.config), "--http-listen", f"127.0.0.1:{self.port}"]
        self.environment.pop("GPULENS_METRICS")
        self.who = {"Authorization": f"Basic {TOKEN}"}
        self.used = 0.0  # seconds of processes before this one

    def kill(self):
        self.used += cpu(self.process.pid)
        self.process.kill()
        self.process.wait(30)

    def start_again(self):
        self.__enter__()

    def cpu(self):
        return self.used + cpu(self.process.pid)

    def numbers(self, name, **labels):
        page = self.get("/metrics?metrics=all", **self.who).text.decode()
        return sum(sample.value for sample in samples(page, name, **labels))

    def waiting(self):
        return self.numbers("gpulens_sink_queue_length", queue="delivery")


class Store(VictoriaMetrics):
    """VictoriaMetrics that counts a sample once, however often it comes; it can be stopped and started again."""

    def __init__(self):
        super().__init__("-dedup.minScrapeInterval=1ms", "-memory.allowedBytes=3GiB", "-search.maxUniqueTimeseries=2000000")
        self.used = 0.0

    def stop_for_now(self):
        self.used += cpu(self.process.pid)
        self.stop()

    def start_again(self):
        self.__enter__()

    def cpu(self):
        return self.used + cpu(self.process.pid)

    def ask(self, query, at=None):
        text = self.get("/api/v1/query", query=query, nocache=1, **({"time": at} if at else {}))
        return json.loads(text)["data"]["result"] if text else []

    def samples_by_node(self, nodes, first_s, last_s, but=""):
        """{node: samples stored with times in this range}; a mark of the end of a series is none."""
        self.get("/internal/force_flush")
        found, window = {}, round(last_s - first_s)
        for tens in sorted({number // GROUP for number in range(nodes)}):
            match = f'instance=~"gpu-n{tens:04d}[0-9]",__name__!="{but}"'
            for one in self.ask(f"sum by (instance) (count_over_time({{{match}}}[{window}s]))", round(last_s)):
                found[int(one["metric"]["instance"][-5:])] = int(one["value"][1])
        return found

    def numbers(self, name, **labels):
        return sum(sample.value for sample in samples(self.get("/metrics").decode(), name, **labels))

    def merged_sizes(self):
        """Samples and bytes on disk, after the parts are merged."""
        self.get("/internal/force_flush")
        self.get("/internal/force_merge")
        wait_until(lambda: self.numbers("vm_active_force_merges") == 0, 120, "the merge")
        return self.sizes()

    def sizes(self):
        data = sum(self.numbers("vm_data_size_bytes", type=f"storage/{kind}") for kind in ("big", "small", "inmemory"))
        rows = sum(self.numbers("vm_rows", type=f"storage/{kind}") for kind in ("big", "small", "inmemory"))
        index = sum(self.numbers("vm_data_size_bytes", type=f"indexdb/{kind}") for kind in ("file", "inmemory"))
        return {"samples": rows, "bytes_a_sample": data / max(rows, 1), "index_bytes": index}

    def series(self):
        return json.loads(self.get("/api/v1/status/tsdb"))["data"]["totalSeries"]


class Vmagent(Process):
    """VictoriaMetrics' agent as a gateway, for comparison."""

    def __init__(self, store):
        super().__init__("vmagent")
        self.program, self.rw, self.store = go_peer("vmagent"), free_port(), store

    def __enter__(self):
        return self.start([self.program, f"-httpListenAddr=127.0.0.1:{self.rw}", f"-remoteWrite.url={self.store}/api/v1/write",
                           f"-remoteWrite.tmpDataPath={self.folder}/data", "-loggerLevel=WARN", f"-httpAuth.username={USER}",
                           f"-httpAuth.password={PASSWORD}"], lambda: listens(self.rw))  # fmt: skip

    def cpu(self):
        return cpu(self.process.pid)

    def waiting(self):
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self.rw}/metrics", headers={"Authorization": f"Basic {TOKEN}"})) as answer:
            page = answer.read().decode()
        return sum(sample.value for name in ("vmagent_remotewrite_pending_data_bytes", "vmagent_remotewrite_pending_inmemory_blocks")
                   for sample in samples(page, name))


class Load:
    """fleet_load as a process of its own; `result` waits for its line."""

    def __init__(self, recording, stream, urls, **options):
        self.options = {"nodes": 1000, "rounds": 4, "interval": 15, "speed": 1, "spread": 1, **options}
        self.recording, self.stream = recording, stream
        words = [f"recording={recording / stream}", f"urls={','.join(urls)}", f"token={TOKEN}"]
        self.process = subprocess.Popen([FLEET_LOAD, *words, *(f"{key}={value}" for key, value in self.options.items())],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def result(self, seconds):
        try:
            out, errors = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.stop()
            raise
        assert self.process.returncode == 0, errors[-2000:]
        return json.loads(out)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def expected(self):
        """{node: samples that the store must have}"""
        of_frames = [samples for _, _, _, samples in frames(self.recording, self.stream)]
        rounds, spread = self.options["rounds"], self.options["spread"]
        return {node: sum(of_frames[node % spread:node % spread + rounds]) for node in range(self.options["nodes"])}


class Probe(threading.Thread):
    """Sends a sample by OTLP each second, and queries the store until it is there."""

    def __init__(self, name, url, store, headers=None):
        super().__init__(daemon=True)
        self.name_of, self.url, self.store, self.headers = name, url, store, headers or {}
        self.ended, self.accepted, self.visible = threading.Event(), [], []  # seconds of each

    def request(self, number):
        request = ExportMetricsServiceRequest()
        of = request.resource_metrics.add()
        of.resource.attributes.add(key="service.instance.id").value.string_value = "probe"
        of.scope_metrics.add().metrics.add(name=self.name_of).gauge.data_points.add(as_double=number, time_unix_nano=time.time_ns())
        headers = {"Content-Type": "application/x-protobuf", **self.headers}
        return urllib.request.Request(self.url, request.SerializeToString(), headers)

    def run(self):
        number = 0
        while not self.ended.wait(0.2):
            number += 1
            begin = time.monotonic()
            with contextlib.suppress(urllib.error.URLError, OSError):
                urllib.request.urlopen(self.request(number), timeout=10).close()
                self.accepted.append(time.monotonic() - begin)
                while not self.ended.wait(0.1) and time.monotonic() < begin + 60:
                    found = self.store.ask(self.name_of)
                    if found and float(found[0]["value"][1]) >= number:
                        self.visible.append(time.monotonic() - begin)
                        break

    def seconds(self):
        """[number, median and 99th percentile until accepted, the same until visible]; the first is of a new series, and left out."""
        return [len(self.visible) - 1, *(quantile(times[1:], share) for times in (self.accepted, self.visible) for share in (0.5, 0.99))]

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join(90)


class Pages(HttpStub):
    """Serves the recorded pages of many nodes, /NUMBER, packed as the agent packs them; each scrape of a node gets its next page."""

    def __init__(self, recording):
        self.pages = [path.read_bytes() for path in sorted((recording / "pages").iterdir())]
        self.scrapes, self.sent = collections.Counter(), 0
        super().__init__(self._answer, protocol="HTTP/1.1")

    def _answer(self, request, _):
        node = int(request.path[1:])
        page = self.pages[min(self.scrapes[node], len(self.pages) - 1)]
        self.scrapes[node] += 1
        page = re.sub(rb"([0-9a-f]{8})-[0-9a-f]{4}-4000-8", rb"\g<1>-%04x-4000-8" % node, page.replace(b"n00000", b"n%05d" % node))
        packed = gzip.compress(page, 1)
        self.sent += len(packed)
        return 200, {"Content-Type": "text/plain; version=0.0.4", "Content-Encoding": "gzip"}, packed

    def targets(self, nodes):
        """The configuration of a gateway that scrapes them."""
        lines = "".join(f"  - {{url: '{self.origin}/{node}', name: gpu-n{node:05d}, kind: prometheus, interval: 15s}}\n" for node in range(nodes))
        return f"targets:\n{lines}"


def urls_of(gateways, stream):
    if stream.startswith("rw"):
        return [f"http://127.0.0.1:{gateway.rw}/api/v1/write" for gateway in gateways]
    return [f"http://127.0.0.1:{gateway.otlp}/v1/metrics" for gateway in gateways]


def settle(gateways, seconds=120):
    """Waits until gateways have delivered everything; their pages are as old as the last tick."""
    for _ in range(2):
        time.sleep(2)
        wait_until(lambda: sum(gateway.waiting() for gateway in gateways) == 0, seconds, "the end of the queues")


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else None
