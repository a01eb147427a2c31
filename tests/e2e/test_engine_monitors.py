"""LLM engines by name: `gpulens collect vllm`, the l9gpu project's commands, and what --once and --emit-genai-namespace do."""
import contextlib
import json
import os
import subprocess
import threading
import unittest

from agent import BINARY, Agent, samples, value, wait_until
from http_stub import HttpStub
from own_network import own_network

# By engine: the command of its own, its option, and the path of its page.
ENGINES = {"vllm": ("vllm_monitor", "--vllm-endpoint", "http://localhost:8000/metrics"),
           "nim": ("nim_monitor", "--nim-endpoint", "http://localhost:8000/v1/metrics"),
           "triton": ("triton_monitor", "--triton-endpoint", "http://localhost:8002/metrics"),
           "sglang": ("sglang_monitor", "--sglang-endpoint", "http://localhost:30000/metrics"),
           "tgi": ("tgi_monitor", "--tgi-endpoint", "http://localhost:8080/metrics")}


def histogram(name, labels, count, seconds=0.25):
    """A histogram of `count` observations between 0.1 and 0.5."""
    braces = f"{{{labels}}}" if labels else ""
    comma = labels + "," if labels else ""
    rows = "".join(f'{name}_bucket{{{comma}le="{le}"}} {n}\n' for le, n in (("0.1", 0), ("0.5", count), ("+Inf", count)))
    return f"# TYPE {name} histogram\n{rows}{name}_sum{braces} {count * seconds}\n{name}_count{braces} {count}\n"


def gauge(name, labels, number):
    return f"# TYPE {name} gauge\n{name}{{{labels}}} {number}\n"


def counter(name, labels, number):
    return f"# TYPE {name} counter\n{name}{{{labels}}} {number}\n"


def vllm_page(turn, prefix="vllm:"):
    """The page of a server that has served 10 requests between two scrapes."""
    model = 'model_name="m",engine="0"'
    return (gauge(prefix + "num_requests_running", model, 3) + gauge(prefix + "kv_cache_usage_perc", model, 0.5) +
            counter(prefix + "generation_tokens_total", model, 1000 * turn) +
            histogram(prefix + "time_to_first_token_seconds", model, 10 * turn) +
            histogram(prefix + "inter_token_latency_seconds", model, 100 * turn) +
            histogram(prefix + "request_time_per_output_token_seconds", model, 10 * turn) +
            histogram(prefix + "e2e_request_latency_seconds", model, 10 * turn) +
            histogram(prefix + "request_prompt_tokens", model, 10 * turn) +
            histogram(prefix + "request_generation_tokens", model, 10 * turn))


def sglang_page(turn, prefix="sglang:"):
    model = 'model_name="m"'
    return (gauge(prefix + "num_running_reqs", model, 3) + gauge(prefix + "token_usage", model, 0.5) +
            histogram(prefix + "time_to_first_token_seconds", model, 10 * turn))


PAGES = {"vllm": vllm_page,
         "nim": lambda turn: gauge("num_requests_running", 'model_name="m"', 3) + gauge("num_request_max", 'model_name="m"', 64) +
         histogram("time_to_first_token_seconds", 'model_name="m"', 10 * turn),
         "triton": lambda turn: "# TYPE nv_inference_request_success counter\n" + "".join(
             f'nv_inference_request_success{{model="{model}",version="1"}} {10 * turn}\n' for model in ("a", "b")),
         "sglang": sglang_page,
         "tgi": lambda turn: "# TYPE tgi_queue_size gauge\ntgi_queue_size 3\n" + histogram("tgi_request_duration", "", 10 * turn)}


@contextlib.contextmanager
def engine(page, paths=("/metrics",), port=0):
    """A server that shows `page(turn)` at the given paths, turn 1 first; yields its base URL and the list of requested paths."""
    requested, lock = [], threading.Lock()

    def answer(request, _):
        with lock:
            requested.append(request.path)
            turn = sum(path in paths for path in requested)
        found = request.path in paths
        body = page(turn).encode() if found else b"not here"
        return 200 if found else 404, {"Content-Type": "text/plain; version=0.0.4"}, body

    with HttpStub(answer, port) as stub:
        yield stub.origin, requested


def run(*arguments):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GPULENS_")}
    return subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, timeout=120, env=clean, check=False)


