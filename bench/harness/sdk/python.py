"""Section `python`: calls from Python and the time to import, compared with libraries for the same purpose."""
import json
import statistics
import sys

from harness import measure
from harness.measure import ROOT, WORK

ROUNDS = 9
PEERS = ["prometheus_client==0.23.1", "opentelemetry-sdk==1.38.0"]
METERS = ["zeus==0.16.0", "openjarvis==1.0.4"]
IMPORTS = {
    "gpulens": "import gpulens",
    "gpulens, a counter made": "import gpulens; gpulens.Counter('a')",
    "prometheus_client": "import prometheus_client",
    "opentelemetry": "import opentelemetry.sdk.metrics",
}


def environment():
    """A virtual environment of its own with our package, built from this tree, and the peers; its Python."""
    python = WORK / "python/bin/python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if not python.exists():
        measure.output_of([sys.executable, "-m", "venv", WORK / "python"])
        measure.output_of([*pip, *PEERS])
    measure.output_of([*pip, "--force-reinstall", "--no-deps", ROOT / "python"])
    return python


def with_meters():
    """A separate environment with gpulens, Zeus and OpenJarvis; its Python, and the reasons for those that cannot be installed."""
    python = WORK / "python-meters/bin/python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    absent = {}
    if not python.exists():
        measure.output_of([sys.executable, "-m", "venv", WORK / "python-meters"])
    for peer in METERS:
        try:
            measure.output_of([*pip, peer])
        except measure.Absent as reason:
            absent[peer] = str(reason)
    measure.output_of([*pip, "--force-reinstall", "--no-deps", ROOT / "python"])
    return python, absent


def peers():
    """Section `peers`: windows and records next to Zeus and OpenJarvis."""
    interpreter, absent = with_meters()
    found = json.loads(measure.output_of([interpreter, ROOT / "bench/python/peers.py", "--json", "--nvml", measure.RELEASE / "fake_nvml"]))
    found["absent"].update(absent)
    return found


def import_seconds(python, statement):
    """CPU time of a statement in a fresh interpreter, by its own clock: what the interpreter itself takes varies more."""
    timed = f"import time; begin = time.process_time_ns(); {statement}; print(time.process_time_ns() - begin)"
    return int(measure.output_of([python, "-c", timed])) * 1e-9


def imports(python):
    for statement in IMPORTS.values():
        import_seconds(python, statement)  # writes what Python keeps of a compiled module
    found = {name: [] for name in IMPORTS}
    for _ in range(ROUNDS):
        for name, statement in IMPORTS.items():
            found[name].append(import_seconds(python, statement))
    return {name: statistics.median(times) for name, times in found.items()}


def python():
    interpreter = environment()
    found = json.loads(measure.output_of([interpreter, ROOT / "bench/python/calls.py", ROUNDS]))
    records = json.loads(measure.output_of([interpreter, ROOT / "bench/python/records.py", ROUNDS]))
    found["calls"].update(records["calls"])
    found["versions"].update(records["versions"])
    calls = {
        what: {library: {"best_ns": min(times), "median_ns": statistics.median(times)} for library, times in by.items()}
        for what, by in found["calls"].items()
    }
    return {"calls": calls, "imports": imports(interpreter), "versions": found["versions"], "absent": {}}
