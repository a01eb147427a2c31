"""A machine recorded by `gpulens capture nvml` and seen again without it. The machine is the simulated library."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from agent import BINARY, PROFILES, Agent, free_port, samples, value, wait_until

# A node with all that moves: MIG, processes, NVLinks, an uncorrected error with its Xid in the middle.
MACHINE = """
model: H100
gpus: 8
load: {kind: sine, level: 0.6, amplitude: 0.3, period: 20}
mig:
  - {gpu: 0, profile: 3g.40gb, instance: 1, load: 0.5}
  - {gpu: 0, profile: 1c.3g.40gb, instance: 2, compute: 0}
  - {gpu: 0, profile: 1c.3g.40gb, instance: 2, compute: 1}
processes:
  - {gpu: 0, pid: 91000, memory: 8GiB, mig_instance: 1}
  - {gpu: 1, pid: 92000, memory: 4GiB, sm: 55, encoder: 7}
  - {pid: 41000, memory: 2GiB, swing: 1GiB, period: 30}
faults:
  - {gpu: 2, counter: ecc_uncorrected, amount: 1, from: 3}
xids:
  - {gpu: 2, code: 63, at: 3}
"""


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-capture-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def capture(self, profile, *arguments, code=0, library="simulated", seconds="3s"):
        """Records into a file. Returns the output and the recording (None without one)."""
        out = self.folder / f"out{len(list(self.folder.iterdir()))}.yaml"
        done = subprocess.run([BINARY, "capture", "nvml", "--for", seconds, "--library", library, "-o", out, *arguments],
                              env={**os.environ, "GPULENS_FAKE_NVML": str(profile), "TMPDIR": str(self.folder)},
                              stderr=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(list(self.folder.glob("gpulens-capture-*")), [], "the spool is gone")
        return done.stderr, out


def load(path):
    """A recording as it is written, answers as text: {"seconds": "3.000", "gpus": [{"calls": {}, "mig": {}}], …}."""
    out = {"gpus": [], "events": [], "timeline": []}
    section, place = None, {}
    for line in path.read_text().splitlines():
        indent, text = len(line) - len(line.lstrip(" ")), line.strip()
        key, _, rest = text.removeprefix("- ").partition(": ")
        key = key.removesuffix(":")
        if text.startswith("#"):
            continue
        if indent == 0 and not text.startswith("- "):
            section, place = key, out.setdefault(key, {}) if not rest or rest.startswith("#") else {}
            if rest and not rest.startswith("#"):
                out[key] = rest
        elif section == "events":
            out["events"].append({k: float(v) for k, v in re.findall(r"(\w+): ([\d.]+)", text)})
        elif section == "missing":
            place[text] = True
        elif section == "gpus" and text.startswith("- "):
            place = {}
            out["gpus"].append({"calls": place, "mig": {}})
        elif section == "gpus" and indent == 4 and re.fullmatch(r"\d+: ?({})?", text):
            place = out["gpus"][-1]["mig"].setdefault(key, {})
        elif section == "timeline" and text.startswith("- "):
            out["timeline"].append({"t": float(rest)})
        elif section == "timeline" and indent == 2:
            place = out["timeline"][-1].setdefault(key, {})
        elif text != "mig:":
            place[key] = rest
    return out


def last_answers(recording):
    """The last result of each call, by GPU and call."""
    answers = {}
    for index, gpu in enumerate(recording["gpus"]):
        parts = {f"gpu{index}": gpu["calls"], **{f"gpu{index}.mig{k}": v for k, v in gpu.get("mig", {}).items()}}
        for part, calls in parts.items():
            answers.update({(part, call): answer for call, answer in calls.items()})
    for moment in recording.get("timeline", []):
        for part, calls in moment.items():
            if part != "t":
                answers.update({(part, call): answer for call, answer in calls.items()})
    return answers


def settings(profile):
    # The ledger's series come with its first windows; here it is about what is read.
    return {"config": "collectors: {nvidia: {library: simulated, links: true, interval: 200ms}}\ninterval: 200ms\n"
                      "analyzers: {cost: {enabled: false}}\n",
            "environment": {"GPULENS_FAKE_NVML": str(profile)}}


def series(page):
    """Names and labels of all series of GPUs, without those that identify a GPU."""
    hidden = re.compile(r"uuid|pid|process|serial|user|container")
    return {(s.name, tuple(sorted((k, v) for k, v in s.labels.items() if not hidden.search(k))))
            for s in samples(page) if s.name.startswith("gpu_")}


def settled(agent):
    """A page to which 20 further looks have added no series: all tiers have been read."""
    known = []

    def still():
        known.append(series(agent.page()))
        return len(known) > 20 and known[-1] == known[-21]
    wait_until(still, 60, "a page that gains no more series")
    return agent.page()


class RoundTrip(Case):
    def test_a_replayed_machine_is_recorded_as_the_same(self):
        output, first = self.capture(self.file("machine.yaml", MACHINE), seconds="5s")
        self.assertIn("8 GPUs", output)
        self.assertIn("1 events", output)
        output, second = self.capture(first, seconds="5s")
        one, two = load(first), load(second)
        for key in ("driver", "missing", "counters", "system"):
            self.assertEqual(one.get(key), two.get(key), key)
        # Constant calls are the same; of changing ones a recording may have one round more.
        moved = {(part, call) for moment in one["timeline"] + two["timeline"] for part in moment if part != "t"
                 for call in moment[part]}
        ends = last_answers(one), last_answers(two)
        self.assertEqual(set(ends[0]), set(ends[1]))
        still = [key for key in ends[0] if key not in moved]
        self.assertGreater(len(still), 1000)
        for key in still:
            self.assertEqual(ends[0][key], ends[1][key], key)
        # Every answer of the second was one of the first.
        seen = {}
        for recording in (one, two):
            for index, gpu in enumerate(recording["gpus"]):
                for call, answer in gpu["calls"].items():
                    seen.setdefault((f"gpu{index}", call), []).append((recording is one, json.dumps(answer)))
            for moment in recording["timeline"]:
                for part, calls in moment.items():
                    if part != "t":
                        for call, answer in calls.items():
                            seen.setdefault((part, call), []).append((recording is one, json.dumps(answer)))
        for (part, call), answers in seen.items():
            # Samples are made again from what they came to; a second time their number may differ by one.
            if "GetSamples" in call or part.startswith("gpu0.mig"):
                continue
            of_first = {answer for first_one, answer in answers if first_one}
            self.assertLessEqual({answer for first_one, answer in answers if not first_one}, of_first, (part, call))
        self.assertEqual([(e["gpu"], e["type"], e["data"]) for e in one["events"]],
                         [(e["gpu"], e["type"], e["data"]) for e in two["events"]])
        self.assertAlmostEqual(one["events"][0]["t"], two["events"][0]["t"], delta=1.0)
        uncorrected = [m["t"] for m in one["timeline"] if any("TotalEccErrors(1, 0)" in c for c in m.get("gpu2", {}))]
        self.assertTrue(uncorrected, "the error in the middle")

    def test_the_agent_exports_the_same_series(self):
        machine = self.file("machine.yaml", MACHINE)
        _, recording = self.capture(machine, "--keep-identity", seconds="5s")
        pages = []
        for profile in (machine, recording):
            with Agent(**settings(profile)) as agent:
                wait_until(lambda: value(agent.page(), "gpu_xid_errors_total", gpu_index="2", gpu_xid_code="63") or
                           [s for s in samples(agent.page(), "gpu_xid_errors_total") if s.value > 0], 30, "the Xid")
                wait_until(lambda: samples(agent.page(), "gpu_process_memory_used_bytes"))
                pages.append(settled(agent))
        self.assertGreater(len(series(pages[0])), 500)
        self.assertEqual(series(pages[0]) - series(pages[1]), set())
        self.assertEqual(series(pages[1]) - series(pages[0]), set())
        for uuid in {s.labels["gpu_uuid"] for s in samples(pages[0], "gpu_info")}:
            self.assertEqual([s.labels["gpu_model"] for s in samples(pages[1], "gpu_info") if s.labels["gpu_uuid"] == uuid],
                             ["NVIDIA H100 80GB HBM3"])


class Replay(unittest.TestCase):
    def test_sim_records_and_replays(self):
        with tempfile.TemporaryDirectory(prefix="gpulens-replay-") as folder:
            recording, config = pathlib.Path(folder, "node.yaml"), pathlib.Path(folder, "gpulens.yaml")
            done = subprocess.run([BINARY, "sim", "record", "--library", "simulated", "--for", "2s", "-o", recording],
                                  capture_output=True, text=True, timeout=60, check=False,
                                  env={**os.environ, "GPULENS_FAKE_NVML": str(PROFILES / "l4.yaml")})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"gpulens sim replay {recording}", done.stderr)
            port = free_port()
            config.write_text(f"http: {{listen: 127.0.0.1:{port}}}\nwebsocket: {{listen: 127.0.0.1:{free_port()}}}\n"
                              f"control: {{socket: none}}\nstate_dir: {folder}/state\n")
            agent = subprocess.Popen([BINARY, "sim", "replay", recording, "--config", config], stderr=subprocess.DEVNULL)
            try:
                def page():
                    got = subprocess.run(["curl", "-s", "-m", "2", f"http://127.0.0.1:{port}/metrics"], capture_output=True,
                                         text=True, check=False)
                    return got.stdout
                wait_until(lambda: samples(page(), "gpu_power_draw_watts"), what="a recorded GPU")
                info = samples(page(), "gpu_info")[0]
                self.assertEqual((info.labels["gpu_model"], info.labels["simulated"]), ("NVIDIA L4", "true"))
            finally:
                agent.terminate()
                self.assertEqual(agent.wait(20), 0)
            for wrong, words in ((folder + "/none.yaml", "no such file"), (str(config), "recording")):
                done = subprocess.run([BINARY, "sim", "replay", wrong], capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 2)
                self.assertIn(words, done.stderr)

    def test_a_real_board_reads_as_it_did(self):
        """25 s of an H100 (driver 580.159.04) that works for three seconds and rests for two: recorded on the machine itself."""
        with Agent(**settings(PROFILES / "h100_recorded.yaml")) as agent:
            wait_until(lambda: samples(agent.page(), "gpu_energy_consumption_joules_total"))
            readings = []

            def eight_seconds():
                page = agent.page()
                readings.append((time.monotonic(), value(page, "gpu_power_instant_watts"),
                                 value(page, "gpu_energy_consumption_joules_total")))
                return readings[-1][0] - readings[0][0] > 8
            wait_until(eight_seconds, 30, "two pauses of the load")
            page = agent.page()
        self.assertEqual([s.labels["gpu_driver_version"] for s in samples(page, "gpu_driver_info")], ["580.159.04"])
        self.assertEqual([s for s in samples(page, "gpulens_samples_total")
                          if s.labels.get("collector") == "nvidia" and s.labels.get("result") == "rejected" and s.value > 0], [])
        integral = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in zip(readings, readings[1:]))
        counted = readings[-1][2] - readings[0][2]
        watts = [reading[1] for reading in readings]
        self.assertGreater(max(watts), 500)
        self.assertLess(min(watts), 200)
        # The agent reads each 200 ms, so the edges of load are that far off.
        self.assertLess(abs(counted - integral), 0.1 * integral + 0.4 * max(watts))


class Command(Case):
    def test_collect_shows_the_recording(self):
        _, recording = self.capture(PROFILES / "l4.yaml")
        out = subprocess.run([BINARY, "collect", "nvidia", "--demo", "--once", "--json"], check=True, timeout=60,
                             env={**os.environ, "GPULENS_FAKE_NVML": str(recording)}, capture_output=True, text=True).stdout
        models = {e["entity"].get("gpu.model") for e in json.loads(out) if "gpu.model" in e["entity"]}
        self.assertEqual(models, {"NVIDIA L4"})

    def test_copies_of_one_gpu_and_counters_that_go_on(self):
        _, recording = self.capture(PROFILES / "h100_busy.yaml", "--gpu", "3", seconds="4s")
        recorded = load(recording)
        self.assertEqual(len(recorded["gpus"]), 1)
        self.assertTrue(any("nvmlDeviceGetTotalEnergyConsumption" in call for m in recorded["timeline"] for call in m.get("gpu0", {})),
                        "the recording saw the counter go on")
        profile = self.file("eight.yaml", f"recording: {recording}\ngpus: 8\n")
        with Agent(**settings(profile)) as agent:
            name = "gpu_energy_consumption_joules_total"
            wait_until(lambda: len(samples(agent.page(), name)) == 8)
            self.assertEqual(len({s.labels["gpu_uuid"] for s in samples(agent.page(), "gpu_info")}), 8)
            readings = []

            def grown():
                # The recording is four seconds long: it starts again.
                readings.append((time.monotonic(), value(agent.page(), name, gpu_index="7")))
                return len({joules for _, joules in readings}) > 4 and readings[-1][0] - readings[0][0] > 5
            wait_until(grown, 60, "a counter that goes on")
            readings = [joules for _, joules in readings]
            self.assertEqual(readings, sorted(readings))
            rejected = [s for s in samples(agent.page(), "gpulens_samples_total", collector="nvidia", result="rejected",
                                           reason="counter_decreased") if s.value > 0]
            self.assertEqual(rejected, [])

    def test_identity_is_made_up_unless_requested(self):
        profile = PROFILES / "mig_table.yaml"
        _, hidden = self.capture(profile, seconds="1s")
        _, kept = self.capture(profile, "--keep-identity", seconds="1s")
        for secret in ("51313000-", "16528", "91000", "92001"):
            self.assertIn(secret, kept.read_text())
            self.assertNotIn(secret, hidden.read_text())
        self.assertEqual(load(hidden)["identity"], "made up")
        self.assertEqual(load(kept)["identity"], "kept")

    def test_a_hang_keeps_the_data_so_far(self):
        output, out = self.capture(PROFILES / "hang.yaml", code=1, seconds="16s")
        self.assertIn("the recording is incomplete", output)
        self.assertIn("nvmlDeviceGetPowerUsage", output)
        recording = load(out)
        self.assertIn("nvmlDeviceGetPowerUsage", recording["trouble"])
        self.assertEqual(len(recording["gpus"]), 8)
        late = [m for m in recording["timeline"] if m["t"] > 4 and "gpu2" in m]
        self.assertTrue(late, "the other GPUs were still recorded")

    def test_a_lost_gpu_is_recorded_as_lost(self):
        profile = self.file("lost.yaml", "gpus: 2\nerrors: [{gpu: 1, call: '*', code: 15, from: 2}]\n")
        _, out = self.capture(profile, seconds="4s")
        self.assertIn("GPU_IS_LOST", out.read_text())
        with Agent(**settings(out)) as agent:
            wait_until(lambda: value(agent.page(), "gpu_state", gpu_index="1", gpu_state="lost") == 1, 30, "its loss")
            self.assertEqual(value(agent.page(), "gpu_state", gpu_index="0", gpu_state="ok"), 1)

    def test_a_failing_library_is_reported(self):
        output, out = self.capture(PROFILES / "no_permission.yaml", code=1)
        self.assertIn("no permission", output)
        self.assertFalse(out.exists())
        output, out = self.capture(PROFILES / "h100_idle.yaml", code=1, library="/nowhere/libnvidia-ml.so.1")
        self.assertIn("/nowhere/libnvidia-ml.so.1", output)
        self.assertFalse(out.exists())

    def test_a_bad_recording_is_named_with_its_line(self):
        bad = self.file("bad.yaml", "gpulens_recording: 1\nseconds: never\n")
        done = subprocess.run([BINARY, "collect", "nvidia", "--demo", "--once"], timeout=60, capture_output=True, text=True,
                              env={**os.environ, "GPULENS_FAKE_NVML": bad})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("line 2", done.stderr)

    def test_wrong_use(self):
        for arguments, words in ((["amd"], "the only one is nvml"),
                                 (["nvml", "--for", "soon"], "--for soon"), (["nvml", "--every", "1ms"], "--every 1ms"),
                                 (["nvml", "--for", "1s", "--every", "2s"], "--every 2s"),
                                 (["nvml", "--gpu", "64"], "0 to 63"), (["nvml", "--gpu", "x"], "--gpu")):
            done = subprocess.run([BINARY, "capture", *arguments], stderr=subprocess.PIPE, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(words, done.stderr)
        output, _ = self.capture(PROFILES / "l4.yaml", "--gpu", "5", code=2, seconds="1s")
        self.assertIn("GPU 5 is not on this machine", output)

    def cut(self, interrupt, *arguments):
        """The content of a recording that `interrupt` ends; it is called with the process and a function that awaits a reading of GPU 1."""
        out = self.folder / "cut.yaml"
        process = subprocess.Popen([BINARY, "capture", "nvml", "--for", "1h", "--library", "simulated", "-o", out, *arguments],
                                   env={**os.environ, "GPULENS_FAKE_NVML": str(PROFILES / "l4.yaml"), "TMPDIR": str(self.folder)},
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        interrupt(process, lambda: wait_until(lambda: [
            f for f in self.folder.glob("gpulens-capture-*") if b"\tgpu1\tnvmlDeviceGetPowerUsage" in f.read_bytes()]))
        self.assertEqual(process.wait(20), 130)
        return load(out)

    def test_ctrl_c_keeps_the_data_so_far(self):
        def interrupt(process, read):
            read()
            process.send_signal(signal.SIGINT)
        self.assertEqual(len(self.cut(interrupt)["gpus"]), 2)

    def test_ctrl_c_keeps_the_start_of_the_data(self):
        def interrupt(process, read):
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
            wait_until(children.read_text, what="a reader process")
            process.send_signal(signal.SIGSTOP)  # It hears nothing of what is read from now on.
            read()
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGCONT)
        for _ in range(3):
            recording = self.cut(interrupt, "--gpu", "0", "1")
            self.assertEqual(len(recording["gpus"]), 2)
            self.assertNotIn("trouble", recording)
            (self.folder / "cut.yaml").unlink()


if __name__ == "__main__":
    unittest.main()
