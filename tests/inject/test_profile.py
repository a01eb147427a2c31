"""`gpulens profile` of a program that calls a libcuda and a libcupti without a GPU: the file is read by Go's pprof, the
request by OpenTelemetry's classes."""

import gzip
import http.server
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("GPULENS_BUILD", ROOT / "build" / "release"))
GPULENS = os.environ.get("GPULENS_BIN", str(BUILD / "gpulens"))
GO = shutil.which("go") or "/usr/local/go/bin/go"


class Profile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("GPULENS_")},
            "LD_LIBRARY_PATH": f"{BUILD / 'tests/fake_cuda/push'}:{BUILD / 'tests/fake_cupti/130'}",
            "FAKE_CUDA_KERNEL_NS": "2000",
            "LC_ALL": "C.UTF-8",
        }
        self.loop = [str(BUILD / "fake_cuda_loop"), "--launches", "1000", "--names", "4"]

    def run_profile(self, *arguments, code=0):
        done = subprocess.run([GPULENS, "profile", *map(str, arguments)], env=self.environment, capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_a_table(self):
        out = self.run_profile(*self.loop).stdout
        self.assertIn("launches 1000", out)  # of the program
        rows = re.findall(r"^ *0\.000500 +25\.0 % +250 +2\.0 +0000:1a:00\.0 +kernel_0[0-3]\(float\*, int\)$", out, re.MULTILINE)
        self.assertEqual(len(rows), 4, out)

    def test_a_file_that_go_reads(self):
        path = self.folder / "kernels.pb.gz"
        self.run_profile("-o", path, *self.loop)
        self.assertTrue(gzip.decompress(path.read_bytes()))
        if not Path(GO).exists():
            self.skipTest("Go is not here")
        for sample, values in (("time", ["500us"]), ("kernels", ["250"])):
            top = subprocess.run([GO, "tool", "pprof", "-top", f"-sample_index={sample}", path], capture_output=True, text=True,
                                 timeout=120, env={**os.environ, "HOME": str(self.folder), "GOCACHE": str(ROOT / "build" / "go_cache")})
            self.assertEqual(top.returncode, 0, top.stderr)
            for i in range(4):
                self.assertRegex(top.stdout, rf" {values[0]} 25.00% .*kernel_0{i}")
            self.assertIn("0000:1a:00.0", top.stdout)
        tags = subprocess.run([GO, "tool", "pprof", "-tags", path], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "HOME": str(self.folder), "GOCACHE": str(ROOT / "build" / "go_cache")})
        self.assertIn("device", tags.stdout)

    def test_a_request_that_opentelemetry_reads(self):
        try:
            from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import ExportProfilesServiceRequest
        except ImportError:
            self.skipTest("OpenTelemetry's classes are not here")
        got = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                got.append((self.path, self.headers, self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *arguments):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.run_profile("--otlp", f"http://127.0.0.1:{server.server_port}", "--header", "X-Key: 1", *self.loop)
        (path, headers, body), = got
        self.assertEqual((path, headers["Content-Type"], headers["X-Key"]),
                         ("/v1development/profiles", "application/x-protobuf", "1"))
        request = ExportProfilesServiceRequest.FromString(body)
        table = request.dictionary
        text = table.string_table
        for first in (table.mapping_table, table.location_table, table.function_table, table.link_table, table.attribute_table,
                      table.stack_table):
            self.assertEqual(first[0].ByteSize(), 0)
        self.assertEqual(text[0], "")
        scope, = request.resource_profiles[0].scope_profiles
        self.assertEqual(scope.scope.name, "gpulens")
        self.assertIn("host.name", [attribute.key for attribute in request.resource_profiles[0].resource.attributes])
        self.assertEqual(len(scope.profiles), 2)
        self.assertEqual(len({profile.profile_id for profile in scope.profiles}), 2)
        found = {}
        for profile in scope.profiles:
            self.assertEqual(len(profile.profile_id), 16)
            self.assertGreater(profile.duration_nano, 0)
            unit = text[profile.sample_type.type_strindex], text[profile.sample_type.unit_strindex]
            for sample in profile.samples:
                frames = [table.function_table[table.location_table[at].lines[0].function_index]
                          for at in table.stack_table[sample.stack_index].location_indices]
                attribute = table.attribute_table[sample.attribute_indices[0]]
                self.assertEqual((text[attribute.key_strindex], attribute.value.string_value), ("cuda.device", "0000:1a:00.0"))
                self.assertEqual(text[frames[1].name_strindex], "0000:1a:00.0")
                found[unit[0], unit[1], text[frames[0].name_strindex], text[frames[0].system_name_strindex]] = list(sample.values)
        self.assertEqual(found, {
            (*unit, f"kernel_0{i}(float*, int)", f"_Z9kernel_0{i}Pfi"): [value]
            for i in range(4) for unit, value in ((("kernels", "count"), 250), (("time", "nanoseconds"), 500000))})

    def test_a_running_process(self):
        program = subprocess.Popen([BUILD / "fake_cuda_loop", "--seconds", "10", "--rate", "2000", "--sync-every", "20"],
                                   stdout=subprocess.DEVNULL, env={
                                       **self.environment, "CUDA_INJECTION64_PATH": str(BUILD / "libgpulens-cuda.so"),
                                       "GPULENS_CUDA": "count", "GPULENS_JOB_SOCKET": str(self.folder / "none"),
                                       "GPULENS_JOB_FOLDER": "/dev/shm"})
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        deadline = time.monotonic() + 10
        while f"gpulens-job-{os.getuid()}-{program.pid}-2" not in Path(f"/proc/{program.pid}/maps").read_text():
            self.assertLess(time.monotonic(), deadline)
        out = self.run_profile("--for", "3s", program.pid).stdout
        count = int(re.search(r"% +([\d,]+) +2\.0 .*kernel_00", out)[1].replace(",", ""))
        self.assertGreater(count, 200)
        self.assertLess(count, 10000)
        self.assertEqual(program.poll(), None)

    def test_what_cannot_be_measured_is_named(self):
        done = self.run_profile("true", code=1)
        self.assertIn("true did not load the library", done.stderr)
        done = self.run_profile("no_such_program", code=1)
        self.assertIn("no_such_program", done.stderr)
        done = self.run_profile(os.getpid(), code=1)
        self.assertIn("has no page of gpulens", done.stderr)
        self.run_profile(code=2)
        self.run_profile("--for", "soon", "1", code=2)
        self.assertIn("a time of 3s or more", self.run_profile("--for", "2s", "1", code=2).stderr)
        self.environment["FAKE_CUPTI_TAKEN"] = "Nsight Systems"
        done = self.run_profile(*self.loop)
        self.assertIn("another program uses CUPTI in this process: Nsight Systems", done.stderr)

    def test_the_programs_code_is_ours(self):
        self.run_profile("sh", "-c", "exit 7", code=7)


if __name__ == "__main__":
    unittest.main()
