"""Two sinks of a kind share what waits for them: one whose receiver is away delays the other by no tick, and the disk holds the larger
backlog, not both."""
import os
import pathlib
import statistics
import tempfile
import threading
import time
import unittest

import otlp_receiver
import test_otlp_in
from agent import Agent, free_port, value, wait_until

DOWN = float(os.environ.get("GPULENS_DOWN", "8"))  # seconds
TICK = 0.25


class Timed(otlp_receiver.Receiver):
    """Notes how old the newest reading of each request was when it came, in seconds."""

    def __init__(self, port=0):
        self.ages = []
        super().__init__(self._note, port)

    def _note(self, *_):
        self.ages.append(time.time())
        return 200, {}

    def delays(self):
        """(time of arrival, seconds since its tick) of each request with the agent's own readings."""
        for request, came in zip(self.requests, self.ages):
            times = [point.time_unix_nano for _, point in request.points("gpulens.tick.duration")]
            if times:
                yield came, came - max(times) / 1e9


def held(folder):
    return sum(path.stat().st_blocks * 512 for path in pathlib.Path(folder).rglob("*.seg"))


class TwoSinks(unittest.TestCase):
    def test_one_is_away(self):
        received, away = free_port(), free_port()
        with tempfile.TemporaryDirectory() as state, Timed() as near, Agent(config=(
                f"interval: {TICK}s\nstate_dir: '{state}'\nlimits: {{memory: 2GiB}}\n"
                f"receivers: {{otlp: {{http: {{listen: '127.0.0.1:{received}'}}, grpc: {{listen: []}}}}}}\nsinks:\n"
                f"  otlp: {{endpoint: '{near.url}', interval: {TICK}s, compression: none}}\n"
                f"  otlp/away: {{endpoint: 'http://127.0.0.1:{away}', interval: {TICK}s, compression: none, retry: {{initial: 100ms, max: 200ms}}}}\n")) as agent:  # fmt: skip
            began, sent, ended = time.time(), 0, threading.Event()
            while time.time() < began + DOWN:
                body = test_otlp_in.gauge("two", 20, {"number": str(sent)}, text=os.urandom(512).hex()).SerializeToString()
                self.assertEqual(test_otlp_in.post(received, "/v1/metrics", body).status, 200)
                sent += 1
                ended.wait(max(0.02, DOWN / 400))  # so that a long run fits into the queue
            until = time.time()
            delays = [delay for came, delay in near.delays() if began < came < until]
            self.assertGreater(len(delays), 0.5 * DOWN / TICK, "each tick was sent")
            self.assertLess(statistics.median(delays), TICK, f"the other is not delayed by a tick: {delays}")
            page = agent.page()
            waiting = value(page, "gpulens_sink_disk_queue_size_bytes", sink="otlp/away")
            self.assertLess(held(state), 1.1 * waiting + (1 << 20), "the larger backlog, not the sum")
            self.assertGreater(waiting, 1 << 20)
            print(f"away {DOWN:.0f} s: delay of the other median {statistics.median(delays) * 1000:.0f} ms, most {max(delays) * 1000:.0f} ms; "
                  f"on disk {held(state) >> 10} KiB, waiting {int(waiting) >> 10} KiB")  # fmt: skip
            with Timed(away) as back:
                numbers = [str(number) for number in range(sent)]

                def complete(receiver):
                    found = dict.fromkeys(attributes["number"] for request in receiver.requests for attributes, _ in request.points("two"))
                    return list(found) == numbers

                wait_until(lambda: complete(back), 60, "all that was accepted, in order, at the one that was away")
                self.assertTrue(complete(near))
                wait_until(lambda: held(state) < 1 << 20, 20, "the disk to be free again")


if __name__ == "__main__":
    unittest.main()
