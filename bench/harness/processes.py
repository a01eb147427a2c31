"""Costs of a group of processes: memory, CPU, threads, descriptors, wake-ups; and functions that get pages from them."""
import http.client
import os
import pathlib
import struct
import time
import urllib.error
import urllib.request

from harness import scrapes


def processes(pid):
    """A process and all its living descendants, the process itself first."""
    found, queue = [], [pid]
    while queue:
        one = queue.pop()
        found.append(one)
        try:
            for task in os.listdir(f"/proc/{one}/task"):
                children = pathlib.Path(f"/proc/{one}/task/{task}/children").read_text(encoding="ascii")
                queue += [int(child) for child in children.split()]
        except OSError:
            continue
    return found


def pss_bytes(pids):
    total = 0
    for pid in pids:
        try:
            text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))
    return total


def entries(pids, folder):
    """Number of their threads (`task`) or descriptors (`fd`)."""
    total = 0
    for pid in pids:
        try:
            total += len(os.listdir(f"/proc/{pid}/{folder}"))
        except OSError:
            continue
    return total


def wakeups(pids):
    """Number of waits (voluntary context switches) of their threads since each began."""
    total = 0
    for pid in pids:
        for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
            try:
                text = status.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("voluntary_ctxt_switches:"))
    return total


def run_seconds(pids):
    """CPU time by the scheduler's clock: the ticks of /proc/PID/stat are 10 ms, more than some runs use."""
    total = 0
    for pid in pids:
        for file in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
            try:
                total += int(file.read_text(encoding="ascii").split()[0])
            except (OSError, ValueError, IndexError):
                return scrapes.cpu_seconds(pids)
    return total / 1e9


def allocations(prefix, pids):
    """Heap allocations so far by (process, thread name); bench/count_allocations.cc writes the files."""
    found = {}
    for pid in pids:
        try:
            data = pathlib.Path(f"{prefix}.{pid}").read_bytes()
        except OSError:
            continue
        for thread, calls in struct.iter_unpack("<QQ", data):
            if not thread:
                continue
            try:
                name = pathlib.Path(f"/proc/{pid}/task/{thread}/comm").read_text(encoding="utf-8").strip()
            except OSError:
                name = "ended"
            found[(pid, name)] = found.get((pid, name), 0) + calls
    return found


def get(url):
    """The page, or None while no server answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.read()
    except (urllib.error.URLError, http.client.HTTPException, OSError):
        return None


def samples_of(page):
    return sum(1 for line in page.splitlines() if line and not line.startswith(b"#"))


class KeptConnection:
    """One scraper: a connection that stays. `scrape` gives (body, seconds)."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)

    def scrape(self, path="/metrics", packed=False):
        start = time.perf_counter()
        self.connection.request("GET", path, headers={"Accept-Encoding": "gzip" if packed else "identity"})
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise OSError(f"{path} is answered with {answer.status}")
        return body, time.perf_counter() - start
