"""gpulens.instrument: records of calls, which the calls themselves do not notice."""
import asyncio
import concurrent.futures
import gc
import inspect
import math
import threading
import types
import unittest

import gpulens
from engines import USAGE, AsyncEngine, Broken, Bus, Engine, Kept, pause

CALL = {"model": "m"}


def instrumented(engine, **options):
    kept = Kept()
    return gpulens.instrument(engine, kept, **options), kept


class TheSame(unittest.TestCase):
    def test_results_arguments_and_attributes(self):
        engine = Engine()
        wrapped, kept = instrumented(engine)
        self.assertIs(wrapped.generate(["hi"], temperature=0.5, **CALL), engine.answer)
        self.assertEqual(engine.seen, [(["hi"], "m", {"temperature": 0.5})])
        self.assertEqual(list(wrapped.stream(["hi"], **CALL)), ["a", "b", "c"])
        self.assertEqual((wrapped.list_models(), wrapped.engine_id, len(kept)), (["m"], "fake", 2))
        wrapped.seconds = 0.001
        self.assertEqual(engine.seconds, 0.001)
        self.assertEqual(inspect.signature(wrapped.generate), inspect.signature(engine.generate))
        self.assertEqual(wrapped.generate.__doc__, "What the engine says of it.")
        self.assertIn("list_models", dir(wrapped))
        self.assertFalse(hasattr(wrapped, "agenerate"))
        with self.assertRaisesRegex(AttributeError, "no_such"):
            wrapped.no_such
        with self.assertRaisesRegex(ValueError, "a store, a bus or both"):
            gpulens.instrument(engine)

    def test_a_stream_has_what_the_engines_has(self):
        class Chunks:
            answer = 42
            left = 0

            def __init__(self):
                self.inner = iter("ab")

            def __iter__(self):
                return self

            def __next__(self):
                return next(self.inner)

            def __enter__(self):
                return self

            def __exit__(self, *why):
                self.left += 1

        chunks = Chunks()
        wrapped, kept = instrumented(types.SimpleNamespace(stream=lambda messages: chunks))
        with wrapped.stream([]) as stream:
            self.assertEqual((stream.answer, list(stream)), (42, ["a", "b"]))
        self.assertEqual((chunks.left, kept[0].outcome, len(kept)), (1, "ok", 1))

    def test_a_generator_is_sent_to_and_returns(self):
        def stream(messages):
            got = yield "a"
            yield got
            return "the end"

        wrapped, kept = instrumented(types.SimpleNamespace(stream=stream))
        chunks = wrapped.stream([])
        self.assertEqual((next(chunks), chunks.send("b")), ("a", "b"))
        with self.assertRaises(StopIteration) as ended:
            next(chunks)
        self.assertEqual((ended.exception.value, kept[0].outcome), ("the end", "ok"))

    def test_nothing_of_ours_fails_a_call(self):
        for options in ({"store": Broken()}, {"bus": Broken()}, {"store": Broken(), "energy": Broken()}):
            wrapped = gpulens.instrument(Engine(), tokens_per_chunk=lambda chunk: 1 / 0, **options)
            with self.assertLogs("gpulens", "WARNING") as logs:
                self.assertEqual(wrapped.generate([], **CALL)["content"], "abc")
                self.assertEqual(list(wrapped.stream([], **CALL)), ["a", "b", "c"])
                wrapped.generate([], **CALL)
            self.assertEqual(len(logs.records), 1)
            self.assertGreaterEqual(wrapped.telemetry_failures, 6)


class Outcomes(unittest.TestCase):
    def test_errors_go_on(self):
        wrapped, kept = instrumented(Engine(error=KeyError("k")))
        with self.assertRaises(KeyError):
            wrapped.generate([], **CALL)
        with self.assertRaises(KeyError):
            list(wrapped.stream([], **CALL))
        self.assertEqual([(r.outcome, r.error_type, r.streaming) for r in kept], [("error", "KeyError", False), ("error", "KeyError", True)])
        self.assertGreaterEqual(kept[1].latency_seconds, 0)
        self.assertFalse(math.isnan(kept[1].ttft_seconds))

    def test_cancelled(self):
        engine = Engine()
        wrapped, kept = instrumented(engine)
        chunks = wrapped.stream([], **CALL)
        next(chunks)
        chunks.close()
        self.assertTrue(engine.closed)
        for chunk in wrapped.stream([], **CALL):
            break
        gc.collect()
        with self.assertRaises(KeyboardInterrupt):
            gpulens.instrument(Engine(error=KeyboardInterrupt()), kept).generate([], **CALL)
        self.assertEqual([r.outcome for r in kept], ["cancelled"] * 3)
        self.assertEqual(list(chunks), [])
        self.assertEqual(len(kept), 3)

    def test_ended_once(self):
        wrapped, kept = instrumented(Engine())
        chunks = wrapped.stream([], **CALL)
        list(chunks)
        chunks.close()
        del chunks
        gc.collect()
        self.assertEqual([r.outcome for r in kept], ["ok"])


