"""`gpulens engines`: the tables printed, a page checked against them, and a running engine read."""
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from agent import BINARY, ROOT, free_port
from http_stub import HttpStub

sys.path.insert(0, str(ROOT / "tools"))
import engine_pages  # noqa: E402  (the folder is known only now)

CAPTURES = ROOT.parent / "shared" / "fixtures"
TGI = "# TYPE tgi_queue_size gauge\ntgi_queue_size 3\n"
UNKNOWN = "# TYPE tgi_brand_new_seconds histogram\ntgi_brand_new_seconds_sum 1\ntgi_brand_new_seconds_count 1\n"


def engines(*arguments, text=None):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPULENS_")}
    return subprocess.run([str(BINARY), "engines", *arguments], capture_output=True, text=True, timeout=60,
                          env=environment, input=text, check=False)


class Pages(HttpStub):
    """A server of pages by path: {path: (status, type, [body, body of the next time, …])}."""

    def __init__(self, pages):
        super().__init__(self._show, protocol="HTTP/1.1")
        self.pages, self.requested, self.fields = pages, [], []

    def _show(self, request, _):
        self.requested.append(request.path)
        self.fields.append(dict(request.headers))
        status, kind, bodies = self.pages.get(request.path, (404, "text/plain", ["no such page\n"]))
        body = bodies.pop(0) if len(bodies) > 1 else bodies[0]
        body = body if isinstance(body, bytes) else body.encode()
        headers = {"Content-Type": kind.removesuffix("; gzip")}
        if kind.endswith("; gzip"):
            body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
        return status, headers, body

    def url(self, path=""):
        return self.origin + path


def page(body, kind="text/plain; version=0.0.4", status=200):
    return status, kind, [body]


class List(unittest.TestCase):
    def test_the_page_of_the_documentation_is_fresh(self):
        done = engines("list", "--format", "md")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((ROOT / "docs" / "engines.md").read_text(), done.stdout,
                         "make it again: build/gpulens engines list --format md > docs/engines.md")

    def test_names_are_those_of_the_tables(self):
        listed = json.loads(engines("list", "--format", "json").stdout)["engines"]
        self.assertEqual([engine["name"] for engine in listed], engine_pages.engine_names())
        done = engines("list")
        for name in engine_pages.engine_names():
            self.assertIn(f"\n{name} ", done.stdout)

    def test_one_known_and_one_unknown_engine(self):
        self.assertIn("vllm:kv_cache_usage_perc", engines("list", "vllm").stdout)
        done = engines("list", "vlm")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("Did you mean vllm?", done.stderr)

    def test_help(self):
        for command in ((), ("list",), ("check",), ("read",)):
            done = engines(*command, "--help")
            self.assertEqual(done.returncode, 0, command)
        self.assertEqual(engines().returncode, 2)
        self.assertEqual(engines("check").returncode, 2)


