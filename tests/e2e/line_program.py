"""A program that reads commands, one a line, and answers each with a line."""
import subprocess


class LineProgram:
    end_seconds = 60  # that it may take to end

    def __init__(self, path, environment=None):
        self.process = subprocess.Popen([str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=environment)  # fmt: skip
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def do(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self, line=None):
        """Ends it by closing its input, after `line` if given. Returns its standard error."""
        errors = self.process.communicate(line and line + "\n", timeout=self.end_seconds)[1]
        assert self.process.returncode == 0, errors
        return errors
