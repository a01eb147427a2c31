"""Triton Inference Server with two models, one of them in two versions, driven over HTTP and read by the agent."""
import concurrent.futures
import json
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

from engine import BINARY, Agent, EngineCase, Server, fetch, engines_config, free_port, home, libraries, samples, total, value, wait_until

HERE = pathlib.Path(__file__).resolve().parent
STEP = 0.005  # as in triton_model.py
SERVED = (("double", "1"), ("double", "2"), ("lone", "1"))
CONFIG = """name: "%s"
backend: "python"
max_batch_size: 8
input [{ name: "X" data_type: TYPE_FP32 dims: [ 4 ] }]
output [{ name: "Y" data_type: TYPE_FP32 dims: [ 4 ] }]
version_policy: { all {} }
instance_group [{ kind: KIND_CPU count: 1 }]
"""


class Client:
    """Sends requests and counts per model and version: answers, failures, rows and seconds."""

    def __init__(self, port):
        self.port = port
        self.good = dict.fromkeys(SERVED, 0)
        self.bad, self.rows, self.seconds = (dict.fromkeys(SERVED, 0) for _ in range(3))

    def send(self, model, version, rows=1, first=1.0):
        body = {"inputs": [{"name": "X", "shape": [rows, 4], "datatype": "FP32", "data": [first, 2, 3, 4] * rows}]}
        start = time.monotonic()
        status, text = fetch(self.port, f"/v2/models/{model}/versions/{version}/infer", body)
        return status, text, time.monotonic() - start

    def infer(self, model, version, rows=1):
        status, text, seconds = self.send(model, version, rows)
        assert status == 200, text
        assert json.loads(text)["outputs"][0]["data"][:4] == [2, 4, 6, 8], text
        self.good[model, version] += 1
        self.rows[model, version] += rows
        self.seconds[model, version] += seconds

    def fail(self, model, version):
        status, text, _ = self.send(model, version, first=-1.0)
        assert status >= 400, text
        self.bad[model, version] += 1


