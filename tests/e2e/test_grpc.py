"""Our gRPC client and server with Google's own, both ways.

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
TIMEOUT = 60

try:
    import grpc
except ImportError:
    grpc = None

ECHO, FAIL, BUSY, SLOW, BIG, META = ("/test.Echo/" + name for name in ("Echo", "Fail", "Busy", "Slow", "Big", "Meta"))
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
        act = {ECHO: self.echo, FAIL: self.fail, BUSY: self.busy, SLOW: self.slow, BIG: self.big, META: self.meta}
        act = act.get(details.method)
        return grpc.unary_unary_rpc_method_handler(act) if act else None

    def echo(self, request, _context):
        return request

    def meta(self, _request, context):
        return dict(context.invocation_metadata()).get("x-test", "").encode()

    def fail(self, _request, context):
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "wrong: 100% of it, äöü")

    def busy(self, _request, context):
        context.set_trailing_metadata((("grpc-status-details-bin", BUSY_DETAILS),))
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy")

    def slow(self, request, _context):
        self.release.wait(TIMEOUT)
        return request

    def big(self, _request, _context):
        return b"x" * (5 << 20)


def call(url, path, message=b"", **options):
    """Our client: the lines it prints, split, and the last answer's bytes."""
    with tempfile.NamedTemporaryFile() as answer:
        words = [f"{key}={value}" for key, value in options.items()]
        done = subprocess.run([PAIR, "call", url, path, f"answer={answer.name}", *words], input=message,
                              stdout=subprocess.PIPE, timeout=TIMEOUT, check=True)  # fmt: skip
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
        self.server.stop(None).wait(TIMEOUT)
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

    def test_no_server(self):
        self.assertEqual(call("http://127.0.0.1:1", ECHO)[0][0][:2], ["UNAVAILABLE", "connect"])


BYTES = {"request_serializer": bytes, "response_deserializer": bytes}


