"""The files of the web page, /api/live and /api/events, and the control socket's `get`, as clients of others meet them."""
import asyncio
import base64
import gzip
import json
import os
import pathlib
import pty
import re
import select
import socket
import subprocess
import tempfile
import unittest

from agent import BINARY, ROOT, Agent, free_port, wait_until

try:
    import websockets
except ImportError:
    websockets = None

WEB = "basic_auth_users: {ann: $2b$04$aSG/mQMl0g2fEWOi86DeBOD94EHJF6JR5ZyjqD7d8aRnq/Lh2jY7W}\n"  # the word is "secret"


class Node:
    """What a client of /api/live knows: docs/api.md, applied message by message."""

    def __init__(self):
        self.values, self.stale, self.series, self.read, self.events = {}, {}, {}, {}, []

    def take(self, body):
        if body["type"] == "event":
            return self.events.append(body["event"])
        if body["type"] == "full":
            self.__init__()
        for one in body.get("series", []) + body.get("add", []):
            self.series[one["id"]] = one
        for identity in body.get("remove", []):
            for known in (self.series, self.values, self.stale):
                known.pop(identity, None)
        pairs = [iter(body.get(key, [])) for key in ("v", "stale")]
        self.values.update(zip(pairs[0], pairs[0]))
        self.stale.update(zip(pairs[1], pairs[1]))
        for identity in body.get("fresh", []):
            del self.stale[identity]
        for identity in body.get("gone", []):
            del self.values[identity]
        for source, at in body.get("read", {}).items():
            self.read[source] = at
        self.read = {source: at for source, at in self.read.items() if at is not None}
        self.tick = body.get("tick", getattr(self, "tick", 0))
        return None


def connect(agent, **options):
    return websockets.connect(f"ws://127.0.0.1:{agent.port}/api/live", max_size=None, **options)


async def message(ws):
    return json.loads(await asyncio.wait_for(ws.recv(), 20))


def now(agent):
    node = Node()
    node.take(json.loads(agent.get("/api/now").text))
    return node


class Page(unittest.TestCase):
    def test_the_plain_page_loads_the_app_and_nothing_else(self):
        with Agent("--demo") as agent:
            wait_until(lambda: b"<h2>GPUs</h2>" in agent.get("/").text)
            page = agent.get("/")
            text = page.text.decode()
            self.assertNotRegex(text, r"<style|style=|onload|<script(?![^>]*src=)", "nothing inline")
            policy = page.getheader("Content-Security-Policy")
            self.assertIn("default-src 'none'", policy)
            self.assertNotIn("unsafe", policy)
            named = re.findall(r'(?:src|href)="/?(page/[^"]+)"', text)
            self.assertIn("page/app.js", named)
            for name in named:
                self.assertEqual(agent.get("/" + name).status, 200, name)

    def test_a_terminal_shows_the_address_last(self):
        port, screen = free_port(), ""
        reading, terminal = pty.openpty()
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "STATE_DIRECTORY": folder, "GPULENS_WEBSOCKET_LISTEN": f"127.0.0.1:{free_port()}",
                           "GPULENS_CONTROL_SOCKET": folder + "/control.sock", "GPULENS_DISCOVERY_LOCAL_ENABLED": "false"}
            for variable in ("GPULENS_BIN", "GPULENS_PEERS"):
                environment.pop(variable, None)
            with subprocess.Popen([str(BINARY), "agent", "--demo", "--http-listen", f"127.0.0.1:{port}"], env=environment,
                                  stdout=subprocess.DEVNULL, stderr=terminal) as agent:
                os.close(terminal)
                try:
                    while f"open     http://localhost:{port}/\r\n" not in screen:
                        self.assertTrue(select.select([reading], [], [], 20)[0], screen)
                        screen += os.read(reading, 4096).decode()
                finally:
                    agent.terminate()
                    os.close(reading)
                    agent.wait(10)
        self.assertTrue(screen.endswith("/\r\n"), "the last line")

    def test_every_file_is_the_source_packed_and_known_by_its_tag(self):
        with Agent() as agent:
            total = 0
            for path in sorted((ROOT / "src/page").iterdir()):
                packed = agent.get("/page/" + path.name, Accept_Encoding="gzip")
                self.assertEqual(gzip.decompress(packed.text), path.read_bytes(), "the program is older than the page: build it")
                self.assertEqual(agent.get("/page/" + path.name).text, path.read_bytes())
                self.assertEqual(packed.getheader("X-Content-Type-Options"), "nosniff")
                tag = packed.getheader("ETag")
                again = agent.get("/page/" + path.name, Accept_Encoding="gzip", If_None_Match=tag)
                self.assertEqual((again.status, again.text), (304, b""))
                total += len(packed.text)
            total += len(agent.get("/page/dygraph.js", Accept_Encoding="gzip").text)
            print(f"files of the page: {total} bytes, packed")
            self.assertLess(total, 150_000)
            self.assertEqual(agent.get("/page/../agent.cc").status, 404)
            self.assertEqual(agent.get("/page/app.js", "POST").status, 405)

    def test_files_of_a_folder_and_passwords(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "app.js").write_text("let changed;")
            web = pathlib.Path(folder, "web.yaml")
            web.write_text(WEB)
            who = "Basic " + base64.b64encode(b"ann:secret").decode()
            with Agent(config=f"http: {{web_config: {web}}}\n", environment={"GPULENS_PAGE_FOLDER": folder}, authorization=who) as agent:
                self.assertEqual(agent.get("/page/app.js", Authorization=who).text, b"let changed;")
                self.assertEqual(agent.get("/page/web.yaml", Authorization=who).status, 404)
                for path in ("/", "/page/app.js", "/api/now", "/api/live"):
                    self.assertEqual(agent.get(path).status, 401, path)
                self.assertNotIn("GPULENS_PAGE_FOLDER", agent.log_text(), "no warning of a variable that is none")


