"""Runs: gpulens.experiments, and the snippet of zernel's documentation run unchanged except for the import."""
import contextlib
import math
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest

import gpulens
from gpulens.experiments import _outcome, _param

SEED = pathlib.Path(__file__).resolve().parents[3] / "shared/seeds/zernel-telemetry-api.txt"


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpulens-exp-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.db = self.folder / "experiments.db"
        before = {key: os.environ.get(key) for key in ("GPULENS_EXPERIMENTS_DB", "GPULENS_RUN_ID", "GPULENS_RUN_NAME")}
        self.addCleanup(self.restore, before)
        for key in before:
            os.environ.pop(key, None)
        os.environ["GPULENS_EXPERIMENTS_DB"] = str(self.db)

    @staticmethod
    def restore(before):
        for key, value in before.items():
            os.environ.pop(key, None)
            if value is not None:
                os.environ[key] = value

    def rows(self, sql, *values):
        with contextlib.closing(sqlite3.connect(f"file:{self.db}?mode=ro", uri=True)) as database:
            return database.execute(sql, values).fetchall()

    def points(self, run, key):
        return self.rows("SELECT step, value FROM point WHERE metric_id=(SELECT id FROM metric WHERE run_id=? AND key=?)"
                         " ORDER BY step, unix_ns, n", run.id, key)

    def run_of(self, run):
        (row,) = self.rows("SELECT status, reason FROM run WHERE id=?", run.id)
        return row

    def python(self, code, **more):
        command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", textwrap.dedent(code)]  # of fork()
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **more)


class Run(Case):
    def test_a_thousand_steps_in_order(self):
        with gpulens.experiment("my-run", tags={"team": "nlp"}, energy=False) as exp:
            self.assertEqual(exp.status, "running")
            exp.log_params({"lr": 1e-3, "batch_size": 32, "amp": True, "optimizer": "adam", "betas": (0.9, 0.999)})
            for step in range(1000):
                exp.log_metric("loss", 1 / (step + 1), step=step)
        self.assertEqual(exp.status, "done")
        self.assertEqual(exp.name, "my-run")
        self.assertEqual(exp.db, str(self.db))
        self.assertEqual(self.points(exp, "loss"), [(step, 1 / (step + 1)) for step in range(1000)])
        self.assertEqual(self.rows("SELECT key, type, value FROM param ORDER BY key"), [
            ("amp", "bool", 1), ("batch_size", "int", 32), ("betas", "text", "(0.9, 0.999)"), ("lr", "real", 0.001),
            ("optimizer", "text", "adam")])
        self.assertEqual(self.rows("SELECT key, value FROM tag"), [("team", "nlp")])
        self.assertEqual(exp.health, (1000, 0, 0, ""))

    def test_an_exception_is_recorded_and_raised(self):
        with self.assertRaises(ValueError):
            with gpulens.experiment("a", energy=False) as exp:
                raise ValueError("loss is NaN")
        self.assertEqual((exp.status, self.run_of(exp)), ("failed", ("failed", "ValueError: loss is NaN")))
        with self.assertRaises(KeyboardInterrupt):
            with gpulens.experiment("a", energy=False) as exp:
                raise KeyboardInterrupt
        self.assertEqual(self.run_of(exp), ("failed", "KeyboardInterrupt"))

    def test_leaving_python_well_is_no_failure(self):
        for code, reported in ((0, ("done", "")), (None, ("done", "")), (3, ("failed", "SystemExit: 3"))):
            with self.assertRaises(SystemExit):
                with gpulens.experiment("a", energy=False) as exp:
                    raise SystemExit(code)
            self.assertEqual(self.run_of(exp), reported)
        self.assertEqual(_outcome(SystemExit, None), (False, ""))

    def test_the_first_end_counts(self):
        with gpulens.experiment("a", energy=False) as exp:
            exp.end("failed", "diverged")
            exp.log_metric("loss", 1.0)
        exp.end()
        self.assertEqual(self.run_of(exp), ("failed", "diverged"))
        self.assertEqual(exp.health.dropped, 1)
        with self.assertRaisesRegex(ValueError, "done or failed; got 'crashed'"):
            exp.end("crashed")

    def test_a_run_without_an_end(self):
        for end, reported in (("", ("done", "")), ("raise ValueError('out of data')", ("failed", "ValueError: out of data")),
                          ("import os; os._exit(0)", ("running", ""))):
            done = self.python(f"""
                import gpulens
                exp = gpulens.experiment("a", energy=False)
                exp.log_metric("loss", 0.5)
                exp.flush()
                print(exp.id)
                import sys; sys.stdout.flush()
                {end}
                """)
            (row,) = self.rows("SELECT status, reason FROM run WHERE id=?", done.stdout.strip())
            self.assertEqual(row, reported, done.stderr)

    def test_bad_names_are_errors_of_ours(self):
        for arguments in ({"name": ""}, {"name": "a\nb"}, {"name": "a", "resume": "../x"}, {"name": "a", "resume": "exp-unknown"},
                          {"name": "a", "flush_interval_seconds": 0}, {"name": "a", "queue_points": 0}):
            with self.assertRaises(gpulens.InvalidArgumentError, msg=arguments):
                gpulens.experiment(**arguments, energy=False)
        with self.assertRaises(gpulens.Error):
            gpulens.experiment("a", db="/proc/nowhere/experiments.db", energy=False)
        with self.assertRaisesRegex(TypeError, "EnergyMonitor, True or False"):
            gpulens.experiment("a", energy="yes")


