"""Engines of these tests, and what their records are reported to."""
import asyncio
import threading
import time

USAGE = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}


class Kept(list):
    """A store: the records in the order in which they came."""

    def record(self, record):
        self.append(record)


class Bus(list):
    """A bus that keeps what is published."""

    def publish(self, event_type, data=None):
        self.append((str(getattr(event_type, "value", event_type)), data))

    def records(self):
        return [data["record"] for kind, data in self if kind == "telemetry_record"]


class Broken:
    """A store and a bus that fail."""

    def record(self, record):
        raise RuntimeError("the disk is gone")

    def publish(self, event_type, data=None):
        raise RuntimeError("the line is cut")


def pause(seconds):
    """Time passes, as an engine or a consumer takes it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        threading.Event().wait(max(end - time.monotonic(), 0))


class Engine:
    """Gives what it is reported to, taking `seconds` before each of its chunks."""

    engine_id = "fake"

    def __init__(self, chunks=("a", "b", "c"), usage=None, seconds=0.0, error=None, result=None):
        self.chunks, self.usage, self.seconds, self.error = list(chunks), usage, seconds, error
        self.answer = result if result is not None else {"content": "abc", "usage": dict(USAGE), "cost_usd": 0.25}
        self.seen, self.closed = [], False

    def generate(self, messages, *, model, **kwargs):
        """What the engine says of it."""
        self.seen.append((messages, model, kwargs))
        pause(self.seconds)
        if self.error:
            raise self.error
        return self.answer

    def stream(self, messages, *, model, **kwargs):
        self.seen.append((messages, model, kwargs))
        try:
            for chunk in self.chunks:
                pause(self.seconds)
                yield chunk
            if self.error:
                raise self.error
            if self.usage:
                yield {"usage": self.usage}
        finally:
            self.closed = True

    def stream_full(self, messages, *, model, **kwargs):
        return self.stream(messages, model=model, **kwargs)

    def list_models(self):
        return ["m"]


class AsyncEngine(Engine):
    """The same in coroutines."""

    async def generate(self, messages, *, model, **kwargs):
        self.seen.append((messages, model, kwargs))
        await asyncio.sleep(self.seconds)
        if self.error:
            raise self.error
        return self.answer

    async def stream(self, messages, *, model, **kwargs):
        try:
            for chunk in self.chunks:
                await asyncio.sleep(self.seconds)
                yield chunk
            if self.error:
                raise self.error
            if self.usage:
                yield {"usage": self.usage}
        finally:
            self.closed = True
