"""Pages of GPU exporters and the simulated hl-smi, through the real program."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from agent import BINARY, ROOT, Agent, nvidia_config, samples, value, wait_until
from http_stub import HttpStub, serve_page
from own_network import own_network

HL_SMI = ROOT / "tests" / "fake_hl_smi" / "hl-smi"
LABELS = 'gpu="0",UUID="GPU-e2e",pci_bus_id="00000000:04:00.0",device="nvidia0",modelName="NVIDIA H100",Hostname="n"'
PROFILING = {"DCGM_FI_PROF_SM_ACTIVE": "gpu_sm_active_ratio", "DCGM_FI_PROF_DRAM_ACTIVE": "gpu_dram_active_ratio",
             "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "gpu_gr_engine_active_ratio",
             "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "gpu_pipe_tensor_active_ratio",
             "DCGM_FI_PROF_PIPE_FP64_ACTIVE": "gpu_pipe_fp64_active_ratio",
             "DCGM_FI_PROF_PIPE_FP32_ACTIVE": "gpu_pipe_fp32_active_ratio",
             "DCGM_FI_PROF_PIPE_FP16_ACTIVE": "gpu_pipe_fp16_active_ratio",
             "DCGM_FI_PROF_SM_OCCUPANCY": "gpu_sm_occupancy_ratio"}


def page_of(values, labels=LABELS):
    return "".join(f"# TYPE {name} gauge\n{name}{{{labels}}} {number}\n" for name, number in values.items())


@contextlib.contextmanager
def serve(text):
    """A server of one page; `page[0]` may be replaced."""
    page = [text]
    with serve_page(lambda: page[0]) as url:
        yield url, page


def collect(*arguments, environment=None):
    """The output of `gpulens collect … --once`: {(native name, attributes as sorted text): value} of all entities."""
    done = subprocess.run([str(BINARY), "collect", *arguments, "--once", "--json"], capture_output=True, text=True,
                          timeout=60, env={**os.environ, **(environment or {})})
    assert done.returncode == 0, done.stderr
    readings = {}
    for record in json.loads(done.stdout):
        for reading in record["readings"]:
            attributes = {**record.get("entity", {}), **reading.get("attributes", {})}
            words = " ".join(f"{k}={v}" for k, v in sorted(attributes.items()) if k not in ("gpu.uuid", "gpu.model"))
            readings[reading["name"], words] = reading["value"]
    return readings


class Collect(unittest.TestCase):
    def test_dcgm_equals_the_page(self):
        numbers = {name: round(0.1 * i + 0.05, 3) for i, name in enumerate(PROFILING)}
        page = page_of({**numbers, "DCGM_FI_PROF_NVLINK_TX_BYTES": 12345678, "DCGM_FI_PROF_PCIE_RX_BYTES": 97863601,
                        "DCGM_FI_DEV_FB_USED": 4845, "DCGM_FI_DEV_GPU_UTIL": 87})
        with serve(page) as (url, _):
            out = collect("dcgm", "-o", f"url={url}")
        for family, name in PROFILING.items():
            native = family.removeprefix("DCGM_FI_PROF_").lower().replace("_active", ".active").replace("sm_", "sm.").replace("pipe_", "pipe.")
            self.assertEqual(out["gpu." + native, "gpu.index=0"], numbers[family], name)
        source = "gpu.interconnect.source=dcgm_profiling"
        self.assertEqual(out["gpu.interconnect.throughput", f"gpu.index=0 gpu.interconnect.direction=transmit {source} gpu.interconnect.type=nvlink"], 12345678)
        self.assertEqual(out["gpu.pcie.throughput", f"gpu.index=0 gpu.interconnect.direction=receive {source} gpu.interconnect.type=pcie"], 97863601)
        self.assertEqual(out["gpu.memory.used", "gpu.index=0"], 4845 * 2**20)
        self.assertEqual(out["gpu.utilization", "gpu.index=0 gpu.task.type=compute"], 0.87)

    def test_a_page_of_another_program_is_an_error(self):
        with serve("node_cpu_seconds_total 1\n") as (url, _):
            done = subprocess.run([str(BINARY), "collect", "dcgm", "-o", f"url={url}", "--once"], capture_output=True,
                                  text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("gpu.", done.stdout)

    def test_gaudi_changes_with_every_run(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        environment = {"FAKE_HL_SMI_STATE": str(folder / "state")}
        runs = [collect("gaudi", "-o", f"hl_smi_path={HL_SMI}", environment=environment) for _ in range(2)]
        port = "gpu.index=1 gpu.interconnect.direction=receive gpu.interconnect.link_index=2 gpu.interconnect.type=roce"
        for out in runs:
            self.assertGreater(out["gpu.interconnect.throughput", port], 0, "a rate, in one run")
            self.assertEqual(out["gpu.row_remap.count", "gpu.index=1 gpu.row_remap.state=replaced"], 4)
            self.assertEqual(out["gpu.row_remap.pending", "gpu.index=1 gpu.row_remap.state=pending"], 1)
        for name, words in (("gpu.memory.used", "gpu.index=0"), ("gpu.power.draw", "gpu.index=0"), ("gpu.interconnect.io", port)):
            self.assertLess(runs[0][name, words], runs[1][name, words], name)


class InTheAgent(unittest.TestCase):
    def test_values_names_and_absence(self):
        page = page_of({**{name: 0.5 for name in PROFILING}, "DCGM_FI_DEV_POWER_USAGE": 409.692,
                        "DCGM_FI_DEV_XID_ERRORS": 79, "DCGM_FI_DEV_MEMORY_TEMP": "9223372036854775794"})
        with serve(page) as (url, served):
            config = f"interval: 200ms\ntargets: [{{name: dcgm, kind: dcgm, url: '{url}', interval: 200ms, ttl: 30s}}]\n"
            with Agent(config=config) as agent:
                wait_until(lambda: value(agent.page(), "gpu_power_draw_watts", gpu_uuid="GPU-e2e") == 409.692)
                text = agent.page()
                for name in PROFILING.values():
                    self.assertEqual(value(text, name, gpu_index="0"), 0.5, name)
                self.assertEqual(value(text, "gpu_xid_last_error_code"), 79)
                self.assertEqual(samples(text, "gpu_temperature_celsius"), [])
                self.assertEqual([s for s in samples(text) if s.name.startswith("DCGM_")], [])
                self.assertEqual(value(text, "gpulens_scrape_up", target="dcgm"), 1)
                served[0] = page_of({"DCGM_FI_DEV_BOARD_POWER_WATTS": 300})
                wait_until(lambda: value(agent.page(), "gpu_power_draw_watts", gpu_uuid="GPU-e2e") == 300)
                self.assertEqual(samples(agent.page(), "gpu_sm_active_ratio"), [], "gone with its line")

    def test_without_targets_nothing_is_scraped(self):
        with Agent(config="interval: 200ms\n") as agent:
            wait_until(lambda: value(agent.page(), "gpulens_ready") == 1)
            self.assertEqual(samples(agent.page(), "gpulens_scrape_up"), [])

    def test_an_exporter_on_this_machine_is_found(self):
        page = page_of({name: 0.5 for name in PROFILING}).encode()
        with own_network(), HttpStub(lambda *_: (200, {"Content-Type": "text/plain; version=0.0.4"}, page), 9400), \
                Agent(environment={"GPULENS_DISCOVERY_LOCAL_ENABLED": "true"}) as agent:  # fmt: skip
            wait_until(lambda: value(agent.page(), "gpu_sm_active_ratio", gpu_uuid="GPU-e2e") == 0.5, what="its readings")
            self.assertEqual([s.value for s in samples(agent.page(), "gpulens_scrape_up")], [1])

    def test_passed_on_unchanged_when_configured(self):
        with serve(page_of({"DCGM_FI_DEV_POWER_USAGE": 1, "some_new_family": 7})) as (url, _):
            config = f"interval: 200ms\ntargets: [{{name: a, kind: gpu, url: '{url}', interval: 200ms, pass_through: true}}]\n"
            with Agent(config=config) as agent:
                wait_until(lambda: value(agent.page(), "some_new_family", target="a") == 7)
                self.assertEqual(value(agent.page(), "gpulens_scrape_families_unknown", target="a"), 1)
                self.assertEqual(samples(agent.page(), "DCGM_FI_DEV_POWER_USAGE"), [])

    def test_one_gpu_read_twice_is_shown_once(self):
        config, environment = nvidia_config("a100.yaml", interval="200ms")  # Before Hopper the driver has no profiling.
        with serve("") as (url, served):
            config += f"targets: [{{name: dcgm, kind: dcgm, url: '{url}', interval: 200ms, ttl: 30s}}]\n"
            with Agent(config=config, environment=environment) as agent:
                uuid = wait_until(lambda: next((s.labels["gpu_uuid"] for s in samples(agent.page(), "gpu_power_draw_watts", gpu_index="0")), ""))
                labels = f'gpu="0",UUID="{uuid}",modelName="other",pod="train"'
                served[0] = page_of({"DCGM_FI_DEV_POWER_USAGE": 1.5, "DCGM_FI_PROF_DRAM_ACTIVE": 0.25}, labels)
                wait_until(lambda: value(agent.page(), "gpu_dram_active_ratio", gpu_uuid=uuid) == 0.25)
                draws = samples(agent.page(), "gpu_power_draw_watts", gpu_uuid=uuid)
                self.assertEqual(len(draws), 1, "the driver's reading alone")
                self.assertNotEqual(draws[0].value, 1.5)
                wait_until(lambda: (value(agent.page(), "gpulens_series_refused_total", collector="targets/dcgm", reason="duplicate") or 0) >= 1)


if __name__ == "__main__":
    unittest.main()
