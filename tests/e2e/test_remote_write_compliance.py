"""The cases of Prometheus' compliance test for senders of remote write, for 1.0 and 2.0: what a scraped page becomes."""
import contextlib
import functools
import json
import math
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request

from agent import Agent, free_port, peer, value, wait_until
from http_stub import HttpStub
from remote_write_receiver import FIRST, SECOND, Receiver

TEXT = "text/plain; version=0.0.4"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
VERSIONS = {"1.0": FIRST, "2.0": SECOND}


class Page:
    """A target whose page can change, fail or count its scrapes. In a with statement."""

    def __init__(self, text="", kind=TEXT):
        self.text, self.kind, self.status, self.scrapes = text, kind, 200, 0
        self.lock = threading.Lock()
        self.stub = HttpStub(self.answer)

    def answer(self, *_):
        with self.lock:
            self.scrapes += 1
            text = self.text.replace("SCRAPES", str(self.scrapes))
            return self.status, {"Content-Type": self.kind}, text.encode()

    def __enter__(self):
        self.stub.__enter__()
        return self

    def __exit__(self, *arguments):
        self.stub.__exit__(*arguments)

    @property
    def address(self):
        return f"127.0.0.1:{self.stub.port}"


@contextlib.contextmanager
def sending(page, receiver, version="1.0", interval="200ms", sink="", target="", tick="100ms"):
    """An agent that scrapes the page as job `test` and sends it to the receiver."""
    config = (f"interval: {tick}\ntargets:\n"
              f"  - {{name: t, kind: prometheus, url: 'http://{page.address}/metrics', interval: {interval}, "
              f"attributes: {{job: test, instance: '{page.address}'}}{target}}}\n"
              f"sinks: {{remote_write: {{url: '{receiver.url}', protocol: '{version}', interval: {interval}, "
              f"retry: {{initial: 50ms, max: 100ms}}{sink}}}}}\n")  # fmt: skip
    with Agent(config=config) as agent:
        yield agent


def each_version(test):
    """Runs a test for each version of remote write."""
    @functools.wraps(test)
    def run(self):
        for version in VERSIONS:
            with self.subTest(version):
                test(self, version)
    return run


