"""A PostgreSQL server for tests: Debian's, unpacked in build/postgres or installed, with data of its own in a temporary
folder, reached through a socket there alone, and never run as root."""
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile

from agent import wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNPACKED = pathlib.Path(os.environ.get("GPULENS_POSTGRES", ROOT / "build" / "postgres"))
PASSWORD = "s3cret-Word"


def programs():
    """The folder of initdb and postgres; None when there is none."""
    for root in (UNPACKED, pathlib.Path("/")):
        for folder in sorted(root.glob("usr/lib/postgresql/*/bin"), reverse=True):
            if (folder / "postgres").exists() and (folder / "initdb").exists():
                return folder
    return None


def missing():
    """Why there can be no server here; None when there can."""
    return None if programs() else "no postgres in build/postgres; tools/prepare_peers.sh gets it"


def environment():
    """For the server and for programs that load libpq."""
    libraries = [str(folder) for folder in UNPACKED.glob("usr/lib/*-linux-gnu")]
    old = os.environ.get("LD_LIBRARY_PATH", "")
    return {**os.environ, "LD_LIBRARY_PATH": ":".join([*libraries, old] if old else libraries)} if libraries else dict(os.environ)


class PostgresNode:
    """A PostgreSQL server: data are created and the server is started on entry, both are removed on exit. With a port it listens at 127.0.0.1,
    too, also for TLS, with the certificate node.certificate, which vouches for itself."""

    def __init__(self, port=5432, tcp=False):
        self.port, self.tcp = port, tcp
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-postgres-"))
        self.user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self.process = None

    def url(self, password=PASSWORD):
        return f"postgresql://gpulens:{password}@/postgres?host={self.folder}&port={self.port}"

    def tcp_url(self, parameters, password=PASSWORD):
        return f"postgresql://gpulens:{password}@127.0.0.1:{self.port}/postgres?{parameters}"

    @property
    def certificate(self):
        return self.folder / "server.crt"

    def make_certificate(self):
        key = self.folder / "server.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=gpulens test", "-addext",
                        "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(self.certificate)],
                       capture_output=True, check=True, timeout=60)  # fmt: skip
        os.chmod(key, 0o600)
        if self.user:
            os.chown(key, self.user.pw_uid, self.user.pw_gid)

    def as_user(self):
        return {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}

    def __enter__(self):
        try:
            (self.folder / "word").write_text(PASSWORD)
            if self.user:
                os.chown(self.folder / "word", self.user.pw_uid, -1)
                os.chown(self.folder, self.user.pw_uid, -1)
            made = subprocess.run([str(programs() / "initdb"), "-D", str(self.folder / "data"), "-U", "gpulens", "-N", "-E", "UTF8",
                                   "--locale=C", "-A", "scram-sha-256", "--pwfile", str(self.folder / "word")],
                                  capture_output=True, text=True, timeout=120, check=False, cwd=self.folder, env=environment(),
                                  **self.as_user())  # fmt: skip
            assert made.returncode == 0, made.stdout + made.stderr
            if self.tcp:
                self.make_certificate()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        more = ["listen_addresses="]
        if self.tcp:
            more = ["listen_addresses=127.0.0.1", "ssl=on", f"ssl_cert_file={self.certificate}", f"ssl_key_file={self.folder}/server.key"]
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen([str(programs() / "postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder),
                                             "-p", str(self.port), "-c", "fsync=off", "-c", "shared_buffers=16MB",
                                             *(word for setting in more for word in ("-c", setting))],
                                            stdout=log, stderr=log, cwd=self.folder, env=environment(), **self.as_user())  # fmt: skip
        wait_until(lambda: self.sql("SELECT 1") == "1", seconds=60)

    def stop(self, how=signal.SIGINT):
        """SIGQUIT: as a crash does it."""
        self.process.send_signal(how)
        self.process.wait(60)

    def sql(self, query):
        """The output of psql; the last of its errors when it fails."""
        done = subprocess.run(["psql" if not (programs() / "psql").exists() else str(programs() / "psql"), "-XAtq", "-c", query,
                               self.url()], capture_output=True, text=True, timeout=60, check=False, env=environment())  # fmt: skip
        return done.stdout.strip() if done.returncode == 0 else done.stderr.strip()

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)
