"""Hostile names: with any name of a process, target or program, a page stays one that Prometheus reads."""
import contextlib
import http.client
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
import urllib.request

from agent import Agent, fake_library, free_port, peer, samples, value, wait_until
from go_peers import TIMEOUT, Process, go_peer
from http_stub import HttpStub

try:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
except ImportError:
    ExportMetricsServiceRequest = None

# As the kernel has them: 15 bytes, cut inside a character, or whatever prctl was given.
COMMS = ["a训练模型推理服务".encode()[:15], b"\xff\xfe", b'quote"back\\s', b"line\nbreak", b"\xc3", "ünï".encode()]
RENAME = "import ctypes, sys; ctypes.CDLL(None).prctl(15, bytes.fromhex(sys.argv[1])); print('named', flush=True); sys.stdin.read()"

OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=allow-utf-8"
TEXT = "text/plain; version=1.0.0; charset=utf-8; escaping=allow-utf-8"
PAGES = {
    # A plain program of OpenTelemetry, one that takes names of the agent, and names that become one.
    "quoted": (OPEN, """# HELP "my.metric" With dots.
# TYPE "my.metric" gauge
{"my.metric","lab.el"="v"} 1
# HELP my_metric Without.
# TYPE my_metric gauge
my_metric{lab_el="v"} 2
# TYPE "my.requests" counter
# HELP "my.requests" A counter, "quoted" \\\\ and\\nbroken.
{"my.requests_total","a.b"="1","a-b"="2",a_b="3"} 5 # {"trace.id"="x",trace_id="y"} 1 1700000000.0
# TYPE "gpu.power.draw.watts" gauge
{"gpu.power.draw.watts",gpu_index="0"} 1
# TYPE "gpulens.collector.up" gauge
{"gpulens.collector.up","collector"="host"} 0
# TYPE "größe.seconds" histogram
# UNIT "größe.seconds" seconds
{"größe.seconds_bucket","l.e"="x",le="1.0"} 1
{"größe.seconds_bucket","l.e"="x",le="+Inf"} 2
{"größe.seconds_sum","l.e"="x"} 3
{"größe.seconds_count","l.e"="x"} 2
# TYPE "花火" unknown
{"花火"} 1
{"湿度","__name__x"="1"} 1
# EOF
""".encode()),
    "bad_bytes": (TEXT, b'# HELP good Help \xff\xfe of latin.\n# TYPE good gauge\ngood{l="caf\xe9"} 1\ngood{l="x"} 2\n'
                        b'{"bad\xff.name"} 1\n{"nul\x00.name"} 1\n{"line\\nbreak","a\\nb"="c"} 1\nplain{__name__="gpu"} 1\n'
                        b'{"",x="y"} 1\n{"a \\"quoted\\" {name}"} 1\n'),
}  # fmt: skip


@contextlib.contextmanager
def hostile_targets():
    """Their addresses by name."""
    def answer(request, _):
        kind, body = PAGES[request.path.strip("/")]
        return 200, {"Content-Type": kind}, body

    with HttpStub(answer) as stub:
        yield {name: f"{stub.origin}/{name}" for name in PAGES}


