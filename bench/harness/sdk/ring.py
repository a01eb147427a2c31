"""Section `ring`: a message to an actor, in C++ and in Python; with telemetry, with it turned off, and without a trace of it."""
from harness import measure
from harness.codecs import take_turns
from harness.measure import ROOT
from harness.sdk import python


def ring():
    timings = {}
    steps = {"ours": lambda: measure.google_benchmark(timings, "sdk_ring_bench", "^(OwnWork|RoundTrip/.*spin_us:0|Throughput)", 5)}
    # On one core the scheduler has no choice where to wake a thread, which else decides more than what is measured.
    steps["in turn"] = lambda: measure.google_benchmark(timings, "sdk_ring_bench", "^RoundTripPaired", 1, ("wall_ratio", "cpu_ratio"), core=0)
    steps["ours alone"] = lambda: measure.google_benchmark(timings, "sdk_ring_bench", "^(RecordAMessage.*:1$|SummaryOf1000)", 3)
    absent = {}
    try:
        interpreter = python.environment()
    except measure.Absent as reason:
        absent["asyncio"] = str(reason)
    else:
        steps["asyncio"] = lambda: measure.json_lines(timings, [interpreter, ROOT / "bench/python/ring_kernels.py"])
    absent.update(take_turns(steps))
    return {"timings": {name: timing.plain() for name, timing in timings.items()}, "absent": absent}
