#!/usr/bin/env python3
"""Line coverage of src/ and include/ by the tests: tools/coverage.py BUILD_TREE FLOOR_PERCENT.

Needs a tree of the asan preset whose tests have run with LLVM_PROFILE_FILE under BUILD_TREE/profiles. What
only begins a program (main.cc, *_main.cc) and the tests themselves are not counted; fuzzers do not add.
"""
import json
import os
import pathlib
import subprocess
import sys

import tree


def counted(relative):
    return (
        relative.parts[0] in ("src", "include")
        and not tree.is_test(relative)
        and relative.stem != "main"
        and not relative.stem.endswith("_main")
    )


def programs(build):
    """The programs whose runs count: the tests, and gpulens with what it loads."""
    found = sorted(build.glob("*_test")) + [build / "gpulens"] + sorted(build.glob("*.so*"))
    return [str(path) for path in found if path.is_file() and os.access(path, os.X_OK)]


def read_lines(build):
    """{path: (lines, lines that ran)}"""
    profiles = [str(path) for path in sorted((build / "profiles").glob("*.profraw"))]
    if not profiles:
        raise FileNotFoundError(f"no profiles in {build}/profiles; run the tests first:  ./dev check asan")
    merged = str(build / "profiles/all.profdata")
    # A killed program may leave half a profile; the others still count.
    merge = ["llvm-profdata-19", "merge", "-sparse", "-failure-mode=all", "-o", merged, *profiles]
    subprocess.run(merge, check=True, stderr=subprocess.DEVNULL)
    objects = programs(build)
    command = ["llvm-cov-19", "export", "-summary-only", "-skip-functions", "-instr-profile", merged, objects[0]]
    command += ["-compilation-dir", str(tree.ROOT)]  # objects name sources relative to the root (cmake/Flags.cmake)
    for program in objects[1:]:
        command += ["-object", program]
    exported = subprocess.run(command, capture_output=True, check=True).stdout
    lines = {}
    for file in json.loads(exported)["data"][0]["files"]:
        path = pathlib.Path(file["filename"])
        summary = file["summary"]["lines"]
        if path.is_relative_to(tree.ROOT) and counted(path.relative_to(tree.ROOT)) and summary["count"] > 0:
            lines[path.relative_to(tree.ROOT)] = (summary["count"], summary["covered"])
    return lines


def main(build, floor):
    lines = read_lines(pathlib.Path(build).resolve())
    folders = {}
    for path, (count, covered) in lines.items():
        total = folders.setdefault(path.parent, [0, 0])
        total[0] += count
        total[1] += covered
    print(f"{'lines':>8} {'ran':>8}     %   folder")
    for folder, (count, covered) in sorted(folders.items()):
        print(f"{count:8} {covered:8} {100 * covered / count:5.1f}   {folder}")
    weakest = sorted(lines.items(), key=lambda item: item[1][1] - item[1][0])[:10]
    print("most lines that no test runs:")
    for path, (count, covered) in weakest:
        if covered < count:
            print(f"{count - covered:8} of {count:5}         {path}")
    absent = [p for p in tree.files() if p.suffix == ".cc" and counted(p) and p not in lines and "testdata" not in p.parts]
    if absent:
        print("in no program, or without a function: " + " ".join(str(path) for path in absent))
    count, covered = (sum(column) for column in zip(*lines.values()))
    percent = 100 * covered / count
    print(f"coverage: {covered} of {count} lines, {percent:.2f} %, floor {floor} %")
    return 1 if percent < floor else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2])))
