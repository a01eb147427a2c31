"""Runs that are kept: gpulens run, exp and query, through the real program."""
import csv
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

from agent import BINARY, wait_until
from experiment_home import Home


class Experiments(Home):
    def test_a_script_from_start_to_end(self):
        self.script("train.py", r"""
            import sys
            for step in range(1000):
                print({'loss': 1 / (step + 1), 'step': step, 'grad_norm': float('nan') if step == 7 else 0.5})
            for i in range(1, 4):
                print(f"\r {i * 33}%|x  | {i}/3 [00:0{i}<00:01, {i}.50it/s, val_acc=-1.5e-{i}]", end="", file=sys.stderr)
            print("\n942 samples/s", file=sys.stderr)
            sys.stdout.buffer.write(b"\xff\x00 raw\n")
            """)
        done = subprocess.run([str(BINARY), "run", "--tag", "team=nlp", "--param", "lr=0.001", "train.py"], timeout=60,
                              capture_output=True, env=self.environment, cwd=self.home, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        alone = subprocess.run([sys.executable, "train.py"], capture_output=True, cwd=self.home, check=True)
        self.assertEqual(done.stdout, alone.stdout, "passed through unchanged")
        self.assertIn(alone.stderr, done.stderr)
        self.assertIn(b"gpulens exp show exp-", done.stderr)

        listed = self.good("exp", "list")
        self.assertRegex(listed, r"exp-\d{8}-\d{6}-[0-9a-f]{8}\s+train\s+done\s+999\s+0\.001\s")
        page = self.show("train")
        self.assertEqual((page["status"], page["exit_code"], page["script"]), ("done", 0, "train.py"))
        self.assertEqual((page["params"], page["tags"]), ({"lr": 0.001}, {"team": "nlp"}))
        loss = page["metrics"]["loss"]
        self.assertEqual((loss["count"], loss["last"], loss["last_step"], loss["max"]), (1000, 0.001, 999, 1))
        self.assertEqual(page["metrics"]["grad_norm"]["nan_count"], 1)
        self.assertEqual(page["metrics"]["samples_per_second"]["last"], 942)
        self.assertEqual(page["metrics"]["val_acc"]["last"], -1.5e-3)
        self.assertEqual(page["metrics"]["iterations_per_second"]["count"], 3)
        self.assertEqual(pathlib.Path(page["log"]).read_bytes().count(b"\n"), done.stdout.count(b"\n") + 2)

        rows = list(csv.reader(io.StringIO(self.good("query", "--csv", "SELECT step, value FROM metrics WHERE key='loss'"
                                                     " ORDER BY step"))))
        self.assertEqual([(int(step), float(value)) for step, value in rows[1:]],
                         [(step, 1 / (step + 1)) for step in range(1000)])
        self.assertIn("lr", self.good("exp", "show", page["id"][-8:]))

    def test_the_exit_code_is_the_programs(self):
        self.assertEqual(self.call("run", "--", "sh", "-c", "exit 3").returncode, 3)
        self.assertEqual(self.call("run", "sh", "-c", "kill -9 $$").returncode, 137)
        first, second = self.runs()
        self.assertEqual((second["status"], second["exit_code"], second["reason"]), ("failed", 3, "exited with 3"))
        self.assertEqual((first["status"], first["exit_code"]), ("failed", 137))
        self.assertIn("killed by signal 9", first["reason"])
        missing = self.call("run", "nothing-of-this-name")
        self.assertEqual(missing.returncode, 127)
        self.script("plain.txt", "x")
        self.assertEqual(self.call("run", "./plain.txt").returncode, 126)
        self.assertEqual(self.call("run", "absent.py").returncode, 127)
        self.assertEqual(self.call("run", "--nonsense", "x").returncode, 2)
        self.assertEqual(self.call("run", "--tag", "novalue", "true").returncode, 2)
        self.assertEqual(self.call("run").returncode, 2)
        self.assertEqual(len(self.runs()), 2, "what could not be started is no run")

    def test_an_exception_is_a_failure(self):
        self.script("bad.py", "print('loss=1')\nraise ValueError('no data')\n")
        done = self.call("run", "bad.py")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ValueError: no data", done.stderr)
        self.assertEqual(self.show("bad")["status"], "failed")

    def test_signals_reach_the_program(self):
        self.script("wait.py", """
            import signal, sys
            def stop(number, frame):
                print("stopping", flush=True)
                sys.exit(7)
            signal.signal(signal.SIGTERM, stop)
            print("ready", flush=True)
            while True:
                signal.pause()
            """)
        process = self.start("run", "wait.py")
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.assertEqual(self.show("wait")["status"], "running")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), 7)
        self.assertEqual(process.stdout.read(), "stopping\n")

    def test_killed_is_crashed(self):
        self.script("endless.py", """
            import signal
            print("loss=0.5 step=10", flush=True)
            while True:
                signal.pause()
            """)
        process = self.start("run", "endless.py")
        process.stdout.readline()
        wait_until(lambda: self.show("endless")["metrics"].get("loss"), what="the first point")
        self.assertEqual(self.show("endless")["status"], "running")
        process.kill()
        process.wait(30)
        page = self.show("endless")
        self.assertEqual((page["status"], page["metrics"]["loss"]["last"]), ("crashed", 0.5))
        self.assertIn("last heartbeat", self.good("exp", "list", "--status", "crashed"))

    def test_a_closed_pipe_ends_the_program(self):
        self.script("talk.py", "while True: print('loss=1')\n")
        process = self.start("run", "-q", "talk.py")
        process.stdout.readline()
        process.stdout.close()
        process.stdout = subprocess.DEVNULL
        self.assertNotEqual(process.wait(30), 0)
        process.stdout = None
        self.assertEqual(self.show("talk")["status"], "failed")

    def test_the_program_gets_the_id_of_its_run(self):
        printed = self.good("run", "--name", "mine", "sh", "-c",
                         "echo $GPULENS_RUN_ID $GPULENS_RUN_NAME $GPULENS_EXPERIMENTS_DB $PYTHONUNBUFFERED")
        self.assertEqual(printed.split(), [self.show("mine")["id"], "mine", str(self.db), "1"])
        outer = self.good("run", "--name", "outer", "sh", "-c", f"{BINARY} run -q --name inner true; echo $GPULENS_RUN_ID")
        self.assertEqual(self.show("inner")["parent_id"], outer.strip())

    def test_several_at_once_in_one_file(self):
        self.script("many.py", "for i in range(2000): print(f'loss={i} step={i}')\n")
        processes = [self.start("run", "-q", "--name", f"n{i}", "many.py") for i in range(4)]
        for process in processes:
            self.assertEqual(process.communicate(timeout=60)[1], "")
            self.assertEqual(process.returncode, 0)
        self.assertEqual([run["metrics"]["loss"]["count"] for run in self.runs()], [2000] * 4)

    def test_differences_are_compared(self):
        self.good("run", "-q", "--name", "a", "--param", "lr=0.001", "--param", "opt=adam", "echo", "loss=2.0 zero=0")
        self.good("run", "-q", "--name", "b", "--param", "lr=0.003", "--param", "opt=adam", "echo", "loss=2.5 zero=1")
        text = self.good("exp", "compare", "a", "b")
        self.assertRegex(text, r"param lr +0\.001 +0\.003 +\+200\.0 %|param lr +0\.001 +0\.003\n")
        self.assertRegex(text, r"loss +2 +2\.5 +\+25\.0 %")
        self.assertRegex(text, r"zero +0 +1\n", "no percentage of nothing")
        self.assertNotIn("opt", text)
        self.assertIn("opt", self.good("exp", "compare", "--all", "a", "b"))
        self.assertEqual(len(json.loads(self.good("exp", "compare", "--json", "a", "b"))["runs"]), 2)
        self.assertEqual(self.call("exp", "compare", "a").returncode, 2)
        self.assertEqual(self.call("exp", "compare", "a", "missing").returncode, 2)

    def test_deleting_takes_log_and_all(self):
        self.good("run", "-q", "--name", "a", "echo", "loss=1")
        page = self.show("a")
        refused = self.call("exp", "delete", "a", stdin=subprocess.DEVNULL)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--yes", refused.stderr)
        self.good("exp", "delete", "a", "--yes")
        self.assertFalse(pathlib.Path(page["log"]).parent.exists())
        self.assertEqual(self.runs(), [])
        self.assertEqual(self.call("exp", "show", "a").returncode, 2)

    def test_queries_cannot_change_anything(self):
        self.good("run", "-q", "--name", "a", "echo", "loss=0.25 accuracy=0.9")
        self.assertRegex(self.good("query", "SELECT name, loss FROM experiments WHERE loss < 0.5 ORDER BY loss LIMIT 5"),
                         r"name +loss\na +0\.25\n")
        answer = json.loads(self.good("query", "--json", "SELECT name, accuracy, perplexity FROM experiments"))
        self.assertEqual((answer["columns"], answer["rows"]), (["name", "accuracy", "perplexity"], [["a", 0.9, None]]))
        for sql in ("DELETE FROM run", "DROP TABLE run", "PRAGMA user_version=7", "SELECT * FROM nothing", "SELEKT"):
            done = self.call("query", sql)
            self.assertEqual(done.returncode, 2, sql)
            self.assertIn("gpulens query:", done.stderr)
        cut = self.call("query", "--limit", "3", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i FROM n")
        self.assertEqual((cut.returncode, cut.stdout), (0, "i\n1\n2\n3\n"))
        self.assertIn("more than 3 rows", cut.stderr)

    def test_the_log_is_followed_until_the_run_ends(self):
        fifo = self.home / "go"
        os.mkfifo(fifo)
        self.script("slow.py", f"""
            print("first loss=1", flush=True)
            open({str(fifo)!r}).read()
            print("second loss=2", flush=True)
            """)
        process = self.start("run", "-q", "slow.py")
        process.stdout.readline()
        follower = self.start("log", "-f")
        self.assertEqual(follower.stdout.readline(), "first loss=1\n")
        self.assertIsNone(follower.poll())
        with fifo.open("w") as gate:
            gate.write("go")
        self.assertEqual(follower.stdout.readline(), "second loss=2\n")
        self.assertEqual(follower.wait(30), 0)
        self.assertEqual(self.good("log", "slow"), "first loss=1\nsecond loss=2\n")
        self.assertEqual(self.good("log", "--grep", "second"), "2: second loss=2\n")
        self.assertEqual(self.call("log", "--grep", "third").returncode, 1)
        self.assertEqual(self.call("log", "missing").returncode, 2)

    def test_following_ends_when_the_run_is_killed(self):
        self.script("endless.py", "import signal\nprint('ready', flush=True)\nwhile True: signal.pause()\n")
        process = self.start("run", "-q", "endless.py")
        process.stdout.readline()
        follower = self.start("log", "-f", "endless")
        self.assertEqual(follower.stdout.readline(), "ready\n")
        process.kill()
        process.wait(30)
        self.assertEqual(follower.wait(30), 0)
        self.assertIn("crashed", follower.stderr.read())

    def test_no_store_yet_and_wrong_files(self):
        empty = self.call("exp", "list")
        self.assertEqual((empty.returncode, empty.stdout), (0, ""))
        self.assertIn("no run was recorded yet", empty.stderr)
        self.assertEqual(self.runs(), [])
        self.assertEqual(self.call("exp", "show", "x").returncode, 1)
        text = self.home / "text.db"
        text.write_text("x" * 5000)
        wrong = self.call("exp", "list", "--db", text)
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("not a database", wrong.stderr)
        self.assertEqual(self.call("run", "--db", "/proc/1/x.db", "true").returncode, 1)
        self.assertFalse(re.search("terminate|assert", wrong.stderr))


if __name__ == "__main__":
    unittest.main()
