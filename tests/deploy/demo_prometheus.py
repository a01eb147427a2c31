"""Two nodes of `gpulens agent --demo`, and Debian's Prometheus that scrapes them: for tests of dashboards and of alerts.

    with DemoPrometheus(names="[native, zernel]") as demo:
        demo.wait(120)
        rows = demo.instant("sum(gpu_power_draw_watts)")       # [({label: value}, number)]

Node `node-a` (cluster byoc_1) runs the built-in scenario, with a constant load so that no minute of its day differs from another one.
Node `node-b` (cluster byoc_2) has what that scenario does not show: GPUs with fans and pages of vLLM 0.x, NIM, Triton, TGI, a
training job with the SDK, and a job of four ranks that reports from inside. `proxy` is a `gpulens proxy` with requests to three providers, of which one belongs to cluster byoc_2, as SGLang does.
Prometheus calls them by their name in the label `instance`.

As a program it starts the same and stays until it is interrupted: `python3 demo_prometheus.py --names "[native, zernel]"`.
"""
import argparse
import contextlib
import http.client
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from agent import BINARY, Agent, free_port, peer, samples, wait_until  # noqa: E402
from http_stub import HttpStub  # noqa: E402
from llm_upstream import LlmProxy, LlmUpstream, Traffic  # noqa: E402

SCRAPE = 5  # seconds
LOAD = 0.8  # of every engine of the scenario
CLUSTERS = {"node-a": "byoc_1", "node-b": "byoc_2"}  # the scenario's engines say the same, but search-c, which is in the second one
NODES = tuple(CLUSTERS)
PROXY = "proxy"
METRICS_TOKEN = "demo-scrape"
PROGRAM = pathlib.Path(os.environ.get("SDK_PROGRAM", BINARY.resolve().parent / "sdk_program"))
SECOND_SCENARIO = """
day: 24m
step: 15s
gpus: {model: RTX4090, count: 2}
workloads:
  - name: render
    kind: job
    gpus: [0]
    tenant: media
    busy: 0.7
    process: {name: ffmpeg, user: "1003", memory: 6GiB}
    pod: {name: render-0, namespace: media, container: ffmpeg}
"""


def histogram(name, labels, count, mean, bounds):
    """`count` observations, spread evenly over the buckets up to the greatest bound."""
    comma, braces = (labels + ",", f"{{{labels}}}") if labels else ("", "")
    rows = [f'{name}_bucket{{{comma}le="{le}"}} {count * (i + 1) // len(bounds)}' for i, le in enumerate(bounds)]
    return "\n".join([f"# TYPE {name} histogram", *rows, f'{name}_bucket{{{comma}le="+Inf"}} {count}',
                      f"{name}_sum{braces} {count * mean}", f"{name}_count{braces} {count}", ""])


def plain(kind, name, labels, number):
    return f"# TYPE {name} {kind}\n{name}{'{' + labels + '}' if labels else ''} {number}\n"


SECONDS = ("0.05", "0.1", "0.25", "0.5", "1.0", "2.5")


def vllm_v0(n):
    """vLLM 0.x, whose engine swaps; `n` requests so far."""
    at = 'model_name="demo/old",version="0.6"'
    return "".join((plain("gauge", "vllm:num_requests_running", at, 3), plain("gauge", "vllm:num_requests_waiting", at, 1),
                    plain("gauge", "vllm:num_requests_swapped", at, 1), plain("gauge", "vllm:gpu_cache_usage_perc", at, 0.6),
                    plain("gauge", "vllm:cpu_cache_usage_perc", at, 0.1), plain("counter", "vllm:prompt_tokens_total", at, 500 * n),
                    plain("counter", "vllm:generation_tokens_total", at, 100 * n),
                    histogram("vllm:time_to_first_token_seconds", at, n, 0.3, SECONDS),
                    histogram("vllm:e2e_request_latency_seconds", at, n, 1.2, SECONDS)))


