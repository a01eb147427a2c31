#include "plugins/collectors/nccl/hint_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/host_name.h"
#include "catalog/gpu.h"
#include "catalog/host.h"
#include "core/frame_writer.h"

namespace gpulens {
namespace {

using collectives::Batch;
using collectives::Cause;
using collectives::Hint;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class HintFeedTest : public ::testing::Test {
 protected:
  HintFeedTest() {
    for (int i = 0; i < 3; ++i) {
      const std::string uuid = "GPU-" + std::to_string(i);
      const std::string bus = "00000000:" + std::to_string(i + 1) + "A:00.0";
      gpus_.push_back(MakeRef<Entity>("gpu", AttributeSet({{"gpu.uuid", std::string_view(uuid)}})));
      Set(kGpuInfo, i, 1, {{"gpu.pci.bus_id", std::string_view(bus)}});
    }
  }
  // GPU -1: of the host.
  void Set(const MetricDesc& desc, int gpu, double value,
           std::initializer_list<AttributeSet::Attribute> attributes = {}) {
    std::string key = std::string(desc.name) + std::to_string(gpu);
    for (const auto& [name, text] : attributes) AppendValue(key += ' ', text);
    Row& row = rows_[key];
    row.value = value;
    row.desc = &desc;
    if (!row.series)
      row.series = table_.Declare(desc, gpu < 0 ? EntityRef() : gpus_[static_cast<size_t>(gpu)],
                                  AttributeSet(attributes));
  }
  void Tick(double after_s = 1) {
    now_ = now_ + std::chrono::milliseconds(static_cast<int64_t>(after_s * 1000));
    writer_.Begin(now_);
    for (const auto& [key, row] : rows_) {
      if (row.desc->number == Number::kInt) writer_.Set(row.series, static_cast<int64_t>(row.value));
      else writer_.Set(row.series, row.value);
    }
    Snapshot snapshot;
    snapshot.tick = ++tick_;
    snapshot.frames = {{writer_.Finish(), "test", Precedence::kNative, false}};
    feed_.Read(snapshot, now_);
  }
  std::vector<Hint> Of(const std::string& gpu, Duration later = {}) const {
    Batch batch;
    batch.processes.push_back({host_, gpu, "", "", 1, {}, {}});
    batch.processes.push_back({host_, gpu, "", "", 2, {}, {}});
    batch.processes.push_back({"another", "0000:2a:00.0", "", "", 3, {}, {}});
    feed_.AddTo(batch, now_ + later);
    return batch.hints;
  }

  struct Row {
    Series series;
    const MetricDesc* desc = nullptr;
    double value = 0;
  };
  const std::string host_ = HostName();
  std::vector<EntityRef> gpus_;
  std::map<std::string, Row> rows_;
  SeriesTable table_;
  FrameWriter writer_{table_, std::chrono::minutes(1)};
  Instant now_{1'000'000'000'000, 0};
  uint64_t tick_ = 0;
  HintFeed feed_;
};

TEST_F(HintFeedTest, AnXidHasItsCodeMeaningAndCause) {
  const auto xid = [&](int gpu, int64_t code, double count) {
    Set(kGpuXidCodeErrors, gpu, count, {{"gpu.xid.code", code}});
  };
  xid(0, 48, 1);
  Tick();
  EXPECT_THAT(Of("GPU-0"), IsEmpty()) << "it was there before";
  xid(1, 79, 1);
  xid(1, 154, 1);
  xid(1, 45, 3);
  Tick();
  ASSERT_THAT(Of("GPU-1"), SizeIs(1));
  // By the address that NCCL gives, and once for two processes.
  const std::vector<Hint> hints = Of("0000:2a:00.0", seconds(5));
  ASSERT_THAT(hints, SizeIs(1));
  EXPECT_EQ(hints[0].host, host_);
  EXPECT_EQ(hints[0].gpu, "0000:2a:00.0");
  EXPECT_EQ(hints[0].cause, Cause::kPcie);
  EXPECT_FALSE(hints[0].lasts);
  EXPECT_EQ(hints[0].age_ns, 5'000'000'000);
  EXPECT_THAT(hints[0].what, HasSubstr("XID 79 ("));
  EXPECT_LE(hints[0].what.size(), 128u);
  EXPECT_THAT(Of("GPU-0"), IsEmpty()) << "of another GPU";
  EXPECT_THAT(Of("GPU-1", seconds(121)), IsEmpty()) << "it is old";
  xid(0, 48, 2);
  xid(2, 119, 1);
  Tick();
  EXPECT_EQ(Of("GPU-0").at(0).cause, Cause::kGpuEcc);
  EXPECT_EQ(Of("GPU-2").at(0).cause, Cause::kGpuError);
}

TEST_F(HintFeedTest, AClockThatIsHeldDown) {
  const auto heat = [&](double value) {
    Set(kGpuThrottleReason, 1, value, {{"gpu.throttle.cause", std::string_view("temp_hardware")}});
  };
  for (int gpu = 0; gpu < 3; ++gpu) {
    Set(kGpuClockFrequency, gpu, gpu == 1 ? 1200 : 1980, {{"gpu.clock.type", std::string_view("sm")}});
    Set(kGpuThrottleReason, gpu, 1, {{"gpu.throttle.cause", std::string_view("power_software")}});
  }
  heat(0);
  Tick();
  heat(1);
  Tick();
  heat(0);
  Tick();
  EXPECT_THAT(Of("GPU-0"), IsEmpty()) << "the power limit holds all";
  ASSERT_THAT(Of("GPU-1"), SizeIs(1));
  EXPECT_EQ(Of("GPU-1")[0].cause, Cause::kGpuClock);
  EXPECT_TRUE(Of("GPU-1")[0].lasts);
  EXPECT_EQ(
      Of("GPU-1")[0].what,
      "its clock is held down by the power limit, at 1200 MHz; median of the other GPUs here: 1980 MHz");
  heat(1);
  for (int i = 0; i < 3; ++i) Tick();
  EXPECT_EQ(Of("GPU-1")[0].what,
            "its clock is held down by heat, at 1200 MHz; median of the other GPUs here: 1980 MHz");
}

TEST_F(HintFeedTest, MemoryLinksAndTheBus) {
  const std::string_view uncorrectable = "uncorrectable", is_volatile = "volatile", replay = "replay";
  double memory = 7, links = 500, replays = 90, width = 16;
  const auto set = [&] {
    Set(kGpuEccErrors, 0, memory,
        {{"gpu.ecc.error_type", uncorrectable}, {"gpu.ecc.count_type", is_volatile}});
    Set(kGpuInterconnectErrors, 1, links, {{"gpu.interconnect.error_type", replay}});
    Set(kGpuPcieReplayCount, 2, replays);
    Set(kGpuPcieLinkWidthCurrent, 0, width);
    Set(kGpuPcieLinkWidthMax, 0, 16);
    Tick();
  };
  set();
  links += 10;
  replays += 40;
  set();
  for (const char* gpu : {"GPU-0", "GPU-1", "GPU-2"}) EXPECT_THAT(Of(gpu), IsEmpty()) << gpu;
  memory += 2;
  ++links;
  ++replays;
  set();
  EXPECT_EQ(Of("GPU-0").at(0).what, "2 uncorrectable memory errors");
  EXPECT_EQ(Of("GPU-0").at(0).cause, Cause::kGpuEcc);
  EXPECT_EQ(Of("GPU-1").at(0).what, "11 errors of its links to other GPUs within 5 minutes");
  EXPECT_EQ(Of("GPU-1").at(0).cause, Cause::kNvlink);
  EXPECT_EQ(Of("GPU-2").at(0).what, "41 PCIe replays within 5 minutes");
  EXPECT_EQ(Of("GPU-2").at(0).cause, Cause::kPcie);
  EXPECT_THAT(Of("GPU-1", seconds(121)), IsEmpty());
  width = 8;
  Set(kGpuInterconnectLinkActive, 2, 1, {{"gpu.interconnect.link_index", int64_t{3}}});
  set();
  Set(kGpuInterconnectLinkActive, 2, 0, {{"gpu.interconnect.link_index", int64_t{3}}});
  set();
  EXPECT_EQ(Of("GPU-2").at(0).cause, Cause::kNvlink);
  EXPECT_EQ(Of("GPU-2").at(0).what, "the loss of its link 3");
  ASSERT_THAT(Of("GPU-0"), SizeIs(2));
  EXPECT_EQ(Of("GPU-0")[1].what, "it has 8 of 16 PCIe lanes");
}

TEST_F(HintFeedTest, TheHostsNetworkAndProcessors) {
  double waited = 0;
  const auto set = [&](int port, int card, int bridge, double after_s) {
    Set(kHostRdmaPortActive, -1, port,
        {{"host.rdma.device", std::string_view("mlx5_0")}, {"host.rdma.port", int64_t{1}}});
    Set(kHostNetworkUp, -1, card, {{"network.interface.name", std::string_view("eth0")}});
    Set(kHostNetworkUp, -1, bridge, {{"network.interface.name", std::string_view("docker0")}});
    Set(kHostPressureTime, -1, waited,
        {{"host.pressure.resource", std::string_view("cpu")},
         {"host.pressure.level", std::string_view("some")}});
    Tick(after_s);
  };
  set(1, 1, 1, 1);
  waited += 1;
  set(1, 1, 0, 6);
  EXPECT_THAT(Of("GPU-0"), IsEmpty());
  set(0, 1, 0, 1);
  ASSERT_THAT(Of("GPU-0"), SizeIs(1));
  EXPECT_EQ(Of("")[0].what, "the loss of network port 1 of mlx5_0");
  EXPECT_EQ(Of("")[0].cause, Cause::kNic);
  EXPECT_EQ(Of("GPU-0")[0].gpu, "");
  waited += 4;
  set(1, 0, 0, 6);
  ASSERT_THAT(Of("GPU-0"), SizeIs(2));
  EXPECT_EQ(Of("")[0].what, "the loss of network interface eth0");
  EXPECT_EQ(Of("")[1].cause, Cause::kHostCpu);
  EXPECT_EQ(Of("")[1].what, "programs wait for a processor 57 % of the time");
  Set(kHostMemoryOomKills, -1, 7);
  Tick();
  Set(kHostMemoryOomKills, -1, 8);
  Tick();
  ASSERT_THAT(Of(""), SizeIs(3));
  EXPECT_EQ(Of("")[1].what, "the end of 1 program for lack of memory");
  EXPECT_EQ(Of("")[1].cause, Cause::kHostMemory);
}

}  // namespace
}  // namespace gpulens
