#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>

#include "base/testing/allocations.h"
#include "catalog/gpu.h"
#include "catalog/self.h"
#include "plugins/analyzers/gpu_events/event_steps.h"
#include "plugins/analyzers/gpu_events/gpu_event_table.h"
#include "plugins/event_queue.h"
#include "plugins/plugin.h"
#include "store/incident_store.h"

namespace gpulens {

extern const AnalyzerSpec gpu_events_analyzer;

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;

// Driven by the test, read by the thread that writes incidents, too.
class SharedClock final : public Clock {
 public:
  Instant Now() const noexcept override {
    std::lock_guard lock(mutex_);
    return clock_.Now();
  }
  void Advance(Duration d) noexcept {
    std::lock_guard lock(mutex_);
    clock_.Advance(d);
  }

 private:
  mutable std::mutex mutex_;
  ManualClock clock_;
};

// Two NVIDIA GPUs and an AMD one, ticks a second apart, and a queue.
class GpuEventsTest : public ::testing::Test {
 protected:
  GpuEventsTest() {
    char name[] = "/tmp/gpulens-events-XXXXXX";
    folder_ = ::mkdtemp(name);
    env_.clock = &clock_;
    env_.events = &queue_;
    env_.state_dir = folder_;
    for (int64_t i = 0; i < 3; ++i) AddGpu(i, i == 2 ? "amd" : "nvidia");
    MakeAnalyzer();
  }
  ~GpuEventsTest() override {
    analyzer_.reset();
    std::filesystem::remove_all(folder_);
  }

  void MakeAnalyzer() {
    Config config;
    config.Set("store", true, {});
    config.Set("store_size", int64_t{64 << 20}, {});
    config.Set("xid_window", Duration(std::chrono::hours(24)), {});
    analyzer_ = *gpu_events_analyzer.create(config, env_);
    out_ = {};
    out_table_ = std::make_unique<SeriesTable>();
    out_ = std::make_unique<FrameWriter>(*out_table_, seconds(10));
  }
  static std::string Bus(int64_t gpu) { return "0000:0" + std::to_string(gpu) + ":00.0"; }
  static std::string Uuid(int64_t gpu) { return "GPU-" + std::to_string(gpu); }

  void AddGpu(int64_t index, std::string_view vendor, bool simulated = false) {
    std::string uuid = Uuid(index), bus = Bus(index);
    std::vector<AttributeSet::Attribute> known = {{"gpu.index", index}, {"gpu.uuid", std::string_view(uuid)}};
    if (simulated) known.push_back({"simulated", true});
    EntityRef entity = MakeRef<Entity>("gpu", AttributeSet(known));
    gpus_.push_back({entity,
                     table_.Declare(kGpuInfo, entity,
                                    {{"gpu.vendor", vendor}, {"gpu.pci.bus_id", std::string_view(bus)}}),
                     table_.Declare(kGpuPowerDraw, entity)});
  }

  // One tick; returns the events that became ready.
  std::vector<Event> Tick(Duration after = seconds(1)) {
    clock_.Advance(after);
    collector_.Begin(clock_.Now());
    for (size_t i = 0; i < gpus_.size(); ++i) {
      if (!gpus_[i].here) continue;
      collector_.Set(gpus_[i].info, 1);
      collector_.Set(gpus_[i].power, power_);
    }
    snapshot_.closed_at = clock_.Now();
    snapshot_.frames.assign(1, {collector_.Finish(), "nvidia", Precedence::kNative, false});
    out_->Begin(clock_.Now());
    EXPECT_TRUE(analyzer_->Analyze(snapshot_, *out_));
    frame_ = out_->Finish();
    return queue_.TakeReady();
  }

