#!/usr/bin/env python3
"""What it costs to read a page in a process of its own: CPU of a scrape, memory of a target.

    GPULENS_BIN=build/release/gpulens python3 bench/isolated_page.py [PAGE…]

Pages are files; without one, a page of 10,000 series is made. Prints the rows of the table in docs/targets.md.
"""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "e2e"))
from agent import Agent, samples, wait_until  # noqa: E402
from bad_pages import Server, answer  # noqa: E402
from test_isolate import readers  # noqa: E402

TARGETS, INTERVAL, SECONDS = 5, 0.2, 15


def page_of(name):
    if name:
        return pathlib.Path(name).read_text()
    return "# TYPE wide gauge\n" + "".join(f"wide{{instance=\"{i}\",zone=\"z{i % 7}\"}} {i}.5\n" for i in range(10_000))


def cpu_s(pid):
    # Exact, unlike the ticks of /proc/PID/stat.
    return sum(int(path.read_text().split()[0]) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def memory_mb(pid):
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(text.split("Pss:")[1].split()[0]) / 1000


def measure(body, targets, isolate):
    reply = answer(body)
    servers = [Server(lambda _connection, _number: reply) for _ in range(max(targets, 1))]
    rows = "".join(f"  - {{name: t{i}, url: \"{servers[i].url()}\", interval: {INTERVAL}s, isolate: {isolate}}}\n" for i in range(targets))
    config = f"interval: 10s\nstate_dir: \"\"\nlimits: {{memory: 4GiB}}\ncollectors: {{host: {{enabled: false}}}}\n" + (f"targets:\n{rows}" if targets else "")
    with Agent(config=config) as agent:
        if targets:
            wait_until(lambda: len(samples(agent.page(), "gpulens_scrape_up")) == targets, 30, "all targets")
        time.sleep(3)
        pids = [agent.process.pid, *readers(agent.process.pid)]
        before, requests, began = sum(map(cpu_s, pids)), sum(s.requests for s in servers), time.monotonic()
        time.sleep(SECONDS)
        used, scrapes = sum(map(cpu_s, pids)) - before, sum(s.requests for s in servers) - requests
        memory = [memory_mb(pid) for pid in pids]
        seconds = time.monotonic() - began
    for server in servers:
        server.close()
    return used / seconds, scrapes / seconds, sum(memory), memory[1:]


def main():
    for name in sys.argv[1:] or [None]:
        body = page_of(name)
        idle_cpu, _, idle_memory, _ = measure(body, 0, "false")
        count = sum(1 for line in body.splitlines() if line and not line.startswith("#"))
        for isolate in ("false", "true"):
            cpu, scrapes, memory, of_readers = measure(body, TARGETS, isolate)
            each = f", of which {sum(of_readers) / len(of_readers):.1f} MB are its process" if of_readers else ""
            print(f"{pathlib.Path(name).name if name else 'made'}, {count} samples, {len(body)} bytes, isolate {isolate}: "
                  f"{(cpu - idle_cpu) / scrapes * 1000:.2f} ms of CPU a scrape, {(memory - idle_memory) / TARGETS:.2f} MB a target{each}",
                  flush=True)


if __name__ == "__main__":
    main()
