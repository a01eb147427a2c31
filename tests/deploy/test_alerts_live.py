"""The rules of deploy/rules/ in Debian's Prometheus over two demo nodes and a proxy, with Debian's Alertmanager and a webhook behind it.

A healthy demo fires nothing but what it is made to show; a GPU that falls off the bus fires one alert, which arrives with its texts and
is resolved after the fault; every selector of every rule finds series, or is listed with the reason why the demo has none.
"""
import contextlib
import json
import pathlib
import re
import signal
import subprocess
import time
import unittest

from demo_prometheus import BINARY, PROXY, DemoPrometheus, HttpStub, free_port, peer, wait_until
from test_rules import RULES, rules

# What the demo has no series for, and why.
NOT_IN_DEMO = {
    "gpu_health_condition": "exists from the first occurrence; promtool and the test of fleet_health's table cover it",
    "gpu_devices_expected": "simulated GPUs have no PCI bus",
    "gpu_driver_mismatch": "simulated GPUs have no driver on disk",
    "gpu_retired_pages_pending": "GPUs before Ampere",
    "gpu_row_remap_pending": "Gaudi",
    "nvswitch_sxid_errors_total": "exists from the first SXid",
    "inference_spend_usd_total": "LiteLLM's page alone",
    "gpulens_series_refused_total": "the demo refuses nothing",
    "gpulens_proxy_budget_engine_up": "the demo's proxy is alone",
}
# What the demo's scenario shows once in its day of 24 minutes.
OF_THE_DAY = {4: "GpuThrottling", 5: "GpuXid"}
# What it shows on purpose: a notebook that holds a GPU and hardly uses it, engines whose latencies are above the objective, a budget that is too small.
SHOWN = {*OF_THE_DAY.values(), "CollectiveRankLate", "ProxyBudgetRefuses", "GpuIdleButAllocated", "InferenceTtftBudgetFast", "InferenceTtftBudgetSlow", "InferenceItlBudgetFast", "InferenceItlBudgetSlow"}
NODE = "node-a"
OURS = {rule["alert"] for file, rule in rules("alert") if file.stem == "gpu"}
# Faults that are injected at the same time, one for each GPU, and the alerts that fire for that GPU; docs/truth-kit.md has the faults.
FAULTS = {
    0: ("mode=xid code=13", {"GpuXid"}),
    1: ("mode=xid code=62", {"GpuXidNeedsReset"}),
    2: ("mode=ecc_uncorrectable amount=2", {"GpuEccUncorrectable"}),
    4: ("mode=counter counter=links_down", {"GpuNvlinkDown"}),
    5: ("mode=throttle value=0x80", {"GpuThrottling"}),
    6: ("mode=counter counter=remap_failure", {"GpuMemoryUnrepairable"}),
    7: ("mode=reset_required", {"GpuLost"}),
}


def selectors(expression):
    """Metric with its matchers, of each place where the expression reads one."""
    text = re.sub(r"\b(by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)|\"\$1\"|\[[0-9a-z:]+\]|\boffset \w+", " ", expression)
    found = set()
    for name, matchers in re.findall(r"(?<![\w:\"])([a-zA-Z_:][\w:]*)\s*(\{[^}]*\})?(?!\s*\(|[\w:\"])", text):
        if ":" in name or re.match(r"(gpu|gpulens|inference|vllm|cost|nvswitch|nccl|up|zumik|process)(_|$)", name):
            found.add(name + matchers)
    return found


def alertmanager():
    """The command that starts Alertmanager. Debian's reads its templates below /usr/share; unpacked, they are elsewhere, so that it gets
    a /usr/share of its own."""
    program = peer("prometheus-alertmanager")
    share = pathlib.Path(program).parent.parent / "share" / "prometheus"
    if pathlib.Path("/usr/share/prometheus/alertmanager/default.tmpl").exists():
        return [program]
    # The mount hides itself, not what lies below an open folder: the templates are copied from there.
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c",
               'cd "$0" && mount -t tmpfs none /usr/share && cp -r . /usr/share/prometheus && cd / && exec "$@"', str(share), program]
    if subprocess.run(["unshare", "--map-root-user", "--mount", "true"], capture_output=True).returncode != 0:
        raise unittest.SkipTest("Alertmanager: no mount namespace of its own to be had, which Debian's needs when it is not installed")
    return command


