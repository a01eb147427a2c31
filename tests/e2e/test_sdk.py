"""Programs that measure themselves: what their instruments count is exact at the far end, whichever way it goes."""
import http.client
import os
import pathlib
import tempfile
import unittest

from agent import BINARY, Agent, free_port, samples, value, wait_until
from go_peers import Collector
from line_program import LineProgram
from otlp_receiver import Receiver
from test_grpc import certificate, grpc

try:
    import test_otlp_grpc
except ImportError:
    test_otlp_grpc = None

PROGRAM = pathlib.Path(os.environ.get("SDK_PROGRAM", BINARY.parent / "sdk_program"))
MANY = 8_000_000


class Program(LineProgram):
    end_seconds = 30

    def __init__(self, **environment):
        clean = {key: text for key, text in os.environ.items() if not key.startswith(("OTEL_", "GPULENS_"))}
        super().__init__(PROGRAM, {**clean, **environment})


def fetch(address, **headers):
    port, path = address.removeprefix("http://127.0.0.1:").split("/", 1)
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=20)
    connection.request("GET", "/" + path, headers=headers)
    response = connection.getresponse()
    response.text = response.read().decode()
    connection.close()
    return response


class ToTheAgent(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="gpulens-e2e-")
        self.addCleanup(self.folder.cleanup)
        self.socket = f"{self.folder.name}/otlp.sock"

    def agent(self):
        return Agent(config=f"interval: 100ms\ncollectors: {{programs: {{socket: '{self.socket}', interval: 100ms}}}}\n")

    def hears(self, agent):
        wait_until(lambda: f"listening for programs at {self.socket}" in agent.log_text())

    def test_counts_are_exact_on_the_agents_page(self):
        with self.agent() as agent, Program(OTEL_SERVICE_NAME="chat", OTEL_RESOURCE_ATTRIBUTES="team=nlp") as program:
            self.assertEqual(program.do("count"), "ok")
            self.assertEqual(program.do(f"agent {self.socket}"), f"ok unix:{self.socket}")
            wait_until(lambda: program.do("flush") == "ok")
            own = {"process_pid": str(program.pid), "service_name": "chat", "team": "nlp"}
            wait_until(lambda: samples(agent.page(), "jobs_total", kind="many", **own))
            page = agent.page()
            self.assertEqual(value(page, "jobs_total", kind="many", **own), MANY)
            self.assertEqual(value(page, "queue_depth", **own), 17)
            self.assertEqual(value(page, "job_duration_seconds_count", **own), 8_000)
            self.assertEqual(value(page, "job_duration_seconds_bucket", le="0.5", **own), 4_000)
            self.assertEqual(value(page, "job_duration_seconds_bucket", le="+Inf", **own), 8_000)
            self.assertAlmostEqual(value(page, "job_duration_seconds_sum", **own), 8 * 500.5, places=6)
            self.assertEqual(value(page, "gpulens_programs"), 1)
            child = program.do("fork").split()
            self.assertEqual(child[1], "ok")
            wait_until(lambda: samples(agent.page(), "jobs_total", kind="child", process_pid=child[0]))
            page = agent.page()
            self.assertEqual(value(page, "jobs_total", kind="child", process_pid=child[0]), 5)
            self.assertEqual(value(page, "jobs_total", kind="many", process_pid=child[0]), 0, "the child starts at 0")
            ids = {sample.labels["service_instance_id"] for sample in samples(page, "jobs_total")}
            self.assertEqual(len(ids), 2, "an instance each")
            program.end()

    def test_without_code_no_data_is_lost_before_the_agent_starts(self):
        with Program(GPULENS_EXPORT="agent", GPULENS_SOCKET=self.socket) as program:
            self.assertEqual(program.do("count"), "ok")
            with self.agent() as agent:
                self.hears(agent)
                # The end of the program sends what no agent was there to receive before.
                program.end("exit")
                wait_until(lambda: samples(agent.page(), "jobs_total", kind="many"))
                self.assertEqual(value(agent.page(), "jobs_total", kind="many"), MANY)

    def test_an_agent_that_starts_again_hears_all(self):
        with Program() as program:
            program.do("count")
            program.do(f"agent {self.socket}")
            self.assertTrue(program.do("flush").startswith("unavailable"), "there is none yet")
            for _ in range(2):
                with self.agent() as agent:
                    wait_until(lambda: program.do("flush") == "ok")
                    wait_until(lambda: samples(agent.page(), "jobs_total", kind="many"))
                    self.assertEqual(value(agent.page(), "jobs_total", kind="many"), MANY)


