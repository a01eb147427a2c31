"""gpulens cost: reports, statements, exports and copies of a ledger, checked by other programs."""
import csv
import decimal
import hashlib
import io
import json
import os
import pathlib
import random
import re
import subprocess
import tempfile
import time
import unittest

import click_node
import ledger_maker
import postgres_node
from agent import BINARY, ROOT
from click_node import ClickNode
from ledger_maker import HOUR, Ledger
from postgres_node import PostgresNode

DAY = 86_400
# With focus-validator 2.2.1, which needs Python 3.12: tools/prepare_peers.sh --chdb.
FOCUS = pathlib.Path(os.environ.get("GPULENS_FOCUS_VALIDATOR", ROOT / "build" / "focus" / "bin" / "focus-validator"))
# Its criteria that hold for a ledger: there are no discounts, reservations, regions, unit prices or other currencies.
APPLIES = ("ACCOUNT_NAMING", "USAGE_MEASUREMENT", "SUB_ACCOUNT", "BILLING_BASED_ON_PROVISIONED_RESOURCES", "RESOURCE_TYPE_ASSIGNMENT",
           "TAGGING", "MULTIPLE_BILLING_ACCOUNT_TYPES", "MULTIPLE_SUB_ACCOUNT_TYPES", "MULTIPLE_PRICING_CATEGORIES")  # fmt: skip
# As docs/ledger.md has them: a fleet's ledger in one query.
FLEET = """SELECT tenant, sum(time_ms) / 3600000.0 AS gpu_hours, sum(energy_uj) / 3.6e12 AS kwh,
       sum(cost_allocation_pico) / 1e12 AS usd_allocated, sum(cost_usage_pico) / 1e12 AS usd_used
FROM gpulens_ledger_entry {final}
WHERE hour >= '2025-11-26' AND hour < '2025-11-28'
GROUP BY tenant ORDER BY usd_allocated DESC"""
WASTED = """SELECT host, compute_state, cause, namespace, pod, sum(cost_allocation_pico) / 1e12 AS usd
FROM gpulens_ledger_entry {final}
WHERE compute_state = 'held_idle'
GROUP BY host, compute_state, cause, namespace, pod ORDER BY usd DESC LIMIT 10"""


def cost(*arguments, **more):
    return subprocess.run([str(BINARY), "cost", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False, **more)


def root_of(leaves):
    """RFC 6962, 2.1."""
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + root_of(leaves[:half]) + root_of(leaves[half:])).digest()


class LedgerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.ledger = Ledger(str(self.folder / "ledger.db"))
        self.addCleanup(lambda: self.ledger.base.close())

    def done(self, *arguments):
        result = cost(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout


class Cost(LedgerTest):
    def report(self, *arguments):
        return json.loads(self.done("report", "--json", "--file", self.ledger.path, "--since", "2025-11-26", "--until", "2025-11-28",
                                    *arguments))  # fmt: skip

    def statement(self, name, *arguments):
        path = self.folder / name
        self.done("statement", "--file", self.ledger.path, "-o", path, *arguments)
        return path

    def test_each_report_has_the_sums_of_the_ledger(self):
        for by in ("tenant", "pod", "model", "engine", "gpu", "cause", "state", "day,namespace", "hour"):
            report = self.report("--by", by)
            for name in ("energy_uj", "time_ms", "cost_allocation_pico", "cost_usage_pico", "carbon_ng"):
                self.assertEqual(sum(row[name] for row in report["rows"]), self.ledger.total(name), (by, name))
                self.assertEqual(report["total"][name], self.ledger.total(name))
        self.assertEqual(decimal.Decimal(report["total"]["cost_usage_usd"]) * 10**12, self.ledger.total("cost_usage_pico"))
        waste = self.report("--wasted")
        self.assertEqual(sum(row["time_ms"] for row in waste["rows"]), self.ledger.total("time_ms"))
        self.assertIn("team-1/pod-0-4", [row.get("holder") for row in waste["rows"] if row["state"] == "held_idle"])
        # A table of 80 columns, and CSV that another program reads.
        text = self.done("report", "--file", self.ledger.path, "--since", "2025-11-26", "--until", "2025-11-28")
        self.assertIn("rows add up to the total, to the microjoule and picodollar.", text)
        rows = list(csv.DictReader(io.StringIO(self.done("report", "--csv", "--file", self.ledger.path, "--since", "2025-11-26",
                                                         "--until", "2025-11-28"))))  # fmt: skip
        self.assertEqual(sum(int(row["energy_uj"]) for row in rows), self.ledger.total("energy_uj"))

    def test_a_statement_can_be_checked_without_this_program(self):
        before, leaves, entries = "gpulens.statement/1", [], []
        lines = self.statement("s.jsonl", "--since", "2025-11-26", "--until", "2025-11-27T06:00:00Z").read_text().splitlines()
        for text in lines:
            line = json.loads(text)
            own = line.pop("hash")
            bare = json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            self.assertEqual(hashlib.sha256(f"{before}\n{bare}".encode()).hexdigest(), own)
            before = own
            if line["kind"] == "entry":
                leaves.append(bare.encode())
                entries.append(line)
            elif line["kind"] == "day":
                self.assertEqual((line["count"], line["root"]), (len(leaves), root_of(leaves).hex()))
                leaves = []
        self.assertEqual(len(entries), len(self.ledger.rows))
        for name in ("energy_uj", "cost_allocation_pico"):
            self.assertEqual(sum(int(entry["amounts"].get(name, 0)) for entry in entries), self.ledger.total(name))
            self.assertEqual(int(line["usage"]["amounts"][name]), self.ledger.total(name))

    def test_verify_names_what_is_wrong(self):
        path = self.statement("s.jsonl", "--period", "2025-11-26")
        self.assertIn(": good, 2025-11-26T00:00:00Z to 2025-11-27T00:00:00Z", self.done("verify", path, "--against", self.ledger.path))
        good = path.read_bytes()
        chance = random.Random(1)
        for _ in range(20):
            bad = bytearray(good)
            at = chance.randrange(len(bad))
            bad[at] ^= chance.randrange(1, 255)
            path.write_bytes(bad)
            result = cost("verify", path)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertRegex(result.stderr, r"line [0-9]+: ")
        path.write_bytes(good)
        self.ledger.base.execute("UPDATE ledger_entry SET cost_usage_pico=cost_usage_pico+1 WHERE hour_unix=? AND account=3", (HOUR + 7200,))
        self.ledger.base.commit()
        self.assertEqual(cost("verify", path).returncode, 0)
        result = cost("verify", path, "--against", self.ledger.path)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"line [0-9]+: the ledger has here: ")
        other = Ledger(str(self.folder / "other.db"), identity="f" * 32)
        self.assertIn("of the ledger 0123456789", cost("verify", path, "--against", other.path).stderr)
        other.base.close()

    def test_statements_follow_each_other(self):
        first = self.statement("1.jsonl", "--period", "2025-11-26")
        head = json.loads(first.read_text().splitlines()[-1])["hash"]
        late = HOUR + DAY
        self.ledger.add(late, HOUR + DAY - 3600, ledger_maker.account(0, 2), {"cost_usage_pico": -7})
        self.ledger.add(late, HOUR + DAY - 3600, ledger_maker.account(0, 3), {"cost_usage_pico": 7})
        self.ledger.end(HOUR + 2 * DAY)
        second = self.statement("2.jsonl", "--period", "2025-11-27", "--previous", first)
        lines = [json.loads(line) for line in second.read_text().splitlines()]
        self.assertEqual(lines[0]["previous"], head)
        self.assertEqual([line["for_hour"] for line in lines if line.get("class") == "correction"], ["2025-11-26T23:00:00Z"] * 2)
        self.assertEqual(self.statement("again.jsonl", "--period", "2025-11-26").read_text(), first.read_text())
        gap = cost("statement", "--period", "2025-11-28", "--open", "--previous", first, "--file", self.ledger.path)
        self.assertEqual(gap.returncode, 2)
        self.assertIn("ends at 2025-11-27", gap.stderr)

    def test_a_period_that_may_still_change_has_no_statement(self):
        self.ledger.end(HOUR + DAY - 1)
        result = cost("statement", "--period", "2025-11-26", "--file", self.ledger.path)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("booked up to 2025-11-26T23:59:59Z", result.stderr)
        self.ledger.end(HOUR + DAY * 3 // 2, HOUR + DAY - 1)
        self.assertEqual(cost("statement", "--period", "2025-11-26", "--file", self.ledger.path).returncode, 1)
        self.ledger.end(HOUR + 2 * DAY, HOUR + DAY // 2)  # a GPU that was taken out a day before
        self.done("statement", "--period", "2025-11-26", "--file", self.ledger.path)
        self.ledger.end(HOUR + DAY - 1)
        self.assertIn('"open":true', self.done("statement", "--period", "2025-11-26", "--open", "--file", self.ledger.path))

    def test_what_cannot_be_done_has_a_reason_and_a_code(self):
        missing = cost("report", "--file", self.folder / "none.db")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("analyzer cost is on", missing.stderr)
        foreign = self.folder / "foreign.db"
        foreign.write_text("no database, but long enough to have a head of one hundred bytes " * 3)
        self.assertEqual(cost("report", "--file", foreign).returncode, 1)
        self.assertEqual(cost("report", "--file", self.ledger.path, "--since", "2020-01-01", "--until", "2020-01-02").returncode, 0)
        nothing = cost("report", "--file", self.ledger.path, "--since", "2020-01-01", "--until", "2020-01-02")
        self.assertIn("the ledger has hours from 2025-11-26T00:00:00Z to 2025-11-27T05:00:00Z", nothing.stderr)
        for wrong in (["report", "--by", "colour"], ["report", "--since", "yesterday"], ["report", "--json", "--csv"], ["statement"],
                      ["export"], ["export", "--focus", "9"], ["push", "mysql://x"], ["verify"],
                      ["report", "--period", "2025-11", "--since", "7d"], ["verify", self.folder / "none.jsonl"]):  # fmt: skip
            self.assertEqual(cost(*wrong, *([] if wrong[0] == "verify" else ["--file", self.ledger.path])).returncode, 2, wrong)

    def test_a_server_that_is_away_is_named_without_its_password(self):
        for url in ("postgresql://u:hush-hush@127.0.0.1:1/d", "clickhouse://u:hush-hush@127.0.0.1:1/d"):
            result = cost("push", url, "--file", self.ledger.path)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertNotIn("hush-hush", result.stderr)

    def test_a_damaged_ledger_is_no_report(self):
        self.ledger.base.close()
        path = pathlib.Path(self.ledger.path)
        data = bytearray(path.read_bytes())
        for at in range(4096, len(data), 4096):
            data[at : at + 16] = b"garbage garbage!"
        path.write_bytes(data)
        for command in (["report"], ["export", "--opencost"], ["statement", "--period", "2025-11"]):
            result = cost(*command, "--file", path)
            self.assertEqual((result.returncode, result.stdout), (1, ""), command)
            self.assertIn("ledger.db", result.stderr)

    def test_a_report_of_a_month_reads_no_hours_one_by_one(self):
        large = Ledger(str(self.folder / "large.db"), gpus=8, accounts=25, hours=720, first_hour=HOUR - 720 * 3600)
        large.base.close()
        arguments = ("report", "--file", large.path, "--since", "2025-10-27", "--until", "2025-11-26", "--config", "/dev/null")
        times = []
        for _ in range(7):
            begin = time.monotonic()
            self.done(*arguments)
            times.append(time.monotonic() - begin)
        # 10 ms are usual; reading all hours took several times as long (docs/performance/ledger.md).
        self.assertLess(min(times), 0.5)

    def test_two_days_of_the_month_in_the_documents_add_up(self):
        path = self.folder / "month.db"
        world = subprocess.run([BINARY.parent / "ledger_month", path, "2"], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(world.returncode, 0, world.stderr)
        world = json.loads(world.stdout)
        reports = {by: json.loads(self.done("report", "--json", "--file", path, "--since", "2026-11-01", "--until", "2026-11-04", "--by", by))
                   for by in ("gpu", "tenant", "engine,model,class", "state,cause", "energy_state,method")}
        self.assertEqual({row["key"]["gpu"]: row["energy_uj"] for row in reports["gpu"]["rows"]},
                         {gpu["gpu"]: gpu["energy_uj"] for gpu in world["gpus"]})
        self.assertEqual(world["residual"], 0)
        for by, report in reports.items():
            for amount in ("energy_uj", "time_ms", "cost_allocation_pico", "cost_usage_pico", "electricity_pico", "carbon_ng"):
                self.assertEqual(sum(row[amount] for row in report["rows"]), report["total"][amount], (by, amount))
            self.assertEqual(report["total"]["time_ms"], world["time_ms"])
            # 2.49 USD for each GPU and hour, by either way of dividing it.
            self.assertEqual(report["total"]["cost_allocation_pico"], 8 * 48 * 2_490_000_000_000)
            self.assertEqual(report["total"]["cost_usage_pico"], 8 * 48 * 2_490_000_000_000)

    def test_opencost_and_entries_are_json(self):
        times = ("--file", self.ledger.path, "--since", "2025-11-26", "--until", "2025-11-28")
        answer = json.loads(self.done("export", "--opencost", *times))
        self.assertEqual(len(answer["data"]), 2)
        hours = sum(allocation["gpuHours"] for day in answer["data"] for allocation in day.values())
        self.assertAlmostEqual(hours, self.ledger.total("time_ms") / 3.6e6, 6)
        entries = [json.loads(line) for line in self.done("export", "--entries", *times).splitlines()]
        self.assertEqual(sum(int(entry["amounts"]["energy_uj"]) for entry in entries), self.ledger.total("energy_uj"))


def check_copies(test, url, sql, final, **more):
    """A ledger on a server is the same however often it is copied."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(f"{folder}/ledger.db")
        push = ("push", url, "--file", ledger.path)
        for expected in ("30 hours with 360 entries copied, 0 hours were there", "0 hours with 0 entries copied, 30 hours were there"):
            result = cost(*push, **more)
            test.assertEqual(result.returncode, 0, result.stderr)
            test.assertEqual(result.stdout, expected + "\n")
        changed = HOUR + 29 * 3600
        ledger.add(changed, changed - 3600, ledger_maker.account(0, 2), {"cost_usage_pico": 7})
        ledger.base.execute("UPDATE ledger_entry SET energy_uj=energy_uj+5 WHERE hour_unix=? AND account=1", (changed,))
        ledger.base.commit()
        test.assertEqual(cost(*push, **more).stdout, "1 hour with 13 entries copied, 29 hours were there\n")
        second = Ledger(f"{folder}/second.db", identity="f" * 32, host="node-2")
        test.assertIn("360 entries", cost("push", url, "--file", second.path, **more).stdout)
        test.assertEqual(sql(f"SELECT count(*) FROM gpulens_ledger_entry {final}"), "721")
        test.assertEqual(sql(f"SELECT sum(energy_uj) FROM gpulens_ledger_entry {final} WHERE host='node-1'"),
                         str(ledger.total("energy_uj") + 5))  # fmt: skip
        rows = sql(FLEET.format(final=final)).splitlines()
        test.assertEqual(len(rows), 4)
        test.assertIn("team-1", sql(WASTED.format(final=final)).splitlines()[0])
        ledger.base.close()
        second.base.close()


class Postgres(unittest.TestCase):
    @unittest.skipIf(postgres_node.missing(), postgres_node.missing())
    def test_postgres_has_each_hour_once(self):
        with PostgresNode() as node:
            check_copies(self, node.url(), node.sql, "", env=postgres_node.environment())


class Peers(LedgerTest):
    """With programs that are large: label peers."""

    @unittest.skipUnless(FOCUS.exists(), "no focus-validator in build/focus, which needs Python 3.12; tools/prepare_peers.sh --chdb gets it")
    def test_focus_validator_accepts_the_export(self):
        path = self.folder / "focus.csv"
        self.ledger.add(HOUR + 5 * DAY, HOUR + 5 * DAY - 3600, ledger_maker.account(0, 2), {"cost_usage_pico": -7})  # of November
        self.ledger.end(HOUR + 6 * DAY)
        self.done("export", "--focus", "1.2", "-o", path, "--file", self.ledger.path, "--since", "2025-11-26", "--until", "2025-12-02")
        self.assertIn("Correction", path.read_text())
        packages = next(FOCUS.parents[1].glob("lib/python3*/site-packages"))  # it finds its currency codes from there alone
        result = subprocess.run([str(FOCUS), "--data-file", str(path), "--validate-version", "1.2.0.1", "--block-download",
                                 "--applicability-criteria", ",".join(f"{name}_SUPPORTED" for name in APPLIES)],
                                capture_output=True, text=True, timeout=300, check=False, cwd=packages)  # fmt: skip
        failures = sorted(set(re.findall(r"^- ([A-Za-z]+-[A-Z]-[0-9]+-[A-Z]): ", result.stdout, re.MULTILINE)))
        # InvoiceId-C-003 wants one of two: null without an invoice (C-004), not null with one (C-005). The program fails the other.
        self.assertEqual(failures, ["InvoiceId-C-005-C"], result.stdout[-4000:] + result.stderr[-2000:])
        self.assertGreater(int(re.search(r"Pass: ([0-9]+)", result.stdout).group(1)), 200)

    @unittest.skipIf(click_node.missing(), click_node.missing())
    def test_clickhouse_has_each_hour_once(self):
        with ClickNode() as node:
            check_copies(self, node.url(), lambda statement: node.sql(statement, "d"), "FINAL")


if __name__ == "__main__":
    unittest.main()
