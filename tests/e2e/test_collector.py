"""OTLP with the real OpenTelemetry Collector: it must read our output in every encoding, and what it sends to us must arrive
unaltered. "The same" is the same protobuf message, byte by byte, once both are written by protobuf's own classes."""
import collections
import contextlib
import pathlib
import shutil
import tempfile
import unittest

from agent import Agent, free_port, value, wait_until
from google.protobuf.message import DecodeError
from go_peers import TIMEOUT, Collector
from otlp_receiver import KINDS, Received, plain
from otlp_samples import logs, metrics, signal_lines, traces
from otlp_tap import Tap, message_of
from test_otlp_encodings import openmetrics

CUMULATIVE, DELTA = 2, 1
EXPONENTIAL = {"OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": "base2_exponential_bucket_histogram"}
XID = "[   12.345678] NVRM: Xid (PCI:0000:0f:00): 79, pid=1234, GPU has fallen off the bus.\n"
PAGE = """# TYPE done counter
# HELP done What is done
done_total{{kind="a b"}} {count}
done_created{{kind="a b"}} 1700000000
# TYPE depth gauge
depth{{text="ä\\"\\\\\\n€"}} -4.25
depth{{text="none"}} NaN
depth{{text="much"}} +Inf
# TYPE wait_seconds histogram
# UNIT wait_seconds seconds
wait_seconds_bucket{{le="0.1"}} {count}
wait_seconds_bucket{{le="1.0"}} {more} # {{trace_id="5b8efff798038103d269b633813fc60c",span_id="eee19b7ec3c1b174",user="x"}} 0.4 1700000000.5
wait_seconds_bucket{{le="+Inf"}} {more}
wait_seconds_sum 9.5
wait_seconds_count {more}
# TYPE quick summary
quick{{quantile="0.5"}} 0.25
quick_sum 4
quick_count 8
# TYPE build info
build_info{{version="1.2"}} 1
# TYPE state stateset
state{{state="on"}} 1
state{{state="off"}} 0
# EOF
"""


def without_empty(message):
    """The lines without empty parts: the Collector's JSON has a `body: {}` where there was none."""
    for field, one in message.ListFields():
        if field.type != field.TYPE_MESSAGE:
            continue
        for part in one if field.is_repeated else [one]:
            without_empty(part)
        if not field.is_repeated and field.containing_oneof is None and one.ByteSize() == 0:
            message.ClearField(field.name)
    return message


def canonical(message):
    """Bytes that are equal where messages are, numbers that are none included."""
    return without_empty(message).SerializeToString(deterministic=True)


def message_of_call(body):
    """Calls are distinguished by their content: a metric that is read as a log record has no name of an event."""
    with contextlib.suppress(DecodeError):
        found = KINDS["/v1/logs"].FromString(body)
        records = [record for _, record in Received("", {}, found).logs()]
        if records and all(record.event_name for record in records):
            return found
    return KINDS["/v1/metrics"].FromString(body)


