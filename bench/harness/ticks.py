"""Section `ticks`: heap allocations of a steady tick, as the test that counts them has recorded it."""
import json
import pathlib
import tempfile

from harness import measure
from harness.measure import Absent

PROPERTY = "allocations_per_tick"


def properties(report):
    """Every property that a test of the report recorded."""
    for suite in report.get("testsuites", []):
        for test in suite.get("testsuite", []):
            yield from test.items()


def ticks():
    tests = [path for path in [measure.RELEASE / "pipeline_test"] if path.exists()]
    if not tests:
        raise Absent("no test that counts allocations is built")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number, test in enumerate(tests):
            file = pathlib.Path(folder, f"{number}.json")
            measure.output_of([test, "--gtest_filter=*ASteadyTickAllocatesNothing", f"--gtest_output=json:{file}"], cwd=measure.ROOT)
            found += [float(value) for name, value in properties(json.loads(file.read_text())) if name == PROPERTY]
    if not found:
        raise Absent(f"{tests[0].name} recorded no {PROPERTY}")
    return {"allocations": max(found), "absent": {}}
