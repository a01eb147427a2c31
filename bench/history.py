#!/usr/bin/env python3
"""Compares what the history of a running agent needs for a sample with what Prometheus and VictoriaMetrics need for the same samples: chunks of a
block that promtool makes, and data on disk after an import.

    python3 bench/history.py http://127.0.0.1:9091     prints the table of docs/performance/history.md

GPULENS_PEERS and GPULENS_GO_PEERS name the folders with promtool and victoria-metrics (build/peers, build/go_peers); what is not there is left out.
"""
import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROMTOOL = pathlib.Path(os.environ.get("GPULENS_PEERS", ROOT / "build" / "peers")) / "usr" / "bin" / "promtool"
VICTORIA = pathlib.Path(os.environ.get("GPULENS_GO_PEERS", ROOT / "build" / "go_peers")) / "victoria-metrics" / "victoria-metrics"
STEP_MS = 300_000  # of the window that is read at once


def get(url, data=None):
    with urllib.request.urlopen(url, data=data, timeout=120) as answer:
        return answer.read()


def read(agent):
    """All series with their samples: {id: (series, {time: value})}, and the agent's own figures."""
    now = json.loads(get(agent + "/api/now?known=0"))
    found = {}
    for end in range(now["history"]["begin"] + STEP_MS, now["at"] + STEP_MS, STEP_MS):
        page = json.loads(get(f"{agent}/api/history?window={STEP_MS}ms&end={min(end, now['at'])}"))
        for series in page["series"]:
            samples = found.setdefault(series["id"], (series, {}))[1]
            samples.update((at, value) for at, value in zip(series["at"], series["value"]) if value is not None)
    return found, now["history"]


def labels_of(series):
    name = re.sub(r"[^a-zA-Z0-9_]", "_", series["name"])
    labels = {re.sub(r"[^a-zA-Z0-9_]", "_", key): str(value) for key, value in series["attributes"].items()}
    return name, {**labels, "source": series["source"], "id": str(series["id"])}


def prometheus(found, folder):
    """Bytes of the chunks of blocks with these samples."""
    families = {}
    for series, samples in found.values():
        name, labels = labels_of(series)
        families.setdefault(name, []).append((labels, samples))
    with open(folder / "samples", "w") as out:
        for name, rows in families.items():
            out.write(f"# TYPE {name} unknown\n")
            for labels, samples in rows:
                text = ",".join(f"{key}={json.dumps(value)}" for key, value in labels.items())
                out.writelines(f"{name}{{{text}}} {value!r} {at / 1000:.3f}\n" for at, value in sorted(samples.items()))
        out.write("# EOF\n")
    subprocess.run([PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", folder / "samples", folder / "blocks"],
                   check=True, stdout=subprocess.DEVNULL)
    chunks = sum(p.stat().st_size for p in (folder / "blocks").glob("*/chunks/*"))
    index = sum(p.stat().st_size for p in (folder / "blocks").glob("*/index"))
    return chunks, index


def victoria_metrics(found, folder):
    """Bytes of its data on disk, without its index."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen([VICTORIA, f"-storageDataPath={folder}/vm", f"-httpListenAddr=127.0.0.1:{port}", "-retentionPeriod=100y"],
                                   stdout=log, stderr=log)
    base = f"http://127.0.0.1:{port}"
    try:
        for _ in range(100):
            with contextlib.suppress(OSError):
                get(base + "/health")
                break
            time.sleep(0.1)
        lines = []
        for series, samples in found.values():
            name, labels = labels_of(series)
            times = sorted(samples)
            lines.append(json.dumps({"metric": {"__name__": name, **labels}, "values": [samples[at] for at in times], "timestamps": times}))
        for first in range(0, len(lines), 200):
            get(base + "/api/v1/import", "\n".join(lines[first:first + 200]).encode())
        get(base + "/internal/force_flush")
        get(base + "/internal/force_merge")
        time.sleep(5)
        metrics = get(base + "/metrics").decode()
        sizes = {kind: sum(int(m) for m in re.findall(rf'^vm_data_size_bytes{{type="{kind}[^"]*"}} (\d+)', metrics, re.M))
                 for kind in ("storage", "indexdb")}
        return sizes["storage"], sizes["indexdb"]
    finally:
        process.terminate()
        process.wait()


def main():
    found, own = read(sys.argv[1].rstrip("/"))
    count = sum(len(samples) for _, samples in found.values())
    print(f"{len(found)} series, {count} samples, {(max(max(s) for _, s in found.values() if s) - own['begin']) / 60_000:.0f} minutes\n")
    print("| | bytes of samples | a sample | index |\n|---|---|---|---|")
    print(f"| gpulens | {own['bytes']:,} | {own['bytes'] / own['samples']:.2f} | {own['memory']:,} with all memory |")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, program, measure in (("Prometheus, chunks of blocks", PROMTOOL, prometheus), ("VictoriaMetrics", VICTORIA, victoria_metrics)):
            if not program.exists():
                print(f"| {name} | not here: {program.name} | | |")
                continue
            data, index = measure(found, folder)
            print(f"| {name} | {data:,} | {data / count:.2f} | {index:,} |")


if __name__ == "__main__":
    main()
