#include "plugins/collectors/nvidia/board_series.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/testing/allocations.h"

namespace gpulens::nvidia {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

class AerSeriesTest : public ::testing::Test {
 protected:
  AerSeriesTest() { Put("correctable", "TOTAL_ERR_COR 5\n"); }
  ~AerSeriesTest() override { fs::remove_all(root_); }
  void Put(const std::string& name, const std::string& text) {
    std::string folder = root_ + "/sys/bus/pci/devices/0000:4d:00.0/";
    fs::create_directories(folder);
    std::ofstream(folder + "aer_dev_" + name) << text;
  }
  // The counts of a run after so long, as text.
  std::string Run(Duration after = seconds(1)) {
    clock_.Advance(after);
    writer_.Begin(clock_.Now());
    series_.Update(root_, gpu_, entity_, writer_);
    Ref<const Frame> frame = writer_.Finish();
    std::string text;
    for (uint32_t slot = 0; slot < frame->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame->layout)[slot];
      if (info.desc != &kGpuPcieAerErrors || frame->quality[slot] != Quality::kOk) continue;
      text += info.attributes.Text("gpu.pcie.aer.severity") + "=" +
              std::to_string(frame->cells[info.first_cell].i) + " ";
    }
    return text;
  }

  const std::string root_ = testing::TempDir() + "aer_series_" + std::to_string(::getpid());
  ManualClock clock_;
  SeriesTable table_;
  FrameWriter writer_{table_, seconds(10)};
  nvml::Gpu gpu_ = [] {
    nvml::Gpu gpu;
    gpu.facts = {{"pci_bus_id", "0000:4D:00.0"}};
    return gpu;
  }();
  EntityRef entity_ = MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", int64_t{0}}}));
  AerSeries series_;
};

TEST_F(AerSeriesTest, ReadsCountsEveryMinuteAndKeepsThemFresh) {
  Put("fatal", "TOTAL_ERR_FATAL 0\n");
  EXPECT_EQ(Run(), "correctable=5 fatal=0 ") << "what the kernel does not tell is not there";
  Put("correctable", "TOTAL_ERR_COR 9\n");
  Put("fatal", "TOTAL_ERR_FATAL 1\n");
  EXPECT_EQ(Run(seconds(30)), "correctable=5 fatal=0 ");
  EXPECT_EQ(Run(seconds(31)), "correctable=9 fatal=1 ");
}

TEST_F(AerSeriesTest, ReplacedGpuIsReadAtOnce) {
  Run();
  table_.Retire(entity_);
  entity_ = nullptr;
  EXPECT_EQ(Run(), "");
  entity_ = MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", int64_t{1}}}));
  EXPECT_EQ(Run(), "correctable=5 ");
  gpu_.facts = {{"pci_bus_id", "nonsense"}};
  table_.Retire(entity_);
  entity_ = MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", int64_t{2}}}));
  EXPECT_EQ(Run(), "");
}

TEST_F(AerSeriesTest, SteadyRunDoesNotAllocate) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "allocations are not counted under this sanitizer";
  for (int i = 0; i < 3; ++i) Run(seconds(61));
  auto count = [&](auto&& work) {
    uint64_t before = ThreadAllocations();
    work();
    return ThreadAllocations() - before;
  };
  clock_.Advance(seconds(61));
  writer_.Begin(clock_.Now());
  EXPECT_EQ(count([&] { series_.Update(root_, gpu_, entity_, writer_); }), 0u);
}

}  // namespace
}  // namespace gpulens::nvidia
