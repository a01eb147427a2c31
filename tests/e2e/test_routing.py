"""Which part of its data a sink sends, and where to: conditions on attributes, tenants, signals, sources, several endpoints."""
import tempfile
import unittest

import otlp_receiver
import remote_write_receiver
import test_otlp_in
import test_remote_write_in
from agent import Agent, free_port, value, wait_until

TEAMS = ("red", "blue", "a b\r\nEvil: 1")


def agent(sinks, otlp_port, write_port=None):
    writes = f"  remote_write: {{http: {{listen: '127.0.0.1:{write_port}'}}}}\n" if write_port else ""
    return Agent(config=f"interval: 100ms\nlimits: {{memory: 2GiB}}\nreceivers:\n  otlp: {{http: {{listen: '127.0.0.1:{otlp_port}'}}, grpc: {{listen: []}}}}\n"
                        + writes + "sinks:\n" + "".join(f"  {sink}\n" for sink in sinks))  # fmt: skip


def post(port, name, team, number=0, resource=()):
    body = test_otlp_in.gauge(name, 1, {"team": team, "number": str(number)}, resource).SerializeToString()
    answer = test_otlp_in.post(port, "/v1/metrics", body)
    assert answer.status == 200, (answer.status, answer.text)


def of_otlp(receiver, name):
    """(tenant, attributes) of each point."""
    return [(request.headers.get("X-Scope-OrgID"), attributes) for request in receiver.requests for attributes, _ in request.points(name)]


def of_remote_write(receiver, name):
    return [(request.headers.get("X-Scope-OrgID"), sample.labels) for request in receiver.requests for sample in request.samples if sample.name == name]


