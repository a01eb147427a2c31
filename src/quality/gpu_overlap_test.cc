#include "quality/gpu_overlap.h"

#include <gtest/gtest.h>

#include "base/testing/allocations.h"
#include "catalog/gpu.h"
#include "core/frame_writer.h"

namespace gpulens {
namespace {

// One source of readings.
struct Source {
  Source(std::string name, Precedence of)
      : writer(table, std::chrono::seconds(30), std::move(name)), precedence(of) {}
  void Set(const MetricDesc& metric, const EntityRef& entity, const AttributeSet& extra, double value) {
    writer.Set(table.Declare(metric, entity, extra), value);
  }
  SnapshotEntry Entry() {
    frame = writer.Finish();
    return {frame, frame->source, precedence, false};
  }
  SeriesTable table;
  FrameWriter writer;
  Precedence precedence;
  Ref<const Frame> frame;
};

EntityRef Gpu(std::string_view uuid, bool from_page) {
  std::vector<AttributeSet::Attribute> attributes = {{"gpu.index", int64_t{0}}, {"gpu.uuid", uuid}};
  if (from_page) attributes.push_back({"k8s.pod.name", std::string_view("train")});
  else attributes.push_back({"gpu.mig.enabled", false});
  return MakeRef<Entity>("gpu", AttributeSet(std::span<const AttributeSet::Attribute>(attributes)));
}

class GpuOverlapTest : public ::testing::Test {
 protected:
  void Begin() {
    clock.Advance(std::chrono::seconds(1));
    nvml.writer.Begin(clock.Now());
    page.writer.Begin(clock.Now());
  }
  Ref<Snapshot> Close() {
    auto snapshot = MakeRef<Snapshot>();
    snapshot->frames = {nvml.Entry(), page.Entry()};
    overlap.Apply(*snapshot, [this](std::string_view source, uint64_t series) {
      EXPECT_EQ(source, "dcgm");
      dropped += series;
    });
    return snapshot;
  }
  // How many series of the page are shown.
  static size_t Shown(const Snapshot& snapshot) {
    const Frame& frame = *snapshot.frames[1].frame;
    return static_cast<size_t>(std::count(frame.quality.begin(), frame.quality.end(), Quality::kOk));
  }
  ManualClock clock;
  Source nvml{"nvidia", Precedence::kNative}, page{"dcgm", Precedence::kPassThrough};
  GpuOverlap overlap;
  uint64_t dropped = 0;
};

TEST_F(GpuOverlapTest, TheDriverWinsReadingByReading) {
  Begin();
  EntityRef ours = Gpu("GPU-a", false), theirs = Gpu("GPU-a", true), other = Gpu("GPU-b", true);
  nvml.Set(kGpuPowerDraw, ours, {}, 100);
  nvml.Set(kGpuTemperature, ours, {{"gpu.temperature.sensor", "edge"}}, 50);
  nvml.Set(kGpuPcieThroughput, ours,
           {{"gpu.interconnect.direction", "transmit"}, {"gpu.interconnect.type", "pcie"}}, 7);
  nvml.Set(kGpuInfo, ours, {{"gpu.vendor", "nvidia"}, {"gpu.architecture", "hopper"}}, 1);
  page.Set(kGpuPowerDraw, theirs, {}, 101);                                     // repeated
  page.Set(kGpuTemperature, theirs, {{"gpu.temperature.sensor", "edge"}}, 51);  // repeated
  page.Set(kGpuPcieThroughput, theirs,                                          // repeated
           {{"gpu.interconnect.direction", "transmit"},
            {"gpu.interconnect.source", "dcgm_profiling"},
            {"gpu.interconnect.type", "pcie"}},
           8);
  page.Set(kGpuInfo, theirs, {{"gpu.vendor", "nvidia"}}, 1);                      // repeated
  page.Set(kGpuTemperature, theirs, {{"gpu.temperature.sensor", "memory"}}, 60);  // new
  page.Set(kGpuSmActive, theirs, {}, 0.5);                                        // new
  page.Set(kGpuPowerDraw, other, {}, 99);                                         // another GPU
  auto snapshot = Close();
  EXPECT_EQ(Shown(*snapshot), 3u);
  EXPECT_EQ(dropped, 4u);
  EXPECT_EQ(snapshot->frames[0].frame, nvml.frame) << "the driver's frame is as it was";
  EXPECT_EQ(snapshot->frames[1].source, "dcgm");
}

TEST_F(GpuOverlapTest, ReadingsThatTheDriverStopsReportingComeFromThePage) {
  Begin();
  nvml.Set(kGpuPowerDraw, Gpu("GPU-a", false), {}, 100);
  page.Set(kGpuPowerDraw, Gpu("GPU-a", true), {}, 101);
  EXPECT_EQ(Shown(*Close()), 0u);
  // The driver hangs, and its value is past its time to live.
  clock.Advance(std::chrono::minutes(5));
  nvml.writer.Begin(clock.Now());
  page.writer.Begin(clock.Now());
  page.writer.Set(Series{0, 0}, 102);
  EXPECT_EQ(Shown(*Close()), 1u);
  EXPECT_EQ(dropped, 1u) << "counted once, not at every tick";
}

TEST_F(GpuOverlapTest, InstancesAreNotTheirBoard) {
  Begin();
  nvml.Set(kGpuGrEngineActive, Gpu("GPU-a", false), {}, 0.1);
  auto mig = MakeRef<Entity>("mig", AttributeSet({{"gpu.mig.instance_id", int64_t{7}}}), Gpu("GPU-a", true));
  page.Set(kGpuGrEngineActive, mig, {}, 0.7);
  EXPECT_EQ(Shown(*Close()), 1u);
}

TEST_F(GpuOverlapTest, SteadyTicksDoNotAllocate) {
  Begin();
  nvml.Set(kGpuPowerDraw, Gpu("GPU-a", false), {}, 100);
  page.Set(kGpuPowerDraw, Gpu("GPU-a", true), {}, 101);
  auto snapshot = MakeRef<Snapshot>();
  auto tick = [&] {
    snapshot->frames.clear();
    snapshot->frames.push_back({nvml.frame, nvml.frame->source, Precedence::kNative, false});
    snapshot->frames.push_back({page.frame, page.frame->source, Precedence::kPassThrough, false});
    overlap.Apply(*snapshot, [](std::string_view, uint64_t) {});
  };
  nvml.Entry();
  page.Entry();
  for (int i = 0; i < 5; ++i) tick();
  uint64_t before = ThreadAllocations();
  for (int i = 0; i < 100; ++i) tick();
  EXPECT_EQ(ThreadAllocations() - before, 0u);
  EXPECT_EQ(Shown(*snapshot), 0u);
}

}  // namespace
}  // namespace gpulens
