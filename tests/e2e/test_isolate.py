"""Isolated targets: a process of its own parses the page, the series are the same, and what befalls the process befalls no other."""
import contextlib
import gzip
import os
import pathlib
import re
import resource
import signal
import unittest

from agent import BINARY, ROOT, Agent, samples, value, wait_until
from bad_pages import TEXT, Server, always, answer

FIXTURES = ROOT.parent / "shared" / "fixtures"
OPEN_METRICS = "Content-Type: application/openmetrics-text; version=1.0.0\r\n"
# Pages of each kind of target: engines, GPU exporters, any exporter.
CAPTURES = ["vllm", "sglang", "triton", "dcgm", "amd", "litellm", "exposition-edge-cases"]
PER_KIND = 4
TIMEOUT = 60
# A sanitizer needs memory and calls of its own: the process has neither limits nor a filter.
SANITIZED = any(word in str(BINARY) for word in ("asan", "tsan"))


def readers(pid):
    """The pids of the processes that read pages for the agent, in order."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            if folder.name.isdigit() and b"reader\0page\0" in (folder / "cmdline").read_bytes():
                if in_family(int(folder.name), pid) and alive(int(folder.name)):
                    found.append(int(folder.name))
    return sorted(found)


def alive(pid):
    with contextlib.suppress(OSError):
        return "State:\tZ" not in pathlib.Path(f"/proc/{pid}/status").read_text()
    return False


def in_family(pid, ancestor):
    while pid > 1:
        if pid == ancestor:
            return True
        pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return False


def captures():
    found = []
    for kind in CAPTURES:
        pages = [path for path in sorted((FIXTURES / kind).rglob("*")) if path.suffix in (".txt", ".prom", ".metrics") and
                 path.stat().st_size < 1 << 20 and b"# TYPE " in path.read_bytes()]
        found += pages[:PER_KIND]
    return found


def target(name, server, interval="0.5s", **more):
    options = "".join(f", {key}: {text}" for key, text in more.items())
    return f"  - {{name: {name}, url: \"{server.url()}\", interval: {interval}{options}}}\n"


def config(targets):
    return "interval: 0.5s\nstate_dir: \"\"\nlimits: {memory: 4GiB}\ntargets:\n" + "".join(targets)


def own_lines(page, name):
    """The lines of a target's series, without those that gpulens reports of itself and of its own time."""
    word = f'"{name}"'
    return sorted(line.replace(word, '"-"') for line in page.splitlines()
                  if word in line and not line.startswith(("gpulens_", "#")))


class Equal(unittest.TestCase):
    """Every page is served to two targets, one of them isolated."""

    def compare(self, pages):
        """`pages`: name to replies in turn."""
        targets, servers = [], []
        for name, reply in pages.items():
            for isolate in ("false", "true"):
                server = Server(reply)
                self.addCleanup(server.close)
                servers.append(server)
                targets.append(target(f"{name}-{isolate}", server, isolate=isolate, pass_through="true"))
        with Agent(config=config(targets)) as agent:
            def all_read():
                page = agent.page()
                return all((value(page, "gpulens_scrape_samples", target=f"{name}-{which}") or 0) > 0
                           for name in pages for which in ("false", "true"))
            wait_until(all_read, TIMEOUT, "a scrape of each target")
            # Of steady pages, too; and the last counted request is answered when the next one comes.
            wait_until(lambda: min(server.requests for server in servers) >= 5, TIMEOUT, "more scrapes")
            before = [server.requests for server in servers]
            page = agent.page()
            # The answers that the page may have: the last of those that were requested is read or not.
            read = [range(first - 1, server.requests + 1) for first, server in zip(before, servers, strict=True)]
            lines = 0
            for number, name in enumerate(pages):
                plain, isolated = own_lines(page, f"{name}-false"), own_lines(page, f"{name}-true")
                self.assertEqual(plain, isolated, name)
                lines += len(plain)
                for of in ("samples", "size_bytes", "families_unknown"):
                    self.assertEqual(value(page, f"gpulens_scrape_{of}", target=f"{name}-false"),
                                     value(page, f"gpulens_scrape_{of}", target=f"{name}-true"), (name, of))
                errors = [value(page, "gpulens_scrape_parse_errors_total", target=f"{name}-{which}") for which in ("false", "true")]
                of_each = [{total / count for count in counts if total % count == 0} for total, counts in zip(errors, read[2 * number:], strict=False)]
                self.assertTrue(of_each[0] & of_each[1], (name, "errors of one answer", errors, read[2 * number:2 * number + 2]))
            self.assertEqual(len(readers(agent.process.pid)), len(pages))
        return lines

    def test_real_pages_are_exported_alike(self):
        pages = captures()
        if not pages:
            self.skipTest("captures not here")
        replies = {}
        for number, path in enumerate(pages):
            body = path.read_bytes()
            fields = OPEN_METRICS if body.rstrip().endswith(b"# EOF") else TEXT
            replies[f"page{number}"] = always(answer(body, fields))
        self.assertGreater(self.compare(replies), 500)

    def test_hostile_and_packed_pages_are_exported_alike(self):
        odd = ("# HELP a_b \\\\ and \\n\n# TYPE a_b counter\na_b_total{x=\"\\\"\\\\\\n\"} 1e3\nbad line here\n# TYPE h histogram\n"
               "h_bucket{le=\"1.0\"} 1\nh_bucket{le=\"1\"} 7\nh_bucket{le=\"+Inf\"} 2\nh_sum NaN\nh_count 2\nthing{target=\"mine\"} 5\n")
        packed = TEXT + "Content-Encoding: gzip\r\n"
        exemplars = ("# TYPE r counter\nr_total 5 # {trace_id=\"abc\"} 1 1700000000\nr_created 1600000000\n# UNIT w_seconds seconds\n"
                     "# TYPE w_seconds gauge\nw_seconds 3\n{\"quoted.name\",l=\"1\"} 4\n# EOF\n")
        self.compare({"odd": always(answer(odd)), "packed": always(answer(gzip.compress(odd.encode()), packed)),
                      "exemplars": always(answer(exemplars, OPEN_METRICS)),
                      "timestamps": always(answer("# TYPE t gauge\nt 1 1700000000000\nu 2\n"))})


