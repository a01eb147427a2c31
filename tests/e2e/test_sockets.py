"""Sockets of the service manager: the agent takes them over for its addresses, and a restart loses no connection."""
import asyncio
import contextlib
import http.client
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

from agent import ROOT, Agent, free_port, value, wait_until

try:
    import websockets
except ImportError:
    websockets = None

# As systemd starts a service: the sockets from descriptor 3 on, and the pid of the process that becomes the agent.
START = """
import fcntl, os, sys
count, arguments = int(sys.argv[1]), sys.argv[2:]
fds = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 200) for fd in arguments[:count]]
for place, fd in enumerate(fds):
    os.dup2(fd, 3 + place, inheritable=True)
os.closerange(3 + count, 400)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(count), LISTEN_FDNAMES=":".join(["gpulens.socket"] * count))
os.execv(arguments[count], arguments[count:])
"""


def listening(port):
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    made.listen(100)
    return made


class Manager(Agent):
    """An agent that inherits the sockets of its page, of its WebSocket stream, and those in `more`."""

    def __init__(self, *arguments, more=(), served=True, **options):
        super().__init__(*arguments, **options)
        self.sockets = ([listening(self.port), listening(self.ws_port)] if served else []) + list(more)

    def start(self):
        fds = [one.fileno() for one in self.sockets]
        words = [sys.executable, "-c", START, str(len(fds)), *map(str, fds), *self.arguments]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(words, env=self.environment, stderr=log, stdout=subprocess.DEVNULL, pass_fds=fds)

    def __enter__(self):
        self.start()
        wait_until(self.answers, 20, "a first page")
        return self

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self.close()

    def close(self):
        for one in self.sockets:
            one.close()

    def stop(self):
        """Ends the agent; its sockets stay open."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(10) == 0, self.log_text()

    def inodes(self):
        """Sockets that are open in the agent."""
        folder = pathlib.Path(f"/proc/{self.process.pid}/fd")
        return [os.stat(file).st_ino for file in folder.iterdir() if os.readlink(file).startswith("socket:")]


class Sockets(unittest.TestCase):
    def test_they_are_served_and_kept_by_a_reload(self):
        with Manager(config="interval: 200ms\n") as agent:
            for one in agent.sockets:
                self.assertIn(os.fstat(one.fileno()).st_ino, agent.inodes())
            agent.reload("interval: 250ms\n")
            self.assertTrue(agent.answers())
            if websockets:
                asyncio.run(self.frame(agent.ws_port))

    @staticmethod
    async def frame(port):
        async with websockets.connect(f"ws://127.0.0.1:{port}/") as stream:
            await asyncio.wait_for(stream.recv(), 10)

    def test_a_restart_loses_no_connection(self):
        with Manager(config="interval: 200ms\n") as agent:
            busy = http.client.HTTPConnection("127.0.0.1", agent.port, timeout=30)
            busy.request("GET", "/-/ready")
            self.assertEqual(busy.getresponse().read(), b"ready\n")
            agent.stop()
            waiting = []
            for _ in range(20):  # while no agent runs
                connection = http.client.HTTPConnection("127.0.0.1", agent.port, timeout=30)
                connection.request("GET", "/metrics")
                waiting.append(connection)
            agent.start()
            for connection in waiting:
                answer = connection.getresponse()
                # 503: nothing has been read yet.
                self.assertIn(answer.status, (200, 503))
                answer.read()
                connection.close()
            busy.close()
            wait_until(agent.answers, 20, "a page of the second agent")

    def refused(self, agent):
        agent.start()
        self.addCleanup(agent.process.kill)
        code = agent.process.wait(20)
        return code, agent.log_text()

    def test_an_address_that_is_not_configured_is_refused(self):
        port = free_port()
        agent = Manager(more=[listening(port)])
        self.addCleanup(agent.close)
        code, log = self.refused(agent)
        self.assertEqual(code, 2)
        self.assertIn(f"127.0.0.1:{port} (gpulens.socket), at which nothing of the configuration listens", log)

    def test_what_is_no_listening_socket_is_refused(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.bind(("127.0.0.1", 0))
            agent = Manager(more=[datagrams], served=False)
            code, log = self.refused(agent)
        self.assertEqual(code, 2)
        self.assertIn("descriptor 3 (gpulens.socket): it is no listening stream socket", log)

    def test_a_reload_cannot_leave_one_without_a_listener(self):
        config = "interval: 200ms\nhttp: {listen: ['127.0.0.1:%d'%s]}\n"
        agent = Manager()
        agent.arguments = [word for word in agent.arguments if word not in ("--http-listen", f"127.0.0.1:{agent.port}")]
        second = free_port()
        agent.sockets.append(listening(second))
        agent.config.write_text(config % (agent.port, f", '127.0.0.1:{second}'"))
        with agent:
            agent.config.write_text(config % (agent.port, ""))
            answer = agent.get("/-/reload", "POST")
            self.assertEqual(answer.status, 500)
            self.assertIn(f"127.0.0.1:{second} is a socket of the service manager", answer.text.decode())
            wait_until(lambda: value(agent.page(), "gpulens_config_reloads_total", result="rejected") == 1, 10, "the count")
            agent.port, first = second, agent.port
            self.assertTrue(agent.answers(), "still served")
            agent.port = first

    def test_the_file_of_a_unix_socket_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/page.sock"
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(path)
                made.listen(10)
                agent = Manager(more=[made], served=False)
                agent.arguments = [word for word in agent.arguments if word not in ("--http-listen", f"127.0.0.1:{agent.port}")]
                agent.config.write_text(f"http: {{listen: ['unix:{path}']}}\n")
                agent.answers = lambda: answers(path)
                with agent:
                    pass
                self.assertTrue(os.path.exists(path))

    def test_the_shipped_unit_has_the_default_addresses(self):
        unit = (ROOT / "deploy/gpulens.socket").read_text()
        listen = [line.removeprefix("ListenStream=") for line in unit.splitlines() if line.startswith("ListenStream=")]
        schema = subprocess.run([Agent().arguments[0], "config", "print"], stdout=subprocess.PIPE, text=True, check=True,
                                env={"PATH": os.environ["PATH"], "GPULENS_CONFIG": os.devnull}).stdout  # fmt: skip
        for address in listen:
            self.assertIn(address, schema)
        self.assertEqual(len(listen), 4)


def answers(path):
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(path)
        client.sendall(b"GET /-/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return client.recv(100).startswith(b"HTTP/1.1 200")
    return False


if __name__ == "__main__":
    unittest.main()
