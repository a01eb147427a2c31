"""What zumik's page about observability says of the proxy, row by row, against `gpulens proxy` and a scripted provider.

The table is next to the checkout. Without it the checks still run, but a missing check is not found.
"""
import concurrent.futures
import contextlib
import csv
import pathlib
import re
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import time
import unittest

from agent import BINARY, ROOT, free_port, peer, processes_below, samples, value, wait_until
from http_stub import HttpStub
from llm_upstream import LlmProxy, LlmUpstream
from own_network import own_network
from test_peers import promtool_findings

TABLE = ROOT.parent / "shared/seed_rows.tsv"
PROFILES = ("managed", "byok", "subscription", "byoc")
PICO = 1_000_000  # of a micro-dollar


def provider(name, upstream, **more):
    """A line of `providers`."""
    members = {"name": name, "url": upstream if isinstance(upstream, str) else upstream.url, "prices": "list", "api_key": "upstream-key", **more}
    return "  - {" + ", ".join(f"{key}: '{text}'" for key, text in members.items()) + "}\n"


def requests_of(page):
    """{(method, status): count} of a page."""
    return {(s.labels["method"], int(s.labels["status"])): s.value for s in samples(page, "http_requests_total")}


def buckets_of(page):
    """[(bound, count)] of the histogram of durations."""
    return [(float(s.labels["le"]), s.value) for s in samples(page, "http_request_duration_ms_bucket")]


