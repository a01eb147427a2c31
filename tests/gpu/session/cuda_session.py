"""Measures the libraries that jobs load on a machine with a GPU: a session of a few minutes, without internet.

    python3 tests/gpu/session/cuda_session.py --carry FOLDER --out FOLDER [--parts entries,launches,…] [--seconds N]

`--carry` is a folder that prepare.py made. Each part has a limit in time of its own and writes its results to
OUT/session.json at once, also its errors. Only the Python of the system is needed, and PyTorch for the last parts.

| part | what it shows |
|---|---|
| entries | first bytes of libcuda's launch functions, exported and as cuGetProcAddress returns them |
| launches | counts exact for each kind of launch; kernel times against CUDA's events; queue delay against what follows from them |
| overhead | ns per launch without the library and at each level, at three rates |
| training | PyTorch: launches against torch.profiler, kernel times against events, step time at each level |
| several | newer CUPTI with several subscribers, and torch.profiler at the same time |
| collectives | two ranks on one GPU, one slowed: NCCL's plugin against events |
"""

import argparse
import json
import lzma
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "inject"))
from pages import Pages  # noqa: E402

LEVELS = {"off": 0, "count": 1, "time": 2, "profile": 4}


class Session:
    def __init__(self, options):
        self.carry, self.out = Path(options.carry).resolve(), Path(options.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="session"))
        self.launch = options.launch_program or str(self.carry / "launch_loop")
        self.launch_per_thread = options.launch_program or str(self.carry / "launch_loop_per_thread")
        self.extra = dict(pair.split("=", 1) for pair in options.environment)
        self.deadline = time.monotonic() + options.seconds
        self.results = {}
        self.number = 0
        self.cupti = None  # for programs with a static runtime, where none is in the loader's path

    def save(self):
        (self.out / "session.json").write_text(json.dumps(self.results, indent=1))

    def left(self, limit):
        return max(5, min(limit, self.deadline - time.monotonic()))

    def pages(self):
        self.number += 1
        return Pages(str(self.folder / f"{self.number}.sock"), str(self.carry / "job_page_dump"))

    def environment(self, pages=None, cuda=None, **more):
        environment = {**os.environ, **self.extra, "PYTHONUNBUFFERED": "1"}
        if pages:
            environment["GPULENS_JOB_SOCKET"] = pages.path
        if cuda:
            environment["CUDA_INJECTION64_PATH"] = str(self.carry / "libgpulens-cuda.so")
            environment["GPULENS_CUDA"] = cuda
        environment.update({key: str(value) for key, value in more.items()})
        return environment

    def loop(self, arguments, cuda=None, program=None, limit=60, **more):
        """Returns what the launch program printed, and its page (None without the library)."""
        if cuda and self.cupti:
            more.setdefault("GPULENS_CUPTI", self.cupti)
        pages = self.pages()
        try:
            done = subprocess.run([program or self.launch, *map(str, arguments)], env=self.environment(pages, cuda, **more),
                                  capture_output=True, text=True, timeout=self.left(limit))
            if done.returncode:
                raise RuntimeError(f"{done.returncode}: {done.stderr[-500:]}")
            found = pages.read("cuda") if cuda else []
            return json.loads(done.stdout), found[0] if found else None
        finally:
            pages.close()

    def unpack(self, name):
        """Unpacks carry/NAME.xz once; returns the path, or None."""
        path, packed = self.folder / name, self.carry / f"{name}.xz"
        if not path.exists() and packed.exists():
            with lzma.open(packed) as source, open(path, "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
        return path if path.exists() else None


def short(page):
    """A page without its buckets, for the results."""
    if isinstance(page, dict):
        return {key: short(value) for key, value in page.items() if key not in ("buckets", "records")}
    if isinstance(page, list):
        return [short(value) for value in page[:40]]
    return page


# --- entries

ENTRIES = ["cuLaunchKernel", "cuLaunchKernel_ptsz", "cuLaunchKernelEx", "cuLaunchKernelEx_ptsz", "cuLaunchCooperativeKernel",
           "cuLaunchCooperativeKernel_ptsz", "cuGraphLaunch", "cuGraphLaunch_ptsz", "cuStreamSynchronize",
           "cuStreamSynchronize_ptsz", "cuEventSynchronize", "cuCtxSynchronize", "cuMemAlloc_v2", "cuMemFree_v2",
           "cuMemAllocAsync", "cuMemFreeAsync", "cuInit", "cuGetProcAddress", "cuGetProcAddress_v2"]


def elf_symbols(path):
    """Name → (address, offset in the file) of the dynamic symbols of a 64-bit ELF file."""
    data = Path(path).read_bytes()
    if data[:5] != b"\x7fELF\x02":
        raise ValueError(f"{path}: no 64-bit ELF")
    begin, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    loads, dynamic = [], None
    for i in range(count):
        kind, _, offset, address, _, in_file, _, _ = struct.unpack_from("<IIQQQQQQ", data, begin + i * size)
        if kind == 1:
            loads.append((address, offset, in_file))
        if kind == 2:
            dynamic = (offset, in_file)

    def offset_of(address):
        for start, offset, length in loads:
            if start <= address < start + length:
                return offset + address - start
        return None

    tags = dict(struct.unpack_from("<QQ", data, dynamic[0] + i) for i in range(0, dynamic[1], 16))
    symbols, strings = offset_of(tags[6]), offset_of(tags[5])
    found = {}
    at = symbols
    while at + 24 <= strings or (strings < symbols and at + 24 <= len(data)):  # the table lies before its strings
        name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", data, at)
        at += 24
        if section and value and info & 15 in (2, 10):
            end = data.index(b"\0", strings + name)
            found[data[strings + name:end].decode(errors="replace")] = (value, offset_of(value))
    return data, found


def part_entries(session):
    import ctypes

    results = {}
    driver = ctypes.CDLL("libcuda.so.1")
    with open("/proc/self/maps") as maps:
        lines = [line.split() for line in maps]
    path = next(line[-1] for line in lines if "libcuda.so" in line[-1])
    base = min(int(line[0].split("-")[0], 16) - int(line[2], 16) for line in lines if line[-1] == path and line[2] == "00000000")
    data, symbols = elf_symbols(path)
    results["libcuda"] = {"path": path, "bytes": {}}
    for name in ENTRIES:
        if name in symbols and symbols[name][1] is not None:
            offset = symbols[name][1]
            results["libcuda"]["bytes"][name] = data[offset:offset + 24].hex()
    # What a program gets that asks the driver for functions, as the runtime does.
    lookup = driver.cuGetProcAddress_v2
    results["cuGetProcAddress"] = {}
    for name in ("cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel", "cuGraphLaunch", "cuStreamSynchronize"):
        for flags, suffix in ((1, ""), (2, "_ptsz")):
            address, status = ctypes.c_void_p(), ctypes.c_int()
            rc = lookup(name.encode(), ctypes.byref(address), 13000, ctypes.c_uint64(flags), ctypes.byref(status))
            exported = symbols.get(name + suffix) or symbols.get(name)
            results["cuGetProcAddress"][name + suffix] = {
                "rc": rc,
                "same_as_exported": bool(address.value) and exported is not None and address.value - base == exported[0],
                "bytes": ctypes.string_at(address.value, 24).hex() if address.value else None,
                "inside_libcuda": bool(address.value) and any(
                    int(line[0].split("-")[0], 16) <= address.value < int(line[0].split("-")[1], 16) and line[-1] == path
                    for line in lines),
            }
    for library, names in (("libnccl.so.2", ["ncclAllReduce", "ncclCommInitRankConfig", "ncclGroupEnd", "ncclSend"]),):
        found = session.unpack(library)
        if found:
            data, symbols = elf_symbols(found)
            results[library] = {name: data[symbols[name][1]:symbols[name][1] + 24].hex() for name in names if name in symbols}
    return results


# --- launches

def totals(page):
    device = page["devices"][0] if page and page["devices"] else None
    if not device:
        return None
    return {
        "launches": device["launches"], "kernels": device["kernel"]["count"], "graph_kernels": device["graph_kernel"]["count"],
        "graphs": device["graph"]["count"], "kernel_ns": device["kernel"]["sum_ns"], "queue_delays": device["queue_delay"]["count"],
        "queue_delay_ns": device["queue_delay"]["sum_ns"], "syncs": device["sync_wait"]["count"],
        "enqueue_ns": {kind: value["sum_ns"] for kind, value in device["enqueue"].items()},
        "lost": {key: value for key, value in page["lost"].items() if value}, "trouble": page["trouble"],
        "library": page["library_version"], "level": page["actual_level"], "device_id": device["device_id"],
    }


def find_cupti(session, results):
    """A program with a static runtime has no libcupti next to it: that of PyTorch's packages serves then."""
    if session.cupti is not None:
        return
    _, page = session.loop(["--launches", 10, "--json"], "time")
    results["cupti_without_help"] = {"trouble": page["trouble"], "library": page["library_version"]}
    session.cupti = ""
    if page["trouble"].startswith("no libcupti"):
        found = [path for folder in sys.path for path in Path(folder or ".").glob("nvidia/*/lib/libcupti.so.1?")]
        session.cupti = str(found[0]) if found else ""
    results["cupti"] = session.cupti


def part_launches(session):
    results = {"exact": {}, "times": {}}
    find_cupti(session, results)
    warm, count = 100, 20000
    for program, name in ((session.launch, "legacy"), (session.launch_per_thread, "per_thread")):
        for kind in ("kernel", "ex", "cooperative", "graph"):
            launches = count if kind != "graph" else 2000
            for level in ("time", "profile") if kind == "graph" else ("time",):
                _, page = session.loop(["--launches", launches, "--kind", kind, "--json"], level, program)
                got = totals(page)
                column = "kernel" if kind == "ex" else kind
                results["exact"][f"{name} {kind} {level}"] = {
                    "expected": launches + warm, **(got or {}),
                    "exact": bool(got) and got["launches"][column] == launches + warm,
                    "trouble": page["trouble"] if page else "no page",
                }
                session.save()
    for us in (20, 200, 2000):
        launches = 900 if us < 2000 else 300  # below the 1,024 launches at which the driver waits
        printed, page = session.loop(["--launches", launches, "--kernel-us", us, "--json"], "time")
        got = totals(page)
        if not got or not got["kernels"]:
            results["times"][us] = {"printed": printed, "page": short(page)}
            continue
        mean = got["kernel_ns"] / got["kernels"] / 1e6
        by_events = printed["events_ms"] / launches
        results["times"][us] = {
            "kernel_ms": mean, "kernel_ms_by_events_of_all": by_events, "kernel_ms_by_events_of_each": printed["kernel_ms_by_events"],
            "error_percent": 100 * (mean / by_events - 1), "printed": printed, "page": got,
            # Launches i = 0… come every x ns and run after each other.
            "queue_delay_ms": got["queue_delay_ns"] / max(1, got["queue_delays"]) / 1e6,
            "queue_delay_ms_expected_about": launches / 2 * (by_events - printed["ns_per_launch"] / 1e6),
        }
    printed, page = session.loop(["--launches", 2000, "--rate", 1000, "--kernel-us", 10, "--json"], "time")
    got = totals(page)
    results["idle_queue"] = {"printed": printed, "page": got,
                             "queue_delay_us": got["queue_delay_ns"] / max(1, got["queue_delays"]) / 1e3 if got else None}
    return results


def part_overhead(session):
    results = {}
    find_cupti(session, results)
    for rate, launches in ((10000, 8000), (100000, 60000), (0, 150000)):
        rows = {}
        for turn in range(2):
            for mode in ("bare", "off", "count", "time", "profile"):
                printed, page = session.loop(["--launches", launches, "--rate", rate, "--json"], None if mode == "bare" else mode)
                row = rows.setdefault(mode, {"ns_in_call": [], "ns_per_launch": [], "dropped": 0})
                row["ns_in_call"].append(printed["ns_in_call"])
                row["ns_per_launch"].append(printed["ns_per_launch"])
                if page:
                    row["lost"] = {key: value for key, value in page["lost"].items() if value}
                    row["page"] = totals(page)
        key = "ns_in_call" if rate else "ns_per_launch"
        bare = min(rows["bare"][key])
        for row in rows.values():
            row["added_ns"] = min(row[key]) - bare
            row["added_percent_of_thread"] = row["added_ns"] * rate / 1e7 if rate else 100 * row["added_ns"] / bare
        results[str(rate) if rate else "as fast as possible"] = rows
        session.results["overhead"] = results
        session.save()
    return results


# --- programs that go on line by line

class Steps:
    """A child that prints "ready", does what a line on its input says, and prints one line of JSON for each."""

    def __init__(self, session, arguments, environment, limit):
        self.errors = open(session.folder / f"errors{session.number}", "w+")
        self.process = subprocess.Popen([sys.executable, *map(str, arguments)], env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        self.deadline = time.monotonic() + session.left(limit)
        self.line()

    def line(self):
        import selectors

        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(max(1, self.deadline - time.monotonic())):
                self.process.kill()
                raise TimeoutError("a step took too long")
        text = self.process.stdout.readline()
        if not text:
            self.process.wait()
            raise RuntimeError(f"the program ended: {self.error()}")
        return json.loads(text)

    def do(self, words):
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()
        return self.line()

    def error(self):
        self.errors.seek(0)
        return self.errors.read()[-1500:]

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        return self.process.returncode


def part_training(session):
    script = HERE / "training.py"
    results = {}
    child = Steps(session, [script], session.environment(), 90)
    results["bare"] = [child.do("steps 60") for _ in range(3)]
    results["profiler"] = child.do("profile 3")
    results["bare_end"] = child.close()
    pages = session.pages()
    try:
        child = Steps(session, [script], session.environment(pages, "time,flush=200"), 150)
        levels = {}
        for _ in range(3):
            for level, number in LEVELS.items():
                pages.set_level(number, "cuda")
                before = None
                child.do("settle")
                page = pages.read("cuda")
                before = totals(page[0]) if page else None
                step = child.do("steps 60")
                child.do("settle")
                page = pages.read("cuda")
                after = totals(page[0]) if page else None
                row = levels.setdefault(level, {"step_ms": [], "launches_per_step": [], "kernels_per_step": []})
                row["step_ms"].append(step["step_ms"])
                if before and after:
                    launches = sum(after["launches"].values()) - sum(before["launches"].values())
                    row["launches_per_step"].append(launches / step["trained"])
                    row["kernels_per_step"].append((after["kernels"] - before["kernels"]) / step["trained"])
                    row["lost"] = after["lost"]
        bare = min(step["step_ms"] for step in results["bare"])
        for row in levels.values():
            row["added_percent"] = 100 * (statistics.median(row["step_ms"]) / bare - 1)
        results["levels"] = levels
        pages.set_level(LEVELS["time"], "cuda")
        results["matmul"] = []
        for words in ("matmul 1024 300", "matmul 4096 200", "matmul 8192 30"):
            child.do("settle")
            before = totals(pages.read("cuda")[0])
            truth = child.do(words)
            child.do("settle")
            after = totals(pages.read("cuda")[0])
            # All but two are products; the operands are made by two short ones.
            kernels = after["kernels"] - before["kernels"]
            mean = (after["kernel_ns"] - before["kernel_ns"]) / max(1, kernels - 2) / 1e6
            results["matmul"].append({"what": words, "truth": truth, "kernels": kernels, "kernel_ms": mean,
                                      "error_percent": 100 * (mean / truth["ms"] - 1)})
        results["graph"] = {}
        for level in ("time", "profile"):
            pages.set_level(LEVELS[level], "cuda")
            child.do("settle")
            before = totals(pages.read("cuda")[0])
            truth = child.do("graph 20 100")
            child.do("settle")
            after = totals(pages.read("cuda")[0])
            results["graph"][level] = {"truth": truth, "graph_launches": after["launches"]["graph"] - before["launches"]["graph"],
                                       "graphs": after["graphs"] - before["graphs"],
                                       "graph_kernels": after["graph_kernels"] - before["graph_kernels"]}
        results["end"] = child.close()
        page = pages.read("cuda")[0]
        results["page"] = short(page)
        results["kernels_by_name"] = sorted(((kernel["total_ns"], kernel["count"], kernel["name"][:160]) for kernel in page["kernels"]),
                                            reverse=True)[:15]
        (session.out / "cuda_page.json").write_text(json.dumps(page))
    finally:
        pages.close()
    return results


def part_several(session):
    """torch.profiler in a process with the library: with the CUPTI that PyTorch brings, and with a newer one."""
    results = {}
    newer = session.unpack("libcupti.so.13")
    if newer:
        for level in ("time", "profile"):
            _, page = session.loop(["--launches", 20000, "--json"], level, GPULENS_CUPTI=newer)
            results[f"newer CUPTI, {level}"] = totals(page) or short(page)
        _, page = session.loop(["--launches", 2000, "--kind", "graph", "--json"], "time", GPULENS_CUPTI=newer)
        results["newer CUPTI, graph"] = totals(page) or short(page)
        printed, page = session.loop(["--launches", 900, "--kernel-us", 200, "--json"], "time", GPULENS_CUPTI=newer)
        results["newer CUPTI, times"] = {"printed": printed, "page": totals(page)}
        session.results["several"] = results
        session.save()
    for name, more in (("CUPTI of PyTorch", {}), ("newer CUPTI", {"LD_PRELOAD": newer} if newer else None)):
        if more is None:
            continue
        pages = session.pages()
        row = results[f"torch.profiler with {name}"] = {}
        try:
            child = Steps(session, [HERE / "training.py"], session.environment(pages, "time,flush=200", **more), 60)
            child.do("steps 10")
            child.do("settle")
            row["before"] = totals(pages.read("cuda")[0])
            row["profiler"] = child.do("profile 3")
            child.do("steps 10")
            child.do("settle")
            row["after"] = totals(pages.read("cuda")[0])
            row["end"] = child.close()
            row["messages"] = child.error()
        except Exception as error:  # one of both is what is to be found out
            row["error"] = str(error)
        finally:
            pages.close()
    return results


# --- collectives

def part_collectives(session):
    results = {}
    nccl = session.unpack("libnccl.so.2")
    plugin = session.carry / "libgpulens-nccl-profiler.so"
    base = {"NCCL_MULTI_RANK_GPU_ENABLE": 1, "NCCL_MAX_CTAS": 4, "NCCL_DEBUG": "WARN", "MASTER_ADDR": "127.0.0.1",
            "NCCL_SOCKET_IFNAME": "lo", "WORLD_SIZE": 2}
    if nccl:
        base["LD_PRELOAD"] = nccl

    def run(name, steps, slow_ms, with_plugin, port, **variables):
        pages = session.pages()
        files = [session.folder / f"{name}{rank}.json" for rank in range(2)]
        children = []
        try:
            for rank in range(2):
                more = {**base, **variables, "MASTER_PORT": port, "RANK": rank}
                if with_plugin:
                    more["NCCL_PROFILER_PLUGIN"] = plugin
                children.append(subprocess.Popen(
                    [sys.executable, HERE / "collectives.py", str(steps), str(slow_ms), files[rank]], text=True,
                    env=session.environment(pages, **more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
            deadline = time.monotonic() + session.left(90)
            outputs = []
            for child in children:
                try:
                    outputs.append(child.communicate(timeout=max(1, deadline - time.monotonic()))[0][-2000:])
                except subprocess.TimeoutExpired:
                    child.kill()
                    outputs.append("killed: " + child.communicate()[0][-2000:])
            row = {"codes": [child.returncode for child in children]}
            if any(row["codes"]):
                row["output"] = outputs
            row["ranks"] = [json.loads(file.read_text()) for file in files if file.exists()]
            found = pages.read("nccl")
            (session.out / f"nccl_{name}.json").write_text(json.dumps(found))
            row["pages"] = [compare(page, row["ranks"]) for page in found]
            row["links"] = [page["links"] for page in found]
            sequences = [{(record["function"], record["sequence"]) for record in page["records"]} for page in found]
            if len(sequences) == 2:
                row["sequences"] = {"of_both": len(sequences[0] & sequences[1]), "of_one": len(sequences[0] ^ sequences[1])}
            return row
        finally:
            for child in children:
                if child.poll() is None:
                    child.kill()
            pages.close()

    results["without plugin"] = run("bare", 300, 0, False, 29611)
    session.results["collectives"] = results
    session.save()
    if plugin.exists():
        results["with plugin"] = run("even", 300, 0, True, 29612)
        session.save()
        results["rank 1 slowed by 20 ms"] = run("slow", 150, 20, True, 29613)
        session.save()
        # Without shared memory and peer access NCCL takes its sockets, so that there are steps of the network.
        results["by sockets, at the level link"] = run("link", 100, 0, True, 29614, NCCL_P2P_DISABLE=1, NCCL_SHM_DISABLE=1,
                                                       GPULENS_NCCL_LEVEL="link")
    return results


def compare(page, ranks):
    """Durations of one rank's page against the events that the rank recorded."""
    out = {"trouble": page["trouble"], "library": page["library_version"], "lost": page["lost"],
           "communicators": page["communicators"], "records": len(page["records"])}
    timed = [record for record in page["records"] if record["timing"] and record["end_ns"] > record["start_ns"]]
    durations = sorted((record["end_ns"] - record["start_ns"]) / 1e6 for record in timed)
    if durations:
        out["timings"] = sorted({record["timing"] for record in timed})
        out["duration_ms"] = {"median": statistics.median(durations), "min": durations[0], "max": durations[-1], "count": len(durations)}
    rank = page["communicators"][0]["rank"] if page["communicators"] else None
    mine = next((entry for entry in ranks if entry["rank"] == rank), None)
    if mine and durations:
        out["rank"] = rank
        out["events_ms"] = mine["event_ms_median"]
        out["error_percent"] = 100 * (out["duration_ms"]["median"] / mine["event_ms_median"] - 1)
    return out


PARTS = {"entries": part_entries, "launches": part_launches, "overhead": part_overhead, "training": part_training,
         "several": part_several, "collectives": part_collectives}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--carry", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--parts", default="entries,launches,training,collectives,overhead,several")
    parser.add_argument("--seconds", type=float, default=480, help="of the whole session")
    parser.add_argument("--launch-program", help="instead of launch_loop: fake_cuda_loop, where there is no GPU")
    parser.add_argument("--environment", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    unknown = set(options.parts.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"no parts {sorted(unknown)}")
    session = Session(options)
    failed = 0
    for name in options.parts.split(","):
        begin = time.monotonic()
        if begin > session.deadline:
            session.results[name] = {"error": "no time left"}
            continue
        try:
            session.results[name] = PARTS[name](session)
        except Exception as error:
            failed += 1
            traceback.print_exc()
            session.results.setdefault(name, {})
            session.results[name]["error"] = f"{type(error).__name__}: {error}"
        session.results.setdefault("seconds", {})[name] = round(time.monotonic() - begin, 1)
        session.save()
        print(f"{name}: {session.results['seconds'][name]} s", flush=True)
    print(json.dumps(session.results)[:9000])
    shutil.rmtree(session.folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
