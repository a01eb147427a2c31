#!/usr/bin/env python3
"""Compares gpulens with Zeus and OpenJarvis in one process and in turn: energy windows on simulated GPUs, and records of inference calls.

Windows: begin and end around nothing; the same with the result read; and windows of 50 ms, whose joules are compared with what the
simulated GPUs draw (8 H100 of 71 W each). wall: of the caller; CPU: of the whole process, with all its threads. idle: CPU of a second in
which a monitor exists and nothing is measured.
Records: each store writes the same record into a separate SQLite file. caller: CPU of the thread that records; all: of the process until
the records are in the file.

Needs a Python with gpulens; of the peers those that can be imported are measured (pip install zeus openjarvis), and the others are listed
with the reason. GPUs are those of libnvidia-ml.so.1 in --nvml, by default the simulated one of this tree (ninja -C build/release fake_nvml);
--nvml "" takes the machine's own, without the comparison of joules.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FAKE = ROOT / "build/release/fake_nvml"
WATTS = 8 * 71.0  # of the profile h100_idle
WINDOW_SECONDS = 0.05
FIELDS = {
    "prompt_tokens": 512, "completion_tokens": 128, "total_tokens": 640, "latency_seconds": 0.5213, "ttft": 0.0812,
    "energy_joules": 41.81, "power_watts": 80.4, "throughput_tok_per_sec": 245.3, "engine": "vllm", "token_counting_version": 2,
}  # fmt: skip


class Gpulens:
    """Windows of gpulens.EnergyMonitor; records of gpulens.InferenceStore and of gpulens.compat.openjarvis.TelemetryStore."""

    def __init__(self):
        import gpulens

        self.package, self.version = gpulens, gpulens.__version__

    def open(self):
        self.monitor = self.package.EnergyMonitor()
        if not self.monitor.devices:
            raise RuntimeError("gpulens finds no GPU")
        return len(self.monitor.devices)

    def window(self, result):
        with self.monitor.window() as window:
            pass
        return window.result.energy_joules if result else None

    def joules(self, block):
        with self.monitor.window() as window:
            block()
        return window.result.energy_joules

    def stores(self, folder):
        native = self.package.InferenceStore(os.path.join(folder, "gpulens.db"))
        kept = self.package.InferenceRecord(model="llama-3.1-8b", engine="vllm", prompt_tokens=512, completion_tokens=128,
                                            latency_seconds=0.5213, ttft_seconds=0.0812, energy_joules=41.81, power_watts=80.4)  # fmt: skip
        yield "gpulens", (lambda: native.record(kept)), native.flush
        from gpulens.compat import openjarvis

        compat = openjarvis.TelemetryStore(os.path.join(folder, "compat.db"))
        record = openjarvis.TelemetryRecord(timestamp=1.0, model_id="llama-3.1-8b", **FIELDS)
        yield "gpulens.compat.openjarvis", (lambda: compat.record(record)), compat.flush

    def close(self):
        self.monitor = None  # its thread ends with it


class Zeus:
    """Windows of zeus.monitor.ZeusMonitor, without synchronising CUDA and without processors."""

    def __init__(self):
        import importlib.metadata

        import zeus.monitor

        self.package = zeus.monitor
        self.version = next(importlib.metadata.version(name) for name in ("zeus", "zeus-ml") if _installed(name))

    def open(self):
        import logging

        import warnings

        logging.disable(logging.WARNING)
        warnings.simplefilter("ignore")  # of windows shorter than a counter's step
        self.monitor = self.package.ZeusMonitor(cpu_indices=[])
        return len(self.monitor.gpu_indices)

    def window(self, result):
        self.monitor.begin_window("w", sync_execution=False)
        return self.monitor.end_window("w", sync_execution=False).total_energy

    def joules(self, block):
        self.monitor.begin_window("w", sync_execution=False)
        block()
        return self.monitor.end_window("w", sync_execution=False).total_energy

    def stores(self, folder):
        return ()

    def close(self):
        pass


class OpenJarvis:
    """Windows of openjarvis.telemetry's NvidiaEnergyMonitor; records of its TelemetryStore."""

    def __init__(self):
        import importlib.metadata

        from openjarvis.core.types import TelemetryRecord
        from openjarvis.telemetry.energy_nvidia import NvidiaEnergyMonitor
        from openjarvis.telemetry.store import TelemetryStore

        self.kind, self.store, self.record = NvidiaEnergyMonitor, TelemetryStore, TelemetryRecord
        self.version = importlib.metadata.version("openjarvis")

    def open(self):
        self.monitor = self.kind()
        with self.monitor.sample() as sample:
            pass
        if not sample.device_count:
            raise RuntimeError("OpenJarvis finds no GPU")
        return sample.device_count

    def window(self, result):
        with self.monitor.sample() as sample:
            pass
        return sample.energy_joules

    def joules(self, block):
        with self.monitor.sample() as sample:
            block()
        return sample.energy_joules

    def stores(self, folder):
        store = self.store(os.path.join(folder, "openjarvis.db"))
        record = self.record(timestamp=1.0, model_id="llama-3.1-8b", **FIELDS)
        yield "openjarvis", (lambda: store.record(record)), store.flush

    def close(self):
        self.monitor.close()


