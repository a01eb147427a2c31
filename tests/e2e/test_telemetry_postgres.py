"""Inference records in PostgreSQL: the SDK and gpulens telemetry beside Debian's server."""
import json
import signal
import subprocess
import tempfile
import unittest

import postgres_node
from agent import BINARY, wait_until
from inference_client import Program, near
from postgres_node import PASSWORD, PostgresNode

@unittest.skipIf(postgres_node.missing(), postgres_node.missing())
class Postgres(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = PostgresNode().__enter__()
        cls.addClassCleanup(cls.node.__exit__)

    def setUp(self):
        self.node.sql("DROP TABLE IF EXISTS telemetry, telemetry_poison, telemetry_writer, telemetry_schema")

    def stats(self, url):
        return subprocess.run([str(BINARY), "telemetry", "stats", "--json", "--db", url], capture_output=True, text=True, timeout=60,
                              check=False, env=postgres_node.environment())  # fmt: skip

    def test_the_same_records_tell_the_same_as_in_a_file(self):
        with tempfile.TemporaryDirectory() as folder, Program(postgres_node.environment()) as program:
            file = f"{folder}/telemetry.db"
            self.assertEqual(program.do(f"open {file}"), f"ok {file}")
            self.assertEqual(program.do(f"open {self.node.url()}"), "ok postgresql://gpulens@/postgres")
            self.assertEqual(program.do("record 0 10000"), "ok")
            self.assertEqual(program.do("flush"), "ok")
            self.assertEqual(program.health(), (10000, 0, 0, 0, ""))
            same, records, groups = program.do("compare").split()
            self.assertEqual(same, "same")
            self.assertGreater(int(records), 15000)
            self.assertGreater(int(groups), 500)
            first, second = (json.loads(self.stats(where).stdout) for where in (file, self.node.url()))
            self.assertEqual((first.pop("db"), second.pop("db")), (file, "postgresql://gpulens@/postgres"))
            self.assertEqual(first["total"]["calls"], 10000)
            near(self, first, second)
            self.assertIn("is no file", program.do("check"))
            self.assertEqual(program.do("clear"), "10000")
            self.assertEqual(program.do("vacuum"), "ok")
            self.assertEqual(program.do("count"), "0")
            self.assertEqual(program.do("close"), "ok")
            self.assertEqual(self.node.sql("SELECT outcome, stored FROM telemetry_writer"), "closed|10000")
            program.end()

    def test_poison_is_set_aside_alone(self):
        with Program(postgres_node.environment()) as program:
            self.assertTrue(program.do(f"open {self.node.url()}").startswith("ok"))
            program.do("bad")
            self.assertEqual(program.do("flush"), "ok")
            self.assertEqual(program.health(), (100, 0, 0, 4, ""))
            self.assertEqual(program.do("count"), "100")
            reasons = self.node.sql("SELECT reason FROM telemetry_poison ORDER BY id")
            for word in ("infinite", "json", "UTF-8", "NUL"):
                self.assertIn(word, reasons)
            program.end()

    def test_a_restart_loses_nothing_and_stores_nothing_twice(self):
        with Program(postgres_node.environment()) as program:
            self.assertTrue(program.do(f"open {self.node.url()}").startswith("ok"))
            for i in range(4):
                program.do(f"record {i * 10000} 10000")
                self.node.stop(signal.SIGQUIT if i % 2 else signal.SIGINT)
                self.node.start()
                wait_until(lambda: program.do("flush") == "ok", seconds=60)
            self.assertEqual(program.health(), (40000, 0, 0, 0, ""))
            self.assertEqual(self.node.sql("SELECT count(*), count(DISTINCT timestamp) FROM telemetry"), "40000|40000")
            self.node.stop(signal.SIGINT)
            program.do("record 40000 30000")
            self.node.start()
            wait_until(lambda: program.do("flush") == "ok", seconds=60)
            stored, queued, dropped, rejected, error = program.health()
            self.assertGreater(dropped, 0)
            self.assertEqual((stored + dropped, queued, rejected, error), (70000, 0, 0, ""))
            self.assertEqual(program.do("count"), str(stored))
            self.assertEqual(program.do("close"), "ok")
            self.assertNotIn(PASSWORD, program.end())

    def test_errors_do_not_tell_the_password(self):
        wrong = "wr0ng-Word"
        with Program(postgres_node.environment()) as program:
            said = [program.do(f"open {self.node.url(wrong)}"), program.do(f"open postgresql://u:{wrong}@h:port@x/y?{wrong}=1"),
                    program.do(f"open postgresql://u:{wrong}%zz@/db"), self.stats(self.node.url(wrong)).stderr]  # fmt: skip
            self.assertIn("authentication failed", said[0])
            self.assertIn("authentication failed", said[3])
            self.assertIn("URL", said[1])
            self.assertIn("URL", said[2])
            self.assertNotIn(wrong, " ".join(said) + program.end())

    def test_another_table_is_left_alone(self):
        self.node.sql("CREATE TABLE telemetry(x INT)")
        with Program(postgres_node.environment()) as program:
            self.assertIn("no table `telemetry` of inference records", program.do(f"open {self.node.url()}"))
        self.assertEqual(self.node.sql("SELECT to_regclass('telemetry_writer') IS NULL"), "t")


if __name__ == "__main__":
    unittest.main()
