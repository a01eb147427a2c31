"""OTLP out in its other forms: JSON, zstd, deltas, exponential histograms, exemplars. Read with the protocol's own classes."""
import base64
import gzip
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from agent import Agent, value, wait_until
from google.protobuf import json_format
from http_stub import serve_page
from otlp_receiver import KINDS, Received, Receiver, plain
from test_otlp import collect

DELTA, CUMULATIVE = 1, 2
SCHEMA = "https://opentelemetry.io/schemas/"


def with_base64_ids(node):
    """OTLP's JSON with ids as protobuf's own JSON has them."""
    if isinstance(node, list):
        return [with_base64_ids(one) for one in node]
    if not isinstance(node, dict):
        return node
    ids = ("traceId", "spanId", "parentSpanId")
    return {key: base64.b64encode(bytes.fromhex(one)).decode() if key in ids else with_base64_ids(one) for key, one in node.items()}


def unpack(body, encoding):
    if encoding == "gzip":
        return gzip.decompress(body)
    if encoding == "zstd":
        return subprocess.run(["zstd", "-dc"], input=body, stdout=subprocess.PIPE, check=True).stdout
    return body


class AnyReceiver(Receiver):
    """Takes JSON and zstd, too. `partial`: what a JSON request is answered with."""

    def __init__(self, answer=None, partial=None):
        super().__init__(answer)
        self.partial, self.texts = partial or {}, []

    def take(self, handler, body):
        body = unpack(body, handler.headers.get("Content-Encoding"))
        with self.changed:
            status, headers = self.answer(handler.path, len(self.requests) + len(self.refused))
            if handler.headers["Content-Type"] == "application/json":
                text = json.loads(body)
                message = json_format.ParseDict(with_base64_ids(text), KINDS[handler.path]())
                answer = json.dumps(self.partial).encode()
            else:
                text, message, answer = None, KINDS[handler.path].FromString(body), b""
            list_of = self.requests if status == 200 else self.refused
            list_of.append(Received(handler.path, dict(handler.headers), message))
            self.texts.append(text)
            self.changed.notify_all()
        return status, {**headers, "Content-Type": handler.headers["Content-Type"]}, answer


def openmetrics(page):
    """Serves what `page()` returns; the address is the value of the with statement."""
    return serve_page(page, "application/openmetrics-text; version=1.0.0; charset=utf-8")


