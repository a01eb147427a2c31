"""Value objects are pickled and copied exactly, also to other processes; handles refuse, and name what to do."""
import asyncio
import copy
import dataclasses
import importlib
import inspect
import math
import multiprocessing
import pathlib
import pickle
import pkgutil
import tempfile
import unittest

import gpulens
import gpulens.ring
from gpulens import _core

SPEC = gpulens.find_gpu_spec("NVIDIA H100 80GB HBM3")


class Meter(gpulens.EnergySource):
    """A device that draws 250 W; the answer of read() is the test's."""

    name = "meter"

    def __init__(self, answer=None):
        self.answer = answer

    def open(self):
        return [gpulens.EnergyDevice("socket-1", "a name", part="cpu", most_watts=3000.0, counter_step_joules=0.5, counter_lag_seconds=0.25)]

    def read(self, device):
        if self.answer is not None:
            return self.answer
        return gpulens.SourceReading(watts=250, utilization_ratio=0.5, memory_used_bytes=1 << 34)


@gpulens.ring.message
class Question:
    text: str = ""


def state(value):
    """All that a value has, such that NaN equals NaN: the text of its state, and of the values in it."""
    if hasattr(value, "__setstate__") and type(value).__module__ == "gpulens._core":
        return type(value).__name__, {key: state(item) for key, item in value.__getstate__().items()}
    if isinstance(value, (list, tuple)):
        return [state(item) for item in value]
    if isinstance(value, dict):
        return {key: state(item) for key, item in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return type(value).__name__, state(vars(value))
    return repr(value)


def public(value):
    """The public attributes, as repr has them."""
    names = [name for name in dir(value) if not name.startswith("_") and not callable(getattr(value, name))]
    return {name: state(getattr(value, name)) for name in names}


def echo(connection):
    """A process of its own: returns what it gets, and what it is there."""
    while True:
        value = connection.recv()
        if value is None:
            return
        connection.send((value, repr(value)))


def metered():
    """Values that a monitor of a power of 250 W gives."""
    monitor = gpulens.EnergyMonitor(sources=[Meter()], interval_seconds=0.005)
    begin = __import__("time").monotonic()
    with monitor.window() as window:
        window.mark("work")
        __import__("time").sleep(0.05)
    readings = monitor.history(begin, begin + 1)
    return [window.result, window.phase("nothing"), window.result.ticks, window.result.by_device[0], readings[0], monitor.devices[0]]


def kernel():
    collector = gpulens.TelemetryCollector(registry=gpulens.Registry())
    recorder = collector.kernel("square")
    recorder.set_state("active")
    recorder.take(recorder.receive(3) and 2, 0.25)
    recorder.processed(0.5, True)
    recorder.drop("oldest", 3)
    recorder.error("ValueError: no")
    return collector.get_telemetry("square")


def samples():
    registry = gpulens.Registry()
    gpulens.Counter("a", unit="{request}", description="A text.", registry=registry).bind(route="/chat").add(3)
    gpulens.Histogram("b", bounds=[1, 2.5], registry=registry).record(2)
    wide = gpulens.Histogram("c", registry=registry)
    wide.record(0.3), wide.record(0)
    gpulens.Gauge("d", registry=registry).set(-1.5)
    return registry.snapshot()


def training():
    monitor = gpulens.TrainingMonitor(num_params=1e9, tokens_per_step=1e3, peak_tflops_per_gpu=1, registry=gpulens.Registry())
    monitor.record_step(2.0, 1.5)
    monitor.record_gradient(0.5, 2)
    return monitor.metrics


def stored(folder):
    store = gpulens.InferenceStore(folder / "calls.db")
    store.record(model="m", engine="e", prompt_tokens=5, completion_tokens=3, latency_seconds=0.5, itl_seconds=gpulens.describe([0.1, 0.2]))
    (summary,) = store.summary()
    values = [store.health, summary, summary.call_means]
    store.close()
    return values


def run_of(folder):
    with gpulens.experiment("a", db=folder / "runs.db", energy=False) as experiment:
        experiment.log_metric("loss", 0.5)
    return [experiment.energy, experiment.health, gpulens.load_run(experiment.id, db=folder / "runs.db")]


class Values(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpulens-values-")
        cls.addClassCleanup(folder.cleanup)
        path = pathlib.Path(folder.name)
        record = gpulens.InferenceRecord(model="m", ttft_seconds=0.25, itl_seconds=gpulens.describe([1, 2, 4]), metadata={"a": 1})
        reading = gpulens.SourceReading(joules=5, watts=300, processes=2)
        cls.values = [gpulens.describe([]), gpulens.describe([1.0]), gpulens.describe([0.1, 0.2, 0.7]), SPEC, record, reading]
        cls.values += [_core.read_vllm_page(b"# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting 3\n"), training(), kernel()]
        cls.values += samples() + metered() + stored(path) + run_of(path)

    def test_each_kind_is_here(self):
        """So a new class of values is added to these tests."""
        kinds = {name for name, kind in vars(_core).items() if isinstance(kind, type) and "__setstate__" in vars(kind)}
        self.assertEqual(kinds, {type(value).__name__ for value in self.values if type(value).__module__ == "gpulens._core"})

    def test_each_class_is_a_value_or_refuses(self):
        for name, kind in vars(_core).items():
            if isinstance(kind, type):
                self.assertTrue({"__setstate__", "__reduce__"} & set(vars(kind)), name)

    def test_pickles_are_exact(self):
        for value in self.values:
            for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
                again = pickle.loads(pickle.dumps(value, protocol))
                self.assertIs(type(again), type(value))
                self.assertEqual(state(again), state(value))
                self.assertEqual(public(again), public(value))
                self.assertEqual(repr(again), repr(value))

    def test_copies_are_exact(self):
        for value in self.values:
            for again in (copy.copy(value), copy.deepcopy(value), copy.deepcopy([value])[0]):
                self.assertEqual((type(again), state(again)), (type(value), state(value)))

    def test_no_member_is_forgotten(self):
        """Each attribute is a member of the state, or follows from one."""
        derived = {"EnergyResult": {"valid", "gpu_energy"}}
        for value in self.values:
            name = type(value).__name__
            if type(value).__module__ == "gpulens._core":
                self.assertEqual(set(public(value)) - set(value.__getstate__()) - derived.get(name, set()), set(), name)

    def test_the_bits_of_a_number_stay(self):
        for number in (math.inf, -math.inf, 5e-324, -0.0, 0.1):
            (again,) = copy.copy(gpulens.SourceReading(joules=number)).__getstate__(),
            self.assertEqual(repr(again["joules"]), repr(number))

    def test_across_processes(self):
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=echo, args=(there,), daemon=True)
        process.start()
        self.addCleanup(process.join, 20)
        self.addCleanup(here.send, None)
        instrument = gpulens.Counter("test.pickled", unit="{request}").bind(route="/chat")
        for value in [*self.values, gpulens.ring.QueueFullError("a", 3), instrument]:
            here.send(value)
            self.assertTrue(here.poll(60), "the process ended")
            again, text = here.recv()
            self.assertEqual(text, repr(value))
            self.assertEqual(state(again), state(value))

    def test_a_pickle_of_a_newer_version(self):
        state = {**SPEC.__getstate__(), "novel": 1}
        with self.assertRaisesRegex(gpulens.DataLossError, 'GpuHardwareSpec: the pickle has a field "novel".*newer'):
            type(SPEC).__new__(type(SPEC)).__setstate__(state)

    def test_a_pickle_of_an_older_version(self):
        older = {key: value for key, value in SPEC.__getstate__().items() if key != "tdp_watts"}
        made = type(SPEC).__new__(type(SPEC))
        made.__setstate__(older)
        self.assertTrue(math.isnan(made.tdp_watts))
        self.assertEqual((made.product, made.peak_flops("bf16")), (SPEC.product, 989.4e12))

    def test_what_is_no_state(self):
        for state, kind, text in (
            ({"tdp_watts": "high"}, gpulens.DataLossError, 'GpuHardwareSpec: the field "tdp_watts" of the pickle has another type'),
            ({5: 1}, TypeError, "the name of a field must be a str, not int"),
        ):
            with self.assertRaisesRegex(kind, text):
                type(SPEC).__new__(type(SPEC)).__setstate__(state)


class OfPython(unittest.TestCase):
    def test_messages_and_states(self):
        question = Question(text="a", priority=200)
        for value in (question, question.reply(text="b"), gpulens.ring.Message(), *gpulens.ring.KernelState):
            for again in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
                self.assertEqual((type(again), again), (type(value), value))

    def test_records_of_every_module(self):
        """Dataclasses that need no argument, those of gpulens.compat included."""
        tried = set()
        for info in pkgutil.walk_packages(gpulens.__path__, "gpulens."):
            if info.name.startswith(("gpulens.integrations.", "gpulens._core")):
                continue
            for kind in vars(importlib.import_module(info.name)).values():
                if not isinstance(kind, type) or not dataclasses.is_dataclass(kind) or kind in tried:
                    continue
                try:
                    value = kind()
                except TypeError:
                    continue
                tried.add(kind)
                self.assertEqual(state(pickle.loads(pickle.dumps(value))), state(value), kind)
                self.assertEqual(state(copy.deepcopy(value)), state(value), kind)
        self.assertGreater(len(tried), 20)


class Handles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpulens-handles-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def refuses(self, value, what):
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with self.assertRaisesRegex(TypeError, f"{type(value).__name__} cannot be pickled or copied: .*{what}"):
                use(value)

    def test_they_name_what_to_do(self):
        with gpulens.InferenceStore(self.folder / "a.db") as store:
            self.refuses(store, r"InferenceStore\(store.path\)")
            with store.begin(model="m") as call:
                self.refuses(call, "send the record")
        monitor = gpulens.EnergyMonitor(sources=[Meter()])
        self.refuses(monitor, "in the other process")
        self.refuses(monitor.window(), "send its result")
        self.refuses(gpulens.Registry(), "send its snapshot")
        self.refuses(gpulens.Histogram("test.h").time(), "the histogram")
        with gpulens.expose("127.0.0.1:0") as page:
            self.refuses(page, "start one")
        with gpulens.experiment("a", db=self.folder / "runs.db", energy=False) as experiment:
            self.refuses(experiment, "load_run")
        collector = gpulens.TelemetryCollector(registry=gpulens.Registry())
        self.refuses(collector, "get_all_telemetry")
        self.refuses(collector.kernel("a"), "get_all_telemetry")
        self.refuses(gpulens.RingKernelRuntime(), "in the other process")
        self.refuses(gpulens.SteadyStateDetector(), "same options")

    def test_of_a_kernel(self):
        async def main():
            async with gpulens.RingKernelRuntime() as runtime:
                self.refuses(await runtime.start(lambda x: x, "a"), "telemetry")

        asyncio.run(main())

    def test_what_holds_a_handle_names_it(self):
        monitor = gpulens.TrainingMonitor(registry=gpulens.Registry())
        with self.assertRaisesRegex(TypeError, "TrainingRecorder cannot be pickled or copied: make a TrainingMonitor"):
            pickle.dumps(monitor)

    def test_an_instrument_is_made_again_by_its_name(self):
        for made in (
            gpulens.Counter("test.again.counter", unit="{request}", description="A text."),
            gpulens.UpDownCounter("test.again.up"),
            gpulens.DoubleCounter("test.again.double").bind({"http.route": "/chat", "n": 5}),
            gpulens.DoubleUpDownCounter("test.again.updown"),
            gpulens.Gauge("test.again.gauge", unit="s").bind(a="b"),
            gpulens.Histogram("test.again.histogram", bounds=[1, 2]),
            gpulens.Histogram("test.again.exponential", unit="s"),
        ):
            again = pickle.loads(pickle.dumps(made))
            self.assertIs(type(again), type(made))
            self.assertEqual(repr(again), repr(made))
            self.assertIs(copy.copy(made), made)
            self.assertIs(copy.deepcopy({"a": made})["a"], made)
        self.assertIs(type(pickle.loads(pickle.dumps(gpulens.process_registry()))), gpulens.Registry)
        with self.assertRaisesRegex(TypeError, "make it in the other process"):
            pickle.dumps(gpulens.Counter("a", registry=gpulens.Registry()))


class Errors(unittest.TestCase):
    GIVEN = {
        "kernel_id": "a", "available": ["b"], "current_state": "LAUNCHED", "operation": "use", "why": "so", "queue_size": 3, "timeout": 1.5,
        "detail": "what failed", "message_type": int, "cause": ValueError("x"),
    }

    def test_each_one_crosses_a_process(self):
        kinds = set()
        for module in ("gpulens.errors", "gpulens.ring.errors", "gpulens.compat.pydotcompute"):
            module = importlib.import_module(module)
            kinds |= {kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, gpulens.Error)}
        self.assertGreater(len(kinds), 15)
        for kind in kinds:
            names = [name for name in inspect.signature(kind.__init__).parameters if name not in ("self", "args", "kwargs")]
            error = kind(**{name: self.GIVEN[name] for name in names})
            for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
                self.assertEqual((type(again), str(again), again.args, repr(vars(again))), (kind, str(error), error.args, repr(vars(error))))


