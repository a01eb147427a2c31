"""PyDotCompute's names: runtime, collector, telemetry, and the numbers of its own tests."""
import asyncio
import dataclasses
import datetime
import json
import math
import pickle
import sys
import time
import types
import unittest
import uuid

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

from gpulens.compat.pydotcompute.exceptions import MessageDeserializationError, MessageSerializationError

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


@dataclasses.dataclass
class Item:
    name: str
    priority: int = 128


class Queues(unittest.IsolatedAsyncioTestCase):
    async def test_order_of_the_documentation(self):
        queue = compat.MessageQueue(max_size=100)
        for name, priority in (("A", 100), ("B", 200), ("C", 100), ("D", 150)):
            self.assertTrue(await queue.put(Item(name, priority)))
        self.assertEqual((queue.size, queue.qsize, queue.max_size, queue.maxsize, queue.is_empty, queue.is_full), (4, 4, 100, 100, False, False))
        self.assertEqual(queue.peek().name, "B")
        self.assertEqual([(await queue.get()).name for _ in range(4)], ["B", "D", "A", "C"])
        self.assertTrue(queue.empty)
        self.assertIsNone(queue.get_nowait())
        self.assertIsNone(queue.peek())

    async def test_by_arrival(self):
        queue = compat.MessageQueue(use_priority=False)
        for name, priority in (("A", 1), ("B", 200)):
            queue.put_nowait(Item(name, priority))
        self.assertEqual([queue.get_nowait().name for _ in range(2)], ["A", "B"])

    async def test_block_waits_for_room(self):
        queue = compat.MessageQueue(2, kernel_id="k")
        queue.put_nowait(1)
        queue.put_nowait(2)
        self.assertFalse(queue.put_nowait(3))
        with self.assertRaisesRegex(compat.QueueFullError, "'k' is full .size: 2."):
            await queue.put(3, timeout=0.01)
        waiting = asyncio.ensure_future(queue.put(3))
        await asyncio.sleep(0)
        self.assertEqual(queue.qsize, 2)
        self.assertEqual(await queue.get(), 1)
        self.assertTrue(await asyncio.wait_for(waiting, TIMEOUT))
        waiting = asyncio.ensure_future(queue.put(4))
        await asyncio.sleep(0)
        self.assertEqual(queue.clear(), 2)
        self.assertTrue(await asyncio.wait_for(waiting, TIMEOUT))
        self.assertEqual(await queue.get(), 4)

    async def test_reject(self):
        queue = compat.MessageQueue(2, backpressure=compat.BackpressureStrategy.REJECT)
        for value in (1, 2):
            await queue.put(value)
        with self.assertRaises(compat.QueueFullError):
            await queue.put(3)
        self.assertFalse(queue.put_nowait(3))
        self.assertEqual(queue.get_stats()["total_dropped"], 0)

    async def test_drop_oldest_of_the_lowest_priority(self):
        queue = compat.MessageQueue(2, backpressure=compat.BackpressureStrategy.DROP_OLDEST)
        self.assertTrue(await queue.put(Item("high", 255)))
        self.assertTrue(await queue.put(Item("old", 2)))
        self.assertTrue(await queue.put(Item("new", 2)))
        self.assertFalse(await queue.put(Item("lower", 1)))
        self.assertEqual([queue.get_nowait().name for _ in range(2)], ["high", "new"])
        self.assertEqual(
            queue.get_stats(), {"current_size": 0, "max_size": 2, "total_enqueued": 3, "total_dequeued": 2, "total_dropped": 2}
        )

    async def test_get_waits(self):
        queue = compat.MessageQueue()
        with self.assertRaises(asyncio.TimeoutError):
            await queue.get(timeout=0.01)
        waiting = asyncio.ensure_future(queue.get())
        await asyncio.sleep(0)
        queue.put_nowait(7)
        self.assertEqual(await asyncio.wait_for(waiting, TIMEOUT), 7)

    def test_refuses_what_no_queue_can_have(self):
        for options in ({"maxsize": 0}, {"max_size": -1}, {"backpressure": "nonsense"}):
            with self.subTest(options), self.assertRaises(ValueError):
                compat.MessageQueue(**options)
        self.assertIs(compat.ring_kernels.MessageQueue, compat.MessageQueue)

    async def test_bands(self):
        queue = compat.FastMessageQueue(5)
        sent = [Item(str(priority), priority) for priority in (70, 150, 230, 160, 10)]
        self.assertEqual(queue.put_batch([*sent, Item("late")]), 5)
        with self.assertRaises(compat.QueueFullError):
            await queue.put(Item("late"), timeout=0.01)
        stats = queue.get_stats()
        self.assertEqual(stats["band_counts"], {"system": 1, "high": 1, "normal": 2, "low": 1})
        self.assertEqual([one.name for one in queue.get_batch(3)], ["230", "160", "70"])
        self.assertEqual([one.name for one in queue.get_batch(9)], ["150", "10"])
        self.assertEqual((queue.get_stats()["peak_size"], queue.get_stats()["total_enqueued"]), (5, 5))
        self.assertEqual([compat.get_priority_band(n) for n in (255, 224, 223, 160, 159, 64, 63, 0)], [0, 0, 1, 1, 2, 2, 3, 3])

    async def test_bytes_of_messages(self):
        @compat.message
        class One:
            a: int

        queue = compat.FastMessageQueue(serialize=True)
        await queue.put(One(4))
        self.assertEqual(compat.deserialize_message(await queue.get()).a, 4)


