"""OTLP in: OpenTelemetry's SDK for Python sends, the agent passes on, and OpenTelemetry's own classes read the far end."""
import contextlib
import gzip
import http.client
import json
import pathlib
import random
import subprocess
import tempfile
import threading
import unittest

from agent import BINARY, Agent, free_port, value, wait_until
from otlp_receiver import Receiver, plain, refusal
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest, ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

try:
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
except ImportError:
    raise unittest.SkipTest("opentelemetry-sdk not here: ./dev test fetches it") from None

PROTOBUF = "application/x-protobuf"


def config(port, url, receiver="", sink="", root="limits: {memory: 2GiB}", grpc="[]"):
    """Quick, without a backlog of another test, and with room for what a sanitizer needs."""
    return (f"interval: 100ms\nresource: {{cluster: c1, service_name: of-agent}}\n{root}\n"
            f"receivers: {{otlp: {{http: {{listen: '127.0.0.1:{port}'}}, grpc: {{listen: {grpc}}}{receiver}}}}}\n"
            f"sinks: {{otlp: {{endpoint: '{url}', interval: 10m, queue: {{storage: memory}}, retry: {{initial: 10ms, max: 50ms}}{sink}}}}}\n")  # fmt: skip


def post(port, path, body, content_type=PROTOBUF, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("POST", path, body, {"Content-Type": content_type, **{k.replace("_", "-"): v for k, v in headers.items()}})
    response = connection.getresponse()
    response.text = response.read()
    connection.close()
    return response


def gauge(name, points=1, attributes=(), resource=(), text="v"):
    """A request with one gauge."""
    request = ExportMetricsServiceRequest()
    of = request.resource_metrics.add()
    for key, word in dict(resource).items():
        pair = of.resource.attributes.add(key=key)
        pair.value.string_value = word
    metric = of.scope_metrics.add().metrics.add(name=name)
    for number in range(points):
        point = metric.gauge.data_points.add(as_int=number, time_unix_nano=1_700_000_000_000_000_000 + number)
        for key, word in (("text", text), *dict(attributes).items()):
            point.attributes.add(key=key).value.string_value = word
    return request


def points_of(requests, name):
    return [found for request in requests for found in request.points(name)]


def await_count(agent, count, family="gpulens_receiver_points_total", **labels):
    """Counters of a receiver are on the page from the next tick on."""
    wait_until(lambda: value(agent.page(), family, **labels) == count, what=f"{family} {labels} to be {count}")


class OfSdk(unittest.TestCase):
    def test_metrics_and_traces_of_the_sdk_arrive_as_they_were_sent(self):
        port = free_port()
        with Receiver() as far, Agent(config=config(port, far.url)) as agent:
            resource = Resource.create({"service.name": "trainer", "deployment.environment.name": "test"})
            exporter = OTLPMetricExporter(endpoint=f"http://127.0.0.1:{port}/v1/metrics", compression=Compression.Gzip)
            meters = MeterProvider(resource=resource, metric_readers=[PeriodicExportingMetricReader(exporter, 3_600_000)])
            meter = meters.get_meter("of.test", "1.2", schema_url="https://opentelemetry.io/schemas/1.30.0")
            counter, latency = meter.create_counter("tokens", unit="{token}"), meter.create_histogram("latency", unit="s")
            for step in range(100):
                counter.add(2, {"rank": step % 4})
                latency.record(step / 100)
            meters.force_flush(20_000)
            tracers = TracerProvider(resource=resource)
            tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"http://127.0.0.1:{port}/v1/traces")))
            tracer = tracers.get_tracer("of.test")
            for number in range(1000):
                with tracer.start_as_current_span(f"span {number}", attributes={"number": number, "list": ["a", "b"]}) as span:
                    span.add_event("event", {"key": "value"})
            tracers.force_flush(20_000)
            far.wait(lambda requests: sum(len(list(r.spans())) for r in requests) >= 1000, "1000 spans")
            far.wait(lambda requests: points_of(requests, "tokens"), "the counter")
            await_count(agent, 1000, receiver="otlp/http", signal="traces", result="accepted")
            await_count(agent, 0, receiver="otlp/http", signal="traces", result="refused")
            meters.shutdown()
            tracers.shutdown()
        tokens = points_of(far.requests, "tokens")
        self.assertEqual({attributes["rank"]: point.as_int for attributes, point in tokens}, {rank: 50 for rank in range(4)})
        # Sent again when the SDK shuts down.
        self.assertEqual({point.count for _, point in points_of(far.requests, "latency")}, {100})
        schemas = {scope.schema_url for request in far.requests for of in getattr(request.message, "resource_metrics", ())
                   for scope in of.scope_metrics if scope.scope.name == "of.test"}  # fmt: skip
        self.assertEqual(schemas, {"https://opentelemetry.io/schemas/1.30.0"})
        spans = [found for request in far.requests for found in request.spans()]
        self.assertEqual(sorted(plain(span.attributes)["number"] for _, span in spans), list(range(1000)))
        self.assertEqual(len({span.span_id for _, span in spans}), 1000)
        self.assertEqual({len(span.events) for _, span in spans}, {1})
        for attributes in [spans[0][0], next(resource for request in far.requests for resource, _, metric in request.metrics()
                                             if metric.name == "tokens")]:  # fmt: skip
            self.assertEqual(attributes["service.name"], "trainer", "an incoming service.name is kept")
            self.assertEqual(attributes["deployment.environment.name"], "test")
            self.assertEqual(attributes["k8s.cluster.name"], "c1")
            self.assertEqual(attributes["telemetry.sdk.language"], "python")


