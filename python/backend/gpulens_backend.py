"""Build backend: scikit-build-core, for a package whose C++ sources lie outside its folder.

In a checkout the build tree is build/python-TAG of the repository, so that paths below the root are the
same as in its other build trees and ccache finds what they compiled. An sdist contains the sources it
needs in sdk/.
"""
import contextlib
import pathlib
import re
import shutil

from scikit_build_core import build as _inner
from scikit_build_core.build import *  # noqa: F401,F403: the hooks that need no help

HERE = pathlib.Path(__file__).resolve().parent.parent
ROOT = HERE.parent
CARRIED = ["LICENSE", "cmake", "include", "tools/spec_table.py"]
OURS = {".h", ".cc", ".def", ".tsv", ".inc", ".cmake", ".map"}


def _in_checkout():
    return (ROOT / "src/instruments").is_dir() and (ROOT / "include/gpulens").is_dir()


def _with_tree(settings):
    settings = dict(settings or {})
    if _in_checkout():
        settings.setdefault("build-dir", str(ROOT / "build" / "python-{wheel_tag}"))
    return settings


def _floors():
    """Returns the folders of src/ that the SDK is made of."""
    text = (ROOT / "cmake/SdkParts.cmake").read_text(encoding="utf-8")
    return re.search(r"set\(GPULENS_SDK_FLOORS\s([^)]*)\)", text).group(1).split()


def _ignore_tests(folder, names):
    """Returns the names that are not sources of the product, for shutil.copytree."""
    path = pathlib.Path(folder)
    return [
        n for n in names
        if n == "testdata" or (path / n).is_file() and (
            pathlib.Path(n).suffix not in OURS or re.search(r"_(test|bench|fuzz|main)\.cc$", n))
    ]


@contextlib.contextmanager
def _sources_next_to_it():
    """Copies the sources to sdk/ while an sdist is made; an unpacked sdist has them already."""
    target = HERE / "sdk"
    if not _in_checkout():
        yield
        return
    shutil.rmtree(target, ignore_errors=True)
    try:
        for name in CARRIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, target / name)
            else:
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, target / name)
        for floor in _floors():
            shutil.copytree(ROOT / "src" / floor, target / "src" / floor, ignore=_ignore_tests)
        yield
    finally:
        shutil.rmtree(target, ignore_errors=True)


def build_sdist(sdist_directory, config_settings=None):
    with _sources_next_to_it():
        return _inner.build_sdist(sdist_directory, config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _inner.build_wheel(wheel_directory, _with_tree(config_settings), metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _inner.build_editable(wheel_directory, _with_tree(config_settings), metadata_directory)
