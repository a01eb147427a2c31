"""The levels of metrics: how many series each sink has, state sets as one series, identity on the info series."""
import collections
import json
import pathlib
import tempfile
import unittest

from agent import Agent, samples, value, wait_until
import otlp_receiver
import remote_write_receiver
from test_command_line import run

# Series of one GPU, of the agent itself, and of the host, as docs/cardinality.md promises them for the default
# configuration on a machine with two disks and three network interfaces.
BUDGETS = {"essential": (25, 10, 25), "standard": (65, 46, 60)}


def counts(page):
    groups = collections.Counter()
    for sample in samples(page):
        if sample.name.startswith(("gpulens_", "process_", "target_info")):
            groups["agent"] += 1
        elif sample.name.startswith(("host_", "system_")):
            groups["host"] += 1
        elif sample.name.startswith(("gpu_", "energy_ledger_", "effective_compute_")) and sample.labels.get("gpu_index") == "0":
            groups["gpu"] += 1
    return groups["gpu"], groups["agent"], groups["host"]


class Levels(unittest.TestCase):
    def page(self, level):
        with Agent("--demo", config=f"metrics: {level}\n") as agent:
            # Series that need a second reading come last.
            last = ("gpu_health_state", "gpu_sm_active", "zernel_scheduler_tasks{") + (() if level == "essential" else ("gpu_interconnect_throughput",))
            wait_until(lambda: all(name in agent.page() for name in last), what="a second tick")
            return agent.page()

    def test_each_level_keeps_its_budget(self):
        pages = {level: self.page(level) for level in ("essential", "standard", "all")}
        for level, most in BUDGETS.items():
            seen = counts(pages[level])
            # Disks and interfaces differ between machines: host series are compared where they are few.
            self.assertLessEqual(seen[0], most[0], level)
            self.assertLessEqual(seen[1], most[1], level)
            self.assertGreater(seen[0], most[0] // 2, "a level that shows little is no level")
        # The names of others are complete at every level.
        zernel = {level: sum(sample.name.startswith("zernel_") for sample in samples(page)) for level, page in pages.items()}
        self.assertEqual(zernel["essential"], zernel["all"])
        self.assertGreater(zernel["all"], 0)

    def test_each_level_contains_the_one_below(self):
        with Agent("--demo", config="metrics: standard\n") as agent:
            def pages():
                return {level: samples(agent.get(f"/metrics?metrics={level}").text.decode()) for level in ("essential", "standard", "all")}

            def contained():
                # One agent, the lower level first: what appears between two requests is in the later page.
                names = {level: {sample.name for sample in page} for level, page in pages().items()}
                self.assertEqual(names["essential"] - names["standard"], set())
                self.assertEqual(names["standard"] - names["all"], set())
                return names["standard"]
            wait_until(lambda: "effective_compute_ratio" in contained(), what="the first window of the ledger")

    def test_states_and_identity(self):
        with Agent("--demo", config="metrics: standard\n") as agent:
            wait_until(lambda: samples(agent.page(), "gpu_health_state"), what="health")
            page = agent.page()
            for name in ("gpu_state", "gpu_health_state", "gpu_recovery_action", "gpu_fabric_state"):
                states = samples(page, name, gpu_index="0")
                self.assertEqual([(s.value, s.labels.get(name)) for s in states], [(1, states[0].labels[name])], name)
            power = samples(page, "gpu_power_draw_watts", gpu_index="0")[0]
            self.assertEqual(set(power.labels), {"gpu_index", "gpu_uuid", "simulated"})
            info = samples(page, "gpu_info", gpu_index="0")[0]
            self.assertEqual(info.labels["gpu_uuid"], power.labels["gpu_uuid"])
            self.assertIn("H100", info.labels["gpu_model"])
            self.assertIn("gpu_pci_bus_id", info.labels)
        full = self.page("all")
        self.assertGreater(len(samples(full, "gpu_state", gpu_index="0")), 2, "the whole set")
        self.assertIn("gpu_model", samples(full, "gpu_power_draw_watts", gpu_index="0")[0].labels)

    def test_checks_have_their_inputs_at_every_level(self):
        with Agent("--demo", config="metrics: essential\nsinks: {prometheus: {names: [dcgm], exclude: ['*']}}\n") as agent:
            url = f"http://127.0.0.1:{agent.port}"
            check_all = lambda: json.loads(run("check", "all", "--json", "--url", url).stdout)
            wait_until(lambda: "gpu_sm_active" in agent.get("/metrics?metrics=all").text.decode(), what="a second tick")
            codes = {one["name"]: one["status"] for one in check_all()["checks"]}
            with Agent("--demo", config="metrics: all\n") as full:
                url = f"http://127.0.0.1:{full.port}"
                wait_until(lambda: "gpu_sm_active" in full.page(), what="a second tick")
                self.assertEqual(codes, {one["name"]: one["status"] for one in check_all()["checks"]})
            self.assertEqual(codes["gpu_temperature"], "OK")
            page = agent.get("/metrics?metrics=all").text.decode()
            self.assertTrue(samples(page, "gpu_power_limit_watts"))
            self.assertEqual(agent.get("/metrics?metrics=some").status, 400)

    def test_each_sink_has_its_own_level(self):
        with tempfile.TemporaryDirectory(prefix="gpulens-levels-") as folder:
            path = pathlib.Path(folder, "metrics.jsonl")
            config = (f"metrics: essential\nsinks:\n  prometheus: {{names: [native, dcgm]}}\n"
                      f"  file: {{path: {path}, metrics: all}}\n")
            with Agent("--demo", config=config) as agent:
                wait_until(lambda: path.exists() and "gpu.sampled.power" in path.read_text(), what="a line of every level")
                page = agent.page()
            self.assertFalse(samples(page, "gpu_clock_frequency_MHz"))
            self.assertTrue(samples(page, "DCGM_FI_DEV_SM_CLOCK"), "dcgm's names have no levels")
            names = {json.loads(line)["name"] for line in path.read_text().splitlines()}
            self.assertIn("gpulens.sink.duration", names)

    def test_a_state_that_ends_is_ended_where_it_is_sent(self):
        with tempfile.TemporaryDirectory(prefix="gpulens-levels-") as folder, otlp_receiver.Receiver() as otlp, \
                remote_write_receiver.Receiver() as remote:
            socket = f"{folder}/socket"
            config = (f'metrics: standard\ncontrol: {{socket: {socket}}}\nsinks:\n'
                      f'  otlp: {{endpoint: "{otlp.url}", interval: 200ms, queue: {{storage: memory}}}}\n'
                      f'  remote_write: {{url: "{remote.url}", interval: 200ms, queue: {{storage: memory}}}}\n')

            def states():
                return {(a.get("gpu.state"), bool(point.flags & 1)) for request in otlp.requests
                        for a, point in request.points("gpu.state") if a.get("gpu.index") == 0}

            def series():
                return {(s.labels["gpu_state"], s.ended) for s in remote.samples("gpu_state") if s.labels["gpu_index"] == "0"}
            with Agent("--demo", config=config) as agent:
                wait_until(lambda: states() and series(), what="a state")
                self.assertEqual((states(), series()), ({("ok", False)}, {("ok", False)}))
                run("sim", "fail", "gpu=0", "mode=lost", "--socket", socket, code=0)
                wait_until(lambda: ("ok", True) in states() and ("ok", True) in series(), what="the end of ok")
                wait_until(lambda: ("lost", False) in states() and ("lost", False) in series(), what="the new state")
                self.assertEqual(value(agent.page(), "gpu_state", gpu_index="0", gpu_state="lost"), 1)
                run("sim", "heal", "--socket", socket, code=0)
                wait_until(lambda: ("lost", True) in states() and ("lost", True) in series(), what="the end of lost")


class Start(unittest.TestCase):
    def test_a_machine_without_gpus_starts_with_five_lines(self):
        with Agent() as agent:
            wait_until(lambda: "[ready]" in agent.log_text(), what="the last line of the start")
            lines = agent.log_text().split("[ready]")[0].splitlines()
            self.assertLessEqual(len(lines), 5, agent.log_text())
            self.assertEqual(sum("[absent]" in line for line in lines), 1, "one line for all that is absent")


if __name__ == "__main__":
    unittest.main()
