"""Runs are read as they were logged, found by what they have, and read from files of others."""
import array
import contextlib
import math
import os
import pathlib
import pickle
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

import gpulens


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpulens-runs-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.db = self.folder / "experiments.db"

    def run_of(self, name, params=(), metrics=(), tags=None, **options):
        with gpulens.experiment(name, tags, db=self.db, energy=False, **options) as run:
            run.log_params(dict(params))
            for key, values in dict(metrics).items():
                for step, value in enumerate(values):
                    run.log_metric(key, value, step=step)
        return run


class Load(Case):
    def test_all_that_was_logged(self):
        model = self.folder / "model.pt"
        model.write_bytes(b"weights")
        before = time.time()
        with gpulens.experiment("my-run", {"team": "nlp", "n": 5}, db=self.db, energy=False) as made:
            made.log_params({"lr": 1e-3, "layers": 12, "amp": True, "optimizer": "adam"})
            for step in range(1000):
                made.log_metric("loss", 1 / (step + 1), step=step)
            made.log_metrics({"acc": math.nan}, step=7)
            made.log_metrics({"acc": 0.5}, step=9)
            made.log_artifact(model)
            with made.nested("fold-1") as fold:
                fold.log_metric("loss", 0.25)
        run = gpulens.load_run(made.id, db=self.db)
        self.assertEqual((run.id, run.name, run.status, run.reason, run.parent_id), (made.id, "my-run", "done", "", None))
        self.assertEqual(run.params, {"lr": 1e-3, "layers": 12, "amp": True, "optimizer": "adam"})
        self.assertEqual([type(value) for value in map(run.params.get, ("lr", "layers", "amp", "optimizer"))], [float, int, bool, str])
        self.assertEqual(run.tags, {"team": "nlp", "n": "5"})
        self.assertEqual(run.metrics["loss"], (0.001, 999, 0.001, 1.0, 1000, 0))
        self.assertEqual((run.metrics["acc"].last, run.metrics["acc"].count, run.metrics["acc"].nan_count), (0.5, 2, 1))
        self.assertTrue(before <= run.started <= run.ended <= time.time())
        self.assertAlmostEqual(run.duration_seconds, run.ended - run.started, places=5)
        self.assertTrue(math.isnan(run.energy.energy_joules))
        self.assertEqual((run.exit_code, run.dropped, run.resumed), (None, 0, 0))
        (artifact,) = run.artifacts
        self.assertEqual((artifact.name, artifact.bytes, artifact.copied), ("model.pt", 7, True))
        self.assertEqual(pathlib.Path(artifact.path).read_bytes(), b"weights")
        self.assertEqual(len(artifact.sha256), 64)
        self.assertEqual(gpulens.load_run("fold-1", db=self.db).parent_id, made.id)
        self.assertEqual(repr(run), f"<Run {made.id} 'my-run' done>")
        self.assertEqual(pickle.loads(pickle.dumps(run)).metrics, run.metrics)

    def test_the_history_of_a_metric(self):
        made = self.run_of("a", metrics={"loss": [0.5, math.nan, 0.25]})
        run = gpulens.load_run("a", db=self.db)
        steps, seconds, values = run.history("loss")
        self.assertEqual(list(steps), [0, 1, 2])
        self.assertEqual([values[0], values[2], math.isnan(values[1])], [0.5, 0.25, True])
        self.assertTrue(all(run.started - 1 <= at <= time.time() for at in seconds), list(seconds))
        self.assertIsInstance(values, array.array)
        self.assertEqual(memoryview(values).format, "d")
        self.assertEqual([len(column) for column in run.history("unknown")], [0, 0, 0])
        self.assertEqual(made.health.dropped, 0)

    def test_a_failed_one_a_running_one_and_a_crashed_one(self):
        with contextlib.suppress(ValueError):
            with gpulens.experiment("bad", db=self.db, energy=False):
                raise ValueError("loss is NaN")
        bad = gpulens.load_run("bad", db=self.db)
        self.assertEqual((bad.status, bad.reason), ("failed", "ValueError: loss is NaN"))
        with gpulens.experiment("now", db=self.db, energy=False):
            now = gpulens.load_run("now", db=self.db)
            self.assertEqual((now.status, now.ended), ("running", None))
            self.assertGreaterEqual(now.duration_seconds, 0)
        code = f"import gpulens, os; made = gpulens.experiment('gone', db={str(self.db)!r}, energy=False); made.flush(); os._exit(1)"
        subprocess.run([sys.executable, "-c", code], timeout=60)
        self.assertEqual(gpulens.load_run("gone", db=self.db).status, "crashed")
        self.assertEqual([run.name for run in gpulens.search_runs(status="crashed", db=self.db)], ["gone"])

    def test_what_is_not_there(self):
        with self.assertRaises(gpulens.UnavailableError):
            gpulens.load_run("a", db=self.db)
        with self.assertRaises(gpulens.UnavailableError):
            gpulens.search_runs(db=self.db)
        self.assertFalse(self.db.exists())
        made = self.run_of("a")
        with self.assertRaisesRegex(gpulens.InvalidArgumentError, 'no run "b"'):
            gpulens.load_run("b", db=self.db)
        self.assertEqual(gpulens.load_run(made.id[-8:], db=self.db).id, made.id)
        other = self.folder / "other.db"
        other.write_text("not a database, but longer than a header of one" * 10)
        with self.assertRaises(gpulens.Error):
            gpulens.search_runs(db=other)

    def test_the_file_of_the_environment(self):
        self.run_of("a")
        before = os.environ.get("GPULENS_EXPERIMENTS_DB")
        os.environ["GPULENS_EXPERIMENTS_DB"] = str(self.db)
        self.addCleanup(os.environ.pop if before is None else os.environ.__setitem__, "GPULENS_EXPERIMENTS_DB", *([] if before is None else [before]))
        (run,) = gpulens.search_runs()
        self.assertEqual((run.name, run.db), ("a", str(self.db)))

    def test_text_that_is_no_utf8(self):
        self.run_of("a", {"note": "x"})
        with contextlib.closing(sqlite3.connect(self.db)) as database, database:
            database.execute("UPDATE param SET value=CAST(x'ff41' AS TEXT)")
        self.assertEqual(gpulens.load_run("a", db=self.db).params["note"], "\udcffA")