def nim(n):
    at = 'model_name="demo/nim"'
    return "".join((plain("gauge", "num_requests_running", at, 2), plain("gauge", "num_requests_waiting", at, 1),
                    plain("gauge", "num_request_max", at, 64), plain("gauge", "gpu_cache_usage_perc", at, 0.4),
                    plain("counter", "request_success_total", at, n), plain("counter", "request_failure_total", at, n // 50),
                    histogram("time_to_first_token_seconds", at, n, 0.3, SECONDS),
                    histogram("time_per_output_token_seconds", at, 20 * n, 0.03, ("0.01", "0.025", "0.05", "0.1")),
                    histogram("e2e_request_latency_seconds", at, n, 1.1, SECONDS)))


def triton(n):
    at = 'model="resnet",version="1"'
    times = (("request", 9000), ("queue", 1500), ("compute_input", 300), ("compute_infer", 7000), ("compute_output", 200))
    return "".join([plain("counter", f"nv_inference_{name}_duration_us", at, n * us) for name, us in times] +
                   [plain("counter", "nv_inference_request_success", at, n),
                    plain("counter", "nv_inference_request_failure", at + ',reason="OTHER"', n // 50),
                    plain("counter", "nv_inference_count", at, 4 * n), plain("counter", "nv_inference_exec_count", at, n),
                    plain("gauge", "nv_inference_pending_request_count", at, 2)])


def tgi(n):
    return "".join((plain("counter", "tgi_request_count", "", n), plain("counter", "tgi_request_success", "", n),
                    plain("gauge", "tgi_queue_size", "", 2), plain("gauge", "tgi_batch_current_size", "", 4),
                    histogram("tgi_request_duration", "", n, 1.2, SECONDS), histogram("tgi_request_queue_duration", "", n, 0.1, SECONDS),
                    histogram("tgi_request_inference_duration", "", n, 1.0, SECONDS),
                    histogram("tgi_request_mean_time_per_token_duration", "", n, 0.04, ("0.01", "0.025", "0.05", "0.1")),
                    histogram("tgi_batch_next_size", "", n, 4, ("1", "2", "4", "8", "16"))))


PAGES = {"vllm": vllm_v0, "nim": nim, "triton": triton, "tgi": tgi}


class Training:
    """A program with the SDK that ends a training step each second and exports to the agent's socket."""

    def __init__(self, socket):
        if not PROGRAM.exists():
            raise unittest.SkipTest(f"not built: {PROGRAM}; ./dev test builds it")
        self.process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                                        env={**os.environ, "OTEL_SERVICE_NAME": "train-tts"})
        self._do(f"agent {socket}")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._steps, daemon=True)
        self._thread.start()

    def _do(self, command):
        self.process.stdin.write(command + "\n")
        answer = self.process.stdout.readline().strip()
        assert answer.startswith("ok"), f"{command}: {answer}"

    def _steps(self):
        while not self._ended.wait(1):
            self._do("train")
            self._do("ranks")

    def close(self):
        self._ended.set()
        self._thread.join()
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


