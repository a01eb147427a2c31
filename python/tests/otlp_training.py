"""gpulens.compat.l9gpu.training over gRPC, at a receiver that is not ours: in_venv.py --otlp. Over TLS: otlp_secure.py.

Rows of the seeds: l9-173 to l9-183 names_units_and_values; l9-214, l9-215 Snippet; l9-216 every_thirty_seconds, end_of_the_interpreter;
l9-217 names_units_and_values, Snippet; l9-218 Peaks; l9-219 to l9-221 Alone, and torch_training.py; l9-222 all of Monitor: no agent.
"""
import inspect
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import types
import unittest

import gpulens
from gpulens.compat.l9gpu import training
from gpulens.compat.l9gpu.training import CheckpointTimer, DataLoaderTimer, GradientTracker, L9GPUTrainingMonitor
from grpc_receiver import GrpcReceiver

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SEED = pathlib.Path(os.environ.get("GPULENS_SHARED", ROOT.parent / "shared"), "seeds/l9gpu-architecture.txt")
LLAMA = {"num_params": 70_000_000_000, "tokens_per_step": 4096, "gpu_count": 8, "peak_tflops_per_gpu": 989.0}
GIB = 1 << 30
MFU = 6 * 70e9 * 4096 / (1.0 * 8 * 989e12)  # 0.2174: of one second for a step
# What the monitor of the test below sends: the rows l9-173 to l9-183 of the seeds, with their units.
SENT = {
    "training.mfu": ("1", MFU),
    "training.tflops": ("TFLOPS", 1720.32),
    "training.step_time": ("s", 1.0),
    "training.gradient.norm": ("1", 4.0),
    "training.gradient.nan_count": ("{param}", 1),
    "training.gradient.clip_rate": ("1", 0.2),
    "training.loss": ("1", 2.5),
    "training.dataloader.wait": ("s", 0.2),
    "training.checkpoint.save_duration": ("s", 0.5),
    "training.checkpoint.save_bandwidth": ("By/s", 2.0 * GIB),
    "training.checkpoint.restore_duration": ("s", 0.3),
}


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def act(monitor, clock):
    """Ten steps with all that can be measured."""

    def slow():
        clock.now += 0.2
        yield "a batch"

    for _ in monitor.dataloader.wrap_dataloader(slow()):
        for step in range(9):
            monitor.gradients.record_step([1.5 if step < 2 else 0.5], max_norm=1.0)
        monitor.gradients.record_step([[4.0], [math.nan]], max_norm=5.0)
    with monitor.checkpoint.time_save(GIB):
        clock.now += 0.5
    with monitor.checkpoint.time_restore():
        clock.now += 0.3
    return monitor.emit_step(2.5, 1.0)


