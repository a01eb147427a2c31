"""gpulens.training without PyTorch; torch_training.py has the rest."""
import math
import os
import sys
import types
import unittest
from unittest import mock

import gpulens
from gpulens import InvalidArgumentError, Registry, TrainingMonitor

LLAMA = {"num_params": 70e9, "tokens_per_step": 4096, "gpu_count": 8, "peak_tflops_per_gpu": 989.0}


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Training(unittest.TestCase):
    def setUp(self):
        self.registry, self.clock = Registry(), Clock()

    def monitor(self, **options):
        return TrainingMonitor(**{**LLAMA, **options}, registry=self.registry, clock=self.clock)

    def value(self, name):
        values = [s.value for s in self.registry.snapshot() if s.name == name]
        return values[0] if values else math.nan

    def test_the_numbers_of_the_palm_formula(self):
        monitor = self.monitor(gradient_checkpointing=True)
        with monitor.step() as step:
            self.clock.now += 1.0
            step.loss = 2.5
        self.assertAlmostEqual(self.value("training.mfu"), 0.2174, 4)
        self.assertAlmostEqual(self.value("training.hfu"), 0.2174 * 4 / 3, 4)
        self.assertAlmostEqual(self.value("training.tflops"), 1720.3, 1)
        self.assertEqual(self.value("training.step_time"), 1.0)
        self.assertEqual(self.value("training.loss"), 2.5)
        self.assertIsNone(monitor.mfu_reason)
        self.assertEqual(monitor.metrics.steps, 1)

    def test_the_peak_of_a_product_and_none_of_an_unknown_one(self):
        monitor = self.monitor(peak_tflops_per_gpu=None, product="NVIDIA H100 80GB HBM3")
        monitor.record_step(1.0)
        self.assertAlmostEqual(monitor.metrics.mfu, 0.2174, 3)
        unknown = self.monitor(peak_tflops_per_gpu=None, product="NVIDIA X9")
        unknown.record_step(1.0)
        self.assertTrue(math.isnan(unknown.metrics.mfu))
        self.assertIn('"NVIDIA X9"', unknown.mfu_reason)

    def test_wrong_options_are_named(self):
        for options in ({"num_params": -1}, {"gpu_count": 0}, {"precision": "bf17"}, {"max_norm": 0}, {"peak_tflops_per_gpu": -5}):
            with self.assertRaisesRegex(InvalidArgumentError, next(iter(options)).split("_tflops")[0]):
                self.monitor(**options)

    def test_a_step_that_raises_is_none(self):
        monitor = self.monitor()
        with self.assertRaises(MemoryError), monitor.step():
            raise MemoryError
        self.assertEqual(monitor.metrics.steps, 0)

    def test_a_loss_that_is_no_number_is_counted(self):
        monitor = self.monitor()
        monitor.record_step(1.0, math.nan)
        self.assertTrue(math.isnan(monitor.metrics.loss))
        self.assertEqual(monitor.metrics.nonfinite_losses, 1)

    def test_the_wait_for_data_is_measured_inside_the_loop(self):
        monitor = self.monitor()

        class Loader(list):
            batch_size = 4

            def __iter__(loader):
                for item in list.__iter__(loader):
                    self.clock.now += 0.2
                    yield item

        wrapped = monitor.dataloader.wrap(Loader("abc"))
        self.assertEqual((len(wrapped), wrapped.batch_size), (3, 4))
        for _ in range(2):
            got = []
            for batch in wrapped:
                self.assertAlmostEqual(monitor.metrics.data_wait_seconds, 0.2)
                self.clock.now += 5  # the work on it is no wait
                got.append(batch)
            self.assertEqual("".join(got), "abc")
        self.assertAlmostEqual(self.value("training.dataloader.wait_time"), 6 * 0.2)

    def test_a_loader_that_fails_fails(self):
        def broken():
            yield 1
            raise OSError("the disk")

        with self.assertRaisesRegex(OSError, "the disk"):
            list(self.monitor().dataloader.wrap(broken()))

    def test_checkpoints_have_a_time_and_a_rate(self):
        monitor = self.monitor()
        with monitor.checkpoint.time_save(1 << 30) as save:
            self.clock.now += 0.5
        self.assertEqual(save.seconds, 0.5)
        self.assertEqual(self.value("training.checkpoint.save_duration"), 0.5)
        self.assertEqual(self.value("training.checkpoint.save_bandwidth"), 2.0 * (1 << 30))
        with monitor.checkpoint.time_restore() as restore:
            self.clock.now += 0.3
            restore.size_bytes = 300
        self.assertAlmostEqual(self.value("training.checkpoint.restore_duration"), 0.3)
        self.assertAlmostEqual(monitor.metrics.checkpoint_restore_bytes_per_second, 1000)
        with self.assertRaises(OSError), monitor.checkpoint.time_save():
            self.clock.now += 9
            raise OSError
        self.assertEqual(monitor.metrics.checkpoint_save_seconds, 0.5, "nothing was saved in nine seconds")

    def test_gradients_of_plain_numbers(self):
        monitor = self.monitor(max_norm=6.0)
        self.assertEqual(monitor.gradients.record_step([3.0, [[4.0], [0.0]]]), 5.0)
        self.assertEqual(monitor.gradients.record_step([[3.0, math.nan], [4.0], [math.inf]]), 4.0)
        self.assertEqual(self.value("training.gradient.norm"), 4.0)
        self.assertEqual(self.value("training.gradient.nan_count"), 2)
        self.assertEqual(self.value("training.gradient.clip_rate"), 0.0)
        monitor.gradients.record_step([8.0], max_norm=7.0)
        self.assertAlmostEqual(self.value("training.gradient.clip_rate"), 1 / 3)
        self.assertEqual(monitor.gradients.record_step([512.0], scale=256.0), 2.0)

    def test_parameters_without_a_gradient_do_not_count(self):
        parameter = types.SimpleNamespace
        model = types.SimpleNamespace(parameters=lambda: iter([parameter(grad=[3.0]), parameter(grad=None), parameter(grad=[4.0])]))
        self.assertEqual(self.monitor().gradients.record_step(model), 5.0)
        self.assertIsNone(self.monitor().gradients.record_step([parameter(grad=None)]))

    def test_gradients_by_what_they_have(self):
        class Array:  # the methods that NumPy's and CuPy's have
            def __init__(self, values, kind="f"):
                self.values, self.dtype, self.types = values, types.SimpleNamespace(kind=kind), []

            def ravel(self):
                return self

            def astype(self, name):
                self.types.append(name)
                return self

            def __abs__(self):
                return Array([abs(value) for value in self.values])

            def dot(self, other):
                return sum(a * b for a, b in zip(self.values, other.values))

            def __iter__(self):
                raise AssertionError("one reduction, not a value at a time: on a device each would be awaited")

        class Normed:
            def norm(self):
                return 12.0

        half = Array([300.0, 400.0])
        record = self.monitor().gradients.record_step
        self.assertEqual(record([half]), 500.0)
        self.assertEqual(half.types, ["float64"], "the square of 300 exceeds half precision")
        self.assertEqual(record([Array([3j, 4.0], kind="c")]), 5.0)
        self.assertEqual(record([types.SimpleNamespace(grad=Array([3.0])), types.SimpleNamespace(grad=None), Normed(), 4]), 13.0)
        self.assertEqual(record({"layer": {"w": Array([3.0]), "b": [0.0]}, "out": 4.0}), 5.0)
        self.assertEqual(record([Array([math.nan]), Array([math.inf]), 2.0]), 2.0)
        self.assertEqual(self.value("training.gradient.nan_count"), 2)

    def test_gradients_of_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no NumPy here")
        record = self.monitor().gradients.record_step
        self.assertEqual(record([numpy.full((100, 100), 300, numpy.float16)]), 30_000.0)
        self.assertEqual(record([numpy.array([[3, 4]]), numpy.float32(12)]), 13.0)
        self.assertEqual(record({"a": numpy.array([3j, 4.0])}), 5.0)

    def test_clipped_in_two_of_ten_steps(self):
        monitor = self.monitor(max_norm=1.0)
        for step in range(10):
            monitor.gradients.record_step([1.5 if step < 2 else 0.5])
        self.assertAlmostEqual(self.value("training.gradient.clip_rate"), 0.2)

    def test_rank_and_size_are_those_of_the_launcher(self):
        with mock.patch.dict(os.environ, {"RANK": "3", "WORLD_SIZE": "16"}):
            self.monitor(gpu_count=None).record_step(1.0)
        ranks = {s.attributes["rank"] for s in self.registry.snapshot()}
        self.assertEqual(ranks, {"3"})
        self.assertAlmostEqual(self.value("training.mfu"), 0.2174 / 2, 4)

    def test_the_straggler_is_the_rank_that_is_busy_longest(self):
        rank, ratio = gpulens.find_straggler([1.0, 1.1, 1.6, 1.0])
        self.assertEqual(rank, 2)
        self.assertAlmostEqual(ratio, 1.6 / 1.05)
        self.assertIsNone(gpulens.find_straggler([1.0, math.nan]))

    def test_busy_is_the_time_that_no_other_rank_prolongs(self):
        class Group:
            """Three ranks; the other two are busy for a second."""
            queried = []

            is_available = is_initialized = staticmethod(lambda: True)
            get_world_size = staticmethod(lambda: 3)
            get_rank = staticmethod(lambda: 1)

            def all_gather_object(self, out, mine):
                self.queried.append(mine)
                out[:] = [1.0, mine, 1.0]

        torch = types.SimpleNamespace(distributed=Group(), cuda=types.SimpleNamespace(is_available=lambda: False), Tensor=int)
        with mock.patch.dict(sys.modules, {"torch": torch}):
            monitor = self.monitor(gpu_count=None, compare_ranks_every=2)
            for _ in range(2):
                for _ in monitor.dataloader.wrap([0]):
                    pass
                with monitor.step() as step:
                    self.clock.now += 1.5
                    step.loss = 1.0
                    self.clock.now += 7  # all ranks wait here for one another
        self.assertEqual(Group.queried, [1.5])
        self.assertAlmostEqual(self.value("training.step.busy_ratio"), 1.5)


