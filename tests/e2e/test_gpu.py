"""GPU series against the simulated libnvidia-ml.so.1, through the real reader process: values, absence, faults."""
import os
import pathlib
import signal
import tempfile
import unittest

from agent import Agent, nvidia_config, samples, value, wait_until


def agent_with(profile, **options):
    config, environment = nvidia_config(profile, **options)
    return Agent(config=config, environment=environment)


def profile_file(text):
    handle, path = tempfile.mkstemp(suffix=".yaml")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    return path


def first_values(agent):
    return wait_until(lambda: (lambda p: p if samples(p, "gpu_utilization_ratio") else "")(agent.page()), 10, "GPU values")


class Values(unittest.TestCase):
    def test_seven_idle_and_one_busy(self):
        profile = profile_file("model: H100\ngpus: 8\nload: {kind: constant, level: 0}\n"
                               "each:\n  - {gpu: 3, load: {kind: constant, level: 0.9}}\n")
        self.addCleanup(os.unlink, profile)
        with agent_with(profile, interval="200ms") as agent:
            page = wait_until(lambda: (lambda p: p if value(p, "gpu_utilization_max_ratio") else "")(agent.page()))
            self.assertAlmostEqual(value(page, "gpu_utilization_max_ratio"), 0.9, places=6)
            self.assertEqual(value(page, "gpu_utilization_min_ratio"), 0)
            self.assertAlmostEqual(value(page, "gpu_utilization_avg_ratio"), 0.1125, places=6)

    def test_unsupported_readings_are_absent(self):
        with agent_with("h100_idle.yaml", interval="200ms") as agent:
            page = first_values(agent)
            self.assertEqual(samples(page, "gpu_fan_speed_ratio"), [], "passively cooled")
            self.assertEqual(samples(page, "gpu_memory_unified_total_bytes"), [])
        with agent_with("no_ecc.yaml", interval="200ms") as agent:
            self.assertEqual(samples(first_values(agent), "gpu_ecc_errors_total"), [])

    def test_models(self):
        for profile, model, memory in (("a100.yaml", "A100", 40), ("h200.yaml", "H200", 140), ("b200.yaml", "B200", 170),
                                       ("gb200.yaml", "GB200", 180), ("l4.yaml", "L4", 22)):
            with agent_with(profile, interval="200ms") as agent:
                page = first_values(agent)
                info = samples(page, "gpu_info")[0]
                self.assertIn(model, info.labels["gpu_model"])
                self.assertGreaterEqual(samples(page, "gpu_memory_total_bytes")[0].value, memory * 2**30)
                # l4.yaml adds fans that a real L4 does not have; the others are cooled passively.
                self.assertEqual(bool(samples(page, "gpu_fan_speed_ratio")), model == "L4")
                unified = bool(samples(page, "gpu_memory_unified_total_bytes"))
                self.assertEqual(unified, model == "GB200")

    def test_the_memory_of_a_gb10_is_the_machines(self):
        with open("/proc/meminfo", encoding="ascii") as file:
            total = int(file.readline().split()[1]) * 1024
        for profile in ("gb10.yaml", "gb10_system_memory.yaml"):
            with self.subTest(profile=profile), agent_with(profile, interval="200ms") as agent:
                page = first_values(agent)
                self.assertEqual(value(page, "gpu_memory_unified_total_bytes"), total)
                self.assertLess(value(page, "gpu_memory_unified_used_bytes"), total)
                self.assertEqual(samples(page, "gpu_memory_total_bytes") + samples(page, "gpu_memory_used_bytes"), [])

    def test_energy_is_the_integral_of_power_and_a_counter(self):
        with agent_with("h100_busy.yaml", interval="200ms") as agent:
            first_values(agent)
            page = agent.page()
            self.assertIn("# TYPE gpu_energy_consumption_joules_total counter", page)
            first = value(page, "gpu_energy_consumption_joules_total", gpu_index="0")
            grown = wait_until(lambda: (value(agent.page(), "gpu_energy_consumption_joules_total", gpu_index="0") or 0) - first > 300, 10)
            self.assertTrue(grown)

    def test_ecc_counters_are_0_before_the_first_error(self):
        with agent_with("h100_idle.yaml", interval="200ms") as agent:
            page = first_values(agent)
            self.assertIn("# TYPE gpu_ecc_errors_total counter", page)
            for kind in ("correctable", "uncorrectable"):
                self.assertEqual(value(page, "gpu_ecc_errors_total", gpu_index="0", gpu_ecc_error_type=kind,
                                       gpu_ecc_count_type="volatile"), 0)


