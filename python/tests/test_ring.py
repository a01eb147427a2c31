"""The actor runtime of gpulens.ring and its telemetry."""
import asyncio
import contextlib
import time
import unittest

import gpulens
from gpulens.ring import (
    KernelAlreadyExistsError,
    KernelEndedError,
    KernelNotFoundError,
    KernelState,
    KernelStateError,
    QueueFullError,
    QueueTimeoutError,
    RingKernelRuntime,
    ring_kernel,
)

TIMEOUT = 20.0  # seconds, of awaited events


async def square(x):
    return x * x


@ring_kernel("adder", queue_size=16, when_full="reject")
async def adder(x: int) -> int:
    return x + 1


@ring_kernel
async def looping(ctx):
    while not ctx.should_terminate:
        await ctx.send(await ctx.receive() * 2)


@contextlib.asynccontextmanager
async def runtime(telemetry=True):
    async with RingKernelRuntime(enable_telemetry=telemetry, registry=gpulens.Registry()) as made:
        yield made


class Ring(unittest.IsolatedAsyncioTestCase):
    async def until(self, condition):
        end = time.monotonic() + TIMEOUT
        while not condition():
            self.assertLess(time.monotonic(), end)
            await asyncio.sleep(0)

    async def test_the_example(self):
        async with runtime() as rt:
            worker = await rt.start(square)
            self.assertEqual(await worker.ask(7, timeout=TIMEOUT), 49)
            t = worker.telemetry
            self.assertEqual((t.messages_received, t.messages_processed, t.messages_sent, t.errors), (1, 1, 1, 0))
            self.assertEqual((t.wait_seconds.n, t.service_seconds.n, t.queue_depth, t.dropped), (1, 1, 0, 0))
            self.assertGreater(t.throughput_10s, 0)
            self.assertGreaterEqual(t.service_seconds.p99, 0)
            self.assertGreater(t.cpu_seconds, 0)
            self.assertIs(t.state, KernelState.ACTIVE)
            self.assertLess(abs(t.start_time - time.time()), TIMEOUT)

    async def test_a_hundred_replies_in_order(self):
        async with runtime() as rt:
            for kernel in (square, looping):
                await rt.start(kernel)
            for i in range(100):
                await rt.send("square", i)
                await rt.send("looping", i)
            self.assertEqual([await rt.receive("square", TIMEOUT) for _ in range(100)], [i * i for i in range(100)])
            self.assertEqual([await rt.receive("looping", TIMEOUT) for _ in range(100)], [i * 2 for i in range(100)])
            for kernel_id in ("square", "looping"):
                t = rt.telemetry(kernel_id)
                self.assertEqual((t.messages_received, t.messages_processed, t.messages_sent), (100, 100, 100), kernel_id)

    async def test_handlers_may_be_no_coroutines_and_answer_nothing(self):
        seen = []
        async with runtime() as rt:
            quiet = await rt.start(seen.append, "quiet")
            for i in range(200):
                await quiet.send(i)
            await self.until(lambda: quiet.telemetry.messages_processed == 200)
            self.assertEqual(seen, list(range(200)))
            self.assertEqual(quiet.telemetry.messages_sent, 0)
            self.assertIsNone(await quiet.ask(1))

    async def test_exceptions_are_counted_and_the_next_message_follows(self):
        async def picky(x):
            if x % 20 == 0:
                raise ValueError(f"no twenties: {x}")
            return x

        async with runtime() as rt:
            kernel = await rt.start(picky)
            for i in range(100):
                await kernel.send(i)
            for _ in range(95):
                await kernel.receive(TIMEOUT)
            t = kernel.telemetry
            self.assertEqual((t.errors, t.messages_processed, t.state), (5, 95, KernelState.ACTIVE))
            self.assertAlmostEqual(t.error_rate, 5 / 95)
            self.assertEqual(t.last_error, "ValueError: no twenties: 80")
            with self.assertRaisesRegex(ValueError, "no twenties: 40"):
                await kernel.ask(40)

    async def test_states(self):
        async with runtime() as rt:
            kernel = await rt.launch(square, "k")
            self.assertIs(rt.state("k"), KernelState.LAUNCHED)
            self.assertIsNone(kernel.telemetry.start_time)
            self.assertEqual(kernel.telemetry.uptime, 0)
            for early in (kernel.send(1), kernel.receive()):
                with self.assertRaisesRegex(KernelStateError, "kernel 'k' from state 'LAUNCHED'"):
                    await early
            await rt.activate("k")
            with self.assertRaisesRegex(KernelStateError, "cannot activate kernel 'k' from state 'ACTIVE'"):
                await rt.activate("k")
            with self.assertRaises(KernelAlreadyExistsError):
                await rt.launch(square, "k")
            await rt.deactivate("k")
            with self.assertRaises(KernelStateError):
                await rt.activate("k")
            for i in range(3):
                await kernel.send(i)
            with self.assertRaises(QueueTimeoutError):
                await kernel.receive(0.02)
            self.assertEqual(kernel.telemetry.queue_depth, 3)
            await rt.reactivate("k")
            self.assertEqual([await kernel.receive(TIMEOUT) for _ in range(3)], [0, 1, 4])
            await rt.terminate("k")
            await rt.terminate("k")
            self.assertIs(rt.state("k"), KernelState.TERMINATED)
            for late in (kernel.send(1), kernel.receive(), rt.send("k", 1)):
                with self.assertRaises(KernelEndedError):
                    await late
            with self.assertRaisesRegex(KeyError, "no kernel 'unknown'; there are no kernels"):
                await rt.send("unknown", 1)
            with self.assertRaisesRegex(KernelNotFoundError, "available: adder, looping"):
                await rt.launch("unknown")

    async def test_bad_kernels(self):
        async with runtime() as rt:
            for bad in ({"queue_size": 0}, {"queue_size": 1 << 25}, {"queue_size": "4"}, {"when_full": "explode"}):
                with self.assertRaises(gpulens.InvalidArgumentError):
                    await rt.launch(square, **bad)
            for bad_id in ("", "k" * 256, 7):
                with self.assertRaises(gpulens.InvalidArgumentError):
                    await rt.launch(square, bad_id)
            with self.assertRaises(gpulens.InvalidArgumentError):
                await rt.launch(42)

    async def test_terminate_wakes_all_waiters(self):
        async with runtime() as rt:
            idle, full = await rt.start(square, "idle"), await rt.start(square, "full", queue_size=1)
            await rt.deactivate("full")
            await full.send(1)
            waits = [asyncio.ensure_future(w) for w in (idle.receive(), full.send(2), full.ask(3), idle.receive())]
            await asyncio.sleep(0.01)
            for kernel_id in ("idle", "full"):  # not after the whole timeout
                await asyncio.wait_for(rt.terminate(kernel_id, timeout=3600), TIMEOUT)
            for wait in waits:
                with self.assertRaises(KernelEndedError):
                    await wait
            self.assertEqual(rt.telemetry("full").dropped_by["terminated"], 1)

    async def test_a_handler_that_will_not_end_is_cancelled(self):
        async def sleeper(x):
            await asyncio.sleep(3600)

        async with runtime() as rt:
            kernel = await rt.start(sleeper)
            queried = asyncio.ensure_future(kernel.ask(1))
            await self.until(lambda: kernel.telemetry.wait_seconds.n == 1)
            await kernel.terminate(timeout=0.02)
            self.assertIs(kernel.state, KernelState.TERMINATED)
            with self.assertRaises(KernelEndedError):
                await queried

    async def test_when_full(self):
        async with runtime() as rt:
            outcomes = {}
            for rule in ("reject", "drop_oldest", "drop_newest", "block"):
                kernel = await rt.start(square, rule, queue_size=2, when_full=rule)
                await rt.deactivate(rule)
                for i in (1, 2, 3):
                    if rule in ("reject", "block"):
                        with contextlib.ExitStack() as stack:
                            if i == 3:
                                stack.enter_context(self.assertRaises(QueueFullError if rule == "reject" else QueueTimeoutError))
                            await kernel.send(i, timeout=0.02)
                    else:
                        await kernel.send(i)
                t = kernel.telemetry
                outcomes[rule] = (t.messages_received, t.queue_depth, {k: v for k, v in t.dropped_by.items() if v})
                await rt.reactivate(rule)
                outcomes[rule] += ([await kernel.receive(TIMEOUT) for _ in range(2)],)
            self.assertEqual(
                outcomes,
                {
                    "reject": (2, 2, {"rejected": 1}, [1, 4]),
                    "drop_oldest": (3, 2, {"oldest": 1}, [4, 9]),
                    "drop_newest": (2, 2, {"newest": 1}, [1, 4]),
                    "block": (2, 2, {"timeout": 1}, [1, 4]),
                },
            )

    async def test_unreceived_replies(self):
        async with runtime() as rt:
            kernel = await rt.start(square, queue_size=2, when_full="reject")
            for i in range(5):
                await kernel.send(i)
                await self.until(lambda: kernel.telemetry.messages_processed == i + 1)
            self.assertEqual(kernel.telemetry.dropped_by["reply"], 3)
            self.assertEqual(kernel.telemetry.messages_sent, 2)

    async def test_a_loop_that_throws_has_failed(self):
        async def fragile(ctx):
            await ctx.send(await ctx.receive())
            await ctx.receive()
            raise RuntimeError("two is too many")

        async with runtime() as rt:
            kernel = await rt.start(fragile)
            await kernel.send(1)
            await kernel.send(2)
            await self.until(lambda: kernel.state is KernelState.FAILED)
            self.assertEqual(await kernel.receive(), 1)
            with self.assertRaisesRegex(KernelEndedError, "FAILED.*two is too many"):
                await kernel.receive()
            t = kernel.telemetry
            self.assertEqual((t.errors, t.messages_processed, t.state), (1, 1, KernelState.FAILED))
            self.assertEqual(t.last_error, "RuntimeError: two is too many")

    async def test_a_loop_that_returns_has_ended(self):
        async def once(ctx):
            self.assertEqual((ctx.kernel_id, ctx.is_active, ctx.state), ("once", True, KernelState.ACTIVE))
            await ctx.wait_active()
            await ctx.send(await ctx.receive())

        async with runtime() as rt:
            for i in range(2):
                kernel = await rt.start(once)
                await kernel.send(i)
                await self.until(lambda: kernel.state is KernelState.TERMINATED)
                self.assertEqual(await kernel.receive(), i)
                self.assertEqual(kernel.telemetry.messages_processed, 1)

    async def test_loops_that_catch_everything_end_all_the_same(self):
        async def stubborn(ctx):
            while not ctx.should_terminate:
                if not ctx.is_active:
                    await ctx.wait_active()
                    continue
                try:
                    await ctx.send(await ctx.receive(timeout=0.01))
                except:  # noqa: E722
                    continue

        async with runtime() as rt:
            kernel = await rt.start(stubborn)
            await rt.deactivate("stubborn")
            await kernel.send(5)
            await asyncio.sleep(0.03)
            await rt.reactivate("stubborn")
            self.assertEqual(await kernel.ask(6, TIMEOUT), 5)
            self.assertEqual(kernel.telemetry.errors, 0, "no message by a deadline is no error")
            await kernel.terminate()
            self.assertIs(kernel.state, KernelState.TERMINATED)

    async def test_a_loop_ends_itself_and_reports_errors(self):
        async def suicidal(ctx):
            await ctx.receive()
            ctx.record_error(ValueError("dealt with"))
            ctx.request_termination()
            await ctx.receive()

        async with runtime() as rt:
            kernel = await rt.start(suicidal)
            await kernel.send(1)
            await self.until(lambda: kernel.state is KernelState.TERMINATED)
            self.assertEqual((kernel.telemetry.errors, kernel.telemetry.messages_processed), (1, 0))

    async def test_concurrent_requests(self):
        async with runtime() as rt:
            kernel = await rt.start(square)
            self.assertEqual(await asyncio.gather(*(kernel.ask(i) for i in range(500))), [i * i for i in range(500)])

    async def test_an_answer_that_is_late_is_dropped(self):
        gate = asyncio.Event()

        async def slow(x):
            await gate.wait()
            return x

        async with runtime() as rt:
            kernel = await rt.start(slow)
            with self.assertRaises(asyncio.TimeoutError):
                await kernel.ask(1, timeout=0.02)
            given_up = asyncio.ensure_future(kernel.ask(3, timeout=TIMEOUT))
            await asyncio.sleep(0)
            given_up.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await given_up
            gate.set()
            self.assertEqual(await kernel.ask(2, TIMEOUT), 2)
            self.assertEqual(kernel.telemetry.dropped_by["reply"], 2)

    async def test_telemetry_is_off_by_default(self):
        async with RingKernelRuntime() as rt:
            kernel = await rt.start(square)
            await kernel.ask(1)
            self.assertFalse(rt.telemetry_enabled)
            self.assertIsNone(kernel.telemetry)
            self.assertIsNone(rt.telemetry("square"))
            self.assertEqual((rt.all_telemetry(), rt.summary()), ({}, {"kernel_count": 1}))
            rt.reset_telemetry()

    async def test_telemetry_survives_until_a_reset(self):
        registry = gpulens.Registry()
        async with RingKernelRuntime(enable_telemetry=True, registry=registry) as rt:
            for name in ("a", "b"):
                await (await rt.start(square, name)).ask(1)
            await rt.terminate("a")
            self.assertEqual(rt.telemetry("a").messages_processed, 1)
            summary = rt.summary()
            self.assertEqual((summary["kernel_count"], summary["total_messages"]), (1, 2))
            self.assertEqual(summary["per_kernel"]["a"]["state"], "terminated")
            rt.reset_telemetry("b")
            self.assertEqual(rt.telemetry("b").messages_processed, 0)
            await rt.ask("b", 1)
            self.assertEqual(rt.telemetry("b").messages_processed, 1)
            rt.reset_telemetry()
            self.assertIsNone(rt.telemetry("a"))
        reported = {(s.name, s.attributes["ring_kernel.id"]): s.value for s in registry.snapshot() if "reason" not in s.attributes}
        self.assertEqual(reported["ring_kernel.messages.processed", "a"], 1)
        self.assertEqual(reported["ring_kernel.messages.processed", "b"], 2)
        self.assertEqual(reported["ring_kernel.messages.received", "b"], 2)
        self.assertEqual(reported["ring_kernel.errors", "b"], 0)


if __name__ == "__main__":
    unittest.main()
