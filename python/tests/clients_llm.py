"""gpulens.instrument with the clients of OpenAI and Anthropic, and a server that speaks their APIs."""
import asyncio
import gc
import math
import unittest

import anthropic
import gpulens
import openai
from engines import Bus, Kept, pause
from llm_server import GAP, WORDS, serve


MESSAGES = [{"role": "user", "content": "What do you count?"}]
CHAT = {"model": "m", "messages": MESSAGES}
CLAUDE = {"model": "m", "messages": MESSAGES, "max_tokens": 64}
TEXT = "".join(WORDS)


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        server = serve()
        cls.url = server.__enter__()
        cls.addClassCleanup(server.__exit__, None, None, None)

    def setUp(self):
        self.kept = Kept()

    def openai(self, kind=openai.OpenAI, **options):
        client = kind(base_url=self.url + "/v1", api_key="k", max_retries=0)
        return gpulens.instrument(client, self.kept, **options)

    def anthropic(self, kind=anthropic.Anthropic, **options):
        client = kind(base_url=self.url, api_key="k", max_retries=0)
        return gpulens.instrument(client, self.kept, **options)

    def check(self, count=1, engine="openai", reason="stop", **values):
        """The last record is the only one of its call, and complete."""
        self.assertEqual(len(self.kept), count)
        r = self.kept[-1]
        wanted = {"model": "m", "engine": engine, "prompt_tokens": 12 if engine == "openai" else 20, "cached_prompt_tokens": 8,
                  "completion_tokens": 4, "outcome": "ok", "error_type": "", "streaming": False, **values}
        self.assertEqual({name: getattr(r, name) for name in wanted}, wanted)
        self.assertEqual(r.metadata, {"finish_reason": reason} if reason else {})
        self.assertTrue(0 < r.latency_seconds < 30, r)
        if wanted["streaming"] and wanted["outcome"] == "ok":
            self.assertTrue(GAP <= r.ttft_seconds < r.latency_seconds, r)
            if wanted["completion_tokens"] == 4:
                self.assertEqual(r.itl_seconds.n, 3)
                self.assertTrue(0 <= r.itl_seconds.mean < 1, r)
        elif not wanted["streaming"]:
            self.assertTrue(math.isnan(r.ttft_seconds))
        return r


