"""The faults of the matrix: each is put in, looked for on the page and among the events, and ended."""
import contextlib
import os
import signal
import subprocess

from agent import BINARY, wait_until
from fault_machine import GPUS, PROFILE, uuid

# Calls that a driver of 2020 (R450) does not have, as far as this board can lack them.
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


# The faults. Each leaves the machine as it was; `machine.only` is checked on every page while it runs.

def away(machine, words, state, gpu=3):
    """Only one GPU fails: its state shows it, its values age, the others stay."""
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
    machine.expect_event("gpu.xid", gpu=4, gpu_xid_code=79)
    machine.heal("gpu=4")
    machine.event("gpu.lost", gpu=4)
    machine.wait(lambda page: page.one("gpu_xid_errors_total", gpu_uuid=uuid(4)) == before + 1, "the XID counted")


def reset_required(machine):
    away(machine, "mode=reset_required", "reset_required")
    machine.heal()


def reset(machine):
    before = machine.wait(lambda page: page.fresh(5, "gpu_energy_consumption_joules_total"), "its energy").one(
        "gpu_energy_consumption_joules_total", gpu_uuid=uuid(5))
    # Ended when it was seen, not by a time that a busy machine may sleep through.
    machine.fail("gpu=5 mode=reset for=60s")
    machine.event("gpu.lost", gpu=5)
    machine.heal("gpu=5")
    machine.event("gpu.reset", gpu=5)
    machine.event("gpu.found", gpu=5, gpu_found_reason="after_reset")
    machine.wait(lambda page: page.fresh(5, "gpu_energy_consumption_joules_total") and page.one(
        "gpu_energy_consumption_joules_total", gpu_uuid=uuid(5)) < before, "a counter that restarted")


def insufficient_power(machine):
    machine.fail("gpu=6 mode=insufficient_power")
    machine.expect_event("gpu.xid", gpu=6, gpu_xid_code=54)
    machine.wait(lambda page: page.stale(6) and page.stale(6, "gpu_state"), "its values and its state dated")
    machine.heal()


def hang(machine):
    away(machine, "mode=hang", "hung", 2)
    event = machine.event("gpu.hang", gpu=2)
    assert event["attributes"]["gpu.call"].startswith("nvml"), event
    machine.wait(lambda page: page.one("gpulens_reader_calls_hung") == 1, "the call counted")
    machine.heal()


def hang_of_all(machine):
    page = machine.wait(lambda page: True, "a page")
    before = machine.starts(page, "hang")
    machine.fail("gpu=all mode=hang")
    machine.wait(lambda page: machine.starts(page, "hang") > before, "another reader process")
    machine.event("gpulens.reader", gpulens_change="hung")
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
    machine.event("gpulens.reader", gpulens_change="crashed")


def one_call(machine):
    machine.fail("gpu=3 mode=error call=nvmlDeviceGetPowerUsage code=999")
    machine.wait(lambda page: page.stale(3), "its power dated")
    machine.wait(lambda page: not page.all("gpu_power_draw_watts", gpu_uuid=uuid(3)) and page.fresh(
        3, "gpu_utilization_ratio") and page.state(3) == "ok", "power absent, utilisation fresh")
    machine.heal()


def all_codes(machine):
    """Each code until it is seen, on a GPU of its turn; some of them mean "not supported", which is learnt."""
    codes = [*range(1, 31), 999]
    for first in range(0, len(codes), GPUS):
        for gpu, code in enumerate(codes[first:first + GPUS]):
            machine.fail(f"gpu={gpu} mode=error code={code}")
        machine.wait(lambda page: page.age(1) > 0.5, "a GPU without new readings")
        machine.heal()
        machine.reopen()
        machine.wait(lambda page: page.age(1) < 0.5, "new readings of the GPU")


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
    machine.reopen(OLD)
    machine.wait(lambda page: page.all("gpu_driver_info", gpu_driver_version="450.80.02") and all(
        page.one("gpu_power_draw_watts", gpu_index=str(gpu)) and page.all(
            "gpu_memory_used_bytes", gpu_index=str(gpu)) for gpu in range(GPUS)), "values of the old driver")
    machine.wait(lambda page: not page.all("gpu_sm_active_ratio"), "no GPM")
    machine.reopen(PROFILE)


def permission(machine):
    machine.fail("mode=error call=nvmlInit_v2 code=4")
    os.kill(machine.reader(), signal.SIGKILL)
    machine.wait(lambda page: page.one("gpulens_collector_errors_total", collector="nvidia", code="permission_denied"),
                 "the reason")
    wait_until(lambda: "no permission to read the GPUs" in machine.agent.log_text(), what="the words in the log")
    machine.heal()


