"""The rehearsal of a release: what is pushed, signed and checked; that each change of it is found; and the install lines of README.md and
docs/install.md with these files in a bare Debian 12. Packs everything once: some minutes."""
import contextlib
import http.server
import io
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

import packing

sys.path.insert(0, str(packing.ROOT / "tools"))
import release  # noqa: E402
import sbom  # noqa: E402
from test_bare_roots import ROOTS, BareRoot, page  # noqa: E402
from agent import wait_until  # noqa: E402
from own_network import own_network  # noqa: E402

WORK = packing.ROOT / "build/release_test"
DIST = WORK / "dist"
WHEELS = "import pathlib, sys; sys.path.insert(0, 'tools'); import package_wheels as p; p.DIST = pathlib.Path(sys.argv[1]); sys.exit(p.main(sys.argv[2:]))"


def new_key(name):
    """The file of a new secret OpenPGP key."""
    with tempfile.TemporaryDirectory(prefix="gpulens-key-") as home:
        environment = {**os.environ, "GNUPGHOME": home}
        gpg = ("gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "")
        packing.run(*gpg, "--quick-generate-key", f"{name} <{name}@gpulens.invalid>", "ed25519", "sign", "never", env=environment)
        secret = packing.run(*gpg, "--export-secret-keys", "--armor", env=environment)
        subprocess.run(["gpgconf", "--kill", "all"], env=environment, check=False)
    path = WORK / f"{name}.key"
    path.write_text(secret)
    path.chmod(0o600)
    return path


def tool(name, *words):
    return packing.run(sys.executable, packing.ROOT / "tools" / name, *words, cwd=packing.ROOT, timeout=900)


class Release(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for program in ("skopeo", "gpg", "dpkg-deb", "unshare"):
            if not shutil.which(program):
                raise unittest.SkipTest(f"no {program} here; ./dev test --peers installs it")
        for path, maker in ((release.HELM, "tools/prepare_go_peers.sh helm"), (release.REGISTRY, "tools/prepare_peers.sh --registry")):
            if not path.exists():
                raise unittest.SkipTest(f"no {path.name} here; {maker} makes it")
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
        packing.run(packing.ROOT / "tools/package.sh", DIST, timeout=900)
        (deb,) = DIST.glob("gpulens_*.deb")
        tool("image.py", "--folder", DIST, deb)
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        cls.wheels = packing.run(sys.executable, "-c", WHEELS, DIST, python, cwd=packing.ROOT, timeout=1800, check=False)
        tool("release.py", "chart", DIST)
        cls.key = new_key("signer")
        tool("package_seal.py", DIST, "--sign", cls.key)
        cls.printed = tool("release.py", "rehearse", DIST, "--key", cls.key)

    def copy(self):
        folder = tempfile.TemporaryDirectory(prefix="gpulens-dist-", dir=WORK)
        self.addCleanup(folder.cleanup)
        return pathlib.Path(shutil.copytree(DIST, pathlib.Path(folder.name) / "dist"))

    def refused(self, folder, address="127.0.0.1:1", public=DIST / "gpulens-key.asc"):
        """The reason for which a folder and a registry are refused."""
        with contextlib.redirect_stdout(io.StringIO()), self.assertRaises(release.Failed) as found:
            release.verify(folder, address, public)
        return str(found.exception)

    def test_what_was_done(self):
        for pattern in (
            rf"tag v{sbom.version()} on [0-9a-f]{{12}}, signed",
            r"pushed 127\.0\.0\.1:\d+/gpulens@sha256:",
            r"pushed 127\.0\.0\.1:\d+/charts/gpulens@sha256:",
            r"SHA256SUMS: signed by the key of gpulens-key\.asc",
            r"provenance\.json: signed by the key",
            r"image: pulled by digest, unpacked, gpulens runs in it",
            r"chart: pulled by digest, the same bytes",
            r"_\w+\.deb: runs with the C library alone",
            r"tar\.gz: runs with the C library alone",
            r"nothing was published",
        ):
            self.assertRegex(self.printed, pattern)
        self.assertEqual(packing.run("git", "tag", "--list", f"v{sbom.version()}", cwd=packing.ROOT), "", "the checkout got a tag")

    def test_provenance_names_source_and_packages(self):
        statement = json.loads(release.provenance_of(DIST).read_text())
        names = {subject["name"] for subject in statement["subject"]}
        self.assertEqual({"gpulens", "charts/gpulens"} & names, {"gpulens", "charts/gpulens"})
        files = {path.name for path in DIST.iterdir()} - {release.provenance_of(DIST).name, release.provenance_of(DIST).name + ".asc"}
        self.assertEqual(files - names, set())
        source, *others = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
        self.assertEqual(source["digest"]["gitCommit"], packing.run("git", "rev-parse", "HEAD", cwd=packing.ROOT).strip())
        libc = [one for one in others if "/libc6@" in one["uri"]]
        self.assertRegex(libc[0]["digest"]["sha256"], "^[0-9a-f]{64}$")
        self.assertTrue(any("libssl-dev" in one["uri"] for one in others))

    def test_a_changed_file_is_found(self):
        folder = self.copy()
        (deb,) = folder.glob("gpulens_*.deb")
        data = bytearray(deb.read_bytes())
        data[len(data) // 2] ^= 1
        deb.write_bytes(data)
        self.assertIn(f"{deb.name} was changed after SHA256SUMS was written", self.refused(folder))
        # With its new sum the signature no longer fits.
        sums = folder / "SHA256SUMS"
        sums.write_text(re.sub(rf"^\w+(?=  {re.escape(deb.name)}$)", sbom.sha256(deb), sums.read_text(), flags=re.MULTILINE))
        self.assertIn("SHA256SUMS.asc is not a signature of SHA256SUMS", self.refused(folder))

    def test_a_changed_provenance_is_found(self):
        folder = self.copy()
        path = release.provenance_of(folder)
        path.write_text(path.read_text().replace('"changed"', '"Changed"'))
        self.assertIn(f"is not a signature of {path.name}", self.refused(folder))

    def test_a_file_that_is_missing_or_not_listed_is_found(self):
        folder = self.copy()
        (folder / "more.txt").write_text("more")
        self.assertIn("more.txt is not in SHA256SUMS", self.refused(folder))
        (folder / "more.txt").unlink()
        (rest,) = folder.glob("gpulens-dev_*.deb")
        rest.unlink()
        self.assertIn(f"{rest.name} is in SHA256SUMS and not here", self.refused(folder))

    def test_another_key_is_refused(self):
        other = new_key("other")
        self.assertIn("is not a signature of SHA256SUMS by the key of other.key", self.refused(self.copy(), public=other))
        folder = self.copy()
        (folder / "SHA256SUMS.asc").unlink()
        self.assertIn("SHA256SUMS is not signed", self.refused(folder))

    def test_a_registry_that_is_down_or_lies_is_refused(self):
        self.assertIn("does not answer", self.refused(DIST))
        with self.assertRaises(release.Failed):
            release.push(DIST, "127.0.0.1:1")

        class Liar(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b'{"manifests": []}')

            def log_message(self, *_):
                pass

        with http.server.HTTPServer(("127.0.0.1", 0), Liar) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.assertIn("the registry sent other bytes", self.refused(DIST, f"127.0.0.1:{server.server_port}"))
            server.shutdown()

    def dev(self, *words):
        done = subprocess.run([packing.ROOT / "dev", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        return done.returncode, done.stdout

    def test_a_key_that_is_missing_ends_it_before_anything_is_built(self):
        code, printed = self.dev("release", "--dry-run", "--key", "/nonexistent/key")
        self.assertEqual(code, 1)
        self.assertIn('"/nonexistent/key" is not a file', printed)
        self.assertNotIn("[2/", printed)

    def test_without_a_rehearsal_it_reports_what_is_needed(self):
        code, printed = self.dev("release")
        self.assertEqual(code, 1)
        for word in ("registry", "key", "tag"):
            self.assertIn(word, printed)

    # --- the lines that users type ---------------------------------------------------------------

    def lines(self, page):
        """The command lines of a page: indented or between backticks where a sentence has them."""
        text = (packing.ROOT / page).read_text()
        found = [line.strip() for line in re.findall(r"^    (\S.*)$", text, re.MULTILINE)]
        return found + re.findall(r"`((?:apt|pip|dnf|tar) [^`]+)`", text)

    def bare_root(self):
        if os.geteuid() != 0 or not (ROOTS / "bookworm/made").exists():
            self.skipTest("needs root and build/roots/bookworm; tools/prepare_roots.sh makes it")
        folder = tempfile.TemporaryDirectory(prefix="root-", dir=WORK)
        self.addCleanup(folder.cleanup)
        packing.run("cp", "-a", ROOTS / "bookworm", f"{folder.name}/root")
        root = BareRoot(pathlib.Path(folder.name) / "root")
        shutil.copytree(DIST, root.folder / "root/dist")
        return root

    def typed(self, root, line):
        return root.run("sh", "-c", f"cd /root/dist && {line}")

    def test_lines_for_debian(self):
        (line,) = [line for line in self.lines("docs/install.md") if re.match(r"apt install \./gpulens_", line)]
        root = self.bare_root()
        self.typed(root, line.replace("apt install", "apt install --yes"))
        self.assertIn(sbom.version(), root.run("gpulens", "version"))
        with own_network(), root.agent():
            wait_until(lambda: "gpu_power_draw_watts{" in page()[1], 30, "a GPU on the page")

    def test_lines_for_the_archive(self):
        lines = [line for line in self.lines("docs/install.md") if re.match(r"tar .* -C /usr/local|mkdir ", line)]
        self.assertEqual(len(lines), 2)
        root = self.bare_root()
        for line in lines:
            self.typed(root, line)
        self.assertIn(sbom.version(), root.run("/usr/local/bin/gpulens", "version"))
        root.run("/usr/local/bin/gpulens", "config", "check", "/etc/gpulens/gpulens.yaml")

    def test_line_for_the_python_package(self):
        (line,) = [line for line in self.lines("README.md") if line.startswith("pip install gpulens")]
        if not list(DIST.glob("*.whl")):
            self.skipTest(f"no wheel of this Python: {self.wheels[-300:]}")
        environment = WORK / "venv"
        packing.run(sys.executable, "-m", "venv", "--clear", environment)
        packing.run(environment / "bin/python", "-m", *shlex.split(line), "--disable-pip-version-check", cwd=WORK)
        self.assertEqual(packing.run(environment / "bin/python", "-c", "import gpulens; print(gpulens.__version__)").strip(), sbom.version())

    def test_every_file_that_a_page_names_is_there(self):
        names = {path.name for path in DIST.iterdir()}
        for page_name in ("README.md", "docs/install.md", "docs/image.md"):
            for line in self.lines(page_name):
                for name in re.findall(rf"(?:dist/|\./|^tar -xzf )(gpulens[\w.+-]*{re.escape(sbom.version())}[\w.+-]*)", line):
                    self.assertIn(name, names, f"{page_name}: {line}")


if __name__ == "__main__":
    unittest.main()
