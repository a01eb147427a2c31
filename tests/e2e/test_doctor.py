"""`gpulens doctor` and `gpulens events` query the running agent, and name the source of their view."""
import base64
import crypt
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from agent import BINARY, Agent, free_port, samples, wait_until

# Emptied when the tests are over.
FOLDERS = tempfile.TemporaryDirectory(prefix="gpulens-doctor-")


def new_folder():
    return pathlib.Path(tempfile.mkdtemp(dir=FOLDERS.name))


def run(*words, **environment):
    return subprocess.run([str(BINARY), *map(str, words)], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, **environment})


class Demo:
    """An agent with simulated GPUs, and a configuration by which a command finds it and nothing else of it."""

    def __init__(self, more="", state=None, kernel_log=True):
        self.folder = new_folder()
        self.socket, self.log = self.folder / "s.sock", self.folder / "kern.log"
        self.state = state or self.folder / "state"
        self.log.touch()
        source = f"{{source: file, path: {self.log}, interval: 100ms}}" if kernel_log else "{source: file, path: /nowhere/kern.log}"
        self.text = (f"interval: 250ms\nstate_dir: {self.state}\ncontrol: {{socket: {self.socket}}}\n"
                     f"collectors: {{nvidia: {{interval: 250ms}}, kernel_log: {source}}}\n{more}")
        self.agent = Agent("--demo", config=self.text)
        self.finder = self.folder / "finder.yaml"

    def __enter__(self):
        self.agent.__enter__()
        wait_until(lambda: samples(self.agent.page(), "gpu_health_state"), what="GPUs with a word")
        self.finder.write_text(f"control: {{socket: {self.socket}}}\nhttp: {{listen: ['127.0.0.1:{self.agent.port}']}}\n")
        return self

    def __exit__(self, *what):
        self.agent.__exit__(*what)

    def doctor(self):
        done = run("doctor", "--json", "--config", self.finder)
        page = json.loads(done.stdout)
        return done.returncode, page, {f["subject"]: f for f in page["findings"] if f["kind"] not in ("found", "absent")}

    def fail(self, *words):
        done = run("fake", "nvml", "fail", *words, "--socket", self.socket)
        assert done.returncode == 0, done.stderr


