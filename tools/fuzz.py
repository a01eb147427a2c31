#!/usr/bin/env python3
"""Runs fuzzers of an asan tree, two at a time: tools/fuzz.py [--seed N] BUILD_TREE SECONDS [FUZZER…].

With a seed every run of the same build tries the same inputs in the same order, as far as its time goes.
Seeds are testdata/<x>_corpus beside x_fuzz.cc. What a fuzzer learns stays in build/fuzz/x/corpus; an input that
makes it crash, hang for 10 s, leak or take 2 GiB is left in build/fuzz/x and named.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

import tree


def seeds_of(fuzzer):
    for source in tree.ROOT.glob(f"src/**/{fuzzer}.cc"):
        for name in (fuzzer.removesuffix("_fuzz") + "_corpus", fuzzer + "_corpus"):
            folder = source.parent / "testdata" / name
            if folder.is_dir():
                return [str(folder)]
    return []


def fuzz(build, fuzzer, seconds, seed):
    """(whether it found nothing, what to print)"""
    home = tree.ROOT / "build/fuzz" / fuzzer.removesuffix("_fuzz")
    (home / "corpus").mkdir(parents=True, exist_ok=True)
    command = [str(build / fuzzer), f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", f"-seed={seed}"]
    command += [f"-artifact_prefix={home}/", "-print_final_stats=1", str(home / "corpus"), *seeds_of(fuzzer)]
    environment = dict(os.environ, LLVM_PROFILE_FILE="/dev/null")
    done = subprocess.run(
        command, cwd=tree.ROOT, env=environment, text=True, errors="replace", check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if done.returncode == 0:
        runs = re.search(r"number_of_executed_units: (\d+)", done.stdout)
        covered = re.findall(r"cov: (\d+)", done.stdout)
        seeds = "" if seeds_of(fuzzer) else ", without seeds"
        return True, f"  {fuzzer}: {int(runs.group(1)) if runs else 0:,} inputs, {covered[-1] if covered else 0} edges{seeds}"
    tail = "\n".join(done.stdout.splitlines()[-40:])
    saved = re.search(r"Test unit written to (\S+)", done.stdout)
    again = f"\n  again:  {build.relative_to(tree.ROOT)}/{fuzzer} {saved.group(1)}" if saved else ""
    return False, f"{tail}\n  {fuzzer}: FAILED{again}"


def main(build, seconds, wanted, seed):
    build = build.resolve()
    # Only those that have a source today: a tree may hold programs of an older checkout.
    known = sorted(source.stem for source in tree.ROOT.glob("src/**/*_fuzz.cc"))
    if unknown := sorted(set(wanted) - set(known)):
        print(f"fuzz: no {' '.join(unknown)}. There are: {' '.join(known)}", file=sys.stderr)
        return 2
    good = True
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for fine, said in pool.map(lambda name: fuzz(build, name, seconds, seed), wanted or known):
            good &= fine
            print(said, flush=True)
    print(f"fuzz: {len(wanted or known)} fuzzers, {seconds} s each{'' if good else '; something was found'}")
    return 0 if good else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="0 is another one each time")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("seconds", type=int)
    parser.add_argument("fuzzers", nargs="*")
    asked = parser.parse_args()
    sys.exit(main(asked.build, asked.seconds, asked.fuzzers, asked.seed))
