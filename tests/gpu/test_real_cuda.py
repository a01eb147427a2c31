"""libgpulens-cuda.so in a PyTorch program on a real GPU: kernels counted exactly, their time against CUDA's events.

Runs from the tree and from the package, as test_real_gpu.py does. Without a GPU or PyTorch everything is skipped, with the reason."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import nvidia_smi
from agent_page import program

PYTHON = shutil.which("python3") or sys.executable
CODE = """
import json, sys, torch
x = torch.zeros(1 << 26, device="cuda")
torch.cuda.synchronize()
begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
begin.record()
for _ in range(1000): x.mul_(1.5)
end.record()
torch.cuda.synchronize()
json.dump(begin.elapsed_time(end), open(sys.argv[1], "w"))
"""


def why_not():
    try:
        if not nvidia_smi.query()[1]:
            return "no NVIDIA GPU: nvidia-smi lists none"
    except OSError as error:
        return f"no NVIDIA GPU: {error}"
    done = subprocess.run([PYTHON, "-c", "import torch; assert torch.cuda.is_available()"], capture_output=True, timeout=120)
    return "no PyTorch with CUDA" if done.returncode else ""


def setUpModule():
    reason = why_not()
    if reason:
        print("SKIP ALL", reason)
        raise unittest.SkipTest(reason)


class Kernels(unittest.TestCase):
    def test_count_and_time_against_events(self):
        with tempfile.TemporaryDirectory() as folder:
            truth = os.path.join(folder, "ms")
            done = subprocess.run([program(), "profile", PYTHON, "-c", CODE, truth], capture_output=True, text=True, timeout=200)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(truth, encoding="ascii") as file:
                ms = json.load(file)
        rows = re.findall(r"^ *([\d.]+) +[\d.]+ % +([\d,]+) +[\d.]+ +\S+ +(.*)$", done.stdout, re.MULTILINE)
        found = [(float(seconds), name) for seconds, count, name in rows if count == "1,000"]
        self.assertEqual(len(found), 1, done.stdout)
        self.assertAlmostEqual(found[0][0] * 1e3, ms, delta=0.05 * ms)


if __name__ == "__main__":
    unittest.main()
