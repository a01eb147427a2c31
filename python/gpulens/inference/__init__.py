"""Records of the calls of an inference engine: model, tokens, latencies and energy of each call.

    store = gpulens.InferenceStore("~/.gpulens/telemetry.db")          # opens an existing telemetry.db as it is
    engine = gpulens.instrument(engine, store=store, energy=gpulens.EnergyMonitor())
    for chunk in engine.stream(messages, model="llama-3.1-8b"):        # the same methods, the same results
        print(chunk, end="")
    for row in store.summary(since=timedelta(hours=1), by="model"):
        print(row.key, row.calls, row.errors, row.ttft_seconds.p95, row.joules_per_output_token)

Recording neither waits nor fails: records that cannot be kept are counted in the store's health. Values
that were not measured are NaN or None and count in no mean; `n` of a Distribution is the number of calls
that measured the value.
"""
from .store import InferenceCall, InferenceStore, InferenceSummary, StoreHealth  # first: its end is the last
from .engine import InstrumentedEngine, instrument  # isort: skip
from .record import InferenceRecord

__all__ = [
    "InferenceCall",
    "InferenceRecord",
    "InferenceStore",
    "InferenceSummary",
    "InstrumentedEngine",
    "StoreHealth",
    "instrument",
]