class Compliance(unittest.TestCase):
    def wait_for(self, receiver, name, count=1, keep=lambda sample: True):
        return wait_until(lambda: (found := [s for s in receiver.samples(name) if keep(s)]) and len(found) >= count and found,
                          what=f"{count} samples of {name}")

    @each_version
    def test_counter_gauge_and_summary(self, version):
        text = ("# TYPE c counter\nc_total SCRAPES\n# TYPE g gauge\ng -1.5\n# TYPE s summary\n"
                's{quantile="0.5"} 1\ns{quantile="1"} 2\ns_sum 3\ns_count 4\n')
        with Page(text) as page, Receiver() as receiver, sending(page, receiver, version):
            counted = self.wait_for(receiver, "c_total", 3)
            self.assertEqual([s.value for s in counted[:3]], [1, 2, 3], "every scrape is sent")
            self.assertEqual(self.wait_for(receiver, "g")[0].value, -1.5)
            quantiles = {s.labels["quantile"]: s.value for s in self.wait_for(receiver, "s", 2)}
            self.assertEqual(quantiles, {"0.5": 1, "1": 2})
            self.assertEqual(self.wait_for(receiver, "s_sum")[0].value, 3)
            self.assertEqual(self.wait_for(receiver, "s_count")[0].value, 4)

    @each_version
    def test_histogram(self, version):
        text = ('# TYPE h histogram\nh_bucket{le="0.005"} 0\nh_bucket{le="1"} 1\nh_bucket{le="+Inf"} 2\nh_sum 4\nh_count 2\n')
        with Page(text) as page, Receiver() as receiver, sending(page, receiver, version):
            buckets = {s.labels["le"]: s.value for s in self.wait_for(receiver, "h_bucket", 3)}
            self.assertEqual(buckets, {"0.005": 0, "1": 1, "+Inf": 2}, "bounds as they came")
            self.assertEqual(self.wait_for(receiver, "h_sum")[0].value, 4)

    @each_version
    def test_exemplars(self, version):
        stamp = time.time() - 2
        text = (f'# TYPE c counter\nc_total 5 # {{trace_id="ab",span_id="cd"}} 0.5 {stamp:.3f}\n'
                '# TYPE h histogram\nh_bucket{le="1.0"} 1 # {trace_id="ef"} 0.25\nh_bucket{le="+Inf"} 1\nh_count 1\n# EOF\n')
        with Page(text, OPEN_METRICS) as page, Receiver() as receiver, sending(page, receiver, version):
            self.wait_for(receiver, "c_total", 4)
            sent = [e for s in receiver.samples("c_total") for e in s.exemplars]
            self.assertEqual([(e.labels, e.value) for e in sent], [({"trace_id": "ab", "span_id": "cd"}, 0.5)], "once")
            self.assertLess(abs(sent[0].ms - stamp * 1000), 2)
            buckets = [s for s in self.wait_for(receiver, "h_bucket", 8) if s.exemplars]
            self.assertEqual([(s.labels["le"], s.exemplars[0].labels) for s in buckets], [("1.0", {"trace_id": "ef"})])
            self.assertEqual(buckets[0].exemplars[0].ms, buckets[0].ms, "it has no time of its own")

    @each_version
    def test_up_and_a_target_that_fails(self, version):
        with Page("g 1\n") as page, Receiver() as receiver, sending(page, receiver, version):
            self.wait_for(receiver, "g", 2)
            up = self.wait_for(receiver, "up")[0]
            labels = {"__name__": "up", "job": "test", "instance": page.address, "target": "t"}
            self.assertEqual((up.value, up.labels), (1, labels))
            self.assertIn(up.ms, [s.ms for s in receiver.samples("g")], "it has the time of its scrape")
            self.assertEqual(self.wait_for(receiver, "scrape_samples_scraped")[0].value, 1)
            self.assertLess(self.wait_for(receiver, "scrape_duration_seconds")[0].value, 5)
            with page.lock:
                page.status = 500
            down = self.wait_for(receiver, "up", keep=lambda s: s.value == 0)[0]
            ended = self.wait_for(receiver, "g", keep=lambda s: s.ended)[0]
            self.assertEqual(ended.ms, down.ms, "its series end with the failed scrape")
            self.wait_for(receiver, "up", 3, keep=lambda s: s.ms > down.ms)
            self.assertEqual(len([s for s in receiver.samples("g") if s.ended]), 1)
            with page.lock:
                page.status = 200
            self.wait_for(receiver, "g", keep=lambda s: s.ms > ended.ms and not s.ended)

    @each_version
    def test_invalid(self, version):
        """After a failed scrape `up` is 0, and there are no other series."""
        with Page("<html>not a page {{{") as page, Receiver() as receiver, sending(page, receiver, version):
            self.wait_for(receiver, "up", 2)
            self.assertEqual({s.value for s in receiver.samples("up")}, {0})
            page.text, page.kind = '{"json": 1}', "application/json"
            before = len(receiver.samples("up"))
            self.wait_for(receiver, "up", before + 3)
            self.assertEqual({s.value for s in receiver.samples("up")}, {0})

    @each_version
    def test_a_target_that_is_not_there(self, version):
        with Page("g 1\n") as page:
            pass  # its port is closed
        with Receiver() as receiver, sending(page, receiver, version):
            self.wait_for(receiver, "up", 2)
            self.assertEqual({s.value for s in receiver.samples("up")}, {0})
            self.assertEqual(receiver.samples("g"), [])

    @each_version
    def test_labels(self, version):
        """JobLabel, InstanceLabel, NameLabel, SortedLabels, RepeatedLabels, EmptyLabels, HonorLabels; the receiver checks each request."""
        text = ('g{z="1",a="2",m="",__weird="3"} 1\nh{a="1",a="2"} 1\n'
                'owned{job="own",instance="mine"} 1\nlast 1\n')
        with Page(text) as page, Receiver() as receiver, sending(page, receiver, version):
            self.wait_for(receiver, "last")
            plain = receiver.samples("g")[0].labels
            base = {"job": "test", "instance": page.address, "target": "t"}
            self.assertEqual(plain, {"__name__": "g", "z": "1", "a": "2", "__weird": "3", **base}, "no empty label")
            self.assertEqual(receiver.samples("h"), [], "a label twice is no line of a page")
            owned = {"__name__": "owned", "exported_job": "own", "exported_instance": "mine", **base}
            self.assertEqual(receiver.samples("owned")[0].labels, owned)

    @each_version
    def test_timestamps(self, version):
        stamp = int(time.time() * 1000) - 5000
        with Page(f"dated 1 {stamp}\nplain 1\n") as page, Receiver() as receiver, sending(page, receiver, version):
            before = time.time() * 1000
            self.assertEqual(self.wait_for(receiver, "dated")[0].ms, stamp, "the time of the page")
            plain = self.wait_for(receiver, "plain", 4)
            self.assertEqual(len(receiver.samples("dated")), 1, "one reading is sent once")
            self.assertLess(abs(plain[0].ms - before), 20e3)

    @each_version
    def test_ordering(self, version):
        text = "".join(f'g{{i="{i}"}} SCRAPES\n' for i in range(300))
        with Page(text) as page, Receiver() as receiver, sending(page, receiver, version, sink=", max_samples: 50"):
            self.wait_for(receiver, "g", 1500)
            last = {}
            for request in list(receiver.requests):
                for sample in request.samples:
                    key = tuple(sorted(sample.labels.items()))
                    self.assertGreater(sample.ms, last.get(key, 0), key)
                    last[key] = sample.ms

    @each_version
    def test_headers(self, version):
        with Page("g 1\n") as page, Receiver() as receiver, sending(page, receiver, version):
            self.wait_for(receiver, "g")
            for request in list(receiver.requests):
                self.assertEqual(request.headers["Content-Type"], VERSIONS[version])
                self.assertEqual(request.headers["Content-Encoding"], "snappy")
                self.assertEqual(request.headers["X-Prometheus-Remote-Write-Version"], {"1.0": "0.1.0", "2.0": "2.0.0"}[version])
                self.assertRegex(request.headers["User-Agent"], r"^gpulens/[^ ]+$")

    @each_version
    def test_retries(self, version):
        """Every 5xx and 429 is tried again with the same samples; another 4xx is not."""
        for status, again in ((500, True), (503, True), (429, True), (400, False), (404, False)):
            with self.subTest(status):
                self.retries(version, status, again)

    def retries(self, version, status, again):
        refused = []

        def answer(request, number):
            if any(s.name == "c_total" for s in request.samples) and len(refused) < 1:
                refused.append(request)
                return status, {}
            return Receiver.good(request, number)

        with Page("# TYPE c counter\nc_total SCRAPES\n") as page, Receiver(answer) as receiver:
            with sending(page, receiver, version):
                wait_until(lambda: refused)
                first = next(s.value for s in refused[0].samples if s.name == "c_total")
                self.wait_for(receiver, "c_total", 3)
                times = [s.value for s in receiver.samples("c_total")].count(first)
                self.assertEqual(times, 2 if again else 1)

    @each_version
    def test_staleness(self, version):
        """A series that leaves its page ends; one that stays does not, and nothing ends with the agent."""
        with Page("# TYPE g gauge\ng 1\nstays 2\n") as page, Receiver() as receiver:
            with sending(page, receiver, version):
                self.wait_for(receiver, "g", 2)
                with page.lock:
                    page.text = "stays 2\n"
                ended = self.wait_for(receiver, "g", keep=lambda s: s.ended)
                self.assertTrue(math.isnan(ended[0].value))
                self.wait_for(receiver, "stays", len(receiver.samples("stays")) + 2)
            self.assertEqual(len([s for s in receiver.samples("g") if s.ended]), 1, "once")
            self.assertFalse(any(s.ended for s in receiver.samples("stays")))

    def test_a_replaced_sink_ends_nothing(self):
        with Page("g 1\n") as page, Receiver() as receiver:
            with sending(page, receiver, "1.0", sink=", stale_at_end: true") as agent:
                self.wait_for(receiver, "g", 2)
                agent.reload(agent.config.read_text().replace("stale_at_end: true", "stale_at_end: true, max_samples: 99"))
                self.wait_for(receiver, "g", len(receiver.samples("g")) + 3)
                self.assertFalse(any(s.ended for s in receiver.samples("g")))
            wait_until(lambda: receiver.samples("g")[-1].ended, what="the end of the process")

    @each_version
    def test_an_interval_forwards_every_reading_of_equally_slow_sources(self, version):
        """Whatever the phase; fast collectors are thinned out all the same."""
        with Page("# TYPE c counter\nc_total SCRAPES\n") as page, Receiver() as receiver:
            with sending(page, receiver, version, interval="1s") as agent:
                self.wait_for(receiver, "c_total", 6)
                values = [s.value for s in receiver.samples("c_total")][:6]
                self.assertEqual(values, [float(values[0] + i) for i in range(6)], "none is missing")
                own = [s.ms for s in receiver.samples("gpulens_sink_up") if s.labels["sink"] == "remote_write"]
                self.assertGreater(value(agent.page(), "gpulens_sink_delivered_total", sink="remote_write"), 0)
                pauses = [later - earlier for earlier, later in zip(own, own[1:])]
                self.assertGreater(min(pauses), 700, "the agent's own readings, of every tick, come once a second")


