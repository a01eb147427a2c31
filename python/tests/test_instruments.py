"""gpulens.instruments: what the C++ tests show of the counting is not shown again; this is the way from Python."""
import gc
import inspect
import math
import os
import sys
import threading
import unittest

import gpulens
from gpulens import Counter, DoubleCounter, DoubleUpDownCounter, Gauge, Histogram, Registry, UpDownCounter


class WithRegistry(unittest.TestCase):
    def setUp(self):
        self.registry = Registry()

    def samples(self):
        return {(s.name, tuple(sorted(s.attributes.items()))): s for s in self.registry.snapshot()}

    def only(self):
        (sample,) = self.registry.snapshot()
        return sample


class Sums(WithRegistry):
    def test_counts(self):
        counter = Counter("requests", unit="{request}", description="All of them.", registry=self.registry)
        counter.add()
        counter.add(2)
        counter.add(amount=3)
        sample = self.only()
        self.assertEqual((sample.name, sample.kind, sample.unit, sample.description), ("requests", "counter", "{request}", "All of them."))
        self.assertEqual((sample.value, sample.integer, sample.attributes), (6.0, True, {}))
        self.assertTrue(math.isnan(sample.sum))

    def test_up_and_down(self):
        inflight = UpDownCounter("inflight", registry=self.registry)
        inflight.add(3)
        inflight.add(-1)
        self.assertEqual((self.only().value, self.only().kind), (2.0, "up_down_counter"))

    def test_sums_of_fractions(self):
        DoubleCounter("joules", unit="J", registry=self.registry).add(0.5)
        DoubleUpDownCounter("balance", registry=self.registry).add(-0.25)
        values = {s.name: s.value for s in self.registry.snapshot()}
        self.assertEqual(values, {"joules": 0.5, "balance": -0.25})

    def test_a_double_counter_takes_whole_numbers(self):
        DoubleCounter("joules", registry=self.registry).add(2)
        self.assertEqual(self.only().value, 2.0)

    def test_what_cannot_be_kept_is_dropped_and_counted(self):
        counter = Counter("requests", registry=self.registry)
        before = gpulens.dropped_records()
        counter.add(-1)
        DoubleCounter("joules", registry=self.registry).add(math.nan)
        self.assertEqual(gpulens.dropped_records() - before, 2)

    def test_only_type_errors(self):
        counter = Counter("requests", registry=self.registry)
        for call in (
            lambda: counter.add(1.5),
            lambda: counter.add("1"),
            lambda: counter.add(None),
            lambda: counter.add(1 << 63),
            lambda: counter.add(1, {}, 2),
            lambda: counter.add(1, amount=1),
            lambda: counter.add(count=1),
            lambda: counter.add(1, [("a", 1)]),
            lambda: counter.add(1, "route"),
            lambda: counter.add(1, {1: "a"}),
            lambda: counter.add(1, {"a": object()}),
            lambda: counter.add(1, {"a": None}),
            lambda: Counter.add(3, 1),
            lambda: Counter.__new__(Counter).add(1),
            lambda: Gauge("g", registry=self.registry).set(),
            lambda: Gauge("g", registry=self.registry).set("warm"),
            lambda: Histogram("h", registry=self.registry).record(1j),
        ):
            with self.assertRaises(TypeError):
                call()
        self.assertEqual(self.samples()[("requests", ())].value, 0.0)

    def test_numbers_of_other_types_count(self):
        class Whole:
            def __index__(self):
                return 5

        class Real:
            def __float__(self):
                return 0.5

        Counter("whole", registry=self.registry).add(Whole())
        Counter("yes", registry=self.registry).add(True)
        DoubleCounter("real", registry=self.registry).add(Real())
        self.assertEqual({s.name: s.value for s in self.registry.snapshot()}, {"whole": 5.0, "yes": 1.0, "real": 0.5})

    def test_an_exception_of_a_number_is_a_type_error(self):
        class Bad:
            def __index__(self):
                raise ValueError("no number today")

        with self.assertRaises(TypeError):
            Counter("requests", registry=self.registry).add(Bad())