class Faults(unittest.TestCase):
    GOOD = "# TYPE g gauge\ng 7\n"

    def start(self, *rows, interval="0.5s", **servers):
        """An agent whose isolated targets are these."""
        for server in servers.values():
            self.addCleanup(server.close)
        targets = [target(name, server, interval, isolate="true", ttl="60s") for name, server in servers.items()]
        agent = Agent(config=config([*rows, *targets]))
        agent.__enter__()
        self.addCleanup(agent.__exit__)
        return agent

    def up(self, agent, name):
        return value(agent.page(), "gpulens_scrape_up", target=name)

    def errors(self, agent, name, reason):
        return value(agent.page(), "gpulens_scrape_errors_total", target=name, reason=reason) or 0

    def starts(self, agent, name, reason):
        return value(agent.page(), "gpulens_reader_starts_total", reader=f"targets/{name}", reason=reason)

    def wait(self, question, what):
        return wait_until(question, TIMEOUT, what)

    def test_a_process_that_is_killed_or_stopped_is_replaced(self):
        agent = self.start(one=Server(always(answer(self.GOOD))), other=Server(always(answer(self.GOOD))))
        self.wait(lambda: self.up(agent, "one") == 1 and self.up(agent, "other") == 1, "two pages")
        both = readers(agent.process.pid)
        self.assertEqual(len(both), 2)

        os.kill(both[0], signal.SIGKILL)
        hit = self.wait(lambda: [n for n in ("one", "other") if self.errors(agent, n, "reader_failed") >= 1], "the failed scrape")
        self.wait(lambda: self.up(agent, hit[0]) == 1, "the next scrape")
        self.assertEqual(self.starts(agent, hit[0], "killed"), 1)
        self.assertEqual(self.errors(agent, "one" if hit == ["other"] else "other", "reader_failed"), 0, "the other has its own")
        self.assertIn("killed by signal 9", agent.log_text())

        now = readers(agent.process.pid)
        os.kill(now[0], signal.SIGSTOP)
        hung = self.wait(lambda: [n for n in ("one", "other") if self.errors(agent, n, "reader_hung") >= 1], "the hung scrape")
        self.wait(lambda: self.up(agent, hung[0]) == 1, "the next scrape")
        self.assertEqual(self.starts(agent, hung[0], "hang"), 1)
        self.wait(lambda: now[0] not in readers(agent.process.pid), "the end of the stopped process")
        self.assertEqual(value(agent.page(), "g", target=hung[0]), 7)

    def test_pages_at_and_above_the_limits_take_bounded_memory(self):
        # A page of many series, one that unpacks to more than it may, and one of one huge line.
        wide = "".join(f"wide{{a=\"{i}\",b=\"{'x' * 40}\"}} {i}\n" for i in range(90_000))
        bomb = gzip.compress(b"\n" * (200 << 20), 6)
        packed = TEXT + "Content-Encoding: gzip\r\n"
        # Its interval is also the time that a scrape may take.
        agent = self.start(interval="10s", wide=Server(always(answer(wide))), bomb=Server(always(answer(bomb, packed))),
                           line=Server(always(answer("l{x=\"" + "y" * (30 << 20) + "\"} 1\ng 1\n"))))
        self.wait(lambda: self.errors(agent, "bomb", "too_large") >= 1, "the refusal of the bomb")
        self.wait(lambda: (value(agent.page(), "gpulens_scrape_parse_errors_total", target="line") or 0) >= 1, "the long line")
        self.wait(lambda: value(agent.page(), "gpulens_scrape_samples", target="wide") == 90_000, "the wide page")
        for pid in readers(agent.process.pid):
            peak = int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) >> 10
            self.assertLess(peak, 3000 if SANITIZED else 300)
            if not SANITIZED:
                limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
                data = int(re.search(r"Max data size\s+(\d+)", limits)[1])
                self.assertLess(data, 1 << 30, "the kernel ends a process that takes more")

    def test_a_process_without_memory_fails_alone(self):
        pages = {count: answer("".join(f"s{{a=\"{i}\"}} 1\n" for i in range(count))) for count in (5_000, 60_000)}
        count = 5_000
        agent = self.start(target("plain", good := Server(always(answer(self.GOOD)))), small=Server(lambda connection, n: pages[count]))
        self.addCleanup(good.close)
        self.wait(lambda: self.up(agent, "small") == 1 and self.up(agent, "plain") == 1, "two pages")
        # What a page that eats memory meets: the kernel gives no more.
        (pid,) = readers(agent.process.pid)
        resource.prlimit(pid, resource.RLIMIT_DATA, (1 << 20, 1 << 20))
        count = 60_000  # for the same page it has the memory already
        self.wait(lambda: self.errors(agent, "small", "reader_failed") >= 1, "the end of the process")
        count = 5_000
        self.wait(lambda: self.up(agent, "small") == 1, "the next scrape")
        # It crashes; a sanitizer has it exit.
        starts = samples(agent.page(), "gpulens_reader_starts_total", reader="targets/small")
        self.assertGreaterEqual(sum(start.value for start in starts if start.labels["reason"] != "first"), 1)
        self.assertEqual(self.errors(agent, "plain", "timeout"), 0)

    def test_reload_switches_isolation(self):
        server = Server(always(answer(self.GOOD)))
        self.addCleanup(server.close)
        with Agent(config=config([target("t", server, isolate="false")])) as agent:
            self.wait(lambda: self.up(agent, "t") == 1, "a page")
            self.assertEqual(readers(agent.process.pid), [])
            self.assertIsNone(self.starts(agent, "t", "first"), "no process, no series of one")
            agent.reload(config([target("t", server, isolate="true")]))
            self.wait(lambda: self.starts(agent, "t", "first") == 1, "the process")
            self.wait(lambda: value(agent.page(), "g", target="t") == 7, "its page")
            self.assertEqual(len(readers(agent.process.pid)), 1)
            agent.reload(config([target("t", server, isolate="false")]))
            self.wait(lambda: readers(agent.process.pid) == [], "the end of the process")
            self.wait(lambda: self.up(agent, "t") == 1 and value(agent.page(), "g", target="t") == 7, "a page again")

    def test_many_targets_and_none_left_behind(self):
        server = Server(always(answer(self.GOOD)))
        self.addCleanup(server.close)
        many = 30
        with Agent(config=config([target(f"t{i}", server, isolate="true") for i in range(many)])) as agent:
            self.wait(lambda: len(samples(agent.page(), "g")) == many, "all pages")
            started = readers(agent.process.pid)
            self.assertEqual(len(started), many)
            if not SANITIZED:
                for pid in started:
                    status = pathlib.Path(f"/proc/{pid}/status").read_text()
                    self.assertRegex(status, "NoNewPrivs:\t1\n", "confined")
                    self.assertRegex(status, "Seccomp:\t2\n")
                    self.assertRegex(status, "CapEff:\t0+\n")
        self.wait(lambda: not [pid for pid in started if alive(pid)], "the end of all processes")

    def test_an_agent_that_is_killed_leaves_none(self):
        server = Server(always(answer(self.GOOD)))
        self.addCleanup(server.close)
        with Agent(config=config([target("t", server, isolate="true")])) as agent:
            (pid,) = self.wait(lambda: readers(agent.process.pid), "the process")
            agent.process.kill()
            agent.process.wait()
            self.wait(lambda: not alive(pid), "the end of the process")


if __name__ == "__main__":
    unittest.main()