  std::optional<double> Value(const MetricDesc& desc, std::string_view key = {},
                              std::string_view value = {}) {
    std::optional<double> found;
    for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame_->layout)[slot];
      if (info.desc != &desc || frame_->quality[slot] != Quality::kOk) continue;
      if (!key.empty() && info.attributes.Text(key) != value) continue;
      Cell cell = frame_->cells[info.first_cell];
      found = desc.number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
    }
    return found;
  }
  std::optional<double> Xids(int64_t gpu) { return Value(kGpuXidErrors, "gpu.index", std::to_string(gpu)); }

  // Reports an XID like the kernel log collector.
  Event FromKernel(int64_t gpu, int64_t code, int64_t pid = 1234) {
    std::string bus = Bus(gpu);
    Event event;
    event.at = clock_.Now();
    event.name = "gpu.xid";
    event.attributes = AttributeSet({{"gpu.xid.code", code},
                                     {"gpu.pci.bus_id", std::string_view(bus)},
                                     {"process.pid", pid},
                                     {"process.executable.name", std::string_view("python3")},
                                     {"event.source", std::string_view("kmsg")}});
    event.body = "NVRM: Xid (PCI:0000:01:00): 79, pid=1234, name=python3, GPU has fallen off the bus.";
    return event;
  }
  // Reports an XID like the NVIDIA collector.
  Event FromNvml(size_t gpu, int64_t code) {
    Event event;
    event.at = clock_.Now();
    event.name = "gpu.xid";
    event.entity = gpus_[gpu].entity;
    event.attributes = AttributeSet({{"gpu.xid.code", code}, {"event.source", std::string_view("nvml")}});
    return event;
  }

  struct FakeGpu {
    EntityRef entity;
    Series info, power;
    bool here = true;
  };
  std::string folder_;
  SharedClock clock_;
  EventQueue queue_;
  Env env_;
  SeriesTable table_;
  FrameWriter collector_{table_, seconds(1)};
  std::unique_ptr<SeriesTable> out_table_;
  std::unique_ptr<FrameWriter> out_;
  std::vector<FakeGpu> gpus_;
  double power_ = 300;
  Snapshot snapshot_;
  Ref<const Frame> frame_;
  std::unique_ptr<Analyzer> analyzer_;
};

TEST_F(GpuEventsTest, CountersStartAtZeroOnceWatched) {
  Tick();
  EXPECT_EQ(Xids(0), std::nullopt) << "nobody watches: 0 would be a promise";
  EXPECT_THAT(Value(kSelfEvents, "event", "gpu.xid"), Optional(0));
  queue_.Watches("kernel_log", true);
  Tick();
  EXPECT_THAT(Xids(0), Optional(0));
  EXPECT_THAT(Xids(1), Optional(0));
  EXPECT_EQ(Xids(2), std::nullopt) << "an AMD GPU has no XIDs";
  EXPECT_THAT(Value(kGpuRasErrors, "gpu.ras.severity", "fatal"), Optional(0));
  EXPECT_EQ(Value(kGpuXidLastErrorTimestamp), std::nullopt) << "absent before the first";
  EXPECT_EQ(Value(kGpuXidCodeErrors), std::nullopt);
  queue_.Watches("kernel_log", false);
  Tick();
  EXPECT_EQ(Xids(0), std::nullopt) << "no longer fresh";
}

