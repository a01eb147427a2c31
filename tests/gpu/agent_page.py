"""A gpulens agent on a port of its own, and its page as numbers. The standard library is enough."""
import os
import re
import socket
import subprocess
import tempfile
import time
import urllib.request

_SAMPLE = re.compile(r'^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: \S+)?$')
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
LIBRARY = os.environ.get("GPULENS_NVML_LIBRARY", "libnvidia-ml.so.1")
HERE = os.path.dirname(os.path.abspath(__file__))
os.environ.setdefault("GPULENS_METRICS", "all")


def program():
    """GPULENS_BIN, else the one this folder was installed with, else the one of the path."""
    installed = os.path.join(HERE, "..", "..", "..", "bin", "gpulens")
    return os.environ.get("GPULENS_BIN") or (os.path.normpath(installed) if os.path.exists(installed) else "gpulens")


def parse(text):
    """[(name, labels, value)] of a page in the text format."""
    out = []
    for line in text.splitlines():
        match = None if line.startswith("#") else _SAMPLE.match(line)
        if match:
            out.append((match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])))
    return out


def rounds(seconds, every=0.1):
    """Yields at once and then every so often, until the time is over."""
    end = time.monotonic() + seconds
    while True:
        yield
        if time.monotonic() > end:
            return
        time.sleep(every)


class Agent:
    """Runs until it is closed; only the nvidia collector, read every `interval`."""

    def __init__(self, interval="200ms", library=LIBRARY):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            websocket = probe.getsockname()[1]
        self.folder = tempfile.TemporaryDirectory()
        config = os.path.join(self.folder.name, "gpulens.yaml")
        with open(config, "w", encoding="ascii") as file:
            file.write(f"interval: {interval}\nstate_dir: {self.folder.name}\n"
                       f"collectors: {{nvidia: {{interval: {interval}, library: {library}}}}}\n")
        self.process = subprocess.Popen(
            [program(), "agent", "-q", "--config", config, "--http-listen", f"127.0.0.1:{self.port}",
             "--ws-listen", f"127.0.0.1:{websocket}"], stderr=subprocess.PIPE, text=True)

    def page(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            return parse(answer.read().decode())

    def wait_for(self, name, seconds=60):
        """The first page that has a sample of that name."""
        for _ in rounds(seconds):
            try:
                page = self.page()
                if any(sample[0] == name for sample in page):
                    return page
            except OSError:
                pass
            if self.process.poll() is not None:
                raise AssertionError("the agent ended: " + self.process.stderr.read())
        raise AssertionError(f"no {name} in {seconds} s")

    def close(self):
        self.process.terminate()
        self.process.wait(20)
        self.process.stderr.close()
        self.folder.cleanup()


def find(page, name, **labels):
    """The values of all samples of that name with these labels."""
    return [value for sample, has, value in page
            if sample == name and all(has.get(key) == str(wanted) for key, wanted in labels.items())]