class OverHttp(unittest.TestCase):
    def test_protobuf_and_json_packed_or_not_are_the_same(self):
        port = free_port()
        bodies = [(gauge("m", 3).SerializeToString(), PROTOBUF, {}),
                  (gzip.compress(gauge("m", 3).SerializeToString()), PROTOBUF, {"Content_Encoding": "gzip"}),
                  (json.dumps({"resourceMetrics": [{"resource": {}, "scopeMetrics": [{"metrics": [{"name": "m", "gauge": {"dataPoints": [
                      {"asInt": str(number), "timeUnixNano": str(1_700_000_000_000_000_000 + number),
                       "attributes": [{"key": "text", "value": {"stringValue": "v"}}]} for number in range(3)]}}]}]}]}),
                   "application/json", {})]  # fmt: skip
        with Receiver() as far, Agent(config=config(port, far.url)):
            for body, content_type, headers in bodies:
                answer = post(port, "/v1/metrics", body, content_type, **headers)
                self.assertEqual((answer.status, answer.getheader("Content-Type")), (200, content_type), answer.text)
            requests = far.wait(lambda requests: len(points_of(requests, "m")) == 9 and list(requests), "nine points")
        received = [(attributes["text"], point.as_int, point.time_unix_nano) for attributes, point in points_of(requests, "m")]
        self.assertEqual(sorted(received), sorted(3 * [("v", number, 1_700_000_000_000_000_000 + number) for number in range(3)]))

    def test_bad_requests_are_refused_and_bad_points_left_out(self):
        port = free_port()
        with Receiver() as far, Agent(config=config(port, far.url, ", max_request: 1MiB")) as agent:
            for status, body, content_type, headers in [
                (400, b"\x0a\x80\x80\x80\x32x", PROTOBUF, {}),  # claims 100 MB
                (400, gzip.compress(b"x" * 1000)[:20], PROTOBUF, {"Content_Encoding": "gzip"}),
                (400, b'{"resourceMetrics": ' + b"[" * 100_000, "application/json", {}),
                (413, b"x" * (2 << 20), PROTOBUF, {}),
                (413, b" " * (2 << 20), "application/json", {}),
                (413, gzip.compress(b"\0" * (100 << 20)), PROTOBUF, {"Content_Encoding": "gzip"}),
                (415, b"", "text/plain", {}),
                (415, b"", PROTOBUF, {"Content_Encoding": "br"}),
            ]:
                with self.subTest(status=status, bytes=len(body)):
                    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                        answer = post(port, "/v1/metrics", body, content_type, **headers)
                        self.assertEqual(answer.status, status)
                        self.assertTrue(refusal(answer, "json" if content_type == "application/json" else "x-protobuf"))
            mixed = gauge("m", 2, text="good").SerializeToString().replace(b"good", b"g\xffod", 1)
            answer = post(port, "/v1/metrics", mixed)
            self.assertEqual(answer.status, 200)
            partial = ExportMetricsServiceResponse.FromString(answer.text).partial_success
            self.assertEqual((partial.rejected_data_points, partial.error_message), (1, "a text is not valid UTF-8"))
            (one,) = far.wait(lambda requests: points_of(requests, "m"), "the good point")
            self.assertEqual(one[1].as_int, 1)
            await_count(agent, 1, receiver="otlp/http", signal="metrics", result="rejected")
            await_count(agent, 2, "gpulens_receiver_requests_total", receiver="otlp/http", signal="metrics", code="415")

    def test_noise_is_dropped_and_counted_by_rules_that_a_reload_changes(self):
        port = free_port()
        names = ["go_gc_duration_seconds", "python_info", "http_requests_created", "kept"]
        with Receiver() as far, Agent(config=config(port, far.url)) as agent:
            for name in names:
                self.assertEqual(post(port, "/v1/metrics", gauge(name, 2).SerializeToString()).status, 200)
            far.wait(lambda requests: points_of(requests, "kept"), "the one that is kept")
            filtered = {"receiver": "otlp/http", "signal": "metrics", "result": "filtered"}
            wait_until(lambda: value(agent.page(), "gpulens_receiver_points_total", **filtered) == 6, what="six that are counted")
            self.assertEqual({metric.name for request in far.requests for _, _, metric in request.metrics()} & set(names), {"kept"})
            # After it: while the receiver is replaced, a connection to the one before may be closed.
            agent.reload(config(port, far.url, ", drop: []"))
            self.assertEqual(post(port, "/v1/metrics", gauge("go_threads").SerializeToString()).status, 200)
            far.wait(lambda requests: points_of(requests, "go_threads"), "what was dropped before")

    def test_large_requests_leave_in_parts(self):
        port = free_port()
        with Receiver() as far, Agent(config=config(port, far.url)):
            self.assertEqual(post(port, "/v1/metrics", gauge("m", 2500).SerializeToString()).status, 200)
            far.wait(lambda requests: len(points_of(requests, "m")) == 2500, "all points")
        sizes = [len(list(request.points("m"))) for request in far.requests]
        self.assertLessEqual(max(sizes), 1000)
        self.assertEqual(sorted(point.as_int for _, point in points_of(far.requests, "m")), list(range(2500)))

    def test_things_the_agent_does_not_know_survive(self):
        port = free_port()
        request = ExportLogsServiceRequest()
        record = request.resource_logs.add().scope_logs.add().log_records.add(severity_text="INFO", event_name="e")
        record.body.kvlist_value.values.add(key="k").value.array_value.values.add(bytes_value=b"\0\xff")
        # Field 1000 of the record, which does not exist.
        unknown = record.SerializeToString() + b"\xc2\x3e\x04kept"
        scope = b"\x12" + bytes([len(unknown)]) + unknown
        body = b"\x12" + bytes([len(scope)]) + scope
        body = b"\x0a" + bytes([len(body)]) + body
        with Receiver() as far, Agent(config=config(port, far.url)):
            self.assertEqual(post(port, "/v1/logs", body).status, 200)
            far.wait(lambda requests: [r for r in requests if list(r.logs())], "the record")
        ((_, arrived),) = [found for request in far.requests for found in request.logs()]
        self.assertEqual(arrived.SerializeToString(), unknown)


