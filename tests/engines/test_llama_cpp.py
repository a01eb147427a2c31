"""llama.cpp's server with a tiny model of random weights: the counts of a client compared with those that the agent shows."""
import concurrent.futures
import json
import re
import subprocess
import time
import unittest

from engine import BINARY, Agent, EngineCase, Server, fetch, engines_config, free_port, home, samples, total, value
from tiny_gguf import write_tiny_gguf


class LlamaServer(EngineCase):
    name = "llama_cpp"

    @classmethod
    def setUpClass(cls):
        root = home("llama_cpp")
        cls.port = free_port()
        server = Server([root / "llama-server", "--model", "tiny.gguf", "--host", "127.0.0.1", "--port", cls.port, "--metrics",
                         "--parallel", "2", "--ctx-size", "512", "--threads", "1", "--no-warmup"],
                        lambda: fetch(cls.port, "/health")[0] == 200)
        write_tiny_gguf(server.folder / "tiny.gguf")
        cls.start(server)
        build = re.search(r"build[^\n]{0,60}", server.log.read_text(errors="replace"))
        cls.version = "llama.cpp of " + (root / "installed.txt").read_text().strip() + (f", {build[0]}" if build else "")


class LlamaCpp(LlamaServer):
    @classmethod
    def pages(cls):
        return {"llama_cpp": fetch(cls.port, "/metrics")[1]}

    def complete(self, prompt, tokens):
        """(prompt tokens and generated tokens as the server reported them to the client, seconds)"""
        start = time.monotonic()
        status, body = fetch(self.port, "/completion", {"prompt": prompt, "n_predict": tokens, "ignore_eos": True,
                                                      "cache_prompt": False, "stream": True, "return_tokens": True})
        self.assertEqual(status, 200, body)
        events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: {")]
        # The client is sent fewer where bytes are no whole UTF-8.
        return events[-1]["tokens_evaluated"], events[-1]["tokens_predicted"], time.monotonic() - start

    def test_tokens_are_those_of_the_client(self):
        config = engines_config(cpp=(f"http://127.0.0.1:{self.port}/metrics", "llama.cpp"))
        with Agent(config=config) as agent, concurrent.futures.ThreadPoolExecutor(2) as pool:
            done = list(pool.map(lambda n: self.complete("a prompt" * (1 + n), 6 + n), range(6)))
            prompt, generated = (sum(column) for column in list(zip(*done))[:2])
            self.assertEqual(generated, sum(6 + n for n in range(6)))
            self.assertGreaterEqual(prompt, sum(8 * (1 + n) for n in range(6)), "a token is a byte here")
            page = self.settled(agent, lambda p: (
                total(p, "inference_tokens_generation_total", target="cpp") == generated and
                total(p, "inference_tokens_prompt_total", target="cpp") == prompt and
                value(p, "inference_requests_running", target="cpp") == 0), f"{prompt} and {generated} tokens")
            name = "inference_inter_token_latency_seconds"
            self.assertEqual(total(page, name + "_count", target="cpp"), generated)
            spent = total(page, name + "_sum", target="cpp")
            # Milliseconds on the page; two slots at once each count their own time.
            self.assertTrue(0 <= spent <= sum(seconds for _, _, seconds in done) + 0.001 * len(done), spent)
            self.assertEqual(value(page, "inference_requests_waiting", target="cpp"), 0)
            self.assertEqual(value(page, "gpulens_scrape_up", target="cpp"), 1)
            self.assertEqual(value(page, "gpulens_scrape_families_unknown", target="cpp") or 0, 0)
            engines = {s.labels["inference_engine"] for s in samples(page, None, target="cpp") if s.name.startswith("inference_")}
            self.assertEqual(engines, {"llama.cpp"})


class LoadRun(LlamaServer):
    @classmethod
    def pages(cls):
        return {}  # the other class records it

    def test_a_load_run_counts_what_the_server_counts(self):
        before = {s.name: s.value for s in samples(fetch(self.port, "/metrics")[1], None)}
        command = [BINARY, "bench", "serve", f"http://127.0.0.1:{self.port}", "--requests", "60", "--concurrency", "2",
                   "--warmup", "0", "--prompt-tokens", "20", "--max-tokens", "16", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(result["ok"], 60)
        self.assertEqual(result["requests_without_usage"], 0)
        after = {s.name: s.value for s in samples(fetch(self.port, "/metrics")[1], None)}
        predicted = "llamacpp:tokens_predicted_total"
        self.assertEqual(result["completion_tokens"], after[predicted] - before[predicted])
        for times in ("ttft_seconds", "tpot_seconds", "e2e_seconds"):
            self.assertEqual(result[times]["n"], 60, times)
            self.assertGreater(result[times]["min"], 0, times)
        self.assertLess(result["ttft_seconds"]["mean"], result["e2e_seconds"]["mean"])


if __name__ == "__main__":
    unittest.main()
