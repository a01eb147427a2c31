"""What hostile clients, names and answers can do to `gpulens proxy`, tried from outside over raw sockets.

The upstream keeps every byte that it gets, so a request that is smuggled, a key that leaks or a destination that a client chose is seen.
"""
import contextlib
import json
import pathlib
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import unittest

from agent import BINARY, free_port, wait_until

BODY = json.dumps({"model": "gpt-test", "max_tokens": 8, "messages": [{"role": "user", "content": "prompt-secret-5"}]})
ANSWER = json.dumps({"id": "c1", "object": "chat.completion", "created": 1, "model": "gpt-test",
                     "choices": [{"index": 0, "message": {"role": "assistant", "content": "answer-secret-6"}, "finish_reason": "stop"}],
                     "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}).encode()
PROVIDER_KEY = "provider-secret-1"


class Upstream:
    """Answers each request with `answer`, or a redirect for the model `moved`; keeps heads and bodies, and what was left of a connection."""

    def __init__(self):
        self.requests, self.rest, self.connections = [], [], 0
        self.moved_to = ""
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                peer = self._listener.accept()[0]
                self.connections += 1
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer):
        data = b""
        with peer, contextlib.suppress(OSError):
            while piece := peer.recv(65536):
                data += piece
                while b"\r\n\r\n" in data:
                    head, _, rest = data.partition(b"\r\n\r\n")
                    length = int((re.search(rb"(?i)\r\ncontent-length: *(\d+)", head) or [0, 0])[1])
                    if len(rest) < length:
                        break
                    body, data = rest[:length], rest[length:]
                    self.requests.append((head.decode("latin-1"), body))
                    if b'"moved"' in body:
                        peer.sendall(b"HTTP/1.1 307 Moved\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % self.moved_to.encode())
                    elif b'"refused"' in body:
                        peer.sendall(b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\n{}")
                    elif b'"reset"' in body:
                        return
                    else:
                        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nx-request-id: u%d\r\nContent-Length: %d\r\n\r\n%s"
                                     % (len(self.requests), len(ANSWER), ANSWER))
        if data:
            self.rest.append(data)

    def close(self):
        self._listener.close()


class SecurityCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-proxy-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.upstream, cls.trap = Upstream(), Upstream()
        for one in (cls.upstream, cls.trap):
            cls.addClassCleanup(one.close)
        cls.upstream.moved_to = f"http://127.0.0.1:{cls.trap.port}/v1/chat/completions"
        cls.port = free_port()
        (cls.folder / "prices.tsv").write_text("provider\tmodel\tinput\toutput\tmax_input\tmax_output\n" + "".join(
            f"openai\t{model}\t2000000\t8000000\t100000\t4096\n" for model in ("gpt-test", "moved", "refused", "reset")))
        cls.config = cls.folder / "proxy.yaml"
        url = f"http://127.0.0.1:{cls.upstream.port}"
        metadata = [f"  - {{name: meta-{n}, url: 'http://{host}', prices: openai, connect_timeout: 2s}}\n" for n, host in enumerate(cls.metadata_hosts())]
        routes = [f"  - {{models: [meta-{n}], providers: [meta-{n}]}}\n" for n in range(len(metadata))]
        cls.config.write_text(
            f"listen: ['127.0.0.1:{cls.port}']\nstate_dir: {cls.folder}/state\nprices: [{cls.folder}/prices.tsv]\nlog: {{level: trace}}\n"
            f"providers:\n  - {{name: one, url: '{url}', prices: openai, api_key: '${{UPSTREAM_KEY}}'}}\n"
            f"  - {{name: gems, api: gemini, url: '{url}', profile: byok}}\n" + "".join(metadata) +
            "routes:\n" + "".join(routes) + "  - {models: ['*'], providers: [one, gems]}\n"
            "budgets: [{name: small, listed_only: true, usd: '10', window: month, mode: hard}]\n")
        trap = f"http://127.0.0.1:{cls.trap.port}"
        cls.environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "UPSTREAM_KEY": PROVIDER_KEY,
                           **{name: trap for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")}}
        cls.key = cls.new_key("--id", "ada")
        cls.limited = cls.new_key("--id", "limited", "--budgets", "small")
        cls.log = open(cls.folder / "log", "w+")  # noqa: SIM115
        cls.addClassCleanup(cls.log.close)
        cls.process = subprocess.Popen([str(BINARY), "proxy", "--config", str(cls.config)], env=cls.environment, stderr=cls.log)
        cls.addClassCleanup(cls.stop)
        wait_until(cls.serves, what="the proxy")

    @classmethod
    def metadata_hosts(cls):
        return ()

    @classmethod
    def new_key(cls, *words):
        return subprocess.run([str(BINARY), "proxy", "keys", "new", "--tenant", "acme", *words, "--config", str(cls.config)],
                              capture_output=True, text=True, env=cls.environment, check=True).stdout.strip()

    @classmethod
    def stop(cls):
        cls.process.terminate()
        assert cls.process.wait(40) == 0, (cls.folder / "log").read_text()[-3000:]

    @classmethod
    def serves(cls):
        try:
            socket.create_connection(("127.0.0.1", cls.port)).close()
            return True
        except OSError:
            return False

    def setUp(self):
        self.upstream.requests.clear()
        self.upstream.rest.clear()

    def exchange(self, data, shut=False):
        """Sends it all at once, and reads until the proxy closes: [(status, head, body)]."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as peer:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                peer.sendall(data if isinstance(data, bytes) else data.encode("latin-1"))
                if shut:
                    peer.shutdown(socket.SHUT_WR)
            got = b""
            while piece := peer.recv(65536):
                got += piece
        answers = []
        while got:
            head, mark, got = got.partition(b"\r\n\r\n")
            self.assertTrue(mark and re.match(rb"HTTP/1\.1 \d{3} ", head), head)
            status = int(head[9:12])
            self.assertNotIn(b"chunked", head)
            length = int((re.search(rb"(?i)\r\ncontent-length: *(\d+)", head) or [0, 0])[1])
            answers.append((status, head.decode("latin-1"), got[:length]))
            self.assertGreaterEqual(len(got), length)
            got = got[length:]
        return answers

    def post(self, body=BODY, path="/v1/chat/completions", fields="", key=None):
        return (f"POST {path} HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer {key or self.key}\r\nContent-Type: application/json\r\n"
                f"Connection: close\r\n{fields}Content-Length: {len(body)}\r\n\r\n{body}")


class Smuggling(SecurityCase):
    """Each case is sent with two more requests behind it: what is behind a refused one is never read."""

    def test_each_connection_has_the_requests_that_it_seems_to_have(self):
        line = "POST /v1/chat/completions HTTP/1.1\r\n"
        common = f"Host: proxy\r\nAuthorization: Bearer {self.key}\r\nContent-Type: application/json\r\n"
        begin, size = line + common, len(BODY)
        hidden = f"{line}{common}X-Hidden: 1\r\nContent-Length: {size}\r\n\r\n{BODY}"
        many = "X: a\r\n" * 300
        ones = "".join(f"1\r\n{c}\r\n" for c in BODY)
        last = "GET /-/healthy HTTP/1.1\r\nHost: proxy\r\nConnection: close\r\n\r\n"
        length, te = f"Content-Length: {size}\r\n", "Transfer-Encoding: chunked\r\n"
        chunks = f"{size:x}\r\n{BODY}\r\n0\r\n\r\n"

        def chunked(text):
            return f"{begin}{te}\r\n{text}"

        bad = {  # name: request, status
            "length and chunks": (f"{begin}{length}{te}\r\n{chunks}", 400),
            "chunks and length": (f"{begin}{te}{length}\r\n{chunks}", 400),
            "length 0 and chunks": (f"{begin}Content-Length: 0\r\n{te}\r\n{chunks}", 400),
            "a coding with another letter": (f"{begin}Transfer-Encoding: xchunked\r\n\r\n{chunks}", 501),
            "a blank before the colon": (f"{begin}Transfer-Encoding : chunked\r\n\r\n{chunks}", 400),
            "a control byte before the coding": (f"{begin}Transfer-Encoding: \x0bchunked\r\n\r\n{chunks}", 400),
            "a quoted coding": (f"{begin}Transfer-Encoding: \"chunked\"\r\n\r\n{chunks}", 501),
            "two codings": (f"{begin}Transfer-Encoding: chunked, identity\r\n\r\n{chunks}", 501),
            "a coding before chunked": (f"{begin}Transfer-Encoding: gzip, chunked\r\n\r\n{chunks}", 501),
            "two fields of a coding": (f"{begin}{te}Transfer-Encoding: identity\r\n\r\n{chunks}", 400),
            "a coding in a folded line": (f"{begin}X: a\r\n Transfer-Encoding: chunked\r\n\r\n{chunks}", 400),
            "a folded coding": (f"{begin}Transfer-Encoding:\r\n chunked\r\n\r\n{chunks}", 400),
            "a coding behind a bare LF": (f"{begin}X: a\nTransfer-Encoding: chunked\r\n\r\n{chunks}", 400),
            "a coding behind a bare CR": (f"{begin}X: a\rTransfer-Encoding: chunked\r\n{length}\r\n{BODY}", 400),
            "a coding with an underscore": (f"{begin}Transfer_Encoding: chunked\r\n{length}\r\n{BODY}", 400),
            "a length with an underscore": (f"{begin}Content_Length: 3\r\n{length}\r\n{BODY}", 400),
            "chunks of HTTP/1.0": (f"POST /v1/chat/completions HTTP/1.0\r\n{common}{te}\r\n{chunks}", 400),
            "a length twice": (f"{begin}{length}{length}\r\n{BODY}", 400),
            "two lengths": (f"{begin}{length}Content-Length: 3\r\n\r\n{BODY}", 400),
            "a list of lengths": (f"{begin}Content-Length: {size}, {size}\r\n\r\n{BODY}", 400),
            "a signed length": (f"{begin}Content-Length: +{size}\r\n\r\n{BODY}", 400),
            "a length in hexadecimal": (f"{begin}Content-Length: 0x{size:x}\r\n\r\n{BODY}", 400),
            "a length with a blank": (f"{begin}Content-Length: {size} 0\r\n\r\n{BODY}", 400),
            "a length beyond 64 bits": (f"{begin}Content-Length: 1844674407370955161{size}\r\n\r\n{BODY}", 400),
            "lines that end with LF": (f"{begin}{length}\r\n{BODY}".replace("\r\n", "\n"), 400),
            "a head that ends with LF": (f"{begin}{length}\n{BODY}", 400),
            "NUL in a value": (f"{begin}X: a\0b\r\n{length}\r\n{BODY}", 400),
            "NUL in a name": (f"{begin}X\0Y: a\r\n{length}\r\n{BODY}", 400),
            "CR in a name": (f"{begin}X\rY: a\r\n{length}\r\n{BODY}", 400),
            "DEL in a value": (f"{begin}X: \x7f\r\n{length}\r\n{BODY}", 400),
            "no name": (f"{begin}: a\r\n{length}\r\n{BODY}", 400),
            "two hosts": (f"{begin}Host: other\r\n{length}\r\n{BODY}", 400),
            "no host": (f"{line}Authorization: Bearer {self.key}\r\n{length}\r\n{BODY}", 400),
            "a host with a path": (f"{line}{common}{length}\r\n{BODY}".replace("Host: proxy", "Host: proxy/x"), 400),
            "the absolute form": (f"POST http://169.254.169.254/v1/chat/completions HTTP/1.1\r\n{common}{length}\r\n{BODY}", 400),
            "the authority form": (f"POST proxy:80 HTTP/1.1\r\n{common}{length}\r\n{BODY}", 400),
            "CONNECT": (f"CONNECT 169.254.169.254:80 HTTP/1.1\r\n{common}\r\n", 501),
            "TRACE": (f"TRACE / HTTP/1.1\r\n{common}\r\n", 501),
            "a star": (f"OPTIONS * HTTP/1.1\r\n{common}\r\n", 400),
            "a blank in the target": (f"POST /v1/chat/completions HTTP/1.1 HTTP/1.1\r\n{common}{length}\r\n{BODY}", 400),
            "another version": (f"POST /v1/chat/completions HTTP/1.2\r\n{common}{length}\r\n{BODY}", 505),
            "HTTP/2 with prior knowledge": (f"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{BODY}", 505),
            "another expectation": (f"{begin}Expect: 200-ok\r\n{length}\r\n{BODY}", 417),
            "a long head": (f"{begin}X: {'a' * 40_000}\r\n{length}\r\n{BODY}", 431),
            "many fields": (f"{begin}{many}{length}\r\n{BODY}", 431),
            "a long target": (f"POST /{'a' * 9000} HTTP/1.1\r\n{common}{length}\r\n{BODY}", 414),
            "a chunk size with a prefix": (chunked(f"0x{size:x}\r\n{BODY}\r\n0\r\n\r\n"), 400),
            "a negative chunk size": (chunked(f"-1\r\n{BODY}\r\n0\r\n\r\n"), 400),
            "a chunk size with a blank": (chunked(f"{size:x} \r\n{BODY}\r\n0\r\n\r\n"), 400),
            "a chunk size that overflows": (chunked(f"1{'0' * 16}{size:x}\r\n{BODY}\r\n0\r\n\r\n"), 400),
            "a chunk size with a bare LF": (chunked(f"{size:x}\n{BODY}\r\n0\r\n\r\n"), 400),
            "a chunk size with a bare CR": (chunked(f"{size:x}\rx\n{BODY}\r\n0\r\n\r\n"), 400),
            "an extension with a bare LF": (chunked(f"{size:x};a\nb\r\n{BODY}\r\n0\r\n\r\n"), 400),
            "a chunk longer than its size": (chunked(f"{size - 1:x}\r\n{BODY}\r\n0\r\n\r\n"), 400),
            "a chunk that ends with LF": (chunked(f"{size:x}\r\n{BODY}\n0\r\n\r\n"), 400),
            "an empty chunk size": (chunked(f"\r\n{BODY}\r\n0\r\n\r\n"), 400),
            "a trailer without colon": (chunked(f"{size:x}\r\n{BODY}\r\n0\r\nGET / HTTP/1.1\r\n\r\n"), 400),
            "a trailer with NUL": (chunked(f"{size:x}\r\n{BODY}\r\n0\r\nX: \0\r\n\r\n"), 400),
            "a key that is refused, and its body": (hidden.replace(self.key, "gpl_ada_wrong") + hidden, 401),
        }
        for name, (request, status) in bad.items():
            with self.subTest(name):
                self.assertEqual([answer[0] for answer in self.exchange(request + hidden + last)], [status])
                self.assertEqual(self.upstream.requests, [], "it reached the provider")
        good = {  # name: request, statuses, requests at the provider
            "a length": (f"{begin}{length}\r\n{BODY}", [200], 1),
            "chunks": (chunked(chunks), [200], 1),
            "a coding in capitals": (f"{begin}TRANSFER-ENCODING:\tCHUNKED \r\n\r\n{chunks}", [200], 1),
            "an extension of a chunk": (chunked(f"{size:x};a=\"b\"\r\n{BODY}\r\n0;c\r\n\r\n"), [200], 1),
            "small chunks": (chunked(f"{ones}0\r\n\r\n"), [200], 1),
            "trailers that frame and route": (chunked(f"{size:x}\r\n{BODY}\r\n0\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\nHost: x\r\n\r\n"), [200], 1),
            "100-continue with the body": (f"{begin}Expect: 100-continue\r\n{length}\r\n{BODY}", [200], 1),
            "an upgrade": (f"{begin}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c, websocket\r\nHTTP2-Settings: AAMAAABk\r\n{length}\r\n{BODY}", [200], 1),
            "Connection names what frames": (f"{begin}Connection: content-length, host, authorization, content-type\r\n{length}\r\n{BODY}", [200], 1),
            "an empty line before": (f"\r\n{begin}{length}\r\n{BODY}", [200], 1),
            "two requests": (hidden + hidden, [200, 200], 2),
            "a body of GET": (f"GET /v1/models HTTP/1.1\r\n{common}Content-Length: {len(hidden)}\r\n\r\n{hidden}", None, 0),
        }
        for name, (request, statuses, count) in good.items():
            with self.subTest(name):
                self.upstream.requests.clear()
                got = [answer[0] for answer in self.exchange(request + last)]
                # An answer before its request was read ends the connection.
                self.assertEqual(got, [200] if statuses is None else [*statuses, 200])
                self.assertEqual(len(self.upstream.requests), count)
                for head, body in self.upstream.requests:
                    self.assertEqual(body.decode(), BODY)
                    self.assertIn(f"\r\nAuthorization: Bearer {PROVIDER_KEY}\r\n", head + "\r\n")
                    self.assertIn(f"\r\nHost: 127.0.0.1:{self.upstream.port}\r\n", head + "\r\n")
                    self.assertEqual(len(re.findall(r"(?i)\r\n(?:content-length|transfer-encoding|host):", head)), 2, head)
                    self.assertNotRegex(head, r"(?i)\r\n(upgrade|http2-settings|connection|expect|te|trailer):")
        self.assertEqual(self.upstream.rest, [])

    def test_what_is_behind_or_missing_is_no_request(self):
        fields = f"Host: proxy\r\nAuthorization: Bearer {self.key}\r\n"
        begin = f"POST /v1/chat/completions HTTP/1.1\r\n{fields}"
        cases = {  # name: bytes, statuses, requests at the provider
            "a good one before a bad one": (f"{begin}Content-Length: {len(BODY)}\r\n\r\n{BODY}" + "GET bad\r\n\r\n", [200, 400], 1),
            "a longer body than its length": (f"{begin}Content-Length: {len(BODY) - 1}\r\n\r\n{BODY}\r\n\r\n", [400, 400], 0),
            "a shorter body": (f"{begin}Content-Length: {len(BODY) + 1}\r\n\r\n{BODY}", [], 0),
            "chunks without end": (f"{begin}Transfer-Encoding: chunked\r\n\r\n{len(BODY):x}\r\n{BODY}\r\n", [], 0),
            "half a head": (begin, [], 0),
        }
        for name, (request, statuses, count) in cases.items():
            with self.subTest(name):
                self.upstream.requests.clear()
                self.assertEqual([answer[0] for answer in self.exchange(request, shut=not statuses)], statuses)
                self.assertEqual(len(self.upstream.requests), count)

    def test_a_client_that_waits_gets_100_continue(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as peer:
            peer.sendall(self.post(fields="Expect: 100-continue\r\n").removesuffix(BODY).encode())
            self.assertEqual(peer.recv(4096), b"HTTP/1.1 100 Continue\r\n\r\n")
            peer.sendall(BODY.encode())
            self.assertTrue(peer.recv(4096).startswith(b"HTTP/1.1 200 "))
        self.assertNotIn("Expect", self.upstream.requests[0][0])


class Destinations(SecurityCase):
    @classmethod
    def metadata_hosts(cls):
        # Not as addresses: those are the operator's will. These are names, which are looked up; 169.254.169.254 is what is found.
        return "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.16689662"

    def test_a_request_chooses_no_destination(self):
        there = f"http://127.0.0.1:{self.trap.port}"
        members = {name: there for name in ("api_base", "base_url", "api_url", "url", "endpoint", "host", "azure_endpoint", "proxy", "http_proxy")}
        body = json.dumps({**json.loads(BODY), **members, "extra_body": members, "extra_headers": {"Host": "evil"}})
        names = ("X-Forwarded-Host", "X-Forwarded-For", "X-Forwarded-Proto", "X_Forwarded_For", "Forwarded", "Proxy-Authorization", "Proxy-Connection")
        passed = ("X-Original-URL", "X-Rewrite-URL", "X-Host", "X-Api-Base", "Referer", "Origin")
        fields = "".join(f"{name}: {there}\r\n" for name in names + passed)
        for request in (self.post(body, fields=fields), self.post(body, f"/v1/chat/completions?api_base={there}&url=//evil"),
                        self.post(body, "//evil/../v1/chat/completions"), self.post(body, "/v1/./chat//completions"), self.post(body, "/v1/%63hat/completions"),
                        self.post(body).replace("Host: proxy", f"Host: 127.0.0.1:{self.trap.port}")):
            self.assertEqual([answer[0] for answer in self.exchange(request)], [200], request)
        for head, got in self.upstream.requests:
            self.assertTrue(head.startswith(("POST /v1/chat/completions HTTP/1.1\r\n", "POST /v1/chat/completions?api_base=")), head)
            self.assertEqual(got.decode(), body, "the body is the client's")
            self.assertIn(f"\r\nHost: 127.0.0.1:{self.upstream.port}\r\n", head + "\r\n")
            for name in names:
                self.assertNotIn(f"\n{name}:", head)
        self.assertEqual(len(self.upstream.requests), 6)
        for path in ("/v1/%2e%2e/%2e%2e/etc", "/v1/chat%2fcompletions", "/v1/chat\\completions", "/..", "/v1/chat/completions%00"):
            self.assertEqual([answer[0] for answer in self.exchange(self.post(path=path))], [400], path)
        self.assertEqual(len(self.upstream.requests), 6)
        self.assertEqual(self.trap.connections, 0)

    def test_redirects_are_the_client_s(self):
        answers = self.exchange(self.post(BODY.replace("gpt-test", "moved")))
        self.assertEqual(answers[0][0], 307)
        self.assertIn(f"Location: {self.upstream.moved_to}", answers[0][1])
        self.assertEqual((len(self.upstream.requests), self.trap.connections), (1, 0))

    def test_a_name_of_a_metadata_service_is_no_provider(self):
        for number, host in enumerate(self.metadata_hosts()):
            with self.subTest(host):
                (status, _, body), = self.exchange(self.post(BODY.replace("gpt-test", f"meta-{number}")))
                self.assertEqual(status, 502, body)

                def attempt(number=number):
                    with contextlib.suppress(sqlite3.OperationalError), \
                            sqlite3.connect(f"file:{self.folder}/state/charges.db?mode=ro", uri=True) as store:
                        return store.execute("SELECT result FROM llm_attempt WHERE provider = ?", (f"meta-{number}",)).fetchone()
                self.assertEqual(wait_until(attempt, what="the attempt"), ("forbidden",))

    def test_a_key_with_a_budget_reaches_what_is_metered_alone(self):
        printed = subprocess.run([str(BINARY), "proxy", "--print-routes"], capture_output=True, text=True, check=True).stdout
        unmetered = [line.split()[-1].replace("{*}", "x") for line in printed.splitlines() if "not for keys with a budget" in line]
        self.assertGreater(len(unmetered), 10)
        unknown = ["/v1/assistants", "/v1/threads/t/runs", "/v1/evals", "/v1/fine_tuning/jobs", "/v1/vector_stores", "/v1/containers", "/v1/conversations", "/v1/videos",
                   "/v1/uploads", "/v1/organization/costs", "/v1/skills", "/v1/chatkit/sessions", "/V1/CHAT/COMPLETIONS", "/v1/chat/completions/",
                   "/v1/chat/completions/../../v1/images/generations", "/v1/images/%67enerations", "/v1/images/generations?x=/v1/chat/completions",
                   "/v1/images/generations;/v1/chat/completions", "/anything"]
        for path in unmetered + unknown:
            for method in ("POST", "GET", "PUT", "DELETE", "PATCH"):
                request = self.post(path=path, key=self.limited).replace("POST", method, 1)
                with self.subTest(f"{method} {path}"):
                    self.assertEqual([answer[0] for answer in self.exchange(request)], [404])
        self.assertEqual(self.upstream.requests, [])
        self.assertEqual([answer[0] for answer in self.exchange(self.post(key=self.limited))], [200])


class Secrets(SecurityCase):
    def test_no_secret_is_where_others_look(self):
        secret = self.key.split("_", 2)[2]
        hidden = {"the provider's key": PROVIDER_KEY, "the key": secret, "a wrong key": "wrong-secret-2", "own key of a client": "own-secret-3",
                  "the Idempotency-Key": "idempotency-secret-4", "the prompt": "prompt-secret-5", "the answer": "answer-secret-6", "a cookie": "cookie-secret-7",
                  "a key in a query": "query-secret-8"}
        fields = f"Idempotency-Key: {hidden['the Idempotency-Key']}\r\nCookie: {hidden['a cookie']}\r\n"
        gemini = json.dumps({"contents": [{"role": "user", "parts": [{"text": hidden["the prompt"]}]}]})
        own = "/v1beta/models/gems:generateContent"
        sent = [
            (self.post(fields=fields), 200), (self.post(fields=fields), 409), (self.post(key=f"gpl_ada_{hidden['a wrong key']}"), 401),
            (self.post(key=hidden["a wrong key"]), 401), (self.post(BODY.replace("gpt-test", "refused")), 401), (self.post(BODY.replace("gpt-test", "reset")), 502),
            (self.post(BODY[:-1]), 400), (self.post("{" + hidden["the prompt"]), 400), (self.post(path="/v1/assistants"), 404),
            (self.post(gemini, f"{own}?key={hidden['a wrong key']}").replace(f"Authorization: Bearer {self.key}\r\n", ""), 401),
            (self.post(gemini, f"{own}?key={hidden['a key in a query']}", f"x-gpulens-key: {self.key}\r\n").replace(f"Authorization: Bearer {self.key}\r\n", ""), 200),
            (self.post(gemini, own, f"x-gpulens-key: {self.key}\r\nx-goog-api-key: {hidden['own key of a client']}\r\n")
             .replace(f"Authorization: Bearer {self.key}\r\n", ""), 200),
            (f"BAD {hidden['a wrong key']}\r\nAuthorization: {hidden['the key']}\r\n\r\n", 400),
            (self.post(fields=f"X: {hidden['a cookie']}\0\r\n"), 400),
        ]
        errors = b""
        for request, status in sent:
            answers = self.exchange(request)
            self.assertEqual([answer[0] for answer in answers], [status], request)
            if status != 200:
                errors += answers[0][1].encode() + answers[0][2]
        # The provider gets the keys that are for it, and never a virtual one.
        heads = "".join(head for head, _ in self.upstream.requests)
        self.assertIn(f"key={hidden['a key in a query']}", heads)
        self.assertIn(hidden["own key of a client"], heads)
        self.assertNotIn(secret, heads)
        self.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "read again" in (self.folder / "log").read_text(), what="the reload")

        def rows():
            with contextlib.suppress(sqlite3.OperationalError), sqlite3.connect(f"file:{self.folder}/state/charges.db?mode=ro", uri=True) as store:
                return store.execute("SELECT count(*) FROM llm_charge").fetchone()[0] >= 5
        wait_until(rows, what="the rows")
        page = self.exchange("GET /metrics HTTP/1.1\r\nHost: proxy\r\nConnection: close\r\n\r\n")[0][2]
        places = {"the log": (self.folder / "log").read_bytes(), "errors": errors, "/metrics": page,
                  "the command line": pathlib.Path(f"/proc/{self.process.pid}/cmdline").read_bytes()}
        files = [path for path in (self.folder / "state").rglob("*") if path.is_file()]
        self.assertTrue(any("journal" in str(path) for path in files), files)
        places.update((str(path), path.read_bytes()) for path in files)
        for path in files:
            self.assertEqual(path.stat().st_mode & 0o077, 0, path)
        for place, text in places.items():
            for name, value in hidden.items():
                self.assertNotIn(value.encode(), text, f"{name} is in {place}")


if __name__ == "__main__":
    unittest.main()
