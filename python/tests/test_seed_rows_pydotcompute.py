"""What PyDotCompute's documentation of its telemetry promises, row by row.

Rows whose check is another test are named in test_seed_rows_sdk.py, which also looks whether any row is missing.
"""
import asyncio
import time
import unittest

import gpulens
import test_compat_pydotcompute_snippets as snippets
from gpulens.compat import pydotcompute as compat
from gpulens.compat.pydotcompute import KernelState, KernelTelemetry, RingKernelRuntime
from test_compat_pydotcompute import TIMEOUT, echo
from test_export import get


async def exchange(runtime, kernel_id, count):
    """Sends so many, then takes all the answers."""
    for i in range(count):
        await runtime.send(kernel_id, i)
    return [await runtime.receive(kernel_id, timeout=TIMEOUT) for _ in range(count)]


async def fails_at_twenties(x):
    if x % 20 == 0:
        raise ValueError(x)
    return x


async def hold(seconds):
    """No less than this, whatever a timer makes of it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await asyncio.sleep(0.01)


class Case(unittest.IsolatedAsyncioTestCase):
    async def start(self, runtime, kernel_id="w", function=echo):
        await runtime.launch(kernel_id, function)
        await runtime.activate(kernel_id)
        return runtime.get_telemetry(kernel_id)

    def between(self, low, value, high):
        self.assertLessEqual(low, value)
        self.assertLessEqual(value, high)


class Runtime(Case):
    async def test_rk_002_leaving_terminates_all(self):
        async with RingKernelRuntime(enable_telemetry=True) as runtime:
            seen = [await self.start(runtime, name) for name in ("a", "b")]
            await runtime.launch("c", echo)
        self.assertEqual((runtime.kernel_ids, runtime.is_active), ([], False))
        self.assertEqual([telemetry.state for telemetry in seen], [KernelState.TERMINATED] * 2)

    async def test_rk_003_off_by_default(self):
        async with RingKernelRuntime() as runtime:
            await self.start(runtime)
            await exchange(runtime, "w", 10)
            self.assertIsNone(runtime.get_telemetry("w"))

    async def test_rk_004_known_and_unknown(self):
        async with RingKernelRuntime(enable_telemetry=True) as runtime:
            self.assertIsInstance(await self.start(runtime), KernelTelemetry)
            self.assertIsNone(runtime.get_telemetry("unknown"))

    async def test_rk_005_the_five_keys(self):
        five = {"kernel_count", "total_messages", "total_errors", "aggregate_throughput", "per_kernel"}
        for enabled in (True, False):
            async with RingKernelRuntime(enable_telemetry=enabled) as runtime:
                await self.start(runtime)
                self.assertLessEqual(five, set(runtime.get_summary()))

    async def test_rk_006_one_or_all_restart(self):
        async with RingKernelRuntime(enable_telemetry=True) as runtime:
            a, b = await self.start(runtime, "a"), await self.start(runtime, "b")
            await exchange(runtime, "a", 5)
            await exchange(runtime, "b", 5)
            runtime.reset_telemetry("a")
            self.assertEqual((a.messages_processed, b.messages_processed), (0, 5))
            runtime.reset_telemetry()
            self.assertEqual((a.messages_processed, b.messages_processed, b.messages_received), (0, 0, 0))

    async def test_rk_007_a_registered_one_or_what_there_is(self):
        @compat.ring_kernel(kernel_id="rk-007")
        async def registered(ctx):
            await echo(ctx)

        async with RingKernelRuntime() as runtime:
            await runtime.launch("rk-007")
            await runtime.activate("rk-007")
            self.assertEqual(await exchange(runtime, "rk-007", 3), [0, 1, 2])
            with self.assertRaisesRegex(compat.KernelNotFoundError, "rk-007"):
                await runtime.launch("rk-000")

    async def test_rk_008_activated_once(self):
        async with RingKernelRuntime() as runtime:
            await runtime.launch("w", echo)
            self.assertIs(runtime.get_state("w"), KernelState.LAUNCHED)
            await runtime.activate("w")
            self.assertIs(runtime.get_state("w"), KernelState.ACTIVE)
            with self.assertRaises(compat.KernelStateError):
                await runtime.activate("w")

    async def test_rk_009_a_hundred_in_order(self):
        async with RingKernelRuntime() as runtime:
            await self.start(runtime)
            self.assertEqual(await exchange(runtime, "w", 100), list(range(100)))

    async def test_rk_010_nothing_comes(self):
        async with RingKernelRuntime() as runtime:
            await self.start(runtime)
            begin = time.monotonic()
            with self.assertRaises(asyncio.TimeoutError) as caught:
                await runtime.receive("w", timeout=1.0)
            self.assertGreaterEqual(time.monotonic() - begin, 0.99)
            self.assertIsInstance(caught.exception, TimeoutError)

    async def test_rk_039_after_its_end(self):
        async with RingKernelRuntime(enable_telemetry=True) as runtime:
            await self.start(runtime, "worker")
            await exchange(runtime, "worker", 7)
            await runtime.terminate("worker")
            after = runtime.get_telemetry("worker")
            self.assertEqual((after.messages_processed, after.messages_sent, after.state), (7, 7, KernelState.TERMINATED))
            uptime = after.uptime
            await hold(0.02)
            self.assertEqual(after.uptime, uptime)


class Telemetry(Case):
    async def test_rk_011_the_state_follows(self):
        async with RingKernelRuntime(enable_telemetry=True) as runtime:
            await runtime.launch("w", echo)
            telemetry = runtime.get_telemetry("w")
            states = [telemetry.state]
            for step in (runtime.activate, runtime.deactivate, runtime.reactivate, runtime.terminate):
                await step("w")
                states.append(telemetry.state)
        self.assertEqual(telemetry.kernel_id, "w")
        self.assertEqual(states, [KernelState.LAUNCHED, KernelState.ACTIVE, KernelState.DEACTIVATED, KernelState.ACTIVE,
                                  KernelState.TERMINATED])  # fmt: skip

    async def test_rk_012_accepted_by_the_queue(self):
        config = compat.RingKernelConfig("full", input_queue_size=3, output_queue_size=3, backpressure_strategy="reject")
        async with RingKernelRuntime(enable_telemetry=True) as runtime:
            telemetry = await self.start(runtime)
            await exchange(runtime, "w", 100)
            self.assertEqual(telemetry.messages_received, 100)
            await runtime.launch("full", echo, config=config)
            await runtime.activate("full")
            await runtime.deactivate("full")
            for i in range(3):
                await runtime.send("full", i)
            with self.assertRaises(compat.QueueFullError):
                await runtime.send("full", 3)
            full = runtime.get_telemetry("full")
            self.assertEqual((full.messages_received, full.messages_dropped), (3, 1))

    async def test_rk_013_replies(self):
        async with RingKernelRuntime(enable_telemetry=True) as runtime:
            telemetry = await self.start(runtime)
            await exchange(runtime, "w", 100)
            self.assertEqual(telemetry.messages_sent, 100)

    async def test_rk_014_rk_015_rk_020_those_that_raise(self):
        async with RingKernelRuntime(enable_telemetry=True) as runtime:
            good = await self.start(runtime)
            self.assertEqual(good.error_rate, 0.0)
            await exchange(runtime, "w", 100)
            self.assertEqual((good.messages_processed, good.errors), (100, 0))
            bad = await self.start(runtime, "bad", fails_at_twenties)
            for i in range(100):
                await runtime.send("bad", i)
            for _ in range(95):
                await runtime.receive("bad", timeout=TIMEOUT)
            self.assertEqual((bad.messages_received, bad.messages_processed, bad.errors, bad.messages_sent), (100, 95, 5, 95))
            self.assertIs(bad.state, KernelState.ACTIVE)
            self.assertAlmostEqual(bad.error_rate, 5 / 95)

    async def test_rk_015_a_loop_that_raises_has_failed(self):
        async def loop(ctx):
            await ctx.receive()
            raise ValueError("the weights are gone")

        async with RingKernelRuntime(enable_telemetry=True) as runtime:
            telemetry = await self.start(runtime, "w", loop)
            await runtime.send("w", 1)
            end = time.monotonic() + TIMEOUT
            while telemetry.state is not KernelState.FAILED and time.monotonic() < end:
                await asyncio.sleep(0.001)
            self.assertIs(telemetry.state, KernelState.FAILED)
            self.assertEqual((telemetry.errors, telemetry.messages_processed), (1, 0))
            self.assertIn("the weights are gone", telemetry.last_error)

    async def test_rk_016_rk_017_times_of_the_clock(self):
        async with RingKernelRuntime(enable_telemetry=True) as runtime:
            await runtime.launch("w", echo)
            telemetry = runtime.get_telemetry("w")
            self.assertIsNone(telemetry.start_time)
            self.assertIsNone(telemetry.last_message_time)
            before = time.time()
            await runtime.activate("w")
            self.between(before - 1, telemetry.start_time, time.time() + 1)
            self.assertIsNone(telemetry.last_message_time)
            seen = []
            for _ in range(3):
                before = time.time()
                await exchange(runtime, "w", 1)
                seen.append(telemetry.last_message_time)
                self.between(before - 1, seen[-1], time.time() + 1)
                await hold(0.01)
            self.assertEqual(seen, sorted(set(seen)))

    async def test_rk_018_a_hundred_in_two_seconds(self):
        async with RingKernelRuntime(enable_telemetry=True) as runtime:
            await runtime.launch("w", echo)
            telemetry = runtime.get_telemetry("w")
            self.assertEqual(telemetry.throughput, 0.0)
            await runtime.activate("w")
            await exchange(runtime, "w", 100)
            while telemetry.uptime < 2.0:
                await asyncio.sleep(0.01)
            early, throughput, late = telemetry.uptime, telemetry.throughput, telemetry.uptime
            self.between(100 / late, throughput, 100 / early)
            self.assertLessEqual(throughput, 50.0)

    async def test_rk_019_needs_no_refresh(self):
        async with RingKernelRuntime(enable_telemetry=True) as runtime:
            await runtime.launch("w", echo)
            early = time.monotonic()
            await runtime.activate("w")
            late = time.monotonic()
            await hold(1.0)
            low = time.monotonic() - late
            uptime = runtime.get_telemetry("w").uptime
            self.between(low - 0.001, uptime, time.monotonic() - early + 0.001)
            self.assertGreater(uptime, 0.99)


class Examples(unittest.TestCase):
    def test_rk_036_every_half_second_until_it_is_cancelled(self):
        shown = snippets.Snippets("run_it")
        work = "await worker(runtime)\nawait exchange(runtime, 'worker')\nimport sys\nend = time.monotonic() + 30\n"
        work += "while sys.stdout.getvalue().count('@') < 3 and time.monotonic() < end: await asyncio.sleep(0.01)\n"
        work += "begun = time.monotonic()"
        out = shown.run_it(snippets.PERIODIC.replace("= 5.0", "= 0.5"), **{"Main work": work})
        blocks = out.split("=== Telemetry @ ")[1:]
        self.assertEqual(len(blocks), 3)
        for block in blocks:
            reported = shown.numbers(block)
            self.assertEqual((reported["Kernels"], reported["Messages"], reported["Errors"]), (1, 20, 0))
            self.assertGreater(reported["Throughput"], 0)


class Exported(Case):
    async def test_rk_038_more_than_was_documented(self):
        async def handler(x):
            end = time.thread_time() + 0.001
            while time.thread_time() < end:
                pass
            return x

        config = compat.RingKernelConfig("rk-038", input_queue_size=8, output_queue_size=8, backpressure_strategy="reject")
        async with RingKernelRuntime(enable_telemetry=True) as runtime:
            await runtime.launch("rk-038", handler, config=config)
            await runtime.activate("rk-038")
            for _ in range(5):
                await exchange(runtime, "rk-038", 8)
            await runtime.deactivate("rk-038")
            for i in range(8):
                await runtime.send("rk-038", i)
            with self.assertRaises(compat.QueueFullError):
                await runtime.send("rk-038", 9)
            now = runtime.get_telemetry("rk-038")
            depth, dropped = now.queue_depth, (now.dropped, now.dropped_by["rejected"])  # leaving drops what is queued
            row = runtime.get_summary()["per_kernel"]["rk-038"]
            page = gpulens.to_prometheus()
        self.assertGreaterEqual(now.service_seconds.p50, 0.001)
        self.assertLessEqual(now.service_seconds.p50, now.service_seconds.p99)
        self.assertEqual((now.wait_seconds.n, now.service_seconds.n), (40, 40))
        self.assertGreater(now.wait_seconds.p99, 0)
        self.assertEqual((depth, now.queue_high_water, now.queue_limit), (8, 8, 8))
        self.assertEqual(dropped, (1, 1))
        self.assertGreaterEqual(now.cpu_seconds, 0.04)
        self.assertEqual((row["queue_depth"], row["dropped"], row["dropped_by"]["rejected"]), (8, 1, 1))
        self.assertLessEqual(0.001, row["service_p50_seconds"])
        self.assertLessEqual(row["service_p50_seconds"], row["service_p99_seconds"])
        self.assertLess(0, row["wait_p99_seconds"])
        self.assertLess(0, row["cpu_ratio"])
        for name in ("messages_dropped_total", "wait_duration_seconds_bucket", "service_duration_seconds_bucket", "queue_depth",
                     "cpu_time_seconds_total"):  # fmt: skip
            self.assertRegex(page, rf'(?m)^ring_kernel_{name}{{[^}}]*ring_kernel_id="rk-038"')

    async def test_rk_045_a_page_with_its_counters(self):
        async with RingKernelRuntime(enable_telemetry=True) as runtime:
            await self.start(runtime, "rk-045", fails_at_twenties)
            for i in range(40):
                await runtime.send("rk-045", i)
            for _ in range(38):
                await runtime.receive("rk-045", timeout=TIMEOUT)
            with gpulens.expose("127.0.0.1:0") as exposed:
                page, _ = get(exposed.address)
        for name, value in (("messages_received", 40), ("messages_sent", 38), ("messages_processed", 38), ("errors", 2)):
            self.assertRegex(page, rf'(?m)^# TYPE ring_kernel_{name}(_total)? counter$')
            self.assertRegex(page, rf'(?m)^ring_kernel_{name}_total{{[^}}]*ring_kernel_id="rk-045"[^}}]*}} {value}(\.0)?( |$)')


if __name__ == "__main__":
    unittest.main()
