"""The answers of `gpulens check gpu_health`, `gpulens check gpu_state` and `gpulens doctor` while a fault of the matrix lasts: no
fault may leave a GPU that all of them call well. And the landing page, /metrics, checks, doctor, events and the WebSocket agree.

GPULENS_WRITE_RELIABILITY=1 writes the table of docs/reliability.md; else its rows must be those of this test.
GPULENS_FAULT=WORDS runs the rows whose names contain the words, GPULENS_PART=2/3 the second third of them.
"""
import asyncio
import dataclasses
import json
import os
import re
import signal
import subprocess
import time
import unittest

from agent import BINARY, ROOT, wait_until
from fault_machine import GPUS, Machine, Page, uuid

try:
    import websockets
except ImportError:
    websockets = None

PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- health: written by tests/e2e/test_health_matrix.py -->", "<!-- end of health -->"
CODES = {0: "OK", 1: "WARNING", 2: "CRITICAL", 3: "UNKNOWN"}
# Allowed answers of each source by the analyzer's state; "" is no state.
CHECK_OF = {"ok": "OK", "degraded": "WARNING", "predicted_failure": "WARNING", "failed": "CRITICAL", "": "UNKNOWN"}
DOCTOR_OF = {"ok": ("found",), "degraded": ("warning",), "predicted_failure": ("warning",), "failed": ("broken",),
             "": ("warning", "no_permission", "broken")}
WORDS = ("ok", "", "degraded", "predicted_failure", "failed")  # ascending badness


@dataclasses.dataclass
class Row:
    fault: str  # as in test_fault_matrix
    words: str = ""  # of `gpulens fake nvml fail`; {gpu} is the row's own
    health: tuple = ("OK",)  # the allowed answers while the fault lasts
    state: tuple = ("OK",)
    doctor: tuple = ("found",)  # the kind of the finding about the GPU; "found": there is none
    reopen: bool = False  # the library must be opened again for it to be seen
    act: object = None  # for what is no fault of the simulated library
    gpu: int = -1  # -1: its turn; None: all of them
    answers: list = dataclasses.field(default_factory=list)


AWAY = {"health": ("CRITICAL",), "state": ("CRITICAL",), "doctor": ("broken",)}
UNREAD = {"health": ("UNKNOWN", "CRITICAL", "WARNING"), "state": ("UNKNOWN", "CRITICAL"), "doctor": ("warning", "broken")}
LESS = {"health": ("WARNING",), "doctor": ("warning",)}
UNREADABLE = {"health": ("UNKNOWN", "WARNING", "CRITICAL"), "state": ("UNKNOWN", "CRITICAL"),
              "doctor": ("broken", "no_permission"), "gpu": None}


def kill(machine):
    os.kill(machine.reader(), signal.SIGKILL)


def kill_three_times(machine):
    for _ in range(3):
        pid = machine.reader()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: machine.agent.reader_pid() not in (None, pid), what="the next process")


def garbled_log(machine):
    machine.log_kernel("\x00\xff[ NVRM: Xid (PCI:\n[   1.2] NVRM: Xid (PCI:zz): 79\n")


