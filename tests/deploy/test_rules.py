"""The rule files of deploy/rules/: each alert fires, does not fire on a near miss, resolves, and has its texts and its runbook page.

promtool runs the cases of alert_cases.yaml. Every metric that a rule reads is in the catalogue, in a name set, or recorded by a rule.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from agent import BINARY, ROOT, peer  # noqa: E402

RULES = sorted((ROOT / "deploy" / "rules").glob("*.yaml"))
RUNBOOKS = ROOT / "docs" / "runbooks"
CASES = yaml.safe_load((ROOT / "tests" / "deploy" / "alert_cases.yaml").read_text(encoding="utf-8"))
SEVERITIES = {"critical", "warning", "info"}
# What Prometheus itself adds, and what its language has besides functions.
NOT_METRICS = {"up", "ALERTS"}
LANGUAGE = {"and", "or", "unless", "by", "on", "without", "ignoring", "group_left", "group_right", "offset", "bool"}


def groups():
    """File, group."""
    for file in RULES:
        for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]:
            yield file, group


def rules(kind):
    """File, rule of `kind`: alert or record."""
    return [(file, rule) for file, group in groups() for rule in group["rules"] if kind in rule]


def metrics_of(expression):
    """The metrics of an expression: words that are not functions, labels in lists, or in braces."""
    bare = re.sub(r"\{[^}]*\}|\"[^\"]*\"|\[[^\]]*\]", " ", expression)
    bare = re.sub(r"\b(by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)", " ", bare)
    return {word for word in re.findall(r"(?<![\w:.])[a-zA-Z_:][\w:]*(?!\s*\(|[\w:])", bare)} - LANGUAGE - NOT_METRICS - {"m", "h", "d", "s"}


def known_metrics():
    """Every name that an agent, for each name set, or a proxy can export, with the suffixes of histograms."""
    names = set()
    for arguments in ([], ["--names", "l9gpu"]):
        text = subprocess.run([BINARY, "metrics", *arguments, "--format", "md"], capture_output=True, text=True, check=True).stdout
        names |= set(re.findall(r"`([a-zA-Z_:][\w:]*)`", text))
    # The proxy's page; a test of it keeps this table current.
    names |= set(re.findall(r"(?m)^\| `(\w+)` \| (?:counter|gauge|histogram) \|", (ROOT / "docs/proxy.md").read_text(encoding="utf-8")))
    return names | {name + end for name in names for end in ("_bucket", "_count", "_sum")}


def series_of(case):
    """The case's series with its words for labels replaced."""
    for series, values in case["series"].items():
        for word, labels in CASES["labels"].items():
            series = re.sub(rf"(?<=[{{,]){word}(?=[,}}])", lambda _, text=labels: text, series)
        yield {"series": series, "values": values}


def promtool_test(folder, file, name, case, checks):
    """A file of promtool with one test; its path."""
    path = pathlib.Path(folder) / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(file)], "evaluation_interval": "1m", "tests": [
        {"interval": "1m", "name": name, "input_series": list(series_of(case)), **checks}]}), encoding="utf-8")
    return path


def run_promtool(*arguments):
    return subprocess.run([peer("promtool"), *map(str, arguments)], capture_output=True, text=True)


def alert_table():
    """The tables of docs/alerts.md, one for each file of alerts."""
    lines = []
    for file in RULES:
        alerts = [rule for of, rule in rules("alert") if of == file]
        if not alerts:
            continue
        lines += [f"### `{file.name}`", "", "| alert | severity | after | summary | runbook |", "|---|---|---|---|---|"]
        for rule in alerts:
            summary = re.sub(r"\{\{ with or \$labels\.(\w+)[^}]*\}\}(.*?)\{\{ \. \}\}\{\{ end \}\}", r"\2*\1*", rule["annotations"]["summary"])
            summary = re.sub(r"\{\{ (?:or )?\$(?:labels\.)?(\w+)[^}]*\}\}", r"*\1*", summary)
            page = rule["annotations"]["runbook_url"].rsplit("/", 1)[1]
            lines.append(f"| `{rule['alert']}` | {rule['labels']['severity']} | {rule.get('for', '–')} | {summary} | [{page[:-3]}](runbooks/{page}) |")
        lines.append("")
    return "\n".join(lines)


