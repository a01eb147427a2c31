#!/usr/bin/env python3
"""Makes the OCI image of a gpulens package, without a daemon and without root: FOLDER/gpulens-VERSION-linux-ARCH.oci.tar.

    tools/image.py [--folder FOLDER] DEB    DEB: gpulens_VERSION_ARCH.deb, as tools/package.sh makes it; FOLDER is dist/ by default

The image is the program of the package on top of the few Debian packages in PACKAGES, fetched by `apt-get download` with the versions
that apt would install here; those of another architecture by the lists that tools/prepare_arm64.sh fetches.
Two layers: the system, which stays the same from version to version, and gpulens. Times are those of the files in the packages, and
SOURCE_DATE_EPOCH or the commit's. docs/image.md describes what is inside and why. Exit: 3 where the Debian packages cannot be had, 1 for
any other failure.
"""

import argparse
import functools
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import time

import sbom

ROOT = sbom.ROOT
CACHE = ROOT / "build" / "image"
LIMIT = 40_000_000  # bytes that the files of the image may have
USER = 65532
ARCHITECTURES = ("amd64", "arm64")

# What is taken of each package, by path; its notices come along. docs/dependencies.md has the licence of each.
PACKAGES = {
    # The C library with what it opens by itself: name services are a part of it, resolvers of others are not needed.
    "libc6": r"usr/lib/[^/]+/(ld-linux-[^/]+|lib(c|m|dl|rt|pthread|resolv|util|anl|nss_(files|dns))\.so\.\d+)|usr/lib64/.*|usr/lib/ld-linux-.*|"
    r"etc/ld\.so\.conf\.d/.*",
    # Opened where a web configuration has passwords.
    "libcrypt1": r"usr/lib/[^/]+/libcrypt\.so\..*",
    # Opened where a process confines itself.
    "libseccomp2": r"usr/lib/[^/]+/libseccomp\.so\..*",
    # A vendor library that is mounted from the host needs these: AMD SMI all of them, NVML none.
    "libgcc-s1": r"usr/lib/[^/]+/libgcc_s\.so\..*",
    "libstdc++6": r"usr/lib/[^/]+/libstdc\+\+\.so\.[\d.]+",
    "libdrm2": r"usr/lib/[^/]+/libdrm\.so\..*",
    "libdrm-amdgpu1": r"usr/lib/[^/]+/libdrm_amdgpu\.so\..*",
    "libdrm-common": r"usr/share/libdrm/.*",
    # Certificates; the file of all of them is made below, as update-ca-certificates makes it.
    "ca-certificates": r"usr/share/ca-certificates/mozilla/.*",
    # By /etc/debian_version container toolkits know in which folder a driver's libraries are found.
    "base-files": r"etc/debian_version|usr/lib/os-release|usr/share/common-licenses/.*",
}
OWN = r"usr/bin/gpulens|usr/lib/gpulens/.*|usr/share/gpulens/torch/.*|etc/gpulens/.*|usr/share/doc/gpulens/copyright"

FILES = {
    "etc/passwd": f"root:x:0:0:root:/root:/usr/sbin/nologin\ngpulens:x:{USER}:{USER}:gpulens:/var/lib/gpulens:/usr/sbin/nologin\n",
    "etc/group": f"root:x:0:\ngpulens:x:{USER}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n",
    # Container toolkits write the cache, older ones only where there is one. The loader finds all that is in the image without it.
    "etc/ld.so.cache": "",
}
FOLDERS = {"tmp": 0o1777, "run": 0o755, "proc": 0o755, "sys": 0o755, "dev": 0o755, "var/lib": 0o755, "root": 0o700, "usr/sbin": 0o755}
OWNED = {"var/lib/gpulens": 0o755, "run/gpulens": 0o755}  # by the user of the image
LINKS = {"lib": "usr/lib", "bin": "usr/bin", "sbin": "usr/sbin", "etc/os-release": "../usr/lib/os-release"}

