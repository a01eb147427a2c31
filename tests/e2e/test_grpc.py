"""Our gRPC client and server with Google's own, both ways; and the otlp sink over gRPC.

grpc_pair (tests/differential/grpc_pair_main.cc) is our side of it.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAIR = os.environ.get("GRPC_PAIR", str(ROOT / "build/release/grpc_pair"))
PATIENCE = 60

try:
    import grpc
except ImportError:
    grpc = None

ECHO, FAIL, BUSY, SLOW, BIG, META = ("/test.Echo/" + name for name in ("Say", "Fail", "Busy", "Slow", "Big", "Meta"))
# google.rpc.Status{code: 8, message: "busy", details: RetryInfo{1 s and 5 ns}}.
BUSY_DETAILS = (
    b"\x08\x08\x12\x04busy\x1a\x32\x0a\x28type.googleapis.com/google.rpc.RetryInfo\x12\x06"
    b"\x0a\x04\x08\x01\x10\x05"
)


class Theirs(grpc.GenericRpcHandler if grpc else object):
    """A service without generated code: bytes in, bytes out."""

    def __init__(self):
        self.release = threading.Event()
        self.seen = []

    def service(self, details):
        self.seen.append((details.method, dict(details.invocation_metadata)))
        act = {ECHO: self.say, FAIL: self.fail, BUSY: self.busy, SLOW: self.slow, BIG: self.big, META: self.meta}
        act = act.get(details.method)
        return grpc.unary_unary_rpc_method_handler(act) if act else None

    def say(self, request, _context):
        return request

    def meta(self, _request, context):
        return dict(context.invocation_metadata()).get("x-test", "").encode()

    def fail(self, _request, context):
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "wrong: 100% of it, äöü")

    def busy(self, _request, context):
        context.set_trailing_metadata((("grpc-status-details-bin", BUSY_DETAILS),))
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy")

    def slow(self, request, _context):
        self.release.wait(PATIENCE)
        return request

    def big(self, _request, _context):
        return b"x" * (5 << 20)


def call(url, path, message=b"", **options):
    """Our client: the lines it prints, split, and the last answer's bytes."""
    with tempfile.NamedTemporaryFile() as answer:
        words = [f"{key}={value}" for key, value in options.items()]
        done = subprocess.run([PAIR, "call", url, path, f"answer={answer.name}", *words], input=message,
                              stdout=subprocess.PIPE, timeout=PATIENCE, check=True)  # fmt: skip
        lines = [line.split(" ", 4) for line in done.stdout.decode().splitlines()]
        return lines, answer.read()


def certificate(folder):
    key, cert = f"{folder}/key.pem", f"{folder}/cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", key, "-out", cert, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, stderr=subprocess.DEVNULL,
    )
    return cert, key


@unittest.skipUnless(grpc, "the Python package grpcio is not here")
@unittest.skipUnless(os.path.exists(PAIR), "grpc_pair is not built")
class OurClient(unittest.TestCase):
    def setUp(self):
        self.theirs = Theirs()
        self.pool = concurrent.futures.ThreadPoolExecutor(8)
        self.server = grpc.server(self.pool, handlers=[self.theirs], options=[("grpc.max_receive_message_length", 64 << 20)])
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.folder = tempfile.TemporaryDirectory()
        self.socket = f"{self.folder.name}/s"
        self.server.add_insecure_port(f"unix:{self.socket}")
        cert, key = certificate(self.folder.name)
        self.cert = cert
        rules = grpc.ssl_server_credentials([(pathlib.Path(key).read_bytes(), pathlib.Path(cert).read_bytes())])
        self.tls_port = self.server.add_secure_port("127.0.0.1:0", rules)
        self.server.start()
        self.url = f"http://127.0.0.1:{self.port}"

    def tearDown(self):
        self.theirs.release.set()
        self.server.stop(None).wait(PATIENCE)
        self.pool.shutdown()
        self.folder.cleanup()

    def test_echo_over_one_connection(self):
        for size in (0, 1, 70_000, 3 << 20):
            message = os.urandom(size)
            lines, answer = call(self.url, ECHO, message, times=3)
            self.assertEqual([line[:2] for line in lines], [["OK", "none"]] * 3)
            self.assertEqual(answer, message)

    def test_gzip_unix_socket_and_tls(self):
        message = b"abc" * 100_000
        self.assertEqual(call(self.url, ECHO, message, gzip=1)[1], message)
        self.assertEqual(call("http://localhost", ECHO, message, unix=self.socket)[1], message)
        secure = f"https://localhost:{self.tls_port}"
        self.assertEqual(call(secure, ECHO, message, ca=self.cert)[1], message)
        other, _ = certificate(tempfile.mkdtemp(dir=self.folder.name))
        self.assertEqual(call(secure, ECHO, message, ca=other)[0][0][:2], ["UNAVAILABLE", "tls"])

    def test_metadata_and_failures(self):
        self.assertEqual(call(self.url, META)[1], b"one")
        (line,), _ = call(self.url, FAIL)
        self.assertEqual((line[0], line[1]), ("INVALID_ARGUMENT", "none"))
        self.assertIn("wrong: 100% of it, äöü", line[4])
        (line,), _ = call(self.url, BUSY)
        self.assertEqual((line[0], line[3]), ("RESOURCE_EXHAUSTED", "1000"))
        self.assertEqual(call(self.url, "/test.Echo/None")[0][0][0], "UNIMPLEMENTED")
        self.assertEqual(call(self.url, BIG)[0][0][:2], ["RESOURCE_EXHAUSTED", "too_large"])

    def test_deadline(self):
        (line,), _ = call(self.url, SLOW, ms=300)
        self.assertEqual(line[0], "DEADLINE_EXCEEDED")

    def test_nobody_there(self):
        self.assertEqual(call("http://127.0.0.1:1", ECHO)[0][0][:2], ["UNAVAILABLE", "connect"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
