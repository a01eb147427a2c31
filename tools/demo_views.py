"""The demo with a lost GPU, and what of it people see: for the pictures of README, and for the test that these are not old."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
LABELS = PICTURES / "labels.json"
LOST_GPU = 5
# At any hour of the demo's day there is something to see.
LOADS = {"chat-a": 0.85, "code-b-prefill": 0.6, "code-b-decode": 0.6, "search-c": 0.7}
COLUMNS, ROWS = 120, 40


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Demo:
    """`gpulens agent --demo` on ports and in a folder of its own; after `settle` seconds one GPU is lost, and `after` seconds later it is shown."""

    def __init__(self, binary, settle, after):
        self.binary, self.settle, self.after = str(binary), settle, after
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-demo-"))
        self.port = free_port()
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("GPULENS_")}
        self.environment.update(HOME=str(self.folder), STATE_DIRECTORY=str(self.folder), GPULENS_CONTROL_SOCKET=str(self.folder / "agent.sock"),
                                GPULENS_DISCOVERY_LOCAL_ENABLED="false", GPULENS_DEMO_SCENARIO="calm", LANG="C.UTF-8")  # fmt: skip

    def __enter__(self):
        words = [self.binary, "agent", "--demo", "--http-listen", f"127.0.0.1:{self.port}", "--ws-listen", f"127.0.0.1:{free_port()}"]
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(words, env=self.environment, cwd=self.folder, stdout=log, stderr=log)
        try:
            self._wait(lambda: len(self.get("/api/now")) > 1000, 20)
            for engine, load in LOADS.items():
                self.command("sim", "set", f"engine={engine}", f"load={load}", "for=1h")
            time.sleep(self.settle)
            self.command("sim", "fail", f"gpu={LOST_GPU}", "mode=fallen_off_bus")
            time.sleep(self.after)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(20)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wait(self, done, seconds):
        end = time.monotonic() + seconds
        while True:
            with contextlib.suppress(OSError):
                if done():
                    return
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError("the demo does not answer: " + (self.folder / "log").read_text()[-1000:])
            time.sleep(0.2)

    def get(self, target):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{target}", timeout=10) as answer:
            return answer.read().decode()

    def command(self, *words, codes=(0,)):
        done = subprocess.run([self.binary, *words], env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=120)
        if done.returncode not in codes:
            raise RuntimeError(f"gpulens {' '.join(words)}: {done.returncode} {done.stderr}")
        return done.stdout


def labels_of_top(demo):
    """Names of sections, and the heads of tables: lines of names alone."""
    found = set()
    for line in demo.command("top", "--once").splitlines():
        if section := re.match(r"\S\S \d* ?([a-z]+)", line.replace("──", "--")):
            found.add("section " + section[1])
        words = line.split()
        if len([word for word in words if re.fullmatch("[A-Z]{2,}", word)]) >= 3 and not re.search("[0-9:]", line):
            found.add(" ".join(words))
    return sorted(found)


def labels_of_why(demo):
    """The causes that are looked for, found or not."""
    page = json.loads(demo.get("/api/why"))
    return sorted({one["title"] for one in page["findings"] + page["looked"] + page["unknown"]})


def program(name):
    return os.environ.get("GPULENS_" + name.upper()) or shutil.which(name)


def browser_missing():
    """Why there is no browser to look with; empty: there is one."""
    for name in ("node", "chromium"):
        if not program(name):
            return f"{name} is not here"
    if not (ROOT / "build" / "page_tests" / "node_modules" / "playwright-core").exists():
        return "playwright-core is not in build/page_tests: tools/prepare_peers.sh installs it"
    return ""


def look(demo, *words):
    """Runs tools/demo_views.mjs; its JSON."""
    done = subprocess.run([program("node"), str(ROOT / "tools" / "demo_views.mjs"), program("chromium"), f"http://127.0.0.1:{demo.port}/", *map(str, words)],
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout)


def labels(demo, with_page=True):
    found = {"top": labels_of_top(demo), "why": labels_of_why(demo)}
    if with_page:
        found["page"] = look(demo, "labels")
    return found