class Search(Case):
    def setUp(self):
        super().setUp()
        self.run_of("ft", {"lr": 0.1, "layers": 2, "amp": True}, {"loss": [2.0, 0.5]}, {"team": "nlp"})
        self.run_of("ft", {"lr": 0.01, "layers": 2, "amp": False}, {"loss": [3.0, 0.25]}, {"team": "vision"})
        self.run_of("other", {"lr": "0.1"}, {"loss": [math.nan]})
        with gpulens.experiment("parent", db=self.db, energy=False) as parent:
            with parent.nested("child") as child:
                child.log_metric("loss", 0.75)

    def names(self, *names, **conditions):
        return [(run.name, run.metrics["loss"].last if "loss" in run.metrics else None) for run in gpulens.search_runs(*names, db=self.db, **conditions)]

    def losses(self, *names, **conditions):
        return [loss for _, loss in self.names(*names, **conditions)]

    def test_names_and_states(self):
        self.assertEqual([name for name, _ in self.names()], ["child", "parent", "other", "ft", "ft"])
        self.assertEqual([name for name, _ in self.names(nested=False)], ["parent", "other", "ft", "ft"])
        self.assertEqual(self.losses("ft"), [0.25, 0.5])
        self.assertEqual(self.losses("ft", status="failed"), [])
        self.assertEqual(len(self.names(status="done", limit=2)), 2)

    def test_params_and_tags(self):
        self.assertEqual(self.losses(params={"lr": 0.1}), [0.5])
        self.assertEqual([name for name, _ in self.names(params={"lr": "0.1"})], ["other"])
        self.assertEqual(self.losses(params={"layers": 2, "amp": False}), [0.25])
        self.assertEqual(self.losses(params={"layers": 2.0}), [0.25, 0.5])
        self.assertEqual(self.losses(params={"layers'; DROP TABLE run;--": 2}), [])
        self.assertEqual(self.losses(tags={"team": "nlp"}), [0.5])
        self.assertEqual(self.losses(tags={"team": "nlp", "absent": 1}), [])

    def test_ranges_of_metrics(self):
        self.assertEqual(self.losses(metrics={"loss": (None, 0.5)}), [0.25, 0.5])
        self.assertEqual(self.losses(metrics={"loss": (0.5, None)}), [0.75, 0.5])
        self.assertEqual(self.losses(metrics={"loss": (0.3, 0.6)}), [0.5])
        self.assertEqual(len(self.losses(metrics={"loss": (None, None)})), 3)  # NaN is in no range
        self.assertEqual(self.losses(metrics={"acc": (None, 1)}), [])

    def test_orders(self):
        self.assertEqual(self.losses("ft", order_by="metrics.loss"), [0.25, 0.5])
        self.assertEqual(self.losses("ft", order_by="-metrics.loss"), [0.5, 0.25])
        by_loss = self.names(order_by="-metrics.loss")
        self.assertEqual([name for name, _ in by_loss], ["child", "ft", "ft", "parent", "other"])  # without the value, or NaN: last
        self.assertEqual([name for name, _ in self.names(order_by="name", nested=False)], ["ft", "ft", "other", "parent"])
        self.assertEqual(self.losses("ft", order_by="-params.lr"), [0.5, 0.25])
        self.assertEqual(self.losses("ft", order_by="tags.team"), [0.5, 0.25])
        for order in ("started", "-ended", "duration", "status", "energy_joules"):
            self.assertEqual(len(self.names(order_by=order)), 5, order)
        self.assertEqual(self.losses("ft", order_by="started"), [0.5, 0.25])

    def test_wrong_arguments(self):
        for conditions, kind, text in (
            ({"order_by": "loss"}, gpulens.InvalidArgumentError, 'metrics.KEY.*got "loss"'),
            ({"metrics": {"loss": 0.5}}, TypeError, "a metric's range must be a tuple"),
            ({"metrics": {"loss": ("a", 1)}}, TypeError, "a bound of a metric must be a number or None"),
            ({"params": {"lr": [1]}}, TypeError, "the value of a param must be a str, not list"),
            ({"params": {5: 1}}, TypeError, "the key of a param must be a str, not int"),
        ):
            with self.assertRaisesRegex(kind, text):
                gpulens.search_runs(db=self.db, **conditions)


if __name__ == "__main__":
    unittest.main()
