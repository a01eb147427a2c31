"""Lists of contents, checksums and signatures of a folder of packages."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

import packing

sys.path.insert(0, str(packing.ROOT / "tools"))
import notices  # noqa: E402

VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read())
assert wrong is None, wrong
document = parse_file(sys.argv[2])
wrong = validate_full_spdx_document(document)
assert not wrong, [one.validation_message for one in wrong]
for package in document.packages:
    for reference in package.external_references:
        parsed = PackageURL.from_string(reference.locator)
        print(parsed.type, parsed.name, parsed.version, parsed.qualifiers.get("upstream", parsed.name))
"""


class Seal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = packing.packages()
        (cls.cyclonedx_file,) = cls.made.glob("*.cdx.json")
        (cls.spdx_file,) = cls.made.glob("*.spdx.json")
        cls.cyclonedx, cls.spdx = (json.loads(path.read_text()) for path in (cls.cyclonedx_file, cls.spdx_file))
        cls.artifacts = {path.name for path in cls.made.iterdir() if path.suffix in (".deb", ".rpm", ".gz")}

    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name)

    def copy(self):
        to = self.folder() / "dist"
        shutil.copytree(self.made, to)
        return to

    def seal(self, *words, code=0):
        done = subprocess.run([str(packing.ROOT / "tools/package_seal.py"), *map(str, words)], capture_output=True, text=True, timeout=120, check=False,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def key(self, passphrase=""):
        """A throw-away key, and the file of its secret part."""
        home = self.folder()
        home.chmod(0o700)
        environment = {**os.environ, "GNUPGHOME": str(home)}
        self.addCleanup(subprocess.run, ["gpgconf", "--kill", "all"], env=environment, check=False)
        common = ["gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", passphrase]
        packing.run(*common, "--quick-gen-key", "A test <test@example.invalid>", "ed25519", "sign", "never", env=environment)
        file = home / "secret.asc"
        packing.run(*common, "--armor", "--output", file, "--export-secret-keys", env=environment)
        return file

    def test_sums_are_those_of_every_file(self):
        lines = dict(reversed(line.split("  ")) for line in (self.made / "SHA256SUMS").read_text().splitlines())
        self.assertEqual(set(lines), {path.name for path in self.made.iterdir()} - {"SHA256SUMS"})
        packing.run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=self.made)

    def test_both_lists_have_what_is_linked(self):
        listed = {one["name"]: one for one in self.cyclonedx["components"] if one["type"] == "file"}
        self.assertEqual(set(listed), self.artifacts)
        self.assertGreaterEqual(len(listed), 6)
        for name, one in listed.items():
            self.assertEqual(one["hashes"], [{"alg": "SHA-256", "content": hashlib.sha256((self.made / name).read_bytes()).hexdigest()}])
        by_reference = {one["bom-ref"]: one for one in self.cyclonedx["components"]}
        spdx = {one["SPDXID"]: one for one in self.spdx["packages"]}
        for name in self.artifacts:
            target = "gpulens_sdk" if re.match("gpulens-dev", name) else "gpulens"
            linked = set(notices.packages(str(packing.BUILD), target))
            (row,) = [one for one in self.cyclonedx["dependencies"] if one["ref"] == f"file:{name}"]
            self.assertEqual({by_reference[one]["name"] for one in row["dependsOn"]}, linked, name)
            (own,) = [one for one in self.spdx["packages"] if one["name"] == name]
            self.assertEqual(own["checksums"][0]["checksumValue"], listed[name]["hashes"][0]["content"])
            inside = {spdx[one["spdxElementId"]]["name"] for one in self.spdx["relationships"]
                      if one["relationshipType"] == "STATIC_LINK" and one["relatedSpdxElement"] == own["SPDXID"]}  # fmt: skip
            self.assertEqual(inside, linked, name)

    def test_versions_and_licences(self):
        for one in self.cyclonedx["components"]:
            if one["type"] != "library":
                continue
            found = packing.run("dpkg-query", "-W", "-f", "${Version} ${source:Package}", one["name"]).split()
            self.assertEqual(one["version"], found[0])
            self.assertTrue(one["purl"].startswith("pkg:deb/"), one["purl"])
            self.assertIn(urllib.parse.quote(found[0], safe="~.-_"), one["purl"])
            self.assertIn("expression", one["licenses"][0])
        licences = {one["name"]: one["licenses"][0]["expression"] for one in self.cyclonedx["components"]}
        self.assertEqual(licences["libssl-dev"], "Apache-2.0")
        self.assertEqual(licences["libsqlite3-dev"], "blessing")

    def test_the_schemas_of_both(self):
        python = packing.ROOT / "build/sbom/bin/python"
        if not (python.parents[1] / "installed").exists():
            self.skipTest("the Python packages cyclonedx-python-lib and spdx-tools are not here; tools/prepare_peers.sh --chdb fetches them")
        printed = packing.run(python, "-c", VALIDATE, self.cyclonedx_file, self.spdx_file)
        self.assertRegex(printed, r"(?m)^deb libssl-dev \S+ openssl$")
        broken = self.folder() / "broken.json"
        broken.write_text(self.cyclonedx_file.read_text().replace('"bomFormat": "CycloneDX"', '"bomFormat": "other"'))
        self.assertIn("AssertionError", packing.run(python, "-c", VALIDATE, broken, self.spdx_file, check=False))

    def test_a_file_of_which_nothing_is_known(self):
        folder = self.copy()
        (folder / "gpulens-foreign.deb").write_bytes(b"x")
        self.assertIn("nothing says what is inside", self.seal(folder, code=1))

    def test_signed(self):
        if not shutil.which("gpg"):
            self.skipTest("no gpg here")
        folder, key = self.copy(), self.key()
        self.seal(folder, "--sign", key)
        home = self.folder()
        home.chmod(0o700)
        reader = {**os.environ, "GNUPGHOME": str(home)}
        self.addCleanup(subprocess.run, ["gpgconf", "--kill", "all"], env=reader, check=False)
        packing.run("gpg", "--batch", "--import", folder / "gpulens-key.asc", env=reader)
        self.assertIn("PUBLIC KEY", (folder / "gpulens-key.asc").read_text())
        verify = ("gpg", "--batch", "--verify", folder / "SHA256SUMS.asc", folder / "SHA256SUMS")
        self.assertIn("Good signature", packing.run(*verify, env=reader))
        packing.run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=folder)
        for path in folder.glob("*.rpm"):
            database = self.folder()
            packing.run("rpmkeys", "--dbpath", database, "--import", folder / "gpulens-key.asc")
            self.assertRegex(packing.run("rpmkeys", "--dbpath", database, "-Kv", path), r"Signature, key ID [0-9a-f]+: OK")
        sums = folder / "SHA256SUMS"
        sums.write_text(sums.read_text().replace("0", "1", 1))
        self.assertIn("BAD signature", packing.run(*verify, check=False, env=reader))
        self.seal(folder)
        self.assertFalse((folder / "SHA256SUMS.asc").exists(), "a signature of other sums")

    def test_keys_that_cannot_sign(self):
        if not shutil.which("gpg"):
            self.skipTest("no gpg here")
        folder = self.copy()
        before = (folder / "SHA256SUMS").read_bytes()
        self.assertIn("must have no passphrase", self.seal(folder, "--sign", self.key("secret"), code=1))
        self.assertIn("is not a file", self.seal(folder, "--sign", folder / "none", code=1))
        self.assertIn("gpg cannot read", self.seal(folder, "--sign", folder / "SHA256SUMS", code=1))
        self.assertEqual((folder / "SHA256SUMS").read_bytes(), before)


if __name__ == "__main__":
    unittest.main()
