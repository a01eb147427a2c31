"""The l9gpu project's command names, and collect over analyzers: the real program against simulated GPUs."""
import json
import os
import select
import signal
import subprocess
import threading
import time
import unittest

from agent import BINARY, ROOT, Agent, samples, wait_until

try:
    from prometheus_client.openmetrics import parser as open_parser
except ImportError:
    open_parser = None

GPU_ALIASES = ("nvml_monitor", "amd_monitor", "gaudi_monitor", "dcgm_monitor", "fleet_health_monitor")


def run(*arguments, timeout=60):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPULENS_")}
    return subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, timeout=timeout,
                          env=environment, check=False)


class Aliases(unittest.TestCase):
    def test_one_record_per_gpu(self):
        done = run("nvml_monitor", "--demo", "--once", "--sink", "stdout", "--cluster", "prod")
        self.assertEqual(done.returncode, 0, done.stderr)
        records = json.loads(done.stdout)
        self.assertEqual([record["entity"]["gpu.index"] for record in records], list(range(8)))
        for record in records:
            self.assertEqual((record["collector"], record["entity_type"]), ("nvidia", "gpu"))
            self.assertEqual(record["resource"]["k8s.cluster.name"], "prod")
            names = {reading["name"] for reading in record["readings"]}
            self.assertLessEqual({"gpu.utilization", "gpu.power.draw", "gpu.memory.used"}, names)
        self.assertIn("SIMULATED", done.stderr)

    def test_stdout_is_the_default_sink(self):
        done = run("nvml_monitor", "--demo", "--once")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(json.loads(done.stdout)), 8)

    def test_a_loop_ends_with_its_reader(self):
        process = subprocess.Popen([str(BINARY), "nvml_monitor", "--demo", "--interval", "0.2"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            ticks = [json.loads(process.stdout.readline()) for _ in range(3)]
            self.assertTrue(all(len(tick) == 8 for tick in ticks))
            process.stdout.close()
            self.assertEqual(process.wait(20), 0)
        finally:
            process.kill()
            process.wait()

    def test_each_delivers_its_first_record_at_once_at_its_own_interval(self):
        """With an interval of 60 s rates once waited for their second reading, a minute away, and gave up after 10 s."""
        gaudi = ("gaudi_monitor", "--hl-smi-path", str(ROOT / "tests" / "fake_hl_smi" / "hl-smi"))
        for arguments in (("nvml_monitor", "--demo"), ("amd_monitor", "-o", "library=simulated"), gaudi,
                          ("fleet_health_monitor", "--demo")):
            with self.subTest(arguments[0]):
                process = subprocess.Popen([str(BINARY), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                watch = threading.Timer(30, process.kill)
                watch.start()
                try:
                    self.assertTrue(json.loads(process.stdout.readline() or "[]"), arguments)
                    # The next one is a minute away.
                    self.assertEqual(select.select([process.stdout], [], [], 2.5)[0], [])
                    process.send_signal(signal.SIGINT)
                    self.assertEqual(process.wait(20), 0, process.stderr.read())
                finally:
                    watch.cancel()
                    process.kill()
                    process.communicate()

    def test_one_snapshot_does_not_wait_for_a_long_interval(self):
        for arguments in (("nvml_monitor", "--demo"), ("fleet_health_monitor", "--demo")):
            began = time.monotonic()
            done = run(*arguments, "--once", "--push-interval", "60")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(json.loads(done.stdout)), 8)
            self.assertLess(time.monotonic() - began, 8)

    def test_help_has_the_default_interval(self):
        for alias in GPU_ALIASES:
            done = run(alias, "--help")
            self.assertEqual(done.returncode, 0, alias)
            self.assertIn("60s", done.stdout, alias)
            self.assertIn("--once", done.stdout, alias)
        self.assertIn("--hl-smi-path", run("gaudi_monitor", "--help").stdout)
        self.assertIn("--dcgm-endpoint", run("dcgm_monitor", "--help").stdout)
        self.assertIn("--health-window", run("fleet_health_monitor", "--help").stdout)

    def test_dry_run_prints_the_collect_command(self):
        done = run("nvml_monitor", "--dry-run", "--interval", "30", "--cluster", "a b", "-o", "serial=true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "gpulens collect nvidia --interval 30s --sink stdout -o serial=true "
                                      "-o gpus_only=true --cluster 'a b'\n")
        # The printed command can be run unchanged.
        line = done.stdout.replace("gpulens", str(BINARY), 1).replace("30s", "1s").rstrip()
        again = subprocess.run(line + " --once --demo",
                               shell=True, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(len(json.loads(again.stdout)), 8)

    def test_options_without_effect_are_accepted_and_reported(self):
        done = run("nvml_monitor", "--dry-run", "--vendor", "nvidia", "--stdout", "--log-folder", "x",
                   "--collect-interval", "10", "--heterogeneous-cluster-v1", "--log-level", "WARNING")
        self.assertEqual(done.returncode, 0, done.stderr)
        for option in ("--vendor", "--stdout", "--log-folder", "--collect-interval", "--heterogeneous-cluster-v1"):
            self.assertIn(f"{option} has no effect here", done.stderr)

    def test_wrong_use_is_reported(self):
        for arguments, words in ((("--nonsense",), "--nonsense"), (("-o", "novalue"), "KEY=VALUE"),
                                 (("-o", "nothing=1", "--once"), "\"nothing\""),
                                 (("--sink", "pigeon", "--once"), "pigeon"),
                                 (("--log-level", "loud", "--once"), "loud"),
                                 (("--interval", "soon", "--once"), "soon")):
            done = run("nvml_monitor", "--demo", *arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(words, done.stdout + done.stderr, arguments)

    def test_missing_features_are_reported(self):
        listed = run("collect", "--list").stdout
        for alias, target in zip(GPU_ALIASES, ("nvidia", "amd", "gaudi", "dcgm", "fleet_health")):
            done = run(alias, "--dry-run")
            if f"\n{'targets' if target == 'dcgm' else target} " in listed:
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"gpulens collect {target} --interval 60s --sink stdout", done.stdout)
            else:
                self.assertEqual(done.returncode, 2)
                self.assertIn(f'no "{target}"', done.stderr)

    def test_a_command_nearly_right_is_found(self):
        self.assertIn("Did you mean nvml_monitor?", run("nvml_monitro").stderr)


class Collect(unittest.TestCase):
    def test_list(self):
        done = run("collect", "--list", "--demo")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = {line.split()[0]: line for line in done.stdout.splitlines() if line}
        for name in ("host", "nvidia", "targets", "self", "gpu_summary"):
            self.assertIn(name, lines)
        self.assertTrue(lines["nvidia"].endswith("here"), lines["nvidia"])
        self.assertTrue(lines["host"].endswith("here"), lines["host"])

    def test_an_analyzer_is_shown_alone(self):
        done = run("collect", "gpu_summary", "--demo", "--once", "--sink", "stdout")
        self.assertEqual(done.returncode, 0, done.stderr)
        records = json.loads(done.stdout)
        self.assertEqual({record["collector"] for record in records}, {"gpu_summary"})
        values = {reading["name"]: reading["value"] for reading in records[0]["readings"]}
        self.assertEqual(set(values), {"gpu.utilization.max", "gpu.utilization.avg", "gpu.utilization.min"})
        self.assertGreaterEqual(values["gpu.utilization.max"], values["gpu.utilization.min"])

    def test_without_a_target(self):
        done = run("collect")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--list", done.stderr)


class Names(unittest.TestCase):
    CONFIG = "sinks: {prometheus: {names: [native, zernel, dcgm, otel_hw, l9gpu]}}\n"

    def test_pages_with_all_names(self):
        with Agent("--demo", config=self.CONFIG) as agent:
            page = wait_until(lambda: (lambda p: p if samples(p, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_TOTAL") else "")(
                agent.page()), what="rates")
            # Families that dashboard 12239 queries, as far as the simulated GPUs have it.
            for family in ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_SM_CLOCK",
                           "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED"):
                found = samples(page, family)
                self.assertEqual(len(found), 8, family)
                self.assertEqual(sorted(sample.labels["gpu"] for sample in found), [str(i) for i in range(8)])
                for label in ("UUID", "pci_bus_id", "device", "modelName", "Hostname", "DCGM_FI_DRIVER_VERSION"):
                    self.assertTrue(found[0].labels.get(label), label)
                self.assertEqual(found[0].labels["simulated"], "true")
            used = {s.labels["UUID"]: s.value for s in samples(page, "DCGM_FI_DEV_FB_USED")}
            for native in samples(page, "gpu_memory_used_bytes"):
                self.assertEqual(used[native.labels["gpu_uuid"]], round(native.value / 2**20))
            self.assertEqual(len(samples(page, "hw_power_watts")), 8)
            self.assertEqual(len(samples(page, "gpu_energy_consumption_mJ")), 8)

    @unittest.skipUnless(open_parser, "no prometheus_client here; ./dev test installs it")
    def test_openmetrics_with_all_names(self):
        with Agent("--demo", config=self.CONFIG) as agent:
            wait_until(lambda: samples(agent.page(), "DCGM_FI_DEV_FB_USED"))
            open_page = agent.page(Accept="application/openmetrics-text; version=1.0.0")
            types = {family.name: family.type for family in open_parser.text_string_to_metric_families(open_page)}
            self.assertEqual(types["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"], "unknown")
            self.assertEqual(types["DCGM_FI_DEV_GPU_UTIL"], "gauge")
            self.assertEqual(types["hw_energy_joules"], "counter")
            self.assertEqual(types["gpu_ecc_errors"], "gauge")

    def test_names_of_one_project_alone(self):
        with Agent("--demo", config="sinks: {prometheus: {names: [dcgm@4.6]}}\n") as agent:
            page = wait_until(lambda: (lambda p: p if samples(p, "DCGM_FI_DEV_GPU_UTIL_RATIO") else "")(agent.page()))
            names = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE ")}
            self.assertTrue(all(name.startswith("DCGM_FI_") for name in names), names)

    def test_metrics_lists_them(self):
        for scheme, family in (("dcgm", "DCGM_FI_PROF_SM_ACTIVE"), ("dcgm@4.6", "DCGM_FI_PROF_SM_UTIL_RATIO"),
                                ("otel_hw", "hw_gpu_utilization_ratio"), ("l9gpu", "gpu_xid_errors"),
                                ("zernel", "zernel_gpu_memory_used_bytes")):
            done = run("metrics", "--names", scheme, "--format", "json")
            names = [metric["name"] for metric in json.loads(done.stdout)["metrics"]]
            self.assertIn(family, names)
            self.assertEqual(len(names), len(set(names)), scheme)


if __name__ == "__main__":
    unittest.main()
