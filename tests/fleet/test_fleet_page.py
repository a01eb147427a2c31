"""/api/fleet of a gateway: a thousand nodes that send what an agent sent, in bounded memory; nodes that leave, come back and have hostile names."""
import contextlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import recording  # noqa: E402
from agent import BINARY, Agent, free_port, wait_until  # noqa: E402
from fleet_world import FLEET_LOAD, Load, cpu  # noqa: E402
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest  # noqa: E402
from otlp_tap import unpacked  # noqa: E402

NODES, GPUS = 1000, 8
MOST_MIB = 64
# A serving node, recorded each two seconds so that it does not take long.
STREAM = "otlp-fleet-page"
recording.STREAMS[STREAM] = ("serving", "agent-otlp.yaml", "standard", 2)


def resident_mib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def metrics_of(path):
    request = ExportMetricsServiceRequest.FromString(unpacked(path.read_bytes(), "zstd"))
    return [metric for of in request.resource_metrics for scope in of.scope_metrics for metric in scope.metrics]


def record_two_frames(folder):
    """Two frames, the second with the engines, whose pages are read less often; the metrics of that one."""
    recording.record(folder, 11, [STREAM], pages=False)
    lines = [line.split() for line in (folder / STREAM / "frames").read_text().splitlines()]
    frames = {}
    for line in lines:
        frames.setdefault(int(line[0]), []).append(line)
    metrics = {number: [metric for line in frame for metric in metrics_of(folder / STREAM / line[1])] for number, frame in frames.items()}
    last = max(number for number in frames if number > 0 and any(one.name == "inference.requests.running" for one in metrics[number]))
    kept = [" ".join([str(number), *line[1:]]) + "\n" for number, frame in enumerate((last - 1, last)) for line in frames[frame]]
    (folder / STREAM / "frames").write_text("".join(kept))
    return metrics[last]


class FleetGateway(Agent):
    def __init__(self, fleet=""):
        self.otlp, self.rw = free_port(), free_port()
        super().__init__(config=f"""
receivers:
  otlp: {{http: {{listen: ["127.0.0.1:{self.otlp}"]}}, grpc: {{listen: []}}, max_connections: 3000}}
  remote_write: {{http: {{listen: ["127.0.0.1:{self.rw}"]}}}}
sinks: {{do_nothing: {{}}}}
fleet: {{{fleet}}}
limits: {{memory: 1GiB}}
control: {{socket: none}}
collectors: {{programs: {{enabled: false}}}}
""")  # fmt: skip

    def fleet(self, **parameters):
        answer = self.get("/api/fleet?" + urllib.parse.urlencode(parameters), timeout=20)
        assert answer.status == 200, (answer.status, answer.text)
        return json.loads(answer.text)

    def send(self, host, power=500.0, **resource):
        """One GPU of a node, now."""
        request = ExportMetricsServiceRequest()
        of = request.resource_metrics.add()
        for key, value in {"host.name": host, **{key.replace("__", "."): value for key, value in resource.items()}}.items():
            of.resource.attributes.add(key=key).value.string_value = value
        point = of.scope_metrics.add().metrics.add(name="gpu.power.draw").gauge.data_points.add(as_double=power, time_unix_nano=time.time_ns())
        point.attributes.add(key="gpu.index").value.int_value = 0
        url = f"http://127.0.0.1:{self.otlp}/v1/metrics"
        urllib.request.urlopen(urllib.request.Request(url, request.SerializeToString(), {"Content-Type": "application/x-protobuf"}), timeout=10).close()


