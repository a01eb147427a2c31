"""The command line as people meet it: every help page, wrong words at every level, widths, colours and JSON."""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
import unittest

from agent import BINARY, ROOT
from http_stub import HttpStub

sys.path.insert(0, str(ROOT / "tools"))
import tidy  # noqa: E402

ESCAPE = re.compile("\x1b\\[[0-9;]*m")
# The option library's own names for types and the words of its messages.
RAW = re.compile(r"\b(UINT|INT|FLOAT|BOOLEAN|REQUIRED|OPTIONS:|SUBCOMMAND|Excludes|Needs)\b|:\{|\.\.\. *$")
# Words that docs/GLOSSARY.md replaces.
PRIVATE = re.compile(rf"\b({'|'.join(sorted(set(tidy.REPLACED) - tidy.PLAIN_VERBS))})\b", re.IGNORECASE)


def run(*words, code=None, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GPULENS_") and k not in ("COLUMNS", "NO_COLOR")}
    done = subprocess.run([str(BINARY), *words], capture_output=True, text=True, timeout=60, env={**clean, **environment},
                          check=False, stdin=subprocess.DEVNULL)
    if code is not None and done.returncode != code:
        raise AssertionError(f"{words}: {done.returncode}, not {code}: {done.stdout}{done.stderr}")
    return done


def on_terminal(*words, columns=60, **environment):
    """The output of the command on a terminal of that width."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    clean = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}
    process = subprocess.Popen([str(BINARY), *words], stdout=child, stderr=child, stdin=subprocess.DEVNULL,
                               env={**clean, "TERM": "xterm", **environment})
    os.close(child)
    text = b""
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        text += piece
    os.close(parent)
    process.wait(60)
    return text.decode().replace("\r\n", "\n")


def subcommands(page):
    """The names under "Commands"."""
    names, inside = [], False
    for line in page.splitlines():
        if line == "Commands":
            inside = True
        elif inside and re.match(r"  [a-z]", line):
            names.append(line.split()[0])
        elif inside and not line.startswith("  "):
            break
    return names


def all_commands():
    """Every command that `help all` names, with all those below them, as tuples of words."""
    found = []
    def walk(words):
        found.append(words)
        for name in subcommands(run(*words, "--help", code=0).stdout):
            walk((*words, name))
    for line in run("help", "all", code=0).stdout.splitlines():
        if re.match(r"  [a-z]", line):
            names = line.split() if re.match(r"  [a-z_]+ [a-z_]+_", line) or "_" in line.split()[0] else line.split()[:1]
            for name in names:
                walk((name,))
    return found


class CommandLine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.commands = all_commands()

    def fits(self, text, width, what):
        for line in ESCAPE.sub("", text).splitlines():
            # A word that is longer than the line, such as an address, cannot be broken.
            if len(line) > width and max(map(len, line.split())) < width - 8:
                self.fail(f"{what}: {len(line)} columns: {line}")

    def test_the_first_screen_is_one_screen(self):
        for words, code in (((), 2), (("help",), 0), (("--help",), 0)):
            done = run(*words, code=code)
            text = done.stderr if code else done.stdout
            self.assertLessEqual(len(text.splitlines()), 24)
            self.assertLessEqual(len(subcommands(text)), 15)
            self.fits(text, 80, words)

    def test_there_are_all_commands(self):
        self.assertGreater(len(self.commands), 60)
        for words in (("agent",), ("sim", "record"), ("gpu", "release"), ("config", "schema"), ("exp", "plot"), ("nvml_monitor",),
                      ("slurm_monitor",), ("sacct_backfill", "new"), ("bench", "serve")):
            if words != ("sacct_backfill", "new"):
                self.assertIn(words, self.commands)

    def test_every_help_page(self):
        for words in self.commands:
            with self.subTest(words):
                page = run(*words, "--help", code=0)
                self.assertEqual(page.stderr, "")
                self.assertEqual(page.stdout, run("help", *words, code=0).stdout, "help COMMAND is COMMAND --help")
                self.fits(page.stdout, 80, words)
                self.assertNotIn("\x1b", page.stdout, "no colour in a pipe")
                self.assertIn("Usage: gpulens " + " ".join(words), page.stdout)
                self.assertIsNone(RAW.search(page.stdout), RAW.search(page.stdout))
                self.assertIsNone(PRIVATE.search(page.stdout), PRIVATE.search(page.stdout))

    def test_widths_and_colours(self):
        for words in (("help",), ("help", "all"), ("collect", "--help"), ("bench", "serve", "--help"), ("sim", "fail", "--help")):
            with self.subTest(words):
                text = on_terminal(*words, columns=60)
                self.assertIn("\x1b[1m", text)
                self.fits(text, 60, words)
                self.assertNotIn("\x1b", on_terminal(*words, NO_COLOR="1"))
                self.assertNotIn("\x1b", on_terminal(*words, TERM="dumb"))
                self.fits(run(*words, COLUMNS="50", code=0).stdout, 50, words)

    def test_a_wrong_word_gets_the_right_one(self):
        for words in self.commands:
            if words == ("help",):  # takes commands, no options
                continue
            code = 3 if words[0] == "check" else 2
            with self.subTest(words):
                done = run(*words, "--hlep", code=code)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn('no option "--hlep". Did you mean --help?', done.stderr)
                below = subcommands(run(*words, "--help", code=0).stdout)
                if below:
                    wrong = below[0][:-1] + "x"
                    done = run(*words, wrong, code=code)
                    self.assertIn(f"Did you mean {below[0]}?", done.stderr)
                    done = run("help", *words, wrong, code=2)
                    self.assertIn(f"Did you mean {below[0]}?", done.stderr)
        self.assertIn("Did you mean doctor?", run("docter", code=2).stderr)
        self.assertIn("Did you mean doctor?", run("help", "docter", code=2).stderr)

    def test_wrong_values_are_named(self):
        for words, text in ((("metrics", "--format", "xml"), 'not one of table, md, json'),
                            (("metrics", "--names", "dcmg"), "Did you mean dcgm?"),
                            (("events", "--limit", "many"), '"many" is not a number'),
                            (("events", "--limit"), "--limit needs a value"),
                            (("explain",), "WORD is required"),
                            (("sim",), "a command is required: record, replay, fail, heal, status, set, stop, scenario."),
                            (("version", "now"), '"now" is one argument too many'),
                            (("metrics", "gpu.power.drw"), "Did you mean gpu.power.draw?"),
                            (("explain", "gpu_temprature"), "Did you mean gpu_temperature?"),
                            (("events", "--na\x1b[31mme"), "no option")):
            with self.subTest(words):
                done = run(*words, code=2)
                self.assertIn(text, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertNotIn("\x1b", done.stderr)

    def test_every_command_has_the_same_json_option(self):
        for words in (("version",), ("metrics",), ("metrics", "--names", "dcgm"), ("explain", "79"), ("explain", "vllm"),
                      ("engines", "list"), ("engines", "list", "vllm"), ("config", "schema")):
            with self.subTest(words):
                json.loads(run(*words, "--json", code=0).stdout)
        for words in (("check", "all", "--demo", "--direct"), ("doctor",)):
            with self.subTest(words):
                json.loads(run(*words, "--json").stdout)
        self.assertEqual(run("metrics", "--json", code=0).stdout, run("metrics", "--format", "json", code=0).stdout)

    def test_explain_finds_every_kind(self):
        for word, text in (("79", "XID 79"), ("xid 79", "XID 79"), ("gpu.power.draw", "gpu_power_draw_watts"),
                           ("gpu_power_draw_watts", "level       essential"), ("DCGM_FI_DEV_POWER_USAGE", "gpu.power.draw"),
                           ("gpu_temperature", "gpulens check gpu_temperature"), ("vllm", "vllm:")):
            with self.subTest(word):
                self.assertIn(text, run("explain", *word.split(), code=0).stdout)
        self.assertEqual(run("events", "explain", "79", code=0).stdout, run("explain", "79", code=0).stdout, "the older name")

    def test_names_of_another_node_do_not_command_the_terminal(self):
        now = int(time.time() * 1000)
        gpu = {"gpu.index": 0, "gpu.model": "H\x1b[2J\x07100"}
        power = {"id": 0, "name": "gpu.power.draw", "unit": "W", "kind": "gauge", "attributes": gpu, "source": "a\x1b]0;b\x07"}
        pages = {"now": {"schema": "gpulens.now/1", "node": {"host.name": "n\x1b[31m"}, "at": now, "tick": 1, "layout": 1, "series": [power],
                         "v": [0, 500]},
                 "history": {"schema": "gpulens.history/1", "from": now - 9000, "to": now, "series": [{**power, "at": [now - 5000], "value": [500]}]},
                 "events": {"schema": "gpulens.events/1", "events": [{"at": now - 5000, "name": "x\x1b[0m", "severity": "info", "body": "\x9b2J",
                                                                     "attributes": gpu}]}}

        def answer(request, _):
            return 200, {"Content-Type": "application/json"}, json.dumps(pages[request.path.split("?")[0].split("/")[-1]]).encode()

        with HttpStub(answer) as stub:
            for words in (["trace", stub.origin, "--last", "8s", "--format", "csv", "-o", "-"], ["top", stub.origin, "--once"]):
                text = on_terminal(*words, columns=100, LC_ALL="C.UTF-8")
                self.assertIn("500", text)
                self.assertFalse([c for c in text if c != "\n" and not c.isprintable()], repr(text))

    def test_older_names_work_and_are_not_shown(self):
        shown = run("help", "all", code=0).stdout
        for words in (("capture",), ("fake", "nvml", "fail"), ("driver", "release")):
            run(*words, "--help", code=0)
            self.assertNotRegex(shown, rf"(?m)^  {words[0]}\b")


if __name__ == "__main__":
    unittest.main()
