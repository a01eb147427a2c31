"""The webhook sink: records as JSON arrays at a server of ours; and do_nothing, which needs none."""
import json
import os
import subprocess
import unittest

from agent import BINARY, Agent, value, wait_until
from http_stub import HttpStub


class Hook(HttpStub):
    """`answers` are the statuses of the first requests; then what `statuses()` gives. In a with statement."""

    def __init__(self, *answers, statuses=lambda: 200):
        super().__init__(self._take, protocol="HTTP/1.1")
        self.requests, self._left, self._statuses = [], list(answers), statuses
        self.url = self.origin + "/hook?a=b"

    def _take(self, request, body):
        status = self._left.pop(0) if self._left else self._statuses()
        self.requests.append((status, request.headers, json.loads(body)))
        return status, {}, b""

    def records(self):
        return [record for status, _, records in self.requests if status == 200 for record in records]


def collect(*arguments):
    ours = {key: value for key, value in os.environ.items() if not key.startswith("GPULENS_")}
    return subprocess.run([BINARY, "collect", *arguments], env=ours, capture_output=True, text=True, timeout=60, check=False)


class Collect(unittest.TestCase):
    def test_records_arrive(self):
        with Hook() as hook:
            done = collect("host", "--once", "--sink", "webhook", "-o", f"url={hook.url}", "-o", "bearer_token=secret")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            _, headers, _ = hook.requests[0]
            self.assertEqual(headers["Content-Type"], "application/json")
            self.assertEqual(headers["Authorization"], "Bearer secret")
            memory = [r for r in hook.records() if r["name"] == "system.memory.usage"]
        self.assertGreater(len(memory), 2)
        for record in memory:
            self.assertEqual((record["unit"], record["source"]), ("By", "host"))
            self.assertGreater(record["value"], 0)
            self.assertEqual(record["attributes"]["host.name"], os.uname().nodename)
            self.assertRegex(record["ts"], r"^\d{4}-\d\d-\d\dT")

    def test_arrays_are_bounded(self):
        with Hook() as hook:
            done = collect("host", "--once", "--sink", "webhook", "-o", f"url={hook.url}", "-o", "max_records=10")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            sizes = [len(records) for _, _, records in hook.requests]
        self.assertGreater(len(sizes), 2)
        self.assertEqual(set(sizes[:-1]), {10})

    def test_failed_requests_are_retried_and_refused_ones_reported(self):
        with Hook(500, 429) as hook:
            self.assertEqual(collect("host", "--once", "--sink", "webhook", "-o", f"url={hook.url}").returncode, 0)
            self.assertEqual([status for status, _, _ in hook.requests], [500, 429, 200])
        with Hook(404) as hook:
            done = collect("host", "--once", "--sink", "webhook", "-o", f"url={hook.url}")
            self.assertEqual(done.returncode, 1)
            self.assertIn("404", done.stderr)

    def test_a_url_is_needed(self):
        done = collect("host", "--once", "--sink", "webhook")
        self.assertEqual(done.returncode, 2)
        self.assertIn("url", done.stderr)

    def test_do_nothing(self):
        done = collect("host", "--once", "--sink", "do_nothing")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


class Stream(unittest.TestCase):
    def test_together_with_do_nothing(self):
        with Hook() as hook:
            config = f"interval: 200ms\nsinks: {{webhook: {{url: '{hook.url}', interval: 200ms}}, do_nothing: {{}}}}\n"
            with Agent(config=config) as agent:
                wait_until(lambda: len(hook.requests) >= 3)
                wait_until(lambda: value(agent.page(), "gpulens_sink_up", sink="do_nothing") == 1)
                wait_until(lambda: value(agent.page(), "gpulens_sink_delivered_total", sink="webhook", signal="metrics"))


if __name__ == "__main__":
    unittest.main()
