"""Roll-ups of a real agent compared with the series themselves, which a second sink sends: values, bytes, reloads, the end, pods."""
import collections
import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

import remote_write_receiver
from agent import BINARY, Agent, samples, value, wait_until
from http_stub import HttpStub

# How long the bytes are measured; docs/rollups.md has the numbers of 300.
SECONDS = int(os.environ.get("GPULENS_ROLLUP_SECONDS", "0"))
INTERVAL = 15_000  # ms, of the rules: the shortest that is allowed
# A reading of the tick that ends an interval was taken so long before it at most.
EDGE = 600

RULES = """
- {metrics: ['gpu.*'], kinds: [gauge], by: ['*'], functions: [avg], interval: 15s}
- {metrics: ['gpu.*'], kinds: [counter, histogram], by: ['*'], functions: [sum], interval: 15s}
"""
NODE = """
- {metrics: ['gpu.*'], kinds: [gauge], functions: [avg, sum], interval: 15s}
- {metrics: ['gpu.*'], kinds: [counter, histogram], functions: [sum], interval: 15s}
"""
JOULES = "{metrics: [gpu.energy.consumption], functions: [sum], interval: 15s}"


class Receiver(remote_write_receiver.Receiver):
    def __init__(self):
        super().__init__()
        self.bytes = self.count = 0

    def _take(self, request, body):
        self.bytes += len(body)
        answer = super()._take(request, body)
        self.count += len(self.requests[-1].samples)
        return answer

    def wait_for_ticks(self, count):
        """Compares with a sink without an interval, which sends one request for each tick."""
        more = len(self.requests) + count
        wait_until(lambda: len(self.requests) >= more, 60 + 2 * count, f"{count} ticks")

    def names(self):
        return {sample.name for request in self.requests for sample in request.samples}

    def series(self, name, *keys):
        """Samples by the values of these labels, in the order of their time. Stale markers are left out.

        A reload that makes a new encoder sends again what was read last: one time has one value.
        """
        found = collections.defaultdict(list)
        for sample in self.samples(name):
            if not sample.ended:
                found[tuple(sample.labels.get(key) for key in keys)].append(sample)
        for key, list_ in found.items():
            times = {sample.ms: sample for sample in list_}
            assert all(times[s.ms].value == s.value for s in list_), f"{name} {key}: two values at one time"
            found[key] = [times[ms] for ms in sorted(times)]
        return found


def indented(rules):
    return "".join(f"      {line}\n" for line in rules.strip().splitlines())


def near(one, other):
    return abs(one - other) <= 1e-9 * max(1.0, abs(one), abs(other))


def cuts(readings, at):
    """Number of readings that may belong to ticks before a time."""
    surely = sum(s.ms < at - EDGE for s in readings)
    return range(surely, sum(s.ms <= at for s in readings) + 1)


def means(readings, begin, end):
    """The possible means of the readings of an interval."""
    for first in cuts(readings, begin):
        for last in cuts(readings, end):
            if first < last:
                yield sum(s.value for s in readings[first:last]) / (last - first)