# In the order of the fault matrix, those that end the reader process last: three ends within five minutes are a finding of
# their own. Faults that are none leave all well. Faults that are missing here end before a query (one end or stop of the
# reader process), or need a machine with other boards (an old driver).
ROWS = [
    Row("GPU lost", "gpu={gpu} mode=lost", **AWAY),
    Row("GPU fallen off the bus", "gpu={gpu} mode=fallen_off_bus", **AWAY),
    Row("GPU needs a reset", "gpu={gpu} mode=reset_required", **AWAY),
    Row("GPU reset and back", "gpu={gpu} mode=reset for=600s", **AWAY),
    Row("insufficient power", "gpu={gpu} mode=insufficient_power", **UNREAD),
    Row("a call hangs", "gpu={gpu} mode=hang", **AWAY),
    Row("calls are slow", "gpu={gpu} mode=slow delay=100ms"),
    Row("one call fails (999)", "gpu={gpu} mode=error call=nvmlDeviceGetPowerUsage code=999", **LESS),
    Row("every error code from any call", "gpu={gpu} mode=error code=999", **UNREAD),
    Row("three calls in ten fail", "gpu={gpu} mode=flaky code=999 percent=30 seed=7", **LESS),
    Row("wrong struct version", "gpu=all mode=error call=nvmlDeviceGetMemoryInfo_v2 code=25", reopen=True),
    Row("XID", "gpu={gpu} mode=xid code=31"),
    Row("XID that asks for a reset", "gpu={gpu} mode=xid code=119", health=("CRITICAL",), doctor=("broken",)),
    Row("links down", "gpu={gpu} mode=counter counter=links_down amount=2", **LESS),
    Row("power brake", "gpu={gpu} mode=throttle value=0x80", **LESS),
    Row("power reads 0xFFFFFFFF", "gpu={gpu} mode=wrong_value reading=power value=0xFFFFFFFF", **LESS),
    Row("temperature reads INT_MIN", "gpu={gpu} mode=wrong_value reading=temperature value=int_min", **LESS),
    Row("utilisation reads 4294967295 %", "gpu={gpu} mode=wrong_value reading=utilization value=4294967295"),
    Row("memory used reads -1", "gpu={gpu} mode=wrong_value reading=memory value=-1", **LESS),
    Row("energy reads 2^64-1", "gpu={gpu} mode=wrong_value reading=energy value=all_ones"),
    Row("energy counter falls", "gpu={gpu} mode=energy_backward amount=100000"),
    Row("GPU vanishes and returns", "gpu={gpu} mode=vanish", reopen=True, health=("CRITICAL",),
        state=("UNKNOWN", "CRITICAL"), doctor=("broken",)),
    Row("GPU returns under another index", "gpu={gpu} mode=renumber index=0", reopen=True),
    Row("kernel log torn and garbled", act=garbled_log),
    Row("a GPU may not be read", "gpu={gpu} mode=error code=4", reopen=True, health=("UNKNOWN",), state=("UNKNOWN",),
        doctor=("no_permission",)),
    Row("the event thread hangs", "mode=hang call=nvmlEventSetWait_v2", doctor=("broken",), gpu=None),
    # Such errors stay until the driver is loaded again: no later row needs a healthy GPU.
    Row("uncorrectable memory errors", "gpu={gpu} mode=ecc_uncorrectable amount=3", **LESS),
    Row("every GPU hangs", "gpu=all mode=hang", health=("UNKNOWN", "CRITICAL"), state=("UNKNOWN", "CRITICAL"),
        doctor=("broken", "warning"), gpu=None),
    Row("no permission for any GPU", "mode=error call=nvmlInit_v2 code=4", act=kill, **UNREADABLE),
    Row("kernel driver unloaded", "mode=error call=nvmlInit_v2 code=9", act=kill, **UNREADABLE),
    Row("reader process killed again and again", act=kill_three_times, health=("WARNING", "CRITICAL", "UNKNOWN"),
        state=("CRITICAL", "UNKNOWN"), doctor=("broken",), gpu=None),
]


class Commands:
    """Runs the three commands as an operator does."""

    def __init__(self, machine):
        self.machine = machine
        self.url = f"http://127.0.0.1:{machine.agent.port}"

    def number(self, gpu):
        """The number that the GPU has now: where one has gone from the list, others move up."""
        page = Page(self.machine.agent.page(), 0)
        for name in ("gpu_state", "gpu_health_state"):
            found = [s for s in page.all(name, gpu_uuid=uuid(gpu)) if s.value == 1 and not s.timestamp]
            if found:
                return int(found[0].labels["gpu_index"])
        return gpu

    def check(self, name):
        done = subprocess.run([BINARY, "check", name, "--url", self.url, "--format", "json"], capture_output=True, text=True,
                              timeout=60, check=False)
        try:
            check = json.loads(done.stdout)["checks"][0]
        except (ValueError, KeyError):
            return {"code": 3, "text": done.stdout, "gpus": []}
        assert check["code"] == done.returncode, (check, done.returncode)
        return check

    def of_gpu(self, name, gpu, check=None):
        """The verdict of the check on one GPU: its own value, or what the sentence has about it."""
        check = check or self.check(name)
        if gpu is None or check["code"] == 0:
            return CODES[check["code"]]
        # One that is missing still has the number that the next one has been given.
        codes = [value["code"] for value in check["gpus"] if value["gpu"] == str(gpu)]
        if codes:
            return CODES[max(codes)]
        for sentence in check["text"].split(";"):
            # "GPU 0, 1 (stale) and 3 do not report …"
            listed = re.match(r"\s*GPU ((?:\d+(?: \(stale\))?(?:, | and )?)+)", sentence)
            if listed and str(gpu) in re.findall(r"\d+", listed[1]):
                return "UNKNOWN" if any(word in sentence for word in ("not report", "no permission", "not read")) else "CRITICAL"
        return "OK" if name == "gpu_state" else "UNKNOWN"

    def findings(self):
        done = subprocess.run([BINARY, "doctor", "--json", "--config", str(self.machine.agent.config)], capture_output=True,
                              text=True, timeout=60, check=False)
        page = json.loads(done.stdout)
        assert page["seen_by"] == "agent", page
        kinds = [f["kind"] for f in page["findings"]]
        wanted = 2 if "broken" in kinds else 1 if "no_permission" in kinds or "warning" in kinds else 0
        assert done.returncode == wanted, (done.returncode, kinds)
        return page["findings"]

    def doctor(self, gpu, findings=None):
        trouble = [f for f in findings or self.findings() if f["kind"] not in ("found", "absent")]
        about = [f for f in trouble if gpu is None and f["subject"].startswith(("GPU", "nvidia", "driver"))
                 or f["subject"] == f"GPU {gpu}"]
        for kind in ("broken", "no_permission", "warning"):
            if any(f["kind"] == kind for f in about):
                return kind
        return "found"