class Device:
    """A tensor of one element on a device: there once the device has come so far."""

    def __init__(self, value, done):
        self.value, self.done = value, done
        self.device = types.SimpleNamespace(type="cuda")

    def detach(self):
        return self

    def to(self, where, non_blocking):
        assert where == "cpu" and non_blocking
        return self

    def __float__(self):
        assert self.done, "the host waited for the device"
        return self.value


class OnADevice(Training):
    def setUp(self):
        super().setUp()
        case = self

        class Event:
            def record(self, stream):
                self.of = case.newest

            def query(self):
                return self.of.done

            def synchronize(self):
                self.of.done = True

        cuda = types.SimpleNamespace(Event=Event, current_stream=lambda device: None, is_available=lambda: False)
        torch = types.SimpleNamespace(cuda=cuda, Tensor=Device)
        patch = mock.patch.dict(sys.modules, {"torch": torch})
        patch.start()
        self.addCleanup(patch.stop)

    def tensor(self, value, done=False):
        self.newest = Device(value, done)
        return self.newest

    def test_a_loss_on_a_device_is_read_when_it_is_there(self):
        monitor = self.monitor()
        first = self.tensor(2.0)
        monitor.record_step(1.0, first)
        self.assertTrue(math.isnan(self.value("training.loss")), "not there yet, and not waited for")
        monitor.record_step(1.0, self.tensor(3.0))
        first.done = True
        monitor.record_step(1.0)
        self.assertEqual(self.value("training.loss"), 2.0)
        self.assertEqual(monitor.metrics.loss, 3.0, "reading them waits")
        self.assertEqual(monitor.metrics.steps, 3)

    def test_what_waits_is_bounded(self):
        monitor = self.monitor()
        for step in range(200):
            monitor.record_step(1.0, self.tensor(float(step)))
        self.assertGreaterEqual(self.value("training.loss"), 100.0)
        monitor.flush()
        self.assertEqual(self.value("training.loss"), 199.0)


