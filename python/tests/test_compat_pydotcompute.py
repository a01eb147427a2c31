"""PyDotCompute's names: runtime, collector, telemetry, and the numbers of its own tests."""
import asyncio
import dataclasses
import json
import sys
import time
import types
import unittest

from gpulens.compat import pydotcompute as compat
from gpulens.compat.pydotcompute import (
    GPUInfo,
    GPUMonitor,
    KernelState,
    KernelTelemetry,
    RingKernelRuntime,
    RingKernelTelemetry,
    TelemetryCollector,
    ring_kernel,
)

TIMEOUT = 20.0


async def echo(ctx):
    while not ctx.should_terminate:
        await ctx.send(await ctx.receive())


class Runtime(unittest.IsolatedAsyncioTestCase):
    async def start(self, runtime, kernel_id="w", function=echo):
        await runtime.launch(kernel_id, function)
        await runtime.activate(kernel_id)

    async def test_off_by_default(self):
        async with RingKernelRuntime() as runtime:
            await self.start(runtime)
            await runtime.send_and_receive("w", 1, timeout=TIMEOUT)
            self.assertIsNone(runtime.get_telemetry("w"))
            self.assertEqual(runtime.get_all_telemetry(), {})
            self.assertEqual((runtime.get_summary()["kernel_count"], runtime.get_summary()["total_messages"]), (1, 0))

    async def test_live_telemetry(self):
        async with RingKernelRuntime(enable_telemetry=True) as runtime:
            self.assertIsNone(runtime.get_telemetry("w"))
            await runtime.launch("w", echo)
            telemetry = runtime.get_telemetry("w")
            self.assertIsInstance(telemetry, KernelTelemetry)
            self.assertIs(telemetry.state, KernelState.LAUNCHED)
            self.assertIsNone(telemetry.start_time)
            self.assertIsNone(telemetry.last_message_time)
            self.assertEqual((telemetry.uptime, telemetry.throughput, telemetry.error_rate), (0.0, 0.0, 0.0))
            await runtime.activate("w")
            self.assertLess(abs(telemetry.start_time - time.time()), 1 + TIMEOUT)
            before = telemetry.uptime
            for i in range(100):
                await runtime.send("w", i)
            self.assertEqual([await runtime.receive("w", timeout=TIMEOUT) for _ in range(100)], list(range(100)))
            self.assertEqual((telemetry.messages_received, telemetry.messages_sent, telemetry.messages_processed), (100, 100, 100))
            self.assertGreater(telemetry.uptime, before)
            self.assertGreaterEqual(telemetry.last_message_time, telemetry.start_time)
            self.assertGreater(telemetry.avg_latency_ns, 0)
            self.assertIs(runtime.get_telemetry("w"), telemetry)
            self.assertEqual(dataclasses.asdict(telemetry)["messages_processed"], 100)
            self.assertEqual(len(json.loads(json.dumps(telemetry.to_dict()))), 11)
            with self.assertRaises(AttributeError):
                telemetry.errors = 7
            await runtime.terminate("w")
            self.assertIs(telemetry.state, KernelState.TERMINATED)
            self.assertEqual(runtime.get_telemetry("w").messages_processed, 100)
            runtime.reset_telemetry()
            self.assertIsNone(runtime.get_telemetry("w"))
            self.assertEqual(telemetry.messages_processed, 100)

    async def test_throughput_and_uptime(self):
        async with RingKernelRuntime(enable_telemetry=True) as runtime:
            await self.start(runtime)
            for i in range(100):
                await runtime.send_and_receive("w", i)
            await asyncio.sleep(0.2)
            telemetry = runtime.get_telemetry("w")
            self.assertGreaterEqual(telemetry.uptime, 0.2)
            self.assertLessEqual(telemetry.throughput, 500)
            instant = telemetry._now()
            self.assertAlmostEqual(instant.throughput, 100 / instant.uptime)

    async def test_registered_kernels_and_states(self):
        @ring_kernel(kernel_id="registered", input_type=int, queue_size=2, backpressure=compat.BackpressureStrategy.REJECT)
        async def registered(ctx):
            await echo(ctx)

        async with RingKernelRuntime() as runtime:
            await runtime.launch("registered")
            self.assertIs(runtime.get_state("registered"), KernelState.LAUNCHED)
            self.assertIs(runtime.get_state("registered"), KernelState("launched"))
            with self.assertRaises(compat.KernelStateError):
                await runtime.send("registered", 1)
            await runtime.activate("registered")
            with self.assertRaises(compat.KernelStateError) as caught:
                await runtime.activate("registered")
            self.assertEqual((caught.exception.current_state, caught.exception.operation), ("ACTIVE", "activate"))
            self.assertEqual(runtime.active_kernels, ["registered"])
            await runtime.deactivate("registered")
            self.assertEqual(await runtime.send_batch("registered", [1, 2, 3]), 2)
            with self.assertRaises(compat.QueueFullError):
                await runtime.send("registered", 4)
            await runtime.reactivate("registered")
            self.assertEqual([await runtime.receive("registered", timeout=TIMEOUT) for _ in range(2)], [1, 2])
            with self.assertRaisesRegex(TypeError, "messages of the type int, not str"):
                await runtime.send("registered", "x")
            begun = time.monotonic()
            with self.assertRaises(asyncio.TimeoutError):
                await runtime.receive("registered", timeout=0.05)
            self.assertGreaterEqual(time.monotonic() - begun, 0.04)
            with self.assertRaises(compat.KernelAlreadyExistsError):
                await runtime.launch("registered")
            with self.assertRaises(compat.KernelNotFoundError) as missing:
                await runtime.launch("unknown")
            self.assertIn("registered", missing.exception.available)
            await runtime.terminate("registered")
            self.assertIs(runtime.get_state("registered"), KernelState.TERMINATED)
            await runtime.launch("registered")
            async with compat.managed_kernel(runtime, "scoped", echo) as scoped:
                self.assertEqual(await runtime.send_and_receive(scoped, 5, timeout=TIMEOUT), 5)
        self.assertEqual(runtime.kernel_ids, [])

    async def test_a_full_queue_that_stays_full(self):
        async with RingKernelRuntime(default_queue_size=1) as runtime:
            await self.start(runtime)
            await runtime.deactivate("w")
            await runtime.send("w", 1)
            with self.assertRaises(compat.QueueFullError):
                await runtime.send("w", 2, timeout=0.02)

    async def test_handlers_are_taken_too(self):
        async def handler(x):
            if x % 20 == 0:
                raise ValueError(x)
            return x

        async with RingKernelRuntime(enable_telemetry=True) as runtime:
            await self.start(runtime, "h", handler)
            for i in range(100):
                await runtime.send("h", i)
            for _ in range(95):
                await runtime.receive("h", timeout=TIMEOUT)
            telemetry = runtime.get_telemetry("h")
            self.assertEqual((telemetry.errors, telemetry.messages_processed, telemetry.messages_received), (5, 95, 100))
            self.assertAlmostEqual(telemetry.error_rate, 5 / 95)