class HealthSources:
    """Queries every source of a GPU's health, and lists where two of them differ."""

    def __init__(self, machine, commands):
        self.machine, self.commands = machine, commands

    @staticmethod
    def worst(words):
        return max(words, key=WORDS.index)

    def words(self, page):
        """The word of each GPU by its number; the worst where two have had the same number."""
        found = {}
        for sample in page.all("gpu_state") + page.all("gpu_info") + page.all("gpu_health_state"):
            found.setdefault(sample.labels["gpu_index"], {}).setdefault(sample.labels.get("gpu_uuid"), "")
        for sample in page.all("gpu_health_state"):
            if sample.value == 1 and not sample.timestamp:
                found[sample.labels["gpu_index"]][sample.labels.get("gpu_uuid")] = sample.labels["gpu_health_state"]
        return found

    def on_the_landing_page(self):
        """The cells of the last column by number."""
        text = self.machine.agent.get("/").text.decode()
        assert "SIMULATED" in text
        found = {}
        for index, cell in re.findall(r"<tr><td class=n>(\d+)</td>.*?<td>([^<]*)</td></tr>", text):
            found.setdefault(index, []).append(cell)
        return found

    def in_the_store(self):
        """The last word that an event of each GPU's uuid has."""
        done = subprocess.run([BINARY, "events", "--name", "gpu.health.change", "--format", "json", "--config",
                               str(self.machine.agent.config)], capture_output=True, text=True, timeout=60, check=False)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        assert all(event["attributes"].get("simulated") for event in events), events
        return {event["gpu_uuid"]: event["attributes"]["gpu.health.state"] for event in events}

    def pushed(self):
        """The processes in a frame of the WebSocket, as PID:GPU."""
        async def read():
            async with websockets.connect(f"ws://127.0.0.1:{self.machine.agent.ws_port}/") as ws:
                return json.loads(await asyncio.wait_for(ws.recv(), 10))
        return {entry["key"] for entry in asyncio.run(read())["gpu_utilization"]}

    def differences(self):
        page, landing, stored = Page(self.machine.agent.page(), 0), self.on_the_landing_page(), self.in_the_store()
        check, findings = self.commands.check("gpu_health"), self.commands.findings()
        out = []
        for index, by_uuid in self.words(page).items():
            word = self.worst(by_uuid.values())
            verdict = self.commands.of_gpu("gpu_health", int(index), check)
            if verdict != CHECK_OF[word]:
                out.append(f"GPU {index}: {word} on /metrics, {verdict} by check: {check['text']}")
            finding = self.commands.doctor(int(index), findings)
            if finding not in DOCTOR_OF[word]:
                out.append(f"GPU {index}: {word} on /metrics, {finding} by doctor")
            # Where there is no word, the page may show a state; never a good one.
            shown = [cell if cell in WORDS else "" for cell in landing.get(index, [""])]
            if self.worst(shown) != word or (not word and "ok" in shown):
                out.append(f"GPU {index}: {word} on /metrics, {shown} on the landing page")
            for uuid, own in by_uuid.items():
                if own and stored.get(uuid, "ok") != own:
                    out.append(f"GPU {index}: {own} on /metrics, {stored.get(uuid)} by its last event")
        if websockets:
            on_page = {f"{s.labels['pid']}:{s.labels['gpu_id']}" for s in page.all("zernel_gpu_memory_used_bytes")}
            if self.pushed() != on_page:
                out.append(f"processes: {sorted(on_page)} on /metrics, {sorted(self.pushed())} by the WebSocket")
        return out

    def agree(self):
        """Two sources may be queried before and after a change: they must agree within some seconds."""
        last = []
        end = time.monotonic() + 20
        while time.monotonic() < end:
            last = self.differences()
            if not last:
                return
        raise AssertionError("\n".join(last))