class Monitor(unittest.TestCase):
    def near(self, got, expected, what):
        self.assertAlmostEqual(got, expected, delta=abs(expected) * 1e-4, msg=what)

    def test_names_units_and_values(self):
        clock = Clock()
        with GrpcReceiver() as receiver, L9GPUTrainingMonitor(receiver.url, **LLAMA, clock=clock) as monitor:
            record = act(monitor, clock)
            monitor.exporter.flush()
            reported = receiver.newest()
            for name, (unit, value) in SENT.items():
                self.assertEqual(reported[name][0], unit, name)
                self.near(reported[name][1], value, name)
            self.assertEqual(receiver.resource()["service.name"], "l9gpu-training")
            fields = [record.mfu, record.tflops, record.step_time, record.gradient_norm, record.gradient_nan_count,
                      record.gradient_clip_rate, record.training_loss, record.dataloader_wait, record.checkpoint_save_duration,
                      record.checkpoint_save_bandwidth, record.checkpoint_restore_duration]  # fmt: skip
            for (name, (_, value)), field in zip(SENT.items(), fields):
                self.near(field, value, name)

    def test_what_was_not_measured_is_not_sent(self):
        with GrpcReceiver() as receiver, L9GPUTrainingMonitor(receiver.url, **LLAMA) as monitor:
            record = monitor.emit_step(None, 2.0)
            monitor.exporter.flush()
            reported = receiver.newest()
        self.assertEqual((record.step_time, record.training_loss, record.gradient_norm, record.gradient_nan_count),
                         (2.0, None, None, None))  # fmt: skip
        self.assertIn("training.mfu", reported)
        for name in ("training.loss", "training.gradient.norm", "training.dataloader.wait", "training.checkpoint.save_duration"):
            self.assertNotIn(name, reported)

    def test_collect_records_nothing(self):
        with GrpcReceiver() as receiver, L9GPUTrainingMonitor(receiver.url, **LLAMA) as monitor:
            self.near(monitor.collect(1.0, 2.0).mfu, MFU / 2, "mfu")
            self.assertEqual(monitor.metrics.steps, 0)

    def test_the_loop_of_its_own_documentation(self):
        clock = Clock()

        def slow():
            for batch in range(3):
                clock.now += 0.2
                yield batch

        with GrpcReceiver() as receiver, L9GPUTrainingMonitor(otlp_endpoint=receiver.url, **LLAMA, clock=clock) as monitor:
            monitor.wrap_dataloader(slow())
            for batch in monitor.dataloader:
                monitor.gradients.record_step([0.5], max_norm=1.0)
                monitor.emit_step(loss=float(batch), step_time=1.0)
            with monitor.checkpoint.time_save(checkpoint_size_bytes=GIB):
                clock.now += 0.5
            self.assertEqual(monitor.emit_step(loss=9.0).mfu, None)
            self.assertEqual(monitor.collect().training_loss, None)
            monitor.exporter.flush()
            reported = receiver.newest()
            self.assertEqual((reported["training.loss"][1], reported["training.steps"][1]), (9.0, 3))
            self.near(reported["training.dataloader.wait"][1], 0.2, "wait")
            self.near(reported["training.checkpoint.save_bandwidth"][1], 2.0 * GIB, "bandwidth")

    def test_two_monitors_do_not_mix(self):
        with GrpcReceiver() as one, GrpcReceiver() as two:
            with L9GPUTrainingMonitor(one.url, **LLAMA, service_name="a") as a, L9GPUTrainingMonitor(two.url, **LLAMA) as b:
                a.emit_step(1.0, 1.0)
                b.emit_step(2.0, 1.0)
                b.emit_step(3.0, 1.0)
            self.assertEqual((one.newest()["training.loss"][1], one.newest()["training.steps"][1]), (1.0, 1))
            self.assertEqual((two.newest()["training.loss"][1], two.newest()["training.steps"][1]), (3.0, 2))
            self.assertEqual((one.resource()["service.name"], two.resource()["service.name"]), ("a", "l9gpu-training"))
            names = {sample.name for sample in gpulens.process_registry().snapshot()}
            self.assertFalse([name for name in names if name.startswith("training.")])

    def test_it_sends_every_thirty_seconds(self):
        parameters = inspect.signature(L9GPUTrainingMonitor).parameters
        self.assertEqual((parameters["flush_seconds"].default, parameters["timeout_seconds"].default), (30.0, 5.0))
        self.assertEqual(list(parameters)[:7], ["otlp_endpoint", "num_params", "tokens_per_step", "gpu_count", "peak_tflops_per_gpu",
                                                "gradient_checkpointing", "service_name"])  # fmt: skip
        with GrpcReceiver() as receiver, L9GPUTrainingMonitor(receiver.url, **LLAMA, flush_seconds=0.05) as monitor:
            monitor.emit_step(1.0, 1.0)
            receiver.wait(lambda: len(receiver.requests) >= 3)
            monitor.emit_step(7.0, 1.0)
            receiver.wait(lambda: receiver.newest()["training.loss"][1] == 7.0)

    def test_it_sends_at_the_end_of_the_interpreter(self):
        for ending, code in {"": 0, "raise MemoryError": 1, "raise SystemExit(3)": 3}.items():
            script = ("import sys\nfrom gpulens.compat.l9gpu.training import L9GPUTrainingMonitor\n"
                      f"monitor = L9GPUTrainingMonitor(sys.argv[1], flush_seconds=3600, **{LLAMA})\n"
                      f"monitor.emit_step(1.5, 0.5)\n{ending}\n")  # fmt: skip
            with self.subTest(ending), GrpcReceiver() as receiver:
                done = subprocess.run([sys.executable, "-c", script, receiver.url], capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertEqual(receiver.newest()["training.loss"][1], 1.5)

    def test_an_absent_receiver_disturbs_nothing(self):
        with GrpcReceiver() as receiver:
            url = receiver.url
        with L9GPUTrainingMonitor(url, **LLAMA) as monitor:
            self.assertEqual(monitor.emit_step(1.0, 1.0).training_loss, 1.0)
            with self.assertRaises(gpulens.UnavailableError):
                monitor.exporter.flush()

    def test_a_fork_sends_by_itself(self):
        script = ("import os, sys\nfrom gpulens.compat.l9gpu.training import L9GPUTrainingMonitor\n"
                  f"monitor = L9GPUTrainingMonitor(sys.argv[1], flush_seconds=3600, **{LLAMA})\n"
                  "monitor.emit_step(1.0, 1.0)\nmonitor.exporter.flush(20)\n"
                  "child = os.fork()\n"
                  "if child == 0:\n    monitor.emit_step(9.0, 1.0)\n    monitor.exporter.flush(20)\n    os._exit(0)\n"
                  "print(child, os.waitpid(child, 0)[1])\n")  # fmt: skip
        with GrpcReceiver() as receiver:
            done = subprocess.run([sys.executable, "-c", script, receiver.url], capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            child, code = done.stdout.split()
            self.assertEqual(code, "0", done.stderr)
            of_child = [request for request in receiver.requests if receiver.resource(request)["process.pid"] == int(child)]
            self.assertTrue(of_child)
            self.assertEqual(receiver.newest(of_child)["training.loss"][1], 9.0)
            self.assertEqual(receiver.newest(of_child)["training.steps"][1], 1, "the child counts from 0")
            self.assertEqual(receiver.newest()["training.loss"][1], 1.0, "the parent's end comes last")

    def test_without_a_line_of_code(self):
        code = "import gpulens; gpulens.Counter('unasked').add(1)"
        with GrpcReceiver() as receiver:
            env = {**os.environ, "GPULENS_EXPORT": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
            subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=env)
            self.assertEqual(receiver.newest()["unasked"][1], 1)

    def test_an_endpoint_as_grpc_has_it(self):
        with GrpcReceiver() as receiver, L9GPUTrainingMonitor(f"localhost:{receiver.port}", **LLAMA, headers={"x-tenant": "a"}) as monitor:
            monitor.emit_step(1.0, 1.0)
            monitor.exporter.flush()
            self.assertEqual(receiver.headers[-1]["x-tenant"], "a")

    def test_wrong_options_are_named(self):
        for options, word in (({"num_params": -1}, "num_params"), ({"otlp_endpoint": "ftp://x"}, "http"), ({"flush_seconds": 0}, "interval")):
            with self.assertRaisesRegex(gpulens.InvalidArgumentError, word):
                L9GPUTrainingMonitor(**{"otlp_endpoint": "http://127.0.0.1:1", **LLAMA, **options})


class Snippet(unittest.TestCase):
    """The seed's, with another import line, in a network and with a list of hosts of its own: otel-collector is this machine."""

    def test_verbatim(self):
        if not SEED.exists():
            self.skipTest(f"captures not here: {SEED}")
        text = SEED.read_text()
        begin = text.index("from l9gpu.training import")
        lines = text[begin : text.index("\n)", begin) + 2].splitlines()
        code = "\n".join(["from gpulens.compat.l9gpu.training import L9GPUTrainingMonitor", *lines[1:]])
        with tempfile.TemporaryDirectory() as folder:
            script, hosts = pathlib.Path(folder, "script.py"), pathlib.Path(folder, "hosts")
            script.write_text(code + "\nmonitor.emit_step(loss=2.5, step_time=1.0)\n")
            hosts.write_text("127.0.0.1 localhost otel-collector\n")
            alone = ["unshare", "-rmn", "sh", "-c", 'mount --bind "$0" /etc/hosts && ip link set lo up && exec "$@"', str(hosts)]
            if not shutil.which("unshare") or subprocess.run([*alone, "true"], capture_output=True).returncode:
                self.skipTest("no namespaces for a program of ours here")
            receiver = [sys.executable, str(pathlib.Path(__file__).with_name("grpc_receiver.py")), str(script)]
            done = subprocess.run([*alone, *receiver], capture_output=True, text=True, timeout=180)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"training.mfu": ["1", 0.2174', done.stdout)
        self.assertIn('"training.tflops": ["TFLOPS", 1720.3', done.stdout)
        self.assertIn('"service": "l9gpu-training"', done.stdout)


class Peaks(unittest.TestCase):
    def test_by_real_names(self):
        for product, tflops in {"NVIDIA H100 80GB HBM3": 989.4, "NVIDIA H100 PCIe": 756, "NVIDIA A100-SXM4-80GB": 312, "NVIDIA L4": 121,
                                "NVIDIA B200": 2250, "Tesla T4": 65, "Tesla V100-SXM2-16GB": 125}.items():  # fmt: skip
            self.assertAlmostEqual(training.peak_tflops(product), tflops, 3, product)
            self.assertTrue(gpulens.find_gpu_spec(product).source, product)
        self.assertAlmostEqual(training.peak_tflops("NVIDIA H100 80GB HBM3", "fp8"), 1978.9, 3)

    def test_no_guess(self):
        for product in ("H100", "NVIDIA L40", "NVIDIA H100 80GB HBM4", ""):
            if product == "NVIDIA L40":  # the original finds the L4 in it
                self.assertAlmostEqual(training.peak_tflops(product), 181.05, 3)
                continue
            with self.assertRaisesRegex(gpulens.InvalidArgumentError, "give peak_tflops_per_gpu"):
                training.peak_tflops(product)
        with self.assertRaises(gpulens.InvalidArgumentError):
            training.peak_tflops("Tesla V100-SXM2-16GB", "bf16")

    def test_of_a_monitor(self):
        known = {"num_params": 70e9, "tokens_per_step": 4096, "gpu_count": 8}
        with self.assertRaisesRegex(gpulens.InvalidArgumentError, "give peak_tflops_per_gpu"):
            L9GPUTrainingMonitor("http://127.0.0.1:1", **known)
        with GrpcReceiver() as receiver, L9GPUTrainingMonitor(receiver.url, **known, product="NVIDIA H100 80GB HBM3") as monitor:
            self.assertAlmostEqual(monitor.emit_step(1.0, 1.0).mfu, 0.21733, 4)


class Alone(unittest.TestCase):
    """The parts without a monitor."""

    def test_gradients(self):
        tracker = GradientTracker()
        self.assertIsNone(tracker.gradient_norm)
        parameter = types.SimpleNamespace
        model = types.SimpleNamespace(parameters=lambda: [parameter(grad=[3.0]), parameter(grad=[4.0]), parameter(grad=[math.inf])])
        self.assertEqual(tracker.record_step(model, 1.0), 5.0)
        self.assertEqual((tracker.gradient_norm, tracker.gradient_nan_count, tracker.gradient_clip_rate), (5.0, 1, 1.0))

    def test_loader_and_checkpoint(self):
        clock = Clock()
        loader, checkpoint = DataLoaderTimer(clock=clock), CheckpointTimer(clock=clock)

        def slow():
            clock.now += 0.2
            yield 1

        self.assertEqual(list(loader.wrap_dataloader(slow())), [1])
        self.assertAlmostEqual(loader.dataloader_wait, 0.2)
        self.assertIsNone(checkpoint.checkpoint_save_duration)
        with checkpoint.time_save(GIB):
            clock.now += 0.5
        with checkpoint.time_restore():
            clock.now += 0.3
        self.assertAlmostEqual(checkpoint.checkpoint_save_bandwidth, 2.0 * GIB, 0)
        self.assertAlmostEqual(checkpoint.checkpoint_save_duration, 0.5)
        self.assertAlmostEqual(checkpoint.checkpoint_restore_duration, 0.3)

    def test_by_a_real_clock(self):
        checkpoint = CheckpointTimer()
        with checkpoint.time_save(1000):
            threading.Event().wait(0.1)
        self.assertGreaterEqual(checkpoint.checkpoint_save_duration, 0.1)
        self.assertLessEqual(checkpoint.checkpoint_save_bandwidth, 10_000)


if __name__ == "__main__":
    unittest.main()