class Reprs(unittest.TestCase):
    def test_none_is_an_address(self):
        folder = tempfile.TemporaryDirectory(prefix="gpulens-reprs-")
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name)
        registry = gpulens.Registry()
        counter = gpulens.Counter("http.server.requests", unit="{request}", registry=registry)
        monitor = gpulens.EnergyMonitor(sources=[Meter()])
        absent = gpulens.EnergyMonitor(devices=["no-such-device"])
        with gpulens.InferenceStore(path / "a.db") as store, gpulens.expose("127.0.0.1:0") as page:
            expected = {
                r"Counter\('http.server.requests', unit='\{request\}'\)": counter,
                r"Counter\('http.server.requests', unit='\{request\}', attributes=\{'route': '/chat'\}\)": counter.bind(route="/chat"),
                r"Gauge\('queue'\)": gpulens.Gauge("queue", registry=registry),
                r"Histogram\('h', unit='s'\)": gpulens.Histogram("h", unit="s", registry=registry),
                r"<Registry, \d+ series>": registry,
                r"<Registry of the process, \d+ series>": gpulens.process_registry(),
                r"<InferenceStore '.*/a\.db', 0 stored, 0 queued, 0 dropped>": store,
                r"StoreHealth\(stored=0, queued=0, dropped=0, rejected=0, crashed=0, last_error=''.*\)": store.health,
                r"<EnergyMonitor cpu_rapl, 1 device>": monitor,
                r"<EnergyMonitor none: .+>": absent,
                r"<EnergyWindow: .*>": monitor.window(),
                r"EnergyTicks\(count=\d+, mean_power_watts=.*, peak_temperature_celsius=nan\)": monitor.window().result.ticks,
                r"<Exporter http://127.0.0.1:\d+/metrics>": page,
                r"TrainingMetrics\(steps=0, .*\)": gpulens.TrainingMonitor(registry=registry).metrics,
                r"SteadyStateDetector\(recorded=0, steady=False\)": gpulens.SteadyStateDetector(),
                r"SourceReading\(joules=5\.0, watts=nan, .*\)": gpulens.SourceReading(joules=5),
            }
            for pattern, value in expected.items():
                self.assertRegex(repr(value), f"^{pattern}$")

    def test_public_classes_have_one(self):
        bare = []
        for info in pkgutil.iter_modules(gpulens.__path__, "gpulens."):
            if info.name in ("gpulens.integrations", "gpulens._core", "gpulens.compat"):
                continue
            module = importlib.import_module(info.name)
            for name in getattr(module, "__all__", []):
                kind = getattr(module, name)
                if isinstance(kind, type) and kind.__module__ == "gpulens._core" and kind.__repr__ is object.__repr__:
                    bare.append(name)
        self.assertEqual(bare, [])


