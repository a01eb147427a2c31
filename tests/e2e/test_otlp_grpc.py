"""The otlp sink over gRPC, to a receiver on Google's own server that decodes with the protocol's own classes."""
import concurrent.futures
import pathlib
import tempfile
import threading
import unittest

import agent
from test_grpc import BUSY_DETAILS, TIMEOUT, certificate, grpc

try:
    import otlp_receiver
except ImportError:
    otlp_receiver = None
else:
    from test_otlp import collect as otlp_collect


class Collector(grpc.GenericRpcHandler if grpc else object):
    """An OTLP receiver. `act(number)` may give (code, message, details) to refuse a request with."""

    def __init__(self, act=None):
        self.act, self.number = act or (lambda number: None), 0
        self.taken, self.changed = [], threading.Condition()

    def service(self, details):
        kinds = {"metrics": otlp_receiver.ExportMetricsServiceRequest, "logs": otlp_receiver.ExportLogsServiceRequest}
        kind = next(name for name in kinds if f".{name}." in details.method)
        headers = dict(details.invocation_metadata)

        def export(request, context):
            self.number += 1
            refusal = self.act(self.number)
            if refusal:
                if refusal[2]:
                    context.set_trailing_metadata((("grpc-status-details-bin", refusal[2]),))
                context.abort(*refusal[:2])
            with self.changed:
                self.taken.append(otlp_receiver.Received(details.method, headers, kinds[kind].FromString(request)))
                self.changed.notify_all()
            return b""

        return grpc.unary_unary_rpc_method_handler(export)

    def wait(self, enough):
        with self.changed:
            return self.changed.wait_for(lambda: enough(self.taken), TIMEOUT)


@unittest.skipUnless(grpc and otlp_receiver, "the Python packages grpcio and opentelemetry-proto are not here")
class Otlp(unittest.TestCase):
    def serve(self, collector, credentials=None):
        pool = concurrent.futures.ThreadPoolExecutor(4)
        server = grpc.server(pool, handlers=[collector])
        port = server.add_secure_port("127.0.0.1:0", credentials) if credentials else server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(pool.shutdown)
        self.addCleanup(lambda: server.stop(None).wait(TIMEOUT))
        return port

    def collect(self, *options, environment=None):
        return otlp_collect("host", "--once", "--sink", "otel", *[word for each in options for word in ("-o", each)],
                            environment=environment)  # fmt: skip

    def test_one_reading_arrives(self):
        for compression in ("gzip", "none"):
            collector = Collector()
            port = self.serve(collector)
            done = self.collect(f"endpoint=http://127.0.0.1:{port}", "protocol=grpc", f"compression={compression}",
                                "headers=tenant=ann")  # fmt: skip
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(collector.taken[0].path, "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export")
            self.assertEqual(collector.taken[0].headers["tenant"], "ann")
            self.assertTrue(list(collector.taken[0].points("system.cpu.time")))

    def test_the_variable_of_opentelemetry_chooses_it(self):
        collector = Collector()
        port = self.serve(collector)
        done = self.collect(environment={"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                                         "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"})  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(collector.taken)

    def test_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = certificate(folder)
            rules = grpc.ssl_server_credentials([(pathlib.Path(key).read_bytes(), pathlib.Path(cert).read_bytes())])
            collector = Collector()
            port = self.serve(collector, rules)
            done = self.collect(f"endpoint=https://localhost:{port}", "protocol=grpc",
                                environment={"OTEL_EXPORTER_OTLP_CERTIFICATE": cert})  # fmt: skip
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(collector.taken)

    def test_zstd_is_refused(self):
        done = self.collect("protocol=grpc", "compression=zstd")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("gzip or none", done.stderr)

    def test_a_busy_receiver_gets_it_later_and_a_refusal_is_final(self):
        def act(number):
            if number == 1:
                return grpc.StatusCode.UNAVAILABLE, "starting", None
            if number == 2:
                return grpc.StatusCode.RESOURCE_EXHAUSTED, "busy", BUSY_DETAILS
            return (grpc.StatusCode.INVALID_ARGUMENT, "never", None) if number == 4 else None

        collector = Collector(act)
        port = self.serve(collector)
        config = (f"sinks: {{otlp: {{endpoint: 'http://127.0.0.1:{port}', protocol: grpc, interval: 300ms, "
                  "retry: {initial: 50ms}, queue: {storage: memory}}}\n")  # fmt: skip
        with agent.Agent(config=config) as running:
            self.assertTrue(collector.wait(lambda taken: len(taken) >= 3))
            self.assertIn("INVALID_ARGUMENT: never", running.log_text())

            def page_when_up():
                page = running.page()
                return page if agent.value(page, "gpulens_sink_up", sink="otlp") == 1 else None

            page = agent.wait_until(page_when_up)
        for code, count in {"RESOURCE_EXHAUSTED": 1, "UNAVAILABLE": 1, "INVALID_ARGUMENT": 1}.items():
            self.assertEqual(agent.value(page, "gpulens_sink_requests_total", sink="otlp", code=code), count, code)
        self.assertEqual(agent.value(page, "gpulens_sink_dropped_total", sink="otlp", queue="delivery", reason="refused"), 1)


if __name__ == "__main__":
    unittest.main()
