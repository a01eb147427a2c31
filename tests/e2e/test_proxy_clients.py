"""Clients of LLM APIs, as they are, through `gpulens proxy`: google-genai, ollama and litellm of Python, openai and @anthropic-ai/sdk of npm.

Each call has a text of its own, by which what the provider got of it is found, and the row that it was charged by. test_proxy.py has openai and anthropic of Python.
"""
import asyncio
import json
import os
import pathlib
import shutil
import subprocess
import unittest
import unittest.mock

from agent import ROOT, value, wait_until
from llm_provider import ARGUMENTS, Provider
from proxy_case import SECRET, ProxyCase

try:
    import ollama
    from google import genai
except ImportError:
    genai = None

LITELLM = ROOT / "build/litellm"
NPM = ROOT / "build/npm_clients"
HERE = pathlib.Path(__file__).parent


class ClientCase(ProxyCase):
    def answer(self, text):
        """The one answer of the provider to a request with this text."""
        answers = Provider.of(text)
        self.assertEqual(len(answers), 1, text)
        return answers[0]

    def check_charged(self, *texts):
        for text in texts:
            with self.subTest(text):
                self.check_charge(self.answer(text))

    def check_partial(self, text, outcome):
        """A stream that ended early: charged by the counts that had come, or by what had."""
        answer = self.answer(text)
        if answer.units:
            return self.check_charge(answer, outcome=outcome, counted_by="partial")
        row = self.row(answer, outcome, "partial")
        self.assertGreater(row["charged_pico"], 0)
        return row

    def check_cancelled(self, text):
        self.assertTrue(self.answer(text).stopped.wait(30), "the provider still sends")
        self.check_partial(text, "cancelled")

    def check_refused(self, *texts):
        for text in texts:
            self.assertEqual(Provider.of(text), [], "what is refused goes to no provider")

    def check_secret(self, text, field, prefix=""):
        """The provider got its own key, and no other."""
        headers = self.answer(text).headers
        self.assertEqual(headers[field], prefix + SECRET)
        self.assertNotIn(self.key, json.dumps(headers))


