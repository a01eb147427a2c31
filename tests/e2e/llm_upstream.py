"""A scripted provider of LLM APIs, and `gpulens proxy` before it: for tests of its numbers.

    with LlmUpstream() as upstream, LlmProxy(f"providers: [{{name: one, url: '{upstream.url}', prices: list}}]") as proxy:
        status, headers, body = proxy.send({"model": "chat", "messages": []})
        proxy.page()

The name of a model says what the provider answers: `status-503` an error, `slow-200` after 200 ms, any other name at once. What each used is
`usage`, in the form of its API; streams have `words` events, `gap` seconds apart.
"""
import contextlib
import http.client
import http.server
import json
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading

from agent import BINARY, free_port, wait_until

# USD per million: 2 for input, 8 for output; every model of these names, whatever the provider is called.
MODELS = ("chat", "own-chat", "slow-200", "slow-1000", "slow-60000", "status-503", "status-429", "status-500", "gone")
PRICES = "provider\tmodel\tinput\toutput\tmax_input\tmax_output\n" + "".join(f"list\t{model}\t2000000\t8000000\t100000\t4096\n" for model in MODELS)


def events(*bodies, named=False):
    return [(f"event: {body['type']}\n" if named else "") + f"data: {body if isinstance(body, str) else json.dumps(body)}\n\n" for body in bodies]


class LlmUpstream:
    """OpenAI's chat completions, and Anthropic's messages."""

    def __init__(self, input_tokens=1000, output_tokens=0, words=4, gap=0.0):
        self.input, self.output, self.words, self.gap = input_tokens, output_tokens, words, gap
        self.requests = []  # paths, each in the moment when its body was read
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append(self.path)
                kind, _, number = body["model"].partition("-")
                if kind == "status":
                    return self.whole(int(number), {"error": {"message": "as it is scripted", "type": "error", "code": None}})
                if kind == "slow":
                    outer.ended.wait(int(number) / 1000)
                anthropic = self.path.endswith("/messages")
                if body.get("stream"):
                    return self.stream(outer.message_events(body["model"]) if anthropic else outer.chat_events(body))
                self.whole(200, outer.message(body["model"]) if anthropic else outer.chat(body["model"]))

            def whole(self, status, body):
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.answer([text])

            def stream(self, pieces):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Transfer-Encoding", "chunked")
                self.answer([*(b"%x\r\n%s\r\n" % (len(piece), piece.encode()) for piece in pieces), b"0\r\n\r\n"])

            def answer(self, pieces):
                with contextlib.suppress(OSError):  # the proxy may have gone
                    self.end_headers()
                    for i, piece in enumerate(pieces):
                        if i > 0:
                            outer.ended.wait(outer.gap)
                        self.wfile.write(piece)

            def log_message(self, *_):
                pass

        self.ended = threading.Event()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def chat_usage(self):
        return {"prompt_tokens": self.input, "completion_tokens": self.output, "total_tokens": self.input + self.output}

    def chat(self, model):
        message = {"role": "assistant", "content": "word " * self.words}
        return {"id": "c1", "object": "chat.completion", "created": 1, "model": model, "usage": self.chat_usage(),
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

    def chat_events(self, body):
        chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
        words = [{**chunk, "choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]}] * self.words
        end = [{**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
        with_usage = (body.get("stream_options") or {}).get("include_usage")
        return events(*words, *end, *([{**chunk, "choices": [], "usage": self.chat_usage()}] if with_usage else []), "[DONE]")

    def message(self, model):
        return {"id": "m1", "type": "message", "role": "assistant", "model": model, "stop_reason": "end_turn", "stop_sequence": None,
                "content": [{"type": "text", "text": "word " * self.words}], "usage": {"input_tokens": self.input, "output_tokens": self.output}}

    def message_events(self, model):
        start = {**self.message(model), "content": [], "stop_reason": None, "usage": {"input_tokens": self.input, "output_tokens": 0}}
        words = [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word "}}] * self.words
        return events({"type": "message_start", "message": start}, {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                      *words, {"type": "content_block_stop", "index": 0},
                      {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": self.output}},
                      {"type": "message_stop"}, named=True)


class LlmProxy:
    """`gpulens proxy` with one key, of the tenant acme. `config` has at least its providers. It listens on a port of its own, or where it does by default."""

    def __init__(self, config, environment=None, prices=PRICES, default_address=False):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-proxy-"))
        self.port = 8080 if default_address else free_port()
        self.config, self.log = self.folder / "proxy.yaml", self.folder / "log"
        (self.folder / "prices.tsv").write_text(prices)
        listen = "" if default_address else f"listen: ['127.0.0.1:{self.port}']\n"
        self.config.write_text(f"{listen}state_dir: {self.folder}/state\nprices: [{self.folder}/prices.tsv]\n{config}\n")
        self.environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **(environment or {})}
        self.key = self.new_key("ada")
        self.process = None

    def command(self, *words):
        """What `gpulens proxy` with these words prints."""
        done = subprocess.run([str(BINARY), "proxy", *words, "--config", str(self.config)], capture_output=True, text=True, env=self.environment, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def new_key(self, name, *words):
        """A key of the tenant acme; a running proxy reads it after SIGHUP."""
        return self.command("keys", "new", "--id", name, "--tenant", "acme", *words).strip()

    def __enter__(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([str(BINARY), "proxy", "--config", str(self.config)], env=self.environment, stderr=log)
        try:
            wait_until(self.answers, 30, "the proxy")
        except AssertionError:
            self.process.kill()
            raise AssertionError("the proxy does not answer: " + self.log.read_text()) from None
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(40)
        assert code == 0, f"exit code {code}: {self.log.read_text()}"
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self):
        """SIGKILL; `__enter__` starts it again with what it left."""
        self.process.kill()
        self.process.wait()

    def answers(self):
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.query("GET", "/-/healthy")[0] == 200
        except OSError:
            return False

    def query(self, method, path, body=None, **headers):
        """(status, headers, body) of a request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body=body, headers={name.replace("_", "-"): text for name, text in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def send(self, model="chat", path="/v1/chat/completions", key="", **members):
        body = {"model": model, "messages": [{"role": "user", "content": "write words"}], "max_tokens": 64, **members}
        return self.query("POST", path, json.dumps(body), Authorization=f"Bearer {key or self.key}", Content_Type="application/json")

    def page(self, token=""):
        status, _, body = self.query("GET", "/metrics", **({"Authorization": f"Bearer {token}"} if token else {}))
        assert status == 200, (status, body)
        return body.decode()


class Traffic:
    """Sends requests, round after round of `every` seconds, until it is closed."""

    def __init__(self, rounds, every):
        self.rounds, self.every, self.errors = rounds, every, []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        number = 0
        while not self._ended.wait(self.every):
            try:
                self.rounds(number)
            except Exception as error:  # noqa: BLE001
                self.errors.append(error)
            number += 1

    def close(self):
        self._ended.set()
        self._thread.join()
        assert not self.errors, self.errors[0]