TEST_F(GpuEventsTest, RecentXidsCountByActionUntilCleared) {
  auto recent = [&](const char* action) { return Value(kGpuXidRecent, "gpu.xid.action", action); };
  Tick();
  EXPECT_EQ(recent("none"), std::nullopt) << "nobody watches";
  queue_.Watches("kernel_log", true);
  Tick();
  EXPECT_THAT(recent("none"), Optional(0)) << "watched, and none came";
  queue_.Report(FromKernel(1, 79));
  queue_.Report(FromKernel(1, 119));
  queue_.Report(FromKernel(1, 31));
  Tick();
  EXPECT_THAT(recent("reboot"), Optional(1));
  EXPECT_THAT(recent("reset_gpu"), Optional(1));
  EXPECT_THAT(recent("restart_app"), Optional(1));
  Event reset;
  reset.name = "gpu.reset";
  reset.entity = gpus_[1].entity;
  queue_.Report(reset);
  Tick();
  EXPECT_THAT(recent("reset_gpu"), Optional(0));
  EXPECT_THAT(recent("reboot"), Optional(1)) << "a reset is not enough";
  Event clear;
  clear.name = "gpu.xid.clear";
  clear.attributes = AttributeSet({{"gpu.xid.clear.gpu", std::string_view("0")}});
  queue_.Report(clear);
  Tick();
  EXPECT_THAT(recent("reboot"), Optional(1)) << "another GPU's";
  clear.attributes = AttributeSet({{"gpu.xid.clear.gpu", std::string_view("1")}});
  queue_.Report(clear);
  auto events = Tick();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].entity, gpus_[1].entity);
  EXPECT_THAT(recent("reboot"), Optional(0));
  EXPECT_THAT(Xids(1), Optional(3)) << "the counter is no state";
}

TEST_F(GpuEventsTest, RecentXidsLeaveAfterTheWindow) {
  queue_.Watches("kernel_log", true);
  Tick();
  queue_.Report(FromKernel(1, 48));
  Tick();
  EXPECT_THAT(Value(kGpuXidRecent, "gpu.xid.action", "reset_gpu"), Optional(1));
  Tick(std::chrono::hours(24) + seconds(1));
  EXPECT_THAT(Value(kGpuXidRecent, "gpu.xid.action", "reset_gpu"), Optional(0));
}

TEST_F(GpuEventsTest, SeverityOfTheMessageWins) {
  queue_.Watches("kernel_log", true);
  Tick();
  auto with = [&](int64_t code, std::string_view key, std::string_view value, std::string_view severity) {
    Event event = FromKernel(1, code);
    event.attributes =
        AttributeSet({{key, value}, {"gpu.xid.severity", severity}}).OverlaidOn(event.attributes);
    return event;
  };
  queue_.Report(with(154, "gpu.xid.action", "reboot", "fatal"));
  auto events = Tick();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].severity, EventSeverity::kFatal);
  EXPECT_EQ(events[0].attributes.Text("gpu.xid.action"), "reboot");
  EXPECT_THAT(Value(kGpuXidRecent, "gpu.xid.action", "reboot"), Optional(1));
  queue_.Report(with(154, "gpu.xid.action", "none", "info"));
  Tick();
  EXPECT_THAT(Value(kGpuXidRecent, "gpu.xid.action", "reboot"), Optional(1));
  EXPECT_THAT(Value(kGpuXidRecent, "gpu.xid.action", "none"), Optional(0))
      << "no order is no XID to deal with";
  Event mild = FromKernel(1, 145);
  mild.attributes = AttributeSet({{"gpu.xid.severity", std::string_view("warning")},
                                  {"gpu.interconnect.link_index", int64_t{13}}})
                        .OverlaidOn(mild.attributes);
  queue_.Report(mild);
  events = Tick();
  ASSERT_THAT(events, SizeIs(2));
  for (const Event& event : events) {
    EXPECT_EQ(event.attributes.Text("gpu.interconnect.link_index"), "13") << event.name;
    if (event.name == "gpu.xid") {
      EXPECT_EQ(event.severity, EventSeverity::kWarning);
      EXPECT_EQ(event.attributes.Text("gpu.xid.action"), "none");
    }
  }
  queue_.Report(FromKernel(1, 154));
  events = Tick();
  EXPECT_FALSE(events[0].attributes.Has("gpu.xid.action")) << "without its text the action is unknown";
  EXPECT_GE(events[0].severity, EventSeverity::kWarning);
}