class Routing(unittest.TestCase):
    def test_tenants_and_conditions(self):
        otlp_port, write_port = free_port(), free_port()
        with otlp_receiver.Receiver() as all_, otlp_receiver.Receiver() as red, remote_write_receiver.Receiver() as writes, agent([
            f"otlp: {{endpoint: '{all_.url}', interval: 10m, sources: [otlp, remote_write], tenant: {{from: team, fallback: shared}}}}",
            f"otlp/red: {{endpoint: '{red.url}', interval: 10m, sources: [otlp], where: [{{attribute: team, values: [r*]}}]}}",
            f"remote_write: {{url: '{writes.url}', interval: 10m, sources: [otlp, remote_write], tenant: {{from: team}}, where: [{{attribute: team, values: [blue], exclude: true}}]}}",
        ], otlp_port, write_port) as running:  # fmt: skip
            for number, team in enumerate(TEAMS):
                post(otlp_port, "routed", team, number)
            body = test_remote_write_in.series({"__name__": "routed", "team": "green", "number": "9"})
            self.assertEqual(test_remote_write_in.post(write_port, test_remote_write_in.block(body)).status, 204)
            wait_until(lambda: len(of_otlp(all_, "routed")) == 4, 20, "all")
            self.assertEqual({(tenant, point["team"]) for tenant, point in of_otlp(all_, "routed")},
                             {("red", "red"), ("blue", "blue"), ("shared", TEAMS[2]), ("green", "green")})  # fmt: skip
            wait_until(lambda: of_otlp(red, "routed"), 20, "the red one")
            self.assertEqual([(tenant, point["team"]) for tenant, point in of_otlp(red, "routed")], [(None, "red")])
            wait_until(lambda: len(of_remote_write(writes, "routed")) == 3, 20, "by remote write")
            self.assertEqual({(tenant, labels["team"]) for tenant, labels in of_remote_write(writes, "routed")},
                             {("red", "red"), (None, TEAMS[2]), ("green", "green")})  # fmt: skip
            self.assertEqual({labels["gpulens_receiver"] for _, labels in of_remote_write(writes, "routed")}, {"otlp", "remote_write"})
            wait_until(lambda: value(running.page(), "gpulens_sink_filtered_total", sink="otlp/red") == 3, 20, "its count")
            self.assertEqual(value(running.page(), "gpulens_sink_filtered_total", sink="remote_write"), 1)

    def test_signals_that_no_sink_sends_are_refused(self):
        port = free_port()
        with otlp_receiver.Receiver() as far, agent([f"otlp: {{endpoint: '{far.url}', interval: 10m, signals: [metrics]}}"], port):
            post(port, "routed", "red")
            answer = test_otlp_in.post(port, "/v1/logs", b"\x0a\x0a\x12\x08\x12\x06\x2a\x04\x0a\x02hi")
            self.assertEqual(answer.status, 400)
            self.assertIn(b"no sink sends logs", answer.text)

    def test_another_endpoint_takes_over(self):
        port, dead = free_port(), free_port()
        with otlp_receiver.Receiver() as far, agent([
            f"otlp: {{endpoints: ['http://127.0.0.1:{dead}', '{far.url}'], interval: 10m, retry: {{initial: 10ms, max: 50ms}}}}",
        ], port):  # fmt: skip
            for number in range(5):
                post(port, "routed", "red", number)
            wait_until(lambda: len(of_otlp(far, "routed")) == 5, 20, "all at the second")
            self.assertEqual([point["number"] for _, point in of_otlp(far, "routed")], list("01234"))

    def test_each_resource_has_its_endpoint(self):
        port = free_port()
        with otlp_receiver.Receiver() as first, otlp_receiver.Receiver() as second, agent([
            f"otlp: {{endpoints: ['{first.url}', '{second.url}'], balance: hash, in_flight: 4, interval: 10m, sources: [otlp]}}",
        ], port):  # fmt: skip
            for number in range(3):
                for node in range(20):
                    post(port, "routed", "red", number, {"service.instance.id": f"node-{node}"})
            wait_until(lambda: len(of_otlp(first, "routed")) + len(of_otlp(second, "routed")) == 60, 20, "all")
            nodes = [{}, {}]
            for at, receiver in enumerate((first, second)):
                for request in receiver.requests:
                    for of in request.message.resource_metrics:
                        node = next(pair.value.string_value for pair in of.resource.attributes if pair.key == "service.instance.id")
                        for scope in of.scope_metrics:
                            for metric in scope.metrics:
                                for point in metric.gauge.data_points:
                                    nodes[at].setdefault(node, []).append(next(p.value.string_value for p in point.attributes if p.key == "number"))
            self.assertFalse(nodes[0].keys() & nodes[1].keys())
            self.assertTrue(nodes[0] and nodes[1], "both have some")
            for numbers in (*nodes[0].values(), *nodes[1].values()):
                self.assertEqual(numbers, list("012"), "in order")

    def test_a_folder_of_ones_own_is_not_shared(self):
        with tempfile.TemporaryDirectory() as folder:
            sink = f"{{endpoint: 'http://127.0.0.1:{free_port()}', queue: {{dir: '{folder}/queue'}}}}"
            running = agent([f"otlp: {sink}", f"otlp/b: {sink}"], free_port())
            with self.assertRaisesRegex(AssertionError, "sinks.otlp/b.queue.dir: sinks.otlp has this folder"):
                running.__enter__()

    def test_configured_statuses_are_sent_again(self):
        port = free_port()
        with otlp_receiver.Receiver(lambda _, number: (500 if number < 3 else 200, {})) as far, agent([
            f"otlp: {{endpoint: '{far.url}', interval: 10m, sources: [otlp], retry: {{initial: 10ms, max: 50ms, statuses: [408, 500]}}}}",
        ], port) as running:  # fmt: skip
            post(port, "routed", "red")
            wait_until(lambda: of_otlp(far, "routed"), 20, "after three answers of 500")
            wait_until(lambda: value(running.page(), "gpulens_sink_retries_total", sink="otlp") == 3, 20, "its count")
            self.assertEqual(value(running.page(), "gpulens_sink_dropped_total", sink="otlp", queue="delivery", reason="refused"), 0)


if __name__ == "__main__":
    unittest.main()
