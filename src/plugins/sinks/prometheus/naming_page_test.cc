// Pages with the names of other projects: TextPage and the tables together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/allocations.h"
#include "catalog/gpu.h"
#include "core/frame_writer.h"
#include "names/naming.h"
#include "wire/exposition/exposition_testing.h"
#include "wire/exposition/text_page.h"

namespace gpulens {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kOpen = ExpositionFormat::kOpenMetrics100;
constexpr auto kText = ExpositionFormat::kText004;

// A collector of one GPU; tests add further series.
class NamingPageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    snapshot_ = MakeRef<Snapshot>();
    snapshot_->resource = AttributeSet({{"host.name", "node7"}});
  }
  static TextPage Page(ExpositionFormat format, std::vector<std::string> namings) {
    return TextPage(format, MakeSeriesNamer(namings));
  }
  std::string Render(TextPage& page) {
    std::string out;
    page.Render(*snapshot_, out);
    return out;
  }
  std::string Render(ExpositionFormat format, std::vector<std::string> namings) {
    TextPage page = Page(format, std::move(namings));
    return Render(page);
  }
  // One frame with everything the table declares, all of the same value.
  void Publish(double value) {
    writer_.Begin(clock_.Now());
    for (Series series : series_) writer_.Set(series, value);
    snapshot_->frames = {{writer_.Finish(), "nvidia", Precedence::kNative, false}};
  }
  void Declare(const MetricDesc& desc, AttributeSet extra = {}) {
    series_.push_back(table_.Declare(desc, gpu_, extra));
  }

  ManualClock clock_;
  EntityRef gpu_ = MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", int64_t{0}}, {"gpu.uuid", "GPU-1"}}));
  SeriesTable table_;
  FrameWriter writer_{table_, std::chrono::seconds(10)};
  std::vector<Series> series_;
  Ref<Snapshot> snapshot_;
};

TEST_F(NamingPageTest, ForbiddenTypesAreUnknownInOpenMetrics) {
  Declare(kGpuEnergyConsumption);
  Declare(kGpuUtilization);
  Publish(0.57);
  std::string text = Render(kText, {"dcgm"});
  EXPECT_THAT(text, HasSubstr("# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"));
  EXPECT_THAT(text,
              HasSubstr(R"(DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",device="nvidia0",Hostname="node7"} 57)"
                        "\n"))
      << "57, not 56.99999999999999";
  std::string open = Render(kOpen, {"dcgm"});
  EXPECT_THAT(open, HasSubstr("# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION unknown\n"));
  EXPECT_THAT(open, HasSubstr("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu=\"0\""));
}

TEST_F(NamingPageTest, LargeCountersKeepTheirDigits) {
  Declare(kGpuEnergyConsumption);
  Publish(1756373.635);
  EXPECT_THAT(Render(kText, {"dcgm"}), HasSubstr("} 1756373635\n"));
  EXPECT_THAT(Render(kText, {"l9gpu"}), HasSubstr("} 1756373635\n"));
}

TEST_F(NamingPageTest, CounterAndGaugeOfOneNameAreSeparate) {
  Declare(kGpuXidErrors);
  Publish(3);
  std::string text = Render(kText, {"native", "l9gpu"});
  EXPECT_THAT(text, HasSubstr("# TYPE gpu_xid_errors gauge\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE gpu_xid_errors_total counter\n"));
  TextPage page = Page(kOpen, {"native", "l9gpu"});
  std::string open = Render(page);
  EXPECT_THAT(open, HasSubstr("# TYPE gpu_xid_errors gauge\n"));
  EXPECT_THAT(open, HasSubstr("# TYPE gpu_xid_errors_total unknown\n"));
  EXPECT_THAT(open, HasSubstr("gpu_xid_errors_total{"));
  EXPECT_EQ(page.losses().type_conflicts, 0u);
  EXPECT_THAT(Render(kOpen, {"native"}), HasSubstr("# TYPE gpu_xid_errors counter\n"));
}

// Two series may differ by an attribute that a naming lacks: zernel has no owners.
TEST_F(NamingPageTest, PrintsASeriesOnceAndCountsTheDropped) {
  for (std::string_view owner : {"ada", "bob"}) {
    Declare(kGpuProcessMemoryUsed, {{"process.pid", int64_t{42}}, {"process.owner", owner}});
  }
  Publish(1000);
  TextPage page = Page(kText, {"native", "zernel"});
  std::string text = Render(page);
  size_t first = text.find("zernel_gpu_memory_used_bytes{pid=\"42\"");
  ASSERT_NE(first, text.npos);
  EXPECT_EQ(text.find("zernel_gpu_memory_used_bytes{pid=\"42\"", first + 1), text.npos);
  EXPECT_EQ(page.losses().duplicates, 1u);
  EXPECT_THAT(text, HasSubstr("process_owner=\"ada\""));
  EXPECT_THAT(text, HasSubstr("process_owner=\"bob\"")) << "native keeps them apart";
  Render(page);
  EXPECT_EQ(page.losses().duplicates, 1u) << "of the present page, not of all";
}

