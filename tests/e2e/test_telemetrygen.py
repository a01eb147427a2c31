"""telemetrygen, OpenTelemetry's own client for trying out receivers, in Go: what it sends arrives, and nothing twice."""
import subprocess
import unittest

from agent import Agent, free_port
from go_peers import go_peer
from otlp_receiver import Receiver
from test_otlp_in import await_count, config

COUNT = 200
OPTIONS = {"metrics": ["--metrics", str(COUNT), "--metric-type", "Sum"], "logs": ["--logs", str(COUNT)],
           "traces": ["--traces", str(COUNT), "--child-spans", "3"]}  # fmt: skip
ITEMS = {"metrics": COUNT, "logs": COUNT, "traces": 4 * COUNT}


def points(request):
    return [found for _, _, metric in request.metrics() for found in getattr(metric, metric.WhichOneof("data")).data_points if metric.name == "gen"]


class Generated(unittest.TestCase):
    def generate(self, signal, way, port):
        done = subprocess.run([go_peer("telemetrygen"), signal, "--otlp-insecure", "--otlp-endpoint", f"127.0.0.1:{port}", "--rate", "0",
                               "--workers", "1", *(["--otlp-http"] if way == "http" else []), *OPTIONS[signal]],
                              capture_output=True, text=True, timeout=120, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])

    def items(self, signal, requests):
        read = {"metrics": points, "logs": lambda r: [record for _, record in r.logs()], "traces": lambda r: [span for _, span in r.spans()]}
        return [item for request in requests for item in read[signal](request)]

    def test_nothing_is_lost(self):
        for way in ("http", "grpc"):
            for signal, count in ITEMS.items():
                with self.subTest(f"{way} {signal}"), Receiver() as far:
                    ports = {"http": free_port(), "grpc": free_port()}
                    with Agent(config=config(ports["http"], far.url, grpc=f"['127.0.0.1:{ports['grpc']}']")) as agent:
                        self.generate(signal, way, ports[way])
                        far.wait(lambda requests, s=signal, n=count: len(self.items(s, requests)) >= n, f"{count} of {signal}")
                        await_count(agent, count, receiver=f"otlp/{way}", signal=signal, result="accepted")
                    items = self.items(signal, far.requests)
                    self.assertEqual(len(items), count)
                    if signal == "traces":
                        self.assertEqual(len({span.span_id for span in items}), count)


if __name__ == "__main__":
    unittest.main()
