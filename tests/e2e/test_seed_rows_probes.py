"""Features of the zernel telemetry API that libraries inside jobs bring, row by row: a program writes the pages."""
import asyncio
import json
import pathlib
import tempfile
import unittest

from agent import Agent, samples, value, wait_until
from job_page import JobPage

try:
    import websockets
except ImportError:
    websockets = None

BUCKET = 2**0.25
LAUNCHES = "zernel_cuda_launch_latency_seconds"
COLLECTIVES = "zernel_nccl_collective_duration_seconds"
WAITS = "zernel_dataloader_wait_seconds"


class Rows(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        socket = pathlib.Path(self.folder.name) / "job.sock"
        self.agent = Agent(config=f"interval: 500ms\njobs: {{socket: '{socket}', folders: []}}\n"
                                  "collectors: {phases: {interval: 500ms, pages: true}, probes: {interval: 500ms, injection: true}, nccl: {interval: 500ms, pages: true}}\n")  # fmt: skip
        self.agent.__enter__()
        self.addCleanup(self.agent.__exit__)
        wait_until(socket.exists, what="the socket")
        self.socket = socket
        self.runs(2)  # what comes later was observed by this agent

    def runs(self, count):
        """Returns after so many runs of the collector more."""
        name, of = "gpulens_collector_runs_total", {"collector": "phases", "result": "ok"}
        before = value(self.agent.page(), name, **of) or 0
        self.wait_for(name, lambda n: n >= before + count, **of)

    def job(self, writer="program"):
        job = JobPage(writer, socket=self.socket)
        self.addCleanup(job.close)
        self.assertEqual(job.place, "socket")
        return job

    def wait_for(self, name, wanted=None, **labels):
        def found():
            there = value(self.agent.page(), name, **labels)
            return there is not None and (wanted is None or wanted(there))

        wait_until(found, 15, f"{name}{labels}")
        return value(self.agent.page(), name, **labels)

    def frame(self):
        async def read():
            async with websockets.connect(f"ws://127.0.0.1:{self.agent.ws_port}/") as ws:
                return json.loads(await ws.recv())

        return asyncio.run(read())

    def test_ze_005_to_007_launches(self):
        job = self.job("cuda")
        # Twice as many, of two kinds, from 1 to 10 µs.
        job("device 0 0000:1a:00.0", "launches 0 kernel 60000 1000 10000", "launches 0 graph 40000 1000 10000")
        pid = str(job.pid)
        self.wait_for(LAUNCHES + "_count", lambda count: count == 100_000, pid=pid)
        page = self.agent.page()
        median, p99 = (value(page, LAUNCHES, pid=pid, quantile=q) for q in ("0.5", "0.99"))
        self.assertTrue(5.5e-6 / BUCKET <= median <= 5.5e-6 * BUCKET, median)
        self.assertTrue(9.91e-6 / BUCKET <= p99 <= 9.91e-6 * BUCKET, p99)
        self.assertAlmostEqual(value(page, LAUNCHES + "_sum", pid=pid), 0.55, delta=0.001)

    def test_ze_006_nanoseconds_are_kept(self):
        job = self.job("cuda")
        job("launches 0 kernel 1000 1237 1237")
        self.assertAlmostEqual(self.wait_for(LAUNCHES, pid=str(job.pid), quantile="0.99"), 1.237e-6, delta=1e-12)

    def test_ze_008_and_009_collectives(self):
        job = self.job("nccl")
        job("communicator 0 0xabc 0 2 dp")
        took = {"all_reduce": 3000, "broadcast": 450, "all_gather": 12_345, "reduce_scatter": 77}
        for operation, us in took.items():
            job(f"records 0 {operation} 200 {us} 1048576")
        for operation, us in took.items():
            for quantile in ("0.5", "0.99"):
                found = self.wait_for(COLLECTIVES, op=operation, quantile=quantile)
                self.assertAlmostEqual(found, us * 1e-6, delta=us * 1e-6 * 0.05, msg=operation)

    def test_ze_010_waits_and_no_checkpoints(self):
        job = self.job()
        written = pathlib.Path(self.folder.name) / "checkpoint"
        for step in range(12):
            job("wait 50", "phase gpu_compute", "sleep 5")
            if step % 4 == 3:  # a checkpoint between two steps
                written.write_bytes(bytes(4 << 20))
                job("phase checkpoint", "sleep 100", "phase unknown")
        pid = str(job.pid)
        self.wait_for(WAITS + "_count", lambda count: count == 12, pid=pid)
        page = self.agent.page()
        self.assertAlmostEqual(value(page, WAITS, pid=pid, quantile="0.5"), 0.05, delta=0.0051)
        self.assertAlmostEqual(value(page, WAITS + "_sum", pid=pid), 0.6, delta=0.06)

    def test_ze_011_one_wait_of_a_second_in_fifty(self):
        job = self.job()
        job("waits 49 10000", "waits 1 1000000")
        pid = str(job.pid)
        self.wait_for(WAITS + "_count", lambda count: count == 50, pid=pid)
        self.assertAlmostEqual(value(self.agent.page(), WAITS, pid=pid, quantile="0.99"), 1, delta=0.1)

    def test_ze_012_to_016_the_scheduler(self):
        on_gpu = [self.job("cuda") for _ in range(2)]
        for job in on_gpu:
            job("device 0 0000:1a:00.0", "launches 0 kernel 10 1000 2000")
        others = [self.job() for _ in range(3)]
        self.wait_for("zernel_scheduler_tasks", lambda n: n == 5, type="total")
        self.assertEqual(value(self.agent.page(), "zernel_scheduler_tasks", type="ml"), 2)
        before = value(self.agent.page(), "zernel_scheduler_decisions_total")
        self.wait_for("zernel_scheduler_decisions_total", lambda n: n > before)
        self.assertIn("# TYPE zernel_scheduler_decisions_total counter", self.agent.page())
        # Those whose launches came once do not change any more.
        self.runs(3)
        marked = others[0]
        marked("phase gpu_compute", "sleep 1200")
        before = value(self.agent.page(), "zernel_scheduler_phase_transitions_total")
        for phase in ("data_loading", "gpu_compute", "nccl_collective", "optimizer_step", "unknown") * 2:
            marked(f"phase {phase}", "sleep 20")
        self.wait_for("zernel_scheduler_phase_transitions_total", lambda n: n == before + 10)
        for phase in ("data_loading", "gpu_compute", "nccl_collective", "optimizer_step", "unknown"):
            marked(f"phase {phase}")
            if phase != "unknown":
                self.wait_for("zernel_scheduler_phase_tasks", lambda n: n == 1, phase=phase)
        page = self.agent.page()
        self.assertEqual(len(samples(page, "zernel_scheduler_phase_tasks")), 5)
        shares = samples(page, "zernel_scheduler_phase_time_pct")
        self.assertEqual(len(shares), 5)
        self.assertAlmostEqual(sum(s.value for s in shares), 100, delta=1e-6)

    def test_ze_016_steady_compute(self):
        job = self.job()
        job("phase gpu_compute")
        self.wait_for("zernel_scheduler_phase_time_pct", lambda share: share > 90, phase="gpu_compute")

    @unittest.skipUnless(websockets, "the package websockets is not here")
    def test_ze_023_to_027_fields_of_the_stream(self):
        frame = self.frame()
        for field in ("cuda_latency_p50_us", "cuda_latency_p99_us", "nccl_allreduce_p50_ms", "nccl_allreduce_p99_ms", "dataloader_wait_p50_ms"):
            self.assertEqual((frame[field], frame["valid"][field]), (0.0, False))
        cuda, nccl, loader = self.job("cuda"), self.job("nccl"), self.job()
        cuda("launches 0 kernel 1000 2000 9000")
        nccl("communicator 0 0xabc 0 2 dp", "records 0 all_reduce 100 3000 1048576")
        loader("waits 100 20000")
        self.wait_for(LAUNCHES + "_count", lambda n: n == 1000, pid=str(cuda.pid))
        self.wait_for(COLLECTIVES + "_count", lambda n: n == 100, op="all_reduce")
        self.wait_for(WAITS + "_count", lambda n: n == 100, pid=str(loader.pid))
        self.runs(3)
        page, frame = self.agent.page(), self.frame()
        expected = {
            "cuda_latency_p50_us": value(page, LAUNCHES, quantile="0.5") * 1e6,
            "cuda_latency_p99_us": value(page, LAUNCHES, quantile="0.99") * 1e6,
            "nccl_allreduce_p50_ms": value(page, COLLECTIVES, op="all_reduce", quantile="0.5") * 1e3,
            "nccl_allreduce_p99_ms": value(page, COLLECTIVES, op="all_reduce", quantile="0.99") * 1e3,
            "dataloader_wait_p50_ms": value(page, WAITS, quantile="0.5") * 1e3,
        }
        for field, number in expected.items():
            self.assertAlmostEqual(frame[field], number, delta=number * 1e-9, msg=field)
            self.assertTrue(frame["valid"][field])
        # /json has the same in nanoseconds.
        there = json.loads(self.agent.get("/json").text)
        self.assertEqual(there["cuda_latency"][str(cuda.pid)]["count"], 1000)
        self.assertEqual(there["nccl_duration"]["all_reduce"]["p50_ns"], round(expected["nccl_allreduce_p50_ms"] * 1e6))
        self.assertEqual(there["dataloader_wait"][str(loader.pid)]["count"], 100)


if __name__ == "__main__":
    unittest.main()