class OpenAI(Clients):
    def test_chat(self):
        self.assertEqual(self.openai().chat.completions.create(**CHAT).choices[0].message.content, TEXT)
        self.check()

    def test_chat_stream(self):
        client = self.openai()
        for usage in (True, False):
            with client.chat.completions.create(**CHAT, stream=True, stream_options={"include_usage": usage}) as stream:
                self.assertEqual(stream.response.status_code, 200)
                self.assertEqual("".join(c.choices[0].delta.content or "" for c in stream if c.choices), TEXT)
        self.assertEqual((self.kept[0].completion_tokens, self.kept[0].prompt_tokens, self.kept[0].itl_seconds.n), (4, 12, 3))
        r = self.check(2, streaming=True, prompt_tokens=None, cached_prompt_tokens=None, completion_tokens=None)
        self.assertEqual((r.itl_seconds.n, r.total_tokens), (0, None))

    def test_the_consumers_time_is_not_the_clients(self):
        for _ in self.openai().chat.completions.create(**CHAT, stream=True):
            pause(0.1)
        self.assertGreater(self.kept[0].consumer_seconds, 0.4)
        self.assertLess(self.kept[0].latency_seconds, self.kept[0].consumer_seconds)

    def test_chat_helper(self):
        with self.openai().chat.completions.stream(**CHAT, stream_options={"include_usage": True}) as stream:
            deltas = [event.delta for event in stream if event.type == "content.delta"]
            self.assertEqual(stream.get_final_completion().choices[0].message.content, TEXT)
        self.assertEqual("".join(deltas), TEXT)
        self.check(streaming=True)

    def test_responses(self):
        client = self.openai()
        self.assertEqual(client.responses.create(model="m", input="hi").output_text, TEXT)
        self.check(reason="completed")
        self.assertEqual("".join(e.delta for e in client.responses.create(model="m", input="hi", stream=True)
                                 if e.type == "response.output_text.delta"), TEXT)
        self.check(2, reason="completed", streaming=True)
        with client.responses.stream(model="m", input="hi") as stream:
            self.assertEqual(stream.get_final_response().output_text, TEXT)
        self.check(3, reason="completed", streaming=True)

    def test_embeddings_and_completions(self):
        client = self.openai()
        self.assertEqual(client.embeddings.create(model="e", input="hi", encoding_format="float").data[0].embedding, [0.25, 0.5])
        r = self.check(model="e", prompt_tokens=5, cached_prompt_tokens=None, completion_tokens=None, reason="")
        self.assertEqual(r.total_tokens, 5)
        self.assertEqual(client.completions.create(model="m", prompt="hi").choices[0].text, TEXT)
        self.check(2, reason="length")

    def test_the_client_is_usable_as_before(self):
        client = self.openai()
        self.assertIsInstance(client, openai.OpenAI)
        self.assertIsInstance(client, gpulens.InstrumentedEngine)
        self.assertEqual(client.api_key, "k")
        client.api_key = "l"
        self.assertEqual(client.api_key, "l")
        self.assertIn("completions", dir(client.chat))
        raw = client.chat.completions.with_raw_response.create(**CHAT)
        self.assertEqual((raw.status_code, raw.parse().choices[0].message.content), (200, TEXT))
        with client.chat.completions.with_streaming_response.create(**CHAT) as response:
            self.assertIn(TEXT, response.read().decode())
        self.assertEqual(client.with_raw_response.chat.completions.create(**CHAT).status_code, 200)
        self.assertEqual(self.kept, [])
        for other in (client.with_options(timeout=7.0), client.copy()):
            self.assertEqual(other.chat.completions.create(**CHAT).choices[0].message.content, TEXT)
        self.assertEqual((len(self.kept), client.with_options(timeout=7.0).timeout), (2, 7.0))
        with self.openai() as inside:
            inside.chat.completions.create(**CHAT)
        self.assertTrue(inside.is_closed())
        with self.assertRaises(AttributeError):
            client.chat.no_such

    def test_errors(self):
        client = self.openai()
        with self.assertRaises(openai.NotFoundError):
            client.chat.completions.create(**{**CHAT, "model": "none"})
        r = self.check(model="none", outcome="error", error_type="NotFoundError", prompt_tokens=None, cached_prompt_tokens=None,
                       completion_tokens=None, reason="")
        self.assertTrue(math.isnan(r.ttft_seconds))
        with self.assertRaises(TypeError):
            client.chat.completions.create(model="m")
        self.assertEqual(self.kept[-1].error_type, "TypeError")
        with self.assertRaises(openai.APIConnectionError):
            gpulens.instrument(openai.OpenAI(base_url="http://127.0.0.1:1/v1", api_key="k", max_retries=0), self.kept).chat.completions.create(**CHAT)
        self.assertEqual((self.kept[-1].outcome, self.kept[-1].error_type), ("error", "APIConnectionError"))

    def test_a_stream_that_breaks(self):
        with self.assertRaisesRegex(openai.APIError, "overloaded"):
            list(self.openai().chat.completions.create(**{**CHAT, "model": "breaks"}, stream=True))
        self.check(model="breaks", outcome="error", error_type="APIError", streaming=True, prompt_tokens=None,
                   cached_prompt_tokens=None, completion_tokens=None, reason="")

    def test_a_stream_that_is_left(self):
        for _ in self.openai().chat.completions.create(**CHAT, stream=True):
            break
        gc.collect()
        self.check(outcome="cancelled", streaming=True, prompt_tokens=None, cached_prompt_tokens=None, completion_tokens=None, reason="")

    def test_asynchronous(self):
        async def use():
            client = self.openai(openai.AsyncOpenAI)
            answer = await client.chat.completions.create(**CHAT)
            self.check()
            stream = await client.chat.completions.create(**CHAT, stream=True, stream_options={"include_usage": True})
            texts = [c.choices[0].delta.content or "" async for c in stream if c.choices]
            self.check(2, streaming=True)
            async with client.chat.completions.stream(**CHAT, stream_options={"include_usage": True}) as helper:
                whole = await helper.get_final_completion()
            self.check(3, streaming=True)
            with self.assertRaises(openai.NotFoundError):
                await client.chat.completions.create(**{**CHAT, "model": "none"})
            self.assertEqual(self.kept[-1].error_type, "NotFoundError")
            stream = await client.with_options(timeout=9.0).chat.completions.create(**CHAT, stream=True)
            async for _ in stream:
                break
            await stream.close()
            self.assertEqual((self.kept[-1].outcome, len(self.kept)), ("cancelled", 5))
            raw = await client.chat.completions.with_raw_response.create(**CHAT)
            await client.close()
            return answer.choices[0].message.content, "".join(texts), whole.choices[0].message.content, raw.status_code

        self.assertEqual(asyncio.run(use()), (TEXT, TEXT, TEXT, 200))

    def test_with_a_store_a_bus_and_labels(self):
        bus = Bus()
        self.openai(bus=bus, agent="a", batch_id="b").chat.completions.create(**CHAT)
        self.assertEqual([kind for kind, _ in bus], ["inference_start", "inference_end", "telemetry_record"])
        self.assertEqual((self.kept[0].agent, self.kept[0].batch_id, bus[0][1]["message_count"]), ("a", "b", 1))


