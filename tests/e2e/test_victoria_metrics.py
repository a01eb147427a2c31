"""VictoriaMetrics as the store: remote write in both versions and OTLP, read back by its own query language."""
import pathlib
import tempfile
import time
import unittest

from agent import Agent, free_port, samples, value, wait_until
from go_peers import TIMEOUT, Collector, VictoriaMetrics
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from otlp_samples import line
from test_otlp_encodings import openmetrics

PAGE = """# TYPE done counter
# HELP done What is done
done_total{{kind="a b",text="ä\\"\\\\€"}} {count}
# TYPE depth gauge
depth -4.25
depth{{which="much"}} 1e300
# TYPE wait_seconds histogram
wait_seconds_bucket{{le="0.1"}} 3
wait_seconds_bucket{{le="1.0"}} 5
wait_seconds_bucket{{le="+Inf"}} 6
wait_seconds_sum 9.5
wait_seconds_count 6
# EOF
"""


class Storing(unittest.TestCase):
    def store(self, sink, checks):
        """Runs an agent with this sink, calls checks(store, agent), and looks at what is left when the agent has ended."""
        count = [1000]

        def page():
            count[0] += 7
            return "".join(line + "\n" for line in PAGE.format(count=count[0]).splitlines() if len(count) == 1 or "much" not in line)

        with VictoriaMetrics() as store, openmetrics(page) as address:
            config = (f"interval: 200ms\nresource: {{cluster: c1}}\ntargets: [{{name: p, kind: prometheus, url: '{address}', "
                      f"interval: 400ms}}]\nsinks: {{{sink.format(url=store.url)}}}\n")  # fmt: skip
            with Agent("--demo", config=config) as agent:
                wait_until(lambda: len(store.query("gpu_power_draw_watts or {__name__='gpu.power.draw'}")) == 8, TIMEOUT, "eight GPUs")
                done = lambda: store.query("count_over_time({__name__=~'done_total'}[1h])")  # noqa: E731
                wait_until(lambda: any(number >= 5 for number in done().values()), TIMEOUT, "five readings")
                checks(store, agent)
                # A series that ends is not shown for the five minutes for which it would be without a mark of its end.
                count.append("without the second depth")
                wait_until(lambda: not store.query("depth{which='much'}"), TIMEOUT, "the end of one series")
                self.assertTrue(store.query("depth{which=''}"))
                name = sink.partition(":")[0]
                wait_until(lambda: value(agent.page(), "gpulens_sink_up", sink=name) == 1)
                page = agent.page()
                for reason in ("queue_full", "refused", "too_large"):
                    self.assertEqual(value(page, "gpulens_sink_dropped_total", sink=name, queue="delivery", reason=reason), 0)
                self.assertEqual(sum(s.value for s in samples(page, "gpulens_sink_rejected_total", sink=name)), 0)
            if name == "remote_write":
                wait_until(lambda: not store.query("{__name__=~'.+'}"), TIMEOUT, "the end of every series, with the agent's")
            self.check_samples(store, count[0])

    def check_samples(self, store, last):
        self.assertTrue(store.export("{__name__=~'gpu.power.draw.*'}"), "sent samples stay")
        for labels, points in store.export("{__name__!=''}"):
            times = [time for time, _ in points]
            self.assertEqual(times, sorted(set(times)), f"{labels}: twice at the same time")
        ((_, points),) = store.export("{__name__='done_total'}")
        values = [number for _, number in points if number is not None]
        self.assertTrue(all(1000 < number <= last and (number - 1000) % 7 == 0 for number in values), values)
        self.assertEqual(values, sorted(set(values)), "each reading once, in order")

    def labels_of(self, found):
        """The one series of an answer as ({label: value}, number)."""
        self.assertEqual(len(found), 1, found)
        ((labels, number),) = found.items()
        return dict(labels), number

    def check_remote_write(self, store, agent):
        labels, number = self.labels_of(store.query("depth{which=''}"))
        self.assertEqual(number, -4.25)
        self.assertEqual((labels["job"], labels["target"] if "target" in labels else "p"), ("gpulens", "p"))
        self.assertIn("instance", labels)
        self.assertEqual(self.labels_of(store.query("depth{which='much'}"))[1], 1e300)
        self.assertEqual(self.labels_of(store.query("done_total"))[0]["text"], 'ä"\\€')
        buckets = {dict(labels)["le"]: number for labels, number in store.query("wait_seconds_bucket").items()}
        self.assertEqual({float(le): number for le, number in buckets.items()}, {0.1: 3, 1: 5, float("inf"): 6})
        self.assertEqual(list(store.query("wait_seconds_sum").values()), [9.5])
        self.assertAlmostEqual(list(store.query("histogram_quantile(0.5, wait_seconds_bucket)").values())[0], 0.1)
        # Every label of our own page is there with its value.
        ours = {sample.labels["gpu_uuid"]: sample.labels for sample in samples(agent.page(), "gpu_power_draw_watts")}
        theirs = {dict(labels)["gpu_uuid"]: dict(labels) for labels in store.query("gpu_power_draw_watts")}
        self.assertEqual(set(ours), set(theirs))
        for uuid, labels in ours.items():
            self.assertLessEqual(labels.items(), theirs[uuid].items())

    def check_otlp(self, store, agent):
        """VictoriaMetrics keeps OTLP's names as they are."""
        labels, number = self.labels_of(store.query("depth{which=''}"))
        self.assertEqual((number, labels["service.name"], labels["k8s.cluster.name"]), (-4.25, "gpulens", "c1"))
        self.assertEqual(self.labels_of(store.query("done_total"))[0]["text"], 'ä"\\€')
        self.assertEqual(list(store.query("wait_seconds_count").values()), [6])
        self.assertEqual(list(store.query("wait_seconds_sum").values()), [9.5])
        ours = {sample.labels["gpu_uuid"] for sample in samples(agent.page(), "gpu_power_draw_watts")}
        theirs = {dict(labels)["gpu.uuid"] for labels in store.query("{__name__='gpu.power.draw'}")}
        self.assertEqual(ours, theirs)

    def test_remote_write_1(self):
        self.store("remote_write: {{url: '{url}/api/v1/write', protocol: '1.0', interval: 400ms, stale_at_end: true}}", self.check_remote_write)

    def test_remote_write_of_the_version_that_it_understands(self):
        self.store("remote_write: {{url: '{url}/api/v1/write', interval: 400ms, stale_at_end: true}}", self.check_remote_write)

    def test_otlp(self):
        self.store("otlp: {{endpoint: '{url}/opentelemetry', events: false, interval: 400ms, queue: {{storage: memory}}}}", self.check_otlp)


