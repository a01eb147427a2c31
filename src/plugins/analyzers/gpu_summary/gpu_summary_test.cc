#include <gtest/gtest.h>

#include "catalog/gpu.h"
#include "core/series_finder.h"
#include "plugins/plugin.h"

namespace gpulens {

extern const AnalyzerSpec gpu_summary_analyzer;

namespace {

class GpuSummaryTest : public ::testing::Test {
 protected:
  GpuSummaryTest() {
    Env env;
    analyzer_ = *gpu_summary_analyzer.create({}, env);
  }
  // Returns the analyzer's frame for GPUs with this load.
  Ref<const Frame> Analyze(std::vector<double> loads) {
    gpus_.Begin(clock_.Now());
    for (size_t i = 0; i < loads.size(); ++i) {
      if (i >= series_.size()) {
        series_.push_back(gpu_table_.Declare(kGpuUtilization, {}, {{"gpu.index", static_cast<int64_t>(i)}}));
      }
      gpus_.Set(series_[i], loads[i]);
    }
    Snapshot snapshot;
    snapshot.frames = {{gpus_.Finish(), "nvidia", Precedence::kNative, false}};
    out_.Begin(clock_.Now());
    EXPECT_TRUE(analyzer_->Analyze(snapshot, out_));
    return out_.Finish();
  }
  static double ValueOf(const Frame& frame, const MetricDesc& desc) {
    for (uint32_t slot = 0; slot < frame.layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame.layout)[slot];
      if (info.desc == &desc && frame.quality[slot] == Quality::kOk) return frame.cells[info.first_cell].d;
    }
    return -1;
  }

  ManualClock clock_;
  SeriesTable gpu_table_, out_table_;
  FrameWriter gpus_{gpu_table_, std::chrono::seconds(1)}, out_{out_table_, std::chrono::seconds(1)};
  std::vector<Series> series_;
  std::unique_ptr<Analyzer> analyzer_;
};

TEST_F(GpuSummaryTest, SevenIdleAndOneBusy) {
  auto frame = Analyze({0, 0, 0, 0.9, 0, 0, 0, 0});
  EXPECT_EQ(ValueOf(*frame, kGpuUtilizationMax), 0.9);
  EXPECT_EQ(ValueOf(*frame, kGpuUtilizationMin), 0);
  EXPECT_DOUBLE_EQ(ValueOf(*frame, kGpuUtilizationAvg), 0.1125);
}

TEST_F(GpuSummaryTest, WritesNothingWithoutGpus) {
  auto frame = Analyze({});
  EXPECT_EQ(frame->layout->slots(), 0u);
}

TEST_F(GpuSummaryTest, SummaryIsStaleAfterTheLastGpu) {
  Analyze({0.5});
  Snapshot empty;
  out_.Begin(clock_.Now());
  ASSERT_TRUE(analyzer_->Analyze(empty, out_));
  EXPECT_EQ(ValueOf(*out_.Finish(), kGpuUtilizationMax), -1);
}

}  // namespace
}  // namespace gpulens