class Triton(EngineCase):
    name = "triton"

    @classmethod
    def setUpClass(cls):
        root = home("triton")
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-triton-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        for model, version in SERVED:
            place = cls.folder / "models" / model / version
            place.mkdir(parents=True)
            shutil.copy(HERE / "triton_model.py", place / "model.py")
            (place.parent / "config.pbtxt").write_text(CONFIG % model)
        cls.port, cls.metrics = free_port(), free_port()
        program = root / "pytriton" / "tritonserver"
        server = Server([program / "bin" / "tritonserver", f"--model-repository={cls.folder}/models",
                         f"--backend-directory={program}/backends", "--allow-grpc=false", "--http-address=127.0.0.1",
                         f"--http-port={cls.port}", "--metrics-address=127.0.0.1", f"--metrics-port={cls.metrics}",
                         "--metrics-interval-ms=100"],
                        lambda: fetch(cls.port, "/v2/health/ready")[0] == 200,
                        {"LD_LIBRARY_PATH": libraries(root)}, cls.folder)
        cls.start(server)
        cls.client = Client(cls.port)
        reported = json.loads(fetch(cls.port, "/v2")[1])
        cls.version = f"Triton Inference Server {reported['version']}"

    @classmethod
    def pages(cls):
        return {"triton": cls.direct()}

    @classmethod
    def direct(cls):
        """Triton's own page, past the agent."""
        return fetch(cls.metrics, "/metrics")[1]

    def config(self, **more):
        return engines_config(llm=(f"http://127.0.0.1:{self.metrics}/metrics", "triton"), **more)

    def finished(self, page, model, version):
        return value(page, "inference_requests_finished_total", target="llm", model_name=model, model_version=version)

    def caught_up(self, agent):
        """The agent's page, once it has every request that the client knows of."""
        def times(page, direct, key):
            """Whether the page has Triton's times as they are now: it counts a request before it adds them."""
            theirs, ours = {"model": key[0], "version": key[1]}, {"target": "llm", "model_name": key[0], "model_version": key[1]}
            return all(abs((value(page, name, **ours, **labels) or 0) - (value(direct, there, **theirs) or 0) / 1e6) < 1e-6 for name, labels, there in (
                ("inference_request_duration_seconds_sum", {}, "nv_inference_request_duration_us"),
                ("inference_request_stage_time_seconds_sum", {"inference_stage": "compute_output"}, "nv_inference_compute_output_duration_us")))

        def right(page):
            direct = self.direct()
            return all(times(page, direct, key) and self.finished(page, *key) == self.client.good[key] and
                       total(page, "inference_requests_failed_total", target="llm", model_name=key[0],
                             model_version=key[1]) == self.client.bad[key] for key in SERVED)
        return self.settled(agent, right, f"{self.client.good} good and {self.client.bad} failed requests")

    def test_requests_are_those_of_the_client_per_model_and_version(self):
        with Agent(config=self.config()) as agent:
            for count, (model, version) in enumerate(SERVED, 3):
                for _ in range(count):
                    self.client.infer(model, version)
            for _ in range(2):
                self.client.fail("double", "2")
            self.client.fail("lone", "1")
            page = self.caught_up(agent)
            self.assertEqual(value(page, "gpulens_scrape_up", target="llm"), 1)
            kinds = {s.labels["error_type"] for s in samples(page, "inference_requests_failed_total", target="llm") if s.value}
            self.assertEqual(kinds, {"BACKEND"}, "the model raised: Triton's backend failed")
            # Requests that never reached a model are not counted there.
            before = total(self.direct(), "nv_inference_request_failure")
            for version, body in (("9", None), ("1", "no JSON")):
                self.assertGreaterEqual(fetch(self.port, f"/v2/models/lone/versions/{version}/infer", body or "{}")[0], 400)
            self.assertEqual(total(self.direct(), "nv_inference_request_failure"), before)
            self.caught_up(agent)
            series = samples(agent.page(), None, target="llm")
            for sample in series:
                if sample.name.startswith("inference_request"):
                    self.assertIn((sample.labels.get("model_name"), sample.labels.get("model_version")), SERVED, sample)
                    self.assertEqual(sample.labels["inference_engine"], "triton", sample)

    def test_means_lie_between_the_work_and_the_client_s_wait(self):
        with Agent(config=self.config()) as agent:
            first = self.caught_up(agent)
            waited = dict(self.client.seconds)
            for key in SERVED:
                for _ in range(10):
                    self.client.infer(*key)
            last = self.caught_up(agent)
        for key in SERVED:
            def mean(name, **labels):
                labels |= {"target": "llm", "model_name": key[0], "model_version": key[1]}
                grown = [value(last, name + end, **labels) - (value(first, name + end, **labels) or 0)
                         for end in ("_sum", "_count")]
                self.assertEqual(grown[1], 10, name)
                return grown[0] / grown[1]
            client = (self.client.seconds[key] - waited[key]) / 10
            request = mean("inference_request_duration_seconds")
            compute = mean("inference_request_inference_time_seconds")
            queue = mean("inference_request_queue_time_seconds")
            stages = [mean("inference_request_stage_time_seconds", inference_stage=stage)
                      for stage in ("compute_input", "compute_output")]
            self.assertLessEqual(request, client)
            # Microseconds on Triton's page, each sum cut off to whole ones.
            self.assertGreaterEqual(compute, STEP - 2e-6)
            self.assertLessEqual(compute + queue + sum(stages), request + 1e-5)
            for part in (queue, *stages):
                self.assertGreater(part, 0)
                self.assertLess(part, request)

    def test_batches_are_rows_over_executions(self):
        with Agent(config=self.config()) as agent:
            self.caught_up(agent)
            rows = dict(self.client.rows)
            first = agent.page()
            for count in (1, 4, 7, 8):
                self.client.infer("double", "1", count)
            last = self.caught_up(agent)
        labels = {"target": "llm", "model_name": "double", "model_version": "1"}
        grown = {end: value(last, f"inference_scheduler_batch_size_{end}", **labels) -
                 (value(first, f"inference_scheduler_batch_size_{end}", **labels) or 0) for end in ("sum", "count")}
        self.assertEqual(grown, {"sum": self.client.rows["double", "1"] - rows["double", "1"], "count": 4})
        self.assertEqual(grown["sum"] / grown["count"], 5)

    def test_a_queue_is_seen_while_it_lasts(self):
        gate = self.folder / "models" / "lone" / "gate"
        pending = lambda page: value(page, "nv_inference_pending_request_count", model="lone", version="1")  # noqa: E731
        waiting = lambda page, model: value(page, "inference_requests_waiting", target="llm",  # noqa: E731
                                            model_name=model, model_version="1")
        with Agent(config=self.config()) as agent, concurrent.futures.ThreadPoolExecutor(4) as pool:
            gate.touch()
            try:
                sent = [pool.submit(self.client.send, "lone", "1") for _ in range(4)]
                held = wait_until(lambda: pending(self.direct()) == 3 and 3, 20, "three requests behind the first")
                page = self.settled(agent, lambda p: waiting(p, "lone") == held, "the queue")
                self.assertEqual(waiting(page, "double"), 0)
            finally:
                gate.unlink()
            for answer in sent:
                status, text, seconds = answer.result()
                self.assertEqual(status, 200, text)
                self.client.good["lone", "1"] += 1
                self.client.rows["lone", "1"] += 1
                self.client.seconds["lone", "1"] += seconds
            self.settled(agent, lambda p: waiting(p, "lone") == 0, "an empty queue")
            self.caught_up(agent)

    def test_the_command_reports_every_model_and_version(self):
        for key in SERVED:
            self.client.infer(*key)
        done = subprocess.run([BINARY, "triton_monitor", "--once", "--sink", "stdout", "--triton-endpoint",
                               f"http://127.0.0.1:{self.metrics}/metrics"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        reported = {(r["attributes"]["model.name"], r["attributes"]["model.version"]) for element in json.loads(done.stdout)
                for r in element["readings"] if r["name"] == "triton.requests.success"}
        self.assertEqual(reported, set(SERVED))

    def test_the_seed_names_are_rates_and_means_since_the_first_scrape(self):
        """A window longer than the test: what is shown goes back to the first scrape."""
        created = time.monotonic()
        with Agent(config=self.config(windows="analyzers: {inference: {window: 60s}}\n")) as agent:
            self.caught_up(agent)
            begin = time.monotonic()
            good, bad, rows, seconds = (dict(counts) for counts in (self.client.good, self.client.bad, self.client.rows,
                                                                self.client.seconds))
            while time.monotonic() < begin + 3:
                for key, count in zip(SERVED, (1, 4, 8)):
                    self.client.infer(*key, rows=count)
                self.client.fail("double", "2")
            lasted = time.monotonic() - begin
            self.caught_up(agent)
            # The derived names are a tick behind what they are made of.
            def rates(p):
                past = time.monotonic() - created
                wanted = [("success", key, self.client.good[key] - good[key]) for key in SERVED]
                wanted.append(("failed", ("double", "2"), self.client.bad["double", "2"] - bad["double", "2"]))
                return all((value(p, f"triton_requests_{what}_per_second", target="llm", model_name=key[0],
                                  model_version=key[1]) or 0) >= count / past for what, key, count in wanted)
            page = self.settled(agent, rates, "the rates")
            most = time.monotonic() - created
        for key in SERVED:
            label = {"target": "llm", "model_name": key[0], "model_version": key[1]}
            sent = self.client.good[key] - good[key]
            rate = value(page, "triton_requests_success_per_second", **label)
            self.assertTrue(sent / most <= rate <= sent / lasted, (key, rate, sent, lasted, most))
            if self.client.bad[key] > bad[key]:
                continue  # what failed took time, too
            self.assertAlmostEqual(value(page, "triton_batch_size", **label), (self.client.rows[key] - rows[key]) / sent, 6)
            latency = value(page, "triton_request_latency_microseconds", **label)
            compute = value(page, "triton_compute_latency_microseconds", **label)
            client = (self.client.seconds[key] - seconds[key]) / sent * 1e6
            self.assertTrue(STEP * 1e6 - 2 <= compute < latency <= client, (key, compute, latency, client))
            for part in ("queue", "compute_input", "compute_output"):
                self.assertTrue(0 < value(page, f"triton_{part}_latency_microseconds", **label) < latency, (key, part))
            self.assertEqual(value(page, "triton_queue_depth", **label), 0)


if __name__ == "__main__":
    unittest.main()
