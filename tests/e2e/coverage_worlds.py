"""Machines with simulated GPUs of every kind, all options on, for tests of what is exported at all."""
import concurrent.futures
import os
import pathlib
import shutil
import tempfile

from agent import BINARY, ROOT, Agent, fake_library, samples, wait_until
from http_stub import serve_page

AMD_LIBRARY = BINARY.resolve().parent / "fake_amdsmi" / "libamd_smi.so"
HL_SMI = ROOT / "tests" / "fake_hl_smi" / "hl-smi"
DCGM = 'gpu="0",UUID="GPU-dcgm",pci_bus_id="00000000:F4:00.0",device="nvidia0",modelName="NVIDIA H100",Hostname="n"'
PROFILING = ("SM_ACTIVE", "SM_OCCUPANCY", "GR_ENGINE_ACTIVE", "DRAM_ACTIVE", "PIPE_TENSOR_ACTIVE", "PIPE_FP64_ACTIVE",
             "PIPE_FP32_ACTIVE", "PIPE_FP16_ACTIVE", "PIPE_INT_ACTIVE", "NVDEC0_ACTIVE")


def dcgm_page():
    values = {f"DCGM_FI_PROF_{name}": 0.25 for name in PROFILING}
    values |= {"DCGM_FI_PROF_NVLINK_TX_BYTES": 11, "DCGM_FI_PROF_NVLINK_RX_BYTES": 12, "DCGM_FI_PROF_PCIE_TX_BYTES": 13,
               "DCGM_FI_PROF_PCIE_RX_BYTES": 14, "DCGM_FI_PROF_HOSTMEM_CACHE_HIT": 40, "DCGM_FI_DEV_POWER_USAGE": 300,
               "DCGM_FI_PROF_SM_CYCLES_ELAPSED_TOTAL": 1e9, "DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL": 1e8,
               "DCGM_FI_DEV_PWR_SMOOTHING_ENABLED": 1, "DCGM_FI_DEV_NVLINK_BANDWIDTH_L0": 100}
    lines = [f"# TYPE {name} gauge\n{name}{{{DCGM}}} {number}\n" for name, number in values.items()]
    for name, number in (("TEMPERATURE_CURRENT", 41), ("LINK_FATAL_ERRORS", 0)):
        lines.append(f'DCGM_FI_DEV_NVSWITCH_{name}{{nvswitch="nvswitch0",nvlink="3",Hostname="n"}} {number}\n')
    lines.append('DCGM_FI_DEV_FB_USED{' + DCGM.replace("GPU-dcgm", "GPU-split") +
                 ',GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"} 5\n')
    return "".join(lines)


def serve(text):
    return serve_page(lambda: text)


NVIDIA_OPTIONS = "serial: true, links: true, topology: true, details: true, clock_events: true, process_events: true"
# Profiles of the simulated NVML, one agent each: boards differ in their readings.
NVIDIA = {
    "h100": """
model: H100
gpus: 4
load: {kind: sine, level: 0.7, amplitude: 0.2, period: 10}
nvlink_share: 0.5
pcie_share: 0.2
processes:
  - {gpu: 1, pid: 92000, memory: 4GiB, sm: 55, encoder: 7}
faults:
  - {gpu: 0, counter: ecc_corrected, amount: 4, from: 2}
xids:
  - {gpu: 1, code: 79, at: 2}
""",
    "mig": (ROOT / "tests/fake_nvml/profiles/mig_table.yaml").read_text(),
    "a100": "model: A100\ngpus: 2\nload: {kind: constant, level: 0.5}\n",
    "l4": "model: L4\ngpus: 2\nfans: 2\nload: {kind: constant, level: 0.5}\nvgpus:\n"
          "  - {gpu: 0, id: 7, vm: vm-7, memory: 4GiB, sm: 35, memory_use: 10}\n",
    "gb200": "model: GB200\ngpus: 2\nnuma_node: 2\nload: {kind: constant, level: 0.85}\n",
    "unified": "model: GB200\ngpus: 2\nnuma_node: 0\nunified_only: true\nload: {kind: constant, level: 0.5}\n",
    "b200": "model: B200\ngpus: 2\nload: {kind: constant, level: 0.5}\n",
}
# The size of unified memory comes from a NUMA node of the machine that the test runs on.
NODE = pathlib.Path("/sys/devices/system/node/node0/meminfo")
# Readings that take more than one round.
MARKS = {"mig": ["gpu_sm_active_ratio", "gpu_mig_memory_used_bytes"], "l4": ["gpu_vgpu_utilization_ratio"],
         "gb200": ["gpu_c2c_throughput_bytes_per_second"], "unified": ["gpu_memory_unified_used_bytes"] if NODE.exists() else []}
LOG = ("amdgpu 0000:c1:00.0: amdgpu: 3 uncorrectable hardware errors detected in umc block",
       "nvidia-nvswitch0: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 30 LTSSM Fault Up")


