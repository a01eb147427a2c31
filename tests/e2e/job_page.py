"""A job that writes a page: tests/inject/job_page_program.cc, of which each command is a line.

    with JobPage(socket=path) as job:
        job("phase gpu_compute", "sleep 50")
"""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def program():
    """The program that the build made next to gpulens."""
    there = os.environ.get("JOB_PAGE_PROGRAM")
    if there:
        return there
    return str(pathlib.Path(os.environ.get("GPULENS_BIN", ROOT / "build/gpulens")).resolve().parent / "job_page_program")


class JobPage:
    """Runs until closed; `pid` is its process. `place` is "socket" or the path of its file."""

    def __init__(self, writer="program", socket=None, folder=None, opened=True):
        variables = dict(os.environ)
        if socket:
            variables["GPULENS_JOB_SOCKET"] = str(socket)
        if folder:
            variables["GPULENS_JOB_FOLDER"] = str(folder)
        self.process = subprocess.Popen([program(), writer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables)
        self.pid = self.process.pid
        self.place = None
        if opened:
            self("open")

    def __call__(self, *commands):
        """Does each command and returns the boot time in ns after the last one."""
        at = 0
        for command in commands:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
            while True:
                word, _, rest = self.process.stdout.readline().rstrip("\n").partition(" ")
                if word == "page":
                    self.place = rest
                    continue
                if not word.isdigit() or rest != command:
                    raise RuntimeError(f"{command}: {word} {rest}")
                at = int(word)
                break
        return at

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait(10)
        self.process.stdout.close()
        if self.place and self.place != "socket":
            pathlib.Path(self.place).unlink(missing_ok=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
