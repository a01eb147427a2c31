"""`gpulens migrate`: dashboards and rules of others, hostile ones too; the replacements are asked of a real Prometheus; the guides."""
import csv
import json
import os
import pathlib
import subprocess
import tempfile
import unittest
import urllib.request

from agent import BINARY, ROOT, Agent, free_port, peer, samples, wait_until

DATA = ROOT / "tests" / "e2e" / "data" / "migrate"
PROMTOOL = pathlib.Path(os.environ.get("GPULENS_PEERS", ROOT / "build" / "peers")) / "usr" / "bin" / "promtool"
GUIDES = {"dcgm": "dcgm-exporter", "node": "node-exporter", "nvitop": "nvitop-exporter", "all-smi": "all-smi", "l9gpu": "l9gpu", "zernel": "zernel",
          "openjarvis": "openjarvis", "pydotcompute": "pydotcompute", "otel": "opentelemetry-collector", "vmagent": "vmagent"}


def migrate(*arguments, columns="80"):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPULENS_")} | {"COLUMNS": columns}
    return subprocess.run([str(BINARY), "migrate", *map(str, arguments)], capture_output=True, timeout=120, env=environment, check=False)


def checked(*arguments):
    done = migrate("check", *arguments, "--json")
    return done.returncode, json.loads(done.stdout)


