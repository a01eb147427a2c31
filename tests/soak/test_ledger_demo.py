"""The ledger of a demo that is killed again and again loses no joule: what its file has adds up to what the counters grew by.

As it is: 60 s and a kill -9 each 10 s. GPULENS_SOAK_MINUTES=10: so long, with a kill each 30 s.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from agent import BINARY, Agent  # noqa: E402

MINUTES = float(os.environ.get("GPULENS_SOAK_MINUTES", "0"))
SECONDS, EVERY = (60 * MINUTES, 30) if MINUTES else (60, 10)
GPUS = 8


class LedgerOfTheDemo(unittest.TestCase):
    def test_energy_adds_up_to_the_counters_whatever_is_killed(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-soak-"))
        self.addCleanup(shutil.rmtree, folder, True)
        state, witness = folder / "state", folder / "witness.jsonl"
        config = (f"state_dir: {state}\nanalyzers: {{cost: {{window: 2s}}}}\ncontrol: {{socket: {folder}/control.sock}}\n"
                  f"sinks: {{file: {{path: {witness}, include: [gpu.energy.consumption], rotate_size: 0}}}}\n")
        end, kills = time.monotonic() + SECONDS, 0
        while True:
            agent = Agent("--demo", config=config, environment={"GPULENS_DEMO_SCENARIO": ""})
            agent.__enter__()
            if kills == 1:  # changes of the load move the counters, too
                subprocess.run([BINARY, "sim", "set", "--socket", folder / "control.sock", "engine=all", "load=1.2", "for=15s"],
                               check=True, stdout=subprocess.DEVNULL, timeout=20)
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = agent.process.wait(max(0.1, min(EVERY, end - time.monotonic())))
                self.fail(f"the agent ended by itself, with {code}: {agent.log_text()}")
            if time.monotonic() >= end:
                agent.__exit__()
                break
            agent.process.send_signal(signal.SIGKILL)
            agent.process.wait()
            kills += 1
        counters = {}
        for line in witness.read_text().splitlines():
            if '"gpu.energy.consumption"' in line and line.endswith("}"):  # others are events; a kill may have cut one
                record = json.loads(line)
                counters.setdefault(record["attributes"]["gpu.uuid"], []).append(round(record["value"] * 1e6))
        self.assertEqual(len(counters), GPUS)
        for gpu, values in counters.items():
            self.assertEqual(values, sorted(values), f"the counter of {gpu} goes on after each kill")

        ledger = sqlite3.connect(f"file:{state}/demo/ledger.db?mode=ro", uri=True)
        self.addCleanup(ledger.close)
        kept = json.loads(ledger.execute("SELECT state FROM ledger_state").fetchone()[0])
        booked = dict(ledger.execute("SELECT gpu, sum(energy_uj) FROM ledger_entry JOIN ledger_account ON account=id GROUP BY gpu"))
        unobserved = ledger.execute("SELECT coalesce(sum(energy_uj), 0) FROM ledger_entry JOIN ledger_account ON account=id "
                                    "WHERE energy_state='unobserved'").fetchone()[0]
        self.assertEqual({one["gpu"] for one in kept["gpus"]}, set(counters))
        for one in kept["gpus"]:
            values = counters[one["gpu"]]
            self.assertIn(one["energy_uj"], values[-3:], "it ends with the last reading")
            self.assertEqual(booked[one["gpu"]], one["energy_uj"] - values[0], one["gpu"])
        total = sum(booked.values())
        self.check_report(state / "demo" / "ledger.db", booked)
        print(f"{kills} kills in {SECONDS:g} s: {total} uJ booked, the counters grew by the same; {100 * unobserved / total:.1f} % unobserved",
              flush=True)
        self.assertGreaterEqual(kills, SECONDS / EVERY - 2)
        # A kill costs the windows that were not written: those of the last seconds, and those that wait for a page of an engine.
        self.assertLess(unobserved, total)

    def check_report(self, file, booked):
        """`gpulens cost report` has the same sums, by whatever they are grouped."""
        for by in ("gpu", "tenant", "engine,class", "energy_state"):
            done = subprocess.run([BINARY, "cost", "report", "--file", file, "--by", by, "--since", "2d", "--energy", "--json"], check=False,
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = json.loads(done.stdout)["rows"]
            self.assertEqual(sum(int(row["energy_uj"]) for row in rows), sum(booked.values()), by)
            if by == "gpu":
                self.assertEqual({row["key"]["gpu"]: int(row["energy_uj"]) for row in rows}, booked)
            if by == "tenant":
                self.assertGreaterEqual({row["key"]["tenant"] for row in rows}, {"storefront", "developers", "search", "research"})


if __name__ == "__main__":
    unittest.main()