class Chain(unittest.TestCase):
    """Collector → gpulens → VictoriaMetrics, as a machine's agent between a program's Collector and the store."""

    REQUESTS, POINTS = 20, 50

    def lines(self):
        for number in range(self.REQUESTS):
            request = ExportMetricsServiceRequest()
            of = request.resource_metrics.add()
            of.resource.attributes.add(key="service.name").value.string_value = "trainer"
            gauge = of.scope_metrics.add().metrics.add(name="chain.step", unit="1").gauge
            for index in range(self.POINTS):
                point = gauge.data_points.add(as_int=1000 * number + index, time_unix_nano=time.time_ns())
                point.attributes.add(key="request").value.int_value = number
                point.attributes.add(key="index").value.int_value = index
            yield line(request) + "\n"

    def test_every_point_arrives_once(self):
        port = free_port()
        with tempfile.TemporaryDirectory() as folder, VictoriaMetrics() as store:
            path = pathlib.Path(folder, "lines")
            path.write_text("".join(self.lines()))
            config = (f"resource: {{cluster: c1}}\nreceivers: {{otlp: {{grpc: {{listen: '127.0.0.1:{port}'}}, http: {{listen: []}}}}}}\n"
                      f"sinks: {{otlp: {{endpoint: '{store.url}/opentelemetry', events: false, queue: {{storage: memory}}}}}}\n")  # fmt: skip
            exporter = f"otlp {{endpoint: '127.0.0.1:{port}', tls: {{insecure: true}}}}"
            with Agent(config=config), Collector((path, "metrics", exporter)):
                name = "{__name__='chain.step'}"
                wait_until(lambda: sum(store.query(f"count({name})").values()) >= self.REQUESTS * self.POINTS, TIMEOUT, "every point")
                found = store.query(name)
            self.assertEqual(len(found), self.REQUESTS * self.POINTS)
            for labels, number in found.items():
                labels = dict(labels)
                self.assertEqual(number, 1000 * int(labels["request"]) + int(labels["index"]))
                self.assertEqual((labels["service.name"], labels["k8s.cluster.name"]), ("trainer", "c1"))
            self.assertEqual({len(points) for _, points in store.export(name)}, {1}, "and none of them twice")


if __name__ == "__main__":
    unittest.main()
