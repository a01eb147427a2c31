"""Targets that misbehave, each in its own way: raw servers on 127.0.0.1, all in threads of the test."""
import gzip
import pathlib
import select
import socket
import ssl
import struct
import subprocess
import threading

TEXT = "Content-Type: text/plain; version=0.0.4\r\n"


def answer(body, fields=TEXT, status="200 OK"):
    body = body.encode() if isinstance(body, str) else body
    return f"HTTP/1.1 {status}\r\n{fields}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Server:
    """One target. `reply(connection, n)` gets the connection after the n-th request (from 1) and writes; what it
    returns is sent. The connection is closed afterwards."""

    def __init__(self, reply, wrap=None):
        self.reply, self.wrap = reply, wrap
        self.requests = 0
        self.stopped = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def url(self):
        return f"{'https' if self.wrap else 'http'}://127.0.0.1:{self.port}/metrics"

    def close(self):
        self.stopped = True
        # A connection wakes the thread; closing alone would not.
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            pass
        self.thread.join(5)
        self.listener.close()

    def _accept(self):
        while not self.stopped:
            connection, _ = self.listener.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            connection.settimeout(30)
            if self.wrap:
                connection = self.wrap(connection)
            head = b""
            while b"\r\n\r\n" not in head:
                got = connection.recv(65536)
                if not got:
                    return
                head += got
                if head.startswith(b"\x16\x03"):  # TLS, which this server does not speak
                    connection.sendall(answer("no", status="400 Bad Request"))
                    return
            if not head.startswith(b"GET /metrics "):  # other requests to an engine: its version, its models
                connection.sendall(answer("no", status="404 No"))
                return
            self.requests += 1
            data = self.reply(connection, self.requests)
            if data:
                connection.sendall(data)
        except (OSError, ssl.SSLError):
            pass  # the agent has every right to leave
        finally:
            connection.close()


def chunk(data):
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def endless(connection, _):
    connection.sendall(f"HTTP/1.1 200 OK\r\n{TEXT}Transfer-Encoding: chunked\r\n\r\n".encode())
    line = 0
    while True:
        block = "".join(f"endless{{line=\"{line + i}\"}} 1\n" for i in range(2000))
        line += 2000
        connection.sendall(chunk(block.encode()))


def drip(connection, _):
    connection.sendall(f"HTTP/1.1 200 OK\r\n{TEXT}Content-Length: 100000\r\n\r\n".encode())
    # Until the agent leaves.
    while not select.select([connection], [], [], 0.05)[0]:
        connection.sendall(b"#")


def silent(connection, _):
    connection.recv(1)


def reset_in_the_middle(family):
    """The counter is at 1000, then the engine dies while it answers, then it is back and counts from 0."""

    def reply(connection, n):
        if n <= 2:
            return answer(f"# TYPE {family} counter\n{family} {1000 + n}\n")
        if n == 3:
            connection.sendall(f"HTTP/1.1 200 OK\r\n{TEXT}Content-Length: 500\r\n\r\n# TYPE".encode())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return None
        return answer(f"# TYPE {family} counter\n{family} {n - 4}\n")

    return reply


def bomb():
    packed = gzip.compress(b"\n" * (200 << 20), 9)
    return answer(packed, TEXT + "Content-Encoding: gzip\r\n")


def million():
    lines = "".join(f"million{{series=\"{i}\"}} {i}\n" for i in range(1_000_000))
    return answer("# TYPE million gauge\n" + lines)


def certificate(folder):
    """A server's self-signed certificate; None where there is no openssl."""
    key, cert = pathlib.Path(folder) / "key.pem", pathlib.Path(folder) / "cert.pem"
    try:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                        "/CN=127.0.0.1", "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return lambda connection: context.wrap_socket(connection, server_side=True)


def always(data):
    return lambda connection, n: data


def bad_servers(family, folder):
    """Name → (server, more options of the target, reasons of gpulens_scrape_errors_total…)."""
    html = "<!doctype html>\n<html><body>\n<h1>Sign in</h1>\n</body></html>\n"
    redirect = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/metrics\r\nContent-Length: 0\r\n\r\n".encode()
    garbage = f"HTTP/1.1 200 OK\r\n{TEXT}Transfer-Encoding: chunked\r\n\r\nnot a length\r\nx 1\r\n".encode()
    bad = {
        "endless": (Server(endless), ", max_body: 1MiB", "too_large"),
        # As large as a page may be: it depends on the machine whether there is time for so much.
        "endless_64": (Server(endless), "", "too_large", "timeout"),
        "drip": (Server(drip), "", "timeout"),
        "silent": (Server(silent), "", "timeout"),
        "million": (Server(always(million())), "", "too_many_samples"),
        "families": (Server(always(answer("".join(f"family_{i} 1\n" for i in range(20_000))))), "", "too_many_families"),
        "bomb": (Server(always(bomb())), "", "too_large"),
        "redirect": (Server(always(redirect)), "", "status"),
        "redirect_to_itself": (Server(always(redirect.replace(b"http://127.0.0.1:1", b""))), "", "status"),
        "html": (Server(always(answer(html, "Content-Type: text/html\r\n"))), "", "content_type"),
        "html_as_text": (Server(always(answer(html))), "", "page"),
        "huge_label": (Server(always(answer(f"{family}{{label=\"{'x' * 200_000}\"}} 1\n"))), "", "page"),
        "huge_line": (Server(always(answer("y" * (2 << 20)))), "", "page"),
        "status_500": (Server(always(answer("no", status="500 No"))), "", "status"),
        "status_404": (Server(always(answer("no", status="404 No"))), "", "status"),
        "status_401": (Server(always(answer("no", status="401 No"))), "", "auth"),
        "chunks": (Server(always(garbage)), "", "protocol"),
        "no_http": (Server(always(b"SSH-2.0-OpenSSH_9.2\r\n")), "", "protocol"),
        "cut": (Server(always(f"HTTP/1.1 200 OK\r\n{TEXT}Content-Length: 500\r\n\r\n# TYPE".encode())), "", "protocol"),
        "nul": (Server(always(answer(b"\0" * 5000))), "", "page"),
    }
    wrap = certificate(folder)
    if wrap:
        bad["certificate"] = (Server(always(answer("a 1\n")), wrap), "", "tls")
    plain = Server(always(answer("a 1\n")))
    plain.url = lambda: f"https://127.0.0.1:{plain.port}/metrics"
    bad["no_tls"] = (plain, "", "tls")
    return bad