class Rollups(unittest.TestCase):
    def check_means(self, results, readings, what):
        self.assertGreaterEqual(len(results), 3, what)
        begin = 0
        for result in results:
            fits = list(means(readings, begin, result.ms))
            self.assertTrue(any(near(mean, result.value) for mean in fits), f"{what} at {result.ms}: {result.value} is none of {fits}")
            begin = result.ms

    def check_sum(self, results, readings, what):
        """Each result counts from the first reading; one that begins again counts from where the one before it ended."""
        base, before, begun = readings[0].value, 0.0, None
        for result in results:
            if begun is not None and result.start_ms != begun:
                base += before
            begun, before = result.start_ms, result.value
            fits = [readings[count - 1].value - base for count in cuts(readings, result.ms) if count]
            self.assertTrue(any(near(one, result.value) for one in fits), f"{what} at {result.ms}: {result.value} is none of {fits}")
        self.assertTrue(near(base + before, readings[-1].value), f"{what}: {base} + {before} at the end, not {readings[-1].value}")

    def test_values_bytes_reloads_and_the_end(self):
        with Receiver() as raw, Receiver() as rolled, Receiver() as node, Receiver() as gone:
            def config(rules=RULES, max_samples=2000, more=f"  remote_write/gone: {{url: '{gone.url}', protocol: '2.0', rollups: [{JOULES}]}}\n"):
                return ("interval: 1s\nsinks:\n"
                        f"  remote_write/raw: {{url: '{raw.url}', protocol: '2.0', interval: 0s, max_samples: 10000, include: ['gpu.*']}}\n"
                        f"  remote_write/node:\n    url: '{node.url}'\n    protocol: '2.0'\n    interval: 15s\n    include: ['gpu.*']\n"
                        f"    rollups:\n{indented(NODE)}"
                        f"  remote_write:\n    url: '{rolled.url}'\n    protocol: '2.0'\n    interval: 15s\n    include: ['gpu.*']\n"
                        f"    max_samples: {max_samples}\n    rollups:\n{indented(rules)}{more}")  # fmt: skip

            def ends():
                return sorted({s.ms for s in rolled.samples("gpu_power_draw_avg_watts")})

            begun = time.monotonic()
            with Agent("--demo", config=config()) as agent:
                wait_until(lambda: len(ends()) == 1, 40, "the first interval")
                self.assertEqual(ends()[0] % INTERVAL, 0, "intervals end at the same time everywhere")
                raw.wait_for_ticks(SECONDS)
                known = len(ends())
                # In the middle of an interval: another encoder, the same rules.
                agent.reload(config(max_samples=1999))
                self.assertEqual(len(ends()), known)
                wait_until(lambda: len(ends()) == known + 1, 40, "the interval after the reload")
                self.assertEqual(ends()[-1] - ends()[-2], INTERVAL)
                ended = lambda: value(agent.page(), "gpulens_sink_rollup_intervals_total", sink="remote_write/node")
                wait_until(lambda: ended() == 2 * len(ends()), 10, "both rules' intervals counted")
                page = agent.page()
                self.assertGreater(value(page, "gpulens_sink_rollup_series", sink="remote_write", result="not_sent"), 100)
                self.assertGreater(value(page, "gpulens_sink_rollup_groups", sink="remote_write"), 100)
                self.assertEqual(value(page, "gpulens_sink_rollup_refused", sink="remote_write", reason="limit"), 0)
                self.assertEqual(samples(page, "gpulens_sink_rollup_groups", sink="remote_write/raw"), [])
                minutes = (time.monotonic() - begun) / 60
                for name, receiver in (("raw", raw), ("by series", rolled), ("by node", node)):
                    print(f"\n{name}: {receiver.bytes / minutes:,.0f} bytes, {receiver.count / minutes:,.0f} samples a minute", end="")
                self.assertLess(rolled.bytes, raw.bytes / 4)
                self.assertLess(node.bytes, rolled.bytes / 2)
                # Other rules, and a sink that is removed: what is open is sent, and not only at the end of its time.
                raw.wait_for_ticks(2)
                known = len(ends())
                agent.reload(config(RULES.replace("[avg]", "[avg, max]"), more=""))
                wait_until(lambda: len(ends()) > known, 10, "the open interval")
                self.assertLess(ends()[-1] - ends()[-2], INTERVAL)
                raw.wait_for_ticks(2)
                known = len(ends())
            self.assertEqual(len(ends()), known + 1, "the end of the agent ends the interval")
            print()
            self.check_all(raw, rolled, node)
            self.check_removed(raw, gone, ends()[-2])

    def check_all(self, raw, rolled, node):
        watts, joules = raw.series("gpu_power_draw_watts", "gpu_uuid"), raw.series("gpu_energy_consumption_joules_total", "gpu_uuid")
        self.assertEqual((len(watts), len(joules)), (8, 8))
        averages = rolled.series("gpu_power_draw_avg_watts", "gpu_uuid")
        sums = rolled.series("gpu_energy_consumption_sum_joules_total", "gpu_uuid")
        self.assertEqual((averages.keys(), sums.keys()), (watts.keys(), joules.keys()))
        for key in watts:
            self.check_means(averages[key], watts[key], f"mean power of {key}")
            self.check_sum(sums[key], joules[key], f"energy of {key}")
            self.assertEqual(averages[key][0].labels.keys(), watts[key][0].labels.keys())
        # Each result of the node is that of its GPUs.
        (of_node,), (mean,), (total,) = (node.series(name).values() for name in (
            "gpu_power_draw_sum_watts", "gpu_power_draw_avg_watts", "gpu_energy_consumption_sum_joules_total"))  # fmt: skip
        self.assertGreaterEqual(len(of_node), 3)
        for one, eighth in zip(of_node, mean):
            self.assertEqual(one.ms, eighth.ms)
            self.assertTrue(near(one.value, 8 * eighth.value), f"{one.value} of eight of {eighth.value}")
            parts = [s.value for list_ in averages.values() for s in list_ if s.ms == one.ms]
            if len(parts) == 8 and one.ms % INTERVAL == 0 and one is not of_node[-1]:
                self.assertTrue(near(one.value, sum(parts)), f"{one.value} of {parts}")
        self.assertTrue(near(total[-1].value, sum(list_[-1].value - list_[0].value for list_ in joules.values())), "no increase is missing")
        for receiver in (rolled, node):
            self.assertEqual(receiver.names() & {"gpu_power_draw_watts", "gpu_energy_consumption_joules_total"}, set())
            self.assertIn("gpu_info", receiver.names(), "texts are sent as they are")


    def check_removed(self, raw, gone, reload_ms):
        """The last result of a sink that a reload removed is that of the last tick before it."""
        (results,) = gone.series("gpu_energy_consumption_sum_joules_total").values()
        self.assertGreater(results[-1].ms, reload_ms - 2000)
        joules = raw.series("gpu_energy_consumption_joules_total", "gpu_uuid").values()
        fits = [sum(list_[count - 1].value - list_[0].value for list_ in joules) for count in cuts(next(iter(joules)), results[-1].ms)]
        self.assertTrue(any(near(one, results[-1].value) for one in fits), f"{results[-1].value} is none of {fits}")


