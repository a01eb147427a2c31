"""What the actor runtime is made of: queues, the native collector, messages."""
import asyncio
import math
import threading
import unittest

import gpulens
from gpulens._core import Metered
from gpulens.ring import KernelState, RingKernelRuntime, TelemetryCollector, message
from gpulens.ring.queues import BoundedQueue

TIMEOUT = 20.0  # seconds, of awaited events


class Queues(unittest.IsolatedAsyncioTestCase):
    def queue(self, limit=8, when_full="reject"):
        self.drops = []
        return BoundedQueue(limit, when_full, lambda reason, item: self.drops.append((reason, item)))

    async def test_by_priority_equal_ones_in_order(self):
        queue = self.queue()
        for item, priority in (("A", 100), ("B", 200), ("C", 100), ("D", 150)):
            queue.put_now(item, priority)
        self.assertEqual([queue.get_now() for _ in range(4)], ["B", "D", "A", "C"])

    async def test_the_oldest_of_the_least_important_goes_first(self):
        queue = self.queue(2, "drop_oldest")
        for item, priority in (("vip", 255), ("low", 1), ("lower", 0), ("mid", 2)):
            queue.put_now(item, priority)
        self.assertEqual(self.drops, [("newest", "lower"), ("oldest", "low")])
        self.assertEqual([queue.get_now(), queue.get_now()], ["vip", "mid"])

    async def test_counts(self):
        queue = self.queue()
        for i in range(5):
            queue.put_now(i, 128)
        for _ in range(3):
            await queue.get()
        self.assertEqual((queue.size, queue.peak), (2, 5))
        self.assertEqual(queue.clear(), 2)

    async def test_a_cancelled_getter_hands_its_turn_on(self):
        queue = self.queue()
        first, second = asyncio.ensure_future(queue.get()), asyncio.ensure_future(queue.get())
        await asyncio.sleep(0)
        queue.put_now("x", 128)
        first.cancel()
        self.assertEqual(await asyncio.wait_for(second, TIMEOUT), "x")

    async def test_many_putters_and_getters_lose_nothing(self):
        queue = self.queue(4, "block")

        async def put(n):
            for i in range(200):
                await queue.put((n, i), 128)

        async def get():
            return [await queue.get() for _ in range(250)]

        *_, a, b, c, d = await asyncio.gather(*(put(n) for n in range(5)), *(get() for _ in range(4)))
        self.assertEqual(sorted(a + b + c + d), [(n, i) for n in range(5) for i in range(200)])


class Collector(unittest.TestCase):
    def test_records_by_name(self):
        collector = TelemetryCollector(registry=gpulens.Registry())
        for _ in range(3):
            collector.record_receive("k")
            collector.record_send("k")
        collector.record_error("k")
        collector.record_error("k", ValueError("why"))
        t = collector.get_telemetry("k")
        self.assertEqual((t.messages_received, t.messages_sent, t.messages_processed, t.errors), (3, 3, 3, 2))
        self.assertEqual(t.last_error, "ValueError: why")
        self.assertTrue(math.isnan(t.cpu_seconds))
        self.assertIsNone(collector.get_telemetry("other"))
        self.assertEqual(list(collector.get_all_telemetry()), ["k"])
        collector.reset()
        self.assertEqual(collector.get_telemetry("k").messages_received, 0)

    def test_off(self):
        collector = TelemetryCollector(enabled=False)
        collector.record_receive("k")
        self.assertFalse(collector.kernel("k"))
        self.assertIsNone(collector.get_telemetry("k"))
        self.assertEqual(collector.get_summary()["per_kernel"], {})

    def test_exact_under_threads(self):
        recorder = TelemetryCollector(registry=gpulens.Registry()).kernel("k")

        def count():
            for _ in range(50_000):
                recorder.receive(1)

        threads = [threading.Thread(target=count) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(recorder.telemetry().messages_received, 400_000)

    def test_bad_words(self):
        recorder = TelemetryCollector(registry=gpulens.Registry()).kernel("k")
        with self.assertRaisesRegex(gpulens.InvalidArgumentError, "unknown drop reason.*rejected, timeout"):
            recorder.drop("boredom")
        with self.assertRaisesRegex(gpulens.InvalidArgumentError, "unknown kernel state"):
            recorder.set_state("tired")
        for bad in ((), (1, 2), ("x",), (-1,), (1 << 64,)):
            with self.assertRaises((TypeError, OverflowError)):
                recorder.receive(*bad)
        for bad in ((1,), (1, "x"), ("x", 1.0), (1, math.nan)):
            with self.assertRaises(TypeError):
                recorder.begin(*bad)
        recorder.set_state(KernelState.DEACTIVATED)
        self.assertIs(recorder.telemetry().state, KernelState.DEACTIVATED)


class End(unittest.IsolatedAsyncioTestCase):
    async def test_nothing_is_left_when_a_runtime_has_ended(self):
        before = len(asyncio.all_tasks())
        async with RingKernelRuntime(enable_telemetry=True, registry=gpulens.Registry()) as rt:
            for i in range(10):
                await (await rt.start(abs, f"k{i}")).ask(i)
        self.assertEqual(len(asyncio.all_tasks()), before)
        self.assertEqual(rt.kernel_ids, [])


class Meter(unittest.IsolatedAsyncioTestCase):
    async def test_time_of_its_own_steps(self):
        async def burn(turns):
            for _ in range(turns):
                sum(range(20_000))
                await asyncio.sleep(0)
            return "done"

        collector = TelemetryCollector(registry=gpulens.Registry())
        for turns in (3, 100):
            recorder = collector.kernel(str(turns))
            recorder.set_state(KernelState.ACTIVE)

            async def metered(recorder=recorder, turns=turns):
                return await Metered(burn(turns), recorder)

            result, _ = await asyncio.gather(metered(), burn(turns))
            self.assertEqual(result, "done")
        few, many = (collector.get_telemetry(str(turns)).cpu_seconds for turns in (3, 100))
        self.assertGreater(few, 0)
        self.assertGreater(many, few)

    async def test_what_is_raised_and_thrown_passes_through(self):
        recorder = TelemetryCollector(registry=gpulens.Registry()).kernel("k")
        seen = []

        async def fails():
            await asyncio.sleep(0)
            raise ValueError("from inside")

        async def waits():
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        async def run(work):
            await Metered(work, recorder)

        with self.assertRaisesRegex(ValueError, "from inside"):
            await run(fails())
        task = asyncio.ensure_future(run(waits()))
        await asyncio.sleep(0)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertEqual(seen, ["cancelled"])


class Messages(unittest.TestCase):
    def test_the_decorator_adds_three_fields(self):
        @message
        class Request:
            data: int
            note: str = ""

        first, second = Request(data=1), Request(2, "x", priority=200)
        self.assertEqual((first.data, second.data, second.note, first.priority, second.priority), (1, 2, "x", 128, 200))
        self.assertNotEqual(first.message_id, second.message_id)
        self.assertIsNone(first.correlation_id)
        self.assertEqual(first.reply(data=5).correlation_id, first.message_id)
        self.assertEqual(second.with_correlation(first.message_id).correlation_id, first.message_id)
        self.assertEqual(Request.__name__, "Request")
        for priority in (-1, 256):
            with self.assertRaises(ValueError):
                Request(data=1, priority=priority)


if __name__ == "__main__":
    unittest.main()
