"""The page of an agent in Debian's chromium, driven by playwright-core: *.test.mjs, each in Node's own test runner."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
from agent import BINARY, ROOT, free_port  # noqa: E402

TOOLS = ROOT / "build" / "page_tests"
LEAST_NODE = 18


def chromium():
    return os.environ.get("GPULENS_CHROMIUM") or shutil.which("chromium")


def why_not():
    """Why the tests cannot run here; None when they can."""
    node = shutil.which("node")
    if not node:
        return "node is not here: apt-get install nodejs"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(re.match(r"v(\d+)", version)[1]) < LEAST_NODE:
        return f"node is {version.strip()}, playwright-core needs {LEAST_NODE}"
    if not chromium():
        return "chromium is not here: apt-get install chromium"
    wanted = json.loads((HERE / "package.json").read_text())["dependencies"]
    for name, version in wanted.items():
        package = TOOLS / "node_modules" / name / "package.json"
        if not package.exists() or json.loads(package.read_text())["version"] != version:
            return f"{name} {version} is not in build/page_tests: ./dev test installs it, as tools/prepare_peers.sh does alone"
    return None


def node_test(name, agents, seconds):
    """Runs a file with Node's test runner; `agents`: how many agents it starts."""
    ports = ",".join(str(free_port()) for _ in range(2 * agents))
    environment = {**os.environ, "GPULENS_BIN": str(BINARY), "GPULENS_PAGE_PORTS": ports, "GPULENS_CHROMIUM": chromium(),
                   "GPULENS_METRICS": "standard", "GPULENS_DEMO_SCENARIO": "calm"}
    environment.pop("GPULENS_PAGE_FOLDER", None)
    run = subprocess.run(["node", "--test", "--test-reporter=spec", str(HERE / name)], env=environment, timeout=seconds,
                         capture_output=True, text=True)
    print(run.stdout + run.stderr, flush=True)
    return run.returncode


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if reason := why_not():
            raise unittest.SkipTest(reason)

    def test_page(self):
        self.assertEqual(node_test("page.test.mjs", agents=1, seconds=240), 0, "its output is above")

    def test_states(self):
        self.assertEqual(node_test("states.test.mjs", agents=4, seconds=240), 0, "its output is above")

    def test_fleet(self):
        os.environ["GPULENS_RECEIVER_PORT"] = str(free_port())
        self.assertEqual(node_test("fleet.test.mjs", agents=1, seconds=120), 0, "its output is above")


if __name__ == "__main__":
    unittest.main()
