"""Features of two other projects for LLM engines, row by row, each by its command: two pages, served one after
the other, and what `gpulens NAME_monitor --once` makes of what lies between.

The table is next to the checkout. Without it the checks still run, but a missing check is not found.
"""
import csv
import sys
import time
import unittest

from agent import ROOT, Agent, samples, value, wait_until
from test_engine_monitors import counter, engine, found, gauge, names, records, run

sys.path.insert(0, str(ROOT / "tools"))
import engine_pages  # noqa: E402

TABLE = ROOT.parent / "shared/seed_rows.tsv"
OLD, NEW = 1_000_000, 1_000  # observations before the window, and in it


def spread(name, labels, fast, slow, bounds=(0.1, 0.5, 1, 10), low=0.05, high=8):
    """A histogram of `fast` observations at `low` and `slow` ones at `high`."""
    rows = "".join(f'{name}_bucket{{{labels},le="{le}"}} {fast * (low <= le) + slow * (high <= le)}\n' for le in bounds)
    rows += f'{name}_bucket{{{labels},le="+Inf"}} {fast + slow}\n'
    return f"# TYPE {name} histogram\n{rows}{name}_sum{{{labels}}} {fast * low + slow * high}\n{name}_count{{{labels}}} {fast + slow}\n"


class Monitor(unittest.TestCase):
    """One run of a command; its page is called with 1 for the first scrape and 2 for all later ones."""

    COMMAND, OPTION = "", ""

    @classmethod
    def page(cls, turn):
        raise NotImplementedError

    @classmethod
    def setUpClass(cls):
        if cls is Monitor:
            raise unittest.SkipTest("only what others are made of")
        times = []

        def page(turn):
            times.append(time.monotonic())
            return cls.page(min(turn, 2))
        with engine(page) as (url, _):
            cls.readings = records(cls.COMMAND, cls.OPTION, url + "/metrics", "--once", "--sink", "stdout")
        cls.elapsed = times[-1] - times[0]

    def one(self, name, **attributes):
        """The value of the only reading of that name with these attributes (with _ for .)."""
        fits = [r["value"] for r in found(self.readings, name)
                if all(str(r["attributes"].get(k.replace("_", "."), r["attributes"].get(k))) == v for k, v in attributes.items())]
        self.assertEqual(len(fits), 1, (name, attributes, fits))
        return fits[0]

    def rate(self, name, growth, **attributes):
        """A rate over the time between the scrapes, as the server saw it; its clock is not the agent's."""
        self.assertAlmostEqual(self.one(name, **attributes) * self.elapsed / growth, 1, delta=0.1)

    def quantiles(self, name, expected, width):
        for quantile, truth in expected.items():
            self.assertAlmostEqual(self.one(name, quantile=quantile), truth, delta=width, msg=(name, quantile))


