#!/usr/bin/env python3
"""Measures the release build and its peers, against the budgets of the design.

usage: bench.py [--check] [--save] [NAME…]
       bench.py --starts

Sections: ticks encode parse otlp http agent gpus scrape receive proxy sdk sdk_python sdk_peers sdk_ring; a NAME picks those whose name contains it. Peers are
fetched through apt, Go and pip into build/bench; one that cannot be had leaves its row incomplete, and the page lists it.

  --check   fail when a ratio, an allocation count or a size misses its budget; times never fail
  --save    put the pages into docs/performance; otherwise only into build/bench/performance
  --starts  measure nothing: see that the server of a page starts and answers

Results of other sections are kept from earlier runs in build/bench/results.json, each with its time.
"""
import json
import os
import pathlib
import platform
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from harness import agent, budgets, codecs, gpus, measure, page, peers, proxy, receive, scrapes, targets, ticks  # noqa: E402
from harness.sdk import cpp, python, ring  # noqa: E402

SECTIONS = {
    "ticks": ticks.ticks,
    "encode": codecs.encode,
    "parse": codecs.parse,
    "otlp": codecs.otlp,
    "http": scrapes.http,
    "agent": agent.agent,
    "gpus": gpus.gpus,
    "scrape": targets.scrape,
    "receive": receive.receive,
    "proxy": proxy.proxy,
    "sdk": cpp.sdk,
    "sdk_python": python.python,
    "sdk_peers": python.peers,
    "sdk_ring": ring.ring,
}
RESULTS = measure.WORK / "results.json"
REASONS = ROOT / "docs/performance/reasons.tsv"


def machine():
    """The conditions of the measurement, for people."""
    model = "unknown"
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    tools = peers.tool_versions()
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "machine": f"{model}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the end",
        "system": f"{platform.freedesktop_os_release().get('PRETTY_NAME', 'Linux')}, Linux {platform.release()}",
        "compilers": f"g++ {tools['g++']} with `{tools.get('flags', 'flags unknown')}`; {tools['go']}",
        "command": "`./dev bench`, of one part `./dev bench sdk`; these pages by `python3 tools/bench.py --save`",
    }


def reasons():
    if not REASONS.exists():
        return {}
    rows = [line.split("\t", 1) for line in REASONS.read_text(encoding="utf-8").splitlines() if "\t" in line]
    return dict(rows)


def read_results():
    try:
        return json.loads(RESULTS.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def run(name):
    print(f"bench: {name} …", flush=True)
    start = time.monotonic()
    try:
        found = SECTIONS[name]()
    except measure.Absent as reason:
        found = {"absent": {name: str(reason)}}
    for what, why in found["absent"].items():
        print(f"bench: {name}: {what} is absent: {why}")
    print(f"bench: {name}: {time.monotonic() - start:.0f} s", flush=True)
    return {
        "when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "load": os.getloadavg()[1],
        "cores": os.cpu_count(),
        "found": found,
    }


def starts():
    measure.make_pages()
    server = scrapes.start_ours()
    try:
        page = scrapes.body_of(server.port, "/metrics")
    finally:
        server.stop()
    print(f"bench: http_page answered with {len(page):,} bytes")
    return 0 if page else 1


def main(arguments):
    options = {a for a in arguments if a.startswith("-")}
    names = [a for a in arguments if not a.startswith("-")]
    if arguments == ["--starts"]:
        return starts()
    if options - {"--check", "--save"}:
        print(__doc__)
        return 0 if options & {"-h", "--help"} else 2
    chosen = [s for s in SECTIONS if not names or any(name in s for name in names)]
    if not chosen:
        print(f"bench: no section has {' or '.join(names)} in its name; they are {' '.join(SECTIONS)}")
        return 0
    measure.make_pages()
    results = read_results()
    for name in chosen:
        results[name] = run(name)
        RESULTS.write_text(json.dumps(results, indent=1), encoding="utf-8")
    folders = [measure.WORK / "performance"] + [ROOT / "docs/performance"] * ("--save" in options)
    targets = []
    for name, (_, sections) in page.PAGES.items():
        if not set(chosen) & set(sections):
            continue
        text = page.markdown(name, results, machine(), reasons())
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
            targets.append(folder / name)
    print(page.terminal({name: results[name] for name in chosen}))
    print(f"bench: written to {', '.join(str(t.relative_to(ROOT)) for t in targets)}")
    missed = budgets.failures({name: results[name] for name in chosen})
    if "--check" in options and missed:
        print("bench: gates missed:\n  " + "\n  ".join(missed), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
