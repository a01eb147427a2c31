"""`gpulens why` and /api/why: a cause that is put into a demo is found, and gone when it is over."""
import json
import pathlib
import subprocess
import tempfile
import unittest

from agent import BINARY, ROOT, Agent, free_port, wait_until


def why(*arguments, environment=None, timeout=120):
    """Runs the command; without an agent of this machine unless the arguments name one."""
    with tempfile.TemporaryDirectory() as folder:
        ours = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": folder, "XDG_RUNTIME_DIR": folder, "STATE_DIRECTORY": folder,
                "GPULENS_CONTROL_SOCKET": "none", "GPULENS_HTTP_LISTEN": f"127.0.0.1:{free_port()}",
                "GPULENS_DISCOVERY_LOCAL_ENABLED": "false", **(environment or {})}
        return subprocess.run([str(BINARY), "why", *arguments], capture_output=True, text=True, timeout=timeout, env=ours)


class Command(unittest.TestCase):
    def test_the_page_has_the_table_of_this_program(self):
        table = why("--rules", "--format", "md")
        self.assertEqual(table.returncode, 0, table.stderr)
        page = (ROOT / "docs" / "why.md").read_text()
        self.assertIn(table.stdout, page, "docs/why.md is stale: gpulens why --rules --format md")
        rules = json.loads(why("--rules", "--json").stdout)["rules"]
        self.assertEqual(len(rules), table.stdout.count("\n") - 2)

    def test_wrong_use(self):
        for words in (["gpu"], ["rack", "3"], ["gpu", "0", "1"], ["--format", "md"]):
            run = why(*words, "--demo")
            self.assertEqual(run.returncode, 2, (words, run.stderr))
            self.assertTrue(run.stderr.strip(), words)
        run = why("--window", "5s", "--demo", environment={"GPULENS_DEMO_SCENARIO": "none"})
        self.assertEqual((run.returncode, "window is 1m to 1h" in run.stderr), (2, True), run.stderr)

    def test_without_an_agent_it_reads_by_itself_and_reports_that(self):
        run = why("--no-wait")
        self.assertIn("this process reads by itself", run.stderr)
        # On a busy machine the host may not have been read yet.
        self.assertRegex(run.stdout, "history too short|no series", run.stderr)
        self.assertIn("by this process", run.stdout)
        # Nothing could be known: that is not "nothing was found".
        self.assertEqual(run.returncode, 3, run.stdout + run.stderr)

    def test_an_agent_that_is_named_and_does_not_answer(self):
        run = why(f"http://127.0.0.1:{free_port()}")
        self.assertEqual(run.returncode, 3)
        self.assertIn("127.0.0.1", run.stderr)


class Demo(unittest.TestCase):
    def test_causes_come_and_go(self):
        socket = pathlib.Path(tempfile.mkdtemp()) / "socket"
        environment = {"GPULENS_DEMO_SCENARIO": "calm", "GPULENS_CONTROL_SOCKET": str(socket)}
        with Agent("--demo", environment=environment) as agent:
            def found(**parameters):
                query = "&".join(f"{key}={value}" for key, value in parameters.items())
                page = json.loads(agent.get("/api/why?" + query).text)
                self.assertEqual(page["schema"], "gpulens.why/1", page)
                self.assertTrue(page["simulated"])
                for finding in page["findings"]:
                    self.assertTrue(finding["evidence"] and finding["sentence"] and finding["do"], finding)
                return {(one["rule"], one["subject"].get("name", "")): one for one in page["findings"]}, page

            def sim(*words):
                run = subprocess.run([str(BINARY), "sim", *words], env=agent.environment, capture_output=True, text=True)
                self.assertEqual(run.returncode, 0, run.stderr)

            _, first = found()
            self.assertGreater(first["wait_s"], 30)
            self.assertTrue(all("history too short" in row["reason"] or "no series" in row["reason"] or "not one of" in row["reason"]
                                or "no value" in row["reason"] for row in first["unknown"]), first["unknown"])
            sim("fail", "gpu=3", "mode=throttle", "value=0x20")
            sim("set", "engine=search-c", "load=1.4")
            throttled, queued = ("thermal_software", "3"), ("queue_wait", "search-c")
            wait_until(lambda: {throttled, queued} <= set(found()[0]), 120, "both findings")
            both, page = found()
            self.assertGreater(both[throttled]["evidence"][0]["value"], 0.1)
            self.assertEqual(both[throttled]["evidence"][0]["attributes"]["gpu.index"], "3")
            self.assertEqual(both[queued]["gpus"], ["4"])  # on which the scenario has it
            self.assertGreater(both[queued]["cost"]["share"], 0.1)
            self.assertLess(page.get("wait_s", 0), first["wait_s"])
            # Another GPU is not held back by this one's heat.
            self.assertNotIn(throttled, found(gpu=2)[0])
            self.assertIn(throttled, found(gpu=3)[0])
            self.assertIn(queued, found(engine="search-c")[0])
            # The command reads the same agent.
            run = why("gpu", "3", "--socket", str(socket))
            self.assertEqual(run.returncode, 1, run.stderr)
            for text in ("SIMULATED", "GPU 3", "Heat: driver slow-down", "gpu.throttle.reason{gpu.index=3", "Looked at, and not found"):
                self.assertIn(text, run.stdout)
            as_json = why("gpu", "3", "--json", f"http://127.0.0.1:{agent.port}")
            self.assertIn("thermal_software", [one["rule"] for one in json.loads(as_json.stdout)["findings"]])
            gone = why("gpu", "99", "--socket", str(socket))
            self.assertEqual(gone.returncode, 3)
            self.assertIn("no GPU 99 in the history; there are: 0, 1", gone.stderr)
            for wrong, status in (("window=1s", 400), ("gpu=1&job=2", 400), ("rack=3", 400), ("gpu=", 400), ("gpu=99", 404)):
                self.assertEqual(agent.get("/api/why?" + wrong).status, status, wrong)
            sim("heal")
            wait_until(lambda: not {throttled, queued} & set(found()[0]), 90, "the end of both findings")


if __name__ == "__main__":
    unittest.main()
