"""The documented signatures, one a line as their documents give them, compared with those of gpulens.compat: names, order, kinds, defaults
and types. Where the documents are next to the checkout, the lines are compared with them, too, so that none is missing or bent.

What ours do beyond them is stated in BEYOND; what their type hints leave to protocols, in HINTS.
"""
import ast
import dataclasses
import importlib
import inspect
import os
import pathlib
import re
import typing
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SEEDS = pathlib.Path(os.environ.get("GPULENS_SHARED", ROOT.parent / "shared"), "seeds")

# As its document has them, one a line; methods with their class before them, which there is the heading.
OPENJARVIS = pathlib.Path(__file__).with_name("openjarvis_signatures.txt").read_text(encoding="utf-8").splitlines()

# What the seeds name without a signature, as the reference and the projects' other pages give it.
MORE = {
    "gpulens.compat.openjarvis": """
TelemetryAggregator(db_path)
TelemetryAggregator.per_model_stats(*, since = None, until = None, current_methodology_only = False)
TelemetryAggregator.per_engine_stats(*, since = None, until = None, current_methodology_only = False)
TelemetryAggregator.summary(*, since = None, until = None, current_methodology_only = False)
TelemetryAggregator.top_models(n = 5, *, since = None)
TelemetryAggregator.export_records(*, since = None, until = None)
TelemetryAggregator.record_count()
TelemetryAggregator.clear()
TelemetryAggregator.close()
TelemetryStore(db_path, batch_size = 50, flush_interval_seconds = 5.0)
TelemetryStore.flush()
TelemetryStore.list_recent(limit = 50)
TelemetryStore.subscribe_to_bus(bus)
TelemetryStore.close()
EventBus.publish(event_type, data = None)
EventBus.subscribe(event_type, callback)
GpuMonitor(poll_interval_ms = 50)
GpuMonitor.available()
GpuMonitor.close()
GpuHardwareSpec(tflops_fp16, bandwidth_gb_s, tdp_watts)
EnergyMonitor.available()
EnergyMonitor.energy_method()
EnergyMonitor.close()
EnergyBatch(energy_monitor = None, batch_id = None)
EnergyBatch.sample()
SteadyStateDetector.record(throughput, energy = 0.0, latency = 0.0)
SteadyStateDetector.reset()
TelemetrySession.start()
TelemetrySession.stop()
VLLMMetricsScraper(host = 'http://localhost:8000')
InstrumentedEngine(engine, bus, gpu_monitor = None, energy_monitor = None)
compute_mfu(flops, duration_s, gpu_name, num_gpus = 1)
estimate_flops(model, input_tokens, output_tokens)
""",
    "gpulens.compat.pydotcompute": """
KernelTelemetry(kernel_id: str, state: KernelState, messages_received: int = 0, messages_sent: int = 0, messages_processed: int = 0, errors: int = 0, start_time: float | None = None, last_message_time: float | None = None)
TelemetryCollector(enabled: bool = True)
TelemetryCollector.record_receive(kernel_id: str) -> None
TelemetryCollector.record_send(kernel_id: str) -> None
TelemetryCollector.get_telemetry(kernel_id: str) -> KernelTelemetry | None
TelemetryCollector.get_all_telemetry() -> Dict[str, KernelTelemetry]
TelemetryCollector.get_summary() -> Dict[str, Any]
TelemetryCollector.reset(kernel_id: str | None = None) -> None
RingKernelRuntime.activate(kernel_id: str) -> None
RingKernelRuntime.deactivate(kernel_id: str) -> None
RingKernelRuntime.reactivate(kernel_id: str) -> None
RingKernelRuntime.terminate(kernel_id: str, timeout: float = 5.0) -> None
RingKernelRuntime.terminate_all(*, timeout: float = 10.0) -> None
RingKernelRuntime.send(kernel_id: str, message: Any, *, timeout: float | None = None) -> None
RingKernelRuntime.receive(kernel_id: str, *, timeout: float | None = None) -> Any
RingKernelRuntime.send_batch(kernel_id: str, messages: List[Any], *, timeout: float | None = None) -> int
RingKernelRuntime.get_state(kernel_id: str) -> KernelState
RingKernelRuntime.get_telemetry(kernel_id: str) -> KernelTelemetry | None
RingKernelRuntime.get_summary() -> Dict[str, Any]
RingKernelRuntime.reset_telemetry(kernel_id: str | None = None) -> None
""",
    "gpulens.compat.zernel": "experiment(name: str)",
    "gpulens.compat.l9gpu": """
histogram_quantile(buckets, count, quantile)
metric_names.get_otel_name(field_name: str) -> str
metric_names.get_unit(field_name: str) -> str
metric_names.get_data_point_attributes(field_name: str) -> Dict[str, str]
""",
    "gpulens.compat.l9gpu.training": """
DataLoaderTimer.wrap_dataloader(loader)
compute_mfu(num_params, tokens_per_step, step_time_seconds, gpu_count, peak_tflops_per_gpu, gradient_checkpointing = False)
compute_tflops(num_params, tokens_per_step, step_time_seconds, gradient_checkpointing = False)
mfu.get_peak_tflops(gpu_model)
L9GPUTrainingMonitor.wrap_dataloader(dataloader)
CheckpointTimer.time_save(checkpoint_size_bytes = None)
L9GPUTrainingMonitor.collect(loss = None, step_time = None)
L9GPUTrainingMonitor.emit_step(loss = None, step_time = None)
""",
}
# With a documented beginning, and more behind it that has defaults or is by name alone.
BEYOND = {
    "gpulens.compat.pydotcompute RingKernelRuntime(*, enable_telemetry: bool = False, default_queue_size: int = 1000, backend: str = 'auto')",
    "gpulens.compat.pydotcompute RingKernelRuntime.launch(kernel_id: str, kernel_func: Callable | None = None, *, queue_size: int | None = None)",
    "gpulens.compat.pydotcompute TelemetryCollector.record_error(kernel_id: str)",
    "gpulens.compat.l9gpu.training GradientTracker.record_step(model, max_norm = None)",
    "gpulens.compat.l9gpu.training CheckpointTimer.time_restore()",
    "gpulens.compat.l9gpu.training DataLoaderTimer(dataloader)",
    "gpulens.compat.l9gpu.training L9GPUTrainingMonitor(otlp_endpoint, num_params, tokens_per_step, gpu_count, peak_tflops_per_gpu,"
    " gradient_checkpointing = False, service_name = 'l9gpu-training')",
}
# Documented type, and ours: a protocol has no class of its own here, and a block is a context manager.
HINTS = {
    "InferenceEngine": "Any", "Sequence[Message]": "Sequence[Any]", "EventBus": "Any", "Optional[Callable]": "Optional[Callable[..., Any]]",
    "Generator[GpuSample, None, None]": "Iterator[GpuSample]",
    "Generator[EnergySample, None, None]": "AbstractContextManager[EnergySample]",
    "dict": "Dict[str, Union[float, int]]", "tuple[dict, dict]": "Tuple[Dict[str, Union[float, int]], Dict[str, Union[float, int]]]",
}  # fmt: skip
# These have no defaults there; ours go on where one is left out, as the environment or the device says.
DEFAULTED = {"dataloader", "otlp_endpoint", "num_params", "tokens_per_step", "gpu_count", "peak_tflops_per_gpu", "max_norm", "checkpoint_size_bytes"}


