"""The configuration as users meet it: `config check` refuses what the agent refuses, and settings in other places are found."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from agent import BINARY, Agent, free_port, peer, samples, value, wait_until
from http_stub import serve_page


def run(*arguments, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GPULENS_")}
    return subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, timeout=60, env={**clean, **environment},
                          check=False)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-config-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def write(self, text, name="gpulens.yaml"):
        path = self.folder / name
        path.write_text(text)
        return str(path)


class Init(Case):
    def test_it_writes_a_good_short_file_and_never_over_one(self):
        path = self.folder / "new.yaml"
        done = run("config", "init", str(path))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(f"gpulens agent --config {path}", done.stdout)
        text = path.read_text()
        self.assertLessEqual(len(text.splitlines()), 16)
        self.assertEqual(run("config", "check", str(path)).returncode, 0)
        # With its comments taken away it is good, too.
        whole = "\n".join(line.replace("# ", "", 1) if line.lstrip().startswith("# ") and ":" in line else line
                          for line in text.splitlines()[1:])
        self.assertEqual(run("config", "check", self.write(whole, "whole.yaml")).returncode, 0, whole)
        path.write_text("interval: 5s\n")
        again = run("config", "init", str(path))
        self.assertEqual((again.returncode, path.read_text()), (1, "interval: 5s\n"))
        self.assertIn("exists and is not changed", again.stderr)
        self.assertEqual(run("config", "init", "-").stdout, text)
        self.assertEqual(run("config", "init", str(self.folder / "no" / "folder.yaml")).returncode, 1)
        named = self.folder / "etc" / "gpulens.yaml"
        self.assertEqual(run("config", "init", GPULENS_CONFIG=str(named)).returncode, 0)
        self.assertEqual(named.read_text(), text)


class Credentials(Case):
    CONFIG = ("sinks: {otlp: {endpoint: 'https://h', transport: {bearer_token: '${credential:otlp.token}'}}}\n"
              "http: {web_config: '${CREDENTIALS_DIRECTORY}/web.yml'}\n")  # fmt: skip

    def test_a_secret_of_the_service_manager(self):
        path = self.write(self.CONFIG)
        handed = {"CREDENTIALS_DIRECTORY": str(self.folder)}
        self.write("s3cret-word\n", "otlp.token")
        self.write("basic_auth_users: {}\n", "web.yml")
        printed = run("config", "print", path, **handed)
        self.assertEqual(printed.returncode, 0, printed.stderr)
        self.assertIn(f"web_config: {self.folder}/web.yml", printed.stdout.replace('"', ""))
        self.assertNotIn("s3cret-word", printed.stdout + printed.stderr)
        (self.folder / "otlp.token").unlink()
        done = run("config", "check", path, **handed)
        self.assertEqual(done.returncode, 2)
        self.assertIn("cannot read the credential otlp.token", done.stderr)
        self.assertIn("LoadCredential=otlp.token:/path/to/file", done.stderr)
        self.write("x" * (65 << 10), "otlp.token")
        self.assertEqual(run("config", "check", path, **handed).returncode, 2, "too long")


class Renamed(Case):
    def test_older_words_are_refused_with_the_new_ones(self):
        for text, new in (("sinks: {prometheus: {dialects: [native]}}\n", "now called names"),
                          ("sinks: {prometheus: {names: [dcgm_4_6]}}\n", "now called dcgm@4.6"),
                          ("sinks: {prometheus: {names: [hw]}}\n", "now called otel_hw"),
                          ("sinks: {otlp/b: {endpoint: \"http://h\", dialects: [genai]}}\n", "now called names"),
                          ("sinks: {otlp: {endpoint: \"http://h\", bearer_token: a}}\n", "now in transport.bearer_token"),
                          ("targets: [{name: a, url: \"http://h\", tls: {ca_file: /a}}]\n",
                           "now in transport.tls"),
                          ("collectors: {engines: {autodetect: false}}\n", "now in targets (kind: engine)"),
                          ("collectors: {scrape: {targets: []}}\n", "now in targets (kind: prometheus)"),
                          ("collectors: {dcgm: {url: \"http://h\"}}\n", "now in targets (kind: dcgm)"),
                          ("discovery: {engine_processes: {}}\n", "now called local"),
                          ("targets: [{url: \"http://h\", engine: vllm}]\n", "now called kind")):
            with self.subTest(text):
                done = run("config", "check", self.write(text))
                self.assertEqual(done.returncode, 2)
                self.assertIn(new, done.stderr)


class Check(Case):
    # Configurations that the agent refuses, and words of the message. {P} and {Q} are free ports.
    REFUSED = {
        "sinks:\n  webhook: {url: \"http://h/\", transport: {bearer_token: a, bearer_token_file: /b}}\n":
            (":2:", "sinks.webhook: bearer_token and bearer_token_file contradict each other"),
        "targets:\n  - {name: x, url: \"http://h/\", transport: {username: u, bearer_token: t}}\n":
            (":2:", "targets[0]: bearer_token and username contradict each other"),
        "sinks:\n  otlp: {endpoint: \"http://h/\", protocol: grpc, compression: zstd}\n": (":2:", "gzip or none"),
        "sinks:\n  otlp: {endpoint: \"http://h/?a=b\"}\n": (":2:", "a query"),
        "sinks:\n  remote_write: {native_histograms: true}\n": (":2:", "needs protocol"),
        "sinks:\n  remote_write:\n    transport: {tls: {cert_file: /a}}\n": (":3:", "must be set together"),
        "collectors:\n  kernel_log: {source: file}\n": (":2:", "needs path"),
        "receivers:\n  remote_write: {busy_status: 430}\nsinks: {otlp: {}}\n": (":2:", "503 or 429"),
        "http: {listen: \"127.0.0.1:{P}\"}\nwebsocket: {listen: \"127.0.0.1:{P}\"}\n": (":2:", "is taken by http.listen"),
        "sinks: {otlp: {}}\nreceivers:\n  otlp: {http: {listen: \"127.0.0.1:{P}\"}, grpc: {listen: \"127.0.0.1:{P}\"}}\n":
            (":3:", "is taken by receivers.otlp.http.listen"),
        "sinks: {otlp: {}}\nreceivers:\n  otlp: {http: {listen: \":{P}\"}}\n": (":3:", "other machines could reach"),
        "receivers:\n  remote_write: {http: {listen: \"127.0.0.1:{P}\"}}\n": (":2:", "receivers.remote_write", "no sink accepts", "sinks.otlp"),
        "resource: {cluster: \"${NOT_SET_ANYWHERE}\"}\n": (":1:", "the environment variable NOT_SET_ANYWHERE is not set"),
        "sinks:\n  webhook: {url: \"http://h/\", transport: {bearer_token: \"${file:/nowhere/token}\"}}\n": (":2:", "cannot read"),
        "http: {web_config: \"{FOLDER}/web.yaml\"}\n": ("web.yaml:1", "unknown key"),
    }

    def test_config_check_refuses_with_the_line_as_the_agent_does(self):
        self.write("tls_server_confi: {}\n", "web.yaml")
        for text, words in self.REFUSED.items():
            with self.subTest(text):
                port = free_port()
                text = text.replace("{P}", str(port)).replace("{FOLDER}", str(self.folder))
                if "http: {listen" not in text:
                    text += f"websocket: {{listen: []}}\nstate_dir: {self.folder}/state\n"
                path = self.write(text)
                checked = run("config", "check", path)
                self.assertEqual(checked.returncode, 2, checked.stdout)
                for word in words:
                    self.assertIn(word, checked.stderr)
                more = [] if text.startswith("http: {listen") else ["--http-listen", f"127.0.0.1:{free_port()}"]
                started = run("agent", "--config", path, *more)
                self.assertEqual(started.returncode, 2, started.stderr)

    def test_a_valid_configuration_starts(self):
        token = self.write("s3cret\n", "token")
        config = (f"state_dir: {self.folder}/state\nresource: {{cluster: \"${{REGION}}-$$1\", attributes: {{team: \"${{TEAM:-none}}\"}}}}\n"
                  f"sinks: {{webhook: {{url: \"http://127.0.0.1:9/\", transport: {{bearer_token: \"${{file:{token}}}\"}}}}}}\n")
        path = self.write(config)
        checked = run("config", "check", path, REGION="eu")
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))
        printed = run("config", "print", path, REGION="eu")
        self.assertEqual(printed.returncode, 0, printed.stderr)
        self.assertNotIn("s3cret", printed.stdout)
        self.assertIn("eu-$1", printed.stdout)
        with Agent(config=config, environment={"REGION": "eu"}) as agent:
            info = samples(agent.page(), "target_info")[0].labels
            self.assertEqual((info["k8s_cluster_name"], info["team"]), ("eu-$1", "none"))

    def test_a_missing_source_is_a_warning(self):
        path = self.write("state_dir: /proc/nope\nsinks:\n  webhook: {url: \"https://h/\", transport: {bearer_token_file: /nowhere/token,\n"
                          "            tls: {ca_file: /nowhere/ca}}}\n")
        checked = run("config", "check", path)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertRegex(checked.stderr, r"gpulens.yaml:1:\d+: state_dir: cannot use")
        self.assertRegex(checked.stderr, r"gpulens.yaml:3:\d+: sinks.webhook.transport.bearer_token_file: cannot read")
        self.assertRegex(checked.stderr, r"gpulens.yaml:4:\d+: sinks.webhook.transport.tls.ca_file: cannot read")

    def test_an_unusable_state_folder_is_reported_at_the_start(self):
        with Agent(environment={"STATE_DIRECTORY": "/proc/nope"}) as agent:
            wait_until(lambda: "the state folder /proc/nope cannot be used" in agent.log_text())

    def test_unknown_variables_are_reported_by_config_check_and_the_agent(self):
        for command in (("metrics", "gpu.utilization"), ("collect", "self", "--once"), ("collect", "--list")):
            self.assertNotIn("GPULENS_FOO", run(*command, GPULENS_FOO="1").stderr, command)
        self.assertIn("GPULENS_FOO is not an option", run("config", "check", GPULENS_FOO="1").stderr)
        with Agent(environment={"GPULENS_FOO": "1"}) as agent:
            self.assertIn("GPULENS_FOO is not an option", agent.log_text())


class Memory(Case):
    def test_series_of_pages_above_the_limit_are_refused_and_counted(self):
        lines = "".join(f"m{{a=\"{i}\"}} {i}\n" for i in range(60_000))
        with serve_page(lambda: "# TYPE m gauge\n" + lines) as url:
            config = (f"state_dir: {self.folder}/state\nlimits: {{memory: 32MiB, series_per_target: 100000}}\n"
                      f"targets: [{{name: large, kind: prometheus, url: \"{url}\", interval: 1s}}]\n")
            with Agent(config=config) as agent:
                refused = wait_until(lambda: value(agent.page(), "gpulens_series_refused_total", collector="targets/large",
                                                   reason="memory"), 30, "series refused")
                page = agent.page()
                self.assertGreater(refused, 0)
                self.assertLess(len(samples(page, "m")), 60_000)
                self.assertEqual(value(page, "gpulens_memory_limit_bytes"), 32 << 20)
                # The agent's own readings go on.
                self.assertTrue(samples(page, "system_cpu_time_seconds_total") or samples(page, "system_cpu_seconds_total"))
                self.assertIn("above limits.memory of 32 MiB", agent.log_text())


class Demo(Case):
    def test_simulated_gpus_never_mix_with_real_ones(self):
        state = self.folder / "state"
        socket = self.folder / "control.sock"
        config = (f"interval: 200ms\nstate_dir: {state}\ncontrol: {{socket: {socket}}}\n"
                  "collectors: {nvidia: {interval: 200ms}}\n")
        with Agent("--demo", config=config) as agent:
            wait_until(lambda: samples(agent.page(), "gpu_power_draw_watts"), what="GPU values")
            broken = run("fake", "nvml", "fail", "gpu=3", "mode=fallen_off_bus", "--socket", str(socket))
            self.assertEqual(broken.returncode, 0, broken.stderr)
            wait_until(lambda: (state / "demo" / "incidents.db").exists(), 30, "an event")
            shown = wait_until(lambda: (lambda done: done if "XID" in done.stdout else None)(
                run("events", "--state-dir", str(state))), 30, "the event")
            # The running agent returns the folder of its events, also where its own configuration names another one.
            done = run("events", "--config", str(agent.config))
            self.assertIn("XID", done.stdout, done.stderr)
        for line in shown.stdout.splitlines()[1:]:
            self.assertTrue("SIMULATED" in line or line.startswith("    before:"), line)
        self.assertIn("SIMULATED", shown.stderr)
        self.assertEqual([p.name for p in state.iterdir()], ["demo"])
        # Once a real agent has kept events there, they alone are shown.
        with Agent(config=config):
            pass
        self.assertFalse((state / "incidents.db").exists(), "nothing of the demo was found by the real agent")


class Catalogue(Case):
    @classmethod
    def setUpClass(cls):
        cls.rows = json.loads(run("metrics", "--format", "json").stdout)["metrics"]

    def test_a_row_names_all_its_sources(self):
        by_name = {row["name"]: row["from"].split() for row in self.rows}
        for name in ("gpu.power.draw", "gpu.utilization", "gpu.memory.used", "gpu.temperature", "gpu.ecc.errors"):
            self.assertLessEqual({"amd", "nvidia"}, set(by_name[name]), name)
        self.assertIn("nvidia", run("metrics", "gpu.power.draw").stdout.split("from", 1)[1].splitlines()[0])

    def test_each_shown_query_is_one_that_prometheus_takes_and_that_selects_something(self):
        queries = {}
        for row in self.rows:
            shown = run("metrics", row["name"]).stdout
            queries[row["name"]] = next(line.split(None, 1)[1] for line in shown.splitlines() if line.startswith("  query"))
        self.assertEqual(queries["gpu.energy.consumption"], "rate(gpu_energy_consumption_joules_total[5m])")
        self.assertEqual(queries["inference.time_to_first_token"], "histogram_quantile(0.95, sum by (le) (rate("
                         "inference_time_to_first_token_seconds_bucket[5m])))")
        rules = "".join(f"  - {{record: \"r:{i}\", expr: {json.dumps(query)}}}\n" for i, query in enumerate(queries.values()))
        path = self.write("groups:\n- name: g\n  rules:\n" + rules, "rules.yaml")
        done = subprocess.run([peer("promtool"), "check", "rules", path], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_family_of_a_page_is_a_row(self):
        known = {row["prometheus"] for row in self.rows}
        config = f"interval: 200ms\nstate_dir: {self.folder}/state\nsinks: {{prometheus: {{names: [native]}}}}\n"
        with Agent("--demo", config=config) as agent:
            page = wait_until(lambda: (lambda p: p if samples(p, "gpu_power_draw_watts") else "")(agent.page()))
            families = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE ")}
            self.assertEqual(families - known, set())
            self.assertGreater(len(families), 150)


if __name__ == "__main__":
    unittest.main()