LIBRARIES = {"gpulens": Gpulens, "zeus": Zeus, "openjarvis": OpenJarvis}


def _installed(name):
    import importlib.metadata

    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def measured(call, count):
    """Wall and CPU nanoseconds of one call; the CPU is that of all threads."""
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    for _ in range(count):
        call()
    return (time.perf_counter_ns() - wall) / count, (time.process_time_ns() - cpu) / count


def error_of(library):
    """Of the joules of a block, against what the simulated GPUs draw while it runs."""
    seconds = []

    def block():
        begun = time.perf_counter()
        time.sleep(WINDOW_SECONDS)
        seconds.append(time.perf_counter() - begun)

    return library.joules(block) / (WATTS * seconds[0]) - 1


def windows(library, rounds, count, simulated):
    devices = library.open()
    try:
        idle = time.process_time_ns()
        time.sleep(1.0)
        out = {"gpus": devices, "idle CPU, a second": [time.process_time_ns() - idle]}
        for name, result in (("begin and end", False), ("begin, end and the result", True)):
            both = [measured(lambda: library.window(result), count) for _ in range(rounds)]
            out[f"{name}: wall"], out[f"{name}: CPU"] = [one[0] for one in both], [one[1] for one in both]
        if simulated:
            out["joules of 50 ms: error"] = [error_of(library) for _ in range(2 * rounds)]
        return out
    finally:
        library.close()


def records(found, rounds, count):
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        stores = [store for library in found.values() for store in library.stores(folder)]
        for _ in range(rounds):
            for name, record, flush in stores:
                for part, clock in (("caller", time.thread_time_ns), ("all", time.process_time_ns)):
                    begun = clock()
                    for _ in range(count):
                        record()
                    if part == "all":
                        flush()
                    out.setdefault(name, {}).setdefault(part, []).append((clock() - begun) / count)
                    flush()
    return out


def with_nvml(folder):
    """Starts again with that library first on the path of the loader, which is read once; with the simulated machine it describes."""
    if not folder or os.environ.get("GPULENS_BENCH_NVML") == folder:
        return
    if not (pathlib.Path(folder) / "libnvidia-ml.so.1").exists():
        raise SystemExit(f"{folder} has no libnvidia-ml.so.1; ninja -C build/release fake_nvml builds the simulated one")
    more = {"GPULENS_BENCH_NVML": folder, "LD_LIBRARY_PATH": f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
    more["GPULENS_FAKE_NVML"] = os.environ.get("GPULENS_FAKE_NVML") or str(ROOT / "tests/fake_nvml/profiles/h100_idle.yaml")
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **more})


def cell(what, values):
    if values is None:
        return "–"
    if what.endswith("error"):
        return f"{statistics.mean(values):+.1%}, worst {max(values, key=abs):+.1%}"
    return f"{min(values):,.0f} ({statistics.median(values):,.0f})"


def tables(found):
    """Of the windows and of the records: the head of a table, and its rows."""
    for title, by in (("window, ns, best round (median)", found["windows"]), ("record, ns, best round (median)", found["records"])):
        head = [title, *(f"{name} {found['versions'].get(name, '')}".strip() for name in by)]
        kinds = dict.fromkeys(what for one in by.values() for what in one if what != "gpus")
        yield head, [[what, *(cell(what, one.get(what)) for one in by.values())] for what in kinds]


def text(found):
    lines = [f"load average {found['load']:.1f}"]
    for head, rows in tables(found):
        lines += ["", f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join([*lines, "", *(f"{name} is not measured: {why}" for name, why in found["absent"].items())])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="rounds of each measurement (default 9)")
    parser.add_argument("--windows", type=int, default=20, help="windows a round (default 20)")
    parser.add_argument("--records", type=int, default=5000, help="records a round (default 5000)")
    parser.add_argument("--nvml", default=str(FAKE), metavar="FOLDER", help='folder with libnvidia-ml.so.1; "": the machine\'s own')
    parser.add_argument("--json", action="store_true", help="print one line of JSON with every round")
    given = parser.parse_args()
    with_nvml(given.nvml)
    found = {"versions": {}, "absent": {}, "windows": {}, "records": {}}
    libraries = {}
    for name, kind in LIBRARIES.items():
        try:
            libraries[name] = kind()
            found["versions"][name] = libraries[name].version
        except Exception as error:  # of packages that are not ours
            found["absent"][name] = f"{type(error).__name__}: {error}"
    for name, library in libraries.items():
        try:
            found["windows"][name] = windows(library, given.rounds, given.windows, bool(given.nvml))
        except Exception as error:
            found["absent"][f"{name}, windows"] = f"{type(error).__name__}: {error}"
    found["records"] = records(libraries, given.rounds, given.records)
    found["load"] = os.getloadavg()[0]
    print(json.dumps(found) if given.json else text(found))


if __name__ == "__main__":
    main()
