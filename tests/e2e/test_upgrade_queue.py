"""Requests that version 0.1.0 left in its state folder are delivered once and in order; then the folder is used as this version does. The
folders in data/queue_0_1_0 were written by 0.1.0 itself: data/make_queue_0_1_0.py."""
import concurrent.futures
import gzip
import pathlib
import shutil
import signal
import tempfile
import threading
import unittest

import queue_files
import test_otlp_grpc
from agent import Agent, wait_until
from http_stub import HttpStub
from test_grpc import grpc

KEPT = pathlib.Path(__file__).resolve().parent / "data" / "queue_0_1_0"
URLS = {"otlp": "endpoint: '{}'", "otlp/b": "endpoint: '{}'", "remote_write": "url: '{}/w'", "webhook": "url: '{}/h'"}
COMMON = "interval: 200ms, include: ['gpulens.tick.*'], retry: {initial: 50ms, max: 100ms}"


class Taking(HttpStub):
    """Keeps the bodies that it took, as they came; refuses for now once it has `most`, and while it is `busy`."""

    def __init__(self, most=1 << 30):
        self.most, self.busy, self.bodies, self.paths, self.lock = most, False, [], [], threading.Lock()
        super().__init__(self._take, protocol="HTTP/1.1")

    def _take(self, request, body):
        with self.lock:
            if self.busy or len(self.bodies) >= self.most:
                return 503, {}, b""
            self.bodies.append(body)
            self.paths.append(request.path)
        return 200, {}, b""


