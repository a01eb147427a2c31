"""Builds the wheel as pip does, installs it into a virtual environment of its own, and runs the tests with that.

usage: in_venv.py [--torch | --otlp | --clients | --servers] [UNITTEST ARGUMENT…]

--torch: the tests that need PyTorch (torch_*.py), with the machine's own one (Debian: python3-torch) and the wheel that the run
without it has left; exit 77 where one of them is not here.
--otlp: the tests that need a receiver of others (otlp_*.py), with the packages of tools/requirements.txt and that wheel.
--clients: the same for the clients of OpenAI and Anthropic (clients_*.py).
--servers: the same for servers with several workers, gunicorn and uvicorn (servers_*.py).

Run by a Python that has scikit-build-core and nanobind (tools/requirements.txt). Exit 77, with the reason, where they or
Python's headers are not here. The wheel is left in build/python/, the environment in build/python/venv.
"""
import functools
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORK = pathlib.Path(os.environ.get("GPULENS_PYTHON_WORK", ROOT / "build/python"))  # every_python.py: one for each


def absent():
    for module in ("scikit_build_core", "nanobind"):
        if importlib.util.find_spec(module) is None:
            return f"{sys.executable} has no {module}; tools/prepare_peers.sh installs tools/requirements.txt"
    if not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists():
        return "Python's headers are not here (Debian: python3-dev)"
    return None


def wheel():
    """The wheel, built as a user builds it, but with the packages that are here and with warnings as errors."""
    for old in WORK.glob("*.whl"):
        old.unlink()
    command = [sys.executable, "-m", "pip", "wheel", ROOT / "python", "--no-deps", "--no-index", "--no-build-isolation"]
    command += ["--disable-pip-version-check", "--wheel-dir", WORK, "--config-settings=cmake.define.GPULENS_STRICT=ON"]
    # The name under which CMake calls the compiler elsewhere, so that ccache knows what was compiled there.
    command += ["--config-settings=cmake.define.CMAKE_CXX_COMPILER=c++"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SystemExit(f"pip wheel failed:\n{done.stdout}")
    (built,) = WORK.glob("*.whl")
    return built


def environment(built, folder="venv", base=sys.executable, *options):
    """A fresh environment with that wheel and nothing else; its Python."""
    shutil.rmtree(WORK / folder, ignore_errors=True)
    subprocess.run([base, "-m", "venv", "--without-pip", *options, WORK / folder], check=True)
    python = WORK / folder / "bin/python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", built], check=True)
    return python


def with_torch():
    """An environment that sees a machine's packages in addition to the wheel; its Python, or why there is none."""
    wheels = list(WORK.glob("*.whl"))
    if not wheels:
        return None, "no wheel in build/python; run this without --torch"
    queried = "import sys, torch; print(*sys.version_info[:2])"
    for base in (sys.executable, "/usr/bin/python3"):  # which may be another than the one on PATH
        done = subprocess.run([base, "-c", queried], capture_output=True, text=True)
        if done.returncode == 0 and done.stdout.split() == [str(part) for part in sys.version_info[:2]]:
            return environment(wheels[0], "venv-torch", base, "--system-site-packages"), None
    return None, f"no PyTorch for Python {sys.version_info[0]}.{sys.version_info[1]} here (Debian: python3-torch)"


def with_packages(option, *modules):
    """An environment with the wheel and the packages of this Python; its Python, or the reason why there is none."""
    wheels = list(WORK.glob("*.whl"))
    if not wheels:
        return None, f"no wheel in build/python; run this without {option}"
    for module in modules:
        try:
            found = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            return None, f"{sys.executable} has no {module}; tools/prepare_peers.sh installs tools/requirements.txt"
    folder = f"venv{option[1:]}"
    python = environment(wheels[0], folder)
    (site,) = (WORK / folder / "lib").glob("python*/site-packages")
    (site / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python, None


HEAVIER = {
    "--torch": (with_torch, "torch_*.py"),
    "--otlp": (functools.partial(with_packages, "--otlp", "grpc", "opentelemetry.proto"), "otlp_*.py"),
    "--clients": (functools.partial(with_packages, "--clients", "openai", "anthropic"), "clients_*.py"),
    "--servers": (functools.partial(with_packages, "--servers", "gunicorn", "uvicorn"), "servers_*.py"),
}


def run(python, pattern, arguments):
    tests = ["-m", "unittest", "discover", "-v", "-s", "python/tests", "-t", "python/tests", "-p", pattern, *arguments]
    return subprocess.run([python, *tests], cwd=ROOT, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT / "tests/e2e"),
                                                    "GPULENS_TOOLS_PYTHON": sys.executable}).returncode


def main(arguments):
    if arguments and arguments[0] in HEAVIER:
        make, pattern = HEAVIER[arguments[0]]
        python, why = make()
        if why:
            print(f"SKIP ALL: {why}")
            return 77
        return run(python, pattern, arguments[1:])
    why = absent()
    if why:
        print(f"SKIP ALL: {why}")
        return 77
    WORK.mkdir(parents=True, exist_ok=True)
    python = environment(wheel())
    return run(python, "test_*.py", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
