#!/usr/bin/env python3
"""What is inside each file that is published, and the two bills of materials that list it.

    tools/sbom.py [--fields TSV] BUILD TARGET FILE…     records for each FILE what ninja links into TARGET; where the packages are not
                                                         those installed here, TSV has name, version, architecture and source of each
    tools/sbom.py [--fields TSV] --rows OUT BOOST GCC    rows of C++ for `gpulens version --libraries`: what docs/dependencies.md lists, with
                                                         the packages that are installed; BOOST (1.81) and GCC (12) are part of their names

Records are build/contents/FILE.json: a list of components, each an object of name, version, license (an SPDX expression), purl
and, where it is a Debian package, its copyright file's place. Whatever else makes a file (tools/package_wheels.py, an image) calls
record() with the same. tools/package_seal.py writes the documents: CycloneDX 1.6 and SPDX 2.3, both JSON, which list every file of a
folder with its SHA-256 and what is inside it. The same files and records give the same bytes; the time is SOURCE_DATE_EPOCH.

Licences are those of docs/dependencies.md, the column of the part that is linked; a test holds that table against what is linked.
The C library is not in the lists: it is the system's, and not shipped.
"""

import contextlib
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.parse
import uuid

import notices

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORDS = ROOT / "build" / "contents"
SUPPLIER = "gpulens developers"
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "gpulens.invalid")


def version():
    return re.search(r"project\(gpulens VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


@functools.cache
def shipped():
    """{package: (SPDX expression, how it is linked)} of the first table of docs/dependencies.md, in its order. The compiler's and the C
    library are under the names of their rows."""
    table = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8").split("## In the shipped program")[1].split("\n## ")[0]
    found = {}
    for line in re.findall(r"(?m)^\|.*", table)[2:]:
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 5:
            for name in re.findall(r"[a-z0-9+.-]+", cells[1].split("(")[0]):
                found[name] = tuple(re.split(r"[;(,]", cell)[0].strip() for cell in cells[4:6])
    return found


def license_of(package):
    """The licence of what is linked of a Debian package. Fails for one that the table lacks."""
    plain = re.sub(r"boost1\.\d+-dev", "boost1.81-dev", package)
    runtime = notices.RUNTIME.match(package)
    found = shipped().get(f"lib{runtime[1]}" if runtime else plain)
    if not found:
        sys.exit(f"sbom: docs/dependencies.md has no licence of {package}")
    return found[0]


@functools.cache
def system():
    """(namespace of purl, name of the distribution with its release) of this machine."""
    text = pathlib.Path("/etc/os-release").read_text(encoding="utf-8")
    fields = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', text, re.MULTILINE))
    return fields["ID"], "-".join(filter(None, (fields["ID"], fields.get("VERSION_ID"))))


def debian_purl(package, package_version, architecture, source):
    """`upstream` is what lists of weaknesses are keyed by; readers of purl pass over what they do not know."""
    namespace, distribution = system()
    quoted = urllib.parse.quote(package_version, safe="~.-_")
    upstream = "" if source == package else f"&upstream={urllib.parse.quote(source, safe='~.-_')}"
    return f"pkg:deb/{namespace}/{urllib.parse.quote(package, safe='~.-_')}@{quoted}?arch={architecture}&distro={distribution}{upstream}"


def debian_component(package, license_here, field=None):
    """A Debian package that is installed here; `field` returns its fields by other means (a root, a sysroot)."""
    form = "${Version}\t${Architecture}\t${source:Package}"
    text = field(package, form) if field else notices.lines_of("dpkg-query", "-W", "-f", form + "\n", package)[0]
    package_version, architecture, source = text.split("\t")
    return {
        "name": package,
        "version": package_version,
        "license": license_here,
        "purl": debian_purl(package, package_version, architecture, source),
    }


def linked(build, *targets, field=None):
    """The components of targets of a build tree."""
    return [debian_component(name, license_of(name), field) for name in notices.packages(str(build), *targets)]


def record(file, components):
    """Keeps what is inside a file that will be published, by its name."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    ordered = sorted(components, key=lambda one: (one["name"], one["version"]))
    (RECORDS / f"{file}.json").write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


def contents(folder):
    """{file: its components} of a folder's files. Fails for a file of which nothing is recorded."""
    found = {}
    for path in sorted(folder.iterdir()):
        kept = RECORDS / f"{path.name}.json"
        if not kept.exists():
            sys.exit(f"sbom: nothing says what is inside {path}: it was made by another tree; make it again, or remove it")
        found[path] = json.loads(kept.read_text(encoding="utf-8"))
    return found


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else hashlib.sha256(file.read()).hexdigest()


def moment():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"])))


def cyclonedx(files):
    """The document of CycloneDX 1.6 for {file: components}."""
    libraries = {one["purl"]: one for components in files.values() for one in components}
    own = f"pkg:generic/gpulens@{version()}"
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": moment(),
            "supplier": {"name": SUPPLIER},
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "gpulens",
                "version": version(),
                "licenses": [{"expression": "Apache-2.0"}],
                "purl": own,
            },
        },
        "components": [
            {
                "type": "file",
                "bom-ref": f"file:{path.name}",
                "name": path.name,
                "version": version(),
                "hashes": [{"alg": "SHA-256", "content": sha256(path)}],
                "licenses": [{"expression": "Apache-2.0"}],
            }
            for path in files
        ]
        + [
            {
                "type": "library",
                "bom-ref": purl,
                "name": one["name"],
                "version": one["version"],
                "licenses": [{"expression": one["license"]}],
                "purl": purl,
            }
            for purl, one in sorted(libraries.items())
        ],
        "dependencies": [{"ref": own, "dependsOn": [f"file:{path.name}" for path in files]}]
        + [{"ref": f"file:{path.name}", "dependsOn": sorted(one["purl"] for one in components)} for path, components in files.items()]
        + [{"ref": purl, "dependsOn": []} for purl in sorted(libraries)],
    }
    document["serialNumber"] = "urn:uuid:" + str(uuid.uuid5(NAMESPACE, json.dumps(document, sort_keys=True)))
    return document


