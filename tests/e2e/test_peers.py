"""The agent between programs of others: Prometheus scrapes it, promtool reads its page, it scrapes the node exporter."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import urllib.request

from agent import ROOT, Agent, free_port, peer, prometheus_result, samples, value, wait_until

# Promtool's findings about names that other projects chose: the name, the finding, the project.
EXCEPTIONS = [line.split("\t") for line in (ROOT / "tests" / "e2e" / "promtool_exceptions.tsv").read_text().splitlines()[1:]]


def promtool_findings(promtool, page):
    """What promtool finds on a page, without what is decided to stay."""
    run = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, text=True, check=False)
    allowed = {(name, words) for name, words, _ in EXCEPTIONS}
    return [line for line in (run.stdout + run.stderr).splitlines() if line and tuple(line.split(" ", 1)) not in allowed]


class Promtool(unittest.TestCase):
    def test_promtool_finds_nothing_but_the_listed_exceptions(self):
        promtool = peer("promtool")
        with Agent("--demo") as agent:
            wait_until(lambda: samples(agent.page(), "gpu_utilization_ratio"))
            self.assertEqual(promtool_findings(promtool, agent.page()), [])


class Prometheus(unittest.TestCase):
    """Debian's Prometheus, once a second for 30 s."""

    def test_thirty_seconds_of_scraping(self):
        program, port = peer("prometheus"), free_port()
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-prometheus-"))
        self.addCleanup(shutil.rmtree, folder, True)
        with Agent("--demo") as agent:
            (folder / "prometheus.yml").write_text(
                "global: {scrape_interval: 1s, scrape_timeout: 900ms}\nscrape_configs:\n"
                f"  - {{job_name: gpulens, static_configs: [{{targets: ['127.0.0.1:{agent.port}']}}]}}\n")
            with open(folder / "log", "wb") as log:
                server = subprocess.Popen([program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                                           f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
            try:
                def enough():
                    done = prometheus_result(port, "count_over_time(up[60s])")
                    return bool(done) and float(done[0]["value"][1]) >= 30
                wait_until(enough, 60, "30 scrapes")
                self.assertEqual(float(prometheus_result(port, "min_over_time(up[60s])")[0]["value"][1]), 1, "every scrape was good")
                self.assertEqual(len(prometheus_result(port, "gpu_power_draw_watts")), 8)
                watts = float(prometheus_result(port, 'sum(rate(gpu_energy_consumption_joules_total[20s]))')[0]["value"][1])
                drawn = float(prometheus_result(port, "sum(avg_over_time(gpu_power_draw_watts[20s]))")[0]["value"][1])
                self.assertAlmostEqual(watts / drawn, 1, delta=0.1)
            finally:
                server.terminate()
                server.wait(20)


class NodeExporter(unittest.TestCase):
    def test_no_family_is_lost(self):
        program, port = peer("prometheus-node-exporter"), free_port()
        exporter = subprocess.Popen([program, f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
        try:
            url = f"http://127.0.0.1:{port}/metrics"
            read = lambda: urllib.request.urlopen(url, timeout=5).read().decode()

            def up():
                try:
                    return read()
                except OSError:
                    return ""
            direct = wait_until(up, 15, "the node exporter")
            config = f"interval: 200ms\ntargets: [{{name: node, kind: prometheus, url: '{url}', interval: 500ms}}]\n"
            with Agent(config=config) as agent:
                wait_until(lambda: value(agent.page(), "gpulens_scrape_up", target="node") == 1, 15, "the first scrape")
                page = wait_until(lambda: (lambda p: p if samples(p, "node_cpu_seconds_total") else "")(agent.page()))
        finally:
            exporter.terminate()
            exporter.wait(10)
        passed = {s.name for s in samples(page, None, target="node")}
        # process_* are ours natively, under the same names: native wins by the rules of the page.
        lost = {s.name for s in samples(direct)} - passed
        native = {s.name for s in samples(page)}
        self.assertEqual({name for name in lost if name not in native}, set())


if __name__ == "__main__":
    unittest.main()