class Live(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.received = []

        def take(_, body):
            cls.received.append(json.loads(body))
            return 200, {}, b""
        webhook = cls.enterClassContext(HttpStub(take))
        cls.alertmanager = free_port()
        cls.demo = DemoPrometheus("[native, l9gpu]", prometheus=(
            "rule_files: [rules-*.yml]\n"
            f"alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{cls.alertmanager}']}}]}}]}}\n"))
        cls.enterClassContext(cls._with_files(webhook.origin))
        cls.demo.wait(25)

    @classmethod
    def _with_files(cls, webhook):
        """Writes rules and Alertmanager's configuration into the demo's folder before Prometheus starts."""
        start = cls.demo._start_prometheus

        def start_with_rules(stack, program):
            for file in RULES:
                text = re.sub(r"(?m)^ *keep_firing_for: .*\n", "", file.read_text(encoding="utf-8"))
                text = re.sub(r"(?m)^( *for:) .*$", r"\1 2s", text)
                text = re.sub(r"(?m)^( *interval:) .*$", r"\1 3s", text)
                (cls.demo.folder / f"rules-{file.stem}.yml").write_text(text, encoding="utf-8")
            config = cls.demo.folder / "alertmanager.yml"
            config.write_text("route: {receiver: hook, group_by: [alertname, instance], group_wait: 1s, group_interval: 2s}\n"
                              f"receivers: [{{name: hook, webhook_configs: [{{url: '{webhook}/alerts', send_resolved: true}}]}}]\n")
            log = stack.enter_context(open(cls.demo.folder / "alertmanager.log", "wb"))
            process = subprocess.Popen([*alertmanager(), f"--config.file={config}", f"--storage.path={cls.demo.folder}/am",
                                        f"--web.listen-address=127.0.0.1:{cls.alertmanager}", "--cluster.listen-address="], stdout=log, stderr=log)
            stack.callback(process.wait, 20)
            stack.callback(process.terminate)
            start(stack, program)
        cls.demo._start_prometheus = start_with_rules
        return cls.demo

    def alerts(self):
        """Firing alerts: (name, instance) and the alert."""
        return {(a["labels"]["alertname"], a["labels"].get("instance")): a for a in self.demo.api("alerts")["alerts"] if a["state"] == "firing"}

    def received_alerts(self, name, status):
        """What the webhook got of that alert in that state."""
        return [alert for message in self.received for alert in message["alerts"]
                if alert["labels"]["alertname"] == name and alert["status"] == status]

    def test_0_every_rule_is_evaluated(self):
        for group in self.demo.api("rules")["groups"]:
            for rule in group["rules"]:
                with self.subTest(group=group["name"], rule=rule["name"]):
                    self.assertEqual((rule["health"], rule.get("lastError", "")), ("ok", ""))

    def test_1_a_healthy_demo_fires_nothing(self):
        firing = {name for name, _ in self.alerts() if not name.startswith(("GPU", "Fleet", "VLLM"))}
        self.assertLessEqual(firing, SHOWN, self.alerts())

    def test_2_a_restart_of_the_agent_fires_nothing(self):
        """Counters begin again and series are gone for a moment. That its page is away, and those of the engines that a demo starts, are alerts
        here, where they wait for 2 s instead of two minutes."""
        agent = self.demo.agents[NODE]
        agent.process.send_signal(signal.SIGTERM)
        agent.process.wait(20)
        agent.__enter__()
        wait_until(lambda: self.demo.instant(f'changes(process_start_time_seconds{{instance="{NODE}"}}[1m]) > 0'), 60, "a scrape after the restart")
        self.demo.wait(time.monotonic() - self.demo.started + 12)
        firing = {name for name, _ in self.alerts() if not name.startswith(("GPU", "Fleet", "VLLM"))}
        self.assertLessEqual(firing, SHOWN | {"GpulensDown", "InferenceEngineDown"}, self.alerts())

    def test_3_every_selector_finds_series(self):
        used = set()
        for kind in ("alert", "record"):
            for file, rule in rules(kind):
                chosen = selectors(rule["expr"])
                self.assertTrue(chosen, rule["expr"])
                for selector in sorted(chosen):
                    name = selector.split("{")[0]
                    with self.subTest(file=file.name, rule=rule[kind], selector=selector):
                        rows = self.demo.instant(f"count({selector})")
                        if name in NOT_IN_DEMO:
                            used.add(name)
                        else:
                            self.assertTrue(rows)
        self.assertEqual(used, set(NOT_IN_DEMO))

    def test_4_recording_rules_have_results(self):
        for file, rule in rules("record"):
            with self.subTest(file=file.name, rule=rule["record"]):
                self.assertTrue(self.demo.instant(rule["record"]))

    def test_5_a_lost_gpu_arrives_and_is_resolved(self):
        self.demo.sim(NODE, "fail", "gpu=3", "mode=fallen_off_bus")
        wait_until(lambda: self.received_alerts("GpuLost", "firing"), 60, "the alert at the webhook")
        alert = self.received_alerts("GpuLost", "firing")[0]
        self.assertEqual(alert["labels"]["instance"], NODE)
        self.assertEqual(alert["labels"]["gpu_index"], "3")
        self.assertEqual(alert["labels"]["severity"], "critical")
        self.assertEqual(alert["labels"]["simulated"], "true")
        self.assertEqual(alert["annotations"]["summary"], f"GPU 3 of {NODE} does not answer: lost")
        self.assertTrue(alert["annotations"]["runbook_url"].endswith("/docs/runbooks/gpu-lost.md"))
        # One fault, one critical alert: the XID has its own only after the GPU is back.
        critical = {name for (name, node), a in self.alerts().items() if node == NODE and a["labels"]["severity"] == "critical" and name.startswith("Gpu")}
        self.assertEqual(critical, {"GpuLost"})
        self.demo.sim(NODE, "heal")
        wait_until(lambda: self.received_alerts("GpuLost", "resolved"), 90, "the end of the alert at the webhook")
        wait_until(lambda: ("GpuXidNeedsReset", NODE) in self.alerts(), 60, "the alert that the GPU was not reset since")

    def test_6_each_fault_has_its_alert(self):
        """Those of GPU 3 end by `gpulens events clear`, as for an XID that was dealt with."""
        subprocess.run([BINARY, "events", "clear", "--gpu", "3", "--socket", self.demo.socket(NODE, "control")], check=True, capture_output=True)
        wait_until(lambda: ("GpuXidNeedsReset", NODE) not in self.alerts(), 60, "the end of the XID's alert")
        for gpu, (words, _) in FAULTS.items():
            self.demo.sim(NODE, "fail", f"gpu={gpu}", *words.split())

        def fired():
            found = {gpu: set() for gpu in FAULTS}
            for alert in self.demo.api("alerts")["alerts"]:
                labels = alert["labels"]
                gpu, name = int(labels.get("gpu_index", -1)), labels["alertname"]
                if alert["state"] == "firing" and labels.get("instance") == NODE and gpu in FAULTS and name in OURS and OF_THE_DAY.get(gpu) != name:
                    found[gpu].add(name)
            return found
        expected = {gpu: alerts for gpu, (_, alerts) in FAULTS.items()}
        with contextlib.suppress(AssertionError):
            wait_until(lambda: all(fired()[gpu] >= alerts for gpu, alerts in expected.items()), 60)
        self.assertEqual(fired(), expected)
        self.demo.sim(NODE, "heal")

    def test_7_a_budget_that_refuses_and_a_killed_proxy_arrive(self):
        wait_until(lambda: self.received_alerts("ProxyBudgetRefuses", "firing"), 60, "the alert at the webhook")
        alert = self.received_alerts("ProxyBudgetRefuses", "firing")[0]
        self.assertEqual((alert["labels"]["instance"], alert["annotations"]["summary"]), (PROXY, "The budget small refuses requests"))
        self.demo.kill_proxy()
        wait_until(lambda: self.received_alerts("ProxyRequestsUnsettled", "firing"), 60, "requests that the end has cut")
        self.assertRegex(self.received_alerts("ProxyRequestsUnsettled", "firing")[0]["annotations"]["summary"], rf"^An end of the proxy {PROXY} has cut \d+ requests$")


if __name__ == "__main__":
    unittest.main()