class OneKernel(unittest.IsolatedAsyncioTestCase):
    async def test_life(self):
        kernel = compat.RingKernel("one", echo, config=compat.RingKernelConfig("one", input_queue_size=2, backpressure_strategy="reject"))
        self.assertIs(kernel.state, KernelState.CREATED)
        for operation in (kernel.activate, kernel.deactivate, kernel.reactivate, lambda: kernel.send(1), kernel.receive):
            with self.assertRaisesRegex(compat.KernelStateError, "from state 'CREATED'"):
                await operation()
        await kernel.launch()
        with self.assertRaises(compat.KernelStateError):
            await kernel.launch()
        await kernel.activate()
        await kernel.send(5, timeout=TIMEOUT)
        self.assertEqual(await kernel.receive(TIMEOUT), 5)
        await kernel.deactivate()
        for value in (1, 2):
            await kernel.send(value)
        with self.assertRaises(compat.QueueFullError):
            await kernel.send(3)
        await kernel.reactivate()
        self.assertEqual([await kernel.receive(TIMEOUT) for _ in range(2)], [1, 2])
        await kernel.terminate()
        await kernel.terminate()
        self.assertIs(kernel.state, KernelState.TERMINATED)
        with self.assertRaises(compat.KernelStateError):
            await kernel.launch()

    async def test_never_launched(self):
        kernel = compat.RingKernel("one", echo)
        await kernel.terminate()
        self.assertIs(kernel.state, KernelState.TERMINATED)
        self.assertEqual(kernel.config.input_queue_size, 4096)

    async def test_type_of_messages(self):
        kernel = compat.RingKernel("one", echo, input_type=int)
        await kernel.launch()
        with self.assertRaisesRegex(TypeError, "accepts messages of the type int, not str"):
            await kernel.send("x")
        await kernel.terminate()

    async def test_managed(self):
        async with compat.managed_kernel("m", echo, config=compat.RingKernelConfig("m", input_queue_size=3)) as kernel:
            self.assertIsInstance(kernel, compat.RingKernel)
            self.assertIs(kernel.state, KernelState.ACTIVE)
            self.assertEqual(kernel.config.input_queue_size, 3)
            await kernel.send(1)
            self.assertEqual(await kernel.receive(TIMEOUT), 1)
        self.assertIs(kernel.state, KernelState.TERMINATED)
        with self.assertRaises(KeyError):
            async with compat.managed_kernel(kernel_id="m", kernel_func=echo) as kernel:
                raise KeyError
        self.assertIs(kernel.state, KernelState.TERMINATED)
        for arguments in (("m",), (), (echo, "m"), (RingKernelRuntime(),)):
            with self.subTest(arguments), self.assertRaises((ValueError, AttributeError)):
                async with compat.managed_kernel(*arguments):
                    pass

    async def test_builder(self):
        builder = compat.RingKernelBuilder("built")
        with self.assertRaisesRegex(ValueError, "'built' has no handler"):
            builder.build()
        made = (
            builder.with_input_type(int).with_output_type(int).with_queue_size(7).with_output_queue_size(9).with_grid_size(2)
            .with_block_size(64).with_backpressure("reject").with_handler(echo).build()
        )  # fmt: skip
        meta = compat.get_ring_kernel_meta(made)
        config = meta["config"]
        self.assertEqual((meta["kernel_id"], meta["input_type"], config.input_queue_size, config.output_queue_size), ("built", int, 7, 9))
        self.assertEqual((config.grid_size, config.block_size, config.backpressure_strategy), (2, 64, "reject"))
        self.assertTrue(compat.is_ring_kernel(made))
        self.assertIsNone(compat.get_ring_kernel_meta(echo))
        self.assertIn("kernel_id='built'", repr(builder))
        async with RingKernelRuntime() as runtime:
            await runtime.launch("built")
            await runtime.activate("built")
            self.assertEqual(await runtime.send_and_receive("built", 3, timeout=TIMEOUT), 3)
        with self.assertRaises(ValueError):
            compat.RingKernelBuilder("bad").with_queue_size(0).with_handler(echo).build()
        with self.assertRaises(ValueError):
            compat.RingKernelBuilder("bad").with_backpressure("nonsense").with_handler(echo).build()