class Attributes(WithRegistry):
    def test_bound_once(self):
        counter = Counter("requests", registry=self.registry)
        ok = counter.bind(method="GET", status=200, stream=True, load=0.5)
        self.assertEqual(self.only().value, 0.0)  # the series exists from here
        ok.add(2)
        self.assertEqual(self.only().attributes, {"method": "GET", "status": "200", "stream": "true", "load": "0.5"})
        self.assertEqual(self.only().value, 2.0)
        counter.bind(load=0.5, stream=True, status=200, method="GET").add(1)
        self.assertEqual(self.only().value, 3.0)

    def test_names_that_are_no_words(self):
        Counter("requests", registry=self.registry).bind({"http.route": "/chat"}, verb="GET").add(1)
        self.assertEqual(self.only().attributes, {"http.route": "/chat", "verb": "GET"})

    def test_with_the_record(self):
        counter = Counter("requests", registry=self.registry)
        counter.add(1, {"status": 500})
        counter.add(1, attributes={"status": 500})
        counter.add(attributes=None)
        Gauge("depth", registry=self.registry).set(17, {"queue": "a"})
        Histogram("wait", registry=self.registry).record(value=2.0, attributes={"queue": "a"})
        got = self.samples()
        self.assertEqual(got["requests", (("status", "500"),)].value, 2.0)
        self.assertEqual(got["requests", ()].value, 1.0)
        self.assertEqual(got["depth", (("queue", "a"),)].value, 17.0)
        self.assertEqual(got["wait", (("queue", "a"),)].count, 1)

    def test_any_mapping(self):
        from collections import OrderedDict
        from types import MappingProxyType

        counter = Counter("requests", registry=self.registry)
        counter.add(1, MappingProxyType({"a": 1}))
        counter.add(1, OrderedDict(a=1))
        self.assertEqual(self.only().value, 2.0)

    def test_bind_rejects_a_number_that_is_too_large(self):
        with self.assertRaisesRegex(ValueError, "64 bits"):
            Counter("requests", registry=self.registry).bind(id=1 << 64)

    def test_text_of_any_language_and_none_that_is_no_text(self):
        Counter("requests", registry=self.registry).bind(city="Zürich", mark="\0").add(1)
        self.assertEqual(self.only().attributes["city"], "Zürich")
        with self.assertRaises(UnicodeEncodeError):
            Counter("requests", registry=self.registry).bind(bad="\ud800")

    def test_above_the_limit_totals_are_kept(self):
        self.registry.limit_series(3)
        counter = Counter("requests", registry=self.registry)
        for user in range(10):
            counter.add(1, {"user": user})
        samples = self.registry.snapshot()
        self.assertEqual(sum(s.value for s in samples), 10.0)
        self.assertIn({"otel.metric.overflow": "true"}, [s.attributes for s in samples])


class Gauges(WithRegistry):
    def test_the_last_writer_wins_and_nan_is_absent(self):
        gauge = Gauge("depth", registry=self.registry)
        self.assertEqual(self.registry.snapshot(), [])
        gauge.set(3)
        gauge.set(-2.5)
        self.assertEqual((self.only().value, self.only().kind), (-2.5, "gauge"))
        gauge.set(math.nan)
        self.assertEqual(self.registry.snapshot(), [])


class Histograms(WithRegistry):
    def test_with_bounds(self):
        histogram = Histogram("wait", unit="ms", bounds=[5, 25, 100.5], registry=self.registry)
        for value in (5, 5.1, 100.5, 101):
            histogram.record(value)
        sample = self.only()
        self.assertEqual((sample.bounds, sample.counts), ([5.0, 25.0, 100.5], [1, 1, 1, 1]))
        self.assertEqual((sample.count, sample.sum, sample.exponential), (4, 211.6, False))
        self.assertTrue(math.isnan(sample.value))

    def test_without_bounds(self):
        histogram = Histogram("wait", registry=self.registry)
        for value in (0, 1, 2, 1000):
            histogram.record(value)
        sample = self.only()
        self.assertEqual((sample.count, sample.zeros, sum(sample.counts), sample.exponential), (4, 1, 3, True))
        base = 2.0 ** (2.0**-sample.scale)
        upper = base ** (sample.offset + len(sample.counts))
        self.assertLessEqual(1000, upper * (1 + 1e-9))

    def test_time_in_the_instruments_unit(self):
        for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)):
            registry = Registry()
            histogram = Histogram("took", unit=unit, registry=registry)
            with histogram.time():
                pass
            (sample,) = registry.snapshot()
            self.assertEqual(sample.count, 1)
            self.assertGreater(sample.sum, 0)
            self.assertLess(sample.sum, 60 * scale)

    def test_a_block_that_raises_is_timed_and_goes_on_raising(self):
        histogram = Histogram("took", unit="s", registry=self.registry)
        with self.assertRaises(KeyError):
            with histogram.time():
                raise KeyError("x")
        self.assertEqual(self.only().count, 1)

    def test_a_timer_outlives_its_histogram(self):
        timer = Histogram("took", unit="s", registry=self.registry).time()
        gc.collect()
        with timer:
            pass
        with timer:  # and may be used again
            pass
        self.assertEqual(self.only().count, 2)

    def test_a_unit_that_is_no_time(self):
        histogram = Histogram("size", unit="By", registry=self.registry)
        before = gpulens.dropped_records()
        with histogram.time():
            pass
        self.assertEqual(gpulens.dropped_records() - before, 1)

    def test_bounds_that_are_none(self):
        for bounds in ([2, 1], [1, 1], [math.nan], [math.inf], list(range(2000))):
            with self.assertRaises(gpulens.InvalidArgumentError):
                Histogram("wait", bounds=bounds, registry=self.registry)


