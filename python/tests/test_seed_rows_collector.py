"""What PyDotCompute's documentation promises of its TelemetryCollector, row by row; the rest is in test_seed_rows_pydotcompute.py."""
import os
import threading
import time
import unittest

from gpulens.compat.pydotcompute import KernelTelemetry, TelemetryCollector


class Collector(unittest.TestCase):
    def filled(self):
        collector = TelemetryCollector()
        for count, kernel_id in enumerate(("a", "b", "c"), start=1):
            for _ in range(count):
                collector.record_receive(kernel_id)
                collector.record_send(kernel_id)
            collector.record_error(kernel_id)  # of no message: all have their answer
        return collector

    def test_rk_021_on_and_off(self):
        for collector in (TelemetryCollector(enabled=True), TelemetryCollector(), TelemetryCollector(True)):
            collector.record_receive("k")
            self.assertEqual(collector.get_telemetry("k").messages_received, 1)
        off = TelemetryCollector(enabled=False)
        off.record_receive("k")
        off.record_send("k")
        off.record_error("k", ValueError("x"))
        self.assertEqual((off.get_telemetry("k"), off.get_all_telemetry(), off.get_summary()["total_errors"]), (None, {}, 0))

    def test_rk_022_rk_023_rk_024_rk_025_each_is_counted(self):
        collector = TelemetryCollector()
        for _ in range(3):
            collector.record_receive("k")
        for _ in range(3):
            collector.record_send("k")
        collector.record_error("k")
        collector.record_error("k", ValueError("x"))
        k = collector.get_telemetry("k")
        self.assertEqual((k.messages_received, k.messages_sent, k.errors), (3, 3, 2))
        self.assertIsNone(collector.get_telemetry("unknown"))

    def test_rk_026_rk_027_rk_028_rk_029_rk_030_sums(self):
        collector = self.filled()
        every = collector.get_all_telemetry()
        self.assertEqual(sorted(every), ["a", "b", "c"])
        self.assertTrue(all(isinstance(telemetry, KernelTelemetry) for telemetry in every.values()))
        summary = collector.get_summary()
        self.assertEqual(summary["kernel_count"], 3)
        self.assertEqual(summary["total_messages"], sum(telemetry.messages_processed for telemetry in every.values()))
        self.assertEqual((summary["total_messages"], summary["total_errors"]), (6, 3))
        rates = [row["throughput"] for row in summary["per_kernel"].values()]
        self.assertTrue(all(rate > 0 for rate in rates))
        self.assertAlmostEqual(summary["aggregate_throughput"], sum(rates))

    def test_rk_032_counting_from_the_reset(self):
        collector = self.filled()
        b, started = collector.get_telemetry("b"), collector.get_telemetry("a").start_time
        before = time.monotonic()
        collector.reset("a")
        self.assertEqual((collector.get_telemetry("a").messages_processed, b.messages_processed), (0, 2))
        self.assertEqual(collector.get_telemetry("a").start_time, started)
        late = time.monotonic()
        collector.record_receive("a")
        collector.record_send("a")
        a = collector.get_telemetry("a")
        self.assertEqual(a.messages_processed, 1)
        early, uptime = a.throughput, a.uptime
        end = time.monotonic() + 0.02
        while time.monotonic() < end:
            pass
        self.assertGreater(early, a.throughput)
        low = time.monotonic() - late
        throughput = a.throughput  # of one, since an instant between `before` and `late`
        self.assertLessEqual(1 / (time.monotonic() - before), throughput)
        self.assertLessEqual(throughput, 1 / low)
        self.assertGreater(a.uptime, uptime)
        collector.reset(None)
        summary = collector.get_summary()
        self.assertEqual((summary["total_messages"], summary["total_errors"], summary["aggregate_throughput"]), (0, 0, 0.0))

    def test_rk_043_on_demand(self):
        threads = len(os.listdir("/proc/self/task")), threading.active_count()
        collector = TelemetryCollector()
        for i in range(1000):
            collector.record_receive(f"k{i}")
            collector.record_send(f"k{i}")
        self.assertEqual((collector.get_summary()["kernel_count"], collector.get_summary()["total_messages"]), (1000, 1000))
        self.assertEqual((len(os.listdir("/proc/self/task")), threading.active_count()), threads)


if __name__ == "__main__":
    unittest.main()
