"""Coverage of the catalogue: the real program exports every row about GPUs, and every name of the l9gpu project."""
import csv
import json
import re
import subprocess
import unittest

from agent import BINARY, ROOT, samples
from coverage_worlds import all_pages

NAMES = ROOT.parent / "shared/reference/l9gpu_metric_names.tsv"
SCHEMAS = ("DeviceMetrics", "AMDDeviceMetrics", "GaudiDeviceMetrics", "DcgmProfilingMetrics", "GPUFleetHealthMetrics")

# Rows that no simulated machine can show or no plugin writes, each with its reason. An exported one is a finding, too.
NEVER_WRITTEN = {}
# Rows that are exported only in a state that these machines are not in, with the test that covers each.
SHOWN_ELSEWHERE = {
    "gpu.pcie.aer.errors": "needs a PCI device of this machine: aer_series_test.cc",
    "gpu.driver.mismatch": "needs an installed driver: gpu_probe_test.cc",
    "gpu.encoder.frame_rate": "no simulated GPU encodes: board_series_test.cc",
    "gpu.encoder.latency": "no simulated GPU encodes: board_series_test.cc",
    "gpu.cost.per_prompt_token": "no engine has a simulated GPU here: test_seed_rows_cost.py",
    "gpu.cost.per_generation_token": "no engine has a simulated GPU here: test_seed_rows_cost.py",
    "gpu.efficiency.tokens_per_watt": "no engine has a simulated GPU here: test_seed_rows_cost.py",
    "gpu.efficiency.joules_per_token": "no engine has a simulated GPU here: test_seed_rows_cost.py",
    "gpu.pod.info": "no pod holds a simulated GPU here: test_kubernetes.py",
    "gpu.power.average": "no simulated GPU has both an instantaneous and an average draw: board_series_test.cc",
}
# Rows that are exported only under names of other projects. Family on the page.
FOREIGN_NAMES = {"gpu.memory.bar1.free": "DCGM_FI_DEV_BAR1_FREE",
                 "gpu.interconnect.bandwidth": "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
                 "gpu.interconnect.link.bandwidth": "DCGM_FI_DEV_NVLINK_BANDWIDTH_L0"}
# Rows that no plugin claims: the pipeline declares them. Family on the page.
OF_THE_PIPELINE = {"gpu.energy.estimate": "gpu_energy_estimate_joules_total",
                   "gpu.energy.estimate.error": "gpu_energy_estimate_error_joules_total"}
# Rows of l9gpu under other names, with other attributes, or exported by none: the reason.
NOT_OFFERED = {
    "gpu_architecture": "text is no metric: gpu.info has it as gpu.architecture",
}
# By l9gpu's name: the family under `names: l9gpu` where there is no native one.
L9GPU_NAMES = {"gpu.energy.consumption": "gpu_energy_consumption_mJ", "gpu.ecc.errors": "gpu_ecc_errors",
               "gpu.xid.errors": "gpu_xid_errors", "gpu.pcie.replay.count": "gpu_pcie_replay_count",
               "gpu.throttle.reason": "gpu_throttle_reason"}


def catalogue():
    done = subprocess.run([str(BINARY), "metrics", "--format", "json"], capture_output=True, text=True, timeout=60, check=True)
    return {row["name"]: row for row in json.loads(done.stdout)["metrics"]}


def header_rows():
    """The rows of the catalogue, whether a plugin lists them or not."""
    found = set()
    for rows in (ROOT / "src/catalog").glob("*.def"):
        found |= set(re.findall(r'\b[A-Z]\w+\(\s*"((?:gpu|nvidia|nvswitch)\.[a-z0-9_.]+)"', rows.read_text()))
    return found


def families():
    """Every family on any page."""
    found = set()
    for text in all_pages().values():
        found |= {sample.name for sample in samples(text)}
    return found


def family_of(row):
    """The name of the samples of a row on a page of text."""
    name = row["prometheus"]
    return name if row["kind"] != "counter" or name.endswith("_total") else name + "_total"


class Catalogue(unittest.TestCase):
    def test_every_row_about_gpus_is_exported(self):
        exported, silent, stale = families(), [], []
        for name, row in catalogue().items():
            if not name.startswith(("gpu.", "nvidia.", "nvswitch.")):
                continue
            known = name in NEVER_WRITTEN or name in SHOWN_ELSEWHERE
            names = {family_of(row), row["prometheus"], row["prometheus"] + "_bucket", FOREIGN_NAMES.get(name)}
            here = bool(names & exported)
            if not here and not known:
                silent.append(name)
            if here and known:
                stale.append(name)
        silent += [name for name, family in OF_THE_PIPELINE.items() if family not in exported]
        self.assertEqual(silent, [], "no plugin exports these: write them, remove them, or give the reason")
        self.assertEqual(stale, [], "these are exported after all")

    def test_the_reasons_are_of_rows_that_exist(self):
        self.assertEqual({*NEVER_WRITTEN, *SHOWN_ELSEWHERE} - header_rows(), set())

    def test_rows_without_a_plugin_have_a_reason(self):
        self.assertEqual(header_rows() - set(catalogue()) - set(NEVER_WRITTEN) - set(OF_THE_PIPELINE), set())


class L9gpu(unittest.TestCase):
    def rows(self):
        if not NAMES.exists():
            self.skipTest(f"captures not here: {NAMES}")
        with NAMES.open() as file:
            return [row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if row["schema"] in SCHEMAS]

    def test_every_row_is_emitted(self):
        native, pages, missing = catalogue(), all_pages(), []
        rows = self.rows()
        self.assertEqual(len(rows), 72)
        for row in rows:
            field, name = row["python_field"], row["otel_name"]
            if field in NOT_OFFERED:
                continue
            if row["role"].startswith("identity"):
                label = row["role"].removeprefix("identity:").replace(".", "_")
                if not any(label in sample.labels for text in pages.values() for sample in samples(text)):
                    missing.append(f"{row['schema']}.{field}: label {label}")
                continue
            wanted = {key.replace(".", "_"): value for key, value in json.loads(row["attributes(json)"]).items()}
            foreign = L9GPU_NAMES.get(name) or native[name]["prometheus"]
            if not any(samples(text, foreign, **wanted) for text in pages.values()):
                missing.append(f"{row['schema']}.{field}: {foreign}{wanted}")
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
