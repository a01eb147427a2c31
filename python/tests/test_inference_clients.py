"""gpulens.instrument with clients of the shape of OpenAI's and Anthropic's; clients_llm.py has the real ones."""
import asyncio
import types
import unittest

import gpulens
from engines import Engine, Kept, pause

USAGE = types.SimpleNamespace(prompt_tokens=12, completion_tokens=3, total_tokens=15)


def piece(text, reason=None):
    return types.SimpleNamespace(choices=[types.SimpleNamespace(delta=types.SimpleNamespace(content=text), finish_reason=reason)], usage=None)


class Completions:
    def __init__(self, error=None):
        self.error = error

    def create(self, *, model, messages, stream=False):
        if self.error:
            raise self.error
        if stream:
            return iter([*map(piece, ("", "a", "b", "c")), piece(None, "stop"), types.SimpleNamespace(choices=[], usage=USAGE)])
        message = types.SimpleNamespace(content="abc")
        return types.SimpleNamespace(choices=[types.SimpleNamespace(message=message, finish_reason="length")], usage=USAGE)

    def list(self):
        return ["c"]


class AsyncCompletions(Completions):
    async def create(self, *, model, messages):
        return super().create(model=model, messages=messages)


class Client:
    """Its completions are reached as those of OpenAI."""

    engine_id = "not the name of the package"

    def __init__(self, completions):
        self.chat = types.SimpleNamespace(completions=completions)
        self.options = {}

    def with_options(self, **options):
        copy = Client(self.chat.completions)
        copy.options = options
        return copy


class Helper:
    """Anthropic's helper of a stream: each text is in two events."""

    def __init__(self):
        self._events = iter([
            {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {"input_tokens": 7, "output_tokens": 1}}},
            {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
            *(event for text in "abc" for event in (
                {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}},
                {"type": "text", "text": text, "snapshot": text})),
            {"type": "content_block_stop"},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
            {"type": "message_stop"}])

    def __iter__(self):
        return self

    def __next__(self):
        pause(0.002)
        return next(self._events)

    text_stream = ()

    def get_final_text(self):
        return "the end: " + str(list(self))


class Manager:
    def __init__(self):
        self.left = None

    def __enter__(self):
        return Helper()

    def __exit__(self, *what):
        self.left = what


class OfOpenAI(unittest.TestCase):
    def setUp(self):
        self.kept = Kept()

    def test_calls_and_all_else(self):
        client = gpulens.instrument(Client(Completions()), self.kept)
        self.assertEqual(client.chat.completions.create(model="m", messages=["hi"]).choices[0].message.content, "abc")
        stream = client.with_options(timeout=3).chat.completions.create(model="m", messages=[], stream=True)
        self.assertEqual([c.choices[0].delta.content for c in stream if c.choices], ["", "a", "b", "c", None])
        self.assertEqual([(r.model, r.engine, r.prompt_tokens, r.completion_tokens, r.streaming, r.itl_seconds.n, r.metadata) for r in self.kept],
                         [("m", __name__, 12, 3, False, 0, {"finish_reason": "length"}), ("m", __name__, 12, 3, True, 2, {"finish_reason": "stop"})])
        self.assertEqual((client.chat.completions.list(), client.with_options(timeout=3).options), (["c"], {"timeout": 3}))
        self.assertIsInstance(client, Client)
        client.chat.completions.error = KeyError("k")
        with self.assertRaises(KeyError):
            client.chat.completions.create(model="m", messages=[])
        self.assertEqual((self.kept[2].outcome, self.kept[2].error_type), ("error", "KeyError"))

    def test_in_coroutines(self):
        client = gpulens.instrument(Client(AsyncCompletions()), self.kept)
        asyncio.run(client.chat.completions.create(model="m", messages=[]))
        self.assertEqual([r.completion_tokens for r in self.kept], [3])


class OfAnthropic(unittest.TestCase):
    def client(self):
        self.kept, self.manager = Kept(), Manager()
        messages = types.SimpleNamespace(create=Completions().create, stream=lambda **_: self.manager)
        return gpulens.instrument(types.SimpleNamespace(messages=messages), self.kept)

    def test_the_helper_of_a_stream(self):
        for read in (list, lambda stream: list(stream.text_stream), lambda stream: stream.get_final_text()):
            client = self.client()
            with client.messages.stream(model="m") as stream:
                got = read(stream)
            self.assertIn(got if isinstance(got, str) else len(got), (["a", "b", "c"], "the end: []", 3, 11))
            (r,) = self.kept
            self.assertEqual((r.prompt_tokens, r.completion_tokens, r.itl_seconds.n, r.outcome, r.metadata), (7, 3, 2, "ok", {"finish_reason": "end_turn"}))
            self.assertEqual(self.manager.left, (None, None, None))


class OfNone(unittest.TestCase):
    def test_anything_else_is_refused(self):
        nearly = types.SimpleNamespace(chat=types.SimpleNamespace(completions=types.SimpleNamespace(create=None)), generate=5)
        for thing in (5, "engine", object(), nearly, Kept()):
            with self.assertRaisesRegex(TypeError, f"{type(thing).__name__} has no method generate, stream or stream_full .* chat.completions.create"):
                gpulens.instrument(thing, Kept())
        with self.assertRaises(TypeError):
            gpulens.InstrumentedEngine(object(), Kept())

    def test_a_ttft_of_zero_is_not_known(self):
        kept = Kept()
        for ttft in (0.0, 0, 0.25):
            gpulens.instrument(Engine(result={"usage": {"completion_tokens": 3}, "ttft": ttft}), kept).generate([], model="m")
        self.assertEqual([r.ttft_seconds == r.ttft_seconds for r in kept], [False, False, True])


if __name__ == "__main__":
    unittest.main()