class Sending(unittest.TestCase):
    """An agent that sends through a relay to the Collector, until it has sent everything. Returns what both then have."""

    def send(self, protocol, packing, options="", environment=None, gpus=False):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-collector-test-"))
        self.addCleanup(shutil.rmtree, folder, True)
        log, count = folder / "kern.log", [100]
        log.write_text("")

        def page():
            count[0] += 3
            return PAGE.format(count=count[0], more=count[0] + 2)

        with Collector() as far, Tap(far.grpc if protocol == "grpc" else far.http) as tap, openmetrics(page) as address:
            config = (f"interval: 100ms\ntargets: [{{name: p, kind: prometheus, url: '{address}', interval: 300ms}}]\n"
                      f"collectors: {{kernel_log: {{source: file, path: '{log}', interval: 100ms}}}}\n"
                      f"sinks: {{otlp: {{endpoint: 'http://127.0.0.1:{tap.port}', protocol: {protocol}, compression: {packing}, "
                      f"interval: 200ms, queue: {{storage: memory}}{options}}}}}\n")  # fmt: skip
            with Agent(*(["--demo"] if gpus else []), config=config, environment=environment) as agent:
                wait_until(lambda: value(agent.page(), "gpulens_collector_up", collector="kernel_log") == 1)
                with open(log, "a") as out:
                    out.write(XID)
                far.wait(lambda text: "gpu.xid" in text and ("gpu.power.draw" in text or not gpus) and text.count("wait_seconds") > 3,
                         "metrics and the event")  # fmt: skip
                wait_until(lambda: value(agent.page(), "gpulens_sink_up", sink="otlp") == 1)
            sent = self.sent(tap, protocol, packing)
            far.wait(lambda text: text.count("\n") >= len(sent), "all that was sent")
            lines = far.lines()
            self.assertNotRegex(far.log_text(), r"\t(warn|error)\t")
        return sent, [message_of(line) for line in lines]

    def sent(self, tap, protocol, packing):
        """The messages that crossed the relay, and that they were encoded as configured."""
        if protocol == "grpc":
            calls = tap.calls()
            self.assertEqual({packed for packed, _ in calls}, {packing == "gzip"})
            return [message_of_call(body) for _, body in calls]
        requests = tap.requests()
        self.assertEqual({headers.get("content-encoding", "none") for headers, _ in requests}, {packing})
        kinds = {"application/json" if protocol == "http/json" else "application/x-protobuf"}
        self.assertEqual({headers["content-type"] for headers, _ in requests}, kinds)
        return [message for _, message in requests]

    def assert_the_same(self, sent, read):
        self.assertEqual(len(sent), len(read))
        for ours, theirs in zip(sorted(sent, key=canonical), sorted(read, key=canonical)):
            if canonical(ours) != canonical(theirs):
                self.assertEqual(str(ours), str(theirs))
                self.fail("alike as text, not as bytes")

    def shapes(self, read):
        """{name of a metric: (shape, unit, temporality)} of what was read, and of all points how many have an exemplar."""
        found, exemplars = {}, 0
        for message in read:
            for _, _, metric in Received("", {}, message).metrics():
                shape = metric.WhichOneof("data")
                data = getattr(metric, shape)
                found[metric.name] = (shape, metric.unit, getattr(data, "aggregation_temporality", None))
                exemplars += sum(len(point.exemplars) for point in data.data_points if hasattr(point, "exemplars"))
        return found, exemplars

    def check(self, protocol, packing, gpus=False):
        sent, read = self.send(protocol, packing, gpus=gpus)
        self.assert_the_same(sent, read)
        shapes, exemplars = self.shapes(read)
        self.assertEqual(shapes["done_total"], ("sum", "", CUMULATIVE))
        self.assertEqual(shapes["depth"][0], "gauge")
        self.assertEqual(shapes["wait_seconds"], ("histogram", "seconds", CUMULATIVE))
        self.assertEqual(shapes["quick"][0], "summary")
        self.assertEqual(shapes.get("gpu.power.draw"), ("gauge", "W", None) if gpus else None)
        self.assertGreater(exemplars, 0)
        records = [found for message in read for found in Received("", {}, message).logs()]
        (record,) = [record for _, record in records if record.event_name == "gpu.xid"]
        self.assertEqual(plain(record.attributes)["gpu.xid.code"], 79)
        for message in read:
            for resource in getattr(message, "resource_metrics", ()):
                self.assertTrue(resource.schema_url.startswith("https://opentelemetry.io/schemas/"))
        starts = {point.start_time_unix_nano for message in read for _, point in Received("", {}, message).points("done_total")}
        self.assertEqual(starts, {1_700_000_000_000_000_000}, "the start of the page")

    def test_protobuf(self):
        self.check("http/protobuf", "none")

    def test_protobuf_gzip(self):
        self.check("http/protobuf", "gzip", gpus=True)

    @unittest.skipUnless(shutil.which("zstd"), "zstd is not here")
    def test_protobuf_zstd(self):
        self.check("http/protobuf", "zstd")

    def test_json(self):
        self.check("http/json", "none", gpus=True)

    def test_json_gzip(self):
        self.check("http/json", "gzip")

    @unittest.skipUnless(shutil.which("zstd"), "zstd is not here")
    def test_json_zstd(self):
        self.check("http/json", "zstd")

    def test_grpc(self):
        self.check("grpc", "none")

    def test_grpc_gzip(self):
        self.check("grpc", "gzip", gpus=True)

    def test_deltas_and_exponential_histograms(self):
        for protocol in ("http/protobuf", "http/json", "grpc"):
            with self.subTest(protocol):
                sent, read = self.send(protocol, "gzip", ", temporality: delta", EXPONENTIAL)
                self.assert_the_same(sent, read)
                shapes, _ = self.shapes(read)
                self.assertEqual(shapes["done_total"], ("sum", "", DELTA))
                self.assertEqual(shapes["wait_seconds"], ("exponential_histogram", "seconds", DELTA))
                self.assertEqual(shapes["depth"][0], "gauge")


