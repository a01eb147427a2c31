"""Features of the l9gpu project for NCCL, row by row."""
import json
import os
import pathlib
import tempfile
import time
import unittest

from agent import ROOT
from test_seed_rows import run

FIXTURES = pathlib.Path(os.environ.get("GPULENS_FIXTURES", ROOT.parent / "shared/fixtures")) / "nccl-inspector"


def line(rank, sequence=1, took_us=10_000, operation="AllReduce", ranks=4, **more):
    performance = {
        "coll": operation,
        "coll_sn": sequence,
        "coll_msg_size_bytes": 1 << 20,
        "coll_exec_time_us": took_us,
        "coll_timing_source": "kernel_gpu",
        "coll_algobw_gbs": 277.210914,
        "coll_busbw_gbs": 485.119099,
    }
    performance.update(more)
    header = {"id": "0x7f8c496ae9f661", "comm_name": "DP Group 0", "rank": rank, "n_ranks": ranks, "nnodes": 1}
    metadata = {"inspector_output_format_version": "v4.0", "git_rev": "", "rec_mechanism": "nccl_profiler_interface",
                "dump_timestamp_us": 1748030377748202, "hostname": "example-hostname", "pid": 1639453}  # fmt: skip
    return json.dumps({"header": header, "metadata": metadata, "coll_perf": performance}, separators=(",", ":")) + "\n"