class Check(unittest.TestCase):
    def check(self, *arguments, text=None):
        done = engines("check", "--json", *arguments, text=text)
        return done.returncode, json.loads(done.stdout)

    def test_every_engine_knows_its_own_page(self):
        for name in engine_pages.engine_names():
            with self.subTest(name):
                code, report = self.check("-", "--engine", name, text=engine_pages.page_of(name))
                unknown = [f["name"] for f in report["families"] if f["verdict"] == "unknown"]
                self.assertEqual((code, unknown, report["bad_lines"], report["duplicates"]), (0, [], 0, 0))
                self.assertGreater(report["counts"]["mapped"], 0)
                self.assertNotIn("expected_type", json.dumps(report))

    def test_pages_are_recognised_without_an_option(self):
        for name in engine_pages.engine_names():
            if name == "aibrix":  # it shows others' families without their prefix, as NIM does
                continue
            with self.subTest(name):
                _, report = self.check("-", text=engine_pages.page_of(name))
                self.assertEqual([engine["name"] for engine in report["engines"]], [name])

    def test_pages_of_the_five_engines_of_l9gpu(self):
        """Row l9-052: mapped families and no unknown one on a page of each."""
        recorded = {"vllm": "vllm/datadog_vllm_metrics.txt", "nim": "nim/datadog_nim_metrics.txt",
                    "triton": "triton/datadog_triton_metrics_part1.txt", "sglang": "sglang/dynamo_sglang_metrics.txt"}
        for name in ("vllm", "nim", "triton", "sglang", "tgi"):
            pages = [engine_pages.page_of(name)]
            if name in recorded and CAPTURES.exists():
                pages.append((CAPTURES / recorded[name]).read_text())
            for text in pages:
                code, report = self.check("-", text=text)
                self.assertEqual((code, report["counts"]["unknown"]), (0, 0), name)
                self.assertGreater(report["counts"]["mapped"], 0, name)
                self.assertIn(name, [engine["name"] for engine in report["engines"]])

    def test_recorded_pages_are_known(self):
        if not CAPTURES.exists():
            raise unittest.SkipTest(f"captures not here: {CAPTURES}")
        paths = [p for folder in ("vllm", "sglang", "nim", "triton", "trtllm", "dynamo", "litellm", "epp", "aibrix",
                                  "envoy-ai-gateway", "tei", "llamacpp") for p in sorted((CAPTURES / folder).glob("*.txt"))]
        self.assertGreater(len(paths), 35)
        for path in paths:
            with self.subTest(path.name):
                code, report = self.check(str(path))
                unknown = [f["name"] for f in report["families"] if f["verdict"] == "unknown"]
                # A typing error of the page's author, and the report of an unknown family.
                typo = ["iinference_model_request_tpot_seconds"] if path.name.startswith("request_tpot") else []
                self.assertEqual((code, unknown), (len(typo), typo))
                self.assertFalse([f for f in report["families"] if "expected_type" in f])

    def test_pages_recorded_by_our_own_tests_are_known(self):
        for path in sorted((ROOT / "tests" / "engines" / "pages").glob("*.txt")):
            with self.subTest(path.name):
                code, report = self.check(str(path))
                self.assertEqual(([f["name"] for f in report["families"] if f["verdict"] == "unknown"], code), ([], 0))

    def test_an_unknown_family_comes_with_its_row(self):
        done = engines("check", "-", text=TGI + UNKNOWN)
        self.assertEqual(done.returncode, 1)
        self.assertIn("tgi_brand_new_seconds\thistogram\t-\ts\tpass\t-\t-\t-\t-\t-\n", done.stdout)
        self.assertIn("recognised: tgi", done.stdout)

    def test_a_page_of_no_known_engine(self):
        done = engines("check", "-", text="# TYPE node_load1 gauge\nnode_load1 1\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no engine is recognised", done.stdout)

    def test_file_packed_file_and_url(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, data in (("page", TGI.encode()), ("page.gz", gzip.compress(TGI.encode()))):
                path = pathlib.Path(folder) / name
                path.write_bytes(data)
                self.assertEqual(self.check(str(path))[0], 0, name)
        openmetrics = "# TYPE tgi_queue_size gauge\ntgi_queue_size 3\n# EOF\n"
        with Pages({"/metrics": page(TGI), "/packed": page(TGI, "text/plain; gzip"),
                    "/open": page(openmetrics, "application/openmetrics-text; version=1.0.0")}) as server:
            for path in ("", "/metrics", "/packed", "/open"):
                code, report = self.check(server.url(path))
                self.assertEqual((code, report["engines"][0]["name"], report["samples"]), (0, "tgi", 1), path)
            self.assertEqual(server.requested[0], "/metrics")

    def test_header_and_password(self):
        with Pages({"/metrics": page(TGI)}) as server:
            self.assertEqual(self.check(server.url(), "--header", "X-Who: me")[0], 0)
            self.assertEqual(server.fields[-1]["X-Who"], "me")
            url = server.url().replace("//", "//user:secret@")
            done = engines("check", url)
            self.assertEqual(server.fields[-1]["Authorization"], "Basic dXNlcjpzZWNyZXQ=")
            self.assertNotIn("secret", done.stdout + done.stderr)

    def test_unreadable_input(self):
        pages = {"/metrics": page("<html>", "text/html"), "/sly": page("<html>hello</html>\n"),
                 "/empty": page(""), "/json": page('{"detail":"Not Found"}', "application/json"),
                 "/closed": page("no", status=401), "/nonsense": page("one two three\nfour five six\n")}
        with Pages(pages) as server:
            for path, words in (("/metrics", "answers with text/html, which is not a metrics page"), ("/sly", "is HTML"),
                                ("/empty", "is empty"), ("/json", "not a metrics page"), ("/closed", "--header"),
                                ("/gone", "404"), ("/nonsense", "")):
                for command in ("check", "read"):
                    with self.subTest(path=path, command=command):
                        done = engines(command, server.url(path))
                        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                        self.assertIn(f"gpulens engines {command}: {server.url(path)}: ", done.stderr)
                        self.assertIn(words, done.stderr)
        done = engines("check", f"http://127.0.0.1:{free_port()}/metrics")
        self.assertEqual(done.returncode, 1)
        self.assertIn("connection refused", done.stderr)
        done = engines("check", "/no/such/file")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no such file", done.stderr)

    def test_wrong_use(self):
        for arguments, words in ((("check", "http://"), "http://"), (("check", "ftp://x/"), "ftp"),
                                 (("check", "-", "--engine", "tgj"), "Did you mean tgi?"),
                                 (("check", "http://127.0.0.1:1", "--header", "nonsense"), "Name: value"),
                                 (("check", "http://127.0.0.1:1", "--timeout", "soon"), "--timeout soon"),
                                 (("read", "http://127.0.0.1:1", "--window", "1ms"), "--window 1ms"),
                                 (("read", "-", "--window", "1s"), "--window needs a URL")):
            with self.subTest(arguments):
                done = engines(*arguments, text="")
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn(words, done.stderr)


def histogram(counts, total, rank):
    labels = f'model_name="m",engine="{rank}"'
    name, below = "vllm:time_to_first_token_seconds", 0
    lines = []
    for bound, count in zip(("1", "2", "4", "+Inf"), counts):
        below += count
        lines.append(f'{name}_bucket{{{labels},le="{bound}"}} {below}')
    return "\n".join([*lines, f"{name}_sum{{{labels}}} {total}", f"{name}_count{{{labels}}} {below}", ""])


def vllm_page(first, second, tokens):
    return ("# TYPE vllm:time_to_first_token_seconds histogram\n" + histogram(*first, 0) + histogram(*second, 1) +
            "# TYPE vllm:num_requests_waiting gauge\n" 'vllm:num_requests_waiting{model_name="m",engine="0"} 2\n'
            'vllm:num_requests_waiting{model_name="m",engine="1"} 5\n'
            "# TYPE vllm:kv_cache_usage_perc gauge\n" 'vllm:kv_cache_usage_perc{model_name="m",engine="0"} 0.25\n'
            'vllm:kv_cache_usage_perc{model_name="m",engine="1"} 0.75\n'
            "# TYPE vllm:generation_tokens_total counter\n"
            f'vllm:generation_tokens_total{{model_name="m",engine="0"}} {tokens}\n')


class Read(unittest.TestCase):
    def test_since_the_engine_began(self):
        with Pages({"/metrics": page(vllm_page(([10, 0, 0, 0], 5), ([0, 0, 90, 0], 270), 700))}) as server:
            done = engines("read", server.url(), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        reading = json.loads(done.stdout)
        self.assertEqual((reading["over"], reading["source"]), ("engine lifetime", server.url("/metrics")))
        (engine,) = reading["engines"]
        self.assertEqual((engine["engine"], engine["layer"], engine["model"]), ("vllm", "engine", "m"))
        ttft = engine["time_to_first_token"]
        self.assertEqual((ttft["count"], ttft["mean"]), (100, 2.75))
        self.assertAlmostEqual(ttft["p50"], 2 + 2 * 40 / 90)  # over both ranks
        self.assertEqual((engine["requests_waiting"], engine["kv_cache_usage"]), (7, 0.5))
        self.assertEqual(engine["tokens_generation"], 700)
        for absent in ("request_duration", "requests_running", "tokens_generation_per_second", "tokens_prompt"):
            self.assertNotIn(absent, engine)

    def test_between_two_scrapes(self):
        before = vllm_page(([1000000, 0, 0, 0], 500000), ([0, 0, 0, 0], 0), 700)
        after = vllm_page(([1000000, 100, 0, 0], 500150), ([0, 0, 0, 0], 0), 2200)
        with Pages({"/metrics": (200, "text/plain", [before, after])}) as server:
            done = engines("read", server.url("/metrics"), "--json", "--window", "200ms")
            self.assertEqual(len(server.requested), 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        reading = json.loads(done.stdout)
        self.assertEqual(reading["over"], "window")
        self.assertGreaterEqual(reading["window_s"], 0.2)
        (engine,) = reading["engines"]
        self.assertEqual(engine["time_to_first_token"],
                         {"p50": 1.5, "p95": 1.95, "p99": 1.99, "mean": 1.5, "count": 100, "first_bound": 1,
                          "last_bound": 4})
        self.assertEqual(engine["tokens_generation"], 1500)
        self.assertAlmostEqual(engine["tokens_generation_per_second"] * reading["window_s"], 1500, places=3)

    def test_an_engine_that_ends_between_scrapes(self):
        with Pages({"/metrics": (200, "text/plain", [vllm_page(([1, 0, 0, 0], 1), ([0, 0, 0, 0], 0), 1), "<html>"])}) as server:
            done = engines("read", server.url("/metrics"), "--window", "100ms")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("is HTML", done.stderr)

    def test_every_engine_can_be_read(self):
        for name in engine_pages.engine_names():
            with self.subTest(name):
                done = engines("read", "-", "--engine", name, "--json", text=engine_pages.page_of(name))
                # Caches serve no requests of their own, and KServe's server exports only the stages of a request.
                if name in ("dynamo-kvbm", "lmcache", "mooncake", "kserve"):
                    self.assertEqual((done.returncode, done.stdout), (1, ""))
                    self.assertIn(f"no readings of engine {name}", done.stderr)
                    continue
                self.assertEqual(done.returncode, 0, done.stderr)
                reading = json.loads(done.stdout)
                self.assertEqual({engine["engine"] for engine in reading["engines"]}, {name})
                self.assertIn(name, engines("read", "-", "--engine", name, text=engine_pages.page_of(name)).stdout)

    def test_a_page_without_the_engine_or_model(self):
        done = engines("read", "-", text="# TYPE node_load1 gauge\nnode_load1 1\n")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("--engine selects the engine", done.stderr)
        done = engines("read", "-", "--model", "other", text=vllm_page(([1, 0, 0, 0], 1), ([0, 0, 0, 0], 0), 1))
        self.assertEqual(done.returncode, 1)
        self.assertIn("of model other", done.stderr)


if __name__ == "__main__":
    unittest.main()
