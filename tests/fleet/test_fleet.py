"""A fleet in simulation: many nodes send through gateways to VictoriaMetrics, and each sample is counted there.

What one agent sends with the configurations of docs/fleet.md is recorded, and fleet_load sends it as many nodes. The short form has 100
nodes and is over within a minute. With GPULENS_SOAK_MINUTES it records for so long, 5 minutes at least, sends as 1,000 nodes, and prints
the figures of docs/performance/fleet.md. GPULENS_FLEET_RECORDING keeps the recording in that folder, and takes one that is there.
"""
import contextlib
import json
import os
import pathlib
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from agent import wait_until  # noqa: E402
from fleet_world import FLEET_LOAD, Gateway, Load, Pages, Probe, Store, Vmagent, peak_memory, settle, urls_of  # noqa: E402
from go_peers import go_peer  # noqa: E402
from recording import STREAMS, frames, record  # noqa: E402

MINUTES = float(os.environ.get("GPULENS_SOAK_MINUTES", "0"))
SOAK = MINUTES > 0
KEPT = os.environ.get("GPULENS_FLEET_RECORDING", "")
NODES = 1000 if SOAK else 100
# Two frames of 15 s after the first one.
RECORD_S = max(300, 60 * MINUTES) if SOAK else 33
SHORT = ("rw-standard", "otlp-15s")
MOST_BYTES_A_SECOND = 1000  # of a node at the level `standard`
GPUS_A_CORE, GPUS_A_NODE = 10_000, 8
IDLE_S = 5
# Words in the log of a gateway that lost data.
LOSSES = ("[queue_full]", "[too_old]", "[damaged]", "[too_large]", "[missing]", "[refused]", "[rejected]", "[queue_in_memory]", "[untranslated]")


def report(line):
    print(line, flush=True)