class OverGrpc(unittest.TestCase):
    SERVICES = {"metrics.v1.MetricsService": gauge("m", 3),
                "logs.v1.LogsService": ExportLogsServiceRequest(),
                "trace.v1.TraceService": ExportTraceServiceRequest()}  # fmt: skip

    def setUp(self):
        try:
            import grpc
        except ImportError:
            self.skipTest("grpcio not here: ./dev test fetches it")
        self.grpc = grpc

    def call(self, channel, service, body, **options):
        """The bytes of the answer."""
        method = channel.unary_unary(f"/opentelemetry.proto.collector.{service}/Export")
        return method(body, timeout=20, **options)

    def test_all_signals_packed_or_not(self):
        port, grpc_port = free_port(), free_port()
        requests = dict(self.SERVICES)
        requests["logs.v1.LogsService"].resource_logs.add().scope_logs.add().log_records.add(severity_text="INFO")
        requests["trace.v1.TraceService"].resource_spans.add().scope_spans.add().spans.add(name="span", trace_id=b"t" * 16, span_id=b"s" * 8)
        with Receiver() as far, Agent(config=config(port, far.url, grpc=f"'127.0.0.1:{grpc_port}'")) as agent:
            with self.grpc.insecure_channel(f"127.0.0.1:{grpc_port}") as channel:
                for packing in (self.grpc.Compression.NoCompression, self.grpc.Compression.Gzip):
                    for service, request in requests.items():
                        self.assertEqual(self.call(channel, service, request.SerializeToString(), compression=packing), b"")
            far.wait(lambda found: len(points_of(found, "m")) == 6 and sum(len(list(r.spans())) for r in found) == 2
                     and sum(len(list(r.logs())) for r in found) == 2, "each twice")  # fmt: skip
            await_count(agent, 6, receiver="otlp/grpc", signal="metrics", result="accepted")
            await_count(agent, 2, "gpulens_receiver_requests_total", receiver="otlp/grpc", signal="traces", code="OK")

    def test_bad_requests_and_overload_have_codes(self):
        port, grpc_port = free_port(), free_port()
        with Agent(config=config(port, f"http://127.0.0.1:{free_port()}", grpc=f"'127.0.0.1:{grpc_port}'", sink=", compression: none").replace(
                "storage: memory", "max_bytes: 8MiB")):  # fmt: skip
            with self.grpc.insecure_channel(f"127.0.0.1:{grpc_port}") as channel:
                with self.assertRaises(self.grpc.RpcError) as broken:
                    self.call(channel, "metrics.v1.MetricsService", b"\x0a\x7f")
                self.assertEqual(broken.exception.code(), self.grpc.StatusCode.INVALID_ARGUMENT)
                mixed = gauge("m", 2, text="good").SerializeToString().replace(b"good", b"g\xffod", 1)
                partial = ExportMetricsServiceResponse.FromString(self.call(channel, "metrics.v1.MetricsService", mixed)).partial_success
                self.assertEqual(partial.rejected_data_points, 1)
                body = gauge("m", 1, text="x" * 150_000).SerializeToString()
                with self.assertRaises(self.grpc.RpcError) as full:
                    for _ in range(80):
                        self.call(channel, "metrics.v1.MetricsService", body)
                self.assertEqual(full.exception.code(), self.grpc.StatusCode.RESOURCE_EXHAUSTED)
                details = dict(full.exception.trailing_metadata()).get("grpc-status-details-bin", b"")
                self.assertIn(b"RetryInfo", details)


