"""Measures what the rules of deploy/rules/ cost in Prometheus: N nodes, which serve the page of one demo agent under UUIDs of their own.

    python3 tests/deploy/rule_cost.py --nodes 100 --minutes 7

Prints a row for each group: rules, series that they make, time of one evaluation. docs/alerts.md has the result.
"""
import argparse
import contextlib
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

from demo_prometheus import Agent, HttpStub, free_port, peer, wait_until
from agent import prometheus_result  # after demo_prometheus, which makes it importable
from test_rules import RULES, groups


def query(port, expression):
    return [(row["metric"], float(row["value"][1])) for row in prometheus_result(port, expression)]


def main():
    parser = argparse.ArgumentParser(description="Measures what the recording rules and alerts cost.")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=7)
    options = parser.parse_args()
    with Agent("--demo", config="metrics: standard\nanalyzers: {cost: {price_per_gpu_hour: 2.49}}\n", environment={"GPULENS_DEMO_SCENARIO": ""}) as agent:
        wait_until(lambda: "gpu_idle{" in agent.page() and "cost_ledger_owner_usd_total{" in agent.page(), 60, "every analyzer's first series")
        page = agent.page()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-cost-"))

    def answer(request, _):
        node = request.path.split("/")[1]
        return 200, {"Content-Type": "text/plain; version=0.0.4"}, re.sub(r'gpu_uuid="GPU-', f'gpu_uuid="GPU-{node}-', page).encode()
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, True)
        stub = stack.enter_context(HttpStub(answer))
        targets = "".join(f"      - {{targets: ['127.0.0.1:{stub.port}'], labels: {{instance: n{i}, __metrics_path__: /n{i}/metrics}}}}\n" for i in range(options.nodes))
        rules = "".join(f"  - {file}\n" for file in RULES)
        port = free_port()
        (folder / "prometheus.yml").write_text(
            f"global: {{scrape_interval: 15s, evaluation_interval: 30s}}\nrule_files:\n{rules}scrape_configs:\n"
            f"  - job_name: gpulens\n    static_configs:\n{targets}"
            f"  - job_name: prometheus\n    static_configs: [{{targets: ['127.0.0.1:{port}']}}]\n")
        log = stack.enter_context(open(folder / "log", "wb"))
        process = subprocess.Popen([peer("prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                                    f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
        stack.callback(process.wait, 30)
        stack.callback(process.send_signal, signal.SIGTERM)

        wait_until(lambda: query(port, "up == 1"), 60)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(options.minutes * 60)
            raise AssertionError("Prometheus ended: " + (folder / "log").read_text()[-2000:])
        scraped = query(port, "sum(scrape_samples_scraped{job='gpulens'})")[0][1]
        print(f"{options.nodes} nodes, {scraped:.0f} series of them, scraped every 15 s")
        durations = {labels["rule_group"].rsplit(";", 1)[1]: value
                     for labels, value in query(port, "max_over_time(prometheus_rule_group_last_duration_seconds[3m])")}
        cpu = query(port, "rate(process_cpu_seconds_total{job='prometheus'}[3m])")[0][1]
        rules_cpu = query(port, "sum(rate(prometheus_rule_evaluation_duration_seconds_sum[3m]))")[0][1]
        print("| group | rules | every | series | longest evaluation in 3 min |")
        print("|---|---|---|---|---|")
        for _, group in groups():
            recorded = [rule["record"] for rule in group["rules"] if "record" in rule]
            series = sum(value for name in recorded for _, value in query(port, f"count({name})"))
            print(f"| `{group['name']}` | {len(group['rules'])} | {group['interval']} | {series:.0f} | {durations[group['name']] * 1000:.0f} ms |")
        print(f"all evaluations together: {rules_cpu:.3f} s in each second; Prometheus uses {cpu:.2f} of a core")


if __name__ == "__main__":
    main()