class Monitor(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name) / "inspector.jsonl"

    def monitor(self, *arguments, environment=None, path=None):
        done = run("nccl_monitor", "--nccl-log-path", str(path or self.path), "--once", "--sink", "stdout", *arguments, environment=environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def readings(self, *arguments, **more):
        """{(name, rank, type): reading}"""
        out = {}
        for element in self.monitor(*arguments, **more):
            if element["entity_type"] != "nccl.rank":
                continue
            for reading in element["readings"]:
                attributes = reading.get("attributes", {})
                kind = attributes.get("nccl.collective.type", attributes.get("nccl_collective_type"))
                out[reading["name"], element["entity"]["nccl.rank"], kind] = reading
        return out

    def test_l9_012_a_set_for_each_collective_and_rank(self):
        self.path.write_text("".join(line(rank, operation=operation) for rank in range(2) for operation in ("AllReduce", "AllGather")))
        readings = self.readings()
        for rank in range(2):
            for operation in ("AllReduce", "AllGather"):
                for name in ("nccl.collective.message_size", "nccl.collective.bandwidth", "nccl.collective.bus_bandwidth",
                             "nccl_collective_duration_microseconds", "nccl_rank_straggler"):  # fmt: skip
                    self.assertEqual(readings[name, rank, operation]["quality"], "ok", (name, rank, operation))

    def test_l9_168_169_170_171_numbers_of_an_inspector_file(self):
        if not FIXTURES.exists():
            self.skipTest("captures not here")
        readings = self.readings(path=FIXTURES / "readme_examples.jsonl")
        expected = [json.loads(text) for text in (FIXTURES / "readme_examples.jsonl").read_text().splitlines()]
        self.assertGreaterEqual(len(expected), 2)
        for record in expected:
            rank, performance = record["header"]["rank"], record["coll_perf"]
            of = lambda name: readings[name, rank, performance["coll"]]  # noqa: E731
            self.assertEqual((of("nccl.collective.message_size")["value"], of("nccl.collective.message_size")["unit"]),
                             (performance["coll_msg_size_bytes"], "By"))  # fmt: skip
            self.assertAlmostEqual(of("nccl.collective.bandwidth")["value"], performance["coll_algobw_gbs"] * 1e9, delta=1)
            self.assertEqual(of("nccl.collective.bandwidth")["unit"], "By/s")
            self.assertAlmostEqual(of("nccl.collective.bus_bandwidth")["value"], performance["coll_busbw_gbs"] * 1e9, delta=1)
            duration = of("nccl_collective_duration_microseconds")
            self.assertAlmostEqual(duration["value"], performance["coll_exec_time_us"], delta=1e-3)
            self.assertEqual(duration["unit"], "us")
            native = of("nccl.collective.duration")
            self.assertEqual((native["unit"], native["count"]), ("s", 1))
            self.assertAlmostEqual(native["sum"], performance["coll_exec_time_us"] * 1e-6)

    def test_l9_172_the_rank_that_is_20_times_slower(self):
        self.path.write_text("".join(line(rank, took_us=200_000 if rank == 2 else 10_000) for rank in range(4)))
        readings = self.readings()
        self.assertEqual([readings["nccl_rank_straggler", rank, "AllReduce"]["value"] for rank in range(4)], [0, 0, 1, 0])

    def test_l9_172_other_operations_sizes_and_communicators_are_not_compared(self):
        """8,000 records in which one operation of one rank is slow: it is still there."""
        records = [line(rank, sequence) for sequence in range(2000) for rank in range(4)]
        records[4 * 1000 + 3] = line(3, 1000, took_us=200_000)
        records += [line(rank, 5000, took_us=400_000, coll_msg_size_bytes=1 << 33) for rank in range(4)]
        self.path.write_text("".join(records))
        readings = self.readings()
        self.assertEqual([readings["nccl_rank_straggler", rank, "AllReduce"]["value"] for rank in range(4)], [0, 0, 0, 1])
        self.assertEqual(readings["nccl.collective.duration", 3, "AllReduce"]["count"], 2001)

    def test_l9_172_the_threshold(self):
        self.path.write_text("".join(line(rank, took_us=14_000 if rank == 2 else 10_000) for rank in range(4)))
        flags = lambda *arguments: [self.readings(*arguments)["nccl_rank_straggler", rank, "AllReduce"]["value"] for rank in range(4)]  # noqa: E731
        self.assertEqual(flags(), [0, 0, 0, 0])
        self.assertEqual(flags("--straggler-threshold-ms", "3"), [0, 0, 1, 0])

    def test_l9_187_eight_series_of_four_ranks_and_two_collectives(self):
        self.path.write_text("".join(line(rank, operation=operation) for rank in range(4) for operation in ("AllReduce", "ReduceScatter")))
        series = [key for key in self.readings() if key[0] == "nccl.collective.bandwidth"]
        self.assertEqual(len(set(series)), 8)

    def test_a_file_of_the_prometheus_mode(self):
        path = pathlib.Path(self.folder.name) / "nccl_inspector_metrics_1f3c.prom"
        path.write_text((FIXTURES / "readme_example.prom").read_text())
        os.utime(path, (time.time() - 10,) * 2)  # whole, as it was not written just now
        readings = {}
        for element in self.monitor(path=path):
            if element["entity"].get("gpu.uuid") == "GPU-1f3c":
                self.assertEqual(element["entity"]["nccl.communicator.name"], "DP Group 0")
                for one in element["readings"]:
                    of = one["attributes"]
                    readings[one["name"], of.get("nccl.collective.type", of.get("nccl_collective_type"))] = one
        self.assertAlmostEqual(readings["nccl.collective.bus_bandwidth", "AllReduce"]["value"], 678.263e9, delta=1)
        self.assertAlmostEqual(readings["nccl.collective.bandwidth", "AllReduce"]["value"], 678.263e9 / 1.5, delta=1)
        self.assertAlmostEqual(readings["nccl_collective_duration_microseconds", "Send"]["value"], 1154.87)
        self.assertNotIn(("nccl_rank_straggler", "AllReduce"), readings)
        self.assertNotIn(("nccl.collective.message_size", "AllReduce"), readings)

    def test_the_variable_and_no_file(self):
        self.path.write_text(line(0))
        done = run("nccl_monitor", "--once", environment={"NCCL_INSPECTOR_LOG": str(self.path)})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("nccl.collective.bandwidth", done.stdout)
        done = run("nccl_monitor", "--once", "--nccl-log-path", self.folder.name + "/none.jsonl")
        self.assertEqual(done.returncode, 1)
        self.assertIn("none.jsonl", done.stderr)

    def test_hostile_lines_do_not_hide_the_others(self):
        self.path.write_text("x" * 200_000 + "\n" + "{}\n[1]\n" + '{"header":{"rank":9,"n_ranks":8},"coll_perf":{"coll":"AllReduce"}}\n'
                             + line(0, coll_algobw_gbs="nan", coll_busbw_gbs="inf") + '{"header":' * 5000 + "\n" + line(1))  # fmt: skip
        readings = self.readings()
        self.assertIn(("nccl.collective.bandwidth", 1, "AllReduce"), readings)
        self.assertNotIn(("nccl.collective.bandwidth", 0, "AllReduce"), readings)
        self.assertEqual(readings["nccl.collective.message_size", 0, "AllReduce"]["value"], 1 << 20)


if __name__ == "__main__":
    unittest.main()
