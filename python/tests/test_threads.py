"""Objects that are thread-safe are used by many threads at a time, which a free-threaded Python runs in parallel."""
import copy
import pathlib
import pickle
import tempfile
import threading
import unittest

import gpulens

THREADS = 6


class Case(unittest.TestCase):
    def together(self, *works, times=300):
        """Calls each work in threads of its own, all at a time; an exception of one fails the test."""
        failed, begin = [], threading.Barrier(THREADS * len(works))

        def run(work, number):
            try:
                begin.wait(60)
                for i in range(times):
                    work(number, i)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=run, args=(work, number)) for work in works for number in range(THREADS)]
        [thread.start() for thread in threads], [thread.join(120) for thread in threads]
        self.assertEqual(failed, [])


class Instruments(Case):
    def test_counts_are_exact_while_attributes_change(self):
        registry = gpulens.Registry()
        counter, gauge = gpulens.Counter("a", registry=registry), gpulens.Gauge("b", registry=registry)
        histogram = gpulens.Histogram("c", unit="s", bounds=[1, 2], registry=registry)
        shared = {"route": "/chat", "n": 1}

        def add(number, i):
            counter.add(1, shared)
            gauge.inc()
            with histogram.time():
                pass

        def change(number, i):
            shared["route"] = "/" + "x" * (i % 7)
            shared["n"] = i % 3

        def read(number, i):
            for sample in registry.snapshot():
                repr(sample), pickle.dumps(sample)
            repr(registry), repr(counter.bind(shared))

        self.together(add, change, read)
        samples = registry.snapshot()
        self.assertEqual(sum(sample.value for sample in samples if sample.name == "a"), THREADS * 300)
        self.assertEqual([sample.value for sample in samples if sample.name == "b"], [THREADS * 300])
        self.assertEqual([sample.count for sample in samples if sample.name == "c"], [THREADS * 300])

    def test_blocks_and_functions(self):
        registry = gpulens.Registry()
        errors, running = gpulens.Counter("e", registry=registry), gpulens.Gauge("r", registry=registry)
        load = gpulens.Gauge("l", registry=registry)
        self.addCleanup(load.set_function, None)

        @errors.count_exceptions(ValueError)
        @running.track_inprogress()
        def work(number, i):
            raise ValueError

        def once(number, i):
            with self.assertRaises(ValueError):
                work(number, i)
            load.set_function((lambda: i) if i % 2 else None)

        self.together(once)
        values = {sample.name: sample.value for sample in registry.snapshot()}
        self.assertEqual((values["e"], values["r"]), (THREADS * 300, 0))


class Values(Case):
    def test_pickles_and_copies(self):
        values = [gpulens.describe([1, 2, 4]), gpulens.find_gpu_spec("NVIDIA L4"), gpulens.InferenceRecord(model="m")]

        def work(number, i):
            for value in values:
                self.assertEqual(repr(pickle.loads(pickle.dumps(value))), repr(value))
                copy.deepcopy(value)
            self.assertEqual(gpulens.describe(range(i + 1)).n, i + 1)

        self.together(work)

    def test_a_list_that_changes(self):
        numbers = [1.0] * 50

        def describe(number, i):
            self.assertGreaterEqual(gpulens.describe(numbers).n, 0)

        def change(number, i):
            numbers.append(float(i))
            del numbers[:2]

        self.together(describe, change)

    def test_a_detector_keeps_its_memory(self):
        detector = gpulens.SteadyStateDetector(window=8)
        self.together(lambda number, i: detector.record(float(i % 5)), lambda number, i: detector.reset() if i % 50 == 0 else repr(detector))


class Handles(Case):
    def test_an_exporter_is_closed_while_it_is_used(self):
        for _ in range(5):
            page = gpulens.expose("127.0.0.1:0", registry=gpulens.Registry())

            def use(number, i):
                self.assertIsInstance(page.status(), str)
                repr(page), page.address, page.ok, page.reason

            self.together(use, lambda number, i: page.close() if i == 20 else None, times=40)
            self.assertEqual(page.status(), "the exporter is closed")

    def test_a_store_and_its_records(self):
        folder = tempfile.TemporaryDirectory(prefix="gpulens-threads-")
        self.addCleanup(folder.cleanup)
        record = gpulens.InferenceRecord(model="m")
        with gpulens.InferenceStore(pathlib.Path(folder.name) / "a.db", when_full="block") as store:

            def write(number, i):
                store.record(record)
                with store.begin(model="n") as call:
                    call.add_tokens(1)

            def change(number, i):
                record.model = "m" * (i % 9 + 1)
                repr(store), store.health

            self.together(write, change)
            store.flush(60)
            self.assertEqual((store.count(), store.health.dropped), (THREADS * 600, 0))

    def test_windows(self):
        monitor = gpulens.EnergyMonitor()

        def work(number, i):
            with monitor.request() as request:
                request.add_tokens(1)
            repr(request), repr(monitor), monitor.devices

        self.together(work, times=20)


if __name__ == "__main__":
    unittest.main()
