"""inference_program, which writes records into stores, controlled by lines on its standard input."""
import os
import pathlib

from agent import BINARY
from line_program import LineProgram

PROGRAM = pathlib.Path(os.environ.get("INFERENCE_PROGRAM", BINARY.parent / "inference_program"))


class Program(LineProgram):
    def __init__(self, environment=None):
        super().__init__(PROGRAM, environment)

    def health(self):
        stored, queued, dropped, rejected, *error = self.do("health").split(" ", 4)
        return int(stored), int(queued), int(dropped), int(rejected), " ".join(error)


def near(test, first, second, where="stats"):
    """Sums of the same numbers in another order differ in their last digits."""
    if isinstance(first, dict):
        test.assertEqual(list(first), list(second), where)
        for key in first:
            near(test, first[key], second[key], f"{where}.{key}")
    elif isinstance(first, list):
        test.assertEqual(len(first), len(second), where)
        for i, each in enumerate(first):
            near(test, each, second[i], f"{where}[{i}]")
    elif isinstance(first, float):
        test.assertAlmostEqual(first, second, delta=1e-9 * abs(first), msg=where)
    else:
        test.assertEqual(first, second, where)
