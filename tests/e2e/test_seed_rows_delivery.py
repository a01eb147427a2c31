"""Features of two other projects for delivery, row by row: each row has its check here, or names the test that is its check."""
import csv
import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

from agent import BINARY, ROOT, Agent, fake_library, free_port, samples, value, wait_until
from otlp_receiver import Receiver, plain
from test_kubernetes import Node
from test_otlp import collect
from test_otlp_in import gauge, points_of, post
from test_seed_rows import AMD_LIBRARY, DCGM, HL_SMI, TABLE, run, serve
from test_webhook import Hook
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

COMMANDS = ("nvml_monitor amd_monitor gaudi_monitor dcgm_monitor fleet_health_monitor cost_monitor nccl_monitor vllm_monitor nim_monitor triton_monitor "
            "sglang_monitor tgi_monitor slurm_monitor slurm_job_monitor sacct_running sacct_publish sacct_backfill fsacct "
            "sacctmgr_qos sacctmgr_user scontrol scontrol_config sprio sshare storage").split()  # fmt: skip
# Where a row is shown by another test.
ELSEWHERE = {
    "l9-021": "test_slurm.py test_the_cluster_in_numbers",
    "l9-022": "test_slurm.py test_nodes_and_jobs",
    "l9-023": "test_slurm.py test_nodes_and_jobs",
    "l9-024": "test_slurm.py test_publish_takes_a_file_and_standard_input",
    "l9-025": "test_slurm.py test_backfill_reports_each_job_once",
    "l9-026": "test_slurm.py test_fsacct_keeps_jobs_that_ended_within_the_bounds",
    "l9-027": "test_slurm.py test_accounting_tables",
    "l9-028": "test_slurm.py test_accounting_tables",
    "l9-029": "test_slurm.py test_tables_of_the_controller",
    "l9-030": "test_slurm.py test_tables_of_the_controller",
    "l9-031": "test_slurm.py test_priorities",
    "l9-032": "test_slurm.py test_priorities",
    "l9-033": "test_slurm.py test_storage",
    "l9-034": "test_otlp.py test_one_reading_arrives",
    "l9-038": "test_webhook.py test_records_arrive",
    "l9-040": "test_otlp.py test_variables_of_opentelemetry",
    "l9-041": "test_otlp.py test_the_option_wins_over_the_variable",
    "l9-192": "test_kubernetes.py test_each_on_its_own_pod",
    "l9-193": "test_kubernetes.py test_each_on_its_own_pod",
    "l9-194": "test_kubernetes.py test_each_on_its_own_pod",
    "l9-195": "workloads_test.cc OtherFormsOfIds",
    "l9-196": "test_kubernetes.py test_a_restart_is_never_mixed_up",
    "l9-199": "test_otlp_in.py test_all_signals_packed_or_not",
    "l9-200": "test_otlp_in.py test_metrics_and_traces_of_the_sdk_arrive_as_they_were_sent",
    "l9-205": "test_kubernetes.py test_usage_of_pods_and_kills",
    "l9-206": "test_kubernetes.py test_the_life_of_a_pod",
    "l9-207": "test_otlp_in.py test_a_flood_keeps_memory_under_the_limit_and_is_reported",
    "l9-208": "test_otlp_in.py test_metrics_and_traces_of_the_sdk_arrive_as_they_were_sent",
    "l9-209": "test_otlp_in.py test_noise_is_dropped_and_counted_by_rules_that_a_reload_changes",
}


