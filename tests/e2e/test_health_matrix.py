"""What `gpulens check gpu_health`, `gpulens check gpu_state` and `gpulens doctor` say while a fault of the matrix lasts: no
fault may leave a GPU that all of them call well.

GPULENS_WRITE_RELIABILITY=1 writes the table of docs/reliability.md; else its rows must be those of this test.
"""
import dataclasses
import json
import os
import signal
import subprocess
import time
import unittest

from agent import BINARY, ROOT, wait_until
from fault_machine import GPUS, Machine

PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- health: written by tests/e2e/test_health_matrix.py -->", "<!-- end of health -->"
CODES = {0: "OK", 1: "WARNING", 2: "CRITICAL", 3: "UNKNOWN"}


@dataclasses.dataclass
class Row:
    fault: str  # as in test_fault_matrix
    words: str = ""  # of `gpulens fake nvml fail`; {gpu} is the row's own
    health: tuple = ("OK",)  # what may be said of the GPU while the fault lasts
    state: tuple = ("OK",)
    doctor: tuple = ("found",)  # the kind of the finding about the GPU; "found": there is none
    reopen: bool = False  # the library must be opened again for it to be seen
    act: object = None  # for what is no fault of the simulated library
    gpu: int = -1  # -1: its turn; None: all of them
    said: list = dataclasses.field(default_factory=list)


AWAY = {"health": ("CRITICAL",), "state": ("CRITICAL",), "doctor": ("broken",)}
UNREAD = {"health": ("UNKNOWN", "CRITICAL", "WARNING"), "state": ("UNKNOWN", "CRITICAL"), "doctor": ("warning", "broken")}
LESS = {"health": ("WARNING",), "doctor": ("warning",)}
NOBODY = {"health": ("UNKNOWN", "WARNING", "CRITICAL"), "state": ("UNKNOWN", "CRITICAL"),
          "doctor": ("broken", "no_permission"), "gpu": None}


def kill(machine):
    os.kill(machine.driver(), signal.SIGKILL)


def kill_three_times(machine):
    for _ in range(3):
        pid = machine.driver()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: machine.agent.driver_pid() not in (0, pid), what="the next process")


def garbled_log(machine):
    machine.say("\x00\xff[ NVRM: Xid (PCI:\n[   1.2] NVRM: Xid (PCI:zz): 79\n")


# In the order of the fault matrix, those that end the driver process last: three ends within five minutes are a finding of
# their own. Faults that are none leave all well. What is not here is over before anybody can ask (one end or stop of the
# driver process), or is a machine with other boards (an old driver).
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
    Row("three calls in ten fail", "gpu=all mode=flaky code=999 percent=30 seed=7"),
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
    # Such errors stay until the driver is loaded again: nothing behind this row asks for a GPU that is well.
    Row("uncorrectable memory errors", "gpu={gpu} mode=ecc_uncorrectable amount=3", **LESS),
    Row("every GPU hangs", "gpu=all mode=hang", health=("UNKNOWN", "CRITICAL"), state=("UNKNOWN", "CRITICAL"),
        doctor=("broken", "warning"), gpu=None),
    Row("no permission for any GPU", "mode=error call=nvmlInit_v2 code=4", act=kill, **NOBODY),
    Row("kernel driver unloaded", "mode=error call=nvmlInit_v2 code=9", act=kill, **NOBODY),
    Row("driver process killed again and again", act=kill_three_times, health=("WARNING", "CRITICAL", "UNKNOWN"),
        state=("CRITICAL", "UNKNOWN"), doctor=("broken",), gpu=None),
]


class Asker:
    """Asks the three commands as an operator does."""

    def __init__(self, machine):
        self.machine = machine
        self.url = f"http://127.0.0.1:{machine.agent.port}"

    def check(self, name):
        done = subprocess.run([BINARY, "check", name, "--url", self.url, "--format", "json"], capture_output=True, text=True,
                              timeout=60, check=False)
        try:
            check = json.loads(done.stdout)["checks"][0]
        except (ValueError, KeyError):
            return {"code": 3, "text": done.stdout, "gpus": []}
        assert check["code"] == done.returncode, (check, done.returncode)
        return check

    def of_gpu(self, name, gpu):
        """The word of the check about one GPU: its own value, or what the sentence says of it."""
        check = self.check(name)
        if gpu is None or check["code"] == 0:
            return CODES[check["code"]]
        # One that is missing still has the number that the next one has been given.
        codes = [value["code"] for value in check["gpus"] if value["gpu"] == str(gpu)]
        if codes:
            return CODES[max(codes)]
        parts = [part for part in check["text"].replace(" and ", "; GPU ").split(";") if f"GPU {gpu}" in part]
        if not parts:
            return "OK" if name == "gpu_state" else "UNKNOWN"
        unknown = any(word in parts[0] for word in ("report", "no_permission", "not read"))
        return "UNKNOWN" if unknown else "CRITICAL"

    def doctor(self, gpu):
        done = subprocess.run([BINARY, "doctor", "--json", "--config", str(self.machine.agent.config)], capture_output=True,
                              text=True, timeout=60, check=False)
        page = json.loads(done.stdout)
        assert page["seen_by"] == "agent", page
        kinds = [f["kind"] for f in page["findings"]]
        wanted = 2 if "broken" in kinds else 1 if "no_permission" in kinds or "warning" in kinds else 0
        assert done.returncode == wanted, (done.returncode, kinds)
        trouble = [f for f in page["findings"] if f["kind"] not in ("found", "not_here")]
        about = [f for f in trouble if gpu is None and f["subject"].startswith(("GPU", "nvidia", "driver"))
                 or f["subject"] == f"GPU {gpu}"]
        for kind in ("broken", "no_permission", "warning"):
            if any(f["kind"] == kind for f in about):
                return kind
        return "found"


