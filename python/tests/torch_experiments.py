"""Runs take PyTorch's and NumPy's scalars as they are: run by in_venv.py --torch."""
import contextlib
import pathlib
import sqlite3
import tempfile
import unittest

import torch

import gpulens


class Scalars(unittest.TestCase):
    def test_tensors_of_one_element(self):
        with tempfile.TemporaryDirectory(prefix="gpulens-exp-") as folder:
            db = pathlib.Path(folder, "experiments.db")
            with gpulens.experiment("a", db=db, energy=False, join=False) as exp:
                exp.log_param("lr", torch.tensor(0.5))
                exp.log_param("shape", torch.zeros(2))
                exp.log_metric("loss", torch.tensor(0.25, requires_grad=True), step=torch.tensor(3))
                exp.log_metric("loss", torch.tensor([0.75], dtype=torch.bfloat16), step=4)
                with self.assertRaisesRegex(TypeError, "a metric must be a number"):
                    exp.log_metric("loss", torch.zeros(2))
            with contextlib.closing(sqlite3.connect(db)) as database:
                self.assertEqual(database.execute("SELECT step, value FROM point ORDER BY step").fetchall(), [(3, 0.25), (4, 0.75)])
                self.assertEqual(database.execute("SELECT key, type, value FROM param ORDER BY key").fetchall(),
                                 [("lr", "real", 0.5), ("shape", "text", "tensor([0., 0.])")])


if __name__ == "__main__":
    unittest.main()
