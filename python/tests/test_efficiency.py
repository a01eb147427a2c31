"""gpulens.efficiency."""
import math
import unittest

import gpulens


class Specs(unittest.TestCase):
    def test_by_the_whole_name_or_the_pci_id(self):
        spec = gpulens.find_gpu_spec("nvidia h100 80gb hbm3")
        self.assertEqual(spec.product, "NVIDIA H100 80GB HBM3")
        self.assertEqual(gpulens.find_gpu_spec("10de:2330").product, spec.product)
        self.assertEqual(spec.peak_flops("BF16"), 989.4e12)
        self.assertEqual(spec.memory_bandwidth_bytes_per_second, 3.35e12)
        self.assertEqual(spec.tdp_watts, 700)
        self.assertTrue(spec.source)
        self.assertRegex(spec.as_of, r"^20\d\d-\d\d-\d\d$")

    def test_no_guess(self):
        for name in ("H100", "NVIDIA H100", "NVIDIA L40S PCIe Gen6", "", "10de:ffff"):
            self.assertIsNone(gpulens.find_gpu_spec(name), name)

    def test_a_precision_that_is_none(self):
        with self.assertRaisesRegex(gpulens.InvalidArgumentError, "bf16"):
            gpulens.find_gpu_spec("NVIDIA L4").peak_flops("fp7")


class Ratios(unittest.TestCase):
    def setUp(self):
        self.spec = gpulens.find_gpu_spec("NVIDIA H100 80GB HBM3")

    def test_mfu(self):
        one = gpulens.mfu(flops=1e14, seconds=1.0, spec=self.spec, precision="bf16")
        self.assertAlmostEqual(one, 0.1011, places=4)
        self.assertAlmostEqual(gpulens.mfu(1e14, 1.0, self.spec, gpu_count=2), one / 2, places=12)
        self.assertAlmostEqual(gpulens.mfu(1e14, 1.0, peak_flops=989.4e12), one, places=12)
        self.assertTrue(math.isnan(gpulens.mfu(1e14, 0.0, self.spec)))
        self.assertAlmostEqual(gpulens.mfu(gpulens.training_flops(70e9, 4096), 1.0, peak_flops=989e12, gpu_count=8), 0.2174, places=4)

    def test_mbu(self):
        self.assertAlmostEqual(gpulens.mbu(bytes_per_step=18e9, steps_per_second=120, spec=self.spec), 0.6448, places=4)
        self.assertAlmostEqual(gpulens.mbu(18e9, 120, bandwidth_bytes_per_second=3.35e12, gpu_count=2), 0.3224, places=4)
        self.assertEqual(gpulens.forward_flops(8e9, 150), 2.4e12)

    def test_wrong_arguments(self):
        with self.assertRaises(TypeError):
            gpulens.mfu(1e14, 1.0)
        with self.assertRaises(TypeError):
            gpulens.mfu(1e14, 1.0, self.spec, peak_flops=1e12)
        with self.assertRaises(ValueError):
            gpulens.mfu(1e14, 1.0, self.spec, gpu_count=0)
        with self.assertRaises(ValueError):
            gpulens.mbu(1.0, 1.0, self.spec, gpu_count=-1)


if __name__ == "__main__":
    unittest.main()
