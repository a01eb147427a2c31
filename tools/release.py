#!/usr/bin/env python3
"""Rehearses a release: tags, pushes to a registry of its own, writes provenance, and checks all of it again from there.

    tools/release.py chart DIST                  packs the Helm chart into DIST, before tools/package_seal.py lists and signs the files
    tools/release.py rehearse DIST [--key FILE]  the rest, of a sealed DIST; with --key as it was sealed with
    tools/release.py verify DIST --registry HOST:PORT [--public FILE]
                                                 checks DIST and what the registry has: what a user can do, too

`./dev release --dry-run` runs them in this order. docs/release.md says what is checked and what it means.
"""

import argparse
import contextlib
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request

import image
import package_seal
import sbom

ROOT = sbom.ROOT
HELM = ROOT / "build/go_peers/helm/helm"
REGISTRY = ROOT / "build/registry/usr/bin/docker-registry"
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
STATEMENT, PREDICATE = "https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://gpulens.invalid/build/dev-release/v1"
BUILDER = "https://gpulens.invalid/builder/a-developers-machine"
LIMIT = 64 << 20  # bytes of one answer of a registry


class Failed(Exception):
    pass


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=options.pop("timeout", 300), **options)  # fmt: skip
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command[:5]))} failed:\n{done.stdout.strip()[-1500:]}")
    return done.stdout


def git(*words, at=ROOT, **options):
    return run("git", *words, cwd=at, **options).strip()


def report(what):
    print(f"  {what}", flush=True)


def provenance_of(folder):
    return folder / f"gpulens-{sbom.version()}.provenance.json"


# --- the chart -----------------------------------------------------------------------------------


def same_bytes(archive, epoch):
    """Writes a tar.gz again with the files in order and one time: helm gives each file the time of its packing."""
    out = io.BytesIO()
    with tarfile.open(archive) as old, tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            data = old.extractfile(member).read()
            entry = tarfile.TarInfo(member.name)
            entry.size, entry.mode, entry.mtime = len(data), 0o644, epoch
            new.addfile(entry, io.BytesIO(data))
    archive.write_bytes(gzip.compress(out.getvalue(), 9, mtime=0))


def chart(folder):
    if not HELM.exists():
        raise Failed(f"no helm to pack the chart with; tools/prepare_go_peers.sh helm builds it ({why(HELM.parent)})")
    for old in folder.glob("gpulens-*.tgz"):
        old.unlink()
    printed = run(HELM, "package", ROOT / "deploy/helm/gpulens", "--destination", folder, "--version", sbom.version(), "--app-version", sbom.version())
    path = pathlib.Path(re.search(r"saved it to: (\S+)", printed)[1])
    same_bytes(path, int(git("log", "-1", "--format=%ct")))
    sbom.record(path.name, [])
    report(f"{path.name}  {path.stat().st_size / 1e3:.0f} kB")
    return path


def why(folder):
    reason = folder.with_suffix(".why")
    return reason.read_text().strip() if reason.exists() else "not here"


# --- a registry, and a client of it --------------------------------------------------------------


@contextlib.contextmanager
def registry():
    """HOST:PORT of a registry on the loopback address, with storage that vanishes with it."""
    if not REGISTRY.exists():
        raise Failed(f"no registry; tools/prepare_peers.sh --registry unpacks Debian's docker-registry ({why(REGISTRY.parents[2])})")
    with tempfile.TemporaryDirectory(prefix="gpulens-registry-") as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
        probe.close()
        configuration = pathlib.Path(folder, "config.yml")
        configuration.write_text(
            f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {folder}/storage}}}}\nhttp: {{addr: '{address}'}}\n"
        )
        with open(pathlib.Path(folder, "log"), "wb") as log:
            process = subprocess.Popen([REGISTRY, "serve", configuration], stdout=log, stderr=subprocess.STDOUT)
        try:
            end = time.monotonic() + 20
            while True:
                with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{address}/v2/", timeout=2):
                    break
                if process.poll() is not None or time.monotonic() > end:
                    raise Failed(f"the registry does not start: {pathlib.Path(folder, 'log').read_text()[-500:]}")
                time.sleep(0.05)
            yield address
        finally:
            process.terminate()
            process.wait(20)


