#!/usr/bin/env python3
"""Writes the files of the packages that are made of others: BUILD/package/.

    tools/package_files.py BUILD EPOCH        CROSS in the environment is the prefix of the tools of another architecture

copyright, copyright-dev  notices of all code in the program, in the SDK's archive (tools/notices.py)
debug/                    what strip takes from the program, by its build id: where gdb, perf and debuggers alike look
licenses/                 the texts that these name, for systems that are not Debian
man/                      the manual pages (tools/manual.py)
completions/              for bash, zsh and fish: what gpulens completion prints
changelog.gz              Debian's, of EPOCH, the time of the commit
doc/                      README.md and docs/ with CHANGELOG.md; a link to a file that is not packed is plain text
"""

import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import manual
import notices

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAINTAINER = "gpulens developers <maintainers@gpulens.invalid>"


def write_gzip(path, text):
    # Without a time and a name the bytes depend on the text alone.
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def write_notices(build, out):
    names = set()
    for target, name in (("gpulens", "copyright"), ("gpulens_sdk", "copyright-dev")):
        text = notices.notices(str(build), target)
        (out / name).write_text(text, encoding="utf-8")
        names |= set(notices.common_licenses(text))
    (out / "licenses").mkdir()
    for name in sorted(names):
        text = notices.COMMON_LICENSES / name
        # GPL is a link to the newest, which may be here under its own name.
        if text.is_symlink() and os.readlink(text) in names:
            (out / "licenses" / name).symlink_to(os.readlink(text))
        else:
            shutil.copy(text, out / "licenses" / name)


def write_debug(program, out):
    text = subprocess.run(["readelf", "--notes", program], check=True, capture_output=True, text=True).stdout
    identity = re.search(r"Build ID: ([0-9a-f]{3,})", text)[1]
    to = out / "debug" / ".build-id" / identity[:2] / f"{identity[2:]}.debug"
    to.parent.mkdir(parents=True)
    subprocess.run([os.environ.get("CROSS", "") + "objcopy", "--only-keep-debug", "--compress-debug-sections", program, to], check=True)
    to.chmod(0o644)


def write_manual(program, out, version, date):
    for name, text in manual.pages(program, version, date).items():
        path = out / "man" / f"{name}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_gzip(path, text)


def write_completions(program, out):
    """By the names under which the shells look for them."""
    (out / "completions").mkdir()
    for shell, name in (("bash", "gpulens"), ("zsh", "_gpulens"), ("fish", "gpulens.fish")):
        text = subprocess.run([program, "completion", shell], check=True, capture_output=True, text=True).stdout
        (out / "completions" / name).write_text(text, encoding="utf-8")


def linked_text(text, source, packed):
    """Markdown whose links lead to where files are packed; links to others become plain text."""

    def replace(match):
        target, hash_sign, anchor = match[2].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        to = packed.get((source.parent / target).resolve())
        if to is None:
            return match[1]
        return f"[{match[1]}]({os.path.relpath(to, packed[source].parent)}{hash_sign}{anchor})"

    return re.sub(r"\[([^\]\[]*)\]\(([^)\s]+)\)", replace, text)


def write_documents(out):
    tracked = subprocess.run(["git", "ls-files", "docs"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    # CHANGELOG.md is among the pages: next to README.md it would have to have Debian's name.
    packed = {ROOT / "README.md": pathlib.Path("README.md"), ROOT / "CHANGELOG.md": pathlib.Path("docs/CHANGELOG.md")}
    packed |= {ROOT / name: pathlib.Path(name) for name in tracked}
    packed |= {ROOT / parent: parent for name in tracked for parent in pathlib.Path(name).parents if parent.parts}
    for file, place in packed.items():
        to = out / "doc" / place
        if file.is_dir():
            to.mkdir(parents=True, exist_ok=True)
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            to.write_text(linked_text(file.read_text(encoding="utf-8"), file, packed), encoding="utf-8")
        else:
            shutil.copy(file, to)


def main(build, epoch):
    build = pathlib.Path(build).resolve()
    out = build / "package"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    when = time.gmtime(int(epoch))
    version = re.search(r"project\(gpulens VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    # What was compiled for another architecture does not run here; build/release has the same code.
    runs_here = ROOT / "build/release" if os.environ.get("CROSS") else build
    write_notices(runs_here, out)
    write_debug(build / "gpulens", out)
    write_manual(runs_here / "gpulens", out, version, time.strftime("%Y-%m-%d", when))
    write_completions(runs_here / "gpulens", out)
    date = time.strftime("%a, %d %b %Y %H:%M:%S +0000", when)
    write_gzip(
        out / "changelog.gz",
        f"gpulens ({version}) unstable; urgency=medium\n\n"
        f"  * gpulens {version}. /usr/share/doc/gpulens/docs/CHANGELOG.md lists what changed.\n\n -- {MAINTAINER}  {date}\n",
    )
    write_documents(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
