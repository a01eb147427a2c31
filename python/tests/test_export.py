"""gpulens.export: that numbers arrive is shown here; what the wire looks like, by the tests of the repository."""
import gc
import http.server
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

import gpulens
from gpulens import Counter, Registry

HERE = "127.0.0.1:0"


def get(address, accept="text/plain"):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(address, headers={"Accept": accept}), timeout=20) as answer:
        return answer.read().decode(), answer.headers["Content-Type"]


class Receiver:
    """Takes OTLP over HTTP, on a port or at a Unix socket; keeps what was sent."""

    def __init__(self, status=200, path=None):
        self.bodies, self.got = [], threading.Semaphore(0)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                outer.bodies.append((self.path, self.headers["Content-Type"], self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()
                outer.got.release()

            def address_string(self):
                return "a program"

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            address_family = socket.AF_UNIX if path else socket.AF_INET
            daemon_threads = True

            def server_bind(self):
                self.socket.bind(self.server_address)
                self.server_name, self.server_port = "receiver", 0 if path else self.socket.getsockname()[1]

        self.server = Server(path or ("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"


class Pages(unittest.TestCase):
    def test_a_page_to_scrape(self):
        registry = Registry()
        counter = Counter("app.requests", unit="{request}", registry=registry)
        counter.bind(route="/chat").add(3)
        with gpulens.expose(HERE, registry=registry) as page:
            self.assertRegex(page.address, r"^http://127\.0\.0\.1:\d+/metrics$")
            text, kind = get(page.address)
            self.assertIn('app_requests_total{route="/chat"', text)
            self.assertIn("text/plain", kind)
            counter.bind(route="/chat").add(1)
            self.assertRegex(get(page.address)[0], r'app_requests_total\{route="/chat"[^}]*\} 4\b')
            self.assertTrue(page.ok)
            page.flush()
            address = page.address
        with self.assertRaises(OSError):  # refused, or reset while the socket goes
            get(address)
        self.assertEqual((page.ok, page.reason), (False, "the exporter is closed"))
        page.close()

    def test_it_exports_without_a_reference(self):
        registry = Registry()
        Counter("kept", registry=registry).add(1)
        address = gpulens.expose(HERE, registry=registry).address
        gc.collect()
        self.assertIn("kept_total", get(address)[0])

    def test_as_text(self):
        registry = Registry()
        Counter("joules", unit="J", registry=registry).add(2)
        self.assertRegex(gpulens.to_prometheus(registry), r"(?m)^joules_joules_total 2$|^joules_total 2$")
        self.assertIsInstance(gpulens.to_prometheus(), str)

    def test_what_is_refused(self):
        with self.assertRaises(gpulens.InvalidArgumentError):
            gpulens.expose("0.0.0.0:0")
        with self.assertRaises(gpulens.InvalidArgumentError):
            gpulens.expose("nowhere")
        with gpulens.expose(HERE) as page:
            port = page.address.rsplit(":", 1)[1].split("/")[0]
            with self.assertRaises((OSError, gpulens.Error)):
                gpulens.expose(f"127.0.0.1:{port}")


class Otlp(unittest.TestCase):
    def test_arrives(self):
        registry = Registry()
        Counter("app.requests", registry=registry).add(7)
        with Receiver() as receiver, gpulens.export_otlp(receiver.url, headers={"x-tenant": "a"}, registry=registry) as exporter:
            exporter.flush()
            path, kind, body = receiver.bodies[-1]
        self.assertEqual((path, kind), ("/v1/metrics", "application/x-protobuf"))
        self.assertIn(b"app.requests", body)

    def test_the_last_numbers_are_sent_at_the_end(self):
        registry = Registry()
        counter = Counter("app.requests", registry=registry)
        with Receiver() as receiver:
            with gpulens.export_otlp(receiver.url, interval_seconds=3600, registry=registry):
                counter.add(1)
            self.assertTrue(receiver.got.acquire(timeout=20))
            self.assertIn(b"app.requests", receiver.bodies[-1][2])

    def test_at_the_end_of_the_program(self):
        code = "import gpulens, sys; gpulens.export_otlp(sys.argv[1], interval_seconds=3600); gpulens.Counter('parting').add(1)"
        with Receiver() as receiver:
            subprocess.run([sys.executable, "-c", code, receiver.url], check=True, timeout=60)
            self.assertTrue(any(b"parting" in body for _, _, body in receiver.bodies))

    def test_without_a_line_of_code(self):
        code = "import gpulens; gpulens.Counter('unasked').add(1)"
        with Receiver() as receiver:
            env = {**os.environ, "GPULENS_EXPORT": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
            subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=env)
            self.assertTrue(any(b"unasked" in body for _, _, body in receiver.bodies))

    def test_an_absent_receiver(self):
        with Receiver() as receiver:
            url = receiver.url
        registry = Registry()
        Counter("app.requests", registry=registry).add(1)
        with gpulens.export_otlp(url, interval_seconds=3600, registry=registry) as exporter:
            with self.assertRaises(gpulens.Error):
                exporter.flush(timeout_seconds=5)
            self.assertFalse(exporter.ok)
            self.assertTrue(exporter.reason)

    def test_what_is_refused(self):
        for options in ({"endpoint": "no address"}, {"protocol": "carrier pigeon"}, {"interval_seconds": 0}):
            with self.assertRaises(gpulens.InvalidArgumentError, msg=options):
                gpulens.export_otlp(**{"endpoint": "http://127.0.0.1:1", **options})


class Secure(unittest.TestCase):
    """TLS and gRPC; that they arrive is shown by otlp_secure.py."""

    PACKAGE = pathlib.Path(gpulens.__file__).parent
    SECURE = ({"endpoint": "https://127.0.0.1:1"}, {"endpoint": "http://127.0.0.1:1", "protocol": "grpc"})

    @unittest.skipUnless((PACKAGE / "lib/libgpulens_secure.so").exists(), "the package was built without TLS and gRPC")
    def test_they_try(self):
        registry = Registry()
        Counter("app.requests", registry=registry).add(1)
        for options in self.SECURE:
            with gpulens.export_otlp(**options, registry=registry) as exporter:
                with self.assertRaisesRegex(gpulens.UnavailableError, "refused"):
                    exporter.flush()

    def test_a_package_without_them_reports_what_to_do(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(self.PACKAGE, pathlib.Path(folder, "gpulens"), ignore=shutil.ignore_patterns("lib", "__pycache__"))
            for options in self.SECURE:
                code = f"import gpulens\ntry: gpulens.export_otlp(**{options})\nexcept gpulens.UnavailableError as e: print(e)"
                env = {**os.environ, "PYTHONPATH": folder}
                done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=60)
                self.assertIn("libssl-dev libnghttp2-dev", done.stdout, done.stderr)

    def test_only_secure_exports_load_openssl(self):
        code = ("import gpulens; gpulens.Counter('a').add(1); gpulens.export_otlp('http://127.0.0.1:1').close();"
                "print('libssl' in open('/proc/self/maps').read())")  # fmt: skip
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        self.assertEqual(done.stdout.strip(), "False")


class Agent(unittest.TestCase):
    def test_at_its_socket(self):
        registry = Registry()
        Counter("app.requests", registry=registry).add(1)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "otlp.sock")
            with Receiver(path=path) as receiver, gpulens.export_to_agent(path, registry=registry) as exporter:
                exporter.flush()
                self.assertIn(b"app.requests", receiver.bodies[-1][2])
                self.assertTrue(exporter.ok)

    def test_no_agent(self):
        registry = Registry()
        Counter("app.requests", registry=registry).add(1)
        with gpulens.export_to_agent("/nonexistent/otlp.sock", registry=registry) as exporter:
            with self.assertRaises(gpulens.UnavailableError):
                exporter.flush()
            self.assertIn("/nonexistent/otlp.sock", exporter.reason)


if __name__ == "__main__":
    unittest.main()
