"""A Prometheus of today, which knows remote write 2.0 and OTLP: what Debian's does not."""
import contextlib
import json
import unittest
import urllib.parse
import urllib.request

from agent import Agent, free_port, samples, value, wait_until
from go_peers import TIMEOUT, Process, go_peer
from test_otlp_encodings import openmetrics

PAGE = """# TYPE done counter
# HELP done What is done
done_total{{kind="a b"}} {count}
# TYPE wait_seconds histogram
# UNIT wait_seconds seconds
wait_seconds_bucket{{le="0.1"}} 3
wait_seconds_bucket{{le="1.0"}} 5
wait_seconds_bucket{{le="+Inf"}} 6
wait_seconds_sum 9.5
wait_seconds_count 6
# EOF
"""


class Prometheus(Process):
    def __init__(self):
        super().__init__("prometheus3")
        self.program, self.port = go_peer("prometheus3"), free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        (self.folder / "prometheus.yml").write_text("global: {}\n")
        return self.start([self.program, f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                           f"--web.listen-address=127.0.0.1:{self.port}", "--web.enable-remote-write-receiver",
                           "--web.enable-otlp-receiver", "--enable-feature=native-histograms"],
                          lambda: self.get("/-/ready") is not None)  # fmt: skip

    def get(self, path, **query):
        url = self.url + path + ("?" + urllib.parse.urlencode(query) if query else "")
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read()
        return None

    def query(self, expression):
        """[(labels, value)] now; the value of a native histogram is an object."""
        text = self.get("/api/v1/query", query=expression)
        found = json.loads(text)["data"]["result"] if text else []
        return [(one["metric"], one["histogram"][1] if "histogram" in one else float(one["value"][1])) for one in found]


class Taking(unittest.TestCase):
    def send(self, sink, checks):
        count = [1000]

        def page():
            count[0] += 7
            return PAGE.format(count=count[0])

        with Prometheus() as store, openmetrics(page) as address:
            config = (f"interval: 200ms\ntargets: [{{name: p, kind: prometheus, url: '{address}', interval: 400ms}}]\n"
                      f"sinks: {{{sink.format(url=store.url)}}}\n")  # fmt: skip
            name = sink.partition(":")[0]
            with Agent("--demo", config=config) as agent:
                wait_until(lambda: len(store.query("gpu_power_draw_watts")) == 8, TIMEOUT, "eight GPUs")
                wait_until(lambda: any(n >= 4 for _, n in store.query("count_over_time(done_total[1h])")), TIMEOUT, "four readings")
                checks(store, agent)
                page = agent.page()
                self.assertEqual(value(page, "gpulens_sink_dropped_total", sink=name, queue="delivery", reason="refused"), 0)
                self.assertEqual(sum(s.value for s in samples(page, "gpulens_sink_rejected_total", sink=name)), 0)
            if name == "remote_write":
                wait_until(lambda: not store.query("gpu_power_draw_watts"), TIMEOUT, "the end of every series")

    def check(self, store, agent):
        ((labels, number),) = store.query("done_total")
        self.assertEqual(labels["kind"], "a b")
        self.assertEqual((number - 1000) % 7, 0)
        self.assertEqual([n for _, n in store.query("resets(done_total[1h])")], [0])
        ours = {sample.labels["gpu_uuid"] for sample in samples(agent.page(), "gpu_power_draw_watts")}
        self.assertEqual({labels["gpu_uuid"] for labels, _ in store.query("gpu_power_draw_watts")}, ours)

    def check_classic(self, store, agent):
        self.check(store, agent)
        buckets = {float(labels["le"]): number for labels, number in store.query("wait_seconds_bucket")}
        self.assertEqual(buckets, {0.1: 3, 1: 5, float("inf"): 6})

    def check_native(self, store, agent):
        self.check(store, agent)
        ((_, histogram),) = store.query("wait_seconds")
        self.assertEqual((histogram["count"], histogram["sum"]), ("6", "9.5"))
        counts = {float(upper): float(number) for _, _, upper, number in histogram["buckets"]}
        self.assertEqual(counts, {0.1: 3, 1: 2, float("inf"): 1})

    def test_remote_write_2(self):
        self.send("remote_write: {{url: '{url}/api/v1/write', protocol: '2.0', interval: 400ms, stale_at_end: true}}", self.check_classic)

    def test_remote_write_2_with_native_histograms(self):
        self.send("remote_write: {{url: '{url}/api/v1/write', protocol: '2.0', native_histograms: true, interval: 400ms, stale_at_end: true}}", self.check_native)

    def test_version_2_is_found_out(self):
        self.send("remote_write: {{url: '{url}/api/v1/write', interval: 400ms, stale_at_end: true}}", self.check_classic)

    def test_otlp(self):
        self.send("otlp: {{endpoint: '{url}/api/v1/otlp', events: false, interval: 400ms, queue: {{storage: memory}}}}", self.check_classic)


if __name__ == "__main__":
    unittest.main()