ENVIRONMENT = {
    "PATH": "/usr/bin",
    # Container toolkits heed these where a runtime is asked for GPUs. "utility" is NVML, and nothing of CUDA.
    "NVIDIA_VISIBLE_DEVICES": "all",
    "NVIDIA_DRIVER_CAPABILITIES": "utility",
    "STATE_DIRECTORY": "/var/lib/gpulens",
    "RUNTIME_DIRECTORY": "/run/gpulens",
}


class Failed(Exception):
    code = 1


class Unavailable(Failed):
    code = 3


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, check=False, **options)
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command[:4]))} failed: {(done.stderr.decode(errors='replace').strip().splitlines() or ['no message'])[-1]}")
    return done.stdout


class Deb:
    """A package file: its fields, its control paragraph and its files."""

    def __init__(self, path):
        self.path = path
        self.control = run("dpkg-deb", "--field", path).decode()
        self.fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", self.control, re.MULTILINE))

    @functools.cached_property
    def members(self):
        """[(path, TarInfo, bytes)] of the files and links. Paths are those of a system whose /lib and /lib64 are links to /usr/lib…"""
        found = []
        with tarfile.open(fileobj=io.BytesIO(run("dpkg-deb", "--fsys-tarfile", self.path))) as archive:
            for member in archive:
                path = member.name.removeprefix("./")
                path = re.sub(r"^(lib(64)?)/", r"usr/\1/", path)
                if member.isreg() or member.issym():
                    found.append((path, member, archive.extractfile(member).read() if member.isreg() else b""))
        return found

    def newest(self):
        return max(int(member.mtime) for _, member, _ in self.members)


def fetched(names, arch):
    """{name: package file} of the versions that apt would install, downloaded where they are not in the cache yet."""
    environment = dict(os.environ)
    if arch != run("dpkg", "--print-architecture").decode().strip():
        environment["APT_CONFIG"] = str(ROOT / "build" / f"sysroot-{arch}" / "apt.conf")
        if not pathlib.Path(environment["APT_CONFIG"]).exists():
            raise Unavailable(f"no lists of {arch} packages here; tools/prepare_arm64.sh fetches them")
    shown = run("apt-cache", "policy", *names, env=environment).decode()
    versions = dict(re.findall(r"^([a-z0-9.+-]+)(?::\S+)?:\n.*\n  Candidate: (\S+)", shown, re.MULTILINE))
    folder = CACHE / arch
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name in names:
        version = versions.get(name, "(none)")
        if version == "(none)":
            raise Unavailable(f"apt knows no package {name} of {arch}; run  apt-get update")
        pattern = f"{name}_{version.replace(':', '%3a')}_*.deb"
        if not list(folder.glob(pattern)):
            try:
                run("apt-get", "download", "-qq", f"{name}={version}", cwd=folder, env=environment, timeout=300)
            except (Failed, subprocess.TimeoutExpired) as why:
                raise Unavailable(str(why)) from None
        (path,) = folder.glob(pattern)
        found[name] = Deb(path)
    return found


def packages(arch):
    """The package files of the image's system, and that of the compiler's licences, to which libgcc's and libstdc++'s refer."""
    found = fetched(list(PACKAGES), arch)
    compiler = re.search(r"gcc-\d+-base", found["libgcc-s1"].fields["Depends"])
    return {**found, **fetched([compiler[0]], arch)}


class Layer:
    """A tar of files in the order of their names, with the folders that they need; owned by root."""

    def __init__(self, when):
        self.when, self.entries = when, {}

    def add(self, path, data=b"", mode=0o644, kind=tarfile.REGTYPE, link="", owner=0, when=None):
        entry = tarfile.TarInfo(path)
        entry.mode, entry.type, entry.linkname, entry.size = mode, kind, link, len(data)
        entry.uid = entry.gid = owner
        entry.mtime = self.when if when is None else when
        self.entries[path] = (entry, data)

    def folder(self, path, mode=0o755, owner=0):
        self.add(path, mode=mode, kind=tarfile.DIRTYPE, owner=owner)

    def link(self, path, to):
        self.add(path, mode=0o777, kind=tarfile.SYMTYPE, link=to)

    def size(self):
        return sum(entry.size for entry, _ in self.entries.values())

    def tar(self):
        for path in list(self.entries):
            for parent in pathlib.PurePosixPath(path).parents:
                if str(parent) not in (".", *self.entries):
                    self.folder(str(parent))
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for path in sorted(self.entries):
                entry, data = self.entries[path]
                archive.addfile(entry, io.BytesIO(data))
        return out.getvalue()


