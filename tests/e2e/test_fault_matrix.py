"""Every fault of the simulated NVIDIA library and its surroundings, against one running agent that is scraped
ten times a second all the while: no answer may be missing, only the series of the GPU that fails may go, and all must
come back without a restart.

GPULENS_WRITE_RELIABILITY=1 writes the table of docs/reliability.md; else its rows must be those of this test.
"""
import dataclasses
import os
import time
import unittest

import fault_acts
from agent import ROOT
from fault_machine import GPUS, Machine, p99

PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- matrix: written by tests/e2e/test_fault_matrix.py -->", "<!-- end of matrix -->"
# Range of readings of a simulated H100 or A100: name, least, greatest.
POSSIBLE = (("gpu_power_draw_watts", 20, 1100), ("gpu_power_instant_watts", 20, 1100), ("gpu_utilization_ratio", 0, 1),
            ("gpu_memory_utilization_ratio", 0, 1), ("gpu_temperature_celsius", 10, 110),
            ("gpu_memory_used_bytes", 0, 96 * 2**30), ("gpu_clock_frequency_megahertz", 0, 5000),
            ("gpu_energy_consumption_joules_total", 0, 1e15))


@dataclasses.dataclass
class Row:
    fault: str
    series: str  # what becomes of the series, for the table
    mark: str
    event: str
    run: object
    p99: float = 0.0
    scrapes: int = 0


ONE, ALL = "only its own", "all, until the process is back"
ROWS = [
    Row("GPU lost", ONE + ": dated, then absent", "stale; state lost", "gpu.lost, gpu.found", fault_acts.lost),
    Row("GPU fallen off the bus", ONE, "stale; state lost", "gpu.xid 79, gpu.lost", fault_acts.fallen_off_bus),
    Row("GPU needs a reset", ONE, "stale; state reset_required", "", fault_acts.reset_required),
    Row("GPU reset and back", ONE, "counters restart", "gpu.lost, gpu.reset, gpu.found", fault_acts.reset),
    Row("insufficient power", ONE, "stale", "gpu.xid 54", fault_acts.insufficient_power),
    Row("a call hangs", ONE, "stale; state hung", "gpu.hang with the call", fault_acts.hang),
    Row("calls are slow", ONE, "older than the others", "", fault_acts.slow),
    Row("one call fails (999)", "only that reading of that GPU", "stale, then absent", "", fault_acts.one_call),
    Row("every error code from any call", ONE, "stale, absent", "", fault_acts.all_codes),
    Row("three calls in ten fail", "none: the next reading is good", "", "", fault_acts.flaky),
    Row("wrong struct version", "none: the older call is used", "", "", fault_acts.struct_version),
    Row("old driver (R450), missing symbols", "what it does not report is absent", "", "", fault_acts.old_driver),
    Row("XID", "none", "", "gpu.xid with its code", fault_acts.xid),
    Row("uncorrectable memory errors", "none", "counted", "gpu.ecc", fault_acts.ecc),
    Row("links down", "none", "links inactive", "", fault_acts.links),
    Row("power brake", "none", "throttle reason", "gpu.power", fault_acts.throttle),
    Row("power reads 0xFFFFFFFF", "only that reading", "rejected sentinel", "gpulens.quality",
        lambda m: fault_acts.wrong(m, "power", "0xFFFFFFFF", "gpu_power_draw_watts", "sentinel")),
    Row("temperature reads INT_MIN", "only that reading", "rejected sentinel", "gpulens.quality",
        lambda m: fault_acts.wrong(m, "temperature", "int_min", "gpu_temperature_celsius", "sentinel")),
    Row("utilisation reads 4294967295 %", "only that reading", "rejected sentinel", "gpulens.quality",
        lambda m: fault_acts.wrong(m, "utilization", "4294967295", "gpu_utilization_ratio", "sentinel")),
    Row("memory used reads -1", "only that reading", "rejected sentinel", "gpulens.quality",
        lambda m: fault_acts.wrong(m, "memory", "-1", "gpu_memory_used_bytes", "sentinel")),
    Row("energy reads 2^64-1", "only that reading", "rejected sentinel", "gpulens.quality",
        lambda m: fault_acts.wrong(m, "energy", "all_ones", "gpu_energy_consumption_joules_total", "sentinel")),
    Row("energy counter falls", "only that reading", "rejected counter_decreased", "gpulens.quality", fault_acts.energy_backward),
    Row("GPU vanishes and returns", ONE, "state lost; the others by their UUID", "gpu.lost, gpu.found", fault_acts.vanish),
    Row("GPU returns under another index", "none: identified by UUID", "", "", fault_acts.renumber),
    Row("kernel log torn and garbled", "none", "", "gpu.xid of the good line", fault_acts.kernel_log),
    Row("a GPU may not be read", ONE, "state no_permission", "", fault_acts.one_forbidden),
    Row("no permission for any GPU", ALL, "collector_up 0, permission_denied", "gpulens.reader", fault_acts.permission),
    Row("kernel driver unloaded", ALL, "collector_up 0, unavailable", "gpu.lost driver_unloaded", fault_acts.not_loaded),
    Row("a call crashes the reader process", ALL, "stale", "gpulens.reader crashed", fault_acts.crash),
    Row("reader process killed at its start", ALL, "stale", "gpulens.reader killed", fault_acts.kill_at_start),
    Row("reader process killed in a tick", ALL, "stale", "gpulens.reader killed", fault_acts.kill_mid_tick),
    Row("reader process killed in a hang", ALL, "stale", "gpulens.reader killed", fault_acts.kill_in_hang),
    Row("reader process killed while releasing", ALL, "collector_up 0, released", "gpulens.reader released",
        fault_acts.kill_while_releasing),
    Row("reader process stopped", ALL, "stale", "gpulens.reader hung", fault_acts.stopped),
    Row("every GPU hangs", ALL, "stale", "gpulens.reader hung", fault_acts.hang_of_all),
    Row("the event thread hangs", "none; XID counters, unless the kernel log is read", "0 devices watched", "", fault_acts.event_thread),
]


