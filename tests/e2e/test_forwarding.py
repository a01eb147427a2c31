"""Received data through the agent between real programs: each reading that one has arrives at the other, by value, time and labels."""
import contextlib
import json
import pathlib
import tempfile
import unittest
import urllib.parse
import urllib.request

from agent import Agent, free_port, peer, value, wait_until
from go_peers import TIMEOUT, Collector, Process, VictoriaMetrics
from http_stub import HttpStub
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from otlp_samples import line

PAGE = """# TYPE done counter
# HELP done What is done
done_total{{kind="a b",text="ä\\"\\\\€"}} {count}
# TYPE depth gauge
depth -4.25
depth{{which="much"}} 1e300
# TYPE wait_seconds histogram
wait_seconds_bucket{{le="0.1"}} 3
wait_seconds_bucket{{le="1.0"}} {count}
wait_seconds_bucket{{le="+Inf"}} {count}
wait_seconds_sum 9.5
wait_seconds_count {count}
# EOF
"""
START_MS = 1_700_000_000_000


class Prometheus(Process):
    """Debian's Prometheus: scrapes `page`, and writes to `write` or takes what is written."""

    def __init__(self, page="", write=""):
        super().__init__("prometheus")
        self.program, self.port = peer("prometheus"), free_port()
        self.config = "global: {scrape_interval: 300ms}\n"
        if page:
            target = urllib.parse.urlsplit(page).netloc
            self.config += f"scrape_configs: [{{job_name: pages, metrics_path: '{urllib.parse.urlsplit(page).path}', static_configs: [{{targets: ['{target}']}}]}}]\n"
        if write:
            self.config += (f"remote_write: [{{url: '{write}', send_exemplars: true, metadata_config: {{send_interval: 1s}},\n"
                            "  queue_config: {min_backoff: 30ms, max_backoff: 200ms, batch_send_deadline: 100ms}}]\n")  # fmt: skip
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        (self.folder / "prometheus.yml").write_text(self.config)
        return self.start([self.program, f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                           f"--web.listen-address=127.0.0.1:{self.port}", "--web.enable-remote-write-receiver",
                           "--storage.tsdb.retention.time=100y"], self.ready)  # fmt: skip

    def ready(self):
        with contextlib.suppress(OSError), urllib.request.urlopen(self.url + "/-/ready", timeout=5):
            return True
        return False

    def readings(self, selector, at=None):
        """{(labels, milliseconds, value)} of the last two hours before `at` (seconds); now by default."""
        query = {"query": f"{selector}[2h]", **({"time": at} if at else {})}
        with urllib.request.urlopen(f"{self.url}/api/v1/query?" + urllib.parse.urlencode(query), timeout=20) as answer:
            found = json.load(answer)["data"]["result"]
        return {(frozenset(one["metric"].items()), round(time * 1000), float(number)) for one in found for time, number in one["values"]}


def stored(store, selector, without=()):
    """The stored readings of VictoriaMetrics; null marks the end of a series."""
    return {(frozenset(pair for pair in labels.items() if pair[0] not in without), ms, float(number))
            for labels, points in store.export(selector) for ms, number in points if number is not None}  # fmt: skip


