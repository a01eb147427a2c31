"""Shared code of the tools: the files of the project, and C++ text without its comments and strings."""
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED_FOLDERS = {".git", "build", "dist", "__pycache__", "generated", "node_modules"}


def files(root=ROOT):
    """Every file of the project, sorted, as paths relative to `root`. Build trees, caches and generated
    files are left out; testdata is not."""
    found = []
    for folder, names, entries in os.walk(root):
        names[:] = sorted(n for n in names if n not in SKIPPED_FOLDERS)
        for entry in entries:
            path = pathlib.Path(folder, entry)
            if not path.is_symlink():
                found.append(path.relative_to(root))
    return sorted(found)


_TOKENS = re.compile(
    r"""//(?:[^\n\\]|\\.|\\\n)*          # a comment to the end of the line
      | /\*.*?\*/                        # a comment between stars
      | \b(?:u8|[uUL])?R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"
      | "(?:[^"\\\n]|\\.)*"
      | (?<![0-9A-Fa-f])'(?:[^'\\\n]|\\.)+'     # not the separator in 1'000
    """,
    re.DOTALL | re.VERBOSE,
)


def code_of(text):
    """`text` with comments and the insides of literals blanked, so that every line and column stays where
    it was. Names of included files are kept."""

    def blank(match):
        token = match.group(0)
        start = text.rfind("\n", 0, match.start()) + 1
        if token.startswith('"') and re.match(r"\s*#\s*include\b", text[start : match.start()]):
            return token
        if token.startswith("/"):
            return re.sub(r"[^\n]", " ", token)
        return token[0] + re.sub(r"[^\n]", " ", token[1:-1]) + token[-1]

    return _TOKENS.sub(blank, text)


def is_test(path):
    """Whether this C++ file is a test, benchmark or fuzzer, and so not part of the product."""
    return path.parts[0] == "tests" or path.stem.endswith(("_test", "_testing", "_bench", "_fuzz"))
