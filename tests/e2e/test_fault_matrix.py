"""Every fault of the simulated NVIDIA library, and of what stands around it, against one running agent that is scraped
ten times a second all the while: no answer may be missing, only the series of the GPU that fails may go, and all must
come back without a restart.

GPULENS_WRITE_RELIABILITY=1 writes the table of docs/reliability.md; else its rows must be those of this test.
"""
import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from agent import BINARY, ROOT, Agent, samples, value, wait_until

PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- matrix: written by tests/e2e/test_fault_matrix.py -->", "<!-- end of matrix -->"
GPUS = 8
PROFILE = """model: H100
gpus: 8
load: {kind: sine, level: 0.7, amplitude: 0.2, period: 45}
processes:
  - {pid: 41000, memory: 40GiB}
"""
# What a driver of 2020 lacks (R450), as far as this board can lack it.
OLD = PROFILE.replace("model: H100", "model: A100") + """driver_version: 450.80.02
library_version: 11.450.80.02
cuda_version: 11000
memory_v2: false
pcie_counters: false
missing:
  - nvmlDeviceGetTemperatureV
  - nvmlDeviceGetCurrentClocksEventReasons
  - nvmlDeviceGetComputeRunningProcesses_v3
  - nvmlDeviceGetGraphicsRunningProcesses_v3
  - nvmlDeviceGetMPSComputeRunningProcesses_v3
  - nvmlEventSetWait_v2
  - nvmlDeviceGetMemoryInfo_v2
  - nvmlDeviceGetSupportedClocksEventReasons
  - nvmlGpmMetricsGet
"""
# What no reading of a simulated H100 or A100 can be: name, least, greatest.
POSSIBLE = (("gpu_power_draw_watts", 20, 1100), ("gpu_power_instant_watts", 20, 1100), ("gpu_utilization_ratio", 0, 1),
            ("gpu_memory_utilization_ratio", 0, 1), ("gpu_temperature_celsius", 10, 110),
            ("gpu_memory_used_bytes", 0, 96 * 2**30), ("gpu_clock_frequency_megahertz", 0, 5000),
            ("gpu_energy_consumption_joules_total", 0, 1e15))


def uuid(gpu):
    return f"GPU-51313000-2330-4000-8000-{gpu:012x}"


class Page:
    """One answer, looked into only as far as it is asked."""

    def __init__(self, text, seconds):
        self.text, self.seconds, self.found = text, seconds, {}

    def all(self, name, **labels):
        if name not in self.found:
            lines = re.findall(rf"^{re.escape(name)}(?:\{{.*)? \S+$", self.text, re.M)
            self.found[name] = samples("\n".join(lines), name)
        return [s for s in self.found[name] if all(s.labels.get(k) == v for k, v in labels.items())]

    def one(self, name, **labels):
        found = self.all(name, **labels)
        return found[0].value if found else None

    def state(self, gpu):
        for sample in self.all("gpu_state", gpu_uuid=uuid(gpu)):
            if sample.value == 1:
                return sample.labels["gpu_state"]
        return ""

    def age(self, gpu):
        found = self.one("gpu_sample_age_seconds", gpu_uuid=uuid(gpu))
        return 1e9 if found is None else found

    def fresh(self, gpu, name="gpu_power_draw_watts"):
        return any(not s.timestamp for s in self.all(name, gpu_uuid=uuid(gpu)))

    def stale(self, gpu, name="gpu_power_draw_watts"):
        return any(s.timestamp for s in self.all(name, gpu_uuid=uuid(gpu)))

    def healthy(self, gpu):
        return self.state(gpu) == "ok" and self.fresh(gpu)