class HealthMatrix(unittest.TestCase):
    def test_no_false_all_clear(self):
        only = os.environ.get("GPULENS_FAULT", "")
        with Machine() as machine:
            machine.whole()
            asker = Asker(machine)
            wait_until(lambda: asker.of_gpu("gpu_health", None) == "OK", 90, "all well at first")
            self.assertEqual(asker.doctor(None), "found")
            turn = 0
            for row in [row for row in ROWS if only in row.fault]:
                if row.gpu == -1:
                    row.gpu, turn = turn % (GPUS - 1) + 1, turn + 1
                with self.subTest(row.fault):
                    self.run_row(machine, asker, row)
        if os.environ.get("GPULENS_WRITE_RELIABILITY") == "1" and all(row.said for row in ROWS):
            write_table()
        elif not only:
            self.assertEqual(table_rows(), [row.fault for row in ROWS], "docs/reliability.md is old: GPULENS_WRITE_RELIABILITY=1")

    def run_row(self, machine, asker, row):
        began = time.monotonic()
        subprocess.run([BINARY, "events", "clear", "--socket", str(machine.socket)], capture_output=True, timeout=60, check=True)
        if row.gpu is not None:
            # A word that gets better waits for half a minute, and a GPU has its turn again after seven rows.
            wait_until(lambda: asker.of_gpu("gpu_health", row.gpu) == "OK", 60, f"GPU {row.gpu} well before the row")
        try:
            if row.words:
                machine.fail(row.words.format(gpu=row.gpu))
            if row.act:
                row.act(machine)
            if row.reopen:
                machine.reopen()
            self.look(machine, asker, row)
        finally:
            machine.heal()
            machine.command("driver", "resume")
            if row.act in (kill, kill_three_times):
                machine.renew()
            if row.reopen:
                machine.reopen()
        print(f"{row.fault:40} {' '.join(row.said):40} {time.monotonic() - began:5.1f} s", flush=True)

    def look(self, machine, asker, row):
        ask = (lambda: asker.of_gpu("gpu_health", row.gpu), lambda: asker.of_gpu("gpu_state", row.gpu),
               lambda: asker.doctor(row.gpu))
        for question, wanted, name in zip(ask, (row.health, row.state, row.doctor), ("gpu_health", "gpu_state", "doctor")):
            # What is well is well from the first moment, but where the library was opened anew.
            if wanted[0] in ("OK", "found") and not row.reopen and not row.act:
                continue
            row.said.append(wait_until(lambda q=question, w=wanted: (lambda a: a if a in w else "")(q()), 60, f"{name}: {wanted}"))
        # It lasts as long as the fault does, and what is no fault is none.
        row.said.clear()
        for question, wanted, name in zip(ask, (row.health, row.state, row.doctor), ("gpu_health", "gpu_state", "doctor")):
            answer = question()
            self.assertIn(answer, wanted, name)
            row.said.append(answer)


def table_rows():
    text = PAGE.read_text()
    if BEGIN not in text:
        return []
    lines = text[text.index(BEGIN):text.index(END)].splitlines()
    return [line.split("|")[1].strip() for line in lines if line.startswith("| ")][1:]


def write_table():
    lines = [BEGIN, "", "| fault, while it lasts | `check gpu_health` | `check gpu_state` | `doctor` |", "|---|---|---|---|"]
    for row in ROWS:
        finding = "nothing" if row.said[2] == "found" else row.said[2].replace("_", " ")
        lines.append(f"| {row.fault} | {row.said[0]} | {row.said[1]} | {finding} |")
    lines += ["", END]
    text = PAGE.read_text()
    PAGE.write_text(text[:text.index(BEGIN)] + "\n".join(lines) + text[text.index(END) + len(END):])


if __name__ == "__main__":
    unittest.main()
