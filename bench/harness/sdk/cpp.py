"""Section `sdk`: calls of the C++ SDK and of NCCL's profiler plugin, records and their summaries, each with what it is compared with."""
from harness import measure
from harness.codecs import take_turns

COUNTERS = ("best_ns", "median_ns", "ratio", "ours_ns", "raw_ns", "clock_ns", "allocations")


def sdk():
    timings = {}

    def measured(program, pattern, count=1):
        measure.google_benchmark(timings, program, pattern, count, COUNTERS)

    absent = take_turns({
        "instruments": lambda: measured("instruments_bench", "^(CounterAdd|SharedAtomicAdd|GaugeSet|ExplicitRecord|ExponentialRecord)", 3),
        "records": lambda: measured("sdk_inference_bench", "^BM_"),
        "plugin": lambda: measured("inject_nccl_bench", "^NcclCallPaired", 3),
    })  # fmt: skip
    try:  # once: two files of a million records are made for it
        measured("store_telemetry_bench", "^(RolledUpAll|RolledUpByModel|RolledUpByHour|PlainSqlByModel)$")
    except measure.Absent as reason:
        absent["summaries"] = str(reason)
    return {"timings": {name: timing.plain() for name, timing in timings.items()}, "absent": absent}