def fetch(address, name, kind, digest, accept="*/*"):
    """The bytes of a manifest or blob that have this digest. Whatever else the registry answers is refused."""
    request = urllib.request.Request(f"http://{address}/v2/{name}/{kind}/{digest}", headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            data = answer.read(LIMIT + 1)
    except urllib.error.HTTPError as error:
        raise Failed(f"{name} {digest}: the registry answers {error.code}") from None
    except OSError as error:
        raise Failed(f"the registry at {address} does not answer: {getattr(error, 'reason', error)}") from None
    if len(data) > LIMIT or "sha256:" + hashlib.sha256(data).hexdigest() != digest:
        raise Failed(f"{name} {digest}: the registry sent other bytes")
    return data


# --- the image -----------------------------------------------------------------------------------


def image_layout(folder, to):
    """Writes an OCI layout of one index over the images of all architectures; returns the index's digest."""
    entries, blobs = [], to / "blobs/sha256"
    blobs.mkdir(parents=True)
    for archive in sorted(folder.glob("gpulens-*.oci.tar")):
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.name.startswith("blobs/sha256/") and member.isreg():
                    (blobs / member.name.rsplit("/", 1)[1]).write_bytes(tar.extractfile(member).read())
            (entry,) = json.loads(tar.extractfile("index.json").read())["manifests"]
        entries.append({key: entry[key] for key in ("mediaType", "digest", "size", "platform")})
    if not entries:
        raise Failed(f"no image in {folder}; ./dev package image makes it")
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}, sort_keys=True).encode()
    digest = hashlib.sha256(index).hexdigest()
    (blobs / digest).write_bytes(index)
    (to / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    named = {"mediaType": INDEX, "digest": f"sha256:{digest}", "size": len(index), "annotations": {"org.opencontainers.image.ref.name": sbom.version()}}
    (to / "index.json").write_text(json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]}))
    return f"sha256:{digest}"


def index_digest(folder):
    with tempfile.TemporaryDirectory() as to:
        return image_layout(folder, pathlib.Path(to) / "layout")


def push(folder, address):
    """Pushes image and chart; returns {name in the registry: digest}."""
    if not shutil.which("skopeo"):
        raise Failed("no skopeo to push the image with (Debian: skopeo)")
    with tempfile.TemporaryDirectory(prefix="gpulens-push-") as work:
        layout = pathlib.Path(work, "layout")
        digest = image_layout(folder, layout)
        run("skopeo", "copy", "--all", "--preserve-digests", "--dest-tls-verify=false", f"oci:{layout}:{sbom.version()}",
            f"docker://{address}/gpulens:{sbom.version()}", env={**os.environ, "TMPDIR": work})  # fmt: skip
        pushed = {"gpulens": digest}
        (packed,) = folder.glob("gpulens-*.tgz")
        environment = {**os.environ, "HELM_CONFIG_HOME": work, "HELM_CACHE_HOME": work, "HELM_DATA_HOME": work}
        printed = run(HELM, "push", packed, f"oci://{address}/charts", "--plain-http", env=environment)
        pushed["charts/gpulens"] = re.search(r"Digest: (sha256:[0-9a-f]{64})", printed)[1]
    for name, digest in pushed.items():
        report(f"pushed {address}/{name}@{digest}")
    return pushed


# --- provenance ----------------------------------------------------------------------------------


def changes():
    return bool(git("status", "--porcelain", "--untracked-files=no"))