class Fleet(unittest.TestCase):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        go_peer("victoria-metrics")
        assert FLEET_LOAD.exists(), f"{FLEET_LOAD} is not built"
        cls.folder = contextlib.ExitStack()
        cls.addClassCleanup(cls.folder.close)
        cls.recording = pathlib.Path(KEPT or cls.folder.enter_context(tempfile.TemporaryDirectory(prefix="gpulens-fleet-")))
        names = tuple(STREAMS) if SOAK else SHORT
        missing = [name for name in names if not (cls.recording / name / "frames").exists()]
        if missing:
            record(cls.recording, RECORD_S, missing, pages=SOAK)

    def check_stored(self, store, load, result, what):
        """Each sample that was sent is stored, and none is there twice: the store counts a series' sample of one time once."""
        expected = load.expected()
        self.assertEqual(sum(expected.values()), result["samples"])
        # The translation of OTLP makes a `target_info` of each request.
        but = "" if what.startswith("rw") else "target_info"
        stored = store.samples_by_node(load.options["nodes"], result["first_unix_s"] - 600, time.time() + 60, but)
        wrong = {node: (stored.get(node, 0), count) for node, count in expected.items() if stored.get(node, 0) != count}
        self.assertEqual(dict(list(wrong.items())[:5]), {}, f"{what}: {len(wrong)} nodes have (stored, sent) that differ")

    def check_gateways(self, gateways):
        for gateway in gateways:
            lost = [line for line in gateway.log_text().splitlines() if any(word in line for word in LOSSES)]
            self.assertEqual(lost, [])
            self.assertEqual(gateway.numbers("gpulens_sink_dropped_total", queue="delivery"), 0)

    def test_bytes_of_a_node(self):
        """A node with eight GPUs sends no more than 1 kB a second at the level `standard`."""
        for stream, (node, _, level, interval) in STREAMS.items():
            if not (self.recording / stream / "frames").exists():
                continue
            sent = frames(self.recording, stream)
            seconds = 60 if stream == "otlp-15s" and not SOAK else interval
            a_second = sum(size for _, size, _, _ in sent) / len(sent) / seconds
            report(f"{stream}: {node}, {level}, each {interval} s: {sum(one[2] for one in sent) / len(sent):.0f} points, "
                   f"{sum(one[3] for one in sent) / len(sent):.0f} samples, {sum(one[1] for one in sent) / len(sent):.0f} bytes a frame, "
                   f"{a_second:.0f} bytes/s")  # fmt: skip
            if (node, level) == ("training", "standard") and stream != "otlp-15s":
                self.assertLess(a_second, MOST_BYTES_A_SECOND, stream)

    def test_a_gateway_and_the_store_fail(self):
        """A gateway is killed while nodes send, and the store is away; every sample is there in the end."""
        stream, speed = "rw-standard", 1 if SOAK else 3
        rounds = min(len(frames(self.recording, stream)), 8 if SOAK else 2)
        with Store() as store, contextlib.ExitStack() as stack:
            gateways = [stack.enter_context(Gateway(store.url)) for _ in range(3)]
            load = Load(self.recording, stream, urls_of(gateways, stream), nodes=NODES, rounds=rounds, speed=speed)
            stack.callback(load.stop)
            wall = rounds * 15 / speed
            time.sleep(wall * 0.2)
            accepted = gateways[0].numbers("gpulens_receiver_points_total", result="accepted")
            self.assertGreater(accepted, 0)
            gateways[0].kill()
            store.stop_for_now()
            time.sleep(60 if SOAK else wall * 0.3)
            waiting, size = (sum(gateway.numbers(name) for gateway in gateways[1:]) for name in
                             ("gpulens_sink_queue_length", "gpulens_sink_disk_queue_size_bytes"))  # fmt: skip
            store.start_again()
            gateways[0].start_again()
            result = load.result(300)
            settle(gateways)
            self.assertEqual((result["refused"], result["dropped"], result["rejected"], result["waiting"]), (0, 0, 0, 0), result)
            self.assertEqual(result["delivered"], result["items"])
            self.check_stored(store, load, result, stream)
            self.check_gateways(gateways)
            again = sum(result["codes"].values()) - result["requests"]
            report(f"while the store was away: {waiting:.0f} requests waited at two gateways, {size:.0f} bytes of files")
            report(f"{NODES} nodes, {result['requests']} requests, {result['samples']} samples; attempts that failed: {again} {result['codes']}")

    @unittest.skipIf(SOAK, "the long form measures it")
    def test_otlp_becomes_the_same_series(self):
        """By OTLP the store gets the series that it gets by remote write: each node has its own."""
        with Store() as store, Gateway(store.url) as gateway:
            for stream in SHORT:
                load = Load(self.recording, stream, urls_of([gateway], stream), nodes=20, rounds=1, speed=15)
                result = load.result(60)
                self.assertEqual(result["delivered"], result["items"])
            settle([gateway])
            store.get("/internal/force_flush")
            names = {}
            for node in ("gpu-n00003", "gpu-n00017"):
                found = store.ask(f'count by (__name__) ({{instance="{node}",job="gpulens"}})')
                names[node] = {one["metric"]["__name__"]: one["value"][1] for one in found}
            self.assertGreater(len(names["gpu-n00003"]), 60)
            self.assertEqual(names["gpu-n00003"], names["gpu-n00017"])
            self.assertEqual(names["gpu-n00003"]["gpu_power_draw_watts"], "8", "the same series by both ways")
            self.assertEqual(store.ask('count({job="gpulens",instance=""})'), [], "series without a node")

    def measure(self, stream, speed, gateways=2, rounds=24, spread=4, peer=False, **options):
        """Sends a stream as 1,000 nodes; the figures of each hop."""
        interval = STREAMS[stream][3]
        spread = min(spread, max(1, len(frames(self.recording, stream)) - 1))
        rounds = min(rounds, len(frames(self.recording, stream)) - spread + 1)
        with Store() as store, contextlib.ExitStack() as stack:
            hops = [stack.enter_context(Vmagent(store.url) if peer else Gateway(store.url)) for _ in range(gateways)]
            time.sleep(1)
            before = sum(hop.cpu() for hop in hops), store.cpu()
            time.sleep(IDLE_S)
            idle = (sum(hop.cpu() for hop in hops) - before[0]) / IDLE_S, (store.cpu() - before[1]) / IDLE_S
            before, begin = (sum(hop.cpu() for hop in hops), store.cpu()), time.monotonic()
            probes = {}
            if not peer:
                probes["probe"] = stack.enter_context(Probe("probe_by_gateway", f"http://127.0.0.1:{hops[0].otlp}/v1/metrics", store, hops[0].who))
            probes["probe_store_alone"] = stack.enter_context(Probe("probe_direct", f"{store.url}/opentelemetry/v1/metrics", store))
            load = Load(self.recording, stream, urls_of(hops, stream), nodes=NODES, rounds=rounds, interval=interval, speed=speed,
                        spread=spread, **options)  # fmt: skip
            stack.callback(load.stop)
            result = load.result(900)
            settle(hops)
            wall = time.monotonic() - begin
            used = sum(hop.cpu() for hop in hops) - before[0] - idle[0] * wall, store.cpu() - before[1] - idle[1] * wall
            for probe in probes.values():
                probe.ended.set()
            seconds, count = rounds * interval, result["samples"]
            self.assertEqual(result["delivered"], result["items"])
            figures = {
                "stream": stream, "speed": speed, "rounds": rounds, "samples": count, "series": store.series(),
                "bytes_a_node_s": result["packed_bytes"] / NODES / seconds, "plain_bytes_a_node_s": result["plain_bytes"] / NODES / seconds,
                "load_us": result["cpu_s"] / count * 1e6, "gateway_us": used[0] / count * 1e6, "store_us": used[1] / count * 1e6,
                "idle_cores_a_gateway": idle[0] / gateways, "cores_of_1000_nodes": used[0] / seconds,
                "gateway_mib": max(peak_memory(hop.process.pid) for hop in hops), "store_mib": peak_memory(store.process.pid),
                "late_s": result["late_s"], "wall_s": wall, "codes": result["codes"]}  # fmt: skip
            if not peer:
                figures["sent_bytes_a_node_s"] = sum(hop.numbers("gpulens_sink_sent_bytes_total") for hop in hops) / NODES / seconds
            figures.update({name: [value and round(value, 3) for value in probe.seconds()] for name, probe in probes.items()})
            if not peer:
                self.check_gateways(hops)
            self.check_stored(store, load, result, stream)
            figures.update(store.merged_sizes())
            report(json.dumps({key: round(value, 4) if isinstance(value, float) else value for key, value in figures.items()}))
            return figures

    @unittest.skipUnless(SOAK, "a measurement")
    def test_scraping(self):
        """A gateway scrapes the pages of nodes: what that costs it."""
        nodes, rounds = NODES // 5, 4
        with Pages(self.recording) as pages, Store() as store:
            extra = pages.targets(nodes) + "limits: {series: 1000000, memory: 2GiB}\n"
            with Gateway(store.url, extra, without=("limits",)) as gateway:
                wait_until(lambda: len(pages.scrapes) == nodes, 60, "a scrape of each page")
                before, sent, done = gateway.cpu(), pages.sent, pages.scrapes.total()
                time.sleep(15 * rounds)
                scrapes, used = pages.scrapes.total() - done, gateway.cpu() - before
                settle([gateway])
                store.get("/internal/force_flush")
                found = store.ask('count(count by (target) (exported_gpu_power_draw_watts))')
                self.assertEqual(found and found[0]["value"][1], str(nodes), found)
                samples = gateway.numbers("gpulens_scrape_samples")
                report(json.dumps({"scraped_nodes": nodes, "scrapes": scrapes, "samples_of_a_round": samples, "bytes_a_node_s": (pages.sent - sent) / scrapes / 15,
                    "cores": used / 15 / rounds, "gateway_us": used / (samples * rounds) * 1e6, "mib": peak_memory(gateway.process.pid)}))  # fmt: skip

    @unittest.skipUnless(SOAK, "a measurement")
    def test_figures(self):
        for _ in range(int(os.environ.get("GPULENS_FLEET_TIMES", "1"))):
            for stream, speed in (("rw-standard", 4), ("otlp-standard", 16), ("otlp-15s", 4), ("rw-serving", 4), ("otlp-serving", 16), ("rw-rollups", 16)):
                figures = self.measure(stream, speed)
                if stream in ("rw-standard", "otlp-standard"):
                    cores = figures["cores_of_1000_nodes"] / (NODES * GPUS_A_NODE) * GPUS_A_CORE
                    report(f"{stream}: {cores:.2f} gateway cores for {GPUS_A_CORE} GPUs")
            with contextlib.suppress(unittest.SkipTest):
                self.measure("rw1-standard", 4, peer=True)


if __name__ == "__main__":
    unittest.main()
