"""The usage examples of PyDotCompute's documentation of telemetry, run as they stand but for the import."""
import ast
import asyncio
import contextlib
import inspect
import io
import re
import unittest

# What the documentation leaves to its reader.
PREAMBLE = """
import asyncio, time
from gpulens.compat.pydotcompute import message, ring_kernel

@message
class Request:
    data: int

async def work(ctx):
    while not ctx.should_terminate:
        request = await ctx.receive()
        if request.data < 0:
            ctx.record_error(ValueError("negative"))
        else:
            await ctx.send(request)

for kernel_id in ("worker", "worker_0", "worker_1", "worker_2", "my_kernel"):
    ring_kernel(kernel_id=kernel_id)(work)

async def exchange(runtime, kernel_id, count=20):
    for i in range(count):
        await runtime.send(kernel_id, Request(data=i))
        await runtime.receive(kernel_id, timeout=20.0)

async def worker(runtime):
    await runtime.launch("worker")
    await runtime.activate("worker")
"""
OVERVIEW = """
from gpulens.compat.pydotcompute import RingKernelRuntime
async with RingKernelRuntime(enable_telemetry=True) as runtime:
    # ... run kernels ...

    # Get per-kernel metrics
    telemetry = runtime.get_telemetry("my_kernel")
    print(f"Throughput: {telemetry.throughput:.2f} msg/s")

    # Get runtime summary
    summary = runtime.get_summary()
    print(f"Total messages: {summary['total_messages']}")
"""
ENABLE = """
from gpulens.compat.pydotcompute import RingKernelRuntime

# Telemetry is disabled by default for performance
async with RingKernelRuntime(enable_telemetry=True) as runtime:
    await runtime.launch("worker")
    await runtime.activate("worker")

    # Process messages...
    for i in range(100):
        await runtime.send("worker", Request(data=i))
        await runtime.receive("worker", timeout=1.0)

    # Get metrics
    telemetry = runtime.get_telemetry("worker")
    print(f"Processed: {telemetry.messages_processed}")
    print(f"Throughput: {telemetry.throughput:.1f} msg/s")
    print(f"Uptime: {telemetry.uptime:.1f}s")
"""
MULTIPLE = """
async with RingKernelRuntime(enable_telemetry=True) as runtime:
    # Launch multiple kernels
    for i in range(3):
        await runtime.launch(f"worker_{i}")
        await runtime.activate(f"worker_{i}")

    # Process work...

    # Get summary
    summary = runtime.get_summary()
    print(f"Active kernels: {summary['kernel_count']}")
    print(f"Total messages: {summary['total_messages']}")
    print(f"Total throughput: {summary['aggregate_throughput']:.1f} msg/s")

    # Individual stats
    for kernel_id, stats in summary['per_kernel'].items():
        print(f"  {kernel_id}: {stats['throughput']:.1f} msg/s")
"""
ERRORS = """
telemetry = runtime.get_telemetry("worker")

if telemetry.error_rate > 0.01:  # More than 1% errors
    print(f"Warning: High error rate: {telemetry.error_rate:.1%}")
    print(f"Errors: {telemetry.errors}")
"""
PERIODIC = """
import asyncio

async def monitor(runtime: RingKernelRuntime, interval: float = 5.0):
    \"\"\"Periodically print telemetry.\"\"\"
    while True:
        await asyncio.sleep(interval)

        summary = runtime.get_summary()
        print(f"\\n=== Telemetry @ {time.time():.0f} ===")
        print(f"Kernels: {summary['kernel_count']}")
        print(f"Messages: {summary['total_messages']}")
        print(f"Throughput: {summary['aggregate_throughput']:.1f} msg/s")
        print(f"Errors: {summary['total_errors']}")

# Run alongside your application
async with RingKernelRuntime(enable_telemetry=True) as runtime:
    monitor_task = asyncio.create_task(monitor(runtime))

    # Main work...

    monitor_task.cancel()
"""
RESET = """
# Reset specific kernel
runtime.get_telemetry("worker")  # Get current stats
# ... analyze ...
runtime.reset_telemetry("worker")  # Start fresh count

# Reset all
runtime.reset_telemetry()
"""
IMPORT = "from gpulens.compat.pydotcompute import RingKernelRuntime\n"


