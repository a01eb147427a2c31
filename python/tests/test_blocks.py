"""Blocks and decorators of instruments, as users of prometheus_client know them, and gauges with a function."""
import asyncio
import logging
import math
import os
import threading
import time
import unittest

import gpulens
from gpulens import Counter, Gauge, Histogram, Registry, UpDownCounter


class Case(unittest.TestCase):
    def setUp(self):
        self.registry = Registry()
        self.latency = Histogram("latency", unit="s", registry=self.registry)

    def of(self, name):
        (sample,) = [sample for sample in self.registry.snapshot() if sample.name == name]
        return sample


class Timed(Case):
    def test_a_function(self):
        @self.latency.time()
        def add(a, *, b):
            """Adds."""
            time.sleep(0.01)
            return a + b

        self.assertEqual((add(1, b=2), add(3, b=4)), (3, 7))
        self.assertEqual((add.__name__, add.__doc__), ("add", "Adds."))
        self.assertEqual(self.of("latency").count, 2)
        self.assertGreaterEqual(self.of("latency").sum, 0.02)

    def test_one_that_raises_and_one_that_calls_itself(self):
        @self.latency.time()
        def down(n):
            if n == 0:
                raise KeyError("end")
            down(n - 1)

        with self.assertRaises(KeyError):
            down(3)
        self.assertEqual(self.of("latency").count, 4)

    def test_a_coroutine_function(self):
        @self.latency.time()
        async def wait(seconds):
            await asyncio.sleep(seconds)
            return seconds

        async def main():
            return await asyncio.gather(wait(0.02), wait(0.03), wait(0.02))

        self.assertTrue(asyncio.iscoroutinefunction(wait))
        self.assertEqual(asyncio.run(main()), [0.02, 0.03, 0.02])
        self.assertEqual(self.of("latency").count, 3)
        self.assertGreaterEqual(self.of("latency").sum, 0.069)  # each from its call to its end, not to its first await

    def test_generators(self):
        closed = []

        @self.latency.time()
        def numbers():
            got = yield 1
            yield got
            return "end"

        @self.latency.time()
        async def more():
            try:
                yield 1
                yield 2
            finally:
                closed.append(True)

        items = numbers()
        self.assertEqual((next(items), items.send(5)), (1, 5))
        with self.assertRaises(StopIteration) as end:
            next(items)
        self.assertEqual(end.exception.value, "end")

        async def main():
            items = more()
            async for _ in items:
                break
            await items.aclose()

        asyncio.run(main())
        self.assertEqual((self.of("latency").count, closed), (2, [True]))

    def test_methods_and_threads(self):
        latency = self.latency

        class Server:
            @latency.time()
            def handle(self, n):
                return n

        threads = [threading.Thread(target=lambda: [Server().handle(i) for i in range(500)]) for _ in range(4)]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
        self.assertEqual(self.of("latency").count, 2000)

    def test_what_is_no_function(self):
        with self.assertRaisesRegex(TypeError, "a function must be decorated, not int"):
            self.latency.time()(5)

    def test_the_block_is_as_before(self):
        with self.latency.time() as timer:
            self.assertIn("HistogramTimer", repr(timer))
        self.assertEqual(self.of("latency").count, 1)


class Counted(Case):
    def test_exceptions(self):
        errors = Counter("errors", registry=self.registry)

        @errors.bind(route="/chat").count_exceptions(ValueError)
        def parse(text):
            return int(text) / 1

        @errors.count_exceptions((KeyError, OSError))
        async def look(key):
            return {}[key]

        with self.assertRaises(ValueError):
            parse("x")
        with self.assertRaises(TypeError):
            parse(None)
        self.assertEqual(parse("1"), 1)
        with self.assertRaises(KeyError):
            asyncio.run(look("a"))
        with self.assertRaises(RuntimeError):
            with errors.count_exceptions():
                raise RuntimeError
        with self.assertRaises(KeyboardInterrupt):  # no Exception
            with errors.count_exceptions():
                raise KeyboardInterrupt
        values = {sample.attributes.get("route"): sample.value for sample in self.registry.snapshot()}
        self.assertEqual(values, {None: 2, "/chat": 1})
        with self.assertRaises(TypeError):
            errors.count_exceptions("ValueError")

    def test_in_progress(self):
        for made in (Gauge("running", registry=self.registry), UpDownCounter("flying", registry=self.registry)):
            name = "running" if isinstance(made, Gauge) else "flying"

            @made.track_inprogress()
            async def work():
                await asyncio.sleep(0.01)
                return self.of(name).value

            async def main():
                return await asyncio.gather(work(), work(), work())

            self.assertEqual(max(asyncio.run(main())), 3)
            with self.assertRaises(ValueError):
                with made.track_inprogress():
                    self.assertEqual(self.of(name).value, 1)
                    raise ValueError
            self.assertEqual(self.of(name).value, 0)


