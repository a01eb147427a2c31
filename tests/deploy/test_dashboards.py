"""Every query of every panel and variable of deploy/dashboards, against Debian's Prometheus over two demo nodes and a proxy.

The ranges are next to the queries in tools/dashboards. What nothing answers yet is listed there with its reason, and must return
nothing. Queries of other projects' dashboards are in foreign_queries.tsv.
"""
import contextlib
import copy
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools" / "dashboards"), str(pathlib.Path(__file__).resolve().parent)]
import build  # noqa: E402
import lint  # noqa: E402
from demo_prometheus import NODES, PROXY, DemoPrometheus, finite, free_port, peer, wait_until  # noqa: E402

HISTORY = 125  # seconds that Prometheus has scraped when the queries are executed
FOLDER = ROOT / "deploy" / "dashboards"
FOREIGN = pathlib.Path(__file__).resolve().parent / "foreign_queries.tsv"


def rows_of(path):
    """The rows of a TSV file with a heading and comments, as dicts."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    heading = lines[0].split("\t")
    return [dict(zip(heading, line.split("\t"), strict=True)) for line in lines[1:]]


class Choices:
    """The values that Grafana offers for the variables of a dashboard, and what it puts into a query."""

    def __init__(self, demo, dashboard):
        self.offered = {}
        self.sets = [{"datasource": "prometheus"}]
        for variable in dashboard["templating"]["list"]:
            if variable["type"] != "query":
                continue
            name, grown = variable["name"], []
            for chosen in self.sets:
                values = demo.label_values(variable["query"]["query"], chosen)
                self.offered.setdefault(name, set()).update(values)
                picked = [variable["allValue"]] if variable["includeAll"] else [values] if variable["multi"] else values
                grown += [{**chosen, name: pick} for pick in picked]
            self.sets = grown


def answer(demo, target, choices):
    """All rows of a query over the choices, as its panel asks for them."""
    rows = []
    for chosen in choices:
        expression = demo.substitute(target["expr"], chosen)
        rows += demo.instant(expression) if target["instant"] else demo.range(expression)
    return rows


class Queries(unittest.TestCase):
    """Both name sets and the level `standard` at the same time: they wait for the same two minutes."""

    @classmethod
    def setUpClass(cls):
        cls.demos = {}
        errors = []

        def start(key, names, level):
            try:
                cls.demos[key] = stack.enter_context(DemoPrometheus(names, level=level))
            except BaseException as error:  # noqa: BLE001
                errors.append(error)
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        threads = [threading.Thread(target=start, args=item)
                   for item in (("native", "[native, zernel, dcgm, zumik, otel_genai]", "all"), ("l9gpu", "[l9gpu, zernel, dcgm]", "all"),
                                ("standard", "[native, zernel]", "standard"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        for demo in cls.demos.values():
            demo.wait(HISTORY)

    def demo_of(self, board):
        return self.demos["l9gpu" if "l9gpu" in board.names else "native"]

    def check(self, board, dashboard):
        demo, wrong = self.demo_of(board), []
        choices = Choices(demo, dashboard)
        wrong += [f"variable {name} offers nothing" for name, values in choices.offered.items() if not values]
        expected = build.queries(board)
        executed = set()
        for panel, target in lint.queries_of(dashboard):
            key = panel["id"], target["refId"]
            executed.add(key)
            query, where = expected[key], f"{panel['title']} {target['refId']}: {target['expr']}"
            values = finite(answer(demo, target, choices.sets))
            if query.absent:
                wrong += [f"{where}: is answered, but listed as absent: {query.absent}"] if values else []
            elif not values:
                wrong.append(f"{where}: no data")
            elif min(values) < query.low or max(values) > query.high:
                wrong.append(f"{where}: {min(values):g} to {max(values):g}, not within {query.low:g} to {query.high:g}")
        self.assertEqual(executed, set(expected), "the file has the queries of the table")
        return wrong

    def test_every_query_returns_data_within_its_range(self):
        wrong = []
        for board in build.BOARDS:
            dashboard = json.loads((FOLDER / board.file).read_text())
            wrong += [f"{board.file}: {finding}" for finding in self.check(board, dashboard)]
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_the_level_standard_lacks_what_descriptions_name(self):
        demo, wrong = self.demos["standard"], []
        for board in build.native.BOARDS:
            dashboard = json.loads((FOLDER / board.file).read_text())
            choices, expected = Choices(demo, dashboard).sets, build.queries(board)
            for panel, target in lint.queries_of(dashboard):
                needs = "all" in map(build.model.level_of, build.model.metrics_of(target["expr"]))
                if bool(finite(answer(demo, target, choices))) == (needs or bool(expected[panel["id"], target["refId"]].absent)):
                    wrong.append(f"{board.file}, {panel['title']}: {target['expr']}: {'needs' if needs else 'does not need'} `metrics: all` by its table")
                self.assertEqual("Needs `metrics: all`." in panel["description"], any("all" in map(build.model.level_of, build.model.metrics_of(t["expr"])) for t in panel["targets"]))
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_variables_offer_what_there_is(self):
        def offered(file):
            board = next(b for b in build.BOARDS if b.file == file)
            return Choices(self.demo_of(board), json.loads((FOLDER / file).read_text())).offered
        self.assertEqual(offered("zumik-byoc.json")["cluster"], {"byoc_1", "byoc_2"})
        self.assertEqual(offered("gpulens-proxy.json"), {"proxy": {PROXY}})
        self.assertEqual(offered("gpulens-node.json"), {"cluster": {"byoc_1", "byoc_2"}, "node": set(NODES)})
        self.assertEqual(offered("gpulens-gpu.json")["gpu"], {str(i) for i in range(8)})
        self.assertEqual(offered("04-eks-gpu-single-gpu.json")["node"], set(NODES))

    def test_a_cluster_s_first_tokens_are_compared_with_its_target(self):
        """The agent has the times, the proxy the target; both have the cluster."""
        demo, panel = self.demos["native"], next(p for p in lint.panels_of(json.loads((FOLDER / "zumik-byoc.json").read_text())) if p["title"] == "TTFT against SLA")
        clusters = [{labels["cluster"] for labels, _ in demo.instant(demo.substitute(target["expr"], {"cluster": ".*"}))} for target in panel["targets"]]
        self.assertEqual(clusters, [{"byoc_2"}, {"byoc_2"}])

    def test_a_node_that_is_chosen_shows_itself_alone(self):
        dashboard = json.loads((FOLDER / "gpulens-node.json").read_text())
        demo, checked = self.demos["native"], 0
        for _, target in lint.queries_of(dashboard):
            rows = answer(demo, target, [{"cluster": ".*", "node": ["node-b"]}])
            nodes = {labels["instance"] for labels, _ in rows if "instance" in labels}
            self.assertLessEqual(nodes, {"node-b"}, target["expr"])
            checked += len(nodes)
        self.assertGreater(checked, 10)

    def test_foreign_dashboards_are_answered_as_listed(self):
        demo, wrong = self.demos["l9gpu"], []
        nodes, models = list(NODES), demo.label_values("label_values(vllm:num_requests_running, model_name)")
        models += demo.label_values("label_values(sglang:num_running_reqs, model_name)")
        gpus = [str(i) for i in range(8)]
        single = "single-gpu"
        for row in rows_of(FOREIGN):
            sets = [{"cluster": cluster, "node": node, "Hostname": nodes, "gpu": gpus, "gpu_index": gpu, "namespace": ".*", "pod": ".*", "model_name": model}
                    for cluster, own in (("byoc_1", "node-a"), ("byoc_2", "node-b")) for node, gpu in (((own, "0"),) if single in row["dashboard"] else ((nodes, gpus),))
                    for model in (models if "$model_name" in row["query"] else models[:1])]
            if "multi-cluster" in row["dashboard"]:
                sets = [{"cluster": ["byoc_1", "byoc_2"]}]
            if row["query"].startswith("label_values"):
                values = [value for chosen in sets for value in demo.label_values(row["query"], chosen)]
            else:
                values = [v for chosen in sets for v in finite(demo.range(demo.substitute(row["query"], chosen)))]
            if bool(values) != (row["answered"] != "-"):
                wrong.append(f"{row['dashboard']}, {row['panel']}: {row['query']}: {'is answered' if values else 'no data'}, and the table has {row['answered']!r}")
            if (row["answered"] == "-") != bool(row["reason"]):
                wrong.append(f"{row['dashboard']}, {row['panel']}: a reason is for what is not answered")
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_a_wrong_range_a_wrong_name_and_a_wrong_absence_are_found(self):
        board = next(b for b in build.BOARDS if b.file == "zumik-byoc.json")
        good = json.loads((FOLDER / board.file).read_text())
        self.assertEqual(self.check(board, good), [])
        for change, finding in ((lambda t: t.update(expr=t["expr"].replace("GPU_UTIL", "GPU_UTILS")), "no data"),
                                (lambda t: t.update(expr=t["expr"] + " + 1000"), "not within 0 to 100")):
            bad = copy.deepcopy(good)
            change(next(t for _, t in lint.queries_of(bad) if "GPU_UTIL" in t["expr"]))
            self.assertIn(finding, " ".join(self.check(board, bad)))
        board, (panel, reference) = next((b, key) for b in build.BOARDS for key, query in build.queries(b).items() if query.absent)
        bad = json.loads((FOLDER / board.file).read_text())
        next(t for p, t in lint.queries_of(bad) if (p["id"], t["refId"]) == (panel, reference)).update(expr="vector(1)")
        self.assertIn("listed as absent", " ".join(self.check(board, bad)))

    def test_what_a_lost_gpu_and_a_stopped_engine_look_like(self):
        """Trouble is counted, old values are marked as old, and what is not known is not there: never 0. The last test: it breaks things."""
        for key in ("native", "standard"):
            demo = self.demos[key]

            def shown(file, title, **chosen):
                dashboard = json.loads((FOLDER / file).read_text())
                target = next(t for p, t in lint.queries_of(dashboard) if p["title"] == title)  # noqa: B023
                return demo.instant(demo.substitute(target["expr"], {"cluster": ".*", **chosen}))  # noqa: B023

            def value(*arguments, **chosen):
                return finite(shown(*arguments, **chosen))
            self.assertEqual(value("gpulens-fleet.json", "GPUs in trouble"), [0])
            demo.sim("node-a", "fail", "gpu=3", "mode=fallen_off_bus")
            demo.sim("node-a", "stop", "engine=search-c")
            wait_until(lambda: value("gpulens-fleet.json", "GPUs in trouble") == [1], 60, f"{key}: a GPU in trouble")
            wait_until(lambda: max(value("gpulens-fleet.json", "Oldest reading")) > 10, 60, f"{key}: an old reading")
            wait_until(lambda: value("gpulens-fleet.json", "GPUs") == [9], 60, f"{key}: one GPU less")
            wait_until(lambda: [labels["gpu_state"] for labels, _ in shown("gpulens-gpu.json", "State", node="node-a", gpu="3")] == ["lost"], 30, f"{key}: its state")
            wait_until(lambda: value("gpulens-engine.json", "Page", node=".*", target="search-c") == [0], 60, f"{key}: a page that is not read")
            wait_until(lambda: value("gpulens-engine.json", "Running", node=".*", target="search-c") == [], 90, f"{key}: no number of requests")
            demo.sim("node-a", "heal")
            wait_until(lambda: value("gpulens-fleet.json", "GPUs in trouble") == [0], 60, f"{key}: no GPU in trouble")


class Files(unittest.TestCase):
    def test_files_are_current_and_keep_the_rules(self):
        self.assertEqual(list(build.problems()), [])

    def test_links_lead_to_boards_that_take_their_variables(self):
        """From the fleet to the node, to the GPU, to the job and the engine."""
        boards = {board.uid: {"datasource", *(variable.name for variable in board.variables)} for board in build.BOARDS}
        led = {}
        for board, dashboard in build.dashboards().items():
            own = boards[board.uid]
            for panel in lint.panels_of(dashboard):
                for link in panel.get("fieldConfig", {}).get("defaults", {}).get("links", ()):
                    uid = re.fullmatch(r"/d/([\w-]+)\?.*", link["url"]).group(1)
                    self.assertIn(uid, boards, link)
                    self.assertLessEqual(set(re.findall(r"var-(\w+)=", link["url"])), boards[uid], link)
                    self.assertLessEqual(set(re.findall(r"\$\{(\w+):queryparam\}", link["url"])), own & boards[uid], link)
                    labels = {heading for _, heading in next((p.labels for n, _, _, p in build.model.placed(board) if n == panel["id"]), ())}
                    self.assertLessEqual(set(re.findall(r"__data\.fields\.(\w+)", link["url"])), labels, link)
                    led.setdefault(board.uid, set()).add(uid)
        self.assertLessEqual({"gpulens-node", "gpulens-gpu", "gpulens-engine"}, led["gpulens-fleet"])
        self.assertLessEqual({"gpulens-gpu", "gpulens-job"}, led["gpulens-node"])
        self.assertLessEqual({"gpulens-job", "gpulens-engine"}, led["gpulens-gpu"])
        self.assertEqual(led["zumik-api"], {"gpulens-proxy"})
        self.assertLessEqual({"zumik-byoc", "gpulens-fleet"}, led["gpulens-proxy"])

    def test_alerts_that_descriptions_name_exist(self):
        rules = " ".join(path.read_text() for path in (ROOT / "deploy" / "rules").glob("*.yaml"))
        text = " ".join(panel.get("description", "") for dashboard in build.dashboards().values() for panel in lint.panels_of(dashboard))
        named = set(re.findall(r"\balert (\w+)", text))
        self.assertGreater(len(named), 5)
        self.assertEqual({name for name in named if f"alert: {name}\n" not in rules}, set())

    def test_every_query_of_l9gpu_s_boards_has_its_metric_on_ours(self):
        """A question of theirs is not lost: the same metric is on the board of that name."""
        ours = {board.file: " ".join(query.expr for query in build.queries(board).values()) for board in build.BOARDS}
        missing = []
        for row in rows_of(FOREIGN):
            if row["dashboard"].startswith("l9gpu/"):
                file = row["dashboard"].removeprefix("l9gpu/").replace("insights/", "insights-") + ".json"
                missing += [(file, name) for name in build.model.metrics_of(row["query"]) if name not in ours[file] and name != "vector"]
        # Shares of memory are a ratio of sums there.
        self.assertEqual({m for m in missing if m[1] != "gpu_memory_used_percent"}, set())

    def test_the_rules_find_what_breaks_them(self):
        good = build.model.to_json(build.BOARDS[0], (build.BOARDS[0],))
        fixed = {key for key, query in build.queries(build.BOARDS[0]).items() if query.window}
        self.assertEqual(list(lint.findings(good, fixed)), [])

        def first(dashboard, kind):
            return next(p for p in lint.panels_of(dashboard) if p["type"] == kind)

        def expression(text):
            return lambda d: first(d, "timeseries")["targets"][0].update(expr=text)
        changes = {
            "no refresh": lambda d: d.pop("refresh"),
            "two panels have one id": lambda d: first(d, "stat").update(id=first(d, "table")["id"]),
            "lies on": lambda d: first(d, "timeseries")["gridPos"].update(y=0),
            "wider than the page": lambda d: first(d, "table")["gridPos"].update(x=1),
            "not the variable of the data source": lambda d: first(d, "stat").update(datasource={"type": "prometheus", "uid": "prom"}),
            "no unit": lambda d: first(d, "stat")["fieldConfig"]["defaults"].pop("unit"),
            "no text for an unknown value": lambda d: first(d, "stat")["fieldConfig"]["defaults"].pop("noValue"),
            "no description": lambda d: first(d, "stat").update(description=""),
            "no legend": lambda d: first(d, "timeseries")["targets"][0].update(legendFormat="__auto"),
            "draws a line over gaps": lambda d: first(d, "timeseries")["fieldConfig"]["defaults"]["custom"].update(spanNulls=True),
            "threshold without a meaning": lambda d: first(d, "stat")["fieldConfig"]["defaults"]["thresholds"]["steps"].append({"color": "red", "value": 42}),
            "instead of $__rate_interval": expression("rate(gpu_xid_errors_total[5m])"),
            "is no counter": expression("rate(gpu_power_draw_watts[$__rate_interval])"),
            "nothing is known": expression("sum(gpu_idle) or vector(0)"),
            "cannot be added": expression('sum(vllm_ttft_seconds{quantile="p95"})'),
            "not summed by le": expression("histogram_quantile(0.9, rate(x_bucket[$__rate_interval]))"),
            "buckets of different engines": expression("histogram_quantile(0.9, sum by (le) (rate(inference_request_duration_seconds_bucket{}[$__rate_interval])))"),
            "newer than Prometheus 2.42": expression("mad_over_time(gpu_power_draw_watts[$__rate_interval])"),
            "cannot be All": expression('gpu_idle{cluster="$cluster"}'),
            "variable nodes does not exist": expression('gpu_idle{instance=~"$nodes"}'),
        }
        for finding, change in changes.items():
            with self.subTest(finding=finding):
                bad = copy.deepcopy(good)
                change(bad)
                self.assertIn(finding, "; ".join(lint.findings(bad, fixed)))


@unittest.skipUnless(importlib.util.find_spec("grafana_foundation_sdk"), "grafana-foundation-sdk is not here; tools/prepare_peers.sh installs it")
class Schema(unittest.TestCase):
    """Grafana's own models of a dashboard and its panels, version 10.1: whatever they do not know or have another type for is an error."""

    def test_the_models_know_every_member(self):
        from grafana_schema import faults
        found = [f"{path.name}: {fault}" for path in sorted(FOLDER.glob("*.json")) for fault in faults(json.loads(path.read_text()))]
        self.assertEqual(found, [], "\n" + "\n".join(found[:40]))

    def test_an_unknown_member_and_a_wrong_type_are_found(self):
        from grafana_schema import faults
        good = json.loads((FOLDER / "gpulens-fleet.json").read_text())
        self.assertEqual(list(faults(good)), [])
        for change, finding in ((lambda d: d.update(colour="red"), "colour"), (lambda d: d["panels"][1]["fieldConfig"]["defaults"].update(unit="wat"), "wat"), (lambda d: d["panels"][1].update(gridpos={}), "gridpos"),
                                (lambda d: d["panels"][1]["gridPos"].update(w="6"), "grid_pos.w"), (lambda d: d["panels"][1]["options"].update(graph="none"), "graph"),
                                (lambda d: d["panels"][1]["options"].update(graphMode="some"), "graph_mode"),
                                (lambda d: d["panels"][1]["targets"][0].update(expression="up"), "expression"),
                                (lambda d: d["templating"]["list"][0].update(type="data"), "type")):
            bad = copy.deepcopy(good)
            change(bad)
            self.assertIn(finding, "; ".join(faults(bad)))


