"""The sink `keda`, called by KEDA's own generated client over Go's gRPC: tests/peers/keda-client."""
import json
import os
import shutil
import subprocess
import tempfile
import threading
import unittest

from agent import Agent, free_port, wait_until
from go_peers import go_peer
from test_demo import BUILT_IN, sim

CHAT = {"scalerAddress": "gpulens:9099", "metric": "queue", "target": "4", "namespace": "storefront", "attributes": "target=chat-a",
        "maxAge": "10s"}


class Client:
    """The peer; each answer is a line."""

    def __init__(self, port):
        self.process = subprocess.Popen([go_peer("keda-client"), f"127.0.0.1:{port}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()

    def send(self, method, metadata, metric=""):
        call = {"method": method, "name": "chat", "namespace": "storefront", "metadata": metadata, "metric": metric}
        self.process.stdin.write(json.dumps(call) + "\n")
        self.process.stdin.flush()

    def call(self, method, metadata, metric=""):
        self.send(method, metadata, metric)
        return json.loads(self.process.stdout.readline())


class KedaClient(unittest.TestCase):
    def test_the_client_of_keda_reads_numbers_errors_and_streams(self):
        folder = tempfile.mkdtemp(prefix="gpulens-e2e-")
        self.addCleanup(shutil.rmtree, folder, True)
        socket, port = os.path.join(folder, "control.sock"), free_port()
        config = (f"interval: 1s\nstate_dir: {folder}/state\ncontrol: {{socket: {socket}}}\n"
                  f"sinks: {{keda: {{listen: ['127.0.0.1:{port}']}}}}\n")
        with Agent("--demo", config=config, environment=BUILT_IN), Client(port) as client:
            self.assertEqual(client.call("GetMetricSpec", CHAT), {"code": "OK", "metrics": {"queue": 4}, "whole": {"queue": 4}})
            kv = {**CHAT, "metric": "kv_cache", "target": "0.75"}
            self.assertEqual(client.call("GetMetricSpec", kv), {"code": "OK", "metrics": {"kv-cache": 0.75}, "whole": {"kv-cache": 1}})
            wait_until(lambda: client.call("GetMetrics", CHAT, "queue")["code"] == "OK", 30, "a number")
            sim("set", "engine=chat-a", "load=1.5", socket=socket)
            wait_until(lambda: client.call("GetMetrics", CHAT, "queue").get("metrics", {}).get("queue", 0) > 10, 40, "a queue")
            self.assertEqual(client.call("IsActive", CHAT), {"code": "OK", "active": True})
            self.assertEqual(client.call("StreamMetricSpec", CHAT)["code"], "Unimplemented", "KEDA skips it then")
            wrong = client.call("GetMetricSpec", {**CHAT, "treshold": "1"})
            self.assertEqual(wrong["code"], "InvalidArgument")
            self.assertIn("known: metric, target", wrong["message"])
            sim("stop", "engine=chat-a", socket=socket)
            wait_until(lambda: client.call("GetMetrics", CHAT, "queue")["code"] == "Unavailable", 40, "an error, never 0")
            self.assertEqual(client.call("IsActive", CHAT)["code"], "Unavailable")
            # A stream is open while the engine comes back idle.
            pushed = []
            sim("heal", socket=socket)
            sim("set", "engine=chat-a", "load=0", socket=socket)
            client.send("StreamIsActive", CHAT)
            reader = threading.Thread(target=lambda: pushed.append(json.loads(client.process.stdout.readline())), daemon=True)
            reader.start()
            reader.join(60)
            self.assertEqual([answer["code"] for answer in pushed], ["OK"])


if __name__ == "__main__":
    unittest.main()
