"""What a PyTorch job reports by the hook that `gpulens run --probes=torch` loads, without a change of the job: Debian's PyTorch,
gloo, processes on 127.0.0.1. The jobs are tests/inject/torch_*.py."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "inject"))
import pages as job_pages  # noqa: E402

from agent import BINARY, Agent, processes_below, value, wait_until  # noqa: E402

BUILD = pathlib.Path(os.environ.get("GPULENS_BUILD", ROOT / "build" / "release"))
HOOK = ROOT / "python" / "gpulens" / "torch_hook"
LIBRARY = BUILD / "libgpulens-job.so"
JOBS = ROOT / "tests" / "inject"
ALL_REDUCE, BROADCAST, ALL_GATHER, SEND, RECEIVE, BARRIER = 1, 2, 3, 9, 10, 12
DATA_LOADING, NCCL_COLLECTIVE, OPTIMIZER_STEP, CHECKPOINT = 1, 3, 4, 5
COUNTED, HOST = 0, 3  # Timing


def python_with_torch():
    """A Python that has PyTorch, or None with the reason."""
    for python in ("/usr/bin/python3", sys.executable):
        found = subprocess.run([python, "-c", "import torch.distributed as d; d.is_gloo_available or d.init_process_group"],
                               capture_output=True)
        if found.returncode == 0:
            return python, None
    return None, "no PyTorch here (Debian: python3-torch, which ./dev test installs)"


PYTHON, WHY_NOT = python_with_torch()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start(job, *options, ranks=1, environment=None, by=()):
    """Starts the ranks of a job, by a program that starts it."""
    processes = []
    port = free_port()
    for rank in range(ranks):
        own = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
        if ranks > 1:
            own.update(RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                       GLOO_SOCKET_IFNAME="lo")
        processes.append(
            subprocess.Popen([*by, PYTHON, str(JOBS / job), *map(str, options)], env=own, text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
        )
    return processes


def finish(case, processes, timeout=90):
    """The lines that each printed; fails unless all ended well."""
    outputs = []
    for process in processes:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            for other in processes:
                other.kill()
            raise
        case.assertEqual(process.returncode, 0, err)
        outputs.append((out, err))
    return outputs


@unittest.skipIf(PYTHON is None, WHY_NOT)
class Hook(unittest.TestCase):
    """At the level of the pages."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.pages = job_pages.Pages(str(self.folder / "job.sock"), str(BUILD / "job_page_dump"))
        self.addCleanup(self.pages.close)
        self.hooked = {
            "PYTHONPATH": str(HOOK), "GPULENS_JOB_LIBRARY": str(LIBRARY), "GPULENS_JOB_SOCKET": str(self.folder / "job.sock"),
        }

    def of_rank(self, rank):
        for page in self.pages.read():
            for communicator in page["communicators"]:
                if communicator["name"] == "world" and communicator["rank"] == rank:
                    return page
        self.fail(f"no page of rank {rank}")

    def test_waits_for_a_worker(self):
        finish(self, start("torch_training.py", "--steps", 20, "--load-ms", 50, "--step-ms", 1, "--workers", 1,
                           "--checkpoint-every", 5, environment=self.hooked))
        (page,) = self.pages.read()
        self.assertTrue(page["library_version"].startswith("torch "), page["library_version"])
        self.assertEqual(page["trouble"], "")
        waits = page["data_loading"]
        self.assertEqual(waits["batches"], 20)
        self.assertEqual(waits["open_since"], 0)
        self.assertLess(abs(self.quantile(waits["wait"], 0.5) - 0.05), 0.012)
        totals = page["phases"]["total_ns"]
        self.assertGreater(totals[OPTIMIZER_STEP], 0)
        self.assertGreater(totals[CHECKPOINT], 0)
        # The 4 checkpoints slept 20 ms each after torch.save: no wait.
        self.assertLess(waits["wait"]["sum_ns"] / 1e9, 20 * 0.05 + 0.3)

    def test_waits_without_workers(self):
        finish(self, start("torch_training.py", "--steps", 10, "--load-ms", 30, environment=self.hooked))
        (page,) = self.pages.read()
        self.assertEqual(page["data_loading"]["batches"], 10)
        self.assertLess(abs(self.quantile(page["data_loading"]["wait"], 0.5) - 0.03), 0.01)

    def test_each_form_of_a_collective(self):
        plain = finish(self, start("torch_calls.py", ranks=3))
        hooked = finish(self, start("torch_calls.py", ranks=3, environment=self.hooked))
        self.assertEqual([one[0] for one in hooked], [one[0] for one in plain])
        hashes = set()
        for rank in range(3):
            page = self.of_rank(rank)
            self.assertEqual(page["trouble"], "")
            self.assertEqual(page["lost"]["error"], 0)
            world = next(one for one in page["communicators"] if one["name"] == "world")
            hashes.add(world["hash"])
            self.assertEqual((world["ranks"], world["closed"]), (3, 1))
            done = {one["function"]: one["done"] for one in world["functions"]}
            # 1, 3 with async_op=True, and the one that was refused has no number.
            self.assertEqual(done[ALL_REDUCE], 4)
            self.assertEqual(done[BROADCAST], 1)
            self.assertEqual(done[ALL_GATHER], 3)  # one, and two inside all_gather_object
            slot = page["communicators"].index(world)
            records = [one for one in page["records"] if one["communicator"] == slot]
            sizes = {one["function"]: one["bytes"] for one in records if one["sequence"] == 0}
            self.assertEqual((sizes[ALL_REDUCE], sizes[ALL_GATHER], sizes[BROADCAST]), (1024, 24, 12))
            by_number = {one["sequence"]: one for one in records if one["function"] == ALL_REDUCE}
            self.assertEqual([by_number[i]["timing"] for i in (0, 2, 3)], [HOST, COUNTED, COUNTED])
            if rank != 1 and by_number[1]["timing"] == HOST:  # rank 1 came 50 ms later: the others waited for it
                self.assertGreater(by_number[1]["end_ns"] - by_number[1]["start_ns"], 40e6)
        self.assertEqual(len(hashes), 1)
        pair = [one for page in self.pages.read() for one in page["communicators"] if one["ranks"] == 2]
        self.assertEqual(sorted(one["rank"] for one in pair), [0, 1])
        self.assertEqual(len({one["hash"] for one in pair}), 1)
        self.assertNotIn(pair[0]["hash"], hashes)
        functions = {one["function"]: one["done"] for one in self.of_rank(0)["communicators"][0]["functions"]}
        self.assertEqual(functions[SEND], 1)

    def test_the_slow_rank_is_the_one_with_the_shortest_time(self):
        finish(self, start("torch_training.py", "--steps", 20, "--slow-rank", 2, "--slow-ms", 30, ranks=3, environment=self.hooked))
        medians = []
        for rank in range(3):
            spans = sorted(
                one["end_ns"] - one["start_ns"] for one in self.of_rank(rank)["records"]
                if one["function"] == ALL_REDUCE and one["bytes"] == 64
            )
            medians.append(spans[len(spans) // 2] / 1e6)
        self.assertEqual(min(range(3), key=medians.__getitem__), 2)
        self.assertGreater(sorted(medians)[1] - medians[2], 15)

    def test_two_jobs_have_different_communicators(self):
        finish(self, start("torch_training.py", "--steps", 1, ranks=2, environment=self.hooked))
        finish(self, start("torch_training.py", "--steps", 1, ranks=2, environment=self.hooked))
        hashes = [one["hash"] for page in self.pages.read() for one in page["communicators"]]
        self.assertEqual(len(hashes), 4)
        self.assertEqual(len(set(hashes)), 2)

    def test_off_leaves_pytorch_alone(self):
        code = "import sys, torch, torch.distributed as d; print(d.all_reduce.__code__.co_filename, 'gpulens_torch_hook' in sys.modules)"
        for extra, hooked in (({}, True), ({"GPULENS_PROBES": "off"}, False), ({"GPULENS_JOB_LIBRARY": "/nowhere.so"}, False)):
            with self.subTest(extra):
                done = subprocess.run([PYTHON, "-c", code], env={**os.environ, **self.hooked, **extra}, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual("gpulens_torch_hook" in done.stdout.split()[0], hooked, done.stdout)
        self.assertEqual(self.pages.read(), [])

    def test_another_sitecustomize_runs(self):
        other = self.folder / "other"
        other.mkdir()
        (other / "sitecustomize.py").write_text("import os\nMARK = 'the other one'\nos.environ['SEEN'] = __name__\n")
        code = "import os, sitecustomize; print(os.environ.get('SEEN'), sitecustomize.MARK, sitecustomize.__file__)"
        path = f"{HOOK}:{other}"
        done = subprocess.run([PYTHON, "-c", code], env={**os.environ, **self.hooked, "PYTHONPATH": path}, capture_output=True, text=True)
        self.assertEqual(done.stdout.split(" ", 1)[0], "sitecustomize", done.stderr)
        self.assertIn("the other one", done.stdout)
        (other / "sitecustomize.py").write_text("raise OSError('its own error')\n")
        done = subprocess.run([PYTHON, "-c", "print('runs')"], env={**os.environ, **self.hooked, "PYTHONPATH": path},
                              capture_output=True, text=True)
        self.assertEqual(done.stdout, "runs\n")
        self.assertIn("its own error", done.stderr)

    def test_an_error_of_the_hook_turns_it_off(self):
        code = """
import sys, torch
hook = sys.modules["gpulens_torch_hook"]
import torch.utils.data as data
loader = data.DataLoader(list(range(4)), batch_size=1)
next(iter(loader))
hook._give_up("a place", ValueError("a reason"))
print(len(list(loader)), hook.library())
"""
        done = subprocess.run([PYTHON, "-c", code], env={**os.environ, **self.hooked}, capture_output=True, text=True)
        self.assertEqual((done.stdout, done.stderr), ("4 None\n", ""))
        (page,) = self.pages.read()
        self.assertIn("a place: ValueError: a reason", page["trouble"])
        self.assertEqual(page["lost"]["error"], 1)
        self.assertEqual(page["data_loading"]["batches"], 1)

    def test_what_it_replaces_looks_the_same(self):
        code = """
import inspect, pickle, torch, torch.distributed as d
print(list(inspect.signature(d.all_reduce).parameters), d.all_reduce.__doc__[:40], pickle.loads(pickle.dumps(d.all_reduce)) is d.all_reduce)
model = torch.nn.Linear(2, 2)
steps = torch.optim.Adam(model.parameters())
schedule = torch.optim.lr_scheduler.StepLR(steps, 1)
model(torch.ones(1, 2)).sum().backward()
steps.step(); schedule.step()
torch.optim.Adam(model.parameters()).step()
print(type(steps).__name__, torch.optim.Adam.step.__name__)
"""
        plain = subprocess.run([PYTHON, "-W", "error", "-c", code], capture_output=True, text=True)
        hooked = subprocess.run([PYTHON, "-W", "error", "-c", code], env={**os.environ, **self.hooked}, capture_output=True, text=True)
        self.assertEqual((hooked.stdout, hooked.stderr), (plain.stdout, plain.stderr))

    @staticmethod
    def quantile(histogram, q):
        """Seconds, the upper end of the bucket that has it: four buckets a doubling, from 2^6 ns on."""
        rank, seen = q * histogram["count"], 0
        for at, count in enumerate(histogram["buckets"]):
            seen += count
            if seen >= rank:
                return 2 ** (6 + (at + 1) / 4) / 1e9
        return float("inf")


@unittest.skipIf(PYTHON is None, WHY_NOT)
class WholeWay(unittest.TestCase):
    """From the job to the agent's events and series: nothing but `gpulens run --probes=torch`."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.socket = pathlib.Path(folder.name) / "job.sock"

    def agent(self):
        return Agent(
            config=f"interval: 250ms\njobs: {{socket: '{self.socket}', folders: []}}\n"
            "collectors: {nccl: {pages: true, collectives: {hang_after: 5s}}, probes: {}}\n"
        )

    def job(self, *options, ranks):
        """Starts each rank by `gpulens run`; they end with the test."""
        run = [str(BINARY), "run", "--probes=torch", "--"]
        wait_until(self.socket.exists, what="the agent's socket")
        processes = start("torch_training.py", *options, ranks=ranks, environment={"GPULENS_JOB_SOCKET": str(self.socket)}, by=run)
        for process in processes:
            self.addCleanup(self.end, process)
        return processes

    @staticmethod
    def end(process):
        """Ends what `gpulens run` has started, also what is stopped."""
        for child in [*processes_below(process.pid), process.pid]:
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.communicate()

    @staticmethod
    def events(agent, name):
        return [event for event in json.loads(agent.get("/api/events").text)["events"] if event["name"] == name]

    def test_a_rank_that_is_slowed_is_named(self):
        with self.agent() as agent:
            self.job("--steps", 4000, "--step-ms", 10, "--slow-rank", 2, "--slow-ms", 30, ranks=4)
            wait_until(lambda: value(agent.page(), "gpulens_nccl_sources", nccl_source="page"), 60, "the pages")
            began = time.monotonic()
            (event, *_) = wait_until(lambda: self.events(agent, "nccl.straggler"), 60, "the slow rank")
            print(f"\nslow rank named after {time.monotonic() - began:.1f} s: {event['body']}")
            self.assertEqual(str(event["attributes"]["nccl.rank"]), "2", event)
            self.assertEqual(event["attributes"]["nccl.scope"], "rank")
            for rank in range(4):
                flag = value(agent.page(), "nccl_rank_straggler", nccl_rank=str(rank))
                self.assertEqual(flag, 1 if rank == 2 else 0, f"rank {rank}")

    def test_a_rank_that_is_stopped_is_named(self):
        with self.agent() as agent:
            self.job("--steps", 4000, "--step-ms", 10, "--stop-rank", 1, "--stop-at", 100, ranks=4)
            (event, *_) = wait_until(lambda: self.events(agent, "nccl.hang"), 90, "the hang")
            print(f"\nstopped rank: {event['body']}")
            self.assertEqual(str(event["attributes"]["nccl.rank"]), "1", event)
            self.assertIn(event["attributes"]["nccl.hang.kind"], ("process", "not_arrived"))

    def test_waits_for_data_are_a_histogram_and_checkpoints_are_not_in_it(self):
        with self.agent() as agent:
            self.job("--steps", 4000, "--load-ms", 50, "--step-ms", 1, "--workers", 1, "--checkpoint-every", 5, ranks=1)
            wait_until(lambda: (self.waits(agent) or (0, 0))[0] >= 40, 60, "the waits")
            count, total = self.waits(agent)
            self.assertLess(abs(total / count - 0.05), 0.012)
            median = value(agent.page(), "zernel_dataloader_wait_seconds", quantile="0.5")
            self.assertLess(abs(median - 0.05), 0.01)

    @staticmethod
    def waits(agent):
        page = agent.page()
        count = value(page, "dataloader_wait_duration_seconds_count", dataloader_source="sdk")
        total = value(page, "dataloader_wait_duration_seconds_sum", dataloader_source="sdk")
        return None if count is None else (count, total)


if __name__ == "__main__":
    unittest.main()