class Values(Case):
    class Tensor:
        """As NumPy's and PyTorch's scalars are to us."""

        def __init__(self, value):
            self.value = value

        def __float__(self):
            return float(self.value)

        def __index__(self):
            return int(self.value)

        def item(self):
            return self.value

    def test_metrics_are_numbers_of_any_kind(self):
        with gpulens.experiment("a", energy=False) as exp:
            for value in (1, True, 0.5, self.Tensor(0.25), math.nan, math.inf):
                exp.log_metric("loss", value)
            exp.log_metrics({"acc": 0.88, "f1": self.Tensor(0.5)}, step=self.Tensor(10))
            for value in ("0.5", None, [1.0], 1j):
                with self.assertRaisesRegex(TypeError, "a metric must be a number"):
                    exp.log_metric("loss", value)
            for step in (1.5, "1", 2**63):
                with self.assertRaisesRegex(TypeError, "a step must be a 64-bit integer"):
                    exp.log_metric("loss", 1.0, step=step)
        self.assertEqual(self.points(exp, "loss"),
                         [(0, 1.0), (1, 1.0), (2, 0.5), (3, 0.25), (4, None), (5, math.inf)])
        self.assertEqual(self.points(exp, "f1"), [(10, 0.5)])

    def test_params_keep_their_type(self):
        class Size(int):
            pass

        for value, kept in ((True, True), (Size(3), 3), (2**63, str(2**63)), (None, "None"), (self.Tensor(0.5), 0.5),
                            (self.Tensor(7), 7), ({"a": 1}, "{'a': 1}"), ("x", "x")):
            self.assertEqual((_param(value), type(_param(value))), (kept, type(kept)))

    def test_scalars_of_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no NumPy here")
        with gpulens.experiment("a", energy=False) as exp:
            exp.log_param("lr", numpy.float32(0.5))
            exp.log_param("n", numpy.int64(7))
            exp.log_metric("loss", numpy.float32(0.25), step=numpy.int32(4))
            exp.log_metric("loss", numpy.array([0.75]), step=5)
        self.assertEqual(self.rows("SELECT key, type, value FROM param ORDER BY key"), [("lr", "real", 0.5), ("n", "int", 7)])
        self.assertEqual(self.points(exp, "loss"), [(4, 0.25), (5, 0.75)])

    def test_what_does_not_fit_is_dropped_and_counted(self):
        with gpulens.experiment("a", energy=False) as exp:
            exp.log_metric("", 1.0)
            exp.log_param("k" * 251, 1)
            exp.set_tag("long", "x" * (64 * 1024 + 1))
        self.assertEqual(exp.health.dropped, 3)

    def test_artifacts(self):
        (self.folder / "out").mkdir()
        (self.folder / "out/weights.bin").write_bytes(b"\0" * 100)
        with gpulens.experiment("a", energy=False) as exp:
            exp.log_artifact(self.folder / "out")
            exp.log_artifact(str(self.folder / "out/weights.bin"), name="final/w.bin")
            with self.assertRaises(gpulens.Error):
                exp.log_artifact(self.folder / "nothing")
        self.assertEqual(self.rows("SELECT name, bytes, copied FROM artifact ORDER BY name"),
                         [("final/w.bin", 100, 1), ("out/weights.bin", 100, 1)])