class Elsewhere(unittest.TestCase):
    def test_a_page_to_scrape(self):
        with Program() as program:
            self.assertEqual(program.do("count"), "ok")
            answer, address = program.do("expose 127.0.0.1:0").split()
            self.assertEqual(answer, "ok")
            page = fetch(address)
            self.assertEqual(page.getheader("Content-Type"), "text/plain; version=0.0.4; charset=utf-8; escaping=underscores")
            self.assertEqual(value(page.text, "jobs_total", kind="many"), MANY)
            self.assertEqual(value(page.text, "job_duration_seconds_count"), 8_000)
            self.assertEqual(value(page.text, "target_info", process_pid=str(program.pid)), 1)
            counts = [sample.value for sample in samples(page.text, "job_duration_seconds_bucket")]
            self.assertEqual(counts, sorted(counts), "cumulative")
            openmetrics = fetch(address, Accept="application/openmetrics-text; version=1.0.0")
            self.assertTrue(openmetrics.text.endswith("# EOF\n"))
            self.assertIn("kind=\"many\"", openmetrics.text)
            self.assertTrue(program.do("expose 0.0.0.0:0").startswith("invalid_argument"))
            self.assertTrue(program.do("expose " + address[7:].split("/")[0]).find("already in use") > 0)
            with Agent(config=f"targets: [{{name: it, kind: prometheus, url: '{address}'}}]") as agent:
                wait_until(lambda: samples(agent.page(), "jobs_total", kind="many"))
                self.assertEqual(value(agent.page(), "jobs_total", kind="many"), MANY)
            program.end()

    def test_otlp(self):
        with Receiver() as receiver, Program(OTEL_SERVICE_NAME="chat") as program:
            self.assertEqual(program.do("count"), "ok")
            self.assertEqual(program.do(f"otlp {receiver.url}"), f"ok {receiver.url}/v1/metrics")
            self.assertEqual(program.do("flush"), "ok")
            request = receiver.requests[-1]
            points = {attributes.get("kind"): point for attributes, point in request.points("jobs")}
            self.assertEqual(points["many"].as_int, MANY)
            self.assertGreater(points["many"].start_time_unix_nano, 0)
            [(_, histogram)] = list(request.points("job.duration"))
            self.assertEqual(histogram.count, 8_000)
            self.assertEqual(sum(histogram.positive.bucket_counts), 8_000)
            resource = next(request.metrics())[0]
            self.assertEqual(resource["service.name"], "chat")
            self.assertEqual(resource["process.pid"], program.pid)
            self.assertEqual(resource["telemetry.sdk.name"], "gpulens")
            program.end()
            self.assertGreater(len(receiver.requests), 1, "its end sends once more")

    def test_by_the_environment(self):
        with Receiver() as receiver, Program(GPULENS_EXPORT="otlp, nonsense", OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
                                             OTEL_EXPORTER_OTLP_HEADERS="x-tenant=a%20b") as program:  # fmt: skip
            program.do("count")
            errors = program.end("exit")
            self.assertIn('GPULENS_EXPORT: "nonsense": must be agent, otlp or expose', errors)
            [request] = receiver.requests[-1:]
            self.assertEqual(request.headers["x-tenant"], "a b")
            self.assertEqual([point.as_int for attributes, point in request.points("jobs") if attributes], [MANY])

    def test_switched_off(self):
        with Receiver() as receiver, Program(GPULENS_EXPORT="otlp", OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
                                             OTEL_SDK_DISABLED="true") as program:  # fmt: skip
            program.do("count")
            self.assertTrue(program.do("expose 127.0.0.1:0").startswith("ok"))
            self.assertTrue(program.do("flush").startswith("unavailable"))
            program.end("exit")
            self.assertEqual(receiver.requests, [])


