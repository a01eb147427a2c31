"""The collector nccl in an agent: pages by socket and as files, files of NCCL Inspector that rotate, and a RAS."""
import os
import pathlib
import socket
import tempfile
import threading
import unittest

from agent import Agent, samples, value, wait_until
from job_page import JobPage
from test_seed_rows_nccl import FIXTURES, line

RAS_STATE = b"""{"communicators":[{"hash":"0xabc","size":3,"ranks":[
 {"rank":0,"host":"a","pid":5,"status":{"init_state":0,"async_error":0},"collective_counts":{"AllReduce":9}},
 {"rank":1,"host":"a","pid":6,"status":{"init_state":0,"async_error":3},"collective_counts":{"AllReduce":9}}],
 "missing_ranks":[]}],"ras":{"timeouts_count":0}}"""


class FakeRas:
    """Answers as NCCL's RAS does, and reports that a process died."""

    def __enter__(self):
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listening.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listening.close()

    def accept(self):
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, connection.makefile("rwb", buffering=0) as lines:
            for request in lines:
                command = request.strip()
                if command.startswith(b"CLIENT PROTOCOL"):
                    lines.write(b"SERVER PROTOCOL 2\n")
                elif command == b"VERBOSE STATUS":
                    lines.write(RAS_STATE)
                    return
                elif command == b"MONITOR":
                    lines.write(b'OK\n{"group":"lifecycle","event":"PEER_DEAD","peer":{"host":"b","pid":7},"details":"no answer"}\n')
                else:
                    lines.write(b"OK\n")


class Nccl(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def agent(self, options, jobs=""):
        config = f"metrics: all\ncollectors: {{nccl: {{{options}}}, nvidia: {{enabled: false}}, programs: {{socket: {self.folder}/otlp.sock}}}}\n{jobs}"
        return Agent(config=config)

    def seen(self, agent, name, **labels):
        return [sample for sample in samples(agent.page(), name, **labels)]

    def test_pages_by_socket_and_as_files(self):
        jobs = f"jobs: {{folders: [{self.folder}]}}\n"
        with JobPage("nccl", socket=self.folder / "none.sock", folder=self.folder) as left:
            left("communicator 0 171 0 2 left", "collective 0 all_gather 5 4096")
            with self.agent("pages: true", jobs) as agent:
                wait_until(lambda: (self.folder / "job.sock").exists())
                with JobPage("nccl", socket=self.folder / "job.sock") as job:
                    self.assertEqual(job.place, "socket")
                    job("communicator 0 172 1 2 tp", "records 0 all_reduce 10 2000 1048576", "enqueue 0 all_reduce 1048576")
                    done = {"nccl_collective_type": "AllReduce", "nccl_stage": "done", "nccl_rank": "1"}
                    wait_until(lambda: [one.value for one in self.seen(agent, "nccl_collectives_total", **done)] == [10])
                    enqueued = {**done, "nccl_stage": "enqueued"}
                    self.assertEqual([one.value for one in self.seen(agent, "nccl_collectives_total", **enqueued)], [11])
                    [duration] = self.seen(agent, "nccl_collective_duration_seconds_count", nccl_communicator="0xac")
                    self.assertEqual((duration.value, duration.labels["process_pid"]), (10, str(job.pid)))
                    [total] = self.seen(agent, "nccl_collective_duration_seconds_sum", nccl_communicator="0xac")
                    self.assertAlmostEqual(total.value, 10 * 2000e-6, delta=1e-6)
                    wait_until(lambda: self.seen(agent, "nccl_collective_duration_seconds_count", nccl_communicator="0xab"))
                    self.assertEqual(value(agent.page(), "gpulens_nccl_sources", nccl_source="page"), 2)
                wait_until(lambda: not self.seen(agent, "nccl_collectives_total", nccl_communicator="0xac"))
                self.assertEqual(value(agent.page(), "gpulens_nccl_sources", nccl_source="page"), 1)

    def test_files_rotate_under_load(self):
        logs = self.folder / "inspector"
        logs.mkdir()
        (logs / "host-pid1.log").write_text(line(0, 1))
        with self.agent(f"files: [{logs}]") as agent:
            wait_until(lambda: value(agent.page(), "gpulens_nccl_sources", nccl_source="file") == 1)
            written = 0
            for turn in range(20):
                for pid in (1, 2):
                    with open(logs / f"host-pid{pid}.log", "a") as file:
                        for _ in range(50):
                            written += 1
                            file.write(line(pid, written))
                if turn % 5 == 4:
                    wait_until(lambda: value(agent.page(), "gpulens_nccl_records_total", nccl_source="file") == written)
                    os.rename(logs / "host-pid1.log", logs / f"host-pid1.log.{turn}")
                    os.truncate(logs / "host-pid2.log", 0)
            wait_until(lambda: value(agent.page(), "gpulens_nccl_records_total", nccl_source="file") == written)
            # The line before the start of the agent is not among them.
            self.assertEqual(value(agent.page(), "nccl_collective_duration_seconds_count", nccl_rank="1"), written / 2)
            self.assertEqual(value(agent.page(), "gpulens_nccl_lost_total", gpulens_reason="invalid_line"), 0)

    def test_files_of_the_prometheus_mode(self):
        page = self.folder / "nccl_inspector_metrics_1f3c.prom"
        text = (pathlib.Path(FIXTURES) / "readme_example.prom").read_text()
        page.write_text(text)
        (self.folder / "node.prom").write_text("node_load1 3\n")
        with self.agent(f"files: [{self.folder}]") as agent:
            of = {"nccl_collective_type": "AllReduce", "gpu_uuid": "GPU-1f3c", "nccl_communicator_name": "DP Group 0"}
            shown = lambda: [one.value for one in self.seen(agent, "nccl_collective_bus_bandwidth_bytes_per_second", **of)]  # noqa: E731
            wait_until(shown)
            self.assertEqual(shown(), [678.263e9])
            self.assertEqual(value(agent.page(), "gpulens_nccl_sources", nccl_source="file"), 1)
            self.assertEqual(value(agent.page(), "nccl_collective_bandwidth_bytes_per_second", nccl_collective_type="Send"), 464.9e9)
            self.assertFalse(self.seen(agent, "nccl_rank_lateness_seconds"))
            page.write_text(text.replace("678.263", "100"))
            wait_until(lambda: shown() == [100e9])
            page.unlink()
            wait_until(lambda: not shown())

    def test_ras(self):
        with FakeRas() as ras, self.agent(f'ras: ["{ras.address}"]') as agent:
            wait_until(lambda: self.seen(agent, "nccl_communicator_errors", nccl_communicator="0xabc"))
            self.assertEqual(value(agent.page(), "nccl_communicator_errors", nccl_communicator="0xabc"), 1)
            wait_until(lambda: b"nccl.peer" in agent.get("/api/events").text)


if __name__ == "__main__":
    unittest.main()
