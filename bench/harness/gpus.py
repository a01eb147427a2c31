"""Section `gpus`: the agent with 8 and with 16 simulated GPUs and everything that can be switched on, and
once with the names of all other projects; compared with other agents on the same simulated library and profile."""
import http.client
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

from harness import measure, peers, processes, scrapes
from harness.agent import Agent
from harness.measure import Absent

WARM = 13  # seconds: rows of the 10-s tier are read, their series made, buffers grown
QUIET = 12  # ticks without a scrape
SCRAPES = 6  # of each coding, one a second
NAMES = "[native, zernel, dcgm, otel_hw, l9gpu]"

CONFIG = """
collectors:
  nvidia: {{serial: true, links: true, topology: true, details: true, samples: true, clock_events: true, expected: {gpus}}}
  host: {{per_cpu: true, processes: true, pressure_shares: true, entropy: true, temperatures: all}}
analyzers:
  fleet_health: {{enabled: true}}
sinks:
  prometheus: {{names: {names}}}
control: {{socket: none}}
metrics: all
"""


def profile(gpus):
    """All busy with a changing load, two processes each; the last one is divided into MIG instances."""
    last = gpus - 1
    lines = ["model: H100", f"gpus: {gpus}", "load: {kind: sine, level: 0.6, amplitude: 0.3, period: 47}",
             "nvlink_share: 0.4", "pcie_share: 0.2", "mig:"]  # fmt: skip
    lines += [f"  - {{gpu: {last}, profile: 3g.40gb, instance: {i}, load: 0.5}}" for i in (1, 2)]
    lines += ["processes:"]
    for gpu in range(last):
        lines += [f"  - {{gpu: {gpu}, pid: {90000 + 10 * gpu + i}, memory: {4 + i}GiB, swing: 1GiB, sm: 40}}" for i in (0, 1)]
    lines += [f"  - {{gpu: {last}, pid: {91000 + i}, memory: 8GiB, mig_instance: {i}}}" for i in (1, 2)]
    return "\n".join(lines) + "\n"


class Watch:
    """Resources that processes have used since its construction."""

    def __init__(self, pids, prefix):
        self.pids, self.prefix, self.start = pids, prefix, time.monotonic()
        self.cpu = {pid: processes.run_seconds([pid]) for pid in pids}
        self.waits = processes.wakeups(pids)
        self.calls = processes.allocations(prefix, pids)

    def end(self):
        seconds = time.monotonic() - self.start
        calls = {key: now - self.calls.get(key, 0) for key, now in processes.allocations(self.prefix, self.pids).items()}
        return {
            "seconds": seconds,
            "cpu": [(processes.run_seconds([pid]) - self.cpu[pid]) / seconds for pid in self.pids],
            "wakeups_per_s": (processes.wakeups(self.pids) - self.waits) / seconds,
            "allocations": [sum(n for (owner, _), n in calls.items() if owner == pid) for pid in self.pids],
            "threads": {name: n for (owner, name), n in calls.items() if owner == self.pids[0] and n},
        }


def watch_ticks(pids, prefix):
    """QUIET ticks: what they used, and the agent's allocations in each. A tick in which something that is not on
    this machine is looked for again (every minute or so) allocates; the median tick is the steady one."""
    whole, ticks, start = Watch(pids, prefix), [], time.monotonic()
    for second in range(1, QUIET + 1):
        one = Watch(pids[:1], prefix)
        time.sleep(max(0.0, start + second - time.monotonic()))
        ticks.append(one.end()["allocations"][0])
    return whole.end(), ticks


