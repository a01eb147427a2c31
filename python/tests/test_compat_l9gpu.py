"""gpulens.compat.l9gpu. That its table agrees with the catalogue is tools/l9gpu_fields.py --check."""
import dataclasses
import http.server
import math
import random
import threading
import unittest
import unittest.mock

import gpulens
from gpulens.compat import l9gpu
from gpulens.compat.l9gpu import metric_names as m
from gpulens.compat.l9gpu import histogram_quantile, schemas
from gpulens.compat.l9gpu.training import mfu

# Field counts of the eleven that its document names.
ELEVEN = {
    "DeviceMetrics": 34,
    "DcgmProfilingMetrics": 17,
    "VllmMetrics": 30,
    "NimMetrics": 9,
    "TritonMetrics": 11,
    "SGLangMetrics": 13,
    "TGIMetrics": 17,
    "GPUFleetHealthMetrics": 13,
    "GPUCostMetrics": 11,
    "NCCLCollectiveMetrics": 7,
    "TrainingMetrics": 11,
}
IDENTITY = {"gpu_index", "gpu_uuid", "gpu_model", "mig_enabled", "mig_instance_id", "model_name", "model_version",
            "collective_type", "rank", "gpu_architecture"}


class Names(unittest.TestCase):
    def test_known_fields(self):
        self.assertEqual(m.get_otel_name("gpu_util"), "gpu.utilization")
        self.assertEqual(m.get_unit("cost_per_gpu_hour"), "USD/h")
        self.assertEqual(m.get_unit("total_energy_mj"), "mJ")  # its own, though the catalogue's is J
        self.assertEqual(m.get_data_point_attributes("itl_p95"), {"quantile": "p95"})
        self.assertEqual(
            m.get_data_point_attributes("nvlink_tx_bandwidth"),
            {"gpu.interconnect.direction": "transmit", "gpu.interconnect.type": "nvlink"},
        )

    def test_fields_that_are_not_known(self):
        self.assertEqual(m.get_otel_name("job_id"), "gpu.job_id")
        self.assertEqual(m.get_unit("job_id"), "1")
        self.assertEqual(m.get_data_point_attributes("job_id"), {})

    def test_the_tables_are_those_of_the_functions(self):
        self.assertEqual(set(m.FIELD_UNITS), set(m.FIELD_TO_OTEL_NAME))
        for field, name in m.FIELD_TO_OTEL_NAME.items():
            self.assertEqual((m.get_otel_name(field), m.get_unit(field)), (name, m.FIELD_UNITS[field]))
            self.assertEqual(m.get_data_point_attributes(field), m.FIELD_DATA_POINT_ATTRIBUTES.get(field, {}))
        self.assertEqual(m.FIELD_UNITS["training_loss"], "1")
        self.assertEqual(m.FIELD_DATA_POINT_ATTRIBUTES["itl_p95"], {"quantile": "p95"})

    def test_peaks_are_dense_and_by_whole_names(self):
        self.assertEqual([mfu.GPU_PEAK_TFLOPS[name] for name in ("L4", "B200 SXM6", "T4")], [121.0, 2250.0, 65.0])
        self.assertEqual(mfu.get_peak_tflops("l4"), 121.0)
        self.assertEqual(mfu.get_peak_tflops("NVIDIA A100-SXM4-80GB"), 312.0)
        self.assertIsNone(mfu.get_peak_tflops("A100"))
        with unittest.mock.patch.dict(mfu.GPU_PEAK_TFLOPS, {"X9": 7.0}):
            self.assertEqual(mfu.get_peak_tflops("X9"), 7.0)

    def test_attributes_are_the_callers_own(self):
        m.get_data_point_attributes("itl_p95")["quantile"] = "changed"
        self.assertEqual(m.get_data_point_attributes("itl_p95"), {"quantile": "p95"})

    def test_every_field_of_every_record_has_a_metric_or_is_identity(self):
        for name in schemas.__all__:
            for field in dataclasses.fields(getattr(schemas, name)):
                if field.name in IDENTITY:
                    self.assertEqual(m.get_otel_name(field.name), "gpu." + field.name)
                else:
                    self.assertIn(field.name, m.FIELDS, name)


