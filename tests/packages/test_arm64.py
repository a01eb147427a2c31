"""gpulens for arm64, compiled here by Debian's cross compiler and run by qemu-user: unit tests, commands, the packages and the image."""
import os
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
LIBRARIES = packing.ROOT / "build/sysroot-arm64/root/usr/lib/aarch64-linux-gnu"
QEMU = shutil.which("qemu-aarch64-static")
EMULATED = (QEMU, "-L", "/usr/aarch64-linux-gnu")
# How the kernel knows a program for arm64 (ELF, 64 bits, little endian, machine 183), and that it runs it by qemu, also in another root.
FORMAT = (
    r":arm64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:"
    r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:" + f"{QEMU}:F"
)
KNOWN = f"mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc && printf %s '{FORMAT}' >/proc/sys/fs/binfmt_misc/register"
UNIT_TESTS = ("base_test", "core_test", "wire_test", "wire_exposition_test")


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
        for name in UNIT_TESTS:
            with self.subTest(program=name):
                printed = packing.run(*EMULATED, BUILD / name, "--gtest_brief=1", timeout=900, cwd=packing.ROOT)
                self.assertRegex(printed, r"PASSED  \] \d\d+ tests?\.\n")

    def test_commands(self):
        self.assertEqual(packing.run(*EMULATED, BUILD / "gpulens", "version").split()[:2], ["gpulens", packing.version()])
        self.assertIn("XID 79", packing.run(*EMULATED, BUILD / "gpulens", "explain", "79"))

    def test_host(self):
        # Not by qemu's -L, which shows another folder as /.
        loader = (QEMU, "/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1", "--library-path", "/usr/aarch64-linux-gnu/lib")
        shown = packing.run(*loader, BUILD / "gpulens", "collect", "host", "--once")
        self.assertRegex(shown, rf"system\.cpu\.logical\.count +{os.cpu_count()}\n")


class Arm64Root(image_root.ImageRoot):
    """The root of an arm64 image, in a user namespace in which the kernel runs programs for arm64 by qemu. The namespace has one user, root."""

    def add_nvidia_library(self, folder, name):
        to = self.folder / folder.lstrip("/")
        shutil.copy(BUILD / "fake_nvml/libnvidia-ml.so.1", to / name)
        (needed,) = LIBRARIES.glob("libyaml-cpp.so.*.*.*")
        shutil.copy(needed, to / ".".join(needed.name.split(".")[:4]))

    def command(self, *words, devices=()):
        inside = "\n".join([
            "set -e", KNOWN, f"cd {self.folder}", "mount -t proc proc proc && mount -t tmpfs tmpfs tmp && mount -t tmpfs tmpfs var/lib/gpulens",
            "mount -t tmpfs tmpfs dev && for name in null zero urandom; do touch dev/$name; mount --bind /dev/$name dev/$name; done",
            *(f"touch dev/{name}" for name in devices), 'exec chroot . "$@"',
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

    def test_what_is_inside_is_of_arm64(self):
        packing.run(packing.ROOT / "tools/package_seal.py", WORK)
        (bill,) = WORK.glob("*.cdx.json")
        text = bill.read_text()
        self.assertIn(self.deb.name, text)
        self.assertRegex(text, r"libc6@[^?]+\?arch=arm64")
        self.assertRegex(text, r"libssl-dev@[^?]+\?arch=arm64")
        self.assertNotIn("arch=amd64", text)

    def test_the_image_serves_its_page(self):
        root = Arm64Root(temporary(self), self.image)
        self.assertEqual(root.archive.config["architecture"], "arm64")
        self.assertEqual(root.archive.index["manifests"][0]["platform"], {"architecture": "arm64", "os": "linux"})
        self.assertIn(packing.version(), root.run("/usr/bin/gpulens", "version"))
        with own_network(), root.agent("--demo"):
            wait_until(lambda: "gpu_power_draw_watts{" in get("http://127.0.0.1:9091/metrics", 120), 120, "a GPU on the page")

    def test_the_image_reads_eight_gpus(self):
        root = Arm64Root(temporary(self), self.image)
        root.add_nvidia_library("/usr/lib/aarch64-linux-gnu", "libnvidia-ml.so.1")
        shutil.copy(image_root.PROFILE, root.folder / "etc/profile.yaml")
        shown = root.run("/usr/bin/gpulens", "collect", "nvidia", "--once", environment={"GPULENS_FAKE_NVML": "/etc/profile.yaml"},
                         devices=("nvidiactl", "nvidia0"))  # fmt: skip
        self.assertRegex(shown, r"gpu\.devices nvidia +8\n")


if __name__ == "__main__":
    unittest.main()
