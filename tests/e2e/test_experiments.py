"""Runs that are kept: gpulens run, exp and query, through the real program."""
import csv
import fcntl
import hashlib
import io
import json
import os
import pathlib
import pty
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import termios
import textwrap
import unittest
import xml.etree.ElementTree

from agent import BINARY, wait_until


class Experiments(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="gpulens-exp-")
        self.addCleanup(self.folder.cleanup)
        self.home = pathlib.Path(self.folder.name)
        self.db = self.home / ".gpulens" / "experiments.db"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("GPULENS_", "PYTHONUNBUFFERED"))}
        self.environment["HOME"] = str(self.home)

    def call(self, *arguments, **more):
        return subprocess.run([str(BINARY), *map(str, arguments)], capture_output=True, text=True, timeout=60,
                              env=self.environment, cwd=self.home, check=False, **more)

    def good(self, *arguments, **more):
        done = self.call(*arguments, **more)
        self.assertEqual(done.returncode, 0, (arguments, done.stdout, done.stderr))
        return done.stdout

    def script(self, name, text):
        path = self.home / name
        path.write_text(textwrap.dedent(text))
        return path

    def start(self, *arguments):
        process = subprocess.Popen([str(BINARY), *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=self.environment, cwd=self.home)

        def end():
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.addCleanup(end)
        return process

    def show(self, run):
        return json.loads(self.good("exp", "show", run, "--json"))

    def runs(self, *arguments):
        return json.loads(self.good("exp", "list", "--json", *arguments))["runs"]

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

    def test_a_reader_that_goes_away_ends_the_program(self):
        self.script("talk.py", "while True: print('loss=1')\n")
        process = self.start("run", "-q", "talk.py")
        process.stdout.readline()
        process.stdout.close()
        process.stdout = subprocess.DEVNULL
        self.assertNotEqual(process.wait(30), 0)
        process.stdout = None
        self.assertEqual(self.show("talk")["status"], "failed")

    def test_the_program_is_told_which_run_it_is(self):
        told = self.good("run", "--name", "mine", "sh", "-c",
                         "echo $GPULENS_RUN_ID $GPULENS_RUN_NAME $GPULENS_EXPERIMENTS_DB $PYTHONUNBUFFERED")
        self.assertEqual(told.split(), [self.show("mine")["id"], "mine", str(self.db), "1"])
        outer = self.good("run", "--name", "outer", "sh", "-c", f"{BINARY} run -q --name inner true; echo $GPULENS_RUN_ID")
        self.assertEqual(self.show("inner")["parent_id"], outer.strip())

    def test_several_at_once_in_one_file(self):
        self.script("many.py", "for i in range(2000): print(f'loss={i} step={i}')\n")
        processes = [self.start("run", "-q", "--name", f"n{i}", "many.py") for i in range(4)]
        for process in processes:
            self.assertEqual(process.communicate(timeout=60)[1], "")
            self.assertEqual(process.returncode, 0)
        self.assertEqual([run["metrics"]["loss"]["count"] for run in self.runs()], [2000] * 4)

    def test_what_differs_is_compared(self):
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
        self.assertEqual(self.call("exp", "compare", "a", "nobody").returncode, 2)

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
        self.assertEqual(self.call("log", "nobody").returncode, 2)

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

    def test_plots_are_svg(self):
        self.script("train.py", "for i in range(50): print(f'loss={1/(i+1)} acc={i/50} step={i}')\n")
        for name in ("a", "b"):
            self.good("run", "-q", "--name", name, "train.py")
        out = self.home / "loss.svg"
        self.good("exp", "plot", "a", "loss", "acc", "--with", "b", "--log", "-o", out)
        root = xml.etree.ElementTree.fromstring(out.read_text())
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        self.assertEqual(len(root.findall("{http://www.w3.org/2000/svg}path")), 4)
        self.assertIn("<svg", self.good("exp", "plot", "a"))
        self.assertEqual(self.call("exp", "plot", "a", "nothing").returncode, 2)

    def test_plots_in_a_terminal(self):
        self.script("train.py", "for i in range(50): print(f'loss={1/(i+1) if i not in (20, 21) else float(\"nan\")} step={i}')\n")
        self.good("run", "-q", "--name", "a", "train.py")
        self.environment.update(LC_ALL="C.UTF-8", COLUMNS="50")
        text = self.good("exp", "plot", "a", "--text")
        lines = text.splitlines()
        self.assertEqual((lines[0], lines[1][:14]), ("a: loss, 50 points, 2 not finite", "           1 ┤"))
        self.assertRegex(text, "[\u2801-\u28ff]")
        self.assertEqual(max(map(len, lines)), 50)
        ascii_only = self.good("exp", "plot", "a", "--ascii")
        self.assertTrue(ascii_only.isascii())
        self.assertIn("*", ascii_only)
        self.environment["LC_ALL"] = "C"
        self.assertEqual(self.good("exp", "plot", "a", "--text"), ascii_only)
        del self.environment["COLUMNS"]
        ours, its = pty.openpty()
        self.addCleanup(os.close, ours)
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 64, 0, 0))
        subprocess.run([str(BINARY), "exp", "plot", "a"], stdout=its, env=self.environment, cwd=self.home, check=True, timeout=60)
        os.close(its)
        shown = os.read(ours, 65536).decode().splitlines()
        self.assertEqual(shown[0], lines[0])
        self.assertEqual(max(map(len, shown)), 64, "as wide as the terminal")

    def test_exports(self):
        self.script("train.py", "for i in range(3): print(f'loss={1/(i+1)} step={i}')\nprint('loss=nan step=3')\n")
        self.good("run", "-q", "--name", "my-run", "--param", "lr=0.001", "--tag", "team=nlp", "train.py")
        run = self.show("my-run")["id"]
        whole = json.loads(self.good("exp", "export", run))
        self.assertEqual([point[2] for point in whole["history"]["loss"]], [1, 0.5, 1 / 3, "NaN"])
        rows = list(csv.reader(io.StringIO(self.good("exp", "export", run, "--format", "csv"))))
        self.assertEqual([row[2] for row in rows], ["step", "0", "1", "2", "3"])
        self.assertEqual(self.call("exp", "export", run, "--format", "mlflow").returncode, 2)
        folder = self.home / "mlruns"
        self.good("exp", "export", run, "--format", "mlflow", folder)
        place = next(folder.glob(f"*/{run}"))
        self.assertEqual(sorted(path.name for path in place.iterdir()), ["artifacts", "meta.yaml", "metrics", "params", "tags"])
        lines = (place / "metrics" / "loss").read_text().splitlines()
        self.assertEqual([line.split()[1:] for line in lines],
                         [["1", "0"], ["0.5", "1"], ["0.3333333333333333", "2"], ["nan", "3"]])
        try:
            from mlflow.tracking import MlflowClient
        except ImportError:
            return  # the layout is checked above and, file by file, beside the code
        os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # MLflow 3 asks for it
        client = MlflowClient(tracking_uri=folder.as_uri())
        experiment = client.get_experiment_by_name("my-run")
        found = client.search_runs([experiment.experiment_id])
        self.assertEqual([(each.info.run_id, each.info.status, each.data.params) for each in found],
                         [(run, "FINISHED", {"lr": "0.001"})])
        self.assertEqual([point.step for point in client.get_metric_history(run, "loss")], [0, 1, 2, 3])

    def test_old_files_open_unchanged(self):
        old = self.home / ".zernel" / "experiments" / "experiments.db"
        old.parent.mkdir(parents=True)
        with sqlite3.connect(old) as database:
            database.executescript("""
                CREATE TABLE experiments(id TEXT PRIMARY KEY, name TEXT NOT NULL, status TEXT NOT NULL,
                  hyperparams TEXT NOT NULL DEFAULT '{}', metrics TEXT NOT NULL DEFAULT '{}', created_at TEXT NOT NULL,
                  finished_at TEXT, git_commit TEXT, script TEXT, duration_secs REAL);
                CREATE INDEX idx_created ON experiments(created_at DESC);
                INSERT INTO experiments VALUES('exp-20260401-120000-aaaaaaaa','train','"Done"','{"lr":0.001}',
                  '{"loss":0.00003,"accuracy":0.9}','2026-04-01T12:00:00.123456789+00:00',
                  '2026-04-01T12:01:40.2+00:00','abc123','train.py',100.0);
                INSERT INTO experiments VALUES('exp-20260401-130000-bbbbbbbb','other','"Failed"','{"lr":0.01}',
                  '{"loss":0.6}','2026-04-01T13:00:00Z',NULL,NULL,'other.py',6120.0);
                """)
        database.close()
        log = old.parent / "exp-20260401-120000-aaaaaaaa" / "output.log"
        log.parent.mkdir()
        log.write_text("loss: 0.00003\n")
        before = hashlib.sha256(old.read_bytes()).hexdigest()
        listed = self.good("exp", "list", "--db", old)
        self.assertRegex(listed, r"aaaaaaaa +train +done +– +3e-05 +0\.9 +1m 40s")
        self.assertRegex(listed, r"bbbbbbbb +other +failed +– +0\.6 +– +1h 42m")
        page = json.loads(self.good("exp", "show", "aaaaaaaa", "--json", "--db", old))
        self.assertEqual((page["duration_seconds"], page["params"], page["log"]), (100, {"lr": 0.001}, str(log)))
        self.assertRegex(self.good("exp", "compare", "train", "other", "--db", old), r"loss +3e-05 +0\.6 +\+")
        self.assertEqual(self.good("query", "--csv", "--db", old,
                                   "SELECT name, loss FROM experiments WHERE loss < 0.5 ORDER BY loss LIMIT 5"),
                         "name,loss\ntrain,3e-05\n")
        self.assertEqual(self.good("query", "--csv", "--db", old, "SELECT name FROM experiments WHERE duration > 1000"
                                   " AND status = 'Failed'"), "name\nother\n")
        self.assertRegex(listed, r"aaaaaaaa .* 1m 40s +– +– +–\n", "it knows neither GPUs nor joules")
        self.assertEqual(self.good("query", "--csv", "--db", old, "SELECT count(*), count(devices) FROM runs"),
                         "count(*),count(devices)\n2,0\n")
        self.assertEqual(self.call("exp", "delete", "train", "--yes", "--db", old).returncode, 2)
        self.assertEqual(self.call("run", "--db", old, "true").returncode, 1)
        self.assertEqual(hashlib.sha256(old.read_bytes()).hexdigest(), before)
        self.assertEqual(sorted(path.name for path in old.parent.iterdir()),
                         ["exp-20260401-120000-aaaaaaaa", "experiments.db"])

    def test_nothing_kept_yet_and_wrong_files(self):
        empty = self.call("exp", "list")
        self.assertEqual((empty.returncode, empty.stdout), (0, ""))
        self.assertIn("no run was kept yet", empty.stderr)
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