class OneProxy(unittest.TestCase):
    """Rows of a proxy with two providers in two regions, one for each profile, and one that fails over."""

    @classmethod
    def setUpClass(cls):
        cls.upstream = cls.enterClassContext(LlmUpstream(gap=0.005))
        cls.receiver = cls.enterClassContext(HttpStub(lambda *_: (200, {"Content-Type": "application/x-protobuf"}, b"")))
        records = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory())) / "requests.db"
        closed = f"http://127.0.0.1:{free_port()}"
        cls.proxy = cls.enterClassContext(LlmProxy(
            "attempts: 2\nproviders:\n" +
            provider("east", cls.upstream, region="eu-1") + provider("west", cls.upstream, region="us-1") +
            provider("claude", cls.upstream, api="anthropic", region="eu-1") +
            "".join(provider(f"of-{profile}", cls.upstream, profile=profile, region="lab", **({"cluster": "byc_1", "target_ttft": "500ms"} if profile == "byoc" else {}))
                    for profile in PROFILES) +
            provider("away", closed) + provider("next", cls.upstream, region="eu-2", models="{}").replace("'{}'", "{busy: chat, lost: chat}") +
            provider("busy", cls.upstream, models="{}").replace("'{}'", "{busy: status-503}") +
            "routes:\n  - {models: [west-*], providers: [west]}\n" +
            "".join(f"  - {{models: [{profile}], providers: [of-{profile}]}}\n" for profile in PROFILES) +
            "  - {models: [lost], providers: [away, next]}\n  - {models: [busy], providers: [busy, next]}\n"
            "  - {models: ['*'], providers: [east, claude]}\nunknown_price: zero\n"
            f"otlp: {{endpoint: '{cls.receiver.origin}', interval: 1s, sample: 1}}\ntelemetry: {{url: {records}}}\n"))

    def after(self, question, what):
        """A page on which `question` holds: requests are counted when their connection has taken the last byte."""
        return wait_until(lambda: (lambda page: page if question(page) else "")(self.proxy.page()), what=what)

    def inference(self, page, **labels):
        return sum(s.value for s in samples(page, "zumik_inference_requests_total", **labels))

    def charged(self, page):
        return value(page, "zumik_inference_charged_micros_total")

    def rows(self, *ids):
        """The charges of these answers, as soon as the store has them."""
        def found():
            with sqlite3.connect(f"file:{self.proxy.folder}/state/charges.db?mode=ro", uri=True) as store:
                store.row_factory = sqlite3.Row
                return [store.execute("SELECT * FROM llm_charge WHERE request_id = ?", (one,)).fetchone() for one in ids]
        return wait_until(lambda: (lambda rows: rows if all(rows) else None)(found()), what="the rows")

    def test_zu_003_requests_by_method_and_status(self):
        before = requests_of(self.proxy.page())
        kinds = [("POST", 200)] * 50 + [("POST", 429)] * 30 + [("DELETE", 404)] * 20

        def send(kind):
            method, status = kind
            sent = self.proxy.query("DELETE", "/v1/nothing", Authorization=f"Bearer {self.proxy.key}") if method == "DELETE" else self.proxy.send(
                "chat" if status == 200 else "status-429")
            self.assertEqual(sent[0], status)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(send, kinds))

        def counted(page):
            now = requests_of(page)
            return {kind: now.get(kind, 0) - before.get(kind, 0) for kind in now if kind[0] != "GET"}  # the pages are read with GET
        expected = {("POST", 200): 50, ("POST", 429): 30, ("DELETE", 404): 20}
        page = self.after(lambda page: sum(counted(page).values()) >= 100, "the hundred")
        self.assertEqual({kind: count for kind, count in counted(page).items() if count}, expected)

    def test_zu_004_buckets_are_milliseconds_and_cumulative(self):
        before = dict(buckets_of(self.proxy.page()))
        self.proxy.send("slow-200")
        page = self.after(lambda page: dict(buckets_of(page))[float("inf")] > before[float("inf")], "the request")
        bounds, counts = zip(*buckets_of(page))
        self.assertEqual((list(bounds), list(counts)), (sorted(bounds), sorted(counts)))
        self.assertEqual(bounds[-1], float("inf"))
        self.assertEqual(counts[-1], value(page, "http_request_duration_ms_count"))
        # 200 ms of the provider are above the bound 100 and below 60,000 of milliseconds, in no unit else.
        grown = {bound: count - before[bound] for bound, count in buckets_of(page)}
        self.assertLess(grown[100], grown[60000])

    def test_zu_005_the_sum_is_what_clients_measure(self):
        """The client's time contains its own, so that it may take another try on a busy machine."""
        def seconds(_):
            begin = time.monotonic()
            self.assertEqual(self.proxy.send("slow-1000")[0], 200)
            return time.monotonic() - begin
        for left in (2, 1, 0):
            page = self.proxy.page()
            total, count = (value(page, "http_request_duration_ms_" + end) for end in ("sum", "count"))
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                measured = sum(pool.map(seconds, range(8))) * 1000
            page = self.after(lambda page, enough=count + 8: value(page, "http_request_duration_ms_count") >= enough, "the eight")
            grown = value(page, "http_request_duration_ms_sum") - total
            if left == 0 or abs(grown / measured - 1) < 0.05:
                break
        self.assertAlmostEqual(grown / measured, 1, delta=0.05)

    def test_zu_006_the_count_is_that_of_the_requests(self):
        def both(page):
            return sum(requests_of(page).values()), value(page, "http_request_duration_ms_count")
        page = self.proxy.page()
        self.assertEqual(*both(page))
        posts = requests_of(page).get(("POST", 200), 0)
        for _ in range(7):
            self.proxy.send()
        page = self.after(lambda page: requests_of(page)[("POST", 200)] >= posts + 7, "the seven")
        self.assertEqual(requests_of(page)[("POST", 200)], posts + 7)
        self.assertEqual(*both(page))

    def test_zu_007_two_providers_in_two_regions(self):
        page = self.proxy.page()
        labels = ({"provider": "east", "profile": "managed", "region": "eu-1"}, {"provider": "west", "profile": "managed", "region": "us-1"})
        before = [self.inference(page, **one) for one in labels]
        for _ in range(3):
            self.proxy.send("chat")
        for _ in range(5):
            self.proxy.send("west-chat")
        grown = lambda page: [self.inference(page, **one) - count for one, count in zip(labels, before, strict=True)]  # noqa: E731
        self.after(lambda page: grown(page) == [3, 5], "three and five")

    def test_zu_008_the_profile_of_header_and_label(self):
        for profile in PROFILES:
            with self.subTest(profile):
                labels = {"provider": f"of-{profile}", "profile": profile, "region": "lab"}
                before = self.inference(self.proxy.page(), **labels)
                status, headers, _ = self.proxy.send(profile)
                self.assertEqual((status, headers["Agent-Execution-Profile"]), (200, profile))
                page = self.after(lambda page: self.inference(page, **labels) == before + 1, "the request")  # noqa: B023
                self.assertEqual({s.labels["profile"] for s in samples(page, "zumik_inference_requests_total", provider=f"of-{profile}")}, {profile})

    def test_zu_009_the_provider_that_answered(self):
        """One that cannot be connected to, and one that is too busy."""
        for model, failed, result in (("lost", "away", "connect"), ("busy", "busy", "http_503")):
            with self.subTest(model):
                page = self.proxy.page()
                before, money = self.inference(page, provider="next"), self.charged(page)
                tried = value(page, "gpulens_proxy_attempts_total", provider=failed, result=result) or 0
                self.assertEqual(self.proxy.send(model)[0], 200)
                page = self.after(lambda page: self.inference(page, provider="next") == before + 1, "the request")  # noqa: B023
                self.assertEqual(self.inference(page, provider=failed), 0)
                self.assertEqual(value(page, "gpulens_proxy_attempts_total", provider=failed, result=result), tried + 1)
                self.assertEqual(self.charged(page) - money, 2000, "charged once")

    def test_zu_010_a_provider_that_fails(self):
        page = self.proxy.page()
        before, money = self.inference(page, provider="east"), self.charged(page)
        self.assertEqual(self.proxy.send("status-500")[0], 500)
        page = self.after(lambda page: self.inference(page, provider="east") == before + 1, "the request")
        self.assertEqual(self.charged(page), money)

    def test_zu_011_a_thousand_tokens_at_two_dollars_a_million(self):
        before = self.charged(self.proxy.page())
        self.proxy.send("chat")
        self.assertEqual(self.charged(self.proxy.page()) - before, 2000, "there before the answer ends")

    def test_zu_016_invented_words_make_no_series(self):
        """10,000 methods and paths, with a key and without, and 500 models; some 20 of them a connection."""
        known = len(samples(self.proxy.page()))
        sent = 0
        while sent < 10_000:
            with socket.create_connection(("127.0.0.1", self.proxy.port), timeout=30) as connection:
                key = f"Authorization: Bearer {self.proxy.key}\r\n" if sent % 1000 else ""
                words = "".join(f"{'GET' if i % 2 else f'M{i}'} /p{i}/x HTTP/1.1\r\nHost: a\r\n{key}{'Connection: close' + chr(13) + chr(10) if i == sent + 19 else ''}\r\n"
                                for i in range(sent, sent + 20))
                with contextlib.suppress(OSError):
                    connection.sendall(words.encode())
                    while connection.recv(65536):
                        pass
            sent += 20
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda i: self.proxy.send(f"model-{i}"), range(500)))
        page = self.after(lambda page: sum(s.value for s in samples(page, "http_requests_total", method="GET", status="404")) >= 4000, "most of them")
        self.assertLess(len(samples(page)), known + 60)
        self.assertLessEqual(len({s.labels["method"] for s in samples(page, "http_requests_total")}), 10)
        self.assertIsNone(re.search(r"model-\d|/p\d|M\d\d", page))

    def test_zu_017_streams_are_metered(self):
        """Tokens, charge and duration of a stream are those of the whole answer, of both APIs; the program requests no usage."""
        for model, path, name in (("slow-200", "/v1/chat/completions", "east"), ("slow-200", "/v1/messages", "claude")):
            with self.subTest(path):
                ids, durations = [], []
                for stream in (False, True):
                    page = self.proxy.page()
                    money = self.charged(page)
                    status, headers, body = self.proxy.send(model, path, stream=stream)
                    self.assertEqual((status, body.count(b"word")), (200, 4))
                    ids.append(headers["x-gpulens-request-id"])
                    self.assertEqual(self.charged(self.proxy.page()) - money, 2000)
                plain, streamed = self.rows(*ids)
                for column in plain.keys():  # noqa: SIM118
                    if column.startswith("units_") or column in ("usage_known", "counted_by", "list_pico", "charged_pico", "provider", "model_answered", "outcome", "status"):
                        self.assertEqual(plain[column], streamed[column], column)
                self.assertEqual((plain["provider"], plain["units_input"], plain["charged_pico"], plain["counted_by"]), (name, 1000, 2000 * PICO, "usage"))
                durations = [row["duration_ns"] / 1e9 for row in (plain, streamed)]
                self.assertGreater(min(durations), 0.2, "of the whole answer")
                self.assertLess(max(durations), 30)

    def test_zu_032_the_target_of_a_cluster(self):
        self.assertEqual(value(self.proxy.page(), "zumik_byoc_target_ttft_ms", cluster="byc_1"), 500)

    def test_families_are_those_of_the_page_in_docs(self):
        """The table under Metrics in docs/proxy.md has each family with its type, its labels and its HELP."""
        self.proxy.send("chat", stream=True)
        page = self.after(lambda page: "gpulens_proxy_time_per_output_token_seconds_sum{" in page and "gpulens_proxy_otlp_requests_total{" in page, "every histogram")
        types = dict(re.findall(r"(?m)^# TYPE (\S+) (\S+)$", page))
        helps = dict(re.findall(r"(?m)^# HELP (\S+) (.*)$", page))
        labels = {name: {} for name in types}
        for sample in samples(page):
            family = next(name for name in (sample.name, re.sub(r"_(bucket|sum|count)$", "", sample.name)) if name in types)
            labels[family] |= dict.fromkeys(label for label in sample.labels if label != "le")
        text = (ROOT / "docs/proxy.md").read_text(encoding="utf-8")
        listed = {name: (kind, helped, of) for name, kind, of, helped in re.findall(r"(?m)^\| `(\w+)` \| (\w+) \| ([^|]*) \| (.*) \|$", text)}
        self.assertEqual({name: listed.get(name, ("", ""))[:2] for name in types}, {name: (kind, helps[name]) for name, kind in types.items()})
        for name, found in labels.items():
            if found:
                self.assertEqual(set(re.findall(r"`(\w+)`", listed[name][2])), set(found), name)


