"""`gpulens proxy` before a scripted provider, for tests of it."""
import contextlib
import sqlite3
import unittest

from agent import value, wait_until
from llm_provider import Provider, price_file
from llm_upstream import LlmProxy

SECRET = "provider-secret-1"  # the key that the provider wants


class ProxyCase(unittest.TestCase):
    """Starts provider and proxy for the tests of a class. Keys: `key` of ada; `poor`, whose hard budget is used up soon, and `broke`, whose is from the begin."""
    MORE = ""  # of the configuration

    @classmethod
    def setUpClass(cls):
        upstream = Provider.serve(cls)
        cls.proxy = LlmProxy(
            f"providers:\n  - {{name: one, url: '{upstream}', prices: openai, region: eu-1, api_key: '${{UPSTREAM_KEY}}', models: {{fast: gpt-test}}}}\n"
            f"  - {{name: two, api: anthropic, url: '{upstream}', prices: anthropic, region: eu-1, api_key: '${{UPSTREAM_KEY}}'}}\n"
            f"  - {{name: three, api: gemini, url: '{upstream}', prices: gemini, region: eu-1, api_key: '${{UPSTREAM_KEY}}'}}\n"
            f"  - {{name: four, api: ollama, url: '{upstream}', prices: ollama, region: lab, api_key: '${{UPSTREAM_KEY}}'}}\n"
            f"  - {{name: own, url: '{upstream}', profile: byoc, region: lab, cluster: byc_1, target_ttft: 500ms, prices: openai}}\n"
            "routes:\n  - {models: [own-model], providers: [own]}\n  - {models: ['*'], providers: [one, two, three, four]}\n"
            "budgets:\n  - {name: small, listed_only: true, usd: '0.002', window: month, mode: hard}\n"
            "  - {name: empty, listed_only: true, usd: '0.000001', window: month, mode: hard}\n" + cls.MORE,
            environment={"UPSTREAM_KEY": SECRET}, prices=price_file())
        cls.key = cls.proxy.key
        cls.poor = cls.proxy.new_key("poor", "--budgets", "small")
        cls.broke = cls.proxy.new_key("broke", "--budgets", "empty")
        cls.enterClassContext(cls.proxy)
        cls.folder, cls.url = cls.proxy.folder, f"http://127.0.0.1:{cls.proxy.port}"

    def page(self):
        return self.proxy.page()

    def charged(self):
        return value(self.page(), "zumik_inference_charged_micros_total")

    def rows(self, column, key):
        """The charges with this key in a column."""
        with contextlib.suppress(sqlite3.OperationalError), sqlite3.connect(f"file:{self.folder}/state/charges.db?mode=ro", uri=True) as store:
            store.row_factory = sqlite3.Row
            return store.execute(f"SELECT * FROM llm_charge WHERE {column} = ?", (key,)).fetchall()
        return []  # the first charge makes the file

    def row(self, answer, outcome="complete", counted_by="usage"):
        """The one row of what the provider answered; charges are there before an answer ends, and in the store soon after."""
        rows = wait_until(lambda: self.rows("upstream_request_id", answer.id), what=f"the row of {answer}")
        self.assertEqual(len(rows), 1, answer)
        row = rows[0]
        self.assertEqual((row["outcome"], row["counted_by"]), (outcome, counted_by), answer)
        return row

    def check_charge(self, answer, **how):
        """Its row has the provider's counts, and their price."""
        row = self.row(answer, **how)
        units = {name.removeprefix("units_"): row[name] for name in row.keys() if name.startswith("units_") and row[name]}
        self.assertEqual(units, answer.units, answer)
        self.assertEqual((row["charged_pico"], row["list_pico"]), (answer.pico, answer.pico), answer)
        return row
