"""A record of each call of an inference engine: who, how many tokens, how long, how many joules.

    store = gpulens.InferenceStore("~/.gpulens/telemetry.db")          # an old telemetry.db opens as it is
    engine = gpulens.instrument(engine, store=store, energy=gpulens.EnergyMonitor())
    for chunk in engine.stream(messages, model="llama-3.1-8b"):        # the same methods, the same results
        print(chunk, end="")
    for row in store.summary(since=timedelta(hours=1), by="model"):
        print(row.key, row.calls, row.errors, row.ttft_seconds.p95, row.joules_per_output_token)

Recording neither waits nor fails: what cannot be kept is counted in the store's health. What was not measured is NaN or None
and counts in no mean: `n` of a Distribution says how many calls measured it.
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