class Checks(unittest.TestCase):
    def test_every_sink_that_has_them_refuses_rules_that_contradict_themselves(self):
        sinks = {"remote_write": "", "otlp": "", "webhook": "url: 'http://127.0.0.1:9/', ", "file": "path: /tmp/x, ", "stdout": ""}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "gpulens.yaml")
            for sink, more in sinks.items():
                for rule, message in (("by: [a], without: [b], functions: [avg]", "by and without contradict each other"),
                                   ("functions: [avg, avg]", 'functions has "avg" twice'),
                                   ("functions: [avg], interval: 1s", "interval")):  # fmt: skip
                    path.write_text(f"sinks: {{{sink}: {{{more}rollups: [{{metrics: ['gpu.*'], {rule}}}]}}}}\n")
                    done = subprocess.run([BINARY, "config", "check", path], capture_output=True, text=True, timeout=60, check=False)
                    self.assertNotEqual(done.returncode, 0, f"{sink}: {rule}")
                    self.assertIn(message, done.stdout + done.stderr, f"{sink}: {rule}")


class OtherSinks(unittest.TestCase):
    def test_results_replace_the_series(self):
        import otlp_receiver

        rules = "include: ['gpu.power.draw*'], rollups: [{metrics: [gpu.power.draw], by: [gpu.index], functions: [max], interval: 15s}]"
        posted = []
        with (tempfile.TemporaryDirectory() as folder, otlp_receiver.Receiver() as otlp,
              HttpStub(lambda _, body: (posted.extend(json.loads(body)), (200, {}, b""))[1]) as hook):  # fmt: skip
            path = pathlib.Path(folder, "lines")
            config = (f"interval: 200ms\nsinks:\n  file: {{path: '{path}', {rules}}}\n  otlp: {{endpoint: '{otlp.url}', interval: 1s, {rules}}}\n"
                      f"  webhook: {{url: '{hook.origin}', interval: 1s, {rules}}}\n")  # fmt: skip
            with Agent("--demo", config=config) as agent:
                wait_until(lambda: value(agent.page(), "gpulens_sink_rollup_series", sink="webhook", result="not_sent") == 8, what="eight groups")
            lines = [json.loads(line) for line in path.read_text().splitlines()]
        for sink, records in (("file", lines), ("webhook", posted)):
            records = [record for record in records if "value" in record]  # no events
            self.assertEqual({record["name"] for record in records}, {"gpu.power.draw.max"}, sink)
            self.assertEqual({record["attributes"]["gpu.index"] for record in records}, set(range(8)), sink)
            self.assertTrue(all(record["unit"] == "W" and record["value"] > 0 for record in records), sink)
        for name, count in (("gpu.power.draw", 0), ("gpu.power.draw.max", 8)):
            self.assertEqual(len({attributes["gpu.index"] for request in otlp.requests for attributes, _ in request.points(name)}), count, name)