class Tokens(unittest.TestCase):
    def record(self, chunks, usage=None, **options):
        wrapped, kept = instrumented(Engine(chunks, usage), **options)
        list(wrapped.stream_full([], **CALL))
        return kept[0]

    def test_of_a_result(self):
        wrapped, kept = instrumented(Engine(), agent="a", batch_id="b", warmup=True)
        wrapped.generate([], **CALL)
        r = kept[0]
        self.assertEqual((r.model, r.engine, r.agent, r.batch_id, r.warmup), ("m", "fake", "a", "b", True))
        self.assertEqual((r.prompt_tokens, r.completion_tokens, r.total_tokens, r.cost_usd), (12, 3, 15, 0.25))
        self.assertTrue(math.isnan(r.ttft_seconds) and math.isnan(r.energy_joules))
        self.assertEqual(r.itl_seconds.n, 0)

    def test_in_the_words_of_engines(self):
        openai = types.SimpleNamespace(
            model="gpt", usage=types.SimpleNamespace(prompt_tokens=9, completion_tokens=4, prompt_tokens_details={"cached_tokens": 5}))
        anthropic = {"usage": {"input_tokens": 4, "output_tokens": 4, "cache_read_input_tokens": 5}}
        ollama = {"prompt_eval_count": 9, "eval_count": 4}
        for result, cached in ((openai, 5), (anthropic, 5), (ollama, None)):
            wrapped, kept = instrumented(types.SimpleNamespace(generate=lambda *a, result=result: result))
            wrapped.generate([])
            self.assertEqual((kept[0].prompt_tokens, kept[0].completion_tokens, kept[0].cached_prompt_tokens), (9, 4, cached))
        for nonsense in ({"usage": "many"}, {"usage": {"prompt_tokens": -1, "completion_tokens": True}}, None, 7, object()):
            wrapped, kept = instrumented(types.SimpleNamespace(generate=lambda *a, nonsense=nonsense: nonsense))
            self.assertIs(wrapped.generate([]), nonsense)
            self.assertEqual((kept[0].prompt_tokens, kept[0].completion_tokens, kept[0].outcome), (None, None, "ok"))

    def test_unknown_is_none(self):
        r = self.record(["ab", "cd"])
        self.assertEqual((r.completion_tokens, r.prompt_tokens, r.itl_seconds.n), (None, None, 0))
        self.assertFalse(math.isnan(r.ttft_seconds))

    def test_the_last_usage_wins(self):
        r = self.record(["a", "b", "c"], USAGE)
        self.assertEqual((r.prompt_tokens, r.completion_tokens, r.total_tokens, r.itl_seconds.n), (12, 3, 15, 2))
        r = self.record(["ab", "c"], USAGE)  # which chunk has two?
        self.assertEqual((r.completion_tokens, r.itl_seconds.n), (3, 0))
        r = self.record(["a", "b"], {"prompt_tokens": 1, "completion_tokens": 9}, tokens_per_chunk=1)
        self.assertEqual((r.completion_tokens, r.itl_seconds.n), (9, 1))

    def test_chunks_with_token_counts(self):
        r = self.record([{"content": "x", "token_ids": [1, 2]}, {"content": "y", "token_ids": [3, 4, 5]}])
        self.assertEqual((r.completion_tokens, r.itl_seconds.n), (5, 3))
        running = [{"content": "x", "usage": {"completion_tokens": n, "prompt_tokens": 7}} for n in (1, 4, 5)]
        r = self.record(running)
        self.assertEqual((r.prompt_tokens, r.completion_tokens, r.itl_seconds.n), (7, 5, 4))
        r = self.record(["abc", "de"], tokens_per_chunk=len)
        self.assertEqual((r.completion_tokens, r.itl_seconds.n), (5, 2))

    def test_chunks_without_content(self):
        deltas = [{"role": "assistant", "content": ""}, {"content": "a"}, {"content": "b"}, {}]
        chunks = [{"choices": [{"delta": delta, "finish_reason": None}]} for delta in deltas]
        r = self.record(chunks, {"prompt_tokens": 1, "completion_tokens": 2})
        self.assertEqual((r.completion_tokens, r.itl_seconds.n), (2, 1))


class Time(unittest.TestCase):
    def test_of_the_consumer_is_not_the_engines(self):
        wrapped, kept = instrumented(Engine(["a"] * 5, seconds=0.01), tokens_per_chunk=1)
        chunks = wrapped.stream([], **CALL)
        pause(0.1)
        for _ in chunks:
            pause(0.1)
        r = kept[0]
        self.assertLess(r.latency_seconds, 0.3)
        self.assertGreaterEqual(r.latency_seconds, 0.05)
        self.assertGreater(r.consumer_seconds, 0.55)
        self.assertLess(r.ttft_seconds, r.consumer_seconds / 2)
        self.assertLess(r.itl_seconds.p50, 0.1)
        self.assertEqual(r.itl_seconds.n, 4)

    def test_a_gap_is_spread_over_the_tokens_of_its_chunk(self):
        chunks = [{"content": "x", "token_ids": [1]}, {"content": "y", "token_ids": [2] * 4}]
        wrapped, kept = instrumented(Engine(chunks, seconds=0.02))
        list(wrapped.stream_full([], **CALL))
        r = kept[0]
        self.assertEqual((r.itl_seconds.n, r.itl_seconds.min), (4, r.itl_seconds.max))
        self.assertAlmostEqual(r.itl_seconds.sum, r.latency_seconds - r.ttft_seconds, delta=0.5 * r.latency_seconds)
        self.assertGreaterEqual(r.itl_seconds.sum, 0.02)


