"""Phases of processes by their job pages: the program job_page_program marks what it does."""
import pathlib
import tempfile
import time
import unittest

from agent import Agent, samples, value, wait_until
from job_page import JobPage


class Phases(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.socket = pathlib.Path(self.folder.name) / "job.sock"
        self.agent = Agent(config=f"interval: 250ms\njobs: {{socket: '{self.socket}', folders: []}}\n"
                                  "collectors: {phases: {interval: 250ms, pages: true}}\n")  # fmt: skip
        self.agent.__enter__()
        self.addCleanup(self.agent.__exit__)
        wait_until(self.socket.exists, what="the socket")

    def job(self, writer="program"):
        job = JobPage(writer, socket=self.socket)
        self.addCleanup(job.close)
        self.assertEqual(job.place, "socket")
        return job

    def times(self, job):
        return {s.labels["process_phase"]: s.value
                for s in samples(self.agent.page(), "process_phase_time_seconds_total", process_pid=str(job.pid), phase_source="mark")}  # fmt: skip

    def test_times_and_changes_are_those_of_the_marks(self):
        job = self.job()
        job("phase unknown")
        truth = {"data_loading": 0, "gpu_compute": 0, "nccl_collective": 0, "optimizer_step": 0}
        lengths = (40, 120, 60, 20)
        for _ in range(5):
            for (phase, ms) in zip(truth, lengths):
                begun = job(f"phase {phase}")
                truth[phase] += (job(f"sleep {ms}") - begun) / 1e9
        job("phase unknown")
        pid = str(job.pid)
        wait_until(lambda: value(self.agent.page(), "process_phase_transitions_total", process_pid=pid) == 21, 10, "21 changes")
        found = self.times(job)
        for phase, seconds in truth.items():
            self.assertAlmostEqual(found[phase], seconds, delta=0.05 * seconds, msg=f"{phase} of {found}")
        page = self.agent.page()
        self.assertEqual(value(page, "process_phase", process_pid=pid, process_phase="unknown"), 1)

    def test_a_wait_that_lasts_is_in_its_time(self):
        job = self.job()
        job("wait_begin")
        begun = time.monotonic()
        pid = str(job.pid)
        wait_until(lambda: (value(self.agent.page(), "process_phase_time_seconds_total", process_pid=pid, phase_source="data_wait") or 0) > 1, 10, "a second")
        self.assertLess(time.monotonic() - begun, 5)
        self.assertEqual(value(self.agent.page(), "process_phase", process_pid=pid, process_phase="data_loading"), 1)

    def test_series_end_with_the_process(self):
        job = self.job()
        pid = str(job.pid)
        wait_until(lambda: samples(self.agent.page(), "process_phase", process_pid=pid), 10, "the process")
        job.close()
        wait_until(lambda: not samples(self.agent.page(), "process_phase", process_pid=pid), 10, "its end")


if __name__ == "__main__":
    unittest.main()
