"""The completions of `gpulens completion`, as bash, zsh and fish themselves offer them."""
import json
import os
import pathlib
import pty
import select
import shutil
import subprocess
import tempfile
import time
import unittest

from agent import BINARY

# Writes what zsh would add to a list; options that only fill arrays pass.
ZSH_SPY = r"""
compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
  local -a found; builtin compadd -A found "$@"
  (( $#found )) && print -rl -- $found >> $OUT
  builtin compadd "$@"
}
report() { print END >> $OUT }
zle -N report
bindkey '^Xr' report
LISTMAX=9999
"""


def script(shell):
    return subprocess.run([str(BINARY), "completion", shell], check=True, capture_output=True, text=True).stdout


def tree():
    return json.loads(subprocess.run([str(BINARY), "help", "--json"], check=True, capture_output=True, text=True).stdout)["commands"][0]


def every(command):
    yield command
    for one in command["commands"]:
        yield from every(one)


class Offers:
    """What a shell offers for a line. Each shell has offers(line), which returns a set."""

    shell = None
    stride = 1  # of the commands whose options are all looked at

    def setUp(self):
        if not shutil.which(self.shell):
            self.skipTest(f"no {self.shell} here")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "node.yaml").touch()
        (self.folder / "pages").mkdir()
        self.file = self.folder / f"gpulens.{self.shell}"
        self.file.write_text(script(self.shell), encoding="utf-8")

    def run_shell(self, *words):
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=self.folder, stdin=subprocess.DEVNULL,
                              env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C.UTF-8", "TERM": "xterm"}, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        return done.stdout

    def typed(self, shell, setup, keys):
        """Types keys into an interactive shell after its setup, and returns the lines of the file $OUT once it ends with END."""
        result = self.folder / "result"
        result.unlink(missing_ok=True)
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execvpe(shell[0], shell, {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C.UTF-8", "TERM": "dumb", "OUT": str(result)})
        # The echo of the setup has no READY in it, the prompt has.
        os.write(terminal, f"{setup}; PS1=REA; PS1+=DY\r".encode())
        seen, sent, deadline = b"", False, time.monotonic() + 50
        try:
            while time.monotonic() < deadline:
                if select.select([terminal], [], [], 0.1)[0]:
                    seen += os.read(terminal, 65536)
                if not sent and b"READY" in seen:
                    sent = os.write(terminal, keys.encode())
                if sent and result.exists() and result.read_text().endswith("END\n"):
                    return result.read_text().splitlines()[:-1]
            self.fail(f"{shell[0]} shows {seen[-500:]!r}")
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            os.close(terminal)

    def test_commands(self):
        shown = {one["name"].split()[-1] for one in tree()["commands"]}
        self.assertGreater(len(shown), 30)
        self.assertEqual(self.offers("gpulens "), shown)
        self.assertEqual(self.offers("gpulens comp"), {"completion"})

    def test_subcommands_and_their_options(self):
        self.assertEqual(self.offers("gpulens config "), {"check", "print", "init", "schema"})
        self.assertEqual(self.offers("gpulens config schema --j"), {"--json"})
        self.assertEqual(self.offers("gpulens exp plot --outp"), {"--output"})
        self.assertEqual(self.offers("gpulens events --lim"), {"--limit"})

    def test_words_of_options_and_arguments(self):
        self.assertEqual(self.offers("gpulens metrics --format "), {"table", "md", "json"})
        self.assertEqual(self.offers("gpulens metrics --names dc"), {"dcgm", "dcgm@4.6"})
        self.assertEqual(self.offers("gpulens completion "), {"bash", "zsh", "fish"})
        self.assertEqual(self.offers("gpulens collect vll"), {"vllm", "vllm-production-stack", "vllm-router"})
        self.assertIn("all", self.offers("gpulens check "))

    def test_files_where_there_are_some(self):
        self.assertIn("node.yaml", self.offers("gpulens agent --config "))
        self.assertEqual({name.rstrip("/") for name in self.offers("gpulens events --state-dir p")}, {"pages"})
        self.assertIn("node.yaml", self.offers("gpulens config check n"))
        self.assertNotIn("node.yaml", self.offers("gpulens agent --interval "))

    def test_the_command_is_found_behind_options(self):
        self.assertEqual(self.offers("gpulens agent --config x --dem"), {"--demo"})

    def test_every_option_is_offered(self):
        for command in list(every(tree()))[:: self.stride]:
            if command["name"] != "gpulens":
                names = {name for option in command["options"] for name in option["names"] if name.startswith("--")}
                with self.subTest(command=command["name"]):
                    self.assertEqual({name for name in self.offers(command["name"] + " --") if name.startswith("--")}, names)


class Bash(Offers, unittest.TestCase):
    shell = "bash"

    def offers(self, line):
        words = line.split(" ")
        code = f"source {self.file}; COMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}; _gpulens; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        return set(filter(None, self.run_shell("bash", "--norc", "-uc", code).splitlines()))

    def test_typed_with_a_sign(self):
        setup = f"report() {{ {{ echo \"$READLINE_LINE\"; echo END; }} >$OUT; }}; bind -x '\"\\C-xr\": report'; source {self.file}"
        found = self.typed(["bash", "--norc", "--noprofile"], setup, "gpulens metrics --format=ta\t\x18r")
        self.assertEqual(found, ["gpulens metrics --format=table "])


class Zsh(Offers, unittest.TestCase):
    shell = "zsh"
    stride = 9  # a terminal and a zsh for each

    def offers(self, line):
        (self.folder / "spy").write_text(ZSH_SPY)
        setup = f"autoload -Uz compinit; compinit -D; source {self.file}; source ./spy"
        return {name.strip() for name in self.typed(["zsh", "-f", "-i"], setup, line + "\t\x18r")}


    def test_installed(self):
        (self.folder / "functions").mkdir()
        self.file.rename(self.folder / "functions/_gpulens")
        (self.folder / "spy").write_text(ZSH_SPY)
        setup = "fpath=($PWD/functions $fpath); autoload -Uz compinit; compinit -D -u; source ./spy"
        # Twice: the first time reads the file, then its functions are there.
        found = self.typed(["zsh", "-f", "-i"], setup, "gpulens comp\t\x15gpulens config sch\t\x18r")
        self.assertEqual([name.strip() for name in found], ["completion", "schema"])


class Fish(Offers, unittest.TestCase):
    shell = "fish"

    def offers(self, line):
        code = f"source {self.file}; complete -C {line!r}"
        return {one.split("\t")[0] for one in self.run_shell("fish", "--no-config", "-c", code).splitlines()}


class Program(unittest.TestCase):
    def test_another_shell(self):
        done = subprocess.run([str(BINARY), "completion", "csh"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn('"csh" is not one of bash, zsh, fish', done.stderr)


if __name__ == "__main__":
    unittest.main()
