#!/usr/bin/env python3
"""Prints a summary of a run of ctest: tools/test_summary.py BUILD_TREE reads its tests.xml (ctest --output-junit).

ctest counts programs; the cases inside them, what they skipped and why are counted here. again.xml, where there is
one, has the second try of failed tests: a test that passed then is unsteady, which is a defect; it counts as passed. Its cause is in
tests/unsteady.tsv, or has to be found. The last line is ctest's own, in its usual form.
"""
import collections
import pathlib
import re
import sys
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
_RAN = re.compile(r"^\[==========\] (\d+) tests? from \d+ test suites? ran\.", re.M)
_UNITTEST = re.compile(r"^Ran (\d+) tests? in ", re.M)
_UNITTEST_SKIPS = re.compile(r"^.*\.\.\. skipped ['\"](.*)['\"]$", re.M)
_GTEST_SKIP = re.compile(r"^\S*:\d+: Skipped\n(?P<reason>.*)$", re.M)
_FAILED_CASE = re.compile(r"^\[  FAILED  \] (\S+?),? .*\(\d+ ms\)$", re.M)


def reason_of(text):
    """The kind of a skip: the text before the first colon or comma, so that paths do not divide it."""
    return re.split(r"[:,;(]", text.strip() or "no reason given")[0].strip()


def summarize(suite):
    """(cases, failed cases, Counter of skip reasons, programs, names of failed programs) of the XML tree."""
    cases, failed_cases, skips, failed = 0, 0, collections.Counter(), []
    programs = suite.findall("testcase")
    for program in programs:
        output = program.findtext("system-out") or ""
        inside = sum(int(n) for n in _RAN.findall(output)) + sum(int(n) for n in _UNITTEST.findall(output))
        cases += inside or 1
        reasons = [m.group("reason") for m in _GTEST_SKIP.finditer(output)] + _UNITTEST_SKIPS.findall(output)
        skips.update(reason_of(reason) for reason in reasons)
        if program.find("skipped") is not None and not reasons:
            skips.update([reason_of(output.strip().split("\n")[0])])
        bad = len(set(_FAILED_CASE.findall(output)))
        if program.get("status") == "fail":
            failed.append(program.get("name"))
            bad = bad or 1
        failed_cases += bad
    return cases, failed_cases, skips, len(programs), failed


def passed_again(failed, path):
    """The failed programs that passed in the second try, whose results are in `path`."""
    if not path.exists():
        return []
    tried = {p.get("name"): p.get("status") for p in xml.etree.ElementTree.parse(path).getroot().findall("testcase")}
    return [name for name in failed if tried.get(name) == "run"]


def causes():
    """{test: why it fails at times} of tests/unsteady.tsv."""
    lines = (ROOT / "tests/unsteady.tsv").read_text().splitlines()
    return dict(line.split("\t") for line in lines if line and not line.startswith("#"))


def longest(suite, count=5):
    """The tests that took longest, as text."""
    took = sorted(((float(p.get("time") or 0), p.get("name")) for p in suite.findall("testcase")), reverse=True)
    return ", ".join(f"{name} {seconds:.0f} s" for seconds, name in took[:count])


def main(tree):
    path = pathlib.Path(tree, "tests.xml")
    if not path.exists():
        print(f"dev: no test has run in {tree}", file=sys.stderr)
        return 1
    suite = xml.etree.ElementTree.parse(path).getroot()
    cases, failed_cases, skips, programs, failed = summarize(suite)
    unsteady = passed_again(failed, pathlib.Path(tree, "again.xml"))
    failed = [name for name in failed if name not in unsteady]
    print(f"\n{cases} cases in {programs} programs: {failed_cases} failed, {skips.total()} skipped")
    print(f"  longest: {longest(suite)}")
    for reason, count in skips.most_common():
        print(f"  {count:6} skipped: {reason}")
    for name in unsteady:
        known = causes().get(name, "no cause in tests/unsteady.tsv: find it, and put it right")
        print(f"  UNSTEADY: {name} failed among the others and passed alone; {known}")
    for name in failed:
        print(f"  FAILED: {name}      again, with its output:  ctest --test-dir {tree} -V -R '^{name}$'")
    percent = 100 * (programs - len(failed)) // programs if programs else 0
    print(f"{percent}% tests passed, {len(failed)} tests failed out of {programs}")
    return 1 if failed or not programs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