class Commands(unittest.TestCase):
    def test_l9_020_commands_have_help(self):
        listed = run("help", "all").stdout
        for name in COMMANDS:
            with self.subTest(name):
                done = run(name, "--help")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn(name, listed)

    def test_l9_037_the_file_holds_both_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "metrics.jsonl"
            for _ in range(2):
                done = run("collect", "host", "--once", "--sink", "file", "-o", f"path={path}")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
            records = [json.loads(line) for line in path.read_text().splitlines()]
        uptimes = [record["value"] for record in records if record["name"] == "system.uptime"]
        self.assertEqual(len(uptimes), 2)
        self.assertLess(uptimes[0], uptimes[1])
        self.assertTrue(all("ts" in record for record in records))

    def test_l9_039_every_collector_with_every_sink(self):
        """All sinks get the same readings, on a machine where each collector finds something."""
        page = f"# TYPE DCGM_FI_DEV_POWER_USAGE gauge\nDCGM_FI_DEV_POWER_USAGE{{{DCGM}}} 321.5\n"
        with serve(page) as url, tempfile.TemporaryDirectory() as folder:
            profile, path = pathlib.Path(folder) / "profile.yaml", pathlib.Path(folder) / "metrics.jsonl"
            profile.write_text("model: MI300X\ngpus: 1\n")
            self.every_sink(path, ["nvml_monitor", "-o", f"library={fake_library()}"])
            self.every_sink(path, ["amd_monitor", "-o", f"library={AMD_LIBRARY}"], {"GPULENS_FAKE_AMDSMI": str(profile)})
            self.every_sink(path, ["gaudi_monitor", "--interval", "1", "--hl-smi-path", str(HL_SMI)], {"FAKE_HL_SMI_STATE": folder + "/state"})
            self.every_sink(path, ["dcgm_monitor", "--interval", "1", "--dcgm-endpoint", url])
            self.every_sink(path, ["collect", "host"])

    def every_sink(self, path, words, environment=None):
        with Receiver() as far, Hook() as hook:
            for sink, own, arrived in (("stdout", (), lambda done: done.stdout), ("file", (f"path={path}",), lambda _: path.read_text()),
                                       ("otel", (f"otel_endpoint={far.url}",), lambda _: far.requests),
                                       ("webhook", (f"url={hook.url}",), lambda _: hook.records()), ("do_nothing", (), lambda _: "nothing")):  # fmt: skip
                with self.subTest(words=words, sink=sink):
                    options = [word for option in own for word in ("-o", option)]
                    done = run(*words, "--once", "--sink", sink, *options, environment=environment)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertTrue(arrived(done))
            path.unlink()


