"""The CPythons that are here, for the wheels and their tests. Used by tools/package_wheels.py and python/tests/every_python.py.

Looks at PATH, at pyenv's versions and at build/pythons, which tools/prepare_pythons.sh fills. Names are "3.9", and "3.13t" for a
free-threaded one.
"""
import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOME = ROOT / "build/pythons"

# Prints the name, and whether Python.h is there.
QUERY = """import ensurepip, os, sys, sysconfig, venv
free = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
name = "%d.%d" % sys.version_info[:2]
print(name + free, os.path.exists(sysconfig.get_path("include") + "/Python.h"))"""


class Python:
    def __init__(self, name, path, headers):
        self.name, self.path, self.headers = name, path, headers
        self.minor = int(re.match(r"3\.(\d+)", name).group(1))
        self.free_threaded = name.endswith("t")

    @property
    def tag(self):
        """The tags of the package's wheel for it: from 3.12 on one wheel for all, but for those that are free-threaded."""
        own = "cp" + self.name.replace(".", "")
        if self.free_threaded:
            return f"cp3{self.minor}-{own}"
        return "cp312-abi3" if self.minor >= 12 else f"{own}-{own}"


def supported():
    """The versions that the package names in python/pyproject.toml."""
    text = (ROOT / "python/pyproject.toml").read_text(encoding="utf-8")
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)


def _candidates(name):
    version = name.rstrip("t")
    for found in (shutil.which(f"python{name}"), HOME / name / f"bin/python{version}", HOME / name / f"bin/python{name}"):
        if found:
            yield pathlib.Path(found)
    versions = pathlib.Path(os.environ.get("PYENV_ROOT") or pathlib.Path.home() / ".pyenv") / "versions"
    pattern = f"{version}.*t" if name != version else f"{version}.*"
    yield from sorted(versions.glob(f"{pattern}/bin/python{version}"), reverse=True)


def found():
    """The Pythons that run and can make environments, by name; of those with one name the first that has headers."""
    out = {}
    for name in [version + free for version in supported() for free in ("", "t")]:
        for path in _candidates(name):
            done = subprocess.run([path, "-c", QUERY], capture_output=True, text=True) if path.exists() else None
            words = done.stdout.split() if done and done.returncode == 0 else []
            if not words or words[0] != name:
                continue
            headers = words[1] == "True"
            if name not in out or headers and not out[name].headers:
                out[name] = Python(name, path, headers)
    return out


if __name__ == "__main__":
    for python in found().values():
        print(python.name, python.path, "" if python.headers else "without headers", sep="\t")
