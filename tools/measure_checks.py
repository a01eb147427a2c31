#!/usr/bin/env python3
"""Measures what a check takes: tools/measure_checks.py [--save] [--keep FOLDER] [RUN…]; a RUN is cold, full or warm.

Without a RUN they are full, warm, cold and warm.

Each run is in a clone of its own, with ../shared next to it where this checkout has one. cold and full begin with an empty compiler
cache and without peers that were kept; warm has what the run before it left. Packages must be installed: apt is not measured.
    full        ./dev run, ./dev test, ./dev check --full
    cold, warm  .ci/run after a small change: the full check of HEAD counts as recorded, and a comment of CHANGED has changed

For each stage it prints wall and processor time and the number of compiles of tools/reference_compile.cc that take the same processor
time. A limit in minutes is one of the machine of REFERENCE: the comparison uses the number of reference compiles, so that a slow or busy
machine does not fail it. --save writes docs/performance/checks.md. Exit 1 when a run failed or a limit is passed.
"""
import argparse
import contextlib
import datetime
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import time

import affected
import tree

PAGE = tree.ROOT / "docs/performance/checks.md"
CHANGED = "src/plugins/sinks/webhook/webhook.cc"
CORES = 2  # of the machine of the limits
REFERENCE = 1.45  # processor seconds of one reference compile on that machine when it is quiet
LIMITS = {  # what: minutes there
    "./dev run": 5,
    "./dev test": 20,
    "cold .ci/run": 45,
    "warm .ci/run": 20,
    "full check": 75,
}


def reference():
    """Processor seconds of one reference compile now, the median of five."""
    return float(subprocess.run([tree.ROOT / "tools/reference_compile.sh", "5"], capture_output=True, text=True, check=True).stdout)


class Bench:
    """Clones of HEAD below one folder, and the caches that they share."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.count = 0
        self.references = []
        self.environment = {
            **os.environ, "CI": "true", "CCACHE_DIR": str(self.folder / "ccache"), "GPULENS_CACHE": str(self.folder / "kept"),
        }  # fmt: skip

    def clone(self, recorded=False):
        """A fresh clone; with `recorded` the full check of HEAD is a row there, and one source has changed since."""
        self.count += 1
        home = self.folder / str(self.count)
        home.mkdir()
        shared = tree.ROOT.parent / "shared"
        if shared.exists():
            (home / "shared").symlink_to(shared.resolve())
        subprocess.run(["git", "clone", "--quiet", tree.ROOT, home / "main"], check=True)
        if recorded:
            affected.pretend_checked(home / "main")
            with open(home / "main" / CHANGED, "a", encoding="utf-8") as file:
                file.write("// Measured.\n")
        return home / "main"

    def forget(self):
        for name in ("ccache", "kept"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def run(self, checkout, *command):
        """(exit code, wall seconds, processor seconds) of a command there."""
        self.references.append(reference())
        before, begin = os.times(), time.monotonic()
        with open(checkout / "measured.log", "ab") as log:
            done = subprocess.run(command, cwd=checkout, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        self.references.append(reference())
        return done.returncode, time.monotonic() - begin, used

    def stages(self, checkout):
        """[(stage, wall, processor)] that ./dev left there."""
        with contextlib.suppress(FileNotFoundError):
            lines = (checkout / "build/stages.tsv").read_text().splitlines()
            return [(name, float(wall), float(used)) for name, wall, used, _ in (line.split("\t") for line in lines)]
        return []


def measure(bench, run):
    """[(what, exit code, wall, processor, stages)]"""
    if run != "full":
        if run == "cold":
            bench.forget()
        checkout = bench.clone(recorded=True)
        return [(f"{run} .ci/run", *bench.run(checkout, ".ci/run"), bench.stages(checkout))]
    bench.forget()
    checkout, found, wall, used = bench.clone(), [], 0, 0
    for what, command in (("./dev run", "run -- --help"), ("./dev test", "test"), ("full check", "check --full")):
        (checkout / "build/stages.tsv").unlink(missing_ok=True)
        code, more_wall, more_used = bench.run(checkout, "./dev", *command.split())
        wall, used = wall + more_wall, used + more_used
        found.append((what, code, wall, used, bench.stages(checkout)))
    return found


def minutes(seconds):
    return f"{int(seconds) // 60} m {int(seconds) % 60:02d} s"


def page(found, runs, unit, load):
    """The measured part of docs/performance/checks.md; `found` is what the runs gave."""
    rows = ["| what | wall | processor | reference compiles | limit | verdict |", "|---|---|---|---|---|---|"]
    good = True
    for what, code, wall, used, _ in found:
        most = LIMITS[what] * 60 * CORES / REFERENCE
        verdict = "met" if used / unit <= most else f"missed by {100 * (used / unit / most - 1):.0f} %"
        if code:
            verdict = f"failed with {code}"
        good &= verdict == "met"
        rows.append(f"| {what} | {minutes(wall)} | {minutes(used)} | {used / unit:.0f} | {LIMITS[what]} min = {most:.0f} | {verdict} |")
    for what, _, _, _, stages in found:
        rows += ["", f"### {what}", "", "| stage | wall | processor | reference compiles |", "|---|---|---|---|"]
        rows += [f"| {name} | {minutes(wall)} | {minutes(used)} | {used / unit:.0f} |" for name, wall, used in stages]
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name")), "")
    head = [
        f"- date: {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC, commit {affected.git('rev-parse', '--short', 'HEAD')[0]}",
        f"- machine: {model or platform.processor()}, {os.cpu_count()} cores, load average {load:.1f} before",
        f"- one reference compile: {unit:.2f} s of a core (median of {2 * len(found)} medians of five)",
        f"- command: `python3 tools/measure_checks.py --save {' '.join(runs)}`",
    ]
    return "\n".join(head + [""] + rows) + "\n", good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", action="store_true", help="write the measured part of docs/performance/checks.md")
    parser.add_argument("--keep", metavar="FOLDER", help="where clones and caches stay; else they are removed")
    parser.add_argument("runs", nargs="*", metavar="RUN", help="cold, full, warm")
    options = parser.parse_args()
    wanted = options.runs or ["full", "warm", "cold", "warm"]
    if unknown := set(wanted) - {"cold", "full", "warm"}:
        parser.error(f"no run {' '.join(unknown)}; they are cold, full and warm")
    load = os.getloadavg()[0]
    with contextlib.ExitStack() as stack:
        folder = options.keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="gpulens-measure-"))
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        bench = Bench(folder)
        found = []
        for run in wanted:
            found += measure(bench, run)
            text, good = page(found, wanted, sorted(bench.references)[len(bench.references) // 2], load)
            if options.save:
                kept = PAGE.read_text(encoding="utf-8").partition("<!-- measured -->\n")
                PAGE.write_text(kept[0] + kept[1] + text, encoding="utf-8")
    print(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
