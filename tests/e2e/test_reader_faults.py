"""A library that ends the process which reads it, a machine without room for threads, a terminal that is closed: what the
running agent shows of it."""
import contextlib
import os
import pty
import resource
import shutil
import signal
import subprocess
import tempfile
import unittest

from agent import BINARY, Agent, free_port, samples, value, wait_until

GPUS = 8


def states(page):
    """The state of each GPU by its index."""
    return {sample.labels["gpu_index"]: sample.labels["gpu_state"] for sample in samples(page, "gpu_state") if
            sample.value == 1}


def fresh(page, gpu):
    return any(sample.timestamp is None for sample in samples(page, "gpu_power_draw_watts", gpu_index=str(gpu)))


def look(port):
    """The page, or nothing."""
    done = subprocess.run(["curl", "-s", "-m", "2", f"http://127.0.0.1:{port}/metrics"], check=False, capture_output=True,
                          text=True)
    return done.stdout if done.returncode == 0 else ""


class CrashingLibrary(unittest.TestCase):
    def test_one_gpu_is_left_out_and_the_others_stay(self):
        folder = tempfile.mkdtemp(prefix="gpulens-e2e-")
        self.addCleanup(shutil.rmtree, folder, True)
        control = os.path.join(folder, "control.sock")
        with Agent("--demo", config=f"state_dir: {folder}/state\ncontrol: {{socket: {control}}}\n") as agent:
            wait_until(lambda: all(fresh(agent.page(), gpu) for gpu in range(GPUS)), what="eight GPUs")
            order = ("gpu=3", "mode=crash_loop", "call=nvmlDeviceGetPowerUsage")
            subprocess.run([BINARY, "fake", "nvml", "fail", "--socket", control, *order], check=True,
                           stdout=subprocess.DEVNULL)
            # The others are never without a value: their readings of before hold until the process is back.
            def left_out():
                page = agent.page()
                for gpu in range(GPUS):
                    if gpu != 3:
                        self.assertTrue(samples(page, "gpu_power_draw_watts", gpu_index=str(gpu)), f"GPU {gpu}")
                return states(page).get("3") == "left_out"
            wait_until(left_out, 60, "GPU 3 left out")
            wait_until(lambda: all(fresh(agent.page(), gpu) for gpu in range(GPUS) if gpu != 3), what="seven GPUs")
            page = agent.page()
            self.assertEqual({gpu for gpu, state in states(page).items() if state != "ok"}, {"3"})
            self.assertEqual(value(page, "gpulens_reader_devices", state="left_out"), 1)
            self.assertGreater(value(page, "gpulens_reader_files"), 4)
            events = subprocess.run([BINARY, "events", "--format", "json"], check=False, capture_output=True, text=True,
                                    env={**os.environ, "GPULENS_STATE_DIR": f"{folder}/state"})
            self.assertIn("nvmlDeviceGetPowerUsage on GPU 3", agent.log_text() + events.stdout)