def take(layer, deb, pattern, texts=True):
    """Puts a package's files into a layer: those that the pattern names, its licences and its paragraph for scanners."""
    name = deb.fields["Package"]
    taken = 0
    for path, member, data in deb.members:
        wanted = pattern and re.fullmatch(pattern, path)
        if wanted or (texts and re.fullmatch(r"usr/share/doc/[^/]+(/copyright)?", path)):
            taken += bool(wanted)
            if member.issym():
                layer.add(path, mode=0o777, kind=tarfile.SYMTYPE, link=re.sub(r"^/lib/", "/usr/lib/", member.linkname), when=int(member.mtime))
            else:
                layer.add(path, data, member.mode & 0o755, when=int(member.mtime))
    if pattern and not taken:
        raise Failed(f"{deb.path.name} has no file {pattern}")
    # Scanners know packages of images without dpkg from this folder.
    layer.add(f"var/lib/dpkg/status.d/{name}", deb.control.encode())


def system_layer(debs):
    layer = Layer(max(deb.newest() for deb in debs.values()))
    for name, deb in debs.items():
        take(layer, deb, PACKAGES.get(name))
    certificates = [data for path, (_, data) in sorted(layer.entries.items()) if path.startswith("usr/share/ca-certificates/")]
    layer.add("etc/ssl/certs/ca-certificates.crt", b"".join(data.rstrip(b"\n") + b"\n" for data in certificates))
    layer.entries = {path: entry for path, entry in layer.entries.items() if not path.startswith("usr/share/ca-certificates/")}
    for path, text in FILES.items():
        layer.add(path, text.encode())
    for path, mode in FOLDERS.items():
        layer.folder(path, mode)
    for path, to in LINKS.items():
        layer.link(path, to)
    if any(path.startswith("usr/lib64/") for path in layer.entries):
        layer.link("lib64", "usr/lib64")
    return layer


def own_layer(deb, epoch):
    layer = Layer(epoch)
    take(layer, deb, OWN, texts=False)
    for path, mode in OWNED.items():
        layer.folder(path, mode, USER)
    for path, (entry, _) in layer.entries.items():
        entry.mtime = epoch
    return layer


class Blobs:
    """The blobs of an OCI layout, by their digest."""

    def __init__(self):
        self.files = {}

    def add(self, data, media_type, **more):
        digest = hashlib.sha256(data).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = data
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data), **more}

    def json(self, value, media_type, **more):
        return self.add(json.dumps(value, sort_keys=True, separators=(",", ":")).encode(), media_type, **more)