class Relations(Case):
    def test_nested_runs_and_resumed_ones(self):
        with gpulens.experiment("cv", energy=False) as exp:
            with exp.nested("fold-1", tags={"fold": 1}, energy=False) as fold:
                fold.log_metrics({"loss": 0.31, "acc": 0.88}, step=10)
            with self.assertRaises(TypeError):
                exp.nested("fold-2", db="elsewhere", nonsense=1)
        self.assertEqual(self.rows("SELECT name, parent_id FROM run ORDER BY started_ns"), [("cv", None), ("fold-1", exp.id)])
        self.assertEqual(self.points(fold, "acc"), [(10, 0.88)])
        with self.assertRaises(RuntimeError):
            with gpulens.experiment("ft", energy=False) as first:
                first.log_metric("loss", 1.0, step=0)
                raise RuntimeError("preempted")
        with gpulens.experiment("ft", resume="auto", energy=False) as second:
            second.log_metric("loss", 0.5, step=1)
        self.assertEqual(second.id, first.id)
        self.assertEqual(self.points(first, "loss"), [(0, 1.0), (1, 0.5)])
        self.assertEqual(self.run_of(first), ("done", ""))
        with gpulens.experiment("ft", resume="auto", energy=False) as third:
            pass
        self.assertNotEqual(third.id, first.id, "one that ended well is not gone on with")

    def test_many_threads(self):
        with gpulens.experiment("a", energy=False, queue_points=65_536) as exp:
            def work(number):
                for step in range(1000):
                    exp.log_metric(f"m{number}", step, step=step)
            threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(exp.health, (8000, 0, 0, ""))
        self.assertEqual([step for step, _ in self.points(exp, "m7")], list(range(1000)))

    @unittest.skipUnless(hasattr(os, "fork"), "no fork here")
    def test_a_child_writes_into_the_same_run(self):
        done = self.python("""
            import os, warnings, gpulens
            warnings.simplefilter("ignore", DeprecationWarning)  # CPython 3.12: a fork with threads
            with gpulens.experiment("a") as exp:
                exp.log_metric("loss", 1.0, step=0)
                child = os.fork()
                if child == 0:
                    exp.log_metric("loss", 0.5, step=1)
                    exp.flush(30)
                    raise SystemExit(0)
                assert os.waitpid(child, 0)[1] == 0
                exp.log_metric("loss", 0.25, step=2)
                assert exp.status == "running"
            print(exp.id)
            """)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        ((status, run),) = self.rows("SELECT status, id FROM run")
        self.assertEqual((status, done.stdout.strip()), ("done", run))
        self.assertEqual(self.rows("SELECT step, value FROM point ORDER BY step"), [(0, 1.0), (1, 0.5), (2, 0.25)])

    def test_it_is_the_run_that_gpulens_run_began(self):
        with gpulens.experiment("outer", energy=False) as outer:
            done = self.python("""
                import gpulens
                with gpulens.experiment("inner") as exp, gpulens.experiment("part") as part:
                    print(exp.id, exp.energy.validity == "")
                """, env={**os.environ, "GPULENS_RUN_ID": outer.id})
            self.assertEqual(done.stdout.split(), [outer.id, "True"], done.stderr)
        self.assertEqual(self.rows("SELECT name, parent_id FROM run WHERE id<>?", outer.id), [("part", outer.id)])

    def test_a_killed_run_is_running_with_a_dead_process(self):
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent("""
            import time, gpulens
            exp = gpulens.experiment("a")
            exp.log_metric("loss", 1.0)
            exp.flush()
            print(exp.id, flush=True)
            time.sleep(600)
            """)], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.assertRegex(process.stdout.readline(), "^exp-")
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        ((status, pid, ended),) = self.rows("SELECT status, pid, process.ended_ns FROM run JOIN process ON run_id = run.id")
        self.assertEqual((status, pid, ended), ("running", process.pid, None))  # readers see that it crashed
        with gpulens.experiment("a", resume="auto", energy=False) as exp:
            pass
        self.assertEqual(self.rows("SELECT id, status, resumed FROM run"), [(exp.id, "done", 1)])


