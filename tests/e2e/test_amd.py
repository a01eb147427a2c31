"""AMD GPUs against the simulated libamd_smi.so, through the real reader process: values, absence, faults."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from agent import BINARY, Agent, processes_below, samples, value, wait_until

LIBRARY = BINARY.resolve().parent / "fake_amdsmi" / "libamd_smi.so"


def profile_file(case, text):
    handle, path = tempfile.mkstemp(suffix=".yaml")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    case.addCleanup(os.unlink, path)
    return path


def replace(path, text):
    fresh = path + ".new"
    pathlib.Path(fresh).write_text(text, encoding="utf-8")
    os.replace(fresh, path)


def collect(*arguments, profile=None, check=True):
    """The output of `gpulens collect … --once --sink stdout` as (entity, reading) pairs."""
    environment = dict(os.environ, **({"GPULENS_FAKE_AMDSMI": profile} if profile else {}))
    done = subprocess.run([str(BINARY), "collect", *arguments, "--once", "--sink", "stdout"], env=environment,
                          capture_output=True, text=True, timeout=60, check=False)
    if check and done.returncode != 0:
        raise AssertionError(done.stderr)
    return [(part["entity"], reading) for part in json.loads(done.stdout or "[]") for reading in part["readings"]]


def amd(profile):
    return collect("amd", "-o", f"library={LIBRARY}", profile=profile)


def readings(pairs, name):
    """Values of that name on the host or on GPU 0."""
    return [reading["value"] for entity, reading in pairs
            if reading["name"] == name and entity.get("gpu.index", 0) == 0]


def config(interval="200ms", ttl="10s"):
    return f"collectors: {{amd: {{library: {LIBRARY}, interval: {interval}, ttl: {ttl}}}}}\ninterval: {interval}\n"


class Once(unittest.TestCase):
    def test_an_mi300x_is_exported_unchanged(self):
        path = profile_file(self, "model: MI300X\ngpus: 8\nload: {level: 0.5}\nxgmi_share: 0.5\n"
                                  "ecc:\n  - {gpu: 0, block: umc, type: uncorrectable, amount: 2}\n")
        pairs = amd(path)
        self.assertEqual(readings(pairs, "gpu.devices"), [8])
        self.assertEqual(readings(pairs, "gpu.utilization"), [0.5])
        self.assertEqual(readings(pairs, "gpu.power.draw"), [431])
        sensors = {r["attributes"]["gpu.temperature.sensor"]: r["value"] for e, r in pairs
                   if r["name"] == "gpu.temperature" and e.get("gpu.index") == 0}
        self.assertEqual(sensors, {"hotspot": 58, "memory": 53}, "no edge, and none made up")
        links = [(r["attributes"]["gpu.interconnect.link_index"], r["value"]) for e, r in pairs
                 if r["name"] == "gpu.interconnect.throughput" and e.get("gpu.index") == 0
                 and r["attributes"]["gpu.interconnect.direction"] == "transmit"]
        self.assertEqual([index for index, _ in links], list(range(7)))
        for _, rate in links:
            # Half of the full rate at half load; a stalled machine may shift the readings a little.
            self.assertAlmostEqual(rate / (62.5e6 * 1024 * 0.25), 1, delta=0.5)
        blocks = {r["attributes"]["gpu.ecc.memory_block"]: r["value"] for e, r in pairs if e.get("gpu.index") == 0
                  and r["name"] == "gpu.ecc.errors" and r["attributes"]["gpu.ecc.error_type"] == "uncorrectable"}
        self.assertEqual(blocks, {"umc": 2, "sdma": 0, "gfx": 0, "mmhub": 0, "vcn": 0})

    def test_every_version_of_the_library(self):
        for version in ("24.6.3", "25.3.0", "26.2.1"):
            path = profile_file(self, f"version: {version}\ngpus: 1\nload: {{level: 0.5}}\n")
            pairs = amd(path)
            self.assertEqual(readings(pairs, "gpu.power.draw"), [431], version)
            models = {e.get("gpu.model") for e, r in pairs if r["name"] == "gpu.power.draw"}
            self.assertEqual(models, {"AMD Instinct MI300X"})

    # Readings that a dashboard queries for a GPU of any vendor: name, and one attribute where it matters.
    CORE = [("gpu.utilization", "compute"), ("gpu.memory.utilization", "memory_controller"), ("gpu.memory.total", None),
            ("gpu.memory.used", None), ("gpu.memory.free", None), ("gpu.memory.used.percent", None),
            ("gpu.power.draw", None), ("gpu.power.limit", "enforced"), ("gpu.power.utilization", None),
            ("gpu.energy.consumption", None), ("gpu.temperature", "memory"), ("gpu.clock.frequency", "graphics"),
            ("gpu.clock.frequency", "memory"), ("gpu.pcie.link.gen.current", None), ("gpu.pcie.link.width.current", None),
            ("gpu.pcie.replay.count", None), ("gpu.ecc.errors", "correctable"), ("gpu.ecc.errors", "uncorrectable"),
            ("gpu.throttle.reason", "power_software"), ("gpu.throttle.reason", "temp_software"),
            ("gpu.throttle.reason", "temp_hardware"), ("gpu.interconnect.throughput", "receive"),
            ("gpu.interconnect.throughput", "transmit"), ("gpu.interconnect.links", "active"), ("gpu.processes", None),
            ("gpu.process.memory.used", None), ("gpu.process.memory.peak", None), ("gpu.info", None), ("gpu.state", "ok"),
            ("gpu.sample.age", None), ("gpu.devices", None), ("gpu.driver.info", None)]

    def test_both_vendors_have_the_core_metrics(self):
        sides = {"nvidia": ("nvidia", "--demo"), "amd": ("amd", "-o", "library=simulated")}
        units = {}
        for vendor, arguments in sides.items():
            # A busy machine may read the counters of links only once in the time of a run: then they have no rate.
            for _ in range(3):
                pairs, exported = collect(*arguments), {}
                for _, reading in pairs:
                    for attribute in [None, *reading.get("attributes", {}).values()]:
                        exported.setdefault((reading["name"], attribute), reading)
                missing = [core for core in self.CORE if core not in exported]
                if not missing:
                    break
            self.assertEqual(missing, [], vendor)
            units[vendor] = {core: exported[core]["unit"] for core in self.CORE}
            shares = [r["value"] for _, r in pairs if r["unit"] == "1"]
            self.assertTrue(all(0 <= share <= 1.5 for share in shares), vendor)
        self.assertEqual(units["nvidia"], units["amd"])

    def test_simulated_gpus_are_marked(self):
        pairs = collect("amd", "-o", "library=simulated")
        self.assertTrue(all(e.get("simulated") is True for e, r in pairs if r["name"] == "gpu.power.draw"))
        self.assertFalse(any(e.get("simulated") for e, r in amd(profile_file(self, "gpus: 1\n"))))


class Faults(unittest.TestCase):
    """Whatever becomes of the reader process, pages go on, and nothing on them is older than the TTL."""

    EIGHT = "model: MI300X\ngpus: 8\nload: {level: 0.5}\n"

    def setUp(self):
        self.profile = profile_file(self, self.EIGHT)

    def agent(self, **options):
        return Agent(config=config(**options), environment={"GPULENS_FAKE_AMDSMI": self.profile})

    def until(self, agent, question, what):
        return wait_until(lambda: question(agent.page()), 20, what)

    def test_a_lost_gpu_is_lost_alone_and_comes_back(self):
        with self.agent() as agent:
            self.until(agent, lambda p: len(samples(p, "gpu_power_draw_watts")) == 8, "8 GPUs")
            replace(self.profile, self.EIGHT + "lost:\n  - {gpu: 3}\n")
            lost = lambda p: value(p, "gpu_state", gpu_index="3", gpu_state="lost") == 1
            page = self.until(agent, lambda p: p if lost(p) else "", "the lost GPU")
            self.assertEqual(value(page, "gpu_state", gpu_index="2", gpu_state="ok"), 1)
            replace(self.profile, self.EIGHT)
            self.until(agent, lambda p: value(p, "gpu_state", gpu_index="3", gpu_state="ok") == 1, "its return")

    def test_a_hanging_gpu_does_not_hold_up_the_others(self):
        with self.agent() as agent:
            self.until(agent, lambda p: len(samples(p, "gpu_power_draw_watts")) == 8, "8 GPUs")
            replace(self.profile, self.EIGHT + "hangs:\n  - {gpu: 5, call: amdsmi_get_temp_metric}\n")
            self.until(agent, lambda p: value(p, "gpu_state", gpu_index="5", gpu_state="hung") == 1, "the hang")
            before = value(agent.page(), "gpu_energy_consumption_joules_total", gpu_index="4")
            self.until(agent, lambda p: value(p, "gpu_energy_consumption_joules_total", gpu_index="4") > before,
                       "a newer reading of another")
            replace(self.profile, self.EIGHT)

    def test_a_killed_driver_is_started_again(self):
        with self.agent() as agent:
            self.until(agent, lambda p: len(samples(p, "gpu_power_draw_watts")) == 8, "8 GPUs")
            pid = wait_until(lambda: amd_reader_pid(agent), 10, "the reader process")
            os.kill(pid, signal.SIGKILL)
            self.until(agent, lambda p: value(p, "gpulens_reader_starts_total", reader="amdsmi", reason="killed") == 1,
                       "the restart")
            self.until(agent, lambda p: value(p, "gpulens_collector_up", collector="amd") == 1, "the recovery")

    def test_a_missing_library_is_a_reason(self):
        text = "collectors: {amd: {library: /nowhere/libamd_smi.so}}\ninterval: 200ms\n"
        with Agent(config=text) as agent:
            up = lambda p: value(p, "gpulens_collector_errors_total", collector="amd", code="unavailable")
            self.until(agent, up, "the error")
            self.assertEqual(value(agent.page(), "gpulens_collector_up", collector="amd"), 0)


def amd_reader_pid(agent):
    """The pid of the AMD reader process below the agent, or None."""
    below = processes_below(agent.process.pid)
    return next((pid for pid, words in below.items() if words[1:3] == ["reader", "amdsmi"]), None)


if __name__ == "__main__":
    unittest.main()
