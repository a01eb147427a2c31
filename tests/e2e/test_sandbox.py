"""What each process of the agent may do, tried from inside it: the table of SECURITY.md, row by row and column by column.

`try_inside` (tests/sandbox) has a thread of the process execute the calls. A control shows that each of them succeeds, or fails for another
reason, in a process that nothing confines.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

from agent import BINARY, ROOT, Agent, processes_below, samples, value, wait_until
from bad_pages import Server, always, answer

TRY_INSIDE = pathlib.Path(os.environ.get("TRY_INSIDE", BINARY.resolve().parent / "try_inside"))
HEADING = "## What each process may do"
SECRET = "sandbox-test-secret-7391"
USER = 64000  # of no account
REFUSED = ("EPERM", "EACCES")
# A device file of every Linux machine that no process of the agent needs.
DEVICE = next((path for path in ("/dev/loop-control", "/dev/fuse", "/dev/kmsg") if os.path.exists(path)), "")


def confines():
    """Whether this build and this kernel confine anything: a build with a sanitizer does not."""
    text = subprocess.run([str(BINARY), "version"], capture_output=True, text=True, check=False).stdout
    return "sanitize" not in text


def table(heading=HEADING):
    """The rows of a table of SECURITY.md: attempts as in try_inside, and by column whether each is allowed."""
    section = (ROOT / "SECURITY.md").read_text().split(heading + "\n", 1)[1].split("\n## ", 1)[0]
    lines = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in section.splitlines() if line.startswith("|")]
    head, rows = lines[0], lines[2:]
    out = []
    for row in rows:
        assert len(row) == len(head), row
        assert set(row[2:]) <= {"yes", "no"}, row
        attempts = re.findall(r"`([^`]+)`", row[1])
        assert attempts, row
        out.append((attempts, dict(zip(head[2:], (cell == "yes" for cell in row[2:]), strict=True))))
    return out


def columns():
    return {kind for _, row in table() for kind in row}


def try_inside(pid, attempts, thread=None):
    """What each attempt ended with in the process: "ok", or the name of an errno."""
    where = f"{pid}/{thread}" if thread else str(pid)
    done = subprocess.run([str(TRY_INSIDE), where, *attempts], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{done.args}: {done.stderr}")
    return dict(line.split("\t") for line in done.stdout.splitlines())


def status_of(pid, thread=None):
    text = pathlib.Path(f"/proc/{pid}/task/{thread or pid}/status").read_text()
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def threads_of(pid):
    return sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))


class World:
    """An agent with a process of each kind: it reads simulated GPUs and an isolated target, and a program connects for energy."""

    def __init__(self, case, mode="enforce", wrapper=(), user=0, **environment):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-sandbox-"))
        case.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.folder.chmod(0o755)
        self.mode = mode
        for name in ("state", "run", "outside"):
            (self.folder / name).mkdir()
        (self.folder / "outside" / "file").write_text("of another program\n")
        page = Server(always(answer("# TYPE a gauge\na 1\n")))
        case.addCleanup(page.close)
        self.config = (f"interval: 250ms\nstate_dir: {self.folder}/state\nsandbox: {{mode: {mode}}}\n"
                       f"control: {{socket: {self.folder}/run/s.sock}}\n"
                       f"collectors: {{programs: {{socket: {self.folder}/run/otlp.sock}}}}\n"
                       f"targets: [{{name: page, url: '{page.url()}', interval: 500ms, isolate: true}}]\n"
                       "sinks: {remote_write: {url: 'http://127.0.0.1:1/write'}}\n")
        self.agent = Agent("--demo", config=self.config, environment={
            "GPULENS_SINKS_REMOTE_WRITE_TRANSPORT_BEARER_TOKEN": SECRET, "AWS_SECRET_ACCESS_KEY": SECRET, **environment})
        self.as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all"] if user else []
        self.agent.arguments = [*wrapper, *self.as_user, *self.agent.arguments]
        self.energy = None
        # A process of the agent's user without privileges, into which any other of that user can look.
        self.other = subprocess.Popen(["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "sleep",
                                       "600"])
        case.addCleanup(self.other.wait)
        case.addCleanup(self.other.kill)
        if user:
            subprocess.run(["chown", "-R", f"{user}:{user}", str(self.folder), str(self.agent.folder)], check=True)
            self.agent.folder.chmod(0o755)

    def __enter__(self):
        self.agent.__enter__()
        wait_until(lambda: (self.folder / "run" / "energy.sock").exists(), what="the socket for energy")
        self.energy = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.energy.connect(str(self.folder / "run" / "energy.sock"))
        except OSError:
            self.energy = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.energy.connect(str(self.folder / "run" / "energy.sock"))
        return self

    def __exit__(self, *what):
        self.energy.close()
        self.agent.__exit__(*what)

    def processes(self):
        """{column of the table: pid}, once there is one of each kind."""
        found = {"agent": self.agent.process.pid}
        for pid, words in processes_below(self.agent.process.pid).items():
            # A reader process that has just begun is not confined yet: it has the launcher's filter, and then its own.
            if words[1:2] == ["reader"] and (self.mode == "off" or int(status_of(pid)["Seccomp_filters"]) > 1):
                found[{"nvml": "NVML reader", "energy": "energy reader", "page": "page reader"}.get(words[2], words[2])] = pid
            elif words[1:2] == ["agent"]:
                found["launcher"] = pid
        return found

    def every_process(self):
        kinds = columns()
        return wait_until(lambda: (found := self.processes()).keys() >= kinds and found, 30, f"a process of each kind of {sorted(kinds)}")

    def attempt(self, word):
        """An attempt of the table, with the paths of this test."""
        return (word.replace("STATE", f"{self.folder}/state/demo").replace("OUTSIDE", f"{self.folder}/outside").replace("DEVICE", DEVICE)
                .replace("OTHER", str(self.other.pid)))

    def leave_nothing(self):
        for name in ("state/demo", "outside"):
            for path in (self.folder / name).glob("tried*"):
                path.rmdir() if path.is_dir() else path.unlink()

    def doctor(self):
        finder = self.folder / "finder.yaml"
        finder.write_text(f"control: {{socket: {self.folder}/run/s.sock}}\n")
        done = subprocess.run([str(BINARY), "doctor", "--json", "--config", str(finder)], capture_output=True, text=True, timeout=60,
                              check=False)
        page = json.loads(done.stdout)
        assert page["seen_by"] == "agent", done.stdout
        return page

    def sandbox_findings(self):
        return [(f["kind"], f["what"]) for f in self.doctor()["findings"] if f["subject"] == "sandbox"]


needs_root = unittest.skipUnless(os.getuid() == 0, "needs root, to look into processes")


@needs_root
@unittest.skipUnless(TRY_INSIDE.exists(), f"{TRY_INSIDE} is not built")
@unittest.skipUnless(confines(), "built with a sanitizer: nothing is confined")
class Inside(unittest.TestCase):
    maxDiff = None

    def differences(self, world, processes, expected_of):
        """Cells that the table has otherwise. Refused calls fail with EPERM or EACCES."""
        wrong = []
        for attempts, row in table():
            for kind, allowed in row.items():
                for word in attempts:
                    if kind not in processes:
                        continue
                    got = try_inside(processes[kind], [world.attempt(word)])
                    world.leave_nothing()
                    for what in got.values():
                        if (what not in REFUSED) != expected_of(word, kind, allowed):
                            wrong.append(f"{kind}: {word}: {what}, and the table says {'yes' if allowed else 'no'}")
        return wrong

    def test_the_table(self):
        with World(self) as world:
            processes = world.every_process()
            self.assertEqual(self.differences(world, processes, lambda _word, _kind, allowed: allowed), [])
            # What was tried has ended no process.
            self.assertEqual(world.every_process(), processes)
            self.assertEqual(value(world.agent.page(), "gpulens_collector_up", collector="nvidia"), 1)

    def test_each_attempt_succeeds_where_nothing_confines(self):
        self.check_attempts_in_a_free_process(table())

    def check_attempts_in_a_free_process(self, rows):
        listed = subprocess.run([str(TRY_INSIDE), "list"], capture_output=True, text=True, check=True).stdout
        otherwise = dict(line.split("\t") for line in listed.splitlines())
        with tempfile.TemporaryDirectory() as folder, subprocess.Popen(["sleep", "60"]) as free:
            pathlib.Path(folder, "file").touch()
            try:
                for attempts, _ in rows:
                    for word in attempts:
                        path = word.replace("CONFIG", folder).replace("STATE", folder).replace("OUTSIDE", folder).replace("DEVICE", DEVICE).replace("OTHER", str(os.getpid()))
                        name = word.split(":")[0] + ":" if ":" in word else word
                        what = try_inside(free.pid, [path])[path]
                        self.assertIn(what, otherwise[name].split(" or "), word)
                        for made in pathlib.Path(folder).glob("tried*"):
                            made.rmdir() if made.is_dir() else made.unlink()
            finally:
                free.kill()

    def test_each_thread_is_confined(self):
        with World(self) as world:
            for kind, pid in world.every_process().items():
                for thread in threads_of(pid):
                    with contextlib.suppress(FileNotFoundError):  # a thread that has ended
                        status = status_of(pid, thread)
                        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"), f"{kind}, thread {thread}: {status['Name']}")
                        # The bounding set of a reader process is the launcher's: no program can give it anything.
                        left, bound = int(status["CapEff"], 16) | int(status["CapPrm"], 16), int(status["CapBnd"], 16)
                        allowed = {"agent": 1 << 34 | 1 << 2 | 1 << 19, "launcher": 1 << 2 | 1 << 19 | 1 << 21}.get(kind, 1 << 21)
                        self.assertEqual(left & ~allowed, 0, f"{kind}: {status['CapEff']}")
                        self.assertEqual(bound & ~(1 << 34 | 1 << 2 | 1 << 19 | 1 << 21), 0, f"{kind}: {status['CapBnd']}")
            # Threads of the agent that are not its first.
            agent = world.agent.process.pid
            for thread in threads_of(agent)[1:]:
                self.assertEqual(set(try_inside(agent, ["exec", "ptrace", "socket_packet"], thread).values()), {"EPERM"})

    def test_no_secret_reaches_a_process_below(self):
        with World(self) as world:
            processes = world.every_process()
            self.assertIn(SECRET, pathlib.Path(f"/proc/{processes['agent']}/environ").read_text(), "the agent has it")
            for kind, pid in processes.items():
                if kind not in ("agent", "launcher"):  # the launcher is a copy of the agent before its start
                    self.assertNotIn(SECRET, pathlib.Path(f"/proc/{pid}/environ").read_text(), kind)

    def test_doctor_and_metrics_report_what_is_in_force(self):
        with World(self) as world:
            processes = world.every_process()
            page = world.doctor()
            self.assertEqual(page["sandbox"]["mode"], "enforce")
            seen = {one["pid"]: one for one in page["sandbox"]["processes"]}
            self.assertEqual({pid for pid in processes.values() if pid not in seen}, set())
            agent = {layer["layer"]: layer["on"] for layer in seen[processes["agent"]]["layers"]}
            self.assertEqual(set(agent), {"core dumps", "capabilities", "files", "system calls"})
            self.assertEqual(world.sandbox_findings(), [("absent", f"{name} are not limited") for name, on in agent.items() if not on])
            for one in seen.values():
                self.assertTrue(all(layer["on"] for layer in one["layers"] if layer["layer"] in ("system calls", "no new privileges")), one)
            metrics = {s.labels["layer"]: s.value for s in samples(world.agent.page(), "gpulens_sandbox_active")}
            self.assertEqual(metrics, {name: float(on) for name, on in agent.items()})

    def test_what_may_not_be_is_done_and_reported_without_the_sandbox(self):
        for mode, words in (("off", "may do all"), ("log", "nothing is refused")):
            with World(self, mode=mode) as world:
                agent = world.agent.process.pid
                self.assertEqual(try_inside(agent, ["exec", "bpf"]), {"exec": "ENOENT", "bpf": "EINVAL"}, mode)
                (kind, what), = world.sandbox_findings()
                self.assertEqual(kind, "warning")
                self.assertIn(words, what)


@needs_root
@unittest.skipUnless(TRY_INSIDE.exists() and shutil.which("setpriv"), "needs try_inside and setpriv")
@unittest.skipUnless(confines(), "built with a sanitizer: nothing is confined")
class AsAUser(unittest.TestCase):
    """An agent without privileges is confined as well, and other processes of its user cannot look into it."""

    def test_an_agent_of_a_user(self):
        world = World(self, user=USER)
        with world:
            processes = world.every_process()
            wrong = Inside.differences(self, world, processes, lambda _word, _kind, allowed: allowed)
            # A device file that belongs to root is refused to any user; CAP_SYS_ADMIN, which shows environments, no user has.
            self.assertEqual([line for line in wrong if "DEVICE" not in line and "OTHER" not in line], [])
            other = world.attempt("read:/proc/OTHER/environ")
            self.assertEqual([kind for kind, pid in processes.items() if try_inside(pid, [other])[other] not in REFUSED], ["launcher"])
            for kind, pid in processes.items():
                for thread in threads_of(pid):
                    with contextlib.suppress(FileNotFoundError):
                        status = status_of(pid, thread)
                        self.assertEqual((status["NoNewPrivs"], status["Seccomp"], int(status["CapEff"], 16)), ("1", "2", 0), kind)
            # Not dumpable: its files in /proc are root's, and its user reads neither its memory nor its environment.
            agent = processes["agent"]
            self.assertEqual(os.stat(f"/proc/{agent}/environ").st_uid, 0)
            for name in ("environ", "mem", "fd", "maps"):
                done = subprocess.run([*world.as_user, "ls" if name == "fd" else "cat", f"/proc/{agent}/{name}"], capture_output=True, text=True,
                                      check=False)
                self.assertIn("Permission denied", done.stderr, name)


@needs_root
@unittest.skipUnless(TRY_INSIDE.exists(), f"{TRY_INSIDE} is not built")
@unittest.skipUnless(confines(), "built with a sanitizer: nothing is confined")
class OnALesserKernel(unittest.TestCase):
    """As in a container or on an old kernel: what cannot be had is left out and reported, and the rest holds."""

    def world(self, *layers):
        return World(self, wrapper=[str(TRY_INSIDE), "lacking", *layers, "--"])

    def test_without_landlock(self):
        with self.world("landlock") as world:
            agent = world.agent.process.pid
            self.assertEqual(try_inside(agent, ["exec", "bpf", "ptrace"]), {"exec": "EPERM", "bpf": "EPERM", "ptrace": "EPERM"})
            self.assertEqual(int(status_of(agent)["CapEff"], 16) & 1 << 21, 0)
            (kind, what), = world.sandbox_findings()
            self.assertEqual(kind, "absent")
            self.assertIn("files are not limited", what)
            self.assertEqual(value(world.agent.page(), "gpulens_sandbox_active", layer="files"), 0)
            self.assertEqual(value(world.agent.page(), "gpulens_sandbox_active", layer="system calls"), 1)

    def test_without_seccomp(self):
        with self.world("seccomp") as world:
            agent = world.agent.process.pid
            outside = f"make:{world.folder}/outside/tried"
            self.assertEqual(try_inside(agent, [outside]), {outside: "EACCES"})
            self.assertEqual([kind for kind, what in world.sandbox_findings() if "system calls" in what], ["absent"])
            self.assertEqual(value(world.agent.page(), "gpulens_sandbox_active", layer="system calls"), 0)

    def test_without_either(self):
        with self.world("landlock", "seccomp") as world:
            self.assertEqual({kind for kind, _ in world.sandbox_findings()}, {"absent"})
            wait_until(lambda: value(world.agent.page(), "gpulens_collector_up", collector="nvidia") == 1, what="readings of the GPUs")


if __name__ == "__main__":
    unittest.main()
