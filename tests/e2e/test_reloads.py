"""Nothing that was accepted is lost: reloads at random moments, sinks that come and go, a dead and a slow receiver, SIGKILLs between."""
import os
import pathlib
import random
import signal
import tempfile
import threading
import time
import unittest

from agent import Agent, free_port, value, wait_until
from otlp_receiver import Receiver
from test_otlp_in import gauge, post

RELOADS = int(os.environ.get("GPULENS_RELOADS", "40"))
KILLS = int(os.environ.get("GPULENS_KILLS", "4"))
SENDERS = 3


class Stored:
    """What arrived at a receiver, by sender, in the order of its arrival. Each request is read once."""

    def __init__(self, receiver):
        self.receiver, self.read, self.numbers, self.seen = receiver, 0, {}, {}

    def look(self):
        requests = self.receiver.requests[self.read:]
        self.read += len(requests)
        for request in requests:
            for attributes, point in request.points("reloads"):
                self.numbers.setdefault(attributes["sender"], []).append(int(attributes["number"]))
                self.seen.setdefault(attributes["sender"], set()).add(int(attributes["number"]))
        return self

    def missing(self, accepted):
        self.look()
        return {name: sorted(numbers - self.seen.get(name, set())) for name, numbers in accepted.items()}


class Senders:
    """Post one point in a request until they are stopped; `accepted` is what was answered with 200."""

    def __init__(self, port):
        self.port, self.going = port, True
        self.accepted = {str(i): [] for i in range(SENDERS)}
        self.threads = [threading.Thread(target=self.run, args=(name,)) for name in self.accepted]

    def run(self, name):
        number = 0
        while self.going:
            number += 1
            body = gauge("reloads", 1, {"sender": name, "number": str(number)}, {"service.instance.id": name}).SerializeToString()
            while self.going:
                try:
                    if post(self.port, "/v1/metrics", body).status == 200:
                        self.accepted[name].append(number)
                        break
                except OSError:
                    pass  # the agent was killed: whether it has it is not known
                except Exception:  # an answer that was cut off
                    pass
                time.sleep(0.01)
            time.sleep(0.002)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.going = False
        for thread in self.threads:
            thread.join()


class Reloads(unittest.TestCase):
    def test_accepted_is_stored_over_reloads_and_kills(self):
        chance = random.Random(16)
        port, dead = free_port(), free_port()
        with tempfile.TemporaryDirectory() as state, Receiver() as far, Receiver(lambda *_: (time.sleep(0.005), (200, {}))[1]) as slow:
            def config(step):
                sinks = [f"otlp: {{endpoint: '{far.url}', interval: {100 + step}ms, retry: {{initial: 10ms, max: 50ms}}}}",
                         f"otlp/slow: {{endpoint: '{slow.url}', interval: 10m, in_flight: {1 + step % 3}}}"]
                if step % 3 != 1:
                    sinks.append(f"otlp/dead: {{endpoint: 'http://127.0.0.1:{dead}', interval: 10m, timeout: {1 + step % 2}s}}")
                if step % 4 == 2:
                    sinks.append(f"webhook: {{url: 'http://127.0.0.1:{dead}/', interval: 1s}}")
                return (f"interval: 100ms\nstate_dir: '{state}'\nlimits: {{memory: 2GiB}}\n"
                        f"receivers: {{otlp: {{http: {{listen: '127.0.0.1:{port}'}}, grpc: {{listen: []}}}}}}\n"
                        "sinks:\n" + "".join(f"  {sink}\n" for sink in sinks))  # fmt: skip

            agent = Agent(config=config(0)).__enter__()
            kills = sorted(chance.sample(range(3, RELOADS), KILLS))
            with Senders(port) as senders:
                for step in range(1, RELOADS + 1):
                    time.sleep(chance.random() * 0.5)
                    if step in kills:
                        agent.process.kill()
                        agent.process.wait()
                        agent = Agent(config=config(step)).__enter__()
                    else:
                        agent.config.write_text(config(step))
                        agent.process.send_signal(signal.SIGHUP)
                time.sleep(0.5)
            accepted = {name: set(numbers) for name, numbers in senders.accepted.items()}
            self.assertGreater(sum(map(len, accepted.values())), 10 * RELOADS)
            for receiver, what in ((far, "the quick one"), (slow, "the slow one")):
                stored = Stored(receiver)
                try:
                    wait_until(lambda: not any(stored.missing(accepted).values()), 60, f"all that was accepted at {what}")
                except AssertionError as late:
                    counts = {name: (len(numbers), numbers[:3], numbers[-3:]) for name, numbers in stored.missing(accepted).items()}
                    raise AssertionError(f"{late}: missing {counts} of {sum(map(len, accepted.values()))}") from None
                for name, numbers in stored.numbers.items():
                    first = list(dict.fromkeys(numbers))
                    self.assertEqual(first, sorted(first), f"{what}: in order")
                    # A SIGKILL loses the answers to what was under way, and an acknowledgement to a sender.
                    self.assertLessEqual(len(numbers) - len(first), 8 * KILLS, f"{what}: twice")
            page = agent.page()
            for sink in ("otlp", "otlp/slow"):
                for reason in ("queue_full", "too_old", "damaged", "too_large", "not_kept", "refused"):
                    self.assertEqual(value(page, "gpulens_sink_dropped_total", sink=sink, lane="delivery", reason=reason) or 0, 0, f"{sink} {reason}")
            agent.__exit__(None, None, None)
            self.assertTrue(pathlib.Path(state, "queue", "received").exists() or list(pathlib.Path(state, "queue").glob("received*")))


if __name__ == "__main__":
    unittest.main()