def records(*arguments):
    done = run(*arguments)
    assert done.returncode == 0, (arguments, done.stderr)
    return json.loads(done.stdout)


def found(elements, name):
    """Every reading of that name, with the attributes of its entity and its own."""
    return [{**reading, "attributes": {**element["entity"], **reading.get("attributes", {})}}
            for element in elements for reading in element["readings"] if reading["name"] == name]


def names(elements):
    return {reading["name"] for element in elements for reading in element["readings"]}


class Names(unittest.TestCase):
    def test_an_engine_is_a_collect_command(self):
        for name in ENGINES:
            with self.subTest(engine=name), engine(PAGES[name]) as (url, _):
                seen = records("collect", name, "--endpoint", url + "/metrics", "--once", "--json")
                reported = {element["entity"].get("inference.engine") for element in seen}
                self.assertIn(name, reported)
                self.assertIn("inference.", " ".join(names(seen)))

    def test_the_project_s_commands_read_their_own_option(self):
        for name, (command, option, _) in ENGINES.items():
            with self.subTest(command=command), engine(PAGES[name]) as (url, _):
                seen = records(command, option, url + "/metrics", "--once", "--sink", "stdout")
                self.assertIn(name, {element["entity"].get("inference.engine") for element in seen})

    def test_triton_distinguishes_models(self):
        with engine(PAGES["triton"]) as (url, _):
            seen = records("triton_monitor", "--triton-endpoint", url + "/metrics", "--once")
        finished = found(seen, "inference.requests.finished")
        self.assertEqual({reading["attributes"]["model.name"] for reading in finished}, {"a", "b"})
        self.assertEqual({reading["attributes"]["model.version"] for reading in finished}, {"1"})

    def test_sglang_is_read_with_either_prefix(self):
        for prefix in ("sglang:", "sglang_"):
            with self.subTest(prefix=prefix), engine(lambda turn, p=prefix: sglang_page(turn, p)) as (url, _):
                seen = records("sglang_monitor", "--sglang-endpoint", url + "/metrics", "--once")
                self.assertEqual([r["value"] for r in found(seen, "inference.requests.running")], [3])

    def test_nim_is_found_at_both_paths(self):
        for path in ("/metrics", "/v1/metrics"):
            with self.subTest(path=path), engine(PAGES["nim"], (path,)) as (url, _):
                seen = records("nim_monitor", "--nim-endpoint", url + "/v1/metrics", "--once")
                self.assertEqual([r["value"] for r in found(seen, "inference.requests.running")], [3])

    def test_help_has_the_default_page_and_interval(self):
        for command, option, page in ENGINES.values():
            done = run(command, "--help")
            self.assertEqual(done.returncode, 0, command)
            words = " ".join(done.stdout.split())
            for word in (option, page, "30s", "--once", "--push-interval", "--emit-genai-namespace", "--model-name"):
                self.assertIn(word, words, command)

    def test_without_options_the_page_is_where_the_engine_has_it(self):
        with own_network(), engine(vllm_page, port=8000) as (url, _):
            self.assertEqual(url, "http://127.0.0.1:8000")
            self.assertEqual([r["value"] for r in found(records("vllm_monitor", "--once"), "inference.requests.running")], [3])


class Once(unittest.TestCase):
    def test_two_readings_are_two_scrapes(self):
        with engine(vllm_page) as (url, requested):
            seen = records("collect", "vllm", "--endpoint", url + "/metrics", "--once", "--json")
        first = found(seen, "inference.time_to_first_token")
        self.assertEqual(len(first), 1)
        scrapes = requested.count("/metrics")
        self.assertGreaterEqual(scrapes, 2)
        # The histogram is the page's own, of a scrape that was not the first.
        self.assertIn(first[0]["count"], [10 * turn for turn in range(2, scrapes + 1)])

    def test_derived_readings_are_shown_too(self):
        if "\ninference " not in run("collect", "--list").stdout:
            self.skipTest("this program has no analyzer inference")
        with engine(vllm_page) as (url, _):
            seen = records("vllm_monitor", "--vllm-endpoint", url + "/metrics", "--once")
        self.assertTrue(any(name.startswith("vllm.") for name in names(seen)), sorted(names(seen)))

    def test_an_absent_engine_is_an_error_with_a_reason(self):
        with engine(vllm_page) as (url, _):
            pass
        done = run("vllm_monitor", "--vllm-endpoint", url + "/metrics", "--once")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(url, done.stderr)


