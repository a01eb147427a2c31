#!/usr/bin/env python3
"""Counts the instructions of one iteration of benchmarks, under valgrind: what flags and compilers cost, whatever else the machine does.

    bench/instructions.py BUILD [BUILD…]    for each build tree a column; of further ones the ratio to the first

The benchmarks of ROWS are built in each tree beforehand. An iteration is the difference of two runs of different lengths, divided by that
of their iterations, so that what a benchmark prepares does not count.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROWS = (
    ("wire_exposition_bench", "BM_ExpositionSteadyAllChanged/0", "reading a page, every number another one"),
    ("wire_exposition_bench", "BM_ExpositionFirst/0", "… the first time, series made"),
    ("wire_exposition_bench", "BM_TextPageSteady/numbers:1/format:0", "writing a page of 5,000 samples"),
    ("wire_otlp_bench", "Encode/gauges", "OTLP, numbers put into the last request"),
    ("wire_otlp_bench", "Encode/gauges_fresh", "… without a kept request"),
    ("wire_otlp_bench", "Receive/resource", "… received"),
)


def run(program, name, seconds):
    """(instructions of the whole run, the iterations of each time that the benchmark was prepared)."""
    with tempfile.NamedTemporaryFile() as out:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out.name}", program, f"--benchmark_filter=^{re.escape(name)}$",
                   f"--benchmark_min_time={seconds}", "--v=2"]  # fmt: skip
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
    text = done.stdout + done.stderr
    lengths = [int(number) for number in re.findall(r"Running \S+ for (\d+)", text)]
    return int(re.search(r"Collected : (\d+)", text)[1]), lengths


def of_iteration(program, name):
    """Instructions of one iteration: of two runs that prepare equally often, the one with at least half as many iterations more."""
    seen, seconds = {}, 1e-3
    while seconds < 1000:
        total, lengths = run(program, name, seconds)
        for earlier, iterations in seen.get(len(lengths), []):
            if sum(lengths) >= 1.5 * iterations:
                return (total - earlier) / (sum(lengths) - iterations)
        seen.setdefault(len(lengths), []).append((total, sum(lengths)))
        seconds *= 2
    raise ValueError(f"{program} {name}: no two runs of different lengths")


def main(builds):
    print("| benchmark | what |" + "".join(f" {build} |" for build in builds))
    for file, name, what in ROWS:
        found = [of_iteration(pathlib.Path(build) / file, name) for build in builds]
        cells = [f"{found[0]:,.0f}"] + [f"{one:,.0f} ({one / found[0]:.3f} ×)" for one in found[1:]]
        print(f"| `{name}` | {what} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