class Encodings(unittest.TestCase):
    def assert_is_protobufs_json(self, text, message):
        """The text equals the output of protobuf's own writer, except for explicit defaults and ids."""
        wanted = json_format.MessageToDict(message, use_integers_for_enums=True)
        sent = with_base64_ids(text)

        def compare(ours, theirs, path):
            if isinstance(ours, dict):
                self.assertIsInstance(theirs, dict, path)
                for key in set(ours) | set(theirs):
                    if key not in theirs:
                        self.assertIn(ours[key], (0, "0", "", False), f"{path}.{key}")
                    else:
                        compare(ours.get(key), theirs[key], f"{path}.{key}")
            elif isinstance(ours, list):
                self.assertEqual(len(ours), len(theirs), path)
                for index, (one, other) in enumerate(zip(ours, theirs)):
                    compare(one, other, f"{path}[{index}]")
            else:
                self.assertEqual(ours, theirs, path)
                self.assertEqual(isinstance(ours, str), isinstance(theirs, str), path)

        compare(sent, wanted, "")

    def test_json_in_all_packings(self):
        for packing in ("none", "gzip", "zstd"):
            if packing == "zstd" and not shutil.which("zstd"):
                continue
            with self.subTest(packing), AnyReceiver() as receiver:
                done = collect("host", "--once", "--sink", "otel", "-o", f"endpoint={receiver.url}", "-o", "protocol=http/json",
                               "-o", f"compression={packing}")  # fmt: skip
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                (request,) = receiver.requests
                self.assertEqual(request.headers["Content-Type"], "application/json")
                self.assertEqual(request.headers.get("Content-Encoding", "none"), packing)
                self.assert_is_protobufs_json(receiver.texts[0], request.message)
                names = {metric.name for _, _, metric in request.metrics()}
                self.assertLess({"system.cpu.time", "system.memory.usage"}, names)
                (resource,) = request.message.resource_metrics
                self.assertTrue(resource.schema_url.startswith(SCHEMA))
                self.assertEqual({scope.schema_url for scope in resource.scope_metrics}, {resource.schema_url})

    def test_zstd_of_protobuf(self):
        if not shutil.which("zstd"):
            self.skipTest("zstd is not here")
        with AnyReceiver() as receiver:
            done = collect("host", "--once", "--sink", "otel", environment={
                "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_EXPORTER_OTLP_COMPRESSION": "zstd"})  # fmt: skip
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            (request,) = receiver.requests
        self.assertEqual(request.headers["Content-Encoding"], "zstd")
        self.assertEqual(request.headers["Content-Type"], "application/x-protobuf")
        self.assertTrue(list(request.points("system.cpu.time")))

    def test_json_events_and_rejected_input(self):
        partial = {"partialSuccess": {"rejectedLogRecords": "1", "rejectedDataPoints": "2", "errorMessage": "too old"}}
        with tempfile.TemporaryDirectory() as folder, AnyReceiver(partial=partial) as receiver:
            log = pathlib.Path(folder, "kern.log")
            log.write_text("")
            config = (f"sinks: {{otlp: {{endpoint: '{receiver.url}', protocol: http/json, interval: 200ms, queue: {{storage: memory}}}}}}\n"
                      f"collectors: {{kernel_log: {{source: file, path: '{log}', interval: 100ms}}}}\ninterval: 100ms\n")  # fmt: skip
            with Agent(config=config) as agent:
                wait_until(lambda: value(agent.page(), "gpulens_collector_up", collector="kernel_log") == 1)
                with open(log, "a") as out:
                    out.write("[   12.345678] NVRM: Xid (PCI:0000:0f:00): 79, pid=1234, GPU has fallen off the bus.\n")
                request = receiver.wait(lambda requests: next((r for r in requests if r.path == "/v1/logs"), None), "the event")
                self.assert_is_protobufs_json(receiver.texts[receiver.requests.index(request)], request.message)
                wait_until(lambda: value(agent.page(), "gpulens_sink_rejected_total", sink="otlp", signal="logs") == 1)
                self.assertGreaterEqual(value(agent.page(), "gpulens_sink_rejected_total", sink="otlp", signal="metrics"), 2)
        (record,) = request.message.resource_logs[0].scope_logs[0].log_records
        self.assertEqual(record.event_name, "gpu.xid")
        self.assertEqual(plain(record.attributes)["gpu.xid.code"], 79)


