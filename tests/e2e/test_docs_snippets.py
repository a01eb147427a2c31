"""The fenced blocks of the README and of the guides: each is checked or run, or is listed here with the reason why it is not.

The word after ``` selects what happens with a block:
    yaml              configuration of gpulens: `gpulens config check`
    yaml prometheus   configuration of Prometheus: `promtool check config`
    yaml rules        rules of Prometheus: `promtool check rules`
    yaml proxy, yaml litellm    files of `gpulens proxy` and of LiteLLM's proxy: test_migrate_litellm.py
    yaml values, yaml kustomization, yaml scrape    values of the chart, an overlay, a scrape job: tests/deploy/test_chart.py
    promql            an expression a line: promtool parses it, and the catalogue has its metrics at the level standard
    sh run            run by bash, all blocks of a page in order in one shell, with the page's files in the folder
    sh                not run: a row of NOT_RUN has the reason
    python            compiled; run with simulated GPUs where build/python/venv has the package
    text              output, shown only
A yaml block whose first line is a comment with a file name is that file of its page.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from agent import BINARY, PEERS, PROFILES, ROOT, fake_library, peer
from http_stub import HttpStub
from own_network import own_network

DOCS = ROOT / "docs"
GUIDES = [ROOT / "README.md", DOCS / "getting-started.md", *sorted((DOCS / "howto").glob("*.md")), *sorted((DOCS / "migrate").glob("*.md"))]
REFERENCE = [DOCS / name for name in ("cardinality.md", "names.md", "migration-0.2.md", "targets.md", "discovery.md", "collectors/engines.md",
                                      "collectors/gpu-pages.md")]
LINKED = [*GUIDES, *REFERENCE, DOCS / "README.md"]

# Page and first line of a shell block that is not run, and why.
NOT_RUN = {
    ("README.md", "curl localhost:9091/metrics                  # or open http://localhost:9091/ in a browser"):
        "needs the agent of ./dev run in another terminal; getting-started.md runs the same commands",
    ("getting-started.md", "git clone URL gpulens && cd gpulens"): "downloads and builds; ./dev test builds the same way",
    ("getting-started.md", "export PATH=$PWD/build:$PATH"): "needs the checkout of step 1; the test has the program on PATH",
    ("getting-started.md", "gpulens doctor --compare"): "needs a GPU and nvidia-smi; test_compare.py runs it with simulated ones",
    ("energy-per-request.md", "pip install gpulens --no-index --find-links dist"): "takes minutes; the test python_package builds and installs it",
    ("replace-dcgm-exporter.md", "comm -23 <(grep -o '^DCGM[A-Z0-9_a-z]*' dcgm.txt | sort -u) <(grep -o '^DCGM[A-Z0-9_a-z]*' page.txt | sort -u)"):
        "needs the page of a running dcgm-exporter",
    ("slurm-jobs.md", "gpulens agent --config gpulens.yaml &"): "needs a job on a GPU; test_job_labels below does it with a mapping",
}
# Names of an earlier version, on purpose.
OLD_NAMES = {"gpulens_driver_up"}
METRIC = re.compile(r"\b(?:gpu|gpulens|inference|slurm|system|host|hw)_\w+|\bDCGM_FI_\w+")
BLOCK = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<body>.*?)^```$", re.M | re.S)
SCRIPT_SECONDS = 150


def blocks(page):
    text = page.read_text(encoding="utf-8")
    assert text.count("\n```") % 2 == 0, f"{page}: a block without an end"
    return [(match["kind"].strip(), match["body"]) for match in BLOCK.finditer(text)]


def file_of(body):
    match = re.match(r"# ([\w.-]+\.ya?ml)\n", body)
    return match[1] if match else None


def of_kind(pages, *kinds):
    return [(page, body) for page in pages for kind, body in blocks(page) if kind in kinds]


def expressions():
    """Page and expression, of promql blocks and of rules."""
    found = [(page, line) for page, body in of_kind(GUIDES + REFERENCE, "promql") for line in body.splitlines() if line.strip()]
    for page, body in of_kind(GUIDES, "yaml rules"):
        found += [(page, match) for match in re.findall(r"^\s*expr: (.*)$", body, re.M)]
    return found


def names_of(expression):
    """The metrics of an expression: without what is in braces, in quotes, or in the lists of by, on and the like."""
    bare = re.sub(r"\{[^}]*\}|\"[^\"]*\"", "", expression)
    bare = re.sub(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", "", bare)
    return set(METRIC.findall(bare))


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-snippets-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def environment(self, **more):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("GPULENS_")}
        state = self.folder / "state"
        state.mkdir(exist_ok=True)
        return {**clean, "PATH": f"{BINARY.resolve().parent}:{PEERS / 'usr' / 'bin'}:{clean['PATH']}", "STATE_DIRECTORY": str(state),
                "GPULENS_CONTROL_SOCKET": str(self.folder / "control.sock"), "GPULENS_COLLECTORS_PROGRAMS_ENABLED": "false",
                "GPULENS_DISCOVERY_LOCAL_ENABLED": "false", **more}

    def call(self, *command, **options):
        return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=60, check=False, cwd=self.folder,
                              env=self.environment(), **options)

    def write_files(self, page):
        for kind, body in blocks(page):
            if kind.startswith("yaml") and file_of(body):
                (self.folder / file_of(body)).write_text(body, encoding="utf-8")


class Blocks(Case):
    def test_each_block_is_checked_or_has_a_reason(self):
        known = {"yaml", "yaml prometheus", "yaml rules", "yaml values", "yaml kustomization", "yaml keda", "yaml scrape", "yaml proxy", "yaml litellm", "promql", "sh run", "sh", "python", "text"}
        listed = set()
        for page in GUIDES + REFERENCE:
            for kind, body in blocks(page):
                first = body.split("\n", 1)[0]
                self.assertIn(kind, known, f"{page.name}: the block that begins with {first!r}")
                if kind == "sh":
                    self.assertIn((page.name, first), NOT_RUN, "mark the block `sh run`, or give the reason in NOT_RUN")
                    listed.add((page.name, first))
        self.assertEqual(listed, set(NOT_RUN), "a row of NOT_RUN without its block")

    def test_gpulens_accepts_each_configuration(self):
        for page, body in of_kind(GUIDES + REFERENCE, "yaml"):
            with self.subTest(page=page.name, body=body):
                path = self.folder / "gpulens.yaml"
                path.write_text(body, encoding="utf-8")
                done = self.call(BINARY, "config", "check", path)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_promtool_accepts_files_and_expressions(self):
        promtool = peer("promtool")
        for page, body in of_kind(GUIDES, "yaml prometheus", "yaml rules"):
            with self.subTest(page=page.name, file=file_of(body)):
                self.write_files(page)
                what = "rules" if body.startswith("# ") and "\ngroups:" in body else "config"
                done = self.call(promtool, "check", what, file_of(body))
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for page, expression in expressions():
            with self.subTest(page=page.name, expression=expression):
                rules = self.folder / "one.json"
                rules.write_text(json.dumps({"groups": [{"name": "g", "rules": [{"record": "r:r", "expr": expression}]}]}))
                done = self.call(promtool, "check", "rules", rules)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_metrics_of_expressions_are_in_the_catalogue(self):
        have = set()
        for names in ("native", "dcgm"):
            rows = json.loads(self.call(BINARY, "metrics", "--json", "--names", names).stdout)
            for row in rows if isinstance(rows, list) else rows["metrics"]:
                if row.get("level") != "all":
                    have.add(row.get("prometheus") or row["name"])
        have |= {name + end for name in have for end in ("_bucket", "_sum", "_count")}
        for page, expression in expressions():
            used = names_of(expression) - OLD_NAMES
            self.assertEqual(used - have, set(), f"{page.name}: {expression}")


class Scripts(Case):
    """Each page with `sh run` in a network of its own, so that its ports are free."""

    def run_page(self, page):
        self.write_files(page)
        script = "set -eu\n" + "".join(body for kind, body in blocks(page) if kind == "sh run")
        for word in ("curl", "prometheus", "promtool"):
            if re.search(rf"^\s*{word}\b", script, re.M) and not shutil.which(word, path=self.environment()["PATH"]):
                self.skipTest(f"{word} is not here")
        log = self.folder / "output"
        with open(log, "wb") as out:
            shell = subprocess.Popen(["bash", "-c", script], cwd=self.folder, env=self.environment(), stdout=out,
                                     stderr=subprocess.STDOUT, start_new_session=True)
            try:
                code = shell.wait(SCRIPT_SECONDS)
            except subprocess.TimeoutExpired:
                code = "no end"
            finally:
                with contextlib.suppress(ProcessLookupError):  # nothing was left in the background
                    os.killpg(shell.pid, signal.SIGKILL)
        text = log.read_text(errors="replace")
        self.assertEqual(code, 0, text[-3000:])
        return text

    def test_getting_started(self):
        with own_network():
            text = self.run_page(DOCS / "getting-started.md")
        self.assertIn('gpu_state="lost"', text)
        self.assertIn("GPU 3", text)

    def test_gpu_alerts(self):
        shutil.copytree(ROOT / "deploy" / "rules", self.folder / "rules", ignore=shutil.ignore_patterns("l9gpu.yaml"))
        with own_network():
            text = self.run_page(DOCS / "howto" / "gpu-alerts.md")
        self.assertRegex(text, r'"alertname":"GpuLost"[^}]*"gpu_index":"3"')

    def test_vllm_p99(self):
        page = subprocess.run([sys.executable, ROOT / "tools" / "engine_pages.py", "vllm"], capture_output=True, text=True, check=True)
        answer = (200, {"Content-Type": "text/plain; version=0.0.4"}, page.stdout.encode())
        with own_network(), HttpStub(lambda *_: answer, port=8000):
            text = self.run_page(DOCS / "howto" / "vllm-p99.md")
        self.assertIn("inference_requests_waiting", text)

    def test_replace_dcgm_exporter(self):
        with own_network():
            text = self.run_page(DOCS / "howto" / "replace-dcgm-exporter.md")
        self.assertEqual(text.count("DCGM_FI_DEV_GPU_UTIL{"), 8)
        # The rows of the page's table with a yes are on the page of eight simulated H100.
        table = (DOCS / "howto" / "replace-dcgm-exporter.md").read_text().split("| metric | here |")[1].split("\n\n")[0]
        served = set(re.findall(r"^(DCGM_\w+)\{", (self.folder / "page.txt").read_text(), re.M))
        listed = set()
        for row in table.splitlines():
            cells = row.split("|")
            if len(cells) < 3 or not cells[2].strip().startswith("yes") or "label" in cells[1]:
                continue
            fields = re.findall(r"`(\w+)`", cells[1])
            front = re.match(r"DCGM_FI_(?:DEV|PROF)_", fields[0])[0]
            listed |= {field if field.startswith(front) else front + field for field in fields}
        self.assertEqual(listed - served, set())
        self.assertEqual(len(listed), 23)

    def test_slurm_jobs(self):
        self.run_page(DOCS / "howto" / "slurm-jobs.md")

    def test_job_labels(self):
        """As in slurm-jobs.md, a mapping of a prolog becomes the label slurm_job_id."""
        jobs = self.folder / "jobs"
        jobs.mkdir()
        (jobs / "0").write_text("12\n")
        (self.folder / "gpulens.yaml").write_text(f"enrichers: {{slurm: {{job_mapping: {jobs}}}}}\n"
                                                  f"collectors: {{nvidia: {{library: {fake_library()}}}}}\n")
        with own_network():
            agent = subprocess.Popen([BINARY, "agent", "--config", "gpulens.yaml"], cwd=self.folder, stderr=subprocess.DEVNULL,
                                     env=self.environment(GPULENS_FAKE_NVML=str(PROFILES / "h100_idle.yaml")))
            try:
                script = ("until curl -s localhost:9091/metrics | grep '^gpu_energy_consumption_joules_total.*gpu_index=\"0\".*"
                       "slurm_job_id=\"12\"'; do sleep 0.5; done")
                done = subprocess.run(["timeout", "60", "bash", "-c", script], capture_output=True, text=True, check=False)
            finally:
                agent.terminate()
                agent.wait(20)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_python(self):
        python = ROOT / "build" / "python" / "venv" / "bin" / "python"
        for page, body in of_kind(GUIDES, "python"):
            compile(body, page.name, "exec")
            if not python.exists() or not fake_library().exists():
                self.skipTest("compiled only: build/python/venv has no package (the test python_package makes it)")
            environment = self.environment(LD_LIBRARY_PATH=str(fake_library().parent), GPULENS_FAKE_NVML=str(PROFILES / "h100_idle.yaml"))
            done = subprocess.run([python, "-c", body], capture_output=True, text=True, timeout=60, env=environment, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"[\d.]+ J ± [\d.]+ J(, [\d.]+ J per token| \(counter, 0\.2\d\d s, 8 GPUs\))\n")


class Links(unittest.TestCase):
    def test_each_link_has_its_file(self):
        for page in LINKED:
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
                if "://" not in target:
                    self.assertTrue((page.parent / target).exists(), f"{page.name}: {target}")

    def test_the_index_lists_each_page(self):
        index = set(re.findall(r"\]\(([^)#\s]+)", (DOCS / "README.md").read_text(encoding="utf-8")))
        index |= {"migrate/" + target for target in re.findall(r"\]\(([^)#\s]+)", (DOCS / "migrate" / "README.md").read_text(encoding="utf-8"))}
        pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} - {"README.md"}
        self.assertEqual(pages - index, set())


if __name__ == "__main__":
    unittest.main()