TEST_F(GpuEventsTest, RecentXidsOfThisBootSurviveARestart) {
  queue_.Watches("kernel_log", true);
  clock_.Advance(std::chrono::hours(2));
  Tick();
  queue_.Report(FromKernel(0, 79));
  queue_.Report(FromKernel(1, 48));
  Tick();
  Event clear;
  clear.name = "gpu.xid.clear";
  clear.attributes = AttributeSet({{"gpu.xid.clear.gpu", std::string_view("0")}});
  queue_.Report(clear);
  Tick();
  analyzer_.reset();  // writes what waits
  MakeAnalyzer();
  Tick();
  EXPECT_EQ(Value(kGpuXidRecent, "gpu.xid.action", "reboot"), std::nullopt) << "cleared before the restart";
  EXPECT_THAT(Value(kGpuXidRecent, "gpu.xid.action", "reset_gpu"), Optional(1));
}

TEST_F(GpuEventsTest, KernelLogXidIsPublishedAtOnceWithFacts) {
  queue_.Watches("kernel_log", true);
  Tick();
  queue_.Report(FromKernel(1, 79));
  auto ready = Tick();
  ASSERT_THAT(ready, SizeIs(1));
  const Event& event = ready[0];
  EXPECT_EQ(event.entity, gpus_[1].entity);
  EXPECT_EQ(event.severity, EventSeverity::kFatal);
  EXPECT_EQ(event.attributes.Text("gpu.xid.class"), "bus");
  EXPECT_EQ(event.attributes.Text("gpu.xid.action"), "reboot");
  EXPECT_EQ(event.attributes.Text("gpu.xid.name"), "ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS");
  EXPECT_EQ(event.attributes.Text("process.pid"), "1234");
  EXPECT_THAT(Xids(1), Optional(1));
  EXPECT_THAT(Xids(0), Optional(0));
  EXPECT_THAT(Value(kGpuXidCodeErrors, "gpu.xid.code", "79"), Optional(1));
  EXPECT_THAT(Value(kGpuXidLastErrorCode), Optional(79));
  EXPECT_THAT(Value(kSelfEvents, "event", "gpu.xid"), Optional(1));
}

TEST_F(GpuEventsTest, JoinsTwoSourcesInAnyOrder) {
  queue_.Watches("kernel_log", true);
  Tick();
  queue_.Report(FromNvml(1, 79));
  EXPECT_THAT(Tick(), IsEmpty()) << "waits for the process";
  EXPECT_THAT(Xids(1), Optional(1)) << "but counts at once";
  queue_.Report(FromKernel(1, 79));
  auto ready = Tick();
  ASSERT_THAT(ready, SizeIs(1));
  EXPECT_EQ(ready[0].attributes.Text("event.source"), "kmsg+nvml");
  EXPECT_EQ(ready[0].attributes.Text("process.executable.name"), "python3");
  EXPECT_THAT(ready[0].body, HasSubstr("fallen off the bus"));
  EXPECT_THAT(Xids(1), Optional(1));
  EXPECT_THAT(Value(kSelfEventsDropped, "reason", "duplicate"), Optional(1));

  Tick(seconds(60));
  queue_.Report(FromKernel(0, 31));
  EXPECT_THAT(Tick(), SizeIs(1));
  queue_.Report(FromNvml(0, 31));
  EXPECT_THAT(Tick(), IsEmpty()) << "the kernel log was first";
  EXPECT_THAT(Xids(0), Optional(1));
}

TEST_F(GpuEventsTest, NotJoined) {
  queue_.Watches("kernel_log", true);
  Tick();
  queue_.Report(FromKernel(0, 31));
  queue_.Report(FromKernel(0, 31));  // one source, twice: twice
  queue_.Report(FromKernel(1, 31));  // another GPU
  queue_.Report(FromNvml(1, 45));    // another code
  EXPECT_THAT(Tick(), SizeIs(3));
  EXPECT_THAT(Tick(seconds(6)), SizeIs(1)) << "NVML's comes after the wait";
  EXPECT_THAT(Xids(0), Optional(2));
  EXPECT_THAT(Xids(1), Optional(2));
  // More than five seconds apart they are two.
  queue_.Report(FromKernel(0, 79));
  Tick();
  clock_.Advance(milliseconds(5100));
  queue_.Report(FromNvml(0, 79));
  Tick(milliseconds(1));
  EXPECT_THAT(Xids(0), Optional(4));
}

