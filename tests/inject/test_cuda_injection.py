"""libgpulens-cuda.so in a program that calls a libcuda and a libcupti without a GPU, whose numbers are known."""

import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("GPULENS_BUILD", ROOT / "build" / "release"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(ROOT / "tests" / "e2e"))
os.environ.setdefault("GPULENS_BIN", str(BUILD / "gpulens"))
from agent import Agent, value, wait_until  # noqa: E402
from pages import Pages  # noqa: E402

SYMBOLS_ALLOWED = (2, 17)


def bound(bucket):
    """Upper bound of a bucket of a page's histogram in ns."""
    return 2 ** (6 + (bucket + 1) / 4)


class Cuda(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.pages = Pages(str(self.folder / "job.sock"), str(BUILD / "job_page_dump"))
        self.addCleanup(lambda: self.pages.close())

    def environment(self, cupti="135", cuda="time", style="push", **more):
        paths = [BUILD / "tests/fake_cuda" / style]
        if cupti:
            paths.append(BUILD / "tests/fake_cupti" / cupti)
        return {
            "PATH": os.environ["PATH"],
            "LD_LIBRARY_PATH": ":".join(map(str, paths)),
            "CUDA_INJECTION64_PATH": str(BUILD / "libgpulens-cuda.so"),
            "GPULENS_JOB_SOCKET": str(self.folder / "job.sock"),
            "GPULENS_JOB_FOLDER": str(self.folder),
            "GPULENS_CUDA": cuda,
            "FAKE_CUPTI_REPORT": str(self.folder / "report"),
            **{key: str(value) for key, value in more.items()},
        }

    def start(self, *arguments, **environment):
        return subprocess.Popen([BUILD / "fake_cuda_loop", *map(str, arguments)], env=self.environment(**environment),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_loop(self, *arguments, **environment):
        """Returns the page of the program after its end, and what it printed."""
        process = self.start(*arguments, **environment)
        out, error = process.communicate(timeout=60)
        self.assertEqual((process.returncode, error), (0, ""), out)
        deadline = time.monotonic() + 20
        while not (pages := [page for page in self.pages.read("cuda") if page["pid"] == process.pid]):
            self.assertLess(time.monotonic(), deadline, "no page came")
            time.sleep(0.01)
        return pages[0], out

    def report(self):
        words = (self.folder / "report").read_text().split()[1:]
        return dict(zip(words[::2], map(int, words[1::2])))

    def device(self, page, number=0):
        found = [device for device in page["devices"] if device["device"] == number]
        self.assertEqual(len(found), 1, page)
        return found[0]

    def assert_in_bucket(self, histogram, ns, count):
        """All of `count` values are in the bucket of `ns`."""
        self.assertEqual(histogram["count"], count)
        at = [i for i, number in enumerate(histogram["buckets"]) if number]
        self.assertEqual([sum(histogram["buckets"][i] for i in at)], [count])
        self.assertEqual(len(at), 1, f"buckets {at}")
        self.assertTrue(bound(at[0] - 1) < ns <= bound(at[0]), (at, ns))


class Counts(Cuda):
    def test_exact_in_each_version_of_cupti(self):
        for cupti, version in (("12", "CUPTI 28"), ("130", "CUPTI 130001"), ("135", "CUPTI 130500")):
            with self.subTest(cupti=cupti):
                # Kernels of 1 µs one after the other, of launches 4 µs apart: none waits for another.
                page, _ = self.run_loop("--launches", 20000, "--rate", 100000, "--sync-every", 1000, cupti=cupti,
                                        FAKE_CUDA_KERNEL_NS=1000, FAKE_CUDA_DELAY_NS=5000)
                device = self.device(page)
                self.assertEqual(device["launches"], {"kernel": 20000, "cooperative": 0, "graph": 0})
                self.assertEqual(device["enqueue"]["kernel"]["count"], 20000)
                self.assert_in_bucket(device["kernel"], 1000, 20000)
                self.assertEqual(device["kernel"]["sum_ns"], 20000 * 1000)
                self.assertEqual(device["busy_ns"], 20000 * 1000)
                self.assertEqual(device["queue_delay"]["count"], 20000)
                self.assertGreaterEqual(device["queue_delay"]["sum_ns"], 20000 * 5000)
                self.assertEqual(device["sync_wait"]["count"], 20)
                self.assertEqual(device["device_id"], "0000:1a:00.0")
                self.assertEqual(page["library_version"], version)
                self.assertEqual(page["trouble"], "")
                self.assertEqual(set(page["lost"].values()), {0}, page["lost"])
                report = self.report()
                self.assertEqual(report["mixed"], 0)
                self.assertEqual(report["outstanding"], 0)
                self.assertEqual(report["v2" if cupti != "135" else "v1"], 0)

    def test_rates_from_a_thousand_to_a_million(self):
        for rate, launches in ((1000, 500), (30000, 15000), (300000, 100000), (1000000, 300000)):
            with self.subTest(rate=rate):
                page, _ = self.run_loop("--launches", launches, "--rate", rate, FAKE_CUDA_KERNEL_NS=200)
                device = self.device(page)
                self.assertEqual(device["launches"]["kernel"], launches)
                self.assertEqual(device["kernel"]["count"] + page["lost"]["dropped"], launches)

    def test_launch_types_and_per_thread_streams(self):
        for kind, which in (("kernel", "kernel"), ("kernel_ptsz", "kernel"), ("ex", "kernel"), ("ex_ptsz", "kernel"),
                            ("cooperative", "cooperative"), ("cooperative_ptsz", "cooperative")):
            with self.subTest(kind=kind):
                page, _ = self.run_loop("--launches", 777, "--kind", kind)
                device = self.device(page)
                self.assertEqual(device["launches"], {"kernel": 0, "cooperative": 0, "graph": 0, which: 777})
                self.assertEqual(device["kernel"]["count"], 777)

    def test_graphs_apart_from_kernels(self):
        for kind in ("graph", "graph_ptsz"):
            for cupti, level in (("12", "time"), ("12", "profile"), ("135", "time")):
                with self.subTest(kind=kind, cupti=cupti, level=level):
                    page, _ = self.run_loop("--launches", 50, "--kind", kind, cupti=cupti, cuda=level,
                                            FAKE_CUDA_GRAPH_NODES=8, FAKE_CUDA_KERNEL_NS=2000)
                    device = self.device(page)
                    self.assertEqual(device["launches"], {"kernel": 0, "cooperative": 0, "graph": 50})
                    self.assertEqual(device["kernel"]["count"], 0)
                    self.assertEqual(device["queue_delay"]["count"], 50)
                    self.assertEqual(device["busy_ns"], 50 * 8 * 2000)
                    whole = cupti == "12" and level == "time"
                    self.assertEqual(device["graph"]["count"], 50 if whole else 0)
                    self.assertEqual(device["graph_kernel"]["count"], 0 if whole else 400)

    def test_threads_and_devices(self):
        page, _ = self.run_loop("--launches", 40000, "--threads", 4, "--device", 2, FAKE_CUDA_KERNEL_NS=100)
        device = self.device(page, 2)
        self.assertEqual(device["launches"]["kernel"], 40000)
        self.assertEqual(device["kernel"]["count"] + page["lost"]["dropped"], 40000)
        self.assertEqual(device["device_id"], "0000:1c:00.0")

    def test_enqueue_time_is_the_time_of_the_call(self):
        page, _ = self.run_loop("--launches", 2000, FAKE_CUDA_LAUNCH_NS=20000, FAKE_CUDA_KERNEL_NS=100)
        enqueue = self.device(page)["enqueue"]["kernel"]
        mean = enqueue["sum_ns"] / enqueue["count"]
        self.assertGreater(mean, 19900)
        median = sorted(i for i, number in enumerate(enqueue["buckets"]) for _ in range(number))[1000]
        self.assertLess(bound(median - 1), 30000)

    def test_another_clock_of_cupti(self):
        """Another tool's timestamps: the delay is still from launch to start."""
        page, _ = self.run_loop("--launches", 500, "--rate", 10000, FAKE_CUPTI_CLOCK=10**18, FAKE_CUDA_DELAY_NS=50000)
        delay = self.device(page)["queue_delay"]
        self.assertEqual(delay["count"], 500)
        self.assertGreater(delay["sum_ns"] / 500, 50000)
        self.assertLess(delay["sum_ns"] / 500, 5000000)


class Levels(Cuda):
    def test_count_alone_needs_no_records(self):
        page, _ = self.run_loop("--launches", 1000, cuda="count")
        device = self.device(page)
        self.assertEqual(device["launches"]["kernel"], 1000)
        self.assertEqual(device["kernel"]["count"], 0)
        self.assertEqual(self.report()["buffers"], 0)
        self.assertEqual(page["actual_level"], 1)

    def test_profile_has_names(self):
        page, _ = self.run_loop("--launches", 1000, "--names", 10, cuda="profile", FAKE_CUDA_KERNEL_NS=1000)
        names = {kernel["name"]: (kernel["count"], kernel["total_ns"]) for kernel in page["kernels"]}
        self.assertEqual(names, {f"_Z9kernel_{i:02}Pfi": (100, 100000) for i in range(10)})
        page, _ = self.run_loop("--launches", 1000, cuda="time")
        self.assertEqual(page["kernels"], [])

    def test_the_level_is_obeyed_while_the_job_runs(self):
        process = self.start("--seconds", 4, "--rate", 20000, "--sync-every", 100, FAKE_CUDA_KERNEL_NS=1000)

        def counts():
            pages = self.pages.read("cuda")
            if not pages or not pages[0]["devices"]:
                return 0, 0, None
            device = pages[0]["devices"][0]
            return device["launches"]["kernel"], device["kernel"]["count"], pages[0]["actual_level"]

        def until(condition):
            deadline = time.monotonic() + 20
            while not condition(*counts()):
                self.assertIsNone(process.poll(), "the program ended")
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            return counts()

        until(lambda launches, kernels, level: launches > 100 and level == 2)
        self.pages.set_level(0)
        launches, _, _ = until(lambda launches, kernels, level: level == 0)
        before = counts()[0]
        time.sleep(0.3)
        self.assertEqual(counts()[0], before)
        self.pages.set_level(1)
        launches, kernels, _ = until(lambda more, kernels, level: level == 1 and more > before)
        self.pages.set_level(4)
        until(lambda more, now, level: level == 4 and more > launches)
        _, error = process.communicate(timeout=30)
        self.assertEqual((process.returncode, error), (0, ""))
        page = self.pages.read("cuda")[0]
        self.assertGreater(self.device(page)["kernel"]["count"], kernels)
        self.assertEqual([kernel["name"] for kernel in page["kernels"]], ["_Z9kernel_00Pfi"])

    def test_records_come_at_a_low_rate(self):
        """CUPTI keeps records until a buffer is full; with 200 launches a second that takes half a minute."""
        process = self.start("--seconds", 3, "--rate", 200, "--sync-every", 10, cuda="time,flush=200")
        deadline = time.monotonic() + 20
        while not any(device["kernel"]["count"] for page in self.pages.read("cuda") for device in page["devices"]):
            self.assertIsNone(process.poll(), "no kernel before the end")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        self.assertEqual(process.wait(timeout=30), 0)
        process.communicate()


class Losses(Cuda):
    def test_dropped_records_are_counted(self):
        for cupti in ("12", "135"):
            with self.subTest(cupti=cupti):
                page, _ = self.run_loop("--launches", 10000, "--rate", 100000, cupti=cupti, FAKE_CUPTI_DROP=100)
                device = self.device(page)
                self.assertEqual(device["launches"]["kernel"], 10000)
                self.assertEqual(device["kernel"]["count"], 9900)
                self.assertEqual(page["lost"]["dropped"], 100)

    def test_buffers_run_out(self):
        page, _ = self.run_loop("--launches", 300000, FAKE_CUPTI_LATE=60000, FAKE_CUDA_KERNEL_NS=10)
        device = self.device(page)
        self.assertEqual(device["launches"]["kernel"], 300000)
        self.assertGreater(page["lost"]["dropped"], 0)
        self.assertEqual(device["kernel"]["count"] + page["lost"]["dropped"], 300000)
        self.assertEqual(self.report()["outstanding"], 0)

    def test_kernels_without_times_and_foreign_records(self):
        page, _ = self.run_loop("--launches", 1000, FAKE_CUPTI_NO_TIMES=10, FAKE_CUPTI_UNKNOWN=7)
        self.assertEqual(self.device(page)["kernel"]["count"], 900)
        self.assertEqual(page["lost"]["error"], 100)

    def test_a_function_of_cupti_that_fails(self):
        for function, words in (("cuptiActivityEnable", "kernels cannot be timed: CUPTI error 999"),
                                ("cuptiEnableCallback", "launches cannot be counted: CUPTI error 999"),
                                ("cuptiSubscribe", "cuptiSubscribe: CUPTI error 999")):
            with self.subTest(function=function):
                page, _ = self.run_loop("--launches", 1000, cupti="12", FAKE_CUPTI_FAIL=function)
                self.assertEqual(page["trouble"], words)


class Yields(Cuda):
    def test_to_another_subscriber_by_name(self):
        for cupti, name in (("12", "not named"), ("130", "Nsight Systems"), ("135", "Nsight Systems")):
            with self.subTest(cupti=cupti):
                page, _ = self.run_loop("--launches", 1000, cupti=cupti, FAKE_CUPTI_TAKEN="Nsight Systems")
                self.assertEqual(page["trouble"], f"another program uses CUPTI in this process: {name}")
                self.assertEqual((page["actual_level"], page["devices"]), (0, []))

    def test_not_where_several_may_subscribe(self):
        page, _ = self.run_loop("--launches", 1000, cupti="135", FAKE_CUPTI_TAKEN="CUPTI for PyTorch")
        self.assertEqual(page["trouble"], "")
        self.assertEqual(self.device(page)["kernel"]["count"], 1000)

    def test_a_driver_that_allows_one_subscriber(self):
        page, _ = self.run_loop("--launches", 1000, cupti="135", FAKE_CUPTI_OLD_DRIVER=1)
        self.assertEqual(page["trouble"], "")
        self.assertEqual(self.device(page)["kernel"]["count"], 1000)
        self.assertEqual(self.report()["v2"], 0)

    def test_to_tools_of_nvidia(self):
        for file, tool in (("libToolsInjection64.so", "nsys"), ("libcuda-injection.so", "ncu"),
                           ("libsanitizer-public.so", "compute-sanitizer"), ("libcudadebugger.so.1", "cuda-gdb")):
            with self.subTest(tool=tool):
                library = self.folder / file
                subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", library], check=True)
                page, _ = self.run_loop("--launches", 10, LD_PRELOAD=library)
                self.assertEqual(page["trouble"], f"{tool} is in this process, and CUPTI serves one of both")
                self.assertEqual(page["actual_level"], 0)

    def test_without_cupti(self):
        page, _ = self.run_loop("--launches", 10, cupti=None)
        self.assertIn("no libcupti", page["trouble"])

    def test_switched_off(self):
        process = self.start("--launches", 10, GPULENS_PROBES="off")
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(self.pages.read(), [])

    def test_hardware_times_where_there_are_none(self):
        page, _ = self.run_loop("--launches", 10, cuda="time,hes", FAKE_CUPTI_FAIL="cuptiActivityEnableHWTrace")
        self.assertEqual(page["trouble"], "no hardware event system here, kernels are timed as usual: CUPTI error 27")
        self.assertEqual(self.device(page)["kernel"]["count"], 10)
        page, _ = self.run_loop("--launches", 10, cuda="time,hes")
        self.assertEqual(page["trouble"], "")

    def test_cupti_next_to_the_runtime_of_a_wheel(self):
        for runtime, folder in (("nvidia/cu13/lib/libcudart.so.13", "nvidia/cu13/lib"),
                                ("nvidia/cuda_runtime/lib/libcudart.so.12", "nvidia/cuda_cupti/lib")):
            with self.subTest(runtime=runtime):
                library, cupti = self.folder / runtime, self.folder / folder
                library.parent.mkdir(parents=True, exist_ok=True)
                cupti.mkdir(parents=True, exist_ok=True)
                subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", library], check=True)
                link = cupti / "libcupti.so.13"
                link.unlink(missing_ok=True)
                link.symlink_to(BUILD / "tests/fake_cupti/135/libcupti.so.13")
                page, _ = self.run_loop("--launches", 10, cupti=None, LD_PRELOAD=library)
                self.assertEqual(page["trouble"], "")
                link.unlink()


class Processes(Cuda):
    def test_a_forked_child_counts_nothing_for_its_parent(self):
        page, out = self.run_loop("--launches", 1000, "--fork")
        self.assertEqual(out.count("launches 1000"), 2)
        self.assertEqual(self.device(page)["launches"]["kernel"], 1000)
        self.assertEqual(len(self.pages.read("cuda")), 1)

    def test_exec_begins_again(self):
        self.run_loop("--launches", 1000, "--exec")
        deadline = time.monotonic() + 20
        while len(pages := self.pages.read("cuda")) < 2:
            self.assertLess(time.monotonic(), deadline, "no second page came")
        self.assertEqual([page["devices"][0]["launches"]["kernel"] for page in pages], [1000, 1000])
        self.assertEqual(pages[0]["pid"], pages[1]["pid"])

    def test_launches_after_our_end(self):
        """The handlers of atexit run in turn; launches in one that runs later are counted or not, never harmful."""
        page, out = self.run_loop("--launches", 1000, "--at-exit")
        self.assertEqual(out.count("launches 1000"), 2)
        self.assertGreaterEqual(self.device(page)["launches"]["kernel"], 1000)

    def test_the_next_agent_gets_the_page_again(self):
        """At each level, since another thread hands it over where kernels are timed; and of a job that started before any agent."""
        common = ("--seconds", 12, "--rate", 1000, "--sync-every", 10)
        started = [self.start(*common, cuda=level) for level in ("time", "count", "off")]
        jobs = dict(zip((process.pid for process in started), ("time", "count", "off")))

        def launches():
            return {page["pid"]: sum(device["launches"]["kernel"] for device in page["devices"]) for page in self.pages.read("cuda")}

        wait_until(lambda: len(launches()) == 3)
        self.pages.close()  # the agent ends
        with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
            early = self.start(*common, GPULENS_JOB_FOLDER=memory)
            started.append(early)
            jobs[early.pid] = "time"
            wait_until(lambda: os.listdir(memory) == [f"gpulens-job-{os.getuid()}-{early.pid}-2"])
            self.pages = Pages(str(self.folder / "job.sock"), str(BUILD / "job_page_dump"))
            wait_until(lambda: set(launches()) == set(jobs))
            before = launches()
            wait_until(lambda: all(now > before[pid] for pid, now in launches().items() if jobs[pid] != "off"))
            wait_until(lambda: os.listdir(memory) == [])
        for process in started:
            self.assertEqual(process.communicate(timeout=30)[1], "")

    def test_series_go_on_after_a_restart_of_the_agent(self):
        socket = self.folder / "agent" / "job.sock"
        socket.parent.mkdir()
        config = f"metrics: all\ncollectors: {{probes: {{injection: true}}, nvidia: {{enabled: false}}, programs: {{socket: {socket.parent}/otlp.sock}}}}\n"
        counted = 0
        process = None
        for _ in range(2):
            with Agent(config=config) as agent:
                wait_until(socket.exists, what="the socket")
                process = process or self.start("--seconds", 60, "--rate", 1000, GPULENS_JOB_SOCKET=socket)
                self.addCleanup(process.kill)

                def launches():
                    return value(agent.page(), "cuda_launches_total", process_pid=str(process.pid), cuda_launch_type="kernel") or 0

                wait_until(lambda: launches() > counted, 20, "the job's launches")
                counted = launches()
        process.kill()
        process.communicate()
        self.assertGreater(counted, 5000, "those before the restart are among them")

    def test_the_page_is_a_file_without_an_agent(self):
        environment = {"GPULENS_JOB_SOCKET": self.folder / "none.sock"}
        process = self.start("--launches", 1000, "--wait-ms", 3000, **environment)
        deadline = time.monotonic() + 20
        name = f"gpulens-job-{os.getuid()}-{process.pid}-2"
        while not (self.folder / name).exists():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, 0)
        self.assertFalse((self.folder / name).exists())

    def test_needs_old_glibc_and_no_libstdcxx(self):
        out = subprocess.run(["readelf", "-dW", "--dyn-syms", BUILD / "libgpulens-cuda.so"], capture_output=True, text=True,
                             check=True).stdout
        needed = [line.split("[")[1].rstrip("]") for line in out.splitlines() if "(NEEDED)" in line]
        self.assertLessEqual(set(needed), {"libc.so.6", "libdl.so.2", "libpthread.so.0"})
        versions = {tuple(map(int, word.split("GLIBC_")[1].split(" ")[0].split("."))) for word in out.splitlines()
                    if "@GLIBC_" in word}
        self.assertLessEqual(max(version[:2] for version in versions), SYMBOLS_ALLOWED)
        self.assertRegex(out, "NODELETE")
        exported = [line.split()[-1] for line in out.splitlines()
                    if " GLOBAL " in line and " UND " not in line and "DEFAULT" in line]
        self.assertEqual(exported, ["InitializeInjection"])


if __name__ == "__main__":
    unittest.main()