class Callbacks(unittest.TestCase):
    """The order of calls is the framework's; the frameworks themselves are not installed here."""

    def run_with(self, module, parts, body):
        names = module.split(".")
        made = {}
        for end in range(1, len(names) + 1):
            made[".".join(names[:end])] = types.ModuleType(".".join(names[:end]))
        for name, value in parts.items():
            setattr(made[module], name, value)
        with mock.patch.dict(sys.modules, made):
            sys.modules.pop("gpulens.integrations.transformers", None)
            sys.modules.pop("gpulens.integrations.lightning", None)
            body()

    def model(self):
        return types.SimpleNamespace(parameters=lambda: [types.SimpleNamespace(numel=lambda: 500, grad=[3.0, 4.0])])

    def test_transformers(self):
        def body():
            from gpulens.integrations.transformers import GpulensCallback
            clock, registry = Clock(), Registry()
            callback = GpulensCallback(tokens_per_step=10, peak_tflops_per_gpu=1e-9, registry=registry, clock=clock)
            args = types.SimpleNamespace(gradient_checkpointing=False, max_grad_norm=1.0, bf16=True)
            callback.on_train_begin(args, None, None, model=self.model(), optimizer=None)
            for _ in range(2):
                clock.now += 0.25
                callback.on_step_begin(args, None, None)
                clock.now += 2.0
                callback.on_step_end(args, None, None)
            callback.on_log(args, None, None, logs={"loss": 1.25, "grad_norm": 2.0, "learning_rate": 1e-4})
            clock.now += 60
            callback.on_save(args, None, None)
            callback.on_step_begin(args, None, None)
            metrics = callback.monitor.metrics
            self.assertEqual((metrics.steps, metrics.step_seconds, metrics.loss), (2, 2.0, 1.25))
            self.assertEqual(metrics.data_wait_seconds, 0.0, "a checkpoint is no wait for data")
            self.assertEqual((metrics.gradient_norm, metrics.gradient_clip_ratio), (2.0, 1.0))
            self.assertTrue(math.isnan(metrics.gradient_nonfinite_params), "the Trainer does not tell")
            self.assertAlmostEqual(metrics.mfu, 6 * 500 * 10 / (2.0 * 1e3))

        self.run_with("transformers", {"TrainerCallback": object}, body)

    def test_lightning(self):
        def body():
            from gpulens.integrations.lightning import GpulensCallback
            clock, registry = Clock(), Registry()
            callback = GpulensCallback(registry=registry, clock=clock)
            trainer = types.SimpleNamespace(gradient_clip_val=4.0, world_size=2, global_rank=1)
            module = self.model()
            callback.on_train_start(trainer, module)
            clock.now += 0.5
            callback.on_train_batch_start(trainer, module, None, 0)
            callback.on_before_optimizer_step(trainer, module, None)
            clock.now += 1.0
            callback.on_train_batch_end(trainer, module, {"loss": 0.75}, None, 0)
            metrics = callback.monitor.metrics
            self.assertEqual((metrics.steps, metrics.step_seconds, metrics.loss), (1, 1.0, 0.75))
            self.assertEqual((metrics.data_wait_seconds, metrics.gradient_norm, metrics.gradient_clip_ratio), (0.5, 5.0, 1.0))
            self.assertEqual({s.attributes["rank"] for s in registry.snapshot()}, {"1"})

        self.run_with("lightning.pytorch", {"Callback": object}, body)


if __name__ == "__main__":
    unittest.main()
