"""Features of two other projects for GPUs, row by row: each row of the table that is about GPUs has its check here.

The table is next to the checkout. Without it the checks still run, but a missing check is not found.
"""
import csv
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from agent import BINARY, ROOT, Agent, fake_library, samples, value, wait_until
from coverage_worlds import AMD_LIBRARY, DCGM, HL_SMI, serve
from http_stub import HttpStub
from own_network import own_network

TABLE = ROOT.parent / "shared/seed_rows.tsv"
NVML = ("-o", f"library={fake_library()}")
# The readings that every vendor has.
COMMON = {"gpu.utilization", "gpu.memory.total", "gpu.memory.used", "gpu.memory.free", "gpu.memory.used.percent",
          "gpu.power.draw", "gpu.power.limit", "gpu.power.utilization", "gpu.temperature", "gpu.clock.frequency",
          "gpu.ecc.errors", "gpu.info"}
PROFILING = {"SM_ACTIVE": "gpu.sm.active", "DRAM_ACTIVE": "gpu.dram.active", "GR_ENGINE_ACTIVE": "gpu.gr_engine.active",
             "PIPE_TENSOR_ACTIVE": "gpu.pipe.tensor.active", "PIPE_FP64_ACTIVE": "gpu.pipe.fp64.active",
             "PIPE_FP32_ACTIVE": "gpu.pipe.fp32.active", "PIPE_FP16_ACTIVE": "gpu.pipe.fp16.active",
             "SM_OCCUPANCY": "gpu.sm.occupancy"}
RATES = {"NVLINK_TX_BYTES": ("gpu.interconnect.throughput", "transmit", "nvlink"),
         "NVLINK_RX_BYTES": ("gpu.interconnect.throughput", "receive", "nvlink"),
         "PCIE_TX_BYTES": ("gpu.pcie.throughput", "transmit", "pcie"),
         "PCIE_RX_BYTES": ("gpu.pcie.throughput", "receive", "pcie")}


def run(*arguments, environment=None):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GPULENS_")}
    return subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, timeout=60,
                          env={**clean, **(environment or {})}, check=False)


