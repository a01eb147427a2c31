"""Starts a real serving engine for a test, and queries it and the agent.

Engines lie in build/engines (GPULENS_ENGINES names another folder), where tools/prepare_engines.sh put them. One that
is not there skips its tests with the reason that the script left.
"""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from agent import BINARY, ROOT, Agent, free_port, samples, value, wait_until  # noqa: E402,F401

ENGINES = pathlib.Path(os.environ.get("GPULENS_ENGINES", ROOT / "build" / "engines"))
TIMEOUT = 60.0  # seconds for a server to come up on a machine that is busy with other things


def home(name):
    """The folder of an engine; skips the test with the reason when it is not there."""
    folder, why = ENGINES / name, ENGINES / f"{name}.why"
    if not (folder / "installed.txt").exists():
        reason = why.read_text().strip() if why.exists() else "tools/prepare_engines.sh fetches it"
        raise unittest.SkipTest(f"engine not here: {name}: {reason}")
    return folder


def libraries(folder):
    """A search path over every folder with shared libraries below this one."""
    return ":".join(sorted({str(path.parent) for path in folder.rglob("*.so*")}))


def fetch(port, path, body=None, timeout=30, method=None):
    """One HTTP request; (status, body as text)."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        text = None if body is None else body if isinstance(body, str) else json.dumps(body)
        connection.request(method or ("GET" if body is None else "POST"), path, body=text,
                           headers={"Content-Type": "application/json"} if text else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()


class Server:
    """A process of an engine with a folder of its own for what it writes. Use it in a with statement: it is ended there,
    by its pid. `ready` is called until it is true."""

    def __init__(self, arguments, ready, environment=None, folder=None):
        self.arguments, self.ready = [str(a) for a in arguments], ready
        self.own_folder = folder is None
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="gpulens-engine-"))
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("GPULENS_", "LD_", "PYTHON"))}
        self.environment = {**clean, **(environment or {})}
        self.log = self.folder / "log"
        self.process = None

    def __enter__(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(self.arguments, cwd=self.folder, env=self.environment, stdout=log,
                                            stderr=log)
        try:
            wait_until(self.is_ready, TIMEOUT, "an engine that is ready")
        except AssertionError:
            self.end()
            raise AssertionError(f"{self.arguments[0]} does not start: {self.log_text()}") from None
        return self

    def __exit__(self, *_):
        self.end()
        if self.own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def is_ready(self):
        if self.process.poll() is not None:
            raise AssertionError("it ended")
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.ready()
        return False

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(20)

    def log_text(self):
        return self.log.read_text(errors="replace")[-2000:]


def engines_config(interval="250ms", windows="", **targets):
    """The agent's configuration for targets {name: (url, engine)}."""
    rows = ", ".join(f"{{name: {name}, url: '{url}', kind: {engine}, interval: {interval}}}"
                     for name, (url, engine) in targets.items())
    return f"interval: {interval}\ntargets: [{rows}]\n{windows}"


def total(page, name, **labels):
    """The sum of the series of a name with these labels; None when there is none."""
    found = samples(page, name, **labels)
    return sum(s.value for s in found) if found else None


class EngineCase(unittest.TestCase):
    """One engine, driven once for the whole class; a test compares what the client counted with what the agent shows."""

    maxDiff = None
    name = version = ""  # the source of a recorded page

    @classmethod
    def start(cls, context):
        """Enters it for the time of the class: Python 3.10 has no enterClassContext."""
        entered = context.__enter__()
        cls.addClassCleanup(context.__exit__, None, None, None)
        return entered

    @classmethod
    def tearDownClass(cls):
        """Writes the engine's own page after the tests to FOLDER/NAME.txt with RECORD_PAGES=FOLDER."""
        if os.environ.get("RECORD_PAGES"):
            for name, page in cls.pages().items():
                head = f"# {cls.version}, recorded {time.strftime('%Y-%m-%d', time.gmtime())} by tests/engines/test_{cls.name}.py\n"
                (pathlib.Path(os.environ["RECORD_PAGES"]) / f"{name}.txt").write_text(head + page)

    def settled(self, agent, question, what):
        """The agent's page, as soon as `question(page)` is true of it."""
        def right():
            page = agent.page()
            return page if question(page) else ""
        try:
            return wait_until(right, 20, what)
        except AssertionError as late:
            lines = [line for line in agent.page().splitlines() if "inference" in line or "gpulens_scrape" in line]
            raise AssertionError(f"{late}; the page has:\n" + "\n".join(lines[:150])) from None