class FleetPage(unittest.TestCase):
    maxDiff = 2000

    def test_a_thousand_nodes(self):
        assert FLEET_LOAD.exists(), f"{FLEET_LOAD} is not built"
        with contextlib.ExitStack() as stack:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpulens-fleet-")))
            sent = record_two_frames(folder)
            gateway = stack.enter_context(FleetGateway('dashboards: "https://grafana.example.org/", node_url: "https://{name}:9091/"'))
            self.assertEqual(gateway.fleet()["nodes"], [])
            before, used = resident_mib(gateway.process.pid), cpu(gateway.process.pid)
            load = Load(folder, STREAM, [f"http://127.0.0.1:{gateway.otlp}/v1/metrics"], nodes=NODES, rounds=2, interval=8)
            stack.callback(load.stop)
            result = load.result(120)
            self.assertEqual(result["delivered"], result["items"])
            after, used = resident_mib(gateway.process.pid), cpu(gateway.process.pid) - used
            begin = time.monotonic()
            whole = gateway.fleet(limit=NODES)
            answer_ms = 1000 * (time.monotonic() - begin)
            print(f"{NODES} nodes: the gateway had {before:.1f} MiB before and {after:.1f} after, {resident_mib(gateway.process.pid):.1f} after a whole answer "
                  f"of {len(json.dumps(whole))} bytes in {answer_ms:.0f} ms; {1e6 * used / result['samples']:.2f} us a sample", flush=True)  # fmt: skip
            self.assertLess(resident_mib(gateway.process.pid) - before, MOST_MIB)
            fleet = whole["fleet"]
            self.assertEqual([fleet[key] for key in ("nodes", "gpus", "answering", "away", "refused_samples", "simulated")],
                             [NODES, NODES * GPUS, NODES * GPUS, 0, 0, NODES])  # fmt: skip
            self.assertEqual(len({node["name"] for node in whole["nodes"]}), NODES)

            # A node's numbers are those that it sent last.
            power = sum(point.as_double for one in sent if one.name == "gpu.power.draw" for point in one.gauge.data_points)
            running = sum(point.as_int or point.as_double for one in sent if one.name == "inference.requests.running" for point in one.sum.data_points)
            one = gateway.fleet(filter="gpu-n00042")["nodes"]
            self.assertEqual(len(one), 1)
            self.assertAlmostEqual(one[0]["power"], power, places=3)
            self.assertEqual((one[0]["running"], one[0]["gpus"], one[0]["cluster"]), (running, GPUS, "c1"))
            self.assertEqual(one[0]["url"], "https://gpu-n00042:9091/")
            detail = gateway.fleet(node=one[0]["id"])["node"]
            self.assertEqual([gpu["index"] for gpu in detail["gpu_list"]], list(range(GPUS)))
            self.assertEqual(len(detail["engine_list"]), 2)
            self.assertIn("storefront/chat-n00042-a", detail["jobs"])

            models = gateway.fleet(by="model")["groups"]
            self.assertEqual([(group["name"], group["gpus"]) for group in models], [("NVIDIA H100 80GB HBM3", NODES * GPUS)])
            self.assertEqual(gateway.fleet(by="job")["total"], 2 * NODES)
            self.assertEqual(len(gateway.fleet(by="job", limit=7)["groups"]), 7)

    def test_a_node_leaves_and_comes_back(self):
        with FleetGateway("away_after: 10s") as gateway:
            gateway.send("n1", 300)
            gateway.send("n2", 400)
            self.assertEqual([node["presence"] for node in gateway.fleet()["nodes"]], ["here", "here"])

            def away():
                gateway.send("n2", 400)
                return gateway.fleet()["fleet"]["away"] == 1

            wait_until(away, 20, "a node that is away")
            first, second = gateway.fleet()["nodes"]
            self.assertEqual((first["name"], first["state"], first["presence"]), ("n1", "fault", "away"))
            self.assertNotIn("power", first, "what was last known is not of now")
            self.assertEqual((second["name"], second["power"]), ("n2", 400))
            gateway.send("n1", 310)
            self.assertEqual({node["name"]: node.get("power") for node in gateway.fleet()["nodes"]}, {"n1": 310, "n2": 400})

    def test_names_from_outside_and_the_limit(self):
        names = ["<img src=x onerror=alert(1)>", "a\x1b[2J\u202eb", 'quote"\\back', "../../etc", "n" * 500]
        with FleetGateway('nodes: 6, node_url: "http://{name}/"') as gateway:
            for name in names:
                gateway.send(name)
            gateway.send("same", 1, k8s__cluster__name="a")
            gateway.send("same", 2, k8s__cluster__name="b")
            page = gateway.fleet()
            self.assertEqual(page["fleet"]["nodes"], 6)
            self.assertEqual(page["fleet"]["refused_samples"], 1)
            shown = {node["name"]: node["url"] for node in page["nodes"]}
            self.assertEqual(set(shown), {*names[:4], "n" * 96, "same"})
            for url in shown.values():
                self.assertRegex(url, r"^http://[A-Za-z0-9%._~-]+/$")
            wait_until(lambda: "further ones are passed on and not shown" in gateway.log_text(), 5, "a line of the log")

    def test_links_are_web_addresses(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write('fleet: {node_url: "javascript:alert(1)"}\n')
            file.flush()
            done = subprocess.run([BINARY, "config", "check", file.name], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("fleet.node_url must begin with https:// or http://", done.stdout + done.stderr)

    def test_only_gateways_have_it(self):
        with Agent() as agent:
            answer = agent.get("/api/fleet")
            self.assertEqual(answer.status, 404)
            self.assertIn("no receivers", json.loads(answer.text)["error"])


if __name__ == "__main__":
    unittest.main()