class BackPressure(unittest.TestCase):
    def test_accepted_data_arrives_after_kill_9_and_the_rest_is_reported(self):
        """The far end is down; the agent is killed. What got 200 is all there afterwards."""
        port = free_port()
        with tempfile.TemporaryDirectory() as state:
            disk = f", queue: {{storage: disk, dir: '{state}/queue'}}"
            dead = config(port, f"http://127.0.0.1:{free_port()}", sink=disk).replace("queue: {storage: memory}, ", "")
            accepted = []
            agent = Agent(config=dead)
            with agent:
                for number in range(50):
                    if post(port, "/v1/metrics", gauge("m", 1, {"number": str(number)}).SerializeToString()).status == 200:
                        accepted.append(str(number))
                agent.process.kill()
                agent.process.wait()
            self.assertEqual(len(accepted), 50)
            with Receiver() as far:
                alive = config(port, far.url, sink=disk).replace("queue: {storage: memory}, ", "")
                with Agent(config=alive):
                    far.wait(lambda requests: len(points_of(requests, "m")) >= 50, "what was accepted")
            numbers = [attributes["number"] for attributes, _ in points_of(far.requests, "m")]
            self.assertEqual(list(dict.fromkeys(numbers)), accepted, "all, in order; the one under way may be there twice")

    def test_a_full_queue_sends_senders_away_until_there_is_room(self):
        port, far_port = free_port(), free_port()
        words = random.Random(1)
        body = gauge("m", 1, text="".join(words.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=150_000))).SerializeToString()
        small = config(port, f"http://127.0.0.1:{far_port}", sink=", compression: none").replace("storage: memory", "max_bytes: 8MiB")
        with Agent(config=small) as agent:
            answers = [post(port, "/v1/metrics", body) for _ in range(80)]
            self.assertEqual({answer.status for answer in answers}, {200, 429})
            self.assertEqual(answers[-1].status, 429)
            self.assertEqual(answers[-1].getheader("Retry-After"), "1")
            taken = sum(answer.status == 200 for answer in answers)
            self.assertEqual(value(agent.page(), "gpulens_sink_dropped_total", sink="otlp", queue="delivery", reason="queue_full"), 0)
            with Receiver(port=far_port) as far:
                wait_until(lambda: post(port, "/v1/metrics", body).status == 200, what="room")
                far.wait(lambda requests: len(points_of(requests, "m")) == taken + 1, "all that was accepted")

    def test_a_flood_keeps_memory_under_the_limit_and_is_reported(self):
        if "sanitizer" in subprocess.run([BINARY, "version"], capture_output=True, text=True, check=True).stdout:
            self.skipTest("a sanitizer keeps what was freed")
        port = free_port()
        limit = 64 << 20
        with Agent(config=config(port, f"http://127.0.0.1:{free_port()}", ", max_request: 4MiB", root="limits: {memory: 64MiB}")) as agent:
            body = gauge("m", 20_000, {"k": "x" * 100}).SerializeToString()
            codes, most = [], 0
            def flood():
                for _ in range(15):
                    with contextlib.suppress(OSError):
                        codes.append(post(port, "/v1/metrics", body).status)

            threads = [threading.Thread(target=flood) for _ in range(8)]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                resident = pathlib.Path(f"/proc/{agent.process.pid}/status").read_text().split("VmRSS:")[1].split()[0]
                most = max(most, 1024 * int(resident))
                threads[0].join(0.02)
            for thread in threads:
                thread.join()
            self.assertIn(429, codes)
            self.assertLessEqual(set(codes), {200, 429})
            self.assertLess(most, limit)
            self.assertIn(agent.get("/health").status, (200,))


class Configuration(unittest.TestCase):
    def run_agent(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(text + f"\nhttp: {{listen: '127.0.0.1:{free_port()}'}}\nwebsocket: {{listen: []}}\n")
            file.flush()
            return subprocess.run([BINARY, "agent", "--config", file.name], capture_output=True, text=True, timeout=30, check=False)

    def test_our_own_receiver_is_no_place_to_send_to(self):
        done = self.run_agent("receivers: {otlp: {}}\nsinks: {otlp: {}}")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("own receiver", done.stderr)

    def test_a_receiver_needs_a_sink(self):
        done = self.run_agent(f"receivers: {{otlp: {{http: {{listen: '127.0.0.1:{free_port()}'}}, grpc: {{listen: []}}}}}}")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("no sink accepts", done.stderr)
        self.assertIn("switch on one of sinks.otlp", done.stderr)

    def test_other_machines_need_leave(self):
        done = self.run_agent("receivers: {otlp: {http: {listen: '0.0.0.0:0'}, grpc: {listen: []}}}\nsinks: {otlp: {endpoint: 'http://127.0.0.1:1'}}")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("insecure", done.stderr)


if __name__ == "__main__":
    unittest.main()
