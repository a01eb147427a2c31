"""The wheel and the sdist of one Python, made twice, have the same bytes. Takes minutes where nothing was compiled before."""
import pathlib
import sys
import tempfile
import unittest

import packing

sys.path.insert(0, str(packing.ROOT / "tools"))
import package_wheels  # noqa: E402


class SameBytes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        chosen = package_wheels.choose([])
        if not chosen:
            raise unittest.SkipTest("no Python with headers here")
        cls.python = chosen[0]

    def twice(self, make):
        """What make(folder) leaves, from two folders."""
        files = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as folder:
                files.append(make(pathlib.Path(folder)).read_bytes())
        return files

    def test_wheel(self):
        program = package_wheels.auditwheel(self.python)
        if not program:
            self.skipTest("no auditwheel here")
        first, second = self.twice(lambda folder: package_wheels.tagged(program, package_wheels.wheel(self.python), folder))
        self.assertTrue(first == second, "the bytes differ")

    def test_sdist(self):
        first, second = self.twice(lambda folder: package_wheels.sdist(self.python, folder))
        self.assertTrue(first == second, "the bytes differ")


if __name__ == "__main__":
    unittest.main()
