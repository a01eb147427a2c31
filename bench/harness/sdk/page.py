"""The SDK's results as tables."""
import statistics

from harness.tables import number as _number
from harness.tables import table as _table
from python import peers


def _sdk(found):
    rows, counted = [], []
    for name, timing in found["timings"].items():
        if "counters" in timing:
            counters = ", ".join(f"{key} {statistics.median(values):,.4g}" for key, values in timing["counters"].items())
            counted.append([name.split("/iterations")[0], counters])
        else:
            rows.append([name, *[_number(timing[key] * 1e9) for key in ("best_s", "median_s")]])
    return _table(["", "CPU ns, best", "median"], rows) + [""] + _table(["in rounds", "medians of repetitions"], counted) + [""]


def _ring(found):
    rows = []
    for name, timing in found["timings"].items():
        if "counters" in timing:
            continue
        count = 512 if name.startswith("Throughput") else 1
        rows.append([name.replace("/real_time", ""), *[_number(timing[key] / count * 1e9) for key in ("best_s", "median_s", "wall_median_s")]])
    return _table(["", "CPU ns, best", "median", "wall ns, median"], rows) + [""]


def _python(found):
    libraries = list(found["versions"])
    rows = []
    for what, by in found["calls"].items():
        cells = [f"{by[name]['best_ns']:,.0f} ({by[name]['median_ns']:,.0f})" if name in by else "–" for name in libraries]
        rows.append([what, *cells])
    lines = _table(["ns a call, best (median)", *[f"{name} {version}" for name, version in found["versions"].items()]], rows)
    rows = [[name, f"{seconds * 1e3:.1f}"] for name, seconds in found["imports"].items()]
    return lines + [""] + _table(["import, ms of CPU, median", ""], rows) + [""]


def _peers(found):
    lines = []
    for head, rows in peers.tables(found):
        lines += _table(head, rows) + [""]
    return lines


SECTIONS = {
    "sdk": ("Instruments and records", "One call each. A record has 13 of its numbers and three names; BM_RecordCall is a caller's CPU time in rounds of "
            "1,024 or 8,192, between which the writer has its turn; Contended: 8 threads. BM_InsertCalls: transactions of 1,000 rows by our writer "
            "and by a prepared statement of raw SQLite in turn, into the same table; ratio: our rate to raw SQLite's. RolledUp…: summaries of a "
            "million records; PlainSql…: a GROUP BY without percentiles. NcclCallPaired: a collective of 8 channels is 26 calls of the plugin; in turn "
            "with as many readings of the clock.", _sdk),
    "sdk_python": ("From Python", "One thread, in turn in one process, CPU time; a loop that does nothing is taken off. Three attributes, bound "
               "once where a library can do that (opentelemetry cannot). Histograms have ten bounds. A call's record goes into an SQLite file; "
               "caller: CPU time of the thread that records, all: of the process until it is in the file. sqlite3 inserts the same row, 50 "
               "a commit.", _python),
    "sdk_peers": ("Next to Zeus and OpenJarvis", "bench/python/peers.py: one process, on eight simulated GPUs whose driver answers at once. The calls of a "
                  "real one take longer: Zeus and OpenJarvis make them at the edges of a window, gpulens in a thread, which takes CPU while nothing is "
                  "measured, too (idle). begin and end: around nothing; with the result: read at once, for which gpulens waits for one more reading. "
                  "CPU is that of all threads. Joules of blocks of 50 ms against what the simulated GPUs draw. Zeus synchronises no CUDA. Records "
                  "as above, by OpenJarvis' own store, too.", _peers),
    "sdk_ring": ("Actors", "A message and its reply, in ns. OwnWork: all of an actor's work on it in one thread, without wake-ups; telemetry 0: "
             "compiled without, 1: off, 2: on. Throughput: 512 at a time. round_trips and pipelined: gpulens.ring in Python, one thread, against "
             "two asyncio queues and a task. SummaryOf1000: of a thousand kernels.", _ring),
}  # fmt: skip
