"""Nothing that was accepted is lost, by OTLP and by remote write: reloads at random moments, sinks that come and go, a dead and a slow
receiver, SIGKILLs between."""
import http.client
import os
import pathlib
import random
import signal
import struct
import tempfile
import threading
import unittest

import otlp_receiver
import remote_write_receiver
import test_otlp_in
import test_remote_write_in
from agent import Agent, free_port, value, wait_until

RELOADS = int(os.environ.get("GPULENS_RELOADS", "40"))
KILLS = int(os.environ.get("GPULENS_KILLS", "4"))
METRIC = "reloads"


def of_otlp(request):
    for attributes, point in request.points(METRIC):
        yield attributes["sender"], point.as_int or int(point.as_double)  # by remote write all are floating-point numbers


def of_remote_write(request):
    for sample in request.samples:
        if sample.name == METRIC:
            yield sample.labels["sender"], int(sample.value)


class Stored:
    """Data that arrived at a receiver, by sender, in the order of arrival. Each request is read once."""

    def __init__(self, receiver, pairs):
        self.receiver, self.pairs, self.read, self.numbers, self.seen = receiver, pairs, 0, {}, {}

    def missing(self, accepted):
        requests = self.receiver.requests[self.read:]
        self.read += len(requests)
        for request in requests:
            for sender, number in self.pairs(request):
                self.numbers.setdefault(sender, []).append(number)
                self.seen.setdefault(sender, set()).add(number)
        return {name: sorted(set(numbers) - self.seen.get(name, set())) for name, numbers in accepted.items()}


class Senders:
    """Post one point of one series in a request until they are stopped; `accepted` are the values that were answered with success."""

    def __init__(self, otlp, remote_write):
        self.ended = threading.Event()
        posts = {"otlp-1": (self.otlp, otlp), "otlp-2": (self.otlp, otlp), "rw-1": (self.remote_write, remote_write)}
        self.accepted = {name: [] for name in posts}
        self.threads = [threading.Thread(target=self.run, args=(name, *post)) for name, post in posts.items()]

    @staticmethod
    def otlp(port, name, number):
        request = test_otlp_in.gauge(METRIC, 1, {"sender": name}, {"service.instance.id": name})
        request.resource_metrics[0].scope_metrics[0].metrics[0].gauge.data_points[0].as_int = number
        return test_otlp_in.post(port, "/v1/metrics", request.SerializeToString()).status == 200

    @staticmethod
    def remote_write(port, name, number):
        sample = b"\x12\x10\x09" + struct.pack("<d", number) + b"\x10\x80\xa0\x94\xa5\x8d\x06"
        body = test_remote_write_in.series({"__name__": METRIC, "job": "test", "instance": name, "sender": name}, sample)
        return test_remote_write_in.post(port, test_remote_write_in.block(body)).status == 204

    def run(self, name, post, port):
        number = 0
        while not self.ended.is_set():
            number += 1
            while not self.ended.is_set():
                try:
                    if post(port, name, number):
                        self.accepted[name].append(number)
                        break
                except (OSError, http.client.HTTPException):
                    pass  # the agent was killed: whether it has it is not known
                self.ended.wait(0.01)
            self.ended.wait(0.02)  # below what the slow receiver takes

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()


class Reloads(unittest.TestCase):
    def config(self, step):
        sinks = [f"otlp: {{endpoint: '{self.quick.url}', interval: {100 + step}ms, retry: {{initial: 10ms, max: 50ms}}}}",
                 f"otlp/slow: {{endpoint: '{self.slow.url}', interval: 10m, in_flight: {1 + step % 3}}}",
                 f"remote_write: {{url: '{self.writes.url}', interval: 10m, in_flight: {1 + step % 2}, protocol: '{1 + step % 2}.0'}}"]
        if step % 3 != 1:
            sinks.append(f"otlp/dead: {{endpoint: 'http://127.0.0.1:{self.dead}', interval: 10m, transport: {{timeout: {1 + step % 2}s}}}}")
        if step % 4 == 2:
            sinks.append(f"webhook: {{url: 'http://127.0.0.1:{self.dead}/', interval: 1s}}")
        return (f"interval: 100ms\nstate_dir: '{self.state}'\nlimits: {{memory: 2GiB}}\nreceivers:\n"
                f"  otlp: {{http: {{listen: '127.0.0.1:{self.otlp_port}'}}, grpc: {{listen: []}}}}\n"
                f"  remote_write: {{http: {{listen: '127.0.0.1:{self.write_port}'}}}}\n"
                "sinks:\n" + "".join(f"  {sink}\n" for sink in sinks))  # fmt: skip

    def test_accepted_is_stored_over_reloads_and_kills(self):
        chance, pause = random.Random(16), threading.Event()
        self.otlp_port, self.write_port, self.dead = free_port(), free_port(), free_port()
        with tempfile.TemporaryDirectory() as self.state, otlp_receiver.Receiver() as self.quick, \
                otlp_receiver.Receiver(lambda *_: (pause.wait(0.005), (200, {}))[1]) as self.slow, \
                remote_write_receiver.Receiver() as self.writes:  # fmt: skip
            self.agent = agent = Agent(config=self.config(0)).__enter__()
            self.addCleanup(lambda: self.agent.process.kill())  # where it fails before the end
            kills = sorted(chance.sample(range(3, RELOADS), KILLS))
            with Senders(self.otlp_port, self.write_port) as senders:
                for step in range(1, RELOADS + 1):
                    pause.wait(chance.random() * 0.5)
                    if step in kills:
                        agent.process.kill()
                        agent.process.wait()
                        self.agent = agent = Agent(config=self.config(step)).__enter__()
                    else:
                        agent.config.write_text(self.config(step))
                        agent.process.send_signal(signal.SIGHUP)
                pause.wait(0.5)
            self.assertGreater(min(map(len, senders.accepted.values())), 2 * RELOADS, "every sender was accepted")
            total = sum(map(len, senders.accepted.values()))
            receivers = {"otlp": Stored(self.quick, of_otlp), "otlp/slow": Stored(self.slow, of_otlp), "remote_write": Stored(self.writes, of_remote_write)}
            for sink, stored in receivers.items():
                try:
                    wait_until(lambda s=stored: not any(s.missing(senders.accepted).values()), 60, f"all that was accepted at {sink}")
                except AssertionError as late:
                    counts = {name: (len(numbers), numbers[:3], numbers[-3:]) for name, numbers in stored.missing(senders.accepted).items()}
                    raise AssertionError(f"{late}: missing {counts} of {total}") from None
                for name, numbers in stored.numbers.items():
                    first = list(dict.fromkeys(numbers))
                    self.assertEqual(first, sorted(first), f"{sink}: {name} in order")
                    # A SIGKILL loses the answers to what was under way, and an acknowledgement to a sender.
                    self.assertLessEqual(len(numbers) - len(first), 8 * KILLS, f"{sink}: {name} twice")
            page = agent.page()
            for sink in receivers:
                for reason in ("queue_full", "too_old", "damaged", "too_large", "not_kept", "refused"):
                    self.assertEqual(value(page, "gpulens_sink_dropped_total", sink=sink, queue="delivery", reason=reason) or 0, 0, f"{sink} {reason}")
            self.assertEqual(value(page, "gpulens_sink_untranslated_total", sink="remote_write"), 0)
            agent.__exit__(None, None, None)
            self.assertTrue(list(pathlib.Path(self.state, "queue").glob("received*")), "what the dead receiver lacks waits on disk")


if __name__ == "__main__":
    unittest.main()
