// The numbers are those that the seeds' own tests assert, where they have such, as ratios; their wrong
// look-ups are here, too.
#include <gpulens/efficiency.h>

#include <gtest/gtest.h>

#include <cmath>

namespace gpulens {
namespace {

TEST(FindGpuSpec, FindsByFullNameOrPciId) {
  for (std::string_view known :
       {"NVIDIA H100 80GB HBM3", "nvidia h100 80gb hbm3", "10de:2330", "10DE:2330", " 10de:2330\n"}) {
    const auto spec = FindGpuSpec(known);
    ASSERT_TRUE(spec.has_value()) << known;
    EXPECT_EQ(spec->product, "NVIDIA H100 80GB HBM3");
    EXPECT_DOUBLE_EQ(spec->PeakFlops(Precision::kBf16), 989.4e12);
    EXPECT_DOUBLE_EQ(spec->PeakFlops(Precision::kFp64), 66.9e12) << "with its matrix units";
    EXPECT_FALSE(spec->source.empty());
    EXPECT_EQ(spec->as_of.size(), 10u);
  }
  EXPECT_DOUBLE_EQ(FindGpuSpec("NVIDIA A100-SXM4-80GB")->memory_bandwidth_bytes_per_second, 2039e9);
  EXPECT_DOUBLE_EQ(FindGpuSpec("1002:74bd")->PeakFlops(Precision::kFp16), 1307.4e12) << "any of several ids";
}

TEST(FindGpuSpec, DoesNotGuess) {
  for (std::string_view unknown :
       {"", " ", "H100", "NVIDIA H100", "A100", "T400", "NVIDIA RTX A1000", "NVIDIA",
        "10de:", "10de:2330 10de:2331", "10de:2342", "10de:25b6", "Unknown GPU"})
    EXPECT_FALSE(FindGpuSpec(unknown).has_value()) << unknown;
  // Names that contain one another.
  EXPECT_DOUBLE_EQ(FindGpuSpec("NVIDIA L40S")->PeakFlops(Precision::kBf16), 362.05e12);
  EXPECT_DOUBLE_EQ(FindGpuSpec("NVIDIA L40")->PeakFlops(Precision::kBf16), 181.05e12);
  EXPECT_DOUBLE_EQ(FindGpuSpec("NVIDIA L4")->PeakFlops(Precision::kBf16), 121e12);
  EXPECT_DOUBLE_EQ(FindGpuSpec("NVIDIA A100 80GB PCIe")->PeakFlops(Precision::kBf16), 312e12);
  EXPECT_DOUBLE_EQ(FindGpuSpec("NVIDIA A10")->PeakFlops(Precision::kBf16), 125e12);
  EXPECT_TRUE(std::isnan(FindGpuSpec("Tesla T4")->PeakFlops(Precision::kBf16))) << "has none";
}

TEST(Mfu, IsARatio) {
  const auto h100 = FindGpuSpec("NVIDIA H100 80GB HBM3");
  EXPECT_NEAR(Mfu(100e12, 1, 989e12), 0.101112, 1e-6);
  EXPECT_NEAR(Mfu(100e12, 1, 989e12, 2), 0.050556, 1e-6);
  EXPECT_NEAR(Mfu(100e12, 1, *h100, Precision::kBf16), 100 / 989.4, 1e-9);
  EXPECT_NEAR(Mfu(ForwardFlops(7e9, 100), 1, 312e12), 0.0044872, 1e-7);
  EXPECT_NEAR(Mfu(ForwardFlops(7e9, 100), 1, 312e12, 2), 0.0022436, 1e-7);
  EXPECT_DOUBLE_EQ(TrainingFlops(70e9, 4096), 6 * 70e9 * 4096);
  EXPECT_EQ(Mfu(0, 1, 989e12), 0) << "measured";
}

TEST(Mbu, ReadsTheWeightsOnceAStep) {
  EXPECT_NEAR(Mbu(7e9 * 2, 100, 2039e9), 0.68661, 1e-5);
  EXPECT_NEAR(Mbu(7e9 * 2, 100, *FindGpuSpec("NVIDIA A100-SXM4-80GB"), 2), 0.343306, 1e-5);
}

TEST(Efficiency, IsNaNForUnknownInputs) {
  const auto t4 = FindGpuSpec("Tesla T4");
  for (double unknown : {Mfu(1e12, 0, 989e12),
                         Mfu(1e12, -1, 989e12),
                         Mfu(1e12, 1, 0),
                         Mfu(1e12, 1, kNotMeasured),
                         Mfu(1e12, kNotMeasured, 1e12),
                         Mfu(1e12, 1, 989e12, 0),
                         Mfu(kNotMeasured, 1, 989e12),
                         Mfu(1e12, 1, *t4, Precision::kFp8),
                         Mbu(1e9, 1, 0),
                         Mbu(1e9, kNotMeasured, 1e12),
                         Mbu(1e9, 1, 1e12, -1),
                         Mfu(-1, 1, 989e12),
                         Mfu(INFINITY, 1, 989e12),
                         Mbu(-1, 1, 1e12),
                         Mbu(1e9, -1, 1e12),
                         Mbu(1e9, INFINITY, 1e12),
                         ForwardFlops(-1, 5),
                         ForwardFlops(7e9, -5),
                         TrainingFlops(kNotMeasured, 1),
                         TrainingFlops(7e9, INFINITY)})
    EXPECT_TRUE(std::isnan(unknown)) << unknown;
}

TEST(Precision, HasNames) {
  for (Precision one : {Precision::kFp64, Precision::kFp32, Precision::kTf32, Precision::kBf16,
                        Precision::kFp16, Precision::kFp8, Precision::kInt8, Precision::kFp4})
    EXPECT_EQ(ParsePrecision(PrecisionName(one)), one);
  EXPECT_EQ(ParsePrecision("BF16"), Precision::kBf16);
  EXPECT_FALSE(ParsePrecision("bf17").has_value());
}

}  // namespace
}  // namespace gpulens
