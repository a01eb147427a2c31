"""Inference records that were kept: gpulens telemetry, through the real program, on files of openjarvis' table."""
import csv
import hashlib
import io
import json
import os
import pathlib
import pty
import random
import sqlite3
import subprocess
import tempfile
import unittest

from agent import BINARY

# The table as openjarvis makes it; NEWER came with later versions of it.
REALS = """latency_seconds ttft cost_usd energy_joules power_watts gpu_utilization_pct gpu_memory_used_gb gpu_temperature_c
throughput_tok_per_sec prefill_latency_seconds decode_latency_seconds cpu_energy_joules gpu_energy_joules dram_energy_joules
tokens_per_joule energy_per_output_token_joules throughput_per_watt prefill_energy_joules decode_energy_joules mean_itl_ms
median_itl_ms p90_itl_ms p95_itl_ms p99_itl_ms std_itl_ms""".split()
OLD = ("CREATE TABLE telemetry(id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp REAL NOT NULL, model_id TEXT NOT NULL,"
       " engine TEXT NOT NULL DEFAULT '', agent TEXT NOT NULL DEFAULT '', prompt_tokens INTEGER NOT NULL DEFAULT 0,"
       " completion_tokens INTEGER NOT NULL DEFAULT 0, total_tokens INTEGER NOT NULL DEFAULT 0,"
       " batch_id TEXT NOT NULL DEFAULT '', is_warmup INTEGER NOT NULL DEFAULT 0, is_streaming INTEGER NOT NULL DEFAULT 0, "
       + ", ".join(f"{name} REAL NOT NULL DEFAULT 0.0" for name in REALS) + ", metadata TEXT NOT NULL DEFAULT '{}')")
NEWER = ["ALTER TABLE telemetry ADD COLUMN token_counting_version INTEGER",
         "ALTER TABLE telemetry ADD COLUMN prompt_tokens_evaluated INTEGER NOT NULL DEFAULT 0",
         "ALTER TABLE telemetry ADD COLUMN mining_session_id TEXT"]
BEGIN = 1_763_700_000.0


def records(count):
    chance = random.Random(7)
    for i in range(count):
        out = chance.randrange(1, 400)
        energy = chance.choice([0.0, chance.uniform(1, 80)])
        yield {"timestamp": BEGIN + i * 7, "model_id": ["llama-3.1-8b", "qwen3:8b", "=cmd,\"x\"\n"][i % 3],
               "engine": ["vllm", "sglang"][i % 2], "agent": "bench", "batch_id": f"b{i // 500}", "is_warmup": i % 10 == 0,
               "prompt_tokens": 100 + i % 50, "completion_tokens": out, "total_tokens": 100 + i % 50 + out,
               "latency_seconds": chance.uniform(0.2, 3), "ttft": chance.choice([0.0, chance.uniform(0.01, 0.4)]),
               "cost_usd": 1e-5 * out, "energy_joules": energy, "mean_itl_ms": chance.choice([0.0, chance.uniform(5, 30)]),
               "gpu_utilization_pct": chance.choice([0.0, chance.uniform(10, 99)])}


