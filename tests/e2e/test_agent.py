"""The agent as its user meets it: pages, formats, signals, reload, configuration errors."""
import base64
import gzip
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import unittest
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import crypt

from agent import BINARY, ROOT, Agent, free_port, samples, value, wait_until


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.agent = Agent("--demo")
        cls.agent.__enter__()
        wait_until(lambda: samples(cls.agent.page(), "gpu_utilization_ratio"), 10, "the first GPU values")

    @classmethod
    def tearDownClass(cls):
        cls.agent.__exit__()

    def test_health_is_exactly_ok(self):
        self.assertEqual(self.agent.get("/health").text, b"ok")
        self.assertEqual(self.agent.get("/-/healthy").status, 200)
        self.assertEqual(self.agent.get("/-/ready").status, 200)

    def test_formats_follow_accept(self):
        plain = self.agent.get("/metrics")
        self.assertEqual(plain.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8; escaping=underscores")
        self.assertNotIn(b"# EOF", plain.text)
        om = self.agent.get("/metrics", Accept="application/openmetrics-text;version=1.0.0;q=0.9,text/plain;q=0.1")
        self.assertEqual(om.headers["Content-Type"], "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores")
        self.assertTrue(om.text.endswith(b"# EOF\n"))
        self.assertIn(b"# UNIT gpu_power_draw_watts watts\n", om.text)

    def test_an_independent_reader_takes_all_formats(self):
        try:
            from prometheus_client import parser
            from prometheus_client.openmetrics import parser as om_parser
        except ImportError:
            self.skipTest("peer not here: prometheus_client")

        def both():
            """Both formats of one set of series: rates come with the second reading of a source."""
            plain = list(parser.text_string_to_metric_families(self.agent.page()))
            om = list(om_parser.text_string_to_metric_families(self.agent.page(Accept="application/openmetrics-text")))
            again = parser.text_string_to_metric_families(self.agent.page())
            return (plain, om) if {f.name for f in plain} == {f.name for f in again} else None

        plain, om = wait_until(both, what="two equal pages")
        with_samples = {f.name for f in plain if f.samples}
        self.assertGreater(len(with_samples), 100)
        names = {s.name for f in om for s in f.samples}
        self.assertIn("gpu_energy_consumption_joules_total", names)
        self.assertEqual({s.name for f in plain for s in f.samples},
                         {n for n in names if not n.endswith("_created")})

    def test_gzip_and_head(self):
        packed = self.agent.get("/metrics", Accept_Encoding="gzip")
        self.assertEqual(packed.headers["Content-Encoding"], "gzip")
        self.assertIn(b"gpu_power_draw_watts", gzip.decompress(packed.text))
        head = self.agent.get("/metrics", method="HEAD")
        self.assertEqual((head.status, head.text), (200, b""))
        self.assertGreater(int(head.headers["Content-Length"]), 10_000)

    def test_wrong_paths_and_methods_get_an_error(self):
        self.assertEqual(self.agent.get("/nothing").status, 404)
        wrong = self.agent.get("/metrics", method="DELETE")
        self.assertEqual((wrong.status, wrong.headers["Allow"]), (405, "GET, HEAD"))
        self.assertEqual(self.agent.get("/-/reload").status, 405)

    def test_simulated_is_marked_on_gpu_series_and_only_there(self):
        for sample in samples(self.agent.page()):
            # The ledger's series are made from those of GPUs, phases are those of simulated processes.
            gpu = sample.name.startswith(("gpu_", "zernel_gpu_", "energy_ledger_", "cost_ledger_", "effective_compute_", "ledger_",
                                          "process_phase"))
            self.assertEqual(sample.labels.get("simulated"), "true" if gpu else None, sample)

    def test_every_gpu_series_has_its_identity(self):
        for sample in samples(self.agent.page()):
            host_wide = sample.name.startswith(("gpu_utilization_m", "gpu_utilization_avg", "gpu_driver_info", "gpu_devices",
                                                  "gpu_health_window"))
            if sample.name.startswith("gpu_") and not host_wide:
                for label in ("gpu_index", "gpu_uuid", "gpu_model"):
                    self.assertIn(label, sample.labels, sample)

    def test_values_agree_with_each_other(self):
        page = self.agent.page()
        for gpu in map(str, range(8)):
            v = lambda name, **labels: value(page, name, gpu_index=gpu, **labels)
            total = v("gpu_memory_total_bytes")
            parts = v("gpu_memory_used_bytes") + v("gpu_memory_free_bytes") + v("gpu_memory_reserved_bytes")
            self.assertAlmostEqual(parts, total, delta=1 << 20)
            self.assertAlmostEqual(v("gpu_memory_used_percent"), 100 * v("gpu_memory_used_bytes") / total, places=6)
            limit = v("gpu_power_limit_watts", gpu_power_limit_type="enforced")
            self.assertAlmostEqual(v("gpu_power_utilization_ratio"), v("gpu_power_draw_watts") / limit, places=6)
            self.assertTrue(50 < v("gpu_power_draw_watts") <= 700, "watts, not milliwatts")
        used = [s.value for s in samples(page, "gpu_utilization_ratio")]
        self.assertAlmostEqual(value(page, "gpu_utilization_avg_ratio"), sum(used) / 8, places=9)
        self.assertEqual(value(page, "gpu_utilization_max_ratio"), max(used))

    def test_json_has_every_family_and_the_seed_keys(self):
        page, document = self.agent.page(), json.loads(self.agent.get("/json").text)
        for key in ("gpu_memory", "cuda_latency", "nccl_duration", "dataloader_wait", "last_update_ms"):
            self.assertIn(key, document)
        text = json.dumps(document)
        for name in ("gpu.power.draw", "system.cpu.time", "gpulens.collector.up"):
            self.assertIn(name, text)
        self.assertTrue(samples(page, "gpu_power_draw_watts"))

    def test_the_landing_page_needs_no_internet(self):
        page = self.agent.get("/")
        self.assertIn("text/html", page.headers["Content-Type"])
        self.assertNotIn(b"http://", page.text.replace(b"http://127.0.0.1", b""))
        self.assertIn(b"SIMULATED", page.text)
        self.assertIn(b"127.0.0.1:%d" % self.agent.port, page.text, "where this reader found it")
        self.assertIn(b"H100", page.text)


class Life(unittest.TestCase):
    def test_ctrl_c_stops_within_a_second_with_0(self):
        with Agent() as agent:
            begin = time.monotonic()
            agent.process.send_signal(signal.SIGINT)
            self.assertEqual(agent.process.wait(5), 0)
            self.assertLess(time.monotonic() - begin, 1.0)

    def test_zernel_families_without_a_source_show_help_and_type_only(self):
        with Agent() as agent:
            page = agent.page()
            self.assertEqual([s for s in samples(page) if s.name.startswith("zernel_")], [])
            self.assertIn("# TYPE zernel_cuda_launch_latency_seconds summary\n", page)
            self.assertIn("# TYPE zernel_scheduler_decisions_total counter\n", page)

    def test_reload_swaps_without_a_gap_and_keeps_the_old_when_bad(self):
        with Agent(config="interval: 200ms\n") as agent:
            before = value(agent.page(), "gpulens_config_reloads_total", result="applied")
            agent.config.write_text("interval: 100ms\nresource: {cluster: blue}\n")
            self.assertEqual(agent.get("/-/reload", method="POST").status, 200)
            wait_until(lambda: value(agent.page(), "gpulens_config_reloads_total", result="applied") == before + 1)
            agent.config.write_text("intervall: 1s\n")
            bad = agent.get("/-/reload", method="POST")
            self.assertEqual(bad.status, 500)
            self.assertIn(b"did you mean interval", bad.text)
            agent.process.send_signal(signal.SIGHUP)
            wait_until(lambda: value(agent.page(), "gpulens_config_reloads_total", result="rejected") == 2)
            self.assertEqual(value(agent.page(), "gpulens_config_last_reload_success"), 0)
            self.assertEqual(agent.get("/health").text, b"ok")

    def test_a_busy_port_exits_with_1(self):
        with Agent() as agent:
            again = subprocess.run([str(BINARY), "agent", "--http-listen", f"127.0.0.1:{agent.port}", "--ws-listen",
                                    f"127.0.0.1:{free_port()}"], capture_output=True, text=True, timeout=20)
            self.assertEqual(again.returncode, 1)
            self.assertIn(str(agent.port), again.stderr)
            self.assertIn("in use", again.stderr)

    def test_bad_configuration_exits_with_2(self):
        for text, words in (("interval: fast\n", "gpulens.yaml:1:11: interval: expected a duration"),
                            ("http: {listen: ['0.0.0.0:9091']}\n", "insecure"),
                            ("websocket: {push_interval: 0s}\n", "push_interval"),
                            ("collectors: {nvida: {}}\n", "did you mean nvidia")):
            agent = Agent(config=text)
            run = subprocess.run(agent.arguments[:4], capture_output=True, text=True, timeout=20, cwd=agent.folder)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(words, run.stderr.replace("Did", "did"))

    def test_the_service_manager_is_notified(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            agent = Agent(environment={})
            path = str(agent.folder / "notify")
            manager.bind(path)
            manager.settimeout(5)
            agent.environment.update(NOTIFY_SOCKET=path, WATCHDOG_USEC="400000")
            with agent:
                messages = [manager.recv(100) for _ in range(3)]
                self.assertEqual(messages, [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"])
                agent.process.send_signal(signal.SIGTERM)
                wait_until(lambda: manager.recv(100) == b"STOPPING=1", 5)
                agent.process.wait(5)


class Locked(unittest.TestCase):
    """TLS and a password from a web config file in the exporters' format, re-read when it changes."""

    def setUp(self):
        if not shutil.which("openssl"):
            self.skipTest("openssl is not here: no certificate can be made")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-tls-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self.folder / "key.pem",
                        "-out", self.folder / "cert.pem"], check=True, capture_output=True)
        self.tls = ssl.create_default_context(cafile=str(self.folder / "cert.pem"))
        self.web = self.folder / "web.yml"
        # Cost 4, so that the test is quick.
        self.hashes = {word: crypt.crypt(word, "$2b$04$abcdefghijklmnopqrstuu") for word in ("secret", "other")}
        self.use("secret")

    def use(self, word):
        self.web.write_text("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"
                            f"basic_auth_users: {{alice: '{self.hashes[word]}'}}\n")

    @staticmethod
    def as_alice(word):
        return "Basic " + base64.b64encode(f"alice:{word}".encode()).decode()

    def test_permission_to_read(self):
        with Agent(config=f"http: {{web_config: {self.web}}}\n", tls=self.tls, authorization=self.as_alice("secret")) as agent:
            status_of = lambda **headers: agent.get("/metrics", tls=self.tls, **headers).status
            self.assertEqual(status_of(), 401)
            self.assertEqual(status_of(Authorization=self.as_alice("wrong")), 401)
            self.assertEqual(status_of(Authorization=self.as_alice("secret")), 200)
            self.use("other")
            wait_until(lambda: status_of(Authorization=self.as_alice("other")) == 200, 10, "the new password")
            self.assertEqual(status_of(Authorization=self.as_alice("secret")), 401)
            self.web.write_text("basic_auth_userz: {}\n")
            self.assertEqual(status_of(Authorization=self.as_alice("other")), 200, "a bad file changes nothing")
            try:
                self.assertEqual(agent.get("/metrics").status, 400, "plain HTTP gets an error, no page")
            except OSError:
                pass


    def test_without_both_locks_other_machines_are_refused(self):
        users = self.web.read_text().splitlines()[1]
        for web in ("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n", users + "\n"):
            for group in ("http", "websocket"):
                with self.subTest(web=web, group=group):
                    self.web.write_text(web)
                    listen = {name: f"['0.0.0.0:{free_port()}']" if name == group else "[]" for name in ("http", "websocket")}
                    agent = Agent(config=f"http: {{web_config: {self.web}, listen: {listen['http']}}}\n"
                                         f"websocket: {{listen: {listen['websocket']}}}\n")
                    run = subprocess.run(agent.arguments[:4], capture_output=True, text=True, timeout=20, cwd=agent.folder)
                    self.assertNotEqual(run.returncode, 0)
                    self.assertIn(f"{group}.listen 0.0.0.0:", run.stderr)
                    self.assertIn("needs http.web_config with TLS and users", run.stderr)


class Commands(unittest.TestCase):
    def run_command(self, *arguments, code=0):
        run = subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, timeout=60,
                             env={**os.environ, "NO_COLOR": "1"})
        self.assertEqual(run.returncode, code, run.stderr)
        return run

    def test_metrics_page_of_the_documentation_is_fresh(self):
        self.assertEqual((ROOT / "docs" / "metrics.md").read_text(), self.run_command("metrics", "--format", "md").stdout,
                         "make it again: build/gpulens metrics --format md > docs/metrics.md")
        written, generated = (ROOT / "docs" / "configuration.md").read_text().split("a test compares it. -->\n\n")
        self.assertEqual(generated, self.run_command("config", "schema", "--format", "md").stdout,
                         "make the part behind that line again: build/gpulens config schema --format md")
        self.assertIn("config init", written)

    def test_collect_prints_json(self):
        readings = json.loads(self.run_command("collect", "host", "--once", "--sink", "stdout").stdout)
        self.assertTrue(readings)
        self.assertIn("system.memory.usage", json.dumps(readings))

    def test_collect_prints_a_table_of_simulated_gpus(self):
        run = self.run_command("collect", "nvidia", "--demo", "--once")
        self.assertIn("gpu.power.draw", run.stdout)
        self.assertIn("SIMULATED", run.stderr)

    def test_doctor_and_its_codes(self):
        # Agents of other tests may run on this machine; this queries none.
        no_agent = {**os.environ, "GPULENS_CONTROL_SOCKET": "none", "GPULENS_HTTP_LISTEN": f"127.0.0.1:{free_port()}"}
        run = subprocess.run([str(BINARY), "doctor", "--json"], capture_output=True, text=True, timeout=20, env=no_agent)
        self.assertIn(run.returncode, (0, 1))
        page = json.loads(run.stdout)
        self.assertEqual((page["agent"], page["seen_by"]), (None, "command"))
        kinds = {f["subject"]: f["kind"] for f in page["findings"]}
        self.assertEqual(kinds["host"], "found")

    def test_help_lists_only_commands_that_work(self):
        text = self.run_command("--help").stdout
        for command in ("agent", "doctor", "metrics", "collect", "config", "version"):
            self.assertIn(command, text)
            self.assertIn("--help", self.run_command(command, "--help").stdout)
        self.assertNotIn("gpulens top", text)

    def test_config_commands(self):
        self.assertIn("good", self.run_command("config", "check").stdout)
        self.assertIn("interval: 1s", self.run_command("config", "print").stdout)
        json.loads(self.run_command("config", "schema", "--json").stdout)

    def test_wrong_words_get_the_right_one(self):
        self.assertIn("Did you mean nvidia?", self.run_command("collect", "nvida", "--once", code=2).stderr)
        self.run_command("colect", code=2)
        self.run_command(code=2)


if __name__ == "__main__":
    unittest.main()