class Pods(unittest.TestCase):
    """Power by pod: names that come from a kubelet."""

    def test_by_pod(self):
        import kube_node
        from test_kubernetes import UID, Node

        node = Node(self)
        with Receiver() as raw, Receiver() as rolled:
            rules = "[{metrics: [gpu.power.draw], by: [k8s.namespace.name, k8s.pod.name], functions: [avg, count], interval: 15s}]"
            node.agent.config.write_text(node.agent.config.read_text() + (
                f"sinks:\n  remote_write/raw: {{url: '{raw.url}', interval: 0s, include: [gpu.power.draw]}}\n"
                f"  remote_write: {{url: '{rolled.url}', interval: 0s, include: ['gpu.power.draw*'], rollups: {rules}}}\n"))  # fmt: skip
            with node.agent as agent:
                gpus = node.gpus(agent)
                node.api.put(kube_node.pod("train", UID + "1"))
                node.kubelet.hold("train", "nvidia.com/gpu", [gpus["0"], gpus["1"]])
                wait_until(lambda: len(raw.series("gpu_power_draw_watts", "k8s_pod_name", "gpu_uuid")) >= 6, 20, "power of the pod")
                # In the interval in which the pod gets its GPUs, or is first known by all its attributes, old and new series are members.
                def whole_interval():
                    counts = rolled.series("gpu_power_draw_count", "k8s_pod_name").get(("train",), [])
                    return len(counts) >= 2 and counts[-1].value == 2
                wait_until(whole_interval, 60, "a whole interval with the pod")
        members = collections.defaultdict(list)
        for (pod, _), readings in raw.series("gpu_power_draw_watts", "k8s_pod_name", "gpu_uuid").items():
            members[pod].append([s.value for s in readings])
        self.assertEqual({pod: len(list_) for pod, list_ in members.items()}, {None: 4, "train": 2})
        averages = rolled.series("gpu_power_draw_avg_watts", "k8s_pod_name", "k8s_namespace_name", "gpu_uuid")
        self.assertEqual(averages.keys(), {("train", "ml", None), (None, None, None)})
        for (pod, *_), results in averages.items():
            low, high = (pick(pick(list_) for list_ in members[pod]) for pick in (min, max))
            self.assertTrue(all(low * 0.999 <= result.value <= high * 1.001 for result in results), f"{pod}: {results} of {low} to {high}")
        self.assertEqual(rolled.samples("gpu_power_draw_watts"), [])


if __name__ == "__main__":
    unittest.main()
