"""What the agent may do is fixed when it starts: a reload that needs more is refused, a restart grants it; with every plugin on nothing
is missing."""
import json
import pathlib
import subprocess
import tempfile
import unittest

from agent import ROOT, Agent, free_port, samples, value, wait_until

HL_SMI = ROOT / "tests" / "fake_hl_smi" / "hl-smi"
# Of messages about something that the agent may not do.
REFUSALS = ("may not start", "ermission denied", "peration not permitted", "programs are fixed", "which it may not")


def lines_of(path):
    return len(path.read_text().splitlines()) if path.exists() else 0


class Rights(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory(prefix="gpulens-rights-")
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)
        for name in ("first", "second"):
            (self.folder / name).mkdir()

    def config(self, name, more=""):
        return f"interval: 200ms\nsinks: {{file: {{path: {self.folder}/{name}/x.jsonl}}}}\n{more}"

    def test_a_reload_that_needs_another_folder_is_refused_and_a_restart_takes_it(self):
        first, second = self.folder / "first" / "x.jsonl", self.folder / "second" / "x.jsonl"
        with Agent(config=self.config("first")) as agent:
            wait_until(lambda: lines_of(first) > 0, what="readings in the file")
            agent.config.write_text(self.config("second"))
            answer = agent.get("/-/reload", method="POST")
            self.assertEqual(answer.status, 500)
            self.assertIn(f"it needs to write {second.parent}, which it may not since it started: restart the agent", answer.text.decode())
            self.assertIn("kept the old configuration", agent.log_text())
            wait_until(lambda: value(agent.page(), "gpulens_config_last_reload_success") == 0, what="the count of the refusal")
            before = lines_of(first)
            wait_until(lambda: lines_of(first) > before, what="more readings in the old file")
            self.assertFalse(second.exists())
            # What needs no other right is applied, and so is a file in the same folder.
            agent.config.write_text(self.config("first", "resource: {cluster: blue}\n").replace("x.jsonl", "y.jsonl"))
            self.assertEqual(agent.get("/-/reload", method="POST").status, 200)
            wait_until(lambda: lines_of(first.with_name("y.jsonl")) > 0, what="readings in the other file")
        with Agent(config=self.config("second")):
            wait_until(lambda: lines_of(second) > 0, what="readings where they were refused before")

    def test_without_a_sandbox_every_reload_is_applied(self):
        off = "sandbox: {mode: \"off\"}\n"
        with Agent(config=self.config("first", off)) as agent:
            agent.reload(self.config("second", off))
            wait_until(lambda: lines_of(self.folder / "second" / "x.jsonl") > 0, what="readings in the other folder")

    def test_with_every_plugin_on_nothing_is_missing(self):
        log = self.folder / "kern.log"
        log.touch()
        targets = self.folder / "targets.json"
        targets.write_text("[]")
        port, far = free_port(), free_port()
        config = self.config("first").replace(
            "sinks: {", f"sinks: {{otlp: {{endpoint: 'http://127.0.0.1:{far}', queue: {{dir: {self.folder}/queue}}}}, ") + (
            f"control: {{socket: {self.folder}/run/gpulens.sock}}\n"
            f"collectors: {{nvidia: {{library: simulated}}, amd: {{library: simulated}}, gaudi: {{hl_smi_path: {HL_SMI}, interval: 1s}}, "
            f"kernel_log: {{source: file, path: {log}}}, programs: {{socket: {self.folder}/run/otlp.sock}}}}\n"
            f"discovery: {{file_sd: {{files: ['{targets}']}}, local: {{enabled: true}}}}\n"
            f"receivers: {{otlp: {{http: {{listen: ['127.0.0.1:{port}']}}, grpc: {{listen: []}}}}}}\n")
        with Agent(config=config) as agent:
            up = {name: lambda name=name: value(agent.page(), "gpulens_collector_up", collector=name) == 1
                  for name in ("nvidia", "amd", "gaudi", "host", "kernel_log", "programs", "self")}
            for name, works in up.items():
                wait_until(works, what=f"the collector {name}")
            wait_until(lambda: samples(agent.page(), "gpu_power_draw_watts", gpu_vendor="intel")
                       or samples(agent.page(), "gpu_info", gpu_vendor="intel"), what="the cards of hl-smi")
            for made in ("run/gpulens.sock", "run/otlp.sock", "run/energy.sock", "queue", "first/x.jsonl"):
                wait_until(lambda made=made: (self.folder / made).exists(), what=made)
            refused = [line for line in agent.log_text().splitlines() if any(word in line for word in REFUSALS)]
            self.assertEqual(refused, [])
            status = subprocess.run([agent.arguments[0], "doctor", "--json", "--config", str(agent.config)], capture_output=True, text=True,
                                    timeout=60, check=False)
            self.assertNotIn("may not start", json.dumps(json.loads(status.stdout)))


if __name__ == "__main__":
    unittest.main()