class Types(unittest.TestCase):
    """What is of a wrong type is reported in a sentence, not in the signatures of nanobind."""

    def test_numbers(self):
        self.assertEqual(gpulens.describe(value for value in (1, 2.5, True)).n, 3)
        self.assertEqual(gpulens.describe({1.0, 3.0}).mean, 2)
        self.assertEqual(gpulens.percentile(iter([3, 1, 2]), 0.5), 2)
        for call, text in (
            (lambda: gpulens.describe(None), "values must be an iterable of numbers, not NoneType"),
            (lambda: gpulens.describe("12"), "values must be numbers, not str"),
            (lambda: gpulens.describe([1, "2"]), "values must be numbers, not str"),
            (lambda: gpulens.percentile(5, 0.5), "values must be an iterable of numbers, not int"),
            (lambda: gpulens.inter_token_latency([None]), "arrivals must be numbers, not NoneType"),
            (lambda: gpulens.find_straggler(1.5), "busy_seconds must be an iterable of numbers, not float"),
            (lambda: gpulens.Histogram("h", bounds=5), "bounds must be an iterable of numbers, not int"),
            (lambda: gpulens.Counter(5), "name must be a str, not int"),
            (lambda: gpulens.Histogram(None), "name must be a str, not NoneType"),
            (lambda: gpulens.Counter("a", unit=1), "unit must be a str, not int"),
        ):
            with self.assertRaises(TypeError) as raised:
                call()
            self.assertEqual(str(raised.exception), text)

    def test_an_error_of_the_iterable_is_its_own(self):
        def numbers():
            yield 1.0
            raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            gpulens.describe(numbers())

    def test_a_source_that_returns_a_number(self):
        monitor = gpulens.EnergyMonitor(sources=[Meter(300)], interval_seconds=0.005)
        with monitor.window() as window:
            pass
        self.assertIn("read() must return a gpulens.SourceReading, not int", f"{window.result.reason} {monitor.reason}")

    def test_a_source_that_opens_no_devices(self):
        class Named(Meter):
            def open(self):
                return ["socket-1"]

        self.assertIn("open() must return gpulens.EnergyDevice objects, not str", gpulens.EnergyMonitor(sources=[Named()]).reason)


if __name__ == "__main__":
    unittest.main()