def provenance(folder, pushed):
    """The in-toto statement: these digests come from this commit, with these packages of others, by this command."""
    subjects = [{"name": path.name, "digest": {"sha256": sbom.sha256(path)}} for path in sorted(folder.iterdir()) if path.is_file()]
    subjects += [{"name": name, "digest": {"sha256": digest.removeprefix("sha256:")}} for name, digest in sorted(pushed.items())]
    source = {"uri": "git+https://gpulens.invalid/gpulens", "digest": {"gitCommit": git("rev-parse", "HEAD")}, "annotations": {"changed": changes()}}
    components = {one["purl"]: {"uri": one["purl"]} for path in folder.iterdir() if (kept := sbom.RECORDS / f"{path.name}.json").exists()
                  for one in json.loads(kept.read_text())}  # fmt: skip
    for path in (image.CACHE).glob("*/*.deb"):
        name, version, architecture = path.stem.replace("%3a", ":").split("_")
        for purl in components:
            if f"/{name}@" in purl and f"arch={architecture}" in purl and version == urllib.parse.unquote(re.search(r"@([^?]+)", purl)[1]):
                components[purl]["digest"] = {"sha256": sbom.sha256(path)}
    tools = {name: run(*command).splitlines()[0] for name, command in
             {"gcc": ("g++", "--version"), "cmake": ("cmake", "--version"), "python": (sys.executable, "--version")}.items()}  # fmt: skip
    return {
        "_type": STATEMENT,
        "subject": subjects,
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"command": "./dev release", "version": sbom.version()},
                "resolvedDependencies": [source, *(components[purl] for purl in sorted(components))],
            },
            "runDetails": {"builder": {"id": BUILDER, "version": tools}},
        },
    }


# --- the tag -------------------------------------------------------------------------------------


def tagged_clone(to, key=None):
    """A clone with the tag of this version on the current commit, signed with a key; the user's checkout has no tag."""
    run("git", "clone", "--quiet", "--no-hardlinks", "--no-checkout", ROOT, to)
    commit, name = git("rev-parse", "HEAD"), f"v{sbom.version()}"
    if subprocess.run(["git", "rev-parse", "--quiet", "--verify", f"refs/tags/{name}"], cwd=ROOT, capture_output=True, check=False).returncode == 0:
        raise Failed(f"there is a tag {name} already: raise the version in CMakeLists.txt")
    who = ("-c", "user.name=gpulens developers", "-c", "user.email=maintainers@gpulens.invalid")
    sign = ("-c", f"user.signingkey={key.fingerprint}") if key else ()
    git(*who, *sign, "tag", "--sign" if key else "--annotate", "--message", f"gpulens {sbom.version()}", name, commit, at=to,
        env=key.environment if key else None)  # fmt: skip
    report(f"tag {name} on {commit[:12]}, {'signed' if key else 'not signed'}, in a clone that is removed again")
    return name


# --- verification --------------------------------------------------------------------------------


class Public:
    """A public OpenPGP key in a keyring of its own, so that no other key of this machine counts."""

    def __init__(self, file):
        self.file = pathlib.Path(file)

    def __enter__(self):
        if not self.file.is_file():
            raise Failed(f"no key: {self.file} is not a file")
        self.home = tempfile.TemporaryDirectory(prefix="gpulens-verify-")
        self.environment = {**os.environ, "GNUPGHOME": self.home.name, "LC_ALL": "C"}
        run("gpg", "--batch", "--quiet", "--import", self.file, env=self.environment)
        return self

    def __exit__(self, *_):
        subprocess.run(["gpgconf", "--kill", "all"], env=self.environment, check=False, capture_output=True)
        self.home.cleanup()

    def check(self, path):
        signature = path.with_name(path.name + ".asc")
        if not signature.is_file():
            raise Failed(f"{path.name} is not signed: there is no {signature.name}")
        try:
            run("gpg", "--batch", "--verify", signature, path, env=self.environment)
        except Failed:
            raise Failed(f"{signature.name} is not a signature of {path.name} by the key of {self.file.name}") from None