class Vllm(Monitor):
    COMMAND, OPTION = "vllm_monitor", "--vllm-endpoint"

    @classmethod
    def page(cls, turn):
        new = turn == 2
        text = ""
        for rank, running in (("0", 10), ("1", 20)):
            model = f'model_name="m",engine="{rank}"'
            text += "".join((
                gauge("vllm:num_requests_running", model, running), gauge("vllm:num_requests_waiting", model, 4),
                gauge("vllm:kv_cache_usage_perc", model, 0.25 if rank == "0" else 0.75),
                counter("vllm:prompt_tokens_total", model, 5000 + 350 * new),
                counter("vllm:generation_tokens_total", model, 9000 + 700 * new),
                counter("vllm:prefix_cache_queries_total", model, 1000 + 200 * new),
                counter("vllm:prefix_cache_hits_total", model, 100 + 150 * new),
                counter("vllm:num_preemptions_total", model, 3 + 6 * new),
                counter("vllm:spec_decode_num_drafts_total", model, 10 + 50 * new),
                counter("vllm:spec_decode_num_draft_tokens_total", model, 40 + 200 * new),
                counter("vllm:spec_decode_num_accepted_tokens_total", model, 20 + 100 * new),
                "".join(counter("vllm:request_success_total", f'{model},finished_reason="{reason}"', 7 + n * new)
                        for reason, n in (("stop", 60), ("length", 30), ("abort", 10), ("error", 20)))))
            # A page may have one TYPE once.
            for name in ("e2e_request_latency_seconds", "time_to_first_token_seconds", "inter_token_latency_seconds",
                         "time_per_output_token_seconds", "request_prefill_time_seconds", "request_decode_time_seconds"):
                text += spread("vllm:" + name, model, OLD, NEW * new)
            text += spread("vllm:kv_block_lifetime_seconds", model, 100, 40 * new)
        text += ("# TYPE vllm:lora_requests_info gauge\n"
                 'vllm:lora_requests_info{running_lora_adapters="a,b,c",max_lora="8"} 100\n'
                 'vllm:lora_requests_info{running_lora_adapters="a,b",max_lora="8"} 200\n')
        return text

    def test_l9_097_098_throughput(self):
        self.rate("vllm.prompt.throughput", 700)
        self.rate("vllm.generation.throughput", 1400)

    def test_l9_099_100_105_106_107_quantiles_of_the_window_alone(self):
        late = {"p50": 5.5, "p95": 9.55}
        for name in ("vllm.request.latency", "vllm.ttft", "vllm.itl", "vllm.prefill.duration", "vllm.decode.duration"):
            self.quantiles(name, late, 0.01)
        self.quantiles("vllm.request.latency", {"p99": 9.91}, 0.01)
        self.quantiles("vllm.itl", {"p99": 9.91}, 0.01)

    def test_l9_101_102_103_104_levels(self):
        self.assertEqual(self.one("vllm.requests.running"), 30)
        self.assertEqual(self.one("vllm.requests.waiting"), 8)
        self.assertAlmostEqual(self.one("vllm.cache.usage", cache_type="gpu"), 0.5)
        self.assertNotIn("vllm.requests.swapped", names(self.readings))
        self.assertEqual([r for r in found(self.readings, "vllm.cache.usage") if r["attributes"]["cache.type"] == "cpu"], [])

    def test_l9_108_to_115_rates_and_ratios(self):
        self.assertAlmostEqual(self.one("vllm.cache.hit_rate"), 0.75)
        self.rate("vllm.cache.evictions", 80)
        self.assertAlmostEqual(self.one("vllm.spec_decode.acceptance_rate"), 0.5)
        self.assertAlmostEqual(self.one("vllm.spec_decode.efficiency"), 3)
        self.rate("vllm.requests.success", 240)
        for reason, growth in (("stop", 120), ("length", 60), ("abort", 20)):
            self.rate("vllm.requests.finished", growth, finish_reason=reason)
        self.rate("vllm.scheduler.preemptions", 12)
        self.assertEqual(self.one("vllm.lora.active_count"), 2, "the newest series")

    def test_l9_185_the_model_is_exported(self):
        for name in names(self.readings):
            if name.startswith("vllm.") and name != "vllm.lora.active_count":  # the page names no model with its adapters
                self.assertEqual({r["attributes"].get("model.name") for r in found(self.readings, name)}, {"m"}, name)


class VllmVersionZero(Monitor):
    COMMAND, OPTION = "vllm_monitor", "--vllm-endpoint"

    @classmethod
    def page(cls, turn):
        model = 'model_name="m"'
        return (gauge("vllm:num_requests_swapped", model, 5) + gauge("vllm:cpu_cache_usage_perc", model, 0.125) +
                gauge("vllm:gpu_cache_usage_perc", model, 0.5) + counter("vllm:prefix_cache_queries_total", model, 10))

    def test_l9_101_104_108_old_names_and_no_traffic(self):
        self.assertEqual(self.one("vllm.requests.swapped"), 5)
        self.assertAlmostEqual(self.one("vllm.cache.usage", cache_type="gpu"), 0.5)
        self.assertAlmostEqual(self.one("vllm.cache.usage", cache_type="cpu"), 0.125)
        self.assertNotIn("vllm.cache.hit_rate", names(self.readings))
        self.assertNotIn("vllm.cache.evictions", names(self.readings))