class Once(unittest.TestCase):
    def test_a_call_within_a_call(self):
        class Router:
            def __init__(self, inner):
                self.inner = inner

            def generate(self, messages, **kwargs):
                return self.inner.generate(messages, **kwargs)

            def stream(self, messages, **kwargs):
                yield from self.inner.stream(messages, **kwargs)

        inner, kept = instrumented(Engine())
        other = Kept()
        wrapped = gpulens.instrument(Router(inner), kept)
        wrapped.generate([], **CALL)
        list(wrapped.stream([], **CALL))
        self.assertEqual([r.engine for r in kept], ["Router", "Router"])
        inner.generate([], **CALL)  # by itself
        gpulens.instrument(Router(inner), other).generate([], **CALL)  # another store
        self.assertEqual(([r.engine for r in kept[2:]], [r.engine for r in other]), (["fake", "fake"], ["Router"]))

    def test_what_runs_between_two_chunks_is_no_part_of_it(self):
        wrapped, kept = instrumented(Engine())
        for _ in wrapped.stream([], **CALL):
            wrapped.generate([], **CALL)
        self.assertEqual([r.streaming for r in kept], [False] * 3 + [True])

    def test_threads(self):
        wrapped, kept = instrumented(Engine(), tokens_per_chunk=1)
        threads = [threading.Thread(target=lambda: [list(wrapped.stream([], **CALL)) for _ in range(50)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(kept), {r.completion_tokens for r in kept}, wrapped.telemetry_failures), (400, {3}, 0))

    def test_bus(self):
        bus = Bus()
        gpulens.instrument(Engine(), bus=bus).generate(["hi", "there"], **CALL)
        self.assertEqual([kind for kind, _ in bus], ["inference_start", "inference_end", "telemetry_record"])
        self.assertEqual((bus[0][1]["message_count"], bus.records()[0].completion_tokens), (2, 3))


class Coroutines(unittest.TestCase):
    def run_with(self, engine, use, **options):
        wrapped, kept = instrumented(engine, **options)
        return asyncio.run(use(wrapped)), kept

    def test_generate_and_stream(self):
        async def use(wrapped):
            result = await wrapped.generate([], **CALL)
            return result, [chunk async for chunk in wrapped.stream([], **CALL)]

        engine = AsyncEngine(usage=USAGE, seconds=0.005)
        (result, chunks), kept = self.run_with(engine, use)
        self.assertIs(result, engine.answer)
        self.assertEqual(chunks[:3], ["a", "b", "c"])
        self.assertEqual([(r.streaming, r.completion_tokens, r.outcome) for r in kept], [(False, 3, "ok"), (True, 3, "ok")])
        self.assertEqual(kept[1].itl_seconds.n, 2)
        self.assertGreaterEqual(kept[0].latency_seconds, 0.004)

    def test_cancelled(self):
        async def use(wrapped):
            task = asyncio.ensure_future(wrapped.generate([], **CALL))
            await asyncio.sleep(0.01)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

            async def consume():
                async for _ in wrapped.stream([], **CALL):
                    pass

            task = asyncio.ensure_future(consume())
            await asyncio.sleep(0.01)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            chunks = wrapped.stream([], **CALL)
            await chunks.aclose()

        _, kept = self.run_with(AsyncEngine(seconds=60), use)
        self.assertEqual([r.outcome for r in kept], ["cancelled"] * 3)

    def test_errors(self):
        async def use(wrapped):
            with self.assertRaises(OSError):
                await wrapped.generate([], **CALL)
            with self.assertRaises(OSError):
                async for _ in wrapped.stream([], **CALL):
                    pass

        _, kept = self.run_with(AsyncEngine(error=OSError("gone")), use)
        self.assertEqual([r.error_type for r in kept], ["OSError", "OSError"])

    def test_at_once(self):
        async def one(wrapped):
            async for _ in wrapped.stream([], **CALL):
                await asyncio.sleep(0.001)

        async def use(wrapped):
            await asyncio.gather(*(one(wrapped) for _ in range(20)))

        _, kept = self.run_with(AsyncEngine(), use, tokens_per_chunk=1)
        self.assertEqual(([r.completion_tokens for r in kept]), [3] * 20)

    def test_a_future_stays_one(self):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            engine = types.SimpleNamespace(generate=lambda messages: pool.submit(lambda: {"usage": USAGE}))
            wrapped, kept = instrumented(engine)
            future = wrapped.generate([])
            self.assertIsInstance(future, concurrent.futures.Future)
            future.result()
        self.assertEqual([r.completion_tokens for r in kept], [3])


if __name__ == "__main__":
    unittest.main()