TEST_F(GpuEventsTest, DerivedEventsArePublishedOnce) {
  queue_.Watches("kernel_log", true);
  Tick();
  auto named = [](const std::vector<Event>& events, std::string_view name) {
    std::vector<Event> found;
    for (const Event& event : events) {
      if (event.name == name) found.push_back(event);
    }
    return found;
  };
  auto from_nvml = [&](std::string_view name, std::string_view key, std::string_view value) {
    Event event = FromNvml(1, 0);
    event.name = name;
    event.attributes = AttributeSet({{key, value}, {"event.source", std::string_view("nvml")}});
    return event;
  };
  queue_.Report(FromNvml(1, 94));  // three words for one thing
  queue_.Report(from_nvml("gpu.poison", "gpu.poison.result", "contained"));
  queue_.Report(FromKernel(1, 94));
  auto poison = named(Tick(), "gpu.poison");
  ASSERT_THAT(poison, SizeIs(1));
  EXPECT_EQ(poison[0].attributes.Text("gpu.poison.result"), "contained");
  EXPECT_EQ(poison[0].entity, gpus_[1].entity);
  EXPECT_THAT(Value(kSelfEvents, "event", "gpu.poison"), Optional(1));
  queue_.Report(FromKernel(1, 95));
  queue_.Report(FromKernel(0, 94));
  EXPECT_THAT(named(Tick(), "gpu.poison"), SizeIs(2)) << "another result, another GPU";

  Tick(seconds(10));
  queue_.Report(FromKernel(1, 149));
  queue_.Report(FromKernel(1, 150));
  auto links = named(Tick(), "gpu.interconnect.failure");
  ASSERT_THAT(links, SizeIs(1)) << "one fault, two codes";
  EXPECT_EQ(links[0].attributes.Text("gpu.interconnect.type"), "nvlink");
  EXPECT_EQ(links[0].attributes.Text("event.source"), "kmsg");
  EXPECT_FALSE(links[0].attributes.Has("process.pid"));
  queue_.Report(from_nvml("gpu.interconnect.failure", "gpu.interconnect.error_type", "down"));
  EXPECT_THAT(named(Tick(), "gpu.interconnect.failure"), SizeIs(1)) << "it says which link";
  Tick(seconds(10));
  queue_.Report(FromKernel(1, 74));
  EXPECT_THAT(named(Tick(), "gpu.interconnect.failure"), SizeIs(1));
  queue_.Report(FromKernel(1, 31));
  EXPECT_THAT(Tick(), SizeIs(1)) << "most codes stand for themselves";
}

TEST_F(GpuEventsTest, NvmlDoesNotWaitWithoutAKernelLog) {
  queue_.Watches("nvml", true);
  Tick();
  queue_.Report(FromNvml(0, 48));
  auto ready = Tick();
  ASSERT_THAT(ready, SizeIs(1));
  EXPECT_EQ(ready[0].attributes.Text("gpu.xid.action"), "reset_gpu");
}

TEST_F(GpuEventsTest, UnknownCodeHasNoAction) {
  queue_.Watches("kernel_log", true);
  queue_.Report(FromKernel(0, 4000));
  auto ready = Tick();
  ASSERT_THAT(ready, SizeIs(1));
  EXPECT_EQ(ready[0].attributes.Text("gpu.xid.class"), "unknown");
  EXPECT_FALSE(ready[0].attributes.Has("gpu.xid.action"));
  EXPECT_FALSE(ready[0].attributes.Has("gpu.xid.name"));
  EXPECT_EQ(LogText(ready[0]).find("Reset"), std::string::npos);
}

