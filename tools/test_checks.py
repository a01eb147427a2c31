"""Tests of what decides how much is checked, and of what is printed meanwhile:  cd tools && python3 -m unittest test_checks"""
import os
import pathlib
import subprocess
import tempfile
import unittest
from unittest import mock

import affected
import fuzz
import tidy
import tree

TOOLS = pathlib.Path(__file__).resolve().parent
NINJA = """
rule compile
  command = true
rule CXX_EXECUTABLE_LINKER__x
  command = true
build a.o: compile ../../src/wire/a.cc
build b.o: compile ../../src/core/b.cc
build a_test.o: compile ../../src/wire/a_test.cc
build wire_test: CXX_EXECUTABLE_LINKER__x a_test.o a.o b.o
build core_test: CXX_EXECUTABLE_LINKER__x b.o
"""


class Affected(unittest.TestCase):
    """A small repository of its own, with a full check recorded for its first commit."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, value in (("ROOT", self.root),):
            patch = mock.patch.object(tree, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        patch = mock.patch.object(affected, "RECORD", self.root / "tests/full_checks.tsv")
        patch.start()
        self.addCleanup(patch.stop)
        self.write("src/wire/a.h", "#pragma once\n")
        self.write("src/wire/a.cc", '#include "wire/a.h"\n')
        self.write("src/wire/a_test.cc", '#include "wire/a.h"\n')
        self.write("src/wire/testdata/bad/short.txt", "x")
        self.write("src/core/b.cc", "int b;\n")
        self.write("docs/page.md", "")
        self.write("build/x/build.ninja", NINJA)
        self.write(".gitignore", "build/\n")
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first")
        self.record(self.git("rev-parse", "HEAD^{tree}"))
        self.forget()

    def git(self, *arguments):
        return subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, text=True, check=True).stdout.strip()

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def record(self, head, compilers=None):
        self.write("tests/full_checks.tsv", f"# head\n{head}\t{compilers or affected.compilers()}\t2026-11-23\t50\n")

    def forget(self):
        for function in (affected.last_full_check, affected.changes, affected.included_by):
            function.cache_clear()

    def targets(self):
        self.forget()
        return affected.affected_targets(str(self.root / "build/x"), ["_test"])

    def test_nothing_changed(self):
        self.assertEqual(affected.changes(), frozenset())
        self.assertEqual(self.targets(), [])

    def test_a_changed_header_changes_its_includers(self):
        self.write("src/wire/a.h", "#pragma once\nint a;\n")
        self.assertEqual(self.targets(), ["wire_test"])

    def test_a_changed_source_changes_its_programs(self):
        self.write("src/core/b.cc", "int c;\n")
        self.assertEqual(self.targets(), ["core_test", "wire_test"])

    def test_committed_changes_count_too(self):
        self.write("src/core/b.cc", "int c;\n")
        self.git("add", "-A")
        self.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "second")
        self.assertEqual(self.targets(), ["core_test", "wire_test"])

    def test_a_new_source_changes_its_folder(self):
        self.write("src/wire/testdata/bad/long.txt", "xx")
        self.assertEqual(self.targets(), ["wire_test"])

    def test_a_removed_source_changes_its_folder(self):
        (self.root / "src/wire/a.h").unlink()
        self.assertEqual(self.targets(), ["wire_test"])

    def test_documents_change_nothing(self):
        self.write("docs/page.md", "more\n")
        self.forget()
        self.assertEqual(affected.changes(), frozenset())

    def test_a_changed_build_file_changes_everything(self):
        for path in ("CMakeLists.txt", "cmake/Flags.cmake", "dev", ".ci/run", "src/wire/targets.cmake"):
            self.write(path, "")
            self.forget()
            self.assertIsNone(affected.changes(), path)
            (self.root / path).unlink()

    def test_all_is_everything(self):
        self.assertEqual(affected.affected_targets(str(self.root / "build/x"), ["--all", "_test"]), ["core_test", "wire_test"])

    def test_a_row_that_cannot_be_used_is_not(self):
        head = self.git("rev-parse", "HEAD^{tree}")
        for row in ((head, "g++ 1, clang++-19 1"), ("0" * 40, None), ("--output=x", None)):
            self.record(*row)
            self.forget()
            self.assertIsNone(affected.changes(), row)


class Follow(unittest.TestCase):
    def bash(self, text, **environment):
        script = f'DRY_RUN=false STAGES=$PWD/stages.tsv\nsource "{TOOLS}/follow.sh"\n{text}'
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                ["bash", "-uc", script], cwd=folder, capture_output=True, text=True, env={**os.environ, **environment}, check=False
            )
        self.assertEqual(done.stderr, "")
        return done

    def test_progress_is_printed_and_the_exit_code_kept(self):
        text = 'busy() { local end=$((SECONDS + 3)); while ((SECONDS < end)); do :; done; return 7; }\nfollow "echo seen" busy; echo "code $?"'
        done = self.bash(text, GPULENS_BEAT_SECONDS="1")
        self.assertIn(" s: seen 1\n", done.stdout)
        self.assertIn("code 7\n", done.stdout)

    def test_ninja(self):
        log = "[10/40] Building CXX object a/b.cc.o\nFAILED: x\n[20/40] Building CXX object a/c.cc.o\nnoise\n"
        done = self.bash(f"printf '{log}' >log; ninja_progress log 60; : >log; ninja_progress log 60")
        self.assertEqual(done.stdout, "20 of 40 done, 1 m 0 s left, last a/c.cc.o\nstarting\n")

    def test_ctest_counts_seconds(self):
        costs = "# head\\nslow\\t100\\t0.50\\nquick\\t10\\t1.00\\n"
        log = "      Start  1: slow\\n      Start  2: quick\\n 1/2 Test #2: quick ....   Passed    9.00 sec\\n"
        text = f"mkdir tests build; printf '{costs}' >tests/costs.tsv; printf 'slow\\nquick\\n' >build/names.txt\n"
        done = self.bash(text + f"printf '{log}' >build/ctest.log; ctest_progress build/ctest.log 20")
        self.assertEqual(done.stdout, "1 of 2 tests done, 3 m 16 s left, running: slow\n")

    def test_a_stage_leaves_a_row(self):
        done = self.bash("timed 'one two' false; cat stages.tsv")
        name, wall, processor, code = done.stdout.rstrip("\n").split("\t")
        self.assertEqual((name, code), ("one two", "1"))
        self.assertLess(int(wall) + float(processor), 5)


class Packages(unittest.TestCase):
    def boost(self, answers, codename="bookworm"):
        """The package that is requested where apt knows `answers` and nothing is installed."""
        stubs = f"""
