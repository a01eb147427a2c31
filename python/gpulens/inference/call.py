"""One call of an engine while it runs: engine time, token arrivals and outcome."""
from __future__ import annotations

import contextvars
import time
from typing import Any, List, Optional, Tuple

from ..stats import describe
from .chunks import Usage, find, finish_of, number, says_something, tokens_of, usage_of
from .record import InferenceRecord

__all__ = ["Call"]

_clock = time.monotonic
_NOTHING = Usage()
# Targets of the calls around this one, which do not record a nested call again.
reported_by: contextvars.ContextVar = contextvars.ContextVar("gpulens_reported_by", default=())


class Call:
    """A running call, for one thread at a time. Its methods raise nothing; failures are counted by the
    recorder.

    The engine's clock runs between enter() and leave() only, so a consumer that takes its time between two
    chunks changes neither the TTFT, the inter-token latency nor the latency of the call.
    """

    def __init__(self, recorder: Any, targets: Tuple[Any, ...], model: str) -> None:
        self.recorder, self.targets = recorder, targets
        self.record = InferenceRecord(model=model, time=time.time(), **recorder.labels)
        self.window: Any = None
        self.reported: Any = None  # values kept by a target
        self.idle = False  # nothing has run yet, and perhaps never will
        self.on_loop = False  # the end must not wait, since that would block the event loop
        self.done = False
        self._around = reported_by.get() + tuple(id(target.key) for target in targets)
        self._mark: Any = None
        self.begun = self._entered = _clock()
        self._spent = 0.0  # of the engine, up to the last leave()
        self._arrivals: List[Tuple[float, Optional[int]]] = []  # on the engine's clock, with the number of tokens if known
        self._usage = _NOTHING
        self._reported = 0  # tokens reported so far by usages that grow
        self._reason = ""  # why the model stopped

    # ---- the engine's time
    def enter(self) -> None:
        """Starts the engine's clock."""
        self.idle = False
        self._mark = reported_by.set(self._around)
        self._entered = _clock()

    def leave(self) -> None:
        """Stops the engine's clock."""
        self._spent += _clock() - self._entered
        mark, self._mark = self._mark, None
        if mark is not None:
            try:
                reported_by.reset(mark)
            except ValueError:  # it was ended from elsewhere, as an event loop ends generators
                pass

    def worked(self, seconds: float) -> None:
        """Adds engine time during which no caller waited here."""
        self._spent += seconds

    def chunk(self, chunk: Any) -> None:
        """Records a chunk of the engine, directly after leave()."""
        try:
            self.record.streaming = True
            tokens = self._tokens(chunk)
            if tokens == 0:
                return
            if self.window is not None:
                if not self._arrivals:
                    self.window.mark("decode")
                if tokens:
                    self.window.add_tokens(tokens)
            self._arrivals.append((self._spent, tokens))
        except Exception as error:
            self.recorder.failed("a chunk could not be parsed", error)

    def _tokens(self, chunk: Any) -> Optional[int]:
        if type(chunk) is not str:
            self._see(usage_of(chunk))
            self._name(chunk)
            tokens = tokens_of(chunk)
            if tokens is not None:
                return tokens
        if not says_something(chunk):
            return 0
        of = self.recorder.tokens_per_chunk
        tokens = of(chunk) if callable(of) else of
        completion = self._usage.completion
        if tokens is None and completion is not None and completion > self._reported:
            tokens, self._reported = completion - self._reported, completion  # a usage that grows with each chunk
        return tokens

    def _see(self, usage: Usage) -> None:
        if self._usage is _NOTHING:
            self._usage = usage
        elif usage != _NOTHING:
            self._usage = Usage(*(old if new is None else new for new, old in zip(usage, self._usage)))

    def _name(self, result: Any) -> None:
        """Keeps what a client's result reports besides tokens."""
        if self.recorder.of_client:
            self._reason = finish_of(result) or self._reason

    # ---- the end
    def result(self, result: Any) -> None:
        """Records the result of a call that does not stream."""
        try:
            self._see(usage_of(result))
            self.record.cost_usd = number(find(result, "cost_usd"))
            self.record.ttft_seconds = number(find(result, "ttft")) or float("nan")  # engines report 0 where they do not know it
            self._name(result)
            if not self.record.model:
                model = find(result, "model")
                self.record.model = model if isinstance(model, str) else ""
        except Exception as error:
            self.recorder.failed("a result could not be parsed", error)
        self.finish()

    def fail(self, error: BaseException) -> None:
        """Ends the call with an exception.

        An Exception is an error; KeyboardInterrupt, GeneratorExit and asyncio.CancelledError cancel the
        call.
        """
        if isinstance(error, Exception):
            self.finish("error", type(error).__name__)
        else:
            self.finish("cancelled")

    def finish(self, outcome: str = "ok", error_type: str = "") -> None:
        """Ends the call; only the first end counts."""
        if self._mark is not None:
            self.leave()
        if self.done:
            return
        self.done = True
        try:
            if self.window is not None:
                self.window.end()
        except Exception as error:
            self.recorder.failed("the energy of a call could not be measured", error)
        try:
            record = self.record
            record.outcome, record.error_type = outcome, error_type
            record.latency_seconds = self._spent
            record.consumer_seconds = max(_clock() - self.begun - self._spent, 0.0) if record.streaming else 0.0
            if self._reason:
                record.metadata = {"finish_reason": self._reason}
            self._count(outcome)
        except Exception as error:
            self.recorder.failed("a call could not be measured", error)
        self.recorder.ended(self)

    def _count(self, outcome: str) -> None:
        record, arrivals = self.record, self._arrivals
        counts = [tokens for _, tokens in arrivals]
        counted = sum(counts) if arrivals and None not in counts else None
        total = self._usage.completion
        record.prompt_tokens, record.prompt_tokens_evaluated = self._usage.prompt, self._usage.evaluated
        record.cached_prompt_tokens, record.total_tokens = self._usage.cached, self._usage.total
        record.completion_tokens = counted if total is None or (outcome != "ok" and counted is not None) else total
        if not record.streaming:
            return
        if counted is None and total == len(arrivals):
            counts = [1] * total  # as many chunks as tokens
        if arrivals:
            record.ttft_seconds = arrivals[0][0]
        if None not in counts:
            record.itl_seconds = describe(_gaps([at for at, _ in arrivals], counts))

    def __del__(self) -> None:
        try:
            if not self.done and not self.idle:
                self.finish("cancelled")  # a stream that was let go of
        except Exception:  # Python itself may be ending
            self.done = True


def _gaps(arrivals: List[float], counts: List[int]) -> List[float]:
    """Returns the seconds from token to token; a gap before several tokens is divided equally among them."""
    gaps: List[float] = []
    for i in range(1, len(arrivals)):
        gaps += [(arrivals[i] - arrivals[i - 1]) / counts[i]] * counts[i]
    return gaps