@unittest.skipUnless(grpc, "the Python package grpcio is not here")
@unittest.skipUnless(os.path.exists(PAIR), "grpc_pair is not built")
class OurServer(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.channels = []
        self.serve("127.0.0.1:0")

    def serve(self, address, **options):
        words = [f"{key}={value}" for key, value in options.items()]
        self.process = subprocess.Popen([PAIR, "serve", address, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()

    def again(self, address, **options):
        self.end()
        self.serve(address, **options)

    def end(self):
        for channel in self.channels:
            channel.close()
        self.channels = []
        self.process.stdin.close()
        self.assertEqual(self.process.wait(TIMEOUT), 0)
        self.process.stdout.close()

    def tearDown(self):
        self.end()
        self.folder.cleanup()

    def channel(self, credentials=None, **options):
        options = [(f"grpc.{key}", value) for key, value in {"max_receive_message_length": 64 << 20, **options}.items()]
        made = grpc.secure_channel(self.address, credentials, options) if credentials else grpc.insecure_channel(self.address, options)
        self.channels.append(made)
        return made

    def failure(self, call, *arguments, **options):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*arguments, timeout=TIMEOUT, **options)
        return caught.exception

    def test_echo_in_many_sizes_and_at_once(self):
        channel = self.channel()
        echo, late = channel.unary_unary(ECHO, **BYTES), channel.unary_unary("/test.Echo/Late", **BYTES)
        for size in (0, 1, 70_000, 4 << 20):
            message = os.urandom(size)
            self.assertEqual(echo(message, timeout=TIMEOUT), message)
        messages = [os.urandom(1000 * i) for i in range(200)]
        futures = [late.future(message, timeout=TIMEOUT) for message in messages]
        self.assertEqual([future.result() for future in futures], messages)

    def test_gzip_and_its_limits(self):
        channel = self.channel()
        echo = channel.unary_unary(ECHO, **BYTES)
        message = b"abc" * 1_000_000
        self.assertEqual(echo(message, timeout=TIMEOUT, compression=grpc.Compression.Gzip), message)
        error = self.failure(echo, bytes(40 << 20), compression=grpc.Compression.Gzip)
        self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertIn("uncompressed", error.details())
        self.assertEqual(self.failure(echo, b"x" * 100, compression=grpc.Compression.Deflate).code(), grpc.StatusCode.UNIMPLEMENTED)
        error = self.failure(echo, os.urandom(5 << 20))
        self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertEqual(echo(b"still", timeout=TIMEOUT), b"still")

    def test_failures_and_metadata(self):
        channel = self.channel()
        error = self.failure(channel.unary_unary(BUSY, **BYTES), b"")
        self.assertEqual((error.code(), error.details()), (grpc.StatusCode.RESOURCE_EXHAUSTED, "busy: 100% öäü"))
        details = dict(error.trailing_metadata())["grpc-status-details-bin"]
        self.assertIn(b"google.rpc.RetryInfo", details)
        self.assertEqual(self.failure(channel.unary_unary("/test.Echo/None", **BYTES), b"").code(), grpc.StatusCode.UNIMPLEMENTED)
        meta = channel.unary_unary(META, **BYTES)
        self.assertEqual(meta(b"", timeout=TIMEOUT, metadata=(("x-test", "one"),)), b"one")
        error = self.failure(meta, b"", metadata=(("x-test", "y" * 20_000),))
        self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        with self.assertRaises(grpc.RpcError) as caught:
            channel.unary_unary("/test.Echo/Never", **BYTES)(b"", timeout=0.3)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)

    def test_unix_socket_and_tls_with_a_password(self):
        self.again(f"unix:{self.folder.name}/s")
        self.assertEqual(self.channel().unary_unary(ECHO, **BYTES)(b"x", timeout=TIMEOUT), b"x")
        cert, key = certificate(self.folder.name)
        web = pathlib.Path(self.folder.name, "web.yml")
        # The password is "secret".
        web.write_text(f"tls_server_config: {{cert_file: {cert}, key_file: {key}}}\n"
                       "basic_auth_users: {ann: $2b$04$aSG/mQMl0g2fEWOi86DeBOD94EHJF6JR5ZyjqD7d8aRnq/Lh2jY7W}\n", encoding="utf-8")
        self.again("127.0.0.1:0", web=str(web))
        rules = grpc.ssl_channel_credentials(pathlib.Path(cert).read_bytes())
        echo = self.channel(rules).unary_unary(ECHO, **BYTES)
        self.assertEqual(self.failure(echo, b"x").code(), grpc.StatusCode.UNAUTHENTICATED)
        header = (("authorization", "Basic YW5uOnNlY3JldA=="),)
        self.assertEqual(echo(b"x", timeout=TIMEOUT, metadata=header), b"x")
        wrong = (("authorization", "Basic YW5uOndyb25n"),)
        self.assertEqual(self.failure(echo, b"x", metadata=wrong).code(), grpc.StatusCode.UNAUTHENTICATED)

    def test_an_orderly_end_finishes_calls(self):
        channel = self.channel()
        self.assertEqual(channel.unary_unary(ECHO, **BYTES)(b"x", timeout=TIMEOUT), b"x")
        never = channel.unary_unary("/test.Echo/Never", **BYTES).future(b"x", timeout=TIMEOUT)
        self.process.stdin.close()
        self.assertEqual(self.process.wait(TIMEOUT), 0)
        self.assertIsNotNone(never.exception(TIMEOUT))
        self.process.stdout.close()
        self.process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def test_an_http_1_client_gets_an_error(self):
        done = subprocess.run(["curl", "-s", "--http1.1", f"http://{self.address}/"], stdout=subprocess.PIPE, timeout=TIMEOUT, check=False)
        self.assertIn(b"gRPC", done.stdout)
        done = subprocess.run(["curl", "-s", "--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{http_code}", f"http://{self.address}/"],
                              stdout=subprocess.PIPE, timeout=TIMEOUT, check=False)  # fmt: skip
        self.assertEqual(done.stdout, b"405")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
