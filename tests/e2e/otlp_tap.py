"""Listens in on OTLP: a relay between an agent and a receiver that keeps what the agent sent, byte by byte, and reads it
afterwards as HTTP/1.1 or as gRPC, by code of its own."""
import contextlib
import gzip
import json
import socket
import subprocess
import threading

from google.protobuf import json_format
from otlp_receiver import KINDS
from test_otlp_encodings import with_base64_ids

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
BY_FIELD = {"resource_metrics": "/v1/metrics", "resource_logs": "/v1/logs", "resource_spans": "/v1/traces"}
DATA, PADDED = 0, 8


def unpacked(body, encoding):
    if encoding == "zstd":
        return subprocess.run(["zstd", "-dc"], input=body, stdout=subprocess.PIPE, check=True).stdout
    return gzip.decompress(body) if encoding == "gzip" else body


def message_of(text):
    """The message that a line or body of OTLP's JSON is."""
    kind = {"resourceMetrics": "/v1/metrics", "resourceLogs": "/v1/logs", "resourceSpans": "/v1/traces"}[next(iter(text))]
    return json_format.ParseDict(with_base64_ids(text), KINDS[kind]())


def requests_of_http1(data):
    """(headers, message) of each request of one connection."""
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
        body, data = data[:int(headers["content-length"])], data[int(headers["content-length"]):]
        body = unpacked(body, headers.get("content-encoding"))
        as_json = headers["content-type"] == "application/json"
        yield headers, message_of(json.loads(body)) if as_json else KINDS[first.split()[1]].FromString(body)


def requests_of_http2(data):
    """(whether each is packed, message); the kind of a message follows only from the order of calls, so the caller passes it."""
    if len(data) < len(PREFACE) and PREFACE.startswith(data):
        return  # it was closed before it began
    assert data.startswith(PREFACE)
    at, streams = len(PREFACE), {}
    while at < len(data):
        length, kind, flags = int.from_bytes(data[at:at + 3], "big"), data[at + 3], data[at + 4]
        stream, payload = int.from_bytes(data[at + 5:at + 9], "big"), data[at + 9:at + 9 + length]
        at += 9 + length
        if kind == DATA:
            streams[stream] = streams.get(stream, b"") + (payload[1:-payload[0] or None] if flags & PADDED else payload)
    for stream in sorted(streams):
        body = streams[stream]
        packed, length = body[0], int.from_bytes(body[1:5], "big")
        assert len(body) == 5 + length, "one message a call"
        yield bool(packed), gzip.decompress(body[5:]) if packed else body[5:]


class Tap:
    """Relays a free port to `port`. In a with statement; `sent` has the bytes of each connection."""

    def __init__(self, port):
        self.far, self.sent, self.sockets, self.threads = port, [], [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.far))
                kept = bytearray()
                self.sent.append(kept)
                self.sockets += [near, far]
                self.run(self.pump, near, far, kept)
                self.run(self.pump, far, near, None)

    def run(self, work, *arguments):
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self.threads.append(thread)
        thread.start()

    @staticmethod
    def pump(source, target, kept):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if kept is not None:
                    kept += data
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def requests(self):
        """(headers, message) of all HTTP/1.1 connections."""
        return [request for data in self.sent for request in requests_of_http1(bytes(data))]

    def calls(self):
        """(packed, bytes of the message) of all HTTP/2 connections."""
        return [call for data in self.sent for call in requests_of_http2(bytes(data))]

    def __enter__(self):
        self.run(self.accept)
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for one in self.sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        for one in self.sockets:
            one.close()
