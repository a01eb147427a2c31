"""The commands for Slurm and storage: the real program against a real cluster of one node.

That cluster has no accounting database, so sacct and sacctmgr are replaced by programs that print the content of
files; the rest is Debian's Slurm.
"""
import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

import slurm_node
from agent import BINARY

try:
    from otlp_receiver import Receiver, plain
except ImportError:
    Receiver = None

RECORDS = ("slurm_job_monitor", "sacct_running", "sacctmgr_qos", "sacctmgr_user", "scontrol", "scontrol_config",
           "sprio", "sshare", "storage")
ALL = RECORDS + ("slurm_monitor", "sacct_publish", "sacct_backfill", "fsacct")

SACCT = "JobID|#JobName|#State|#Elapsed|#ElapsedRaw|#AllocTRES|#Submit|#Start|#End|#End\n" + "".join(
    f"{job}|#{name}|#{state}|#01:00:00|#3600|#cpu=2,gres/gpu=2,node=1|#2026-01-01T08:00:00|#2026-01-01T08:10:00"
    f"|#{end}|#{end}\n"
    for job, name, state, end in (
        ("101", "early", "COMPLETED", "2026-01-01T09:10:00"),
        ("102", "two\nlines", "FAILED", "2026-01-01T10:10:00"),
        ("103", "runs", "RUNNING", "Unknown"),
    ))
DELIMITER = "delimiter=$(printf '%s\\n' \"$*\" | grep -o '|#[A-Za-z0-9]*' | head -n 1)\n"
QOS = "Name|Priority|GraceTime|GrpTRES|MaxWall\nnormal|10|00:05:00|cpu=4,gres/gpu=8,mem=2T|3-00:00:00\n"
USERS = "User|DefaultAccount|Account|DefaultQOS|QOS\nann|lab|lab||normal,high\n"


def clean_environment(environment):
    return {k: v for k, v in environment.items() if not k.startswith("GPULENS_")}


