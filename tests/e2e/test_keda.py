"""The sink `keda`, over the demo's engines and over pods of an API server: what is unknown is an error, never 0."""
import http.server
import os
import pathlib
import shutil
import ssl
import tempfile
import threading
import unittest

from agent import Agent, free_port, samples, value, wait_until
from test_demo import BUILT_IN, sim
from test_grpc import certificate, grpc

try:
    import keda_calls
    from kube_node import ApiServer, pod
except ImportError:
    keda_calls = None

NEEDS = unittest.skipUnless(grpc and keda_calls and keda_calls.descriptor_pb2, "the Python packages grpcio and protobuf are not here")
QUEUE = {"metric": "queue", "target": 4}
CHAT = {"namespace": "storefront", "attributes": "target=chat-a"}  # of the demo


class Page:
    """The page of a vLLM with a queue, on a free port of 127.0.0.1; it can be silenced."""

    def __init__(self, waiting=0, running=0):
        self.waiting, self.running, self.ttft, self.silent = waiting, running, [], False
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                body = outer.text().encode() if not outer.silent and self.path == "/metrics" else b""
                self.send_response(503 if outer.silent else 200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def text(self):
        label = '{model_name="m"}'
        lines = ["# TYPE vllm:num_requests_waiting gauge", f"vllm:num_requests_waiting{label} {self.waiting}",
                 "# TYPE vllm:num_requests_running gauge", f"vllm:num_requests_running{label} {self.running}",
                 "# TYPE vllm:kv_cache_usage_perc gauge", f"vllm:kv_cache_usage_perc{label} 0.5",
                 "# TYPE vllm:time_to_first_token_seconds histogram"]  # fmt: skip
        for bound in (0.1, 1, 10, "+Inf"):
            count = sum(seconds <= float(bound) for seconds in self.ttft)
            lines.append(f'vllm:time_to_first_token_seconds_bucket{{model_name="m",le="{bound}"}} {count}')
        lines += [f"vllm:time_to_first_token_seconds_sum{label} {sum(self.ttft)}",
                  f"vllm:time_to_first_token_seconds_count{label} {len(self.ttft)}"]
        return "\n".join(lines) + "\n"

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def is_number(scaler, metadata, good):
    def question():
        try:
            return good(scaler.number(**metadata))
        except grpc.RpcError:
            return False
    return question


@NEEDS
class OverTheDemo(unittest.TestCase):
    def test_numbers_are_those_of_the_page_and_a_silent_engine_is_an_error(self):
        folder = tempfile.mkdtemp(prefix="gpulens-e2e-")
        self.addCleanup(shutil.rmtree, folder, True)
        socket, port = os.path.join(folder, "control.sock"), free_port()
        config = (f"interval: 1s\nstate_dir: {folder}/state\ncontrol: {{socket: {socket}}}\n"
                  f"sinks: {{keda: {{listen: ['127.0.0.1:{port}']}}}}\n")
        with Agent("--demo", config=config, environment=BUILT_IN) as agent, keda_calls.Scaler(port) as scaler:
            chat = {**QUEUE, **CHAT, "maxAge": "10s"}
            wait_until(is_number(scaler, chat, lambda _: True), what="a number")
            spec = scaler.spec(**chat)
            self.assertEqual((spec.metricName, spec.targetSize, spec.targetSizeFloat), ("queue", 4, 4.0))
            sim("set", "engine=chat-a", "load=1.5", socket=socket)
            wait_until(is_number(scaler, chat, lambda waiting: waiting > 10), 40, "a queue")
            wait_until(lambda: scaler.number(**chat) == value(agent.page(), "inference_requests_waiting", target="chat-a"),
                       30, "the number of the page")
            self.assertTrue(scaler.active(**chat))
            seen, cancel = scaler.stream(**chat)
            wait_until(lambda: seen == [True], 10, "a push")
            usage = [s.value for s in samples(agent.page(), "inference_kv_cache_usage_ratio")
                     if s.labels["target"] == "chat-a" and s.labels["cache_type"] == "gpu"]
            number = scaler.number(metric="kv_cache", target=0.8, **CHAT)
            self.assertAlmostEqual(number, sum(usage) / len(usage), delta=0.1)
            latency = {"metric": "ttft", "target": 0.5, "window": "15s", **CHAT}
            wait_until(is_number(scaler, latency, lambda seconds: 0 < seconds < 120), 40, "a time to first token")
            self.assertGreater(scaler.number(**latency | {"quantile": "p99"}), 0)
            self.assertGreaterEqual(scaler.number(metric="concurrency", target=1, **CHAT), scaler.number(**chat))
            self.assertEqual(scaler.why(scaler.number, **chat, model="nothing")[0], "UNAVAILABLE")
            sim("stop", "engine=chat-a", socket=socket)
            wait_until(lambda: is_number(scaler, chat, lambda _: True)() is False, 40, "an error")
            code, why = scaler.why(scaler.number, **chat)
            self.assertEqual(code, "UNAVAILABLE")
            self.assertIn("chat-a does not answer", why)
            self.assertEqual(scaler.why(scaler.active, **chat)[0], "UNAVAILABLE")
            self.assertEqual(seen, [True], "what is unknown is not pushed")
            cancel()
            sim("heal", socket=socket)
            wait_until(is_number(scaler, chat, lambda _: True), 40, "a number again")

    def test_what_is_wrong_is_refused_with_the_keys(self):
        port = free_port()
        config = f"sinks: {{keda: {{listen: ['127.0.0.1:{port}']}}}}\n"
        with Agent(config=config) as agent, keda_calls.Scaler(port) as scaler:
            for metadata, words in (({}, "metric is missing"), ({"metric": "queue"}, "target is missing"),
                                    ({**QUEUE, "treshold": 1}, "known: metric, target"),
                                    ({**QUEUE, "window": "1m"}, "of the metrics ttft and itl"),
                                    ({"metric": "kv_cache", "target": 80}, "a share of the cache")):  # fmt: skip
                with self.subTest(words):
                    code, why = scaler.why(scaler.spec, **metadata)
                    self.assertEqual(code, "INVALID_ARGUMENT")
                    self.assertIn(words, why)
            self.assertEqual(scaler.why(scaler.number, **QUEUE)[0], "UNAVAILABLE")
            self.assertIn("no target has an engine", agent.log_text())


@NEEDS
class OverPods(unittest.TestCase):
    """Replicas are the ready pods that the API server lists."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-e2e-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.api = ApiServer()
        self.addCleanup(self.api.stop)
        self.port = free_port()

    def page(self, **numbers):
        page = Page(**numbers)
        self.addCleanup(page.stop)
        return page

    def put(self, name, page, ip, ready=True, labels=None):
        # Pods of one machine: loopback addresses, and the port of each page is that of all.
        one = pod(name, f"uid-{name}", labels=labels or {"app": "chat"})
        one["status"]["podIP"] = ip
        one["status"]["conditions"].append({"type": "Ready", "status": "True" if ready else "False"})
        self.api.put(one)

    def config(self, page, more=""):
        kubeconfig = self.api.kubeconfig(self.folder / "kubeconfig")
        return (f"interval: 1s\nstate_dir: {self.folder}/state\ntargets: []\n"
                f"discovery: {{local: {{enabled: false}}, kubernetes: {{selector: 'app=chat', namespaces: [ml], port: {page.port}, "
                f"refresh: 1s, target_interval: 1s, pod_labels: [app], kubeconfig: {kubeconfig}}}}}\n"
                f"sinks: {{keda: {{listen: ['127.0.0.1:{self.port}']}}}}\n{more}")

    def test_pods_come_and_go_and_are_never_guessed(self):
        page = self.page(waiting=6, running=3)
        self.put("chat-0", page, "127.0.0.1")
        self.put("chat-1", page, "127.0.0.2", ready=False)
        with Agent(config=self.config(page)), keda_calls.Scaler(self.port) as scaler:
            trigger = {**QUEUE, "attributes": "k8s.pod.label.app=chat", "maxAge": "3s"}
            wait_until(is_number(scaler, trigger, lambda number: number == 6), what="the queue of the ready pod")
            self.assertTrue(any("labelSelector=app%3Dchat" in path for path in self.api.requested))
            # 127.0.0.2 has no listener: a pod that is ready and does not answer is unknown, and 6 asks for 2 replicas of 4 only.
            self.put("chat-1", page, "127.0.0.2")
            wait_until(lambda: not is_number(scaler, trigger, lambda _: True)(), what="an error")
            wait_until(lambda: "waiting requests of 1 of 2 targets is unknown: chat-1" in scaler.why(scaler.number, **trigger)[1],
                       what="the silent pod by its name")
            self.assertTrue(scaler.active(**trigger), "one busy pod suffices for that")
            # What is known alone asks for more than both.
            page.waiting = 100
            wait_until(is_number(scaler, trigger, lambda number: number == 100), what="the lower bound")
            page.waiting = page.running = 0
            wait_until(lambda: not is_number(scaler, trigger, lambda _: True)(), what="an error, not 0")
            self.assertEqual(scaler.why(scaler.active, **trigger)[0], "UNAVAILABLE")
            self.api.delete("uid-chat-1")
            wait_until(is_number(scaler, trigger, lambda number: number == 0), what="a known 0")
            self.assertFalse(scaler.active(**trigger))
            other = keda_calls.Scaler(self.port, name_space="other")
            self.assertEqual(other.why(other.number, **trigger)[0], "UNAVAILABLE", "another namespace sees nothing of it")
            self.assertEqual(other.number(**trigger, namespace="*"), 0)
            other.channel.close()
            # No pod is no number: whether there is work for one is not known here.
            self.api.delete("uid-chat-0")
            wait_until(lambda: "no target has an engine" in scaler.why(scaler.number, **trigger)[1] if
                       not is_number(scaler, trigger, lambda _: True)() else False, what="no pod")

    def test_a_refused_service_account_is_logged_and_keeps_the_pods(self):
        page = self.page(waiting=1)
        self.put("chat-0", page, "127.0.0.1")
        with Agent(config=self.config(page)) as agent, keda_calls.Scaler(self.port) as scaler:
            wait_until(is_number(scaler, QUEUE, lambda number: number == 1), what="the queue")
            self.api.token = "another"
            wait_until(lambda: "403 Forbidden" in agent.log_text(), what="a line of log")
            self.assertEqual(scaler.number(**QUEUE), 1)

    def test_tls_with_client_certificates(self):
        page = self.page(waiting=2)
        self.put("chat-0", page, "127.0.0.1")
        certificate_file, key = certificate(self.folder)
        web = self.folder / "web.yml"
        web.write_text(f"tls_server_config: {{cert_file: {certificate_file}, key_file: {key}, "
                       f"client_auth_type: RequireAndVerifyClientCert, client_ca_file: {certificate_file}}}\n")
        tls = ssl.create_default_context(cafile=certificate_file)
        tls.load_cert_chain(certificate_file, key)
        pem = {name: pathlib.Path(file).read_bytes() for name, file in (("certificate", certificate_file), ("key", key))}
        with Agent(config=self.config(page, f"http: {{web_config: {web}}}\n"), tls=tls):
            known = grpc.ssl_channel_credentials(pem["certificate"], pem["key"], pem["certificate"])
            with keda_calls.Scaler(self.port, credentials=known) as scaler:
                wait_until(is_number(scaler, QUEUE, lambda number: number == 2), what="the queue")
            for credentials in (grpc.ssl_channel_credentials(pem["certificate"]), None):
                with keda_calls.Scaler(self.port, credentials=credentials) as stranger:
                    self.assertEqual(stranger.why(stranger.spec, **QUEUE)[0], "UNAVAILABLE", "no connection")


if __name__ == "__main__":
    unittest.main()
