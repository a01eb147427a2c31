"""`gpulens proxy` before a scripted provider, used by the official clients of OpenAI and Anthropic as they are."""
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

from agent import BINARY, ROOT, free_port, samples, value, wait_until

try:
    import anthropic
    import openai
except ImportError:
    openai = None

PRICES = ("provider\tmodel\tinput\tcached_input\tcache_write\toutput\tmax_input\tmax_output\n"
          "openai\tgpt-test\t2000000\t500000\t-\t8000000\t100000\t4096\n"
          "anthropic\tclaude-test\t3000000\t300000\t3750000\t15000000\t100000\t4096\n")
USAGE = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050, "prompt_tokens_details": {"cached_tokens": 900}}
OPENAI_PICO = 100 * 2_000_000 + 900 * 500_000 + 50 * 8_000_000
CLAUDE = {"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 7}
CLAUDE_PICO = 10 * 3_000_000 + 100 * 300_000 + 20 * 3_750_000 + 7 * 15_000_000


def sse(*events, names=False):
    return "".join((f"event: {one['type']}\n" if names else "") + f"data: {one if isinstance(one, str) else json.dumps(one)}\n\n" for one in events)


def chat_stream(with_usage):
    chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test", **({"usage": None} if with_usage else {})}
    words = [{**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", "content": word}, "finish_reason": None}]} for word in ("hel", "lo")]
    end = [{**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
    usage = [{**chunk, "choices": [], "usage": USAGE}] if with_usage else []
    return sse(*words, *end, *usage, "[DONE]")


class Provider(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen = []
    gone = threading.Event()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append((self.path, dict(self.headers), body))
        if self.path.endswith("/messages"):
            return self.messages(body)
        if body["model"] == "busy":
            return self.answer(429, {"error": {"message": "slow down", "type": "rate", "param": None, "code": "rate_limit_exceeded"}}, {"Retry-After": "0"})
        if body.get("stream"):
            return self.stream(chat_stream((body.get("stream_options") or {}).get("include_usage")), endless=body["model"] == "endless")
        tools = [{"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{\"usage\":{\"prompt_tokens\":1}}"}}] if body.get("tools") else None
        message = {"role": "assistant", "content": None if tools else "hello", **({"tool_calls": tools} if tools else {})}
        self.answer(200, {"id": "c1", "object": "chat.completion", "created": 1, "model": "gpt-test", "usage": USAGE,
                          "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if tools else "stop"}]})

    def messages(self, body):
        message = {"id": "m1", "type": "message", "role": "assistant", "model": "claude-test", "stop_reason": "end_turn", "stop_sequence": None}
        if not body.get("stream"):
            return self.answer(200, {**message, "content": [{"type": "text", "text": "hello"}], "usage": CLAUDE})
        self.stream(sse(
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None, "usage": {**CLAUDE, "output_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 7}},
            {"type": "message_stop"}, names=True))

    def answer(self, status, body, headers=None):
        text = json.dumps(body).encode()
        self.send_response(status)
        for name, text_of in {"Content-Type": "application/json", "Content-Length": str(len(text)), "x-request-id": "up1", **(headers or {})}.items():
            self.send_header(name, text_of)
        self.end_headers()
        self.wfile.write(text)

    def stream(self, text, endless=False):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for event in text.split("\n\n")[:-1]:
                piece = (event + "\n\n").encode()
                for part in (piece[:9], piece[9:]):  # events are cut anywhere
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                if endless:
                    break
            if not endless:
                return self.wfile.write(b"0\r\n\r\n")
            self.rfile.read(1)  # until the proxy goes
        except OSError:
            pass
        if endless:
            self.gone.set()
            self.close_connection = True

    def log_message(self, *_):
        pass


@unittest.skipUnless(openai, "the clients openai and anthropic are not here")
class Proxy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-proxy-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cls.addClassCleanup(server.server_close)
        cls.addClassCleanup(server.shutdown)
        upstream = f"http://127.0.0.1:{server.server_port}"
        cls.port = free_port()
        cls.url = f"http://127.0.0.1:{cls.port}"
        (cls.folder / "prices.tsv").write_text(PRICES)
        cls.config = cls.folder / "proxy.yaml"
        cls.config.write_text(
            f"listen: ['127.0.0.1:{cls.port}']\nstate_dir: {cls.folder}/state\nprices: [{cls.folder}/prices.tsv]\n"
            f"providers:\n  - {{name: one, url: '{upstream}', prices: openai, region: eu-1, api_key: '${{UPSTREAM_KEY}}', models: {{fast: gpt-test}}}}\n"
            f"  - {{name: two, api: anthropic, url: '{upstream}', prices: anthropic, region: eu-1, api_key: '${{UPSTREAM_KEY}}'}}\n"
            f"  - {{name: own, url: '{upstream}', profile: byoc, region: lab, cluster: byc_1, target_ttft: 500ms, prices: openai}}\n"
            "routes:\n  - {models: [own-model], providers: [own]}\n  - {models: ['*'], providers: [one, two]}\n"
            "budgets: [{name: small, listed_only: true, usd: '0.002', window: month, mode: hard}]\n")
        cls.environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "UPSTREAM_KEY": "provider-secret-1"}
        cls.key = cls.command("keys", "new", "--id", "ada", "--tenant", "acme").stdout.strip()
        cls.poor = cls.command("keys", "new", "--id", "poor", "--tenant", "acme", "--budgets", "small").stdout.strip()
        cls.log = open(cls.folder / "log", "w+")  # noqa: SIM115
        cls.addClassCleanup(cls.log.close)
        cls.start()
        cls.addClassCleanup(cls.stop)

    @classmethod
    def command(cls, *words):
        return subprocess.run([str(BINARY), "proxy", *words, "--config", str(cls.config)], capture_output=True, text=True, env=cls.environment, check=True)

    @classmethod
    def start(cls):
        cls.process = subprocess.Popen([str(BINARY), "proxy", "--config", str(cls.config)], env=cls.environment, stderr=cls.log)
        wait_until(cls.answers, what="the proxy")

    @classmethod
    def stop(cls):
        cls.process.terminate()
        assert cls.process.wait(40) == 0, (cls.folder / "log").read_text()

    @classmethod
    def answers(cls):
        try:
            return urllib.request.urlopen(cls.url + "/-/healthy", timeout=5).status == 200
        except OSError:
            return False

    def setUp(self):
        Provider.seen.clear()
        self.openai = openai.OpenAI(api_key=self.key, base_url=self.url + "/v1", max_retries=0)
        self.anthropic = anthropic.Anthropic(api_key=self.key, base_url=self.url, max_retries=0)

    def page(self):
        return urllib.request.urlopen(self.url + "/metrics", timeout=10).read().decode()

    def charged(self):
        return value(self.page(), "zumik_inference_charged_micros_total")

    def row(self, answer_id):
        """The row of a request; charges are there before the answer ends, and in the store soon after."""
        def found():
            with sqlite3.connect(f"file:{self.folder}/state/charges.db?mode=ro", uri=True) as store:
                store.row_factory = sqlite3.Row
                return store.execute("SELECT * FROM llm_charge WHERE request_id = ?", (answer_id,)).fetchone()
        return wait_until(lambda: (self.folder / "state/charges.db").exists() and found(), what="the row")

    def test_openai_s_client_plain_streamed_and_with_tools(self):
        messages = [{"role": "user", "content": "say hello"}]
        before = self.charged()
        answer = self.openai.chat.completions.with_raw_response.create(model="gpt-test", messages=messages)
        self.assertEqual(answer.parse().choices[0].message.content, "hello")
        self.assertEqual(answer.headers["Agent-Execution-Profile"], "managed")
        row = self.row(answer.headers["x-gpulens-request-id"])
        self.assertEqual((row["charged_pico"], row["key_id"], row["provider"], row["counted_by"]), (OPENAI_PICO, "ada", "one", "usage"))
        path, headers, _ = Provider.seen[-1]
        self.assertEqual((path, headers["Authorization"]), ("/v1/chat/completions", "Bearer provider-secret-1"))
        text, chunks = "", list(self.openai.chat.completions.create(model="gpt-test", messages=messages, stream=True))
        for chunk in chunks:
            text += chunk.choices[0].delta.content or ""  # no chunk without choices: none was requested
            self.assertNotIn("usage", chunk.model_fields_set, "no program requested it")
        self.assertEqual(text, "hello")
        self.assertTrue(Provider.seen[-1][2]["stream_options"]["include_usage"], "but the proxy did")
        requested = list(self.openai.chat.completions.create(model="gpt-test", messages=messages, stream=True, stream_options={"include_usage": True}))
        self.assertEqual(requested[-1].usage.total_tokens, 1050)
        tools = self.openai.chat.completions.create(model="fast", messages=messages, tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}])
        self.assertEqual(tools.choices[0].message.tool_calls[0].function.name, "f")
        self.assertEqual(Provider.seen[-1][2]["model"], "gpt-test")
        self.assertEqual(self.charged() - before, 4 * OPENAI_PICO // 1_000_000, "streamed or not")

    def test_anthropic_s_client_plain_and_streamed(self):
        arguments = {"model": "claude-test", "max_tokens": 50, "messages": [{"role": "user", "content": "say hello"}]}
        before = self.charged()
        self.assertEqual(self.anthropic.messages.create(**arguments).content[0].text, "hello")
        self.assertEqual(Provider.seen[-1][1]["x-api-key"], "provider-secret-1")
        with self.anthropic.messages.stream(**arguments) as stream:
            self.assertEqual("".join(stream.text_stream), "hello")
            self.assertEqual(stream.get_final_message().usage.output_tokens, 7)
        self.assertEqual(self.charged() - before, 2 * CLAUDE_PICO // 1_000_000)

    def test_errors_are_those_that_clients_know(self):
        messages = [{"role": "user", "content": "x"}]
        with self.assertRaises(openai.RateLimitError):
            self.openai.chat.completions.create(model="busy", messages=messages)
        with self.assertRaises(openai.AuthenticationError):
            openai.OpenAI(api_key="gpl_ada_wrong", base_url=self.url + "/v1", max_retries=0).models.list()
        with self.assertRaises(anthropic.AuthenticationError):
            anthropic.Anthropic(api_key="wrong", base_url=self.url, max_retries=0).messages.create(model="claude-test", max_tokens=1, messages=messages)
        with self.assertRaises(openai.NotFoundError):
            self.openai.vector_stores.list()
        self.assertIn("gpt-test", [model.id for model in self.openai.models.list()])

    def test_a_hard_budget_ends_with_insufficient_quota(self):
        poor = openai.OpenAI(api_key=self.poor, base_url=self.url + "/v1")
        refused = 0
        for _ in range(5):
            try:
                poor.chat.completions.create(model="gpt-test", max_tokens=60, messages=[{"role": "user", "content": "x"}])
            except openai.RateLimitError as error:
                self.assertEqual(error.body["type"], "insufficient_quota")
                refused += 1
        self.assertGreaterEqual(refused, 3)
        self.assertLessEqual(value(self.page(), "gpulens_proxy_budget_spent_micros", budget="small"), 2000 + 1050)
        self.assertEqual(value(self.page(), "gpulens_proxy_budget_held_micros", budget="small"), 0)
        with self.assertRaises(openai.NotFoundError):
            poor.images.generate(prompt="x", model="gpt-image-1")

    def test_a_client_that_leaves_ends_the_request_at_the_provider(self):
        Provider.gone.clear()
        stream = self.openai.chat.completions.create(model="endless", messages=[{"role": "user", "content": "x"}], stream=True)
        self.assertEqual(next(iter(stream)).choices[0].delta.content, "hel")
        stream.close()
        self.assertTrue(Provider.gone.wait(10))

    def test_the_page_is_zumik_s(self):
        self.openai.chat.completions.create(model="own-model", messages=[{"role": "user", "content": "x"}])
        page = wait_until(lambda: samples(page := self.page(), "zumik_inference_requests_total", provider="own", profile="byoc", region="lab") and page)
        self.assertEqual(value(page, "zumik_byoc_target_ttft_ms", cluster="byc_1"), 500)
        counted = value(page, "http_request_duration_ms_count")
        self.assertEqual(value(page, "http_request_duration_ms_bucket", le="+Inf"), counted)
        self.assertLessEqual(sum(s.value for s in samples(page, "http_requests_total")), counted)
        self.assertNotIn("provider-secret-1", page)

    def test_after_a_kill_everything_goes_on_and_no_secret_is_anywhere(self):
        before = [row for row in self.ids()]
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        type(self).start()
        self.openai.chat.completions.create(model="gpt-test", messages=[{"role": "user", "content": "after"}])
        wait_until(lambda: len(self.ids()) >= len(before) + 1, what="the row")
        self.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "read again" in (self.folder / "log").read_text(), what="the reload")
        log = (self.folder / "log").read_text()
        for secret in ("provider-secret-1", self.key.split("_", 2)[2], "say hello"):
            self.assertNotIn(secret, log)
            for path in (self.folder / "state").rglob("*"):
                if path.is_file():
                    self.assertNotIn(secret.encode(), path.read_bytes(), path)
        self.assertNotIn("provider-secret-1", pathlib.Path(f"/proc/{self.process.pid}/cmdline").read_text())
        for path in (self.folder / "state").rglob("*"):
            if path.is_file():
                self.assertEqual(path.stat().st_mode & 0o077, 0, path)

    def ids(self):
        if not (self.folder / "state/charges.db").exists():
            return []
        with sqlite3.connect(f"file:{self.folder}/state/charges.db?mode=ro", uri=True) as store:
            return [row[0] for row in store.execute("SELECT request_id FROM llm_charge")]


class Command(unittest.TestCase):
    def test_wrong_files_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder, "proxy.yaml")
            for text, message in (("providers: []\n", "there is none"), ("providers: [{name: a}]\n", "url"), ("listn: []\n", "did you mean listen"),
                                  ("listen: ['0.0.0.0:1']\nproviders: [{name: a, url: 'http://h'}]\n", "without TLS"),
                                  ("providers: [{name: a, url: 'http://h'}]\nroutes: [{models: ['*'], providers: [b]}]\n", "no provider")):
                config.write_text(text)
                run = subprocess.run([str(BINARY), "proxy", "--check", "--config", str(config)], capture_output=True, text=True, check=False)
                self.assertEqual(run.returncode, 2, text)
                self.assertIn(message, run.stderr + run.stdout)
                self.assertRegex(run.stderr, re.escape(str(config)) + r":\d|default")

    def test_the_page_has_every_key_of_this_program(self):
        run = subprocess.run([str(BINARY), "proxy", "--print-config", "--markdown"], capture_output=True, text=True, check=True)
        self.assertIn(run.stdout, (ROOT / "docs/proxy.md").read_text(), "docs/proxy.md is stale: gpulens proxy --print-config --markdown")

    def test_routes_are_printed(self):
        run = subprocess.run([str(BINARY), "proxy", "--print-routes"], capture_output=True, text=True, check=True)
        self.assertRegex(run.stdout, r"POST +metered +anthropic +/v1/messages\n")


if __name__ == "__main__":
    unittest.main()