@unittest.skipUnless(genai, "the clients google-genai and ollama are not here")
class GoogleGenai(ClientCase):
    TOOLS = {"tools": [{"function_declarations": [{"name": "f", "description": "weather"}]}], "automatic_function_calling": {"disable": True}}

    def client(self, key=None):
        client = genai.Client(api_key=key or self.key, http_options={"base_url": self.url})
        self.addCleanup(client.close)
        return client

    def setUp(self):
        self.genai = self.client()
        self.models = self.genai.models

    def stream(self, text, model="gemini-test", **more):
        return self.models.generate_content_stream(model=model, contents=text, **more)

    def test_plain_and_streamed(self):
        answer = self.models.generate_content(model="gemini-test", contents="genai plain")
        self.assertEqual((answer.text, answer.sdk_http_response.headers["agent-execution-profile"]), ("hello", "managed"))
        units = self.answer("genai plain").units
        self.assertEqual(answer.usage_metadata.total_token_count, sum(units.values()))
        self.check_secret("genai plain", "x-goog-api-key")
        pieces = list(self.stream("genai stream"))
        self.assertEqual(([piece.text for piece in pieces], pieces[-1].usage_metadata.thoughts_token_count), (["hel", "lo"], 5))
        self.check_charged("genai plain", "genai stream")

    def test_tools(self):
        answer = self.models.generate_content(model="gemini-test", contents="genai tools", config=self.TOOLS)
        self.assertEqual((answer.function_calls[0].name, answer.function_calls[0].args), ("f", ARGUMENTS))
        pieces = list(self.stream("genai streamed tools", config=self.TOOLS))
        self.assertEqual(pieces[-1].function_calls[0].args, ARGUMENTS)

        def f(city: str, usage: dict) -> str:
            """The weather of a city."""
            return f"rain in {city}"
        # The client calls the function, and sends what it returned in a second request.
        answer = self.genai.chats.create(model="gemini-test", config={"tools": [f]}).send_message("genai chat")
        self.assertEqual(answer.text, "hello")
        first, second = Provider.of("genai chat")
        self.assertIn("rain in Oslo", json.dumps(second.body))
        self.check_charge(first)
        self.check_charge(second)
        self.check_charged("genai tools", "genai streamed tools")

    def test_asynchronous(self):
        async def calls():
            async with self.client().aio as client:
                answer = await client.models.generate_content(model="gemini-test", contents="genai async plain")
                stream = await client.models.generate_content_stream(model="gemini-test", contents="genai async stream")
                return answer.text, "".join([piece.text async for piece in stream])
        self.assertEqual(asyncio.run(calls()), ("hello", "hello"))
        self.check_charged("genai async plain", "genai async stream")

    def test_variables(self):
        with unittest.mock.patch.dict(os.environ, GOOGLE_GEMINI_BASE_URL=self.url, GEMINI_API_KEY=self.key), genai.Client() as client:
            self.assertEqual(client.models.generate_content(model="gemini-test", contents="genai variables").text, "hello")
        self.check_charged("genai variables")

    def test_embeddings_and_what_is_free(self):
        answer = self.models.embed_content(model="embed-test", contents=["genai embeddings", "a second text"])
        self.assertEqual([one.values for one in answer.embeddings], [[0.5, 0.25]] * 2)
        # Gemini counts nothing there: by the bytes of the request.
        row = self.row(self.answer("genai embeddings"), counted_by="calibrated")
        self.assertEqual(row["charged_pico"], row["units_input"] * 150_000)
        self.assertGreater(row["units_input"], 10)
        self.assertEqual(row["units_output"], 0)
        self.assertIn("models/gemini-test", [model.name for model in self.models.list()])
        self.assertEqual(self.models.get(model="gemini-test").name, "models/gemini-test")

    def test_errors(self):
        for call in (lambda: self.models.generate_content(model="busy", contents="genai busy"), lambda: next(self.stream("genai busy too", model="busy"))):
            with self.assertRaises(genai.errors.ClientError) as caught:
                call()
            self.assertEqual((caught.exception.code, caught.exception.status, caught.exception.message), (429, "RESOURCE_EXHAUSTED", "slow down"))
        row = self.row(self.answer("genai busy too"), counted_by="nothing")
        self.assertEqual((row["status"], row["charged_pico"]), (429, 0))
        for key, code, status in (("gpl_ada_wrong", 401, "UNAUTHENTICATED"), (self.broke, 429, "RESOURCE_EXHAUSTED")):
            client = self.client(key)
            for call in (client.models.generate_content, lambda **more: next(client.models.generate_content_stream(**more))):
                with self.assertRaises(genai.errors.ClientError) as caught:
                    call(model="gemini-test", contents="genai refused")
                self.assertEqual((caught.exception.code, caught.exception.status), (code, status))
        self.check_refused("genai refused")

    def test_a_cut_stream_and_a_client_that_leaves(self):
        stream = self.stream("genai endless", model="endless")
        self.assertEqual(next(stream).text, "hel")
        stream.close()
        self.check_cancelled("genai endless")
        stream = self.stream("genai cut", model="cut")
        self.assertEqual(next(stream).text, "hel")
        with self.assertRaises(genai.errors.ServerError) as caught:
            list(stream)
        self.assertEqual(caught.exception.status, "UNAVAILABLE")
        self.check_partial("genai cut", "upstream_failed")


@unittest.skipUnless(genai, "the clients google-genai and ollama are not here")
class CancelledIsFree(ClientCase):
    MORE = "on_cancel: zero\n"

    def test_a_client_that_leaves(self):
        client = genai.Client(api_key=self.key, http_options={"base_url": self.url})
        stream = client.models.generate_content_stream(model="endless", contents="genai free")
        self.assertEqual(next(stream).text, "hel")
        stream.close()
        answer = self.answer("genai free")
        self.assertTrue(answer.stopped.wait(30))
        row = self.row(answer, "cancelled", "partial")
        self.assertEqual((row["list_pico"], row["charged_pico"]), (answer.pico, 0))