class Nim(Monitor):
    COMMAND, OPTION = "nim_monitor", "--nim-endpoint"

    @classmethod
    def page(cls, turn):
        new = turn == 2
        model = 'model_name="m"'
        return (gauge("num_requests_waiting", model, 6) + "# TYPE gpu_cache_usage_perc gauge\ngpu_cache_usage_perc 0.25\n" +
                counter("request_success_total", model, 90 + 10 * new) + counter("request_failure_total", model, 7 + new) +
                spread("e2e_request_latency_seconds", model, OLD, NEW * new) +
                spread("time_per_output_token_seconds", model, OLD, NEW * new))

    def test_l9_116_to_122(self):
        self.assertEqual(self.one("nim.requests.total"), 108)
        self.assertEqual(self.one("nim.requests.failed"), 8)
        self.quantiles("nim.request.latency", {"p50": 5.5, "p99": 9.91}, 0.01)
        self.assertNotIn("nim.batch.size", names(self.readings))
        self.assertEqual(self.one("nim.queue.depth"), 6)
        self.assertAlmostEqual(self.one("nim.kv_cache.usage"), 0.25)
        self.quantiles("nim.itl", {"p50": 5.5, "p95": 9.55}, 0.01)

    def test_l9_119_is_listed_as_not_offered(self):
        listed = run("engines", "list", "nim", "--format", "md").stdout
        self.assertRegex(listed, r"BatchSize.*(no|–|not)")


class Triton(Monitor):
    COMMAND, OPTION = "triton_monitor", "--triton-endpoint"

    @classmethod
    def page(cls, turn):
        new = turn == 2
        text = ""
        for version in ("1", "2"):
            of = f'model="m",version="{version}"'
            text += counter("nv_inference_request_success", of, 100 + 20 * new)
            text += counter("nv_inference_request_failure", of + ',reason="OTHER"', 5 + 10 * new)
            text += counter("nv_inference_count", of, 400 + 80 * new) + counter("nv_inference_exec_count", of, 100 + 20 * new)
            text += gauge("nv_inference_pending_request_count", of, 3)
            for part, us in (("request", 5000), ("queue", 1000), ("compute_input", 200), ("compute_infer", 3000), ("compute_output", 800)):
                text += counter(f"nv_inference_{part}_duration_us", of, 10 ** 9 + 20 * us * new)
        return text

    def test_l9_123_to_131(self):
        for version in ("1", "2"):
            self.rate("triton.requests.success", 20, model_version=version)
            self.rate("triton.requests.failed", 10, model_version=version)
            for name, us in (("request.latency", 5000), ("queue.latency", 1000), ("compute.input_latency", 200),
                             ("compute.latency", 3000), ("compute.output_latency", 800)):
                self.assertAlmostEqual(self.one("triton." + name, model_version=version), us, delta=0.5)
            self.assertEqual(self.one("triton.queue.depth", model_version=version), 3)
            self.assertAlmostEqual(self.one("triton.batch.size", model_version=version), 4)

    def test_l9_185_model_and_version_on_every_point(self):
        for name in names(self.readings):
            if name.startswith("triton."):
                self.assertEqual({(r["attributes"]["model.name"], r["attributes"]["model.version"]) for r in found(self.readings, name)},
                                 {("m", "1"), ("m", "2")}, name)


