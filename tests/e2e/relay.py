"""A TCP relay between a sink and its receiver that injects faults of networks and foreign servers, for any protocol."""
import contextlib
import socket
import ssl
import struct
import threading

from agent import free_port

GARBAGE = b"\x00\xffSSH-2.0-another protocol than yours\r\n\r\n" * 20


class Relay:
    """Listens on `port` for the receiver at `target`. In a with statement. `act` puts another fault in force, also on the connections
    that are there:

    good     bytes go to and fro
    away     nothing listens
    hang     what comes is read, nothing is answered
    garbage  whatever comes is answered with bytes of another protocol
    reset    each connection is reset when its first bytes come
    """

    def __init__(self, target, certificate=None):
        self.target, self.mode, self.listener, self.open, self.lock = target, "away", None, set(), threading.Lock()
        self.tls = None
        if certificate:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(*certificate)
            self.tls.set_alpn_protocols(["h2", "http/1.1"])
        self.port = free_port()

    def __enter__(self):
        self.act("good")
        return self

    def __exit__(self, *_):
        self.act("away")

    def act(self, mode):
        self.mode = mode
        if mode == "away" and self.listener:
            with contextlib.suppress(OSError):
                self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
            self.listener = None
        with self.lock:
            ended, self.open = self.open, set()
        for connection in ended:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if mode != "away" and not self.listener:
            self.listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
            threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def accept(self, listener):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with self.lock:
                    self.open.add(connection)
                threading.Thread(target=self.serve, args=(connection, self.mode), daemon=True).start()

    def serve(self, connection, mode):
        with contextlib.suppress(OSError), connection:
            if self.tls and mode == "good":
                with self.lock:
                    self.open.discard(connection)
                connection = self.tls.wrap_socket(connection, server_side=True)
                with self.lock:
                    self.open.add(connection)
            if mode == "good":
                return self.pair(connection)
            while connection.recv(65536):
                if mode == "garbage":
                    connection.sendall(GARBAGE)
                    return None
                if mode == "reset":
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return None
        return None

    def pair(self, connection):
        with socket.create_connection(self.target) as receiver, connection:
            back = threading.Thread(target=self.copy, args=(receiver, connection), daemon=True)
            back.start()
            self.copy(connection, receiver)
            back.join()

    @staticmethod
    def copy(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