def not_loaded(machine):
    machine.fail("mode=error call=nvmlInit_v2 code=9")
    os.kill(machine.reader(), signal.SIGKILL)
    machine.event("gpu.lost", gpu=0, gpu_lost_reason="driver_unloaded")
    machine.heal()
    machine.reopen()  # At once; by itself it is tried ever later.
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
    machine.wait(lambda page: page.one("gpu_state", gpu_uuid=uuid(3), gpu_state="lost") == 1 and all(
        len(page.all("gpu_info", gpu_uuid=uuid(gpu))) == 1 for gpu in range(GPUS)), "each GPU once, the missing one lost")
    machine.event("gpu.lost", gpu=3)  # "removed", or "gpu_is_lost" where it was read before the library was reopened
    machine.heal()
    machine.reopen()
    machine.wait(lambda page: page.one("gpu_devices") == GPUS and page.all(
        "gpu_power_draw_watts", gpu_uuid=uuid(3), gpu_index="3"), "eight again")
    machine.event("gpu.found", gpu=3, gpu_found_reason="hotplug")
    found = [event for event in machine.events("gpu.found") if event["attributes"]["gpu.found.reason"] == "hotplug"]
    assert len(found) == 1, f"the others only had another number: {found}"


def renumber(machine):
    machine.fail("gpu=3 mode=renumber index=0")
    machine.reopen()
    machine.wait(lambda page: page.all("gpu_power_draw_watts", gpu_uuid=uuid(3), gpu_index="0") and page.all(
        "gpu_power_draw_watts", gpu_uuid=uuid(0), gpu_index="1"), "other numbers, the same boards")
    machine.heal()
    machine.reopen()


def xid(machine):
    machine.fail("gpu=1 mode=xid code=31")
    machine.expect_event("gpu.xid", gpu=1, gpu_xid_code=31)
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
    machine.event("gpulens.quality", gpu=5, gpulens_reason=reason)
    machine.heal()


def energy_backward(machine):
    machine.fail("gpu=6 mode=energy_backward amount=100000")
    machine.event("gpulens.quality", gpu=6, gpulens_reason="counter_decreased")
    machine.heal()


def kill_at_start(machine):
    for _ in range(3):
        pid = machine.reader()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: machine.agent.reader_pid() not in (None, pid), what="the next process")
    machine.event("gpulens.reader", gpulens_change="killed")


def kill_mid_tick(machine):
    machine.fail("gpu=all mode=slow delay=5ms")
    before = machine.starts(machine.wait(lambda page: True, "a page"), "killed")
    os.kill(machine.reader(), signal.SIGKILL)
    machine.event("gpulens.reader", gpulens_change="killed")
    # A page of before still looks well.
    machine.wait(lambda page: machine.starts(page, "killed") > before, "the next process")
    machine.heal()


def kill_in_hang(machine):
    machine.fail("gpu=1 mode=hang")
    machine.wait(lambda page: page.state(1) == "hung", "GPU 1 hung")
    os.kill(machine.reader(), signal.SIGKILL)
    machine.event("gpulens.reader", gpulens_change="killed")
    machine.heal()
    machine.reopen()


def kill_while_releasing(machine):
    pid = machine.reader()
    release = subprocess.Popen([BINARY, "gpu", "release", "--socket", str(machine.socket)], stdout=subprocess.PIPE)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    output = release.communicate(timeout=60)[0].decode()
    assert "released" in output, output
    wait_until(lambda: not machine.agent.reader_pid(), what="no process")
    machine.resume()


def stopped(machine):
    before = machine.starts(machine.wait(lambda page: True, "a page"), "hang")
    os.kill(machine.reader(), signal.SIGSTOP)
    machine.wait(lambda page: machine.starts(page, "hang") > before, "another reader process")


def event_thread(machine):
    machine.fail("mode=hang call=nvmlEventSetWait_v2")
    machine.wait(lambda page: page.one("gpulens_reader_devices", reader="nvml", state="watched") == 0, "no watched device")
    machine.heal()
    machine.wait(lambda page: page.one("gpulens_reader_devices", reader="nvml", state="watched") == GPUS, "all watched")


def kernel_log(machine):
    bus = machine.bus_of(0)
    machine.log_kernel("\x00\xff\xfe\x1b[31m[ NVRM: Xid (PCI:\n" + "x" * 100_000 + "\n[   1.2] NVRM: Xid (PCI:zz): 79\nhalf a line")
    machine.wait(lambda page: True, "a page")
    machine.log.write_text("")
    machine.log_kernel(f"[   12.3] NVRM: Xid (PCI:{bus}): 13, pid=7, name=a, Graphics SM Warp Exception\n")
    machine.expect_event("gpu.xid", gpu=0, gpu_xid_code=13)
