"""`gpulens version --libraries` and the lists of contents of the packages name the same."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import sbom  # noqa: E402

PROGRAM = pathlib.Path(os.environ.get("GPULENS_BIN", ROOT / "build/release/gpulens"))


class Libraries(unittest.TestCase):
    def setUp(self):
        printed = json.loads(subprocess.check_output([PROGRAM, "version", "--libraries", "--json"]))
        if printed["build"] != "release" or not shutil.which("dpkg"):
            self.skipTest("only a release that is built from Debian's packages has such lists")
        self.printed = printed["libraries"]

    def test_packages_versions_and_licences_are_those_of_the_lists_of_contents(self):
        printed = {(one["package"], one.get("package_version"), one["license"], one.get("purl")) for one in self.printed if "package" in one}
        linked = {(one["name"], one["version"], one["license"], one["purl"]) for one in sbom.linked(PROGRAM.resolve().parent, "gpulens")}
        self.assertEqual(printed, linked)

    def test_rows_are_those_of_the_docs(self):
        self.assertEqual([(one["license"], one["linked"]) for one in self.printed], list(sbom.shipped().values()))

    def test_the_c_library_is_the_one_that_is_here(self):
        (libc,) = [one for one in self.printed if "package" not in one]
        self.assertEqual(libc["version"], os.confstr("CS_GNU_LIBC_VERSION").split()[1])


if __name__ == "__main__":
    unittest.main()
