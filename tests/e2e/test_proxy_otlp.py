"""gen_ai metrics and spans of `gpulens proxy`, decoded by OpenTelemetry's own classes, and by way of an agent."""
import concurrent.futures
import json
import pathlib
import subprocess
import tempfile
import time
import unittest

from agent import BINARY, Agent, free_port, samples, value, wait_until
from http_stub import HttpStub
from llm_upstream import LlmProxy, events

try:
    from otlp_receiver import Receiver, plain
except ImportError:
    Receiver = None

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{CALLER}-01", f"00-{TRACE}-{CALLER}-00"
PROMPT, ANSWER = "a secret of the prompt", "a secret of the answer"
USAGE = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050, "prompt_tokens_details": {"cached_tokens": 900},
         "completion_tokens_details": {"reasoning_tokens": 30}}
CLIENT = "gen_ai.client.inference."
LOOPBACK = "127.0.0.1"


class Upstream(HttpStub):
    """A provider that answers by the model: `chat` with usage, `silent` without, `status-429` with an error. In a with statement."""

    def __init__(self):
        super().__init__(self.take, protocol="HTTP/1.1")
        self.seen = []  # header fields of each request

    def take(self, request, body):
        body = json.loads(body)
        self.seen.append({name.lower(): text for name, text in request.headers.items()})
        model = body["model"]
        if model.startswith("status-"):
            return int(model.removeprefix("status-")), {"Content-Type": "application/json"}, b'{"error":{"message":"slow down","type":"rate"}}'
        common = {"id": "c1", "created": 1, "model": model}
        if body.get("stream"):
            chunk = {**common, "object": "chat.completion.chunk"}
            words = [{**chunk, "choices": [{"index": 0, "delta": {"content": ANSWER}, "finish_reason": None}]}] * 3
            end = [{**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, {**chunk, "choices": [], "usage": USAGE}]
            return 200, {"Content-Type": "text/event-stream"}, "".join(events(*words, *end, "[DONE]")).encode()
        whole = {**common, "object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}],
                 **({} if model == "silent" else {"usage": USAGE})}
        return 200, {"Content-Type": "application/json"}, json.dumps(whole).encode()


def send(proxy, model="chat", fields=None, **members):
    body = {"model": model, "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 64, **members}
    return proxy.query("POST", "/v1/chat/completions", json.dumps(body), Authorization=f"Bearer {proxy.key}", **(fields or {}))


def proxy_before(upstream, otlp, **options):
    prices = "provider\tmodel\tinput\toutput\nlist\tchat\t2000000\t8000000\nlist\tsilent\t2000000\t8000000\n"
    providers = f"providers: [{{name: one, url: '{upstream.origin}', prices: list, api_key: provider-secret-1, otel_name: openai}}]\n"
    return LlmProxy(f"{providers}unknown_price: zero\notlp: {otlp}", prices=prices, **options)


def last(requests, name, **attributes):
    """The newest point of a metric that has these attributes, of whichever others; None: there is none."""
    found = [point for request in requests for of, point in request.points(name) if attributes.items() <= of.items()]
    return found[-1] if found else None


def total(requests, name, **attributes):
    point = last(requests, name, **attributes)
    return (point.as_int if hasattr(point, "as_int") else point.count) if point else 0


def spans(requests):
    return [span for request in requests for _, span in request.spans()]


@unittest.skipUnless(Receiver, "the protocol's Python classes are not here")
class ProxyOtlp(unittest.TestCase):
    def start(self, otlp, answer=None):
        """(upstream, receiver, proxy), the proxy with `otlp` for the receiver's URL."""
        upstream = self.enterContext(Upstream())
        receiver = self.enterContext(Receiver(answer))
        return upstream, receiver, self.enterContext(proxy_before(upstream, otlp.replace("URL", receiver.url)))

    def test_the_metrics_of_both_versions(self):
        _, receiver, proxy = self.start("{endpoint: 'URL', interval: 1s, signals: [metrics], attributes: {team: nlp}}")
        for model, members in (("chat", {}), ("chat", {"stream": True}), ("silent", {}), ("status-429", {}), ("invented", {})):
            send(proxy, model, **members)
        mine = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "server.address": LOOPBACK}
        chat = {**mine, "gen_ai.request.model": "chat", "gen_ai.response.model": "chat"}
        requests = receiver.wait(lambda got: total(got, CLIENT + "duration", **chat) >= 2 and total(got, CLIENT + "duration", **{"error.type": "429"}) and got, "the metrics")
        text = {**chat, "gen_ai.token.modality": "text"}
        for name, tokens in (("input_tokens", 2000), ("output_tokens", 100), ("cache_read.input_tokens", 1800), ("reasoning.output_tokens", 60)):
            self.assertEqual(total(requests, CLIENT + "usage." + name, **text), tokens, name)
        self.assertEqual(last(requests, CLIENT + "operation.input_tokens", **chat).sum, 2000)
        self.assertEqual(last(requests, "gen_ai.client.token.usage", **chat, **{"gen_ai.token.type": "output"}).sum, 100)
        for name, count in (("gen_ai.client.operation.duration", 2), ("gen_ai.server.request.duration", 2), (CLIENT + "time_to_first_chunk", 1),
                            (CLIENT + "time_per_output_chunk", 2), ("gen_ai.server.time_to_first_token", 1)):
            self.assertEqual(total(requests, name, **chat), count, name)
        # What a provider does not count is not known, and not 0; nor has an error any usage.
        for model in ("silent", "other"):
            self.assertTrue(last(requests, CLIENT + "duration", **{"gen_ai.request.model": model}))
        self.assertIsNone(last(requests, CLIENT + "usage.input_tokens", **{"gen_ai.request.model": "silent"}))
        self.assertIsNone(last(requests, CLIENT + "usage.input_tokens", **{"error.type": "429"}))
        for request in requests:
            for resource, scope, metric in request.metrics():
                self.assertEqual((resource["service.name"], resource["team"], scope), ("gpulens-proxy", "nlp", "gpulens.proxy"))
                for point in getattr(metric, metric.WhichOneof("data")).data_points:
                    attributes = plain(point.attributes)
                    self.assertIsInstance(attributes["server.port"], int)
                    self.assertIn(attributes["gen_ai.request.model"], ("chat", "silent", "other"), "names of clients make no series")
        self.assertFalse(spans(requests))

    def test_one_version_alone(self):
        _, receiver, proxy = self.start("{endpoint: 'URL', interval: 1s, names: [otel_genai_2026]}")
        send(proxy)
        requests = receiver.wait(lambda got: total(got, CLIENT + "duration") and got, "the metrics")
        self.assertIsNone(last(requests, "gen_ai.client.token.usage"))
        self.assertIsNone(last(requests, "gen_ai.client.operation.duration"))

    def test_a_span_is_the_child_of_the_caller_s_and_the_parent_of_the_provider_s(self):
        upstream, receiver, proxy = self.start("{endpoint: 'URL', signals: [traces]}")
        status, headers, _ = send(proxy, stream=True, fields={"traceparent": SAMPLED, "tracestate": "a=1", "baggage": "b=2"})
        self.assertEqual(status, 200)
        got = receiver.wait(lambda got: got if spans(got) else None, "the span")
        span, = spans(got)
        self.assertEqual((span.name, span.kind, span.trace_id.hex(), span.parent_span_id.hex(), span.trace_state), ("chat chat", 3, TRACE, CALLER, "a=1"))
        self.assertEqual(span.flags, 0x301)
        passed = upstream.seen[0]
        self.assertEqual(passed["traceparent"], f"00-{TRACE}-{span.span_id.hex()}-01")
        self.assertEqual((passed["tracestate"], passed["baggage"]), ("a=1", "b=2"))
        attributes = plain(span.attributes)
        first = attributes.pop("gen_ai.response.time_to_first_chunk")
        self.assertGreater(first, 0)
        self.assertLessEqual(first, (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9)
        self.assertEqual([one.string_value for one in attributes.pop("gen_ai.response.finish_reasons").values], ["stop"])
        self.assertEqual(attributes, {
            "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "chat", "gen_ai.request.stream": True,
            "gen_ai.request.max_tokens": 64, "gen_ai.response.model": "chat", "gen_ai.response.id": "c1", "gen_ai.usage.input_tokens": 1000,
            "gen_ai.usage.output_tokens": 50, "gen_ai.usage.cache_read.input_tokens": 900, "gen_ai.usage.reasoning.output_tokens": 30,
            "openai.api.type": "chat_completions", "server.address": LOOPBACK, "server.port": upstream.port, "http.response.status_code": 200,
            "gpulens.proxy.provider": "one", "gpulens.proxy.request.id": headers["x-gpulens-request-id"]})
        self.assertEqual(span.status.code, 0)
        for request in got:
            for secret in (PROMPT, ANSWER, "provider-secret-1", proxy.key):
                self.assertNotIn(secret.encode(), request.message.SerializeToString())

    def test_unsampled_stays_so_and_errors_are_errors(self):
        upstream, receiver, proxy = self.start("{endpoint: 'URL', signals: [traces]}")
        send(proxy, fields={"traceparent": UNSAMPLED})
        send(proxy)
        send(proxy, fields={"traceparent": "00-nonsense"})
        self.assertEqual([seen.get("traceparent") for seen in upstream.seen], [UNSAMPLED, None, "00-nonsense"], "they pass as they came")
        send(proxy, "status-429", fields={"traceparent": SAMPLED})
        span, = receiver.wait(spans, "the span")
        self.assertEqual((plain(span.attributes)["error.type"], span.status.code), ("429", 2))
        self.assertNotIn("gen_ai.usage.input_tokens", plain(span.attributes))

    def test_a_ratio_begins_traces(self):
        upstream, receiver, proxy = self.start("{endpoint: 'URL', signals: [traces], sample: 1}")
        send(proxy)
        span, = receiver.wait(spans, "the span")
        self.assertEqual(upstream.seen[0]["traceparent"], f"00-{span.trace_id.hex()}-{span.span_id.hex()}-03")
        self.assertFalse(span.parent_span_id)

    def test_attempts_are_events(self):
        upstream, receiver = self.enterContext(Upstream()), self.enterContext(Receiver())
        config = (f"providers:\n  - {{name: away, url: 'http://{LOOPBACK}:{free_port()}', api_key: k}}\n"
                  f"  - {{name: one, url: '{upstream.origin}', prices: list, api_key: k}}\nattempts: 2\nunknown_price: zero\n"
                  f"otlp: {{endpoint: '{receiver.url}', signals: [traces]}}")
        proxy = self.enterContext(LlmProxy(config))
        self.assertEqual(send(proxy, fields={"traceparent": SAMPLED})[0], 200)
        span, = receiver.wait(spans, "the span")
        found = [(event.name, plain(event.attributes)["gpulens.proxy.provider"], plain(event.attributes)["gpulens.proxy.attempt.result"]) for event in span.events]
        self.assertEqual(found, [("gpulens.proxy.attempt", "away", "connect"), ("gpulens.proxy.attempt", "one", "ok")])
        self.assertEqual(plain(span.attributes)["gen_ai.provider.name"], "one")

    def test_a_secret_of_a_file_is_sent_and_not_shown(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="gpulens-e2e-"))
        secret, token = pathlib.Path(folder, "secret"), pathlib.Path(folder, "token")
        secret.write_text("header-secret-1")
        token.write_text("token-secret-1")
        _, receiver, proxy = self.start(f"{{endpoint: 'URL', signals: [traces], sample: 1, transport: {{headers: {{x-scope: '${{file:{secret}}}'}}, bearer_token_file: '{token}'}}}}")
        send(proxy)
        request = receiver.wait(lambda got: got[0] if got else None, "the span")
        self.assertEqual((request.headers["x-scope"], request.headers["Authorization"]), ("header-secret-1", "Bearer token-secret-1"))
        shown = proxy.log.read_text() + proxy.page() + pathlib.Path(f"/proc/{proxy.process.pid}/cmdline").read_text()
        self.assertNotIn("-secret-1", shown)

    def test_a_receiver_that_is_away_delays_no_request_and_gets_what_fits(self):
        upstream = self.enterContext(Upstream())
        port = free_port()
        otlp = (f"{{endpoint: 'http://{LOOPBACK}:{port}', interval: 1s, sample: 1, compression: none, queue_bytes: 1MiB, "
                "retry: {initial: 100ms, max: 200ms}}")
        proxy = self.enterContext(proxy_before(upstream, otlp))
        sent, slowest = 0, 0.0
        end = time.monotonic() + 60
        long = {"traceparent": SAMPLED, "tracestate": f"a={'x' * 256},b={'y' * 240}"}

        def timed(_):
            begin = time.monotonic()
            return send(proxy, fields=long)[0], time.monotonic() - begin

        with concurrent.futures.ThreadPoolExecutor(16) as clients:
            while not value(proxy.page(), "gpulens_proxy_otlp_dropped_total", signal="traces", reason="queue_full"):
                self.assertLess(time.monotonic(), end, "the queue is never full")
                for status, seconds in clients.map(timed, range(100)):
                    self.assertEqual(status, 200)
                    slowest = max(slowest, seconds)
                    sent += 1
        self.assertEqual(value(proxy.page(), "gpulens_proxy_otlp_up"), 0)
        self.assertGreater(value(proxy.page(), "gpulens_proxy_otlp_waiting", signal="traces"), 0)
        self.assertLess(slowest, 5, "no request waits for the receiver, whose timeout is 10 s")
        with Receiver(port=port) as receiver:
            receiver.wait(lambda got: total(got, CLIENT + "duration") == sent, "all requests in the metrics")
            wait_until(lambda: value(proxy.page(), "gpulens_proxy_otlp_waiting", signal="traces") == 0, what="the end of the queue")
            page = proxy.page()
            dropped = sum(one.value for one in samples(page, "gpulens_proxy_otlp_dropped_total", signal="traces"))
            self.assertEqual(len(spans(receiver.requests)) + dropped, sent)
            self.assertEqual(value(page, "gpulens_proxy_otlp_delivered_total", signal="traces"), sent - dropped)
            self.assertEqual(value(page, "gpulens_proxy_otlp_up"), 1)

    def test_the_end_of_the_proxy_sends_the_rest(self):
        upstream, receiver = self.enterContext(Upstream()), self.enterContext(Receiver())
        with proxy_before(upstream, f"{{endpoint: '{receiver.url}', interval: 1h, sample: 1}}") as proxy:
            send(proxy)
        self.assertEqual(len(spans(receiver.requests)), 1)
        self.assertEqual(total(receiver.requests, CLIENT + "duration"), 1)

    def test_without_an_endpoint_nothing_is_sent_or_shown(self):
        upstream = self.enterContext(Upstream())
        proxy = self.enterContext(proxy_before(upstream, "{sample: 1}"))
        send(proxy, fields={"traceparent": SAMPLED})
        self.assertEqual(upstream.seen[0]["traceparent"], SAMPLED)
        self.assertNotIn("gpulens_proxy_otlp", proxy.page())


@unittest.skipUnless(Receiver, "the protocol's Python classes are not here")
class ByAnAgent(unittest.TestCase):
    def test_the_agent_s_page_has_the_metrics(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="gpulens-e2e-"))
        at = f"{folder}/otlp.sock"
        agent = self.enterContext(Agent(config=f"interval: 100ms\ncollectors: {{programs: {{socket: '{at}', interval: 100ms}}}}\n"))
        upstream = self.enterContext(Upstream())
        proxy = self.enterContext(proxy_before(upstream, f"{{endpoint: 'http://agent', interval: 1s, signals: [metrics], transport: {{unix_socket: '{at}'}}}}"))
        for _ in range(3):
            send(proxy)
        mine = {"service_name": "gpulens-proxy", "gen_ai_request_model": "chat", "gen_ai_provider_name": "openai", "server_port": str(upstream.port)}
        name = "gen_ai_client_inference_usage_input_tokens_total"
        wait_until(lambda: [one for one in samples(agent.page(), name, **mine) if one.value == 3000], what="the agent's page")
        page = agent.page()
        self.assertEqual(value(page, "gen_ai_client_token_usage_sum", gen_ai_token_type="output", **mine), 150)
        self.assertEqual(value(page, "gen_ai_client_inference_duration_seconds_count", **mine), 3)
        self.assertEqual(value(page, "gen_ai_server_request_duration_seconds_bucket", le="81.92", **mine), 3)

    def test_its_receiver_passes_both_on(self):
        receiver = self.enterContext(Receiver())
        http, grpc = free_port(), free_port()
        self.enterContext(Agent(config=(
            "interval: 100ms\nreceivers: {otlp: {http: {listen: ['%s:%d']}, grpc: {listen: ['%s:%d']}}}\n" % (LOOPBACK, http, LOOPBACK, grpc)
            + f"sinks: {{otlp: {{endpoint: '{receiver.url}', queue: {{storage: memory}}}}}}\n")))
        upstream = self.enterContext(Upstream())
        for protocol, port in (("grpc", grpc), ("http/protobuf", http)):
            before = len(spans(receiver.requests))
            with proxy_before(upstream, f"{{endpoint: 'http://{LOOPBACK}:{port}', interval: 1s, sample: 1, protocol: {protocol}, service_name: '{protocol}'}}") as proxy:
                send(proxy)
                receiver.wait(lambda got: len(spans(got)) > before, f"the span by {protocol}")
                receiver.wait(lambda got: any(resource["service.name"] == protocol and metric.name == CLIENT + "duration"
                                              for request in got for resource, _, metric in request.metrics()), f"the metrics by {protocol}")
                self.assertEqual(value(proxy.page(), "gpulens_proxy_otlp_up"), 1)


class Command(unittest.TestCase):
    def test_wrong_values_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder, "proxy.yaml")
            for otlp, message in (("{endpoint: 'ftp://h'}", "endpoint"), ("{endpoint: 'http://h', protocol: grpc, compression: zstd}", "gzip or none"),
                                  ("{endpoint: 'http://h', names: [otel_genai_2027]}", "otel_genai_2026"), ("{endpoint: 'http://h', sample: 2}", "sample"),
                                  ("{endpoint: 'http://h', transport: {tls: {cert_file: /x}}}", "key_file")):
                config.write_text(f"state_dir: {folder}\nproviders: [{{name: a, url: 'http://h'}}]\notlp: {otlp}\n")
                run = subprocess.run([str(BINARY), "proxy", "--check", "--config", str(config)], capture_output=True, text=True, check=False)
                self.assertEqual(run.returncode, 2, otlp + run.stdout)
                self.assertIn(message, run.stderr, otlp)


if __name__ == "__main__":
    unittest.main()