@unittest.skipUnless(websockets, "peer not here: websockets")
class Live(unittest.TestCase):
    def test_changes_applied_are_what_the_page_now_has(self):
        async def watch(agent):
            async with connect(agent) as ws:
                node = Node()
                sizes = []
                while node.__dict__.get("tick", 0) < 8 or len(sizes) < 5:
                    text = await asyncio.wait_for(ws.recv(), 20)
                    node.take(json.loads(text))
                    sizes.append(len(text))
                for _ in range(10):  # both of one tick
                    other = await asyncio.to_thread(now, agent)
                    while node.tick < other.tick:
                        node.take(await message(ws))
                    if node.tick == other.tick:
                        break
                print("bytes: the full message", sizes[0], "then", sizes[1:])
                self.assertEqual(node.tick, other.tick)
                self.assertEqual(node.series, other.series)
                self.assertEqual(node.values, other.values)
                self.assertEqual(node.stale, other.stale)
                self.assertEqual(node.read, other.read)
                self.assertGreater(len(node.values), 300)
        with Agent("--demo") as agent:
            asyncio.run(watch(agent))

    def test_origins_and_passwords(self):
        async def status(agent, **options):
            try:
                async with connect(agent, **options) as ws:
                    await message(ws)
                    return 101
            except websockets.exceptions.InvalidStatus as refused:
                return refused.response.status_code

        with Agent("--demo") as agent:
            self.assertEqual(asyncio.run(status(agent, origin=f"http://127.0.0.1:{agent.port}")), 101)
            for origin in ("http://evil.example", "null", "http://127.0.0.1.evil.example"):
                self.assertEqual(asyncio.run(status(agent, origin=origin)), 403, origin)
            foreign = {"Host": "rebound.evil.example"}
            self.assertEqual(agent.get("/api/live", Upgrade="websocket", Connection="Upgrade", **foreign).status, 403)
            plain = agent.get("/api/live")
            self.assertEqual((plain.status, plain.getheader("Upgrade")), (426, "websocket"))
        with tempfile.TemporaryDirectory() as folder:
            web = pathlib.Path(folder, "web.yaml")
            web.write_text(WEB)
            who = "Basic " + base64.b64encode(b"ann:secret").decode()
            with Agent("--demo", config=f"http: {{web_config: {web}}}\n", authorization=who) as agent:
                self.assertEqual(asyncio.run(status(agent)), 401)
                self.assertEqual(asyncio.run(status(agent, additional_headers={"Authorization": "Basic eDp5"})), 401)
                self.assertEqual(asyncio.run(status(agent, additional_headers={"Authorization": who})), 101)
                self.assertEqual(asyncio.run(status(agent, additional_headers={"Authorization": who}, origin="http://evil.example")), 403)

    def test_stays_over_a_reload_and_ends_in_order(self):
        async def watch(agent):
            async with connect(agent) as ws:
                self.assertEqual((await message(ws))["interval_s"], 1)
                await asyncio.to_thread(agent.reload, "interval: 2s\n")
                while True:
                    body = await message(ws)
                    if body["type"] == "full":
                        break
                self.assertEqual(body["interval_s"], 2)
                while (await message(ws))["type"] != "tick":
                    pass
                agent.process.terminate()
                with self.assertRaises(websockets.exceptions.ConnectionClosed) as ended:
                    while True:
                        await message(ws)
                self.assertEqual(ended.exception.rcvd.code, 1001)
        with Agent("--demo") as agent:
            asyncio.run(watch(agent))

    def test_many_clients_of_one_tick(self):
        async def ticks(agent, count):
            async with connect(agent) as ws:
                found = {}
                while len(found) < count:
                    text = await asyncio.wait_for(ws.recv(), 30)
                    body = json.loads(text)
                    if body["type"] == "tick":
                        found[body["tick"]] = text
                return found

        async def all_of(agent):
            return await asyncio.gather(*(ticks(agent, 3) for _ in range(60)))
        with Agent("--demo") as agent:
            together = {}
            for found in asyncio.run(all_of(agent)):
                for tick, text in found.items():
                    self.assertEqual(together.setdefault(tick, text), text, "all clients get the same")


