"""gpulens.job: what a program reports of itself, read out of its page."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

import gpulens
from gpulens import job

ROOT = pathlib.Path(__file__).resolve().parents[2]
DUMP = ROOT / "build" / "release" / "job_page_dump"
HOOK = pathlib.Path(job.__file__).parent / "torch_hook"



def run(body, environment=None):
    """Runs a program and returns what its function page() printed: the header's counts, and all of it where job_page_dump is
    built."""
    with tempfile.TemporaryDirectory() as own:
        program = textwrap.dedent(
            """
            import glob, json, os, struct, subprocess, sys
            import gpulens
            def page():
                files = glob.glob(os.environ.get("PAGES", "") + "/gpulens-job-*")
                if not files:
                    return print("null")
                with open(files[0], "rb") as file:
                    header = file.read(512)
                found = {"records": struct.unpack_from("=Q", header, 128)[0], "last": struct.unpack_from("=Q", header, 120)[0]}
                if os.path.exists(sys.argv[1]):
                    found["all"] = json.loads(subprocess.run([sys.argv[1], files[0]], capture_output=True, check=True).stdout)
                print(json.dumps(found))
            """
        ) + textwrap.dedent(body)
        given = {"PAGES": own, "GPULENS_JOB_FOLDER": own, "GPULENS_JOB_SOCKET": own + "/no.sock", **(environment or {})}
        done = subprocess.run(
            [sys.executable, "-c", program, str(DUMP)], env={**os.environ, **given}, capture_output=True, text=True, timeout=60
        )
        if done.returncode:
            raise AssertionError(done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()], done


class Job(unittest.TestCase):
    def test_phases_waits_and_collectives(self):
        (inside, after), _ = run(
            """
            world = gpulens.JobCommunicator("a world", rank=1, ranks=4)
            with gpulens.phase("optimizer_step"):
                page()
            with gpulens.data_wait():
                with gpulens.data_wait():
                    pass
            for _ in range(3):
                with world.collective("all_reduce", 1000):
                    pass
            try:
                with world.collective("broadcast", 10, root=2):
                    raise OSError("a peer closed the connection")
            except OSError:
                pass
            assert gpulens.job_reason() is None
            page()
            """
        )
        self.assertEqual(inside["records"], 0)
        self.assertGreater(inside["last"], 0)
        self.assertEqual(after["records"], 4)
        if "all" in after:
            self.assertEqual(inside["all"]["phases"]["current"], 4)
            self.assertEqual(after["all"]["phases"]["current"], 0)
            self.assertEqual(after["all"]["data_loading"]["batches"], 1)
            (world,) = after["all"]["communicators"]
            self.assertEqual((world["name"], world["rank"], world["ranks"]), ("a world", 1, 4))
            self.assertEqual([record["timing"] for record in after["all"]["records"]], [3, 3, 3, 0])

    def test_the_monitor_feeds_it(self):
        (after,), _ = run(
            """
            monitor = gpulens.TrainingMonitor()
            assert list(monitor.dataloader.wrap([1, 2, 3])) == [1, 2, 3]
            with monitor.checkpoint.time_save():
                pass
            for batch in monitor.dataloader.wrap([1, 2, 3]):
                break
            def failing():
                yield 1
                raise OSError("no file")
            try:
                list(monitor.dataloader.wrap(failing()))
            except OSError:
                pass
            page()
            """
        )
        self.assertGreater(after["last"], 0)
        if "all" in after:
            self.assertEqual(after["all"]["data_loading"]["batches"], 5)
            self.assertEqual(after["all"]["data_loading"]["open_since"], 0)
            self.assertEqual(after["all"]["phases"]["current"], 0)
            self.assertGreater(after["all"]["phases"]["total_ns"][5], 0)

    def test_off_and_without_an_agent(self):
        body = """
            with gpulens.phase("decode"):
                print(json.dumps(gpulens.job_reason()))
            page()
            """
        (reason, found), _ = run(body, {"GPULENS_PROBES": "off"})
        self.assertIn("GPULENS_PROBES", reason)
        self.assertIsNone(found)
        (reason, found), _ = run(body, {"GPULENS_JOB_FOLDER": ""})
        self.assertIn("no agent", reason)
        self.assertIsNone(found)

    def test_names(self):
        with self.assertRaisesRegex(gpulens.errors.InvalidArgumentError, "coffee.*optimizer_step"):
            with gpulens.phase("coffee"):
                pass
        with self.assertRaises(gpulens.errors.InvalidArgumentError):
            gpulens.JobCommunicator("x", rank=3, ranks=3)

    def test_a_decorated_function(self):
        (after,), _ = run(
            """
            @gpulens.phase("prefill")
            def work(depth):
                return depth if depth == 0 else work(depth - 1)
            assert work(3) == 0
            page()
            """
        )
        if "all" in after:
            self.assertEqual(after["all"]["phases"]["transitions"], 2)

    def test_hash_of_a_text_is_that_of_the_hook(self):
        sys.path.insert(0, str(HOOK))
        try:
            import gpulens_torch_hook

            for text in ("", "world", "Welt mit Ä"):
                self.assertEqual(job._hash_of(text), gpulens_torch_hook._hash_of(text))
        finally:
            sys.path.remove(str(HOOK))
            sys.modules.pop("gpulens_torch_hook", None)

    def test_one_page_with_the_hook(self):
        (after,), _ = run(
            """
            import gpulens_torch_hook
            gpulens_torch_hook._load()
            with gpulens.phase("idle"):
                gpulens_torch_hook.library().phase_end(gpulens_torch_hook.library().phase_begin(6))
            with gpulens.data_wait():
                pass
            with gpulens.JobCommunicator(5, rank=0, ranks=2).collective("barrier"):
                pass
            import glob
            assert len(glob.glob(os.environ["PAGES"] + "/*")) == 1
            assert gpulens.job_reason() is None
            page()
            """,
            {"PYTHONPATH": str(HOOK), "GPULENS_JOB_LIBRARY": ""},
        )
        self.assertEqual(after["records"], 1)
        if "all" in after:
            self.assertEqual(after["all"]["phases"]["transitions"], 8)
            self.assertEqual(after["all"]["data_loading"]["batches"], 1)

    def test_the_hook_uses_the_library_of_the_package(self):
        """With what pip installs alone: a program that imports PyTorch, here one with its names, reports itself."""
        with tempfile.TemporaryDirectory() as folder:
            torch = pathlib.Path(folder) / "torch"
            torch.mkdir()
            (torch / "__init__.py").write_text("")
            (torch / "serialization.py").write_text("def save(*_):\n    pass\n")
            (used, after), _ = run(
                """
                import torch.serialization
                torch.serialization.save()
                print(json.dumps([line.split()[-1] for line in open("/proc/self/maps") if "libgpulens-job" in line]))
                page()
                """,
                {"PYTHONPATH": f"{HOOK}:{folder}", "GPULENS_JOB_LIBRARY": ""},
            )
        self.assertEqual(set(used), {str(pathlib.Path(job.__file__).parent / "lib" / "libgpulens-job.so")})
        self.assertGreater(after["last"], 0)
        if "all" in after:
            self.assertEqual(after["all"]["phases"]["transitions"], 2)

    def test_without_the_library_of_the_package_that_of_the_system_is_used(self):
        """The linker's search finds it; where it finds none, the program runs on."""
        with tempfile.TemporaryDirectory() as folder:
            hook, library = pathlib.Path(folder) / "a" / "b" / "hook", pathlib.Path(folder) / "libraries"
            shutil.copytree(HOOK, hook, ignore=shutil.ignore_patterns("__pycache__"))
            library.mkdir()
            shutil.copy(pathlib.Path(job.__file__).parent / "lib" / "libgpulens-job.so", library)
            body = """
                import gpulens_torch_hook
                try:
                    gpulens_torch_hook._load()
                    print("true")
                except OSError:
                    print("false")
                """
            for search, found in ((library, True), (hook, False)):
                answers, _ = run(body, {"PYTHONPATH": str(hook), "GPULENS_JOB_LIBRARY": "", "LD_LIBRARY_PATH": str(search)})
                self.assertEqual(answers, [found])



if __name__ == "__main__":
    unittest.main()
