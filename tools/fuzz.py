#!/usr/bin/env python3
"""Runs fuzzers of an asan tree, two at a time: tools/fuzz.py BUILD_TREE SECONDS|inputs[*TIMES]|keep [FUZZER…].

With SECONDS it looks for new inputs, elsewhere each time; what a fuzzer learns stays in build/fuzz/x/corpus.

With `inputs`, as the checks run it, each fuzzer tries a number of inputs that is the same on every machine, from one seed and from the
corpus of the tree alone: INPUTS, or the N of a line `// Fuzz inputs: N` in its source where an input takes long; TIMES as many. Addresses
are the same in each run, since libFuzzer makes inputs of values that were compared, and pointers are among them. So the result depends
on the change and not on the machine.

With `keep` it runs nothing new: of what fuzzers have learned it adds to their seeds in the tree what reaches code that
the seeds do not, the smallest set that libFuzzer finds, the largest files first, which reach most, up to KEPT_FILES and KEPT_BYTES with
the seeds that have names. So a later check begins where an earlier search ended.

Seeds are testdata/<x>_corpus next to x_fuzz.cc. An input that makes it crash, hang for 10 s, leak or take 2 GiB is left in build/fuzz/x
and named.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import tree

INPUTS = 100_000
KEPT_FILES, KEPT_BYTES = 60, 100 << 10
KEPT_LENGTH = 2 << 10  # of one file


def sources_of(pattern):
    return [path for folder in ("src", "python/src") for path in tree.ROOT.glob(f"{folder}/**/{pattern}.cc")]


def inputs_of(fuzzer):
    """Number of inputs that the checks try."""
    for source in sources_of(fuzzer):
        if line := re.search(r"^// Fuzz inputs: ([\d']+)", source.read_text(), re.M):
            return int(line.group(1).replace("'", ""))
    return INPUTS


def seeds_of(fuzzer):
    for source in sources_of(fuzzer):
        for name in (fuzzer.removesuffix("_fuzz") + "_corpus", fuzzer + "_corpus"):
            folder = source.parent / "testdata" / name
            if folder.is_dir():
                return [str(folder)]
    return []


def keep(build, fuzzer):
    """(whether it could be done, what to print): adds what was learned to the seeds of the tree."""
    learned = tree.ROOT / "build/fuzz" / fuzzer.removesuffix("_fuzz") / "corpus"
    if not learned.is_dir():
        return False, f"  {fuzzer}: has learned nothing yet. First:  ./dev fuzz {fuzzer.removesuffix('_fuzz')} 300"
    folder = pathlib.Path(*seeds_of(fuzzer) or [sources_of(fuzzer)[0].parent / "testdata" / f"{fuzzer.removesuffix('_fuzz')}_corpus"])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        merged = pathlib.Path(shutil.copytree(folder, pathlib.Path(temporary) / "merged"))
        before = {path.name for path in merged.iterdir()}
        done = subprocess.run(
            [str(build / fuzzer), "-set_cover_merge=1", f"-max_len={KEPT_LENGTH}", "-timeout=10", "-rss_limit_mb=2048",
             f"-artifact_prefix={temporary}/", str(merged), str(learned)],
            cwd=tree.ROOT, env=dict(os.environ, LLVM_PROFILE_FILE="/dev/null"), text=True, errors="replace", check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if done.returncode != 0:
            return False, "\n".join(done.stdout.splitlines()[-20:]) + f"\n  {fuzzer}: the merge FAILED"
        files, size = len(before), sum(path.stat().st_size for path in folder.iterdir())
        found = sorted((path for path in merged.iterdir() if path.name not in before), key=lambda path: -path.stat().st_size)
        kept = 0
        for path in found:
            if files + kept == KEPT_FILES:
                break
            if size + path.stat().st_size > KEPT_BYTES:
                continue
            shutil.copyfile(path, folder / f"grown_{path.name[:12]}")
            kept, size = kept + 1, size + path.stat().st_size
    return True, f"  {fuzzer}: {files} seeds, {kept} of {len(found)} added, {size:,} bytes in {folder.relative_to(tree.ROOT)}"


def with_fixed_addresses(command):
    """The command without address space randomization; as it is where a container does not permit that."""
    fixed = ["setarch", "--addr-no-randomize"]
    return fixed + command if subprocess.run([*fixed, "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0 else command


def fuzz(build, fuzzer, seconds, weight):
    """(whether it found nothing, what to print); with `seconds` None it is `weight` times the fuzzer's number of inputs."""
    home = tree.ROOT / "build/fuzz" / fuzzer.removesuffix("_fuzz")
    (home / "corpus").mkdir(parents=True, exist_ok=True)
    command = [str(build / fuzzer), "-timeout=10", "-rss_limit_mb=2048", f"-artifact_prefix={home}/", "-print_final_stats=1"]
    learned = home / "corpus"
    if seconds is None:
        command += ["-seed=1", f"-runs={weight * inputs_of(fuzzer)}", "-reload=0"]
        learned = home / "learned_in_check"  # not read again: the next check tries the same
        shutil.rmtree(learned, ignore_errors=True)
        learned.mkdir()
    else:
        command += [f"-max_total_time={seconds}"]
    command += [str(learned), *seeds_of(fuzzer)]
    environment = dict(os.environ, LLVM_PROFILE_FILE="/dev/null")
    if seconds is None:
        environment = {name: environment[name] for name in ("PATH", "LLVM_PROFILE_FILE")}  # its size moves the stack
        command = with_fixed_addresses(command)
    begin = time.monotonic()
    done = subprocess.run(
        command, cwd=tree.ROOT, env=environment, text=True, errors="replace", check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    took = time.monotonic() - begin
    if done.returncode == 0:
        runs = re.search(r"number_of_executed_units: (\d+)", done.stdout)
        covered = re.findall(r"cov: (\d+)", done.stdout)
        seeds = "" if seeds_of(fuzzer) else ", without seeds"
        return True, f"  {fuzzer}: {int(runs.group(1)) if runs else 0:,} inputs, {covered[-1] if covered else 0} edges, {took:.0f} s{seeds}"
    tail = "\n".join(done.stdout.splitlines()[-40:])
    saved = re.search(r"Test unit written to (\S+)", done.stdout)
    again = f"\n  again:  {build.relative_to(tree.ROOT)}/{fuzzer} {saved.group(1)}" if saved else ""
    return False, f"{tail}\n  {fuzzer}: FAILED{again}"


def main(build, bound, wanted):
    build = build.resolve()
    seconds, weight = None, 1

    def run(build, name):
        return keep(build, name) if bound == "keep" else fuzz(build, name, seconds, weight)

    if bound.startswith("inputs"):
        weight = int(bound.partition("*")[2] or 1)
    elif bound != "keep":
        seconds = int(bound)
    # Only those that have a source today: a tree may hold programs of an older checkout.
    known = sorted(source.stem for source in sources_of("*_fuzz"))
    if unknown := sorted(set(wanted) - set(known)):
        print(f"fuzz: no {' '.join(unknown)}. There are: {' '.join(known)}", file=sys.stderr)
        return 2
    good = True
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for fine, output in pool.map(lambda name: run(build, name), wanted or known):
            good &= fine
            print(output, flush=True)
    print(f"fuzz: {len(wanted or known)} fuzzers{'' if good else '; something was found'}")
    return 0 if good else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("bound", metavar="SECONDS|inputs[*TIMES]|keep")
    parser.add_argument("fuzzers", nargs="*")
    options = parser.parse_args()
    sys.exit(main(options.build, options.bound, options.fuzzers))