def commit():
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def archive_of(deb, debs, epoch):
    """(bytes of the tar, digest of the manifest, bytes of all files)"""
    version, arch = deb.fields["Version"], deb.fields["Architecture"]
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))
    labels = {
        "org.opencontainers.image.title": "gpulens",
        "org.opencontainers.image.description": deb.fields["Description"],
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.vendor": "gpulens developers",
        "org.opencontainers.image.created": created,
    }
    if commit():
        labels["org.opencontainers.image.revision"] = commit()
    layers = [("Debian packages: " + " ".join(f"{one.fields['Package']}={one.fields['Version']}" for one in debs.values()), system_layer(debs)),
              (f"gpulens {version}", own_layer(deb, epoch))]
    size = sum(layer.size() for _, layer in layers)
    if size > LIMIT:
        raise Failed(f"the files of the image have {size / 1e6:.1f} MB, more than {LIMIT / 1e6:.0f}")
    blobs, descriptors, digests, history = Blobs(), [], [], []
    for what, layer in layers:
        tar = layer.tar()
        digests.append("sha256:" + hashlib.sha256(tar).hexdigest())
        descriptors.append(blobs.add(gzip.compress(tar, 9, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip"))
        history.append({"created": created, "created_by": "tools/image.py", "comment": what})
    config = blobs.json(
        {
            "created": created,
            "architecture": arch,
            "os": "linux",
            "config": {
                "User": f"{USER}:{USER}",
                "ExposedPorts": {"9091/tcp": {}, "9092/tcp": {}},
                "Env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
                "Entrypoint": ["/usr/bin/gpulens", "agent"],
                "Volumes": {"/var/lib/gpulens": {}},
                "WorkingDir": "/",
                "StopSignal": "SIGTERM",
                "Labels": labels,
            },
            "rootfs": {"type": "layers", "diff_ids": digests},
            "history": history,
        },
        "application/vnd.oci.image.config.v1+json",
    )
    manifest = blobs.json(
        {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": descriptors, "annotations": labels},
        "application/vnd.oci.image.manifest.v1+json",
    )
    name = f"gpulens:{version}"
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{**manifest, "platform": {"architecture": arch, "os": "linux"},
                       "annotations": {"org.opencontainers.image.ref.name": version, "io.containerd.image.name": f"docker.io/library/{name}"}}],
    }
    files = dict(blobs.files)
    files["oci-layout"] = b'{"imageLayoutVersion":"1.0.0"}'
    files["index.json"] = json.dumps(index, sort_keys=True).encode()
    # Tools that know Docker's older archives alone read this.
    files["manifest.json"] = json.dumps([{
        "Config": config["digest"].replace("sha256:", "blobs/sha256/"), "RepoTags": [name],
        "Layers": [one["digest"].replace("sha256:", "blobs/sha256/") for one in descriptors],
    }]).encode()
    out = Layer(epoch)
    for path, data in files.items():
        out.add(path, data)
    return out.tar(), manifest["digest"], size


def record(out, deb, debs):
    """Records for the bills of materials what is inside: what the package has, where that is recorded, and the packages of the system."""
    inside = sbom.RECORDS / f"{deb.name}.json"
    if not inside.exists():
        return
    components = json.loads(inside.read_text(encoding="utf-8"))
    for name, one in debs.items():
        source = one.fields.get("Source", name).split(" ")[0]
        fields = "\t".join((one.fields["Version"], one.fields["Architecture"], source))
        components.append({**sbom.debian_component(name, license_of(name), lambda *_, fields=fields: fields), "linked": False})
    sbom.record(out.name, components)


def license_of(name):
    table = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8").split("## In the image")[1].split("\n## ")[0]
    found = re.search(rf"^\| `{re.escape(re.sub(r'gcc-[0-9]+-base', 'gcc-12-base', name))}` \|[^|]*\| ([^|]+) \|", table, re.MULTILINE)
    if not found:
        raise Failed(f"docs/dependencies.md has no licence of {name}")
    return found[1]


def make(path, folder):
    deb = Deb(path)
    arch = deb.fields["Architecture"]
    if arch not in ARCHITECTURES:
        raise Failed(f"no image is made for {arch}; they are {' '.join(ARCHITECTURES)}")
    if not shutil.which("apt-get"):
        raise Unavailable("no apt-get here, which fetches the C library and the certificates for the image")
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct", cwd=ROOT))
    debs = packages(arch)
    data, digest, size = archive_of(deb, debs, epoch)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"gpulens-*-linux-{arch}.oci.tar"):
        old.unlink()
    out = folder / f"gpulens-{deb.fields['Version']}-linux-{arch}.oci.tar"
    out.write_bytes(data)
    record(out, path, debs)
    print(f"  {out.name}  {len(data) / 1e6:.1f} MB, {size / 1e6:.1f} MB unpacked, {digest}")
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "dist")
    parser.add_argument("deb", type=pathlib.Path)
    options = parser.parse_args()
    try:
        make(options.deb, options.folder)
    except Failed as why:
        print(f"image: {why}", file=sys.stderr)
        return why.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
