"""Type checkers accept good uses of the package and refuse each misspelt one: typed_uses.py says which.

mypy comes with tools/requirements.txt; pyright is used where it is on PATH. Where one is not here, its test is skipped.
"""
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import gpulens

USES = pathlib.Path(__file__).with_name("typed_uses.py")
TOOLS = pathlib.Path(__file__).resolve().parents[2] / "build/venv/bin/python"


def marks():
    """The lines that are wrong, and the codes of mypy of which one is theirs."""
    found = {}
    for number, line in enumerate(USES.read_text(encoding="utf-8").splitlines(), 1):
        mark = re.search(r"  # wrong: (\S+)$", line)
        if mark:
            found[number] = set(mark.group(1).split(","))
    return found


def mypy():
    """The command; None where mypy is not here."""
    for python in (os.environ.get("GPULENS_TOOLS_PYTHON", ""), str(TOOLS), sys.executable):
        if python and pathlib.Path(python).exists():
            if subprocess.run([python, "-c", "import mypy"], capture_output=True).returncode == 0:
                return [python, "-m", "mypy"]
    found = shutil.which("mypy")
    return [found] if found else None


class Checkers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpulens-typing-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        shutil.copy(USES, self.folder)

    def test_mypy(self):
        command = mypy()
        if command is None:
            self.skipTest("no mypy here; tools/prepare_peers.sh installs tools/requirements.txt")
        done = subprocess.run([*command, "--strict", "--no-error-summary", "--python-executable", sys.executable, "--cache-dir",
                               str(self.folder / "cache"), USES.name], cwd=self.folder, capture_output=True, text=True, timeout=300)
        seen = {}
        for number, code in re.findall(rf"(?m)^{USES.name}:(\d+): error: .*\[([a-z-]+)\]$", done.stdout):
            seen.setdefault(int(number), set()).add(code)
        self.assertEqual(set(seen), set(marks()), done.stdout + done.stderr)
        for number, codes in marks().items():
            self.assertTrue(codes & seen[number], f"line {number}: {seen[number]}")

    def test_pyright(self):
        command = shutil.which("pyright") or shutil.which("basedpyright")
        if command is None:
            self.skipTest("no pyright on PATH")
        settings = {"include": [USES.name], "pythonVersion": "{}.{}".format(*sys.version_info), "venvPath": str(pathlib.Path(sys.prefix).parent),
                    "venv": pathlib.Path(sys.prefix).name, "typeCheckingMode": "standard"}
        (self.folder / "pyrightconfig.json").write_text(json.dumps(settings))
        done = subprocess.run([command, "--outputjson"], cwd=self.folder, capture_output=True, text=True, timeout=300)
        answer = json.loads(done.stdout)
        seen = {one["range"]["start"]["line"] + 1 for one in answer["generalDiagnostics"] if one["severity"] == "error"}
        # Comparisons that are never true are errors of its strict mode alone.
        self.assertEqual(seen, {number for number, codes in marks().items() if codes != {"comparison-overlap"}}, done.stdout)


class Fields(unittest.TestCase):
    def test_records_and_their_keywords_are_the_same(self):
        source = (pathlib.Path(gpulens.__file__).parent / "inference/record.py").read_text(encoding="utf-8")
        block = source[source.index("class RecordFields") : source.index("_NAN = ")]
        typed = re.findall(r"(?m)^        (\w+): (.+)$", block)
        fields = [(field.name, field.type) for field in dataclasses.fields(gpulens.InferenceRecord)]
        self.assertEqual(typed, fields)


if __name__ == "__main__":
    unittest.main()