class OfAgent(unittest.TestCase):
    def test_l9_035_the_interval(self):
        self.assertIn("interval: 1m ", run("config", "print").stdout.split("otlp:", 1)[1])
        with Receiver() as far:
            with Agent(config="sinks: {otlp: {queue: {storage: memory}}}",
                       environment={"OTEL_EXPORTER_OTLP_ENDPOINT": far.url, "OTEL_METRIC_EXPORT_INTERVAL": "2000"}):  # fmt: skip
                far.wait(lambda requests: sum(r.path == "/v1/metrics" for r in requests) >= 3, "three exports")
            times = far.times()
        gaps = [(b - a) / 1e9 for a, b in zip(times, times[1:])]
        self.assertTrue(all(1.5 < gap < 5 for gap in gaps[:2]), f"one per 2 s: {gaps}")

    def test_l9_198_all_signals_of_a_gpu_name_its_pod(self):
        node, port = Node(self), free_port()
        with Receiver() as far:
            node.agent.config.write_text(node.agent.config.read_text() + (
                f"\nlimits: {{memory: 2GiB}}\nreceivers: {{otlp: {{http: {{listen: '127.0.0.1:{port}'}}, grpc: {{listen: []}}}}}}\n"
                f"sinks: {{otlp: {{endpoint: '{far.url}', interval: 10m, queue: {{storage: memory}}}}}}\n"))  # fmt: skip
            with node.agent as agent:
                node.kubelet.hold("train", "nvidia.com/gpu", [node.gpus(agent)["3"]])
                wait_until(lambda: samples(agent.page(), "gpu_power_draw_watts", gpu_index="3", k8s_pod_name="train"), what="the pod")
                logs, spans = ExportLogsServiceRequest(), ExportTraceServiceRequest()
                record = logs.resource_logs.add().scope_logs.add().log_records.add(severity_text="INFO")
                span = spans.resource_spans.add().scope_spans.add().spans.add(name="s", trace_id=b"t" * 16, span_id=b"s" * 8)
                for thing in (record, span):
                    thing.attributes.add(key="gpu.index").value.int_value = 3
                for path, request in (("metrics", gauge("m", 1, {"gpu.index": "3"})), ("logs", logs), ("traces", spans)):
                    self.assertEqual(post(port, f"/v1/{path}", request.SerializeToString()).status, 200)
                self.assertEqual(post(port, "/v1/metrics", gauge("other", 1, {"gpu.index": "2"}).SerializeToString()).status, 200)
                far.wait(lambda requests: points_of(requests, "m") and points_of(requests, "other") and any(list(r.spans()) for r in requests)
                         and any(list(r.logs()) for r in requests), "all signals")  # fmt: skip
        received = [attributes for attributes, _ in points_of(far.requests, "m")]
        received += [plain(thing.attributes) for request in far.requests for _, thing in (*request.spans(), *request.logs())
                 if "gpu.index" in plain(thing.attributes) and not getattr(thing, "event_name", "")]  # fmt: skip
        self.assertEqual([attributes.get("k8s.pod.name") for attributes in received], ["train"] * 3)
        self.assertEqual([attributes.get("k8s.pod.name") for attributes, _ in points_of(far.requests, "other")], [None])

    def test_l9_210_a_single_point_leaves_soon(self):
        port = free_port()
        with Receiver() as far:
            config = (f"receivers: {{otlp: {{http: {{listen: '127.0.0.1:{port}'}}, grpc: {{listen: []}}}}}}\nlimits: {{memory: 2GiB}}\n"
                      f"sinks: {{otlp: {{endpoint: '{far.url}', interval: 10m, queue: {{storage: memory}}}}}}\n")
            with Agent(config=config):
                begin = time.monotonic()
                self.assertEqual(post(port, "/v1/metrics", gauge("m", 1).SerializeToString()).status, 200)
                far.wait(lambda requests: points_of(requests, "m"), "the point")
                self.assertLess(time.monotonic() - begin, 10)
                self.assertEqual(post(port, "/v1/metrics", gauge("n", 2500).SerializeToString()).status, 200)
                far.wait(lambda requests: len(points_of(requests, "n")) == 2500, "all points")
        self.assertLessEqual(max(len(list(request.points("n"))) for request in far.requests), 1000)

    def test_l9_211_gzip_and_another_try(self):
        with Receiver(answer=lambda path, number: (503, {"Retry-After": "1"}) if number < 2 else (200, {})) as far:
            done = collect("host", "--once", "--sink", "otel", "-o", f"otel_endpoint={far.url}")
            self.assertEqual((done.returncode, len(far.refused), len(far.requests)), (0, 2, 1), done.stderr)
        self.assertEqual(far.requests[0].headers["Content-Encoding"], "gzip")

    def test_l9_212_points_on_the_terminal(self):
        agent = subprocess.Popen([BINARY, "agent", "--http-listen", f"127.0.0.1:{free_port()}", "--ws-listen", f"127.0.0.1:{free_port()}"],
                                 env={**os.environ, "GPULENS_SINKS_STDOUT_ENABLED": "true"}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
        try:
            self.assertIn(b'"system.uptime"', agent.stdout.readline())
        finally:
            agent.terminate()
            agent.communicate(timeout=20)
        self.assertEqual(agent.returncode, 0)

    def test_zu_039_an_attribute_of_every_series(self):
        with Agent(config="attributes: {cluster: byc_1}\n") as agent:
            page = wait_until(lambda: (lambda p: p if samples(p, "system_uptime_seconds") else "")(agent.page()), what="a full page")
        without = [s.name for s in samples(page) if s.labels.get("cluster") != "byc_1"]
        self.assertEqual(without, [])
        self.assertGreater(value(page, "system_uptime_seconds"), 0)


class Table(unittest.TestCase):
    def test_every_row_about_delivery_has_its_check(self):
        if not TABLE.exists():
            self.skipTest(f"captures not here: {TABLE}")
        with TABLE.open() as file:
            rows = {row["id"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if row["where"] == "delivery"}
        here = {"-".join(name.split("_")[1:3]) for case in (Commands, OfAgent) for name in dir(case) if name.startswith("test_")}
        self.assertEqual(rows - here - set(ELSEWHERE), set())
        for row, place in ELSEWHERE.items():
            file, name = place.split()
            (path,) = [p for folder in ("tests", "src") for p in (ROOT / folder).rglob(file)]
            self.assertIn(name, path.read_text(), row)


if __name__ == "__main__":
    unittest.main()
