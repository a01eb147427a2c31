"""A server that speaks the APIs of OpenAI and Anthropic on 127.0.0.1, with answers of four tokens."""
import contextlib
import http.server
import json
import threading
import time

WORDS = ["Tokens", ", not", " chunks", "."]
GAP = 0.02  # seconds before each word of a stream
OPENAI_USAGE = {"prompt_tokens": 12, "completion_tokens": 4, "total_tokens": 16, "prompt_tokens_details": {"cached_tokens": 8}}
ANTHROPIC_USAGE = {"input_tokens": 12, "cache_read_input_tokens": 8, "cache_creation_input_tokens": 0, "output_tokens": 4}
RESPONSES_USAGE = {"input_tokens": 12, "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 4,
                   "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 16}


def chat(query):
    return {"id": "c", "object": "chat.completion", "created": 1, "model": query["model"], "usage": OPENAI_USAGE,
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "".join(WORDS)}}]}


def chat_stream(query):
    def chunk(delta, reason=None, **more):
        return None, {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": query["model"],
                      "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **more}

    yield chunk({"role": "assistant", "content": ""})
    for word in WORDS:
        time.sleep(GAP)
        yield chunk({"content": word})
    yield chunk({}, "stop")
    if (query.get("stream_options") or {}).get("include_usage"):
        yield None, {**chunk({})[1], "choices": [], "usage": OPENAI_USAGE}


def response(query, status="completed", text="".join(WORDS)):
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    output = [{"id": "o", "type": "message", "role": "assistant", "status": status, "content": [part]}] if status == "completed" else []
    return {"id": "r", "object": "response", "created_at": 1, "model": query["model"], "status": status, "output": output, "tools": [],
            "tool_choice": "auto", "parallel_tool_calls": True, "error": None, "incomplete_details": None, "instructions": None,
            "metadata": {}, "temperature": 1.0, "top_p": 1.0, "usage": RESPONSES_USAGE if status == "completed" else None}


def response_stream(query):
    at = {"item_id": "o", "output_index": 0, "content_index": 0}
    numbers = iter(range(100))

    def event(kind, **more):
        return kind, {"type": kind, "sequence_number": next(numbers), **more}

    yield event("response.created", response=response(query, "in_progress"))
    item = {"id": "o", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    yield event("response.output_item.added", output_index=0, item=item)
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    yield event("response.content_part.added", part=part, **at)
    for word in WORDS:
        time.sleep(GAP)
        yield event("response.output_text.delta", delta=word, logprobs=[], **at)
    yield event("response.output_text.done", text="".join(WORDS), logprobs=[], **at)
    yield event("response.completed", response=response(query))


def message(query, **more):
    return {"id": "m", "type": "message", "role": "assistant", "model": query["model"], "content": [{"type": "text", "text": "".join(WORDS)}],
            "stop_reason": "end_turn", "stop_sequence": None, "usage": ANTHROPIC_USAGE, **more}


def message_stream(query):
    def event(kind, **more):
        return kind, {"type": kind, **more}

    yield event("message_start", message=message(query, content=[], stop_reason=None, usage={**ANTHROPIC_USAGE, "output_tokens": 1}))
    yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    yield event("ping")
    for word in WORDS:
        time.sleep(GAP)
        yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": word})
    yield event("content_block_stop", index=0)
    yield event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage={"output_tokens": 4})
    yield event("message_stop")


def embeddings(query):
    return {"object": "list", "model": query["model"], "data": [{"object": "embedding", "index": 0, "embedding": [0.25, 0.5]}],
            "usage": {"prompt_tokens": 5, "total_tokens": 5}}


def completion(query):
    return {"id": "t", "object": "text_completion", "created": 1, "model": query["model"], "usage": OPENAI_USAGE,
            "choices": [{"index": 0, "finish_reason": "length", "text": "".join(WORDS), "logprobs": None}]}


ANSWERS = {
    "/v1/chat/completions": (chat, chat_stream), "/v1/responses": (response, response_stream), "/v1/messages": (message, message_stream),
    "/v1/embeddings": (embeddings, None), "/v1/completions": (completion, None),
}  # fmt: skip


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        whole, stream = ANSWERS[self.path.partition("?")[0]]
        if query["model"] == "none":
            error = {"type": "error", "error": {"type": "not_found_error", "message": "no such model"}}
            return self.send(404, "application/json", json.dumps(error).encode())
        if not query.get("stream"):
            return self.send(200, "application/json", json.dumps(whole(query)).encode())
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.close_connection = True
        self.end_headers()
        with contextlib.suppress(OSError):  # the client may close a stream
            for kind, data in stream(query):
                self.wfile.write((f"event: {kind}\n" if kind else "").encode() + f"data: {json.dumps(data)}\n\n".encode())
                self.wfile.flush()
                if query["model"] == "breaks":  # in the middle of the answer
                    return self.wfile.write(b'data: {"error": {"message": "overloaded"}}\n\n')
            if kind is None:
                self.wfile.write(b"data: [DONE]\n\n")

    def send(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serve():
    """Serves within a with statement, whose value is the address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
