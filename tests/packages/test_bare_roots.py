"""The packages in bare systems that tools/prepare_roots.sh makes: what is missing there is missing for users, too."""
import base64
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

import packing

sys.path.insert(0, str(packing.ROOT / "tests/e2e"))
from agent import wait_until  # noqa: E402
from own_network import own_network  # noqa: E402

ROOTS = packing.ROOT / "build" / "roots"
# bcrypt of "secret" with the least cost.
WEB_CONFIG = "basic_auth_users: {alice: $2y$04$q5LhxlxD4e07/Nmn6a1ia.7Gs7jiUZ9w0Nru8eXqbVxxAlma4IeJK}\n"


class BareRoot:
    """A root and its processes, which see no others."""

    def __init__(self, folder):
        self.folder = folder

    def command(self, *words):
        inside = 'mount -t proc proc /proc && exec "$@"'
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "chroot", self.folder, "sh", "-c", inside, "sh", *words]

    def run(self, *words, code=0):
        done = subprocess.run(
            self.command(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root"},
        )
        if done.returncode != code:
            raise AssertionError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout[-2000:]}")
        return done.stdout

    @contextlib.contextmanager
    def agent(self, *options):
        """A demo agent at port 9091 of the network namespace that the caller is in."""
        process = subprocess.Popen(
            self.command("gpulens", "agent", "--demo", *options), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            yield process
        finally:
            process.kill()  # unshare ignores other signals; --kill-child ends the agent
            process.communicate(timeout=30)

    def write(self, path, text):
        file = self.folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def page(path="/metrics", password=None):
    """(status, text) of the agent's answer, once it has read something: before that it answers 503."""
    request = urllib.request.Request(f"http://127.0.0.1:9091{path}")
    if password:
        request.add_header("Authorization", "Basic " + base64.b64encode(f"alice:{password}".encode()).decode())

    def get():
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return (error.code, "") if error.code != 503 else None
        except OSError:
            return None

    return wait_until(get, 30)


class InBareRoot:
    suite = None

    @classmethod
    def setUpClass(cls):
        folder, why = ROOTS / cls.suite, ROOTS / f"{cls.suite}.why"
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root, for chroot")
        if not (folder / "made").exists():
            reason = why.read_text().strip() if why.exists() else "tools/prepare_roots.sh makes it"
            raise unittest.SkipTest(f"{cls.suite}: {reason}")
        cls.root = BareRoot(folder)
        cls.root.run("dpkg", "--purge", "gpulens")  # of a run that was interrupted
        shutil.copy(packing.package("gpulens_*.deb"), folder / "tmp/gpulens.deb")
        cls.root.run("dpkg", "--install", "/tmp/gpulens.deb")

    @classmethod
    def tearDownClass(cls):
        cls.root.run("dpkg", "--purge", "gpulens")
        left = [name for name in ("usr/bin/gpulens", "etc/gpulens/gpulens.yaml", "usr/share/doc/gpulens", "var/lib/gpulens") if (cls.root.folder / name).exists()]
        if left:
            raise AssertionError(f"purge leaves {left}")

    def test_commands(self):
        self.assertEqual(self.root.run("gpulens", "--version").split()[:2], ["gpulens", packing.version()])
        self.assertRegex(self.root.run("gpulens", "collect", "nvidia", "--demo", "--once"), r"gpu\.devices nvidia +8\n")
        self.root.run("gpulens", "config", "check", "/etc/gpulens/gpulens.yaml")
        self.assertIn("GPU", self.root.run("gpulens", "doctor", "--demo"))

    def test_the_agent_serves_its_page(self):
        with own_network(), self.root.agent() as agent:
            wait_until(lambda: "gpu_power_draw_watts{" in page()[1], 30, "a GPU on the page")
            self.assertIsNone(agent.poll())
            self.assertEqual(page("/-/ready")[0], 200)

    def test_passwords_need_libcrypt_of_the_system(self):
        self.root.write("/tmp/web.yml", WEB_CONFIG)
        self.root.write("/tmp/gpulens.yml", "http: {web_config: /tmp/web.yml}\n")
        options = ("--config", "/tmp/gpulens.yml")
        with own_network(), self.root.agent(*options):
            self.assertEqual(page(password="secret")[0], 200)
            self.assertEqual(page(password="other")[0], 401)
            self.assertEqual(page()[0], 401)
        libraries = list(self.root.folder.glob("usr/lib/*/libcrypt.so.*"))
        self.assertTrue(libraries)
        away = self.root.folder / "tmp/libcrypt"
        away.mkdir(exist_ok=True)
        try:
            for library in libraries:
                library.rename(away / library.name)
            with own_network(), self.root.agent(*options) as agent:
                text = agent.communicate(timeout=30)[0]
            self.assertNotEqual(agent.returncode, 0)
            self.assertIn("needs libcrypt (Debian: libcrypt1", text)
        finally:
            for library in libraries:
                (away / library.name).rename(library)

    def test_the_archive_for_usr_local(self):
        archive = packing.package("gpulens-[0-9]*.tar.gz")
        local = self.root.folder / "usr/local"
        packing.run("tar", "-xzf", archive, "-C", local, "--strip-components=1")
        try:
            self.assertIn(packing.version(), self.root.run("/usr/local/bin/gpulens", "--version"))
        finally:
            for name in packing.run("tar", "-tzf", archive).splitlines():
                path = local / pathlib.Path(*pathlib.Path(name).parts[1:])
                if path.is_file():
                    path.unlink()

    def test_the_service_is_enabled(self):
        self.assertTrue((self.root.folder / "etc/systemd/system/multi-user.target.wants/gpulens.service").is_symlink())


for name in ("bookworm", "trixie", "jammy", "noble"):
    globals()[f"In_{name}"] = type(f"In_{name}", (InBareRoot, unittest.TestCase), {"suite": name})

if __name__ == "__main__":
    unittest.main()
