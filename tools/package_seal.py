#!/usr/bin/env python3
"""Completes a folder of files that are published: bills of materials, checksums and, with a key, signatures.

    tools/package_seal.py FOLDER [--sign KEYFILE]
    tools/package_seal.py --sign KEYFILE             only tries the key

gpulens-VERSION.cdx.json, gpulens-VERSION.spdx.json   what is inside each file (tools/sbom.py)
SHA256SUMS                                            of all files, for sha256sum --check
SHA256SUMS.asc, gpulens-key.asc                       with --sign: a detached OpenPGP signature, and the public key

KEYFILE holds one secret OpenPGP key without a passphrase (gpg --export-secret-keys --armor). It is imported into a temporary keyring and never
written elsewhere; nothing prompts. --sign also signs each .rpm inside, which is what rpm and dnf check. apt checks repositories, not
files: a .deb is covered by SHA256SUMS. Run again without it SHA256SUMS.asc goes.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import sbom

SUMS, SIGNATURE, PUBLIC = "SHA256SUMS", "SHA256SUMS.asc", "gpulens-key.asc"


def run(*command, environment=None, **options):
    done = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment, text=True, **options
    )
    if done.returncode:
        sys.exit(f"seal: {command[0]} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


class Key:
    """A secret key in a keyring of its own, for the time of a `with`."""

    GPG = ("gpg", "--batch", "--no-tty", "--pinentry-mode", "error")

    def __init__(self, file):
        self.file = pathlib.Path(file)

    def __enter__(self):
        if not self.file.is_file():
            sys.exit(f"seal: no key: {self.file} is not a file")
        for program in ("gpg", "gpgconf"):
            if not shutil.which(program):
                sys.exit(f"seal: no {program} here (Debian: gpg, gpg-agent)")
        self.home = tempfile.TemporaryDirectory(prefix="gpulens-sign-")
        self.environment = {**os.environ, "GNUPGHOME": self.home.name, "LC_ALL": "C"}
        try:
            self._gpg("--import", self.file)
            keys = [line.split(":") for line in self._gpg("--list-secret-keys", "--with-colons", "--fingerprint").splitlines()]
            found = [row[9] for before, row in zip(keys, keys[1:]) if before[0] == "sec" and row[0] == "fpr"]
            if len(found) != 1:
                sys.exit(f"seal: {self.file} has {len(found)} secret keys, and one is needed")
            self.fingerprint = found[0]
            probe = pathlib.Path(self.home.name, "probe")
            probe.write_text("probe")
            self._gpg("--local-user", self.fingerprint, "--detach-sign", probe, failed=f"the key of {self.file} cannot sign; it must have no passphrase")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        subprocess.run(["gpgconf", "--kill", "all"], env=self.environment, check=False, capture_output=True)
        with contextlib.suppress(OSError):
            self.home.cleanup()

    def _gpg(self, *words, failed=None):
        command = [str(word) for word in (*self.GPG, *words)]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=self.environment, check=False)
        if done.returncode:
            sys.exit(f"seal: {failed or f'gpg cannot read {self.file}'}: {done.stderr.strip().splitlines()[-1]}")
        return done.stdout

    def sign_rpm(self, path):
        if not shutil.which("rpmsign"):
            sys.exit("seal: no rpmsign here (Debian: rpm)")
        run(
            "rpmsign", "--addsign", "--define", f"_gpg_name {self.fingerprint}", "--define", f"_gpg_path {self.home.name}", "--define", f"__gpg {shutil.which('gpg')}",
            "--define", "_gpg_sign_cmd_extra_args --batch --no-tty --pinentry-mode error", path, environment=self.environment,
        )  # fmt: skip

    def sign(self, path, to):
        self._gpg("--yes", "--armor", "--local-user", self.fingerprint, "--output", to, "--detach-sign", path)

    def write_public(self, to):
        self._gpg("--yes", "--armor", "--output", to, "--export", self.fingerprint)


def seal(folder, key=None):
    documents = {folder / f"gpulens-{sbom.version()}.{kind}.json": make for kind, make in (("cdx", sbom.cyclonedx), ("spdx", sbom.spdx))}
    for path in [*folder.glob("gpulens-*.cdx.json"), *folder.glob("gpulens-*.spdx.json"), *folder.glob("gpulens-*.provenance.json*"), *(folder / name for name in (SUMS, SIGNATURE, PUBLIC))]:
        path.unlink(missing_ok=True)
    rpms = sorted(folder.glob("*.rpm"))
    if key:
        for path in rpms:
            key.sign_rpm(path)
    inside = sbom.contents(folder)
    for path, make in documents.items():
        sbom.write(path, make(inside))
    sums = "".join(f"{sbom.sha256(path)}  {path.name}\n" for path in sorted(folder.iterdir()))
    (folder / SUMS).write_text(sums, encoding="utf-8")
    if key:
        key.sign(folder / SUMS, folder / SIGNATURE)
        key.write_public(folder / PUBLIC)
    print(f"  {SUMS}  of {len(sums.splitlines())} files" + (f", signed by {key.fingerprint}" if key else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path, nargs="?", help="without one, the key is tried and nothing is written")
    parser.add_argument("--sign", metavar="KEYFILE", help="file with a secret OpenPGP key without a passphrase")
    arguments = parser.parse_args()
    if not os.environ.get("SOURCE_DATE_EPOCH"):
        os.environ["SOURCE_DATE_EPOCH"] = run("git", "log", "-1", "--format=%ct", cwd=sbom.ROOT).strip()
    with Key(arguments.sign) if arguments.sign else contextlib.nullcontext() as key:
        if arguments.folder:
            seal(arguments.folder, key)


if __name__ == "__main__":
    main()
