"""Running measured programs and reading what they print."""
import json
import os
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORK = ROOT / "build/bench"
RELEASE = pathlib.Path(os.environ.get("GPULENS_BUILD", ROOT / "build/release"))
PAGES = WORK / "pages"
TIMEOUT = 600


class Absent(Exception):
    """A program or file to be measured is missing; the message names it and the reason."""


def output_of(command, **options):
    """Returns the output of a program. Raises Absent when it is missing or fails."""
    command = [str(part) for part in command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Absent(f"{pathlib.Path(command[0]).name}: {error}") from error
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).split("\n")[-1]
        raise Absent(f"{pathlib.Path(command[0]).name} ended with {done.returncode}: {last}")
    return done.stdout


def make_pages():
    output_of(["python3", ROOT / "bench/pages/make_pages.py", PAGES])


class Timing:
    """Runs of one thing on one input. Times are CPU time of one call in seconds: the machine is shared,
    and the time in which another program had the core does not belong to this one."""

    def __init__(self, size, samples):
        self.size, self.samples = size, samples
        self.cpu, self.wall, self.extra = [], [], {}

    def add(self, cpu, wall):
        self.cpu += cpu
        self.wall += wall

    @property
    def best(self):
        return min(self.cpu)

    @property
    def median(self):
        return statistics.median(self.cpu)

    def rate(self):
        """Bytes per second of the best run."""
        return self.size / self.best

    def plain(self):
        return {
            "bytes": self.size, "samples": self.samples, "best_s": self.best, "median_s": self.median,
            "wall_median_s": statistics.median(self.wall), "runs": len(self.cpu), "bytes_per_s": self.rate(),
            **self.extra,
        }  # fmt: skip


def google_benchmark(timings, program, pattern, repetitions=7, counters=(), core=None):
    """Runs one of our benchmarks and adds its repetitions to `timings` by name, and those of its counters that are
    named here. On one core, if that is wanted."""
    text = output_of(
        [
            *([] if core is None else ["taskset", "-c", core]), RELEASE / program, f"--benchmark_filter={pattern}", "--benchmark_format=json",
            f"--benchmark_repetitions={repetitions}", "--benchmark_min_time=0.05",
        ],
        env={**os.environ, "GPULENS_BENCH_PAGES": str(PAGES)},
    )  # fmt: skip
    units = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
    for run in json.loads(text)["benchmarks"]:
        if run.get("run_type") == "aggregate":
            continue
        if run.get("error_occurred"):
            raise Absent(f"{run['name']}: {run['error_message']}")
        scale = units[run["time_unit"]]
        timing = timings.setdefault(run["run_name"], Timing(int(run.get("bytes", 0)), int(run.get("samples", 0))))
        timing.add([run["cpu_time"] * scale], [run["real_time"] * scale])
        for key in ("allocs", "packed", "bytes_per_sample"):
            if key in run:
                timing.extra[key] = run[key]
        for key in counters:
            if key in run:
                timing.extra.setdefault("counters", {}).setdefault(key, []).append(run[key])


def json_lines(timings, command, **options):
    """Runs a peer's program, which prints one line of JSON for each thing it timed."""
    for line in output_of(command, **options).splitlines():
        found = json.loads(line)
        timing = timings.setdefault(found["name"], Timing(found["bytes"], found["samples"]))
        timing.add([t / 1e9 for t in found["cpu_ns"]], [t / 1e9 for t in found["wall_ns"]])
        if "version" in found:
            timing.extra["version"] = found["version"]
        if "allocs" in found:
            timing.extra["allocs"] = found["allocs"]
