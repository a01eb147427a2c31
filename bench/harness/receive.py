"""Section `receive`: received OTLP, compared with the OpenTelemetry Collector under the same load in the same run. Both take the
requests and drop what they read: our sink `do_nothing`, the Collector's exporter `nop`. One program after the other."""
import json
import pathlib
import socket
import statistics
import subprocess
import tempfile
import time

from harness import peers, processes, scrapes
from harness.agent import Agent
from harness.measure import Absent, ROOT, output_of
from harness.targets import COLLECTOR, end, go_program

CONNECTIONS, WARM, SPAN, ROUNDS = 4, 2, 8, 3
LOADS = {f"{protocol}, {points:,} points": (protocol, points) for points in (1000, 10000) for protocol in ("http", "grpc")}


def rss_bytes(pids):
    total = 0
    for pid in pids:
        text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        total += sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmRSS:"))
    return total


def client(folder, protocol, port, points, seconds):
    return [str(part) for part in (folder / "otlpload", protocol, f"127.0.0.1:{port}", points, CONNECTIONS, seconds)]


def await_port(port, process):
    end_at = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < end_at:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise Absent("does not start")


def watch(process, load, port, folder):
    """Costs of one load: CPU, memory, points."""
    protocol, points = load
    output_of(client(folder, protocol, port, points, WARM))
    pids = processes.processes(process.pid)
    cpu, pss, rss = processes.run_seconds(pids), [], []
    with subprocess.Popen(client(folder, protocol, port, points, SPAN), stdout=subprocess.PIPE, text=True) as sender:
        while sender.poll() is None:
            time.sleep(0.5)
            if sender.poll() is None and process.poll() is None:
                pss.append(processes.pss_bytes(pids))
                rss.append(rss_bytes(pids))
        output = sender.stdout.read()
    if process.poll() is not None:
        raise Absent(f"ended with {process.returncode}")
    cpu = processes.run_seconds(pids) - cpu
    found = json.loads(output)
    if not found["requests"]:
        raise Absent(f"took no request: {found['why']}")
    sent = found["requests"] * found["points"]
    return {"points_per_cpu_s": sent / cpu, "points_per_s": sent / found["seconds"], "cpu": cpu / found["seconds"], "failed": found["failed"],
            "bytes_per_point": found["bytes"] / found["points"], "pss_bytes": statistics.median(pss), "pss_max_bytes": max(pss),
            "rss_max_bytes": max(rss), "idle": 0.0}  # fmt: skip


def ours(loads, folder):
    ports = {"http": scrapes.free_port(), "grpc": scrapes.free_port()}
    listen = ", ".join(f"{name}: {{listen: ['127.0.0.1:{port}']}}" for name, port in ports.items())
    with Agent(config=f"collectors: {{host: {{enabled: false}}}}\nreceivers: {{otlp: {{{listen}}}}}\nsinks: {{do_nothing: {{}}}}\n") as agent:
        agent.wait_for(b"gpulens_tick_duration_seconds ")
        pids = processes.processes(agent.process.pid)
        idle = processes.pss_bytes(pids)
        return {name: watch(agent.process, load, ports[load[0]], folder) | {"idle": idle} for name, load in loads.items()}


def collector_program():
    source = ROOT / "tests/peers/collector"
    return go_program("otlp_collector", ".", {file.name: file.read_text(encoding="utf-8") for file in sorted(source.iterdir())})


def collector(loads, folder):
    ports = {"http": scrapes.free_port(), "grpc": scrapes.free_port()}
    program = collector_program()
    with tempfile.TemporaryDirectory() as work:
        config = pathlib.Path(work, "collector.yaml")
        protocols = ", ".join(f"{name}: {{endpoint: '127.0.0.1:{port}', {'max_recv_msg_size_mib: 16' if name == 'grpc' else ''}}}" for name, port in ports.items())
        config.write_text(f"receivers: {{otlp: {{protocols: {{{protocols}}}}}}}\nexporters: {{nop: {{}}}}\n"
                          "service:\n  telemetry: {metrics: {level: none}, logs: {level: error}}\n"
                          "  pipelines: {metrics: {receivers: [otlp], exporters: [nop]}}\n", encoding="utf-8")  # fmt: skip
        with open(pathlib.Path(work, "log"), "wb") as log:
            process = subprocess.Popen([program, "--config", f"file:{config}"], stdout=log, stderr=log)
        try:
            for port in ports.values():
                await_port(port, process)
            idle = processes.pss_bytes([process.pid])
            return {name: watch(process, load, ports[load[0]], folder) | {"idle": idle} for name, load in loads.items()}
        finally:
            end(process)


def receive():
    """Rounds in turn, so that both meet the same neighbours; the best round is the code's, the others are kept, too."""
    result, absent = {}, {}
    folder = peers.go_programs()
    for _ in range(ROUNDS):
        for name, part in {"gpulens": ours, f"OpenTelemetry Collector {COLLECTOR}": collector}.items():
            if name in absent:
                continue
            try:
                for load, found in part(LOADS, folder).items():
                    result.setdefault(name, {}).setdefault(load, []).append(found)
            except (Absent, OSError) as reason:
                absent[name] = str(reason)
    agents = {name: {load: max(rounds, key=lambda found: found["points_per_cpu_s"]) | {
        "points_per_cpu_s_median": statistics.median(found["points_per_cpu_s"] for found in rounds)}
        for load, rounds in loads.items()} for name, loads in result.items()}  # fmt: skip
    return {"agents": agents, "absent": absent}