class HealthMatrix(unittest.TestCase):
    def test_the_table_has_the_rows_of_this_test(self):
        self.assertEqual(table_rows(), [row.fault for row in ROWS], "docs/reliability.md is old: GPULENS_WRITE_RELIABILITY=1")

    def test_no_false_all_clear(self):
        only = os.environ.get("GPULENS_FAULT", "")
        part, parts = map(int, os.environ.get("GPULENS_PART", "1/1").split("/"))
        with Machine() as machine:
            machine.wait_healthy()
            commands = Commands(machine)
            self.health_sources = HealthSources(machine, commands)
            wait_until(lambda: commands.of_gpu("gpu_health", None) == "OK", 90, "all well at first")
            self.assertEqual(commands.doctor(None), "found")
            self.health_sources.agree()
            turn = 0
            for row in [row for row in ROWS[part - 1::parts] if only in row.fault]:
                if row.gpu == -1:
                    row.gpu, turn = turn % (GPUS - 1) + 1, turn + 1
                with self.subTest(row.fault):
                    try:
                        self.run_row(machine, commands, row)
                    except AssertionError as error:
                        print(f"{row.fault}: {error}", flush=True)
                        raise
            shown = subprocess.run([BINARY, "events", "--config", str(machine.agent.config)], capture_output=True, text=True,
                                   timeout=60, check=False).stdout.splitlines()
            lines = [line for line in shown[1:] if not line.startswith("    before:")]
            self.assertTrue(lines)
            self.assertEqual([line for line in lines if "SIMULATED" not in line], [], "nothing of a demo has happened")
        if os.environ.get("GPULENS_WRITE_RELIABILITY") == "1" and all(row.answers for row in ROWS):
            write_table()

    def run_row(self, machine, commands, row):
        began = time.monotonic()
        subprocess.run([BINARY, "events", "clear", "--socket", str(machine.socket)], capture_output=True, timeout=60, check=True)
        # A better word waits for 30 s, and readings that failed are forgotten within a minute.
        if row.gpu is not None:
            wait_until(lambda: commands.of_gpu("gpu_health", commands.number(row.gpu)) == "OK", 150, f"GPU {row.gpu} well before the row")
        elif row.health == ("OK",):
            wait_until(lambda: commands.of_gpu("gpu_health", None) == "OK", 150, "all well before the row")
        try:
            if row.words:
                machine.fail(row.words.format(gpu=row.gpu))
            if row.act:
                row.act(machine)
            if row.reopen:
                machine.reopen()
            self.look(machine, commands, row)
        finally:
            machine.heal()
            machine.command("gpu", "resume")
            if row.act in (kill, kill_three_times):
                machine.replace_collector()
            if row.reopen:
                machine.reopen()
        print(f"{row.fault:40} {' '.join(row.answers):40} {time.monotonic() - began:5.1f} s", flush=True)

    def look(self, machine, commands, row):
        def number():
            return None if row.gpu is None else commands.number(row.gpu)
        sources = (lambda: commands.of_gpu("gpu_health", number()), lambda: commands.of_gpu("gpu_state", number()),
                   lambda: commands.doctor(number()))
        for question, wanted, name in zip(sources, (row.health, row.state, row.doctor), ("gpu_health", "gpu_state", "doctor")):
            # A healthy answer is given from the first moment, except where the library was reopened.
            if wanted[0] in ("OK", "found") and not row.reopen and not row.act:
                continue
            row.answers.append(wait_until(lambda q=question, w=wanted: (lambda a: a if a in w else "")(q()), 60, f"{name}: {wanted}"))
        # It lasts as long as the fault does, and what is no fault is none.
        row.answers.clear()
        for question, wanted, name in zip(sources, (row.health, row.state, row.doctor), ("gpu_health", "gpu_state", "doctor")):
            answer = question()
            self.assertIn(answer, wanted, name)
            row.answers.append(answer)
        self.health_sources.agree()


def table_rows():
    text = PAGE.read_text()
    if BEGIN not in text:
        return []
    lines = text[text.index(BEGIN):text.index(END)].splitlines()
    return [line.split("|")[1].strip() for line in lines if line.startswith("| ")][1:]


def write_table():
    lines = [BEGIN, "", "| fault, while it lasts | `check gpu_health` | `check gpu_state` | `doctor` |", "|---|---|---|---|"]
    for row in ROWS:
        finding = "nothing" if row.answers[2] == "found" else row.answers[2].replace("_", " ")
        lines.append(f"| {row.fault} | {row.answers[0]} | {row.answers[1]} | {finding} |")
    lines += ["", END]
    text = PAGE.read_text()
    PAGE.write_text(text[:text.index(BEGIN)] + "\n".join(lines) + text[text.index(END) + len(END):])


if __name__ == "__main__":
    unittest.main()