class Fakes:
    """A folder with a sacct and a sacctmgr."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="gpulens-fakes-")
        folder = pathlib.Path(self.folder.name)
        for name, text in (("sacct.txt", SACCT), ("qos.txt", QOS), ("user.txt", USERS)):
            (folder / name).write_text(text)
        # The real one prints the requested delimiter.
        self.write("sacct", f'echo "$*" >> {folder}/arguments\n{DELIMITER}sed "s/|#/$delimiter/g" {folder}/sacct.txt')
        self.write("sacctmgr", f'case "$*" in *qos*) cat {folder}/qos.txt;; *) cat {folder}/user.txt;; esac')
        self.path = folder

    def write(self, name, script):
        path = pathlib.Path(self.folder.name) / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)


class WithoutSlurm(unittest.TestCase):
    """Tests that need no cluster."""

    @classmethod
    def setUpClass(cls):
        cls.fakes = Fakes()
        cls.environment = clean_environment(os.environ)
        cls.environment["PATH"] = f"{cls.fakes.path}:{cls.environment.get('PATH', '/usr/bin:/bin')}"

    @classmethod
    def tearDownClass(cls):
        cls.fakes.folder.cleanup()

    def run_command(self, *arguments, **more):
        return subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, timeout=120, check=False,
                              env=self.environment, **more)

    def records(self, *arguments, **more):
        done = self.run_command(*arguments, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_every_command_has_help_and_is_listed(self):
        listed = self.run_command("help", "all").stdout
        for name in ALL:
            self.assertIn(name, listed)
            done = self.run_command(name, "--help")
            self.assertEqual(done.returncode, 0, name)
            if name not in ("fsacct", "sacct_publish", "sacct_backfill"):
                self.assertIn("--once", done.stdout, name)
        for way in ("new", "from_file"):
            self.assertIn("--once", self.run_command("sacct_backfill", way, "--help").stdout)

    def test_publish_takes_a_file_and_standard_input(self):
        path = self.fakes.path / "sacct.txt"
        from_file = self.records("sacct_publish", str(path), "--cluster", "alps")
        piped = self.records("sacct_publish", "-", input=SACCT)
        self.assertEqual([r["attributes"]["slurm.accounting.job_id"] for r in from_file], ["101", "102", "103"])
        self.assertEqual([r["attributes"]["slurm.accounting.job_name"] for r in piped], ["early", "two\nlines", "runs"])
        first = from_file[0]
        self.assertEqual(first["name"], "slurm.accounting")
        self.assertEqual(first["attributes"]["slurm.accounting.elapsed"], 3600)
        self.assertEqual(first["attributes"]["slurm.accounting.alloc_tres.gres_gpu"], 2)
        self.assertEqual(first["attributes"]["slurm.cluster.name"], "alps")
        self.assertEqual(first["resource"]["k8s.cluster.name"], "alps")

    def test_fsacct_keeps_jobs_that_ended_within_the_bounds(self):
        done = self.run_command("fsacct", "--start", "2026-01-01T10:00", "--end", "2026-01-01T11:00")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("102|#two\nlines|#FAILED", done.stdout)
        self.assertNotIn("101|#", done.stdout)
        self.assertNotIn("103|#", done.stdout)

    def test_backfill_reports_each_job_once(self):
        records = self.records("sacct_backfill", "new", "--once", "--start", "2026-01-01T08:00", "--end",
                               "2026-01-01T11:00", "--sleep", "0.01", "--sink", "stdout")
        self.assertEqual([r["attributes"]["slurm.accounting.job_id"] for r in records], ["101", "102"])
        self.assertEqual(records[1]["ts"][:19], "2026-01-01T10:10:00")
        parts = self.fakes.path / "parts"
        parts.write_text("2026-01-01T10:00,2026-01-01T11:00\n")
        records = self.records("sacct_backfill", "from_file", str(parts), "--once")
        self.assertEqual([r["attributes"]["slurm.accounting.job_id"] for r in records], ["102"])

    def test_accounting_tables(self):
        running = self.records("sacct_running", "--once")
        self.assertEqual(len(running), 3)
        self.assertIn("-s RUNNING", (self.fakes.path / "arguments").read_text())
        qos = self.records("sacctmgr_qos", "--once")[0]["attributes"]
        self.assertEqual((qos["slurm.qos.name"], qos["slurm.qos.grp_tres.gres_gpu"]), ("normal", 8))
        self.assertEqual(qos["slurm.qos.max_wall"], 3 * 86400)
        user = self.records("sacctmgr_user", "--once")[0]["attributes"]
        self.assertEqual((user["slurm.user.user"], user["slurm.user.qos"]), ("ann", "normal,high"))

    def test_storage(self):
        usage = self.fakes.path / "usage"
        usage.write_text('{"user": "ann", "used": 4096, "sample_time": "2026-01-01", "directory": "/home/ann"}\n')
        records = self.records("storage", "--once", "--mounts", "alps=/", "--pure-file", str(usage))
        self.assertEqual([record["name"] for record in records], ["storage.mount", "storage.user"])
        mount = records[0]["attributes"]
        self.assertEqual(mount["storage.mount"], "/")
        self.assertEqual(mount["slurm.cluster.name"], "alps")
        self.assertGreaterEqual(mount["storage.size"], mount["storage.used"])
        self.assertEqual(records[1]["attributes"]["storage.used"], 4096)

    def test_to_a_file(self):
        path = self.fakes.path / "out.jsonl"
        done = self.run_command("sacctmgr_qos", "--once", "--sink", "file", "-o", f"path={path}")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertEqual(json.loads(path.read_text().splitlines()[0])["name"], "slurm.qos")

    @unittest.skipUnless(Receiver, "peer not here: opentelemetry-proto")
    def test_over_otlp_as_logs(self):
        with Receiver() as receiver:
            done = self.run_command("sacct_publish", str(self.fakes.path / "sacct.txt"), "--sink", "otel", "-o",
                                    f"otel_endpoint={receiver.url}")
            self.assertEqual(done.returncode, 0, done.stderr)
            logs = [record for request in receiver.requests for resource in request.message.resource_logs
                    for scope in resource.scope_logs for record in scope.log_records]
        jobs = [plain(record.attributes)["slurm.accounting.job_id"] for record in logs]
        self.assertEqual(jobs, ["101", "102", "103"])

    def test_wrong_use(self):
        for wrong in (("scontrol", "--sink", "pigeon"), ("scontrol", "--once", "-o", "nothing=1"),
                      ("scontrol", "--interval", "soon"), ("fsacct", "--start", "yesterday"),
                      ("sacct_backfill",), ("sacct_backfill", "new", "--once", "--step", "0")):
            done = self.run_command(*wrong)
            self.assertEqual(done.returncode, 2, f"{wrong}: {done.stdout} {done.stderr}")
            self.assertTrue(done.stderr or done.stdout)

    def test_a_slow_controller_is_waited_for(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {"sinfo": f"{DELIMITER}sleep 0.8; echo 'node1|#gpu:4|#gpu:2|#2/2/0/4|#mixed|#batch|#' | sed \"s/|#/$delimiter/g\"",
                               "squeue": "",
                               "sdiag": 'echo \'{"statistics":{"server_thread_count":1}}\''}.items():  # fmt: skip
                path = pathlib.Path(folder, name)
                path.write_text(f"#!/bin/sh\n{text}\n")
                path.chmod(0o755)
            done = self.run_command("slurm_monitor", "--once", "--sink", "stdout", "--programs", folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("slurm.nodes", done.stdout)

    def test_a_failure_is_reported(self):
        for command, program in (("scontrol", "scontrol"), ("slurm_monitor", "sinfo")):
            done = self.run_command(command, "--once", "--programs", "/nowhere")
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"/nowhere/{program}", done.stderr)
        self.assertEqual(self.run_command("sacct_publish", "/nowhere").returncode, 1)


class OneNode(unittest.TestCase):
    """Against slurmctld and slurmd."""

    @classmethod
    def setUpClass(cls):
        why = slurm_node.missing()
        if why:
            raise unittest.SkipTest(f"peer not here: {why}")
        cls.node = slurm_node.SlurmNode()
        cls.node.__enter__()
        try:
            cls.running = cls.node.submit("--gres=gpu:2", "-J", "has two gpus")
            cls.waiting = cls.node.submit("--gres=gpu:4", "-J", "waits for four")
            cls.node.wait("the first job runs", lambda: cls.states() == {cls.running: "RUNNING", cls.waiting: "PENDING"})
        except BaseException:
            cls.node.stop()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.node.stop()

    @classmethod
    def states(cls):
        return dict(line.split() for line in cls.node.run("squeue", "-h", "-o", "%A %T").stdout.splitlines())

    def run_command(self, *arguments):
        return subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, timeout=120, check=False,
                              env=clean_environment(self.node.environment))

    def records(self, *arguments):
        done = self.run_command(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_nodes_and_jobs(self):
        records = self.records("slurm_job_monitor", "--once", "--sink", "stdout", "--cluster", "alps",
                               "--heterogeneous-cluster-v1")
        nodes = [r["attributes"] for r in records if r["name"] == "slurm.node"]
        jobs = {r["attributes"]["slurm.job.id"]: r["attributes"] for r in records if r["name"] == "slurm.job"}
        self.assertEqual({n["slurm.node.partition"] for n in nodes}, {"batch", "short"})
        self.assertEqual({n["slurm.cluster.derived"] for n in nodes}, {"alps.batch", "alps.short"})
        for node in nodes:
            self.assertEqual((node["slurm.node.nodelist"], node["slurm.node.state"]), ("node1", "mixed"))
            self.assertEqual(node["slurm.node.gres.gpu"], 4)
            self.assertEqual(node["slurm.node.cpus"], os.cpu_count())
        self.assertEqual(jobs[self.running]["slurm.job.name"], "has two gpus")
        self.assertEqual(jobs[self.running]["slurm.job.state"], "RUNNING")
        self.assertEqual(jobs[self.running]["slurm.job.node_list"], "node1")
        self.assertEqual(jobs[self.running]["slurm.job.time_limit"], 3600)
        self.assertEqual(jobs[self.running]["slurm.job.tres_per_node.gpu"], 2)
        self.assertEqual(jobs[self.waiting]["slurm.job.state"], "PENDING")
        self.assertNotIn("slurm.job.start_time", jobs[self.waiting])

    def test_jobs_and_nodes_in_files_of_their_own(self):
        with tempfile.TemporaryDirectory() as folder:
            jobs, nodes = pathlib.Path(folder, "jobs.jsonl"), pathlib.Path(folder, "nodes.jsonl")
            done = self.run_command("slurm_job_monitor", "--once", "--sink", "file", "-o", f"job_file_path={jobs}",
                                    "-o", f"node_file_path={nodes}")
            self.assertEqual(done.returncode, 0, done.stderr)
            for path, name in ((jobs, "slurm.job"), (nodes, "slurm.node")):
                self.assertEqual({json.loads(line)["name"] for line in path.read_text().splitlines()}, {name})

    def test_a_waiting_array_counts_as_its_tasks_and_one_turn_does_not_wait_for_a_second_one(self):
        array = self.node.submit("--gres=gpu:4", "-J", "array", "--array=0-19")
        try:
            began = time.monotonic()
            done = self.run_command("slurm_monitor", "--once")
            self.assertLess(time.monotonic() - began, 9)
            self.assertEqual(done.returncode, 0, done.stderr)
            waiting = {reading["name"]: reading["value"] for element in json.loads(done.stdout) for reading in element["readings"]
                       if "pending" in {**element["entity"], **reading.get("attributes", {})}.values()
                       and not reading["name"].startswith("slurm.partition")}
            self.assertEqual((waiting["slurm.jobs"], waiting["slurm.jobs.gpus"]), (21, 84))
        finally:
            self.node.run("scancel", array)
            self.node.wait("the array is gone", lambda: array not in self.states())

    def test_texts_of_users_lose_no_row_and_forge_none(self):
        """Names, comments and accounts with the separators of columns, rows and keys of Slurm's programs."""
        texts = ("a|#\nb", "|#" * 300, "\n" * 900 + ".", "bad\udcff\udcfe\x01\x1b[31m|", "1|#x|#\n2|#y|#\n",
                 f"x\n   UserId=root(0) Account=evil\nJobId={self.running} JobName=y\n   JobState=FAILED\n"
                 "     Nodes=node1 CPU_IDs=0 Mem=0 GRES=gpu:fake:4(IDX:0-3)")
        jobs = {}
        try:
            for text in texts:
                jobs[self.node.submit("--gres=gpu:4", "-J", text, "--comment", text[:700], "--account", text[:200])] = text
            done = self.run_command("slurm_job_monitor", "--once", "--sink", "stdout")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            found = [record["attributes"] for record in map(json.loads, done.stdout.splitlines()) if record["name"] == "slurm.job"]
            rows = {row["slurm.job.id"]: row for row in found}
            self.assertEqual((set(rows), len(found)), ({self.running, self.waiting, *jobs}, len(jobs) + 2))
            for job, text in jobs.items():
                clean = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else " " if c < " " and c not in "\t\n" else c for c in text)
                self.assertEqual(rows[job]["slurm.job.name"], clean.strip(), repr(text))
                self.assertEqual((rows[job]["slurm.job.state"], rows[job]["slurm.job.tres_per_node.gpu"]), ("PENDING", 4))
            running = rows[self.running]
            self.assertEqual((running["slurm.job.name"], running["slurm.job.state"]), ("has two gpus", "RUNNING"))
            elements = json.loads(self.run_command("slurm_monitor", "--once").stdout)
            pending = [r["value"] for element in elements for r in element["readings"] if r["name"] == "slurm.jobs"
                       and "pending" in {**element["entity"], **r.get("attributes", {})}.values()]
            self.assertEqual(pending, [len(texts) + 1])
            priorities = self.records("sprio", "--once")
            self.assertEqual({r["attributes"]["slurm.priority.job_id"] for r in priorities}, {self.waiting, *jobs})
        finally:
            self.node.run("scancel", *jobs)
            self.node.wait("they are gone", lambda: not set(jobs) & set(self.states()))

    def test_the_cluster_in_numbers(self):
        done = self.run_command("slurm_monitor", "--once", "--sink", "stdout", "--cluster", "alps")
        self.assertEqual(done.returncode, 0, done.stderr)
        elements = json.loads(done.stdout.splitlines()[-1])
        values = {}
        for element in elements:
            for reading in element["readings"]:
                about = {**element["entity"], **reading.get("attributes", {})}
                values[(reading["name"], *sorted(str(v) for v in about.values()))] = reading["value"]
        self.assertEqual(values[("slurm.nodes", "mixed")], 1)
        self.assertEqual(values[("slurm.nodes.down",)], 0)
        self.assertEqual(values[("slurm.gpus", "allocated")], 2)
        self.assertEqual(values[("slurm.gpus", "idle")], 2)
        self.assertEqual(values[("slurm.jobs", "running")], 1)
        self.assertEqual(values[("slurm.jobs.gpus", "running")], 2)
        self.assertEqual(values[("slurm.jobs.gpus", "pending")], 4)
        self.assertEqual(values[("slurm.users.active",)], 1)
        self.assertEqual(values[("slurm.jobs.distributed",)], 0)
        self.assertEqual(values[("slurm.partition.jobs", "batch", "running")], 1)
        self.assertGreaterEqual(values[("slurm.controller.jobs", "submitted")], 2)
        self.assertGreater(values[("slurm.scheduler.cycles",)], 0)
        self.assertNotIn(("slurm.ended.runtime.mean",), values)

    def test_tables_of_the_controller(self):
        partitions = {r["attributes"]["slurm.partition.partition_name"]: r["attributes"]
                      for r in self.records("scontrol", "--once")}
        self.assertEqual(partitions["short"]["slurm.partition.priority_tier"], 10)
        self.assertEqual(partitions["batch"]["slurm.partition.max_time"], 3600)
        self.assertEqual(partitions["batch"]["slurm.partition.tres.node"], 1)
        self.assertNotIn("slurm.partition.max_nodes_number", partitions["batch"])
        config = self.records("scontrol_config", "--once")
        self.assertEqual(len(config), 1)
        self.assertEqual(config[0]["attributes"]["slurm.config.cluster_name"], "testcluster")
        self.assertGreater(len(config[0]["attributes"]), 80)

    def test_priorities(self):
        records = self.records("sprio", "--once")
        self.assertEqual([r["attributes"]["slurm.priority.job_id"] for r in records], [self.waiting])
        attributes = records[0]["attributes"]
        self.assertEqual(attributes["slurm.priority.partition"], "batch")
        parts = sum(attributes[f"slurm.priority.{part}"] for part in ("age", "jobsize", "partition_factor"))
        self.assertAlmostEqual(attributes["slurm.priority.priority"], parts, delta=1)

    def test_without_a_database(self):
        self.assertEqual(self.records("sshare", "--once"), [])
        done = self.run_command("sacct_running", "--once")
        self.assertEqual(done.returncode, 1)
        self.assertIn("accounting storage is disabled", done.stderr)


if __name__ == "__main__":
    unittest.main()