def normalized(hint):
    """A type hint in one form: without modules, Optional for | None."""
    if hint is inspect.Parameter.empty:
        return ""
    text = hint if isinstance(hint, str) else "None" if hint is None else hint.__name__ if inspect.isclass(hint) and not typing.get_args(hint) else str(hint)
    text = re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)", "", text).replace("'", "").replace("NoneType", "None")
    text = re.sub(r"\bUnion\[(\w+(?:\[.*?\])?), None\]", r"Optional[\1]", text)
    return re.sub(r"^(.+) \| None$", r"Optional[\1]", text)


def documented(line):
    """Of a line: its dotted name, its parameters as (name, kind, default, hint), and the hint of what it returns."""
    name = line[: line.index("(")]
    node = ast.parse(f"def f{line[len(name):]}: pass").body[0]
    args, out = node.args, []
    defaults = [None] * (len(args.args) - len(args.defaults)) + args.defaults
    groups = [(a, "POSITIONAL_OR_KEYWORD", d) for a, d in zip(args.args, defaults)]
    groups += [(a, "KEYWORD_ONLY", d) for a, d in zip(args.kwonlyargs, args.kw_defaults)]
    groups += [(args.kwarg, "VAR_KEYWORD", None)] if args.kwarg else []
    for arg, kind, default in groups:
        out.append((arg.arg, kind, ast.unparse(default) if default else "", normalized(ast.unparse(arg.annotation)) if arg.annotation else ""))
    return name, out, normalized(ast.unparse(node.returns)) if node.returns else ""


