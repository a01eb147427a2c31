"""`agent --demo`: a node with GPUs, engines, owners and a day of load, which `gpulens sim` changes while it runs."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

from agent import BINARY, Agent, free_port, peer, samples, value, wait_until
from test_peers import promtool_findings

ENGINES = {"vllm", "sglang", "dynamo-frontend", "lmcache", "aibrix", "mooncake", "epp"}
TARGETS = {"chat-a", "code-b-prefill", "code-b-decode", "search-c", "code-frontend", "chat-cache", "search-gateway", "kv-store", "chat-picker", "search-picker"}
BUILT_IN = {"GPULENS_DEMO_SCENARIO": ""}


def sim(*words, socket=None):
    where = ["--socket", socket] if socket else []
    return subprocess.run([BINARY, "sim", words[0], *where, *words[1:]], check=False, capture_output=True, text=True, timeout=30)


def counters(page):
    """The value of each counter of an engine, and of the energy of each GPU, by name and labels."""
    found = {}
    for sample in samples(page):
        if sample.name.startswith("gpu_energy_consumption") or sample.name.startswith("inference_") and sample.name.endswith("_total"):
            found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return found


class Demo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="gpulens-e2e-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.socket = os.path.join(cls.folder, "control.sock")
        cls.config = f"state_dir: {cls.folder}/state\ncontrol: {{socket: {cls.socket}}}\n"
        cls.agent = Agent("--demo", config=cls.config, environment=BUILT_IN)
        cls.enterClassContext(cls.agent)
        wait_until(lambda: {s.labels["target"] for s in samples(cls.agent.page(), "gpulens_scrape_up") if s.value == 1} == TARGETS,
                   what="a page of every engine")

    def test_every_engine_is_read_by_the_tables_and_marked(self):
        page = self.agent.page()
        of_engines = [s for s in samples(page) if "inference_engine" in s.labels]
        self.assertEqual({s.labels["inference_engine"] for s in of_engines if s.name.startswith("inference_")}, ENGINES)
        self.assertEqual({s.labels.get("simulated") for s in of_engines}, {"true"})
        self.assertEqual({s.labels.get("cluster") for s in of_engines}, {"byoc_1", "byoc_2"})
        self.assertGreaterEqual(len({s.labels["model_name"] for s in of_engines if "model_name" in s.labels}), 3)
        self.assertEqual({s.value for s in samples(page, "gpulens_scrape_families_unknown")}, {0})
        self.assertGreater(sum(s.value for s in samples(page, "inference_tokens_generation_total")), 0)

    def test_promtool_accepts_the_page(self):
        self.assertEqual(promtool_findings(peer("promtool"), self.agent.page()), [])

    def test_processes_and_gpus_have_simulated_owners(self):
        page = self.agent.page()
        held = samples(page, "gpu_process_memory_used_bytes")
        self.assertIn({"VLLM::Worker_TP"}, [{s.labels.get("process_executable_name")} for s in held])
        self.assertEqual({s.labels.get("simulated") for s in held}, {"true"})
        self.assertGreaterEqual({s.labels.get("tenant") for s in held}, {"storefront", "developers", "search", "research"})
        power = {s.labels["gpu_index"]: s.labels for s in samples(page, "gpu_power_draw_watts")}
        self.assertEqual(power["0"]["k8s_pod_name"], power["1"]["k8s_pod_name"], "one engine has two GPUs")
        self.assertEqual(power["5"]["slurm_job_account"], "research")
        for sample in held:
            self.assertFalse(pathlib.Path("/proc", sample.labels["process_pid"]).exists(), "the pid is of no real process")
        self.assertEqual({s.labels["simulated"] for s in samples(page, "gpu_pod_info")}, {"true"})

    def test_a_changed_load_is_seen_and_heals(self):
        def busy(gpu):
            return value(self.agent.page(), "gpu_utilization_ratio", gpu_index=str(gpu), gpu_task_type="compute")
        done = sim("set", "engine=chat-a", "load=1.5", "for=40s", socket=self.socket)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("chat-a load=1.50", done.stdout)
        wait_until(lambda: value(self.agent.page(), "inference_requests_waiting", target="chat-a") > 10, 30, "a queue")
        wait_until(lambda: busy(0) > 0.9 and busy(1) > 0.9, 30, "busy GPUs")
        self.assertIn("for", sim("status", socket=self.socket).stdout)
        sim("set", "engine=chat-a", "load=0", socket=self.socket)
        wait_until(lambda: busy(0) == 0 and busy(1) == 0, 30, "idle GPUs")
        wait_until(lambda: value(self.agent.page(), "inference_requests_waiting", target="chat-a") == 0, 30, "no queue")
        self.assertIn("1 change of the scenario ended", sim("heal", "engine=chat-a", socket=self.socket).stdout)
        self.assertIn("no change of the scenario", wait_until(
            lambda: "no change" in sim("status", socket=self.socket).stdout and sim("status", socket=self.socket).stdout))

    def test_a_stopped_engine_leaves_its_gpu_and_comes_back(self):
        def processes():
            return len(samples(self.agent.page(), "gpu_process_memory_used_bytes", gpu_index="4"))
        self.assertEqual(processes(), 1)
        sim("stop", "engine=search-c", socket=self.socket)
        wait_until(lambda: processes() == 0, 30, "the end of the process")
        wait_until(lambda: value(self.agent.page(), "gpulens_scrape_up", target="search-c") == 0, 30, "no page")
        self.assertNotIn("k8s_pod_name", samples(self.agent.page(), "gpu_power_draw_watts", gpu_index="4")[0].labels)
        sim("heal", socket=self.socket)
        wait_until(lambda: processes() == 1, 30, "the process")
        wait_until(lambda: value(self.agent.page(), "gpulens_scrape_up", target="search-c") == 1, 30, "the page")

    def test_wrong_orders_are_refused(self):
        done = sim("set", "engine=missing", "load=1", socket=self.socket)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("they are: chat-a", done.stderr)
        self.assertIn("has the load of chat-a", sim("set", "engine=chat-cache", "load=1", socket=self.socket).stderr)

    def test_status_lists_pages_that_curl_reads(self):
        lines = sim("status", socket=self.socket).stdout
        url = next(word for line in lines.splitlines() if "chat-a" in line for word in line.split() if word.startswith("http"))
        page = subprocess.run(["curl", "-sf", url], check=True, capture_output=True, text=True, timeout=10).stdout
        self.assertIn("vllm:generation_tokens_total{", page)
        doctor = subprocess.run([BINARY, "doctor", "--json", "--config", self.agent.config], check=False, capture_output=True, text=True)
        found = [f for f in json.loads(doctor.stdout)["findings"] if f["kind"] == "broken"]
        self.assertEqual(found, [], "nothing of the demo is broken")


class DemoRestarts(unittest.TestCase):
    def test_counters_go_on_after_a_kill_with_the_change_in_force(self):
        folder = tempfile.mkdtemp(prefix="gpulens-e2e-")
        self.addCleanup(shutil.rmtree, folder, True)
        socket = os.path.join(folder, "control.sock")
        config = f"state_dir: {folder}/state\ncontrol: {{socket: {socket}}}\n"

        def page_of(agent):
            wait_until(lambda: len(samples(agent.page(), "gpulens_scrape_up")) == len(TARGETS) and
                       len(samples(agent.page(), "gpu_energy_consumption_joules_total")) == 8, what="a complete page")
            return agent.page()
        first = Agent("--demo", config=config, environment=BUILT_IN)
        first.__enter__()
        page_of(first)
        self.assertEqual(sim("set", "engine=search-c", "load=1.25", socket=socket).returncode, 0)
        wait_until(lambda: "search-c load 125 %" in sim("status", socket=socket).stdout, what="the change")
        before = counters(first.page())
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        with Agent("--demo", config=config, environment=BUILT_IN) as second:
            after = counters(page_of(second))
            self.assertEqual(before.keys() - after.keys(), set())
            fallen = {key: (v, after[key]) for key, v in before.items() if after[key] < v}
            self.assertEqual(fallen, {})
            self.assertIn("search-c load=1.25", sim("status", socket=socket).stdout)

    def test_two_demos_run_on_one_machine(self):
        with Agent("--demo", environment=BUILT_IN) as one, Agent("--demo", environment=BUILT_IN) as other:
            for agent in (one, other):
                wait_until(lambda a=agent: sum(s.value for s in samples(a.page(), "gpulens_scrape_up")) == len(TARGETS), what="all pages")

    def test_a_scenario_of_ones_own_and_none(self):
        text = sim("scenario").stdout
        with tempfile.TemporaryDirectory() as folder:
            mine = pathlib.Path(folder, "mine.yaml")
            mine.write_text(text.replace("name: chat-a\n", "name: my-chat\n").replace("of: chat-a", "of: my-chat"))
            with Agent("--demo", "--scenario", mine) as agent:
                wait_until(lambda: value(agent.page(), "gpulens_scrape_up", target="my-chat") == 1, what="the engine")
            with Agent("--demo", "--scenario", "none", config="targets: [{name: none, url: 'http://127.0.0.1:1/'}]\n",
                       environment=BUILT_IN) as agent:
                wait_until(lambda: len(samples(agent.page(), "gpu_power_draw_watts")) == 8, what="the GPUs")
                self.assertEqual([s.labels["target"] for s in samples(agent.page(), "gpulens_scrape_up")], ["none"])
            mine.write_text(text.replace("kind: sglang", "kind: sgland"))
            done = subprocess.run([BINARY, "agent", "--demo", "--scenario", mine, "--http-listen", f"127.0.0.1:{free_port()}"],
                                  check=False, capture_output=True, text=True, timeout=20)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, r"scenario line \d+: kind")


if __name__ == "__main__":
    unittest.main()
