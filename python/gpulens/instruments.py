"""Counters, gauges and histograms of a program, and the registry that owns their series.

    requests = Counter("http.server.requests", unit="{request}")
    chat = requests.bind(route="/chat", stream=True)
    chat.add(1)
    latency = Histogram("http.server.request.duration", unit="s")
    with latency.time():                         # @latency.time() decorates a function, async or not
        handle()

Creating an instrument may fail and then raises. Recording does not wait, take a lock or allocate; values
that cannot be kept are dropped and counted. Counts are exact under any number of threads. After os.fork()
the child starts at 0.
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


def _made(kind, name, options, attributes):
    """Makes an instrument of a pickle, in the registry of this process."""
    made = kind(name, **options)
    return made.bind(attributes) if attributes else made


def _registry():
    """The registry of this process, for a pickle of that of another one."""
    return process_registry()