class Worlds:
    """The pages of all of them: `pages[name]` is the text of one agent, in native, l9gpu's and DCGM's words."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-worlds-"))
        self.pages = {}

    def run(self):
        try:
            with serve(dcgm_page()) as url, concurrent.futures.ThreadPoolExecutor(3) as pool:
                others, radeon = pool.submit(self.others), pool.submit(self.radeon)
                made = {name: pool.submit(self.nvidia, name, profile, url if name == "h100" else None)
                        for name, profile in NVIDIA.items()}
                self.pages = {name: page.result() for name, page in {**made, "others": others, "radeon": radeon}.items()}
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        return self.pages

    @staticmethod
    def settled(agent, marks):
        """The page once it shows what takes longest: rates, and what is read every ten seconds."""
        def page():
            text = agent.page()
            left[:] = [mark for mark in marks if not samples(text, mark)]
            return "" if left else text
        left = []
        try:
            return wait_until(page, 180)
        except AssertionError:
            raise AssertionError(f"not exported: {left}; {agent.log_text()}") from None

    def nvidia(self, name, profile, url):
        path = self.folder / f"{name}.yaml"
        path.write_text(profile)
        log = self.folder / f"{name}.log"
        log.touch()
        dcgm = f"targets: [{{name: dcgm, kind: dcgm, url: '{url}', interval: 200ms, ttl: 30s}}]\n" if url else ""
        kernel = f", kernel_log: {{source: file, path: {log}, interval: 100ms}}" if url else ""
        config = (f"interval: 200ms\nstate_dir: {self.folder}/{name}\n"
                  f"collectors: {{nvidia: {{library: {fake_library()}, interval: 200ms, expected: 8, {NVIDIA_OPTIONS}}}"
                  f"{kernel}}}\n{dcgm}analyzers: {{fleet_health: {{window: 60s}}, cost: {{price_per_gpu_hour: 2.49, co2_grams_per_kwh: 400}}}}\n"
                  "sinks: {prometheus: {names: [native, l9gpu, dcgm]}}\n")
        with Agent(config=config, environment={"GPULENS_FAKE_NVML": str(path)}) as agent:
            marks = ["gpu_power_draw_watts", "gpu_info", *MARKS.get(name, ())]
            if url:
                wait_until(lambda: samples(agent.page(), "gpu_xid_last_error_code"), 30, "the XID")
                with log.open("a") as file:
                    file.write("".join(f"[   12.345678] {line}\n" for line in LOG))
                marks += ["gpu_interconnect_throughput_bytes_per_second", "nvswitch_sxid_errors_total", "gpu_health_score_ratio",
                          "gpu_sm_active_ratio", "gpu_process_utilization_ratio", "gpu_thermal_ramp_rate_celsius_per_min",
                          "nvswitch_temperature_celsius", "gpu_sampled_power_watts"]
            return self.settled(agent, marks)

    def others(self):
        path = self.folder / "amd.yaml"
        path.write_text("model: MI300X\ngpus: 2\nload: {level: 0.5}\nxgmi_share: 0.5\n"
                        "ecc:\n  - {gpu: 0, block: umc, type: uncorrectable, amount: 2}\n"
                        "processes:\n  - {gpu: 0, pid: 77, memory: 1GiB}\n")
        config = (f"interval: 200ms\ncollectors: {{amd: {{library: {AMD_LIBRARY}, interval: 200ms, serial: true, engines: true}}, "
                  f"gaudi: {{hl_smi_path: {HL_SMI}, interval: 1s, ttl: 60s}}}}\n"
                  "sinks: {prometheus: {names: [native, l9gpu, dcgm]}}\n")
        environment = {"GPULENS_FAKE_AMDSMI": str(path), "FAKE_HL_SMI_STATE": str(self.folder / "state.hl")}
        with Agent(config=config, environment=environment) as agent:
            return self.settled(agent, ["gpu_power_draw_watts", "gpu_row_remap_pending", "gpu_interconnect_throughput_bytes_per_second",
                                        "gpu_ecc_errors_total", "gpu_energy_estimate_joules_total"])

    def radeon(self):
        path = self.folder / "radeon.yaml"
        path.write_text("model: RX7900\ngpus: 1\nload: {level: 0.25}\n")
        config = f"interval: 200ms\ncollectors: {{amd: {{library: {AMD_LIBRARY}, interval: 200ms}}}}\n"
        with Agent(config=config, environment={"GPULENS_FAKE_AMDSMI": str(path)}) as agent:
            return self.settled(agent, ["gpu_power_draw_watts", "gpu_voltage_volts"])


_PAGES = None


def all_pages():
    """Made once for all tests of a program."""
    global _PAGES
    if _PAGES is None:
        try:
            _PAGES = Worlds().run()
        except AssertionError as error:
            _PAGES = error
    if isinstance(_PAGES, AssertionError):
        raise _PAGES
    return _PAGES