class Upgrade(unittest.TestCase):
    def setUp(self):
        self.state = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-upgrade-"))
        self.addCleanup(shutil.rmtree, self.state, ignore_errors=True)

    def folder(self, case, sink="otlp"):
        """A folder of 0.1.0 in the state folder, and what waits in it."""
        folder = self.state / "queue" / sink
        shutil.copytree(KEPT / case / sink, folder)
        waiting = queue_files.waiting(folder)
        self.assertGreaterEqual(len(waiting), 5)
        self.assertTrue(all(record.old for record in waiting))
        return folder, waiting

    def agent(self, sinks, options=""):
        """`sinks`: names, and where they send."""
        return Agent(config=f"interval: 200ms\nstate_dir: '{self.state}'\nsinks:\n"
                     + "".join(f"  {name}: {{{URLS[name].format(url)}, {COMMON}{options}}}\n" for name, url in sinks.items()))  # fmt: skip

    def test_old_requests_are_sent_once_in_order_before_new_ones(self):
        kept = {sink: self.folder("own", sink) for sink in ("otlp", "remote_write", "webhook")}
        with Taking() as otlp, Taking() as written, Taking() as hook:
            takers = {"otlp": otlp, "remote_write": written, "webhook": hook}
            with self.agent({sink: taker.origin for sink, taker in takers.items()}) as agent:
                for sink, (folder, waiting) in kept.items():
                    taker, old = takers[sink], [record.body for record in waiting]
                    wait_until(lambda taker=taker, old=old: len(taker.bodies) > len(old) + 2, 20, f"old and new requests of {sink}")
                    self.assertEqual(taker.bodies[: len(old)], old, sink)
                    self.assertFalse(set(taker.bodies[len(old) :]) & set(old), "each once")
                    taker.busy = True
                    wait_until(lambda folder=folder: len(queue_files.waiting(folder)) > 2, 20, "new ones to wait")
                    new = queue_files.waiting(folder)
                    self.assertFalse(any(record.old for record in new), sink)
                    self.assertGreater(new[0].number, waiting[-1].number)
                self.assertNotIn("damaged", agent.log_text())
                for taker in takers.values():
                    taker.busy = False

    @unittest.skipUnless(grpc and test_otlp_grpc.otlp_receiver, "the Python packages grpcio and opentelemetry-proto are not here")
    def test_calls(self):
        _, waiting = self.folder("grpc")
        collector = test_otlp_grpc.Collector()
        pool = concurrent.futures.ThreadPoolExecutor(2)
        server = grpc.server(pool, handlers=[collector])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(pool.shutdown)
        self.addCleanup(lambda: server.stop(None).wait(10))
        with self.agent({"otlp": f"http://127.0.0.1:{port}"}, ", protocol: grpc"):
            self.assertTrue(collector.wait(lambda taken: len(taken) > len(waiting) + 1))
        kind = test_otlp_grpc.otlp_receiver.ExportMetricsServiceRequest
        self.assertEqual([one.message for one in collector.taken[: len(waiting)]], [kind.FromString(gzip.decompress(record.body)) for record in waiting])

    def test_received_data_goes_to_the_matching_sink(self):
        _, waiting = self.folder("received")
        with Taking() as taker, self.agent({"otlp": taker.origin}):
            wait_until(lambda: len(taker.bodies) > len(waiting), 20, "all of it")
            self.assertEqual(taker.bodies[: len(waiting)], [record.body for record in waiting])
            self.assertEqual(taker.paths[: len(waiting)], 3 * ["/v1/metrics", "/v1/logs", "/v1/traces"])

    def test_a_second_sink_of_the_kind_gets_none_of_it(self):
        for first, second in (("otlp", "otlp/b"), ("otlp/b", "otlp")):
            shutil.rmtree(self.state / "queue", ignore_errors=True)
            _, waiting = self.folder("own")
            old = [record.body for record in waiting]
            with Taking() as one, Taking() as other, self.agent({first: one.origin, second: other.origin}):
                ours, fresh = (one, other) if first == "otlp" else (other, one)
                wait_until(lambda: len(ours.bodies) > len(old) + 2 and len(fresh.bodies) > 2, 20, "requests at both")
                self.assertEqual(ours.bodies[: len(old)], old, first)
                self.assertFalse(set(fresh.bodies) & set(old), first)

    def test_killed_in_the_middle(self):
        folder, waiting = self.folder("own")
        old = [record.body for record in waiting]
        with Taking(most=2) as before:
            with self.agent({"otlp": before.origin}) as agent:
                wait_until(lambda: queue_files.position(folder) == waiting[2].number, 20, "two to be taken")
                agent.process.send_signal(signal.SIGKILL)
                agent.process.wait()
        with Taking() as after, self.agent({"otlp": after.origin}):
            wait_until(lambda: len(after.bodies) > 4, 20, "the rest and what is new")
            self.assertEqual(before.bodies + after.bodies[:3], old)
            self.assertFalse(set(after.bodies[3:]) & set(old))

    def test_half_written(self):
        folder, waiting = self.folder("own")
        segment = queue_files.segments(folder)[0]
        segment.write_bytes(segment.read_bytes()[:-100])
        (folder / f"{waiting[-1].number:020}.seg").write_bytes(segment.read_bytes()[:50])
        place = folder / "position"
        place.write_bytes(place.read_bytes()[:520])  # of the second number only a part
        old = [record.body for record in queue_files.read_segment(segment)]
        self.assertEqual(len(old), len(waiting), "all but the last, and the first was delivered")
        with Taking() as taker, self.agent({"otlp": taker.origin}) as agent:
            wait_until(lambda: len(taker.bodies) > len(old) + 1, 20, "the rest and what is new")
            expected = old if taker.bodies[0] == old[0] else old[1:]  # the number before it counts
            self.assertEqual(taker.bodies[: len(expected)], expected)
            self.assertFalse(set(taker.bodies[len(expected) :]) & set(old))
            self.assertNotIn("unknown", agent.log_text(), "what a crash leaves is no surprise")

    def test_another_version_is_left_alone_and_named(self):
        folder, _ = self.folder("own")
        segment, place = queue_files.segments(folder)[0], folder / "position"
        foreign = segment.read_bytes().replace(b"GPLNSSEG\1", b"GPLNSSEG\7")
        self.assertEqual(foreign.count(b"GPLNSSEG\7"), 2)
        segment.write_bytes(foreign)
        numbers = place.read_bytes().replace(b"GPLNSPO1", b"GPLNSPO7")
        place.write_bytes(numbers)
        with Taking() as taker, self.agent({"otlp": taker.origin}) as agent:
            wait_until(lambda: len(taker.bodies) > 2, 20, "what is new")
            log = agent.log_text()
        for name, content in ((segment.name, foreign), ("position", numbers)):
            self.assertEqual((folder / f"{name}.unknown").read_bytes(), content)
            self.assertIn(f"{name} was renamed to {name}.unknown", log)


if __name__ == "__main__":
    unittest.main()