class PrometheusTakesExemplars(unittest.TestCase):
    """Debian's Prometheus: a program that is not ours reads what is sent."""

    def test_exemplars_are_found(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-prometheus-"))
        self.addCleanup(shutil.rmtree, folder, True)
        (folder / "prometheus.yml").write_text("global: {}\n")
        port = free_port()
        with open(folder / "log", "wb") as log:
            server = subprocess.Popen(
                [peer("prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address=127.0.0.1:{port}", "--web.enable-remote-write-receiver",
                 "--enable-feature=exemplar-storage"], stdout=log, stderr=log)
        self.addCleanup(lambda: (server.terminate(), server.wait(30)))

        def api_get(path, **query):
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}?" + urllib.parse.urlencode(query), timeout=5) as answer:
                    return json.load(answer)["data"]
            return None

        wait_until(lambda: api_get("status/buildinfo"), what="Prometheus")
        text = (f'# TYPE c counter\nc_total 5 # {{trace_id="ab"}} 0.5 {time.time():.3f}\n'
                '# TYPE h histogram\nh_bucket{le="1"} 1\nh_bucket{le="+Inf"} 1\nh_sum 1\nh_count 1\n# EOF\n')
        with Page(text, OPEN_METRICS) as page:
            receiver = type("Url", (), {"url": f"http://127.0.0.1:{port}/api/v1/write"})
            with sending(page, receiver, "auto"):
                now = time.time()
                found = wait_until(lambda: api_get("query_exemplars", query="c_total", start=now - 60, end=now + 60), what="exemplars")
                self.assertEqual(found[0]["exemplars"][0]["labels"], {"trace_id": "ab"})
                self.assertEqual(found[0]["exemplars"][0]["value"], "0.5")
                self.assertTrue(wait_until(lambda: api_get("query", query='h_bucket{le="1"}')["result"]))
                up = wait_until(lambda: api_get("query", query='up{job="test"}')["result"])[0]
                self.assertEqual((up["metric"]["instance"], up["value"][1]), (page.address, "1"))
            self.assertTrue(api_get("query", query="c_total")["result"], "the agent's end ends no series")


if __name__ == "__main__":
    unittest.main()
