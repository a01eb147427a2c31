"""`gpulens top` in a real terminal: tmux types the keys and reads the screen."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from agent import BINARY, Agent, free_port, wait_until

ESCAPE = re.compile(r"\x1b")
WIDE = {"LC_ALL": "C.UTF-8"}


def control(agent):
    return agent.folder / "control.sock"


def demo(**environment):
    """A demo agent of GPUs alone with a control socket of its own."""
    agent = Agent("--demo", environment={"GPULENS_DEMO_SCENARIO": "none", **environment})
    agent.environment["GPULENS_CONTROL_SOCKET"] = str(control(agent))
    return agent


def top(*arguments, environment=None, timeout=30, **options):
    """Runs it without a terminal."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith("GPULENS_")}
    return subprocess.run([str(BINARY), "top", *map(str, arguments)], env={**ours, **WIDE, **(environment or {})},
                          capture_output=True, text=True, timeout=timeout, check=False, **options)


class Terminal:
    """A shell in tmux, with a server of its own."""

    def __init__(self, columns, rows, **environment):
        if not shutil.which("tmux"):
            raise unittest.SkipTest("tmux is not here (Debian: tmux)")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-top-"))
        self.socket = str(self.folder / "tmux")
        ours = {key: value for key, value in os.environ.items() if not key.startswith(("GPULENS_", "TMUX"))}
        ours.pop("NO_COLOR", None)
        # A sanitizer's search for leaks traces the program while it ends; when its terminal goes at that moment both hang.
        ours["ASAN_OPTIONS"] = (ours.get("ASAN_OPTIONS", "") + ":detect_leaks=0").strip(":")
        # tmux gives its programs a TERM of its own; what a test wants is set in the shell.
        self.inner = {**WIDE, **environment}
        self.server({**ours, **WIDE}, "new-session", "-d", "-x", str(columns), "-y", str(rows),
                    "exec env PS1='READY> ' bash --norc --noprofile -i")
        for name, value in self.inner.items():
            self.line(f"export {name}={value}")
        self.line("clear")

    def server(self, environment, *arguments):
        return subprocess.run(["tmux", "-f", "/dev/null", "-S", self.socket, *arguments], env=environment, check=True,
                              capture_output=True, text=True, timeout=20).stdout

    def tmux(self, *arguments):
        return self.server({**os.environ, **WIDE}, *arguments)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], check=False, capture_output=True, timeout=20)
        shutil.rmtree(self.folder, ignore_errors=True)

    def line(self, text):
        self.tmux("send-keys", "-l", text)
        self.keys("Enter")

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def screen(self, *options):
        return self.tmux("capture-pane", "-p", *options)

    def has(self, *texts, seconds=20):
        """Waits for a screen with all of the texts and patterns, and returns it."""
        def found():
            shown = self.screen()
            return shown if all(text.search(shown) if isinstance(text, re.Pattern) else text in shown for text in texts) else None
        try:
            return wait_until(found, seconds, f"a screen with {texts}")
        except AssertionError:
            raise AssertionError(f"no screen with {texts}:\n{self.screen()}") from None

    def lacks(self, text, seconds=20):
        try:
            wait_until(lambda: text not in self.screen(), seconds, f"a screen without {text}")
        except AssertionError:
            raise AssertionError(f"{text} stays:\n{self.screen()}") from None
        return self.screen()


