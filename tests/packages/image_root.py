"""The image of this tree, made once for all tests of a process, unpacked into a folder, and programs of it that run there as its user."""
import contextlib
import functools
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import unittest

import packing

sys.path.insert(0, str(packing.ROOT / "tests/e2e"))
sys.path.insert(0, str(packing.ROOT / "tools"))
from agent import BINARY, fake_library  # noqa: E402

import image as image_tool  # noqa: E402

WORK = packing.ROOT / "build" / "image_test"
PROFILE = packing.ROOT / "tests/fake_nvml/profiles/h100_busy.yaml"
USER = image_tool.USER
ARCHITECTURE = packing.run("dpkg", "--print-architecture").strip() if shutil.which("dpkg") else ""


@functools.cache
def small_deb():
    """A package with what the image takes of ours: quicker to make than tools/package.sh does."""
    tree = WORK / "deb"
    shutil.rmtree(tree, ignore_errors=True)
    for folder in ("DEBIAN", "usr/bin", "etc/gpulens", "usr/share/doc/gpulens"):
        (tree / folder).mkdir(parents=True)
    packing.run("strip", "-o", tree / "usr/bin/gpulens", BINARY)
    shutil.copy(packing.ROOT / "deploy/gpulens.yaml", tree / "etc/gpulens")
    shutil.copy(packing.ROOT / "LICENSE", tree / "usr/share/doc/gpulens/copyright")
    (tree / "DEBIAN/control").write_text(
        f"Package: gpulens\nVersion: {packing.version()}\nArchitecture: {ARCHITECTURE}\nMaintainer: test\nDescription: telemetry of a GPU machine\n"
    )
    packing.run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", tree, WORK / "small.deb")
    return WORK / "small.deb"


@functools.cache
def image(name="first"):
    """The archive that tools/image.py makes. Skips the test where Debian's packages cannot be had."""
    if not shutil.which("dpkg-deb") or not shutil.which("apt-get"):
        raise unittest.SkipTest("no dpkg and apt here")
    try:
        packing.run(sys.executable, packing.ROOT / "tools/image.py", "--folder", WORK / name, small_deb())
    except AssertionError as why:
        if "apt" in str(why):
            raise unittest.SkipTest(f"Debian's packages cannot be had: {str(why).splitlines()[-1]}") from None
        raise
    (made,) = (WORK / name).glob("*.oci.tar")
    return made


class Archive:
    """An image archive that is read as the OCI image specification describes it."""

    def __init__(self, path):
        with tarfile.open(path) as tar:
            self.files = {member.name: tar.extractfile(member).read() for member in tar if member.isreg()}
        self.index = json.loads(self.files["index.json"])
        self.manifest = json.loads(self.blob(self.index["manifests"][0]))
        self.config = json.loads(self.blob(self.manifest["config"]))

    def blob(self, descriptor):
        data = self.files["blobs/" + descriptor["digest"].replace(":", "/")]
        assert len(data) == descriptor["size"] and "sha256:" + hashlib.sha256(data).hexdigest() == descriptor["digest"]
        return data

    def layers(self):
        return [tarfile.open(fileobj=io.BytesIO(self.blob(layer)), mode="r:gz") for layer in self.manifest["layers"]]

    def unpack(self, to):
        to.mkdir(parents=True)
        for layer in self.layers():
            with layer:
                for member in layer:
                    # Of an earlier layer.
                    if member.isdir() and (to / member.name).is_dir() and not (to / member.name).is_symlink():
                        continue
                    layer.extract(member, to, numeric_owner=True)
                    if not member.issym():
                        os.chmod(to / member.name, member.mode)
        return to


class ImageRoot:
    """The unpacked image as a read-only root, with the folders that a container runtime mounts. Needs root."""

    def __init__(self, folder, archive=None):
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root, for chroot")
        self.archive = Archive(archive or image())
        self.folder = self.archive.unpack(pathlib.Path(folder) / "root")
        self.environment = dict(entry.split("=", 1) for entry in self.archive.config["config"]["Env"])

    def write(self, path, text):
        file = self.folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def add_nvidia_library(self, folder, name):
        """The simulated library, as a container toolkit brings the driver's, and what this one needs besides."""
        to = self.folder / folder.lstrip("/")
        to.mkdir(parents=True, exist_ok=True)
        shutil.copy(fake_library(), to / name)
        for line in packing.run("ldd", fake_library()).splitlines():
            if "yaml-cpp" in line:
                path = pathlib.Path(line.split()[2])
                shutil.copy(path.resolve(), next(self.folder.glob("usr/lib/*-linux-gnu")) / path.name)

    def command(self, *words, devices=()):
        inside = "\n".join([
            "set -e",
            f"cd {self.folder}",
            "mount --bind . . && cd $PWD",
            "mount -t proc proc proc && mount -t tmpfs tmpfs tmp && mount -t tmpfs -o mode=755 tmpfs dev",
            "for name in null zero urandom; do touch dev/$name; mount --bind /dev/$name dev/$name; done",
            *(f"touch dev/{name}" for name in devices),
            "mount --bind var/lib/gpulens var/lib/gpulens && mount -o remount,bind,ro .",
            f'exec chroot --userspec={USER}:{USER} . "$@"',
        ])
        return ["unshare", "--mount", "--pid", "--fork", "sh", "-c", inside, "sh", *map(str, words)]

    def run(self, *words, code=0, environment=None, devices=()):
        done = subprocess.run(self.command(*words, devices=devices), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                              env=self.with_path(environment))
        if done.returncode != code:
            raise AssertionError(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout[-2000:]}")
        return done.stdout

    def with_path(self, environment):
        # unshare, sh and chroot are the host's.
        return {**self.environment, "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", **(environment or {})}

    @contextlib.contextmanager
    def agent(self, *options, environment=None, devices=()):
        process = subprocess.Popen(self.command(*self.entrypoint(), *options, devices=devices), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, env=self.with_path(environment))
        try:
            yield process
        finally:
            # The first process of the namespace: its end is that of all others. --kill-child does not reach a process of another user.
            for child in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
            process.communicate(timeout=30)

    def entrypoint(self):
        return self.archive.config["config"]["Entrypoint"]