@unittest.skipUnless(genai, "the clients google-genai and ollama are not here")
class Ollama(ClientCase):
    TOOLS = [{"type": "function", "function": {"name": "f", "description": "weather", "parameters": {"type": "object", "properties": {}}}}]

    def client(self, key=None):
        client = ollama.Client(host=self.url, headers={"Authorization": f"Bearer {key or self.key}"})
        self.addCleanup(client.close)
        return client

    def setUp(self):
        self.ollama = self.client()

    def chat(self, text, client=None, **more):
        return (client or self.ollama).chat(model=more.pop("model", "llama-test"), messages=[{"role": "user", "content": text}], **more)

    def test_plain_and_streamed(self):
        answer = self.chat("ollama chat")
        self.assertEqual((answer.message.content, answer.eval_count), ("hello", self.answer("ollama chat").units["output"]))
        self.check_secret("ollama chat", "Authorization", "Bearer ")
        pieces = list(self.chat("ollama streamed chat", stream=True))
        self.assertEqual(([piece.message.content for piece in pieces], pieces[-1].done), (["hel", "lo", ""], True))
        self.assertEqual(self.ollama.generate(model="llama-test", prompt="ollama generate").response, "hello")
        pieces = list(self.ollama.generate(model="llama-test", prompt="ollama streamed generate", stream=True))
        self.assertEqual([piece.response for piece in pieces], ["hel", "lo", ""])
        self.check_charged("ollama chat", "ollama streamed chat", "ollama generate", "ollama streamed generate")

    def test_tools(self):
        answer = self.chat("ollama tools", tools=self.TOOLS)
        self.assertEqual((answer.message.tool_calls[0].function.name, answer.message.tool_calls[0].function.arguments), ("f", ARGUMENTS))
        pieces = list(self.chat("ollama streamed tools", tools=self.TOOLS, stream=True))
        self.assertEqual(pieces[0].message.tool_calls[0].function.arguments, ARGUMENTS)
        self.check_charged("ollama tools", "ollama streamed tools")

    def test_asynchronous(self):
        async def calls():
            async with ollama.AsyncClient(host=self.url, headers={"Authorization": f"Bearer {self.key}"}) as client:
                message = {"role": "user", "content": "ollama async"}
                stream = await client.chat(model="llama-test", messages=[message], stream=True)
                return "".join([piece.message.content async for piece in stream])
        self.assertEqual(asyncio.run(calls()), "hello")
        self.check_charged("ollama async")

    def test_variables(self):
        with unittest.mock.patch.dict(os.environ, OLLAMA_HOST=self.url, OLLAMA_API_KEY=self.key), ollama.Client() as client:
            self.assertEqual(self.chat("ollama variables", client).message.content, "hello")
        self.check_charged("ollama variables")

    def test_embeddings_and_what_is_free(self):
        answer = self.ollama.embed(model="embed-test", input=["ollama embeddings", "a second text"])
        self.assertEqual((len(answer.embeddings), answer.prompt_eval_count), (2, self.answer("ollama embeddings").units["input"]))
        self.check_charged("ollama embeddings")
        self.assertIn("llama-test", [one.model for one in self.ollama.list().models])

    def test_errors(self):
        for more in ({}, {"stream": True}):
            with self.assertRaises(ollama.ResponseError) as caught:
                list(self.chat(f"ollama busy {more}", model="busy", **more))
            self.assertEqual((caught.exception.status_code, caught.exception.error), (429, "slow down"))
            for key, status in (("gpl_ada_wrong", 401), (self.broke, 429)):
                with self.assertRaises(ollama.ResponseError) as caught:
                    list(self.chat("ollama refused", self.client(key), options={"num_predict": 50}, **more))
                self.assertEqual(caught.exception.status_code, status)
        self.assertRegex(caught.exception.error, "budget")
        self.check_refused("ollama refused")

    def test_a_cut_stream_and_a_client_that_leaves(self):
        stream = self.chat("ollama endless", model="endless", stream=True)
        self.assertEqual(next(stream).message.content, "hel")
        stream.close()
        self.check_cancelled("ollama endless")
        stream = self.chat("ollama cut", model="cut", stream=True)
        self.assertEqual(next(stream).message.content, "hel")
        with self.assertRaises(ollama.ResponseError) as caught:
            list(stream)
        self.assertEqual(caught.exception.error, "the provider's answer was cut")
        self.check_partial("ollama cut", "upstream_failed")