class Sglang(Monitor):
    COMMAND, OPTION = "sglang_monitor", "--sglang-endpoint"

    @classmethod
    def page(cls, turn):
        new = turn == 2
        model = 'model_name="m"'
        text = "# TYPE sglang:num_running_reqs gauge\n# TYPE sglang:num_queue_reqs gauge\n"
        for rank in ("0", "1"):  # of one engine: two ranks with the same values
            text += f'sglang:num_running_reqs{{{model},tp_rank="{rank}",pp_rank="0"}} 9\n'
            text += f'sglang:num_queue_reqs{{{model},tp_rank="{rank}",pp_rank="0"}} 2\n'
        return (text + counter("sglang:prompt_tokens_total", model, 500 + 300 * new) +
                counter("sglang:generation_tokens_total", model, 100 + 600 * new) +
                counter("sglang:cached_tokens_total", model, 50 + 75 * new) +
                spread("sglang:inter_token_latency_seconds", model, OLD, NEW * new) +
                spread("sglang:time_to_first_token_seconds", model, OLD, NEW * new) +
                spread("sglang:e2e_request_latency_seconds", model, OLD, NEW * new))

    def test_l9_132_to_139(self):
        self.rate("sglang.prompt.throughput", 300)
        self.rate("sglang.generation.throughput", 600)
        self.assertAlmostEqual(self.one("sglang.cache.hit_rate"), 0.25)
        self.quantiles("sglang.itl", {"p50": 5.5, "p95": 9.55}, 0.01)
        self.quantiles("sglang.ttft", {"p50": 5.5, "p95": 9.55}, 0.01)
        self.quantiles("sglang.request.latency", {"p50": 5.5, "p95": 9.55, "p99": 9.91}, 0.01)
        self.assertEqual(self.one("sglang.requests.running"), 9)
        self.assertEqual(self.one("sglang.requests.waiting"), 2)


class Tgi(Monitor):
    COMMAND, OPTION = "tgi_monitor", "--tgi-endpoint"
    TOKENS = (1, 10, 100, 1000)

    @classmethod
    def page(cls, turn):
        new = turn == 2
        text = ""
        for name in ("tgi_request_duration", "tgi_request_queue_duration", "tgi_request_inference_duration",
                     "tgi_request_mean_time_per_token_duration", "tgi_batch_forward_duration"):
            text += spread(name, 'method="decode"' if "forward" in name else 'x=""', OLD, NEW * new)
        for name in ("tgi_batch_next_size", "tgi_request_input_length", "tgi_request_generated_tokens"):
            text += spread(name, 'x=""', OLD, NEW * new, cls.TOKENS, 1, 200)
        return text

    def test_l9_140_to_147(self):
        for name in ("request.latency", "queue.latency", "inference.latency", "tpot", "batch.forward_duration"):
            self.quantiles("tgi." + name, {"p50": 5.5, "p95": 9.55}, 0.01)
        self.quantiles("tgi.request.latency", {"p99": 9.91}, 0.01)
        for name in ("batch.size", "request.input_tokens", "request.output_tokens"):
            self.quantiles("tgi." + name, {"p50": 550, "p95": 955}, 1)


class Cluster(unittest.TestCase):
    def test_l9_202_203_targets_of_a_configuration_are_on_the_page(self):
        pages = {"vllm": counter("vllm:prompt_tokens_total", 'model_name="m"', 4),
                 "triton": counter("nv_inference_request_success", 'model="m",version="1"', 9)}
        with engine(lambda _: pages["vllm"]) as (one, _), engine(lambda _: pages["triton"]) as (two, _):
            config = (f'targets: [{{name: vllm, kind: engine, url: "{one}/metrics", interval: 200ms}}, '
                      f'{{name: triton, kind: engine, url: "{two}/metrics", interval: 200ms, pass_through: true}}]\n')
            with Agent(config=config) as agent:
                wait_until(lambda: value(agent.page(), "inference_tokens_prompt_total", target="vllm") == 4)
                wait_until(lambda: value(agent.page(), "inference_requests_finished_total", target="triton") == 9)
                self.assertEqual(value(agent.page(), "nv_inference_request_success", target="triton"), 9)

    def test_zu_038_seven_targets(self):
        engines = ("sglang", "vllm", "lmcache", "dynamo-frontend", "epp", "mooncake", "dynamo-router")
        servers, targets = [], []
        for name in engines:
            body = engine_pages.page_of(name)
            server = engine(lambda _, body=body: body)
            url, _ = server.__enter__()
            servers.append(server)
            self.addCleanup(server.__exit__, None, None, None)
            targets.append(f'{{name: {name}, kind: {name}, url: "{url}/metrics", interval: 500ms}}')
        with Agent(config=f"targets: [{', '.join(targets)}]\n") as agent:
            for name in engines:
                wait_until(lambda: value(agent.page(), "gpulens_scrape_up", target=name) == 1, what=name)
            page = agent.page()
            for name in engines:
                self.assertEqual(value(page, "gpulens_scrape_families_unknown", target=name), 0, name)
                self.assertTrue([s for s in samples(page) if s.name.startswith("inference_") and s.labels.get("inference_engine") == name],
                                name)