class Top(unittest.TestCase):
    """One demo agent serves all of them."""

    @classmethod
    def setUpClass(cls):
        cls.agent = demo()
        cls.agent.__enter__()
        cls.addClassCleanup(cls.agent.__exit__, None, None, None)
        wait_until(lambda: 'gpu_index="7"' in cls.agent.page(), 30, "the last GPU")

    def command(self, *options):
        return " ".join([str(BINARY), "top", "--socket", str(control(self.agent)), *options])

    def test_sizes(self):
        for columns, rows in ((60, 20), (80, 24), (200, 60)):
            with self.subTest(size=(columns, rows)), Terminal(columns, rows) as terminal:
                terminal.line(self.command())
                # A screen can be seen when half of it is drawn.
                screen = terminal.has("gpulens top", "SIMULATED", "/79.6", "q quit", *(re.compile(rf"(?m)^.[●▲✖] +{gpu} ") for gpu in range(8)))
                lines = screen.rstrip("\n").split("\n")
                self.assertEqual(len(lines), rows, "the keys are in the last line")
                self.assertIn("q quit", lines[-1])
                self.assertEqual("HEALTH" in screen, columns == 200)
                terminal.keys("q")
                terminal.lacks("SIMULATED")
                self.assertIn("READY>", terminal.screen(), "q gives the screen back")

    def test_keys(self):
        with Terminal(100, 30) as terminal:
            terminal.line(self.command())
            terminal.has("▸●   0")
            terminal.keys("Down", "j")
            terminal.has("▸●   2")
            terminal.keys("Enter")
            terminal.has("2 GPU 2", "busy %", "uuid GPU-", "PROCESS")
            terminal.keys("Tab")
            terminal.has("power W")
            terminal.keys("t")
            terminal.has("last 60 min", "-60 min")
            terminal.keys("Escape")
            terminal.has("▸●   2", "J/TOKEN")
            terminal.keys("s")
            terminal.has("sorted by busy")
            terminal.keys("1")
            terminal.has("1 GPUs", "sort: busy")
            terminal.keys("/")
            terminal.line("no such thing")
            terminal.has("No row has", "Esc removes")
            terminal.keys("Escape")
            terminal.lacks("No row has")
            for key, title in (("3", "3 engines"), ("4", "4 jobs and pods"), ("5", "5 events"), ("6", "6 gpulens itself")):
                terminal.keys(key)
                terminal.has(title)
            terminal.has("sinks that deliver", "prometheus")
            terminal.keys("Escape")
            terminal.keys("p")
            terminal.has("PAUSED 2 s")
            terminal.keys("p")
            terminal.lacks("PAUSED")
            terminal.keys("u")
            terminal.has("MEM GB", "°F")
            terminal.keys("?")
            terminal.has("write the data as JSON")
            terminal.keys("Escape")
            terminal.line(f"cd {terminal.folder}")  # letters that are no keys do nothing
            terminal.keys("q")
            terminal.has("READY>")

    def test_writes_json_and_copies(self):
        with Terminal(100, 30) as terminal:
            terminal.tmux("set-option", "-s", "set-clipboard", "on")
            terminal.line(f"cd {terminal.folder}")
            terminal.line(self.command())
            terminal.has("▸●   0")
            terminal.keys("Down", "y")
            terminal.has("copied")
            copied = wait_until(lambda: terminal.tmux("show-buffer"), 10, "a copied line")
            self.assertRegex(copied, r"●   1 .*/700")
            terminal.keys("w")
            terminal.has("written: gpulens-top-")
            terminal.keys("q")
            files = list(terminal.folder.glob("gpulens-top-*.json"))
            self.assertEqual(len(files), 1)
            document = json.loads(files[0].read_text())
            self.assertEqual(document["schema"], "gpulens.top/1")
            self.assertEqual(len(document["nodes"][0]["gpus"]), 8)

    def test_resize(self):
        with Terminal(80, 24) as terminal:
            terminal.line(self.command())
            terminal.has("▸●   0", "q quit")
            for columns, rows in ((200, 50), (60, 20), (30, 8), (80, 24)):
                terminal.tmux("resize-window", "-x", str(columns), "-y", str(rows))
                wait_until(lambda rows=rows: "select" in (terminal.screen().rstrip("\n").split("\n") + [""] * rows)[rows - 1],
                           20, "the keys in the last line")
                self.assertTrue(all(len(line) <= columns for line in terminal.screen().split("\n")))

    def test_colors(self):
        for environment, options, wanted in (({}, (), True), ({"NO_COLOR": "1"}, (), False), ({}, ("--color", "never"), False),
                                             ({"NO_COLOR": "1"}, ("--color", "always"), True)):
            with self.subTest(environment=environment, options=options), Terminal(80, 24, **environment) as terminal:
                terminal.line(self.command(*options))
                terminal.has("▸●   0")
                # Green, and no background of any colour.
                shown = terminal.screen("-e")
                self.assertEqual("\x1b[32m" in shown, wanted)
                self.assertNotRegex(shown, r"\x1b\[(4[0-7]|48;)")

    def test_ascii(self):
        with Terminal(80, 24, LC_ALL="C") as terminal:
            terminal.line(self.command())
            screen = terminal.has(">*   0", "q quit")
            self.assertTrue(screen.isascii(), screen)

    def test_terminals_without_a_database(self):
        """Descriptions that are compiled in."""
        for name in ("xterm", "xterm-256color", "screen", "tmux-256color", "linux", "vt100", "xterm-kitty"):
            with self.subTest(name=name), Terminal(80, 24, TERM=name, TERMINFO="/nonexistent", TERMINFO_DIRS="/nonexistent",
                                                  HOME="/nonexistent") as terminal:
                terminal.line(self.command())
                terminal.has("▸●   0", "q quit")
                terminal.keys("q")
                terminal.has("READY>")

    def test_dumb_terminal(self):
        with Terminal(90, 40, TERM="dumb") as terminal:
            terminal.line(self.command("--interval", "500ms"))
            terminal.has("cannot move its cursor", "printed every 500ms", "gpulens itself")
            terminal.keys("C-c")
            terminal.line("")
            terminal.has("READY>")
        shown = top("--socket", control(self.agent), "--once", environment={"TERM": "dumb"})
        self.assertEqual(shown.returncode, 0, shown.stderr)

    def test_stop_and_go_on(self):
        with Terminal(80, 24) as terminal:
            terminal.line(self.command())
            terminal.has("▸●   0")
            terminal.keys("C-z")
            terminal.has("Stopped", "READY>")
            terminal.line("stty -a | grep -c -- ' echo '")
            terminal.has("\n1\n")
            terminal.line("fg")
            terminal.has("▸●   0", "q quit")
            terminal.keys("Down")
            terminal.has("▸●   1")
            terminal.keys("q")
            terminal.has("READY>")

    def test_signals_restore_the_terminal(self):
        for signal_name in ("TERM", "INT", "HUP", "QUIT", "SEGV", "ABRT"):
            with self.subTest(signal=signal_name), Terminal(80, 24) as terminal:
                terminal.line("ulimit -c 0; " + self.command() + " & top_is=$!; echo $top_is > pid; fg".replace(
                    "> pid", f"> {terminal.folder}/pid"))
                terminal.has("▸●   0")
                os.kill(int((terminal.folder / "pid").read_text()), getattr(signal, "SIG" + signal_name))
                terminal.has("READY>")
                terminal.line("stty -a | grep -c -- ' echo '")
                terminal.has("\n1\n")
                self.assertEqual(terminal.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}").strip(), "0 1")

    def test_once_is_plain_text(self):
        shown = top("--socket", control(self.agent), "--once", environment={"COLUMNS": "80"})
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertNotRegex(shown.stdout, ESCAPE)
        self.assertIn("SIMULATED", shown.stdout)
        self.assertTrue(all(len(line) <= 80 for line in shown.stdout.split("\n")))
        self.assertRegex(shown.stdout, r"(?m)^ ● +7 ")
        self.assertNotIn("q quit", shown.stdout)

    def test_json(self):
        shown = top("--socket", control(self.agent), "--json")
        document = json.loads(shown.stdout)
        self.assertEqual(document["schema"], "gpulens.top/1")
        node = document["nodes"][0]
        self.assertTrue(node["simulated"])
        self.assertEqual([gpu["index"] for gpu in node["gpus"]], [str(i) for i in range(8)])
        # Equal to what the agent exports at about the same time: this does not change in the demo.
        page = self.agent.page()
        total = float(re.search(r'(?m)^gpu_memory_total_bytes\{[^}]*gpu_index="3".* (\S+)$', page)[1])
        self.assertEqual(node["gpus"][3]["memory_total_bytes"], total)

    def test_pipe_ends_quietly(self):
        command = f"{self.command('--interval', '200ms')} | head -n 3"
        shown = subprocess.run(["bash", "-c", "set -o pipefail; " + command], env={**os.environ, **WIDE}, check=False,
                               stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertEqual(len(shown.stdout.splitlines()), 3)

    def test_wrong_use(self):
        for arguments, code, text in ((("--interval", "fast", "--once"), 2, "expected a duration"),
                                      (("ftp://n1", "--once"), 2, "n1"),
                                      (("--socket", "/nonexistent/x.sock", "--once"), 1, "is the agent running"),
                                      (("http://127.0.0.1:1", "--once"), 1, "is the agent running")):
            with self.subTest(arguments=arguments):
                shown = top(*arguments)
                self.assertEqual(shown.returncode, code, shown.stderr)
                self.assertIn(text, shown.stderr)
                self.assertEqual(shown.stdout, "")

    def test_several_nodes(self):
        away = f"http://127.0.0.1:{free_port()}"
        with Terminal(150, 24) as terminal:
            terminal.line(f"{BINARY} top http://127.0.0.1:{self.agent.port} {away}")
            terminal.has("2 nodes", "1 away", "connection refused", "SIMULATED")
            terminal.keys("Enter")
            terminal.has("▸●   0", "J/TOKEN")
            terminal.keys("Escape")
            terminal.has("2 nodes")
            terminal.keys("Down", "Enter")
            terminal.has("no data for", "trying again")
            terminal.keys("q")
            terminal.has("READY>")


class Changes(unittest.TestCase):
    """What happens while it runs."""

    def test_lost_gpu_and_killed_agent(self):
        with demo() as agent, Terminal(100, 30) as terminal:
            terminal.line(f"{BINARY} top --socket {control(agent)}")
            terminal.has("▸●   0", "fine")
            subprocess.run([str(BINARY), "sim", "fail", "gpu=5", "mode=lost", "--socket", str(control(agent))], check=True, timeout=30,
                           capture_output=True)
            screen = terminal.has("✖   5", "1 fault", "lost")
            row = re.search(r"(?m)^.✖   5.*$", screen)[0]
            self.assertIn("–", row)
            subprocess.run([str(BINARY), "sim", "heal", "--socket", str(control(agent))], check=True, timeout=30, capture_output=True)
            # Its values are back; its health remembers.
            wait_until(lambda: re.search(r"(?m)^.[✖▲]   5 +\d+ .*/700", terminal.screen()), 20, "values of GPU 5")
            agent.process.send_signal(signal.SIGKILL)
            agent.process.wait(10)
            terminal.has("✖ away", "no data for", "trying again")
            # What was read before stays, and q ends it.
            self.assertIn("●   0", terminal.screen())
            terminal.keys("q")
            terminal.has("READY>")
            agent.__enter__()  # so that its end is an orderly one

    def test_reads_by_itself_and_reports_it(self):
        quiet = {"GPULENS_CONTROL_SOCKET": "none", "GPULENS_HTTP_LISTEN": f"127.0.0.1:{free_port()}",
                 "GPULENS_DISCOVERY_LOCAL_ENABLED": "false", "GPULENS_DEMO_SCENARIO": "none"}
        shown = top("--once", environment=quiet)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("read by this process", shown.stdout)
        self.assertNotIn("SIMULATED", shown.stdout, "it never shows a demo that was not wanted")
        shown = top("--demo", "--json", environment=quiet)
        node = json.loads(shown.stdout)["nodes"][0]
        self.assertTrue(node["simulated"])
        self.assertEqual(len(node["gpus"]), 8)
        self.assertGreater(node["gpus"][0]["power_w"], 0)

    def test_password(self):
        with tempfile.TemporaryDirectory() as folder:
            web = pathlib.Path(folder, "web.yaml")
            web.write_text("bearer_token: word-of-the-test\n")
            with Agent("--demo", config=f"http: {{web_config: {web}}}\n", authorization="Bearer word-of-the-test") as agent:
                url = f"http://127.0.0.1:{agent.port}"
                refused = top(url, "--once")
                self.assertEqual(refused.returncode, 1)
                self.assertIn("--header", refused.stderr)
                # The first page may be older than the first reading of the GPUs.
                wait_until(lambda: len(json.loads(top(url, "--header", "Authorization: Bearer word-of-the-test", "--json").stdout)
                                       ["nodes"][0]["gpus"]) == 8, 30, "eight GPUs behind a token")


if __name__ == "__main__":
    unittest.main()