class ProgramCase(ClientCase):
    """Clients that a program of their own calls; it prints what each call returned."""

    @classmethod
    def run_program(cls, installed, *command, **environment):
        """`installed` is there when its packages are."""
        if not installed.exists() or not shutil.which(command[0]):
            raise unittest.SkipTest(f"peer not here: {installed.relative_to(ROOT)}; ./dev test fetches it, as tools/prepare_peers.sh does alone")
        super().setUpClass()
        Provider.answers.clear()
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200, cwd=HERE, env={
            "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(cls.folder), "URL": cls.url, "KEY": cls.key, "BROKE": cls.broke, **environment})
        if run.returncode != 0:
            raise AssertionError(run.stderr[-10_000:])
        cls.results = json.loads(run.stdout.splitlines()[-1])

    def check_every_row(self, rows):
        """What the provider answered has one row each, and nothing else has any."""
        wait_until(lambda: len(self.rows("key_id", "ada")) >= rows, what="the rows")
        self.assertEqual(sorted(row["upstream_request_id"] for row in self.rows("key_id", "ada")), sorted(answer.id for answer in Provider.answers))
        self.assertEqual(len(Provider.answers), rows)
        self.assertEqual(self.rows("key_id", "broke"), [])
        charged = sum(row["charged_pico"] for row in self.rows("key_id", "ada"))
        self.assertEqual(self.charged(), charged // 1_000_000)


class LiteLlm(ProgramCase):
    PROVIDERS = ("openai", "anthropic", "gemini", "ollama_chat", "ollama")

    @classmethod
    def setUpClass(cls):
        cls.run_program(LITELLM / "installed.txt", str(LITELLM / "bin/python3"), "proxy_litellm.py")

    def each(self, what, providers=PROVIDERS):
        return [(text, self.results[text]) for text in (f"litellm {provider} {what}" for provider in providers)]

    def test_plain_and_streamed(self):
        for text, result in self.each("plain"):
            units = self.answer(text).units
            self.assertEqual(result, {"text": "hello", "prompt": sum(count for one, count in units.items() if one.startswith("input")),
                                      "completion": sum(count for one, count in units.items() if one.startswith("output"))})
            self.check_charged(text)
        for text, result in self.each("stream"):
            self.assertEqual(result, "hello")
            self.check_charged(text)
        self.assertEqual(self.results["litellm async"], {"text": "hello", "prompt": 900 + self.answer("litellm async").units["input"]})
        self.check_charged("litellm async")

    def test_tools(self):
        for what in ("tools", "streamed tools"):
            for text, result in self.each(what, self.PROVIDERS[:4]):
                self.assertEqual(result, [["f", ARGUMENTS]])
                self.check_charged(text)

    def test_embeddings(self):
        for text, result in self.each("embeddings", ("openai", "ollama", "gemini")):
            self.assertEqual(result, [0.5, 0.25])
            if "gemini" in text:
                self.assertGreater(self.row(self.answer(text), counted_by="calibrated")["charged_pico"], 0)
            else:
                self.check_charged(text)

    def test_errors(self):
        for what, error, message in (("busy", "RateLimitError", "slow down"), ("refused", "RateLimitError", "The budget empty has too little left"),
                                     ("wrong key", "AuthenticationError", "API key is not valid")):
            for text, result in self.each(what):
                self.assertEqual(result["type"], error)
                self.assertIn(message, result["message"])
                if what != "busy":
                    self.check_refused(text)

    def test_a_client_that_leaves(self):
        for text, result in self.each("endless"):
            self.assertEqual(result, "hel")
            self.check_cancelled(text)

    def test_each_answer_is_charged_once(self):
        self.check_every_row(5 * 4 + 4 * 2 + 1 + 3)


class Npm(ProgramCase):
    @classmethod
    def setUpClass(cls):
        cls.run_program(NPM / "installed.json", shutil.which("node") or "node", "proxy_clients.mjs", NPM=str(NPM))

    def test_plain_and_streamed(self):
        def total(text):
            units = self.answer(text).units
            return sum(units.values())
        self.assertEqual(self.results["npm chat"], {"text": "hello", "total": total("npm chat"), "profile": "managed"})
        self.assertEqual(self.results["npm streamed chat"], {"text": "hello", "usage": False}, "no usage where none is requested")
        self.assertEqual(self.results["npm counted chat"], total("npm counted chat"))
        self.assertEqual(self.results["npm response"], "hello")
        self.assertEqual(self.results["npm streamed response"], {"text": "hello", "total": total("npm streamed response")})
        self.assertEqual(self.results["npm embeddings"], [0.5, 0.25])
        for text in ("npm message", "npm variables", "npm variables of a message"):
            self.assertEqual(self.results[text], "hello")
        self.assertEqual(self.results["npm streamed message"], {"text": "hello", "output": self.answer("npm streamed message").units["output"]})
        self.check_charged("npm chat", "npm streamed chat", "npm counted chat", "npm response", "npm streamed response", "npm embeddings", "npm message",
                           "npm streamed message", "npm variables", "npm variables of a message")

    def test_tools(self):
        for text in ("npm tools", "npm streamed tools"):
            self.assertEqual(self.results[text], [["f", ARGUMENTS]])
        for text in ("npm response with tools", "npm message with tools", "npm streamed message with tools"):
            self.assertEqual(self.results[text], ARGUMENTS)
        self.check_charged("npm tools", "npm streamed tools", "npm response with tools", "npm message with tools", "npm streamed message with tools")

    def test_errors(self):
        for text, name, status, kind in (
                ("npm busy", "RateLimitError", 429, "rate"), ("npm busy message", "RateLimitError", 429, "rate_limit_error"),
                ("npm refused", "RateLimitError", 429, "insufficient_quota"), ("npm refused message", "RateLimitError", 429, "billing_error"),
                ("npm wrong key", "AuthenticationError", 401, "invalid_request_error"),
                ("npm wrong key of a message", "AuthenticationError", 401, "authentication_error")):
            result = self.results[text]
            self.assertEqual((result["name"], result["status"], result["type"]), (name, status, kind), text)
        self.check_refused("npm refused", "npm refused message", "npm wrong key", "npm wrong key of a message")
        self.assertEqual(value(self.page(), "http_requests_total", method="POST", status="429"), 4, "the clients repeat nothing that a budget refuses")

    def test_cut_streams_and_clients_that_leave(self):
        for text in ("npm cut", "npm cut message"):
            self.assertIn("the provider's answer was cut", self.results[text]["message"])
            self.check_partial(text, "upstream_failed")
        for text, result in (("npm endless chat", "hel"), ("npm aborted response", None), ("npm endless message", "hel")):
            self.assertEqual(self.results[text], result)
            self.check_cancelled(text)

    def test_models(self):
        self.assertEqual(self.results["npm models"], ["embed-test", "fast", "gpt-test", "own-model"])
        self.assertEqual(self.results["npm claude models"], ["claude-test"])
        self.assertEqual((self.results["npm model"], self.results["npm claude model"]), ("gpt-test", "claude-test"))

    def test_each_answer_is_charged_once(self):
        self.check_every_row(22)


if __name__ == "__main__":
    unittest.main()
