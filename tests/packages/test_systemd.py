"""The real unit under a real systemd: process 1 of namespaces of its own, in a root that tools/prepare_roots.sh makes."""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import packing

sys.path.insert(0, str(packing.ROOT / "tests/e2e"))
from agent import value, wait_until  # noqa: E402

MADE = packing.ROOT / "build" / "roots" / "bookworm-systemd"
CONTROL_GROUPS = (pathlib.Path("/sys/fs/cgroup/unified"), pathlib.Path("/sys/fs/cgroup"))
# Runs as process 1 of the new namespaces until systemd takes over.
BOOT = """
set -e
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
for folder in run dev tmp; do mount -t tmpfs -o mode=755 tmpfs $folder; done
for device in null zero full random urandom tty kmsg; do touch dev/$device; mount --bind /dev/$device dev/$device; done
mkdir dev/pts dev/shm old
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
pivot_root . old
umount -l old
export container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin
exec /lib/systemd/systemd --system --show-status=0 --log-target=null
"""
# As the package of 0.1 had it.
OLDER_UNIT = """[Service]
Type=notify
ExecStart=/usr/bin/gpulens agent --config /etc/gpulens/gpulens.yaml
DynamicUser=yes
User=gpulens
StateDirectory=gpulens
RuntimeDirectory=gpulens
[Install]
WantedBy=multi-user.target
"""
OLDER_POSTINST = "#!/bin/sh\nsystemctl daemon-reload\nsystemctl enable --now gpulens.service\n"