def check_sums(folder):
    """Every file is listed, and is what is listed."""
    sums = dict(reversed(line.split("  ", 1)) for line in (folder / package_seal.SUMS).read_text().splitlines())
    after = {package_seal.SUMS, package_seal.SIGNATURE, package_seal.PUBLIC, provenance_of(folder).name, provenance_of(folder).name + ".asc"}
    for name in sorted({path.name for path in folder.iterdir() if path.is_file()} - after - set(sums)):
        raise Failed(f"{name} is not in {package_seal.SUMS}")
    for name, digest in sums.items():
        if not (folder / name).is_file():
            raise Failed(f"{name} is in {package_seal.SUMS} and not here")
        if sbom.sha256(folder / name) != digest:
            raise Failed(f"{name} was changed after {package_seal.SUMS} was written")
    return len(sums)


def check_provenance(folder):
    """The statement, whose subjects are what is here; {name in the registry: digest}."""
    statement = json.loads(provenance_of(folder).read_text())
    if (statement["_type"], statement["predicateType"]) != (STATEMENT, PREDICATE):
        raise Failed(f"{provenance_of(folder).name} is no provenance of SLSA version 1")
    pushed = {}
    for subject in statement["subject"]:
        name, digest = subject["name"], subject["digest"]["sha256"]
        if name in ("gpulens", "charts/gpulens"):
            pushed[name] = f"sha256:{digest}"
        elif not (folder / name).is_file() or sbom.sha256(folder / name) != digest:
            raise Failed(f"{name} is not the one that {provenance_of(folder).name} names")
    if set(pushed) != {"gpulens", "charts/gpulens"}:
        raise Failed(f"{provenance_of(folder).name} names no image or no chart")
    return statement["predicate"]["buildDefinition"]["resolvedDependencies"][0]["digest"]["gitCommit"], pushed


def unpack(data, to, wanted=lambda name: True):
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            path = to / member.name
            if not wanted(member.name) or (member.isdir() and path.is_dir()):
                continue
            if ".." in pathlib.PurePosixPath(member.name).parts or member.name.startswith("/"):
                raise Failed(f"a layer has the path {member.name}")
            member.uid = member.gid = os.geteuid()
            member.mode |= 0o700 if member.isdir() else 0
            tar.extract(member, to)


def pulled_image(address, digest, to):
    """Pulls the image of this machine's architecture by the index's digest, and unpacks its layers into two folders: whole, system."""
    index = json.loads(fetch(address, "gpulens", "manifests", digest, INDEX))
    here = run("dpkg", "--print-architecture").strip()
    for entry in index["manifests"]:
        manifest = json.loads(fetch(address, "gpulens", "manifests", entry["digest"], MANIFEST))
        config = json.loads(fetch(address, "gpulens", "blobs", manifest["config"]["digest"]))
        layers = [fetch(address, "gpulens", "blobs", layer["digest"]) for layer in manifest["layers"]]
        if config["rootfs"]["diff_ids"] != ["sha256:" + hashlib.sha256(gzip.decompress(layer)).hexdigest() for layer in layers]:
            raise Failed(f"the layers of {entry['digest']} are not those of its configuration")
        if entry["platform"]["architecture"] == here:
            for layer in layers:
                unpack(layer, to / "image")
            unpack(layers[0], to / "system")