class Training(unittest.TestCase):
    """The exports of a training job; their names and units are those of the seeds."""

    EXPORTED = {
        "training.mfu": ("1", 6 * 70e9 * 4096 / (8 * 989e12)),
        "training.tflops": ("TFLOPS", 1720.32),
        "training.step_time": ("s", 1.0),
        "training.loss": ("1", 2.5),
        "training.gradient.norm": ("1", 0.5),
        "training.gradient.nan_count": ("{param}", 0),
        "training.gradient.clip_rate": ("1", 0.5),
        "training.dataloader.wait": ("s", 0.2),
        "training.checkpoint.save_duration": ("s", 0.5),
        "training.checkpoint.save_bandwidth": ("By/s", 2.0 * (1 << 30)),
        "training.checkpoint.restore_duration": ("s", 0.3),
    }

    def train(self, url, **environment):
        """A program that trains a step, exports it, and ends."""
        with Program(OTEL_SERVICE_NAME="trainer", **environment) as program:
            self.assertEqual(program.do("train"), "ok")
            self.assertTrue(program.do(f"otlp {url}").startswith("ok"))
            wait_until(lambda: program.do("flush") == "ok", what="an answer of the far end")
            program.end()

    def right(self, requests):
        exported = {metric.name: metric for request in requests for _, scope, metric in request.metrics() if scope == "gpulens.sdk"}
        for name, (unit, number) in self.EXPORTED.items():
            self.assertEqual(exported[name].unit, unit, name)
            self.assertAlmostEqual(exported[name].gauge.data_points[0].as_double, number, delta=number * 1e-9, msg=name)
        resources = {of["service.name"] for request in requests for of, _, _ in request.metrics()}
        self.assertIn("trainer", resources)

    def test_http(self):
        with Receiver() as receiver:
            self.train(receiver.url)
            self.right(receiver.requests)

    def serve(self, credentials=None):
        if not grpc or not test_otlp_grpc:
            self.skipTest("the Python packages grpcio and opentelemetry-proto are not here")
        collector = test_otlp_grpc.Collector()
        return collector, test_otlp_grpc.Otlp.serve(self, collector, credentials)

    def test_grpc(self):
        collector, port = self.serve()
        self.train(f"http://127.0.0.1:{port}", OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
        self.right(collector.taken)

    def test_grpc_with_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = certificate(folder)
            rules = grpc and grpc.ssl_server_credentials([(pathlib.Path(key).read_bytes(), pathlib.Path(cert).read_bytes())])
            collector, port = self.serve(rules)
            self.train(f"https://localhost:{port}", OTEL_EXPORTER_OTLP_PROTOCOL="grpc", OTEL_EXPORTER_OTLP_CERTIFICATE=cert)
            self.right(collector.taken)

    def test_the_end_of_a_program_that_exports_by_the_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = certificate(folder)
            rules = grpc and grpc.ssl_server_credentials([(pathlib.Path(key).read_bytes(), pathlib.Path(cert).read_bytes())])
            collector, port = self.serve(rules)
            with Program(OTEL_SERVICE_NAME="trainer", GPULENS_EXPORT="otlp", OTEL_EXPORTER_OTLP_ENDPOINT=f"https://localhost:{port}",
                         OTEL_EXPORTER_OTLP_PROTOCOL="grpc", OTEL_EXPORTER_OTLP_CERTIFICATE=cert,
                         OTEL_METRIC_EXPORT_INTERVAL="3600000") as program:  # fmt: skip
                self.assertEqual(program.do("train"), "ok")
                self.assertTrue(collector.wait(lambda taken: taken), "soon after its start")
                program.do("train")  # exported only at the end: two steps
                self.assertEqual(program.end("exit"), "")
            self.right(collector.taken)
            [(_, steps)] = collector.taken[-1].points("training.steps")
            self.assertEqual(steps.as_int, 2)

    def test_the_agents_receiver(self):
        for protocol in ("http/protobuf", "grpc"):
            ports = {"http/protobuf": free_port(), "grpc": free_port()}
            with self.subTest(protocol), Receiver() as far:
                config = (f"receivers: {{otlp: {{http: {{listen: '127.0.0.1:{ports['http/protobuf']}'}}, "
                          f"grpc: {{listen: '127.0.0.1:{ports['grpc']}'}}}}}}\n"
                          f"sinks: {{otlp: {{endpoint: '{far.url}', interval: 10m, queue: {{storage: memory}}}}}}\n")  # fmt: skip
                with Agent(config=config):
                    self.train(f"http://127.0.0.1:{ports[protocol]}", OTEL_EXPORTER_OTLP_PROTOCOL=protocol)

                    def passed_on(requests):
                        return any(of.get("service.name") == "trainer" for request in requests for of, _, _ in request.metrics())

                    far.wait(passed_on, "the metrics of the program")
                self.right(far.requests)

    def test_the_opentelemetry_collector(self):
        for protocol in ("http/protobuf", "grpc"):
            with self.subTest(protocol), Collector() as far:
                port = far.grpc if protocol == "grpc" else far.http
                self.train(f"http://127.0.0.1:{port}", OTEL_EXPORTER_OTLP_PROTOCOL=protocol)
                far.wait(lambda text: all(f'"name":"{name}"' in text for name in self.EXPORTED), "all metrics")
                lines = far.lines()
                gauges = {m["name"]: m["gauge"]["dataPoints"][0]["asDouble"] for line in lines for rm in line.get("resourceMetrics", [])
                          for sm in rm["scopeMetrics"] for m in sm["metrics"] if "gauge" in m}  # fmt: skip
                for name, (_, number) in self.EXPORTED.items():
                    self.assertAlmostEqual(gauges[name], number, delta=number * 1e-9, msg=name)


if __name__ == "__main__":
    unittest.main()
