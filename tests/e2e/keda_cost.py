"""What a scaler for many pods costs: python keda_cost.py PODS [SECONDS]. Needs GPULENS_BIN, and descriptors for both sides of each page (ulimit -n).

All pods are one page of the demo's vLLM, whose counters grow, at many URLs of a server here. Prints CPU and memory of the agent, and for
each call its time at the client and its CPU in the agent.
"""
import http.server
import os
import re
import sys
import threading
import time
import urllib.request

import keda_calls
from agent import Agent, free_port, samples, wait_until
from test_demo import BUILT_IN
from test_keda import is_number

EVERY = 5  # seconds between two scrapes
CALLS = 300


def demo_page():
    with Agent("--demo", environment=BUILT_IN) as agent:
        def url():
            return next((s.labels["url"] for s in samples(agent.page(), "gpulens_scrape_info") if s.labels["target"] == "chat-a"), None)
        return urllib.request.urlopen(wait_until(url, 20, "an engine")).read().decode()


def grown(page, times):
    """The page after so many rounds of 40 requests, 10 of which were quick."""
    lines = []
    for line in page.split("\n"):
        match = re.match(r"([^#].*(?:_bucket|_count|_sum|_total)(?:\{.*\})?) (\S+)$", line)
        if match:
            bound = re.search(r'le="([^"]+)"', line)
            growth = 10 if bound and float(bound[1]) < 0.3 else 40
            line = f"{match[1]} {float(match[2]) + growth * times}"
        lines.append(line)
    return "\n".join(lines).encode()


def serve(pages):
    began = time.monotonic()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            body = pages[int((time.monotonic() - began) / EVERY) % len(pages)] if self.path.startswith("/metrics") else b""
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size, daemon_threads = 1024, True

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def cpu(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid):
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(r"VmRSS:\s*(\d+)", file.read())[1]) / 1000


def main():
    count, seconds = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 30
    page = demo_page()
    pages, port = serve([grown(page, times) for times in range(60)]), free_port()
    targets = "".join(f"  - {{name: pod-{i}, kind: vllm, interval: {EVERY}s, url: 'http://127.0.0.1:{pages}/metrics?pod={i}'}}\n" for i in range(count))
    config = (f"interval: {EVERY}s\ncollectors: {{host: {{enabled: false}}}}\nanalyzers: {{inference: {{enabled: false}}, cost: {{enabled: false}}}}\n"
              f"limits: {{series: 1000000}}\nsinks: {{keda: {{listen: ['127.0.0.1:{port}']}}}}\ntargets:\n{targets}")
    queue, latency = {"metric": "queue", "target": 4}, {"metric": "ttft", "target": 1}
    with Agent(config=config) as agent, keda_calls.Scaler(port) as scaler:
        wait_until(is_number(scaler, latency, lambda _: True), 60, "all pods")
        pid = agent.process.pid
        before = cpu(pid)
        threading.Event().wait(seconds)
        print(f"{count} pods, {len(page)} bytes each in {EVERY} s: {(cpu(pid) - before) / seconds:.1%} of a core, {memory_mb(pid):.0f} MB")
        for name, call in (("IsActive", lambda: scaler.active(**queue)), ("GetMetricSpec and GetMetrics, queue", lambda: scaler.number(**queue)),
                           ("GetMetricSpec and GetMetrics, ttft", lambda: scaler.number(**latency))):
            times, before = [], cpu(pid)
            for _ in range(CALLS):
                start = time.monotonic()
                call()
                times.append(time.monotonic() - start)
            used, times = cpu(pid) - before, sorted(times)
            print(f"{name}: median {times[CALLS // 2] * 1e3:.1f} ms, p99 {times[CALLS * 99 // 100] * 1e3:.1f} ms, {used / CALLS * 1e3:.2f} ms of CPU")


if __name__ == "__main__":
    main()