class Rules(unittest.TestCase):
    def test_promtool_accepts_every_file(self):
        result = run_promtool("check", "rules", "--lint=all", "--lint-fatal", *RULES)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_every_alert_has_its_texts(self):
        names = [rule["alert"] for _, rule in rules("alert")]
        self.assertEqual(len(names), len(set(names)), "an alert is there twice")
        for _, rule in rules("alert"):
            with self.subTest(alert=rule["alert"]):
                self.assertIn(rule["labels"]["severity"], SEVERITIES)
                self.assertEqual(sorted(rule["annotations"]), ["action", "description", "runbook_url", "summary"])
                url = rule["annotations"]["runbook_url"]
                self.assertRegex(url, r"^https://gpulens\.example/docs/runbooks/[\w-]+\.md$")
                page = RUNBOOKS / url.rsplit("/", 1)[1]
                self.assertTrue(page.is_file(), f"{page} is missing")
                self.assertIn(f"`{rule['alert']}`", page.read_text(encoding="utf-8"), f"{page} does not explain the alert")

    def test_page_has_the_table(self):
        self.assertIn(alert_table(), (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8"), "python3 tests/deploy/test_rules.py --table prints it")

    def test_runbooks(self):
        linked = {rule["annotations"]["runbook_url"].rsplit("/", 1)[1] for _, rule in rules("alert")}
        alerts = {rule["alert"] for _, rule in rules("alert")}
        for page in sorted(RUNBOOKS.glob("*.md")):
            if page.name == "README.md":
                continue
            text = page.read_text(encoding="utf-8")
            with self.subTest(page=page.name):
                self.assertIn(page.name, linked, "no alert links to it")
                self.assertEqual(re.findall(r"^## (.*)$", text, re.M)[:4], ["What it means", "Confirm", "What to do", "False alarms"])
                self.assertIn("    gpulens ", text, "no command of gpulens confirms it")
                named = set(re.findall(r"`((?:Gpu|GPU|Inference|VLLM|Fleet|Cost|Provider|Proxy|Nvswitch)[A-Z]\w+|Gpulens\w+)`", text))
                self.assertLessEqual(named, alerts, "it names alerts that are not there")

    def test_commands_that_texts_name_are_there(self):
        texts = [rule["annotations"]["action"] for _, rule in rules("alert")]
        texts += [line for page in RUNBOOKS.glob("*.md") for line in re.findall(r"^    (gpulens .*)$|`(gpulens [^`]*)`", page.read_text(encoding="utf-8"), re.M) for line in line]
        checks = subprocess.run([BINARY, "check", "--list"], capture_output=True, text=True, check=True).stdout
        for text in texts:
            for command, rest in re.findall(r"gpulens (check|[a-z]+(?:-[a-z]+)*)((?: [a-z_]+)*)", text):
                with self.subTest(text=text):
                    words = rest.split()
                    if command == "check":
                        for word in words:
                            if word in ("and", "compares", "on", "all", "in"):
                                break
                            self.assertRegex(checks, rf"(?m)^{word} ")
                    elif command not in ("reads", "has", "refuses"):
                        result = subprocess.run([BINARY, "help", command], capture_output=True, text=True)
                        self.assertEqual(result.returncode, 0, f"no command gpulens {command}")
                        if words and re.search(r"^Usage: gpulens \w+ COMMAND", result.stdout, re.M):
                            self.assertRegex(result.stdout, rf"(?m)^  {words[0]} ", f"no command gpulens {command} {words[0]}")

    def test_metrics_are_there(self):
        known = known_metrics()
        known |= {rule["record"] for _, rule in rules("record")}
        for kind in ("alert", "record"):
            for file, rule in rules(kind):
                with self.subTest(file=file.name, rule=rule[kind]):
                    self.assertLessEqual(metrics_of(rule["expr"]), known)
                    self.assertTrue(metrics_of(rule["expr"]) or "up{" in rule["expr"])

    def test_alerts_need_no_more_than_the_level_standard(self):
        rows = json.loads(subprocess.run([BINARY, "metrics", "--json"], capture_output=True, text=True, check=True).stdout)
        levels = {row.get("prometheus") or row["name"]: row.get("level") for row in (rows if isinstance(rows, list) else rows["metrics"])}
        only_all = {(rule["alert"], name) for file, rule in rules("alert") if file.stem != "l9gpu"
                    for name in metrics_of(rule["expr"]) if levels.get(name) == "all"}
        self.assertEqual(only_all, {("GpulensSeriesRefused", "gpulens_series_refused_total")}, "docs/alerts.md names what needs more")

    def test_every_condition_of_fleet_health_has_an_alert(self):
        source = (ROOT / "src/plugins/analyzers/fleet_health/health_conditions.def").read_text(encoding="utf-8")
        reasons = set(re.findall(r'CONDITION\(\w+, "(\w+)"', source))
        self.assertGreater(len(reasons), 20)
        # Those that other metrics than gpu_health_condition report, by which alerts see them also at the level essential.
        elsewhere = {"gpu_lost": "gpu_state", "reset_required": "gpu_state", "gpu_hung": "gpu_state", "gpu_cannot_open": "gpu_state",
                     "gpu_left_out": "gpu_state", "gpu_unread": "gpu_state", "recovery_action": "gpu_recovery_action",
                     "remap_pending": "gpu_row_remap_reset_pending"}
        text = " ".join(rule["expr"] for _, rule in rules("alert"))
        for reason in sorted(reasons):
            with self.subTest(reason=reason):
                self.assertTrue(elsewhere.get(reason) in metrics_of(text) or re.search(rf'gpu_health_reason=~?"[^"]*\b{reason}\b', text))


class Alerts(unittest.TestCase):
    """The cases of alert_cases.yaml."""

    def test_every_alert_has_a_case(self):
        self.assertEqual(sorted(CASES["cases"]), sorted(rule["alert"] for _, rule in rules("alert")))
        for name, case in CASES["cases"].items():
            self.assertLessEqual({"near_miss", "series", "near", "fires", "resolved"}, set(case), name)

    @classmethod
    def setUpClass(cls):
        """One run of promtool, in which each alert is also expected not to fire: promtool prints the texts of one that does."""
        files = {rule["alert"]: file for file, rule in rules("alert")}
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for name, case in CASES["cases"].items():
                firing = f'ALERTS{{alertname="{name}",alertstate="firing"}}'
                number = {"near": (f"sum(count_over_time({firing}[{case['near']}]))", 0), "fires": (f"count({firing})", case.get("count", 1)),
                          "resolved": (f"count({firing})", 0)}
                paths.append(promtool_test(folder, files[name], name, case, {
                    "promql_expr_test": [{"expr": f"{expression} or vector(0)", "eval_time": case[when], "exp_samples": [{"labels": "{}", "value": value}]}
                                         for when, (expression, value) in number.items()],
                    "alert_rule_test": [{"alertname": name, "eval_time": case["fires"], "exp_alerts": []}]}))
            result = run_promtool("test", "rules", *paths)
        cls.output = result.stdout + result.stderr

    def test_near_miss_fires_resolves(self):
        self.assertEqual(self.output.count("Unit Testing:"), len(CASES["cases"]), self.output)
        failed = re.findall(r"^    expr: .*(?:\n        .*)*", self.output, re.M)
        self.assertEqual(failed, [], "\n".join(failed))

    def test_texts_are_filled_in(self):
        shown = dict(re.findall(r'Labels:\{alertname="(\w+)".*\n\s*Annotations:(\{.*\})', self.output))
        self.assertEqual(sorted(shown), sorted(CASES["cases"]))
        for name, annotations in shown.items():
            with self.subTest(alert=name):
                self.assertNotRegex(annotations, r"<error|<no value>|NaN|%!|  |\bof  | : |\$|\{\{")


if __name__ == "__main__":
    if sys.argv[1:] == ["--table"]:
        print(alert_table())
    else:
        unittest.main()
