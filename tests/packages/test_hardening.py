"""What is shipped is built hardened (docs/adr/0066-hardened-build.md), and tools/hardening.py finds what is not."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import hardening  # noqa: E402

PROGRAM = pathlib.Path(os.environ.get("GPULENS_BIN", ROOT / "build/release/gpulens"))
SOURCE = """
#include <cstdio>
#include <cstring>
#include <vector>
int main(int count, char** words) {
  char text[16];
  std::vector<int> numbers(count);
  std::strcpy(text, words[0]);
  std::printf("%s", text);
  return numbers[count / 2];
}
"""
HARDENED = ("-O2", "-fPIE", "-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3", "-D_GLIBCXX_ASSERTIONS")
LINKED = ("-pie", "-Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code")


class Shipped(unittest.TestCase):
    def setUp(self):
        if json.loads(subprocess.check_output([PROGRAM, "version", "--json"]))["build"] != "release":
            self.skipTest("only a release is hardened in all ways")

    def test_the_program_lacks_nothing(self):
        self.assertEqual(hardening.faults(PROGRAM), [])
        self.assertGreater(hardening.marked(PROGRAM)[1], 3000, "functions of ours that were looked at")

    def test_the_archive_of_the_sdk_lacks_nothing(self):
        archive = PROGRAM.parent / "libgpulens_sdk.a"
        if not archive.exists():
            self.skipTest("not built here")
        self.assertEqual(hardening.faults(archive), [])

    def test_the_shared_objects_of_the_python_package_lack_nothing(self):
        objects = [path for folder in ROOT.glob("build/python-*") for path in folder.glob("*.so") if path.stat().st_mtime >= (ROOT / "cmake/Flags.cmake").stat().st_mtime]
        if not objects:
            self.skipTest("not built here, or before the flags")
        for path in objects:
            # The library inside jobs needs the C library alone: it has no container.
            without = ["no container checks an index (_GLIBCXX_ASSERTIONS)"] if path.name == "libgpulens-job.so" else []
            self.assertEqual([fault for fault in hardening.faults(path) if fault not in without], [], path)


class Lacking(unittest.TestCase):
    """Each flag that is left out is named."""

    def compiled(self, compile_flags, link_flags, protected=True):
        if not shutil.which("g++"):
            self.skipTest("no g++ here")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        source, program = pathlib.Path(folder.name) / "a.cc", pathlib.Path(folder.name) / "a"
        source.write_text(SOURCE)
        option, value = ("-fcf-protection=", "full") if os.uname().machine == "x86_64" else ("-mbranch-protection=", "standard")
        protection = option + (value if protected else "none")
        subprocess.run(["g++", "-std=c++20", "-w", *compile_flags, protection, source, "-o", program, *link_flags], check=True)
        return hardening.faults(program)

    def test_nothing_with_all_flags(self):
        self.assertEqual(self.compiled(HARDENED, LINKED), [])

    def test_flags_of_the_compiler(self):
        for flag, named in (("-fstack-protector-strong", "-fstack-protector-strong"), ("-D_FORTIFY_SOURCE=3", "_FORTIFY_SOURCE"),
                            ("-D_GLIBCXX_ASSERTIONS", "_GLIBCXX_ASSERTIONS")):  # fmt: skip
            found = self.compiled([one for one in HARDENED if one != flag], LINKED)
            self.assertEqual(len(found), 1, (flag, found))
            self.assertIn(named, found[0])

    def test_marks_for_indirect_calls(self):
        (found,) = self.compiled(HARDENED, LINKED, protected=False)
        self.assertIn("such as main", found)

    def test_flags_of_the_linker(self):
        for flags, named in ((("-pie", "-Wl,-z,norelro,-z,now,-z,noexecstack,-z,separate-code"), "-z relro"),
                             (("-pie", "-Wl,-z,relro,-z,lazy,-z,noexecstack,-z,separate-code"), "-z relro"),
                             (("-pie", "-Wl,-z,relro,-z,now,-z,execstack,-z,separate-code"), "-z noexecstack"),
                             ((*LINKED, "-Wl,-rpath,/tmp"), "RPATH")):  # fmt: skip
            self.assertTrue(any(named in fault for fault in self.compiled(HARDENED, flags)), flags)
        self.assertTrue(any("-pie" in fault for fault in self.compiled([one for one in HARDENED if one != "-fPIE"] + ["-fno-pie"], ("-no-pie", *LINKED[1:]))))


if __name__ == "__main__":
    unittest.main()