@unittest.skipUnless(os.getuid() == 0 and shutil.which("setpriv"), "needs root, to become a user with a limit")
class NoRoomForThreads(unittest.TestCase):
    """Runs as a user without other processes, so that the limit counts only the agent's threads."""
    USER = 64_123

    def start(self, threads, folder, port):
        def limit():
            resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))
        os.chown(folder, self.USER, self.USER)
        environment = {**os.environ, "HOME": folder, "XDG_RUNTIME_DIR": folder, "XDG_STATE_HOME": folder,
                       "GPULENS_DISCOVERY_LOCAL_ENABLED": "false"}
        return subprocess.Popen(
            ["setpriv", f"--reuid={self.USER}", f"--regid={self.USER}", "--clear-groups", "--inh-caps=-all", str(BINARY),
             "agent", "--demo", "--http-listen", f"127.0.0.1:{port}", "--ws-listen", f"127.0.0.1:{free_port()}"],
            env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, preexec_fn=limit, text=True)

    def test_it_never_aborts_and_reports_gpus_that_are_not_read(self):
        seen = set()
        for threads in (1, 3, 5, 8, 10, 12, 14, 16, 20):
            folder, port = tempfile.mkdtemp(prefix="gpulens-e2e-"), free_port()
            self.addCleanup(shutil.rmtree, folder, True)
            process = self.start(threads, folder, port)
            with self.subTest(threads=threads):
                pages = [""]

                def settled():
                    pages.append(look(port))
                    return process.poll() is not None or "unread" in states(pages[-1]).values() or all(
                        fresh(pages[-1], gpu) for gpu in range(GPUS))
                with contextlib.suppress(AssertionError):  # Where no reader process can be started there is no GPU.
                    wait_until(settled, 8)
                page = pages[-1]
                self.assertIn(process.poll(), (None, 1), "it works, or reports that it cannot")
                unread = [gpu for gpu, state in states(page).items() if state == "unread"]
                if unread:
                    seen.add("unread")
                    self.assertEqual(value(page, "gpulens_collector_up", collector="nvidia"), 0)
                    self.assertEqual(value(page, "gpulens_reader_devices", reader="nvml", state="unread"), len(unread))
            process.terminate()
            errors = process.communicate(timeout=20)[1]
            with self.subTest(threads=threads, errors=errors):
                self.assertNotIn("terminate called", errors)
                if process.returncode == 1:
                    self.assertIn("thread", errors)
        self.assertIn("unread", seen)


class ClosedTerminal(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gpulens-e2e-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.port = free_port()
        self.environment = {**{key: text for key, text in os.environ.items() if not key.startswith("GPULENS_")},
                            "XDG_STATE_HOME": self.folder, "XDG_RUNTIME_DIR": self.folder,
                            "GPULENS_DISCOVERY_LOCAL_ENABLED": "false"}

    def start(self, *arguments):
        """The agent in the foreground of a terminal; its pid and our end of it."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(str(BINARY), [str(BINARY), "agent", "--demo", "--http-listen", f"127.0.0.1:{self.port}", "--ws-listen",
                                    f"127.0.0.1:{free_port()}", *arguments], self.environment)
        wait_until(lambda: look(self.port), what="a page")
        return pid, terminal

    @unittest.skipIf(os.path.exists("/etc/gpulens/gpulens.yaml"), "this machine has a configuration file")
    def test_it_ends_with_its_terminal(self):
        self.expect_end_with(*self.start())

    def expect_end_with(self, pid, terminal):
        os.close(terminal)
        try:
            wait_until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, what="its end")
        except AssertionError:
            os.kill(pid, signal.SIGKILL)
            raise
        self.assertFalse(look(self.port), "the port is free")

    def test_a_hangup_without_the_terminals_end_reads_the_file_again(self):
        file = os.path.join(self.folder, "gpulens.yaml")
        with open(file, "w", encoding="utf-8") as out:
            out.write("interval: 1s\nmetrics: all\n")
        pid, terminal = self.start("--config", file)
        try:
            reloads = value(look(self.port), "gpulens_config_reloads_total", result="unchanged") or 0
            os.kill(pid, signal.SIGHUP)
            wait_until(lambda: (value(look(self.port), "gpulens_config_reloads_total", result="unchanged") or 0) > reloads,
                       what="a reload")
            self.assertEqual(os.waitpid(pid, os.WNOHANG)[0], 0)
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(terminal)
            raise
        self.expect_end_with(pid, terminal)


class Monitors(unittest.TestCase):
    def test_amd_monitor_has_a_demo(self):
        done = subprocess.run([BINARY, "amd_monitor", "--once", "--demo", "--interval", "1s"], check=False, capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("MI300X", done.stdout)

    @unittest.skipIf(os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/kfd"), "this machine has a GPU")
    def test_fleet_health_without_a_gpu_names_both_vendors(self):
        done = subprocess.run([BINARY, "fleet_health_monitor", "--once"], check=False, capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("NVIDIA", done.stderr)
        self.assertIn("AMD", done.stderr)


if __name__ == "__main__":
    unittest.main()
