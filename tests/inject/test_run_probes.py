"""`gpulens run --probes`: which variables a program gets, and that it is refused where a profiler is there already."""
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GPULENS_BUILD", ROOT / "build/release")).resolve()
BINARY = BUILD / "gpulens"
PRINT = "import json, os; print(json.dumps(dict(os.environ)))"


class RunProbes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpulens_probes_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_with(self, probes, *code, **variables):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "CUDA_", "GPULENS_", "PYTHONPATH"))}
        command = [BINARY, "run", "-q", "--no-energy", "--db", self.folder / "runs.db", f"--probes={probes}", "--", sys.executable, "-c", *(code or (PRINT,))]
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60, env={**kept, **variables}, check=False)

    def environment(self, probes, **variables):
        done = self.run_with(probes, **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_libraries_of_all_probes(self):
        found = self.environment("nccl:count,cuda,torch", PYTHONPATH="/first:/second")
        self.assertEqual(found["GPULENS_NCCL_LEVEL"], "count")
        self.assertEqual(found["GPULENS_JOB_SOCKET"], "/run/gpulens/job.sock")
        for name in ("NCCL_PROFILER_PLUGIN", "CUDA_INJECTION64_PATH", "GPULENS_JOB_LIBRARY"):
            self.assertTrue(ctypes.CDLL(found[name]), name)
        hook, *others = found["PYTHONPATH"].split(":")
        self.assertTrue((pathlib.Path(hook) / "sitecustomize.py").exists())
        self.assertEqual(others, ["/first", "/second"])

    def test_profilers_that_are_there_stay(self):
        done = self.run_with("nccl", NCCL_PROFILER_PLUGIN="/opt/other.so")
        self.assertEqual(done.returncode, 2)
        self.assertIn("NCCL_PROFILER_PLUGIN is /opt/other.so", done.stderr)
        found = self.environment("nccl:chain", NCCL_PROFILER_PLUGIN="/opt/other.so")
        self.assertEqual(found["GPULENS_NCCL_CHAIN"], "/opt/other.so")
        done = self.run_with("cuda", CUDA_INJECTION64_PATH="/opt/nsight.so")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/opt/nsight.so", done.stderr)

    def test_none_turns_all_off(self):
        found = self.environment("none")
        self.assertEqual(found["GPULENS_PROBES"], "off")
        self.assertNotIn("NCCL_PROFILER_PLUGIN", found)

    def test_other_words(self):
        done = self.run_with("ncll")
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected nccl[:count|time|link][:chain]", done.stderr)

    def test_a_program_in_which_the_plugin_counts(self):
        """The library as NCCL opens it, with the variables of the command: version 7's init and a collective."""
        program = f"""
import ctypes, os, glob
library = ctypes.CDLL(os.environ["NCCL_PROFILER_PLUGIN"])
table = (ctypes.c_void_p * 6).in_dll(library, "ncclProfiler_v7")
init = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint64, ctypes.POINTER(ctypes.c_int), ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(table[1])
context, mask = ctypes.c_void_p(), ctypes.c_int()
assert init(ctypes.byref(context), 5, ctypes.byref(mask), b"world", 1, 2, 0, None) == 0
assert mask.value == 0x5E, mask.value  # collectives, point to point, operations and steps of the proxy, kernels
(page,) = glob.glob("{self.folder}/gpulens-job-*-1")
assert open(page, "rb").read(8) == b"JOBPAGE1"
"""
        done = self.run_with("nccl:link", program, GPULENS_JOB_FOLDER=str(self.folder), GPULENS_JOB_SOCKET="/nowhere")
        self.assertEqual(done.returncode, 0, done.stderr)
        # It ended by itself, and so did its page.
        self.assertEqual(list(self.folder.glob("gpulens-job-*")), [])


if __name__ == "__main__":
    unittest.main()