def ours(thing):
    """The same of what is there."""
    signature = inspect.signature(thing)
    factories = {f.name for f in dataclasses.fields(thing) if f.default_factory is list} if dataclasses.is_dataclass(thing) else ()
    out = []
    for p in signature.parameters.values():
        if p.name == "self":
            continue
        default = "" if p.default is p.empty else "list()" if p.name in factories else repr(p.default)
        out.append((p.name, p.kind.name, default, normalized(p.annotation)))
    return out, normalized(signature.return_annotation)


class Signatures(unittest.TestCase):
    def find(self, module, name):
        thing = importlib.import_module(module)
        for part in name.split("."):
            thing = getattr(thing, part)
        return thing

    def check(self, module, line, beyond=False):
        with self.subTest(line):
            name, wanted, returns = documented(line)
            got, gives = ours(self.find(module, name))
            if beyond:
                rest, got = got[len(wanted) :], got[: len(wanted)]
                self.assertEqual([p for p in rest if not p[2] and p[1] != "VAR_KEYWORD"], [])
            self.assertEqual(len(got), len(wanted), got)
            for (name, kind, default, hint), there in zip(wanted, got):
                self.assertEqual(there[:2], (name, kind))
                if default or name not in DEFAULTED:
                    self.assertEqual(there[2], default, name)
                self.assertTrue(there[3] or name == "loader", f"{name} has no type hint")
                if hint:
                    self.assertEqual(there[3], HINTS.get(hint, hint), name)
            if returns:
                self.assertIn(gives.replace("float | int", "Union[float, int]"), (returns, HINTS.get(returns)))  # as CPython 3.14 prints it

    def test_of_openjarvis(self):
        for line in OPENJARVIS:
            # Later versions have one more parameter.
            self.check("gpulens.compat.openjarvis", line, beyond=line.startswith("create_energy_monitor("))

    def test_of_all(self):
        for module, lines in MORE.items():
            for line in lines.strip().splitlines():
                self.check(module, line)
        for text in sorted(BEYOND):
            module, line = text.split(" ", 1)
            self.check(module, line, beyond=True)

    def test_static_and_abstract_as_documented(self):
        t = importlib.import_module("gpulens.compat.openjarvis")
        for kind in (t.GpuMonitor, t.EnergyMonitor, t.NvidiaEnergyMonitor, t.AmdEnergyMonitor, t.AppleEnergyMonitor, t.RaplEnergyMonitor):
            self.assertIsInstance(inspect.getattr_static(kind, "available"), staticmethod, kind)
        self.assertEqual(t.EnergyMonitor.__abstractmethods__, {"available", "vendor", "energy_method", "sample"})

    def test_the_lines_are_those_of_the_document(self):
        seed = SEEDS / "openjarvis-telemetry.txt"
        if not seed.exists():
            self.skipTest(f"captures not here: {seed}")
        theirs = [line for line in seed.read_text(encoding="utf-8").splitlines() if re.match(r"^(?!print)\w+\(.*\)( -> .*)?$", line)]
        self.assertEqual(theirs, [re.sub(r"^[A-Z]\w+\.", "", line) for line in OPENJARVIS])

    def test_each_is_in_the_module_that_the_document_names(self):
        seed = SEEDS / "openjarvis-telemetry.txt"
        if not seed.exists():
            self.skipTest(f"captures not here: {seed}")
        t, name, seen = importlib.import_module("gpulens.compat.openjarvis"), "", set()
        for line in seed.read_text(encoding="utf-8").splitlines():
            source = re.fullmatch(r"Source code in src/openjarvis/telemetry/(\w+)\.py", line)
            if source:
                module = importlib.import_module(f"gpulens.compat.openjarvis.{source[1]}")
                self.assertIs(getattr(module, name), getattr(t, name))
                seen.add(name)
            elif line in t.__all__:
                name = line
        self.assertGreaterEqual(len(seen), 15)

    def test_everything_named_in_the_document_is_there(self):
        seed = SEEDS / "openjarvis-telemetry.txt"
        if not seed.exists():
            self.skipTest(f"captures not here: {seed}")
        lines = seed.read_text(encoding="utf-8").splitlines()
        marks = ("¶", "dataclass", "staticmethod", "abstractmethod")
        headings = {line for line, after in zip(lines, lines[1:]) if re.fullmatch(r"[A-Za-z_]\w+", line) and after in marks} - set(marks)
        headings -= {"telemetry"}
        self.assertGreater(len(headings), 35)
        t = importlib.import_module("gpulens.compat.openjarvis")
        members = {name for kind in vars(t).values() if inspect.isclass(kind) for name in dir(kind)}
        self.assertEqual({name for name in headings if name not in t.__all__ and name not in members}, set())


if __name__ == "__main__":
    unittest.main()
