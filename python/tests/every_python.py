"""The tests with an installed wheel, for each supported Python that is here: those of tools/pythons.py, and in the roots of
tools/prepare_pythons.sh, which have another C library and no compiler.

usage: every_python.py [UNITTEST ARGUMENT…]

The wheels are those of dist/ that are newer than every source; others are built as ./dev package builds them. They are installed
without a compiler on PATH. Logs are in build/python/NAME/log. Exit 1 when one fails, 77 when none is here.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools")]
import package_wheels  # noqa: E402
import pythons  # noqa: E402

# The minor version of the Python in each root; a wheel of the stable ABI is built by another one.
ROOTS = {"debian-12": 11, "debian-13": 13, "debian-sid": 14}
SUMMARY = ("Ran ", "OK", "FAILED", "SKIP ALL")
# What of the repository the tests read.
READ = ("python/tests", "tests", "docs", "src", "tools", "bench", "python/pyproject.toml", "README.md", "CHANGELOG.md", "deploy")


def newest_source():
    """The time of the newest source of a wheel."""
    listed = subprocess.run(["git", "ls-files", "-z", "python", "src", "include", "cmake"], cwd=ROOT, capture_output=True, text=True)
    files = [ROOT / name for name in listed.stdout.split("\0") if name and not name.startswith("python/tests/")]
    return max((path.stat().st_mtime for path in files if path.exists()), default=float("inf"))


class Wheels:
    """A wheel for each tag, built at most once."""

    def __init__(self, here):
        self._builders = {}
        for python in here.values():
            if python.headers:
                self._builders.setdefault(python.tag, python)
        self._made = {}
        self._program = package_wheels.auditwheel(next(iter(self._builders.values()))) if self._builders else None

    def of(self, tag):
        """The wheel; None where no Python here can build it. Raises package_wheels.Failed."""
        if tag not in self._made:
            present = [path for path in package_wheels.DIST.glob(f"gpulens-*-{tag}-*.whl") if path.stat().st_mtime > newest_source()]
            if present:
                self._made[tag] = present[0]
            elif tag in self._builders:
                built = package_wheels.wheel(self._builders[tag])
                self._made[tag] = package_wheels.tagged(self._program, built, built.parent) if self._program else built
        return self._made.get(tag)


def install(python, wheel, log, *options):
    """By the pip of a Python, which finds no program to compile with."""
    command = [python, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps", "--no-index", "--only-binary", ":all:", wheel, *options]
    subprocess.run(command, check=True, stdout=log, stderr=log, env={**os.environ, "PATH": str(ROOT / "build/none")})


def in_environment(python, wheel, work, arguments, log):
    shutil.rmtree(work / "venv", ignore_errors=True)
    subprocess.run([python.path, "-m", "venv", work / "venv"], check=True, stdout=log, stderr=log)
    made = work / "venv/bin/python"
    install(made, wheel, log)
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT / "tests/e2e"), "PACKAGED_WHEEL": "1"}
    tests = ["-m", "unittest", "discover", "-v", "-s", "python/tests", "-t", "python/tests", "-p", "test_*.py", *arguments]
    return subprocess.run([made, *tests], cwd=ROOT, stdout=log, stderr=log, env=env).returncode


def furnish(root, wheel, minor, log):
    """Puts the wheel, the tests and what they run into a root."""
    shutil.rmtree(root / "checkout", ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z", *READ], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (root / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / "checkout" / name)
    tag = re.search(r"-([^-]+)-([^-]+)-([^-]+)\.whl$", wheel.name)
    site = root / f"usr/local/lib/python3.{minor}/dist-packages"  # Debian's place for what is not a package of Debian
    shutil.rmtree(site, ignore_errors=True)
    install(sys.executable, wheel, log, "--target", site, "--python-version", f"3.{minor}", "--implementation", "cp", "--abi", tag.group(2),
            "--platform", tag.group(3))
    (root / "usr/local/bin").mkdir(parents=True, exist_ok=True)
    (root / "usr/local/bin/python3").unlink(missing_ok=True)
    (root / "usr/local/bin/python3").symlink_to(f"/usr/bin/python3.{minor}")
    built = root / "checkout/build/release"
    for folder in ("fake_nvml", "fake_amdsmi"):
        if (ROOT / "build/release" / folder).exists():
            shutil.copytree(ROOT / "build/release" / folder, built / folder)
            for library in list((built / folder).iterdir()):  # with the libraries that it needs, but the C library
                for line in subprocess.run(["ldd", library], capture_output=True, text=True).stdout.splitlines():
                    found = re.match(r"\s*(lib(?:yaml|stdc|gcc)\S+) => (\S+)", line)
                    if found:
                        shutil.copy(found.group(2), built / folder / found.group(1))
    authorities = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")  # the machine's; a root has none
    if authorities.exists():
        shutil.copy(authorities, root / "checkout/authorities.pem")
    program = pathlib.Path(os.environ.get("GPULENS_BIN", ROOT / "build/release/gpulens"))
    if program.exists():
        shutil.copy(program, built / "gpulens")


def in_root(root, minor, wheel, arguments, log):
    furnish(root, wheel, minor, log)
    tests = ["-m", "unittest", "discover", "-v", "-s", "python/tests", "-t", "python/tests", "-p", "test_*.py", *arguments]
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": "/checkout/tests/e2e",
           "GPULENS_SHARED": "/none", "PACKAGED_WHEEL": "1", "SSL_CERT_FILE": "/checkout/authorities.pem", "LANG": "C.UTF-8"}
    # Its own view of mounts; no root needed where the kernel lets users have one.
    inner = 'for each in proc dev; do mount --rbind /$each "$0/$each" || exit 1; done; exec chroot "$0" /bin/sh -c \'cd /checkout && exec "$@"\' sh "$@"'
    command = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c", inner, root, f"/usr/bin/python3.{minor}"]
    return subprocess.run([*map(str, command), *tests], stdout=log, stderr=log, env={**env, "PATH": env["PATH"] + ":/usr/sbin:/sbin"}).returncode


def outcome(name, wheel_of, run):
    """What is printed of one Python."""
    work = ROOT / "build/python" / name
    work.mkdir(parents=True, exist_ok=True)
    with open(work / "log", "w", encoding="utf-8") as log:
        try:
            wheel = wheel_of()
            if wheel is None:
                return "skipped: no Python here can build its wheel"
            code = run(wheel, work, log)
        except (package_wheels.Failed, subprocess.CalledProcessError) as why:
            log.write(str(why))
            return f"FAILED: {str(why).splitlines()[0]}"
    reported = [line for line in (work / "log").read_text(encoding="utf-8").splitlines() if line.startswith(SUMMARY)]
    return f"{'ok' if code == 0 else 'FAILED'}, {wheel.name}: {', '.join(reported[-2:])}"


def main(arguments):
    here = pythons.found()
    wheels, outcomes = Wheels(here), {}
    for name in [version for version in pythons.supported() if version not in here]:
        print(f"Python {name}: not here", flush=True)
    for name, python in here.items():
        outcomes[name] = outcome(name, lambda: wheels.of(python.tag), lambda wheel, work, log: in_environment(python, wheel, work, arguments, log))
        print(f"Python {name}: {outcomes[name]}", flush=True)
    for name, minor in ROOTS.items():
        root = pythons.HOME / name
        if not (root / "whole").exists():
            print(f"{name}: not here (tools/prepare_pythons.sh)", flush=True)
            continue
        tag = pythons.Python(f"3.{minor}", None, False).tag
        outcomes[name] = outcome(name, lambda: wheels.of(tag), lambda wheel, work, log: in_root(root, minor, wheel, arguments, log))
        print(f"{name}, Python 3.{minor}: {outcomes[name]}", flush=True)
    if any(each.startswith("FAILED") for each in outcomes.values()):
        print("logs: build/python/NAME/log")
        return 1
    return 0 if any(each.startswith("ok") for each in outcomes.values()) else 77


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