class Making(WithRegistry):
    def test_a_name_that_is_taken(self):
        Counter("requests", registry=self.registry)
        Counter("requests", registry=self.registry).add(1)  # the same again is the same
        self.assertEqual(self.only().value, 1.0)
        with self.assertRaisesRegex(gpulens.InvalidArgumentError, "requests") as caught:
            Gauge("requests", registry=self.registry)
        self.assertIsInstance(caught.exception, ValueError)
        self.assertEqual(caught.exception.code, "invalid_argument")

    def test_names_that_are_none(self):
        for name in ("", "9lives", "a b", "x" * 256):
            with self.assertRaises(gpulens.InvalidArgumentError):
                Counter(name, registry=self.registry)

    def test_after_the_end_of_its_registry(self):
        counter = Counter("requests", registry=self.registry)
        del self.registry
        gc.collect()
        counter.add(1)

    def test_the_process_registry(self):
        Counter("test.process.registry").add(1)
        names = [s.name for s in gpulens.process_registry().snapshot()]
        self.assertIn("test.process.registry", names)
        self.assertIs(gpulens.process_registry(), gpulens.process_registry())

    def test_signatures_for_help(self):
        self.assertEqual(str(inspect.signature(Counter.add)), "(self, /, amount=1, attributes=None)")
        self.assertEqual(str(inspect.signature(Histogram.record)), "(self, /, value, attributes=None)")
        self.assertIn("Never blocks", Counter.add.__doc__)

    def test_a_sample_prints_itself(self):
        Counter("requests", unit="{request}", registry=self.registry).bind(route="/chat").add(3)
        self.assertEqual(repr(self.only()), "Sample(requests route=/chat, counter, 3.0 {request})")


class Threads(WithRegistry):
    def test_exact_under_any_number_of_threads(self):
        counter = Counter("requests", registry=self.registry).bind(route="/chat")
        histogram = Histogram("wait", unit="s", registry=self.registry)

        def work():
            for _ in range(20_000):
                counter.add(1)
                histogram.record(0.25)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            self.registry.snapshot()  # readers block no writer
            threads[0].join(0.01)
        for thread in threads:
            thread.join()
        got = self.samples()
        self.assertEqual(got["requests", (("route", "/chat"),)].value, 160_000)
        self.assertEqual((got["wait", ()].count, got["wait", ()].sum), (160_000, 40_000.0))

    @unittest.skipUnless(hasattr(os, "fork"), "no fork here")
    def test_a_forked_child_restarts_its_counts(self):
        counter = Counter("requests", registry=self.registry)
        counter.add(5)
        child = os.fork()
        if child == 0:
            try:
                counter.add(2)
                os._exit(0 if self.only().value == 2.0 else 1)
            finally:
                os._exit(3)
        _, status = os.waitpid(child, 0)
        self.assertEqual(status, 0)
        self.assertEqual(self.only().value, 5.0)

    def test_nothing_leaks(self):
        counter = Counter("requests", registry=self.registry)
        attributes = {"route": "/chat", "n": 5}
        for _ in range(10):
            counter.add(1, attributes)
        route, before = attributes["route"], sys.getrefcount(attributes["route"])
        for _ in range(1000):
            counter.add(1, attributes)
            counter.bind(attributes)
        self.assertLessEqual(sys.getrefcount(route), before + 1)


if __name__ == "__main__":
    unittest.main()