class Forwarding(unittest.TestCase):
    def test_prometheus_to_victoria_metrics(self):
        """Each reading of Prometheus arrives by remote write in and out, with 1.0 and with 2.0 as far as the receiver supports it."""
        port, count, here = free_port(), [1000], [True]

        def page(*_):
            count[0] += 7
            kind = {"Content-Type": "application/openmetrics-text; version=1.0.0; charset=utf-8"}
            return (200, kind, PAGE.format(count=count[0]).encode()) if here[0] else (404, {}, b"")

        with HttpStub(page) as site, VictoriaMetrics() as first, VictoriaMetrics() as second, tempfile.TemporaryDirectory() as state:
            config = (f"state_dir: '{state}'\nreceivers: {{remote_write: {{http: {{listen: '127.0.0.1:{port}'}}}}}}\nsinks:\n"
                      f"  remote_write: {{url: '{first.url}/api/v1/write', protocol: '1.0', sources: [remote_write], mark_received: false}}\n"
                      f"  remote_write/new: {{url: '{second.url}/api/v1/write', sources: [remote_write], in_flight: 4}}\n")  # fmt: skip
            with Agent(config=config) as agent, Prometheus(site.origin + "/metrics", f"http://127.0.0.1:{port}/api/v1/write") as source:
                wait_until(lambda: len(source.readings('done_total{job="pages"}')) >= 10, TIMEOUT, "ten scrapes")
                here[0] = False  # so that its series end
                ended = '{job="pages",__name__!~"up|scrape_.*"}'
                wait_until(lambda: not first.query(ended), TIMEOUT, "the end of the series")
                had = source.readings(ended)
                self.assertGreater(len(had), 50)
                wait_until(lambda: had <= stored(first, ended), TIMEOUT, "every reading at the first")
                self.assertEqual(stored(first, ended), had)
                wait_until(lambda: had <= stored(second, ended, ("gpulens_receiver",)), TIMEOUT, "every reading at the second")
                self.assertEqual(stored(second, ended, ("gpulens_receiver",)), had)
                self.assertEqual(stored(second, '{__name__="depth",gpulens_receiver!="remote_write"}'), set(), "marked as received")
                for sink in ("remote_write", "remote_write/new"):
                    self.assertEqual(value(agent.page(), "gpulens_sink_untranslated_total", sink=sink), 0)

    SERIES, POINTS = 20, 30

    def lines(self):
        for number in range(self.POINTS):
            request = ExportMetricsServiceRequest()
            of = request.resource_metrics.add()
            of.resource.attributes.add(key="service.name").value.string_value = "trainer"
            of.resource.attributes.add(key="service.instance.id").value.string_value = "rank-0"
            gauge = of.scope_metrics.add().metrics.add(name="chain.depth", unit="By").gauge
            for series in range(self.SERIES):
                point = gauge.data_points.add(as_double=number + series / 64, time_unix_nano=(START_MS + 250 * number) * 1_000_000)
                point.attributes.add(key="layer").value.int_value = series
            yield line(request) + "\n"

    def test_collector_to_prometheus_and_victoria_metrics(self):
        """OTLP in, remote write out."""
        port = free_port()
        expected = {(frozenset({"__name__": "chain_depth_bytes", "job": "trainer", "instance": "rank-0", "layer": str(series)}.items()),
                     START_MS + 250 * number, number + series / 64)
                    for number in range(self.POINTS) for series in range(self.SERIES)}  # fmt: skip
        with tempfile.TemporaryDirectory() as folder, VictoriaMetrics() as store, Prometheus() as prometheus:
            path = pathlib.Path(folder, "lines")
            path.write_text("".join(self.lines()))
            config = (f"state_dir: '{folder}'\nreceivers: {{otlp: {{grpc: {{listen: '127.0.0.1:{port}'}}, http: {{listen: []}}}}}}\nsinks:\n"
                      f"  remote_write: {{url: '{prometheus.url}/api/v1/write', sources: [otlp], mark_received: false}}\n"
                      f"  remote_write/store: {{url: '{store.url}/api/v1/write', sources: [otlp], in_flight: 4}}\n")  # fmt: skip
            exporter = f"otlp {{endpoint: '127.0.0.1:{port}', tls: {{insecure: true}}, sending_queue: {{num_consumers: 1}}}}"
            with Agent(config=config), Collector((path, "metrics", exporter)):
                without = ("gpulens_receiver", "k8s_cluster_name")
                wait_until(lambda: expected <= stored(store, '{__name__="chain_depth_bytes"}', without), TIMEOUT, "every point")
                self.assertEqual(stored(store, '{__name__="chain_depth_bytes"}', without), expected)
                end = START_MS / 1000 + self.POINTS
                wait_until(lambda: expected <= prometheus.readings("chain_depth_bytes", end), TIMEOUT, "every point at Prometheus")
                self.assertEqual(prometheus.readings("chain_depth_bytes", end), expected)


if __name__ == "__main__":
    unittest.main()
