#!/usr/bin/env python3
"""Prints the copyright notices of targets: ours, and those of each Debian package whose code is in them.

    tools/notices.py BUILD TARGET…          the text
    tools/notices.py BUILD TARGET… --list   the names of the packages

The packages are those that own the archives that ninja links into the targets, the headers that their objects include, and the files of
JavaScript that are compiled in, so nothing is forgotten when a dependency comes. The texts are the packages' own, /usr/share/doc/PACKAGE/copyright.
"""

import fnmatch
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOC = pathlib.Path("/usr/share/doc")
COMMON_LICENSES = pathlib.Path("/usr/share/common-licenses")
RULE = "=" * 100
# The C library is shared; of it, of Python and of the kernel only declarations and constants are compiled in.
NOT_INSIDE = re.compile(r"^(libc6-dev|linux-libc-dev|libpython3.*-dev|python3.*)$")
# Compilers that link their runtime libraries without naming them.
RUNTIME = re.compile(r"^lib(stdc\+\+|gcc)-[0-9]+-dev$")


def lines_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def foreign_files(build, *targets):
    """(archives and scripts, headers) outside the tree that are linked or compiled into the targets."""
    inputs = lines_of("ninja", "-C", build, "-t", "inputs", *targets)
    inputs = [line for line in inputs if not line.startswith("ninja:")]
    archives = {line for line in inputs if line.startswith("/") and line.endswith(".a") and not line.startswith(str(ROOT))}
    archives |= {line for line in inputs if line.startswith("/usr/share/javascript/")}
    objects = [line for line in inputs if line.endswith(".o")]
    deps = {line.strip() for line in lines_of("ninja", "-C", build, "-t", "deps", *objects)}
    headers = {line for line in deps if line.startswith("/usr/include/") or line.startswith("/usr/lib/")}
    if not headers:
        sys.exit(f"notices: ninja knows no headers of {' '.join(targets)} in {build}; build it first")
    return archives, headers


def owners(files):
    """{package: its files among `files`}. Fails for a file that no package owns."""
    found = {}
    for line in lines_of("dpkg", "-S", *sorted(files)) if files else []:
        names, path = line.rsplit(": ", 1)
        for name in names.split(", "):
            found.setdefault(name.split(":")[0], set()).add(path)
    return found


def packages(build, *targets):
    """{package: the headers of it that are used, or None where its archive is linked}, sorted by name."""
    archives, headers = foreign_files(build, *targets)
    found = {name: paths for name, paths in owners(headers).items() if not NOT_INSIDE.match(name)}
    linked = set(owners(archives))
    return {
        name: None if name in linked or RUNTIME.match(name) else found[name] for name in sorted(set(found) | linked)
    }


def field(paragraph, name):
    match = re.search(rf"^{name}:(.*(?:\n[ \t].*)*)", paragraph, re.MULTILINE)
    return match[1].strip() if match else ""


def of_headers(text, headers):
    """What a copyright file in Debian's format says about some headers: holders once each, and the licences that are named."""
    paths = set()
    for header in headers:
        path = header.removeprefix("/usr/include/")
        part = path.split("/")[1].split(".")[0] if "/" in path else path
        paths |= {path, f"include/{path}", f"libs/{part}/include/{path}"}
    paragraphs = [paragraph.strip("\n") for paragraph in re.split(r"\n[ \t]*\n", text)]
    holders, licences = {}, {}
    for paragraph in paragraphs:
        patterns = field(paragraph, "Files").split()
        if not any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns for path in paths):
            continue
        licence = field(paragraph, "License")
        licences[licence.split("\n")[0]] = licence
        for line in field(paragraph, "Copyright").split("\n"):
            if line.strip():
                holders[line.strip()] = None
    texts = []
    for licence, text_here in licences.items():
        names = set(re.split(r" and | or |, ", licence))
        whole = [text_here] if "\n" in text_here else []
        whole += [p[len("License:") :].strip() for p in paragraphs if p.startswith("License:") and field(p, "License").split("\n")[0] in names]
        if not whole:
            sys.exit(f"notices: no text of the licence {licence}")
        texts += whole
    return "Copyright:\n" + "".join(f" {line}\n" for line in holders) + "\n" + "\n\n".join(f"License: {one}" for one in texts) + "\n"


def notices(build, *targets):
    own = f"""gpulens
Copyright: the gpulens developers
License: Apache-2.0
 Licensed under the Apache License, Version 2.0 (the "License"); you may not use these files except in compliance with the License.
 Unless required by applicable law or agreed to in writing, software distributed under the License is distributed on an "AS IS" BASIS,
 WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. On Debian systems the text of the License is in
 /usr/share/common-licenses/Apache-2.0.

Code of the following packages is part of it, with the notices and licences below.
"""
    texts = {}  # of several packages of one source
    for name, headers in packages(build, *targets).items():
        text = (DOC / name / "copyright").read_text(encoding="utf-8")
        if headers is not None and text.startswith("Format:"):
            text = of_headers(text, headers)
        texts.setdefault(text, []).append(name)
    return own + "".join(f"\n{RULE}\n{', '.join(names)}\n{RULE}\n\n{text.strip()}\n" for text, names in texts.items())


def common_licenses(text):
    """The names of the licences in /usr/share/common-licenses to which notices refer, sorted."""
    found = set(re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9])", text))
    return sorted(name for name in found if (COMMON_LICENSES / name).is_file())


def main(arguments):
    build, *targets = [argument for argument in arguments if argument != "--list"]
    if "--list" in arguments:
        print("\n".join(packages(build, *targets)))
    else:
        print(notices(build, *targets), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
