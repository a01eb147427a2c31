"""MIG instances, processes and the release of all GPUs, on the real program over the simulated library."""
import os
import subprocess
import tempfile
import unittest

from agent import Agent, BINARY, nvidia_config, samples, value, wait_until


def profile_file(text):
    handle, path = tempfile.mkstemp(suffix=".yaml")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    return path


class Mig(unittest.TestCase):
    def test_instances_are_exported_once(self):
        config, environment = nvidia_config("mig_table.yaml", interval="200ms")
        with Agent(config=config, environment=environment) as agent:
            page = wait_until(lambda: (lambda p: p if len(samples(p, "gpu_sm_active_ratio")) == 3 else "")(agent.page()),
                              20, "GPM of two instances and of a whole GPU")
            self.assertEqual(samples(page, "gpu_sm_active_ratio", gpu_index="0", gpu_mig_instance_id=""), [])
            self.assertFalse([s for s in samples(page, "gpu_sm_active_ratio", gpu_index="0") if "gpu_mig_instance_id" not in s.labels])
            self.assertEqual(samples(page, "gpu_utilization_ratio", gpu_index="0"), [], "absent on the parent")
            self.assertEqual(value(page, "gpu_mig_instances", gpu_index="0", gpu_mig_instance_type="gpu"), 2)
            names = [(s.name, tuple(sorted(s.labels.items()))) for s in samples(page)]
            self.assertEqual(len(names), len(set(names)), "no series occurs twice, under any names")
            used = [s.value for s in samples(page, "zernel_gpu_memory_used_bytes", pid="91000")]
            self.assertEqual(sorted(used), [2 * 2**30, 8 * 2**30])


class EventThread(unittest.TestCase):
    def test_its_hang_is_reported_and_gpus_are_still_read(self):
        folder = tempfile.mkdtemp(prefix="gpulens-control-")
        socket = os.path.join(folder, "gpulens.sock")
        self.addCleanup(os.rmdir, folder)
        config, environment = nvidia_config(
            profile_file("model: H100\ngpus: 2\nhangs:\n  - {call: nvmlEventSetWait_v2}\n"), interval="500ms")
        with Agent(config=config + f"control: {{socket: {socket}}}\n", environment=environment) as agent:
            wait_until(lambda: value(agent.page(), "gpulens_reader_calls_hung", reader="nvml") == 1, 20, "the hang")
            page = agent.page()
            self.assertEqual(len(samples(page, "gpu_power_draw_watts")), 2)
            self.assertEqual(value(page, "gpulens_reader_up", reader="nvml"), 1)
            doctor = subprocess.run([str(BINARY), "doctor", "--config", str(agent.config)], capture_output=True, text=True,
                                    env={**os.environ, **environment}, timeout=60)
            self.assertIn("nvmlEventSetWait_v2 has not returned", doctor.stdout)
            self.assertEqual(doctor.returncode, 2)


class Release(unittest.TestCase):
    def order(self, socket, *words):
        return subprocess.run([str(BINARY), "gpu", *words, "--socket", socket], capture_output=True, text=True, timeout=60)

    def test_released_and_resumed(self):
        folder = tempfile.mkdtemp(prefix="gpulens-control-")
        socket = os.path.join(folder, "gpulens.sock")
        self.addCleanup(os.rmdir, folder)
        config, environment = nvidia_config("h100_busy.yaml", interval="200ms", ttl="1s")
        with Agent(config=config + f"control: {{socket: {socket}}}\n", environment=environment) as agent:
            wait_until(lambda: samples(agent.page(), "gpu_power_draw_watts"), 20, "GPU values")
            wait_until(agent.reader_pid, what="the reader process")
            done = self.order(socket, "release", "--for", "10m")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("released for", done.stdout)
            self.assertIsNone(agent.reader_pid(), "when the command returns no process has a GPU open")
            wait_until(lambda: value(agent.page(), "gpulens_reader_up", reader="nvml") == 0)
            wait_until(lambda: not samples(agent.page(), "gpu_power_draw_watts"), 20, "the end of old values")
            self.assertEqual(value(agent.page(), "gpulens_collector_up", collector="nvidia"), 0)
            doctor = subprocess.run([str(BINARY), "doctor", "--config", str(agent.config)], capture_output=True, text=True,
                                    env={**os.environ, **environment}, timeout=60)
            self.assertIn("gpulens gpu resume", doctor.stdout)
            done = self.order(socket, "resume")
            self.assertEqual(done.returncode, 0, done.stderr)
            wait_until(lambda: samples(agent.page(), "gpu_power_draw_watts"), 20, "GPU values again")
            self.assertEqual(value(agent.page(), "gpulens_reader_starts_total", reader="nvml", reason="reload"), 1)

    def test_a_release_ends_by_itself(self):
        folder = tempfile.mkdtemp(prefix="gpulens-control-")
        socket = os.path.join(folder, "gpulens.sock")
        self.addCleanup(os.rmdir, folder)
        config, environment = nvidia_config("h100_busy.yaml", interval="200ms")
        with Agent(config=config + f"control: {{socket: {socket}}}\n", environment=environment) as agent:
            wait_until(lambda: samples(agent.page(), "gpu_power_draw_watts"), 20, "GPU values")
            self.assertEqual(self.order(socket, "release", "--for", "1s").returncode, 0)
            wait_until(lambda: value(agent.page(), "gpulens_reader_starts_total", reader="nvml", reason="reload") == 1)

    def test_wrong_orders(self):
        self.assertEqual(self.order("/nowhere/gpulens.sock", "release").returncode, 1)
        self.assertEqual(self.order("/nowhere/gpulens.sock", "release", "--for", "soon").returncode, 2)
        self.assertEqual(subprocess.run([str(BINARY), "gpu"], capture_output=True, timeout=60).returncode, 2)


if __name__ == "__main__":
    unittest.main()
