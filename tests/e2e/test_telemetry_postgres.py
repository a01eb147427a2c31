"""Inference records in PostgreSQL: the SDK and gpulens telemetry with Debian's server."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import postgres_node
from agent import BINARY, free_port, wait_until
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

    def telemetry(self, *arguments):
        return subprocess.run([str(BINARY), "telemetry", *arguments], capture_output=True, text=True, timeout=60, check=False,
                              env=postgres_node.environment())  # fmt: skip

    def stats(self, url):
        return self.telemetry("stats", "--json", "--db", url)

    def test_the_same_records_give_the_same_as_in_a_file(self):
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
            self.assertIn("is not a file", program.do("check"))
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

    def test_a_store_that_blocks_drops_nothing(self):
        with Program(postgres_node.environment()) as program:
            self.assertTrue(program.do(f"block {self.node.url()}").startswith("ok"))
            self.node.stop(signal.SIGINT)
            back = threading.Timer(0.5, self.node.start)
            back.start()
            self.assertEqual(program.do("record 0 30000"), "ok")
            back.join()
            wait_until(lambda: program.do("flush") == "ok", seconds=60)
            self.assertEqual(program.health(), (30000, 0, 0, 0, ""))
            self.assertEqual(self.node.sql("SELECT count(*), count(DISTINCT timestamp) FROM telemetry"), "30000|30000")
            program.end()

    def test_errors_do_not_contain_the_password(self):
        wrong = "wr0ng-Word"
        with Program(postgres_node.environment()) as program:
            answers = [program.do(f"open {self.node.url(wrong)}"), program.do(f"open postgresql://u:{wrong}@h:port@x/y?{wrong}=1"),
                    program.do(f"open postgresql://u:{wrong}%zz@/db"), self.stats(self.node.url(wrong)).stderr]  # fmt: skip
            self.assertIn("authentication failed", answers[0])
            self.assertIn("authentication failed", answers[3])
            self.assertIn("URL", answers[1])
            self.assertIn("URL", answers[2])
            self.assertNotIn(wrong, " ".join(answers) + program.end())

    def test_another_table_is_left_alone(self):
        self.node.sql("CREATE TABLE telemetry(x INT)")
        with Program(postgres_node.environment()) as program:
            self.assertIn("no table `telemetry` of inference records", program.do(f"open {self.node.url()}"))
        self.assertEqual(self.node.sql("SELECT to_regclass('telemetry_writer') IS NULL"), "t")


    def test_a_child_stores_its_own_records_once(self):
        with Program(postgres_node.environment()) as program:
            self.assertTrue(program.do(f"open {self.node.url()}").startswith("ok"))
            for i in range(5):
                program.do(f"record {i * 2000} 1000")
                self.assertEqual(program.do(f"fork {i * 2000 + 1000} 1000"), "ok")
            self.assertEqual(program.do("flush"), "ok")
            self.assertEqual(program.health(), (5000, 0, 0, 0, ""))
            self.assertEqual(self.node.sql("SELECT count(*), count(DISTINCT timestamp) FROM telemetry"), "10000|10000")
            self.assertEqual(program.do("close"), "ok")
            self.assertEqual(self.node.sql("SELECT count(*), sum(stored), sum(dropped), min(outcome) FROM telemetry_writer"),
                             "6|10000|0|closed")  # fmt: skip
            program.end()

    def test_retention(self):
        until = 1_700_000_000 + 1.7 * 500
        with Program(postgres_node.environment()) as program:
            self.assertTrue(program.do(f"keep {int(time.time() - until)} {self.node.url()}").startswith("ok"))
            program.do("record 0 1000")
            self.assertEqual(program.do("flush"), "ok")
            left, first = self.node.sql("SELECT count(*), min(timestamp) FROM telemetry").split("|")
            self.assertAlmostEqual(int(left), 500, delta=30)
            self.assertGreater(float(first), until - 10)
            self.assertEqual(program.health(), (1000, 0, 0, 0, ""))

    def test_without_the_client_library_the_error_names_the_package(self):
        with tempfile.TemporaryDirectory() as folder:
            library = pathlib.Path(folder, "libpq.so.5")
            environment = {**os.environ, "LD_LIBRARY_PATH": folder}
            library.write_bytes(b"")
            with Program(environment) as program:
                self.assertIn("client library is not installed (Debian: libpq5)", program.do(f"open {self.node.url()}"))
            done = subprocess.run([str(BINARY), "telemetry", "stats", "--db", self.node.url()], capture_output=True, text=True, timeout=60,
                                  check=False, env=environment)  # fmt: skip
            self.assertEqual(done.returncode, 1)
            self.assertIn("(Debian: libpq5)", done.stderr)
            self.assertNotIn(PASSWORD, done.stderr)
            with Program(environment) as program:  # the file goes on working
                self.assertTrue(program.do(f"open {folder}/telemetry.db").startswith("ok"))

    def test_export_and_clear(self):
        with tempfile.TemporaryDirectory() as folder, Program(postgres_node.environment()) as program:
            program.do(f"open {folder}/telemetry.db")
            self.assertTrue(program.do(f"open {self.node.url()}").startswith("ok"))
            program.do("record 0 500")
            self.assertEqual(program.do("flush"), "ok")
            rows = []
            for where in (f"{folder}/telemetry.db", self.node.url()):
                exported = self.telemetry("export", "-f", "json", "--db", where)
                rows.append([{key: value for key, value in row.items() if key != "id"} for row in json.loads(exported.stdout)])
            self.assertGreater(len(rows[0]), 450)
            self.assertEqual(rows[0], rows[1])
            self.assertEqual(self.telemetry("clear", "--yes", "--db", self.node.url()).stdout, "Deleted 500 telemetry records.\n")
            self.assertEqual(self.node.sql("SELECT count(*) FROM telemetry"), "0")


@unittest.skipIf(postgres_node.missing(), postgres_node.missing())
class OverTcp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = PostgresNode(free_port(), tcp=True).__enter__()
        cls.addClassCleanup(cls.node.__exit__)

    def open_tcp(self, parameters, password=PASSWORD):
        with Program(postgres_node.environment()) as program:
            answers = program.do(f"open {self.node.tcp_url(parameters, password)}")
            if answers.startswith("ok"):
                program.do("record 0 100")
                self.assertEqual(program.do("flush"), "ok")
                self.assertEqual(program.do("clear"), "100")
                answers += " tls " + self.node.sql("SELECT bool_or(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING(pid) WHERE "
                                                "application_name = 'gpulens'")  # fmt: skip
                self.assertEqual(program.do("close"), "ok")
            self.assertNotIn(password, answers + program.end())
            return answers

    def test_with_a_password_in_the_clear_and_over_tls(self):
        name = f"ok postgresql://gpulens@127.0.0.1:{self.node.port}/postgres tls "
        self.assertEqual(self.open_tcp("sslmode=disable"), name + "f")
        self.assertEqual(self.open_tcp("sslmode=require"), name + "t")
        self.assertEqual(self.open_tcp(f"sslmode=verify-full&sslrootcert={self.node.certificate}"), name + "t")
        self.assertIn("authentication failed", self.open_tcp("sslmode=require", "wr0ng-Word"))

    def test_an_untrusted_certificate_is_refused(self):
        with tempfile.NamedTemporaryFile(suffix=".pem") as other:
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=another", "-keyout",
                            "/dev/null", "-out", other.name], capture_output=True, check=True, timeout=60)  # fmt: skip
            answers = self.open_tcp(f"sslmode=verify-full&sslrootcert={other.name}")
        self.assertIn("certificate verify failed", answers)


if __name__ == "__main__":
    unittest.main()
