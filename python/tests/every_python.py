"""in_venv.py for each supported Python that is on PATH as python3.N: a wheel of its own, and the tests with that.

usage: every_python.py [UNITTEST ARGUMENT…]

Each is built in build/python/3.N, by what pip fetches for python/pyproject.toml. Exit 1 when one fails, 77 when none is here.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = pathlib.Path(__file__).resolve().parent


def supported():
    """3.9 to 3.13, as the package says of itself."""
    text = (ROOT / "python/pyproject.toml").read_text()
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)


def build_requirements():
    text = (ROOT / "python/pyproject.toml").read_text()
    return re.findall(r'"([^"]+)"', re.search(r"requires = \[([^\]]*)\]", text).group(1))


def found(version):
    """The interpreter; None where there is none, or only the shell of one."""
    python = shutil.which(f"python{version}")
    if python and subprocess.run([python, "-c", "import venv"], capture_output=True).returncode == 0:
        return python
    return None


def builder(python, work):
    """An environment that can build the wheel; its Python."""
    made = work / "builder/bin/python"
    if not (work / "builder/whole").exists():
        shutil.rmtree(work / "builder", ignore_errors=True)
        subprocess.run([python, "-m", "venv", work / "builder"], check=True)
        install = [made, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *build_requirements()], check=True)
        (work / "builder/whole").touch()
    return made


def run(version, python, arguments):
    """The last line that the tests say."""
    work = ROOT / "build/python" / version
    work.mkdir(parents=True, exist_ok=True)
    with open(work / "log", "w") as log:
        try:
            made = builder(python, work)
        except subprocess.CalledProcessError as why:
            return f"FAILED: {why}"
        env = {**os.environ, "GPULENS_PYTHON_WORK": str(work)}
        code = subprocess.run([made, HERE / "in_venv.py", *arguments], stdout=log, stderr=log, env=env).returncode
    last = [line for line in (work / "log").read_text().splitlines() if line.startswith(("Ran ", "OK", "FAILED", "SKIP ALL", "pip wheel"))]
    return f"{'ok' if code == 0 else 'skipped' if code == 77 else 'FAILED'}: {', '.join(last[-2:])}"


def main(arguments):
    outcomes = {}
    for version in supported():
        python = found(version)
        outcomes[version] = run(version, python, arguments) if python else "not here"
        print(f"Python {version}: {outcomes[version]}", flush=True)
    if any(outcome.startswith("FAILED") for outcome in outcomes.values()):
        print("logs: build/python/3.*/log")
        return 1
    return 0 if any(outcome.startswith("ok") for outcome in outcomes.values()) else 77


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
