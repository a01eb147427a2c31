"""`gpulens mcp` and /mcp with the official client of the Model Context Protocol: both transports and eras of the protocol."""
import asyncio
import base64
import contextlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import httpx2
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from agent import BINARY, Agent, samples, wait_until

TOOLS = {"list_gpus", "history", "events", "why", "explain", "engines", "experiments"}
PASSWORD = "$2b$04$aSG/mQMl0g2fEWOi86DeBOD94EHJF6JR5ZyjqD7d8aRnq/Lh2jY7W"  # of "secret", at a low cost
ERAS = ("legacy", "auto", "2026-07-28")


def has_gpus(agent, **headers):
    return len(samples(agent.page(**headers), "gpu_power_draw_watts")) == 8


class Mcp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-e2e-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.socket = str(cls.folder / "control.sock")
        cls.agent = Agent("--demo", config=f"state_dir: {cls.folder}/state\ncontrol: {{socket: {cls.socket}}}\n",
                          environment={"GPULENS_DEMO_SCENARIO": "calm"})
        cls.enterClassContext(cls.agent)
        cls.url = f"http://127.0.0.1:{cls.agent.port}"
        wait_until(lambda: has_gpus(cls.agent) and b"inference_requests_running" in cls.agent.get("/metrics").text, what="an engine")

    def stdio(self, *arguments):
        return StdioServerParameters(command=str(BINARY), args=["mcp", *(arguments or ["--socket", self.socket])])

    def session(self, server, work, mode="auto"):
        async def run():
            async with Client(server, mode=mode, read_timeout_seconds=30) as client:
                return await work(client)
        return asyncio.run(run())

    def call(self, server, name, **arguments):
        async def work(client):
            await client.list_tools()  # so that the client checks results by their schemas
            return await client.call_tool(name, arguments)
        return self.session(server, work)

    def test_each_era_of_the_protocol_over_both_transports(self):
        async def work(client):
            tools = (await client.list_tools()).tools
            gpus = await client.call_tool("list_gpus", {})
            return tools, gpus
        for server in (self.stdio(), self.stdio(self.url), self.url + "/mcp"):
            for mode in ERAS:
                with self.subTest(server=str(server), mode=mode):
                    tools, gpus = self.session(server, work, mode)
                    self.assertEqual({tool.name for tool in tools}, TOOLS)
                    self.assertTrue(all(tool.annotations.read_only_hint for tool in tools))
                    self.assertFalse(gpus.is_error, gpus.content)
                    self.assertEqual(json.loads(gpus.content[0].text), gpus.structured_content)
                    self.assertEqual(len(gpus.structured_content["gpus"]), 8)
                    self.assertIs(gpus.structured_content["simulated"], True)

    def test_both_transports_answer_the_same(self):
        for name, arguments in (("explain", {"word": "gpu.power.draw"}), ("explain", {"word": "xid 79"}), ("explain", {"word": "nothing"}),
                                ("history", {"select": ["gpu.memory.total"], "window": "10s", "values": "last", "end": 1})):
            over_stdio, over_http = (self.call(server, name, **arguments) for server in (self.stdio(), self.url + "/mcp"))
            self.assertEqual(over_stdio.structured_content, over_http.structured_content)
            self.assertEqual(over_stdio.content, over_http.content)

    def test_every_tool_answers(self):
        server = self.url + "/mcp"
        engines = self.call(server, "engines").structured_content["engines"]
        self.assertIn("chat-a", {engine["engine"] for engine in engines})
        self.assertTrue(all(engine["up"] for engine in engines))
        history = self.call(server, "history", select=['gpu.power.draw{gpu.index="0"}', "gpu.energy.consumption"], window="20s",
                            step="5s").structured_content
        self.assertEqual(len(history["series"]), 9)
        self.assertEqual({one["unit"] for one in history["series"]}, {"W", "J"})
        self.assertIn("rate", history["series"][-1] | history["series"][0])
        self.assertIn("metric", self.call(server, "explain", word="gpu.power.draw").structured_content)
        for name in ("events", "why", "experiments"):
            result = self.call(server, name)
            with self.subTest(name=name):
                self.assertFalse(result.is_error, result.content)
                self.assertIsInstance(result.structured_content, dict)

    def test_errors_name_what_to_do(self):
        for name, arguments, text in (("history", {"select": ["gpu.power.drow"]}, "gpu.power.draw"),
                                      ("history", {"select": ["gpu.power.draw"], "window": "1h", "step": "1s"}, "longer step"),
                                      ("engines", {"engine": "nothing"}, "without arguments"),
                                      ("explain", {"word": "xid 99999"}, "99999"),
                                      ("events", {"limit": 0}, "1 to 500")):
            result = self.call(self.url + "/mcp", name, **arguments)
            self.assertTrue(result.is_error)
            self.assertIn(text, result.content[0].text)
        # No agent: the session lives, and each call has the reason.
        result = self.call(self.stdio("--socket", str(self.folder / "no.sock")), "list_gpus")
        self.assertTrue(result.is_error)
        self.assertIn("no.sock", result.content[0].text)

    def raw(self, body, headers):
        with httpx2.Client() as client:
            return client.post(self.url + "/mcp", content=body, headers=headers)

    def test_what_http_demands(self):
        json_type = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
        answer = self.raw(ping, json_type)
        self.assertEqual((answer.status_code, answer.json()), (200, {"jsonrpc": "2.0", "id": 1, "result": {}}))
        self.assertEqual(answer.headers["content-type"], "application/json")
        self.assertEqual(self.raw(b'{"jsonrpc":"2.0","method":"notifications/initialized"}', json_type).status_code, 202)
        self.assertEqual(self.raw(b"{", json_type).status_code, 400)
        self.assertEqual(self.raw(ping, json_type | {"Content-Type": "text/plain"}).status_code, 415)
        self.assertEqual(self.raw(ping, json_type | {"Accept": "text/html"}).status_code, 406)
        self.assertEqual(self.raw(ping, json_type | {"MCP-Protocol-Version": "2001-01-01"}).status_code, 400)
        self.assertEqual(self.raw(b" " * ((1 << 20) + 1), json_type).status_code, 413)
        for method in ("GET", "DELETE", "PUT"):
            self.assertEqual(self.agent.get("/mcp", method=method).status, 405)
        # A page elsewhere, and a name that was rebound to this address.
        self.assertEqual(self.raw(ping, json_type | {"Origin": "http://evil.example"}).status_code, 403)
        self.assertEqual(self.raw(ping, json_type | {"Host": "evil.example"}).status_code, 403)

    def test_bad_lines_do_not_end_the_session(self):
        lines = [b"", b"{", b"[" * 100_000, b'{"jsonrpc":"2.0","id":1}', b"\xff\xfe", b"[]", b"x" * (2 << 20),
                 b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % (b"9" * 5000), b'{"jsonrpc":"2.0","id":2,"method":"ping"}\r']
        done = subprocess.run([BINARY, "mcp", "--socket", self.socket], input=b"\n".join(lines) + b'\n{"jsonrpc":"2.0","id":3,"method":"ping"}',
                              capture_output=True, timeout=30, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([answer.get("error", {}).get("code") for answer in answers],
                         [-32700, -32600, -32600, -32700, -32600, -32600, -32600, None, None])
        self.assertEqual([answer["id"] for answer in answers[-2:]], [2, 3])

    def test_it_waits_behind_the_password_of_the_other_pages(self):
        web = self.folder / "web.yaml"
        web.write_text(f"basic_auth_users: {{ann: {PASSWORD}}}\n")
        token = base64.b64encode(b"ann:secret").decode()
        with Agent("--demo", config=f"http: {{web_config: {web}}}\ncontrol: {{socket: none}}\n", authorization=f"Basic {token}") as agent:
            url = f"http://127.0.0.1:{agent.port}"
            wait_until(lambda: has_gpus(agent, Authorization=f"Basic {token}"), what="eight GPUs")

            async def with_password(client):
                return await client.call_tool("list_gpus", {})

            def over_http(headers):
                async def run():
                    async with httpx2.AsyncClient(headers=headers) as http:
                        async with Client(streamable_http_client(url + "/mcp", http_client=http), mode="legacy",
                                          read_timeout_seconds=20) as client:
                            return await with_password(client)
                return asyncio.run(run())

            self.assertEqual(len(over_http({"Authorization": f"Basic {token}"}).structured_content["gpus"]), 8)
            for headers in ({}, {"Authorization": "Basic " + base64.b64encode(b"ann:wrong").decode()}):
                with self.assertRaises(BaseException), contextlib.redirect_stderr(sys.stdout):
                    over_http(headers)
            self.assertEqual(agent.get("/mcp", method="POST", Content_Type="application/json").status, 401)
            # The same through the command, which brings the password with the URL.
            there = url.replace("http://", "http://ann:secret@")
            self.assertFalse(self.session(self.stdio(there), with_password).is_error)
            refused = self.session(self.stdio(url), with_password)
            self.assertTrue(refused.is_error)
            self.assertIn("401", refused.content[0].text)


if __name__ == "__main__":
    unittest.main()
