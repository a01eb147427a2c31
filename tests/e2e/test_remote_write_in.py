"""Remote write in: Debian's Prometheus and our own sink send, the agent passes on as OTLP, and OpenTelemetry's own classes read it."""
import http.client
import math
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from agent import Agent, free_port, peer, value, wait_until
from http_stub import HttpStub
from otlp_receiver import Receiver, plain

PAGE = """# HELP requests_total All requests.
# TYPE requests_total counter
requests_total{{code="200"}} {count}
# TYPE temperature gauge
temperature 21.5
# TYPE latency_seconds histogram
latency_seconds_bucket{{le="0.1"}} 1
latency_seconds_bucket{{le="+Inf"}} {count}
latency_seconds_sum 4.5
latency_seconds_count {count}
# TYPE go_threads gauge
go_threads 7
"""


class Page(HttpStub):
    """The page that Prometheus scrapes: a counter grows by one each time, until the page is switched off."""

    def __init__(self):
        super().__init__(self._show)
        self.count, self.here = 0, True
        self.at = f"127.0.0.1:{self.port}"

    def _show(self, *_):
        if not self.here:
            return 404, {}, b""
        self.count += 1
        return 200, {"Content-Type": "text/plain; version=0.0.4"}, PAGE.format(count=self.count).encode()


def config(port, url, receiver="", queue="storage: memory"):
    return (f"interval: 100ms\nresource: {{cluster: c1}}\nlimits: {{memory: 2GiB}}\n"
            f"receivers: {{remote_write: {{http: {{listen: '127.0.0.1:{port}'}}{receiver}}}}}\n"
            f"sinks: {{otlp: {{endpoint: '{url}', compression: none, interval: 10m, queue: {{{queue}}}, retry: {{initial: 10ms, max: 50ms}}}}}}\n")  # fmt: skip


def points_named(requests, name):
    """(resource, kind, metric, attributes, point) of each point of a metric that came by remote write."""
    for request in requests:
        for of in request.message.resource_metrics:
            for scope in of.scope_metrics:
                if scope.scope.name != "gpulens.remote_write":
                    continue
                for metric in scope.metrics:
                    if metric.name != name:
                        continue
                    kind = metric.WhichOneof("data")
                    for point in getattr(metric, kind).data_points:
                        yield plain(of.resource.attributes), kind, metric, plain(point.attributes), point


def refusals(agent, code):
    """Number of the receiver's answers with this code; its counters are on the page from the next tick on."""
    return value(agent.page(), "gpulens_receiver_requests_total", receiver="remote_write", signal="metrics", code=str(code)) or 0