class Anthropic(Clients):
    def check(self, *args, **values):
        return super().check(*args, **{"engine": "anthropic", "reason": "end_turn", **values})

    def test_messages(self):
        self.assertEqual(self.anthropic().messages.create(**CLAUDE).content[0].text, TEXT)
        self.check()

    def test_stream(self):
        texts = [e.delta.text for e in self.anthropic().messages.create(**CLAUDE, stream=True) if e.type == "content_block_delta"]
        self.assertEqual(texts, WORDS)
        self.check(streaming=True)

    def test_helper(self):
        client = self.anthropic()
        with client.messages.stream(**CLAUDE) as stream:
            self.assertEqual(list(stream.text_stream), WORDS)
            self.assertEqual(stream.get_final_message().usage.output_tokens, 4)
        self.check(streaming=True)
        with client.messages.stream(**CLAUDE) as stream:
            self.assertEqual(stream.get_final_text(), TEXT)
        self.check(2, streaming=True)
        with client.messages.stream(**CLAUDE) as stream:
            self.assertEqual([event.text for event in stream if event.type == "text"], WORDS)
        self.check(3, streaming=True)
        with client.messages.stream(**CLAUDE) as stream:
            next(iter(stream.text_stream))
        self.check(4, streaming=True, outcome="cancelled", completion_tokens=None, reason="")
        client.messages.stream(**CLAUDE)  # no request
        self.assertEqual(len(self.kept), 4)

    def test_errors(self):
        client = self.anthropic()
        with self.assertRaises(anthropic.NotFoundError):
            client.messages.create(**{**CLAUDE, "model": "none"})
        with self.assertRaises(anthropic.NotFoundError):
            with client.messages.stream(**{**CLAUDE, "model": "none"}):
                self.fail("no stream")
        self.assertEqual([(r.outcome, r.error_type) for r in self.kept], [("error", "NotFoundError")] * 2)

    def test_the_client_is_usable_as_before(self):
        client = self.anthropic()
        self.assertIsInstance(client, anthropic.Anthropic)
        self.assertEqual(client.messages.with_raw_response.create(**CLAUDE).parse().content[0].text, TEXT)
        self.assertEqual(self.kept, [])
        self.assertEqual(client.with_options(timeout=5.0).messages.create(**CLAUDE).content[0].text, TEXT)
        self.check()

    def test_asynchronous(self):
        async def use():
            client = self.anthropic(anthropic.AsyncAnthropic)
            answer = await client.messages.create(**CLAUDE)
            self.check()
            texts = [e.delta.text async for e in await client.messages.create(**CLAUDE, stream=True) if e.type == "content_block_delta"]
            self.check(2, streaming=True)
            async with client.messages.stream(**CLAUDE) as stream:
                texts += [text async for text in stream.text_stream]
                final = await stream.get_final_message()
            self.check(3, streaming=True)
            with self.assertRaises(anthropic.NotFoundError):
                async with client.messages.stream(**{**CLAUDE, "model": "none"}):
                    self.fail("no stream")
            self.assertEqual(self.kept[-1].error_type, "NotFoundError")
            await client.close()
            return answer.content[0].text, texts, final.content[0].text

        self.assertEqual(asyncio.run(use()), (TEXT, WORDS * 2, TEXT))


if __name__ == "__main__":
    unittest.main()