TEST_F(GpuEventsTest, ManyCodesOfAGpuAreAtMost64Series) {
  queue_.Watches("kernel_log", true);
  for (int64_t code = 1; code <= 100; ++code) queue_.Report(FromKernel(0, code));
  Tick();
  size_t series = 0;
  for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot)
    series += (*frame_->layout)[slot].desc == &kGpuXidCodeErrors;
  EXPECT_EQ(series, EventCounters::kMaxCodes);
  EXPECT_THAT(Value(kGpuXidCodeErrors, "gpu.xid.code", "other"), Optional(37));
  EXPECT_THAT(Xids(0), Optional(100));
}

// A broken GPU may report the same thing thousands of times in a second: all are counted, few are published.
TEST_F(GpuEventsTest, FoldsAFloodOfEqualEvents) {
  queue_.Watches("kernel_log", true);
  Tick();
  auto flood = [&](int count) {
    for (int i = 0; i < count; ++i) queue_.Report(FromKernel(0, 31));
  };
  flood(3000);
  queue_.Report(FromKernel(1, 31));
  EXPECT_THAT(Tick(), SizeIs(EventFold::kEach + 1)) << "what differs is events";
  EXPECT_THAT(Xids(0), Optional(3000));
  EXPECT_THAT(Value(kSelfEventsDropped, "reason", "rate_limit"), Optional(3000 - 5));
  EXPECT_THAT(Tick(), IsEmpty());
  flood(10);
  EXPECT_THAT(Tick(seconds(57)), IsEmpty());
  std::vector<Event> sum = Tick(seconds(2));
  ASSERT_THAT(sum, SizeIs(1));
  EXPECT_EQ(sum[0].attributes.Text("event.repeats"), "3005");
  EXPECT_EQ(sum[0].attributes.Text("gpu.xid.code"), "31");
  // While it continues: one event for each further minute; none after its end.
  flood(100);
  EXPECT_THAT(Tick(), IsEmpty());
  sum = Tick(seconds(60));
  ASSERT_THAT(sum, SizeIs(1));
  EXPECT_EQ(sum[0].attributes.Text("event.repeats"), "100");
  EXPECT_THAT(Tick(seconds(61)), IsEmpty());
  flood(1);
  EXPECT_THAT(Tick(), SizeIs(1)) << "after a rest it is news";
  EXPECT_THAT(Xids(0), Optional(3111));
}

TEST_F(GpuEventsTest, GoneGpuKeepsItsCountersForAWhile) {
  queue_.Watches("kernel_log", true);
  Tick();
  gpus_[0].here = false;
  queue_.Report(FromKernel(0, 79));
  Tick(seconds(5));
  EXPECT_THAT(Xids(0), Optional(1)) << "an alert must be able to see it";
  Tick(seconds(1000));
  EXPECT_EQ(Xids(0), std::nullopt);
  gpus_[0].here = true;
  Tick();
  EXPECT_THAT(Xids(0), Optional(1));
}

TEST_F(GpuEventsTest, KernelEventsAreNotOfSimulatedGpus) {
  gpus_.clear();
  AddGpu(5, "nvidia", true);
  queue_.Watches("kernel_log", true);
  Tick();
  queue_.Report(FromKernel(5, 79));
  auto ready = Tick();
  ASSERT_THAT(ready, SizeIs(1));
  EXPECT_FALSE(ready[0].entity);
  EXPECT_THAT(Xids(5), Optional(0));
}

TEST_F(GpuEventsTest, UnknownDevicesAndOtherEventsPassThrough) {
  queue_.Watches("kernel_log", true);
  queue_.Report(FromKernel(9, 79));
  Event oom;
  oom.at = clock_.Now();
  oom.name = "host.oom_kill";
  queue_.Report(oom);
  Event odd;
  odd.name = "not.in.the.catalogue";
  queue_.Report(odd);
  EXPECT_THAT(Tick(), SizeIs(3));
  EXPECT_THAT(Value(kSelfEvents, "event", "host.oom_kill"), Optional(1));
  EXPECT_THAT(Value(kSelfEvents, "event", "gpu.xid"), Optional(1));
  EXPECT_THAT(Xids(0), Optional(0));
}