def scraped(client, pids):
    """Scrapes at 1 s: first plain ones, then compressed ones, as Prometheus requests them; memory is that of the latter."""
    found, memory, start = {"plain": [], "gzip": []}, [], time.monotonic()
    for second, kind in enumerate(["plain"] * SCRAPES + ["gzip"] * SCRAPES):
        time.sleep(max(0.0, start + second - time.monotonic()))
        body, seconds = client.scrape(packed=kind == "gzip")
        found[kind].append((body, seconds))
        if kind == "gzip" and len(found[kind]) > 2:
            memory.append([processes.pss_bytes([pid]) for pid in pids])
    pages = {}
    for kind, answers in found.items():
        times = [seconds for _, seconds in answers]
        pages[kind] = {"bytes": len(answers[-1][0]), "best_s": min(times), "median_s": statistics.median(times)}
    middle = sorted(memory, key=sum)[len(memory) // 2]
    return {"pages": pages, "pss": middle, "samples": processes.samples_of(found["plain"][-1][0]), "processes": len(pids),
            "threads": [processes.entries([pid], "task") for pid in pids],
            "descriptors": [processes.entries([pid], "fd") for pid in pids]}  # fmt: skip


def ours(gpus, names="[native, zernel]"):
    counter = measure.RELEASE / "libbench_allocations.so"
    if not counter.exists():
        raise Absent("libbench_allocations.so is not built")
    with tempfile.TemporaryDirectory() as folder:
        world = pathlib.Path(folder, "world.yaml")
        world.write_text(profile(gpus), encoding="utf-8")
        prefix = pathlib.Path(folder, "calls")
        environment = {"GPULENS_FAKE_NVML": str(world), "LD_PRELOAD": str(counter), "GPULENS_BENCH_ALLOCATIONS": str(prefix)}
        config = CONFIG.format(gpus=gpus, names=names)
        with Agent("--demo", config=config, environment=environment) as agent:
            agent.wait_for(f'gpu_power_draw_watts{{gpu_index="{gpus - 1}"'.encode())
            client = processes.KeptConnection(agent.port)
            client.scrape(), client.scrape(packed=True)
            time.sleep(WARM)
            client.scrape(), client.scrape(packed=True)
            pids = processes.processes(agent.process.pid)
            quiet, ticks = watch_ticks(pids, prefix)
            busy = Watch(pids, prefix)
            found = scraped(client, pids)
            found["busy"] = busy.end()
            if processes.processes(agent.process.pid) != pids:
                raise Absent("a process of the agent was restarted meanwhile")
            found["quiet"] = quiet
            found["allocations_per_tick"] = statistics.median(ticks)
            found["ticks"] = len(ticks)
            found["allocations_per_scrape"] = found["busy"]["allocations"][0] / (2 * SCRAPES)
            return found


def measure_peer(gpus, command, port, text, environment=None):
    """Another agent on the same library and profile; `command` is made by peers.py."""
    library = measure.RELEASE / "fake_nvml"
    if not (library / "libnvidia-ml.so.1").exists():
        raise Absent("fake_nvml/libnvidia-ml.so.1 is not built")
    with tempfile.TemporaryDirectory() as folder:
        world = pathlib.Path(folder, "world.yaml")
        world.write_text(profile(gpus), encoding="utf-8")
        environment = {**os.environ, **(environment or {}), "GPULENS_FAKE_NVML": str(world), "LD_LIBRARY_PATH": str(library)}
        log = open(pathlib.Path(folder, "log"), "wb")
        process = subprocess.Popen([str(part) for part in command], env=environment, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 30
            while text not in (processes.get(f"http://127.0.0.1:{port}/metrics") or b""):
                if process.poll() is not None or time.monotonic() > deadline:
                    last = pathlib.Path(folder, "log").read_text(errors="replace").strip().split("\n")[-1]
                    raise Absent(f"shows no {text.decode()}: {last}")
                time.sleep(0.1)
            time.sleep(5)
            pids = processes.processes(process.pid)
            busy = Watch(pids, "")
            return scraped(processes.KeptConnection(port), pids) | {"busy": busy.end()}
        finally:
            log.close()
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def nvitop(gpus):
    port = scrapes.free_port()
    program = peers.nvitop_exporter()
    return measure_peer(gpus, [program, "--bind-address", "127.0.0.1", "--port", port, "--interval", "1"], port, b"gpu_utilization")


def all_smi(gpus):
    program = shutil.which("all-smi")
    if not program:
        raise Absent("not on PATH; a build takes minutes: cargo install all-smi --version 0.22.0 --locked")
    port = scrapes.free_port()
    with tempfile.TemporaryDirectory() as tools:
        listing = "\n".join(f"echo 'GPU {i}: NVIDIA H100 (UUID: GPU-{i})'" for i in range(gpus))
        smi = pathlib.Path(tools, "nvidia-smi")
        smi.write_text(f"#!/bin/sh\n{listing}\n", encoding="utf-8")
        smi.chmod(0o755)
        command = [program, "api", "--port", port, "--interval", "1"]
        return measure_peer(gpus, command, port, b"all_smi_gpu_utilization", {"PATH": f"{tools}:{os.environ['PATH']}"})


def gpus():
    parts = {
        "gpulens, 8 GPUs": lambda: ours(8),
        "gpulens, 16 GPUs": lambda: ours(16),
        "gpulens, 16 GPUs, all names": lambda: ours(16, NAMES),
        "nvitop-exporter, 8 GPUs": lambda: nvitop(8),
        "all-smi, 8 GPUs": lambda: all_smi(8),
    }
    result, absent = {}, {}
    for name, part in parts.items():
        try:
            result[name] = part()
        except (Absent, OSError, http.client.HTTPException) as reason:
            absent[name] = str(reason)
    return {"agents": result, "absent": absent}