class Telemetry(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="gpulens-telemetry-")
        self.addCleanup(self.folder.cleanup)
        self.home = pathlib.Path(self.folder.name)
        self.db = self.home / "telemetry.db"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("GPULENS_")}
        self.environment["HOME"] = str(self.home)
        self.environment["GPULENS_TELEMETRY_DB"] = str(self.db)

    def call(self, *arguments, **more):
        return subprocess.run([str(BINARY), "telemetry", *map(str, arguments)], capture_output=True, text=True, timeout=60,
                              env=self.environment, cwd=self.home, check=False, stdin=subprocess.DEVNULL, **more)

    def good(self, *arguments):
        done = self.call(*arguments)
        self.assertEqual(done.returncode, 0, (arguments, done.stdout, done.stderr))
        return done.stdout

    def stats(self, *arguments):
        return json.loads(self.good("stats", "--json", *arguments))

    def fill(self, count=1000, newer=True):
        with sqlite3.connect(self.db) as database:
            database.execute(OLD)
            for statement in NEWER if newer else []:
                database.execute(statement)
            for row in records(count):
                database.execute(f"INSERT INTO telemetry({','.join(row)}) VALUES({','.join('?' * len(row))})", tuple(row.values()))
        database.close()

    def sql(self, query, *values):
        database = sqlite3.connect(self.db)
        try:
            return database.execute(query, values).fetchall()
        finally:
            database.close()

    def assert_totals(self, stats, where="1", *values):
        """`stats` of --json equals the result of SQL over the same rows."""
        row = self.sql("SELECT count(*), sum(prompt_tokens), sum(completion_tokens), sum(total_tokens), sum(latency_seconds),"
                       " sum(cost_usd), sum(energy_joules), sum(energy_joules > 0), avg(nullif(ttft, 0)), avg(nullif(mean_itl_ms, 0)) / 1e3,"
                       " sum(energy_joules) / sum(CASE WHEN energy_joules > 0 THEN completion_tokens END),"
                       " avg(nullif(gpu_utilization_pct, 0)) / 100, max(latency_seconds)"
                       f" FROM telemetry WHERE {where}", *values)[0]
        mine = (stats["calls"], stats["prompt_tokens"], stats["completion_tokens"], stats["total_tokens"],
                stats["latency_seconds"]["sum"], stats["cost_usd"]["sum"], stats["energy_joules"]["sum"], stats["energy_joules"]["n"],
                stats["ttft_seconds"]["mean"], stats["itl_seconds"]["mean"], stats["joules_per_output_token"],
                stats["gpu_utilization_ratio"]["mean"], stats["latency_seconds"]["max"])
        for a, b in zip(mine, row):
            self.assertAlmostEqual(a, b, delta=1e-9 * abs(b))

    def assert_everything(self):
        stats = self.stats()
        self.assertEqual(stats["schema"], "gpulens.telemetry_stats/1")
        self.assert_totals(stats["total"])
        self.assertEqual([m["model"] for m in stats["models"]],
                         [row[0] for row in self.sql("SELECT model_id FROM telemetry GROUP BY 1 ORDER BY count(*) DESC, 1")])
        for model in stats["models"]:
            self.assert_totals(model, "model_id = ?", model["model"])
        for engine in stats["engines"]:
            self.assert_totals(engine, "engine = ?", engine["engine"])
        self.assert_totals(self.stats("--exclude-warmup")["total"], "is_warmup = 0")
        self.assert_totals(self.stats("--engine", "vllm")["total"], "engine = 'vllm'")
        since, until = "2025-11-21T05:03:20Z", "2025-11-21T06:00:00Z"  # 1,763,701,400 and 1,763,704,800
        self.assert_totals(self.stats("--since", since, "--until", until)["total"], "timestamp BETWEEN 1763701400 AND 1763704800")
        minutes = self.stats("--by", "minute", "--since", since)["groups"]
        self.assertEqual(sum(m["calls"] for m in minutes), self.sql("SELECT count(*) FROM telemetry WHERE timestamp >= 1763701400")[0][0])
        for minute in minutes[:3]:
            start = int(minute["key"])
            self.assert_totals(minute, "timestamp >= max(?, 1763701400) AND timestamp < ?", start, start + 60)
        latencies = [row[0] for row in self.sql("SELECT latency_seconds FROM telemetry ORDER BY 1")]
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            exact = latencies[round(share * (len(latencies) - 1))]
            self.assertAlmostEqual(stats["total"]["latency_seconds"][name], exact, delta=0.02 * exact)

    def test_totals_are_those_of_sql(self):
        self.fill()
        self.assert_everything()
        text = self.good("stats")
        calls, tokens, cost = self.sql("SELECT count(*), sum(total_tokens), sum(cost_usd) FROM telemetry")[0]
        self.assertRegex(text, rf"Total Calls +{calls:,}\n")
        self.assertRegex(text, rf"Total Tokens +{tokens:,} ")
        self.assertRegex(text, rf"Total Cost \(USD\) +{cost:.6f}\n")
        self.assertIn("=cmd,\"x\"\\x0a", text)

    def test_an_old_file_without_newer_columns(self):
        self.fill(newer=False)
        self.assert_everything()

    def test_a_read_only_file_stays_as_it_is(self):
        self.fill()
        self.db.chmod(0o444)
        before = hashlib.sha256(self.db.read_bytes()).hexdigest()
        self.assert_everything()
        self.good("export", "-f", "csv")
        self.good("check")
        self.assertEqual(hashlib.sha256(self.db.read_bytes()).hexdigest(), before)
        self.assertEqual(sorted(p.name for p in self.home.iterdir()), ["telemetry.db"])

    def test_roll_ups_have_the_same_totals(self):
        self.fill()
        plain = self.stats("--by", "model")
        self.good("vacuum")
        self.assertIn("1,000 of 1,000 records rolled up", self.good("check"))
        self.assert_everything()
        for a, b in zip(self.stats("--by", "model")["groups"], plain["groups"]):
            self.assertEqual(a["latency_seconds"]["p99"], b["latency_seconds"]["p99"])
        # Another program, that knows nothing of them, deletes, changes and adds.
        with sqlite3.connect(self.db) as database:
            database.execute("DELETE FROM telemetry WHERE id % 7 = 0")
            database.execute("UPDATE telemetry SET energy_joules = 5 WHERE id % 11 = 0")
            database.execute("INSERT INTO telemetry(timestamp, model_id, latency_seconds, completion_tokens) VALUES(?, 'new', 1, 3)",
                             (BEGIN + 9,))
        database.close()
        self.assertIn("stale", self.good("check"))
        calls = self.stats()["total"]["calls"]
        self.assertEqual(calls, self.sql("SELECT count(*) FROM telemetry")[0][0])
        self.good("vacuum")
        self.assertIn(f"{calls} of {calls} records rolled up", self.good("check"))
        self.assertEqual(self.stats()["total"]["energy_joules"]["n"], self.sql("SELECT sum(energy_joules > 0) FROM telemetry")[0][0])

    def test_missing_and_broken_input(self):
        done = self.call("stats")
        self.assertEqual((done.returncode, done.stdout), (0, "No telemetry data recorded yet.\n"))
        self.assertEqual(self.stats()["total"]["calls"], 0)
        self.assertFalse(self.db.exists())
        self.fill(count=0)
        self.assertEqual(self.good("stats"), "No telemetry data recorded yet.\n")
        self.assertIsNone(self.stats()["total"]["latency_seconds"]["p95"])
        self.db.write_bytes(b"no database at all " * 100)
        for command in ("stats", "export", "check", "vacuum"):
            done = self.call(command)
            self.assertEqual(done.returncode, 1, command)
            self.assertIn("not a database", done.stderr)
        self.db.unlink()
        with sqlite3.connect(self.db) as database:
            database.execute("CREATE TABLE other(x)")
        database.close()
        self.assertIn("not one of inference records", self.call("stats").stderr)
        self.assertEqual(self.call("clear", "--yes").returncode, 1)
        for wrong in (["stats", "--since", "yesterday"], ["stats", "--by", "colour"], ["export", "-f", "xml"]):
            self.assertEqual(self.call(*wrong).returncode, 2, wrong)

    def test_damage_is_reported(self):
        self.fill()
        self.db.write_bytes(self.db.read_bytes()[:4096 * 5])
        done = self.call("check")
        self.assertEqual(done.returncode, 1, done)
        self.assertRegex(done.stdout + done.stderr, "damaged|malformed")

    def test_export_equals_the_rows_of_the_file(self):
        self.fill()
        names = [row[1] for row in self.sql("PRAGMA table_info(telemetry)")]
        rows = self.sql("SELECT * FROM telemetry ORDER BY timestamp")
        exported = list(csv.reader(io.StringIO(self.good("export", "-f", "csv"), newline="")))
        self.assertEqual(exported[0], names)
        self.assertEqual(len(exported), 1001)
        for line, row in zip(exported[1:], rows):
            for name, cell, value in zip(names, line, row):
                if isinstance(value, str):
                    self.assertEqual(cell.removeprefix("'") if value.startswith("=") else cell, value, name)
                else:
                    self.assertEqual(cell, "" if value is None else cell, name)
                    self.assertEqual(value, None if cell == "" else float(cell), name)
        self.assertEqual([tuple(r.values()) for r in json.loads(self.good("export"))], rows)
        lines = self.good("export", "-f", "jsonl", "--engine", "vllm").splitlines()
        self.assertEqual(len(lines), 500)
        self.assertEqual(json.loads(lines[0])["engine"], "vllm")
        done = self.call("export", "-f", "csv", "-o", "calls.csv", "--until", "2025-11-21T04:40:07Z")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", "Exported 2 records to calls.csv\n"))
        self.assertEqual(len((self.home / "calls.csv").read_text().splitlines()), 3)
        self.assertEqual(self.call("export", "-o", "no/such/folder/x").returncode, 1)

    def test_clear_and_vacuum(self):
        self.fill()
        self.good("vacuum")
        done = self.call("clear")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--yes", done.stderr)
        self.assertEqual(self.stats()["total"]["calls"], 1000)
        self.assertEqual(self.clear_at_terminal("n\n"), 1)
        self.assertEqual(self.stats()["total"]["calls"], 1000)
        self.assertEqual(self.good("clear", "--yes"), "Deleted 1,000 telemetry records.\n")
        self.assertEqual(self.stats()["total"]["calls"], 0)
        self.assertEqual(self.sql("SELECT count(*) FROM telemetry_rollup"), [(0,)])
        size = self.db.stat().st_size
        self.good("vacuum")
        self.assertLess(self.db.stat().st_size, size / 3)
        self.assertIn("sound, 0 records", self.good("check"))
        self.assertNotIn("dropped", self.good("check"))
        with sqlite3.connect(self.db) as database:
            for dropped in (2, 3):
                database.execute("INSERT INTO telemetry_writer(host, place, pid, start_ticks, started_ns, flushed_ns, dropped, outcome)"
                                 " VALUES ('', '', 1, 1, 1, 1, ?, 'closed')", (dropped,))  # fmt: skip
        database.close()
        self.assertIn("5 records dropped: SELECT * FROM telemetry_writer", self.good("check"))

    def clear_at_terminal(self, answer):
        """clear with a person at a terminal."""
        master, terminal = pty.openpty()
        try:
            os.write(master, answer.encode())
            return subprocess.run([str(BINARY), "telemetry", "clear"], stdin=terminal, capture_output=True, timeout=60,
                                  env=self.environment, check=False).returncode
        finally:
            os.close(master)
            os.close(terminal)

    def test_a_file_of_openjarvis_is_found(self):
        self.fill(count=10)
        del self.environment["GPULENS_TELEMETRY_DB"]
        (self.home / ".openjarvis").mkdir()
        self.db.rename(self.home / ".openjarvis" / "telemetry.db")
        self.assertEqual(self.stats()["total"]["calls"], 10)

    def test_nothing_is_wider_than_the_screen(self):
        self.fill()
        for columns in (80, 120):
            master, terminal = pty.openpty()
            subprocess.run(["stty", "cols", str(columns), "rows", "50"], stdin=terminal, check=True)
            done = subprocess.run([str(BINARY), "telemetry", "stats"], stdout=terminal, stderr=terminal, timeout=60,
                                  env=self.environment, check=False)
            os.close(terminal)
            self.assertEqual(done.returncode, 0)
            text = b""
            while True:
                try:
                    piece = os.read(master, 65536)
                except OSError:
                    break
                if not piece:
                    break
                text += piece
            os.close(master)
            for line in text.decode().splitlines():
                self.assertLessEqual(len(line), columns, line)


if __name__ == "__main__":
    unittest.main()
