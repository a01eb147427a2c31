"""The packages of this tree, made once for all tests of a process."""
import functools
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
WORK = ROOT / "build" / "package_test"
PROGRAM = "/usr/bin/gpulens"


def run(*command, check=True, **options):
    """Output of a command as text. Fails with its output when it ends with another code than 0."""
    done = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=options.pop("timeout", 300), **options
    )
    if check and done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


@functools.cache
def packages(name="first"):
    """Folder with the .deb, tar.gz and, where there is rpmbuild, .rpm that tools/package.sh makes, with what tools/package_seal.py adds."""
    shutil.rmtree(WORK / name, ignore_errors=True)
    run(ROOT / "tools" / "package.sh", WORK / name, timeout=900)
    run(ROOT / "tools" / "package_seal.py", WORK / name)
    return WORK / name


def package(pattern):
    found = sorted(packages().glob(pattern))
    if len(found) != 1:
        raise AssertionError(f"{pattern}: {[path.name for path in packages().iterdir()]}")
    return found[0]


def version():
    return re.search(r"project\(gpulens VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