@contextlib.contextmanager
def hostile_processes():
    """Their pids, in the order of COMMS, and then that of a program with a long name."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-names-"))
    program = folder / "a训练模型推理服务"
    shutil.copy(shutil.which("sleep"), program)
    running = [subprocess.Popen([program, "300"])]
    try:
        for comm in COMMS:
            running.insert(-1, subprocess.Popen([sys.executable, "-c", RENAME, comm.hex()], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            running[-2].stdout.readline()
        yield [one.pid for one in running]
    finally:
        for one in running:
            one.kill()
            one.wait()
            for pipe in (one.stdin, one.stdout):
                if pipe:
                    pipe.close()
        shutil.rmtree(folder)


def send_program(path):
    """A program's metrics, by its socket: names without a letter of ASCII, labels that are bounds or reserved."""
    request = ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "hostile"
    scope = resource.scope_metrics.add()
    for name in ("温度", "花火", "...", "my.own", "my-own", "\0", "gpulens.collector.up"):
        points = scope.metrics.add(name=name, unit="1", description="line\nbreak").gauge.data_points
        point = points.add(as_double=1, time_unix_nano=1)
        for key in ("le", "quantile", "__name__", "a.b", "a_b", "ä", "nul\0"):
            point.attributes.add(key=key).value.string_value = "x\0\n\"\\"
    histogram = scope.metrics.add(name="my.histogram", unit="s").histogram
    histogram.aggregation_temporality = 2
    point = histogram.data_points.add(count=3, sum=4, bucket_counts=[1, 2], explicit_bounds=[0.5], time_unix_nano=1)
    point.attributes.add(key="le").value.string_value = "mine"

    class Connection(http.client.HTTPConnection):
        def connect(self):
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(path)

    connection = Connection("localhost", timeout=10)
    connection.request("POST", "/v1/metrics", request.SerializeToString(), {"Content-Type": "application/x-protobuf"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


class Scraper(Process):
    """A Prometheus that scrapes one agent, twice a second."""

    def __init__(self, program, agent_port):
        super().__init__("prometheus")
        self.program, self.agent_port, self.port = program, agent_port, free_port()

    def __enter__(self):
        (self.folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 500ms, scrape_timeout: 450ms}\nscrape_configs:\n"
            f"  - {{job_name: gpulens, honor_labels: true, static_configs: [{{targets: ['127.0.0.1:{self.agent_port}']}}]}}\n")
        return self.start([self.program, f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                           f"--web.listen-address=127.0.0.1:{self.port}"], lambda: self.query("up") is not None)  # fmt: skip

    def query(self, expression):
        url = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=20) as answer:
            return json.load(answer)["data"]["result"]
        return None

    def trouble(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/targets", timeout=20) as answer:
            return [target["lastError"] for target in json.load(answer)["data"]["activeTargets"]]

    def names(self):
        """Name and labels of each series there is now."""
        found = self.query('{__name__!=""}') or []
        own = {"job", "instance"}
        return {(one["metric"]["__name__"], frozenset((k, v) for k, v in one["metric"].items() if k not in own | {"__name__"}))
                for one in found}  # fmt: skip


def own_names(page):
    """Name and labels of the agent's own series, those of GPU processes included, without those of targets and of the program."""
    read = {(s.name, frozenset((k, unescaped(v)) for k, v in s.labels.items() if v)) for s in samples(page)}
    return {(name, labels) for name, labels in read
            if not {"target", "service_name"} & {key for key, _ in labels} and name != "target_info"}


def unescaped(text):
    return text.replace("\\\\", "\0").replace('\\"', '"').replace("\\n", "\n").replace("\0", "\\")


class HostileNames(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.addClassCleanup(cls.stack.close)
        cls.folder = cls.stack.enter_context(tempfile.TemporaryDirectory(prefix="gpulens-hostile-"))
        cls.pids = cls.stack.enter_context(hostile_processes())
        targets = cls.stack.enter_context(hostile_targets())
        profile = pathlib.Path(cls.folder, "profile.yaml")
        profile.write_text("model: H100\ngpus: 2\nprocesses:\n" +
                           "".join(f"  - {{gpu: 0, pid: {pid}, memory: 1GiB}}\n" for pid in cls.pids))
        rows = ", ".join(f"{{name: {name}, kind: prometheus, url: '{url}', interval: 300ms, ttl: 60s}}" for name, url in targets.items())
        config = (f"interval: 200ms\ncollectors:\n  nvidia: {{library: {fake_library()}, interval: 200ms}}\n"
                  f"  programs: {{socket: '{cls.folder}/otlp.sock', interval: 200ms}}\ntargets: [{rows}]\n")
        cls.agent = cls.stack.enter_context(Agent(config=config, environment={"GPULENS_FAKE_NVML": str(profile)}))
        if ExportMetricsServiceRequest:
            wait_until(lambda: pathlib.Path(cls.folder, "otlp.sock").exists(), TIMEOUT, "the socket")
            assert send_program(f"{cls.folder}/otlp.sock") == 200
        for name in targets:
            wait_until(lambda name=name: samples(cls.agent.page(), "gpulens_scrape_samples", target=name), TIMEOUT, f"a scrape of {name}")
        wait_until(lambda: len(cls.processes()) == len(cls.pids), TIMEOUT, "every process")

    @classmethod
    def processes(cls):
        found = samples(cls.agent.page(), "gpu_process_memory_used_bytes")
        return {int(s.labels["process_pid"]): unescaped(s.labels["process_executable_name"]) for s in found}

    def test_processes_have_names_that_are_text(self):
        expected = [comm.decode(errors="backslashreplace") for comm in COMMS]
        shown = self.processes()
        cut = "a训练模型\ufffd\ufffd"
        self.assertEqual(shown[self.pids[0]], cut, expected[0])
        self.assertEqual(shown[self.pids[1]], "\ufffd\ufffd")
        self.assertEqual(shown[self.pids[2]], 'quote"back\\s')
        self.assertEqual(shown[self.pids[3]], "line\nbreak")
        self.assertEqual(shown[self.pids[5]], "ünï")
        self.assertEqual(shown[self.pids[-1]], cut, "what the kernel made of the program's name")
        self.assertGreaterEqual(value(self.agent.page(), "gpulens_text_replaced_bytes_total"), 7)

    def test_escaping_is_as_requested_and_named(self):
        form = "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping="
        for parameter, word, start in (
                ("", "underscores", 'my_requests_total{exported_a_b="2",exported_2_a_b="1",a_b="3",target="quoted"} 5'),
                (";escaping=underscores", "underscores", "my_metric{lab_el"), (";escaping=leet", "underscores", "my_metric{lab_el"),
                (";escaping=dots", "dots", "my_dot_metric{lab_dot_el"), (";escaping=values", "values", "U__my_2e_metric{U__lab_2e_el"),
                (";escaping=allow-utf-8", "allow-utf-8", '{"my.metric","lab.el"')):  # fmt: skip
            answer = self.agent.get("/metrics", Accept="application/openmetrics-text;version=1.0.0" + parameter)
            self.assertEqual(answer.headers["Content-Type"], form + word)
            lines = answer.text.decode().splitlines()
            self.assertTrue(any(line.startswith(start) for line in lines), [line for line in lines if "my" in line])
            self.assertEqual(any(line.startswith('{"') for line in lines), word == "allow-utf-8", word)
        old = self.agent.get("/metrics", Accept="text/plain;version=0.0.4;escaping=allow-utf-8")
        self.assertEqual(old.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8; escaping=underscores")
        self.assertEqual(self.agent.get("/metrics", Accept="application/openmetrics-text;version=2.0.0").headers["Content-Type"],
                         form + "underscores")  # fmt: skip

    def test_names_that_become_one_are_counted_and_the_agents_own_stay(self):
        page = self.agent.page()
        self.assertEqual(value(page, "my_metric"), 2, "the name that needed no escaping")
        clashes = wait_until(lambda: value(self.agent.page(), "gpulens_page_series_dropped", reason="name_clash"), TIMEOUT, "the count")
        self.assertGreaterEqual(clashes, 3)
        self.assertNotIn("quoted", {s.labels.get("target") for s in samples(page, "gpu_power_draw_watts")})
        self.assertEqual(value(page, "gpulens_collector_up", collector="host"), 1)

    def test_promtool_reads_the_page(self):
        promtool = peer("promtool")
        for accept in ("", "text/plain;version=0.0.4;escaping=dots", "text/plain;version=0.0.4;escaping=values"):
            page = self.agent.page(Accept=accept)
            run = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, text=True)
            self.assertIn(run.returncode, (0, 3), f"{accept}: {run.stderr[-2000:]}")
            self.assertNotIn("error while linting", run.stdout + run.stderr)

    def check_scrapes(self, program):
        with Scraper(program, self.agent.port) as store:
            wait_until(lambda: store.query("up"), TIMEOUT, "a first scrape")
            wait_until(lambda: (done := store.query("count_over_time(up[5m])")) and float(done[0]["value"][1]) >= 6, TIMEOUT, "six scrapes")
            self.assertEqual(store.query("min_over_time(up[5m])")[0]["value"][1], "1", store.trouble())
            for _ in range(3):
                own = own_names(self.agent.page())
                self.assertGreater(len(own), 500)
                shown = {value for _, labels in own for key, value in labels if key == "process_executable_name"}
                self.assertLessEqual({"line\nbreak", "a训练模型\ufffd\ufffd"}, shown)
                wait_until(lambda own=own: not own - store.names(), TIMEOUT, "every series of the agent's own")
            return store.names()

    def test_prometheus_2_has_every_series_of_the_agent(self):
        program = peer("prometheus")
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
        if ", version 2." not in version:
            self.skipTest(f"{version}: tools/prepare_peers.sh fetches Debian's, which is 2.42")
        names = self.check_scrapes(program)
        self.assertIn(("my_metric", frozenset({("lab_el", "v"), ("target", "quoted")})), names)

    def test_prometheus_3_has_every_series_and_every_name(self):
        names = {name for name, _ in self.check_scrapes(go_peer("prometheus3"))}
        self.assertLessEqual({"my.metric", "my_metric", "my.requests_total", "花火", "gpu.power.draw.watts"}, names)


if __name__ == "__main__":
    unittest.main()