class Alone(unittest.TestCase):
    def test_zu_001_the_page_is_at_8080(self):
        """At its default address: `curl -s localhost:8080/metrics | promtool check metrics`."""
        promtool = peer("promtool")
        own = provider("one", "http://127.0.0.1:9", profile="byoc", cluster="byc_1", target_ttft="500ms")
        with own_network(), LlmUpstream(gap=0.005) as upstream, LlmProxy("providers:\n" + provider("two", upstream) + own, default_address=True) as proxy:
            proxy.send(stream=True)
            proxy.send("status-503")
            page = wait_until(lambda: (lambda page: page if requests_of(page).get(("POST", 503)) else "")(proxy.page()), what="the requests")
        self.assertEqual(promtool_findings(promtool, page), [])

    def test_zu_002_the_program_alone_is_enough(self):
        """In an empty folder, with nothing else on the path, and no other process is started."""
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "gpulens"
            shutil.copy(BINARY.resolve(), program)
            port = free_port()
            config = pathlib.Path(folder) / "proxy.yaml"
            config.write_text(f"listen: ['127.0.0.1:{port}']\nstate_dir: {folder}/state\nproviders: [{{name: one, url: 'http://127.0.0.1:9'}}]\n")
            environment = {"PATH": folder}
            subprocess.run([program, "proxy", "keys", "new", "--id", "ada", "--tenant", "acme", "--config", config], env=environment, capture_output=True, check=True)
            process = subprocess.Popen([program, "proxy", "--config", config], env=environment, stderr=subprocess.DEVNULL)
            try:
                def page():
                    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()
                    return ""
                text = wait_until(page, 30, "the page")
                self.assertIn("# TYPE http_requests_total counter\n", text)
                self.assertEqual(processes_below(process.pid), {})
            finally:
                process.terminate()
            self.assertEqual(process.wait(40), 0)

    def test_zu_012_the_token_of_the_page(self):
        with LlmUpstream() as upstream:
            with LlmProxy("providers:\n" + provider("one", upstream), environment={"METRICS_TOKEN": "scrape-1"}) as proxy:
                for headers, status in (({}, 401), ({"Authorization": "Bearer scrape-2"}, 401), ({"Authorization": "Bearer scrape-1"}, 200),
                                        ({"Authorization": f"Bearer {proxy.key}"}, 401)):
                    with self.subTest(headers):
                        answered, fields, body = proxy.query("GET", "/metrics", **headers)
                        self.assertEqual((answered, b"http_requests_total" in body), (status, status == 200))
                        self.assertEqual(fields["WWW-Authenticate"], "Bearer" if status == 401 else None)
                self.assertEqual(proxy.send()[0], 200, "requests do not need it")
            with LlmProxy("providers:\n" + provider("one", upstream)) as proxy:
                self.assertIn("http_requests_total", proxy.page())


class Table(unittest.TestCase):
    def test_every_row_about_the_proxy_has_its_check(self):
        if not TABLE.exists():
            self.skipTest(f"captures not here: {TABLE}")
        with TABLE.open() as file:
            rows = {row["id"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if row["where"] == "later: proxy"}
        here = {"-".join(name.split("_")[1:3]) for case in (OneProxy, Alone) for name in dir(case) if name.startswith("test_zu_")}
        costs = (ROOT / "tests/e2e/test_seed_rows_cost.py").read_text()
        elsewhere = {f"l9-{number}" for number in re.findall(r"def test_l9_(\d{3})", costs)}
        self.assertEqual(rows - here - elsewhere, set())


if __name__ == "__main__":
    unittest.main()
