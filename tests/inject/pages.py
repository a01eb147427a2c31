"""Takes job pages as the agent does: a SEQPACKET socket to which libraries inside jobs hand the descriptor of their page.
Needs the Python of the system alone, and the program job_page_dump; for tests and for sessions on GPU machines."""

import json
import os
import socket
import struct
import subprocess
import threading

WRITERS = {1: "nccl", 2: "cuda", 3: "program"}


class Pages:
    """Listens at `path` until close(). `dump` is the program job_page_dump."""

    def __init__(self, path, dump):
        self.path, self.dump = path, dump
        self._lock = threading.Lock()
        self._held = []  # (connection, descriptor, writer)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(path)
        self._socket.listen(64)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._socket.accept()
                connection.settimeout(5)
                data, files, _, _ = socket.recv_fds(connection, 64, 4)
            except OSError:
                return
            if len(data) != 16 or len(files) != 1:
                for file in files:
                    os.close(file)
                continue
            with self._lock:
                self._held.append((connection, files[0], struct.unpack("=QII", data)[2]))

    def read(self, writer=None):
        """All pages as job_page_dump prints them, with "kind", in the order of their coming."""
        with self._lock:
            held = list(self._held)
        pages = []
        for _, file, number in held:
            if writer is not None and WRITERS.get(number) != writer:
                continue
            done = subprocess.run([self.dump, f"/proc/self/fd/{file}"], pass_fds=[file], capture_output=True, timeout=30)
            if done.returncode:
                raise RuntimeError(done.stderr.decode())
            page = json.loads(done.stdout)
            page["kind"] = WRITERS.get(number, str(number))
            pages.append(page)
        return pages

    def set_level(self, level, writer=None):
        """Writes the wanted level into the pages, as the agent does. `level`: 0 off, 1 count, 2 time, 4 profile."""
        with self._lock:
            held = list(self._held)
        for _, file, number in held:
            if writer is None or WRITERS.get(number) == writer:
                os.pwrite(file, struct.pack("=I", level), WANTED_LEVEL)

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)  # wakes accept
        self._thread.join(5)
        self._socket.close()
        os.unlink(self.path)
        with self._lock:
            for connection, file, _ in self._held:
                connection.close()
                os.close(file)
            self._held.clear()


# Of Header: magic, layout, writer, size, pid, user, start, opened, two texts of 32 bytes.
WANTED_LEVEL = 8 + 4 + 4 + 8 + 4 + 4 + 8 + 8 + 32 + 32
