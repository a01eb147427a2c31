"""The master of a Mooncake store and a client that puts, gets and removes objects; the master's page read by the agent."""
import json
import pathlib
import subprocess
import sys
import unittest

from engine import (Agent, EngineCase, Server, fetch, engines_config, free_port, home, libraries, samples, total, value,
                    wait_until)

HERE = pathlib.Path(__file__).resolve().parent
CAPACITY = 64 << 20  # as in mooncake_client.py
SIZES = (1000, 3000, 5000, 70000, 900000)


class Store:
    """The client's process. Each method is one request and waits for its answer."""

    def __init__(self, root, search_path, metadata, master):
        self.process = subprocess.Popen([sys.executable, HERE / "mooncake_client.py", root, metadata, master],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        env={"LD_LIBRARY_PATH": search_path, "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"})
        assert self.answer() == 0, "the client joins the store"

    def answer(self):
        line = self.process.stdout.readline()
        assert line, "the client of the store ended"
        return json.loads(line)

    def __call__(self, *command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(20)
        self.process.stdout.close()


class Mooncake(EngineCase):
    name = "mooncake"

    @classmethod
    def setUpClass(cls):
        root = home("mooncake")
        search_path = libraries(root / "debian")
        cls.metrics, rpc, metadata = free_port(), free_port(), free_port()
        server = Server([root / "mooncake" / "mooncake_master", "--rpc_address=127.0.0.1", f"--rpc_port={rpc}",
                         "--metrics_host=127.0.0.1", f"--metrics_port={cls.metrics}", "--enable_http_metadata_server=true",
                         "--http_metadata_server_host=127.0.0.1", f"--http_metadata_server_port={metadata}",
                         "--default_kv_lease_ttl=50"],  # milliseconds; a held object cannot be removed
                        lambda: fetch(cls.metrics, "/metrics")[0] == 200, {"LD_LIBRARY_PATH": search_path})
        cls.start(server)
        cls.version = "Mooncake master, " + (root / "installed.txt").read_text().strip().partition("==")[2]
        cls.store = Store(root, search_path, f"http://127.0.0.1:{metadata}/metadata", f"127.0.0.1:{rpc}")
        cls.addClassCleanup(cls.store.close)

    @classmethod
    def direct(cls):
        return fetch(cls.metrics, "/metrics")[1]

    @classmethod
    def pages(cls):
        return {"mooncake": cls.direct()}

    def config(self):
        return engines_config(kv=(f"http://127.0.0.1:{self.metrics}/metrics", "mooncake"))

    def test_the_store_holds_the_client_s_objects(self):
        stored = lambda page, state: total(page, "inference_kv_store_bytes", target="kv", inference_state=state)  # noqa: E731
        with Agent(config=self.config()) as agent:
            page = self.settled(agent, lambda p: stored(p, "max") == CAPACITY, "the client's segment")
            self.assertEqual(value(page, "gpulens_scrape_up", target="kv"), 1)
            before = stored(page, "used")
            for number, size in enumerate(SIZES):
                self.assertEqual(self.store("put", f"object-{number}", size), 0)
            page = self.settled(agent, lambda p: stored(p, "used") == before + sum(SIZES), "what was put")
            self.assertEqual(stored(page, "used"), value(self.direct(), "master_allocated_bytes"))
            for number, size in enumerate(SIZES):
                # A lease ends after 50 ms; a busy machine may need longer to read what it is for.
                wait_until(lambda number=number, size=size: self.store("get", f"object-{number}") == size, what=f"object {number}")
            misses = lambda p: value(p, "inference_errors_total", target="kv", error_type="get_replica_list")  # noqa: E731
            missed = misses(agent.page())
            for _ in range(3):
                self.assertEqual(self.store("get", "never put"), 0)
            self.settled(agent, lambda p: misses(p) == missed + 3, "three lookups in vain")
            for number in range(len(SIZES)):
                wait_until(lambda n=number: self.store("remove", f"object-{n}") == 0, 20, "the end of a lease")
            self.settled(agent, lambda p: stored(p, "used") == before, "an empty store")

    def test_every_family_is_known(self):
        with Agent(config=self.config()) as agent:
            page = self.settled(agent, lambda p: samples(p, "gpulens_scrape_up", target="kv"), "a first scrape")
            self.assertEqual(value(page, "gpulens_scrape_families_unknown", target="kv") or 0, 0)
            self.assertEqual(value(page, "gpulens_scrape_parse_errors_total", target="kv") or 0, 0)
        engines = {s.labels["inference_engine"] for s in samples(page, None, target="kv") if s.name.startswith("inference_")}
        self.assertEqual(engines, {"mooncake"})


if __name__ == "__main__":
    unittest.main()
