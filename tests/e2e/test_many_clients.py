"""10,000 slow and half-open connections, on this machine's loopback alone, do not delay other clients."""
import resource
import socket
import time
import unittest

from agent import Agent, samples, wait_until

CONNECTIONS = 10_000
AT_ONCE = 1_500  # held by this test, far above the server's own limit of 512


class ManyClients(unittest.TestCase):
    def setUp(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = AT_ONCE + 200
        if soft < wanted:
            if hard != resource.RLIM_INFINITY and hard < wanted:
                self.skipTest(f"only {hard} file descriptors allowed")
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

    def hold_connections(self, agent, port, half):
        """Opens CONNECTIONS one after the other, holds the newest, and scrapes after every 500."""
        held, slowest = [], 0.0
        for i in range(CONNECTIONS):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
            held.append(client)
            if i % 50 == 0:
                for slow in held[-50:]:
                    try:
                        slow.send(half)
                    except OSError:
                        pass
            if len(held) > AT_ONCE:
                held.pop(0).close()
            if i % 500 == 499:
                begin = time.monotonic()
                page = agent.page()
                slowest = max(slowest, time.monotonic() - begin)
                self.assertTrue(samples(page, "gpulens_collector_up"), "never an empty page")
        for client in held:
            client.close()
        return slowest

    def test_half_open_requests_on_9091(self):
        with Agent() as agent:
            self.assertLess(self.hold_connections(agent, agent.port, b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: "), 2.0)
            self.assertEqual(agent.get("/health").text, b"ok")

    def test_half_open_handshakes_on_9092(self):
        with Agent() as agent:
            self.assertLess(self.hold_connections(agent, agent.ws_port, b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n"), 2.0)
            self.assertEqual(agent.get("/health").text, b"ok")


if __name__ == "__main__":
    unittest.main()