class Check(unittest.TestCase):
    def test_dashboards_of_dcgm_exporter(self):
        code, report = checked("--from", "dcgm", "--dashboards", DATA / "dashboards" / "dcgm.json")
        self.assertEqual(code, 1)
        self.assertEqual(report["configuration"], {"names": ["dcgm"], "metrics_all": False})
        self.assertEqual(report["counts"], {"keeps": 6, "changes": 0, "missing": 1, "unread": 1, "other": 1, "other_sources": 1})
        self.assertEqual({q["place"] for q in report["queries"] if q["verdict"] == "keeps"},
                         {"XIDs", "Temperature", "Energy", "Pods", "variable $host"})

    def test_dashboards_and_rules_of_node_exporter(self):
        code, report = checked("--from", "node", "--dashboards", DATA / "dashboards", "--rules", DATA / "rules")
        self.assertEqual(code, 1)
        changes = {q["place"]: q for q in report["queries"] if q["verdict"] == "changes"}
        self.assertEqual(changes["Load"]["replacement"], "system_cpu_load_average_1m")
        self.assertEqual(changes["Network"]["legend"], "{{network_interface_name}}")
        self.assertEqual(changes["alert DiskFull"]["legend"],
                         "summary: {{ $labels.system_filesystem_mountpoint }} of {{ $labels.instance }} is full")
        self.assertEqual([q["place"] for q in report["queries"] if q["verdict"] == "missing"], ["RAID"])
        self.assertEqual(report["configuration"], {"names": ["native"], "metrics_all": True})

    def test_exit_codes(self):
        self.assertEqual(migrate("check", "--from", "dcgm", "--rules", DATA / "rules").returncode, 0, "the one query of DCGM keeps working")
        self.assertEqual(migrate("check", "--from", "node", "--rules", DATA / "rules").returncode, 1)
        for wrong in (["--from", "dcgm"], ["--from", "x", "--rules", DATA], ["--from", "dcgm", "--rules", DATA / "absent"],
                      ["--from", "dcgm", "--dashboards", DATA / "rules"], ["--from", "dcgm", "--rules", DATA / "rules", "--page", "/absent"]):
            done = migrate("check", *wrong)
            self.assertEqual(done.returncode, 2, wrong)
            self.assertTrue(done.stderr, wrong)
            self.assertNotIn(b"\n\n", done.stderr)

    def test_a_folder_of_too_many_names_is_not_read_silently_in_part(self):
        with tempfile.TemporaryDirectory() as folder:
            for i in range(10_001):
                (pathlib.Path(folder) / f"{i}.txt").touch()
            _, report = checked("--from", "dcgm", "--dashboards", folder, "--rules", DATA / "rules")
        self.assertEqual([bad["file"] for bad in report["bad_files"]], [folder])
        self.assertIn("not read", report["bad_files"][0]["why"])

    def test_a_page(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as page:
            page.write("# TYPE system_cpu_load_average_1m gauge\nsystem_cpu_load_average_1m 1\n")
            page.flush()
            code, report = checked("--from", "node", "--dashboards", DATA / "dashboards", "--page", page.name)
            self.assertEqual(code, 1)
            on_page = {m["becomes"]: m["on_page"] for q in report["queries"] for m in q["metrics"] if "becomes" in m}
            self.assertTrue(on_page["system_cpu_load_average_1m"])
            self.assertFalse(on_page["system_memory_limit_bytes"])
            text = migrate("check", "--from", "node", "--dashboards", DATA / "dashboards", "--page", page.name).stdout.decode()
            self.assertIn("has now no series of", text)

    def test_the_queries_of_l9gpus_dashboards(self):
        table = ROOT.parent / "shared" / "reference" / "l9gpu_dashboards.tsv"
        if not table.exists():
            self.skipTest("captures not here")
        with open(table, newline="", encoding="utf-8") as rows:
            panels = [{"title": row["panel"], "targets": [{"expr": row["expr"]}]} for row in csv.DictReader(rows, delimiter="\t", quoting=csv.QUOTE_NONE) if row["expr"]]
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "l9gpu.json").write_text(json.dumps({"title": "l9gpu", "panels": panels}))
            code, report = checked("--from", "l9gpu", "--dashboards", folder)
        bad = [(q["query"], q["metrics"], q["notes"]) for q in report["queries"] if q["verdict"] in ("changes", "unread")]
        self.assertEqual(bad, [])
        self.assertEqual(report["configuration"]["names"], ["dcgm", "l9gpu"])
        self.assertEqual((code, report["counts"]["keeps"]), (0, len(panels)))

    def test_the_queries_of_dcgm_exporters_dashboard(self):
        lines = [line.split("\t") for line in (ROOT / "tests" / "deploy" / "foreign_queries.tsv").read_text().splitlines() if not line.startswith("#")]
        queries = [query for dashboard, _, query, *_ in lines[1:] if dashboard.startswith("dcgm-exporter/")]
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "12239.json").write_text(json.dumps({"title": "12239", "panels": [{"targets": [{"expr": query}]} for query in queries]}))
            code, report = checked("--from", "dcgm", "--dashboards", folder)
        self.assertEqual((code, report["counts"]["keeps"]), (0, len(queries)))
        self.assertGreaterEqual(len(queries), 10)

    def test_our_own_dashboards_and_rules_are_read(self):
        for option, folder, ending in (("--dashboards", "dashboards", "json"), ("--rules", "rules", "yaml")):
            files = sorted((ROOT / "deploy" / folder).glob(f"*.{ending}"))
            if not files:
                continue
            _, report = checked("--from", "node", option, ROOT / "deploy" / folder)
            self.assertEqual(report["bad_files"], [])
            self.assertEqual([q for q in report["queries"] if q["verdict"] == "unread" and "in a variable" not in str(q["notes"])], [])
            self.assertGreater(len(report["queries"]), len(files))

    def test_replacements_are_promql(self):
        if not PROMTOOL.exists():
            self.skipTest("no promtool here")
        rules = []
        for name in GUIDES:
            lines = json.loads(migrate("table", "--from", name, "--json").stdout)["metrics"]
            rules += [line["becomes"] for line in lines if "becomes" in line]
        code, report = checked("--from", "node", "--dashboards", DATA / "dashboards", "--rules", DATA / "rules")
        self.assertEqual(code, 1)
        rules += [q["replacement"] for q in report["queries"] if "replacement" in q]
        self.assertGreater(len(rules), 300)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "rules.yaml"
            file.write_text(json.dumps({"groups": [{"name": "g", "rules": [
                {"record": f"x{i}", "expr": expr.replace("$__rate_interval", "5m")} for i, expr in enumerate(rules)]}]}))
            done = subprocess.run([str(PROMTOOL), "check", "rules", str(file)], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


def label_of(attribute):
    return attribute.replace(".", "_")


def pairs(text):
    return dict(pair.split("=", 1) for pair in text.split(",")) if text != "-" else {}


class SameHost(unittest.TestCase):
    """What the table of node_exporter names has the same value on gpulens' page: both read this machine at the same time."""

    # Words differ, or one series is for several of the others.
    NOT_COMPARED = {"node_cpu_info", "node_uname_info", "node_os_info", "node_scrape_collector_success", "node_scrape_collector_duration_seconds",
                    "node_exporter_build_info", "node_hwmon_temp_celsius", "node_memory_HugePages_Free", "node_memory_HugePages_Rsvd", "node_memory_Cached_bytes"}

    def rows(self):
        lines = [line.split("\t") for line in (ROOT / "src" / "migrate" / "tables" / "node.tsv").read_text().splitlines() if not line.startswith("#")]
        return [dict(zip(lines[0], line)) for line in lines[1:] if line[1] != "-" and line[0] not in self.NOT_COMPARED]

    def test_values_are_equal(self):
        names = {m["name"]: m["prometheus"] for m in json.loads(subprocess.run([str(BINARY), "metrics", "--json"], capture_output=True, text=True, timeout=60, check=True).stdout)["metrics"]}
        program, port = peer("prometheus-node-exporter"), free_port()
        exporter = subprocess.Popen([program, f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def theirs():
            try:
                return urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
            except OSError:
                return ""
        try:
            wait_until(theirs, 15, "the node exporter")
            with Agent(config="interval: 200ms\nmetrics: all\n") as agent:
                left, equal, apart = self.rows(), set(), {}

                def compared():
                    page, other = agent.page(), theirs()
                    for row in list(left):
                        found = self.compare(row, names[row["native"]], page, other)
                        if found is None:
                            continue
                        apart[row["name"]] = found
                        if not found:
                            left.remove(row)
                            equal.add(row["name"])
                    return all(not apart.get(row["name"]) for row in left)
                try:
                    wait_until(compared, 20, "equal values")
                except AssertionError:
                    self.assertEqual({name: why for name, why in apart.items() if why}, {})
        finally:
            exporter.terminate()
            exporter.wait(10)
        self.assertGreater(len(equal), 25, "a machine has at least its CPU, memory, disk and network")

    def compare(self, row, ours, page, other):
        """None: one of the pages has no such series here. Else what differs."""
        labels, where = pairs(row["labels"]), {label_of(k): v for k, v in pairs(row["where"]).items()}
        found, differs = 0, []
        for sample in samples(other, row["name"]):
            wanted = {label_of(labels[k]): v for k, v in sample.labels.items() if labels.get(k, "-") != "-"} | where
            same = samples(page, ours, **wanted)
            if len(same) == 1:
                found += 1
                if abs(same[0].value - sample.value) > 0.1 * max(abs(same[0].value), abs(sample.value)) + 5:
                    differs.append((wanted, same[0].value, sample.value))
        return differs if found else None


class Hostile(unittest.TestCase):
    """Files that are made to break a reader: each is named, none stops the others."""

    def test_each_is_named_and_the_good_one_is_read(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "good.json").write_text('{"title": "t", "panels": [{"expr": "node_load1"}]}')
            (folder / "deep.json").write_text('{"a":[' * 100_000)
            (folder / "utf8.json").write_bytes(b'{"title": "\xff\xfe"}')
            (folder / "cut.json").write_text('{"panels": [{"expr": "node_load5"}')
            (folder / "empty.json").write_text("")
            (folder / "query.json").write_text(json.dumps({"panels": [{"expr": "(" * 50_000}, {"expr": "x" * 100_000}]}))
            with open(folder / "large.json", "wb") as large:
                large.truncate(101 << 20)
            (folder / "loop").symlink_to(folder)
            (folder / "itself.json").symlink_to("itself.json")
            (folder / "again.json").symlink_to("good.json")
            os.mkfifo(folder / "pipe.json")
            path = folder
            for _ in range(30):
                path = path / "d"
                path.mkdir()
            code, report = checked("--from", "node", "--dashboards", folder)
            self.assertEqual(code, 1)
            self.assertEqual({pathlib.Path(bad["file"]).name for bad in report["bad_files"]} - {folder.name},
                             {"deep.json", "utf8.json", "cut.json", "empty.json", "large.json"})
            self.assertEqual([q["query"] for q in report["queries"] if q["verdict"] == "changes"].count("node_load1"), 1, "each file once")
            self.assertEqual(report["counts"]["unread"], 2, "too deep, too long")

    def test_all_files_together_have_a_limit(self):
        with tempfile.TemporaryDirectory() as name:
            for i in range(8):
                (pathlib.Path(name) / f"{i}.json").write_text("[" + " " * (15 << 20) + "]")
            _, report = checked("--from", "node", "--dashboards", name)
            self.assertIn("100 MiB", report["bad_files"][0]["why"])

    def test_control_characters_are_escaped(self):
        with tempfile.TemporaryDirectory() as name:
            evil = "\x1b]0;title\x07\x1b[31m\u202e\x00\r"
            panels = [{"title": evil, "expr": f'node_load1{{a="{evil}"}}', "legendFormat": evil}, {"title": "b", "expr": f"node_{evil}"}]
            (pathlib.Path(name) / "a\x1b[31m.json").write_text(json.dumps({"title": evil, "panels": panels}))
            done = migrate("check", "--from", "node", "--dashboards", name, "--all")
            self.assertEqual(done.returncode, 1)
            for line in (done.stdout + done.stderr).decode().splitlines():
                self.assertTrue(line.isprintable(), line)


class Text(unittest.TestCase):
    def test_a_terminal_of_80_columns(self):
        text = subprocess.run(["script", "-qec", f"{BINARY} migrate check --from node --rules {DATA / 'rules'}", "/dev/null"], capture_output=True, text=True,
                              timeout=60, env=os.environ | {"COLUMNS": "80", "TERM": "dumb"}, check=False).stdout
        self.assertIn("system_cpu_load_average_1m", text)
        words = max(text.split(), key=len)
        self.assertLessEqual(max(len(line) for line in text.splitlines()), max(80, len(words) + 8), text)


class Guides(unittest.TestCase):
    def test_their_tables_are_fresh(self):
        for name, page in GUIDES.items():
            table = migrate("table", "--from", name, "--format", "md").stdout.decode()
            self.assertIn(table, (ROOT / "docs" / "migrate" / f"{page}.md").read_text(),
                          f"make it again: python3 tools/migrate_guides.py build/gpulens ({page}.md)")


if __name__ == "__main__":
    unittest.main()
