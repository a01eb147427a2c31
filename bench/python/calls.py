"""Measures the cost of a call in Python: gpulens next to prometheus_client and opentelemetry-sdk, in one process and in turn.

usage: calls.py ROUNDS

Prints one line of JSON: {"calls": {what: {library: [ns of CPU a call, …]}}, "versions": {library: version}}. A loop that does
nothing is taken off. Attributes are those of a web server; where a library can bind them, they are bound once.
"""
import importlib.metadata
import json
import sys
import time
import timeit

import gpulens

BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0]
ATTRIBUTES = {"method": "GET", "route": "/chat", "status": 200}
CALLS = 100_000


def ours():
    counter = gpulens.Counter("http.server.requests", unit="{request}")
    histogram = gpulens.Histogram("http.server.request.duration", unit="s", bounds=BOUNDS)
    exponential = gpulens.Histogram("http.server.request.size", unit="By")
    bound = counter.bind(ATTRIBUTES)
    return {
        "counter add": ("add(1)", {"add": bound.add}),
        "counter add, attributes with it": ("add(1, a)", {"add": counter.add, "a": ATTRIBUTES}),
        "histogram record": ("record(0.042)", {"record": histogram.bind(ATTRIBUTES).record}),
        "histogram record, exponential": ("record(0.042)", {"record": exponential.bind(ATTRIBUTES).record}),
        "a block timed": ("with h.time(): pass", {"h": histogram.bind(ATTRIBUTES)}),
    }


def prometheus():
    import prometheus_client

    labels = [str(value) for value in ATTRIBUTES.values()]
    counter = prometheus_client.Counter("requests", "Requests.", list(ATTRIBUTES))
    histogram = prometheus_client.Histogram("duration_seconds", "Duration.", list(ATTRIBUTES), buckets=BOUNDS)
    return {
        "counter add": ("inc(1)", {"inc": counter.labels(*labels).inc}),
        "counter add, attributes with it": ("c.labels(*a).inc(1)", {"c": counter, "a": labels}),
        "histogram record": ("observe(0.042)", {"observe": histogram.labels(*labels).observe}),
        "a block timed": ("with h.time(): pass", {"h": histogram.labels(*labels)}),
    }


def opentelemetry():
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View

    view = View(instrument_name="size", aggregation=ExponentialBucketHistogramAggregation())
    meter = MeterProvider([InMemoryMetricReader()], views=[view]).get_meter("bench")
    counter, histogram, size = meter.create_counter("requests"), meter.create_histogram("duration"), meter.create_histogram("size")
    return {
        "counter add": ("add(1, a)", {"add": counter.add, "a": ATTRIBUTES}),
        "counter add, attributes with it": ("add(1, a)", {"add": counter.add, "a": ATTRIBUTES}),
        "histogram record": ("record(0.042, a)", {"record": histogram.record, "a": ATTRIBUTES}),
        "histogram record, exponential": ("record(0.042, a)", {"record": size.record, "a": ATTRIBUTES}),
    }


def nanoseconds(statement, names):
    timer = timeit.Timer(statement, timer=time.process_time, globals=names)
    return timer.timeit(CALLS) / CALLS * 1e9


def main(rounds):
    cases, versions = {}, {"gpulens": gpulens.__version__}
    for library, make, package in (
        ("gpulens", ours, None),
        ("prometheus_client", prometheus, "prometheus_client"),
        ("opentelemetry", opentelemetry, "opentelemetry-sdk"),
    ):
        try:
            made = make()
        except ImportError as error:
            print(f"{library}: {error}", file=sys.stderr)
            continue
        if package:
            versions[library] = importlib.metadata.version(package)
        for what, case in made.items():
            cases.setdefault(what, {})[library] = case
    calls = {what: {library: [] for library in by} for what, by in cases.items()}
    for _ in range(rounds):
        empty = min(nanoseconds("pass", {}) for _ in range(3))
        for what, by in cases.items():
            for library, (statement, names) in by.items():
                calls[what][library].append(max(nanoseconds(statement, names) - empty, 0.0))
    print(json.dumps({"calls": calls, "versions": versions}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
