#!/usr/bin/env python3
"""Measures the cost of each level of metrics for a Prometheus: series, bytes of a page, and memory of Debian's prometheus after some time of
scraping once a second, for eight simulated GPUs, compared with the default list of dcgm-exporter.

    python3 bench/levels.py [SECONDS]       60 without it; prints the table of docs/performance/levels.md
"""
import contextlib
import json
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from harness import measure, scrapes  # noqa: E402
from harness.agent import Agent  # noqa: E402

# default-counters.csv of dcgm-exporter 4.5, without labels.
DCGM_DEFAULT = """DCGM_FI_DEV_SM_CLOCK DCGM_FI_DEV_MEM_CLOCK DCGM_FI_DEV_MEMORY_TEMP DCGM_FI_DEV_GPU_TEMP DCGM_FI_DEV_POWER_USAGE
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION DCGM_FI_DEV_PCIE_REPLAY_COUNTER DCGM_FI_DEV_GPU_UTIL DCGM_FI_DEV_MEM_COPY_UTIL
DCGM_FI_DEV_ENC_UTIL DCGM_FI_DEV_DEC_UTIL DCGM_FI_DEV_XID_ERRORS DCGM_FI_DEV_FB_FREE DCGM_FI_DEV_FB_USED DCGM_FI_DEV_FB_RESERVED
DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL DCGM_FI_DEV_VGPU_LICENSE_STATUS DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS
DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS DCGM_FI_DEV_ROW_REMAP_FAILURE DCGM_FI_PROF_GR_ENGINE_ACTIVE DCGM_FI_PROF_PIPE_TENSOR_ACTIVE
DCGM_FI_PROF_DRAM_ACTIVE DCGM_FI_PROF_PCIE_TX_BYTES DCGM_FI_PROF_PCIE_RX_BYTES""".split()
CASES = {
    "`metrics: essential`": "metrics: essential\nsinks: {prometheus: {names: [native]}}\n",
    "`metrics: standard`": "metrics: standard\nsinks: {prometheus: {names: [native]}}\n",
    "`metrics: all`": "metrics: all\nsinks: {prometheus: {names: [native]}}\n",
    "dcgm-exporter's default list": f"sinks: {{prometheus: {{names: [dcgm], include: [{', '.join(DCGM_DEFAULT)}]}}}}\n",
}


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read()


@contextlib.contextmanager
def prometheus(target, folder):
    """Debian's prometheus, scraping the target once a second; its process and URL."""
    port = scrapes.free_port()
    file = pathlib.Path(folder, "prometheus.yml")
    scrape = f"[{{job_name: gpulens, static_configs: [{{targets: ['{target}']}}]}}]" if target else "[]"
    file.write_text(f"global: {{scrape_interval: 1s}}\nscrape_configs: {scrape}\n", encoding="utf-8")
    process = subprocess.Popen([ROOT / "build" / "peers" / "usr" / "bin" / "prometheus", f"--config.file={file}",
                                f"--storage.tsdb.path={folder}/db", f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def memory(process):
    status = pathlib.Path("/proc", str(process.pid), "status").read_text(encoding="ascii")
    return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024


def case(config, seconds):
    with tempfile.TemporaryDirectory() as folder, Agent("--demo", config="discovery: {local: {enabled: false}}\n" + config) as agent:
        time.sleep(4)  # rates need two readings
        page = get(agent.url)
        series = sum(1 for line in page.splitlines() if line and not line.startswith(b"#"))
        with prometheus(f"127.0.0.1:{agent.port}", folder) as (process, url):
            time.sleep(seconds)
            stats = json.loads(get(f"{url}/api/v1/status/tsdb"))["data"]["headStats"]
            heap = float(re.search(rb"(?m)^go_memstats_heap_inuse_bytes (\S+)", get(f"{url}/metrics")).group(1))
            return series, len(page), stats["numSeries"], memory(process), heap / 2**20


def main(arguments):
    seconds = float(arguments[0]) if arguments else 60
    print(f"Measured {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())} by `python3 bench/levels.py {seconds:g}`, "
          f"Linux {platform.release()}, {measure.RELEASE.name} build.\n")
    print("| | series | page, bytes | series in Prometheus | its RSS, MiB | its heap, MiB |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, prometheus(None, folder) as (process, _):
        time.sleep(seconds)
        print(f"| no target | – | – | – | {memory(process):.1f} | – |", flush=True)
    for name, config in CASES.items():
        series, size, kept, rss, heap = case(config, seconds)
        print(f"| {name} | {series:,} | {size:,} | {kept:,} | {rss:.1f} | {heap:.1f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