// gpu.info is in the collector's frame; an analyzer's series of the same GPU has its labels, too.
TEST_F(NamingPageTest, FactsComeFromEveryFrame) {
  Declare(kGpuInfo, {{"gpu.vendor", "nvidia"}, {"gpu.pci.bus_id", "0000:0f:00.0"}});
  Publish(1);
  SeriesTable analyzer;
  FrameWriter writer(analyzer, std::chrono::seconds(10));
  Series power = analyzer.Declare(kGpuPowerDraw, gpu_);
  writer.Begin(clock_.Now());
  writer.Set(power, 600);
  Ref<const Frame> frame = writer.Finish();
  TextPage page = Page(kText, {"dcgm"});
  SnapshotEntry info = snapshot_->frames[0];
  snapshot_->frames = {{frame, "fleet", Precedence::kNative, false}};
  EXPECT_THAT(Render(page), Not(HasSubstr("pci_bus_id")));
  snapshot_->frames = {{frame, "fleet", Precedence::kNative, false}, info};
  EXPECT_THAT(Render(page), HasSubstr("pci_bus_id=\"00000000:0F:00.0\""))
      << "although its layout is the same";
  snapshot_->resource = AttributeSet({{"host.name", "node8"}});
  EXPECT_THAT(Render(page), HasSubstr("Hostname=\"node8\""));
}

TEST_F(NamingPageTest, NativePageHasNoRowsOfOtherProjects) {
  Declare(kGpuInterconnectBandwidth, {{"gpu.interconnect.type", "nvlink"}});
  Publish(3e9);
  EXPECT_THAT(
      Render(kText, {"native", "dcgm"}),
      HasSubstr(
          R"(DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{gpu="0",UUID="GPU-1",device="nvidia0",Hostname="node7"} 3000)"
          "\n"));
  EXPECT_THAT(Render(kText, {"native", "dcgm"}), Not(HasSubstr("gpu_interconnect_bandwidth")));
}

// Feeds every row of every table once, and reads it back with a parser that knows no naming.
TEST_F(NamingPageTest, EveryRowMakesAValidLine) {
  for (std::string_view name : NamingNames()) {
    const MetricNaming* naming = FindNaming(name);
    for (const NamingRow& row : naming ? naming->rows : std::span<const NamingRow>()) {
      std::vector<AttributeSet::Attribute> attributes;
      for (std::string_view key : row.native->keys) attributes.push_back({key, std::string_view("some")});
      for (const NamingWhere& where : row.where) {
        std::erase_if(attributes, [&](const auto& attribute) { return attribute.key == where.key; });
        if (!where.value.empty()) attributes.push_back({where.key, where.value});
      }
      Declare(*row.native, AttributeSet(attributes));
    }
  }
  Publish(1);
  for (ExpositionFormat format : {kText, kOpen}) {
    for (std::vector<std::string> names :
         {std::vector<std::string>{"native", "zernel", "dcgm", "otel_hw", "l9gpu"},
          {"dcgm@4.6"},
          {"l9gpu"}}) {
      TextPage page = Page(format, names);
      std::string text = Render(page);
      EXPECT_EQ(page.losses().type_conflicts, 0u) << names[0];
      exposition_testing::FreshParse read(text, format, ExpositionLimits());
      EXPECT_GT(page.samples(), 100u) << names[0];
      EXPECT_EQ(read.report.samples, page.samples()) << names[0];
      EXPECT_EQ(read.report.bad_lines, 0u) << names[0];
      EXPECT_EQ(read.report.duplicates, 0u) << names[0];
      EXPECT_EQ(read.report.type_conflicts, 0u) << names[0];
    }
  }
}

TEST_F(NamingPageTest, SteadyPageDoesNotAllocate) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "allocations are not counted in this build";
  Declare(kGpuInfo, {{"gpu.vendor", "nvidia"}});
  for (const MetricDesc* desc : {&kGpuPowerDraw, &kGpuUtilization, &kGpuMemoryUsed, &kGpuEnergyConsumption})
    Declare(*desc);
  Publish(0.25);
  TextPage page = Page(kOpen, {"native", "zernel", "dcgm", "otel_hw", "l9gpu"});
  std::string out;
  page.Render(*snapshot_, out);
  Publish(0.75);
  uint64_t before = ThreadAllocations();
  page.Render(*snapshot_, out);
  EXPECT_EQ(ThreadAllocations(), before);
}

}  // namespace
}  // namespace gpulens
