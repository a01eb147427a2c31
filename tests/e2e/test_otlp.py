"""OTLP out: what arrives at a receiver that decodes it with the protocol's own classes."""
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from agent import BINARY, Agent, free_port, value, wait_until
from otlp_receiver import Receiver, plain
from test_engine_monitors import PAGES, engine, vllm_page

CUMULATIVE = 2


def collect(*arguments, environment=None):
    ours = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "GPULENS_"))}
    return subprocess.run([BINARY, "collect", *arguments], env={**ours, **(environment or {})}, capture_output=True, text=True,
                          timeout=60, check=False)  # fmt: skip


class Collect(unittest.TestCase):
    def test_one_reading_arrives(self):
        with Receiver() as receiver:
            done = collect("host", "--once", "--sink", "otel", "-o", f"otel_endpoint={receiver.url}")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            (request,) = receiver.requests
        self.assertEqual(request.headers["Content-Type"], "application/x-protobuf")
        self.assertEqual(request.headers["Content-Encoding"], "gzip")
        self.assertEqual(request.path, "/v1/metrics")
        metrics = {metric.name: (resource, scope, metric) for resource, scope, metric in request.metrics()}
        resource, scope, cpu = metrics["system.cpu.time"]
        self.assertEqual(resource["service.name"], "gpulens")
        self.assertEqual(resource["host.name"], os.uname().nodename)
        self.assertEqual(scope, "gpulens.host")
        self.assertEqual((cpu.unit, cpu.WhichOneof("data")), ("s", "sum"))
        self.assertTrue(cpu.sum.is_monotonic)
        self.assertEqual(cpu.sum.aggregation_temporality, CUMULATIVE)
        now = time.time_ns()
        for point in cpu.sum.data_points:
            self.assertLess(abs(now - point.time_unix_nano), 60e9)
            self.assertLess(0, point.start_time_unix_nano)
            self.assertLess(point.start_time_unix_nano, point.time_unix_nano)
        memory = metrics["system.memory.usage"][2]
        self.assertFalse(memory.sum.is_monotonic)
        # The same number as in /proc, within what a second changes.
        total = sum(point.as_int or point.as_double for point in memory.sum.data_points)
        kib = int(pathlib.Path("/proc/meminfo").read_text().split()[1])
        self.assertLess(abs(total - kib * 1024), 0.2 * kib * 1024)
        names = [metric.name for _, _, metric in request.metrics()]
        self.assertEqual(len(names), len(set(names)), "a metric once")

    def test_variables_of_opentelemetry(self):
        with Receiver() as receiver:
            environment = {
                "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url + "/v1/",
                "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=a%20b+c,authorization=Basic%20Zm9v",
                "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
                "OTEL_SERVICE_NAME": "mine",
                "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test%2C1,service.name=other",
            }
            done = collect("host", "--once", "--sink", "otlp", environment=environment)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            (request,) = receiver.requests
        self.assertEqual(request.headers["x-tenant"], "a b+c")
        self.assertEqual(request.headers["authorization"], "Basic Zm9v")
        self.assertNotIn("Content-Encoding", request.headers)
        resource = next(request.metrics())[0]
        self.assertEqual(resource["service.name"], "mine")
        self.assertEqual(resource["deployment.environment.name"], "test,1")

    def test_the_option_wins_over_the_variable(self):
        with Receiver() as receiver:
            done = collect("host", "--once", "--sink", "otel", "-o", f"endpoint={receiver.url}",
                           environment={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(receiver.requests), 1)

    def test_undelivered_data_is_reported(self):
        done = collect("host", "--once", "--sink", "otel", "-o", "endpoint=http://127.0.0.1:1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("were not delivered", done.stderr)
        self.assertIn("onnection refused", done.stderr)
        with Receiver(lambda path, number: (400, {})) as receiver:
            done = collect("host", "--once", "--sink", "otel", "-o", f"endpoint={receiver.url}")
        self.assertIn("refused", done.stderr)
        self.assertEqual(done.returncode, 1)


class OfAgent(unittest.TestCase):
    # No other test's backlog: a state folder for each would do as well.
    MEMORY = ", queue: {storage: memory}"
    CONFIG = "sinks: {{otlp: {{endpoint: '{url}', interval: 200ms, retry: {{initial: 10ms, max: 50ms}}{more}}}}}\ninterval: 100ms\n"

    def test_an_outage_loses_nothing_and_is_reported(self):
        """Answers 503 with Retry-After twice: the third delivery is taken, and all ticks are there, in order."""
        answers = {1: (503, {"Retry-After": "0"}), 2: (429, {})}
        with Receiver(lambda path, number: answers.get(number, (200, {}))) as receiver:
            with Agent(config=self.CONFIG.format(url=receiver.url, more=self.MEMORY)) as agent:
                receiver.wait(lambda requests: len(requests) > 5, "five exports")
                page = agent.page()
            self.assertEqual(len(receiver.refused), 2)
            self.assertEqual(receiver.refused[0].message, receiver.requests[1].message, "the same request again")
            self.assertEqual(receiver.times(), sorted(set(receiver.times())))
        self.assertEqual(value(page, "gpulens_sink_retries_total", sink="otlp"), 2)
        self.assertEqual(value(page, "gpulens_sink_requests_total", sink="otlp", code="503"), 1)
        self.assertGreater(value(page, "gpulens_sink_delivered_total", sink="otlp", signal="metrics"), 100)
        self.assertEqual(value(page, "gpulens_sink_up", sink="otlp"), 1)
        self.assertEqual(value(page, "gpulens_sink_dropped_total", sink="otlp", queue="delivery", reason="refused"), 0)

    def test_ended_series_are_sent_without_a_value(self):
        with tempfile.TemporaryDirectory() as folder, Receiver() as receiver:
            page = pathlib.Path(folder, "page.txt")
            page.write_text("fast 1\nslow 2\n")
            served = subprocess.Popen(["python3", "-m", "http.server", "--bind", "127.0.0.1", "--directory", folder, port := str(free_port())],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
            try:
                more = f"\ntargets: [{{name: p, kind: prometheus, url: 'http://127.0.0.1:{port}/page.txt', interval: 100ms}}]\n"
                with Agent(config=self.CONFIG.format(url=receiver.url, more=self.MEMORY) + more):
                    receiver.wait(lambda requests: any(list(r.points("slow")) for r in requests), "the page")
                    page.write_text("fast 1\n")
                    (attributes, point) = receiver.wait(
                        lambda requests: next((p for r in requests for p in r.points("slow") if p[1].flags == 1), None), "its end")
                    self.assertEqual(attributes["target"], "p")
                    self.assertIsNone(point.WhichOneof("value"))
            finally:
                served.terminate()
                served.wait()

    def test_nothing_is_lost_by_kill_9(self):
        """The next agent delivers requests that were queued on disk while the receiver was away, the oldest first."""
        with tempfile.TemporaryDirectory() as folder:
            port = free_port()
            config = self.CONFIG.format(url=f"http://127.0.0.1:{port}", more=f", queue: {{dir: '{folder}/queue'}}")
            first = Agent(config=config).__enter__()
            try:
                # Waiting compressed requests are sent with the setting of the next agent.
                config = config.replace("otlp: {", "otlp: {compression: none, ")
                wait_until(lambda: (value(first.page(), "gpulens_sink_queue_length", queue="delivery", sink="otlp") or 0) > 6,
                           what="a backlog")  # fmt: skip
                self.assertEqual(value(first.page(), "gpulens_sink_up", sink="otlp"), 0)
            finally:
                first.process.send_signal(signal.SIGKILL)
                first.process.wait()
            killed = time.time_ns()
            with Receiver(port=port) as receiver, Agent(config=config):
                receiver.wait(lambda requests: receiver.times()[-1:] > [killed], "the new agent's readings")
                times = receiver.times()
            self.assertEqual({"Content-Encoding" in request.headers for request in receiver.requests}, {False})
            self.assertGreater(sum(1 for one in times if one < killed), 5)
            self.assertEqual(times, sorted(times), "in order")
            self.assertLessEqual(len(times) - len(set(times)), 1, "at most the one on its way comes twice")

    def test_the_end_sends_the_last_readings(self):
        with Receiver() as receiver:
            config = self.CONFIG.format(url=receiver.url, more=self.MEMORY).replace("interval: 200ms", "interval: 1h")
            with Agent(config=config) as agent:
                receiver.wait(lambda requests: len(requests) == 1, "the first export")
                wait_until(lambda: value(agent.page(), "gpulens_sink_delivered_total", sink="otlp", signal="metrics"))
            self.assertEqual(len(receiver.times()), 2)

    def test_a_reload_hands_the_queue_over(self):
        with tempfile.TemporaryDirectory() as folder, Receiver() as receiver:
            more = f", queue: {{dir: '{folder}/queue'}}"
            config = self.CONFIG.format(url=receiver.url, more=more)
            with Agent(config=config) as agent:
                receiver.wait(lambda requests: len(requests) > 1, "an export")
                agent.config.write_text(config.replace("interval: 200ms", "interval: 150ms, transport: {timeout: 9s}"))
                self.assertEqual(agent.get("/-/reload", method="POST").status, 200)
                before = len(receiver.requests)
                receiver.wait(lambda requests: len(requests) > before + 5, "exports after the reload")
                self.assertEqual(value(agent.page(), "gpulens_sink_up", sink="otlp"), 1)
                self.assertIsNotNone(value(agent.page(), "gpulens_sink_disk_queue_size_bytes", sink="otlp"))
                self.assertNotIn("queue is in use", agent.log_text())

    def test_events_arrive_as_log_records(self):
        with tempfile.TemporaryDirectory() as folder, Receiver() as receiver:
            log = pathlib.Path(folder, "kern.log")
            log.write_text("")
            more = f"collectors: {{kernel_log: {{source: file, path: '{log}', interval: 100ms}}}}\n"
            with Agent(config=self.CONFIG.format(url=receiver.url, more=self.MEMORY) + more) as agent:
                wait_until(lambda: value(agent.page(), "gpulens_collector_up", collector="kernel_log") == 1)
                with open(log, "a") as out:
                    out.write("[   12.345678] NVRM: Xid (PCI:0000:0f:00): 79, pid=1234, GPU has fallen off the bus.\n")
                request = receiver.wait(lambda requests: next((r for r in requests if r.path == "/v1/logs"), None), "the event")
        (record,) = request.message.resource_logs[0].scope_logs[0].log_records
        attributes = plain(record.attributes)
        self.assertEqual(attributes["event.name"], "gpu.xid")
        self.assertEqual(attributes["gpu.xid.code"], 79)
        self.assertGreater(record.severity_number, 8)


class Engines(unittest.TestCase):
    """Rows l9-189, l9-202 and l9-203: LLM engines over OTLP."""

    def arrive(self, name, page, names, done):
        """{metric: [(metric, attributes, point)]} of what arrives of an engine with this page."""
        with engine(page) as (url, _), Receiver() as receiver:
            config = f"""
targets: [{{name: a, kind: {name}, url: "{url}/metrics", interval: 200ms}}]
sinks: {{otlp: {{endpoint: "{receiver.url}", interval: 200ms, queue: {{storage: memory}}, names: [{names}]}}}}
"""
            with Agent(config=config):
                receiver.wait(lambda requests: any(list(r.points(done)) for r in requests), done)
            received = {}
            for request in receiver.requests:
                for _, _, metric in request.metrics():
                    for point in getattr(metric, metric.WhichOneof("data")).data_points:
                        received.setdefault(metric.name, []).append((metric, plain(point.attributes), point))
            return received

    def test_genai_names_are_histograms_with_the_required_attributes(self):
        received = self.arrive("vllm", vllm_page, "otel_genai", "gen_ai.client.token.usage")
        for name, unit in (("gen_ai.client.token.usage", "{token}"), ("gen_ai.server.request.duration", "s"),
                           ("gen_ai.server.time_to_first_token", "s"), ("gen_ai.server.time_per_output_token", "s")):  # fmt: skip
            metric, attributes, point = received[name][0]
            self.assertEqual((metric.WhichOneof("data"), metric.unit), ("histogram", unit), name)
            self.assertEqual((attributes["gen_ai.operation.name"], attributes["gen_ai.provider.name"]), ("chat", "vllm"))
            self.assertEqual(attributes["gen_ai.request.model"], "m")
            self.assertIsInstance(attributes["server.port"], int)
            self.assertEqual(list(point.explicit_bounds), [0.1, 0.5])
            self.assertEqual(sum(point.bucket_counts), point.count)
            self.assertEqual(point.bucket_counts[1], point.count, "all of them between 0.1 and 0.5")
            self.assertAlmostEqual(point.sum, 0.25 * point.count)
        types = {attributes["gen_ai.token.type"] for _, attributes, _ in received["gen_ai.client.token.usage"]}
        self.assertEqual(types, {"input", "output"})

    def test_families_of_vllm_and_triton_arrive(self):
        received = self.arrive("vllm", vllm_page, "native", "inference.time_to_first_token")
        _, attributes, point = received["inference.requests.running"][0]
        self.assertEqual(point.as_double or point.as_int, 3)
        self.assertEqual((attributes["inference.engine"], attributes["model.name"]), ("vllm", "m"))
        received = self.arrive("triton", PAGES["triton"], "native", "inference.requests.finished")
        models = {attributes["model.name"] for _, attributes, _ in received["inference.requests.finished"]}
        self.assertEqual(models, {"a", "b"})


if __name__ == "__main__":
    unittest.main()
