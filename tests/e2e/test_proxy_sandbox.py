"""What `gpulens proxy` may do, tried from inside it: the second table of SECURITY.md, row by row; and that it does its work meanwhile."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

import test_sandbox
from agent import BINARY, free_port, wait_until
from http_stub import HttpStub
from own_network import own_network
from postgres_node import PostgresNode, environment, missing
from test_sandbox import DEVICE, REFUSED, TRY_INSIDE, USER, confines, needs_root, status_of, table, threads_of, try_inside

HEADING = "## What the proxy may do"
PRICES = "provider\tmodel\tinput\tcached_input\tcache_write\toutput\tmax_input\tmax_output\nopenai\tgpt-test\t2000000\t-\t-\t8000000\t100000\t4096\n"
ANSWER = json.dumps({"id": "c1", "object": "chat.completion", "model": "gpt-test", "choices": [],
                     "usage": {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105}}).encode()
NET_BIND_SERVICE = 1 << 10


class ConfinedProxy:
    """A proxy with a folder of each kind, and a provider; runs in a with statement."""

    def __init__(self, case, wrapper=(), user=0, port=None, config="", variables=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-confined-"))
        case.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.folder.chmod(0o755)
        for name in ("config", "state", "outside"):
            (self.folder / name).mkdir()
        (self.folder / "outside/file").write_text("of another program\n")
        (self.folder / "config/prices.tsv").write_text(PRICES)
        (self.folder / "config/secret").write_text("provider-secret-7\n")
        provider = HttpStub(lambda *_: (200, {"Content-Type": "application/json"}, ANSWER))
        provider.__enter__()
        case.addCleanup(provider.__exit__)
        self.provider_port = provider.port
        self.port = port or free_port()
        self.file = self.folder / "config/proxy.yaml"
        self.write(config)
        self.environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **(variables or {})}
        self.key = self.command("keys", "new", "--id", "ada", "--tenant", "acme").strip()
        self.as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all"] if user else []
        if user:
            subprocess.run(["chown", "-R", f"{user}:{user}", str(self.folder)], check=True)
        self.wrapper = [*wrapper, *self.as_user]
        self.process = None

    def write(self, more="", prices="config/prices.tsv"):
        self.file.write_text(f"listen: ['127.0.0.1:{self.port}']\nstate_dir: {self.folder}/state\nprices: [{self.folder}/{prices}]\n"
                             f"providers: [{{name: openai, url: 'http://localhost:{self.provider_port}', api_key: '${{file:secret}}'}}]\n{more}")

    def command(self, *words):
        return subprocess.run([str(BINARY), "proxy", *words, "--config", str(self.file)], env=self.environment, capture_output=True, text=True,
                              timeout=60, check=True).stdout

    def __enter__(self):
        self.log = open(self.folder / "log", "a+")  # noqa: SIM115
        before = self.text().count("Serving at")
        self.process = subprocess.Popen([*self.wrapper, str(BINARY), "proxy", "--config", str(self.file)], env=self.environment,
                                        stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        wait_until(lambda: self.process.poll() is not None or self.text().count("Serving at") > before, 60, "the proxy")
        assert self.process.poll() is None, self.text()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.code = self.process.wait(60)
        self.log.close()

    def text(self):
        return (self.folder / "log").read_text()

    def reload(self, what):
        before = self.text().count(what)
        self.process.send_signal(signal.SIGHUP)
        try:
            wait_until(lambda: self.text().count(what) > before, 30)
        except AssertionError:
            raise AssertionError(f"{what!r} is not in the log: {self.text()}") from None

    def chat(self):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/chat/completions", json.dumps({"model": "gpt-test", "messages": []}).encode(),
                                         {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                answer.read()  # who leaves before the end is charged for what it got
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def charges(self):
        with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(f"file:{self.folder}/state/charges.db?mode=ro", uri=True)) as database:
            return database.execute("SELECT count(*), coalesce(sum(charged_pico), 0) FROM llm_charge").fetchone()
        return (0, 0)

    def attempt(self, word, other):
        return (word.replace("CONFIG", f"{self.folder}/config").replace("STATE", f"{self.folder}/state").replace("OUTSIDE", f"{self.folder}/outside")
                .replace("DEVICE", DEVICE).replace("OTHER", str(other)))


class Case(unittest.TestCase):
    maxDiff = None

    def check_that_it_charges(self, proxy):
        self.assertEqual(proxy.chat(), 200, proxy.text())
        try:
            wait_until(lambda: proxy.charges() == (1, 100 * 2_000_000 + 5 * 8_000_000), 30)
        except AssertionError:
            raise AssertionError(f"{proxy.charges()}: {proxy.text()}") from None


@needs_root
@unittest.skipUnless(TRY_INSIDE.exists() and shutil.which("setpriv"), "needs try_inside and setpriv")
@unittest.skipUnless(confines(), "built with a sanitizer: nothing is confined")
class Confined(Case):
    def test_the_table(self):
        for user in (0, USER):
            with self.subTest(user=user), ConfinedProxy(self, user=user) as proxy, subprocess.Popen(
                    ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "sleep", "600"]) as other:
                try:
                    wrong = []
                    for attempts, row in table(HEADING):
                        for word in attempts:
                            (what,) = try_inside(proxy.process.pid, [proxy.attempt(word, other.pid)]).values()
                            if (what not in REFUSED) != row["proxy"]:
                                wrong.append(f"{word}: {what}, and the table says {'yes' if row['proxy'] else 'no'}")
                    self.assertEqual(wrong, [])
                    # What was tried has ended nothing.
                    self.check_that_it_charges(proxy)
                finally:
                    other.kill()

    def test_each_attempt_succeeds_where_nothing_confines(self):
        # A file of configuration is opened as it is.
        rows = [([word for word in attempts if "CONFIG/p" not in word], row) for attempts, row in table(HEADING)]
        test_sandbox.Inside.check_attempts_in_a_free_process(self, rows)

    def test_each_thread_has_no_capability_also_where_it_listens_below_1024(self):
        with own_network(), ConfinedProxy(self, port=443, config="threads: 2\nsandbox: {mode: enforce}\n") as proxy:
            self.check_that_it_charges(proxy)
            threads = threads_of(proxy.process.pid)
            self.assertGreater(len(threads), 2)
            for thread in threads:
                status = status_of(proxy.process.pid, thread)
                self.assertEqual([status[name].strip() for name in ("NoNewPrivs", "Seccomp", "CapEff", "CapPrm", "CapBnd", "CapAmb")],
                                 ["1", "2", *["0" * 16] * 4], status["Name"])
                self.assertEqual(set(try_inside(proxy.process.pid, ["exec", "fork", "ptrace"], thread).values()), {"EPERM"})
            # One of its user has the right to the port until then, from the service manager.
        with own_network():
            ambient = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=+net_bind_service", "--ambient-caps=+net_bind_service"]
            proxy = ConfinedProxy(self, wrapper=ambient, port=443)
            subprocess.run(["chown", "-R", f"{USER}:{USER}", str(proxy.folder)], check=True)
            with proxy:
                self.check_that_it_charges(proxy)
                self.assertEqual(int(status_of(proxy.process.pid)["CapEff"], 16) & NET_BIND_SERVICE, 0)

    def test_no_process_of_its_user_looks_into_it(self):
        with ConfinedProxy(self, user=USER) as proxy:
            self.assertEqual(os.stat(f"/proc/{proxy.process.pid}/environ").st_uid, 0, "not dumpable")
            done = subprocess.run([*proxy.as_user, "cat", f"/proc/{proxy.process.pid}/mem"], capture_output=True, text=True, check=False)
            self.assertIn("Permission denied", done.stderr)

    def test_a_reload_reads_what_is_replaced_and_names_what_is_outside(self):
        with ConfinedProxy(self) as proxy:
            self.check_that_it_charges(proxy)
            # Another file of the name, as editors make it, with another one that is new in the folder.
            (proxy.folder / "config/more.tsv").write_text(PRICES.replace("\t2000000", "\t3000000"))
            proxy.write(prices="config/more.tsv")
            (proxy.folder / "config/proxy.yaml").rename(proxy.folder / "config/old")
            proxy.write(prices="config/more.tsv")
            proxy.reload("were read again")
            self.assertEqual(proxy.chat(), 200)
            wait_until(lambda: proxy.charges()[1] == 100 * 5_000_000 + 2 * 5 * 8_000_000, 30, "the new price")
            # A folder that it did not know.
            (proxy.folder / "outside/prices.tsv").write_text(PRICES)
            proxy.write(prices="outside/prices.tsv")
            proxy.reload(f"may not open {proxy.folder}/outside/prices.tsv: restart it")
            self.assertIn("Nothing was changed: ", proxy.text())
            self.assertEqual(proxy.chat(), 200)
            wait_until(lambda: proxy.charges()[0] == 3, 30, "a charge by the rules before")
        self.assertEqual(proxy.code, 0)
        with proxy:
            self.assertEqual(proxy.chat(), 200, "after the restart")

    def test_a_secret_outside_that_a_reload_names(self):
        with ConfinedProxy(self) as proxy:
            text = proxy.file.read_text()
            proxy.file.write_text(text.replace("${file:secret}", f"${{file:{proxy.folder}/outside/file}}"))
            proxy.reload(f"may not open {proxy.folder}/outside/file: restart it")
        with ConfinedProxy(self) as proxy:
            proxy.write("on_cancel: wrong\n")
            proxy.reload("Nothing was changed: the configuration is wrong. ")

    def test_words_of_its_mode(self):
        for mode, words in (("off", "may do all"), ("log", "sandbox.mode is log")):
            with ConfinedProxy(self, config=f"sandbox: {{mode: {mode}}}\n") as proxy:
                self.assertEqual(try_inside(proxy.process.pid, ["exec", "bpf"]), {"exec": "ENOENT", "bpf": "EINVAL"}, mode)
                self.assertIn(words, proxy.text())
                self.check_that_it_charges(proxy)

    def test_what_a_kernel_does_not_have_is_left_out_and_logged(self):
        for layer, words, refused in (("landlock", "Not limited: files", "exec"), ("seccomp", "Not limited: system calls", "make:OUTSIDE/tried")):
            with ConfinedProxy(self, wrapper=[str(TRY_INSIDE), "lacking", layer, "--"]) as proxy:
                self.assertIn(words, proxy.text())
                (what,) = try_inside(proxy.process.pid, [proxy.attempt(refused, 0)]).values()
                self.assertIn(what, REFUSED)
                self.check_that_it_charges(proxy)

    @unittest.skipIf(missing(), missing())
    def test_libraries_and_sockets_of_postgresql(self):
        with PostgresNode() as node:
            libraries = {name: text for name, text in environment().items() if name == "LD_LIBRARY_PATH"}
            with ConfinedProxy(self, user=node.user.pw_uid, config=f"stores: [{{name: pg, url: '{node.url()}'}}]\n", variables=libraries) as proxy:
                self.assertEqual(proxy.chat(), 200, proxy.text())

                def rows():
                    return node.sql("SELECT count(*) FROM gpulens_llm_charge").strip()
                wait_until(lambda: rows() == "1", 60, "the row in PostgreSQL; " + proxy.text())


class Service(Case):
    def test_the_service_manager_hears_of_its_states(self):
        proxy = ConfinedProxy(self)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(proxy.folder / "notify"))
            manager.settimeout(60)
            proxy.environment["NOTIFY_SOCKET"] = str(proxy.folder / "notify")
            with proxy:
                self.assertEqual(manager.recv(64), b"READY=1")
                for path in ("/-/ready", "/-/healthy", "/health"):
                    with urllib.request.urlopen(f"http://127.0.0.1:{proxy.port}{path}", timeout=30) as answer:
                        self.assertEqual(answer.status, 200, path)
                self.assertEqual(proxy.chat(), 200)
                proxy.process.send_signal(signal.SIGHUP)
                self.assertEqual([manager.recv(64), manager.recv(64)], [b"RELOADING=1", b"READY=1"])
            self.assertEqual(manager.recv(64), b"STOPPING=1")
        self.assertEqual(proxy.code, 0)
        self.assertEqual(stat.S_IMODE((proxy.folder / "state/keys.tsv").stat().st_mode), 0o600)


if __name__ == "__main__":
    unittest.main()
