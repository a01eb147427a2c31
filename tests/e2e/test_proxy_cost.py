"""What `gpulens proxy` charged, in `gpulens telemetry` and `gpulens cost report`: exactly what it was, and unknown where it is not known."""
import collections
import csv
import io
import json
import pathlib
import sqlite3
import subprocess
import tempfile
import unittest

import click_node
import postgres_node
from agent import BINARY, Agent, free_port, samples, value, wait_until
from click_node import ClickNode
from ledger_maker import ACCOUNT, Ledger
from llm_upstream import LlmProxy, LlmUpstream
from postgres_node import PostgresNode

INPUT, OUTPUT = 1000, 5
PICO = INPUT * 2_000_000 + OUTPUT * 8_000_000  # of llm_upstream's prices, of one request
CONFIG = """providers:
  - {{name: one, url: "{url}", prices: list, region: eu}}
  - {{name: lab, url: "{url}", prices: list, profile: byoc}}
routes:
  - {{models: ["own-*"], providers: [lab]}}
  - {{models: ["*"], providers: [one]}}
telemetry: {{url: "{telemetry}"}}
{more}"""


def gpulens(*arguments):
    return subprocess.run([str(BINARY), *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


class ProxyCost(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.upstream = self.enterContext(LlmUpstream(INPUT, OUTPUT, gap=0.02))

    def enterContext(self, manager):  # of Python 3.11
        entered = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return entered

    def start(self, telemetry, more="", **given):
        return self.enterContext(LlmProxy(CONFIG.format(url=self.upstream.url, telemetry=telemetry, more=more), **given))

    def send_some(self, proxy):
        """Ten requests: five at the price, two streamed, one failed, two to one's own engine."""
        sent = [("chat", {})] * 5 + [("chat", {"stream": True})] * 2 + [("status-503", {})] + [("own-chat", {})] * 2
        for model, members in sent:
            status, _, body = proxy.send(model, **members)
            self.assertEqual(status, 503 if model == "status-503" else 200, body)
        return len(sent)

    def done(self, *arguments):
        result = gpulens(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def stored(self, proxy, count):
        wait_until(lambda: value(proxy.page(), "gpulens_proxy_telemetry_stored_total") == count, what="the records")

    def check_records(self, telemetry, count):
        rows = [json.loads(line) for line in self.done("telemetry", "export", "--db", telemetry, "-f", "jsonl").splitlines()]
        self.assertEqual(len(rows), count)
        by = collections.defaultdict(list)
        for row in rows:
            by[row["engine"], row["model_id"], bool(row["is_streaming"])].append(row)
        self.assertEqual({key: len(some) for key, some in by.items()},
                         {("one", "chat", False): 5, ("one", "chat", True): 2, ("one", "status-503", False): 1, ("lab", "own-chat", False): 2})
        for row in by["one", "chat", False] + by["one", "chat", True]:
            metadata = json.loads(row["metadata"])
            self.assertEqual((row["agent"], row["outcome"], row["prompt_tokens"], row["completion_tokens"]), ("ada", "ok", INPUT, OUTPUT))
            self.assertAlmostEqual(row["cost_usd"], PICO / 1e12, places=12)
            self.assertIsNone(row["cached_prompt_tokens"], "the provider names none")
            self.assertGreater(row["latency_seconds"], 0)
            self.assertEqual((metadata["key"], metadata["tenant"], metadata["profile"], metadata["region"], metadata["counted_by"], metadata["charged_pico"]),
                             ("ada", "acme", "managed", "eu", "usage", PICO))
        streamed = by["one", "chat", True][0]
        self.assertGreater(streamed["ttft"], 0)
        self.assertIn(streamed["itl_count"], range(1, self.upstream.words))
        failed = by["one", "status-503", False][0]
        self.assertEqual((failed["outcome"], failed["error_type"]), ("error", "http_503"))
        stats = json.loads(self.done("telemetry", "stats", "--db", telemetry, "--by", "engine", "--json"))
        self.assertIn('"lab"', json.dumps(stats))
        return rows

    def test_telemetry_has_each_request_and_reports_have_the_sums(self):
        telemetry = self.folder / "telemetry.db"
        proxy = self.start(telemetry)
        count = self.send_some(proxy)
        self.stored(proxy, count)
        rows = self.check_records(telemetry, count)
        for row in rows:
            if row["engine"] == "lab":  # what the engine costs is in the ledger
                self.assertEqual(row["cost_usd"], 0)
                self.assertFalse(row["measured"] >> list(row).index("cost_usd") - 1 & 1, "0 is not known here")
        charges = proxy.folder / "state/charges.db"
        wait_until(lambda: len(self.charges(charges)) == count, what="the charges")
        report = json.loads(self.done("cost", "report", "--charges", charges, "--by", "provider,model", "--json"))
        self.assertEqual({tuple(row["key"].values()): (row["requests"], row["list_pico"], row["charged_pico"]) for row in report["rows"]},
                         {("one", "chat"): (7, 7 * PICO, 7 * PICO), ("one", "status-503"): (1, 0, 0), ("lab", "own-chat"): (2, 2 * PICO, 0)})
        self.assertEqual(report["total"]["charged_pico"], 7 * PICO)
        self.assertEqual((report["total"]["byoc_requests"], report["total"]["byoc_without_cost"]), (2, 2))
        self.assertNotIn("share_pico", report["total"], "unknown without a ledger, and not 0")
        text = self.done("cost", "report", "--charges", charges, "--by", "key")
        self.assertIn("The row is the total, to the picodollar.", text)
        self.assertIn("Without a share: 2 of 2 byoc requests.", text)

    def charges(self, path):
        """The times of what is charged, in ns; none while the proxy makes the file."""
        try:
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as store:
                return [row[0] for row in store.execute("SELECT settled_unix_ns FROM llm_charge")]
        except sqlite3.OperationalError:
            return []

    def test_requests_to_one_s_own_engine_have_their_share_of_its_cost(self):
        proxy = self.start(self.folder / "telemetry.db")
        for _ in range(3):
            self.assertEqual(proxy.send("own-chat")[0], 200)
        charges = proxy.folder / "state/charges.db"
        wait_until(lambda: len(self.charges(charges)) == 3, what="the charges")
        hours = collections.Counter(settled // 10**9 // 3600 * 3600 for settled in self.charges(charges))
        ledger = Ledger(str(self.folder / "ledger.db"), hours=1)
        self.addCleanup(ledger.base.close)
        account = {**dict.fromkeys(ACCOUNT, ""), "gpu": "GPU-0", "energy_state": "active", "compute_state": "useful", "method": "whole", "engine": "chat-a"}
        prefill, decode, held = 1_000_000_007, 600_000_011, 77
        for hour in hours:
            for kind, pico, tokens in (("prefill", prefill, 10_000), ("decode", decode, 15), ("engine_held", held, 0)):
                ledger.add(hour, 0, {**account, "request_class": kind},
                           {"energy_uj": pico // 3, "time_ms": 1000, "priced_ms": 1000, "cost_allocation_pico": pico, "tokens": tokens})
        ledger.end(max(hours) + 3600)
        arguments = ["cost", "report", "--charges", charges, "--by", "tenant", "--file", ledger.path, "--engine", "lab=chat-a"]
        report = json.loads(self.done(*arguments, "--json"))
        engine, total = report["engines"][0], report["total"]
        self.assertEqual((engine["engines"], engine["known"]), (["chat-a"], True))
        self.assertEqual(engine["whole_pico"], len(hours) * (prefill + decode + held))
        self.assertEqual(engine["whole_pico"], sum(engine[part + "_pico"] for part in ("requests", "others", "held", "undivided")))
        self.assertEqual(engine["whole_energy_uj"], sum(engine[part + "_energy_uj"] for part in ("requests", "others", "held", "undivided")))
        self.assertEqual((total["share_pico"], total["byoc_without_cost"]), (engine["requests_pico"], 0))
        # 3,000 of 10,000 prompt tokens, and all that were generated, where all ended in one hour.
        if len(hours) == 1:
            self.assertAlmostEqual(total["share_pico"], 0.3 * prefill + decode, delta=3)
        rows = list(csv.DictReader(io.StringIO(self.done(*arguments, "--csv"))))
        self.assertEqual([(row["tenant"], int(row["share_pico"]), int(row["charged_pico"])) for row in rows], [("acme", total["share_pico"], 0)])
        self.assertIn("Engine chat-a cost", self.done(*arguments))
        # Under the provider's name the ledger has no engine.
        other = json.loads(self.done(*arguments[:-2], "--json"))
        self.assertEqual((other["total"]["byoc_without_cost"], other["total"]["byoc_without_energy"]), (3, 3))

    def test_the_agent_reads_its_page_and_shows_spend_and_requests(self):
        proxy = self.start(self.folder / "telemetry.db")
        count = self.send_some(proxy)
        url = f"http://127.0.0.1:{proxy.port}/metrics"
        self.assertIn("gpulens-proxy", self.done("engines", "check", url))  # fails when a family is unknown
        with Agent(config=f"targets: [{{url: '{url}', name: gate, interval: 200ms}}]\n") as agent:
            def shown():
                series = json.loads(agent.get("/api/now").text)["series"]
                of = {name: [one for one in series if one["name"] == name and one["attributes"].get("target") == "gate"]
                      for name in ("inference.spend.usd", "inference.requests.finished")}
                return of if all(of.values()) else None

            of = wait_until(shown, what="the gateway's series")
            self.assertEqual({one["attributes"]["provider"] for one in of["inference.requests.finished"]}, {"one", "lab"})
            page = agent.page()
            self.assertAlmostEqual(sum(one.value for one in samples(page, "inference_spend_usd_total", target="gate")), 7 * PICO / 1e12, places=9)
            finished = samples(page, "inference_requests_finished_total", target="gate")
            self.assertEqual(sum(one.value for one in finished), count)
            self.assertEqual({one.labels["inference_engine"] for one in finished}, {"gpulens-proxy"})

    def test_a_telemetry_store_that_is_away_holds_up_nothing(self):
        proxy = self.start(f"clickhouse://u:hush@127.0.0.1:{free_port()}/d")
        count = self.send_some(proxy)
        page = wait_until(lambda: value(page := proxy.page(), "gpulens_proxy_telemetry_up") == 0 and page, what="the failure")
        self.assertEqual(value(page, "gpulens_proxy_telemetry_queued"), count)
        self.assertEqual(value(page, "gpulens_proxy_telemetry_stored_total"), 0)
        charges = proxy.folder / "state/charges.db"
        wait_until(lambda: len(self.charges(charges)) == count, what="the charges")
        self.assertNotIn("hush", proxy.log.read_text())

    def test_what_cannot_be_a_telemetry_store_is_refused(self):
        (self.folder / "other.db").write_text("x" * 5000)
        for place, code in ((self.folder / "other.db", 1), ("mysql://u@h/d", 2)):
            config = self.folder / "proxy.yaml"
            config.write_text(f"listen: ['127.0.0.1:{free_port()}']\nstate_dir: {self.folder}/state\n"
                              + CONFIG.format(url=self.upstream.url, telemetry=place, more=""))
            (self.folder / "state").mkdir(exist_ok=True)
            (self.folder / "state/keys.tsv").touch()
            result = gpulens("proxy", "--config", config)
            self.assertEqual(result.returncode, code, result.stderr)

    def check_server(self, url, **given):
        """Records and charges on one server."""
        proxy = self.start(url, f"stores: [{{name: server, url: '{url}'}}]", **given)
        count = self.send_some(proxy)
        self.stored(proxy, count)
        self.check_records(url, count)

        def charged():
            report = json.loads(self.done("cost", "report", "--charges", url, "--by", "tenant", "--where", "key=ada", "--json"))
            return report if report["total"]["requests"] == count else None

        report = wait_until(charged, what="the charges")
        self.assertEqual((report["rows"][0]["key"]["tenant"], report["total"]["charged_pico"]), ("acme", 7 * PICO))
        self.assertEqual((report["total"]["byoc_requests"], report["total"]["byoc_without_cost"]), (2, 2))

    @unittest.skipIf(postgres_node.missing(), postgres_node.missing())
    def test_postgres_has_records_and_charges(self):
        database = self.enterContext(PostgresNode(free_port(), tcp=True))
        empty = gpulens("cost", "report", "--charges", database.tcp_url("sslmode=disable"))
        self.assertEqual(empty.returncode, 1)
        self.assertIn("no proxy has written them there yet", empty.stderr)
        # By TCP: the proxy has no capability to reach a socket of another user.
        self.check_server(database.tcp_url("sslmode=disable"), environment=postgres_node.environment())

    @unittest.skipIf(click_node.missing(), click_node.missing())
    def test_clickhouse_has_records_and_charges(self):
        self.check_server(self.enterContext(ClickNode()).url())

    def test_without_charges_it_reports_that(self):
        result = gpulens("cost", "report", "--charges", self.folder / "none.db")
        self.assertEqual(result.returncode, 1)
        self.assertIn("none.db", result.stderr)
        result = gpulens("cost", "report", "--charges", self.folder / "none.db", "--wasted")
        self.assertEqual(result.returncode, 2)


if __name__ == "__main__":
    unittest.main()
