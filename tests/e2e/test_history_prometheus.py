"""What /api/history says of two minutes is what a Prometheus says that scraped the same agent."""
import json
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest
import urllib.parse

from agent import Agent, free_port, peer, prometheus_result, wait_until

SECONDS = 120
# Native names and attributes, and Prometheus' of the same series.
GAUGES = [("gpu.power.draw", "gpu_power_draw_watts"), ("gpu.utilization", "gpu_utilization_ratio"),
          ("gpu.memory.used", "gpu_memory_used_bytes"), ("system.memory.linux.available", "system_memory_linux_available_bytes")]
COUNTERS = [("gpu.energy.consumption", "gpu_energy_consumption_joules_total"), ("gpu.pcie.io", "gpu_pcie_io_bytes_total")]


class Prometheus(unittest.TestCase):
    def test_equal_within_the_time_of_a_sample(self):
        program = peer("prometheus")
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-history-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        port = free_port()
        with Agent("--demo", environment={"GPULENS_DEMO_SCENARIO": ""}) as agent:
            (folder / "prometheus.yml").write_text(
                "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
                f"scrape_configs: [{{job_name: gpulens, static_configs: [{{targets: ['127.0.0.1:{agent.port}']}}]}}]\n")
            with open(folder / "log", "wb") as log:
                process = subprocess.Popen([program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                                            f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
            self.addCleanup(process.wait)
            self.addCleanup(process.terminate)
            wait_until(lambda: prometheus_result(port, "gpu_energy_consumption_joules_total"), 30, "the first scrape")
            wait_until(lambda: self.scrapes(port) >= SECONDS, 2 * SECONDS, "two minutes of scrapes")
            self.compare(agent, port)

    @staticmethod
    def scrapes(port):
        return max((int(row["value"][1]) for row in prometheus_result(port, "count_over_time(up[10m])")), default=0)

    def series(self, agent, name, end):
        query = urllib.parse.urlencode({"select": name, "window": f"{SECONDS}s", "end": end})
        return json.loads(agent.get("/api/history?" + query, timeout=20).text)["series"]

    def compare(self, agent, port):
        end = time.time()
        compared = 0
        for ours, theirs in GAUGES + COUNTERS:
            raw = prometheus_result(port, f"{theirs}[{SECONDS - 10}s]")
            self.assertTrue(raw, theirs)
            found = {self.key(s["attributes"]): s for s in self.series(agent, ours, int(end * 1000))}
            for row in raw:
                samples = [(float(t), float(v)) for t, v in row["values"]]
                mine = found[self.key({k: v for k, v in row["metric"].items() if k not in ("__name__", "job", "instance")})]
                at = [(ms / 1000, value) for ms, value in zip(mine["at"], mine["value"]) if value is not None]
                self.one(theirs, samples, at, (ours, theirs) in COUNTERS)
                compared += 1
        self.assertGreaterEqual(compared, 40)

    @staticmethod
    def key(attributes):
        """Attributes as labels: the same text for both."""
        def text(value):
            return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)
        return tuple(sorted((key.replace(".", "_"), text(value)) for key, value in attributes.items()))

    def one(self, name, theirs, ours, counter):
        # Each scraped value is one that was read at most two seconds (a period, and a tick) before.
        for t, value in theirs:
            near = [v for at, v in ours if t - 2.2 <= at <= t + 0.2]
            self.assertTrue(any(abs(v - value) <= 1e-6 * max(1, abs(value)) for v in near), (name, t, value, near))
        begin, end = theirs[0][0], theirs[-1][0]
        inner = [v for at, v in ours if begin + 0.2 <= at <= end - 2.2]
        outer = [v for at, v in ours if begin - 2.2 <= at <= end + 0.2]
        values = [v for _, v in theirs]
        slack = 1e-6 * max(1, max(map(abs, values)))
        self.assertLessEqual(min(outer), min(values) + slack, name)
        self.assertGreaterEqual(min(inner), min(values) - slack, name)
        self.assertGreaterEqual(max(outer), max(values) - slack, name)
        self.assertLessEqual(max(inner), max(values) + slack, name)
        if counter:
            mine = [(at, v) for at, v in ours if begin - 2.2 <= at <= end + 0.2]
            rates = [(s[-1][1] - s[0][1]) / (s[-1][0] - s[0][0]) for s in (theirs, mine)]
            self.assertAlmostEqual(rates[0], rates[1], delta=max(rates) * 4 / SECONDS + slack, msg=name)


if __name__ == "__main__":
    unittest.main()
