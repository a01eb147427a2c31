"""Compares the surface of the program with tests/contract/expected; --update writes it there instead."""
import ast
import asyncio
import contextlib
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from agent import BINARY, Agent, wait_until  # noqa: E402
import inference_client  # noqa: E402
import ledger_maker  # noqa: E402
import otlp_receiver  # noqa: E402
import remote_write_receiver  # noqa: E402

EXPECTED = pathlib.Path(__file__).resolve().parent / "expected"
UPDATE = "--update" in sys.argv


def run(*words, code=0, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GPULENS_") and k not in ("COLUMNS", "NO_COLOR")}
    done = subprocess.run([str(BINARY), *words], capture_output=True, text=True, timeout=120, env={**clean, **environment},
                          stdin=subprocess.DEVNULL, check=False)
    if code is not None and done.returncode != code:
        raise AssertionError(f"{words}: exit {done.returncode}, not {code}: {done.stderr}")
    return done.stdout


def table(rows):
    return "".join("\t".join(str(cell) for cell in row) + "\n" for row in sorted(rows))


def shape(value):
    """A JSON value with its numbers, texts and list elements replaced by their kinds."""
    if isinstance(value, dict):
        # Which attributes there are depends on the machine.
        return {key: "map" if key in ("attributes", "resource") else shape(one) for key, one in sorted(value.items())}
    if isinstance(value, list):
        merged = {}
        for one in value:
            merged = merge(merged, shape(one))
        return [merged] if value else []
    if isinstance(value, bool):
        return "boolean"
    return {int: "number", float: "number", str: "text", type(None): "null"}[type(value)]


def merge(a, b):
    """What two elements of a list have, together."""
    if a in ({}, b):
        return b
    if isinstance(a, dict) and isinstance(b, dict):
        return {key: merge(a.get(key, {}), b.get(key, {})) if key in a and key in b else a.get(key, b.get(key)) for key in
                sorted(a.keys() | b.keys())}
    if isinstance(a, list) and isinstance(b, list):
        return [merge(a[0] if a else {}, b[0] if b else {})] if a or b else []
    return a if b == {} else " or ".join(sorted({*str(a).split(" or "), *str(b).split(" or ")}))


def pretty(value):
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def keys_of(schema, properties, path=""):
    """Every key of a JSON schema as (path, type, default)."""
    for key, one in properties.items():
        while "$ref" in one:
            found = schema
            for word in one["$ref"].removeprefix("#/").split("/"):
                found = found[word]
            one = {**found, **{k: v for k, v in one.items() if k != "$ref"}}
        here = f"{path}.{key}" if path else key
        kind = one.get("type", "any")
        below = one.get("properties") or {}
        if kind == "array" and isinstance(one.get("items"), dict):
            below, here = one["items"].get("properties") or {}, here + "[]" if one["items"].get("properties") else here
        if below:
            yield from keys_of(schema, below, here)
        else:
            allowed = one.get("enum") or (one.get("items") or {}).get("enum") or []
            kind = kind if isinstance(kind, str) else " or ".join(kind)
            yield here, kind, json.dumps(one.get("default"), ensure_ascii=False), "|".join(map(str, allowed))


def declarations(text):
    """A header without comments, its blanks brought together."""
    text = re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]
    return "\n".join(line for line in lines if line) + "\n"


def signatures(path, package):
    """The public functions and classes of a Python file, with their parameters."""
    def of(node, prefix):
        for one in node.body:
            name = getattr(one, "name", "")
            if name.startswith("_") and name not in ("__init__", "__call__", "__enter__", "__exit__"):
                continue
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
                returns = f" -> {ast.unparse(one.returns)}" if one.returns else ""
                yield f"{prefix}{name}({ast.unparse(one.args)}){returns}"
            elif isinstance(one, ast.ClassDef):
                yield f"{prefix}class {name}({', '.join(ast.unparse(base) for base in one.bases)})"
                yield from of(one, f"{prefix}{name}.")
    module = ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
    if any(part.startswith("_") for part in module.split(".")):
        return []
    return [f"{module}: {line}" for line in of(ast.parse(path.read_text(encoding="utf-8")), "")]