// Virtual functions of one device are GPUs of their own; other functions of a GPU's board are not.
TEST_F(GpuEventsTest, FunctionsOfOneSlot) {
  queue_.Watches("kernel_log", true);
  SeriesTable table;
  FrameWriter writer(table, seconds(10));
  std::vector<Series> info;
  for (std::string_view bus : {"0000:0a:00.1", "0000:0a:00.2", "0000:0b:00.0"}) {
    EntityRef entity = MakeRef<Entity>("gpu", AttributeSet({{"gpu.uuid", bus}}));
    info.push_back(table.Declare(kGpuInfo, entity, {{"gpu.vendor", "nvidia"}, {"gpu.pci.bus_id", bus}}));
  }
  writer.Begin(clock_.Now());
  for (Series series : info) writer.Set(series, 1);
  Snapshot snapshot;
  snapshot.frames.push_back({writer.Finish(), "nvidia", Precedence::kNative, false});
  GpuEventTable events_table;
  events_table.Update(snapshot);
  auto find = [&](std::string_view bus) -> std::string {
    Event event;
    event.attributes = AttributeSet({{"gpu.pci.bus_id", bus}});
    const size_t at = events_table.Find(event);
    return at == GpuEventTable::kNone ? "none" : events_table[at].uuid;
  };
  EXPECT_EQ(find("0000:0a:00.1"), "0000:0a:00.1");
  EXPECT_EQ(find("00000000:0A:00.2"), "0000:0a:00.2");
  EXPECT_EQ(find("0000:0a:00.3"), "none") << "of two GPUs in the slot it is neither";
  EXPECT_EQ(find("0000:0b:00"), "0000:0b:00.0");
  EXPECT_EQ(find("0000:0b:00.1"), "0000:0b:00.0") << "the audio device of the only one";
  EXPECT_EQ(find("0000:0c:00.0"), "none");
}

TEST_F(GpuEventsTest, RasBySeverity) {
  queue_.Watches("kernel_log", true);
  std::string bus = Bus(2);
  Event ras;
  ras.at = clock_.Now();
  ras.name = "gpu.ras";
  ras.attributes = AttributeSet({{"gpu.pci.bus_id", std::string_view(bus)},
                                 {"gpu.ras.severity", std::string_view("corrected")},
                                 {"event.source", std::string_view("kmsg")}});
  queue_.Report(ras);
  auto ready = Tick();
  EXPECT_EQ(ready.at(0).severity, EventSeverity::kWarning);
  EXPECT_THAT(Value(kGpuRasErrors, "gpu.ras.severity", "corrected"), Optional(1));
  EXPECT_THAT(Value(kGpuRasErrors, "gpu.ras.severity", "fatal"), Optional(0));
}

TEST_F(GpuEventsTest, StoresReadingsBeforeAnEventAndSurvivesARestart) {
  queue_.Watches("kernel_log", true);
  for (int i = 0; i < 90; ++i) {
    power_ = 300 + i;
    Tick();
  }
  queue_.Report(FromKernel(1, 79));
  int64_t happened = clock_.Now().unix_ns;
  Tick();
  analyzer_.reset();  // writes what waits
  auto store = IncidentStore::Open({.path = folder_ + "/incidents.db", .read_only = true});
  ASSERT_TRUE(store.ok()) << store.error().detail;
  auto rows = (*store)->Find({.gpu_index = 1, .gpu_uuid = {}, .name = "gpu.xid", .readings = true});
  ASSERT_THAT(*rows, SizeIs(1));
  const std::string& readings = rows->front().readings;
  EXPECT_THAT(readings, HasSubstr("\"name\":\"gpu.power.draw\",\"unit\":\"W\""));
  EXPECT_THAT(readings, HasSubstr("[[-30,359],"));
  EXPECT_THAT(readings, HasSubstr(",[0,389]]"));

  MakeAnalyzer();
  Tick();
  EXPECT_THAT(Value(kGpuXidLastErrorCode, "gpu.index", "1"), Optional(79));
  EXPECT_THAT(Value(kGpuXidLastErrorTimestamp, "gpu.index", "1"),
              Optional(::testing::DoubleNear(static_cast<double>(happened) * 1e-9, 1e-3)));
  EXPECT_THAT(Xids(1), Optional(0)) << "counters are this process's";
}

