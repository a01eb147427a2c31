"""The modules of the page without a browser, in Node's own test runner: modules.test.mjs."""
import pathlib
import re
import shutil
import subprocess
import unittest

HERE = pathlib.Path(__file__).resolve().parent
LEAST_NODE = 18


class Modules(unittest.TestCase):
    def test_modules(self):
        node = shutil.which("node")
        if not node:
            self.skipTest("node is not here: apt-get install nodejs")
        version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
        if int(re.match(r"v(\d+)", version)[1]) < LEAST_NODE:
            self.skipTest(f"node is {version.strip()}, its test runner needs {LEAST_NODE}")
        run = subprocess.run([node, "--test", str(HERE / "modules.test.mjs")], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


if __name__ == "__main__":
    unittest.main()
