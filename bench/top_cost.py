#!/usr/bin/env python3
"""What `gpulens top` costs next to other terminal views: CPU time, memory and bytes to the terminal, each in a terminal of its own
over the same simulated 8 GPUs, one reading a second.

    build/venv/bin/python bench/top_cost.py [--seconds 60] [--size 120x40] [--build build/release]

Needs tmux. Programs of others are used where they are on PATH (nvitop, all-smi, nvtop, btop); what is not there is reported. nvitop,
nvtop and all-smi read the simulated libnvidia-ml.so.1 of the build, as they would a driver's. CPU time is that of the process
and its children, from /proc; "by itself" reads the GPUs in its own process and the reader process that it starts.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

TICK = os.sysconf("SC_CLK_TCK")


def tree(pid):
    """The process and all below it."""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        try:
            for task in os.listdir(f"/proc/{one}/task"):
                waiting += map(int, pathlib.Path(f"/proc/{one}/task/{task}/children").read_text().split())
            found.append(one)
        except OSError:
            continue
    return found


def cpu_seconds(pid):
    total = 0
    for one in tree(pid):
        try:
            fields = pathlib.Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))  # with children that have ended
    return total / TICK


def memory_mb(pid):
    """Proportional set size, in MB."""
    total = 0
    for one in tree(pid):
        try:
            rollup = pathlib.Path(f"/proc/{one}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total * 1024 / 1e6


def written(pid):
    """Bytes that the process has written by write(2): to its terminal, as it writes nowhere else."""
    for line in pathlib.Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("wchar:"):
            return int(line.split()[1])
    return 0


def measure(command, environment, seconds, size, until, keys=()):
    folder = tempfile.mkdtemp(prefix="gpulens-top-cost-")
    socket, columns, rows = f"{folder}/tmux", *size.split("x")
    try:
        everything = {**os.environ, "LC_ALL": "C.UTF-8", **environment}
        everything.pop("TMUX", None)
        subprocess.run(["tmux", "-f", "/dev/null", "-S", socket, "new-session", "-d", "-x", columns, "-y", rows,
                        "exec " + " ".join(map(str, command))], env=everything, check=True, timeout=20)
        pid = int(subprocess.run(["tmux", "-S", socket, "display-message", "-p", "#{pane_pid}"], check=True,
                                 capture_output=True, text=True, timeout=20).stdout)

        def screen():
            return subprocess.run(["tmux", "-S", socket, "capture-pane", "-p"], check=True, capture_output=True, text=True,
                                  timeout=20).stdout
        end = time.monotonic() + 30
        while until not in screen():
            if time.monotonic() > end:
                return None, screen()
            time.sleep(0.2)
        if keys:
            subprocess.run(["tmux", "-S", socket, "send-keys", *keys], check=True, timeout=20)
        time.sleep(5)  # the start is over
        before, bytes_before, began = cpu_seconds(pid), written(pid), time.monotonic()
        time.sleep(seconds)
        span = time.monotonic() - began
        return ((cpu_seconds(pid) - before) / span * 100, memory_mb(pid), (written(pid) - bytes_before) / span), screen()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return None, str(error)
    finally:
        subprocess.run(["tmux", "-S", socket, "kill-server"], check=False, capture_output=True, timeout=20)
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--size", default="120x40")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    options = parser.parse_args()
    program = (options.build / "gpulens").resolve()
    os.environ["GPULENS_BIN"] = str(program)
    import agent as agents
    library = (options.build / "fake_nvml").resolve()
    driver = {"LD_LIBRARY_PATH": str(library), "GPULENS_FAKE_NVML": str(ROOT / "tests" / "fake_nvml" / "profiles" / "h100_busy.yaml")}
    quiet = {"GPULENS_DISCOVERY_LOCAL_ENABLED": "false", "GPULENS_HTTP_LISTEN": f"127.0.0.1:{agents.free_port()}",
             "GPULENS_CONTROL_SOCKET": "none"}
    with tempfile.TemporaryDirectory() as folder:
        socket = f"{folder}/control.sock"
        demo = agents.Agent("--demo", environment={"GPULENS_CONTROL_SOCKET": socket, "GPULENS_DEMO_SCENARIO": ""})
        with demo:
            rows = [
                ("gpulens top, of an agent", [program, "top", "--socket", socket], {}, "POWER W"),
                ("gpulens top, of an agent, detail", [program, "top", "--socket", socket], {}, "POWER W", ("Enter",)),
                ("gpulens top, by itself", [program, "top", "--demo"], {**quiet, "GPULENS_DEMO_SCENARIO": "none"}, "POWER W"),
                ("nvitop", [shutil.which("nvitop"), "--monitor", "--interval", "1"], driver, "NVITOP"),
                ("nvtop", [shutil.which("nvtop"), "-d", "10"], driver, "GPU"),
                ("all-smi", [shutil.which("all-smi"), "local", "-i", "1"], driver, "GPU"),
                ("btop (no GPUs)", [shutil.which("btop"), "-p", "0"], {}, "cpu"),
            ]
            print(f"| program | CPU, % of a core | memory, MB (PSS) | bytes/s to the terminal |\n|---|---|---|---|")
            for name, command, environment, until, *keys in rows:
                if not command[0]:
                    print(f"| {name} | not here | | |", flush=True)
                    continue
                result, shown = measure(command, environment, options.seconds, options.size, until, *keys)
                if result is None:
                    lines = [line.strip() for line in shown.splitlines() if line.strip()]
                    print(f"| {name} | did not run: {(lines or ['no screen'])[-1][:100]} | | |", flush=True)
                    continue
                cpu, memory, rate = result
                print(f"| {name} | {cpu:.2f} | {memory:.1f} | {rate:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