class Booted:
    """systemd in a copy of the root; `run` executes in its namespaces."""

    def __init__(self, root):
        self.root = root
        groups = next((folder for folder in CONTROL_GROUPS if (folder / "cgroup.controllers").exists()), None)
        if not groups:
            raise unittest.SkipTest("no control groups v2 here")
        self.group = groups / f"gpulens-test-{os.getpid()}"
        try:
            self.group.mkdir()
        except OSError as error:
            raise unittest.SkipTest(f"no control group can be made: {error.strerror}") from None
        enter = f"echo $$ > {self.group}/cgroup.procs && exec unshare --mount --pid --uts --ipc --net --cgroup --fork --kill-child bash -c '{BOOT}' sh {root}"
        self.outer = subprocess.Popen(["bash", "-c", enter], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.pid = wait_until(self.first, 30, "process 1")
        wait_until(lambda: self.run("systemctl", "is-system-running", check=False).strip() in ("running", "degraded"), 60, "systemd")
        packing.run("nsenter", "-t", str(self.pid), "-n", "ip", "link", "set", "lo", "up")

    def first(self):
        children = pathlib.Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children").read_text().split()
        for child in children:
            if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                return int(child)
        if self.outer.poll() is not None:
            raise unittest.SkipTest("systemd cannot be process 1 here: " + self.outer.stdout.read().decode()[-300:])
        return None

    def run(self, *words, check=True):
        return packing.run("nsenter", "-t", str(self.pid), "-a", *words, check=check, timeout=60, stdin=subprocess.DEVNULL)

    def shell(self, text, check=True):
        return self.run("sh", "-c", text, check=check)

    def end(self):
        self.outer.kill()  # --kill-child ends process 1, and with it all others of its namespace
        self.outer.communicate(timeout=30)
        for folder in sorted(self.group.rglob("*"), reverse=True):
            if folder.is_dir():
                wait_until(lambda folder=folder: not (folder / "cgroup.procs").read_text(), 10, "the end of its processes")
                folder.rmdir()
        self.group.rmdir()


class Unit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root, for namespaces")
        if not (MADE / "made").exists():
            why = MADE.with_suffix(".why")
            raise unittest.SkipTest(why.read_text().strip() if why.exists() else "no build/roots/bookworm-systemd: tools/prepare_roots.sh makes it")
        made = packing.package("gpulens_*.deb")
        root = packing.WORK / "systemd_root"
        shutil.rmtree(root, ignore_errors=True)
        packing.run("cp", "-a", "--reflink=auto", MADE, root)
        cls.addClassCleanup(shutil.rmtree, root, ignore_errors=True)
        shutil.copy(made, root / "root/new.deb")
        older = packing.WORK / "older_systemd"
        shutil.rmtree(older, ignore_errors=True)
        packing.run("dpkg-deb", "-R", made, older)
        control = older / "DEBIAN/control"
        control.write_text(control.read_text().replace(f"Version: {packing.version()}", "Version: 0.0.9"))
        (older / "DEBIAN/postinst").write_text(OLDER_POSTINST)
        (older / "usr/lib/systemd/system/gpulens.service").write_text(OLDER_UNIT)
        for path in ("usr/lib/sysusers.d", "usr/lib/tmpfiles.d", "usr/share/doc/gpulens/docs"):
            shutil.rmtree(older / path)
        (older / "usr/lib/systemd/system/gpulens.socket").unlink()
        packing.run("dpkg-deb", "-Zgzip", "-z1", "-b", older, root / "root/old.deb")
        cls.system = Booted(root)
        cls.addClassCleanup(cls.system.end)
        cls.system.run("dpkg", "--install", "/root/old.deb")
        cls.system.shell("echo kept > /var/lib/gpulens/mark && chown gpulens: /var/lib/gpulens/mark")
        cls.before = cls.system.shell("readlink /var/lib/gpulens; grep -c gpulens: /etc/passwd", check=False)
        cls.system.run("dpkg", "--install", "/root/new.deb")

    def setUp(self):
        # systemd counts starts, and the tests have more than it allows in ten seconds.
        self.system.shell("systemctl reset-failed gpulens; systemctl is-active --quiet gpulens || systemctl start gpulens")

    def page(self):
        """The page of the unit, once it has one."""
        def get():
            text = self.system.run("curl", "-s", "-m", "10", "http://127.0.0.1:9091/metrics", check=False)
            return text if "gpulens_build_info" in text and "system_filesystem_utilization" in text else None
        return wait_until(get, 30, "the page of the unit")

    def shown(self, name):
        return self.system.run("systemctl", "show", "gpulens", "-p", name, "--value").strip()

    def test_an_upgrade_from_a_dynamic_user(self):
        self.assertEqual(self.before.split(), ["private/gpulens", "0"], "the older unit's user and folder")
        self.page()
        self.assertEqual(self.shown("ActiveState"), "active")
        self.assertEqual(self.system.shell("cat /var/lib/gpulens/mark; stat -c '%U %G %a' /var/lib/gpulens /var/lib/gpulens/mark").split(),
                         ["kept", "gpulens", "gpulens", "750", "gpulens", "gpulens", "644"])  # fmt: skip
        self.assertFalse(os.path.lexists(self.system.root / "var/lib/private/gpulens"))
        self.assertIn("gpulens:", (self.system.root / "etc/passwd").read_text())
        self.assertNotIn("Failed", self.system.run("journalctl", "-u", "gpulens", "--no-pager", "-p", "warning"))

    def test_what_it_may_and_reads(self):
        page = self.page()
        status = self.system.shell("cat /proc/$(systemctl show -p MainPID --value gpulens)/status")
        for line in ("NoNewPrivs:\t1", "Seccomp:\t2", "CapBnd:\t0000000400000000", "CapEff:\t0000000400000000"):
            self.assertIn(line, status)
        self.assertIn("/dev/kmsg", next(line for line in self.system.run("gpulens", "doctor").splitlines() if "kernel log" in line))
        groups = self.system.shell("getent group video render")
        self.assertEqual(groups.count(":gpulens"), 2, groups)
        # The unit's own mounts are read-only; the machine's file system is not.
        self.assertRegex(page, r'system_filesystem_utilization_ratio\{[^}]*mode="rw",[^}]*mountpoint="/"')
        self.assertEqual(value(page, "gpulens_collector_up", collector="kernel_log"), 1)
        self.assertEqual(self.shown("NRestarts"), "0")

    def test_device_nodes_are_made_as_root(self):
        program = self.system.root / "usr/bin/nvidia-modprobe"
        program.write_text('#!/bin/sh\necho "$(id -u) $*" >> /run/modprobe\n')
        program.chmod(0o755)
        try:
            self.system.run("systemctl", "restart", "gpulens")
        finally:
            program.unlink()
        self.assertEqual(self.system.run("cat", "/run/modprobe"), "0 -c=0\n")

    def test_sockets_stay_open_while_it_restarts(self):
        self.system.shell("systemctl stop gpulens && systemctl start gpulens.socket && systemctl start gpulens")
        try:
            codes = self.system.shell("for i in $(seq 40); do curl -s -m 20 -o /dev/null -w '%{http_code} ' http://127.0.0.1:9091/health;"
                                      "[ $i != 10 ] && [ $i != 25 ] || systemctl restart --no-block gpulens; done")  # fmt: skip
            self.assertEqual(codes.split(), ["200"] * 40)
        finally:
            self.system.shell("systemctl stop gpulens.socket; systemctl reset-failed gpulens; systemctl restart gpulens")

    def test_a_credential(self):
        (self.system.root / "root/token").write_text("s3cret-word\n")
        probe = self.system.shell("systemd-run --wait --pipe -q -p User=gpulens -p LoadCredential=a:/root/token sh -c 'cat $CREDENTIALS_DIRECTORY/a'", check=False)
        if "s3cret-word" not in probe:
            self.skipTest("systemd cannot hand credentials to another user here: " + probe.strip()[-200:])
        config, dropin = self.system.root / "etc/gpulens/gpulens.yaml", self.system.root / "etc/systemd/system/gpulens.service.d"
        before = config.read_text()
        dropin.mkdir()
        (dropin / "token.conf").write_text("[Service]\nLoadCredential=token:/root/token\n")
        config.write_text("sinks: {otlp: {endpoint: 'http://127.0.0.1:1', transport: {bearer_token: '${credential:token}'}}}\n")
        try:
            self.system.shell("systemctl daemon-reload && systemctl restart gpulens")
            self.page()
            self.assertNotIn("s3cret-word", self.system.run("gpulens", "config", "print"))
        finally:
            config.write_text(before)
            shutil.rmtree(dropin)
            self.system.shell("systemctl daemon-reload && systemctl restart gpulens")


if __name__ == "__main__":
    unittest.main()
