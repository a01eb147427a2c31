"""Targets that misbehave: each is reported as down with a reason, and others are not affected."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest

from agent import BINARY, Agent, free_port, samples, value, wait_until
from bad_pages import Server, always, answer, bad_servers, reset_in_the_middle

INTERVAL = 0.5
TIMEOUT = 40


def memory(pid):
    """Bytes that this process alone is charged for."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)[1]) << 10


def peak(pid):
    """The most memory that the process ever had, in bytes."""
    return int(re.search(r"^VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1]) << 10


class BadPages:
    """Tests for every kind of target."""

    KIND = ""         # of each target
    GAUGE = ""        # a family on the good page …
    GAUGE_SHOWN = ""  # … and as the agent shows it
    COUNTER = ""
    COUNTER_SHOWN = ""

    @classmethod
    def config(cls, targets):
        rows = "".join(f"  - {{name: {name}, url: \"{url}\", kind: {cls.KIND}, interval: {INTERVAL}s, ttl: 60s{more}}}\n"
                       for name, url, more in targets)
        # A high limit of memory: a sanitizer keeps what was freed, and above the limit series of pages are refused.
        return f"interval: 1s\nstate_dir: \"\"\nlimits: {{memory: 4GiB}}\ntargets:\n{rows}"

    @classmethod
    def good_page(cls, _, n):
        return answer(f"# TYPE {cls.GAUGE} gauge\n{cls.GAUGE} {n}\n# TYPE {cls.COUNTER} counter\n{cls.COUNTER} {n}\n")

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="gpulens-bad-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.good = Server(cls.good_page)
        cls.addClassCleanup(cls.good.close)
        with Agent(config=cls.config([("good", cls.good.url(), "")])) as quiet:
            wait_until(lambda: value(quiet.page(), "gpulens_scrape_up", target="good") == 1, TIMEOUT, "a good scrape")
            cls.quiet = memory(quiet.process.pid)
        cls.bad = bad_servers(cls.COUNTER, cls.folder)
        for server, *_ in cls.bad.values():
            cls.addClassCleanup(server.close)
        cls.restarts = Server(reset_in_the_middle(cls.COUNTER))
        head = f"# TYPE {cls.GAUGE} gauge\n"
        cls.odd = {
            "odd_numbers": Server(always(answer(f"{head}{cls.GAUGE} NaN\nspare +Inf\n# TYPE {cls.COUNTER} counter\n"
                                                f"{cls.COUNTER} 5\n"))),
            "twice": Server(always(answer(f"{head}{cls.GAUGE} 3\n{cls.GAUGE} 4\n"))),
            "one_huge_label": Server(always(answer(f"{head}{cls.GAUGE} 3\nspare{{l=\"{'x' * 200_000}\"}} 1\n"))),
        }
        for server in [cls.restarts, *cls.odd.values()]:
            cls.addClassCleanup(server.close)
        targets = [(name, server.url(), more) for name, (server, more, *_) in cls.bad.items()]
        targets += [(name, server.url(), "") for name, server in cls.odd.items()]
        targets += [("good", cls.good.url(), ""), ("restarts", cls.restarts.url(), ""),
                    ("unreachable", f"http://127.0.0.1:{free_port()}/metrics", "")]
        cls.requests_before = cls.good.requests
        cls.began = time.monotonic()
        cls.agent = Agent(config=cls.config(targets))
        cls.agent.__enter__()
        cls.addClassCleanup(cls.agent.__exit__)

    def wait_for(self, name, at_least, **labels):
        return wait_until(lambda: (value(self.agent.page(), name, **labels) or 0) >= at_least, TIMEOUT,
                          f"{name}{labels} of {at_least}")

    def reasons(self, target):
        return {s.labels["reason"] for s in samples(self.agent.page(), "gpulens_scrape_errors_total", target=target)
                if s.value}

    def test_each_is_down_with_its_reason(self):
        reasons = {name: set(reasons) for name, (_, _, *reasons) in self.bad.items()} | {"unreachable": {"connect"}}
        for name, expected in reasons.items():
            with self.subTest(target=name):
                seen = wait_until(lambda: self.reasons(name) & expected, TIMEOUT, f"{expected} of {name}")
                page = self.agent.page()
                self.assertEqual(value(page, "gpulens_scrape_up", target=name), 0)
                # On a machine that is too busy anything may also take too long.
                self.assertLessEqual(self.reasons(name), expected | {"timeout"}, seen)

    def test_the_good_one_is_not_touched(self):
        for name in self.bad:
            wait_until(lambda: self.reasons(name), TIMEOUT, f"a failure of {name}")
        wait_until(lambda: time.monotonic() - self.began >= 10 * INTERVAL, TIMEOUT, "ten intervals")
        elapsed = time.monotonic() - self.began
        scrapes = self.good.requests - self.requests_before
        self.assertGreaterEqual(scrapes, elapsed / INTERVAL / 4, f"{scrapes} scrapes in {elapsed:.1f} s")
        self.wait_for(self.GAUGE_SHOWN, self.good.requests, target="good")
        page = self.agent.page()
        self.assertEqual(value(page, "gpulens_scrape_up", target="good"), 1)
        self.assertEqual(sum(s.value for s in samples(page, "gpulens_scrape_errors_total", target="good")), 0)

    def test_an_engine_that_dies_while_it_answers_is_back(self):
        wait_until(lambda: self.restarts.requests > 5, TIMEOUT, "its return")
        self.wait_for("gpulens_scrape_errors_total", 1, target="restarts", reason="protocol")
        self.wait_for("gpulens_scrape_up", 1, target="restarts")
        shown = wait_until(lambda: value(self.agent.page(), self.COUNTER_SHOWN, target="restarts"), TIMEOUT, "a count")
        self.assertLess(shown, 1000, "it counts from 0 again")

    def test_odd_numbers_are_no_failure(self):
        for name in self.odd:
            self.wait_for("gpulens_scrape_up", 1, target=name)
        page = self.agent.page()
        self.assertEqual(value(page, self.COUNTER_SHOWN, target="odd_numbers"), 5)
        self.assertEqual(value(page, self.GAUGE_SHOWN, target="twice"), 3, "the first one wins")
        self.assertEqual(value(page, self.GAUGE_SHOWN, target="one_huge_label"), 3)
        self.assertGreaterEqual(value(page, "gpulens_scrape_parse_errors_total", target="one_huge_label"), 1)

    def test_memory_stays_in_bounds(self):
        if "sanitizer" in subprocess.run([BINARY, "version"], capture_output=True, text=True, check=True).stdout:
            self.skipTest("a sanitizer keeps what was freed")
        for name in ("endless", "bomb", "million"):
            wait_until(lambda: sum(s.value for s in samples(self.agent.page(), "gpulens_scrape_errors_total",
                                                            target=name)) >= 3, TIMEOUT, f"three scrapes of {name}")
        now, most = memory(self.agent.process.pid), peak(self.agent.process.pid)
        print(f"\n{self.KIND}: quiet {self.quiet >> 20} MiB, with bad targets {now >> 20} MiB, "
              f"at most {most >> 20} MiB")
        self.assertLess(most, 384 << 20)
        self.assertLess(now, self.quiet + (256 << 20))

    def test_the_agent_answers_and_lives(self):
        self.assertIsNone(self.agent.process.poll())
        self.assertEqual(self.agent.get("/health").text, b"ok")


class BadPagesPassedOn(BadPages, unittest.TestCase):
    KIND = "prometheus"
    GAUGE = GAUGE_SHOWN = "vllm:num_requests_running"
    COUNTER = COUNTER_SHOWN = "vllm:request_success_total"

    def test_skipped_files_are_counted(self):
        self.wait_for("gpulens_scrape_series_dropped", 1, target="twice", reason="duplicate")


class BadPagesOfEngines(BadPages, unittest.TestCase):
    KIND = "vllm"
    GAUGE, GAUGE_SHOWN = "vllm:num_requests_running", "inference_requests_running"
    COUNTER, COUNTER_SHOWN = "vllm:request_success_total", "inference_requests_finished_total"


if __name__ == "__main__":
    unittest.main()