class JobDemo:
    """A job of four ranks, of which the last one is late in each collective, that launches kernels, marks its phases and waits for data: programs
    that write its pages (tests/inject/job_page_program.cc). One step in a quarter of a second."""

    EVERY = 0.25  # seconds
    PROGRAM = BINARY.resolve().parent / "job_page_program"

    def __init__(self, socket):
        if not self.PROGRAM.exists():
            raise unittest.SkipTest(f"not built: {self.PROGRAM}; ./dev test builds it")
        self._socket, self._programs = socket, []
        self._ranks = [self._start("nccl") for _ in range(4)]
        for rank, program in enumerate(self._ranks):
            self._do(program, f"communicator 0 0xab12 {rank} 4 dp 0000:{rank + 1:02x}:00.0")
        self._cuda, self._marks = self._start("cuda"), self._start("program")
        self._do(self._cuda, "device 0 0000:01:00.0")
        self._traffic = Traffic(self._step, self.EVERY)

    def _start(self, writer):
        program = subprocess.Popen([self.PROGRAM, writer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                                   env={**os.environ, "GPULENS_JOB_SOCKET": self._socket})
        self._programs.append(program)
        self._do(program, "open")
        return program

    @staticmethod
    def _do(program, command):
        program.stdin.write(command + "\n")
        answer = program.stdout.readline().strip()
        assert answer and not answer.startswith("error"), f"{command}: {answer}"

    def _step(self, number):
        for rank, program in enumerate(self._ranks):
            self._do(program, f"records 0 all_reduce 4 {(10_000 if rank == 3 else 30_000) + number * 7919 % 200} 67108864")
        self._do(self._cuda, "launches 0 kernel 400 3000 9000")
        self._do(self._cuda, "launches 0 graph 2 9000 12000")
        self._do(self._cuda, "kernels 0 400 20000 50000")
        for command in ("phase data_loading", "wait 20", "phase gpu_compute", "sleep 120", "phase optimizer_step", "sleep 20", "phase gpu_compute"):
            self._do(self._marks, command)

    def close(self):
        self._traffic.close()
        for program in self._programs:
            program.stdin.close()
            program.wait(10)
            program.stdout.close()


class ProxyDemo:
    """`gpulens proxy` with METRICS_TOKEN, and a few requests a second: plain ones and streams, to two providers that are paid and to one's own
    cluster; some fail, some clients have no right key, one has spent its budget. Metrics and spans go to `receiver`, records into `folder`."""

    EVERY = 0.25  # seconds between two rounds

    def __init__(self, stack, receiver, folder):
        self.upstream = stack.enter_context(LlmUpstream(input_tokens=1000, output_tokens=50, words=5, gap=0.02))
        members = f"url: '{self.upstream.url}', prices: list, api_key: upstream-key"
        self.proxy = LlmProxy(
            f"providers:\n  - {{name: openai, {members}, region: us-1}}\n  - {{name: anthropic, api: anthropic, {members}, region: eu-1}}\n"
            f"  - {{name: own, {members}, region: lab, profile: byoc, cluster: {CLUSTERS['node-b']}, target_ttft: 500ms}}\n"
            "routes:\n  - {models: [own-*], providers: [own]}\n  - {models: ['*'], providers: [openai, anthropic]}\n"
            "budgets:\n  - {name: team, tenants: [acme], usd: '500', window: month, mode: hard}\n"
            "  - {name: small, listed_only: true, usd: '0.0001', window: month, mode: hard}\n"
            f"otlp: {{endpoint: '{receiver}', sample: 1}}\ntelemetry: {{url: {folder}/requests.db}}\n", environment={"METRICS_TOKEN": METRICS_TOKEN})
        self.poor = self.proxy.new_key("poor", "--budgets", "small")
        stack.enter_context(self.proxy)
        self.traffic = Traffic(self._round, self.EVERY)
        stack.callback(self.traffic.close)

    def _round(self, number):
        """One of twenty requests fails at the provider, few are refused."""
        send = self.proxy.send
        send("chat", stream=number % 2 == 0)
        send("chat", "/v1/messages", stream=True)
        send("own-chat", stream=True)
        if number % 20 == 19:
            send("status-503")
            send("chat", key="gpl_ada_wrong")
            send("chat", key=self.poor)


class DemoPrometheus:
    """See above. `level` is the option `metrics`; `config` is added to the configuration of both agents, `prometheus` to that of Prometheus (as `rule_files: …`)."""

    def __init__(self, names="[native, zernel]", config="", prometheus="", scrape=SCRAPE, level="all"):
        self.level = level
        self.names, self.extra, self.prometheus_extra, self.scrape = names, config, prometheus, scrape
        self.started = None
        self.agents = {}
        self._stack = contextlib.ExitStack()

    # -- start and end

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error):
        self._stack.close()

    def _start(self, stack):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-demo-"))
        stack.callback(shutil.rmtree, self.folder, True)
        program = peer("prometheus")
        begun = time.monotonic()
        pages = {}
        for kind, page in PAGES.items():
            def answer(*_, page=page):
                body = page(100 + int(10 * (time.monotonic() - begun))).encode()  # ten requests a second
                return 200, {"Content-Type": "text/plain; version=0.0.4"}, body
            pages[kind] = stack.enter_context(HttpStub(answer)).origin + "/metrics"
        receiver = stack.enter_context(HttpStub(lambda *_: (200, {"Content-Type": "application/x-protobuf"}, b""))).origin
        targets = "".join(f"  - {{name: {kind}-demo, kind: {kind}, url: '{url}', interval: 5s}}\n" for kind, url in pages.items())
        scenario = self.folder / "second.yaml"
        scenario.write_text(SECOND_SCENARIO)
        more = {"node-a": f"  otlp: {{endpoint: '{receiver}', interval: 5s}}\n", "node-b": f"targets:\n{targets}"}
        for node, place in zip(NODES, ("calm", str(scenario)), strict=True):
            self.agents[node] = stack.enter_context(
                Agent("--demo", config=self._config(node) + more[node] + self.extra, environment={"GPULENS_DEMO_SCENARIO": place}))
        stack.callback(Training(self.socket("node-b", "otlp")).close)
        stack.callback(JobDemo(self.socket("node-b", "job")).close)
        self.sim("node-a", "set", "engine=all", f"load={LOAD}")
        if self.level == "all":  # below it no page shows that a reload was applied
            self._pages_with_their_own_names()
        wait_until(lambda: {s.value for s in samples(self.agents["node-b"].page(), "gpulens_scrape_up")} == {1.0}, 60, "pages of engines")
        self.proxy_demo = ProxyDemo(stack, receiver, self.folder)
        self.proxy = self.proxy_demo.proxy
        self._start_prometheus(stack, program)
        self.started = time.monotonic()

    def _pages_with_their_own_names(self):
        """Pages of vLLM and SGLang a second time, under the names that dashboards of these projects use."""
        lines = self.sim("node-a", "status").splitlines()
        urls = {name: next(word for line in lines if name in line for word in line.split() if word.startswith("http")) for name in ("chat-a", "search-c")}
        agent = self.agents["node-a"]
        agent.reload(agent.config.read_text() + "targets:\n" + "".join(
            f"  - {{name: {name}-as-it-is, kind: prometheus, url: '{url}?own', interval: 5s}}\n"
            for name, url in urls.items()))  # another address, as the demo leaves out pages that are configured

    def socket(self, node, name):
        return f"{self.folder}/{node}/{name}.sock"

    def _config(self, node):
        (self.folder / node).mkdir()
        cluster = CLUSTERS[node]
        # l9gpu's names have host_name and k8s_cluster_name of the resource; native series have the attributes alone.
        return (f"state_dir: {self.folder}/{node}\nmetrics: {self.level}\ncontrol: {{socket: {self.socket(node, 'control')}}}\n"
                f"attributes: {{cluster: {cluster}}}\nresource: {{cluster: {cluster}, attributes: {{host.name: {node}}}}}\n"
                f"jobs: {{socket: {self.socket(node, 'job')}}}\n"
                f"collectors: {{programs: {{socket: {self.socket(node, 'otlp')}}}, nccl: {{pages: true}}, phases: {{enabled: true, pages: true}}, probes: {{enabled: true}}}}\n"
                "analyzers: {cost: {price_per_gpu_hour: 2.49, pue: 1.2, electricity_per_kwh: 0.11, co2_grams_per_kwh: 380}}\n"
                f"sinks:\n  prometheus: {{names: {self.names}}}\n")

    def _start_prometheus(self, stack, program):
        jobs = "".join(f"      - {{targets: ['127.0.0.1:{agent.port}'], labels: {{instance: {node}}}}}\n" for node, agent in self.agents.items())
        config = self.folder / "prometheus.yml"
        config.write_text(f"global: {{scrape_interval: {self.scrape}s, scrape_timeout: {self.scrape}s, evaluation_interval: {self.scrape}s}}\n"
                          f"{self.prometheus_extra}\nscrape_configs:\n  - job_name: gpulens\n    static_configs:\n{jobs}"
                          f"  - job_name: gpulens-proxy\n    authorization: {{credentials: {METRICS_TOKEN}}}\n"
                          f"    static_configs: [{{targets: ['127.0.0.1:{self.proxy.port}'], labels: {{instance: {PROXY}}}}}]\n")
        self.port = free_port()
        log = stack.enter_context(open(self.folder / "prometheus.log", "wb"))
        self.process = subprocess.Popen([program, f"--config.file={config}", f"--storage.tsdb.path={self.folder}/data",
                                         f"--web.listen-address=127.0.0.1:{self.port}"], stdout=log, stderr=log)
        stack.callback(self._stop_prometheus)

        def is_up():
            with contextlib.suppress(OSError, ValueError):  # 503 in plain text while it starts
                return len(self.instant("up == 1")) == len(NODES) + 1
            assert self.process.poll() is None, (self.folder / "prometheus.log").read_text()
            return False
        wait_until(is_up, 60, "a first scrape")

    def _stop_prometheus(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def kill_proxy(self):
        """Kills the proxy while requests are under way, and starts it again."""
        self.proxy_demo.traffic.close()
        sent = len(self.proxy_demo.upstream.requests)

        def send():
            with contextlib.suppress(OSError, http.client.HTTPException):  # its connection ends
                self.proxy.send("slow-60000")
        waiting = threading.Thread(target=send)
        waiting.start()
        wait_until(lambda: len(self.proxy_demo.upstream.requests) > sent, 30, "a request at the provider")
        self.proxy.kill()
        waiting.join()
        self.proxy.__enter__()

    def wait(self, seconds):
        """Returns once Prometheus has scraped for so long."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(max(0.0, seconds - (time.monotonic() - self.started)))
            raise AssertionError("Prometheus ended: " + (self.folder / "prometheus.log").read_text())

    def sim(self, node, *words):
        """`gpulens sim` with that node: changes of its load, faults of its GPUs (docs/truth-kit.md)."""
        done = subprocess.run([BINARY, "sim", words[0], "--socket", self.socket(node, "control"), *words[1:]], check=False,
                              capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        return done.stdout

    # -- queries

    def api(self, path, **parameters):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it is about to start
                raise
            raise ValueError(f"{error.read().decode()}: {parameters}") from None

    def instant(self, expression, at=None):
        """[(labels, value)] of an expression."""
        data = self.api("query", query=expression, **({} if at is None else {"time": at}))
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(row["metric"], float(row["value"][1])) for row in data["result"]]

    def range(self, expression, seconds=120, step=SCRAPE):
        """[(labels, [value])] of an expression over the last `seconds`."""
        now = time.time()
        data = self.api("query_range", query=expression, start=now - seconds, end=now, step=step)
        return [(row["metric"], [float(v) for _, v in row["values"]]) for row in data["result"]]

    def label_values(self, text, variables=None):
        """Answers Grafana's `label_values(metric, label)` or `label_values(label)`, sorted."""
        inside = re.fullmatch(r"\s*label_values\((.*)\)\s*", text, re.DOTALL).group(1)
        metric, _, label = inside.rpartition(",")
        match = {"match[]": self.substitute(metric.strip(), variables or {})} if metric else {}
        return self.api(f"label/{label.strip()}/values", **match, start=time.time() - 120, end=time.time())

    def substitute(self, expression, variables, seconds=120, step=3 * SCRAPE):
        """Replaces Grafana's variables: `variables` has a text, or a list that becomes (a|b) as a regular expression."""
        rate = max(step + self.scrape, 4 * self.scrape)
        known = {"__interval": f"{step}s", "__rate_interval": f"{rate}s", "__range": f"{seconds}s", "__range_s": str(seconds), **variables}

        def value(match):
            name = match.group(1) or match.group(2)
            assert name in known, f"${name} is no variable: {expression}"
            chosen = known[name]
            if isinstance(chosen, list):
                escaped = [re.sub(r"([\\^$.*+?()\[\]{}|/])", r"\\\\\1", word) for word in chosen]
                return escaped[0] if len(escaped) == 1 else "(" + "|".join(escaped) + ")"
            return chosen
        return re.sub(r"\$(?:\{(\w+)(?::\w+)?\}|(\w+))", value, expression)


def finite(rows):
    """All numbers of instant or range rows that are numbers: a quantile without observations is NaN."""
    values = [v for _, value in rows for v in (value if isinstance(value, list) else [value])]
    return [v for v in values if math.isfinite(v)]


def main():
    parser = argparse.ArgumentParser(description="Starts two demo nodes and Prometheus, until it is interrupted.")
    parser.add_argument("--names", default="[native, zernel]")
    names = parser.parse_args().names

    def end(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, end)
    with DemoPrometheus(names) as demo, contextlib.suppress(KeyboardInterrupt):
        print(f"http://127.0.0.1:{demo.port}/", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
