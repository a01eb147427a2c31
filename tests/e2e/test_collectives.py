"""Slow and hung ranks, from job pages to events: ranks of two hosts, an agent on each, and a gateway that joins them."""
import json
import pathlib
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from agent import Agent, free_port, samples, value, wait_until
from job_page import JobPage

HASH = 0x1234567890ABCDEF
STEP_MS, COMPUTE_MS, LATE_MS = 100, 60, 25
HANG_S = 5


class HostAgent(Agent):
    """An agent that has a host name of its own."""

    def __init__(self, host, **more):
        super().__init__(**more)
        self.arguments = ["unshare", "--uts", "sh", "-c", f'hostname {host} && exec "$@"', "sh", *self.arguments]


class Rank:
    """A process of a job with the page of a profiler plugin. Its steps are written at once and take their time."""

    def __init__(self, rank, ranks, socket, gpu=None):
        self.page = JobPage("nccl", socket=socket)
        self.page(f"communicator 0 {HASH} {rank} {ranks} world {gpu or f'0000:0{rank}:00.0'}")
        self.done = 0
        self.times = {}
        self.failed = []
        self._reader = threading.Thread(target=self._drain, daemon=True)
        self._reader.start()

    def _drain(self):
        for line in self.page.process.stdout:
            if line.startswith("error "):
                self.failed.append(line)
            if " collective " in line:
                self.done += 1
                self.times[self.done] = time.monotonic()

    def steps(self, count, late_ms=0):
        """The others wait for a late rank, so its collective is as much shorter."""
        line = f"sleep {COMPUTE_MS + late_ms}\ncollective 0 all_reduce {STEP_MS - COMPUTE_MS - late_ms} 1048576\n"
        self.write(line * count)

    def write(self, text):
        self.page.process.stdin.write(text)
        self.page.process.stdin.flush()

    def close(self):
        self.page.process.send_signal(signal.SIGCONT)
        self.page.process.kill()
        self.page.process.wait()
        self.page.process.stdin.close()
        self._reader.join()
        self.page.process.stdout.close()


def node_config(socket, port, more=""):
    return (f"interval: 250ms\njobs: {{socket: '{socket}', folders: []}}\n"
            f"collectors: {{nccl: {{pages: true, collectives: {{role: send, join_urls: ['http://127.0.0.1:{port}']}}}}{more}}}\n")  # fmt: skip


def gateway_config(port):
    return (f"interval: 250ms\nsinks: {{do_nothing: {{enabled: true}}}}\nreceivers: {{otlp: {{http: {{listen: '127.0.0.1:{port}'}}, grpc: {{listen: []}}}}}}\n"
            f"collectors: {{nccl: {{collectives: {{role: join, hang_after: {HANG_S}s}}}}}}\n")  # fmt: skip


def events(agent, name):
    found = json.loads(agent.get("/api/events").text)["events"]
    # A demo has jobs of its own.
    return [event for event in found if event["name"] == name and event["attributes"]["nccl.communicator"] == hex(HASH)]


