"""OTLP over TLS, at receivers that are not ours: in_venv.py --otlp."""
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import tempfile
import unittest

import grpc
import gpulens
from gpulens.compat.l9gpu.training import L9GPUTrainingMonitor
from grpc_receiver import GrpcReceiver, certificates
from http_stub import HttpStub

LLAMA = {"num_params": 70_000_000_000, "tokens_per_step": 4096, "gpu_count": 8, "peak_tflops_per_gpu": 989.0}


@unittest.skipUnless(shutil.which("openssl"), "no openssl here to make certificates with")
class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        certificates(folder.name)
        cls.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def credentials(self, **more):
        pair = (pathlib.Path(self.path("server.key")).read_bytes(), pathlib.Path(self.path("server.pem")).read_bytes())
        return grpc.ssl_server_credentials([pair], **more)

    def test_grpc(self):
        with GrpcReceiver(self.credentials()) as receiver:
            with L9GPUTrainingMonitor(receiver.url, **LLAMA, ca_file=self.path("ca.pem")) as monitor:
                monitor.emit_step(1.0, 1.0)
                monitor.exporter.flush(20)
                self.assertAlmostEqual(receiver.newest()["training.mfu"][1], 0.2174, 4)
            count = len(receiver.requests)
            with L9GPUTrainingMonitor(receiver.url, **LLAMA) as monitor:  # its CA is none of the machine's
                monitor.emit_step(1.0, 1.0)
                with self.assertRaises(gpulens.Error):
                    monitor.exporter.flush(20)
            self.assertEqual(len(receiver.requests), count)

    def test_the_end_of_a_program_that_exports_by_the_environment(self):
        code = "import gpulens; gpulens.Counter('unasked').add(1)"
        with GrpcReceiver(self.credentials()) as receiver:
            env = {**os.environ, "GPULENS_EXPORT": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
                   "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_CERTIFICATE": self.path("ca.pem")}  # fmt: skip
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=env)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(receiver.newest()["unasked"][1], 1)

    def test_a_receiver_with_client_certificates(self):
        ca = pathlib.Path(self.path("ca.pem")).read_bytes()
        with GrpcReceiver(self.credentials(root_certificates=ca, require_client_auth=True)) as receiver:
            own = {"client_certificate_file": self.path("client.pem"), "client_key_file": self.path("client.key")}
            for more, arrives in (({}, False), (own, True)):
                with L9GPUTrainingMonitor(receiver.url, **LLAMA, ca_file=self.path("ca.pem"), **more) as monitor:
                    monitor.emit_step(1.0, 1.0)
                    if arrives:
                        monitor.exporter.flush(20)
                    else:
                        self.assertRaises(gpulens.Error, monitor.exporter.flush, 20)
                self.assertEqual(bool(receiver.requests), arrives)

    def test_http(self):
        bodies = []

        def receive(request, body):
            bodies.append((request.path, body))
            return 200, {"Content-Type": "application/x-protobuf"}, b""

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path("server.pem"), self.path("server.key"))
        registry = gpulens.Registry()
        gpulens.Counter("app.requests", registry=registry).add(7)
        with HttpStub(receive, tls=context) as server:
            with gpulens.export_otlp(f"https://localhost:{server.port}", ca_file=self.path("ca.pem"), registry=registry) as exporter:
                exporter.flush(20)
        self.assertEqual(bodies[0][0], "/v1/metrics")
        self.assertIn(b"app.requests", bodies[0][1])

    def test_files_that_are_none(self):
        for options in ({"ca_file": "/nonexistent/ca.pem"}, {"ca_file": self.path("names")}, {"client_key_file": self.path("client.key")}):
            with self.assertRaises(gpulens.Error, msg=options):
                gpulens.export_otlp("https://127.0.0.1:1", **options)


if __name__ == "__main__":
    unittest.main()
