"""The SDK's budgets: calls from C++ and Python, records, actors."""
import statistics

from harness.budget import Budget


def _ns(name):
    """CPU nanoseconds of one call, best."""
    return lambda found: found["timings"][name]["best_s"] * 1e9


def _shared(found):
    return f"one shared atomic: {_ns('SharedAtomicAdd/threads:8')(found):,.1f} ns"


def _eight(found):
    return _ns("CounterAdd/threads:8")(found) / _ns("CounterAdd/threads:1")(found)


def _counter(name, key, pick=statistics.median):
    """A counter of a benchmark, over its repetitions."""
    return lambda found: pick(found["timings"][name]["counters"][key])


def _record(name):
    return _counter(name, "best_ns", min)


def _record_text(name):
    return lambda found: f"median of rounds {_counter(name, 'median_ns')(found):,.0f} ns"


def _insert_text(found):
    ours, raw = (_counter(INSERT, key)(found) for key in ("ours_ns", "raw_ns"))
    return f"{1e9 / ours:,.0f} against {1e9 / raw:,.0f} rows a second of CPU time"


def _summary(found):
    return found["timings"]["RolledUpByModel"]["best_s"]


def _summary_text(found):
    return f"by model; SQL without percentiles: {found['timings']['PlainSqlByModel']['best_s'] * 1e3:,.0f} ms"


def _ring(found, what, telemetry):
    """CPU seconds a message; telemetry 0: compiled without, 1: off, 2: on."""
    return found["timings"][f"{what}/telemetry:{telemetry}/real_time"]["best_s"]


def _paired(found, without, telemetry):
    return _counter(f"RoundTripPaired/of:{without}/telemetry:{telemetry}/iterations:1500/real_time", "wall_ratio")(found)


def _call(library):
    """Nanoseconds of an add in Python, best."""
    return lambda found: found["calls"]["counter add"][library]["best_ns"]


def _calls_text(found):
    by = found["calls"]["counter add"]
    return "; ".join(f"{name} {times['best_ns']:,.0f} ns" for name, times in by.items() if name != "gpulens")


RECORD, BACKLOG, CONTENDED = "BM_RecordCall/1024/iterations:100", "BM_RecordCall/8192/iterations:16", "BM_RecordCallContended/iterations:16"
INSERT = "BM_InsertCalls/iterations:100"
PLUGIN = "NcclCallPaired/iterations:200"

BUDGETS = (
    Budget("sdk_counter", "sdk", "a counter add", 1, True, "ns", False, _ns("CounterAdd/threads:1"), _shared),
    Budget("sdk_counter_threads", "sdk", "… with 8 threads: CPU against one thread's", 2, True, "×", True, _eight),
    Budget("sdk_exponential", "sdk", "a histogram record, exponential", 4, True, "ns", False, _ns("ExponentialRecord/threads:1")),
    Budget("sdk_explicit", "sdk", "… with bounds", 10, True, "ns", False, _ns("ExplicitRecord/threads:1")),
    Budget("sdk_record", "sdk", "record() of a call, alone", 30, True, "ns", False, _record(RECORD), _record_text(RECORD)),
    Budget("sdk_record_backlog", "sdk", "… 8,192 before the writer's turn", 30, True, "ns", False, _record(BACKLOG), _record_text(BACKLOG)),
    Budget("sdk_record_contended", "sdk", "… by 8 threads at once", 300, True, "ns", False, _record(CONTENDED), _record_text(CONTENDED)),
    Budget("sdk_insert", "sdk", "records into the file: rate against raw SQLite", 0.95, False, "×", True, _counter(INSERT, "ratio"), _insert_text),
    Budget("sdk_summary", "sdk", "summary of 1 M records", 20, True, "ms", False, lambda found: _summary(found) * 1e3, _summary_text),
    Budget("sdk_summary_sql", "sdk", "… against SQL over the rows", 0.05, True, "×", True,
           lambda found: _summary(found) / found["timings"]["PlainSqlByModel"]["best_s"]),
    Budget("plugin_call", "sdk", "a call of NCCL's profiler plugin at the level time, against a reading of the clock", 1.5, True, "×", True,
           _counter(PLUGIN, "ratio"), lambda found: f"{_counter(PLUGIN, 'ours_ns')(found):,.0f} ns"),
    Budget("plugin_allocations", "sdk", "… allocations in 2.6 M calls after init", 0, True, "", True, _counter(PLUGIN, "allocations", max)),
    Budget("python_add", "sdk_python", "a counter add from Python", 60, True, "ns", False,
           _call("gpulens"), _calls_text),
    Budget("python_add_prometheus", "sdk_python", "… against prometheus_client", 10, False, "×", True,
           lambda found: _call("prometheus_client")(found) / _call("gpulens")(found)),
    Budget("python_add_opentelemetry", "sdk_python", "… against opentelemetry-python", 50, False, "×", True,
           lambda found: _call("opentelemetry")(found) / _call("gpulens")(found)),
    Budget("python_import", "sdk_python", "import gpulens", 20, True, "ms", False,
           lambda found: found["imports"]["gpulens"] * 1e3),
    Budget("ring_off", "sdk_ring", "an actor with telemetry off, against one compiled without", 1.05, True, "×", True,
           lambda found: _ring(found, "OwnWork", 1) / _ring(found, "OwnWork", 0),
           lambda found: f"{_ring(found, 'OwnWork', 1) * 1e9:,.0f} ns a message and its reply, without wake-ups"),
    Budget("ring_on", "sdk_ring", "telemetry of a message: a round trip with it, against one without", 1.02, True, "×", True,
           lambda found: _paired(found, 1, 2),
           lambda found: f"{(_ring(found, 'OwnWork', 2) - _ring(found, 'OwnWork', 1)) * 1e9:,.0f} ns without wake-ups; both threads on one core"),
    Budget("ring_off_trip", "sdk_ring", "… turned off, against one compiled without", 1.01, True, "×", True,
           lambda found: _paired(found, 0, 1)),
)  # fmt: skip
