"""Measures the cost of recording a call in Python, compared with an insert by Python's own sqlite3 into the same table, in one process and in turn.

usage: records.py ROUNDS

Prints one line of JSON like calls.py. "caller": CPU time of the thread that records; "all": of the process, until all is in the
file. The insert commits every 50 rows, as OpenJarvis does, with its pragmas.
"""
import json
import os
import sqlite3
import sys
import tempfile
import time

import gpulens
from gpulens.compat import openjarvis

COUNT = 8000  # less than the queue holds
RESULT = {"content": "x", "usage": {"prompt_tokens": 512, "completion_tokens": 128, "total_tokens": 640}}
FIELDS = {
    "prompt_tokens": 512, "completion_tokens": 128, "total_tokens": 640, "latency_seconds": 0.5213, "ttft": 0.0812,
    "energy_joules": 41.81, "power_watts": 80.4, "throughput_tok_per_sec": 245.3, "engine": "vllm", "token_counting_version": 2,
}  # fmt: skip


class Engine:
    engine_id = "vllm"

    def generate(self, messages, *, model):
        return RESULT


class Plain:
    """Rows by sqlite3 into a table that gpulens has made."""

    def __init__(self, path):
        self.database = sqlite3.connect(path)
        self.database.execute("PRAGMA journal_mode=WAL")
        self.database.execute("PRAGMA synchronous=NORMAL")
        columns = [row[1] for row in self.database.execute("PRAGMA table_info(telemetry)") if row[1] not in ("id", "measured")]
        record = openjarvis.TelemetryRecord(timestamp=1.0, model_id="llama-3.1-8b", **FIELDS)
        self.row = tuple(self.value(record, name) for name in columns)
        self.statement = f"INSERT INTO telemetry ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        self.waiting = []

    @staticmethod
    def value(record, name):
        return "{}" if name == "metadata" else getattr(record, name, None)

    def record(self):
        self.waiting.append(self.row)
        if len(self.waiting) >= 50:
            self.database.executemany(self.statement, self.waiting)
            self.database.commit()
            self.waiting.clear()


def timed(call, done, caller):
    """Nanoseconds a call."""
    clock = time.thread_time_ns if caller else time.process_time_ns
    begun = clock()
    for _ in range(COUNT):
        call()
    if not caller:
        done()
    took = clock() - begun
    done()
    return took / COUNT


def nothing():
    pass


def cases(folder):
    path = os.path.join(folder, "ours.db")
    store = gpulens.InferenceStore(path)
    compat = openjarvis.TelemetryStore(os.path.join(folder, "compat.db"))
    openjarvis.TelemetryStore(os.path.join(folder, "plain.db")).close()
    plain = Plain(os.path.join(folder, "plain.db"))
    kept = gpulens.InferenceRecord(model="llama-3.1-8b", engine="vllm", prompt_tokens=512, completion_tokens=128,
                                   latency_seconds=0.5213, ttft_seconds=0.0812, energy_joules=41.81, power_watts=80.4)  # fmt: skip
    record = openjarvis.TelemetryRecord(timestamp=1.0, model_id="llama-3.1-8b", **FIELDS)
    engine = Engine()
    wrapped = gpulens.instrument(engine, store)
    ours = {
        "record": (lambda: store.record(kept), store.flush),
        "record, OpenJarvis' class": (lambda: compat.record(record), compat.flush),
    }
    out = {}
    for name, (call, done) in ours.items():
        for part, caller in (("caller", True), ("all", False)):
            out[f"{name}: {part}"] = {"gpulens": (call, done, caller), "sqlite3": (plain.record, nothing, caller)}
    out["generate() of an instrumented engine: caller"] = {
        "gpulens": (lambda: wrapped.generate([], model="llama-3.1-8b"), store.flush, True)}
    return out


def main(rounds):
    with tempfile.TemporaryDirectory() as folder:
        made = cases(folder)
        calls = {what: {library: [] for library in by} for what, by in made.items()}
        for _ in range(rounds):
            empty = timed(nothing, nothing, True)
            for what, by in made.items():
                for library, case in by.items():
                    calls[what][library].append(max(timed(*case) - empty, 0.0))
    print(json.dumps({"calls": calls, "versions": {"gpulens": gpulens.__version__, "sqlite3": sqlite3.sqlite_version}}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
