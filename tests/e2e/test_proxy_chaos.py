"""`gpulens proxy` is killed with SIGKILL every two seconds, while 64 clients send through it to a provider that misbehaves in every way.

Afterwards the rows of its store and the log of the provider are compared request by request: each request that reached the provider has one row, each
answer that a client got whole is charged exactly, nothing is charged twice, and no hard budget is passed.

As it is: 200 requests a client. GPULENS_SOAK_MINUTES=10: 10,000 a client, or so long. GPULENS_CHAOS_SEED: the names of an earlier run.
"""
import asyncio
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import chaos_provider
from agent import BINARY, PEERS, free_port, peer, value, wait_until

MINUTES = float(os.environ.get("GPULENS_SOAK_MINUTES", "0"))
SEED = os.environ.get("GPULENS_CHAOS_SEED", f"{random.randrange(1 << 32):08x}")
CLIENTS = 64
REQUESTS = 10_000 if MINUTES else 200
POOR = 8  # clients whose key has the hard budget
KILL_EVERY = 2.0
TIMEOUT_S = 1
LIMIT_PICO = 15_000_000_000 * REQUESTS // 200
SHOWN = ("outcome", "counted_by", "status", "provider", "charged_pico", "reserved_pico", "units_input", "units_input_cached", "units_output")
# Micro-dollars per million: input, cached, output.
PRICES = {"gpt-test": (2_000_000, 500_000, 8_000_000), "claude-test": (3_000_000, 300_000, 15_000_000)}


def cost(name, model):
    prompt, cached, answered = chaos_provider.usage_of(name)
    per_input, per_cached, per_output = PRICES[model]
    return (prompt - cached) * per_input + cached * per_cached + answered * per_output


def hash_of(name):
    return hashlib.sha256(name.encode()).hexdigest()[:32]