def version_in(root, program, commit):
    """Runs `gpulens version` in a root that has nothing else."""
    own_user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    printed = run("unshare", *own_user, "--mount", "chroot", root, program, "version", env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    if sbom.version() not in printed or commit[:8] not in printed:
        raise Failed(f"{program} in a bare root says it is another version than {sbom.version()} of {commit[:8]}:\n{printed}")


def verify(folder, address, public=None):
    if public:
        with Public(public) as key:
            for path in (folder / package_seal.SUMS, provenance_of(folder)):
                key.check(path)
                report(f"{path.name}: signed by the key of {public.name}")
    else:
        report("no key: signatures are not checked")
    report(f"{package_seal.SUMS}: {check_sums(folder)} files are as listed")
    commit, pushed = check_provenance(folder)
    report(f"{provenance_of(folder).name}: these files, image and chart, of commit {commit[:12]}")
    with tempfile.TemporaryDirectory(prefix="gpulens-bare-") as name:
        work = pathlib.Path(name)
        pulled_image(address, pushed["gpulens"], work)
        version_in(work / "image", "/usr/bin/gpulens", commit)
        report("image: pulled by digest, unpacked, gpulens runs in it")
        manifest = json.loads(fetch(address, "charts/gpulens", "manifests", pushed["charts/gpulens"], MANIFEST))
        (packed,) = folder.glob("gpulens-*.tgz")
        if fetch(address, "charts/gpulens", "blobs", manifest["layers"][0]["digest"]) != packed.read_bytes():
            raise Failed(f"the registry's chart is not {packed.name}")
        report("chart: pulled by digest, the same bytes")
        architecture = run("dpkg", "--print-architecture").strip()
        for path in (*folder.glob(f"gpulens_*_{architecture}.deb"), *folder.glob(f"gpulens-[0-9]*-linux-{os.uname().machine}.tar.gz")):
            root = work / path.suffix[1:]
            shutil.copytree(work / "system", root, symlinks=True)
            if path.suffix == ".deb":
                unpack(subprocess.run(["dpkg-deb", "--fsys-tarfile", path], capture_output=True, check=True).stdout, root, lambda one: one == "./usr/bin/gpulens")
                program = "/usr/bin/gpulens"
            else:
                (root / "opt").mkdir()
                unpack(path.read_bytes(), root / "opt", lambda one: one.endswith("/bin/gpulens"))
                program = "/" + str(next(root.glob("opt/*/bin/gpulens")).relative_to(root))
            version_in(root, program, commit)
            report(f"{path.name}: runs with the C library alone")


# --- all of it -----------------------------------------------------------------------------------


def rehearse(folder, key_file=None):
    for name in (provenance_of(folder).name, provenance_of(folder).name + ".asc"):
        (folder / name).unlink(missing_ok=True)
    if not (folder / package_seal.SUMS).exists():
        raise Failed(f"{folder} is not sealed; tools/package_seal.py does it")
    if changes():
        report("the checkout has changes that are not committed: a release would be refused")
    with package_seal.Key(key_file) if key_file else contextlib.nullcontext() as key, tempfile.TemporaryDirectory(prefix="gpulens-tag-") as clone:
        name = tagged_clone(pathlib.Path(clone) / "clone", key)
        if key:
            git("verify-tag", name, at=pathlib.Path(clone) / "clone", env=key.environment)
        with registry() as address:
            pushed = push(folder, address)
            path = provenance_of(folder)
            path.write_text(json.dumps(provenance(folder, pushed), indent=1) + "\n")
            report(f"{path.name}: {len(json.loads(path.read_text())['subject'])} digests{', signed' if key else ''}")
            if key:
                key.sign(path, path.with_name(path.name + ".asc"))
            verify(folder, address, folder / package_seal.PUBLIC if key else None)
    report(f"a release would publish {sum(1 for path in folder.iterdir() if path.is_file())} files, the image and the chart; nothing was published")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("chart", "rehearse", "verify"))
    parser.add_argument("dist", type=pathlib.Path)
    parser.add_argument("--key", type=pathlib.Path, help="file with a secret OpenPGP key without a passphrase")
    parser.add_argument("--public", type=pathlib.Path, help="file with the public key, from elsewhere than DIST")
    parser.add_argument("--registry", metavar="HOST:PORT")
    options = parser.parse_args()
    try:
        if options.command == "chart":
            chart(options.dist)
        elif options.command == "rehearse":
            rehearse(options.dist, options.key)
        elif options.registry:
            verify(options.dist, options.registry, options.public)
        else:
            parser.error("verify needs --registry")
    except Failed as reason:
        print(f"release: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