class Interval(unittest.TestCase):
    def test_the_commands_run_every_30_seconds(self):
        for name, (command, option, page) in ENGINES.items():
            done = run(command, "--dry-run")
            self.assertEqual((done.returncode, done.stdout), (0, f"gpulens collect {name} --interval 30s --sink stdout\n"))
            done = run(command, "--dry-run", "--push-interval", "5", option, page, "--emit-genai-namespace")
            self.assertEqual(done.stdout, f"gpulens collect {name} --interval 5s --sink stdout -o url={page} --emit-genai-namespace\n")

    def test_a_push_interval_is_kept(self):
        with engine(vllm_page) as (url, requested):
            process = subprocess.Popen([str(BINARY), "vllm_monitor", "--vllm-endpoint", url + "/metrics", "--push-interval", "0.3"],
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            try:
                wait_until(lambda: requested.count("/metrics") >= 4, what="a fourth scrape")
                self.assertTrue(found(json.loads(process.stdout.readline()), "inference.requests.running"))
            finally:
                process.terminate()
                process.stdout.close()
                self.assertEqual(process.wait(20), 0)


class Genai(unittest.TestCase):
    HISTOGRAMS = {"gen_ai.server.time_to_first_token": "s", "gen_ai.server.time_per_output_token": "s",
                  "gen_ai.server.request.duration": "s", "gen_ai.client.token.usage": "{token}"}

    def test_with_the_flag_and_without(self):
        with engine(vllm_page) as (url, _):
            without = records("vllm_monitor", "--vllm-endpoint", url + "/metrics", "--once", "--sink", "stdout")
            seen = records("vllm_monitor", "--vllm-endpoint", url + "/metrics", "--once", "--sink", "stdout",
                           "--emit-genai-namespace")
        self.assertFalse([name for name in names(without) if name.startswith("gen_ai.")])
        self.assertLessEqual(names(without), names(seen))
        for name, unit in self.HISTOGRAMS.items():
            reported = found(seen, name)
            self.assertEqual(len(reported), 2 if name.endswith("usage") else 1, name)
            for reading in reported:
                self.assertEqual(reading["unit"], unit)
                self.assertEqual([bucket["le"] for bucket in reading["buckets"]], [0.1, 0.5, "+Inf"], name)
                attributes = reading["attributes"]
                self.assertEqual((attributes["gen_ai.operation.name"], attributes["gen_ai.provider.name"],
                                  attributes["gen_ai.request.model"]), ("chat", "vllm", "m"))
        # One observation per request, not per token: both histograms are on the page.
        self.assertEqual(found(seen, "gen_ai.server.time_per_output_token")[0]["count"],
                         found(seen, "inference.time_per_output_token")[0]["count"])
        self.assertEqual(found(seen, "gen_ai.server.cache.utilization")[0]["value"], 0.5)

    def test_a_sink_without_other_names_reports_it(self):
        done = run("vllm_monitor", "--once", "--sink", "do_nothing", "--emit-genai-namespace")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--emit-genai-namespace", done.stderr)

    def test_on_the_page_of_an_agent(self):
        with engine(vllm_page) as (url, _):
            config = f"""
targets: [{{name: a, kind: engine, url: "{url}/metrics", interval: 200ms}}]
sinks: {{prometheus: {{names: [native, otel_genai]}}}}
"""
            with Agent(config=config) as agent:
                page = wait_until(lambda: (text := agent.page()) and "gen_ai_client_token_usage_count" in text and text)
        counts = samples(page, "gen_ai_client_token_usage_count")
        self.assertEqual({sample.labels["gen_ai_token_type"] for sample in counts}, {"input", "output"})
        self.assertIn("# TYPE gen_ai_server_time_to_first_token_seconds histogram", page)


class Zumik(unittest.TestCase):
    """Rows zu-031 and zu-033 to zu-037: the names of the dashboard, from pages of all kinds."""

    def page(self, pages, done):
        targets, servers = [], contextlib.ExitStack()
        with servers:
            for name, page in pages.items():
                url, _ = servers.enter_context(engine(page))
                targets.append(f'{{name: {name}, kind: {name}, url: "{url}/metrics", interval: 200ms}}')
            config = f"""
resource: {{attributes: {{cluster: byc_1}}}}
targets: [{", ".join(targets)}]
sinks: {{prometheus: {{names: [native, zumik]}}}}
"""
            with Agent(config=config) as agent:
                return wait_until(lambda: (text := agent.page()) and all(word in text for word in done) and text, what=str(done))

    @staticmethod
    def epp(_):
        return gauge("inference_extension_flow_control_queue_size", 'fairness_id="f",priority="0",model_name="m"', 7)

    def test_names_of_the_dashboard(self):
        seen = self.page({"sglang": lambda _: sglang_page(1),
                          "dynamo-frontend": lambda _: gauge("dynamo_frontend_router_queue_pending_requests", 'model="m"', 4),
                          "epp": lambda _: self.epp(_) + gauge("inference_pool_ready_pods", 'name="p"', 2),
                          "mooncake": lambda _: "# TYPE mooncake_transfer_read_bytes counter\nmooncake_transfer_read_bytes 100\n"
                                                "# TYPE mooncake_transfer_write_bytes counter\nmooncake_transfer_write_bytes 23\n",
                          "lmcache": lambda _: counter("lmcache:num_lookup_tokens_total", 'model_name="m"', 80) +
                          counter("lmcache:num_lookup_hits_total", 'model_name="m"', 20)},
                         ("sglang_time_to_first_token_seconds_count{", "inference_engine=\"dynamo-frontend\"", "zumik_byoc_replicas{",
                          "mooncake_transfer_bytes_total{", "lmcache_num_lookup_hits_total{"))
        self.assertEqual([(sample.labels["le"], sample.value) for sample in samples(seen, "sglang_time_to_first_token_seconds_bucket")],
                         [("0.1", 0), ("0.5", 10), ("+Inf", 10)])
        self.assertEqual([sample.value for sample in samples(seen, "zumik_byoc_replicas")], [2])
        moved = {sample.labels["direction"]: sample.value for sample in samples(seen, "mooncake_transfer_bytes_total")}
        self.assertEqual(moved, {"read": 100, "write": 23})
        hits, lookups = value(seen, "lmcache_num_lookup_hits_total"), value(seen, "lmcache_num_lookup_tokens_total")
        self.assertEqual(hits / lookups, 0.25)
        # Dynamo exports its queue, so the picker's is not exported as well.
        self.assertEqual([sample.value for sample in samples(seen, "dynamo_router_queue_depth")], [4])
        for name in ("sglang_time_to_first_token_seconds_count", "dynamo_router_queue_depth", "zumik_byoc_replicas",
                     "mooncake_transfer_bytes_total", "lmcache_num_lookup_hits_total"):
            self.assertEqual({sample.labels.get("cluster") for sample in samples(seen, name)}, {"byc_1"}, name)

    def test_the_endpoint_picker_replaces_dynamo(self):
        seen = self.page({"epp": self.epp}, ("dynamo_router_queue_depth{",))
        self.assertEqual(value(seen, "dynamo_router_queue_depth"), 7)

    def test_without_a_cluster_there_is_nothing(self):
        with Agent(config="sinks: {prometheus: {names: [native, zumik]}}\n") as agent:
            text = agent.page()
        for name in ("zumik_", "dynamo_", "mooncake_", "lmcache_", "sglang_"):
            self.assertNotIn("\n" + name, text)


class WrongUse(unittest.TestCase):
    def test_a_wrong_url_names_its_option(self):
        cases = [(command, option) for command, option, _ in ENGINES.values()] + [("dcgm_monitor", "--dcgm-endpoint")]
        for command, option in cases:
            for url in ("localhost", "htp://localhost:1/metrics", "http://:x/", "http://h:99999/metrics"):
                done = run(command, option, url, "--once")
                self.assertEqual(done.returncode, 2, (command, url, done.stdout))
                self.assertIn(option, done.stderr, (command, url))
        done = run("collect", "vllm", "--endpoint", "localhost", "--once")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--endpoint", done.stderr)

    def test_a_command_without_a_page_has_no_endpoint(self):
        done = run("collect", "host", "--endpoint", "http://localhost:1/metrics", "--once")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--endpoint: host does not read a page", done.stderr)

    def test_an_engine_nearly_right_is_found(self):
        done = run("collect", "sglan", "--once")
        self.assertEqual(done.returncode, 2)
        self.assertIn("Did you mean sglang?", done.stderr)


if __name__ == "__main__":
    unittest.main()