class TwoHostsAndAGateway(unittest.TestCase):
    def setUp(self):
        if subprocess.run(["unshare", "--uts", "true"], capture_output=True).returncode:
            self.skipTest("no right to a host name of its own")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_slow_and_a_stopped_rank_are_named(self):
        port = free_port()
        sockets = [self.folder / f"{host}.sock" for host in ("a", "b")]
        with Agent(config=gateway_config(port)) as gateway, \
             HostAgent("host-a", config=node_config(sockets[0], port)) as first, \
             HostAgent("host-b", config=node_config(sockets[1], port)) as second:  # fmt: skip
            wait_until(lambda: all(socket.exists() for socket in sockets), what="the sockets")
            ranks = [Rank(rank, 4, sockets[rank // 2]) for rank in range(4)]
            for rank in ranks:
                self.addCleanup(rank.close)
            healthy, slow = 80, 150
            for number, rank in enumerate(ranks):
                rank.steps(healthy)
                rank.steps(slow, LATE_MS if number == 2 else 0)
            wait_until(lambda: ranks[2].done >= healthy, 60, "the healthy steps")
            began = time.monotonic()
            self.assertEqual(events(gateway, "nccl.straggler"), [], "nothing is wrong yet")
            wait_until(lambda: events(gateway, "nccl.straggler"), 60, "the slow rank")
            took = time.monotonic() - began
            event = events(gateway, "nccl.straggler")[0]
            print(f"\nslow rank named after {took:.1f} s: {event['body']}")
            attributes = event["attributes"]
            self.assertEqual((str(attributes["nccl.rank"]), attributes["nccl.host"], attributes["nccl.gpu"], attributes["nccl.scope"]),
                             ("2", "host-b", "0000:02:00.0", "rank"))  # fmt: skip
            self.assertEqual(attributes["nccl.ranks.affected"], 4)
            page = gateway.page()
            late = [value(page, "nccl_rank_lateness_seconds", nccl_rank=str(rank)) for rank in range(4)]
            self.assertEqual(max(range(4), key=lambda rank: late[rank]), 2, late)
            self.assertGreater(value(first.page(), "gpulens_nccl_batches_total", gpulens_outcome="sent"), 5)
            self.assertEqual(events(second, "nccl.straggler"), [], "only the gateway knows")

            # All ranks but the one that is stopped call the next collective.
            wait_until(lambda: all(rank.done >= healthy + slow for rank in ranks), 60, "the slow steps")
            ranks[2].page.process.send_signal(signal.SIGSTOP)
            for number in (0, 1, 3):
                ranks[number].write("enqueue 0 all_reduce 1048576\nstart 0 all_reduce\n")
            began = time.monotonic()
            wait_until(lambda: events(gateway, "nccl.hang"), 60, "the hang")
            took = time.monotonic() - began
            event = events(gateway, "nccl.hang")[0]
            print(f"stopped rank named after {took:.1f} s: {event['body']}")
            attributes = event["attributes"]
            self.assertEqual((str(attributes["nccl.rank"]), attributes["nccl.host"], attributes["nccl.hang.kind"]),
                             ("2", "host-b", "process"))  # fmt: skip
            self.assertGreater(took, HANG_S - 1)
            self.assertLess(took, HANG_S + 10)
            wait_until(lambda: value(gateway.page(), "nccl_communicator_hung") == 1, what="the flag")

    def test_steps_of_the_network_are_measured_and_name_the_slow_link(self):
        port = free_port()
        sockets = [self.folder / f"{host}.sock" for host in ("a", "b")]
        with Agent(config=gateway_config(port)) as gateway, \
             HostAgent("host-a", config=node_config(sockets[0], port)), \
             HostAgent("host-b", config=node_config(sockets[1], port)):  # fmt: skip
            wait_until(lambda: all(socket.exists() for socket in sockets), what="the sockets")
            ranks = [Rank(rank, 4, sockets[rank // 2]) for rank in range(4)]
            for number, rank in enumerate(ranks):
                self.addCleanup(rank.close)
                rank.steps(80)
                slow = f"sleep {COMPUTE_MS}\ncollective 0 all_reduce {1.5 * (STEP_MS - COMPUTE_MS)} 1048576\n"
                sent = f"sent 0 {(number + 1) % 4} 10 {900 if number == 1 else 100}\n"
                # The agent raises the level (link: 3) when communication has become slow, and lowers it; a rank of a busy machine may
                # miss the 10 s, and they come again after 60 s.
                rank.write(slow * 30 + "wait_level 3 90000\n" + (slow + sent) * 60 + "wait_level 2 30000\n" + slow)
            wait_until(lambda: [event for event in events(gateway, "nccl.link_slow") if event["attributes"]["nccl.scope"] == "link"],
                       120, "the link")
            event = [event for event in events(gateway, "nccl.link_slow") if event["attributes"]["nccl.scope"] == "link"][0]
            print(f"\nslow link: {event['body']}")
            self.assertEqual((event["attributes"]["nccl.rank"], event["attributes"]["nccl.host"]), ("1,2", "host-a,host-b"))
            wait_until(lambda: all(rank.done == 171 for rank in ranks), 120, "the level of before")
            self.assertTrue(all(rank.failed == [] for rank in ranks), [rank.failed for rank in ranks])

    def test_an_xid_in_the_kernel_log_is_the_cause_of_a_hang(self):
        port, socket, log = free_port(), self.folder / "job.sock", self.folder / "kern.log"
        log.touch()
        more = f", kernel_log: {{source: file, path: {log}, interval: 100ms}}"
        with Agent(config=gateway_config(port)) as gateway, \
             Agent("--demo", config=node_config(socket, port, more)) as node:  # fmt: skip
            wait_until(lambda: socket.exists() and value(node.page(), "gpu_xid_errors_total", gpu_index="3") == 0, what="the counter of GPU 3")
            buses = [samples(node.page(), "gpu_info", gpu_index=str(gpu))[0].labels["gpu_pci_bus_id"].lower()[-12:] for gpu in (1, 3)]
            ranks = [Rank(rank, 2, socket, bus) for rank, bus in enumerate(buses)]
            for rank in ranks:
                self.addCleanup(rank.close)
                rank.steps(20)
            wait_until(lambda: all(rank.done >= 20 for rank in ranks), 60, "the steps")
            with log.open("a") as file:
                file.write(f"[   12.345678] NVRM: Xid (PCI:{buses[1].removesuffix('.0')}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n")
            ranks[0].write("enqueue 0 all_reduce 1048576\nstart 0 all_reduce\n")
            wait_until(lambda: events(gateway, "nccl.hang"), 60, "the hang")
            event = events(gateway, "nccl.hang")[0]
            print(f"\nhang with its cause: {event['body']}")
            attributes = event["attributes"]
            self.assertEqual((str(attributes["nccl.rank"]), attributes["nccl.gpu"], attributes["nccl.cause"], attributes["nccl.hang.kind"]),
                             ("1", buses[1], "pcie", "not_arrived"))  # fmt: skip
            self.assertRegex(event["body"], r"; its GPU reported XID 79 \(.+\), \d+ s (before|after) the wait began$")


if __name__ == "__main__":
    unittest.main()