def spdx(files):
    """The document of SPDX 2.3 for {file: components}."""
    libraries = {one["purl"]: one for components in files.values() for one in components}

    def package(identity, name, its_version, license_here, **more):
        unknown = {"downloadLocation": "NOASSERTION", "copyrightText": "NOASSERTION", "filesAnalyzed": False}
        licence = {"licenseConcluded": license_here, "licenseDeclared": license_here}
        return {"SPDXID": identity, "name": name, "versionInfo": its_version, **licence, **unknown, **more}

    def identity(text):
        return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", text)

    refs = {purl: identity(f"{one['name']}-{one['version']}-{hashlib.sha256(purl.encode()).hexdigest()[:8]}") for purl, one in libraries.items()}
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", identity(path.name)) for path in files]
    relations += [(refs[one["purl"]], "STATIC_LINK" if one.get("linked", True) else "CONTAINED_BY", identity(path.name))
                  for path, components in files.items() for one in components]  # fmt: skip
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"gpulens-{version()}",
        "creationInfo": {"created": moment(), "creators": [f"Organization: {SUPPLIER}", "Tool: tools/sbom.py"]},
        "packages": [
            package(
                identity(path.name), path.name, version(), "Apache-2.0", packageFileName=path.name, supplier=f"Organization: {SUPPLIER}",
                primaryPackagePurpose="ARCHIVE", checksums=[{"algorithm": "SHA256", "checksumValue": sha256(path)}],
            )
            for path in files
        ]
        + [
            package(
                refs[purl], one["name"], one["version"], one["license"], primaryPackagePurpose="LIBRARY",
                externalRefs=[{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}],
            )
            for purl, one in sorted(libraries.items())
        ],
        "relationships": [
            {"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b} for a, kind, b in relations
        ],
    }  # fmt: skip
    document["documentNamespace"] = f"https://gpulens.invalid/spdx/gpulens-{version()}-{uuid.uuid5(NAMESPACE, json.dumps(document, sort_keys=True))}"
    return document


def write(path, document):
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def upstream(package_version):
    """The version that Debian's revision is of: 1.5.4 of 1.5.4+dfsg2-5."""
    return re.sub(r"[+~].*", "", re.sub(r"^\d+:|-[^-]*$", "", package_version))


def compiled_rows(boost, gcc, field=None):
    """Rows of src/cli/version/libraries.cc. A package that is not installed has no version; the C library is of no package."""
    package_of = {"libboost1.81-dev": f"libboost{boost}-dev", "libc": ""} | {name: f"{name}-{gcc}-dev" for name in ("libstdc++", "libgcc")}
    rows = []
    for name, (license_here, linked_as) in shipped().items():
        package, one = package_of.get(name, name), {"version": "", "purl": ""}
        with contextlib.suppress(OSError, subprocess.CalledProcessError):  # no dpkg here, or not installed
            one = debian_component(package, license_here, field) if package else one
        cells = (name, package, one["version"], upstream(one["version"]), license_here, linked_as, one["purl"])
        rows.append("{" + ", ".join(json.dumps(cell) for cell in cells) + "},\n")
    return "".join(rows)


def fields_of(table):
    """What debian_component queries, of packages that a table lists."""
    lines = [line.split("\t", 1) for line in pathlib.Path(table).read_text(encoding="utf-8").splitlines()]
    known = dict(lines)

    def field(package, _):
        if package not in known:
            sys.exit(f"sbom: {table} has no {package}")
        return known[package]

    return field


def main(*arguments):
    field = None
    if arguments[0] == "--fields":
        field, arguments = fields_of(arguments[1]), arguments[2:]
    if arguments[0] == "--rows":
        out, text = pathlib.Path(arguments[1]), compiled_rows(*arguments[2:], field)
        out.parent.mkdir(parents=True, exist_ok=True)
        if not out.exists() or out.read_text(encoding="utf-8") != text:  # else what includes it would be compiled again
            out.write_text(text, encoding="utf-8")
        return
    build, target, *files = arguments
    components = linked(build, target, field=field)
    for file in files:
        record(pathlib.Path(file).name, components)


if __name__ == "__main__":
    main(*sys.argv[1:])