class Files(unittest.TestCase):
    def test_a_file_of_otlp_json_is_read(self):
        """The Collector's own receiver of such files decodes every line."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "ours.jsonl")
            with openmetrics(lambda: PAGE.format(count=1, more=2)) as address:
                config = (f"interval: 100ms\ntargets: [{{name: p, kind: prometheus, url: '{address}', interval: 300ms}}]\n"
                          f"sinks: {{file: {{path: '{path}', format: otlp_json, interval: 100ms}}}}\n")  # fmt: skip
                with Agent("--demo", config=config):
                    wait_until(lambda: path.exists() and path.read_text().count("wait_seconds") > 3, what="lines with histograms")
            lines = [line for line in path.read_text().splitlines() if line.startswith('{"resourceMetrics"')]
            path.write_text("\n".join(lines) + "\n")
            with Collector((path, "metrics", "file {path: '%s', flush_interval: 50ms}" % (pathlib.Path(folder) / "theirs.jsonl"))) as collector:
                wait_until(lambda: f'"lines": {len(lines)}' in collector.log_text(), TIMEOUT, "the file")
                theirs = pathlib.Path(folder, "theirs.jsonl")
                read = wait_until(lambda: theirs.exists() and theirs.read_text().count("\n") == len(lines) and signal_lines(theirs), TIMEOUT)
            self.assertEqual([canonical(message) for message in read], [canonical(message) for message in signal_lines(path)])


class Passing(unittest.TestCase):
    """Collector → gpulens → Collector."""

    EXPORTERS = {
        "grpc": "otlp {{endpoint: '127.0.0.1:{grpc}', tls: {{insecure: true}}}}",
        "protobuf": "otlphttp {{endpoint: 'http://127.0.0.1:{http}', encoding: proto}}",
        "json": "otlphttp {{endpoint: 'http://127.0.0.1:{http}', encoding: json, compression: none}}",
        "zstd": "otlphttp {{endpoint: 'http://127.0.0.1:{http}', compression: zstd}}",
    }  # fmt: skip

    def items(self, messages):
        """Counter of points, records and spans, each with its resource and scope."""
        found = collections.Counter()
        for message in messages:
            for field, resources in message.ListFields():
                for resource in resources:
                    added = [pair for pair in resource.resource.attributes if pair.key in ("k8s.cluster.name", "gpulens.receiver")]
                    self.added.update(plain(added).items())
                    for pair in added:
                        resource.resource.attributes.remove(pair)
                    around = (field.name, canonical(resource.resource), resource.schema_url)
                    for scope in [one for part, ones in resource.ListFields() if part.name.startswith("scope_") for one in ones]:
                        self.count_scope(found, around + (canonical(scope.scope), scope.schema_url), scope)
        return found

    def count_scope(self, found, around, scope):
        for metric in getattr(scope, "metrics", ()):
            data = getattr(metric, metric.WhichOneof("data"))
            points = [canonical(point) for point in data.data_points]
            del data.data_points[:]
            for point in points:
                found[around + (canonical(metric), point)] += 1
        for one in list(getattr(scope, "log_records", ())) + list(getattr(scope, "spans", ())):
            found[around + (canonical(one),)] += 1

    def test_all_signals_by_every_protocol(self):
        for name, exporter in self.EXPORTERS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                self.pass_on(name, exporter, pathlib.Path(folder))

    def pass_on(self, name, exporter, folder):
        self.added = set()
        grpc, http = free_port(), free_port()
        exporter = exporter.format(grpc=grpc, http=http)
        sends, originals = [], []
        for signal, made in {"metrics": metrics(40), "logs": logs(40), "traces": traces(40)}.items():
            (folder / signal).write_text("".join(line + "\n" for line in made))
            sends.append((folder / signal, signal, exporter))
            originals += signal_lines(folder / signal)
        collector = Collector(*sends)
        back = f"endpoint: 'http://127.0.0.1:{collector.grpc}', protocol: grpc" if name == "grpc" else f"endpoint: 'http://127.0.0.1:{collector.http}'"
        config = (f"interval: 100ms\nresource: {{cluster: c1}}\nreceivers: {{otlp: {{http: {{listen: '127.0.0.1:{http}'}}, "
                  f"grpc: {{listen: '127.0.0.1:{grpc}'}}}}}}\nsinks: {{otlp: {{{back}, interval: 10m, queue: {{storage: memory}}, "
                  "retry: {initial: 10ms, max: 100ms}}}\n")  # fmt: skip
        wanted = self.items(originals)
        self.assertGreater(wanted.total(), 3 * 40)
        with Agent(config=config), collector:
            own = "gpulens.tick.duration"  # self-metrics of the agent come the same way
            found = wait_until(lambda: (items := self.items(message_of(line) for line in collector.lines() if own not in str(line)))
                               .total() >= wanted.total() and items, TIMEOUT, "all of it")  # fmt: skip
            self.assertNotRegex(collector.log_text(), r"\t(warn|error)\t.*(Permanent|Dropping)")
        self.assertEqual(self.added, {("k8s.cluster.name", "c1"), ("gpulens.receiver", "otlp")}, "all that is put in")
        self.assertEqual(len(wanted - found), 0, "what is missing or altered")
        self.assertEqual(len(found - wanted), 0, "what is there that was not sent")


if __name__ == "__main__":
    unittest.main()