class Doctor(unittest.TestCase):
    def test_the_agents_view(self):
        with Demo() as demo:
            code, page, trouble = demo.doctor()
            self.assertEqual((page["seen_by"], page["pid"], page["simulated"]), ("agent", demo.agent.process.pid, True))
            self.assertEqual((code, trouble), (0, {}))
            demo.fail("gpu=6", "mode=lost")
            wait_until(lambda: "GPU 6" in demo.doctor()[2], what="the lost GPU")
            code, page, trouble = demo.doctor()
            self.assertEqual(code, 2)
            self.assertEqual(list(trouble), ["GPU 6"])
            self.assertIn("gpu_lost", trouble["GPU 6"]["why"])
            text = run("doctor", "--config", demo.finder).stdout
            self.assertIn("1 fault", text)
            self.assertNotIn("No GPU was found", text)
            self.assertIn(f"the agent of user {page['user']} (pid {demo.agent.process.pid})", text)

    def test_by_http_where_there_is_no_socket(self):
        with Demo() as demo:
            demo.finder.write_text(f"control: {{socket: none}}\nhttp: {{listen: ['127.0.0.1:{demo.agent.port}']}}\n")
            code, page, _ = demo.doctor()
            self.assertEqual((code, page["seen_by"]), (0, "agent"))
            self.assertEqual(page["agent"], f"http://127.0.0.1:{demo.agent.port}/")
            self.assertEqual(run("events", "--config", demo.finder).returncode, 0)

    def test_the_status_needs_permission_to_read_the_agent(self):
        with Demo() as demo:
            here = f"127.0.0.1:{demo.agent.port}"
            self.assertEqual(demo.agent.get("/-/status", timeout=30).status, 200)
            for headers in ({"Host": f"evil.example:{demo.agent.port}"}, {"Host": here, "Origin": "http://evil.example"}):
                self.assertEqual(demo.agent.get("/-/status", timeout=30, **headers).status, 403, headers)

    def test_without_a_password_there_is_no_status(self):
        folder = new_folder()
        (folder / "web.yaml").write_text(f"basic_auth_users:\n  alice: {crypt.crypt('secret', '$2b$04$abcdefghijklmnopqrstuu')}\n")
        who = "Basic " + base64.b64encode(b"alice:secret").decode()
        config = f"control: {{socket: none}}\nhttp: {{web_config: {folder}/web.yaml}}\n"
        with Agent("--demo", config=config, authorization=who) as agent:
            self.assertEqual(agent.get("/-/status", timeout=30).status, 401)
            self.assertEqual(agent.get("/-/status", timeout=30, Authorization=who).status, 200)
            finder = folder / "finder.yaml"
            finder.write_text(f"control: {{socket: none}}\nhttp: {{listen: ['127.0.0.1:{agent.port}']}}\n")
            done = run("doctor", "--json", "--config", finder)
            page = json.loads(done.stdout)
            self.assertEqual(page["seen_by"], "command")
            self.assertIn("does not report its state", json.dumps(page))

    def test_a_refused_reload(self):
        with Demo() as demo:
            good = demo.agent.config.read_text()
            demo.agent.config.write_text("intervall: 1s\n")
            self.assertEqual(demo.agent.get("/-/reload", method="POST").status, 500)
            code, _, trouble = demo.doctor()
            self.assertEqual(code, 2)
            self.assertIn("intervall", trouble["config"]["why"])
            demo.agent.config.write_text(good)
            self.assertEqual(demo.agent.get("/-/reload", method="POST").status, 200)
            self.assertEqual(demo.doctor()[0], 0)

    def test_a_state_folder_that_cannot_be_written(self):
        with Demo(state="/proc/nope") as demo:
            code, _, trouble = demo.doctor()
            self.assertEqual(code, 2)
            self.assertIn("/proc/nope", trouble["state_dir"]["why"])

    def test_a_kernel_log_that_the_agent_cannot_read(self):
        with Demo(kernel_log=False) as demo:
            wait_until(lambda: "kernel_log" in demo.doctor()[2] or any(
                f["subject"] == "kernel_log" and f["kind"] != "found" for f in demo.doctor()[1]["findings"]), what="the finding")

    def test_something_else_at_the_agents_address(self):
        with Demo() as demo:
            demo.finder.write_text(f"control: {{socket: none}}\nhttp: {{listen: ['127.0.0.1:{demo.agent.ws_port}']}}\n")
            code, page, trouble = demo.doctor()
            self.assertEqual((code, page["seen_by"]), (1, "command"))
            self.assertIn("does not report its state", trouble["agent"]["what"])


class Events(unittest.TestCase):
    def test_the_agents_store_is_read(self):
        with Demo() as demo:
            nothing = run("events", "--config", demo.finder)
            self.assertEqual(nothing.returncode, 0)
            self.assertIn("no events were recorded", nothing.stderr)
            demo.fail("gpu=2", "mode=lost")
            wait_until(lambda: "gpu.lost" in run("events", "--config", demo.finder).stdout, what="the event")
            lines = run("events", "--config", demo.finder, "--format", "json").stdout.splitlines()
            times = [json.loads(line)["ts"] for line in lines]
            self.assertEqual(times, sorted(times))
            own = run("events", "--config", demo.agent.config, "--format", "json").stdout.splitlines()
            self.assertEqual(own[:len(lines)], lines, "the configuration of the agent itself names the folder above that of --demo")

    @unittest.skipIf(os.path.exists("/var/lib/gpulens"), "this machine has the folder of the service")
    def test_without_an_agent_an_empty_list_is_an_error(self):
        folder = new_folder()
        config = folder / "no_agent.yaml"
        config.write_text(f"control: {{socket: {folder}/s.sock}}\nhttp: {{listen: ['127.0.0.1:{free_port()}']}}\n")
        done = run("events", "--config", config, XDG_STATE_HOME=str(folder), STATE_DIRECTORY=str(folder))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("no agent answers", done.stderr)

    def test_xids_are_cleared(self):
        with Demo() as demo:
            def xid():
                return run("check", "xid", "--url", f"http://127.0.0.1:{demo.agent.port}").returncode
            wait_until(lambda: xid() == 0, what="no XID")
            demo.fail("gpu=1", "mode=xid", "code=119")
            wait_until(lambda: xid() == 2, what="the XID")
            wait_until(lambda: "GPU 1" in demo.doctor()[2], what="the word")
            done = run("events", "clear", "--gpu", "1", "--socket", demo.socket)
            self.assertEqual(done.returncode, 0, done.stderr)
            wait_until(lambda: xid() == 0, what="no XID any more")
            self.assertIn("gpu.xid.clear", run("events", "--config", demo.finder).stdout)


if __name__ == "__main__":
    unittest.main()