class Collector(unittest.TestCase):
    def test_documented(self):
        collector = TelemetryCollector()
        for kernel_id in ("a", "b", "c"):
            for _ in range(3):
                collector.record_receive(kernel_id)
                collector.record_send(kernel_id)
            collector.record_error(kernel_id)
            collector.record_error(kernel_id, ValueError("x"))
        one = collector.get_telemetry("a")
        self.assertEqual((one.messages_received, one.messages_sent, one.messages_processed, one.errors), (3, 3, 3, 2))
        self.assertIsNone(collector.get_telemetry("z"))
        self.assertEqual(sorted(collector.get_all_telemetry()), ["a", "b", "c"])
        summary = collector.get_summary()
        self.assertEqual((summary["kernel_count"], summary["total_messages"], summary["total_errors"]), (3, 9, 6))
        each = [row["throughput"] for row in summary["per_kernel"].values()]
        self.assertAlmostEqual(summary["aggregate_throughput"], sum(each))
        json.dumps(summary)
        collector.reset("a")
        self.assertEqual((one.messages_processed, collector.get_telemetry("b").messages_processed), (0, 3))
        collector.reset()
        self.assertEqual(collector.get_summary()["total_messages"], 0)
        off = TelemetryCollector(enabled=False)
        off.record_receive("a")
        self.assertIsNone(off.get_telemetry("a"))

    def test_of_the_code(self):
        collector = TelemetryCollector()
        k1, k2 = collector.register_kernel("k1"), collector.register_kernel("k2")
        self.assertIs(collector.register_kernel("k1"), k1)
        k1.record_message(1000)
        k1.record_message(2000)
        k1.record_drop()
        k2.record_message(3000)
        k2.record_error("e")
        self.assertEqual((k1.min_latency_ns, k1.max_latency_ns, k1.total_latency_ns, k1.avg_latency_ns), (1000, 2000, 3000, 1500.0))
        summary = collector.get_summary()
        self.assertEqual((summary["kernel_count"], summary["total_messages_processed"]), (2, 3))
        self.assertEqual((summary["total_messages_dropped"], summary["total_errors"]), (1, 1))
        self.assertLessEqual({"uptime_seconds", "gpu_utilization"}, set(summary))
        collector.unregister_kernel("k1")
        collector.unregister_kernel("unknown")
        self.assertEqual(collector.get_summary()["kernel_count"], 1)
        self.assertIsNotNone(collector.get_kernel_telemetry("k1"))
        collector.reset_all()
        self.assertIsNone(collector.get_kernel_telemetry("k1"))


