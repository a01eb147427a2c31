"""A scripted provider of LLM APIs (OpenAI, Anthropic, Gemini, Ollama) that lists what it answered, and what that is charged."""
import dataclasses
import http.server
import itertools
import json
import re
import threading

# Micro-dollars per million tokens, so a token costs as many picodollars.
PRICES = {
    ("openai", "gpt-test"): {"input": 2_000_000, "cached_input": 500_000, "output": 8_000_000},
    ("openai", "embed-test"): {"input": 20_000},
    ("anthropic", "claude-test"): {"input": 3_000_000, "cached_input": 300_000, "cache_write": 3_750_000, "output": 15_000_000},
    ("gemini", "gemini-test"): {"input": 1_250_000, "cached_input": 310_000, "output": 10_000_000, "reasoning_output": 10_000_000},
    ("gemini", "embed-test"): {"input": 150_000},
    ("ollama", "llama-test"): {"input": 70_000, "output": 110_000},
    ("ollama", "embed-test"): {"input": 10_000},
}
_CLASSES = {"input": "input", "input_cached": "cached_input", "input_write_5m": "cache_write", "output": "output", "output_reasoning": "reasoning_output"}


def price_file():
    """The text of PRICES as the proxy reads it."""
    columns = sorted(set(_CLASSES.values()))
    lines = ["\t".join(("provider", "model", "mode", *columns, "max_input", "max_output"))]
    for (provider, model), prices in PRICES.items():
        mode = "embedding" if "output" not in prices else "chat"
        lines.append("\t".join((provider, model, mode, *(str(prices.get(one, "-")) for one in columns), "100000", "4096")))
    return "\n".join(lines) + "\n"


@dataclasses.dataclass
class Answer:
    """What the provider sent for one request."""
    number: int
    path: str
    headers: dict
    body: dict
    provider: str = ""
    model: str = ""
    units: dict = dataclasses.field(default_factory=dict)  # what it counted; none: it sent no counts
    stopped: threading.Event = dataclasses.field(default_factory=threading.Event)  # the other side ended it early

    @property
    def id(self):
        """As x-request-id, which the proxy keeps with the charge."""
        return f"up{self.number}"

    @property
    def pico(self):
        """Picodollars of what it counted."""
        prices = PRICES[self.provider, self.model]
        return sum(count * prices[_CLASSES[one]] for one, count in self.units.items())


def sse(*events, names=False):
    return ["".join((f"event: {one['type']}\n" if names else "", "data: ", one if isinstance(one, str) else json.dumps(one), "\n\n")) for one in events]


ARGUMENTS = {"city": "Oslo", "usage": {"prompt_tokens": 1}}  # of the tool that is called: no counts
TEXT = json.dumps(ARGUMENTS)


