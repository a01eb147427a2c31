"""Python's module sqlite3 and the stores have the same file open in one process: neither drops the other's locks.

POSIX locks are a process's: a close() of the file by a second copy of SQLite drops those of the first (docs/adr/0035-python-sqlite.md).
Whether a lock is held is seen by another process.
"""
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import threading
import unittest

import gpulens
from gpulens import _core

# Exits 1 when the write lock of a file is taken, which needs all locks of others to be those of readers.
WRITER = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=0); c.execute('BEGIN IMMEDIATE')"
# Exits 1 when the file is in use by anyone: it is then not possible to leave the write-ahead mode.
ALONE = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=0); sys.exit(c.execute('PRAGMA journal_mode=DELETE').fetchone()[0] != 'delete')"


def other_process(code, path):
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    return "free" if done.returncode == 0 else "held"


def rows_of(path):
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT count(*) FROM telemetry").fetchone()[0]
    finally:
        connection.close()


class OneFile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = str(pathlib.Path(folder.name) / "x.db")

    def store(self, rows=1):
        store = gpulens.InferenceStore(self.path)
        self.addCleanup(store.close)
        for _ in range(rows):
            store.record(model="m")
        store.flush()
        return store

    def test_the_kind_of_locks_is_reported(self):
        self.assertIn(_core._file_locks, ("apart", "shared"))

    @unittest.skipIf(sys.version_info < (3, 10), "its subprocess forks, and a store has no connection open across a fork")
    def test_a_close_by_python_does_not_drop_the_locks_of_a_store(self):
        self.store()
        self.assertEqual(other_process(ALONE, self.path), "held")
        for _ in range(3):
            sqlite3.connect(self.path).execute("SELECT 1 FROM sqlite_master").connection.close()
        os.close(os.open(self.path, os.O_RDONLY))  # nor by anything else
        self.assertEqual(other_process(ALONE, self.path), "held")

    def test_a_close_of_a_store_does_not_drop_the_locks_of_python(self):
        self.store().close()
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE mine(a)")
        self.assertEqual(other_process(WRITER, self.path), "held")
        for _ in range(3):
            reader = gpulens.InferenceStore(self.path, read_only=True)
            reader.summary()
            reader.close()
        self.assertEqual(other_process(WRITER, self.path), "held")
        connection.execute("COMMIT")
        self.assertEqual(other_process(WRITER, self.path), "free")
        connection.close()
        self.assertEqual(other_process(ALONE, self.path), "free")

    def test_descriptors_do_not_add_up(self):
        self.store().close()
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM telemetry").fetchone()  # locks for reading, which our close must not drop
        counts = []
        for _ in range(8):
            gpulens.InferenceStore(self.path, read_only=True).close()
            counts.append(len(os.listdir("/proc/self/fd")))
        self.assertEqual(counts[2:], counts[2:3] * 6)
        connection.close()
        with tempfile.TemporaryDirectory() as other:  # the next open or close releases what was kept
            gpulens.InferenceStore(other + "/y.db").close()
        self.assertEqual(_core._kept_descriptors(), 0)

    def test_both_write_at_once_and_no_row_is_lost(self):
        store = self.store()
        rounds, failed = 150, []

        def python_writes():
            try:
                for _ in range(rounds):
                    connection = sqlite3.connect(self.path, timeout=30)
                    with connection:
                        connection.execute("CREATE TABLE IF NOT EXISTS mine(a)")
                        connection.execute("INSERT INTO mine VALUES(1)")
                    connection.close()
            except sqlite3.Error as why:
                failed.append(why)

        # A third writer, in another process, which a dropped lock would let in between.
        other = subprocess.Popen(
            [sys.executable, "-c", "import sqlite3, sys\nfor i in range(150):\n c = sqlite3.connect(sys.argv[1], timeout=30)\n"
             " c.execute('CREATE TABLE IF NOT EXISTS others(a)'); c.execute('INSERT INTO others VALUES(1)'); c.commit(); c.close()", self.path])
        thread = threading.Thread(target=python_writes)
        thread.start()
        for _ in range(rounds):
            store.record(model="m")
            store.flush()
        thread.join()
        self.assertEqual(other.wait(), 0)
        store.close()
        self.assertEqual(failed, [])
        connection = sqlite3.connect(self.path)
        self.assertEqual(connection.execute("PRAGMA integrity_check").fetchone(), ("ok",))
        counts = [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("mine", "others", "telemetry")]
        connection.close()
        self.assertEqual(counts, [rounds, rounds, rounds + 1])

    def test_a_forked_child_leaves_the_locks_of_its_parent(self):
        self.store().close()
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        gpulens.InferenceStore(self.path, read_only=True).close()  # what it has closed is kept
        child = os.fork()
        if child == 0:
            try:
                inherited = _core._kept_descriptors()
                gpulens.InferenceStore(self.path, read_only=True).close()
                os._exit(0 if inherited == 0 else 1)
            except BaseException:
                os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(other_process(WRITER, self.path), "held")
        connection.close()


if __name__ == "__main__":
    unittest.main()