class OfPrometheus(unittest.TestCase):
    """Debian's, which sends 1.0, and types apart from samples."""

    def setUp(self):
        self.program = peer("prometheus")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-prometheus-"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def start(self, page, port):
        (self.folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s}\n"
            f"scrape_configs: [{{job_name: pages, static_configs: [{{targets: ['{page.at}']}}]}}]\n"
            f"remote_write: [{{url: 'http://127.0.0.1:{port}/api/v1/write', metadata_config: {{send_interval: 1s}},\n"
            "                queue_config: {min_backoff: 30ms, max_backoff: 200ms, batch_send_deadline: 200ms}}]\n")
        with open(self.folder / "log", "ab") as log:
            server = subprocess.Popen(
                [self.program, f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                 f"--web.listen-address=127.0.0.1:{free_port()}", "--storage.remote.flush-deadline=1s"], stdout=log, stderr=log)

        def stop():
            server.kill()
            server.wait(30)
        self.addCleanup(stop)

    def test_scraped_pages_arrive_as_otlp(self):
        port = free_port()
        with Page() as page, Receiver() as far, Agent(config=config(port, far.url)) as agent:
            self.start(page, port)
            # The first samples may come before their types.
            far.wait(lambda found: sum(kind == "sum" for _, kind, *_ in points_named(found, "requests_total")) >= 3, "a counter that is one", 60)
            page.here = False
            far.wait(lambda found: any(point.flags == 1 for *_, point in points_named(found, "requests_total")), "the end of the series", 60)
            sums = [one for one in points_named(far.requests, "requests_total") if one[1] == "sum"]
            for resource, _, metric, attributes, point in sums:
                self.assertEqual((resource["service.name"], resource["service.instance.id"]), ("pages", page.at))
                self.assertEqual(resource["k8s.cluster.name"], "c1")
                self.assertEqual(attributes, {"code": "200"})
                self.assertTrue(metric.sum.is_monotonic)
                self.assertEqual(metric.description, "All requests.")
                self.assertEqual(plain(metric.metadata)["prometheus.type"], "counter")
            values = [point.as_double for *_, point in points_named(far.requests, "requests_total") if point.flags == 0]
            self.assertEqual(values, sorted(set(values)), "each once, in order")
            self.assertTrue(set(range(1, int(max(values)) + 1)).issubset(values), "none is missing")
            self.assertEqual({(kind, point.as_double) for _, kind, _, _, point in points_named(far.requests, "temperature") if not point.flags},
                             {("gauge", 21.5)})
            bounds = {attributes["le"]: kind for _, kind, _, attributes, _ in points_named(far.requests, "latency_seconds_bucket")}
            self.assertEqual(bounds, {"0.1": "sum", "+Inf": "sum"})
            self.assertFalse(list(points_named(far.requests, "go_threads")), "noise is dropped here, too")
            page_text = agent.page()
            self.assertEqual(value(page_text, "gpulens_receiver_points_total", receiver="remote_write", signal="metrics", result="rejected"), 0)
            self.assertGreater(value(page_text, "gpulens_receiver_points_total", receiver="remote_write", signal="metrics", result="filtered"), 0)

    def test_back_pressure_loses_nothing(self):
        """The far end is away until the queue is full: Prometheus keeps refused requests for a retry."""
        port, far_port = free_port(), free_port()
        small = config(port, f"http://127.0.0.1:{far_port}", ", busy_status: 503", "max_bytes: 8MiB")
        with Page() as page, Agent(config=small) as agent:
            # Another sender fills the queue with what cannot be packed.
            self.start(page, port)
            wait_until(lambda: page.count >= 2, what="a scrape")
            filled = fill(port)
            self.assertGreater(filled, 0)
            wait_until(lambda: refusals(agent, 503) >= 3, 60, "refusals")
            before = page.count
            wait_until(lambda: page.count >= before + 3, what="scrapes meanwhile")
            with Receiver(port=far_port) as far:
                def whole(found):
                    values = {point.as_double for *_, point in points_named(found, "requests_total") if not point.flags}
                    return max(values, default=0) >= before + 3 and set(range(1, before + 4)).issubset(values)
                far.wait(whole, "all that was scraped", 60)
                far.wait(lambda found: len({attributes["n"] for _, _, _, attributes, _ in points_named(found, "filler")}) == filled, "the filler")


def block(data):
    """Snappy without a saving: literals alone."""
    out, rest = bytearray(), len(data)
    while rest >= 128:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    for at in range(0, len(data), 60_000):
        piece = data[at:at + 60_000]
        out += bytes([61 << 2]) + (len(piece) - 1).to_bytes(2, "little") + piece
    return bytes(out)


def field(number, data):
    size, out = len(data), bytearray([number << 3 | 2])
    while size >= 128:
        out.append(size & 127 | 128)
        size >>= 7
    return bytes(out) + bytes([size]) + data


def series(labels, parts=b"\x12\x10\x09" + b"\0" * 8 + b"\x10\x80\xa0\x94\xa5\x8d\x06"):
    """A request of 1.0 with one sample of value 0."""
    pairs = b"".join(field(1, field(1, name.encode()) + field(2, text.encode())) for name, text in sorted(labels.items()))
    return field(1, pairs + parts)


