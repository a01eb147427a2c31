"""The table of NCCL's descriptors (src/inject/nccl/testdata/nccl_layouts.tsv) against the debug data of official libraries.

Fetches wheels by pip, one at a time, and reads them with gdb. NCCL_VERSIONS names others than these.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "src/inject/nccl/testdata/nccl_layouts.tsv"
# The newest, and one for each version of the interface that has a struct of its own: 1, 2, 3, 4, 5, 6, 7.
VERSIONS = os.environ.get("NCCL_VERSIONS", "2.23.4 2.24.3 2.26.2 2.27.5 2.28.9 2.29.7 2.31.2 2.32.3").split()
NEWEST_INTERFACE = {"2.23.4": 1, "2.24.3": 2, "2.26.2": 3, "2.27.5": 4, "2.28.9": 5, "2.29.7": 6, "2.31.2": 7, "2.32.3": 7}
# Of a member of C: /*  offset : bit  |  size */  type name;
LINE = re.compile(r"^/\*\s+(?:(\d+)\s*\|)?\s*(\d+) \*/(\s*)(.*)$")


def table():
    rows = {}
    for line in TABLE.read_text().splitlines():
        if not line.startswith("#"):
            version, member, offset, size = line.split("\t")
            rows.setdefault(int(version), {})[member] = (int(offset), int(size))
    return rows


def members(text):
    """{"coll.func": (offset, size)} and the size of the whole, from what gdb prints of a struct with unions of structs."""
    found, open_names, total = {}, [], 0
    for line in text.splitlines():
        if match := re.search(r"total size(?: \(bytes\))?:\s+(\d+)", line):
            total = int(match[1])
        row = LINE.match(line)
        body = row[4] if row else re.sub(r"^\s*", "", line)
        if body.endswith("{"):
            open_names.append([])
        elif body.startswith("}"):
            inner = open_names.pop() if open_names else []
            name = re.match(r"\}\s*(\w*);", body)
            for member, offset, size in inner:
                full = f"{name[1]}.{member}" if name and name[1] else member
                if open_names:
                    open_names[-1].append((full, offset, size))
                else:
                    found[full] = (offset, size)
        elif row and open_names and (match := re.search(r"(\w+)(?:\[\d+\])?;$", body)):
            # The first of a union's struct has no offset of its own in older versions of gdb: those of the members have.
            open_names[-1].append((match[1], int(row[1]) if row[1] else None, int(row[2])))
    return found, total


class Layouts(unittest.TestCase):
    def setUp(self):
        if not shutil.which("gdb"):
            self.skipTest("no gdb")
        folder = tempfile.TemporaryDirectory(prefix="gpulens_nccl_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def library(self, version):
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", self.folder, f"nvidia-nccl-cu12=={version}"]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600)
        if done.returncode:
            self.skipTest(f"NCCL {version} cannot be fetched: {done.stderr.strip().splitlines()[-1:]}")
        (wheel,) = self.folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (name,) = [name for name in archive.namelist() if name.endswith("/libnccl.so.2")]
            path = self.folder / "libnccl.so.2"
            path.write_bytes(archive.read(name))
        wheel.unlink()
        return path

    def gdb(self, library, struct):
        done = subprocess.run(["gdb", "-q", "-nx", "-batch", "-ex", f"ptype /o {struct}", str(library)], capture_output=True, text=True, timeout=300)
        return done.stdout if "type = " in done.stdout else None

    def test_members(self):
        rows = table()
        self.assertEqual(sorted(rows), [1, 2, 3, 4, 5, 6, 7])
        for nccl in VERSIONS:
            with self.subTest(nccl):
                library = self.library(nccl)
                seen = 0
                for version, expected in rows.items():
                    text = self.gdb(library, f"ncclProfilerEventDescr_v{version}_t")
                    if text is None:
                        continue
                    seen = version
                    found, total = members(text)
                    self.assertEqual(total, expected["sizeof"][0], f"NCCL {nccl}, version {version}: size")
                    wanted = {name: place for name, place in expected.items() if not name.startswith("sizeof")}
                    self.assertEqual({name: found.get(name) for name in wanted}, wanted, f"NCCL {nccl}, version {version}")
                    state = self.gdb(library, f"ncclProfilerEventStateArgs_v{version}_t")
                    if state:
                        self.assertEqual(members(state)[1], expected["sizeof.state"][0])
                self.assertEqual(seen, NEWEST_INTERFACE.get(nccl, seen), f"NCCL {nccl}: newest version of the interface")


if __name__ == "__main__":
    unittest.main()
