"""Our declarations of CUPTI against NVIDIA's headers of several versions, where they can be had.

    python3 test_cupti_layout.py --prepare      unpacks them from NVIDIA's wheels into build/cupti_headers
"""

import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADERS = ROOT / "build" / "cupti_headers"
VERSIONS = {"12.9": ["nvidia-cuda-cupti-cu12==12.9.*"], "13.0": ["nvidia-cuda-cupti==13.0.*"], "13.5": ["nvidia-cuda-cupti==13.5.*"]}
COMMON = ["nvidia-cuda-runtime==13.5.*", "nvidia-cuda-crt==13.5.*"]  # cuda.h and what it includes


def prepare():
    for version, requirements in {**VERSIONS, "common": COMMON}.items():
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, *requirements], check=True)
            for wheel in Path(folder).glob("*.whl"):
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(HEADERS / version, [name for name in archive.namelist() if name.endswith(".h")])


class Layout(unittest.TestCase):
    def test_of_each_version(self):
        if not HEADERS.exists():
            self.skipTest("NVIDIA's headers not here: test_cupti_layout.py --prepare")
        common = [path.parent for path in HEADERS.glob("common/**/cuda.h")]
        for version in VERSIONS:
            with self.subTest(version=version):
                own = [path.parent for path in HEADERS.glob(f"{version}/**/cupti.h")]
                self.assertTrue(own and common, "headers are missing")
                command = ["c++", "-std=c++20", "-fsyntax-only", "-w", f"-I{ROOT / 'src'}",
                           *(f"-isystem{path}" for path in own + common), ROOT / "tests/inject/cupti_layout.cc"]
                done = subprocess.run(command, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr[-4000:])


if __name__ == "__main__":
    if "--prepare" in sys.argv:
        prepare()
    else:
        unittest.main()
