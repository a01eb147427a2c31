"""Every piece of code in the five documents that are the seeds, and the test that runs it unchanged except for the import.

The documents have lost their indentation, so that lines are compared without it. Without them nothing is compared.
"""
import os
import pathlib
import re
import unittest

import test_compat_pydotcompute_snippets as ring
import test_energy
import test_experiments_cli

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SEEDS = pathlib.Path(os.environ.get("GPULENS_SHARED", ROOT.parent / "shared"), "seeds")
IMPORTS = {
    "from gpulens.compat.pydotcompute import RingKernelRuntime": "from pydotcompute import RingKernelRuntime",
    "from gpulens.compat import zernel": "import zernel",
    "from gpulens.compat.l9gpu.training import L9GPUTrainingMonitor": "from l9gpu.training import L9GPUTrainingMonitor",
    "from gpulens.compat.openjarvis import GpuMonitor": None,  # the document has no such line
}
MONITOR = """
from gpulens.compat.l9gpu.training import L9GPUTrainingMonitor
monitor = L9GPUTrainingMonitor(
    otlp_endpoint="http://otel-collector:4317",
    num_params=70_000_000_000,
    tokens_per_step=4096,
    gpu_count=8,
    peak_tflops_per_gpu=989.0,  # H100 BF16
)
"""
# Document, code, and the test that runs it: file and name.
SNIPPETS = [
    ("openjarvis-telemetry.txt", test_energy.EXAMPLE, "test_energy.py test_the_documented_example_runs"),
    ("openjarvis-telemetry.txt", test_energy.EXAMPLE, "test_guide.py test_joules_of_a_block"),
    ("pydotcompute-ring-kernel-telemetry.txt", ring.OVERVIEW, "test_compat_pydotcompute_snippets.py test_overview"),
    ("pydotcompute-ring-kernel-telemetry.txt", ring.ENABLE, "test_compat_pydotcompute_snippets.py test_enable_telemetry"),
    ("pydotcompute-ring-kernel-telemetry.txt", ring.MULTIPLE, "test_compat_pydotcompute_snippets.py test_multiple_kernels"),
    ("pydotcompute-ring-kernel-telemetry.txt", ring.ERRORS, "test_compat_pydotcompute_snippets.py test_error_tracking"),
    ("pydotcompute-ring-kernel-telemetry.txt", ring.PERIODIC, "test_compat_pydotcompute_snippets.py test_periodic_monitoring"),
    ("pydotcompute-ring-kernel-telemetry.txt", ring.RESET, "test_compat_pydotcompute_snippets.py test_reset_counters"),
    ("l9gpu-architecture.txt", MONITOR, "otlp_training.py test_verbatim"),
    ("l9gpu-architecture.txt", MONITOR, "test_guide.py test_a_training_monitor"),
    ("zernel-telemetry-api.txt", test_experiments_cli.SNIPPET, "test_experiments_cli.py test_ze_030_the_run_is_listed_as_done"),
]
# The client of zernel's WebSocket is no part of the SDK: tests/e2e/test_websocket.py runs it.
CLIENT = """
import asyncio
import websockets
import json
async def watch():
async with websockets.connect("ws://localhost:9092") as ws:
async for message in ws:
data = json.loads(message)
print(f"CUDA p50: {data['cuda_latency_p50_us']:.0f}us")
asyncio.run(watch())
"""
# What looks like code and is none: signatures, fields and a formula, a processor's call and the attributes that it adds.
DECLARED = re.compile(r"class |def |@|#|k8s|cloud\.|MFU = |\w+: \w|\w+\([^\"]*\) ->|\w+\([^\"]*: ")


def flat(code):
    """Its lines, with the imports of the document, without indentation and empty lines."""
    lines = [line.strip() for line in code.strip().splitlines()]
    lines = [IMPORTS.get(line, line) for line in lines]
    return [re.sub(r"\s+", " ", line) for line in lines if line]


def document(name):
    return flat((SEEDS / name).read_text(encoding="utf-8"))


@unittest.skipUnless(SEEDS.exists(), f"captures not here: {SEEDS}")
class Snippets(unittest.TestCase):
    def test_every_snippet_is_run_by_a_test(self):
        for name, code, place in SNIPPETS:
            with self.subTest(place):
                theirs, ours = document(name), flat(code)
                if ours[-1] == ")":  # the document has lost the line's end, too
                    theirs = [")" if line.startswith(")") else line for line in theirs]
                begins = [i for i, line in enumerate(theirs) if line == ours[0]]
                self.assertIn(ours, [theirs[i : i + len(ours)] for i in begins])
                file, test = place.split()
                self.assertIn(f"def {test}(", pathlib.Path(__file__).with_name(file).read_text(encoding="utf-8"))

    def test_no_code_of_the_documents_is_left_out(self):
        for path in sorted(SEEDS.glob("*.txt")):
            run = {line for name, code, _ in SNIPPETS if name == path.name for line in flat(code)} | set(flat(CLIENT))
            code = [line for line in document(path.name) if self.is_code(line)]
            self.assertEqual([line for line in code if line not in run], [], path.name)

    @staticmethod
    def is_code(line):
        """A line that Python could run, as a statement or as the head of one, and that does something."""
        if DECLARED.match(line) or not re.match(r".*[(=]|import \w+$|from \w+ import", line):
            return False
        for candidate in (line, line + " pass"):
            try:
                compile("async def f():\n " + candidate, "line", "exec")
                return True
            except SyntaxError:
                continue
        return False


if __name__ == "__main__":
    unittest.main()
