#!/usr/bin/env python3
"""What the sandbox costs: the time to the first page, the memory of the agent and of the processes below it, and the time of a scrape.

    build/venv/bin/python bench/sandbox_cost.py [--runs 5] [--scrapes 300] PROGRAM…

Each PROGRAM is a gpulens, with variables before it: "GPULENS_SANDBOX_MODE=off build/release/gpulens". They take turns, run after run, over the same eight
simulated GPUs, so that a busy machine slows all of them. Times are the smallest and the median of the runs; memory is that of the last tick
of a run, in MB (10^6 bytes), its median.
"""
import argparse
import http.client
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from agent import free_port  # noqa: E402
from top_cost import tree  # noqa: E402


def memory(pid):
    """Resident and proportional MB of each process by its first words."""
    found = {}
    for one in tree(pid):
        words = pathlib.Path(f"/proc/{one}/cmdline").read_bytes().decode().split("\0")
        name = "agent" if one == pid else " ".join(words[1:3]) if words[1:2] == ["reader"] else "launcher"
        rollup = pathlib.Path(f"/proc/{one}/smaps_rollup").read_text()
        sizes = {line.split(":")[0]: int(line.split()[1]) for line in rollup.splitlines()[1:]}
        found[name] = (sizes["Rss"] * 1024 / 1e6, sizes["Pss"] * 1024 / 1e6)
    return found


def scrape(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    size = len(answer.read())
    connection.close()
    return answer.status == 200 and size


def run(command, scrapes):
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        variables = dict(word.split("=", 1) for word in command[:-1])
        environment = {**os.environ, "STATE_DIRECTORY": folder, **variables}
        config = pathlib.Path(folder, "gpulens.yaml")
        config.write_text(f"control: {{socket: {folder}/s.sock}}\n")
        words = [command[-1], "agent", "--demo", "--scenario", "none", "--config", str(config), "--http-listen", f"127.0.0.1:{port}",
                 "--ws-listen", f"127.0.0.1:{free_port()}"]
        began = time.monotonic()
        with subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL) as agent:
            try:
                while True:
                    try:
                        if scrape(port):
                            break
                    except OSError:
                        if agent.poll() is not None:
                            sys.exit(f"{shlex.join(words)}: exit {agent.returncode}")
                    time.sleep(0.001)
                started = time.monotonic() - began
                time.sleep(5)  # the pages of the start are given back
                times = []
                for _ in range(scrapes):
                    at = time.perf_counter()
                    scrape(port)
                    times.append(time.perf_counter() - at)
                time.sleep(1.5)
                return started, statistics.median(times), memory(agent.pid)
            finally:
                agent.terminate()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("programs", nargs="+")
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--scrapes", type=int, default=300)
    options = options.parse_args()
    found = {program: [] for program in options.programs}
    for _ in range(options.runs):
        for program, results in found.items():
            results.append(run(shlex.split(program), options.scrapes))
    for program, results in found.items():
        processes = results[-1][2]
        print(json.dumps({
            "program": program,
            "start_ms": [round(1e3 * f([r[0] for r in results]), 1) for f in (min, statistics.median)],
            "scrape_ms": [round(1e3 * f([r[1] for r in results]), 3) for f in (min, statistics.median)],
            "memory_mb": {name: [round(statistics.median(r[2][name][i] for r in results if name in r[2]), 1) for i in (0, 1)]
                          for name in processes},
            "proportional_mb": round(statistics.median(sum(m[1] for m in r[2].values()) for r in results), 1)}))


if __name__ == "__main__":
    main()
