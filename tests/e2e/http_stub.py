"""A small HTTP server for tests: a function returns the answers."""
import contextlib
import http.server
import threading


class HttpStub:
    """`answer(request, body)` gives (status, headers, body) of each GET and POST; `request` has path and headers.

    Listens on 127.0.0.1, on a free port or on `port`, with TLS where `tls` is an SSLContext, and answers in a with statement. With
    HTTP/1.1 connections stay open, and are answered beyond the end of it.
    """

    def __init__(self, answer, port=0, protocol="HTTP/1.0", tls=None):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = protocol

            def do_GET(self):
                status, headers, body = answer(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                with contextlib.suppress(OSError):  # the client may have left
                    self.end_headers()
                    self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.port = self._server.server_port
        self.origin = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextlib.contextmanager
def serve_page(page, kind="text/plain; version=0.0.4"):
    """Serves what `page()` returns, at any path; the address is the value of the with statement."""
    with HttpStub(lambda *_: (200, {"Content-Type": kind}, page().encode())) as stub:
        yield stub.origin + "/metrics"