class Contract(unittest.TestCase):
    maxDiff = 4000

    def same(self, name, text):
        path = EXPECTED / name
        if UPDATE:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        self.assertTrue(path.exists(), f"{path} is missing; see tests/contract/README.md")
        self.assertMultiLineEqual(path.read_text(encoding="utf-8"), text,
                                  f"{name} differs from the program; if it is meant, see tests/contract/README.md")

    def test_metrics_and_events(self):
        page = json.loads(run("metrics", "--json"))
        self.same("metrics.tsv", table((m["name"], m["unit"], m["kind"], m["level"], m["prometheus"], m["attributes"])
                                       for m in page["metrics"]))
        self.same("events.tsv", table((e["name"], e["severity"], e["attributes"]) for e in page["events"]))
        text = run("metrics", "--help")
        for names in re.search(r"--names (\S+)", text).group(1).split("|"):
            if names != "native":
                page = json.loads(run("metrics", "--names", names, "--json"))
                self.same(f"names/{names}.tsv", table((m["prometheus"], m["unit"], m["kind"], m["attributes"], m["from"])
                                                      for m in page["metrics"]))

    def test_checks(self):
        rows = [re.split(r"  +", line.strip())[:3] for line in run("check", "--list").splitlines()[1:]]
        self.same("checks.tsv", table(rows))

    def test_configuration_keys(self):
        schema = json.loads(run("config", "schema", "--json"))
        self.same("configuration.tsv", table(keys_of(schema, schema["properties"])))

    def test_commands(self):
        pages = []

        def walk(words):
            text = run(*words, "--help")
            usage = re.search(r"^Usage: ((?:.|\n(?= ))*)", text, re.M).group(1)
            options = re.findall(r"^  (-[^ ].*?)(?:  .*)?$", text, re.M)
            codes = re.search(r"^Exit: ((?:.|\n(?= ))*)", text, re.M)
            pages.append("\n  ".join([re.sub(r"\s+", " ", usage), *options,
                                      *(["Exit: " + re.sub(r"\s+", " ", codes.group(1))] if codes else [])]) + "\n")
            inside = False
            for line in text.splitlines():
                if line == "Commands":
                    inside = True
                elif inside and re.match(r"  [a-z]", line):
                    walk((*words, line.split()[0]))
                elif inside and not line.startswith("  "):
                    break
        for line in run("help", "all").splitlines():
            if re.match(r"  [a-z]", line):
                for name in (line.split() if "_" in line.split()[0] else line.split()[:1]):
                    walk((name,))
        self.same("commands.txt", "".join(sorted(pages)))

    def test_json_answers_and_frames(self):
        with Agent("--demo") as agent:
            wait_until(lambda: "gpu_health_state" in agent.page(), what="a second tick")
            url = f"http://127.0.0.1:{agent.port}"
            shapes = {"check": shape(json.loads(run("check", "all", "--json", "--url", url, code=None))),
                      "version": shape(json.loads(run("version", "--json"))),
                      "version --libraries": shape(json.loads(run("version", "--libraries", "--json"))),
                      "explain": shape(json.loads(run("explain", "79", "--json"))),
                      "engines list": shape(json.loads(run("engines", "list", "--json")))}
            page = json.loads(agent.get("/json").text)
            families = page.pop("metrics")
            page["metrics"] = {"*": shape([*families.values()])[0] if families else {}}
            shapes["/json"] = {key: shape(value) if key != "metrics" else value for key, value in sorted(page.items())}
            shapes["/json"]["gpu_memory"] = shape([*page["gpu_memory"].values()]) if page.get("gpu_memory") else {}
            shapes["/json"]["resource"] = "map"
            shapes["/health"] = agent.get("/health").text.decode().strip().splitlines()[0] if agent.get("/health").status == 200 else ""
            with contextlib.suppress(ImportError):
                import websockets

                async def frame():
                    async with websockets.connect(f"ws://127.0.0.1:{agent.ws_port}/") as ws:
                        return json.loads(await ws.recv())
                shapes["websocket"] = shape(asyncio.run(frame()))
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as alone:
            alone.write("control: {socket: none}\n")
            alone.flush()
            doctor = json.loads(run("doctor", "--json", "--config", alone.name, code=None))
        doctor["findings"] = [finding for finding in doctor["findings"] if finding["subject"] == "host"]
        shapes["doctor"] = shape(doctor)
        with tempfile.TemporaryDirectory(prefix="gpulens-contract-") as folder:
            path = f"{folder}/ledger.db"
            ledger_maker.Ledger(path, hours=1).base.close()
            for name in ("cost report", "cost report --wasted"):
                shapes[name] = shape(json.loads(run(*name.split(), "--json", "--file", path, "--period", "2025-11-26")))
        self.same("json.json", pretty(shapes))

    def test_what_the_demo_sends(self):
        with otlp_receiver.Receiver() as otlp, remote_write_receiver.Receiver() as remote:
            config = (f'sinks:\n  otlp: {{endpoint: "{otlp.url}", interval: 200ms, queue: {{storage: memory}}}}\n'
                      f'  remote_write: {{url: "{remote.url}", interval: 200ms, queue: {{storage: memory}}}}\n')
            with Agent("--demo", config=config, environment={"GPULENS_METRICS": "standard"}):
                # What needs a second reading, or is read every ten seconds, comes last.
                for name, family in (("gpu.health.state", "gpu_health_state"), ("gpu.sm.active", "gpu_sm_active_ratio"),
                                     ("gpu.pcie.link.downtraining", "gpu_pcie_link_downtraining"),
                                     ("gpu.interconnect.throughput", "gpu_interconnect_throughput_bytes_per_second"),
                                     ("gpu.process.energy", "gpu_process_energy_joules_total")):
                    wait_until(lambda: any(list(r.points(name)) for r in otlp.requests) and remote.samples(family), what=name)
            rows = set()
            for received in otlp.requests:
                for _, _, metric in received.metrics():
                    kind = metric.WhichOneof("data")
                    data = getattr(metric, kind)
                    for point in data.data_points:
                        keys = " ".join(sorted(a.key for a in point.attributes))
                        rows.add((metric.name, metric.unit, kind, getattr(data, "aggregation_temporality", 0),
                                  int(getattr(data, "is_monotonic", False)), keys))
            self.same("otlp_demo.tsv", table(row for row in rows if row[0].startswith("gpu.")))
            rows = {(s.labels["__name__"], " ".join(sorted(k for k in s.labels if k != "__name__")))
                    for request in remote.requests for s in request.samples}
            self.same("remote_write_demo.tsv", table(row for row in rows if row[0].startswith("gpu_")))

    def test_files(self):
        with tempfile.TemporaryDirectory(prefix="gpulens-contract-") as folder:
            schemas = {}

            def schema_of(name, path):
                with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
                    version = database.execute("PRAGMA user_version").fetchone()[0]
                    rows = database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name")
                    schemas[name] = [f"user_version {version}", *(re.sub(r"\s+", " ", sql) for (sql,) in rows)]
            runs = f"{folder}/experiments.db"
            run("run", "--db", runs, "-q", "true")
            schema_of("experiments.db", runs)
            calls = f"{folder}/telemetry.db"
            with inference_client.Program() as program:
                self.assertTrue(program.do(f"open {calls}").startswith("ok"))
                program.do("record 0 3")
                program.do("flush")
            schema_of("telemetry.db", calls)
            state = pathlib.Path(folder, "state")
            state.mkdir()
            config = (f'sinks:\n  otlp: {{endpoint: "http://127.0.0.1:1", interval: 200ms}}\ncontrol: {{socket: {folder}/socket}}\n')
            with Agent("--demo", config=config, environment={"STATE_DIRECTORY": str(state)}):
                run("sim", "fail", "gpu=0", "mode=xid", "code=79", "--socket", f"{folder}/socket")
                wait_until(lambda: [*state.rglob("incidents.db")], what="the store of events")
                wait_until(lambda: [*state.rglob("ledger.db")], what="the ledger")
                wait_until(lambda: [p for p in state.rglob("*") if p.is_file() and "queue" in str(p)], what="a queue on disk")
            for path in sorted(state.rglob("*.db")):
                schema_of(path.name, path)
                if path.name != "incidents.db":
                    continue
                line = run("events", "--json", "--state-dir", str(path.parent)).splitlines()[0]
                schemas["events --json"] = shape(json.loads(line))
            headers = {}
            for path in sorted(state.rglob("*")):
                if path.is_file() and path.suffix != ".db" and "queue" in str(path.relative_to(state)):
                    head = path.read_bytes()[:8]
                    name = re.sub(r"[0-9a-f]{6,}|\d+", "N", str(path.relative_to(state)))
                    if head.startswith(b"GPLNS"):
                        headers[name] = head.decode("latin-1")
            self.same("files.json", pretty({"sqlite": schemas, "first_bytes": headers}))

    def test_sdk(self):
        for header in sorted((ROOT / "include").rglob("*.h")):
            self.same(f"cpp/{header.name}.txt", declarations(header.read_text(encoding="utf-8")))
        package = ROOT / "python" / "gpulens"
        lines = [line for path in sorted(package.rglob("*.py")) for line in signatures(path, package)]
        self.same("python.txt", "\n".join(lines) + "\n")


if __name__ == "__main__":
    unittest.main(argv=[arg for arg in sys.argv if arg != "--update"])