def records(alias, *arguments, environment=None):
    """The output of `gpulens ALIAS --once --sink stdout`."""
    done = run(alias, "--once", "--sink", "stdout", *arguments, environment=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def readings(record, name, **attributes):
    """The values of one name in one record, by attributes (with _ for .)."""
    found = []
    for reading in record["readings"]:
        have = {k.replace(".", "_"): v for k, v in reading.get("attributes", {}).items()}
        if reading["name"] == name and all(have.get(k) == v for k, v in attributes.items()):
            found.append(reading["value"])
    return found


def names(record):
    return {reading["name"] for reading in record["readings"]}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-seed-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def profile(self, text, variable="GPULENS_FAKE_NVML"):
        path = self.folder / f"{variable}.yaml"
        path.write_text(text)
        return {variable: str(path)}

    def nvml(self, text="model: H100\ngpus: 4\nload: {kind: constant, level: 0.5}\n"):
        return records("nvml_monitor", *NVML, environment=self.profile(text))

    def amd(self, text="model: MI300X\ngpus: 2\nload: {level: 0.5}\nxgmi_share: 0.5\n"):
        return records("amd_monitor", "-o", f"library={AMD_LIBRARY}", environment=self.profile(text, "GPULENS_FAKE_AMDSMI"))

    def gaudi(self):
        return records("gaudi_monitor", "--hl-smi-path", str(HL_SMI),
                       environment={"FAKE_HL_SMI_STATE": str(self.folder / "state")})

    def agent(self, profile, more=""):
        config = (f"interval: 200ms\nstate_dir: {self.folder}/state\ncontrol: {{socket: {self.folder}/s.sock}}\n"
                  f"collectors: {{nvidia: {{library: {fake_library()}, interval: 200ms}}}}\n"
                  "analyzers: {fleet_health: {window: 300s}}\n" + more)
        return Agent(config=config, environment=self.profile(profile))


class Commands(Case):
    def test_l9_001_nvml_monitor(self):
        self.assertEqual([r["entity"]["gpu.index"] for r in self.nvml()], [0, 1, 2, 3])
        self.assertIn("60s", run("nvml_monitor", "--help").stdout)

    def test_l9_002_amd_monitor_names_and_scale(self):
        nvidia, amd = self.nvml()[0], self.amd()
        self.assertEqual(len(amd), 2)
        self.assertLessEqual(COMMON, names(amd[0]) & names(nvidia))
        for record in (nvidia, amd[0]):
            self.assertTrue(all(0 <= x <= 1 for x in readings(record, "gpu.utilization")))
            self.assertTrue(all(50 < x < 1500 for x in readings(record, "gpu.power.draw")), "W")
            self.assertTrue(all(x > 2**34 for x in readings(record, "gpu.memory.total")), "bytes")

    def test_l9_003_gaudi_monitor(self):
        before, after = self.gaudi(), self.gaudi()
        self.assertEqual(len(before), 2)
        self.assertLess(readings(before[0], "gpu.memory.used")[0], readings(after[0], "gpu.memory.used")[0])
        self.assertNotEqual(run("gaudi_monitor", "--hl-smi-path", "/nowhere", "--once").returncode, 0)

    def test_l9_004_dcgm_monitor(self):
        page = f"# TYPE DCGM_FI_DEV_POWER_USAGE gauge\nDCGM_FI_DEV_POWER_USAGE{{{DCGM}}} 321.5\n"
        with serve(page) as url:
            self.assertEqual(readings(records("dcgm_monitor", "--dcgm-endpoint", url)[0], "gpu.power.draw"), [321.5])
        plain = run("dcgm_monitor", "--dry-run").stdout
        self.assertIn("http://localhost:9400/metrics", plain)

    def test_l9_004_dcgm_monitor_without_options_reads_port_9400(self):
        page = f"# TYPE DCGM_FI_DEV_POWER_USAGE gauge\nDCGM_FI_DEV_POWER_USAGE{{{DCGM}}} 99\n".encode()
        with own_network(), HttpStub(lambda *_: (200, {}, page), 9400):
            self.assertEqual(readings(records("dcgm_monitor")[0], "gpu.power.draw"), [99])

    def test_l9_010_fleet_health_monitor(self):
        found = records("fleet_health_monitor", "--health-window", "300", "--demo")
        self.assertEqual(len(found), 8)
        for record in found:
            self.assertLessEqual({"gpu.health.score", "gpu.ecc.dbe_total", "gpu.row_remap.available",
                                  "gpu.pcie.link.downtraining"}, names(record))

    def test_l9_044_vendors_export_the_same(self):
        for found in (self.nvml(), self.amd(), self.gaudi()):
            self.assertEqual(COMMON - names(found[0]), set(), found[0]["collector"])

    def test_l9_048_names_with_units(self):
        rows = json.loads(run("metrics", "--format", "json").stdout)["metrics"]
        self.assertGreaterEqual(len([row for row in rows if row["unit"]]), 204)
        units = {row["name"]: row["unit"] for row in rows}
        for line in (ROOT / "tools/l9gpu_fields.tsv").read_text(encoding="utf-8").splitlines():
            # The fields of all schemas but those of the collector NCCL, which is not there.
            if line.startswith(("#", "schema\t", "NCCLCollectiveMetrics\t")):
                continue
            field, metric = line.split("\t")[1], line.split("\t")[3]
            if metric != "-":
                self.assertIn(metric, units, field)
        self.assertEqual((units["training.mfu"], units["training.checkpoint.save_bandwidth"]), ("1", "By/s"))

    def test_l9_051_three_vendors(self):
        listed = run("collect", "--list").stdout
        for name in ("nvidia", "amd", "gaudi"):
            self.assertIn(f"\n{name} ", "\n" + listed)

    def test_l9_186_mig(self):
        found = self.nvml("model: A100\ngpus: 2\nmig:\n  - {gpu: 0, profile: 3g.40gb, instance: 1}\n"
                          "  - {gpu: 0, profile: 4g.40gb, instance: 2}\n")
        gpu = [r for r in found if r["entity_type"] == "gpu" and r["entity"]["gpu.index"] == 0][0]
        self.assertIs(gpu["entity"]["gpu.mig.enabled"], True)
        instances = [r["entity"]["gpu.mig.instance_id"] for r in found if r["entity_type"] == "mig"]
        self.assertEqual(sorted(instances), [1, 2])


class Vendors(Case):
    def test_l9_077_xgmi_links(self):
        gpu = self.amd()[0]
        for link in range(7):
            rates = readings(gpu, "gpu.interconnect.throughput", gpu_interconnect_type="xgmi",
                             gpu_interconnect_link_index=link)
            self.assertTrue(rates and all(rate > 1e6 for rate in rates), link)

    def test_l9_078_ecc_by_block(self):
        gpu = self.amd("model: MI300X\ngpus: 1\necc:\n  - {gpu: 0, block: umc, type: uncorrectable, amount: 2}\n")[0]
        self.assertEqual(readings(gpu, "gpu.ecc.errors", gpu_ecc_memory_block="umc", gpu_ecc_error_type="uncorrectable"), [2])
        blocks = {r["attributes"]["gpu.ecc.memory_block"] for r in gpu["readings"] if r["name"] == "gpu.ecc.errors"}
        self.assertEqual(blocks, {block.lower() for block in blocks})
        self.assertGreater(len(blocks), 3)

    def test_l9_079_sensors(self):
        gpu = self.amd()[0]
        for sensor in ("hotspot", "memory"):
            self.assertTrue(all(20 < t < 100 for t in readings(gpu, "gpu.temperature", gpu_temperature_sensor=sensor)))
            self.assertEqual(len(readings(gpu, "gpu.temperature", gpu_temperature_sensor=sensor)), 1)

    def test_l9_080_081_082_gaudi(self):
        before, after = self.gaudi(), self.gaudi()
        for direction in ("receive", "transmit"):
            rates = readings(before[0], "gpu.interconnect.throughput", gpu_interconnect_direction=direction)
            self.assertTrue(rates and all(rate > 0 for rate in rates))
        io = [readings(found[0], "gpu.interconnect.io", gpu_interconnect_direction="receive") for found in (before, after)]
        self.assertNotEqual(*io)
        self.assertEqual(readings(before[1], "gpu.row_remap.count", gpu_row_remap_state="replaced"), [4])
        self.assertEqual(readings(before[1], "gpu.row_remap.pending", gpu_row_remap_state="pending"), [1])

    def test_l9_087_to_096_and_201_profiling(self):
        numbers = {f"DCGM_FI_PROF_{name}": 0.1 * i + 0.05 for i, name in enumerate(PROFILING)}
        rates = {f"DCGM_FI_PROF_{name}": 1000.0 + i for i, name in enumerate(RATES)}
        split = DCGM + ',GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"'
        other = DCGM.replace("GPU-dcgm", "GPU-split").replace('gpu="0"', 'gpu="1"')
        page = "".join(f"# TYPE {n} gauge\n{n}{{{DCGM}}} {v}\n" for n, v in {**numbers, **rates}.items())
        page += f"DCGM_FI_PROF_SM_ACTIVE{{{split.replace('GPU-dcgm', 'GPU-split').replace(chr(34) + '0' + chr(34), chr(34) + '1' + chr(34), 1)}}} 0.5\n"
        page += f"DCGM_FI_DEV_POWER_USAGE{{{other}}} 7\n"
        with serve(page) as url:
            found = records("dcgm_monitor", "--dcgm-endpoint", url)
        gpu = [r for r in found if r["entity"].get("gpu.uuid") == "GPU-dcgm" and "gpu.mig.instance_id" not in r["entity"]][0]
        for family, native in PROFILING.items():
            self.assertEqual(readings(gpu, native), [numbers[f"DCGM_FI_PROF_{family}"]], family)
        for family, (native, direction, kind) in RATES.items():
            self.assertEqual(readings(gpu, native, gpu_interconnect_direction=direction, gpu_interconnect_type=kind,
                                      gpu_interconnect_source="dcgm_profiling"), [rates[f"DCGM_FI_PROF_{family}"]], family)
        instance = [r for r in found if r["entity"].get("gpu.mig.instance_id") is not None]
        self.assertEqual(len(instance), 1, "kept apart")
        self.assertEqual(readings(instance[0], "gpu.sm.active"), [0.5])


class InTheAgent(Case):
    def test_l9_019_dcgm_is_an_addition(self):
        core = ("gpu_power_draw_watts", "gpu_utilization_ratio", "gpu_memory_used_bytes", "gpu_temperature_celsius")
        profile = "model: A100\ngpus: 1\nload: {kind: constant, level: 0.5}\n"
        with self.agent(profile) as agent:
            page = wait_until(lambda: (lambda p: p if all(samples(p, name) for name in core) else "")(agent.page()))
            self.assertEqual(samples(page, "gpu_sm_active_ratio"), [])
            uuid = samples(page, core[0])[0].labels["gpu_uuid"]
        text = f'# TYPE DCGM_FI_PROF_SM_ACTIVE gauge\nDCGM_FI_PROF_SM_ACTIVE{{gpu="0",UUID="{uuid}"}} 0.5\n'
        with serve(text) as url:
            config = (f"interval: 200ms\ntargets: [{{name: dcgm, kind: dcgm, url: '{url}', interval: 200ms, ttl: 30s}}]\n"
                      f"collectors: {{nvidia: {{library: {fake_library()}, interval: 200ms}}}}\n")
            with Agent(config=config, environment=self.profile(profile)) as agent:
                wait_until(lambda: (lambda p: all(samples(p, name) for name in (*core, "gpu_sm_active_ratio")))(agent.page()))

    def test_l9_072_148_149_an_xid(self):
        first = self.nvml("model: H100\ngpus: 4\n")
        self.assertEqual([readings(r, "gpu.xid.errors") for r in first], [[0]] * 4, "present before the first")
        with self.agent("model: H100\ngpus: 4\nxids:\n  - {gpu: 3, code: 79, at: 4}\n") as agent:
            wait_until(lambda: value(agent.page(), "gpu_xid_errors_total", gpu_index="3") == 0, what="a count of 0")
            wait_until(lambda: value(agent.page(), "gpu_xid_errors_total", gpu_index="3") == 1, 30, "the XID")
            page = wait_until(lambda: (lambda p: p if value(p, "gpu_xid_last_error_code", gpu_index="3") == 79 else "")(agent.page()))
            self.assertEqual([value(page, "gpu_xid_errors_total", gpu_index=str(i)) for i in range(4)], [0, 0, 0, 1])
            # One in a window of 300 s is 12 an hour.
            wait_until(lambda: value(agent.page(), "gpu_xid_error_rate_per_hour", gpu_index="3") == 12, what="12 an hour")

    def test_l9_150_to_157_health(self):
        healthy = "model: H100\ngpus: 2\nload: {kind: idle}\n"
        with self.agent(healthy) as agent:
            page = wait_until(lambda: (lambda p: p if samples(p, "gpu_health_score_ratio") else "")(agent.page()))
            self.assertEqual(value(page, "gpu_ecc_dbe_total", gpu_index="0"), 0)
            self.assertGreater(value(page, "gpu_row_remap_available", gpu_index="0"), 0)
            self.assertEqual(value(page, "gpu_pcie_link_downtraining", gpu_index="0"), 0, "idle, at a low generation")
            self.assertGreaterEqual(value(page, "gpu_pcie_link_gen_current", gpu_index="0"), 1)
            self.assertEqual(value(page, "gpu_pcie_link_width_current", gpu_index="0"), 16)
            self.assertEqual(value(page, "gpu_health_score_ratio", gpu_index="0"), 1)
        faulty = healthy + "faults:\n  - {gpu: 1, counter: ecc_uncorrected, amount: 2, from: 0}\n"
        with self.agent(faulty) as agent:
            wait_until(lambda: (value(agent.page(), "gpu_health_score_ratio", gpu_index="1") or 1) < 1, what="a lower score")
        with self.agent("model: V100\ngpus: 1\n") as agent:
            page = wait_until(lambda: (lambda p: p if samples(p, "gpu_health_score_ratio") else "")(agent.page()))
            self.assertEqual(samples(page, "gpu_row_remap_available"), [], "absent before Ampere")


# Rows of which a part is shown by a unit test: time passes there as it likes.
BY_UNIT_TEST = {"l9-150": "FleetHealthTest.ComputesRates", "l9-155": "FleetHealthTest.FewerPcieLanesAreDowntrainedAtOnce",
                "l9-156": "FleetHealthTest.ComputesRates"}


class Table(unittest.TestCase):
    def test_every_row_about_gpus_has_its_check(self):
        if not TABLE.exists():
            self.skipTest(f"captures not here: {TABLE}")
        with TABLE.open() as file:
            rows = {row["id"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if row["where"] == "gpu"}
        checked = set()
        for case in (Commands, Vendors, InTheAgent):
            for name in dir(case):
                words = name.split("_")
                if not name.startswith("test_l9"):
                    continue
                numbers = [int(word) for word in words if word.isdigit()]
                if "to" in words:
                    numbers += range(numbers[0], numbers[1])
                checked |= {f"l9-{number:03}" for number in numbers}
        self.assertEqual(rows - checked, set())
        text = (ROOT / "src/plugins/analyzers/fleet_health/fleet_health_test.cc").read_text()
        for test in BY_UNIT_TEST.values():
            self.assertIn(test.replace(".", ", "), text)


if __name__ == "__main__":
    unittest.main()
