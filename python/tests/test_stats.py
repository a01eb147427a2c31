"""gpulens.stats, compared with the statistics module of Python."""
import math
import random
import statistics
import unittest

import gpulens
from gpulens import SteadyStateDetector, describe, inter_token_latency, percentile


class Percentiles(unittest.TestCase):
    def test_known_ones(self):
        for values, fraction, expected in (
            (range(1, 101), 0.9, 90.1),
            ([10, 20], 0.5, 15.0),
            ([42], 0.99, 42.0),
            ([5, 3, 1, 4, 2], 0.5, 3.0),
            ([1, 2], 0.0, 1.0),
            ([1, 2], 1.0, 2.0),
        ):
            self.assertAlmostEqual(percentile(values, fraction), expected, places=12)

    def test_no_values_and_nan(self):
        self.assertTrue(math.isnan(percentile([], 0.5)))
        self.assertEqual(percentile([math.nan, 3.0, 1.0], 0.5), 2.0)

    def test_a_fraction_that_is_none(self):
        for fraction in (-0.1, 1.1, 95, math.nan):
            with self.assertRaisesRegex(ValueError, "between 0 and 1"):
                percentile([1.0], fraction)

    def test_as_python_computes_them(self):
        values = [random.Random(7).expovariate(1) for _ in range(500)]
        quantiles = statistics.quantiles(values, n=100, method="inclusive")
        for percent in (50, 90, 95, 99):
            self.assertAlmostEqual(percentile(values, percent / 100), quantiles[percent - 1], places=12)


class Distributions(unittest.TestCase):
    def test_of_values(self):
        values = [10.0, 20.0, 30.0, 40.0, 50.0]
        got = describe(values)
        self.assertEqual((got.n, got.sum, got.mean, got.min, got.p50, got.max), (5, 150.0, 30.0, 10.0, 30.0, 50.0))
        self.assertAlmostEqual(got.std, 15.811388300841896, places=9)
        self.assertAlmostEqual(got.p90, 46.0)
        self.assertAlmostEqual(got.p95, 48.0)
        self.assertAlmostEqual(got.p99, 49.6)

    def test_what_was_not_measured_does_not_count(self):
        got = describe([math.nan, 1.0, math.nan])
        self.assertEqual((got.n, got.mean), (1, 1.0))
        self.assertTrue(math.isnan(got.std))
        empty = describe([])
        self.assertEqual((empty.n, empty.sum, repr(empty)), (0, 0.0, "Distribution(n=0)"))
        self.assertTrue(math.isnan(empty.mean) and math.isnan(empty.p99))

    def test_latency_between_tokens(self):
        got = inter_token_latency([0.000, 0.021, 0.040, 0.062])
        self.assertEqual(got.n, 3)
        self.assertAlmostEqual(got.mean, 0.062 / 3)
        self.assertEqual((got.min, got.p50, got.max), (0.019, 0.021, 0.022))
        self.assertEqual(inter_token_latency([]).n, 0)
        self.assertEqual(inter_token_latency([5.0]).n, 0)
        self.assertEqual(inter_token_latency([1.0, 0.5, 0.75]).n, 1)  # a step back is left out

    def test_arrivals_that_are_none(self):
        for arrival in (math.nan, math.inf, 1e300):
            with self.assertRaises(gpulens.InvalidArgumentError):
                inter_token_latency([0.0, arrival])


class SteadyState(unittest.TestCase):
    def test_a_constant_rate_with_the_defaults(self):
        detector = SteadyStateDetector()
        self.assertEqual([detector.record(100.0) for _ in range(12)], [False] * 11 + [True])
        self.assertTrue(detector.steady)
        self.assertEqual(detector.recorded, 12)
        detector.reset()
        self.assertEqual((detector.steady, detector.recorded), (False, 0))

    def test_settles(self):
        detector = SteadyStateDetector(warmup=2, window=3, consecutive=1, cv_below=0.05)
        self.assertEqual([detector.record(v) for v in (50, 60, 100, 101, 100)], [False] * 4 + [True])

    def test_never_steady(self):
        for values in ([10.0, 1000.0] * 20, [math.nan] * 40, [-5.0] * 40, [0.0] * 40):
            detector = SteadyStateDetector(cv_below=0.01)
            self.assertFalse(any(detector.record(v) for v in values))

    def test_rejects_a_window_of_one(self):
        with self.assertRaisesRegex(ValueError, "window"):
            SteadyStateDetector(window=1)


if __name__ == "__main__":
    unittest.main()