class Numbers(unittest.TestCase):
    """Those of its unit tests."""

    def test_latencies(self):
        of = RingKernelTelemetry
        self.assertEqual(of("k", messages_processed=10, total_latency_ns=1_000_000).avg_latency_ns, 100_000)
        self.assertEqual(of("k", messages_processed=4, total_latency_ns=4_000_000).avg_latency_ms, 1.0)
        self.assertEqual(of("k").avg_latency_ns, 0.0)
        self.assertEqual(of("k", messages_processed=100, uptime_seconds=10).throughput, 10.0)
        self.assertEqual(of("k", messages_processed=100).throughput, 0.0)
        self.assertEqual(of("k", messages_processed=50, messages_dropped=2, uptime_seconds=10).to_dict()["throughput"], 5.0)

    def test_recording(self):
        t = RingKernelTelemetry("k")
        for latency in (1000, 2000, 500):
            t.record_message(latency)
        self.assertEqual((t.messages_processed, t.total_latency_ns, t.min_latency_ns, t.max_latency_ns), (3, 3500, 500, 2000))
        t.record_drop()
        t.record_drop()
        t.record_error("First error")
        t.record_error("Second error")
        self.assertEqual((t.messages_dropped, t.error_count, t.last_error), (2, 2, "Second error"))
        t.reset()
        self.assertEqual(t, RingKernelTelemetry("k"))
        t.record_message(0)
        t.record_message(10**9)
        self.assertEqual((t.min_latency_ns, t.max_latency_ns), (0, 10**9))

    def test_plain_telemetry(self):
        t = KernelTelemetry("k", KernelState.ACTIVE, messages_processed=95, errors=5, start_time=time.time() - 10)
        self.assertAlmostEqual(t.error_rate, 5 / 95)
        self.assertAlmostEqual(t.throughput, 9.5, delta=0.5)
        self.assertEqual(KernelTelemetry("k", KernelState.CREATED).throughput, 0.0)

    def test_gpu_info(self):
        self.assertEqual(GPUInfo(memory_used=250, memory_total=1000).memory_utilization, 0.25)
        self.assertEqual(GPUInfo().memory_utilization, 0.0)


class Gpus(unittest.TestCase):
    def with_nvml(self, module):
        before = sys.modules.get("pynvml")
        sys.modules["pynvml"] = module
        self.addCleanup(lambda: sys.modules.pop("pynvml") if before is None else sys.modules.update(pynvml=before))

    def test_without_nvml(self):
        self.with_nvml(None)  # an ImportError
        monitor = GPUMonitor()
        self.assertFalse(monitor.is_available)
        self.assertEqual((monitor.device_count, monitor.get_all_gpu_info(), monitor.get_utilization()), (0, [], 0.0))
        self.assertEqual(monitor.get_gpu_info().name, "N/A")
        monitor.shutdown()

    def test_with_nvml(self):
        nvml = types.ModuleType("pynvml")
        nvml.NVML_TEMPERATURE_GPU = 0
        nvml.nvmlInit = nvml.nvmlShutdown = lambda: None
        nvml.nvmlDeviceGetCount = lambda: 1
        nvml.nvmlDeviceGetHandleByIndex = lambda index: index
        nvml.nvmlDeviceGetName = lambda handle: b"Board"
        nvml.nvmlDeviceGetUUID = lambda handle: "GPU-1"
        nvml.nvmlDeviceGetMemoryInfo = lambda handle: types.SimpleNamespace(total=1000, used=250, free=750)
        nvml.nvmlDeviceGetUtilizationRates = lambda handle: types.SimpleNamespace(gpu=40, memory=10)
        nvml.nvmlDeviceGetPowerUsage = lambda handle: 250_000
        self.with_nvml(nvml)  # without a temperature and a limit of power
        monitor = GPUMonitor()
        info = monitor.get_gpu_info()
        self.assertEqual((info.name, info.uuid, info.memory_utilization, info.utilization_gpu), ("Board", "GPU-1", 0.25, 0.4))
        self.assertEqual((info.power_usage, info.power_limit, info.temperature), (250.0, 0.0, 0.0))
        self.assertEqual(monitor.get_memory_info(), {"used": 250, "free": 750, "total": 1000})
        self.assertEqual(TelemetryCollector().get_summary()["gpu_utilization"], 0.4)


class Messages(unittest.TestCase):
    def test_as_bytes(self):
        @compat.message
        class Sum:
            a: int
            b: float = 1.5

        if "msgpack" not in sys.modules:
            try:
                import msgpack  # noqa: F401
            except ImportError:
                with self.assertRaisesRegex(RuntimeError, "msgpack, which is not installed"):
                    Sum(1).serialize()
                return
        one = Sum(1, priority=7)
        self.assertEqual(Sum.deserialize(one.serialize()), one)
        with self.assertRaises(compat.PyDotComputeError):
            Sum.deserialize(b"\xc1")

    def test_derived(self):
        @dataclasses.dataclass
        class Own(compat.RingKernelMessage):
            value: float = 0.0

        self.assertEqual(Own(value=2.0).reply(value=3.0).value, 3.0)


if __name__ == "__main__":
    unittest.main()