def inside(*parts):
    """A snippet that speaks of a runtime, in one."""
    body = "".join(parts).strip().replace("\n", "\n    ")
    return f"async with RingKernelRuntime(enable_telemetry=True) as runtime:\n    await worker(runtime)\n    {body}\n"


class Snippets(unittest.TestCase):
    """Comments that stand for the reader's own work are where that is put in; nothing else is touched."""

    def run_it(self, snippet, **work):
        for comment, lines in work.items():
            mark = re.search(rf"^( *)# .*{comment}.*$", snippet, re.M)
            snippet = snippet.replace(mark.group(0), "\n".join(mark.group(1) + line for line in lines.split("\n")))
        names = {"__name__": "snippet"}
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            for text in (PREAMBLE, IMPORT, snippet):
                code = compile(text, "snippet", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                result = eval(code, names)
                if inspect.isawaitable(result):
                    asyncio.run(result)
        self.names = names
        return out.getvalue()

    def numbers(self, text):
        return {name.strip(): float(number) for name, number in re.findall(r"([\w ]+): ([\d.]+)", text)}

    def test_overview(self):
        work = "for id in ['my_kernel']:\n    await runtime.launch(id)\n    await runtime.activate(id)\n    await exchange(runtime, id)"
        reported = self.numbers(self.run_it(OVERVIEW, **{"run kernels": work}))
        self.assertEqual(reported["Total messages"], 20)
        self.assertGreater(reported["Throughput"], 0)

    def test_enable_telemetry(self):
        out = self.run_it(ENABLE, **{"Get metrics": "await asyncio.sleep(0.06)"})  # or the uptime rounds to 0.0
        reported = self.numbers(out)
        self.assertEqual(reported["Processed"], 100)
        self.assertGreater(reported["Throughput"], 0)
        self.assertGreater(reported["Uptime"], 0)

    def test_multiple_kernels(self):
        reported = self.numbers(self.run_it(MULTIPLE, **{"Process work": "for i in range(3): await exchange(runtime, f'worker_{i}')"}))
        self.assertEqual((reported["Active kernels"], reported["Total messages"]), (3, 60))
        each = [reported[f"worker_{i}"] for i in range(3)]
        self.assertTrue(all(value > 0 for value in each), each)
        self.assertAlmostEqual(reported["Total throughput"], sum(each), delta=0.2)

    def test_error_tracking(self):
        work = "await exchange(runtime, 'worker', 95)\nfor i in range(5): await runtime.send('worker', Request(data=-1))\n"
        work += "await asyncio.sleep(0.01)\nawait exchange(runtime, 'worker', 0)\n"
        out = self.run_it(inside(work, ERRORS))
        self.assertEqual(out, "Warning: High error rate: 5.3%\nErrors: 5\n")
        self.assertEqual(self.run_it(inside("await exchange(runtime, 'worker', 95)\n", ERRORS)), "")

    def test_periodic_monitoring(self):
        self.assertIn("interval: float = 5.0", PERIODIC)
        snippet = PERIODIC.replace("interval: float = 5.0", "interval: float = 0.05")
        work = "await worker(runtime)\nawait exchange(runtime, 'worker')\nimport sys\nend = time.monotonic() + 20\n"
        work += "while sys.stdout.getvalue().count('@') < 3 and time.monotonic() < end: await asyncio.sleep(0.01)"
        out = self.run_it(snippet, **{"Main work": work})
        blocks = out.split("=== Telemetry @ ")[1:]
        self.assertGreaterEqual(len(blocks), 2)
        reported = self.numbers(blocks[-1])
        self.assertEqual((reported["Kernels"], reported["Messages"], reported["Errors"]), (1, 20, 0))
        self.assertGreater(reported["Throughput"], 0)

    def test_reset_counters(self):
        work = "await exchange(runtime, 'worker')\n"
        after = "after = runtime.get_telemetry('worker').messages_processed\nawait exchange(runtime, 'worker', 3)\n"
        after += "print(after, runtime.get_telemetry('worker').messages_processed)"
        self.assertEqual(self.run_it(inside(work, RESET, after)), "0 3\n")


if __name__ == "__main__":
    unittest.main()
