"""A model server as LiteLLM's proxy expects one upstream: OpenAI's chat protocol, answers of a known number of tokens.

A prompt that begins with `fail` is answered with status 500. Streams send one token at a time, `GAP` seconds apart, the
first after `FIRST` seconds, so that a client's clock and the proxy's can be compared.
"""
import http.server
import json
import threading

FIRST, GAP = 0.06, 0.01


def chunk(model, content=None, finish=None, usage=None):
    body = {"id": "chat-1", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": []}
    if usage is None:
        body["choices"] = [{"index": 0, "delta": {"content": content} if content else {}, "finish_reason": finish}]
    else:
        body["usage"] = usage
    return f"data: {json.dumps(body)}\n\n".encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.answer(200, {"object": "list", "data": []})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        words = request["messages"][-1]["content"].split()
        if words[0] == "fail":
            self.answer(500, {"error": {"message": "requested failure", "type": "server_error"}})
            return
        tokens = request.get("max_tokens", 5)
        usage = {"prompt_tokens": len(words), "completion_tokens": tokens, "total_tokens": len(words) + tokens}
        if request.get("stream"):
            self.stream(request["model"], tokens, usage)
            return
        message = {"role": "assistant", "content": "word " * tokens}
        self.answer(200, {"id": "chat-1", "object": "chat.completion", "created": 1, "model": request["model"], "usage": usage,
                          "choices": [{"index": 0, "message": message, "finish_reason": "length"}]})

    def stream(self, model, tokens, usage):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        wait = threading.Event()  # never set: a pause
        wait.wait(FIRST)
        for _ in range(tokens):
            self.wfile.write(chunk(model, "word "))
            self.wfile.flush()
            wait.wait(GAP)
        self.wfile.write(chunk(model, finish="length") + chunk(model, usage=usage) + b"data: [DONE]\n\n")
        self.close_connection = True


class Upstream:
    """The server, in a thread of the test; use it in a with statement."""

    def __enter__(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
