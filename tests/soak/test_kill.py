"""Delivery loses nothing: the agent, its receiver and VictoriaMetrics are killed at random, and then the database is read.

The accepted data is that of the complete records in the files of the queues, which are kept aside while the test runs: not more than
the sinks were given, and not less than they have promised to deliver. The database must hold exactly that: nothing less, nothing altered,
nothing else; the same sample twice is the same sample. docs/reliability.md describes what this shows and what not.

As it is: 40 s and 4 kills. GPULENS_SOAK_MINUTES=10: so long, with two kills a minute. GPULENS_SOAK_SEED: the plan of an earlier run.
"""
import json
import os
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from kill_world import SINKS, World  # noqa: E402
from ticking_page import SHARES, dropped_of_remote_write, of_otlp, of_remote_write  # noqa: E402

MINUTES = float(os.environ.get("GPULENS_SOAK_MINUTES", "0"))
SECONDS, KILLS = (60 * MINUTES, 2 * round(MINUTES)) if MINUTES else (40, 4)
SEED = int(os.environ.get("GPULENS_SOAK_SEED", random.randrange(1 << 32)))
DECODERS = {"remote_write": of_remote_write, "otlp": of_otlp}
# Words in the log of an agent that lost data.
LOSSES = ("[queue_full]", "[too_old]", "[damaged]", "[too_large]", "[missing]", "[refused]", "[rejected]", "[queue_in_memory]")


def report(line):
    print(line, flush=True)


def ticks_of(samples):
    """{milliseconds: number of the answer}; every series of a tick must have the same one."""
    found = {}
    for (series, ms), number in samples.items():
        if number is not None:
            found.setdefault(ms, set()).add(number / SHARES[series])
    for ms, numbers in found.items():
        assert len(numbers) == 1, f"at {ms} ms the series are of different ticks: {numbers}"
    return {ms: numbers.pop() for ms, numbers in sorted(found.items())}


class Kill(unittest.TestCase):
    maxDiff = 2000

    def test_accepted_data_is_in_the_store(self):
        report(f"seed {SEED}, {SECONDS:g} s, {KILLS} kills")
        with World(SEED, SECONDS, KILLS, report) as world:
            world.run()
            log = world.agent.log_text()
            self.assertEqual([line for line in log.splitlines() if any(loss in line for loss in LOSSES)], [])
            taken, dropped = self.taken(world), self.dropped(world)
            for sink in SINKS:
                with self.subTest(sink):
                    self.check(world, sink, taken, dropped)
            report(f"kills: {world.done}; answers of the receiver: {dict(world.front.requests)}; VictoriaMetrics itself lost "
                f"{world.front.lost_by_victoria} samples that it had answered for and got again")

    def check(self, world, sink, taken, dropped):
        records = [body[8:] for _, body in sorted(world.archives[sink].records().items())]
        accepted = {}
        for record in records:
            for key, number in DECODERS[sink](record).items():
                self.assertEqual(accepted.setdefault(key, number), number, key)
        stored = world.victoria.samples(sink)
        lost = [key for key in accepted if key not in stored]
        self.assertEqual(lost[:5], [], f"{len(lost)} of {len(accepted)} samples are lost")
        self.assertEqual([key for key in stored if key not in accepted][:5], [], "these were never sent")
        altered = {key: (stored[key], number) for key, number in accepted.items() if stored[key] != {number}}
        self.assertEqual(dict(list(altered.items())[:5]), {}, f"{len(altered)} samples are altered")

        ticks = ticks_of(accepted)
        numbers = list(ticks.values())
        self.assertEqual(numbers, sorted(set(numbers)), "the counter goes on from tick to tick, and each answer is exported once")
        self.assertTrue(all(number.is_integer() and 1 <= number <= world.page.answered for number in numbers))
        self.assertEqual({series for series, _ in accepted}, set(SHARES))
        self.assertEqual(len([key for key, number in accepted.items() if number is not None]), len(ticks) * len(SHARES))
        inside = self.taken_only(world, taken, set(numbers))
        self.assertLessEqual(len(inside), dropped.get(sink, 0) + dropped.get("file", 0), inside)
        report(f"{sink}: {len(records)} records with {len(numbers)} ticks, {len(accepted)} samples, all of them stored, nothing else is")

    def taken(self, world):
        """Numbers of the answers that the file sink of the same agent has."""
        numbers = []
        for line in world.agent.witness.read_text().splitlines():
            record = json.loads(line)
            if record["name"] == "soak_ticks_total":
                numbers.append(record["value"])
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertGreater(len(numbers), SECONDS / 4)
        return numbers

    @staticmethod
    def dropped(world):
        """{sink: the most ticks that one run dropped}, by the self-metrics of each run."""
        dropped = {}
        for body in world.archives["remote_write"].records().values():
            for name, count in dropped_of_remote_write(body[8:]).items():
                dropped[name] = max(dropped.get(name, 0), count)
        return dropped

    @staticmethod
    def taken_only(world, taken, accepted):
        """What lies between two accepted ticks was accepted, too: the numbers for which that is not so. The last two ticks before a
        kill may not have come so far."""
        starts = world.starts[1:] + [world.page.answered + 1]
        before_kill = {number for start in starts for number in [n for n in taken if n < start][-2:]}
        return [number for number in taken if number not in accepted and number not in before_kill]


if __name__ == "__main__":
    unittest.main()
