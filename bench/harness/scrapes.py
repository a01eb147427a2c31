"""Section `http`: /metrics with 5,000 series over kept-alive connections, compared with nginx serving the same
bytes. Server on one core, load on another; both servers take turns with the same client."""
import json
import os
import socket
import statistics
import subprocess
import time
import urllib.request

from harness import measure, peers
from harness.measure import Absent

ROUNDS = 5
MILLISECONDS = 1000
CONNECTIONS = 16
GZIP = "Accept-Encoding: gzip"
TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cores():
    """(server's, load's): the first two this process may use, or nothing to pin to."""
    usable = sorted(os.sched_getaffinity(0))
    return ({usable[0]}, {usable[1]}) if len(usable) > 1 else (set(usable), set(usable))


def wait_for(port, process, seconds=10):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    raise Absent(f"{process.args[0]} does not listen")


def body_of(port, path, headers=()):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=dict(headers))
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read()


def family(pid):
    """A process and its children, the first generation."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [pid] + [int(child) for child in file.read().split()]
    except OSError:
        return [pid]


def cpu_seconds(pids):
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


class Server:
    def __init__(self, name, process, port):
        self.name, self.process, self.port = name, process, port
        os.sched_setaffinity(process.pid, cores()[0])
        for child in family(process.pid)[1:]:
            os.sched_setaffinity(child, cores()[0])

    def load(self, path, connections, headers):
        pids = family(self.process.pid)
        before = cpu_seconds(pids)
        command = ["http_load", str(self.port), path, str(connections), str(MILLISECONDS), *headers]
        found = json.loads(
            measure.output_of(
                [measure.RELEASE / command[0], *command[1:]],
                preexec_fn=lambda: os.sched_setaffinity(0, cores()[1]),
            )
        )
        found["server_cpu_us"] = (cpu_seconds(pids) - before) * 1e6 / found["requests"]
        return found

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_ours(port=0, lines=None):
    """http_page with the pages of `series`, or with their first `lines` only."""
    program = measure.RELEASE / "http_page"
    if not program.exists():
        raise Absent("http_page is not built")
    pages = [measure.PAGES / "series.prom", measure.PAGES / "series_next.prom"]
    if lines:
        for place, page in enumerate(pages):
            text = page.read_text(encoding="utf-8").splitlines(keepends=True)[:lines]
            pages[place] = page.with_name(f"few_{page.name}")
            pages[place].write_text("".join(text), encoding="utf-8")
    process = subprocess.Popen([program, *pages, str(port)], stdout=subprocess.PIPE, text=True)
    port = process.stdout.readline().strip()
    if not port:
        raise Absent(f"http_page ended with {process.wait()}")
    return Server("ours", process, int(port))


def start_nginx(page, packed):
    port = free_port()
    process, version = peers.nginx(port, {"metrics": page, "metrics.gz": packed})
    try:
        wait_for(port, process)
    except Absent:
        process.kill()
        raise
    return Server("nginx", process, port), version


def summary(runs):
    rate = [run["requests"] / run["seconds"] for run in runs]
    bytes_rate = [run["body_bytes"] / run["seconds"] for run in runs]
    result = {"requests_per_s": max(rate), "requests_per_s_median": statistics.median(rate), "bytes_per_s": max(bytes_rate)}
    for key in ("p50_us", "p99_us", "server_cpu_us"):
        result[key] = min(run[key] for run in runs)
        result[key + "_median"] = statistics.median(run[key] for run in runs)
    return result


def http():
    absent, versions = {}, {}
    ours = start_ours()
    servers = [ours]
    try:
        page, packed = body_of(ours.port, "/metrics"), body_of(ours.port, "/metrics", [("Accept-Encoding", "gzip")])
        try:
            other, versions["nginx"] = start_nginx(page, packed)
            servers.append(other)
        except Absent as reason:
            absent["nginx"] = str(reason)
        runs = {}
        cases = {
            "one plain": ("/metrics", 1, []),
            "one gzip": ("/metrics", 1, [GZIP]),
            "many plain": ("/metrics", CONNECTIONS, []),
            "many gzip": ("/metrics", CONNECTIONS, [GZIP]),
        }
        for _ in range(ROUNDS):
            for name, (path, connections, headers) in cases.items():
                for server in servers:
                    runs.setdefault(f"{server.name} {name}", []).append(server.load(path, connections, headers))
            for name, headers in {"plain": [], "gzip": [GZIP]}.items():
                runs.setdefault(f"ours fresh {name}", []).append(ours.load("/fresh", 1, headers))
    finally:
        for server in servers:
            server.stop()
    loads = {name: summary(all_runs) for name, all_runs in runs.items()}
    return {"loads": loads, "absent": absent, "versions": versions, "bytes": len(page), "gzip_bytes": len(packed),
            "connections": CONNECTIONS}  # fmt: skip