TEST_F(GpuEventsTest, SteadyTickDoesNotAllocate) {
  queue_.Watches("kernel_log", true);
  queue_.Report(FromKernel(1, 79));
  for (int i = 0; i < 70; ++i) Tick();
  if (!AllocationsAreCounted()) GTEST_SKIP() << "a sanitizer has its own operator new";
  collector_.Begin(clock_.Now() + seconds(1));
  for (FakeGpu& gpu : gpus_) {
    collector_.Set(gpu.info, 1);
    collector_.Set(gpu.power, 5);
  }
  snapshot_.closed_at = clock_.Now() + seconds(1);
  snapshot_.frames[0].frame = collector_.Finish();
  uint64_t before = ThreadAllocations();
  out_->Begin(snapshot_.closed_at);
  EXPECT_TRUE(analyzer_->Analyze(snapshot_, *out_));
  EXPECT_EQ(ThreadAllocations() - before, 0u);
}

TEST_F(GpuEventsTest, MarksEventsOfADemo) {
  env_.demo = true;
  MakeAnalyzer();
  Event driver;
  driver.at = clock_.Now();
  driver.name = "gpulens.reader";
  driver.attributes = AttributeSet({{"gpulens.change", std::string_view("crashed")}});
  queue_.Report(driver);
  Event oom;
  oom.at = clock_.Now();
  oom.name = "host.oom_kill";
  oom.attributes = AttributeSet({{"event.source", std::string_view("kmsg")}});
  queue_.Report(oom);
  auto events = Tick();
  ASSERT_THAT(events, SizeIs(2));
  EXPECT_EQ(events[0].attributes.Text("simulated"), "true");
  EXPECT_FALSE(events[1].attributes.Has("simulated")) << "the kernel of this machine has killed a process";
}

TEST_F(GpuEventsTest, FaultWithoutACodeHasItsMessagesSeverity) {
  for (auto [fault, severity] : {std::pair{"nvidia.init_failed", EventSeverity::kFatal},
                                 {"nvidia.peermem_context", EventSeverity::kWarning},
                                 {"nccl.segfault", EventSeverity::kError},
                                 {"unheard_of", EventSeverity::kWarning}}) {
    Event event;
    event.at = clock_.Now();
    event.name = "gpu.driver.fault";
    event.attributes = AttributeSet({{"gpu.driver.fault", std::string_view(fault)}});
    queue_.Report(event);
    auto events = Tick();
    ASSERT_THAT(events, SizeIs(1)) << fault;
    EXPECT_EQ(events[0].severity, severity) << fault;
  }
}

TEST(EventFacts, LogLineHasMeaningAndAction) {
  Event event;
  event.name = "gpu.xid";
  event.entity = MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", int64_t{3}}}));
  event.attributes = AttributeSet({{"gpu.xid.code", int64_t{79}},
                                   {"process.pid", int64_t{7}},
                                   {"process.executable.name", std::string_view("p")}});
  EXPECT_EQ(LogText(event), "GPU 3: XID 79, GPU no longer answers on PCIe; p (pid 7). Reboot the machine.");
  event.name = "gpu.clock";
  EXPECT_EQ(LogText(event), "") << "no news";
}

}  // namespace
}  // namespace gpulens
