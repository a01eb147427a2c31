"""What libraries that jobs load need and export: the C library of glibc 2.17, no C++ library, and the names agreed with who loads them."""
import ctypes
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GPULENS_BUILD", ROOT / "build/release"))
sys.path.insert(0, str(ROOT / "tools"))
import hardening  # noqa: E402

# None: at least one name that begins with gpulens_.
EXPORTS = {
    "libgpulens-nccl-profiler.so": {f"ncclProfiler_v{number}" for number in range(1, 8)},
    "libgpulens-cuda.so": {"InitializeInjection"},
    "libgpulens-job.so": None,
}
TABLE_BYTES = 48  # what NCCL reads of a table; more would be another interface's


def output(*command):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True).stdout


class JobLibraries(unittest.TestCase):
    def each(self):
        for name in EXPORTS:
            self.assertTrue((BUILD / name).exists(), f"{BUILD / name} is not built: target job_libraries")
        return [(BUILD / name, exports) for name, exports in EXPORTS.items()]

    def test_they_need_an_old_c_library_alone(self):
        for path, _ in self.each():
            needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", path)))
            self.assertLessEqual(needed, {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}, path)
            undefined = output("nm", "-D", "--undefined-only", path)
            versions = re.findall(r" U (\S+?)@(\S+)", undefined)
            self.assertGreater(len(versions), 10)
            for symbol, version in versions:
                number = tuple(map(int, re.fullmatch(r"GLIBC_([0-9.]+)", version)[1].split(".")))
                self.assertLessEqual(number, (2, 17), f"{path}: {symbol}")
            unversioned = {line.split()[-1] for line in undefined.splitlines() if "@" not in line and " U " in line}
            self.assertEqual(unversioned, set())

    def test_they_export_the_agreed_names(self):
        for path, exports in self.each():
            defined = {line.split()[-1]: line.split() for line in output("nm", "-D", "-S", "--defined-only", path).splitlines()}
            if exports is None:
                self.assertTrue(defined)
                self.assertEqual([name for name in defined if not name.startswith("gpulens_")], [])
                continue
            self.assertEqual(set(defined), exports)
            for name, row in defined.items():
                if name.startswith("ncclProfiler"):
                    self.assertEqual(int(row[1], 16), TABLE_BYTES, name)

    def test_they_stay_loaded(self):
        for path, _ in self.each():
            self.assertRegex(output("readelf", "-dW", path), r"FLAGS_1.*NODELETE")

    def test_they_are_hardened(self):
        if not re.search(r"CMAKE_BUILD_TYPE:STRING=Release", (BUILD / "CMakeCache.txt").read_text()) or "GPULENS_SANITIZE:STRING=\n" not in (BUILD / "CMakeCache.txt").read_text():
            self.skipTest("only a release is hardened in all ways")
        for path, _ in self.each():
            # The checks of containers are of the C++ library, which they do not have.
            self.assertEqual([fault for fault in hardening.faults(path) if "_GLIBCXX_ASSERTIONS" not in fault], [])

    def test_nccl_finds_it_by_its_names(self):
        for name in ("libnccl-profiler-gpulens.so", "librccl-profiler-gpulens.so"):
            self.assertEqual(os.readlink(BUILD / name), "libgpulens-nccl-profiler.so")
            self.assertTrue(ctypes.CDLL(str(BUILD / name)).ncclProfiler_v7)


if __name__ == "__main__":
    unittest.main()
