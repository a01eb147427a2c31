"""`gpulens cost reconcile`: charges of a real proxy against exports that a provider would have made of them."""
import csv
import datetime
import io
import json
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

from agent import BINARY, wait_until
from llm_upstream import LlmProxy, LlmUpstream

REQUESTS, INPUT, OUTPUT = 3, 1000, 50
DAY_SECONDS = 86400


def day_text(day):
    return datetime.datetime.fromtimestamp(day, datetime.timezone.utc).strftime("%Y-%m-%d")


class CostReconcile(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-reconcile-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.charges = self.folder / "charges.db"
        with LlmUpstream(input_tokens=INPUT, output_tokens=OUTPUT) as upstream, \
                LlmProxy(f"providers: [{{name: openai, url: '{upstream.url}', prices: list}}]") as proxy:
            for _ in range(REQUESTS):
                self.assertEqual(proxy.send()[0], 200)
            place = proxy.folder / "state/charges.db"
            wait_until(lambda: len(self.settled(place)) == REQUESTS, what="the rows")
            # As the proxy has it open, the database makes the copy.
            with sqlite3.connect(f"file:{place}?mode=ro", uri=True) as store, sqlite3.connect(self.charges) as copy:
                store.backup(copy)
        # Requests by day: there are two where midnight was between them.
        self.days = {}
        for settled in self.settled(self.charges):
            day = settled // 10**9 // DAY_SECONDS * DAY_SECONDS
            self.days[day] = self.days.get(day, 0) + 1

    def settled(self, place):
        try:
            with sqlite3.connect(f"file:{place}?mode=ro", uri=True) as store:
                return [row[0] for row in store.execute("SELECT settled_unix_ns FROM llm_charge")]
        except sqlite3.OperationalError:
            return []  # the first charge makes the file

    def run_it(self, *words):
        return subprocess.run([str(BINARY), "cost", "reconcile", *map(str, words)], capture_output=True, text=True, timeout=60, check=False)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def usage(self, more_requests=0, more_input=0):
        """A page of OpenAI's usage API; the first day has more."""
        buckets = []
        for day, requests in sorted(self.days.items()):
            result = {"object": "organization.usage.completions.result", "num_model_requests": requests + more_requests,
                      "input_tokens": INPUT * requests + more_input, "input_cached_tokens": 0, "output_tokens": OUTPUT * requests,
                      "model": "chat", "batch": False, "service_tier": "default"}
            buckets.append({"object": "bucket", "start_time": day, "end_time": day + DAY_SECONDS, "results": [result]})
            more_requests = more_input = 0
        return json.dumps({"object": "page", "data": buckets, "has_more": False, "next_page": None})

    def test_equal_different_and_what_cannot_be_compared(self):
        equal = self.write("equal.json", self.usage())
        # 2 USD per million tokens in, 8 out: 0.0024 USD a request.
        table = self.write("costs.csv", "date,model,cost_usd\n" + "".join(f"{day_text(day)},chat,{24 * count / 10000:.4f}\n" for day, count in self.days.items()))
        ran = self.run_it("--provider", "openai", equal, table, "--charges", self.charges)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""), ran.stdout)
        self.assertIn(" equal, 0 differ.", ran.stdout)

        more = self.write("more.json", self.usage(1, 200))
        ran = self.run_it(more, "--charges", self.charges)
        self.assertEqual((ran.returncode, ran.stderr), (1, ""), ran.stdout)
        self.assertIn("More there: requests that did not pass the proxy.", ran.stdout)
        self.assertIn("-200", ran.stdout)
        self.assertNotIn("  output ", ran.stdout.split("\nAll\n")[0])
        self.assertLessEqual(max(map(len, ran.stdout.splitlines())), 80)
        self.assertEqual(self.run_it(more, "--charges", self.charges, "--tolerance", "50%").returncode, 0)

        ran = self.run_it(more, "--charges", self.charges, "--json")
        self.assertEqual(ran.returncode, 1)
        group = json.loads(ran.stdout)["sections"][0]["groups"][0]
        self.assertEqual((group["there"]["input"] - group["here"]["input"], group["different"]), (200, ["requests", "input"]))
        ran = self.run_it(more, "--charges", self.charges, "--csv")
        rows = {row["measure"]: row for row in csv.DictReader(io.StringIO(ran.stdout)) if row["day"] == day_text(min(self.days))}
        self.assertEqual((rows["requests"]["difference"], rows["output"]["equal"]), ("-1", "true"))

        for words, message in ((("--charges", self.charges), "does not name a provider"), (("--charges", self.folder / "none.db", "--provider", "openai"), "none.db"),
                               (("--charges", self.charges, "--provider", "openai", "--tolerance", "1"), "--tolerance 1"),
                               (("--charges", self.charges, "--provider", "openai", "--zone", "PST"), "--zone PST")):
            ran = self.run_it(table, *words)
            self.assertEqual((ran.returncode, ran.stdout), (2, ""), ran.stderr)
            self.assertIn(message, ran.stderr.replace("\n", " "))
        ran = self.run_it(self.write("broken.json", '{"data":['), "--charges", self.charges)
        self.assertEqual(ran.returncode, 2)
        self.assertIn("broken.json: byte", ran.stderr)


if __name__ == "__main__":
    unittest.main()
