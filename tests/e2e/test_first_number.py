"""From a built checkout to the first right number on the screen: within a minute, by tools/first_number.py."""
import subprocess
import sys
import unittest

from agent import BINARY, ROOT


class FirstNumber(unittest.TestCase):
    def test_within_a_minute(self):
        done = subprocess.run([sys.executable, str(ROOT / "tools" / "first_number.py"), str(BINARY)], capture_output=True, text=True, timeout=120, check=False)
        print(done.stdout, flush=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"s to GPU 0's \d+\.\d W on the page")


if __name__ == "__main__":
    unittest.main()
