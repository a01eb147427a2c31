"""LiteLLM's proxy in front of a model server of ours, with its Prometheus callback: the counts of a client compared with
those that the agent shows."""
import http.client
import json
import secrets
import time
import unittest

from engine import Agent, EngineCase, Server, fetch, engines_config, free_port, home, samples, total, value
from openai_upstream import FIRST, Upstream

CONFIG = """model_list:
  - model_name: tiny
    litellm_params: {{model: openai/tiny-upstream, api_base: "http://127.0.0.1:{upstream}/v1", api_key: none}}
litellm_settings: {{callbacks: [prometheus], num_retries: 0, require_auth_for_metrics_endpoint: false}}
router_settings: {{num_retries: 0, disable_cooldowns: true}}
general_settings: {{master_key: {key}}}
"""


class Litellm(EngineCase):
    name = "litellm"

    @classmethod
    def setUpClass(cls):
        root = home("litellm")
        cls.upstream = cls.start(Upstream())
        cls.port, cls.key = free_port(), "sk-" + secrets.token_hex(16)
        server = Server([root / "bin" / "python3", root / "bin" / "litellm", "--config", "config.yaml", "--host", "127.0.0.1", "--port", cls.port,
                         "--telemetry", "False"], lambda: fetch(cls.port, "/health/liveliness")[0] == 200,
                        {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "DO_NOT_TRACK": "1"})
        (server.folder / "config.yaml").write_text(CONFIG.format(upstream=cls.upstream.port, key=cls.key))
        cls.start(server)
        cls.version = "LiteLLM proxy, " + (root / "installed.txt").read_text().strip().partition("==")[2]
        cls.good = cls.bad = cls.prompt = cls.generated = 0
        cls.first_tokens = []  # seconds, as the client saw them

    @classmethod
    def pages(cls):
        return {"litellm": fetch(cls.port, "/metrics/")[1]}

    @classmethod
    def chat(cls, text, tokens, stream=False):
        body = {"model": "tiny", "messages": [{"role": "user", "content": text}], "max_tokens": tokens, "stream": stream}
        connection = http.client.HTTPConnection("127.0.0.1", cls.port, timeout=30)
        start = time.monotonic()
        connection.request("POST", "/v1/chat/completions", body=json.dumps(body),
                           headers={"Content-Type": "application/json", "Authorization": f"Bearer {cls.key}"})
        answer = connection.getresponse()
        if stream:
            answer.readline()
            cls.first_tokens.append(time.monotonic() - start)
        body = answer.read().decode()
        connection.close()
        if answer.status != 200:
            cls.bad += 1
            return
        cls.good += 1
        cls.prompt += len(text.split())
        cls.generated += tokens
        assert "word" in body, body

    def test_requests_tokens_and_first_tokens_are_those_of_the_client(self):
        config = engines_config(gate=(f"http://127.0.0.1:{self.port}/metrics/", "litellm"))
        with Agent(config=config) as agent:
            for number in range(6):
                self.chat("a prompt of five words", 4 + number)
            for number in range(5):
                self.chat("three more words", 3 + number, stream=True)
            for _ in range(2):
                self.chat("fail this one", 3)
            self.assertEqual((self.good, self.bad), (11, 2))
            page = self.settled(agent, lambda p: (
                total(p, "inference_requests_admitted_total", target="gate", model_name="tiny") == 13 and
                total(p, "inference_requests_finished_total", target="gate") == 11 and
                total(p, "inference_requests_failed_total", target="gate", model_name="tiny") == 2 and
                total(p, "inference_time_to_first_token_seconds_count", target="gate") == 5), "11 good requests of 13")
            self.assertEqual(total(page, "inference_tokens_prompt_total", target="gate"), self.prompt)
            self.assertEqual(total(page, "inference_tokens_generation_total", target="gate"), self.generated)
            self.assertEqual(total(page, "inference_request_duration_seconds_count", target="gate"), 11)
            self.check_first_tokens(page)
            self.assertEqual(value(page, "gpulens_scrape_up", target="gate"), 1)
            self.assertEqual(value(page, "gpulens_scrape_families_unknown", target="gate") or 0, 0)
            for sample in samples(page, None, target="gate"):
                if sample.name.startswith("inference_"):
                    self.assertEqual(sample.labels["inference_engine"], "litellm", sample)
                    for personal in ("hashed_api_key", "user", "user_email", "end_user", "client_ip"):
                        self.assertNotIn(personal, sample.labels, sample)

    def check_first_tokens(self, page):
        """The proxy saw each first token after the server's pause, and before the client did."""
        name = "inference_time_to_first_token_seconds"
        spent = total(page, name + "_sum", target="gate")
        self.assertGreaterEqual(spent, 5 * FIRST)
        self.assertLessEqual(spent, sum(self.first_tokens))
        buckets = [(float(s.labels["le"]), s.value) for s in samples(page, name + "_bucket", target="gate")]
        self.assertTrue(buckets)
        for bound, count in buckets:
            if bound < FIRST:
                self.assertEqual(count, 0, bound)
            self.assertGreaterEqual(count, sum(seconds <= bound for seconds in self.first_tokens), bound)


if __name__ == "__main__":
    unittest.main()
