"""gpulens for arm64, compiled here by Debian's cross compiler and run by qemu-user: unit tests, commands, the packages and the image."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import image_root
import packing
from test_image import get, temporary
from agent import wait_until
from own_network import own_network

BUILD = packing.ROOT / "build/arm64"
WORK = packing.ROOT / "build/arm64_test"
QEMU = shutil.which("qemu-aarch64-static")
EMULATED = (QEMU, "-L", "/usr/aarch64-linux-gnu")
# How the kernel knows a program for arm64 (ELF, 64 bits, little endian, machine 183), and that it runs it by qemu, also in another root.
FORMAT = (
    r":arm64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:"
    r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:" + f"{QEMU}:F"
)
KNOWN = f"mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc && printf %s '{FORMAT}' >/proc/sys/fs/binfmt_misc/register"
# Of tests that pass on a machine, not those that ask what qemu-user does not emulate.
NOT_EMULATED = {
    "base_test": "-Process*:*Crash*:*Death*:OlderGlibc*:SharedLibrary*:PeerOf*:*Memory*",
    "core_test": "-*Death*",
    "wire_test": "-*Death*",
}


def setUpModule():
    if os.uname().machine == "aarch64":
        raise unittest.SkipTest("this machine is arm64: its own tests are these")
    if not QEMU:
        raise unittest.SkipTest("no qemu-aarch64-static here (Debian: qemu-user-static)")
    if not (BUILD / "gpulens").exists():
        why = packing.ROOT / "build/sysroot-arm64.why"
        raise unittest.SkipTest(why.read_text().strip() if why.exists() else "no build/arm64; ./dev build arm64 makes it")


class Emulated(unittest.TestCase):
    def test_unit_tests(self):
        for name, chosen in NOT_EMULATED.items():
            with self.subTest(program=name):
                printed = packing.run(*EMULATED, BUILD / name, f"--gtest_filter={chosen}", "--gtest_brief=1", timeout=900, cwd=packing.ROOT)
                self.assertGreater(int(re.search(r"PASSED  \] (\d+) tests", printed)[1]), 50)

    def test_commands(self):
        self.assertEqual(packing.run(*EMULATED, BUILD / "gpulens", "version").split()[:2], ["gpulens", packing.version()])
        self.assertRegex(packing.run(*EMULATED, BUILD / "gpulens", "collect", "host", "--once"), r"system\.memory\.limit \S* *\d")
        self.assertIn("XID 79", packing.run(*EMULATED, BUILD / "gpulens", "explain", "79"))


class Arm64Root(image_root.ImageRoot):
    """The root of an arm64 image, in a user namespace in which the kernel runs programs for arm64 by qemu."""

    def command(self, *words, devices=()):
        inside = "\n".join([
            "set -e", KNOWN, f"cd {self.folder}", "mount -t proc proc proc && mount -t tmpfs tmpfs tmp && mount --rbind /dev dev", 'exec chroot . "$@"',
        ])  # fmt: skip
        return ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "sh", "-c", inside, "sh", *map(str, words)]


class Packed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", KNOWN], capture_output=True, text=True, check=False)
        if done.returncode:
            raise unittest.SkipTest(f"no binfmt_misc of a user namespace (Linux 6.7): {done.stderr.strip()}")
        shutil.rmtree(WORK, ignore_errors=True)
        packing.run(packing.ROOT / "tools/package.sh", WORK, "arm64", timeout=900)
        (cls.deb,) = WORK.glob("gpulens_*_arm64.deb")
        packing.run(sys.executable, packing.ROOT / "tools/image.py", "--folder", WORK, cls.deb)
        (cls.image,) = WORK.glob("*-arm64.oci.tar")

    def test_the_package_is_of_arm64(self):
        self.assertEqual(packing.run("dpkg-deb", "--field", self.deb, "Architecture").strip(), "arm64")
        to = temporary(self)
        packing.run("dpkg-deb", "--extract", self.deb, to)
        self.assertEqual((to / "usr/bin/gpulens").read_bytes()[18], 183)  # EM_AARCH64
        for pattern in ("gpulens-dev_*_arm64.deb", "gpulens-[0-9]*-linux-aarch64.tar.gz"):
            self.assertEqual(len(list(WORK.glob(pattern))), 1, pattern)
        self.assertEqual([path.name for path in WORK.glob("*amd64*")], [])
        libc = pathlib.Path(packing.ROOT / "build/contents" / f"{self.image.name}.json").read_text()
        self.assertRegex(libc, r"libc6@[^?]+\?arch=arm64")
        self.assertNotIn("arch=amd64", libc)

    def test_the_image_serves_its_page(self):
        root = Arm64Root(temporary(self), self.image)
        self.assertEqual(root.archive.config["architecture"], "arm64")
        self.assertIn(packing.version(), root.run("/usr/bin/gpulens", "version"))
        with own_network(), root.agent("--demo"):
            wait_until(lambda: "gpu_power_draw_watts{" in get("http://127.0.0.1:9091/metrics", 120), 120, "a GPU on the page")


if __name__ == "__main__":
    unittest.main()