def impossible(page):
    for name, least, greatest in POSSIBLE:
        for sample in page.all(name):
            if not least <= sample.value <= greatest:
                return f"{sample!r}"
    return ""


# Faults of one GPU during which the library is not reopened.
ALONE = {getattr(fault_acts, name) for name in (
    "lost", "fallen_off_bus", "reset_required", "reset", "insufficient_power", "hang", "slow", "one_call", "xid", "ecc",
    "links", "throttle", "energy_backward", "kernel_log", "event_thread")}


def missing_neighbour(row, page):
    """An error message when a healthy GPU has lost its series, else an empty text."""
    if row.run not in ALONE:
        return ""
    present = {sample.labels["gpu_uuid"] for sample in page.all("gpu_utilization_ratio")}
    return "" if len(present) >= GPUS - 1 else f"{row.fault}: only {sorted(present)}"


class FaultMatrix(unittest.TestCase):
    def test_every_fault(self):
        only = os.environ.get("GPULENS_FAULT", "")
        with Machine() as machine:
            machine.wait_healthy()
            for _ in range(30):
                machine.wait(lambda page: True, "a page")
            quiet = p99(machine.scraper.pages)
            for row in [row for row in ROWS if only in row.fault]:
                with self.subTest(row.fault):
                    self.run_row(machine, row, quiet)
            for mark, name, gpu, attributes in machine.expected:
                with self.subTest(f"{name} {attributes}"):
                    machine.event(name, gpu, mark, **attributes)
            self.assertEqual(machine.scraper.failures, [])
            everything = p99(machine.scraper.pages)
        print(f"\nscrapes: {len(machine.scraper.pages)}, p99 {everything * 1e3:.1f} ms, without a fault {quiet * 1e3:.1f} ms")
        if os.environ.get("GPULENS_WRITE_RELIABILITY") == "1" and all(row.scrapes for row in ROWS):
            write_table(quiet)
        elif not only:
            self.assertEqual(table_rows(), [row.fault for row in ROWS], "docs/reliability.md is old: "
                             "GPULENS_WRITE_RELIABILITY=1")

    def run_row(self, machine, row, quiet):
        machine.read_events()
        machine.mark = len(machine.reported)
        first, began = len(machine.scraper.pages), time.monotonic()
        try:
            row.run(machine)
            machine.wait_healthy()
        finally:
            # The next row finds a machine that is well, whatever became of this one.
            if row.run is not fault_acts.ecc:
                machine.heal()
            machine.command("gpu", "resume")
            if row.run in (fault_acts.permission, fault_acts.not_loaded, fault_acts.kill_at_start, fault_acts.stopped):
                machine.replace_collector()
        pages = machine.scraper.pages[first:]
        row.p99, row.scrapes = p99(pages), len(pages)
        print(f"{row.fault:40} {len(pages):4} scrapes {row.p99 * 1e3:7.1f} ms  {time.monotonic() - began:5.1f} s", flush=True)
        for page in pages:
            self.assertEqual(impossible(page), "")
            self.assertEqual(missing_neighbour(row, page), "")
        # A scrape that waited for a device would take as long as the device does; a busy machine takes this at most.
        self.assertLess(row.p99, max(20 * quiet, 0.5), "the scrape has waited for something")


def table_rows():
    text = PAGE.read_text()
    lines = text[text.index(BEGIN):text.index(END)].splitlines()
    return [line.split("|")[1].strip() for line in lines if line.startswith("| ")][1:]


def write_table(quiet):
    lines = [BEGIN, "", "| fault | series that go | mark or reason | event | empty answers | p99 of the scrape |",
             "|---|---|---|---|---|---|"]
    lines += [f"| {row.fault} | {row.series} | {row.mark} | {row.event} | 0 of {row.scrapes} | {row.p99 * 1e3:.1f} ms |"
              for row in ROWS]
    lines += ["", f"Without a fault: {quiet * 1e3:.1f} ms.", "", END]
    text = PAGE.read_text()
    PAGE.write_text(text[:text.index(BEGIN)] + "\n".join(lines) + text[text.index(END) + len(END):])


if __name__ == "__main__":
    unittest.main()
