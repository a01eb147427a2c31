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
import queue_files  # noqa: E402
from agent import wait_until  # noqa: E402
from http_stub import HttpStub  # noqa: E402
from own_network import own_network  # noqa: E402

ROOTS = packing.ROOT / "build" / "roots"
# bcrypt of "secret" with the least cost.
WEB_CONFIG = "basic_auth_users: {alice: $2y$04$q5LhxlxD4e07/Nmn6a1ia.7Gs7jiUZ9w0Nru8eXqbVxxAlma4IeJK}\n"


class BareRoot:
    """A root and its processes, which see no others."""

    def __init__(self, folder):
        self.folder = folder

    def command(self, *words, before=":"):
        """`before`: what root does first, in mounts that only this command sees."""
        inside = f'mount -t proc proc /proc && {before} && exec "$@"'
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "chroot", self.folder, "sh", "-c", inside, "sh", *words]

    def run(self, *words, code=0, before=":"):
        done = subprocess.run(
            self.command(*words, before=before), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, stdin=subprocess.DEVNULL,
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root"},
        )
        if done.returncode != code:
            raise AssertionError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout[-2000:]}")
        return done.stdout

    @contextlib.contextmanager
    def agent(self, *options, before=":"):
        """A demo agent at port 9091 of the network namespace that the caller is in."""
        with self.started("gpulens", "agent", "--demo", *options, before=before) as process:
            yield process

    @contextlib.contextmanager
    def started(self, *words, before=":"):
        process = subprocess.Popen(
            self.command(*words, before=before), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            yield process
        finally:
            process.kill()  # unshare ignores other signals; --kill-child ends the agent
            process.communicate(timeout=30)

    def path(self, path):
        return self.folder / path.lstrip("/")

    def write(self, path, text):
        file = self.path(path)
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


def root_of(suite):
    folder, why = ROOTS / suite, ROOTS / f"{suite}.why"
    if os.geteuid() != 0:
        raise unittest.SkipTest("needs root, for chroot")
    if not (folder / "made").exists():
        reason = why.read_text().strip() if why.exists() else "tools/prepare_roots.sh makes it"
        raise unittest.SkipTest(f"{suite}: {reason}")
    return BareRoot(folder)


class InBareRoot:
    suite = None

    @classmethod
    def setUpClass(cls):
        cls.root = root_of(cls.suite)
        cls.root.run("dpkg", "--purge", "gpulens")  # of a run that was interrupted
        shutil.copy(packing.package("gpulens_*.deb"), cls.root.path("/tmp/gpulens.deb"))
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


CONFIG, STATE = "/etc/gpulens/gpulens.yaml", "/var/lib/gpulens"
KEPT = packing.ROOT / "tests/e2e/data/queue_0_1_0/own/otlp"


def unit_command():
    """The words by which systemd would start the agent."""
    unit = (packing.ROOT / "deploy/gpulens.service").read_text()
    return next(line for line in unit.splitlines() if line.startswith("ExecStart=")).removeprefix("ExecStart=").split()


class Receiver(HttpStub):
    """Takes what a sink sends."""

    def __init__(self):
        self.bodies = []
        super().__init__(lambda _, body: (self.bodies.append(body) or 200, {}, b""), protocol="HTTP/1.1")


class Administered:
    """What an administrator does, and what happens to one: each test begins without the package. Subclasses install and remove."""

    suite = None

    def setUp(self):
        self.root = root_of(self.suite)
        self.clean()
        self.addCleanup(self.clean)

    def exists(self, path):
        return os.path.lexists(self.root.path(path))

    def remove_user(self):
        """Of an installation before, which leaves it."""
        if "\ngpulens:" in self.root.path("/etc/passwd").read_text():
            self.root.run("userdel", "gpulens")

    def waiting_queue(self):
        """Puts a queue in place that an older version left, and returns its requests."""
        folder = self.root.path(f"{STATE}/queue/otlp")
        shutil.copytree(KEPT, folder)
        waiting = [record.body for record in queue_files.waiting(folder)]
        self.assertGreaterEqual(len(waiting), 5)
        return waiting

    def check_delivery(self, config):
        """The new version is started as its unit does; it sends what waited, in order."""
        waiting = [record.body for record in queue_files.waiting(self.root.path(f"{STATE}/queue/otlp"))]
        with own_network(), Receiver() as receiver:
            self.root.write(CONFIG, config.replace("ENDPOINT", receiver.origin))
            with self.root.started(*unit_command()):
                wait_until(lambda: len(receiver.bodies) > len(waiting), 30, "what waited, and something new")
                self.assertEqual(page("/-/ready")[0], 200)
        self.assertEqual(receiver.bodies[: len(waiting)], waiting)

    # Of the administrator's hand; the receiver's port is filled in when it is known.
    MINE = (f"# mine\ninterval: 200ms\nstate_dir: {STATE}\n"
            "sinks: {otlp: {endpoint: 'ENDPOINT', interval: 200ms, include: ['gpulens.tick.*']}}\n")  # fmt: skip


class Debian(Administered):
    def clean(self):
        self.root.run("dpkg", "--purge", "gpulens")
        self.remove_user()
        for path in (STATE, "/etc/gpulens"):
            shutil.rmtree(self.root.path(path), ignore_errors=True)

    def package(self, version=None, config=None):
        """Path in the root of the package, or of one that is the same but for its version and configuration."""
        made = packing.package("gpulens_*.deb")
        to = self.root.path(f"/tmp/gpulens{version or ''}.deb")
        self.addCleanup(to.unlink, missing_ok=True)
        if version is None:
            shutil.copy(made, to)
        else:
            work = packing.WORK / "older"
            shutil.rmtree(work, ignore_errors=True)
            packing.run("dpkg-deb", "-R", made, work)
            control = work / "DEBIAN/control"
            control.write_text(control.read_text().replace(f"Version: {packing.version()}", f"Version: {version}"))
            if config:
                (work / CONFIG.lstrip("/")).write_text(config)
            # No test needs the pages, which take most of the time.
            shutil.rmtree(work / "usr/share/doc/gpulens/docs")
            packing.run("dpkg-deb", "-Zgzip", "-z1", "-b", work, to)
        return f"/tmp/{to.name}"

    def state(self):
        return self.root.run("dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", "gpulens").split()

    def test_an_upgrade_keeps_the_configuration_and_delivers_the_queue(self):
        self.root.run("dpkg", "--install", self.package("0.0.9"))
        self.root.write(CONFIG, self.MINE)
        self.waiting_queue()
        printed = self.root.run("dpkg", "--install", self.package())
        self.assertNotIn("gpulens.yaml", printed, "no question")
        self.assertEqual(self.state(), ["installed", packing.version()])
        self.assertEqual(self.root.path(CONFIG).read_text(), self.MINE)
        self.check_delivery(self.MINE)

    def test_a_default_that_changed_comes_next_to_the_kept_configuration(self):
        self.root.run("dpkg", "--install", self.package("0.0.9", config="# older\ninterval: 5s\n"))
        self.root.write(CONFIG, "# mine\ninterval: 3s\n")
        self.root.run("dpkg", "--force-confold", "--install", self.package())
        self.assertEqual(self.root.path(CONFIG).read_text(), "# mine\ninterval: 3s\n")
        self.assertIn("interval: 1s", self.root.path(CONFIG + ".dpkg-dist").read_text())

    def test_remove_keeps_what_purge_takes(self):
        self.root.run("dpkg", "--install", self.package())
        self.root.write(CONFIG, self.MINE)
        self.root.write("/etc/gpulens/web.yml", "{}\n")
        self.waiting_queue()
        enabled = "/etc/systemd/system/multi-user.target.wants/gpulens.service"
        self.assertTrue(self.exists(enabled))
        self.root.run("dpkg", "--remove", "gpulens")
        self.assertFalse(self.exists("/usr/bin/gpulens"))
        self.assertEqual(self.root.path(CONFIG).read_text(), self.MINE)
        self.assertTrue(self.exists(f"{STATE}/queue/otlp/position"))
        self.root.run("dpkg", "--install", self.package())
        self.assertEqual(self.root.path(CONFIG).read_text(), self.MINE)
        self.assertTrue(self.exists(enabled))
        self.assertFalse(self.exists("/etc/systemd/system/gpulens.service"), "no mask is left")
        self.check_delivery(self.MINE)
        self.root.run("dpkg", "--purge", "gpulens")
        for path in (STATE, CONFIG, enabled, "/usr/share/doc/gpulens", "/etc/systemd/system/gpulens.service"):
            self.assertFalse(self.exists(path), path)
        self.assertTrue(self.exists("/etc/gpulens/web.yml"), "the administrator's own file")

    def test_a_service_that_was_disabled_stays_so(self):
        enabled = self.root.path("/etc/systemd/system/multi-user.target.wants/gpulens.service")
        self.root.run("dpkg", "--install", self.package("0.0.9"))
        enabled.unlink()  # as systemctl disable does
        self.root.run("dpkg", "--install", self.package())
        self.assertFalse(os.path.lexists(enabled))

    def test_a_full_disk(self):
        self.root.run("dpkg", "--install", self.package("0.0.9"))
        self.root.write(CONFIG, self.MINE)
        new = self.package()
        # The pages fill the little that is left.
        printed = self.root.run("dpkg", "--install", new, code=1, before="mount -t tmpfs -o size=256k tmpfs /usr/share/doc")
        self.assertIn("No space left on device", printed)
        self.assertIn("0.0.9", self.state(), "the older one is still there")
        self.assertIn(packing.version(), self.root.run("gpulens", "--version"), "and runs")
        self.assertEqual(self.root.path(CONFIG).read_text(), self.MINE)
        self.root.run("dpkg", "--install", new)
        self.assertEqual(self.state(), ["installed", packing.version()])
        self.assertEqual(self.root.path(CONFIG).read_text(), self.MINE)

    def test_etc_that_cannot_be_written(self):
        read_only = "mount --bind /etc /etc && mount -o remount,ro,bind /etc"
        new = self.package()
        self.assertIn("Read-only file system", self.root.run("dpkg", "--install", new, code=1, before=read_only))
        self.root.run("dpkg", "--install", new)
        self.assertEqual(self.state(), ["installed", packing.version()])

    def test_it_runs_in_a_system_that_cannot_be_written(self):
        self.root.run("dpkg", "--install", self.package())
        everything = "mount --bind / /mnt && mount -o remount,ro,bind /mnt && mount -t proc proc /mnt/proc"
        with own_network(), self.root.started("chroot", "/mnt", *unit_command(), before=everything) as agent:
            self.assertEqual(page("/-/ready")[0], 200)
            self.assertIn("gpulens_build_info", page()[1])
            self.assertIsNone(agent.poll())

    def test_an_account_of_the_same_name_is_left_alone(self):
        self.root.run("useradd", "--create-home", "--home-dir", "/home/gpulens", "gpulens")
        self.addCleanup(self.root.run, "userdel", "--force", "--remove", "gpulens")
        self.root.write("/home/gpulens/notes", "mine\n")
        before = self.root.path("/etc/passwd").read_text()
        self.root.run("dpkg", "--install", self.package())
        self.root.run("gpulens", "config", "check", CONFIG)
        self.assertEqual(self.root.path("/etc/passwd").read_text(), before)
        self.root.run("dpkg", "--purge", "gpulens")
        self.assertEqual(self.root.path("/etc/passwd").read_text(), before)
        self.assertEqual(self.root.path("/home/gpulens/notes").read_text(), "mine\n")

    def test_the_user_is_made_and_stays(self):
        self.root.run("dpkg", "--install", self.package())
        made = self.root.run("getent", "passwd", "gpulens").split(":")
        self.assertEqual(made[4:], ["gpulens telemetry agent", "/var/lib/gpulens", "/usr/sbin/nologin\n"])
        self.assertLess(int(made[2]), 1000, "a user of the system")
        self.assertFalse(self.exists("/etc/systemd/system/sockets.target.wants/gpulens.socket"), "the sockets are for an administrator to enable")
        self.root.run("dpkg", "--purge", "gpulens")
        self.assertEqual(self.root.run("getent", "passwd", "gpulens").split(":"), made)

    def test_state_on_another_disk(self):
        self.root.path("/tmp/disk").mkdir(exist_ok=True)
        self.addCleanup(shutil.rmtree, self.root.path("/tmp/disk"))
        self.root.write("/tmp/disk/events.db", "x")
        self.root.path(STATE).symlink_to("/tmp/disk")
        self.root.run("dpkg", "--install", self.package())
        self.root.run("dpkg", "--purge", "gpulens")
        self.assertFalse(self.exists(STATE))
        self.assertTrue(self.exists("/tmp/disk/events.db"), "purge follows no link")


SPEC = """
Name: gpulens
Version: 0.0.9
Release: 1
Summary: Older
License: Apache-2.0
BuildArch: %{_target_cpu}
%define __os_install_post %{nil}
%description
Older
%install
mkdir -p %{buildroot}/etc/gpulens %{buildroot}/usr/bin
echo 'interval: 5s' > %{buildroot}/etc/gpulens/gpulens.yaml
echo older > %{buildroot}/usr/bin/gpulens
%files
%config(noreplace) /etc/gpulens/gpulens.yaml
/usr/bin/gpulens
"""


class Rpm(Administered, unittest.TestCase):
    """rpm of this machine, on a root of Debian 12, as no repository of an RPM distribution is at hand: what the scripts and the
    list of files do is seen; whether a distribution's own libraries suffice is not."""

    suite = "bookworm"
    DATABASE = "/tmp/rpmdb"

    def setUp(self):
        if not shutil.which("rpmbuild"):
            self.skipTest("no rpmbuild here")
        super().setUp()

    def clean(self):
        root = self.root
        if self.exists(self.DATABASE):
            self.rpm("-e", "gpulens", check=False)
        self.remove_user()
        for path in (STATE, "/etc/gpulens", self.DATABASE, "/usr/share/doc/gpulens", "/usr/bin/gpulens"):
            shutil.rmtree(root.path(path), ignore_errors=True)

    def rpm(self, *words, **options):
        return packing.run("rpm", "--root", self.root.folder, "--dbpath", self.DATABASE, "--nodeps", *words, **options)

    def older(self):
        work = packing.WORK / "older_rpm"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        (work / "gpulens.spec").write_text(SPEC)
        packing.run("rpmbuild", "-bb", "--define", f"_topdir {work}", work / "gpulens.spec")
        (made,) = work.rglob("*.rpm")
        return made

    def test_upgrade_and_erase(self):
        new = packing.package("gpulens-[0-9]*.rpm")
        self.rpm("-i", self.older())
        self.root.write(CONFIG, self.MINE)
        self.waiting_queue()
        self.rpm("-U", new)
        self.assertIn(packing.version(), self.root.run("gpulens", "--version"))
        self.assertEqual(self.root.path(CONFIG).read_text(), self.MINE)
        self.assertIn("interval: 1s", self.root.path(CONFIG + ".rpmnew").read_text())
        self.assertEqual(self.rpm("-V", "gpulens", check=False).split()[-1], CONFIG, "nothing else differs")
        self.check_delivery(self.MINE)
        self.assertIn("\ngpulens:", self.root.path("/etc/passwd").read_text())
        self.rpm("-e", "gpulens")
        self.assertFalse(self.exists("/usr/bin/gpulens"))
        self.assertTrue(self.root.path(CONFIG + ".rpmsave").read_text().startswith("# mine"))
        self.assertTrue(self.exists(STATE))

    def test_an_untouched_configuration_goes(self):
        self.rpm("-i", packing.package("gpulens-[0-9]*.rpm"))
        self.root.run("gpulens", "config", "check", CONFIG)
        self.rpm("-e", "gpulens")
        for path in ("/etc/gpulens", "/usr/share/doc/gpulens", "/usr/share/gpulens", "/usr/share/man/man5/gpulens.yaml.5.gz"):
            self.assertFalse(self.exists(path), path)

    def test_all_three_packages_together(self):
        self.rpm("-i", *sorted(packing.packages().glob("*.rpm")))
        self.assertEqual(self.rpm("-Va").strip(), "")
        self.rpm("-e", "gpulens-devel", "gpulens-debuginfo")
        self.assertFalse(self.exists("/usr/lib/debug/.build-id"))
        self.assertTrue(self.exists("/usr/bin/gpulens"))


for name in ("bookworm", "trixie", "jammy", "noble"):
    globals()[f"In_{name}"] = type(f"In_{name}", (InBareRoot, unittest.TestCase), {"suite": name})
    globals()[f"Administered_{name}"] = type(f"Administered_{name}", (Debian, unittest.TestCase), {"suite": name})

if __name__ == "__main__":
    unittest.main()
