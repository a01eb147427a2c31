"""VictoriaMetrics, and a receiver in front of it that can be killed and can misbehave.

VictoriaMetrics answers 2xx before it has written what it got: by default it does so within 5 s. Samples that it has answered for and
then lost when it was killed are its loss, not the sender's. So the front keeps what was answered in the last minute; when
VictoriaMetrics was killed and is back, the samples that it lost are queried and counted, and then sent again. Nothing that the
front was not sent before can come into the database this way.
"""
import collections
import http.client
import http.server
import socket
import struct
import threading
import time

import go_peers
from agent import free_port
from ticking_page import of_otlp, of_remote_write, series_of

REMEMBERED_S = 60
FAULTS = ("away", "hang", "busy", "lost", "garbage")
DECODERS = {"/api/v1/write": ("remote_write", of_remote_write), "/opentelemetry/v1/metrics": ("otlp", of_otlp)}


class Victoria(go_peers.VictoriaMetrics):
    """It is skipped where it is not built."""

    def __init__(self):
        super().__init__("-memory.allowedBytes=256MiB")

    def start_again(self):
        self.__enter__()

    def kill(self):
        self.process.kill()
        self.process.wait(30)

    def request(self, method, path, body=None, headers=None):
        """(status, body); status 0: there was no answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def samples(self, via):
        """{(series, milliseconds): {value, …}} of what came by one sink; a set, since a sample may come twice."""
        assert self.request("GET", "/internal/force_flush")[0] == 200
        found = collections.defaultdict(set)
        for labels, numbers in self.export('{__name__=~"soak_.+",via="' + via + '"}'):
            series = series_of(labels["__name__"], labels.get("le", ""))
            for ms, number in numbers:
                found[series, ms].add(number)
        return found


class Front:
    """The receiver of the agent. `mode` is good or one of FAULTS; every call but those of its own threads comes from one thread."""

    def __init__(self, victoria):
        self.victoria, self.port, self.mode = victoria, free_port(), "good"
        self.changed = threading.Condition()
        self.answered = collections.deque()  # (when, path, headers, body): VictoriaMetrics answered 2xx
        self.requests, self.lost_by_victoria, self.server = collections.Counter(), 0, None

    def set(self, mode):
        was, self.mode = self.mode, mode
        if mode == "away":
            self.close()
        elif was == "away" or self.server is None:
            self.open()
        with self.changed:
            self.changed.notify_all()

    def open(self):
        front = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                front.take(self, self.rfile.read(int(self.headers["Content-Length"])))

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads, allow_reuse_address = True, True

            def handle_error(self, *_):
                pass  # one of the two sides was killed

        self.server = Server(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self):
        if self.server:
            self.server.shutdown()
            self.server.server_close()
        self.server = None

    def take(self, handler, body):
        mode = self.mode
        if mode == "away":  # a connection that is still open
            return self.cut(handler, mode)
        if mode == "hang":
            with self.changed:
                self.changed.wait_for(lambda: self.mode != "hang", 60)
            return self.cut(handler, mode)
        if mode == "garbage":
            handler.wfile.write(b"\x00\xff\r\nno answer of HTTP")
            return self.cut(handler, mode)
        if mode == "busy":
            return self.answer(handler, 503, mode)
        headers = {key: value for key, value in handler.headers.items() if key.startswith(("Content-", "X-"))}
        status, reply = self.victoria.request("POST", handler.path, body, headers)
        if status // 100 == 2:
            with self.changed:
                self.answered.append((time.monotonic(), handler.path, headers, body))
                while self.answered[0][0] < time.monotonic() - REMEMBERED_S:
                    self.answered.popleft()
        if mode == "lost":  # it was taken, and the sender does not learn of it
            return self.cut(handler, mode)
        return self.answer(handler, status or 503, str(status), reply)

    def answer(self, handler, status, what, reply=b""):
        self.requests[what] += 1
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(reply)))
        handler.end_headers()
        handler.wfile.write(reply)

    def cut(self, handler, what):
        self.requests[what] += 1
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.close_connection = True

    def kill_victoria(self, pause):
        """Ends VictoriaMetrics with SIGKILL; acknowledged samples that it lost are counted and sent again."""
        self.victoria.kill()
        pause()
        self.victoria.start_again()
        with self.changed:
            again = list(self.answered)
        there = {via: self.victoria.samples(via) for via, _ in DECODERS.values()}
        for _, path, headers, body in again:
            via, decode = DECODERS[path]
            self.lost_by_victoria += sum(value not in there[via].get(key, ()) for key, value in decode(body).items())
            status, reply = self.victoria.request("POST", path, body, headers)
            assert status // 100 == 2, reply