dpkg-query() {{ return 1; }}
apt-cache() {{ case $2 in {" ".join(f"{name}) echo '  Candidate: {version}' ;;" for name, version in answers.items())} *) ;; esac; }}
grep() {{ if [[ $* == *VERSION_CODENAME* ]]; then [[ {codename} == bookworm ]]; else command grep "$@"; fi; }}
source "{TOOLS}/packages.sh"
missing_boost"""
        return subprocess.run(["bash", "-c", stubs], capture_output=True, text=True, check=True).stdout.strip()

    def test_the_candidate_decides(self):
        self.assertEqual(self.boost({"libboost1.81-dev": "1.81.0-5"}), "libboost1.81-dev")
        self.assertEqual(self.boost({"libboost1.81-dev": "(none)", "libboost1.83-dev": "1.83.0-2"}), "libboost1.83-dev")
        self.assertEqual(self.boost({"libboost-dev": "1.88.0.0"}), "libboost-dev")
        self.assertNotEqual(self.boost({"libboost-dev": "1.74.0.3"}), "libboost-dev")

    def test_empty_lists_take_the_name_of_the_release(self):
        self.assertEqual(self.boost({}), "libboost1.81-dev")
        self.assertEqual(self.boost({}, "noble"), "libboost1.83-dev")


class Fuzz(unittest.TestCase):
    def test_a_comment_of_the_source_sets_the_number_of_inputs(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(tree, "ROOT", pathlib.Path(folder)):
            (pathlib.Path(folder) / "src").mkdir()
            (pathlib.Path(folder) / "src/slow_fuzz.cc").write_text("// Fuzz inputs: 5'000 (each starts a server)\n")
            (pathlib.Path(folder) / "src/fast_fuzz.cc").write_text("int x;\n")
            self.assertEqual(fuzz.inputs_of("slow_fuzz"), 5000)
            self.assertEqual(fuzz.inputs_of("fast_fuzz"), fuzz.INPUTS)


class Unsteady(unittest.TestCase):
    def test_rows_only_go(self):
        rows = "# head\n" + "e2e_x\tthe port of another\n" * tidy.UNSTEADY_ROWS
        self.assertEqual(list(tidy.unsteady_rows(pathlib.Path("tests/unsteady.tsv"), rows)), [])
        (finding,) = tidy.unsteady_rows(pathlib.Path("tests/unsteady.tsv"), rows + "e2e_y\tslow\n")
        self.assertIn("find its cause", finding.text)


if __name__ == "__main__":
    unittest.main()