class Client:
    """Sends requests one after another on a connection that is kept, and notes what came of each."""

    def __init__(self, world, number):
        self.world, self.number = world, number
        self.random = random.Random(f"{SEED} {number}")
        self.key = world.poor if number < POOR else world.key
        self.seen = {}  # name: (end, status, the proxy's id); ends are whole, cut (by the proxy, in order), left and lost
        self.models = {}
        self.repeated = 0
        self.reader = self.writer = None

    async def connect(self):
        while self.writer is None:
            try:
                self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.world.port, limit=1 << 20)
            except OSError:
                await asyncio.sleep(0.02)  # the proxy starts again

    def close(self):
        if self.writer:
            self.writer.transport.abort()
        self.reader = self.writer = None

    async def run(self):
        for n in range(REQUESTS):
            if time.monotonic() > self.world.until:
                break
            name = f"{SEED}-{self.number}-{n}"
            kind = self.random.choice(("plain", "stream", "stream", "messages"))
            away = kind != "messages" and self.random.random() < 0.05
            leave = self.random.randrange(4) if self.random.random() < 0.05 else 40
            self.models[name] = "claude-test" if kind == "messages" else "gpt-test"
            request = self.request(name, kind, away)
            self.seen[name] = await self.send(request, leave)
            if self.seen[name][0] == "lost" and self.random.random() < 0.5:
                # Who got no answer repeats it under its key: what was sent before is not sent again.
                self.repeated += 1
                again = await self.send(request, leave)
                if again[1] not in (0, 409):
                    self.seen[name] = again
        self.close()

    def request(self, name, kind, away):
        text = {"user": name, "max_tokens": 64, "messages": [{"role": "user", "content": "x" * 160}], "model": self.models[name]}
        path = "/v1/chat/completions"
        if away:
            text["model"] = "gpt-away"
        if kind != "plain":
            text["stream"] = True
        if kind == "messages":
            path = "/v1/messages"
        body = json.dumps(text)
        return (f"POST {path} HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer {self.key}\r\nIdempotency-Key: {name}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode()

    async def send(self, request, leave):
        await self.connect()
        status, got = 0, ""
        try:
            self.writer.write(request)
            head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
            status = int(head[9:12])
            fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
            got = fields.get(b"x-gpulens-request-id", b"").decode()
            end = await self.body(fields, leave)
        except (asyncio.IncompleteReadError, OSError):
            self.close()
            return "lost", status, got
        if end == "left" or fields.get(b"connection") == b"close":
            self.close()
        return end, status, got

    async def body(self, fields, leave):
        if b"content-length" in fields:
            await self.reader.readexactly(int(fields[b"content-length"]))
            return "whole"
        body, sse = b"", b"event-stream" in fields[b"content-type"]
        while True:
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            piece = await self.reader.readexactly(size + 2)
            if size == 0:
                break
            body += piece[:-2]
            if sse and body.count(b"\n\n") > leave or len(body) > 50_000:
                return "left"
        # A stream that the provider cut ends with an error that is the proxy's.
        return "whole" if not sse or b"[DONE]" in body or b"message_stop" in body else "cut"


class World:
    def __init__(self, folder):
        self.folder = folder
        self.log = open(folder / "log", "w+")  # noqa: SIM115
        self.provider = subprocess.Popen([sys.executable, chaos_provider.__file__, str(folder / "provider.log")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        upstream = f"http://127.0.0.1:{int(self.provider.stdout.readline())}"
        self.port = free_port()
        rows = [f"{provider}\t{model}\t{prices[0]}\t{prices[1]}\t{prices[2]}\t100000\t4096\n"
                for provider, model, prices in (("openai", "gpt-test", PRICES["gpt-test"]), ("openai", "gpt-away", PRICES["gpt-test"]),
                                                ("anthropic", "claude-test", PRICES["claude-test"]))]
        (folder / "prices.tsv").write_text("provider\tmodel\tinput\tcached_input\toutput\tmax_input\tmax_output\n" + "".join(rows))
        times = f"connect_timeout: {TIMEOUT_S}s, head_timeout: {TIMEOUT_S}s, idle_timeout: {TIMEOUT_S}s"
        self.config = folder / "proxy.yaml"
        self.config.write_text(
            f"listen: ['127.0.0.1:{self.port}']\nstate_dir: {folder}/state\nprices: [{folder}/prices.tsv]\nthreads: 2\nattempts: 2\n"
            f"providers:\n  - {{name: one, url: '{upstream}/one', prices: openai, api_key: k1, {times}}}\n"
            f"  - {{name: two, url: '{upstream}/two', prices: openai, api_key: k2, {times}}}\n"
            f"  - {{name: away, url: 'http://127.0.0.1:{free_port()}', prices: openai, {times}}}\n"
            f"  - {{name: talks, api: anthropic, url: '{upstream}/talks', prices: anthropic, api_key: k3, {times}}}\n"
            "routes:\n  - {models: [gpt-away], providers: [away, two]}\n  - {models: ['*'], providers: [one, two, talks]}\n"
            f"budgets: [{{name: small, listed_only: true, usd: '{LIMIT_PICO / 1e12:.6f}', window: forever, mode: hard}}]\n")
        self.key = self.new_key("--id", "ada")
        self.poor = self.new_key("--id", "poor", "--budgets", "small")
        self.process, self.starts, self.until = None, 0, float("inf")

    def new_key(self, *words):
        return subprocess.run([str(BINARY), "proxy", "keys", "new", "--tenant", "acme", *words, "--config", str(self.config)],
                              capture_output=True, text=True, check=True).stdout.strip()

    def start(self):
        self.process = subprocess.Popen([str(BINARY), "proxy", "--config", str(self.config)], stderr=self.log)
        self.starts += 1

    def serves(self):
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
            return True
        except OSError:
            return False

    def alive(self):
        return self.process.poll() is None

    async def kill_again_and_again(self):
        while True:
            while not self.serves():
                assert self.alive(), f"the proxy ended by itself: {self.text()}"
                await asyncio.sleep(0.02)
            await asyncio.sleep(KILL_EVERY / 2)
            self.process.send_signal(signal.SIGHUP)  # a reload cuts nothing
            await asyncio.sleep(KILL_EVERY / 2)
            assert self.alive(), f"the proxy ended by itself: {self.text()}"
            self.process.kill()
            self.process.wait()
            self.start()

    async def run(self):
        if MINUTES:
            self.until = time.monotonic() + 60 * MINUTES
        clients = [Client(self, number) for number in range(CLIENTS)]
        killing = asyncio.create_task(self.kill_again_and_again())
        sending = asyncio.gather(*(client.run() for client in clients))
        done, _ = await asyncio.wait((killing, sending), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        killing.cancel()
        return clients

    def text(self):
        return (self.folder / "log").read_text()[-3000:]

    def page(self):
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10).read().decode()
        except OSError:
            return None

    def close(self):
        if self.process and self.alive():
            self.process.kill()
            self.process.wait()
        if self.provider.poll() is None:
            self.provider.kill()
            self.provider.wait()
        for file in (self.log, self.provider.stdin, self.provider.stdout):
            file.close()


class Chaos(unittest.TestCase):
    def test_charges_are_what_the_provider_sent(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-chaos-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        world = World(folder)
        self.addCleanup(world.close)
        world.start()
        clients = asyncio.run(world.run())
        # Nothing is held, and the budget has what its rows say, after the last kill, too.
        page = wait_until(lambda: (page := world.page()) and value(page, "gpulens_proxy_budget_held_micros", budget="small") == 0 and page, what="no request")
        world.process.terminate()
        self.assertEqual(world.process.wait(40), 0, world.text())
        world.provider.stdin.close()
        self.assertEqual(world.provider.wait(40), 0)

        reached = {}
        for line in (folder / "provider.log").read_text().splitlines():
            name, provider, act = line.split("\t")
            reached.setdefault(name, []).append((provider, act))
        with sqlite3.connect(folder / "state/charges.db") as store:
            store.row_factory = sqlite3.Row
            rows = store.execute("SELECT * FROM llm_charge").fetchall()
        seen, models = {}, {}
        for client in clients:
            seen.update(client.seen)
            models.update(client.models)
        self.compare(reached, rows, seen, models, world)
        spent = sum(row["charged_pico"] for row in rows if row["key_id"] == "poor")
        self.assertEqual(value(page, "gpulens_proxy_budget_spent_micros", budget="small"), spent // 1_000_000)
        without = seen.keys() - reached.keys()
        self.assertTrue(any(seen[name][1] == 429 for client in clients[:POOR] for name in client.seen.keys() & without), "the budget was not reached")

    def compare(self, reached, rows, seen, models, world):
        by_hash = {hash_of(name): name for name in seen}
        self.assertEqual(len(by_hash), len(seen))
        found = {}
        for row in rows:
            name = by_hash.get(row["idempotency"])
            self.assertIsNotNone(name, dict(row))
            self.assertNotIn(name, found, "two rows of one request")
            found[name] = row
        self.assertEqual(set(reached) - set(found), set(), "these reached the provider and have no row")
        counts = {}
        for name, (end, status, got) in seen.items():
            acts, row = reached.get(name, []), found.get(name)
            with self.subTest(name=name, acts=acts, end=end, status=status, row=row and [row[one] for one in SHOWN]):
                self.one(name, models[name], acts, row, end, status, got)
            mark = f"{row['outcome']}/{row['counted_by']}" if row else "no row"
            counts[mark] = counts.get(mark, 0) + 1
        charged = sum(row["charged_pico"] for row in rows)
        print(f"seed {SEED}: {len(seen)} requests, {len(reached)} at the provider, {world.starts - 1} kills, {charged / 1e12:.6f} USD; {counts}", file=sys.stderr)
        self.assertLessEqual(sum(row["charged_pico"] for row in rows if row["key_id"] == "poor"), LIMIT_PICO)
        # What a kill can leave unsettled is what runs then.
        self.assertLessEqual(sum(row["outcome"] == "unsettled" for row in rows), CLIENTS * (world.starts - 1))
        for mark in ("complete/usage", "complete/calibrated", "complete/nothing", "cancelled/partial", "upstream_failed/nothing", "upstream_failed/partial",
                     "unsettled/unsettled"):
            self.assertGreater(counts.get(mark, 0), 0, f"nothing ended as {mark}")

    def one(self, name, model, acts, row, end, status, got):
        """One request: what the provider did, its row, and what its client saw."""
        # Another provider gets it only when the first one was busy or failed before a byte of an answer.
        self.assertLessEqual(len(acts), 2)
        if len(acts) == 2:
            self.assertIn(acts[0][1], ("busy", "failed"))
            self.assertNotEqual(acts[0][0], acts[1][0])
        if row is None:
            self.assertEqual(acts, [])
            self.assertTrue(end == "lost" or status in (429, 503), "refused, or never read")
            return
        if got and status != 409:
            self.assertEqual(row["request_id"], got)
        provider, act = acts[-1] if acts else ("", "refused")
        exact = cost(name, model)
        if row["key_id"] == "poor":
            self.assertLessEqual(row["charged_pico"], row["reserved_pico"], "a hard budget reserves the bound")
        per_input, per_cached, per_output = PRICES[model]
        units = row["units_input"] * per_input + row["units_input_cached"] * per_cached + row["units_output"] * per_output
        if row["outcome"] == "unsettled":
            # A stream that ran for a second has a count from before the kill.
            self.assertEqual(row["charged_pico"], {"unsettled": 0, "recovered": units}[row["counted_by"]])
        elif row["counted_by"] == "usage":
            self.assertIn(act, ("whole", "slow", "no_end"))
            self.assertEqual((row["charged_pico"], row["provider"], row["upstream_request_id"]), (exact, provider, name))
            prompt, cached, answered = chaos_provider.usage_of(name)
            self.assertEqual((row["units_input"], row["units_input_cached"], row["units_output"]), (prompt - cached, cached, answered))
        else:
            self.assertEqual(row["charged_pico"], 0 if row["counted_by"] == "nothing" else units)
            self.assertIn(row["counted_by"], {"cancelled": ("partial", "nothing"), "upstream_failed": ("partial", "nothing"),
                                              "complete": ("calibrated", "nothing")}[row["outcome"]])
        # On a machine that is too busy any act may last too long, and a reset overtake what was sent before it.
        late = row["outcome"] == "upstream_failed" and row["duration_ns"] >= TIMEOUT_S * 1e9
        overtaken = act == "reset_inside" and not row["upstream_request_id"]
        settled = row["outcome"] not in ("unsettled", "cancelled") and not late and not overtaken
        if settled and act in ("whole", "slow", "no_end"):
            self.assertEqual((row["outcome"], row["counted_by"]), ("complete", "usage"))
        if settled and act in ("refused", "busy", "failed", *chaos_provider.UNANSWERED):
            self.assertEqual(row["counted_by"], "nothing")
        if settled and act in chaos_provider.CUT:
            self.assertEqual((row["outcome"], row["counted_by"]), ("upstream_failed", "partial"))
        if settled and act == "no_json":
            self.assertEqual((row["outcome"], row["counted_by"]), ("complete", "calibrated"))
        # An answer is settled before its end is sent; errors are afterwards, so that a kill can come between.
        if end == "whole" and status == 200:
            self.assertEqual((row["outcome"], row["counted_by"]), ("complete", "calibrated" if act == "no_json" else "usage"), "a client got this answer whole")


class Leases(unittest.TestCase):
    """Two replicas share a hard budget by a real redis-server. What a killed one had leased comes back when it starts again."""

    def test_the_lease_of_a_killed_replica_ends_at_its_next_start(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-chaos-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        redis_port, redis = free_port(), peer("redis-server")
        server = subprocess.Popen([redis, "--port", str(redis_port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)], stdout=subprocess.DEVNULL,
                                  env={"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(PEERS / "usr/lib/x86_64-linux-gnu")})
        self.addCleanup(lambda: (server.kill(), server.wait()))
        replicas = {}
        for name in ("a", "b"):
            (folder / name).mkdir()
            world = replicas[name] = World(folder / name)
            self.addCleanup(world.close)
            # A request reserves about 1030 microdollars, so the second has no room while the first one's is leased; it costs 780 at most.
            text = world.config.read_text().replace(f"usd: '{LIMIT_PICO / 1e12:.6f}'", "usd: '0.0019', shared: true")
            world.config.write_text(text + f"budget_engine: {{url: 'redis://127.0.0.1:{redis_port}', replica: {name}}}\n")
            world.start()
            wait_until(world.serves, what="the proxy")
        a, b = replicas["a"], replicas["b"]
        self.assertEqual(self.send(a, "whole"), 200)
        a.process.kill()
        a.process.wait()
        # Most of the budget is leased to one that is dead.
        self.assertEqual(self.send(b, "whole"), 429)
        a.start()
        wait_until(a.serves, what="the proxy")
        self.assertEqual(wait_until(lambda: (status := self.send(b, "whole")) != 429 and status, what="a lease"), 200)

    @staticmethod
    def send(world, act):
        name = next(name for name in (f"{random.random()}" for _ in range(1000)) if chaos_provider.act_of(name, "one") == act)
        body = json.dumps({"user": name, "model": "gpt-test", "max_tokens": 64, "messages": [{"role": "user", "content": "x" * 160}]}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{world.port}/v1/chat/completions", body, {"Authorization": f"Bearer {world.poor}"})
        try:
            return urllib.request.urlopen(request, timeout=20).status
        except urllib.error.HTTPError as error:
            return error.code


if __name__ == "__main__":
    unittest.main()