class Scraper(threading.Thread):
    """Asks for /metrics ten times a second over one connection, and keeps what it was told."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.pages, self.failures, self.ended = port, [], [], threading.Event()
        self.lock = threading.Condition()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        due = time.monotonic()
        while not self.ended.wait(max(0.0, due - time.monotonic())):
            due = max(due + 0.1, time.monotonic() - 0.1)
            begin = time.monotonic()
            try:
                connection.request("GET", "/metrics")
                answer = connection.getresponse()
                text = answer.read().decode()
                good = answer.status == 200 and "\ngpulens_collector_up{" in text and text.endswith("\n")
                problem = f"status {answer.status}, {len(text)} bytes"
            except (OSError, http.client.HTTPException) as error:
                good, text, problem = False, "", repr(error)
                connection.close()
            with self.lock:
                if not good:
                    self.failures.append(problem)
                self.pages.append(Page(text, time.monotonic() - begin))
                self.lock.notify_all()

    def wait(self, question, what, seconds=20.0):
        """The first page from now on of which the answer is true."""
        with self.lock:
            at, end = len(self.pages), time.monotonic() + seconds
            while True:
                while at >= len(self.pages):
                    if not self.lock.wait(max(0.0, end - time.monotonic())):
                        raise AssertionError(f"{what}: not within {seconds} s")
                page = self.pages[at]
                at += 1
                if page.text and question(page):
                    return page
                if time.monotonic() > end:
                    raise AssertionError(f"{what}: not within {seconds} s")


@dataclasses.dataclass
class Row:
    fault: str
    series: str  # what becomes of the series, for the table
    mark: str
    event: str
    run: object
    p99: float = 0.0
    scrapes: int = 0


def p99(pages):
    times = sorted(page.seconds for page in pages)
    return times[min(len(times) - 1, int(len(times) * 0.99))] if times else 0.0


class Machine:
    """The agent, its simulated GPUs, its kernel log, its events, and the command that breaks them."""

    def __init__(self):
        self.kept = tempfile.TemporaryDirectory(prefix="gpulens-faults-")
        self.folder = pathlib.Path(self.kept.name)
        self.socket, self.out = self.folder / "s.sock", self.folder / "out.jsonl"
        self.log, self.profile = self.folder / "kern.log", self.folder / "profile.yaml"
        self.log.touch()
        self.profile.write_text(PROFILE)
        self.agent = Agent("--demo", environment={"GPULENS_FAKE_NVML": str(self.profile)},
                           config=f"interval: 250ms\nstate_dir: {self.folder}/state\ncontrol: {{socket: {self.socket}}}\n"
                           "collectors:\n  nvidia: {interval: 250ms, ttl: 2s, serial: false}\n"
                           f"  kernel_log: {{source: file, path: {self.log}, interval: 100ms}}\n"
                           f"sinks: {{file: {{enabled: true, path: {self.out}, rotate_size: 0}}}}\n")
        self.mark, self.read_to, self.told, self.expected, self.serial = 0, 0, [], [], False

    def __enter__(self):
        self.agent.__enter__()
        self.scraper = Scraper(self.agent.port)
        self.scraper.start()
        return self

    def __exit__(self, *what):
        self.scraper.ended.set()
        self.scraper.join(20)
        self.agent.__exit__(*what)
        self.kept.cleanup()

    def ask(self, *words):
        return subprocess.run([BINARY, *words, "--socket", str(self.socket)], capture_output=True, text=True, timeout=60)

    def command(self, *words):
        answer = self.ask(*words)
        assert answer.returncode == 0, f"{words}: {answer.stderr}"
        return answer.stdout

    def fail(self, words):
        return self.command("fake", "nvml", "fail", *words.split())

    def heal(self, *words):
        return self.command("fake", "nvml", "heal", *words)

    def renew(self):
        """Another collector by a changed configuration: a driver process that was ended often starts ever later."""
        text = self.agent.config.read_text()
        old, self.serial = self.serial, not self.serial
        self.agent.config.write_text(text.replace(f"serial: {str(old).lower()}", f"serial: {str(self.serial).lower()}"))
        assert self.agent.get("/-/reload", method="POST").status == 200
        self.whole()

    def reopen(self):
        """As an operator does around work on the driver: what the library was asked and learnt is forgotten."""
        self.command("driver", "release", "--for", "1m")
        self.command("driver", "resume")

    def wait(self, question, what):
        return self.scraper.wait(question, what)

    def whole(self, but=()):
        self.wait(lambda page: all(page.healthy(gpu) for gpu in range(GPUS) if gpu not in but), "all GPUs well")

    def look(self):
        """Takes the events that were written since the last look."""
        with self.out.open("rb") as file:
            file.seek(self.read_to)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self.read_to += len(line)
                entry = json.loads(line) if b'"type":"event"' in line else {}
                if entry:
                    self.told.append(entry)

    def events(self, name, mark=None):
        """Those of this name since the row began."""
        self.look()
        return [entry for entry in self.told[self.mark if mark is None else mark:] if entry["name"] == name]

    def later(self, name, gpu=None, **attributes):
        """An event of this row that is looked for at the end: an XID waits 5 s for what the kernel log says of it."""
        self.expected.append((self.mark, name, gpu, attributes))

    def event(self, name, gpu=None, mark=None, **attributes):
        def look():
            for entry in self.events(name, mark):
                have = {k.replace(".", "_"): v for k, v in entry.get("attributes", {}).items()}
                of = gpu is None or entry.get("entity", {}).get("gpu.uuid") == uuid(gpu)
                if of and all(have.get(k) == v for k, v in attributes.items()):
                    return entry
            return None
        return wait_until(look, what=f"event {name} of GPU {gpu} with {attributes}")

    def rejected(self, page):
        return sum(s.value for s in page.all("gpulens_samples_total", result="rejected"))

    def driver(self):
        return wait_until(self.agent.driver_pid, what="a driver process")

    def starts(self, page, reason):
        return page.one("gpulens_driver_starts_total", reason=reason) or 0

    def say(self, text):
        with self.log.open("a") as file:
            file.write(text)

    def bus_of(self, gpu):
        info = self.wait(lambda page: page.all("gpu_info", gpu_uuid=uuid(gpu)), "gpu_info").all("gpu_info", gpu_uuid=uuid(gpu))
        return info[0].labels["gpu_pci_bus_id"].lower().removesuffix(".0")


# The faults. Each leaves the machine as it was; `machine.only` is checked on every page while it runs.

def away(machine, words, state, gpu=3):
    """A GPU that is away by itself: its state says so, its values age, the others stay."""
    machine.fail(f"gpu={gpu} {words}")
    machine.wait(lambda page: page.state(gpu) == state and page.stale(gpu), f"GPU {gpu} {state}, its values dated")
    machine.wait(lambda page: page.age(gpu) > 1 and all(page.age(other) < page.age(gpu) / 2 for other in range(GPUS) if
                                                        other != gpu), "the others younger")


def lost(machine):
    away(machine, "mode=lost", "lost")
    machine.event("gpu.lost", gpu=3, gpu_lost_reason="gpu_is_lost")
    machine.wait(lambda page: not page.all("gpu_power_draw_watts", gpu_uuid=uuid(3)), "its series gone")
    machine.heal()
    machine.event("gpu.found", gpu=3, gpu_found_reason="hotplug")


def fallen_off_bus(machine):
    before = machine.wait(lambda page: page.all("gpu_xid_errors_total", gpu_uuid=uuid(4)), "counters").one(
        "gpu_xid_errors_total", gpu_uuid=uuid(4))
    away(machine, "mode=fallen_off_bus", "lost", 4)
    machine.later("gpu.xid", gpu=4, gpu_xid_code=79)
    machine.heal("gpu=4")
    machine.event("gpu.lost", gpu=4)
    machine.wait(lambda page: page.one("gpu_xid_errors_total", gpu_uuid=uuid(4)) == before + 1, "the XID counted")


def reset_required(machine):
    away(machine, "mode=reset_required", "reset_required")
    machine.heal()


def reset(machine):
    before = machine.wait(lambda page: page.fresh(5, "gpu_energy_consumption_joules_total"), "its energy").one(
        "gpu_energy_consumption_joules_total", gpu_uuid=uuid(5))
    machine.fail("gpu=5 mode=reset for=1s")
    machine.event("gpu.lost", gpu=5)
    machine.event("gpu.reset", gpu=5)
    machine.event("gpu.found", gpu=5, gpu_found_reason="after_reset")
    machine.wait(lambda page: page.fresh(5, "gpu_energy_consumption_joules_total") and page.one(
        "gpu_energy_consumption_joules_total", gpu_uuid=uuid(5)) < before, "a counter that began anew")


def insufficient_power(machine):
    machine.fail("gpu=6 mode=insufficient_power")
    machine.later("gpu.xid", gpu=6, gpu_xid_code=54)
    machine.wait(lambda page: page.stale(6) and page.stale(6, "gpu_state"), "its values and its state dated")
    machine.heal()


def hang(machine):
    away(machine, "mode=hang", "hung", 2)
    event = machine.event("gpu.hang", gpu=2)
    assert event["attributes"]["gpu.call"].startswith("nvml"), event
    machine.wait(lambda page: page.one("gpulens_driver_calls_hung") == 1, "the call counted")
    machine.heal()


def hang_of_all(machine):
    page = machine.wait(lambda page: True, "a page")
    before = machine.starts(page, "hang")
    machine.fail("gpu=all mode=hang")
    machine.wait(lambda page: machine.starts(page, "hang") > before, "another driver process")
    machine.event("gpulens.driver", gpulens_change="hung")
    machine.heal()
    machine.reopen()


def slow(machine):
    machine.fail("gpu=1 mode=slow delay=100ms")
    machine.wait(lambda page: page.age(1) > 1 and all(page.age(gpu) < page.age(1) for gpu in range(GPUS) if gpu != 1),
                 "one that is late, and others that are not")
    machine.heal()


def crash(machine):
    before = machine.starts(machine.wait(lambda page: True, "a page"), "crash")
    machine.fail("gpu=0 mode=crash")
    machine.wait(lambda page: machine.starts(page, "crash") == before + 1, "a start after a crash")
    machine.event("gpulens.driver", gpulens_change="crashed")


def one_call(machine):
    machine.fail("gpu=3 mode=error call=nvmlDeviceGetPowerUsage code=999")
    machine.wait(lambda page: page.stale(3), "its power dated")
    machine.wait(lambda page: not page.all("gpu_power_draw_watts", gpu_uuid=uuid(3)) and page.fresh(
        3, "gpu_utilization_ratio") and page.state(3) == "ok", "power absent, utilisation fresh")
    machine.heal()


def all_codes(machine):
    """Each code for a moment, on a GPU of its turn; some of them mean "not supported", which is learnt."""
    codes = [*range(1, 31), 999]
    for first in range(0, len(codes), GPUS):
        for gpu, code in enumerate(codes[first:first + GPUS]):
            machine.fail(f"gpu={gpu} mode=error code={code} for=600ms")
        machine.wait(lambda page: page.age(1) > 0.5, "a GPU that tells nothing")
        machine.wait(lambda page: ", since" not in machine.command("fake", "nvml", "status"), "the end of these")
    machine.heal()
    machine.reopen()


def flaky(machine):
    machine.fail("gpu=all mode=flaky code=999 percent=30 seed=7")
    for _ in range(8):
        machine.wait(lambda page: True, "a page")
    machine.heal()


def struct_version(machine):
    for call in ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetTemperatureV"):
        machine.fail(f"gpu=all mode=error call={call} code=25")
    machine.reopen()
    machine.wait(lambda page: all(page.fresh(gpu, "gpu_memory_used_bytes") and page.fresh(gpu, "gpu_temperature_celsius")
                                  for gpu in range(GPUS)), "both by their older calls")
    machine.heal()
    machine.reopen()


def old_driver(machine):
    machine.profile.write_text(OLD)
    machine.reopen()
    machine.wait(lambda page: page.all("gpu_driver_info", gpu_driver_version="450.80.02") and all(
        page.one("gpu_power_draw_watts", gpu_index=str(gpu)) and page.all(
            "gpu_memory_used_bytes", gpu_index=str(gpu)) for gpu in range(GPUS)), "values of the old driver")
    machine.wait(lambda page: not page.all("gpu_sm_active_ratio"), "no GPM")
    machine.profile.write_text(PROFILE)
    machine.reopen()


def permission(machine):
    machine.fail("mode=error call=nvmlInit_v2 code=4")
    os.kill(machine.driver(), signal.SIGKILL)
    machine.wait(lambda page: page.one("gpulens_collector_errors_total", collector="nvidia", code="permission_denied"),
                 "the reason")
    wait_until(lambda: "no permission to read the GPUs" in machine.agent.said(), what="the words in the log")
    machine.heal()


def not_loaded(machine):
    machine.fail("mode=error call=nvmlInit_v2 code=9")
    os.kill(machine.driver(), signal.SIGKILL)
    machine.event("gpu.lost", gpu=0, gpu_lost_reason="driver_unloaded")
    machine.heal()
    machine.event("gpu.found", gpu=0)


def one_forbidden(machine):
    machine.fail("gpu=7 mode=error code=4")
    machine.reopen()
    machine.wait(lambda page: page.state(7) == "no_permission", "GPU 7 forbidden")
    machine.heal()


def vanish(machine):
    machine.fail("gpu=3 mode=vanish")
    machine.reopen()
    machine.wait(lambda page: page.one("gpu_devices") == GPUS - 1 and not page.all(
        "gpu_power_draw_watts", gpu_uuid=uuid(3)) and page.all("gpu_power_draw_watts", gpu_uuid=uuid(4), gpu_index="3"),
        "seven GPUs, the next in its place")
    machine.heal()
    machine.reopen()
    machine.wait(lambda page: page.one("gpu_devices") == GPUS and page.all(
        "gpu_power_draw_watts", gpu_uuid=uuid(3), gpu_index="3"), "eight again")


def renumber(machine):
    machine.fail("gpu=3 mode=renumber index=0")
    machine.reopen()
    machine.wait(lambda page: page.all("gpu_power_draw_watts", gpu_uuid=uuid(3), gpu_index="0") and page.all(
        "gpu_power_draw_watts", gpu_uuid=uuid(0), gpu_index="1"), "other numbers, the same boards")
    machine.heal()
    machine.reopen()


def xid(machine):
    machine.fail("gpu=1 mode=xid code=31")
    machine.later("gpu.xid", gpu=1, gpu_xid_code=31)
    machine.wait(lambda page: page.one("gpu_xid_code_errors_total", gpu_uuid=uuid(1), gpu_xid_code="31") == 1 and
                 page.state(1) == "ok", "the XID counted")


def ecc(machine):
    # Both are read each ten seconds, in one round: the next row has not to wait again.
    machine.fail("gpu=2 mode=counter counter=links_down amount=2")
    machine.fail("gpu=2 mode=ecc_uncorrectable amount=3")
    machine.event("gpu.ecc", gpu=2, gpu_ecc_error_type="uncorrectable")
    machine.wait(lambda page: page.one("gpu_ecc_errors_total", gpu_uuid=uuid(2), gpu_ecc_error_type="uncorrectable",
                                       gpu_ecc_count_type="volatile") == 3, "the errors counted")


def links(machine):
    machine.wait(lambda page: page.one("gpu_interconnect_links", gpu_uuid=uuid(2), gpu_interconnect_state="inactive") == 2,
                 "links down")
    machine.heal()


def throttle(machine):
    machine.fail("gpu=0 mode=throttle value=0x80")
    machine.wait(lambda page: any(s.value == 1 and "brake" in s.labels["gpu_throttle_cause"] for s in page.all(
        "gpu_throttle_reason_ratio", gpu_uuid=uuid(0)) + page.all("gpu_throttle_reason", gpu_uuid=uuid(0))), "the brake")
    machine.event("gpu.power", gpu=0, gpu_power_reason="brake")
    machine.heal()


def wrong(machine, reading, words, name, reason):
    before = machine.rejected(machine.wait(lambda page: page.fresh(5, name), "a good value"))
    machine.fail(f"gpu=5 mode=wrong_value reading={reading} value={words}")
    machine.wait(lambda page: page.stale(5, name) and machine.rejected(page) > before, "a rejected reading")
    event = machine.event("gpulens.quality", gpu=5)
    machine.heal()
    reasons = {e["attributes"].get("gpulens.reason", e["attributes"].get("reason")) for e in machine.events("gpulens.quality")}
    assert reason is None or any(reason in json.dumps(e) for e in machine.events("gpulens.quality")), (reasons, event)


def energy_backward(machine):
    machine.fail("gpu=6 mode=energy_backward amount=100000 for=1s")
    event = machine.event("gpulens.quality", gpu=6)
    assert "counter_decreased" in json.dumps(event), event


def kill_at_start(machine):
    for _ in range(3):
        pid = machine.driver()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: machine.agent.driver_pid() not in (0, pid), what="the next process")
    machine.event("gpulens.driver", gpulens_change="killed")


def kill_mid_tick(machine):
    machine.fail("gpu=all mode=slow delay=5ms")
    machine.wait(lambda page: True, "a page")
    os.kill(machine.driver(), signal.SIGKILL)
    machine.event("gpulens.driver", gpulens_change="killed")
    machine.heal()


def kill_in_hang(machine):
    machine.fail("gpu=1 mode=hang")
    machine.wait(lambda page: page.state(1) == "hung", "GPU 1 hung")
    os.kill(machine.driver(), signal.SIGKILL)
    machine.event("gpulens.driver", gpulens_change="killed")
    machine.heal()
    machine.reopen()


def kill_while_releasing(machine):
    pid = machine.driver()
    release = subprocess.Popen([BINARY, "driver", "release", "--socket", str(machine.socket)], stdout=subprocess.PIPE)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    said = release.communicate(timeout=60)[0].decode()
    assert "released" in said, said
    wait_until(lambda: not machine.agent.driver_pid(), what="no process")
    machine.command("driver", "resume")


def stopped(machine):
    before = machine.starts(machine.wait(lambda page: True, "a page"), "hang")
    os.kill(machine.driver(), signal.SIGSTOP)
    machine.wait(lambda page: machine.starts(page, "hang") > before, "another driver process")


def event_thread(machine):
    machine.fail("mode=hang call=nvmlEventSetWait_v2")
    machine.wait(lambda page: page.one("gpulens_driver_devices", driver="nvml", state="watched") == 0, "nobody watches")
    machine.heal()
    machine.wait(lambda page: page.one("gpulens_driver_devices", driver="nvml", state="watched") == GPUS, "all watched")


def kernel_log(machine):
    bus = machine.bus_of(0)
    machine.say("\x00\xff\xfe\x1b[31m[ NVRM: Xid (PCI:\n" + "x" * 100_000 + "\n[   1.2] NVRM: Xid (PCI:zz): 79\nhalf a line")
    machine.wait(lambda page: True, "a page")
    machine.log.write_text("")
    machine.say(f"[   12.3] NVRM: Xid (PCI:{bus}): 13, pid=7, name=a, Graphics SM Warp Exception\n")
    machine.later("gpu.xid", gpu=0, gpu_xid_code=13)


ONE, ALL = "only its own", "all, until the process is back"
ROWS = [
    Row("GPU lost", ONE + ": dated, then absent", "stale; state lost", "gpu.lost, gpu.found", lost),
    Row("GPU fallen off the bus", ONE, "stale; state lost", "gpu.xid 79, gpu.lost", fallen_off_bus),
    Row("GPU needs a reset", ONE, "stale; state reset_required", "", reset_required),
    Row("GPU reset and back", ONE, "counters begin anew", "gpu.lost, gpu.reset, gpu.found", reset),
    Row("insufficient power", ONE, "stale", "gpu.xid 54", insufficient_power),
    Row("a call hangs", ONE, "stale; state hung", "gpu.hang with the call", hang),
    Row("calls are slow", ONE, "older than the others", "", slow),
    Row("one call fails (999)", "only that reading of that GPU", "stale, then absent", "", one_call),
    Row("every error code from any call", ONE, "stale, absent", "", all_codes),
    Row("three calls in ten fail", "none: the next reading is good", "", "", flaky),
    Row("wrong struct version", "none: the older call is asked", "", "", struct_version),
    Row("old driver (R450), missing symbols", "what it cannot tell is absent", "", "", old_driver),
    Row("XID", "none", "", "gpu.xid with its code", xid),
    Row("uncorrectable memory errors", "none", "counted", "gpu.ecc", ecc),
    Row("links down", "none", "links inactive", "", links),
    Row("power brake", "none", "throttle reason", "gpu.power", throttle),
    Row("power reads 0xFFFFFFFF", "only that reading", "rejected out_of_range", "gpulens.quality",
        lambda m: wrong(m, "power", "0xFFFFFFFF", "gpu_power_draw_watts", "out_of_range")),
    Row("temperature reads INT_MIN", "only that reading", "rejected", "gpulens.quality",
        lambda m: wrong(m, "temperature", "int_min", "gpu_temperature_celsius", None)),
    Row("utilisation reads 4294967295 %", "only that reading", "rejected sentinel", "gpulens.quality",
        lambda m: wrong(m, "utilization", "4294967295", "gpu_utilization_ratio", "sentinel")),
    Row("memory used reads -1", "only that reading", "rejected sentinel", "gpulens.quality",
        lambda m: wrong(m, "memory", "-1", "gpu_memory_used_bytes", "sentinel")),
    Row("energy reads 2^64-1", "only that reading", "rejected", "gpulens.quality",
        lambda m: wrong(m, "energy", "all_ones", "gpu_energy_consumption_joules_total", None)),
    Row("energy counter falls", "only that reading", "rejected counter_decreased", "gpulens.quality", energy_backward),
    Row("GPU vanishes and returns", ONE, "absent; the others by their UUID", "", vanish),
    Row("GPU returns under another index", "none: told by UUID", "", "", renumber),
    Row("kernel log torn and garbled", "none", "", "gpu.xid of the good line", kernel_log),
    Row("a GPU may not be read", ONE, "state no_permission", "", one_forbidden),
    Row("no permission for any GPU", ALL, "collector_up 0, permission_denied", "gpulens.driver", permission),
    Row("kernel driver unloaded", ALL, "collector_up 0, unavailable", "gpu.lost driver_unloaded", not_loaded),
    Row("a call crashes the driver process", ALL, "stale", "gpulens.driver crashed", crash),
    Row("driver process killed at its start", ALL, "stale", "gpulens.driver killed", kill_at_start),
    Row("driver process killed in a tick", ALL, "stale", "gpulens.driver killed", kill_mid_tick),
    Row("driver process killed in a hang", ALL, "stale", "gpulens.driver killed", kill_in_hang),
    Row("driver process killed while releasing", ALL, "collector_up 0, released", "gpulens.driver released",
        kill_while_releasing),
    Row("driver process stopped", ALL, "stale", "gpulens.driver hung", stopped),
    Row("every GPU hangs", ALL, "stale", "gpulens.driver hung", hang_of_all),
    Row("the event thread hangs", "none; XID counters, unless the kernel log is read", "0 devices watched", "", event_thread),
]


def impossible(page):
    for name, least, greatest in POSSIBLE:
        for sample in page.all(name):
            if not least <= sample.value <= greatest:
                return f"{sample!r}"
    return ""


# Those that concern one GPU and during which the library is not opened anew.
ALONE = (lost, fallen_off_bus, reset_required, reset, insufficient_power, hang, slow, one_call, xid, ecc, links, throttle,
         energy_backward, kernel_log, event_thread)


def missing_neighbour(row, page):
    """Whether a GPU that nothing is wrong with has lost its series."""
    if row.run not in ALONE:
        return ""
    present = {sample.labels["gpu_uuid"] for sample in page.all("gpu_utilization_ratio")}
    return "" if len(present) >= GPUS - 1 else f"{row.fault}: only {sorted(present)}"


class FaultMatrix(unittest.TestCase):
    def test_every_fault(self):
        only = os.environ.get("GPULENS_FAULT", "")
        with Machine() as machine:
            machine.whole()
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
        if os.environ.get("GPULENS_WRITE_RELIABILITY") == "1" and not only:
            write_table(quiet)
        elif not only:
            self.assertEqual(table_rows(), [row.fault for row in ROWS], "docs/reliability.md is old: "
                             "GPULENS_WRITE_RELIABILITY=1")

    def run_row(self, machine, row, quiet):
        machine.look()
        machine.mark = len(machine.told)
        first, began = len(machine.scraper.pages), time.monotonic()
        try:
            row.run(machine)
            machine.whole()
        finally:
            # The next row finds a machine that is well, whatever became of this one.
            if row.run is not ecc:
                machine.heal()
            machine.command("driver", "resume")
            if row.series == ALL:
                machine.renew()
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
