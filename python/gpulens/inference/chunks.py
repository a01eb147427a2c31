"""Token counts in the results and stream chunks of engines, in the formats that the engines use."""
from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional

__all__ = ["Usage", "find", "finish_of", "number", "says_something", "tokens_of", "usage_of"]

_TEXTS = ("content", "text", "token", "reasoning_content", "reasoning", "tool_calls", "function_call")
# Types of events without output, of Anthropic's streams.
_OTHER = (
    "message_start", "message_delta", "message_stop", "content_block_start", "content_block_stop", "ping", "error", "signature",
)  # fmt: skip
_ENDED = ("completed", "incomplete", "failed", "cancelled")  # of a response of OpenAI
_HEADS = ("choices", "delta", "message", "usage", "token_ids", "role", "finish_reason")


class Usage(NamedTuple):
    """Token counts of a call; None: not reported. Of the prompt tokens, `cached` came from a cache and
    `evaluated` did not."""

    prompt: Optional[int] = None
    completion: Optional[int] = None
    total: Optional[int] = None
    cached: Optional[int] = None
    evaluated: Optional[int] = None


def find(thing: Any, name: str) -> Any:
    """Returns an item of a mapping or an attribute of an object, or None where it does not exist."""
    if type(thing) is dict or isinstance(thing, Mapping):  # the first is the quick one
        return thing.get(name)
    try:  # a model of pydantic, as clients return them, takes microseconds to find that it lacks an attribute
        extra = thing.__pydantic_extra__
        return vars(thing)[name] if name in vars(thing) else (extra or {}).get(name)
    except (AttributeError, TypeError):
        return getattr(thing, name, None)


def count(value: Any) -> Optional[int]:
    """Returns the value where it is a number of tokens, else None."""
    return value if type(value) is int and value >= 0 else None


def number(value: Any) -> float:
    """Returns the value where it is a finite number of 0 or more, else NaN."""
    if type(value) in (int, float) and 0 <= value < float("inf"):
        return float(value)
    return float("nan")


def _first(thing: Any, *names: str) -> Optional[int]:
    if thing is None:
        return None
    for name in names:
        value = count(find(thing, name))
        if value is not None:
            return value
    return None


def usage_of(result: Any) -> Usage:
    """Returns the usage of a result or a chunk: the usage object of OpenAI, Anthropic or OpenJarvis, or
    Ollama's counts."""
    if result is None or isinstance(result, (str, bytes)):
        return Usage()
    usage = find(result, "usage")
    kind = find(result, "type") if usage is None else None
    if kind == "message_start":  # Anthropic's first event, whose completion tokens are not those of the answer
        return usage_of(find(result, "message"))._replace(completion=None)
    if kind == "chunk":  # OpenAI's helper, around a chunk
        return usage_of(find(result, "chunk"))
    if isinstance(kind, str) and kind.startswith("response."):  # OpenAI's responses: the last event has the whole response
        return usage_of(find(result, "response"))
    if usage is None:
        return Usage(_first(result, "prompt_eval_count"), _first(result, "eval_count"))
    prompt = _first(usage, "prompt_tokens", "input_tokens")
    cached = _first(usage, "cached_tokens")
    if cached is None:
        details = find(usage, "prompt_tokens_details") or find(usage, "input_tokens_details")
        cached = _first(details, "cached_tokens")
    read = _first(usage, "cache_read_input_tokens")
    if read is not None and prompt is not None:  # Anthropic, whose input_tokens are without them
        cached = read
        prompt += read + (_first(usage, "cache_creation_input_tokens") or 0)
    completion, total = _first(usage, "completion_tokens", "output_tokens"), _first(usage, "total_tokens")
    return Usage(prompt, completion, total, cached, _first(usage, "prompt_tokens_evaluated"))


def _length(value: Any) -> Optional[int]:
    return len(value) if isinstance(value, (list, tuple)) else count(value)


def _own_tokens(part: Any) -> Optional[int]:
    for name in ("token_ids", "tokens", "n_tokens", "num_tokens", "token_count"):
        value = _length(find(part, name))
        if value is not None:
            return value
    logprobs = find(part, "logprobs")
    return _length(find(logprobs, "content")) if logprobs is not None else None


def tokens_of(chunk: Any) -> Optional[int]:
    """Returns the number of tokens that a chunk reports for itself, or None where it reports none."""
    if chunk is None or isinstance(chunk, (str, bytes)):
        return None
    own = _own_tokens(chunk)
    choices = find(chunk, "choices")
    if own is not None or not isinstance(choices, (list, tuple)):
        return own
    counts = [value for value in map(_own_tokens, choices) if value is not None]
    return sum(counts) if counts else None


def finish_of(result: Any) -> str:
    """Returns why the model stopped, in the words of OpenAI ("stop", "length") or Anthropic ("end_turn"); ""
    where it is not reported."""
    if find(result, "type") == "chunk":
        result = find(result, "chunk")
    choices = find(result, "choices")
    if isinstance(choices, (list, tuple)):
        reasons = [find(choice, "finish_reason") for choice in choices]
    else:
        status = find(find(result, "response") or result, "status")
        reasons = [find(find(result, "delta"), "stop_reason"), find(result, "stop_reason"), status if status in _ENDED else ""]
    return next((reason for reason in reasons if isinstance(reason, str) and reason), "")


def _has_output(chunk: Any, kind: str) -> Optional[bool]:
    """Returns whether an event of this type has output; None for an unknown type."""
    if kind == "chunk":
        return says_something(find(chunk, "chunk"))
    if kind.startswith("response."):
        return kind.endswith(".delta")
    if kind == "content_block_delta":
        return True
    if kind in _OTHER or kind.endswith((".delta", ".done")) or find(chunk, "snapshot") is not None:
        return False  # an event of a helper repeats what the event before it has
    return None


def _texts(part: Any) -> Optional[bool]:
    """Returns whether the part contains text; None where it has no field for text."""
    known = False
    for name in _TEXTS:
        value = find(part, name)
        if value:
            return True
        known = known or value is not None
    return False if known or any(find(part, name) is not None for name in _HEADS) else None


def says_something(chunk: Any) -> bool:
    """Returns whether a chunk that reports no tokens contains output, as opposed to the role, the usage or the end
    of a stream.

    Chunks of unknown type count as output.
    """
    if chunk is None or isinstance(chunk, (str, bytes)):
        return bool(chunk)
    kind = find(chunk, "type")
    has_output = _has_output(chunk, kind) if isinstance(kind, str) else None
    if has_output is not None:
        return has_output
    parts = [chunk, find(chunk, "delta"), find(chunk, "message")]
    choices = find(chunk, "choices")
    for choice in choices if isinstance(choices, (list, tuple)) else ():
        parts += [choice, find(choice, "delta")]
    found = [_texts(part) for part in parts if part is not None]
    return True in found or all(has_text is None for has_text in found)
