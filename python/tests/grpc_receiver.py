"""An OTLP/gRPC receiver on Google's own server, which reads with the protocol's own classes; and certificates for it.

Run as a program it takes what the script that is its argument sends to port 4317, and prints that as JSON: otlp_training.py
runs it in a network of its own.
"""
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import threading

import grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

EXPORT = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"


def value_of(metric):
    (kind,) = [metric.WhichOneof("data")]
    point = getattr(metric, kind).data_points[0]
    if kind in ("histogram", "exponential_histogram"):
        return point.count
    return point.as_double if point.WhichOneof("value") == "as_double" else point.as_int


class GrpcReceiver(grpc.GenericRpcHandler):
    """Listens on a free port, or on `port`, with `credentials` over TLS. In a with statement."""

    def __init__(self, credentials=None, port=0):
        self.requests, self.headers, self.changed = [], [], threading.Condition()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), handlers=[self])
        address = f"127.0.0.1:{port}"
        self.port = self.server.add_secure_port(address, credentials) if credentials else self.server.add_insecure_port(address)
        self.url = f"{'https' if credentials else 'http'}://127.0.0.1:{self.port}"

    def service(self, details):
        if details.method != EXPORT:
            return None
        headers = dict(details.invocation_metadata)

        def export(request, _context):
            with self.changed:
                self.requests.append(ExportMetricsServiceRequest.FromString(request))
                self.headers.append(headers)
                self.changed.notify_all()
            return b""

        return grpc.unary_unary_rpc_method_handler(export)

    def wait(self, holds):
        with self.changed:
            if not self.changed.wait_for(holds, 60):
                raise AssertionError(f"{len(self.requests)} requests came within a minute")

    def newest(self, requests=None):
        """{name: (unit, value)} of all that came, or of these requests; the newest of each."""
        metrics = [m for r in requests or self.requests for rm in r.resource_metrics for sm in rm.scope_metrics for m in sm.metrics]
        return {metric.name: (metric.unit, value_of(metric)) for metric in metrics}

    def resource(self, request=None):
        attributes = (request or self.requests[-1]).resource_metrics[0].resource.attributes
        return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in attributes}

    def __enter__(self):
        self.server.start()
        return self

    def __exit__(self, *_):
        self.server.stop(None).wait()


def certificates(folder):
    """ca.pem, and from it server.pem and client.pem with their keys, in this folder."""

    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, cwd=folder, stderr=subprocess.DEVNULL)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *key, "-days", "2", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=a CA of a test")
    pathlib.Path(folder, "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for name in ("server", "client"):
        openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                "-extfile", "names", "-out", f"{name}.pem")  # fmt: skip


if __name__ == "__main__":
    with GrpcReceiver(port=4317) as receiver:
        subprocess.run([sys.executable, sys.argv[1]], check=True, timeout=120)
        print(json.dumps({"metrics": receiver.newest(), "service": receiver.resource()["service.name"]}))