class Schemas(unittest.TestCase):
    def test_the_eleven(self):
        for name, count in ELEVEN.items():
            record = getattr(l9gpu, name)
            self.assertEqual(len(dataclasses.fields(record)), count, name)
            empty = record()
            self.assertTrue(all(getattr(empty, f.name) is None for f in dataclasses.fields(record)), name)
            with self.assertRaises(TypeError):
                record(no_such_field=1)

    def test_vendors_add_to_the_device(self):
        for name in ("AMDDeviceMetrics", "GaudiDeviceMetrics"):
            record = getattr(l9gpu, name)
            self.assertTrue(issubclass(record, l9gpu.DeviceMetrics))
            self.assertEqual(len(dataclasses.fields(record)), 38)

    def test_a_host_reports_everything(self):
        with self.assertRaises(TypeError):
            l9gpu.HostMetrics(max_gpu_util=1)
        self.assertEqual(l9gpu.HostMetrics(1, 0, 0.5, 0.25).ram_util, 0.25)

    def test_values(self):
        record = l9gpu.DeviceMetrics(gpu_util=97, power_draw=512)
        self.assertEqual((record.gpu_util, record.power_draw, record.temperature), (97, 512, None))


PAGE = """# HELP x Requests.
# TYPE x histogram
x_bucket{model="a}b",le="1"} 3
x_bucket{model="a}b",le="+Inf"} 4
x_sum{model="a}b"} 2.5
x_count{model="a}b"} 4
y{path="c:\\\\d \\"q\\"\\n"} NaN 1700000000000
z 7
not a line {
"""


class Pages(unittest.TestCase):
    def test_samples(self):
        found = l9gpu.parse(PAGE)
        self.assertEqual(found["x_bucket"], [({"model": "a}b", "le": "1"}, 3.0), ({"model": "a}b", "le": "+Inf"}, 4.0)])
        self.assertEqual(found["z"], [({}, 7.0)])
        ((labels, value),) = found["y"]
        self.assertEqual(labels, {"path": 'c:\\d "q"\n'})
        self.assertTrue(math.isnan(value))
        self.assertEqual(set(found), {"x_bucket", "x_sum", "x_count", "y", "z"})
        self.assertEqual(l9gpu.parse(""), {})
        with self.assertRaises(gpulens.errors.ExhaustedError):
            l9gpu.parse("a 1\n" * (17 << 20))

    def test_of_a_server(self):
        class Answers(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status = 200 if self.path == "/metrics" else 503
                self.send_response(status)
                self.end_headers()
                self.wfile.write(PAGE.encode())

            def log_message(self, *_):
                pass

        with http.server.HTTPServer(("127.0.0.1", 0), Answers) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.addCleanup(server.shutdown)
            url = f"http://127.0.0.1:{server.server_port}"
            self.assertEqual(l9gpu.scrape(url + "/metrics")["x_count"], [({"model": "a}b"}, 4.0)])
            with self.assertRaises(OSError):
                l9gpu.scrape(url + "/other", timeout=5)
            server.shutdown()
        with self.assertRaises(ValueError):
            l9gpu.scrape("file:///etc/passwd")


class Quantiles(unittest.TestCase):
    BUCKETS = [(0.1, 5.0), (0.2, 10.0), (0.5, 20.0), (math.inf, 24.0)]

    def test_as_prometheus_has_them(self):
        self.assertAlmostEqual(histogram_quantile(self.BUCKETS, 24, 0.5), 0.26)
        self.assertAlmostEqual(histogram_quantile(self.BUCKETS, 24, 0.1), 0.048)
        self.assertEqual(histogram_quantile(self.BUCKETS, 24, 0.99), 0.5)  # above the last finite bound
        self.assertEqual(histogram_quantile(list(reversed(self.BUCKETS)), 24, 0.99), 0.5)
        self.assertAlmostEqual(histogram_quantile(self.BUCKETS[:3], 20, 0.5), 0.2)

    def test_of_nothing(self):
        self.assertIsNone(histogram_quantile([], 0, 0.5))
        self.assertIsNone(histogram_quantile([(0.1, 0.0)], 0, 0.5))
        self.assertIsNone(histogram_quantile([(math.inf, 5.0)], 5, 0.5))

    def test_ascend_and_lie_within(self):
        source = random.Random(5)
        for _ in range(200):
            bounds = sorted(source.uniform(0.001, 10) for _ in range(source.randint(1, 12)))
            counts, total = [], 0
            for _ in bounds:
                total += source.randint(0, 9)
                counts.append(float(total))
            total += source.randint(0, 3)
            if total == 0:
                continue
            got = [histogram_quantile(list(zip(bounds, counts)), total, q) for q in (0.1, 0.5, 0.9, 0.99)]
            self.assertEqual(got, sorted(got))
            self.assertTrue(0 <= got[0] and got[-1] <= bounds[-1])


if __name__ == "__main__":
    unittest.main()