class Energy(Case):
    def test_unknown_is_nan_with_a_reason(self):
        with gpulens.experiment("a", energy=False) as exp:
            pass
        self.assertTrue(math.isnan(exp.energy.energy_joules))
        self.assertEqual((exp.energy.validity, exp.energy.devices), ("", 0))

    def test_it_is_measured_where_there_is_something_to_read(self):
        monitor = gpulens.EnergyMonitor()
        for energy in (monitor, True):
            with gpulens.experiment("a", energy=energy) as exp:
                sum(i for i in range(300_000))
            ((joules, validity, reason),) = self.rows(
                "SELECT energy_joules, energy_validity, energy_reason FROM run WHERE id=?", exp.id)
            self.assertEqual((validity, reason), (exp.energy.validity, exp.energy.reason))
            if monitor.available:
                if "none of its processes" in reason:  # GPUs, and this process uses none of them
                    continue
                self.assertEqual(validity, "valid", reason)
                self.assertGreaterEqual(joules, 0)
                self.assertEqual(joules, exp.energy.energy_joules)
                self.assertNotEqual((exp.energy.devices, exp.energy.attribution), (0, ""))
            else:
                self.assertIsNone(joules)
                self.assertIn(validity, ("no_device", "permission_denied", "source_failed"))
                self.assertNotEqual(reason, "")


class Seed(Case):
    SNIPPET = """
import zernel
# Track an experiment programmatically
with zernel.experiment("my-run") as exp:
    exp.log_param("lr", 0.001)
    for step in range(1000):
        loss = train_step()
        exp.log_metric("loss", loss, step=step)
"""

    def run_snippet(self, text):
        text = re.sub(r"^import zernel$", "from gpulens.compat import zernel", text, flags=re.MULTILINE)
        losses = iter(1 / (step + 1) for step in range(1000))
        names = {"train_step": lambda: next(losses)}
        exec(compile(text, "snippet", "exec"), names)
        exp = names["exp"]
        self.assertEqual(self.run_of(exp), ("done", ""))
        self.assertEqual(self.rows("SELECT name FROM run"), [("my-run",)])
        self.assertEqual(self.rows("SELECT key, value FROM param"), [("lr", 0.001)])
        self.assertEqual(self.points(exp, "loss"), [(step, 1 / (step + 1)) for step in range(1000)])

    def test_the_snippet(self):
        self.run_snippet(self.SNIPPET)

    def test_the_snippet_is_that_of_the_documentation(self):
        if not SEED.exists():
            self.skipTest("captures not here")
        # The document has lost its indentation.
        flat = [line.strip() for line in self.SNIPPET.strip().splitlines()]
        theirs = [line.strip() for line in SEED.read_text(encoding="utf-8").splitlines()]
        begin = theirs.index("import zernel")
        self.assertEqual(theirs[begin:begin + len(flat)], flat)


if __name__ == "__main__":
    unittest.main()
