"""A home folder with a file of experiments of its own, and the program over it."""
import json
import os
import pathlib
import subprocess
import tempfile
import textwrap
import unittest

from agent import BINARY


class Home(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="gpulens-exp-")
        self.addCleanup(self.folder.cleanup)
        self.home = pathlib.Path(self.folder.name)
        self.db = self.home / ".gpulens" / "experiments.db"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("GPULENS_", "PYTHONUNBUFFERED"))}
        self.environment["HOME"] = str(self.home)

    def call(self, *arguments, **more):
        return subprocess.run([str(BINARY), *map(str, arguments)], capture_output=True, text=True, timeout=60,
                              env=self.environment, cwd=self.home, check=False, **more)

    def good(self, *arguments, **more):
        done = self.call(*arguments, **more)
        self.assertEqual(done.returncode, 0, (arguments, done.stdout, done.stderr))
        return done.stdout

    def script(self, name, text):
        path = self.home / name
        path.write_text(textwrap.dedent(text))
        return path

    def start(self, *arguments):
        process = subprocess.Popen([str(BINARY), *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=self.environment, cwd=self.home)

        def end():
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.addCleanup(end)
        return process

    def show(self, run):
        return json.loads(self.good("exp", "show", run, "--json"))

    def runs(self, *arguments):
        return json.loads(self.good("exp", "list", "--json", *arguments))["runs"]
