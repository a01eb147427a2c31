"""Inference records in ClickHouse: the SDK and gpulens telemetry with ClickHouse's own engine (chdb)."""
import csv
import io
import json
import os
import subprocess
import tempfile
import threading
import time
import unittest

import click_node
from agent import BINARY, wait_until
from click_node import PASSWORD, ClickNode
from inference_client import Program, near

COUNTS = "SELECT count(), uniqExact(timestamp) FROM telemetry"


@unittest.skipIf(click_node.missing(), click_node.missing())
class ClickHouse(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = ClickNode().__enter__()
        cls.addClassCleanup(cls.node.__exit__)

    def setUp(self):
        self.node.sql("DROP DATABASE d")
        self.node.sql("CREATE DATABASE d")

    def sql(self, statement):
        return self.node.sql(statement, "d")

    def telemetry(self, *arguments, url=None, **more):
        return subprocess.run([str(BINARY), "telemetry", *arguments, "--db", url or self.node.url()], capture_output=True, text=True,
                              timeout=60, check=False, **more)  # fmt: skip

    def opened(self, program):
        answers = program.do(f"open {self.node.url()}")
        self.assertEqual(answers, f"ok clickhouse://gpulens@127.0.0.1:{self.node.port}/d")

    def test_the_same_records_give_the_same_as_in_a_file(self):
        with tempfile.TemporaryDirectory() as folder, Program() as program:
            file = f"{folder}/telemetry.db"
            self.assertEqual(program.do(f"open {file}"), f"ok {file}")
            self.opened(program)
            self.assertEqual(program.do("record 0 10000"), "ok")
            self.assertEqual(program.do("flush"), "ok")
            self.assertEqual(program.health(), (10000, 0, 0, 0, ""))
            same, records, groups = program.do("compare").split()
            self.assertEqual(same, "same")
            self.assertGreater(int(records), 15000)
            self.assertGreater(int(groups), 500)
            first, second = (json.loads(self.telemetry("stats", "--json", url=where).stdout) for where in (file, self.node.url()))
            self.assertEqual((first.pop("db"), second.pop("db")), (file, f"clickhouse://gpulens@127.0.0.1:{self.node.port}/d"))
            self.assertEqual(first["total"]["calls"], 10000)
            near(self, first, second)
            self.exports_alike(file)
            self.assertIn("is not a file", program.do("check"))
            self.assertEqual(program.do("vacuum"), "ok")
            self.assertEqual(program.do("clear"), "10000")
            self.assertEqual(program.do("count"), "0")
            self.assertEqual(program.do("close"), "ok")
            self.assertEqual(self.sql("SELECT outcome, stored FROM telemetry_writer FINAL"), "closed\t10000")
            program.end()

    def exports_alike(self, file):
        """But for the row's number, which is the file's."""
        exports = [self.telemetry("export", "-f", "json", "--model", "llama", url=where) for where in (file, self.node.url())]
        rows = [json.loads(each.stdout) for each in exports]
        self.assertGreater(len(rows[0]), 3000)
        for row in rows[0]:
            del row["id"]
        self.assertEqual(rows[0], rows[1])
        lines = self.telemetry("export", "-f", "jsonl", "--model", "llama").stdout.splitlines()
        self.assertEqual([json.loads(line) for line in lines], rows[1])
        table = list(csv.DictReader(io.StringIO(self.telemetry("export", "-f", "csv", "--model", "llama").stdout)))
        self.assertEqual([row["mining_session_id"].replace("\r\n", "\n") for row in table], [row["mining_session_id"] for row in rows[1]])

    def test_the_table_is_one_that_clickhouse_users_know(self):
        with Program() as program:
            self.opened(program)
            program.do("record 0 100")
            self.assertEqual(program.do("flush"), "ok")
            self.assertEqual(self.sql("SELECT model_id, count(), sum(prompt_tokens) FROM telemetry GROUP BY model_id ORDER BY 1"),
                             "llama\t34\t1683\nqwen\t66\t3267")  # fmt: skip
            self.assertEqual(self.sql("SELECT sorting_key FROM system.tables WHERE database='d' AND name='telemetry'"),
                             "timestamp, writer_id, id")  # fmt: skip
            self.assertEqual(self.sql("SELECT count() FROM telemetry WHERE outcome='error' AND error_type='timeout'"), "2")
            self.assertEqual(program.do(f"open {self.node.url()}?table=other"), f"ok clickhouse://gpulens@127.0.0.1:{self.node.port}/d")
            program.do("record 100 10")
            self.assertEqual(program.do("flush"), "ok")
            self.assertEqual(self.sql("SELECT count() FROM other"), "10")

    def test_poison_is_set_aside_alone(self):
        with Program() as program:
            self.opened(program)
            program.do("bad")
            self.assertEqual(program.do("flush"), "ok")
            # A NUL within a text is one that ClickHouse holds.
            self.assertEqual(program.health(), (101, 0, 0, 3, ""))
            self.assertEqual(program.do("count"), "101")
            reasons = self.sql("SELECT reason FROM telemetry_poison ORDER BY id")
            for word in ("infinite", "metadata_is_json", "UTF-8"):
                self.assertIn(word, reasons)
            self.assertIn("{not json", self.sql("SELECT record FROM telemetry_poison"))

    def test_an_insert_without_an_answer_is_stored_once(self):
        with Program() as program:
            self.opened(program)
            for i, (kind, count) in enumerate((("lose", 1), ("cut", 1), ("refuse", 2), ("lose", 3))):
                self.node.fault(kind, count)
                program.do(f"record {i * 5000} 5000")
                wait_until(lambda: program.do("flush") == "ok", seconds=60)
            self.assertEqual(program.health(), (20000, 0, 0, 0, ""))
            self.assertEqual(self.sql(COUNTS), "20000\t20000")
            self.assertEqual(self.sql("SELECT count() FROM telemetry FINAL"), "20000")

    def test_a_record_stored_twice_is_read_once(self):
        """Covers a server that remembers no tokens: an older one, or one that has discarded them."""
        with Program() as program:
            self.opened(program)
            self.sql("ALTER TABLE telemetry MODIFY SETTING non_replicated_deduplication_window=0")
            self.sql("SYSTEM STOP MERGES telemetry")
            self.node.fault("lose")
            program.do("record 0 1000")
            wait_until(lambda: program.do("flush") == "ok", seconds=60)
            self.assertEqual(self.sql(COUNTS), "2000\t1000")
            self.assertEqual(program.do("count"), "1000")
            self.assertEqual(json.loads(self.telemetry("stats", "--json").stdout)["total"]["calls"], 1000)

    def test_records_wait_while_the_server_is_away(self):
        with Program() as program:
            self.opened(program)
            self.node.fault("refuse", 1000)
            program.do("record 0 30000")
            wait_until(lambda: "Too many simultaneous queries" in program.health()[4], seconds=60)
            self.node.fault("none", 0)
            answers = []
            wait_until(lambda: answers.append(program.do("flush")) or answers[-1] == "ok", seconds=60)
            stored, queued, dropped, rejected, error = program.health()
            self.assertGreater(dropped, 0)
            self.assertIn(f": {dropped} records were dropped", answers[-2])
            self.assertEqual((stored + dropped, queued, rejected, error), (30000, 0, 0, ""))
            self.assertEqual(self.sql(COUNTS), f"{stored}\t{stored}")
            self.assertEqual(program.do("close"), "ok")
            self.assertEqual(self.sql("SELECT stored, dropped FROM telemetry_writer FINAL"), f"{stored}\t{dropped}")
            self.assertNotIn(PASSWORD, program.end())

    def test_a_store_that_blocks_drops_nothing(self):
        with Program() as program:
            self.assertTrue(program.do(f"block {self.node.url()}").startswith("ok"))
            self.node.fault("refuse", 1000)
            back = threading.Timer(1, self.node.fault, ("none", 0))
            back.start()
            self.assertEqual(program.do("record 0 30000"), "ok")
            back.join()
            self.assertEqual(program.do("flush"), "ok")
            self.assertEqual(program.health(), (30000, 0, 0, 0, ""))
            self.assertEqual(self.sql(COUNTS), "30000\t30000")
            self.assertEqual(program.do("close"), "ok")

    def test_a_table_that_was_dropped_is_made_again(self):
        with Program() as program:
            self.opened(program)
            self.sql("DROP TABLE telemetry")
            program.do("record 0 100")
            wait_until(lambda: program.do("flush") == "ok", seconds=60)
            self.assertEqual(self.sql(COUNTS), "100\t100")

    def test_missing_columns_are_added_and_other_tables_left_alone(self):
        with Program() as program:
            self.opened(program)
            program.do("record 0 10")
            self.assertEqual(program.do("flush"), "ok")
            self.sql("ALTER TABLE telemetry DROP COLUMN error_type, DROP COLUMN cost_usd")
            self.assertEqual(json.loads(self.telemetry("stats", "--json").stdout)["total"]["calls"], 10)
            self.opened(program)
            self.assertEqual(self.sql("SELECT count() FROM system.columns WHERE table='telemetry' AND database='d' AND name IN "
                                      "('error_type', 'cost_usd')"), "2")  # fmt: skip
        for statement, why in (("telemetry(x Int64) ENGINE=MergeTree ORDER BY x", "is not a table of inference records"),
                               ("telemetry(timestamp Float64, model_id String, measured Nullable(Int64)) ENGINE=MergeTree ORDER BY "
                                "timestamp", "it needs ReplacingMergeTree"),
                               ("telemetry(timestamp Float32, model_id String, measured Nullable(Int64)) ENGINE=ReplacingMergeTree "
                                "ORDER BY timestamp", "has Float32 as timestamp; it needs Float64")):  # fmt: skip
            self.sql("DROP TABLE IF EXISTS telemetry SYNC")
            self.sql("CREATE TABLE " + statement)
            with Program() as program:
                self.assertIn(why, program.do(f"open {self.node.url()}"))

    def test_clear_and_errors_of_the_command(self):
        with Program() as program:
            self.opened(program)
            program.do("record 0 100")
            self.assertEqual(program.do("flush"), "ok")
            done = self.telemetry("clear", stdin=subprocess.DEVNULL)
            self.assertEqual((done.returncode, "--yes" in done.stderr), (2, True))
            self.assertEqual(self.telemetry("clear", "--yes").stdout, "Deleted 100 telemetry records.\n")
            self.assertEqual(self.telemetry("stats").stdout, "No telemetry data recorded yet.\n")
            for command in ("vacuum", "check"):
                self.assertIn("is a server", self.telemetry(command).stderr)
        for command in ("stats", "export", "clear"):
            wrong = self.telemetry(command, *(["--yes"] if command == "clear" else []), url=self.node.url("none"))
            self.assertEqual(wrong.returncode, 1)
            self.assertIn("UNKNOWN_DATABASE", wrong.stderr)

    def test_retention(self):
        until = 1_700_000_000 + 1.7 * 500
        with Program() as program:
            self.assertTrue(program.do(f"keep {int(time.time() - until)} {self.node.url()}").startswith("ok"))
            program.do("record 0 1000")
            self.assertEqual(program.do("flush"), "ok")
            wait_until(lambda: abs(int(self.sql("SELECT count() FROM telemetry")) - 500) < 30, seconds=60)
            self.assertGreater(float(self.sql("SELECT min(timestamp) FROM telemetry")), until - 10)

    def test_a_child_stores_its_own_records_once(self):
        with Program() as program:
            self.opened(program)
            for i in range(5):
                program.do(f"record {i * 2000} 1000")
                self.assertEqual(program.do(f"fork {i * 2000 + 1000} 1000"), "ok")
            self.assertEqual(program.do("flush"), "ok")
            self.assertEqual(program.health(), (5000, 0, 0, 0, ""))
            self.assertEqual(self.sql(COUNTS), "10000\t10000")
            self.assertEqual(program.do("close"), "ok")
            self.assertEqual(self.sql("SELECT count(), sum(stored), sum(dropped), min(outcome) FROM telemetry_writer FINAL"),
                             "6\t10000\t0\tclosed")  # fmt: skip

    def test_errors_do_not_contain_the_password(self):
        wrong = "wr0ng-Word"
        with Program() as program:
            answers = [program.do(f"open {self.node.url(password=wrong)}"), program.do(f"open clickhouse://u:{wrong}@h:port/d"),
                    program.do(f"open clickhouse://u:{wrong}@h/d?{wrong}=1"), self.telemetry("stats", url=self.node.url(password=wrong)).stderr,
                    program.do(f"open clickhouses://u:{wrong}@127.0.0.1:{self.node.port}/d")]  # fmt: skip
            for i in (0, 3):
                self.assertIn("Authentication failed", answers[i])
            for i in (1, 2):
                self.assertIn("URL of ClickHouse", answers[i])
            self.assertNotIn(wrong, " ".join(answers) + program.end())

    def test_the_password_may_be_in_the_environment(self):
        url = f"clickhouse://127.0.0.1:{self.node.port}/d"
        with Program({**os.environ, "CLICKHOUSE_USER": "gpulens", "CLICKHOUSE_PASSWORD": PASSWORD}) as program:
            self.assertEqual(program.do(f"open {url}"), f"ok {url}")


if __name__ == "__main__":
    unittest.main()
