"""The page of all workers of gunicorn and uvicorn, from PyPI (tools/requirements.txt). Run by in_venv.py --servers."""
import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import urllib.request

APP = """
import os
import gpulens

requests = gpulens.Counter("requests")
seconds = gpulens.Histogram("request.duration", unit="s")
PAGE = os.environ.get("PAGE_AT")
if PAGE:
    page = gpulens.expose(PAGE, workers=True)
metrics = {"wsgi": gpulens.wsgi_app, "asgi": gpulens.asgi_app}[os.environ["KIND"]](workers=True)

def answer():
    requests.add(1, {"route": "/work"})
    seconds.record(0.01)
    return str(os.getpid()).encode()

def wsgi(environ, start_response):
    if environ["PATH_INFO"] == "/metrics":
        return metrics(environ, start_response)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [answer()]

async def asgi(scope, receive, send):
    if scope["type"] != "http" or scope["path"] == "/metrics":
        return await metrics(scope, receive, send)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
    await send({"type": "http.response.body", "body": answer()})
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(address):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(address, headers={"Connection": "close"}), timeout=20) as answer:
        return answer.read().decode()


def eventually(call, seconds=60):
    until = time.monotonic() + seconds
    while True:
        try:
            return call()
        except (OSError, AssertionError):
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def counts(page):
    found = dict(re.findall(r"^(requests_total|request_duration_seconds_count)(?:{[^}]*})? (\d+)$", page, re.M))
    return [int(found.get(name, 0)) for name in ("requests_total", "request_duration_seconds_count")]


class Servers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.joinpath("served.py").write_text(textwrap.dedent(APP))

    @contextlib.contextmanager
    def serve(self, *command, kind, **environment):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("GPULENS_", "OTEL_"))}
        with open(self.folder / "log", "wb") as log:
            server = subprocess.Popen([sys.executable, "-m", *command], cwd=self.folder, stdout=log, stderr=log,
                                      env={**clean, "KIND": kind, **environment})
        try:
            yield server
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()

    def log(self):
        return self.folder.joinpath("log").read_text(errors="replace")[-3000:]

    def work(self, base, requests):
        """So many requests by four clients; the workers that answered."""
        pids, lock, left = set(), threading.Lock(), [requests]

        def client():
            while True:
                with lock:
                    if not left[0]:
                        return
                    left[0] -= 1
                pid = int(eventually(lambda: get(base + "/work"), 20))
                with lock:
                    pids.add(pid)

        clients = [threading.Thread(target=client) for _ in range(4)]
        for one in clients:
            one.start()
        for one in clients:
            one.join()
        return pids

    def check(self, base, requests):
        """The page has so many requests, whichever worker answers."""
        for _ in range(12):
            self.assertEqual(counts(get(base + "/metrics")), [requests, requests], self.log())

    def run_server(self, *command, kind, port):
        base = f"http://127.0.0.1:{port}"
        with self.serve(*command, kind=kind):
            eventually(lambda: get(base + "/metrics"))
            done, pids = 0, set()
            while len(pids) < 2 and done < 4000:  # so that more than one worker has counted
                pids |= self.work(base, 200)
                done += 200
            self.assertGreaterEqual(len(pids), 2)
            self.check(base, done)
            os.kill(pids.pop(), signal.SIGKILL)
            eventually(lambda: self.check(base, done))
            self.work(base, 200)
            self.check(base, done + 200)

    def test_gunicorn(self):
        port = free_port()
        self.run_server("gunicorn", "-w", "4", "-b", f"127.0.0.1:{port}", "served:wsgi", kind="wsgi", port=port)

    def test_gunicorn_preload(self):
        port = free_port()
        self.run_server("gunicorn", "--preload", "-w", "4", "-b", f"127.0.0.1:{port}", "served:wsgi", kind="wsgi", port=port)

    def test_uvicorn(self):
        port = free_port()
        self.run_server("uvicorn", "--workers", "4", "--port", str(port), "served:asgi", kind="asgi", port=port)

    def test_gunicorn_recycles_its_workers(self):
        port, page = free_port(), free_port()
        base, at = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{page}"
        command = ["gunicorn", "-w", "2", "--max-requests", "10", "-b", f"127.0.0.1:{port}", "served:wsgi"]
        with self.serve(*command, kind="wsgi", PAGE_AT=f"127.0.0.1:{page}"):
            eventually(lambda: get(base + "/metrics"))
            pids = self.work(base, 300)
            self.assertGreaterEqual(len(pids), 10, self.log())
            self.check(base, 300)
            # The port of expose() has always a worker that serves it.
            self.assertEqual(counts(eventually(lambda: get(at + "/metrics"))), [300, 300])


if __name__ == "__main__":
    unittest.main()
