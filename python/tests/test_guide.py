"""docs/sdk.md, "In ten minutes": each of its blocks, run unchanged, prints the text below it; measured numbers may differ.

On the simulated GPUs of the repository's build (build/release/fake_nvml) and with its program (build/release/gpulens, or
$GPULENS_BIN); without them these tests skip. Nothing listens at the page's otel-collector: a monitor goes on without.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import test_compat_pydotcompute_snippets
import test_experiments_cli

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/sdk.md"
SEEDS = pathlib.Path(os.environ.get("GPULENS_SHARED", ROOT.parent / "shared"), "seeds")
BINARY = pathlib.Path(os.environ.get("GPULENS_BIN", ROOT / "build/release/gpulens"))
FAKE = pathlib.Path(os.environ.get("GPULENS_FAKE_NVML_FOLDER", ROOT / "build/release/fake_nvml"))
WATTS = 8 * 71.0  # of tests/fake_nvml/profiles/h100_idle.yaml

# Runs a block behind what it leaves to its reader; `await` may stand outside of functions.
RUN = """
import ast, asyncio, inspect, sys
names = {}
exec(sys.argv[1], names)
done = eval(compile(sys.argv[2], "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
if inspect.iscoroutine(done):
    asyncio.run(done)
"""

# What the run of the page trains: steps of a millisecond.
TRAINING = """
import threading
losses = iter(1 / (step + 1) for step in range(1000))
def train_step():
    threading.Event().wait(0.001)
    return next(losses)
"""


def blocks():
    """Returns each Python block of the section with the text below it."""
    section = PAGE.read_text(encoding="utf-8").split("\n## In ten minutes\n")[1].split("\n## ")[0]
    parts = re.findall(r"```python\n(.*?)```\n\n((?:    [^\n]*\n|\n)+)", section, re.DOTALL)
    found = [(code, re.sub(r"^    ", "", reported, flags=re.MULTILINE).strip()) for code, reported in parts]
    return found, section.count("```python\n")


def first_screen():
    """Returns the block at the head of the page with the text below it, and the line on which that ends."""
    head = PAGE.read_text(encoding="utf-8").split("\n## ")[0]
    block = re.search(r"```python\n(.*?)```\n\n    ([^\n]*)\n", head, re.DOTALL)
    return block.group(1), block.group(2), head[: block.end()].count("\n")


def masked(text):
    """Without what time decides: numbers, names of runs, the widths of columns."""
    text = re.sub(r"exp-\d{8}-\d{6}-[0-9a-f]{8}", "exp-#", text)
    return re.sub(r"[ ]+", " ", re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "#", text)).strip()


@unittest.skipUnless(PAGE.exists(), "the guide is not here")
class Guide(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        (cls.instruments, cls.openjarvis, cls.zernel, cls.l9gpu, cls.pydotcompute), count = blocks()
        assert count == 5, "a block without its output"

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpulens-guide-")
        self.addCleanup(folder.cleanup)
        hidden = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("GPULENS_") and key not in hidden}
        self.environment.update(HOME=folder.name, LD_LIBRARY_PATH=str(FAKE),
                                GPULENS_FAKE_NVML=str(ROOT / "tests/fake_nvml/profiles/h100_idle.yaml"))

    def call(self, *command):
        return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=120, env=self.environment)

    def run_block(self, code, preamble=""):
        done = self.call(sys.executable, "-c", RUN, preamble, code)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def needs_simulated_gpus(self):
        if not (FAKE / "libnvidia-ml.so.1").exists():
            self.skipTest("the simulated NVML is not built")

    def assert_of_seed(self, name, code, lines):
        """The first lines of a block, but for the import, are the document's, which has lost its indentation."""
        seed = SEEDS / name
        if not seed.exists():
            return
        flat = [line.strip() for line in code.strip().splitlines()]
        theirs = "\n".join(line.strip() for line in seed.read_text(encoding="utf-8").splitlines())
        self.assertIn("\n".join(flat[1 : 1 + lines]), theirs)

    def test_instruments(self):
        code, reported = self.instruments
        self.assertEqual(self.run_block(code), reported)
        seed = SEEDS / "zumik-observability.txt"
        if seed.exists():
            theirs = seed.read_text(encoding="utf-8")
            for name in re.findall(r'gpulens\.\w+\("(\w+)"', code):
                self.assertIn(name, theirs)

    def test_energy_of_a_request_is_on_the_first_screen(self):
        code, reported, last_line = first_screen()
        self.assertLessEqual(code.count("\n"), 10)
        self.assertLessEqual(last_line, 25)
        self.needs_simulated_gpus()
        printed = self.run_block(code)
        self.assertEqual(masked(printed), masked(reported))
        for text in (printed, reported):
            self.assertGreater(float(text.split()[0]), 0.2 * WATTS * 0.95)

    def test_joules_of_a_block(self):
        self.needs_simulated_gpus()
        code, reported = self.openjarvis
        self.assert_of_seed("openjarvis-telemetry.txt", code, 6)
        work = "    # ... run inference ...\n"
        self.assertIn(work, code)
        printed = self.run_block(code.replace(work, work + "    run_inference()\n"),
                                 "import threading\ndef run_inference(): threading.Event().wait(0.5)\n")
        self.assertEqual(masked(printed), masked(reported))
        self.assertGreater(float(printed), 0.5 * WATTS * 0.95)
        self.assertGreater(float(reported), 0.5 * WATTS * 0.95)

    @unittest.skipUnless(BINARY.exists(), "the program gpulens is not built here")
    def test_a_run(self):
        self.needs_simulated_gpus()
        if not test_experiments_cli.NUMBERS_AS_THE_HOST:
            self.skipTest("a container with process numbers of its own")
        self.environment["GPULENS_FAKE_NVML"] = self.environment["HOME"] + "/world.yaml"
        code, reported = self.zernel
        self.assertEqual(code.strip(), test_experiments_cli.SNIPPET.strip())
        self.run_block(code, test_experiments_cli.ON_ALL_GPUS + TRAINING)
        pieces = [piece.partition("\n") for piece in ("\n" + reported).split("\n$ gpulens ")[1:]]
        self.assertEqual(len(pieces), 1)
        for command, _, output in pieces:
            done = self.call(BINARY, *command.split())
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(masked(done.stdout), masked(output))
            for listed in (done.stdout, output):
                self.assertRegex(listed, r"my-run +done +999 +0\.001 .* 8 ")
                joules = float(re.search(r"([\d.]+) J ", listed).group(1))
                self.assertGreater(joules, WATTS * 0.95)  # of a second at least

    def test_a_training_monitor(self):
        code, reported = self.l9gpu
        self.assert_of_seed("l9gpu-architecture.txt", code, 7)
        done = self.call(sys.executable, "-c", RUN, "", code)
        if "UnavailableError" in done.stderr:
            self.skipTest("this package has no gRPC")
        self.assertEqual((done.returncode, done.stdout.strip()), (0, reported), done.stderr)

    def test_a_ring_kernel(self):
        code, reported = self.pydotcompute
        self.assertEqual(code.strip(), test_compat_pydotcompute_snippets.ENABLE.strip())
        printed = self.run_block(code, test_compat_pydotcompute_snippets.PREAMBLE)
        self.assertEqual(masked(printed), masked(reported))
        for each in (printed, reported):
            self.assertEqual(each.splitlines()[0], "Processed: 100")


if __name__ == "__main__":
    unittest.main()