def post(port, body, content_type="application/x-protobuf", encoding="snappy"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("POST", "/api/v1/write", body, {"Content-Type": content_type, "Content-Encoding": encoding})
    answer = connection.getresponse()
    answer.text = answer.read()
    connection.close()
    return answer


def fill(port):
    """Sends until there is no room for even a small request; how many were taken."""
    taken = 0
    for size in (150_000, 10_000, 500, 1):
        for _ in range(1000):
            answer = post(port, block(series({"__name__": "filler", "n": str(taken), "text": "x" * size})))
            if answer.status != 204:
                assert answer.status in (429, 503) and answer.getheader("Retry-After") == "1", (answer.status, answer.text)
                break
            taken += 1
        else:
            raise AssertionError("there is always room")
    return taken


class Answers(unittest.TestCase):
    def test_status_headers_and_reasons(self):
        port = free_port()
        good, bad = series({"__name__": "good"}), series({"nameless": "x"})
        with Receiver() as far, Agent(config=config(port, far.url, ", max_request: 1MiB, busy_status: 429")) as agent:
            for status, body, more in [
                (204, block(good), {}),
                (400, block(good + bad), {}),
                (400, block(good)[:-3], {}),
                (400, b"\xff" * 30, {}),
                (413, block(b"\0" * (1 << 20) + b"\0"), {}),
                (413, b"\xff\xff\xff\xff\x0f" + b"\0" * 10, {}),
                (415, block(good), {"encoding": "gzip"}),
                (415, block(good), {"content_type": "text/plain"}),
                (415, block(good), {"content_type": "application/x-protobuf;proto=io.prometheus.write.v3.Request"}),
            ]:
                with self.subTest(status=status, bytes=len(body)):
                    answer = post(port, body, **more)
                    self.assertEqual(answer.status, status, answer.text)
            partial = post(port, block(good + bad))
            self.assertEqual(partial.text.decode(), "1 of 2 samples were not written: a series has no __name__ (1)\n")
            self.assertEqual([partial.getheader(f"X-Prometheus-Remote-Write-{kind}-Written") for kind in ("Samples", "Histograms", "Exemplars")],
                             ["1", "0", "0"])
            far.wait(lambda found: len(list(points_named(found, "good"))) == 3, "the good ones")
            wait_until(lambda: value(agent.page(), "gpulens_receiver_points_total", receiver="remote_write", signal="metrics",
                                     result="rejected") == 2, what="two that are counted")  # fmt: skip

    def test_429_where_it_is_configured(self):
        port = free_port()
        with Agent(config=config(port, f"http://127.0.0.1:{free_port()}", ", busy_status: 429", "max_bytes: 8MiB")):
            fill(port)
            self.assertEqual(post(port, block(series({"__name__": "filler", "text": "x" * 150_000}))).status, 429)


class OfOurSink(unittest.TestCase):
    def test_both_versions_and_an_outage(self):
        """One agent sends to another: its counters and gauges arrive, none is missing after back-pressure."""
        for version, busy in (("1.0", 429), ("2.0", 503)):
            with self.subTest(version):
                port, far_port = free_port(), free_port()
                middle = config(port, f"http://127.0.0.1:{far_port}", f", busy_status: {busy}", "max_bytes: 8MiB")
                sender = ("interval: 200ms\nsinks: {remote_write: "
                          f"{{url: 'http://127.0.0.1:{port}/api/v1/write', protocol: '{version}', interval: 200ms, "
                          "queue: {storage: memory}, retry: {initial: 50ms, max: 200ms}}}\n")  # fmt: skip
                with Agent(config=middle) as agent:
                    fill(port)
                    with Agent("--demo", config=sender) as first:
                        wait_until(lambda: refusals(agent, busy) >= 3, 40, "refusals")
                        waiting = lambda: value(first.page(), "gpulens_sink_queue_length", sink="remote_write", queue="delivery") or 0
                        wait_until(lambda: waiting() >= 4, 40, "a queue")
                        with Receiver(port=far_port) as far:
                            wait_until(lambda: waiting() == 0, 60, "an empty queue")
                            name = "gpu_energy_consumption_joules_total"
                            far.wait(lambda found: len(list(points_named(found, name))) >= 80, "ten ticks of eight GPUs", 60)
                            points = list(points_named(far.requests, name))
                            self.assertEqual({(resource["service.name"], kind) for resource, kind, *_ in points} - {("gpulens", "gauge")},
                                             {("gpulens", "sum")})
                            if version == "2.0":
                                self.assertEqual({metric.unit for _, _, metric, _, _ in points}, {"J"})
                                seconds = list(points_named(far.requests, "system_cpu_time_seconds_total"))
                                self.assertEqual({metric.unit for _, _, metric, _, _ in seconds}, {"s"})
                                self.assertTrue(all(0 < point.start_time_unix_nano <= point.time_unix_nano for *_, point in seconds))
                            of_one = [(point.time_unix_nano, point.as_double) for _, _, _, attributes, point in points
                                      if attributes["gpu_index"] == "0"]  # fmt: skip
                            self.assertEqual(of_one, sorted(of_one))
                            self.assertEqual(len(of_one), len(dict(of_one)), "none twice")
                            self.assertFalse(any(math.isnan(v) for _, v in of_one))
                            page = first.page()
                            for family, more in (("gpulens_sink_dropped_total", {"queue": "delivery", "reason": "queue_full"}),
                                                 ("gpulens_sink_rejected_total", {})):  # fmt: skip
                                self.assertIn(value(page, family, sink="remote_write", **more), (None, 0), family)


class Loop(unittest.TestCase):
    def test_our_own_receiver_is_no_place_to_send_to(self):
        from agent import BINARY
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write("receivers: {remote_write: {}}\nsinks: {otlp: {endpoint: 'http://127.0.0.1:1'}, remote_write: {url: 'http://127.0.0.1:9095/api/v1/write'}}\n"
                       f"http: {{listen: '127.0.0.1:{free_port()}'}}\nwebsocket: {{listen: []}}\n")
            file.flush()
            done = subprocess.run([BINARY, "agent", "--config", file.name], capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("is this agent's own receiver", done.stderr)


if __name__ == "__main__":
    unittest.main()
