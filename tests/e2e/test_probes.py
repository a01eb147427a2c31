"""Probes of CUDA from outside: a probe host, an agent and a program that calls a libcuda without a GPU at known rates."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from agent import BINARY, Agent, samples, wait_until

FAKES = pathlib.Path(os.environ.get("GPULENS_BPF_FAKES", BINARY.resolve().parent / "bpf_fakes"))
FUNCTION = "cuLaunchKernel"
# Bounds of buckets are 2^(1/4) apart.
BUCKET = 2 ** 0.25


class Caller:
    """A program that has loaded a libcuda and calls it on command."""

    def __init__(self, style="push"):
        self.process = subprocess.Popen([FAKES / "bpf_caller"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = int(self.process.stdout.readline().split()[1])
        self.do(f"open {FAKES / style / 'libcuda.so.1'}")

    def begin(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def do(self, line):
        self.begin(line)
        return self.process.stdout.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def first_bytes(pid, function=FUNCTION):
    """The first byte of the function as the process has it: the kernel writes a trap there while a probe is attached."""
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        fields = line.split()
        if fields[-1].endswith("libcuda.so.1") and "x" in fields[1]:
            begin, offset = int(fields[0].split("-")[0], 16), int(fields[2], 16)
            symbols = subprocess.run(["nm", "-D", fields[-1]], capture_output=True, text=True, check=True).stdout
            at = next(int(one.split()[0], 16) for one in symbols.splitlines() if one.endswith(f" T {function}"))
            with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
                memory.seek(begin + at - offset)
                return memory.read(1)
    raise AssertionError("the process has no libcuda")


class Probes(unittest.TestCase):
    more = ""

    def setUp(self):
        if not (FAKES / "bpf_caller").exists():
            self.skipTest("the libcuda without a GPU is not built (target bpf_caller)")
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="gpulens-probes-")))
        self.socket, self.switch = self.folder / "probes.sock", self.folder / "probes.off"
        self.collector = f"collectors: {{probes: {{socket: {self.socket}{self.more}}}}}\n"
        self.file = self.folder / "gpulens.yaml"
        self.file.write_text(self.collector)
        self.host = self.start_host()
        self.addCleanup(self.end_host)
        status = json.loads(self.command("status", "--json").stdout)
        if "reason" in status:
            self.skipTest(f"{status['reason']}: {status['sentence']}")

    def start_host(self):
        host = subprocess.Popen([BINARY, "probe-host", "--config", self.file, "--switch-file", self.switch],
                                stderr=subprocess.PIPE, text=True, env={**os.environ, "LSAN_OPTIONS": "detect_leaks=0"})  # fmt: skip
        # It listens at once; its first answer comes when it has measured.
        wait_until(lambda: self.command("status").returncode == 0, what="the probe host")
        return host

    def end_host(self):
        self.host.kill()
        self.host.wait()
        self.host.stderr.close()

    def command(self, *words):
        return subprocess.run([BINARY, "probe", words[0], "--config", self.file, *words[1:]], capture_output=True, text=True, timeout=30, check=False)

    def status(self):
        return json.loads(self.command("status", "--json").stdout)

    def agent(self):
        agent = self.enterContext(Agent(config=self.collector))
        wait_until(lambda: self.status()["agent"], what="the agent at the probe host")
        return agent

    def attach(self, pid, *words):
        done = self.command("attach", str(pid), *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def launches(self, agent, pid, **labels):
        return sum(one.value for one in samples(agent.page(), "cuda_launches_total", process_pid=str(pid), **labels))

    def test_every_launch_is_counted_and_timed(self):
        agent, caller = self.agent(), self.enterContext(Caller())
        original = first_bytes(caller.pid)
        self.assertIn("a counted call costs", self.attach(caller.pid))
        self.assertNotEqual(first_bytes(caller.pid), original)
        caller.do(f"call {FUNCTION} 1000 100000 1")
        caller.do("call cuGraphLaunch 17 0 1")
        wait_until(lambda: self.launches(agent, caller.pid) == 1017, what="1,017 launches on the page")
        page = agent.page()
        labels = {"process_pid": str(caller.pid), "cuda_source": "uprobe"}
        self.assertEqual(self.launches(agent, caller.pid, cuda_launch_type="graph"), 17)
        kernel = {**labels, "cuda_launch_type": "kernel"}
        self.assertEqual([one.value for one in samples(page, "cuda_launch_enqueue_duration_seconds_count", **kernel)], [1000])
        below = {float(one.labels["le"]): one.value for one in samples(page, "cuda_launch_enqueue_duration_seconds_bucket", **kernel)}
        for share in (0.5, 0.9):
            bound = min(le for le, count in below.items() if count >= share * 1000)
            self.assertTrue(1e-4 / BUCKET <= bound <= 1e-4 * BUCKET ** 2, f"{share} of the calls of 100 us below {bound}")
        # The page keeps nothing of a process that ended.
        caller.process.kill()  # not waited for: it is a zombie
        wait_until(lambda: not samples(agent.page(), "cuda_launches_total", process_pid=str(caller.pid)), what="the end of its series")
        self.assertEqual(self.status()["targets"], [])

    def test_children_and_programs_that_it_starts_are_followed(self):
        agent, caller = self.agent(), self.enterContext(Caller())
        self.attach(caller.pid)
        caller.begin(f"fork {FUNCTION} 500 1000000 3")  # half a second each
        seen = {}

        def all_counted():
            for one in samples(agent.page(), "cuda_launches_total", cuda_launch_type="kernel"):
                seen[one.labels["process_pid"]] = max(seen.get(one.labels["process_pid"], 0), one.value)
            return len([count for count in seen.values() if count > 0]) == 3

        wait_until(all_counted, what="three children with counts of their own")
        self.assertEqual(seen.get(str(caller.pid), 0), 0, "what children call is theirs")
        self.assertEqual(caller.process.stdout.readline(), "forked\n")

    def test_a_storm_is_cut_down_with_an_event(self):
        agent, caller = self.agent(), self.enterContext(Caller())
        original = first_bytes(caller.pid)
        self.attach(caller.pid, "--budget", "0.05%")
        begun = time.monotonic()
        caller.begin(f"storm {FUNCTION} 5000 0")
        wait_until(lambda: first_bytes(caller.pid) == original, 3, what="the program as it was")
        self.assertLess(time.monotonic() - begun, 1.5)
        event = wait_until(lambda: [one for one in self.events(agent) if "probe.detached" in one], what="the event")[0]
        self.assertRegex(event, r"calls/s cost [0-9.]+ % of a thread")
        self.assertIn('"gpulens.reason": "budget"', event)
        self.assertIn(self.status()["targets"][0]["measuring"], ("windows", "paused", "given_up"))
        self.assertTrue(caller.process.stdout.readline().startswith("stormed"))

    def test_estimates_of_windows_have_their_mark(self):
        agent, caller = self.agent(), self.enterContext(Caller())
        self.attach(caller.pid)
        caller.begin(f"call {FUNCTION} 600000 20000 1")  # 12 s of 50,000 calls a second: counting all costs some 4 %
        wait_until(lambda: self.status()["targets"][0]["measuring"] == "windows", 5, what="windows")
        labels = {"process_pid": str(caller.pid), "cuda_launch_type": "kernel"}
        sampled = wait_until(lambda: samples(agent.page(), "cuda_launches_total", cuda_quality="sampled", **labels), what="the mark")
        self.assertEqual(len(sampled), 1)
        self.assertEqual(caller.process.stdout.readline(), f"called {caller.pid}\n")
        counted = samples(agent.page(), "cuda_launches_total", cuda_quality="sampled", **labels)[0].value
        self.assertTrue(150_000 <= counted <= 1_000_000, f"{counted} of 600,000 by windows of 100 ms in 10 s")

    def events(self, agent):
        return [json.dumps(one) for one in json.loads(agent.get("/api/events").text)["events"]]

    def test_kill_switch(self):
        agent, caller = self.agent(), self.enterContext(Caller())
        original = first_bytes(caller.pid)
        self.attach(caller.pid)
        begun = time.monotonic()
        done = self.command("kill-switch", "on", "--reason", "a test")
        self.assertLess(time.monotonic() - begun, 1)
        self.assertRegex(done.stdout, r"^0 probes attached, 0\.\d\d s\n$")
        self.assertEqual(first_bytes(caller.pid), original)
        self.assertEqual(self.switch.read_text(), "a test\n")
        refused = self.command("attach", str(caller.pid))
        self.assertEqual(refused.returncode, 1)
        self.assertIn("switched_off", refused.stderr)
        # It outlives the probe host.
        self.end_host()
        self.host = self.start_host()
        wait_until(lambda: self.status()["agent"], what="the agent at the new probe host")
        self.assertIn("switched_off", self.command("attach", str(caller.pid)).stderr)
        self.assertEqual(self.command("kill-switch", "off").returncode, 0)
        self.attach(caller.pid)
        # Any file of that name does it, within a quarter of a second.
        self.switch.mkdir()
        wait_until(lambda: first_bytes(caller.pid) == original, 5, what="the program as it was")
        del agent

    def test_nothing_stays_when_anything_is_killed(self):
        """kill -9 of the watcher, of the process that holds the probes, and of the agent; SIGTERM and SIGHUP."""
        caller = self.enterContext(Caller())
        original = first_bytes(caller.pid)

        def worker():
            return self.status()["pid"]

        cases = {
            "the watcher": lambda: self.host.kill(),
            "the process that holds them": lambda: os.kill(worker(), signal.SIGKILL),
            "SIGTERM": lambda: self.host.terminate(),
        }
        for name, end in cases.items():
            with self.subTest(name):
                with Agent(config=self.collector):
                    wait_until(lambda: self.status()["agent"], what="the agent")
                    self.attach(caller.pid)
                    self.assertNotEqual(first_bytes(caller.pid), original)
                    end()
                    wait_until(lambda: first_bytes(caller.pid) == original, 5, what="the program as it was")
                    self.host.wait(timeout=5)
                self.host.stderr.close()
                self.host = self.start_host()
        with contextlib.ExitStack() as stack:
            agent = stack.enter_context(Agent(config=self.collector))
            wait_until(lambda: self.status()["agent"], what="the agent")
            self.attach(caller.pid)
            self.host.send_signal(signal.SIGHUP)
            wait_until(lambda: first_bytes(caller.pid) == original, 5, what="the program as it was after SIGHUP")
            self.attach(caller.pid)
            agent.process.kill()
            wait_until(lambda: first_bytes(caller.pid) == original, 5, what="the program as it was, 3 s after the agent")
        self.assertIn("no_agent", self.command("attach", str(caller.pid)).stderr)

    def test_a_hanging_host_is_killed(self):
        caller = self.enterContext(Caller())
        original = first_bytes(caller.pid)
        self.agent()
        self.attach(caller.pid)
        os.kill(self.status()["pid"], signal.SIGSTOP)
        wait_until(lambda: first_bytes(caller.pid) == original, 8, what="the program as it was")
        self.assertEqual(self.host.wait(timeout=5), 1)

    def test_refusals_have_a_code_a_sentence_and_a_row(self):
        self.agent()
        with Caller("sub") as caller:
            listed = json.loads(self.command("list", "--pid", str(caller.pid), "--json").stdout)
            function = next(one for one in listed["processes"][0]["functions"] if one["function"] == FUNCTION)
            self.assertEqual((function["can"], function["reason"]), (False, "single_step"))
            self.assertTrue(function["sentence"] and function["row"])
            original = first_bytes(caller.pid)
            done = self.command("attach", str(caller.pid))
            self.assertEqual(done.returncode, 1)
            self.assertIn("single_step", done.stderr)
            self.assertEqual(first_bytes(caller.pid), original)
        self.assertIn("no_process", self.command("attach", "4194000").stderr)

    def test_other_users(self):
        """They see nothing of root's processes, hold nothing, and switch nothing."""
        if os.geteuid() != 0:
            self.skipTest("needs root to be another user")
        self.agent()
        self.folder.chmod(0o755)
        self.file.chmod(0o644)
        with Caller() as caller:
            self.attach(caller.pid)

            def as_another_user(*words):
                return subprocess.run([BINARY.resolve(), "probe", words[0], "--config", self.file, *words[1:]], user=65534, group=65534, extra_groups=[],
                                      capture_output=True, text=True, timeout=30, check=False)  # fmt: skip

            if as_another_user("status").returncode != 0:
                self.skipTest("another user cannot run the program here: " + as_another_user("status").stderr)
            self.assertEqual(json.loads(as_another_user("status", "--json").stdout)["targets"], [])
            self.assertIn("not_permitted", as_another_user("detach", str(caller.pid)).stderr)
            self.assertIn("not_permitted", as_another_user("attach", str(caller.pid)).stderr)
            self.assertIn("not_permitted", as_another_user("kill-switch", "on").stderr)
            self.assertEqual(len(self.status()["targets"]), 1)


if __name__ == "__main__":
    unittest.main()
