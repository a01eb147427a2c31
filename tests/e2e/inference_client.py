"""inference_program, which keeps records in stores as it is told line by line."""
import os
import pathlib
import subprocess

from agent import BINARY

PROGRAM = pathlib.Path(os.environ.get("INFERENCE_PROGRAM", BINARY.parent / "inference_program"))


class Program:
    def __init__(self, environment=None):
        self.process = subprocess.Popen([str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=environment)  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def do(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def health(self):
        stored, queued, dropped, rejected, *error = self.do("health").split(" ", 4)
        return int(stored), int(queued), int(dropped), int(rejected), " ".join(error)

    def end(self):
        """What it has said on standard error."""
        said = self.process.communicate(timeout=60)[1]
        assert self.process.returncode == 0, said
        return said


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