class RealGrafana(unittest.TestCase):
    """GPULENS_GRAFANA names a folder of Grafana (with bin/grafana and public/): it loads every dashboard by provisioning."""

    def test_grafana_provisions_every_dashboard(self):
        home = os.environ.get("GPULENS_GRAFANA")
        if not home:
            self.skipTest("no Grafana here: GPULENS_GRAFANA names its folder")
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-grafana-"))
        self.addCleanup(shutil.rmtree, folder, True)
        for name in ("datasources", "dashboards", "plugins", "alerting"):
            (folder / "provisioning" / name).mkdir(parents=True)
        (folder / "provisioning" / "datasources" / "prometheus.yaml").write_text(
            "apiVersion: 1\ndatasources:\n  - {name: Prometheus, type: prometheus, access: proxy, url: 'http://127.0.0.1:9', isDefault: true}\n")
        (folder / "provisioning" / "dashboards" / "gpulens.yaml").write_text(
            f"apiVersion: 1\nproviders:\n  - {{name: gpulens, type: file, options: {{path: {FOLDER}}}}}\n")
        port = free_port()
        variables = {"GF_PATHS_DATA": str(folder / "data"), "GF_PATHS_LOGS": str(folder / "logs"), "GF_PATHS_PLUGINS": str(folder / "plugins"),
                     "GF_PATHS_PROVISIONING": str(folder / "provisioning"), "GF_SERVER_HTTP_ADDR": "127.0.0.1", "GF_SERVER_HTTP_PORT": str(port),
                     "GF_AUTH_ANONYMOUS_ENABLED": "true", "GF_AUTH_ANONYMOUS_ORG_ROLE": "Admin", "GF_ANALYTICS_REPORTING_ENABLED": "false", "GF_ANALYTICS_CHECK_FOR_UPDATES": "false"}
        with open(folder / "grafana.log", "wb") as log:
            process = subprocess.Popen([pathlib.Path(home, "bin", "grafana"), "server", "--homepath", home], env={**os.environ, **variables}, stdout=log, stderr=log)

        def stop():
            process.send_signal(signal.SIGTERM)
            process.wait(30)
        self.addCleanup(stop)

        def get(path):
            with contextlib.suppress(urllib.error.URLError, OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
                return json.load(reply)
            return None
        wait_until(lambda: get("/api/health"), 120, "Grafana")
        wait_until(lambda: len(get("/api/search?type=dash-db&limit=100") or []) == len(build.BOARDS), 60, "every dashboard")
        for board in build.BOARDS:
            with self.subTest(board=board.file):
                loaded = get(f"/api/dashboards/uid/{board.uid}")["dashboard"]
                self.assertEqual(loaded["title"], board.title)
                self.assertEqual(len(loaded["panels"]), len(json.loads((FOLDER / board.file).read_text())["panels"]))


if __name__ == "__main__":
    unittest.main()
