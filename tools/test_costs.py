#!/usr/bin/env python3
"""Measures what the tests take: tools/test_costs.py BUILD_TREE [NAME…] runs them, four at a time, and prints tests/costs.tsv.

A row has the name of a test that takes a second or more, its seconds, and how many cores it keeps busy, its own processes counted
that it waits for. CMake gives it to ctest (cmake/Library.cmake): the longest begin first, and as many run at a time as the cores
can bear. With NAMEs only tests whose name contains one are run, and the other rows stay as they are.
"""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import time

import tree

TABLE = tree.ROOT / "tests/costs.tsv"
HEAD = "# test\tseconds\tcores    (tools/test_costs.py)\n"
LEFT_OUT = ("engines", "peers", "pythons", "soak", "gpu")


def tests_of(build, names):
    """[(name, command, folder, environment)] of the tests of a build tree that always run."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, check=True).stdout
    found = []
    for test in json.loads(listed)["tests"]:
        properties = {each["name"]: each["value"] for each in test.get("properties", [])}
        # ctest lists no command of a program that is not built.
        left_out = "command" not in test or set(properties.get("LABELS", [])) & set(LEFT_OUT)
        if left_out or names and not any(n in test["name"] for n in names):
            continue
        environment = dict(each.split("=", 1) for each in properties.get("ENVIRONMENT", []))
        found.append((test["name"], test["command"], properties.get("WORKING_DIRECTORY", build), environment))
    return found


def measure(build, test):
    """(name, seconds, processor seconds, exit code)"""
    name, command, folder, environment = test
    ours = {"GPULENS_BIN": f"{build}/gpulens", "GPULENS_PEERS": str(tree.ROOT / "build/peers")}
    begin = time.monotonic()
    null = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=folder, env={**os.environ, **ours, **environment}, stdin=null, stdout=null, stderr=null)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return name, time.monotonic() - begin, used.ru_utime + used.ru_stime, process.returncode


def read_rows():
    """{test: (seconds, cores)} of the table."""
    if not TABLE.exists():
        return {}
    lines = [line.split("\t") for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
    return {name: (float(seconds), float(cores)) for name, seconds, cores in lines}


def main(build, names):
    build = str(pathlib.Path(build).resolve())
    rows = read_rows() if names else {}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for name, seconds, processor, code in pool.map(lambda test: measure(build, test), tests_of(build, names)):
            if code not in (0, 77):
                print(f"{name} ended with {code}: no row", file=sys.stderr)
            elif seconds >= 1:
                rows[name] = (seconds, processor / seconds)
    sys.stdout.write(HEAD)
    for name, (seconds, cores) in sorted(rows.items()):
        sys.stdout.write(f"{name}\t{seconds:.0f}\t{cores:.2f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
