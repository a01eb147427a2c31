"""Dynamo's frontend in front of its mocker, a simulated engine: the counts of a client compared with those that the agent shows
of both pages."""
import contextlib
import http.client
import json
import random
import socket
import time
import unittest

from engine import Agent, EngineCase, Server, fetch, engines_config, free_port, home, samples, total, value
from tiny_model import write_tiny_model


def low_free_port():
    """Dynamo holds the port of a worker's page in 16 bits with a sign."""
    while True:
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", random.randrange(20000, 32000)))
            return s.getsockname()[1]


class Dynamo(EngineCase):
    name = "dynamo"

    @classmethod
    def setUpClass(cls):
        root = home("dynamo")
        cls.port, cls.worker_port = free_port(), low_free_port()
        python = root / "bin" / "python3"
        plane = {"DYN_REQUEST_PLANE": "tcp", "DYN_EVENT_PLANE": "zmq", "HF_HUB_OFFLINE": "1"}
        frontend = Server([python, "-m", "dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", cls.port,
                           "--discovery-backend", "file"], lambda: fetch(cls.port, "/metrics")[0] == 200, plane)
        plane["DYN_FILE_KV"] = str(frontend.folder / "discovery")
        frontend.environment |= plane
        write_tiny_model(frontend.folder / "tiny")
        cls.start(frontend)
        cls.start(Server([python, "-m", "dynamo.mocker", "--model-path", frontend.folder / "tiny", "--model-name", "tiny",
                          "--discovery-backend", "file"], lambda: '"tiny"' in fetch(cls.port, "/v1/models")[1],
                         plane | {"DYN_SYSTEM_HOST": "127.0.0.1", "DYN_SYSTEM_PORT": str(cls.worker_port)}))
        cls.version = "Dynamo " + (root / "installed.txt").read_text().split()[0].partition("==")[2]
        cls.good = cls.prompt = cls.generated = 0
        cls.first_tokens, cls.seconds = [], 0.0

    @classmethod
    def pages(cls):
        return {"dynamo_frontend": fetch(cls.port, "/metrics")[1], "dynamo_worker": fetch(cls.worker_port, "/metrics")[1]}

    def chat(self, text, tokens):
        """A streamed answer; the client's clock stops at the first event and at the end."""
        body = {"model": "tiny", "stream": True, "stream_options": {"include_usage": True}, "max_tokens": tokens,
                "messages": [{"role": "user", "content": text}]}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        start = time.monotonic()
        connection.request("POST", "/v1/chat/completions", body=json.dumps(body), headers={"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.readline()
        self.first_tokens.append(time.monotonic() - start)
        events = [line[6:] for line in answer.read().decode().splitlines() if line.startswith("data: {")]
        type(self).seconds += time.monotonic() - start
        connection.close()
        self.assertEqual(answer.status, 200)
        usage = json.loads(events[-1])["usage"]
        self.assertEqual((usage["prompt_tokens"], usage["completion_tokens"]), (len(text), tokens))
        type(self).good += 1
        type(self).prompt += len(text)
        type(self).generated += tokens

    def test_requests_tokens_and_latencies_are_those_of_the_client(self):
        config = engines_config(front=(f"http://127.0.0.1:{self.port}/metrics", "dynamo-frontend"),
                                worker=(f"http://127.0.0.1:{self.worker_port}/metrics", "dynamo-worker"))
        with Agent(config=config) as agent:
            for number in range(8):
                self.chat("the same prompt, and longer" + " and longer" * number, 4 + number)
            for _ in range(3):
                self.assertEqual(fetch(self.port, "/v1/chat/completions", {
                    "model": "absent", "messages": [{"role": "user", "content": "x"}]})[0], 404)
            front = {"target": "front", "inference_engine": "dynamo-frontend", "model_name": "tiny"}
            page = self.settled(agent, lambda p: (
                total(p, "inference_requests_finished_total", **front) == 8 and
                total(p, "inference_requests_failed_total", target="front") == 3 and
                total(p, "inference_requests_admitted_total", target="worker") == 8 and
                total(p, "inference_time_to_first_token_seconds_count", **front) == 8), "8 good requests and 3 bad ones")
            self.assertEqual(total(page, "inference_requests_admitted_total", **front), 8)
            self.assertEqual(total(page, "inference_tokens_prompt_total", **front), self.prompt)
            self.assertEqual(total(page, "inference_tokens_generation_total", **front), self.generated)
            self.assertEqual(total(page, "inference_request_prompt_tokens_sum", **front), self.prompt)
            self.assertEqual(total(page, "inference_request_duration_seconds_count", **front), 8)
            duration = total(page, "inference_request_duration_seconds_sum", **front)
            first = total(page, "inference_time_to_first_token_seconds_sum", **front)
            self.assertTrue(0 < first < duration < self.seconds, (first, duration, self.seconds))
            self.check_buckets(page, front)
            self.assertGreater(total(page, "inference_kv_cache_blocks", inference_state="max", **front), 0)
            # The mocker shows vLLM's families and its own: an engine behind the worker, with its own count.
            behind = {"target": "worker", "inference_engine": "vllm", "model_name": "tiny"}
            self.assertEqual(total(page, "inference_time_to_first_token_seconds_count", **behind), 8)
            self.assertLess(total(page, "inference_time_to_first_token_seconds_sum", **behind), first)
            for target in ("front", "worker"):
                self.assertEqual(value(page, "gpulens_scrape_up", target=target), 1)
                self.assertEqual(value(page, "gpulens_scrape_families_unknown", target=target) or 0, 0, target)

    def check_buckets(self, page, labels):
        """Whatever the client had within a bound, the frontend had within it, too."""
        name = "inference_time_to_first_token_seconds_bucket"
        buckets = [(float(s.labels["le"]), s.value) for s in samples(page, name, **labels)]
        self.assertTrue(buckets)
        for bound, count in buckets:
            self.assertGreaterEqual(count, sum(seconds <= bound for seconds in self.first_tokens), bound)


if __name__ == "__main__":
    unittest.main()