# Rows that are checked elsewhere: the file and the name of the test.
ELSEWHERE = {
    "l9-005": ("e2e/test_engine_monitors.py", "test_the_project_s_commands_read_their_own_option"),
    "l9-006": ("e2e/test_engine_monitors.py", "test_nim_is_found_at_both_paths"),
    "l9-007": ("engines/test_triton.py", "test_the_command_reports_every_model_and_version"),
    "l9-008": ("e2e/test_engine_monitors.py", "test_sglang_is_read_with_either_prefix"),
    "l9-009": ("e2e/test_engine_monitors.py", "test_without_options_the_page_is_where_the_engine_has_it"),
    "l9-013": ("e2e/test_engine_monitors.py", "test_a_push_interval_is_kept"),
    "l9-014": ("e2e/test_engine_monitors.py", "test_a_wrong_url_names_its_option"),
    "l9-015": ("e2e/test_engine_monitors.py", "test_with_the_flag_and_without"),
    "l9-016": ("e2e/test_engine_monitors.py", "test_help_has_the_default_page_and_interval"),
    "l9-043": ("differential/histogram_quantile.py", "def "),
    "l9-052": ("e2e/test_engines_command.py", "test_pages_of_the_five_engines_of_l9gpu"),
    "l9-189": ("e2e/test_otlp.py", "test_genai_names_are_histograms_with_the_required_attributes"),
    "l9-190": ("e2e/test_engine_monitors.py", "test_with_the_flag_and_without"),
    "zu-031": ("e2e/test_engine_monitors.py", "test_names_of_the_dashboard"),
    "zu-033": ("e2e/test_engine_monitors.py", "test_names_of_the_dashboard"),
    "zu-034": ("e2e/test_engine_monitors.py", "test_the_endpoint_picker_replaces_dynamo"),
    "zu-035": ("e2e/test_engine_monitors.py", "test_names_of_the_dashboard"),
    "zu-036": ("e2e/test_engine_monitors.py", "test_names_of_the_dashboard"),
    "zu-037": ("e2e/test_engine_monitors.py", "test_names_of_the_dashboard"),
    "zu-041": ("e2e/test_discovery.py", "test_file_sd_adds_and_removes_a_target"),
    "zu-042": ("e2e/test_engine_monitors.py", "test_without_a_cluster_there_is_nothing"),
}


class Table(unittest.TestCase):
    def test_every_row_about_engines_has_its_check(self):
        if not TABLE.exists():
            self.skipTest(f"captures not here: {TABLE}")
        with TABLE.open() as file:
            rows = {row["id"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if row["where"] == "engines"}
        checked = set(ELSEWHERE)
        for case in (Vllm, VllmVersionZero, Nim, Triton, Sglang, Tgi, Cluster):
            for name in dir(case):
                words = name.split("_")
                if name.startswith(("test_l9", "test_zu")):
                    numbers = [int(word) for word in words if word.isdigit()]
                    if "to" in words:
                        numbers += range(numbers[0], numbers[1])
                    checked |= {f"{words[1]}-{number:03}" for number in numbers}
        self.assertEqual(rows - checked, set())
        for row, (file, test) in ELSEWHERE.items():
            self.assertIn(test, (ROOT / "tests" / file).read_text(), row)


if __name__ == "__main__":
    unittest.main()