class Events(unittest.TestCase):
    def query(self, path, line):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(str(path))
            client.sendall(line.encode() + b"\n")
            return b"".join(iter(lambda: client.recv(65536), b"")).decode()

    def test_an_event_arrives_live_and_is_there_after_a_restart(self):
        async def watch(agent, control):
            async with connect(agent) as ws:
                await message(ws)
                self.assertIn("ok ", await asyncio.to_thread(self.query, control, "xid clear 3"))
                while True:
                    body = await message(ws)
                    if body["type"] == "event" and body["event"]["name"] == "gpu.xid.clear":
                        return body["event"]
        with tempfile.TemporaryDirectory() as folder:
            control = pathlib.Path(folder, "control.sock")
            state = {"STATE_DIRECTORY": folder}
            config = f"control: {{socket: {control}}}\n"
            with Agent("--demo", config=config, environment=state) as agent:
                # The GPU has to be known, for the event to be of it.
                wait_until(lambda: any(e["name"] == "gpu.found" for e in json.loads(agent.get("/api/events").text)["events"]))
                if websockets:
                    live = asyncio.run(watch(agent, control))
                    listed = json.loads(agent.get("/api/events?gpu=3").text)["events"]
                    self.assertIn(live, listed)
                    self.assertEqual(listed, sorted(listed, key=lambda e: -e["at"]))
                    self.assertEqual(live["attributes"]["gpu.index"], 3)
                    self.assertIn(live["severity"], ("info", "warning", "error", "fatal"))
                answer = self.query(control, "get /api/events?gpu=3&limit=5")
                self.assertEqual(json.loads(answer.removeprefix("ok ")), json.loads(agent.get("/api/events?gpu=3&limit=5").text))
                self.assertTrue(self.query(control, "get /api/none").startswith("error unavailable "))
                self.assertTrue(self.query(control, "get /api/events?limit=x").startswith("error invalid_argument "))
                self.assertTrue(self.query(control, "get /api/now").startswith('ok {"schema":"gpulens.now/1"'))
                self.assertEqual(agent.get("/api/events?limit=x").status, 400)
                self.assertEqual(agent.get("/api/none").status, 404)
            with Agent("--demo", config=config, environment=state) as agent:
                names = [event["name"] for event in json.loads(agent.get("/api/events?gpu=3").text)["events"]]
                self.assertIn("gpu.xid.clear", names, "of the run before")


if __name__ == "__main__":
    unittest.main()