class Choices(unittest.TestCase):
    CONFIG = """
sinks: {{otlp: {{endpoint: "{url}", interval: 100ms, retry: {{initial: 10ms, max: 50ms}}, queue: {{storage: memory}}}}}}
targets: [{{name: p, kind: prometheus, url: "{page}", interval: 100ms}}]
collectors: {{host: {{enabled: false}}}}
interval: 100ms
"""

    def test_deltas_add_up(self):
        """With refused and repeated requests, the sent deltas still add up to the count."""
        count = [1000]

        def page():
            count[0] += 7
            return f"# TYPE done counter\ndone_total {count[0]}\n# TYPE depth gauge\ndepth 4\n# EOF\n"

        answers = {3: (503, {"Retry-After": "0"}), 5: (429, {})}
        with AnyReceiver(lambda path, number: answers.get(number, (200, {}))) as receiver, openmetrics(page) as address:
            with Agent(config=self.CONFIG.format(url=receiver.url, page=address),
                       environment={"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "Delta"}):  # fmt: skip
                receiver.wait(lambda requests: sum(len(list(r.points("done_total"))) for r in requests) > 10, "ten deltas")
        sums = [metric for request in receiver.requests for _, _, metric in request.metrics() if metric.name == "done_total"]
        self.assertEqual({metric.sum.aggregation_temporality for metric in sums}, {DELTA})
        self.assertEqual({metric.sum.is_monotonic for metric in sums}, {True})
        points = [point for metric in sums for point in metric.sum.data_points]
        for before, after in zip(points, points[1:]):
            self.assertEqual(after.start_time_unix_nano, before.time_unix_nano)
        sent = sum(point.as_double for point in points)
        # The first page was the base, and one may have been read that no tick sent.
        self.assertEqual(sent % 7, 0)
        self.assertLessEqual(sent, count[0] - 1007)
        self.assertGreaterEqual(sent, count[0] - 1007 - 21)
        self.assertTrue(all(point.as_double == 4 for r in receiver.requests for _, point in r.points("depth")))

    HISTOGRAM = """# TYPE wait_seconds histogram
# UNIT wait_seconds seconds
wait_seconds_bucket{le="0.1"} 3
wait_seconds_bucket{le="1.0"} 5 # {trace_id="5b8efff798038103d269b633813fc60c",span_id="eee19b7ec3c1b174",user="x"} 0.4 1700000000.5
wait_seconds_bucket{le="+Inf"} 6
wait_seconds_sum 9.5
wait_seconds_count 6
# EOF
"""

    def first_histogram(self, environment):
        with AnyReceiver() as receiver, openmetrics(lambda: self.HISTOGRAM) as address:
            with Agent(config=self.CONFIG.format(url=receiver.url, page=address), environment=environment):
                receiver.wait(lambda requests: any(list(r.points("wait_seconds")) for r in requests), "the histogram")
            return next(metric for r in receiver.requests for _, _, metric in r.metrics() if metric.name == "wait_seconds")

    def test_exponential_histograms_with_exemplars(self):
        metric = self.first_histogram({"OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": "base2_exponential_bucket_histogram"})
        self.assertEqual(metric.exponential_histogram.aggregation_temporality, CUMULATIVE)
        (point,) = metric.exponential_histogram.data_points
        self.assertEqual((point.count, point.sum, point.zero_count, point.zero_threshold), (6, 9.5, 3, 0.1))
        self.assertEqual(point.zero_count + sum(point.positive.bucket_counts), point.count)
        base = 2 ** 2**-point.scale
        uppers = [base ** (point.positive.offset + index + 1) for index, n in enumerate(point.positive.bucket_counts) for _ in range(n)]
        self.assertEqual([0.1 < upper < 1.0001 for upper in uppers], [True, True, False], "two up to 1, one above")
        self.assert_is_the_exemplar(point)

    def test_explicit_histograms_with_exemplars(self):
        metric = self.first_histogram({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"})
        (point,) = metric.histogram.data_points
        self.assertEqual((list(point.explicit_bounds), list(point.bucket_counts)), ([0.1, 1], [3, 2, 1]))
        self.assert_is_the_exemplar(point)

    def assert_is_the_exemplar(self, point):
        (exemplar,) = point.exemplars
        self.assertEqual((exemplar.as_double, exemplar.time_unix_nano), (0.4, 1_700_000_000_500_000_000))
        self.assertEqual(exemplar.trace_id.hex(), "5b8efff798038103d269b633813fc60c")
        self.assertEqual(exemplar.span_id.hex(), "eee19b7ec3c1b174")
        self.assertEqual(plain(exemplar.filtered_attributes), {"user": "x"})

    def test_words_that_are_none_are_refused(self):
        for variable, word in (("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "sometimes"),
                               ("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "fine")):  # fmt: skip
            done = collect("host", "--once", "--sink", "otel", environment={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", variable: word})
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main()
