"""Counters, gauges and histograms of a program about itself, and the registry that owns their series.

    requests = Counter("http.server.requests", unit="{request}")
    chat = requests.bind(route="/chat", stream=True)
    chat.add(1)
    latency = Histogram("http.server.request.duration", unit="s")
    with latency.time():
        handle()

Making one may fail and raises; recording does not wait, take a lock or allocate, and drops and counts what it cannot
keep. Counts are exact under any number of threads. After os.fork() the child begins with 0.
"""
from ._core import (
    Counter,
    DoubleCounter,
    DoubleUpDownCounter,
    Gauge,
    Histogram,
    Registry,
    Sample,
    UpDownCounter,
    dropped_records,
    process_registry,
)

__all__ = [
    "Counter",
    "DoubleCounter",
    "DoubleUpDownCounter",
    "Gauge",
    "Histogram",
    "Registry",
    "Sample",
    "UpDownCounter",
    "dropped_records",
    "process_registry",
]