# What a container toolkit's hook does, by the container's state on its standard input.
HOOK = """#!/usr/bin/python3
import json, pathlib, subprocess, sys
bundle = pathlib.Path(json.load(sys.stdin)["bundle"])
root = bundle / json.loads((bundle / "config.json").read_text())["root"]["path"]
(root / "etc/ld.so.conf.d/00-nvcr-1.conf").write_text(sys.argv[1] + "\\n")
sys.exit(subprocess.call(["/sbin/ldconfig", "-r", root, "-f", "/etc/ld.so.conf", "-C", "/etc/ld.so.cache"]))
"""


class Podman:
    """Podman of a user without rights, with storage of its own. Where the test runs as root it is a user that exists only in a mount namespace."""

    UID = 64242

    def __init__(self):
        for name in ("podman", "crun", "newuidmap", "slirp4netns"):
            if not shutil.which(name):
                raise unittest.SkipTest(f"no {name} here (Debian: podman crun uidmap slirp4netns); ./dev test --peers installs it")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-podman-"))
        self.folder.chmod(0o755)
        self.root = os.geteuid() == 0
        if self.root:
            for name in ("etc", "work", "home", "run"):
                (self.folder / name).mkdir()
            for name in ("home", "run"):
                os.chown(self.folder / name, self.UID, self.UID)
            for name, number in (("fuse", 229), ("tun", 200)):
                os.mknod(self.folder / name, 0o666 | stat.S_IFCHR, os.makedev(10, number))
                (self.folder / name).chmod(0o666)
            self.overlay("passwd", pathlib.Path("/etc/passwd").read_text() + f"packer:x:{self.UID}:{self.UID}::{self.folder}/home:/bin/sh\n")
            for name in ("subuid", "subgid"):
                self.overlay(name, f"packer:{self.UID + 1000}:70000\n")
        else:
            for name in ("home", "run"):
                (self.folder / name).mkdir()
        self.environment = {"HOME": f"{self.folder}/home", "XDG_RUNTIME_DIR": f"{self.folder}/run", "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
        done = self.call("info")
        if done.returncode:
            self.close()
            raise unittest.SkipTest(f"podman does not run rootless here: {done.stdout.strip().splitlines()[-1]}")

    def overlay(self, name, text):
        path = self.folder / "etc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def write(self, name, text, mode=0o644):
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(mode)

    def call(self, *words):
        command = ["podman", *map(str, words)]
        if self.root:
            inside = "\n".join([
                "set -e",
                f"mount -t overlay overlay -o lowerdir=/etc,upperdir={self.folder}/etc,workdir={self.folder}/work /etc",
                # A machine may keep these for root, and have control groups of two versions.
                f"mount --bind {self.folder}/fuse /dev/fuse; mount --bind {self.folder}/tun /dev/net/tun",
                "if test -d /sys/fs/cgroup/unified; then umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; fi",
                "mount --make-rshared /",
                f'cd {self.folder}/home; exec setpriv --reuid={self.UID} --regid={self.UID} --clear-groups "$@"',
            ])
            command = ["unshare", "--mount", "sh", "-c", inside, "sh", *command]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, env=self.environment, cwd="/")

    def run(self, *words, check=True):
        done = self.call(*words)
        if check and done.returncode:
            raise AssertionError(f"podman {' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout[-2000:]}")
        return done.stdout

    def load(self, archive):
        shutil.copy(archive, self.folder / "image.tar")
        (self.folder / "image.tar").chmod(0o644)
        return re.search(r"Loaded image: (\S+)", self.run("load", "--input", self.folder / "image.tar"))[1]

    @contextlib.contextmanager
    def container(self, *words):
        name = f"gpulens-test-{os.getpid()}"
        self.run("run", "--detach", "--cgroups=disabled", "--name", name, *words)
        try:
            yield name
        finally:
            self.run("rm", "--force", "--volumes", "--time=10", name)

    def device(self, folder, library):
        """Describes nvidia.com/gpu as the container toolkit does: the libraries of the driver, the devices, the hook."""
        if not self.root:
            raise unittest.SkipTest("needs root, for a file in /etc/cdi")
        self.write("hook", HOOK, 0o755)
        self.write("device", "")
        files = {fake_library(): f"{folder}/{library}", self.folder / "device": "/dev/nvidiactl"}
        for line in packing.run("ldd", fake_library()).splitlines():
            if "yaml-cpp" in line:
                files[line.split()[2]] = f"{folder}/{line.split()[0]}"
        mounts = []
        for number, (path, to) in enumerate(files.items()):
            shutil.copy(path, self.folder / f"mounted{number}")
            mounts.append({"hostPath": f"{self.folder}/mounted{number}", "containerPath": to, "options": ["ro", "nosuid", "nodev", "bind"]})
        hook = {"hookName": "createContainer", "path": f"{self.folder}/hook", "args": ["hook", folder]}
        self.overlay("cdi/nvidia.json", json.dumps({
            "cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "containerEdits": {"mounts": mounts, "hooks": [hook]},
            "devices": [{"name": "all", "containerEdits": {"env": ["SEEN_BY_THE_TEST=1"]}}],
        }))  # fmt: skip

    def close(self):
        self.call("rm", "--all", "--force", "--time=0")
        self.call("system", "migrate")
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((self.folder / "run/libpod/tmp/pause.pid").read_text()), signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)
