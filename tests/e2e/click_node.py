"""A ClickHouse for tests: chdb_server.py, run by the Python of build/chdb, with data of its own in a temporary folder."""
import http.client
import os
import pathlib
import shutil
import subprocess
import tempfile
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = pathlib.Path(os.environ.get("GPULENS_CHDB", ROOT / "build" / "chdb")) / "bin" / "python"
USER, PASSWORD = "gpulens", "s3cret/W@rd"


def missing():
    """Why there can be no server here; None when there can."""
    return None if PYTHON.exists() else "no chdb in build/chdb; tools/prepare_peers.sh --chdb gets it"


class ClickNode:
    """Started on entry; everything is gone on exit."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpulens-chdb-"))
        self.port, self.process = 0, None

    def url(self, database="d", password=PASSWORD):
        return f"clickhouse://{USER}:{urllib.parse.quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    def __enter__(self):
        try:
            self.start()
            self.sql("CREATE DATABASE d")
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        """Starts the server at the same port as before."""
        script = pathlib.Path(__file__).with_name("chdb_server.py")
        self.process = subprocess.Popen([str(PYTHON), str(script), str(self.folder / "data"), USER, PASSWORD],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip
        self.port = int(self.process.stdout.readline())

    def post(self, target, body=b""):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", target, body, {"X-ClickHouse-User": USER, "X-ClickHouse-Key": PASSWORD})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        assert answer.status == 200, text
        return text.strip()

    def sql(self, statement, database="default"):
        return self.post(f"/?database={database}", statement.encode())

    def fault(self, kind, count=1):
        """Makes the next INSERTs of rows fail, see chdb_server.py."""
        self.post(f"/fault?kind={kind}&count={count}")

    def __exit__(self, *_):
        if self.process:
            self.process.stdin.close()
            self.process.wait(30)
            self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)