class Faults(unittest.TestCase):
    """Whatever becomes of the reader process, pages go on, and nothing on them is older than the TTL."""

    def assert_host_goes_on(self, agent):
        self.assertEqual(agent.get("/health").text, b"ok")
        self.assertEqual(value(agent.page(), "gpulens_collector_up", collector="host"), 1)

    def test_a_killed_driver_is_started_again(self):
        with agent_with("h100_busy.yaml", interval="100ms") as agent:
            first_values(agent)
            os.kill(wait_until(agent.reader_pid), signal.SIGKILL)
            wait_until(lambda: (value(agent.page(), "gpulens_reader_starts_total", reason="killed") or 0) +
                       (value(agent.page(), "gpulens_reader_starts_total", reason="crash") or 0) >= 1)
            wait_until(lambda: value(agent.page(), "gpulens_collector_up", collector="nvidia") == 1)
            self.assert_host_goes_on(agent)

    def test_a_stopped_driver_is_killed_and_started_again(self):
        with agent_with("h100_busy.yaml", interval="100ms") as agent:
            first_values(agent)
            pid = wait_until(agent.reader_pid)
            os.kill(pid, signal.SIGSTOP)
            wait_until(lambda: agent.reader_pid() not in (None, pid), 30, "another reader process")
            wait_until(lambda: value(agent.page(), "gpulens_collector_up", collector="nvidia") == 1)
            self.assert_host_goes_on(agent)

    def test_values_age_visibly_then_vanish(self):
        config, environment = nvidia_config("hang_all.yaml", interval="100ms", ttl="2s")
        with Agent(config=config, environment=environment) as agent:
            first_values(agent)
            stale = wait_until(lambda: [s for s in samples(agent.page(), "gpu_power_draw_watts") if s.timestamp], 15, "a dated value")
            self.assertTrue(all(s.timestamp for s in stale))
            wait_until(lambda: not samples(agent.page(), "gpu_power_draw_watts"), 10, "their end")
            self.assert_host_goes_on(agent)

    def test_one_hanging_gpu_leaves_the_others_fresh(self):
        with agent_with("hang.yaml", interval="500ms") as agent:
            first_values(agent)
            wait_until(lambda: value(agent.page(), "gpu_state", gpu_index="3", gpu_state="hung") == 1, 20, "GPU 3 to be called hung")
            page = agent.page()
            for gpu in map(str, (0, 1, 2, 4, 5, 6, 7)):
                self.assertLessEqual(value(page, "gpu_sample_age_seconds", gpu_index=gpu), 2 * 0.5 + 0.25)
                self.assertIsNotNone(value(page, "gpu_power_draw_watts", gpu_index=gpu))
            self.assertEqual(value(page, "gpulens_collector_up", collector="nvidia"), 1)
            self.assertGreaterEqual(value(page, "gpulens_reader_calls_hung", reader="nvml"), 1)

    def test_a_missing_library_is_reported_and_nothing_is_invented(self):
        config = "collectors: {nvidia: {library: /nowhere/libnvidia-ml.so.1}}\ninterval: 200ms\n"
        with Agent(config=config) as agent:
            wait_until(lambda: value(agent.page(), "gpulens_collector_errors_total", collector="nvidia", code="unavailable"))
            page = agent.page()
            self.assertEqual(value(page, "gpulens_collector_up", collector="nvidia"), 0)
            self.assertEqual([s for s in samples(page) if s.name.startswith("gpu_")], [])


if __name__ == "__main__":
    unittest.main()
