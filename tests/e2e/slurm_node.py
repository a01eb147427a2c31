#!/usr/bin/env python3
"""A Slurm cluster of one node for tests: Debian's slurmctld and slurmd from build/slurm, with their own
configuration, state and ports, run by this user, ended by process id.

Its four GPUs are plain files, so no GPU is needed. Authentication is off (auth/none), so no munged is needed;
there is no accounting database, so the output of sacct and sacctmgr has to come from elsewhere.

    python3 tests/e2e/slurm_node.py        # runs until Ctrl-C, and prints how to reach it
"""
import getpass
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

from agent import free_port, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLURM = pathlib.Path(os.environ.get("GPULENS_SLURM", ROOT / "build" / "slurm"))
LIBRARIES = SLURM / "usr" / "lib" / "x86_64-linux-gnu"
PLUGINS = LIBRARIES / "slurm-wlm"
TIMEOUT = 30

CONFIGURATION = """ClusterName=testcluster
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control_port}
SlurmdPort={node_port}
AuthType=auth/none
CredType=cred/none
PluginDir={plugins}
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightPartition=500
PriorityWeightJobSize=100
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
ReturnToService=2
SlurmdTimeout=60
KillWait=1
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={node_port} CPUs={cpus} RealMemory=256 Gres=gpu:fake:4 State=UNKNOWN
PartitionName=batch Nodes=node1 Default=YES MaxTime=60 State=UP
PartitionName=short Nodes=node1 MaxTime=10 PriorityTier=10 State=UP
"""


def missing():
    """Why there can be no cluster here; None when there can."""
    for program in ("usr/sbin/slurmctld-wlm", "usr/sbin/slurmd-wlm", "usr/bin/sinfo"):
        if not (SLURM / program).exists():
            return f"no {program} in build/slurm; tools/prepare_peers.sh gets it"
    for plugin in ("auth_none.so", "cred_none.so", "proctrack_linuxproc.so"):
        if not (PLUGINS / plugin).exists():
            return f"this Slurm has no plugin {plugin}"
    return None


class SlurmNode:
    """Starts on entry; everything is gone on exit."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-slurm-"))
        self.processes = []
        self.environment = dict(
            os.environ,
            SLURM_CONF=str(self.folder / "slurm.conf"),
            LD_LIBRARY_PATH=f"{PLUGINS}:{LIBRARIES}",
            PATH=f"{SLURM / 'usr' / 'bin'}:{os.environ.get('PATH', '/usr/bin:/bin')}",
        )

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        for name in ("state", "spool", "devices"):
            (self.folder / name).mkdir()
        for index in range(4):
            (self.folder / "devices" / f"gpu{index}").touch()
        host = socket.gethostname().split(".")[0]
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(
                host=host,
                folder=self.folder,
                plugins=PLUGINS,
                user=getpass.getuser(),
                control_port=free_port(),
                node_port=free_port(),
                cpus=os.cpu_count(),
            )
        )
        (self.folder / "gres.conf").write_text(f"Name=gpu Type=fake File={self.folder}/devices/gpu[0-3]\n")
        (self.folder / "cgroup.conf").write_text("CgroupAutomount=no\nConstrainDevices=no\n")
        self.run_daemon("slurmctld-wlm", "-D", "-c")
        self.wait("slurmctld answers", lambda: "UP" in self.run("scontrol", "ping", check=False).stdout)
        self.run_daemon("slurmd-wlm", "-D", "-N", "node1", "-d", str(SLURM / "usr/sbin/slurmstepd-wlm"))
        self.wait("node1 is idle", lambda: "idle" in self.run("sinfo", "-h", "-o", "%T", check=False).stdout.split())
        # This Slurm takes no notice of Gres on the line of the node, yet it does of an update.
        self.run("scontrol", "update", "NodeName=node1", "Gres=gpu:fake:4")

    def run_daemon(self, name, *arguments):
        output = open(self.folder / f"{name}.out", "w", encoding="utf-8")
        self.processes.append(
            subprocess.Popen(
                [str(SLURM / "usr" / "sbin" / name), *arguments],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
            )
        )
        output.close()

    def run(self, program, *arguments, check=True):
        done = subprocess.run(
            [program, *arguments], env=self.environment, capture_output=True, text=True, check=False, timeout=60
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"{program} {' '.join(arguments)}: {done.returncode}: {done.stderr.strip()}; {self.log_text()}")
        return done

    def submit(self, *arguments, command="sleep 600"):
        """A job that sleeps; its number."""
        done = self.run(
            "sbatch", "--parsable", "-o", "/dev/null", "-D", str(self.folder), *arguments, "--wrap", command
        )
        return done.stdout.strip().split(";")[0]

    def wait(self, what, condition):
        def holds():
            for process in self.processes:
                if process.poll() is not None:
                    raise RuntimeError(f"{process.args[0]} ended; {self.log_text()}")
            return condition()

        try:
            wait_until(holds, TIMEOUT, what)
        except AssertionError as late:
            raise TimeoutError(f"{late}; {self.log_text()}") from late

    def log_text(self):
        lines = []
        for path in sorted(self.folder.glob("*.out")) + sorted(self.folder.glob("*.log")):
            lines.append(f"{path.name}: " + " | ".join(path.read_text(errors="replace").splitlines()[-4:]))
        return "; ".join(lines)

    def stop(self):
        if self.processes:
            self.run("scancel", "--state=RUNNING,PENDING", "-u", getpass.getuser(), check=False)
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = []
        shutil.rmtree(self.folder, ignore_errors=True)


def main():
    why = missing()
    if why:
        print(why)
        return 1
    with SlurmNode() as node:
        print(f"export SLURM_CONF={node.environment['SLURM_CONF']} LD_LIBRARY_PATH={node.environment['LD_LIBRARY_PATH']}")
        print(f"export PATH={SLURM / 'usr' / 'bin'}:$PATH", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
