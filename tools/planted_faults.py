#!/usr/bin/env python3
"""Plants faults and looks whether the check finds them: tools/planted_faults.py [--keep FOLDER].

In a clone of HEAD, for which a full check counts as recorded, it plants a leak, a data race, an overflow in a parser, a name that
clang-tidy refuses and an include that the floors forbid, runs `./dev check` as CI does, and reads its output. Exit 1 when a fault
was not found by the stage that is there for it, or when a stage failed in which none was planted.
"""
import argparse
import contextlib
import pathlib
import re
import subprocess
import sys
import tempfile

import affected
import tree

# stage, its expected output, file, text to replace, replacement with the fault
FAULTS = [
    (
        "asan", r"LeakSanitizer: detected memory leaks", "src/sdk/training/training.cc",
        "Status Check(const TrainingOptions& options) {\n",
        "Status Check(const TrainingOptions& options) {\n  static std::atomic<double*> lost;\n  lost.store(new double(options.num_params));\n",
    ),
    (
        "asan", r"AddressSanitizer: stack-buffer-overflow", "python/src/compat/vllm_page.cc",
        "  void OnSample(const SampleView& sample) override {\n",
        "  void OnSample(const SampleView& sample) override {\n    char BadName[16];\n    std::ranges::copy(sample.name, BadName);\n"
        "    if (BadName[0] == '#') return;\n",
    ),
    (
        "tsan", r"ThreadSanitizer: data race", "src/sdk/ring/actor.cc",
        "BasicActor<kReported>::state() const {\n  std::lock_guard lock(mutex_);\n  return state_;\n}\n",
        "BasicActor<kReported>::state() const {\n  return state_;\n}\n",
    ),
    ("clang-tidy", r"invalid case style for \w+ 'BadName'", "python/src/compat/vllm_page.cc", "", ""),  # in the overflow
    (
        "layers", r"sdk may not include pipeline|sdk \(floor \d\) may not include pipeline", "src/sdk/training/training.cc",
        '\n', '\n#include "plugins/plugin.h"\n',
    ),
]  # fmt: skip
WITHOUT = {"format", "tidy", "coverage"}  # nothing is planted for them; fuzz and benches may meet what is


def plant(checkout):
    for _, _, file, there, planted in FAULTS:
        path = checkout / file
        text = path.read_text(encoding="utf-8")
        if there not in text:
            raise SystemExit(f"planted_faults: {file} has no longer\n{there}")
        path.write_text(text.replace(there, planted), encoding="utf-8")


def parts_of(output):
    """{stage: what was printed of it}"""
    pieces = re.split(r"^\[\d+/\d+\] (\S+) *\n", output, flags=re.M)
    return dict(zip(pieces[1::2], pieces[2::2]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", metavar="FOLDER", help="where the clone stays; else it is removed")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(options.keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="gpulens-planted-")))
        folder.mkdir(parents=True, exist_ok=True)
        checkout = folder / "main"
        subprocess.run(["git", "clone", "--quiet", tree.ROOT, checkout], check=True)
        affected.pretend_checked(checkout)
        plant(checkout)
        done = subprocess.run(
            ["./dev", "check"], cwd=checkout, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", check=False,
        )  # fmt: skip
        (folder / "check.log").write_text(done.stdout, encoding="utf-8")
    parts, good = parts_of(done.stdout), True
    for stage, words, file, _, _ in FAULTS:
        found = re.search(words, parts.get(stage, "")) is not None and "FAILED, " in parts[stage]
        good &= found
        print(f"{'found' if found else 'NOT FOUND':9}  {stage:10}  {file}: {words}")
    for stage in sorted(WITHOUT & set(parts)):
        if "FAILED, " in parts[stage]:
            good = False
            print(f"FAILED     {stage:10}  though nothing was planted for it:\n{parts[stage]}")
    return 0 if good and done.returncode else 1


if __name__ == "__main__":
    sys.exit(main())