class Provider(http.server.BaseHTTPRequestHandler):
    """Counts differ from answer to answer. Models: "busy" is refused, "endless" streams until the other side leaves, "cut" ends amid a stream."""
    protocol_version = "HTTP/1.1"
    answers = []
    numbers = itertools.count(1)

    @classmethod
    def serve(cls, test):
        """Starts it for a class of tests; the URL."""
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), cls)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        test.addClassCleanup(server.server_close)
        test.addClassCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"

    @classmethod
    def of(cls, text):
        """The answers to requests with this text, not as the begin of a longer one."""
        whole = re.compile(re.escape(text) + r"(?![ \w])")
        return [one for one in cls.answers if whole.search(json.dumps(one.body))]

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.it = Answer(next(self.numbers), self.path, dict(self.headers), body)
        self.answers.append(self.it)
        path = self.path.partition("?")[0]
        self.model, _, self.action = path.rpartition("/")[2].partition(":")
        self.model = body.get("model", self.model)
        self.ends_early = self.model in ("endless", "cut")
        script = {"/v1/chat/completions": self.chat, "/v1/responses": self.openai_response, "/v1/embeddings": self.embeddings, "/v1/messages": self.messages,
                  "/api/chat": self.ollama_chat, "/api/generate": self.ollama_generate, "/api/embed": self.ollama_embed}.get(path)
        if not script:
            script = self.gemini if self.action else self.nothing
        if self.model == "busy":
            return self.refuse(script)
        script(body)

    # --- what is sent ------------------------------------------------------------------------------

    def counts(self, provider, model, **units):
        self.it.provider, self.it.model, self.it.units = provider, model, units

    def nothing(self, _):
        self.answer({"error": {"message": "no such path"}}, 404)

    def refuse(self, script):
        message = "slow down"
        if script == self.messages:
            return self.answer({"type": "error", "error": {"type": "rate_limit_error", "message": message}}, 429)
        if script == self.gemini:
            return self.answer({"error": {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED"}}, 429)
        if script in (self.ollama_chat, self.ollama_generate):
            return self.answer({"error": message}, 429)
        return self.answer({"error": {"message": message, "type": "rate", "param": None, "code": "rate_limit_exceeded"}}, 429)

    def answer(self, body, status=200):
        text = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": len(text), "x-request-id": self.it.id, "Retry-After": "0"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def stream(self, events, kind="text/event-stream"):
        self.send_response(200)
        for name, value in {"Content-Type": kind, "Transfer-Encoding": "chunked", "x-request-id": self.it.id}.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            for event in events:
                piece = event.encode()
                for part in (piece[:9], piece[9:]):  # events are cut anywhere
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                if self.ends_early and "hel" in event:
                    break
            else:
                return self.wfile.write(b"0\r\n\r\n")
            self.close_connection = True
            if self.model == "endless":
                self.rfile.read(1)  # until the proxy goes
        except OSError:
            pass
        self.it.stopped.set()

    # --- OpenAI ------------------------------------------------------------------------------------

    def chat_usage(self):
        n = self.it.number
        if not self.ends_early:
            self.counts("openai", "gpt-test", input=100 + n, input_cached=900, output=50 + n)
        return {"prompt_tokens": 1000 + n, "completion_tokens": 50 + n, "total_tokens": 1050 + 2 * n, "prompt_tokens_details": {"cached_tokens": 900}}

    def chat(self, body):
        usage, calls = self.chat_usage(), body.get("tools")
        if body.get("stream"):
            return self.stream(self.chat_events(usage, (body.get("stream_options") or {}).get("include_usage"), calls))
        call = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": TEXT}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]} if calls else {"role": "assistant", "content": "hello"}
        self.answer({"id": "c1", "object": "chat.completion", "created": 1, "model": "gpt-test", "usage": usage,
                     "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}]})

    @staticmethod
    def chat_events(usage, with_usage, calls):
        chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test", **({"usage": None} if with_usage else {})}
        if calls:
            deltas = [{"tool_calls": [{"index": 0, "id": "t1", "type": "function", "function": {"name": "f", "arguments": TEXT[:7]}}]},
                      {"tool_calls": [{"index": 0, "function": {"arguments": TEXT[7:]}}]}]
        else:
            deltas = [{"content": "hel"}, {"content": "lo"}]
        events = [{**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None}]} for delta in deltas]
        events.append({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}]})
        return sse(*events, *([{**chunk, "choices": [], "usage": usage}] if with_usage else []), "[DONE]")

    def openai_response(self, body):
        n, calls = self.it.number, body.get("tools")
        if not self.ends_early:
            self.counts("openai", "gpt-test", input=10 + n, input_cached=300, output=20 + n)
        usage = {"input_tokens": 310 + n, "input_tokens_details": {"cached_tokens": 300}, "output_tokens": 20 + n,
                 "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 330 + 2 * n}
        item = {"id": "i1", "type": "message", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "hello", "annotations": []}]}
        if calls:
            item = {"id": "i1", "type": "function_call", "call_id": "t1", "name": "f", "arguments": TEXT, "status": "completed"}
        whole = {"id": "r1", "object": "response", "created_at": 1, "model": "gpt-test", "status": "completed", "output": [item], "usage": usage,
                 "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        if not body.get("stream"):
            return self.answer(whole)
        place = {"item_id": "i1", "output_index": 0}
        if calls:
            parts = [{"type": "response.output_item.added", "output_index": 0, "item": {**item, "arguments": ""}},
                     *({"type": "response.function_call_arguments.delta", **place, "delta": part} for part in (TEXT[:7], TEXT[7:]))]
        else:
            place["content_index"] = 0
            parts = [{"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
                     {"type": "response.content_part.added", **place, "part": {"type": "output_text", "text": "", "annotations": []}},
                     *({"type": "response.output_text.delta", **place, "delta": part, "logprobs": []} for part in ("hel", "lo"))]
        events = [{"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}}, *parts,
                  {"type": "response.output_item.done", "output_index": 0, "item": item}, {"type": "response.completed", "response": whole}]
        self.stream(sse(*({**one, "sequence_number": at} for at, one in enumerate(events)), names=True))

    def embeddings(self, body):
        n = self.it.number
        self.counts("openai", "embed-test", input=8 + n)
        # 0.5 and 0.25 as the four bytes of each, which clients request.
        vector = "AAAAPwAAgD4=" if body.get("encoding_format") == "base64" else [0.5, 0.25]
        self.answer({"object": "list", "model": "embed-test", "data": [{"object": "embedding", "index": 0, "embedding": vector}],
                     "usage": {"prompt_tokens": 8 + n, "total_tokens": 8 + n}})

    # --- Anthropic ---------------------------------------------------------------------------------

    def messages(self, body):
        n, calls = self.it.number, body.get("tools")
        usage = {"input_tokens": 10 + n, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 1 if body.get("stream") else 7 + n}
        self.counts("anthropic", "claude-test", input=10 + n, input_cached=100, input_write_5m=20, output=1 if self.ends_early else 7 + n)
        stop = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
        message = {"id": "m1", "type": "message", "role": "assistant", "model": "claude-test", "usage": usage, **stop}
        block = {"type": "tool_use", "id": "t1", "name": "f", "input": ARGUMENTS} if calls else {"type": "text", "text": "hello"}
        if not body.get("stream"):
            return self.answer({**message, "content": [block]})
        empty = {"input": {}} if calls else {"text": ""}
        deltas = ([{"type": "input_json_delta", "partial_json": part} for part in (TEXT[:7], TEXT[7:])] if calls else
                  [{"type": "text_delta", "text": part} for part in ("hel", "lo")])
        self.stream(sse(
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": {**block, **empty}}, {"type": "ping"},
            *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 7 + n}},
            {"type": "message_stop"}, names=True))

    # --- Gemini ------------------------------------------------------------------------------------

    def gemini(self, body):
        n = self.it.number
        if self.action == "batchEmbedContents":
            return self.answer({"embeddings": [{"values": [0.5, 0.25]} for _ in body["requests"]]})
        begin = {"promptTokenCount": 200 + n, "cachedContentTokenCount": 50, "candidatesTokenCount": 3, "totalTokenCount": 203 + n}
        whole = {**begin, "candidatesTokenCount": 30 + n, "thoughtsTokenCount": 5, "totalTokenCount": 235 + 2 * n}
        if self.ends_early:
            self.counts("gemini", "gemini-test", input=150 + n, input_cached=50, output=3)
        else:
            self.counts("gemini", "gemini-test", input=150 + n, input_cached=50, output=30 + n, output_reasoning=5)
        # A client that has a function called sends what it returned, and gets a text.
        calls = body.get("tools") and "functionResponse" not in json.dumps(body)

        def piece(part, counts, reason=None):
            candidate = {"content": {"role": "model", "parts": [part]}, "index": 0, **({"finishReason": reason} if reason else {})}
            return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": "gemini-test", "responseId": "g1"}
        if self.action == "generateContent":
            return self.answer(piece({"functionCall": {"name": "f", "args": ARGUMENTS}} if calls else {"text": "hello"}, whole, "STOP"))
        if calls:
            return self.stream(sse(piece({"functionCall": {"name": "f", "args": ARGUMENTS}}, whole, "STOP")))
        self.stream(sse(piece({"text": "hel"}, begin), piece({"text": "lo"}, whole, "STOP")))

    # --- Ollama ------------------------------------------------------------------------------------

    def ollama_stream(self, end, parts, whole):
        n = self.it.number
        if not self.ends_early:
            self.counts("ollama", "llama-test", input=26 + n, output=298 + n)
        last = {"done": True, "done_reason": "stop", "total_duration": 9, "load_duration": 1, "prompt_eval_count": 26 + n, "prompt_eval_duration": 2,
                "eval_count": 298 + n, "eval_duration": 3}
        about = {"model": "llama-test", "created_at": "2026-01-01T00:00:00Z"}
        if self.it.body.get("stream") is False:
            return self.answer({**about, **whole, **last})
        self.stream([json.dumps({**about, **one}) + "\n" for one in (*({**part, "done": False} for part in parts), {**end, **last})], "application/x-ndjson")

    def ollama_chat(self, body):
        def message(text, **more):
            return {"message": {"role": "assistant", "content": text, **more}}
        if body.get("tools"):
            calls = message("", tool_calls=[{"function": {"name": "f", "arguments": ARGUMENTS}}])
            return self.ollama_stream(message(""), [calls], calls)
        self.ollama_stream(message(""), [message("hel"), message("lo")], message("hello"))

    def ollama_generate(self, _):
        self.ollama_stream({"response": ""}, [{"response": "hel"}, {"response": "lo"}], {"response": "hello"})

    def ollama_embed(self, body):
        n = self.it.number
        self.counts("ollama", "embed-test", input=8 + n)
        inputs = body["input"] if isinstance(body["input"], list) else [body["input"]]
        self.answer({"model": "embed-test", "embeddings": [[0.5, 0.25] for _ in inputs], "total_duration": 9, "load_duration": 1, "prompt_eval_count": 8 + n})

    def log_message(self, *_):
        pass
