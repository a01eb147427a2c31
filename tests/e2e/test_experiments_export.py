"""Stored runs in other forms: plots, exports, and files of the zernel project."""
import csv
import fcntl
import hashlib
import io
import json
import os
import pty
import sqlite3
import struct
import subprocess
import termios
import unittest
import xml.etree.ElementTree

from agent import BINARY
from experiment_home import Home


class Exported(Home):
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
            return  # the layout is checked above and, file by file, in unit tests
        os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # MLflow 3 requires it
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


if __name__ == "__main__":
    unittest.main()