class Messages(unittest.TestCase):
    def test_as_bytes(self):
        @compat.message
        class Sum:
            a: int
            b: float = 1.5

        one = Sum(1, priority=7)
        self.assertEqual(Sum.deserialize(one.serialize()), one)
        with self.assertRaises(compat.PyDotComputeError):
            Sum.deserialize(b"\xc1")

    def test_types_of_fields(self):
        @compat.message
        class Part:
            name: str

        @compat.message
        class Whole:
            value: object
            parts: list = dataclasses.field(default_factory=list)

        for value in (None, True, False, 0, 1, 127, 128, 255, 256, 65535, 65536, 2**32, 2**64 - 1, -1, -32, -33, -128, -129, -32769, -(2**31) - 1,
                      -(2**63), 0.5, -1e300, math.inf, "", "é" * 40, "x" * 300, "y" * 70_000, b"", b"z" * 300, b"z" * 70_000, [], [1, [2, [3]]],
                      list(range(20)), list(range(70_000)), {}, {"a": 1, 2: "b"}, {str(i): i for i in range(20)}, uuid.uuid4()):  # fmt: skip
            self.assertEqual(Whole.deserialize(Whole(value).serialize()).value, value)
        self.assertTrue(math.isnan(Whole.deserialize(Whole(math.nan).serialize()).value))
        self.assertEqual(Whole.deserialize(Whole((1, 2)).serialize()).value, [1, 2])
        when = datetime.datetime(2026, 11, 26, 10, 0, tzinfo=datetime.timezone.utc)
        self.assertEqual(Whole.deserialize(Whole(when).serialize()).value, when.isoformat())
        inner = Part("p", priority=9)
        found = compat.deserialize_message(Whole(1, [inner]).serialize())
        self.assertIsInstance(found, Whole)
        self.assertEqual(found.parts, [inner])
        self.assertIs(compat.get_message_type("Part"), Part)
        self.assertIsNone(compat.get_message_type("Nothing"))

    def test_the_bytes_are_those_of_msgpack(self):
        @compat.message
        class Small:
            a: int

        key = uuid.UUID(int=5)
        made = Small(-3, message_id=key).serialize()
        written = (b"\x85\xa1a\xfd\xaamessage_id\x81\xac__uuid_bin__\xc4\x10" + key.bytes + b"\xa8priority\xcc\x80"
                   b"\xaecorrelation_id\xc0\xa8__type__\xa5Small")  # fmt: skip
        self.assertEqual(made, written)
        try:
            import msgpack
        except ImportError:
            return
        self.assertEqual(msgpack.unpackb(made)["a"], -3)

    def test_refuses_with_a_reason(self):
        @compat.message
        class Sum:
            a: int

        good = Sum(1).serialize()
        for data, why in (
            (b"", "end at 0"), (good[:-1], "inside a value"), (good + b"\x00", "1 bytes follow"), (b"\x01", "int is no message"), (b"\x80", "argument"),
            (b"\xc1", "begins no value"), (b"\xd4\x00\x00", "begins no value"), (b"\x81\xa1a\xdd\xff\xff\xff\xff", "a list of 4294967295 in 0 bytes"),
            (b"\xdf\xff\xff\xff\xff", "a map of"), (b"\x81\x90\x01", "a key of the type list"), (b"\x81\xa1a\xa1\xff", "utf-8"),
            (b"\x81\xa1a" + b"\x91" * 100_000 + b"\x01", "more than 64"), (b"\x81\xa1a\x81\xac__uuid_bin__\xc4\x01x", "16"),
            (bytes((64 << 20) + 1), "at most 67108864"), ("text", "bytes are expected"),
            (b"\x82\xa1a\x01\xa8priority\xcd\x01\x00", "priority must be 0 to 255"),
            (pickle.dumps({"a": 1}), "bytes follow"),
        ):  # fmt: skip
            with self.subTest(why), self.assertRaisesRegex(MessageDeserializationError, why):
                Sum.deserialize(data)
        with self.assertRaisesRegex(MessageDeserializationError, "no class 'Gone' is decorated"):
            compat.deserialize_message(b"\x81\xa8__type__\xa4Gone")
        deep = []
        for _ in range(100):
            deep = [deep]
        for value, why in ((object(), "a object has no form"), (2**64, "more than 64 bits"), (deep, "within each other"), ("\ud800", "utf-8")):
            with self.subTest(why), self.assertRaisesRegex(MessageSerializationError, why):
                Sum(value).serialize()

    def test_derived(self):
        @dataclasses.dataclass
        class Own(compat.RingKernelMessage):
            value: float = 0.0

        self.assertEqual(Own(value=2.0).reply(value=3.0).value, 3.0)


if __name__ == "__main__":
    unittest.main()