class Gauges(Case):
    def test_inc_and_dec(self):
        gauge = Gauge("queue", registry=self.registry)
        self.assertEqual(self.registry.snapshot()[1:], [])  # not exported before it is set
        gauge.inc()
        gauge.inc(2.5)
        gauge.dec()
        gauge.dec(amount=0.5)
        self.assertEqual(self.of("queue").value, 2.0)
        gauge.inc(math.nan)  # dropped
        self.assertEqual(self.of("queue").value, 2.0)
        gauge.inc(1, {"route": "/chat"})
        self.assertEqual({sample.attributes.get("route"): sample.value for sample in self.registry.snapshot()[1:]}, {None: 2.0, "/chat": 1.0})
        with self.assertRaisesRegex(TypeError, "expected a number, got str"):
            gauge.inc("1")

    def test_exact_under_threads(self):
        gauge = Gauge("queue", registry=self.registry)

        def work():
            for _ in range(5000):
                gauge.inc(3)
                gauge.dec()

        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
        self.assertEqual(self.of("queue").value, 40000)

    def wait_for(self, name, wanted):
        end = time.monotonic() + 10
        while time.monotonic() < end:
            values = [sample.value for sample in self.registry.snapshot() if sample.name == name]
            if values == wanted:
                return
            time.sleep(0.05)
        self.fail(f"{name} is {values}, not {wanted}")

    def test_a_function(self):
        gauge, values = Gauge("load", registry=self.registry), [1]
        gauge.set_function(lambda: values[0])
        self.assertEqual(self.of("load").value, 1)  # at once
        values[0] = 7
        self.wait_for("load", [7])
        gauge.set_function(lambda: 9)
        self.assertEqual(self.of("load").value, 9)
        gauge.set_function(None)
        gauge.set(3)
        time.sleep(1.3)
        self.assertEqual(self.of("load").value, 3)
        with self.assertRaisesRegex(TypeError, "function must be callable or None, not int"):
            gauge.set_function(5)

    def test_a_function_that_raises_is_unknown(self):
        gauge = Gauge("load", registry=self.registry)
        with self.assertLogs("gpulens", logging.WARNING) as logged:
            gauge.set_function(lambda: {}["load"])
        self.addCleanup(gauge.set_function, None)
        self.assertIn("KeyError: 'load'", logged.output[0])
        self.assertEqual([sample for sample in self.registry.snapshot() if sample.name == "load"], [])

    def test_a_child_goes_on(self):
        gauge = Gauge("load", registry=self.registry)
        gauge.set_function(time.monotonic)
        self.addCleanup(gauge.set_function, None)
        child = os.fork()
        if child == 0:
            try:
                time.sleep(1.5)
                os._exit(0 if self.of("load").value > 0 else 1)
            finally:
                os._exit(3)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


class Windows(unittest.TestCase):
    def test_async_with(self):
        async def main():
            monitor = gpulens.EnergyMonitor()
            async with monitor.window() as window:
                window.mark("work")
                await asyncio.sleep(0.01)
            result = window.estimate()  # it has ended
            with self.assertRaises(ValueError):
                async with monitor.request():
                    raise ValueError
            return result

        self.assertNotEqual(asyncio.run(main()).validity, "running")


if __name__ == "__main__":
    unittest.main()
