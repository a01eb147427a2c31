"""`gpulens proxy` before a scripted provider, used by the official clients of OpenAI and Anthropic as they are."""
import json
import os
import pathlib
import pty
import re
import signal
import sqlite3
import subprocess
import tempfile
import unittest

from agent import BINARY, ROOT, samples, value, wait_until
from llm_provider import ARGUMENTS, Provider
from proxy_case import SECRET, ProxyCase

try:
    import anthropic
    import openai
except ImportError:
    openai = None


@unittest.skipUnless(openai, "the clients openai and anthropic are not here")
class Proxy(ProxyCase):
    def setUp(self):
        Provider.answers.clear()
        self.openai = openai.OpenAI(api_key=self.key, base_url=self.url + "/v1", max_retries=0)
        self.anthropic = anthropic.Anthropic(api_key=self.key, base_url=self.url, max_retries=0)

    def check_sum(self, before, count):
        """Each answer of this test is charged, streamed or not, and the counter has their sum."""
        self.assertEqual(len(Provider.answers), count)
        for answer in Provider.answers:
            self.check_charge(answer)
        self.assertAlmostEqual(self.charged() - before, sum(answer.pico for answer in Provider.answers) / 1_000_000, delta=1)

    def test_keys_are_listed_for_people_and_for_programs_without_hashes(self):
        lines = self.proxy.command("keys", "list").splitlines()
        self.assertEqual(lines[0], "ID\tTENANT\tPROFILE\tSTATE\tMODELS")
        self.assertIn("ada\tacme\t-\tactive\t*", lines)
        listed = json.loads(self.proxy.command("keys", "list", "--json"))
        self.assertEqual(listed["schema"], "gpulens.proxy_keys/1")
        self.assertIn({"id": "poor", "tenant": "acme", "state": "active", "budgets": ["small"]}, listed["keys"])
        leader, follower = pty.openpty()
        subprocess.run([str(BINARY), "proxy", "keys", "list", "--config", str(self.proxy.config)], stdout=follower, env=self.proxy.environment, check=True)
        os.close(follower)
        shown = os.read(leader, 65536).decode()
        os.close(leader)
        self.assertRegex(shown, r"(?m)^ada +acme +- +active +\*\r?$")

    def test_openai_s_client_plain_streamed_and_with_tools(self):
        messages = [{"role": "user", "content": "say hello"}]
        before = self.charged()
        answer = self.openai.chat.completions.with_raw_response.create(model="gpt-test", messages=messages)
        self.assertEqual(answer.parse().choices[0].message.content, "hello")
        self.assertEqual(answer.headers["Agent-Execution-Profile"], "managed")
        row = self.check_charge(sent := Provider.answers[-1])
        self.assertEqual((row["request_id"], row["key_id"], row["provider"]), (answer.headers["x-gpulens-request-id"], "ada", "one"))
        self.assertEqual((sent.path, sent.headers["Authorization"]), ("/v1/chat/completions", "Bearer " + SECRET))
        text, chunks = "", list(self.openai.chat.completions.create(model="gpt-test", messages=messages, stream=True))
        for chunk in chunks:
            text += chunk.choices[0].delta.content or ""  # no chunk without choices: none was requested
            self.assertNotIn("usage", chunk.model_fields_set, "no program requested it")
        self.assertEqual(text, "hello")
        self.assertTrue(Provider.answers[-1].body["stream_options"]["include_usage"], "but the proxy did")
        requested = list(self.openai.chat.completions.create(model="gpt-test", messages=messages, stream=True, stream_options={"include_usage": True}))
        self.assertEqual(requested[-1].usage.total_tokens, 900 + sum(Provider.answers[-1].units[one] for one in ("input", "output")))
        tools = self.openai.chat.completions.create(model="fast", messages=messages, tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}])
        self.assertEqual(tools.choices[0].message.tool_calls[0].function.name, "f")
        self.assertEqual(Provider.answers[-1].body["model"], "gpt-test")
        self.assertEqual(self.openai.embeddings.create(model="embed-test", input="x").data[0].embedding, [0.5, 0.25])
        self.check_sum(before, 5)

    def test_anthropic_s_client_plain_and_streamed(self):
        arguments = {"model": "claude-test", "max_tokens": 50, "messages": [{"role": "user", "content": "say hello"}]}
        before = self.charged()
        self.assertEqual(self.anthropic.messages.create(**arguments).content[0].text, "hello")
        self.assertEqual(Provider.answers[-1].headers["x-api-key"], SECRET)
        with self.anthropic.messages.stream(**arguments) as stream:
            self.assertEqual("".join(stream.text_stream), "hello")
            self.assertEqual(stream.get_final_message().usage.output_tokens, Provider.answers[-1].units["output"])
        tools = {**arguments, "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}}]}
        self.assertEqual(self.anthropic.messages.create(**tools).content[0].input, ARGUMENTS)
        with self.anthropic.messages.stream(**tools) as stream:
            self.assertEqual(stream.get_final_message().content[0].input, ARGUMENTS)
        self.check_sum(before, 4)

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
        with self.assertRaises(anthropic.RateLimitError) as refused:
            anthropic.Anthropic(api_key=self.broke, base_url=self.url).messages.create(model="claude-test", max_tokens=60, messages=[{"role": "user", "content": "x"}])
        self.assertEqual(refused.exception.body["error"]["type"], "billing_error")
        with self.assertRaises(openai.NotFoundError):
            poor.images.generate(prompt="x", model="gpt-image-1")

    def test_a_client_that_leaves_ends_the_request_at_the_provider(self):
        messages = [{"role": "user", "content": "x"}]
        stream = self.openai.chat.completions.create(model="endless", messages=messages, stream=True)
        self.assertEqual(next(iter(stream)).choices[0].delta.content, "hel")
        stream.close()
        self.assertTrue(Provider.answers[-1].stopped.wait(30))
        self.assertGreater(self.row(Provider.answers[-1], "cancelled", "partial")["charged_pico"], 0)
        with self.anthropic.messages.stream(model="endless", max_tokens=50, messages=messages) as stream:
            self.assertEqual(next(iter(stream.text_stream)), "hel")
        self.assertTrue(Provider.answers[-1].stopped.wait(30))
        self.check_charge(Provider.answers[-1], outcome="cancelled", counted_by="partial")

    def test_the_page_is_zumik_s(self):
        self.openai.chat.completions.create(model="own-model", messages=[{"role": "user", "content": "x"}])
        page = wait_until(lambda: samples(page := self.page(), "zumik_inference_requests_total", provider="own", profile="byoc", region="lab") and page)
        self.assertEqual(value(page, "zumik_byoc_target_ttft_ms", cluster="byc_1"), 500)
        counted = value(page, "http_request_duration_ms_count")
        self.assertEqual(value(page, "http_request_duration_ms_bucket", le="+Inf"), counted)
        self.assertLessEqual(sum(s.value for s in samples(page, "http_requests_total")), counted)
        self.assertNotIn(SECRET, page)

    def test_after_a_kill_everything_goes_on_and_no_secret_is_anywhere(self):
        before = [row for row in self.ids()]
        self.proxy.kill()
        self.proxy.__enter__()  # its end is that of the class
        self.openai.chat.completions.create(model="gpt-test", messages=[{"role": "user", "content": "after"}])
        wait_until(lambda: len(self.ids()) >= len(before) + 1, what="the row")
        self.proxy.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "read again" in self.proxy.log.read_text(), what="the reload")
        log = self.proxy.log.read_text()
        for secret in (SECRET, self.key.split("_", 2)[2], "say hello"):
            self.assertNotIn(secret, log)
            for path in (self.folder / "state").rglob("*"):
                if path.is_file():
                    self.assertNotIn(secret.encode(), path.read_bytes(), path)
        self.assertNotIn(SECRET, pathlib.Path(f"/proc/{self.proxy.process.pid}/cmdline").read_text())
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
